"""Pages and README: commands run, the README's example prints what it says, and every learner is named."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from helpers.command_line import peekrank
from helpers.documents import letor_text
from helpers.pages import blocks, shell_commands
from helpers.scripts import ROOT, load_script
from peekrank.cli.app import app
from peekrank.registry import LEARNERS

README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
TRAIN = ROOT / "docs" / "data" / "train.md"  # tests/cli runs its commands, with fewer rounds
COMMANDS = {page: found for page in PAGES if page != TRAIN and (found := shell_commands(page, "peekrank"))}
ELSEWHERE = {"reproduce", "serve"}  # takes minutes, runs until it is stopped: other tests run these
FILE = re.compile(r"[\w./-]+\.(csv|db|gz|json|jsonl|parquet|peek|py|qrels|run|soc|toml|tsv|txt)")
WRITTEN = {"--certificate", "--csv", "--init", "--json", "--latex", "--log", "--markdown", "--out", "--picture"}
every_page = pytest.mark.parametrize("page", COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))


def arguments(command: str) -> list[str]:
    return shlex.split(command, comments=True)[1:]


def parse(words: list[str]) -> None:
    """Parse a command without running it. Raises a usage error if it, an option or a value is unknown."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("peekrank", list(words))
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def can_run(words: list[str]) -> bool:
    """Whether all files that a command reads are there, and no placeholder such as DATA is left."""
    if words[0] in ELSEWHERE or any(word.isupper() for word in words):
        return False
    read = [word for before, word in pairwise(words) if before not in WRITTEN]
    return all(Path(word).exists() for word in read if FILE.fullmatch(word))


@every_page
def test_commands_of_a_page_have_only_options_that_exist(page: Path) -> None:
    for command in COMMANDS[page]:
        parse(arguments(command))


@pytest.mark.slow
@every_page
def test_commands_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    Path("train.txt").write_text(letor_text(30, 1))
    Path("test.txt").write_text(letor_text(10, 2))
    Path("shop.csv").write_text(
        "search,sku,sold,price,brand\nshoes,a7,1,10,Ox\nshoes,b1,0,,Elk\nhats,c3,2,20,Elk\n"
    )
    for command in COMMANDS[page]:
        if can_run(words := arguments(command)):
            done = peekrank(*words)
            assert done.exit_code == 0, f"{command}\n{done.output}"


def test_the_site_lists_the_fields_of_a_services_configuration() -> None:
    page = (ROOT / "docs" / "service" / "configuration.md").read_text(encoding="utf-8")
    fields = load_script("pages").with_fields(page).partition("## All fields")[2]
    assert all(
        f"### `{table}`" in fields for table in ("[slots.NAME]", "[store]", "[server]", "[[keys]]", "[limits]")
    )
    assert "| `max_grade` |" in fields


def test_there_are_commands_to_run() -> None:
    assert sum(map(len, COMMANDS.values())) >= 10


def test_every_command_of_a_page_is_in_a_fence() -> None:
    """An indented block has no language, cannot be copied well, and is cut off on narrow screens."""
    indented = re.compile(r"(?<=\n\n) {4}(?:\$ )?(?:make|peekrank|pip|pytest|python) .*")
    assert {page.name: found for page in PAGES if (found := indented.findall(_prose(page)))} == {}


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def test_the_example_of_the_readme_prints_what_it_says() -> None:
    (example,) = [content for kind, content in blocks(README) if kind == "python"]
    said = io.StringIO()
    with redirect_stdout(said):
        exec(example, {})  # noqa: S102 - the README's own example
    assert said.getvalue().splitlines() == re.findall(r"^print\(.*\)\n# (.*)$", example, re.M)


def test_the_readme_keeps_its_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in shell_commands(README, "make")] == ["make demo", "make test"]


@pytest.mark.parametrize("name", LEARNERS.built_in)
def test_every_learner_is_named_where_people_choose_one(name: str) -> None:
    assert name in (ROOT / "docs" / "learners" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kernel_file", sorted((ROOT / "src" / "peekrank" / "learners").glob("[a-z]*.py")), ids=lambda p: p.name
)
def test_no_learner_draws_its_own_randomness(kernel_file: Path) -> None:
    assert "np.random" not in kernel_file.read_text()
