"""Packages that only some uses need: the extras of pyproject.toml, and how to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

Extra = Literal["cli", "games", "client", "serve", "postgresql", "ray"]
PURPOSES: dict[Extra, str] = {
    "cli": "the command line, evaluation, experiments, training and reports",
    "games": "the analysis of games and for the learners nw2 and feedexp3",
    "client": "calls to the service",
    "serve": "the service",
    "postgresql": "logs in PostgreSQL",
    "ray": "the executor ray",
}


class MissingExtraError(ImportError):
    """A package of an extra is not installed; the message has the command that installs it."""


@contextmanager
def extra(name: Extra) -> Iterator[None]:
    """Import packages of an extra in this block. Raises MissingExtraError if one of them is not installed.

    >>> with extra("games"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    peekrank._util.extras.MissingExtraError: peekrank needs the package no_such_package for the analysis of games
    and for the learners nw2 and feedexp3. Install the extra games: `pip install '.[games]'` in a clone of the
    repository (README.md, Install)
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package == "peekrank":
            raise
        known = isinstance(error, ModuleNotFoundError) and package
        needs = f"needs the package {package}" if known else f"cannot import a package that it needs ({error})"
        raise MissingExtraError(
            f"peekrank {needs} for {PURPOSES[name]}. Install the extra {name}: "
            f"`pip install '.[{name}]'` in a clone of the repository (README.md, Install)",
            name=package,
        ) from None


class LazyModule:
    """A module of an extra that is imported when the first of its attributes is used."""

    def __init__(self, module: str, name: Extra) -> None:
        self._module, self._extra = module, name

    def __getattr__(self, attribute: str) -> Any:
        with extra(self._extra):
            found = getattr(import_module(self._module), attribute)
        setattr(self, attribute, found)  # the next use does not come here
        return found
