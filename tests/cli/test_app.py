"""The command line as a whole: which commands there are."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import peekrank.cli
from helpers.command_line import peekrank as call
from peekrank.cli.app import COMMANDS


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


def test_a_mistyped_command_gets_the_nearest() -> None:
    done = call("simulat")
    assert done.exit_code == 2
    assert "Did you mean 'simulate'?" in done.stderr


def test_version() -> None:
    assert call("--version").output.startswith("peekrank 0.")
