"""The `.peek` format: a data set in one memory-mapped file, which opens instantly.

The file has eight bytes of magic, four of version, four of the length of the header, SHA-256 of the header, and
the header as JSON. The arrays follow, each aligned to 64 bytes; the header holds their locations. All numbers are
little-endian.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, fields
from math import prod
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from peekrank._util.atomic import write_whole
from peekrank._util.text import excerpt
from peekrank._util.untrusted_json import read_json
from peekrank.data.columns import columns_from_json
from peekrank.data.dataset import Dataset, Provenance, check_finite

SUFFIX = ".peek"
_MAGIC, _VERSION = b"PEEKDATA", 1
_DIGEST = hashlib.sha256().digest_size
_START = len(_MAGIC) + 4 + 4 + _DIGEST
_ALIGNED = 64  # bytes of a cache line and of the widest vector instruction
_MAX_HEADER = 1 << 20
_KINDS = {"features": ("<f4",), "relevance": ("|u1", "<f4"), "offsets": ("<i8",), "queries": ("<i8",)}
_KINDS |= {"names": ("|u1",), "documents": ("|u1",)}
_DIMENSIONS = {"features": 2, "relevance": 1, "offsets": 1, "queries": 1, "names": 1, "documents": 1}
_TEXTS = ("names", "documents")  # optional; UTF-8, each text followed by a line feed


def save_dataset(data: Dataset, path: str | PathLike[str]) -> None:
    """Write a data set atomically. Raises ValueError if a number is not finite.

    >>> import tempfile
    >>> features = np.array([[0.5], [1], [0]], np.float32)
    >>> relevance, offsets = np.array([2, 0, 1], np.uint8), np.array([0, 2, 3])
    >>> data = Dataset(features, relevance, offsets, np.array([7, 4]), Provenance("x"))
    >>> path = Path(tempfile.mkdtemp(), "train.peek")
    >>> save_dataset(data, path)
    >>> open_dataset(path).relevance
    array([2, 0, 1], dtype=uint8)

    Parameters
    ----------
    data
        The data set.
    path
        The file, by convention with the suffix ``.peek``.
    """
    arrays = {name: getattr(data, name) for name in _KINDS if name not in _TEXTS}
    arrays |= {name: _pack(getattr(data, name)) for name in _TEXTS if getattr(data, name)}
    locations, end = {}, 0
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        if kind not in _KINDS[name]:
            raise ValueError(f"{name} are {array.dtype}: must be {' or '.join(_KINDS[name])}")
        locations[name] = {"kind": kind, "shape": list(array.shape), "start": end}
        end = _aligned(end + array.nbytes)
    _check(arrays, str(path))
    check_finite(data, str(path))
    header = json.dumps({"about": data.about.as_dict(), "arrays": locations, "size": end}).encode()

    def write(part: Path) -> None:
        with part.open("wb") as file:
            file.write(_MAGIC + _VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little"))
            file.write(hashlib.sha256(header).digest() + header)
            first = _aligned(file.tell())
            for name, array in arrays.items():
                _fill(file, first + locations[name]["start"])
                file.write(np.ascontiguousarray(array, locations[name]["kind"]).data)
            _fill(file, first + end)

    write_whole(Path(path), write)


def is_compact(path: Path) -> bool:
    """Return whether a file has the format or the suffix of `save_dataset`. Does not read from pipes."""
    if path.suffix == SUFFIX:
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def open_dataset(path: str | PathLike[str]) -> Dataset:
    """Open a file of `save_dataset` by memory map. Only used pages are read, and writing does not change the file.

    Raises ValueError if the file has another format, is damaged or is truncated.
    """
    path = Path(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_START)
        if start[: len(_MAGIC)] != _MAGIC:
            raise ValueError(
                f"{path.name}: is not a peekrank data set; `peekrank data TEXT --out FILE` writes one"
            )
        version, length = (int.from_bytes(start[at : at + 4], "little") for at in (len(_MAGIC), len(_MAGIC) + 4))
        if len(start) == _START and version != _VERSION:
            raise ValueError(f"{path.name}: has format {version}; this peekrank reads format {_VERSION}")
        header = file.read(min(length, _MAX_HEADER))
    if len(start) < _START or len(header) < length <= _MAX_HEADER:
        raise ValueError(f"{path.name}: is truncated within its header")
    if hashlib.sha256(header).digest() != start[-_DIGEST:]:
        raise ValueError(f"{path.name}: is damaged: its header does not match its checksum")
    about, locations, end = _read_header(header, path.name)
    first = _aligned(_START + length)
    if size != first + end:
        raise ValueError(f"{path.name}: has {size:,} bytes instead of {first + end:,}; is it truncated?")
    # Copy on write makes the arrays writable. Compiled code treats read-only arrays as another type.
    memory = np.asarray(np.memmap(path, np.uint8, mode="c"))
    arrays = {name: _view(memory, first, location) for name, location in locations.items()}
    _check(arrays, path.name)
    names = _unpack(arrays.get("names"), path.name, "names", len(arrays["queries"]))
    documents = _unpack(arrays.get("documents"), path.name, "documents", len(arrays["features"]))
    features, relevance, offsets, queries = (arrays[each] for each in _KINDS if each not in _TEXTS)
    return Dataset(features, relevance, offsets, queries, about, names, documents)


def _read_header(text: bytes, name: str) -> tuple[Provenance, dict[str, Any], int]:
    """Parse and validate the header. Return provenance, locations of the arrays, and their size in bytes."""
    try:
        content = read_json(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.keys() != {"about", "arrays", "size"}:
        raise ValueError(f"{name}: its header must be JSON with exactly about, arrays and size")
    about, locations, size = content["about"], content["arrays"], content["size"]
    if not _natural(size):
        raise ValueError(f"{name}: its header has the size {excerpt(repr(size))}: must be a whole number")
    if not isinstance(locations, dict) or not _KINDS.keys() - {*_TEXTS} <= locations.keys() <= _KINDS.keys():
        raise ValueError(f"{name}: its header must have exactly the arrays {', '.join(_KINDS)}")
    for array, location in locations.items():
        if not _is_valid_location(array, location, size):
            raise ValueError(
                f"{name}: its header has an invalid kind, shape or start of {array}: {excerpt(repr(location))}"
            )
    return _read_about(about, locations["features"]["shape"][1], name), locations, size


def _is_valid_location(name: str, location: Any, size: int) -> bool:
    """Return whether the location of an array in the header is valid."""
    if not isinstance(location, dict) or location.keys() != {"kind", "shape", "start"}:
        return False
    kind, shape, start = location["kind"], location["shape"], location["start"]
    return (
        kind in _KINDS[name]
        and isinstance(shape, list)
        and len(shape) == _DIMENSIONS[name]
        and all(map(_natural, (*shape, start)))
        and start % _ALIGNED == 0
        and start + prod(shape) * np.dtype(kind).itemsize <= size
    )


def _read_about(about: Any, features: int, name: str) -> Provenance:
    example = {**asdict(Provenance("")), "columns": []}
    if not isinstance(about, dict) or "source" not in about:
        raise ValueError(f"{name}: its header has no source in about")
    for key, value in about.items():
        if key not in example:
            known = ", ".join(field.name for field in fields(Provenance))
            raise ValueError(
                f"{name}: its header has an unknown field {excerpt(repr(key))} of about: must be one of {known}"
            )
        if type(value) is not type(example[key]):
            expected = type(example[key]).__name__
            raise ValueError(
                f"{name}: its header has {key} = {excerpt(repr(value))} in about: must be of type {expected}"
            )
    if not all(map(_natural, about.get("warnings", {}).values())):
        counts = excerpt(repr(about["warnings"]))
        raise ValueError(f"{name}: its header has warnings that are not counts: {counts}")
    try:
        columns = columns_from_json(about.get("columns", []), features)
    except ValueError as error:
        raise ValueError(f"{name}: its header {error}") from None
    return Provenance(**{**about, "columns": columns})


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _view(memory: NDArray[np.uint8], first: int, location: dict[str, Any]) -> NDArray[Any]:
    kind, shape = np.dtype(location["kind"]), location["shape"]
    start = first + location["start"]
    array: NDArray[Any] = memory[start : start + prod(shape) * kind.itemsize].view(kind)
    return array.reshape(shape)


def _check(arrays: dict[str, NDArray[Any]], name: str) -> None:
    """Raise ValueError unless the arrays fit together. Compiled code relies on the offsets."""
    features, relevance, offsets, queries = (arrays[each] for each in _KINDS if each not in _TEXTS)
    fits = (
        features.ndim == 2
        and relevance.shape == features.shape[:1]
        and features.size > 0
        and queries.ndim == 1
        and offsets.shape == (len(queries) + 1,)
        and offsets[0] == 0
        and offsets[-1] == len(features)
        and np.all(offsets[1:] > offsets[:-1])
    )
    if not fits:
        raise ValueError(
            f"{name}: features, relevance, offsets and queries do not fit together, or are empty; offsets must "
            "ascend from 0 to the number of documents"
        )


def _pack(texts: tuple[str, ...]) -> NDArray[np.uint8]:
    """Join texts, which contain no line feeds, into one array, each followed by a line feed."""
    return np.frombuffer("".join(f"{text}\n" for text in texts).encode(), np.uint8)


def _unpack(array: NDArray[np.uint8] | None, name: str, field: str, count: int) -> tuple[str, ...]:
    if array is None:
        return ()
    try:
        texts = array.tobytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: its {field} are not UTF-8 text") from None
    if len(texts) != count + 1 or texts[-1]:
        raise ValueError(f"{name}: has {len(texts) - 1:,} {field}: must be {count:,}, each with a line feed")
    return tuple(texts[:-1])


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _fill(file: IO[bytes], until: int) -> None:
    file.write(bytes(until - file.tell()))
