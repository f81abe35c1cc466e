"""Verbosity of a command.

``--quiet`` switches off results and progress, and ``--json -`` prints JSON instead of tables. Notes and errors are
always printed.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

STANDARD_OUTPUT = Path("-")


class Verbosity(NamedTuple):
    """Kinds of output besides notes and errors."""

    results: bool = True
    progress: bool = True


VERBOSITY = ContextVar("VERBOSITY", default=Verbosity())  # noqa: B039 # a tuple does not change


def configure_output(json_file: Path | None = None, *, quiet: bool = False) -> None:
    """Set the verbosity for the rest of the command from `--json` and `--quiet`."""
    VERBOSITY.set(Verbosity(results=not quiet and json_file != STANDARD_OUTPUT, progress=not quiet))
    logging.getLogger("peekrank.kernels").setLevel(logging.WARNING if quiet else logging.INFO)
