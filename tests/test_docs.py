"""Pages and README: links lead somewhere, commands run, every learner has its page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peekrank.cli import app
from peekrank.learners import ALL

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))
COMMANDS = sorted(
    {line.strip() for page in PAGES for line in re.findall(r"^ {4}(peekrank .*)$", page.read_text(), re.M)}
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)#:]+)\)", prose)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("name", ALL)
def test_every_learner_has_its_page_and_is_named_in_the_readme(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.md").exists()
    assert name in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "kernel_file", sorted((ROOT / "src" / "peekrank" / "learners").glob("[a-z]*.py")), ids=lambda p: p.name
)
def test_no_learner_draws_its_own_randomness(kernel_file: Path) -> None:
    assert "np.random" not in kernel_file.read_text()
