"""Shared parts of the checks: the error, the runner, and the check of specifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from peekrank.spec import format_spec, parse

T = TypeVar("T")


class CheckError(AssertionError):
    """A learner, measure, surrogate or stream that fails a check."""


class CheckWarning(UserWarning):
    """A check that finds something that is wrong in most cases, but not in all."""


def run_all(checks: dict[str, Callable[[T], None]], subject: T) -> None:
    """Run checks in order. Raises CheckError, beginning with the name of the check, at the first failure."""
    for name, check in checks.items():
        try:
            check(subject)
        except CheckError as error:
            raise CheckError(f"{name}: {error}") from None
        except Exception as error:
            raise CheckError(f"{name}: {type(error).__name__}: {error}") from error


def require(condition: object, message: str) -> None:
    """Raise CheckError with the message unless the condition holds."""
    if not condition:
        raise CheckError(message)


def specification_round_trips(value: Any) -> None:
    """Check that parsing a value's specification gives an equal value."""
    parsed = parse("value", {value.name: type(value)}, format_spec(value))
    require(parsed == value, f"'{format_spec(value)}' is parsed as {parsed}, not {value}")
