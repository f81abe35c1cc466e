"""Structured logging: one line of JSON per event on standard error, without bodies or keys."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.tracebacks import ExceptionDictTransformer

from peekrank._jit.progress import LOGGER

LEVELS = ("debug", "info", "warning", "error", "critical")


def configure_logging(level: str = "info", file: TextIO | None = None) -> None:
    """Log everything at or above a level, one line of JSON each.

    Parameters
    ----------
    level
        "debug" logs every request, "info" every change of the service's state, "warning" and "error" failures.
    file
        Where to write; standard error by default.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    without_locals = ExceptionDictTransformer(show_locals=False)  # local variables hold bodies
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(number),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(without_locals),
            structlog.processors.JSONRenderer(serializer=_serialize),
        ],
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Lines(file or sys.stderr))),
        cache_logger_on_first_use=False,
    )
    LOGGER.handlers = [_Structured()]
    LOGGER.setLevel(number)


class _Structured(logging.Handler):
    """Turn messages of the standard library's loggers into structured ones."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a message."""
        structlog.get_logger().log(record.levelno, record.getMessage())


class _Lines:
    """A stream that loses lines when it is closed or full, because a service must not stop for its messages."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write a text."""
        with suppress(ValueError, OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Pass the written text on."""
        with suppress(ValueError, OSError):
            self._file.flush()


def _serialize(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
