"""Text for messages: plurals, excerpts and unprintable characters."""

from __future__ import annotations

import re
import textwrap

MAX_BITS = 4096  # of a whole number that a message shows


def pluralize(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, in the singular for 1.

    >>> pluralize(1, "run"), pluralize(2000, "query", "queries")
    ('1 run', '2,000 queries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def printable(text: str) -> str:
    r"""Escape control and other invisible characters, which could move a terminal's cursor.

    >>> printable("1:\x1b[31m\0")
    '1:\\x1b[31m\\x00'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def excerpt(text: str, limit: int = 60) -> str:
    r"""Shorten untrusted text for a message and escape its invisible characters.

    >>> excerpt("1,\x1b[31m2"), excerpt("9" * 5000, limit=4)
    ('1,\\x1b[31m2', '9999...')
    """
    escaped = printable(text[: limit + 1])
    return escaped if len(escaped) <= limit else f"{escaped[:limit]}..."


def shown(value: object, limit: int = 60) -> str:
    r"""Return the `repr` of an untrusted value, shortened as by `excerpt`.

    >>> shown("\0"), shown(10**5000), shown([1] * 99, limit=6)
    ("'\\x00'", 'a number of 16,610 bits', '[1, 1,...')
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"a number of {value.bit_length():,} bits"
    try:
        return excerpt(repr(value), limit)
    except (ValueError, RecursionError):  # a number within it has too many digits, or it is nested too deeply
        return f"a {type(value).__name__}"


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines at blanks, except for blanks in commands between backticks, and never within a word.

    >>> wrapped("run `peekrank data FILE`, which describes a file", 14)
    ['run', '`peekrank data FILE`,', 'which', 'describes a', 'file']
    """
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def presentable(name: str) -> str:
    r"""Replace the bytes of a file name that are not UTF-8, since no font has a glyph for them.

    >>> presentable("bad\udcffname.txt") == "bad\ufffdname.txt"
    True
    """
    return re.sub("[\ud800-\udfff]", "\ufffd", name)
