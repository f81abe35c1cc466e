"""Tutorials: what their commands are said to print is what they print, one after the other in one folder."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from helpers.command_line import peekrank

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.M | re.S)
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(command: str) -> str:
    done = peekrank(*shlex.split(command)[1:], columns=100)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checker, commands = doctest.OutputChecker(), 0
    for kind, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            prompt, _, said = content.partition("\n")
            printed = run(prompt.removeprefix("$ "))
            assert checker.check_output(said, printed, LIKE), f"{prompt}\n{printed}"
            commands += 1
        elif ">>>" not in content:  # examples with prompts are run by pytest's doctest
            exec(content, {})  # noqa: S102 - the page's own script
    assert commands
