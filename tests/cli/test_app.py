"""The command line as a whole: which commands there are."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import peekrank.cli
from helpers.command_line import peekrank as call
from peekrank.cli.app import COMMANDS, GROUPS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    said = inspect.getdoc(import_module(f"peekrank.cli.{name}").command)
    assert said is not None
    assert said.splitlines()[0] == COMMANDS[name]
    assert COMMANDS[name] in " ".join(call(name, "--help").stdout.split())


def test_every_module_of_a_command_is_one() -> None:
    folder = Path(peekrank.cli.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == {*COMMANDS, "app"}


def test_help_names_every_command() -> None:
    said = [line.strip("│ ").partition(" ")[0] for line in call("--help").stdout.splitlines()]
    assert [word for word in said if word in COMMANDS] == list(COMMANDS)


def test_every_command_is_in_a_group() -> None:
    assert [name for names in GROUPS.values() for name in names] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_types_of_flags_and_no_defaults_in_brackets_within_brackets(name: str) -> None:
    said = call(name, "--help").stdout
    assert "<bool>" not in said
    assert "[default: (" not in said


def test_a_missing_file_is_told_in_words() -> None:
    assert call("data", "nowhere.txt").stderr == "error: nowhere.txt: no such file or directory\n"


def test_no_line_of_a_table_ends_in_blanks() -> None:
    assert not any(
        line.endswith(" ") for line in call("advise", "dcg", "--m", "10", "--k", "1").stdout.splitlines()
    )


def test_a_mistyped_command_gets_the_nearest() -> None:
    done = call("simulat")
    assert done.exit_code == 2
    assert "Did you mean 'simulate'?" in done.stderr


def test_version() -> None:
    assert call("--version").output.startswith("peekrank 0.")


def test_help_and_a_command_is_the_help_of_that_command() -> None:
    assert call("help", "learn").stdout == call("learn", "--help").stdout
    assert call("help").stdout == call("--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_values_are_named_and_no_types_of_python_are_shown(name: str) -> None:
    said = call(name, "--help").stdout
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
