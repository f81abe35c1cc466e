"""A file beside a SQLite log with the last record of each slot, written after each commit.

SQLite ignores the rest of a write-ahead log from the first damaged page on, and a log without it. Both look like a
log that ends earlier. This file says that it did not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from peekrank.service.event_log.chain import Head

_MAGIC, _SIZE, _LENGTH = b"PEEKHEAD", 16, 4
_decoder = msgspec.msgpack.Decoder(dict[str, tuple[int, bytes]])


class HeadFile:
    """The number and link of the last record of each slot.

    It survives the end of the process, and is never ahead of the log: the service writes it after a commit, and
    before it confirms the calls.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, -1

    def read(self) -> dict[str, tuple[int, bytes]] | None:
        """Return the last number and link of each slot, or None if the file is missing or damaged."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        start = len(_MAGIC) + _LENGTH + _SIZE
        size = int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + _LENGTH], "big")
        body = content[start : start + size]
        if not content.startswith(_MAGIC) or content[start - _SIZE : start] != _digest(body):
            return None
        return _decoder.decode(body)

    def write(self, heads: Mapping[str, Head]) -> None:
        """Replace the content."""
        if self._file < 0:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        body = msgspec.msgpack.encode({slot: (head.last, head.link) for slot, head in heads.items()})
        os.pwrite(self._file, b"".join((_MAGIC, len(body).to_bytes(_LENGTH, "big"), _digest(body), body)), 0)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file = -1


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_SIZE).digest()
