"""JSON as strangers may have written it."""

from __future__ import annotations

import json
from typing import Any

_DEEPEST = 100  # levels; far from where Python's own functions give up on a value
_TOO_DEEP = "has lists within lists, too deep to be read"


def read_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of a JSON text; a ValueError for all else, also for lists within lists beyond all sense.

    >>> read_json('{"a": [1]}')
    {'a': [1]}
    >>> read_json("[" * 5000 + "]" * 5000)
    Traceback (most recent call last):
    ValueError: has lists within lists, too deep to be read

    Parameters
    ----------
    text
        JSON, in UTF-8 if it is bytes.
    hooks
        What `json.loads` takes.
    """
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(_DEEPEST):
        level = [part for holder in level for part in _parts(holder)]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
