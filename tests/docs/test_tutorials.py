"""Tutorials, and the page on extending: commands print what the page says, one after the other in one folder."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

from helpers.command_line import peekrank
from helpers.scripts import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!p]*.md"))  # product-engineer.md starts a service
PAGES = [*TUTORIALS, ROOT / "docs" / "extend.md"]
OWN = ROOT / "examples" / "own"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.M | re.S)
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(command: str) -> str:
    done = peekrank(*shlex.split(command)[1:], columns=100)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(OWN, tmp_path / "own"))
    checker, commands = doctest.OutputChecker(), 0
    for kind, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            prompt, _, said = content.partition("\n")
            printed = run(prompt.removeprefix("$ "))
            assert checker.check_output(said, printed, LIKE), f"{prompt}\n{printed}"
            commands += 1
        elif page in TUTORIALS and ">>>" not in content:  # examples with prompts are run by pytest's doctest
            exec(content, {})  # noqa: S102 - the page's own script
    assert commands


@pytest.mark.parametrize("file", sorted(OWN.glob("src/own_ranking/[a-z]*.py")), ids=lambda file: file.stem)
def test_the_page_on_extending_shows_the_files_of_the_example(file: Path) -> None:
    block = f"```python\n{file.read_text(encoding='utf-8')}```\n"
    assert block in (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
