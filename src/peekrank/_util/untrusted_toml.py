"""Parser for untrusted TOML."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from peekrank._util.text import MAX_BITS, excerpt
from peekrank._util.untrusted_json import is_too_deep, leaves, too_many_digits

_MAX_REASON = 800  # characters
_LINE = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")


class TOMLError(ValueError):
    """Why a text is not valid TOML.

    Parameters
    ----------
    reason
        The reason.
    line
        The line, if it is known.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    r"""Parse TOML. Raises TOMLError if it is malformed, nested too deeply, or has too long a number.

    >>> parse_toml("[slots.home]\nk = 3")
    {'slots': {'home': {'k': 3}}}
    >>> parse_toml("k = 0x" + "f" * 5000)
    Traceback (most recent call last):
    peekrank._util.untrusted_toml.TOMLError: has a number of too many digits
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found[1]) if found and found[1] else max(1, len(text.splitlines()))
        reason = _LINE.sub("", str(error))
        raise TOMLError(f"{reason[:1].lower()}{excerpt(reason[1:], _MAX_REASON)}", line) from None
    except RecursionError:
        raise TOMLError("is nested too deeply") from None
    except ValueError as error:
        raise TOMLError("has a number of too many digits" if too_many_digits(error) else str(error)) from None
    if is_too_deep(table):
        raise TOMLError("is nested too deeply")
    if any(type(leaf) is int and leaf.bit_length() > MAX_BITS for leaf in leaves(table)):
        raise TOMLError("has a number of too many digits")
    return table
