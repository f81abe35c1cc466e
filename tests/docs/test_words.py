"""The documentation stays short and plain: limits on words, and phrases that must not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.scripts import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
ALL, PAGE, README = 60_000, 1_700, 650
BANNED = {
    "say 'also' or 'as well'": r", too[.,;:)]",
    "say who chooses, or 'in any way'": r"\bat will\b",
    "say 'except for' or 'up to'": r"\bbut for\b",
    "say who reports it": r"\b(?:is|are) told\b",
    "say 'champion' or 'active'": r"\bin charge\b",
    "put measurements into records/": r"<!-- begin: ",
    "put the subject first": r"(?:^|[.:;] |\n)What is [^.?!]{1,60}? is\b",
}
WRITTEN = [
    ROOT / "README.md",
    *PAGES,
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "src").rglob("*.html")),
]


def words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_all_pages_together_are_short_enough() -> None:
    assert sum(map(words, PAGES)) <= ALL


def test_every_page_outside_theory_is_short_enough() -> None:
    long = {name_of(page): words(page) for page in PAGES if "theory" not in page.parts and words(page) > PAGE}
    assert long == {}


def test_the_readme_is_short_enough() -> None:
    assert words(ROOT / "README.md") <= README


@pytest.mark.parametrize("advice", BANNED)
def test_no_phrase_comes_back_that_was_taken_out(advice: str) -> None:
    found = []
    for page in WRITTEN:
        text = page.read_text(encoding="utf-8")
        found += [f"{name_of(page)}: {match[0].strip()}" for match in re.finditer(BANNED[advice], text)]
    assert found == []
