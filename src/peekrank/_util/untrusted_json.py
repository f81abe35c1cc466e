"""Parser for untrusted JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_MAX_DEPTH = 100  # levels, well below Python's recursion limit
_TOO_DEEP = "is nested too deeply"
_TOO_LONG = "has a number of too many digits"


def read_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse JSON text. Raises ValueError if it is malformed, nested too deeply, or has too long a number.

    >>> read_json('{"a": [1]}')
    {'a': [1]}
    >>> read_json("[" * 5000 + "]" * 5000)
    Traceback (most recent call last):
    ValueError: is nested too deeply

    Parameters
    ----------
    text
        JSON; bytes must be UTF-8.
    hooks
        Keyword arguments of `json.loads`.
    """
    try:
        value = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError as error:
        raise ValueError(_TOO_LONG if too_many_digits(error) else str(error)) from None
    if is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def is_too_deep(value: Any) -> bool:
    """Return whether lists and dictionaries are nested so deeply that other code may fail."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for holder in level for part in _parts(holder)]
        if not level:
            return False
    return True


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values that are neither lists nor dictionaries."""
    if isinstance(value, dict | list):
        for part in _parts(value):
            yield from leaves(part)
    else:
        yield value


def too_many_digits(error: ValueError) -> bool:
    """Return whether Python refused to convert a whole number because of its digits.

    >>> try:
    ...     int("1" * 5000)
    ... except ValueError as error:
    ...     too_many_digits(error)
    True
    """
    return "int_max_str_digits" in str(error)


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
