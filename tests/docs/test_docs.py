"""Pages and README: commands run, every learner is named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peekrank.cli.app import app
from peekrank.registry import LEARNERS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
COMMANDS = sorted(
    {line.strip() for page in PAGES for line in re.findall(r"^ {4}(peekrank .*)$", page.read_text(), re.M)}
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("name", LEARNERS.built_in)
def test_every_learner_is_named_in_the_readme(name: str) -> None:
    assert name in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "kernel_file", sorted((ROOT / "src" / "peekrank" / "learners").glob("[a-z]*.py")), ids=lambda p: p.name
)
def test_no_learner_draws_its_own_randomness(kernel_file: Path) -> None:
    assert "np.random" not in kernel_file.read_text()
