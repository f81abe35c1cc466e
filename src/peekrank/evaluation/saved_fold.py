"""State of an interrupted evaluation: a file in the results folder, with digests of the log and of itself."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import tokenize
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from peekrank._util.atomic import write_whole
from peekrank._util.code_digest import code_digest
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import check_memory, read_whole
from peekrank._util.untrusted_json import read_json
from peekrank.evaluation.evaluation import Fold
from peekrank.evaluation.policies import Ranker
from peekrank.evaluation.sources import LogSource

_MAGIC = b"peekrank-evaluation 1 "
_PAUSE = 5.0  # seconds between two writes
_ABOUT = {"log": "log", "settings": "settings", "code": "version of peekrank"}
_LARGEST = 1e100
_DAMAGES = (  # what the readers of JSON, of ZIP and of arrays raise
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, EOFError, RuntimeError,
    MemoryError, BadZipFile, zlib.error, struct.error, tokenize.TokenError,
)  # fmt: skip


class SavedFold:
    """A file from which an interrupted evaluation continues.

    Parameters
    ----------
    path
        The file; it need not exist.
    source
        The log, whose content must be the same when the evaluation continues.
    settings
        All that the result depends on besides the log and the code.
    pause
        Seconds between two writes.
    """

    def __init__(self, path: Path, source: LogSource, settings: dict[str, Any], *, pause: float = _PAUSE) -> None:
        self._path, self._pause, self._latest = path, pause, time.monotonic()
        self.resumed = False
        self._about = {
            "settings": settings,
            "log": source.digest(),
            "code": code_digest("peekrank.evaluation.evaluation"),
        }

    def load(self, fold: Fold, rankers: Sequence[Ranker]) -> None:
        """Continue a fold from the file, if it exists.

        Raises ValueError if the file is of another log, other settings or another version, or if it is damaged.
        """
        if not self._path.exists():
            return
        content = read_whole(self._path)
        head, body = content[: len(_MAGIC) + 64], content[len(_MAGIC) + 65 :]
        if head != _MAGIC + hashlib.blake2b(body, digest_size=32).hexdigest().encode():
            raise ValueError(f"{self._path} is damaged; remove it to evaluate from the beginning")
        try:
            about, _, packed = body.partition(b"\n")
            saved, arrays = read_json(about), _arrays(packed)
            other = [what for name, what in _ABOUT.items() if saved[name] != self._expected(name)]
            if not other:
                fold.restore(arrays)
                for ranker, state in zip(rankers, saved["rankers"], strict=True):
                    ranker.restore(state)
        except _DAMAGES as error:
            reason = excerpt(str(error)) or type(error).__name__
            raise ValueError(
                f"{self._path} is damaged ({reason}); remove it to evaluate from the beginning"
            ) from None
        if other:
            raise ValueError(
                f"{self._path} is of an interrupted evaluation with another {other[0]}; remove it, or choose "
                "another folder"
            )
        self.resumed = True

    def _expected(self, name: str) -> Any:
        return json.loads(json.dumps(self._about[name]))

    @property
    def exists(self) -> bool:
        """Whether there is a file to continue from."""
        return self._path.exists()

    def save(self, fold: Fold, rankers: Sequence[Ranker]) -> None:
        """Write the state, unless it was written a moment ago."""
        if time.monotonic() - self._latest < self._pause:
            return
        states = [ranker.state() for ranker in rankers]
        if None in states:
            return
        arrays = BytesIO()
        np.savez(arrays, **fold.state())  # type: ignore[arg-type]
        body = json.dumps({**self._about, "rankers": states}).encode() + b"\n" + arrays.getvalue()
        head = _MAGIC + hashlib.blake2b(body, digest_size=32).hexdigest().encode() + b"\n"
        write_whole(self._path, lambda part: part.write_bytes(head + body))
        self._latest = time.monotonic()

    def remove(self) -> None:
        """Remove the file, after the evaluation has ended."""
        self._path.unlink(missing_ok=True)


def _arrays(packed: bytes) -> dict[str, NDArray[Any]]:
    """Read arrays of numbers. Raises ValueError, or another error, if they cannot be those of an evaluation."""
    with ZipFile(BytesIO(packed)) as file:
        needed = sum(part.file_size for part in file.infolist())
    if why := check_memory(needed, len(packed)):
        raise ValueError(why)
    with np.load(BytesIO(packed), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        missing = np.isnan(array) if name.endswith(".stored") else np.zeros(array.shape, bool)
        if not (array.dtype.kind in "fi" and (missing | (np.abs(array) <= _LARGEST)).all()):
            raise ValueError(f"{name} is out of range")
    return arrays
