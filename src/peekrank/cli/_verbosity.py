"""What a command says: with --quiet no answer and no progress, with --json - no answer but the JSON.

Notes and errors are always said.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

STANDARD_OUTPUT = Path("-")


class Verbosity(NamedTuple):
    """What is said."""

    answers: bool = True
    progress: bool = True


VERBOSITY = ContextVar("VOICE", default=Verbosity())  # noqa: B039 # a tuple does not change


def configure_output(json_file: Path | None = None, *, quiet: bool = False) -> None:
    """Say as much, for the rest of the command, as its options ask for."""
    VERBOSITY.set(Verbosity(answers=not quiet and json_file != STANDARD_OUTPUT, progress=not quiet))
    logging.getLogger("peekrank.kernels").setLevel(logging.WARNING if quiet else logging.INFO)
