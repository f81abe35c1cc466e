"""A data set in one file that opens at once by memory map, whatever its size.

Eight bytes of magic, four of version, four of the length of the header, SHA-256 of the header, the header as JSON;
then the four arrays, each from a multiple of 64 bytes on. The header says where. All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from math import prod
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from peekrank.files import write_whole
from peekrank.streams.dataset import About, Dataset

SUFFIX = ".peek"
_MAGIC, _VERSION = b"PEEKDATA", 1
_DIGEST = hashlib.sha256().digest_size
_START = len(_MAGIC) + 4 + 4 + _DIGEST
_ALIGNED = 64  # bytes of a cache line, and of the widest vector instruction
_MOST_HEADER = 1 << 20
_KINDS = {"features": ("<f4",), "relevance": ("|u1", "<f4"), "offsets": ("<i8",), "queries": ("<i8",)}


def save_dataset(data: Dataset, path: str | PathLike[str]) -> None:
    """Write a data set, so that there never is half of it under this name.

    >>> import tempfile
    >>> features = np.array([[0.5], [1], [0]], np.float32)
    >>> data = Dataset(features, np.array([2, 0, 1], np.uint8), np.array([0, 2, 3]), np.array([7, 4]), About("x"))
    >>> path = Path(tempfile.mkdtemp(), "train.peek")
    >>> save_dataset(data, path)
    >>> open_dataset(path).relevance
    array([2, 0, 1], dtype=uint8)

    Parameters
    ----------
    data
        What to write.
    path
        Where to; the usual ending is ``.peek``.
    """
    arrays = {name: getattr(data, name) for name in _KINDS}
    places, end = {}, 0
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        if kind not in _KINDS[name]:
            raise ValueError(f"{name} are {array.dtype}: must be {' or '.join(_KINDS[name])}")
        places[name] = {"kind": kind, "shape": list(array.shape), "start": end}
        end = _aligned(end + array.nbytes)
    _check(arrays, str(path))
    header = json.dumps({"about": asdict(data.about), "arrays": places, "size": end}).encode()

    def write(part: Path) -> None:
        with part.open("wb") as file:
            file.write(_MAGIC + _VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little"))
            file.write(hashlib.sha256(header).digest() + header)
            first = _aligned(file.tell())
            for name, array in arrays.items():
                _fill(file, first + places[name]["start"])
                np.ascontiguousarray(array, places[name]["kind"]).tofile(file)
            _fill(file, first + end)

    write_whole(Path(path), write)


def open_dataset(path: str | PathLike[str]) -> Dataset:
    """Open a file of `save_dataset` by memory map: only what is used is read, and writing to it changes no file.

    A file that is foreign, damaged or cut short is a ValueError.
    """
    path = Path(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_START)
        if start[: len(_MAGIC)] != _MAGIC:
            raise ValueError(
                f"{path.name}: is no data set of peekrank; `peekrank data TEXT --out FILE` writes one"
            )
        version, length = (int.from_bytes(start[at : at + 4], "little") for at in (len(_MAGIC), len(_MAGIC) + 4))
        if len(start) == _START and version != _VERSION:
            raise ValueError(f"{path.name}: has format {version}; this peekrank reads format {_VERSION}")
        header = file.read(min(length, _MOST_HEADER))
    if len(start) < _START or len(header) < length <= _MOST_HEADER:
        raise ValueError(f"{path.name}: is cut short within its header")
    if hashlib.sha256(header).digest() != start[-_DIGEST:]:
        raise ValueError(f"{path.name}: is damaged: its header does not match its checksum")
    content = json.loads(header)
    first = _aligned(_START + length)
    if size != first + content["size"]:
        raise ValueError(
            f"{path.name}: has {size:,} bytes instead of {first + content['size']:,}; is it cut short?"
        )
    # Copy on write, so that arrays have the same type as all others: compiled code distinguishes read-only ones.
    memory = np.asarray(np.memmap(path, np.uint8, mode="c"))
    arrays = {name: _view(memory, first, place) for name, place in content["arrays"].items()}
    _check(arrays, path.name)
    return Dataset(**arrays, about=About(**content["about"]))


def _view(memory: NDArray[np.uint8], first: int, place: dict[str, Any]) -> NDArray[Any]:
    kind, shape = np.dtype(place["kind"]), place["shape"]
    start = first + place["start"]
    array: NDArray[Any] = memory[start : start + prod(shape) * kind.itemsize].view(kind)
    return array.reshape(shape)


def _check(arrays: dict[str, NDArray[Any]], name: str) -> None:
    """Raise a ValueError unless the arrays fit together: compiled code trusts the offsets."""
    features, relevance, offsets, queries = (arrays[each] for each in _KINDS)
    fits = (
        features.ndim == 2
        and relevance.shape == features.shape[:1]
        and queries.ndim == 1
        and offsets.shape == (len(queries) + 1,)
        and offsets[0] == 0
        and offsets[-1] == len(features)
        and np.all(offsets[1:] > offsets[:-1])
    )
    if not fits:
        raise ValueError(
            f"{name}: features, relevance, offsets and queries do not fit together; offsets must ascend from 0 to "
            "the number of documents"
        )


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _fill(file: IO[bytes], until: int) -> None:
    file.write(bytes(until - file.tell()))
