"""Addresses of PostgreSQL databases: strict enough that a password can never be taken for another part."""

from __future__ import annotations

import re

_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.%]+\])(?::\d+)?"
_ADDRESS = re.compile(
    rf"postgres(?:ql)?://(?:[^@/?:\s]*(?::[^@/?\s]*)?@)?(?P<host>{_HOST}(?:,{_HOST})*)"
    r"(?:/(?P<database>[\w.%-]*))?(?:\?[^@?#\s]*)?"
)
_EXPECTED = (
    "must be postgresql://USER@HOST:PORT/DATABASE. Write special characters of a password as %XX, or keep it in "
    "PGPASSWORD or ~/.pgpass"
)


def check_address(url: str) -> None:
    """Raise ValueError, without any part of the address, if it cannot be read in exactly one way.

    >>> check_address("postgresql://peekrank:secret%2F1@db.internal:5432/peekrank?sslmode=require")
    >>> check_address("postgresql://peekrank:secret/1@db.internal/peekrank")
    Traceback (most recent call last):
    ValueError: must be postgresql://USER@HOST:PORT/DATABASE. Write special characters ...
    """
    if not _ADDRESS.fullmatch(url):
        raise ValueError(_EXPECTED)


def public_address(url: str) -> str:
    """Return an address without user, password and options, for messages.

    >>> public_address("postgresql://peekrank:secret@db.internal/peekrank?sslmode=require")
    'postgresql://db.internal/peekrank'
    """
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise ValueError(_EXPECTED)
    return f"postgresql://{match['host']}/{match['database'] or ''}"
