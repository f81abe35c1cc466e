"""Recipes: the program of each page is the one that `make recipes` runs, and pages are short."""

from __future__ import annotations

import re

from helpers.scripts import ROOT

PAGES = sorted((ROOT / "docs" / "recipes").glob("*.md"))


def test_pages_have_the_programs_that_are_run() -> None:
    programs = {path.name for path in (ROOT / "recipes").glob("use_*.py")}
    for page in PAGES:
        name = f"use_{page.stem.replace('-', '_')}.py"
        (program,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        assert program == (ROOT / "recipes" / name).read_text(encoding="utf-8"), page.name
        programs.remove(name)
    assert not programs


def test_pages_are_short() -> None:
    assert {page.name: n for page in PAGES if (n := len(page.read_text(encoding="utf-8").split())) > 300} == {}
