"""Examples in the help of commands: the parser takes them, and they run as printed, one after the other."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from helpers.command_line import peekrank
from helpers.documents import letor_text
from helpers.services import service
from helpers.traffic import live
from peekrank.cli.app import COMMANDS, command_module, command_named
from peekrank.evaluation.trec import write_run

ENDLESS = ("peekrank serve --playground", "peekrank serve service.toml", "peekrank monitor log.jsonl --follow")
LONG = (  # tests of their own run these, or shorter ones
    "peekrank demo",
    "peekrank demo --score",
    "peekrank demo --rerank",
    "peekrank game --m 5",
    "peekrank precompile",
    "peekrank reproduce --quick",
    "peekrank sweep example.toml",
)
OTHERS = (  # logs of a service and of a comparison, which tests of their own write
    "peekrank evaluate visits.jsonl --policy feature:1 --policy feature:2 --measure dcg@3",
    "peekrank evaluate home.parquet",
)
WIDTH = 60


def lines(name: str) -> list[str]:
    text: str = command_module(name).EXAMPLES
    return text.splitlines()


def examples(name: str) -> list[str]:
    return [line for line in lines(name) if not line.startswith("#")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_has_a_comment_and_is_taken_by_the_parser(name: str) -> None:
    comments, commands = lines(name)[::2], lines(name)[1::2]
    assert len(comments) == len(commands) > 0
    for comment, line in zip(comments, commands, strict=True):
        assert comment.startswith("# ")
        assert len(f"  {comment}") <= WIDTH
        words, size = shlex.split(line), 1 + len(name.split())
        assert words[:size] == ["peekrank", *name.split()]
        command_named(name).make_context(name, words[size:])


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_the_terminal_and_has_the_examples_as_they_are(name: str, columns: int) -> None:
    context = command_named(name).make_context(name, [], resilient_parsing=True, terminal_width=columns)
    said = context.get_help().splitlines()
    assert not [line for line in said if line != line.rstrip()]
    assert not [line for line in said if len(line) > columns and line.strip() not in examples(name)]
    for line in lines(name):
        assert f"  {line}" in said


def test_an_error_shows_an_example() -> None:
    done = peekrank("train")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "Usage: root train [OPTIONS] DATA [LEARNER...]",  # a test calls it root
        f"Example: {examples('train')[0]}",
        "Try 'root train --help' for help.",
        "",
        "error: missing argument 'DATA'",
    ]


@pytest.mark.slow
def test_examples_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    it, clock = service(tmp_path)
    live(it, clock, rounds=20)
    it.close()
    Path("log.db").rename("peekrank.db")
    Path("train.txt").write_text(letor_text(30, seed=0))
    Path("test.txt").write_text(letor_text(20, seed=1))
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    Path("shop.csv").write_text(
        "search,sku,sold,price,bm25\nshoes,a7,1,10,3\nshoes,b1,0,5,2\nhats,c3,2,20,7\nhats,d4,0,8,1\n"
    )
    Path("new.csv").write_text("search,sku,price,bm25\nshoes,a7,10,3\nshoes,b1,5,2\n")
    Path("shown.csv").write_text(
        "visit,sku,rank,click,p\n1,tea,1,1,0.6\n1,milk,2,,0.4\n2,tea,2,,0.6\n2,milk,1,0,0.4\n"
    )
    roles = {"event": "visit", "item": "sku", "position": "rank", "reward": "click", "propensity": "p"}
    Path("columns.toml").write_text(
        "[columns]\n" + "".join(f"{role} = '{name}'\n" for role, name in roles.items())
    )
    for name, documents in (("today", "abc"), ("new", "cbd")):
        write_run(Path(f"{name}.run"), {"q": list(documents)})
    for line in [line for name in COMMANDS for line in examples(name)]:
        if line not in (*ENDLESS, *LONG, *OTHERS):
            done = peekrank(*shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"
