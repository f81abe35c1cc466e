"""Parser for untrusted JSON."""

from __future__ import annotations

import json
from typing import Any

_MAX_DEPTH = 100  # levels, well below Python's recursion limit
_TOO_DEEP = "is nested too deeply"


def read_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse JSON text. Raises ValueError if it is malformed or nested too deeply.

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
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for holder in level for part in _parts(holder)]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
