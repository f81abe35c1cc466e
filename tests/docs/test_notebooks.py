"""Notebooks: executed from top to bottom in a kernel, they show what is stored; code hosts can show them, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.scripts import ROOT, load_script

SCRIPT = load_script("notebooks")
WITHOUT = {"existing-ranker", "table"}  # one is all Python, the other commands on a file
TUTORIALS = {page.stem for page in (ROOT / "docs" / "tutorials").glob("*.md")} - WITHOUT
every_notebook = pytest.mark.parametrize("path", SCRIPT.NOTEBOOKS, ids=lambda path: path.stem)


def test_every_tutorial_has_its_notebook() -> None:
    assert {path.stem for path in SCRIPT.NOTEBOOKS} == TUTORIALS


@pytest.mark.slow
@every_notebook
def test_a_notebook_shows_what_is_stored(path: Path) -> None:
    assert SCRIPT.shown(SCRIPT.executed(path)) == SCRIPT.shown(SCRIPT.read(path)), "make notebooks stores it anew"


@every_notebook
def test_a_notebook_is_stored_whole_and_small(path: Path) -> None:
    assert path.stat().st_size < 300_000
    code = [cell for cell in SCRIPT.read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shown = [output for outputs in SCRIPT.shown(SCRIPT.read(path)) for output in outputs]
    assert "a picture" in shown
    assert not [output for output in shown if output.startswith("stderr")]


@every_notebook
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in SCRIPT.read(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", text)
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
