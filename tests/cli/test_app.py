"""The command line as a whole: which commands there are."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import peekrank.cli
from helpers.command_line import peekrank as call
from helpers.command_line import refused
from peekrank.cli.app import COMMANDS, GROUPS, command_module


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    said = inspect.getdoc(command_module(name).command)
    assert said is not None
    assert said.splitlines()[0] == COMMANDS[name]
    assert COMMANDS[name] in " ".join(call(*name.split(), "--help").stdout.split())


def test_every_module_of_a_command_is_one() -> None:
    folder = Path(peekrank.cli.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == {*(name.replace(" ", "_").replace("-", "_") for name in COMMANDS), "app"}


def test_help_names_every_command() -> None:
    said = [line.strip("│ ").partition(" ")[0] for line in call("--help").stdout.splitlines()]
    names = list(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
    assert sorted(word for word in said if word in names) == sorted(names)
    said = [line.strip("│ ").partition(" ")[0] for line in call("log", "--help").stdout.splitlines()]
    assert [f"log {word}" for word in said if f"log {word}" in COMMANDS] == list(GROUPS["Service"])


def test_every_command_is_in_a_group() -> None:
    assert [name for names in GROUPS.values() for name in names] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_types_of_flags_and_no_defaults_in_brackets_within_brackets(name: str) -> None:
    said = call(*name.split(), "--help").stdout
    assert "<bool>" not in said
    assert "[default: (" not in said


def test_a_missing_file_is_reported_in_words() -> None:
    assert call("data", "nowhere.txt").stderr == "error: nowhere.txt: no such file or directory\n"


def test_no_line_of_a_table_ends_in_blanks() -> None:
    assert not any(
        line.endswith(" ") for line in call("advise", "dcg", "--m", "10", "--k", "1").stdout.splitlines()
    )


def test_a_mistyped_command_gets_the_nearest() -> None:
    done = call("simulat")
    assert done.exit_code == 2
    assert "Did you mean 'simulate'?" in done.stderr


def test_a_command_is_asked_for_by_the_list_of_all() -> None:
    done = call()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == call("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (["simulate", "rtop1f", "--horizon", "x"], "error: --horizon x: must be a whole number"),
        (["evaluate", "log", "--policy", "logged", "--alpha", "a"], "error: --alpha a: must be a number"),
        (["simulate"], "error: missing argument 'LEARNER'"),
        (["--colour"], "error: no such option: --colour"),
        (["simulate", "nobody", "--horizon", "10"], "error: unknown learner 'nobody': known: auto,"),
        (["log", "audit", __file__], f"error: {__file__} is not the log of a service, or its first bytes"),
        (["data", "."], "error: . is a folder: name a file in it, for example train.txt"),
    ],
)
def test_all_errors_have_the_same_form(arguments: list[str], last: str) -> None:
    done = call(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(last)


def test_version() -> None:
    assert call("--version").output.startswith("peekrank 0.")


def test_help_and_a_command_is_the_help_of_that_command() -> None:
    assert call("help", "train").stdout == call("train", "--help").stdout
    assert call("help").stdout == call("--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_values_are_named_and_no_types_of_python_are_shown(name: str) -> None:
    said = call(*name.split(), "--help").stdout
    assert not any(sign in said for sign in ("<", ">", "{", "}", "list["))


def test_nobody_reading_on_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "peekrank", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_errors_wrap_at_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("advise", "nothing", "--m", "3", "--k", "1")
    (line,) = call(*words, columns=50).stderr.splitlines()  # a pipe or a file gets one line
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = re.sub("\x1b[^m]*m", "", call(*words, columns=50).stderr)
    assert said.split() == line.split()
    assert len(said.splitlines()) > 2
    assert max(map(len, said.splitlines())) <= 50


def test_a_message_is_never_longer_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("x" * 3_000_000)

    monkeypatch.setattr("peekrank.cli.advise.advise", fail)
    assert len(refused("advise", "dcg", "--m", "3", "--k", "1")) < 2100
