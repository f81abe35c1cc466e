"""Structured logs: a line of JSON for each thing that happened, on standard error, without bodies or keys."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

import msgspec
import structlog
from structlog.tracebacks import ExceptionDictTransformer

from peekrank._jit.progress import LOGGER

LEVELS = ("debug", "info", "warning", "error", "critical")


def start_logs(level: str = "info", file: TextIO | None = None) -> None:
    """Have everything at or above a level told, a line each.

    Parameters
    ----------
    level
        "debug" tells every call, "info" what changes the service, "warning" and "error" less.
    file
        Where to; standard error if left out.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(number),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(
                ExceptionDictTransformer(show_locals=False)
            ),  # they hold bodies
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        logger_factory=structlog.WriteLoggerFactory(file or sys.stderr),
        cache_logger_on_first_use=False,
    )
    LOGGER.handlers = [_Structured()]
    LOGGER.setLevel(number)


class _Structured(logging.Handler):
    """Turn messages of the standard library's loggers into structured ones."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(ValueError, OSError):  # the stream may be closed
            structlog.get_logger().log(record.levelno, record.getMessage())


def _line(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
