"""What went wrong, in a line on standard error; warnings as notes."""

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
from peekrank.cli import interruptible

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer has no public name for it
_KINDS = {"int_parsing": "a whole number", "float_parsing": "a number"}


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Say what was wrong in a line, and end with code 2; Ctrl-C ends with code 130. Warnings are notes."""
    try:
        with interruptible(), warnings.catch_warnings():
            warnings.showwarning = _say_once()
            yield
    except BrokenPipeError:  # nobody reads on, as with `| head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where what is left is flushed to
        raise typer.Exit(141) from None
    except (ValueError, ArithmeticError, OSError, MemoryError, MissingExtraError) as error:
        message = "\n".join([_said(error), *getattr(error, "__notes__", ())])
        print_error(message, "error: ", "bold red")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print_error("stopped")
        raise typer.Exit(130) from None


@contextmanager
def plain_usage() -> Iterator[None]:
    """Say how a command is called, and what was wrong as all errors are told; end with code 2."""
    try:
        yield
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            print_error(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
        print_error(_misuse(error), "error: ", "bold red")
        raise typer.Exit(2) from None


def _misuse(error: Any) -> str:
    """What was wrong in a call; a value that is no number is named, and what it should be."""
    found: list[Any] = getattr(error.__cause__, "errors", list)()
    if found and (kind := _KINDS.get(found[0]["type"])):
        return f"{error.param.opts[0]} {found[0]['input']}: must be {kind}"
    message = str(error.format_message()).rstrip(".")
    return message[0].lower() + message[1:]


def _said(error: Exception) -> str:
    """An error in words; of the system's own, which file and what, not the number.

    >>> _said(FileNotFoundError(2, "No such file or directory", "votes.soc"))
    'votes.soc: no such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror[0].lower() + error.strerror[1:]
        return what if error.filename is None else f"{os.fsdecode(error.filename)}: {what}"
    return str(error) or "not enough memory"


def print_error(text: str, label: str = "", style: str = "bold") -> None:
    """Print to standard error, whole lines however narrow the terminal."""
    Console(stderr=True).print(Text.assemble((label, style), text), soft_wrap=True)


def _say_once() -> Callable[..., None]:
    """A way to show warnings: as notes, each once, though the same learner is made several times."""
    said = set()

    def note(message: Warning | str, *_: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            print_error(str(message), "note: ")

    return note
