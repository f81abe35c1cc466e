"""Errors as one line on standard error, and warnings as notes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from peekrank._util.extras import MissingExtraError
from peekrank._util.text import wrapped
from peekrank.cli import interruptible

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer has no public name for it
_MAX_MESSAGE = 2000  # characters
_KINDS = {"int_parsing": "a whole number", "float_parsing": "a number"}


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print errors as one line and exit with code 2 (130 for Ctrl-C). Print warnings as notes."""
    try:
        with interruptible(), warnings.catch_warnings():
            warnings.showwarning = _note_printer()
            yield
    except BrokenPipeError:  # the reader closed the pipe, as `| head -1` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes the rest of the buffer
        raise typer.Exit(141) from None
    except (ValueError, ArithmeticError, OSError, MemoryError, MissingExtraError) as error:
        text = _error_text(error)
        text = text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."
        message = "\n".join([text, *getattr(error, "__notes__", ())])
        print_error(message, "error: ", "bold red")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print_error("stopped")
        raise typer.Exit(130) from None


@contextmanager
def plain_usage() -> Iterator[None]:
    """Print the usage of a command with the error, and exit with code 2."""
    try:
        yield
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            print_error(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
        print_error(_usage_error_text(error), "error: ", "bold red")
        raise typer.Exit(2) from None


def _usage_error_text(error: Any) -> str:
    """Describe a usage error; for a value that is not a number, name the value and the expected type."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    if details and (kind := _KINDS.get(details[0]["type"])):
        return f"{error.param.opts[0]} {details[0]['input']}: must be {kind}"
    message = str(error.format_message()).rstrip(".")
    return message[0].lower() + message[1:]


def _error_text(error: Exception) -> str:
    """Describe an error; for an operating system error, give the file and the reason without the number.

    >>> _error_text(FileNotFoundError(2, "No such file or directory", "votes.soc"))
    'votes.soc: no such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror[0].lower() + error.strerror[1:]
        return what if error.filename is None else f"{os.fsdecode(error.filename)}: {what}"
    return str(error) or "not enough memory"


def print_error(text: str, label: str = "", style: str = "bold") -> None:
    """Print to standard error. A message with a label is wrapped at blanks if this is a terminal."""
    console = Console(stderr=True)
    if label and console.is_terminal:
        lines = [part for line in f"{label}{text}".split("\n") for part in wrapped(line, console.width)]
        text = "\n".join(lines).removeprefix(label)
    console.print(Text.assemble((label, style), text), soft_wrap=True)


def _note_printer() -> Callable[..., None]:
    """Return a function that prints each distinct warning once, as a note."""
    printed = set()

    def note(message: Warning | str, *_: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            print_error(str(message), "note: ")

    return note
