"""A file beside a SQLite log with random bytes, which turn texts into ids that nobody else can compute."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from pathlib import Path

from peekrank.service.event_log.store import StoreError

SIZE = 32  # bytes of a secret
_CHECKSUM = 16


def read_secret(path: Path) -> bytes:
    """Return the secret in a file, which only its owner can read. Creates the file if it is missing.

    Raises StoreError if the file is damaged, because another secret would make every known text a new item.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn = read_secret(Path(folder) / "peekrank.db-secret")
    ...     read_secret(Path(folder) / "peekrank.db-secret") == drawn, len(drawn)
    (True, 32)
    """
    if not path.exists():
        _create(path)
    content = path.read_bytes()
    if len(content) != SIZE + _CHECKSUM or _checksum(content[:SIZE]) != content[SIZE:]:
        raise StoreError(f"{path.name} is damaged. Restore it from a backup, or delete it: all texts are new then")
    return content[:SIZE]


def _create(path: Path) -> None:
    """Create the file, whole or not at all, so that it survives a power cut after the first call."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    secret = secrets.token_bytes(SIZE)
    file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(file, secret + _checksum(secret))
        os.fsync(file)
    finally:
        os.close(file)
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _checksum(secret: bytes) -> bytes:
    return blake2b(secret, digest_size=_CHECKSUM).digest()
