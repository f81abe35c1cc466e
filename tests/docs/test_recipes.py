"""Recipes: each page shows the program that `make recipes` runs, and is short with it."""

from __future__ import annotations

import re

from helpers.scripts import ROOT

PAGES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
LINK = re.compile(r"^\[`(use_\w+\.py)`\]\(\.\./\.\./recipes/\1\)$", re.M)  # the site shows the file there


def test_pages_show_the_programs_that_are_run() -> None:
    programs = {path.name for path in (ROOT / "recipes").glob("use_*.py")}
    shown = {page.stem: LINK.findall(page.read_text(encoding="utf-8")) for page in PAGES if page.stem != "sql"}
    assert shown == {stem: [f"use_{stem.replace('-', '_')}.py"] for stem in shown}
    assert {name for names in shown.values() for name in names} == programs


def test_pages_are_short() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        programs = [(ROOT / "recipes" / name).read_text(encoding="utf-8") for name in LINK.findall(text)]
        assert sum(len(one.split()) for one in (text, *programs)) <= 300, page.name
