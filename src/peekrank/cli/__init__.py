"""The command line: one file per command, from parsing to printing. `main` is the entry point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from peekrank._util.extras import MissingExtraError, extra


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else Ctrl-C is ignored, as under nohup
        signal.signal(signal.SIGINT, _leave)
    try:
        with extra("cli"):
            from peekrank.cli.app import main as run
        run()
    except MissingExtraError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn Ctrl-C into an exception while a command runs. Before and after, it ends the process at once."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(130)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but exit at once during an import, where polars would panic."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave()
        frame = frame.f_back
    raise KeyboardInterrupt
