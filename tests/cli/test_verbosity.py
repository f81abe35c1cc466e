"""Output for scripts: one JSON object and nothing else, or nothing at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from helpers.command_line import peekrank, refused
from helpers.documents import letor_text
from helpers.services import HOME, service
from helpers.traffic import live
from peekrank.cli.app import COMMANDS, command_module, command_named
from peekrank.evaluation.trec import write_run
from peekrank.service.config.holdout import HoldoutConfig

ASKED = {
    "advise": ["dcg --m 3 --k 1 --horizon 10", "ndcgsquared --m 10 --k 1"],
    "list": [""],
    "data": ["train.txt"],
    "train": ["train.txt uniform --rounds 50 --runs 1 --test test.txt --out trained-again"],
    "rank": ["trained/models/ridge-0.json test.txt --out ranked.tsv --measure p@3+sum"],
    "simulate": ["doubtsort uniform --horizon 50 --runs 2 --out simulated-again"],
    "compare": ["simulated"],
    "evaluate": ["log.parquet --policy logged --policy order:2,0,1", "held.parquet"],
    "position-bias": ["log.parquet"],
    "monitor": ["log.parquet"],
    "game": ["--m 2", "dcg --m 2 --k 1", "ndcg --m 2 --k 1 --best-factor", "apple-tasting"],
    "log audit": ["log.db"],
    "judge": ["today.run new.run --qrels judged.qrels"],
}
QUIET = {
    "train": "train.txt --rounds 50 --runs 1 --out trained-quietly",
    "simulate": "uniform --horizon 50 --runs 1 --out simulated-quietly",
    "study": "dcg uniform --m 2 --k 1 --horizons 20,40 --runs 1",
    "sweep": "example.toml",
    "reproduce": "ct15-table-1",
    "log audit": "log.db",
    "log backup": "log.db copy.db",
    "log export": "log.db home home.parquet",
    "precompile": "uniform",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("scripts")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        it, clock = service(path, holdout=HoldoutConfig(0.2, HOME.items))
        live(it, clock, rounds=20)
        it.close()
        for seed, name in enumerate(["train.txt", "test.txt"]):
            Path(name).write_text(letor_text(20, seed))
        for name, documents in (("today", "abc"), ("new", "cbd")):
            write_run(Path(f"{name}.run"), {"q": list(documents)})
        for line in (
            "train train.txt --rounds 50 --runs 1",
            "simulate doubtsort uniform --horizon 50 --runs 3 --out simulated",
            "simulate uniform --k 3 --horizon 200 --runs 1 --out logged --log log.parquet",
            "log export log.db home held.parquet",
            "judge today.run new.run --qrels judged.qrels --budget 2",
        ):
            assert peekrank(*line.split()).exit_code == 0
        Path("example.toml").write_text(
            'name = "small"\nlearners = ["uniform"]\nstreams = ["ct15"]\nmeasures = ["dcg"]\nk = 1\n'
            "horizons = [50]\nruns = 2\n"
        )
        yield path


def has(name: str, option: str) -> bool:
    return any(option in parameter.opts for parameter in command_named(name).params)


def test_all_commands_that_speak_to_scripts_are_tested() -> None:
    assert set(ASKED) == {name for name in COMMANDS if has(name, "--json")}
    assert set(QUIET) == {name for name in COMMANDS if has(name, "--quiet")}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.usefixtures("folder")
def test_json_is_all_that_is_printed_and_has_the_keys_that_are_documented(name: str) -> None:
    found: set[str] = set()
    fields: dict[str, set[str]] = {}
    for arguments in ASKED[name]:
        done = peekrank(*name.split(), *arguments.split(), "--json", "-")
        assert done.exit_code == 0, done.output
        answer = json.loads(done.stdout)
        found |= set(answer)
        for key in answer:
            fields.setdefault(key, set()).update(_fields(answer[key]))
        peekrank(*name.split(), *arguments.split(), "--json", "asked.json")
        assert Path("asked.json").read_text() == done.stdout
    keys = command_module(name).JSON_KEYS
    assert found == {key for some in keys for key in some.split(", ")}
    assert all(fields[key] >= _documented(text) for key, text in keys.items() if fields.get(key))


def _fields(value: object) -> set[str]:
    """Return the names in a dictionary, or in those of a list."""
    return (
        set().union(*map(_fields, value))
        if isinstance(value, list)
        else set(value)
        if isinstance(value, dict)
        else set()
    )


def _documented(text: str) -> set[str]:
    """Return the names that a description lists for each row.

    >>> sorted(_documented("for each: regret, bound (or null), what it says"))
    ['bound', 'regret']
    """
    names = re.match(r"for each[^:]*: (.*)", re.sub(r" \(.*?\)", "", text))
    return set(takewhile(re.compile("[a-z_]+").fullmatch, names[1].split(", "))) if names else set()


@pytest.mark.parametrize("name", QUIET)
@pytest.mark.usefixtures("folder")
def test_quiet_commands_print_nothing(name: str) -> None:
    done = peekrank(*name.split(), *QUIET[name].split(), "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert peekrank("list").stdout  # the next command in the process is not quiet


@pytest.mark.usefixtures("folder")
def test_quiet_does_not_hide_errors() -> None:
    assert "unknown learner" in refused("simulate", "unknown", "--quiet", "--out", "none")


@pytest.mark.usefixtures("folder")
def test_standard_output_is_for_one_thing() -> None:
    said = refused("rank", "trained/models/ridge-0.json", "test.txt", "--json", "-")
    assert said.startswith("error: --json - needs --out FILE")
