"""The command line, called from within a test."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from peekrank.cli.app import app


def peekrank(*arguments: object, columns: int = 200) -> Result:
    """What ``peekrank`` says to these arguments, in a terminal of so many columns; exceptions are not caught."""
    words = list(map(str, arguments))
    return CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": str(columns)})


def rows(done: Result) -> dict[str, str]:
    """The lines of an answer by their labels."""
    assert done.exit_code == 0, done.output
    parts = [line.strip().partition(" ") for line in done.stdout.splitlines()]
    return {label: text.strip() for label, _, text in parts}


def numbers(text: str) -> set[str]:
    """The words of a text that have a digit in them."""
    return {word for word in text.split() if any(letter.isdigit() for letter in word)}


def refused(*arguments: object) -> str:
    """What ``peekrank`` says of arguments that it must refuse."""
    done = peekrank(*arguments)
    assert done.exit_code == 2, done.output
    return done.stderr
