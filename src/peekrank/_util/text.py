"""Numbers of things, and strange characters, in what is said to people."""

from __future__ import annotations

import re


def pluralize(n: int, one: str, many: str | None = None) -> str:
    """A number of things, in the singular for one.

    >>> pluralize(1, "run"), pluralize(2000, "query", "queries")
    ('1 run', '2,000 queries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def printable(text: str) -> str:
    r"""Control and other invisible characters as escapes: sent to a terminal, they would move its cursor.

    >>> printable("1:\x1b[31m\0")
    '1:\\x1b[31m\\x00'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def excerpt(text: str, most: int = 60) -> str:
    r"""What a message shows of the content of a file: nothing invisible, and no more than a line has room for.

    >>> excerpt("1,\x1b[31m2"), excerpt("9" * 5000, most=4)
    ('1,\\x1b[31m2', '9999...')
    """
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}..."


def presentable(name: str) -> str:
    r"""Replacement characters for the bytes of a file name that are not UTF-8: no font has a glyph for these.

    >>> presentable("bad\udcffname.txt") == "bad\ufffdname.txt"
    True
    """
    return re.sub("[\ud800-\udfff]", "\ufffd", name)
