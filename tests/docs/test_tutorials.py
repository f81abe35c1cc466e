"""Tutorials, and other pages with a console: commands print what the page says, one after the other."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pages
import pytest

from helpers.command_line import peekrank
from helpers.pages import Scripts, blocks, commands, is_like
from helpers.scripts import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!p]*.md"))  # product-engineer.md starts a service
OTHERS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "tutorials"]
PAGES = [*TUTORIALS, *(page for page in OTHERS if any(kind == "console" for kind, _ in blocks(page)))]
OWN = ROOT / "examples" / "own"


def run(command: str) -> str:
    done = peekrank(*shlex.split(command)[1:], columns=100)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(OWN, tmp_path / "own"))
    shutil.copy(OWN / "src" / "own_ranking" / "learner.py", ".")  # the researcher's page says so
    scripts, done = Scripts(), 0
    for kind, content in blocks(page):
        if kind == "console":
            for line, expected in commands(content):
                printed = run(line)
                assert is_like(expected, printed), f"{line}\n{printed}"
                done += 1
        elif page in TUTORIALS and kind == "python" and ">>>" not in content:  # pytest runs those with prompts
            scripts.run(content)
        elif page in TUTORIALS and kind == "text" and not content.startswith("$ "):
            scripts.told(content)
            done += 1
    assert done


@pytest.mark.parametrize("file", sorted(OWN.glob("src/own_ranking/[a-z]*.py")), ids=lambda file: file.stem)
def test_the_page_on_extending_shows_the_files_of_the_example(file: Path) -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    assert f"```python\n{file.read_text(encoding='utf-8')}```\n" in pages.with_examples(page)
