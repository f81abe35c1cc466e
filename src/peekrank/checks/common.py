"""What the checks share: their error, how they are run, and the one that holds for all specifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from peekrank.spec import format_spec, parse

T = TypeVar("T")


class CheckError(AssertionError):
    """A learner, measure, surrogate or stream does not do what it must."""


def run_all(checks: dict[str, Callable[[T], None]], subject: T) -> None:
    """Run checks until one fails; the error begins with its name."""
    for name, check in checks.items():
        try:
            check(subject)
        except CheckError as error:
            raise CheckError(f"{name}: {error}") from None
        except Exception as error:
            raise CheckError(f"{name}: {type(error).__name__}: {error}") from error


def require(truth: object, message: str) -> None:
    """Fail with a message unless something holds."""
    if not truth:
        raise CheckError(message)


def specification_round_trips(value: Any) -> None:
    """The text of a value makes an equal value."""
    again = parse("value", {value.name: type(value)}, format_spec(value))
    require(again == value, f"'{format_spec(value)}' makes {again}, not {value}")
