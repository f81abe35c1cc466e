"""Serialisation of agents: format and checksum, a JSON description, then the persistent arrays. Never pickle.

The bytes are untrusted. The description is validated, the learner makes its own state, only the persistent arrays
are filled, and the learner then validates them. The file holds nothing that `init` can rebuild.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank import __version__
from peekrank._util.text import excerpt
from peekrank._util.validate import check_int
from peekrank.engine.entry_points import Counts
from peekrank.engine.rules import Rules, as_json, from_json
from peekrank.learners import learner as learner_named
from peekrank.spec import format_spec
from peekrank.types import Learner, Shape, State

_MAGIC = b"PEEKRANK"
_FORMAT, _FORMAT_WITH_RULES = 2, 3  # what cannot read rules must not drop them
_FORMAT_BYTES, _LENGTH_BYTES = 2, 4
_DIGEST = slice(len(_MAGIC) + _FORMAT_BYTES, len(_MAGIC) + _FORMAT_BYTES + hashlib.sha256().digest_size)
_MAX_COUNT = 2**53  # the largest count that a float represents exactly
_LONGEST_LIST = 2**24  # items, for a learner whose state does not grow with them
_MAX_CHARACTERS = 300
# The fields of NumPy's default generator, each with the exclusive upper limit of its value
_PCG64 = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}


class SavedAgent(NamedTuple):
    """Content of a blob; the persistent arrays are still bytes."""

    learner: Learner
    shape: Shape
    bits: np.random.BitGenerator
    names: list[str]
    numbers: bytes
    rules: Rules | None


def dump(
    learner: Learner, shape: Shape, state: State, counts: Counts, rng: np.random.Generator, rules: Rules | None
) -> bytes:
    """Pack the persistent arrays of a state, the learner's specification, the generator, and the rules."""
    bits: Any = rng.bit_generator.state
    if bits["bit_generator"] != "PCG64":
        raise ValueError(f"a {bits['bit_generator']} generator cannot be saved; use numpy.random.default_rng")
    arrays = _persistent(learner, state, counts)
    about = {
        "learner": format_spec(learner),
        "shape": list(shape),
        "generator": {key: (bits | bits["state"])[key] for key in _PCG64},
        "persistent": list(arrays),
        "peekrank": __version__,
    }
    if rules is not None:
        about["rules"] = as_json(rules)
    text = json.dumps(about).encode()
    numbers = b"".join(array.astype(_portable(array)).tobytes() for array in arrays.values())
    body = len(text).to_bytes(_LENGTH_BYTES, "big") + text + numbers
    version = _FORMAT if rules is None else _FORMAT_WITH_RULES
    return _MAGIC + version.to_bytes(_FORMAT_BYTES, "big") + hashlib.sha256(body).digest() + body


def read(blob: bytes, learner: Learner | None = None) -> SavedAgent:
    """Read all but the arrays. Raises ValueError, with the reason, for foreign, damaged or forged bytes."""
    if not blob.startswith(_MAGIC):
        raise ValueError("these bytes are not a saved peekrank agent")
    version = int.from_bytes(blob[len(_MAGIC) : _DIGEST.start], "big")
    if version not in (_FORMAT, _FORMAT_WITH_RULES):
        raise ValueError(f"this agent was saved in format {version}; this peekrank reads formats 2 and 3")
    body = blob[_DIGEST.stop :]
    if hashlib.sha256(body).digest() != blob[_DIGEST]:
        raise ValueError("this saved agent is damaged: its content does not match its checksum")
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    about, numbers = _parse_description(body[_LENGTH_BYTES:end]), body[end:]
    parsed = _learner(about["learner"], learner)
    shape = _shape(about["shape"], parsed, len(numbers))
    names = about["persistent"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("this saved agent is invalid: its arrays have no names")
    return SavedAgent(parsed, shape, _generator(about["generator"]), names, numbers, _rules(about, version))


def fill(saved: SavedAgent, state: State, counts: Counts) -> None:
    """Fill a state that the learner made with saved numbers. Raises ValueError if they are invalid."""
    arrays, learner = _persistent(saved.learner, state, counts), format_spec(saved.learner)
    size = sum(array.nbytes for array in arrays.values())
    if saved.names != list(arrays) or len(saved.numbers) != size:
        raise ValueError(
            f"this saved agent does not fit learner '{learner}': it holds {excerpt(', '.join(saved.names))} "
            f"in {len(saved.numbers)} bytes, but the learner has {excerpt(', '.join(arrays), _MAX_CHARACTERS)} "
            f"in {size} bytes"
        )
    start = 0
    for array in arrays.values():
        values = np.frombuffer(saved.numbers, _portable(array), array.size, start)
        array[...] = values.reshape(array.shape)
        start += array.nbytes
    for name, array in counts._asdict().items():
        if np.any((array < 0) | (array > _MAX_COUNT)):
            raise ValueError(f"this saved agent is invalid: its number of {name} is out of range")
    try:
        saved.learner.validate_state(state)
    except ValueError as error:
        raise ValueError(f"this saved agent is invalid: {error}") from None


def copy_persistent(learner: Learner, state: State, counts: Counts, new_state: State, new_counts: Counts) -> None:
    """Copy the persistent arrays to a state and counts for more items, or for fewer."""
    old, new = _persistent(learner, state, counts), _persistent(learner, new_state, new_counts)
    for name, array in new.items():
        n = min(len(array), len(old[name]))
        array[:n] = old[name][:n]


def _persistent(learner: Learner, state: State, counts: Counts) -> dict[str, NDArray[Any]]:
    """Return the arrays to save, by name."""
    arrays = dict(arrays_of(state))
    if missing := [name for name in learner.persistent if name not in arrays]:
        raise ValueError(f"{learner.name}: persistent names {missing[0]!r}, but its state has no such array")
    return counts._asdict() | {f"state.{name}": arrays[name] for name in learner.persistent}


def _portable(array: NDArray[Any]) -> np.dtype[Any]:
    """Return the type of an array in little-endian byte order."""
    return array.dtype.newbyteorder("<")


def _parse_description(text: bytes) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("this saved agent is invalid: its description is not JSON") from None
    needed = ("learner", "shape", "generator", "persistent")
    if not isinstance(about, dict) or any(name not in about for name in needed):
        raise ValueError(f"this saved agent is invalid: its description must have {', '.join(needed)}")
    return about


def _learner(text: object, learner: Learner | None) -> Learner:
    if not isinstance(text, str):
        raise ValueError("this saved agent is invalid: its learner is not a text")
    if learner is not None:
        if format_spec(learner) != text:
            raise ValueError(f"this agent was saved with learner '{excerpt(text)}', not '{format_spec(learner)}'")
        return learner
    if "measure=game-" in text:
        raise ValueError("this agent plays a custom game: pass its learner as well, Agent.load(saved, learner)")
    try:
        return learner_named(text)
    except (ValueError, OverflowError, OSError) as error:
        reason = excerpt(str(error), _MAX_CHARACTERS)
        raise ValueError(f"the learner of this saved agent cannot be restored: {reason}") from None


def _shape(numbers: object, learner: Learner, size: int) -> Shape:
    """Validate the shape against the size of the saved arrays and return it."""
    if not (isinstance(numbers, list) and len(numbers) == len(Shape._fields)):
        raise ValueError("this saved agent is invalid: its shape must be three numbers")
    shape = Shape(*numbers)
    try:
        max_m = _LONGEST_LIST if learner.variable_length else size // np.dtype(np.int64).itemsize
        check_int("m", shape.m, 1, max(1, max_m))
        check_int("d", shape.d, 0, _LONGEST_LIST)
        check_int("k", shape.k, 1, shape.m)
    except ValueError as error:
        raise ValueError(f"this saved agent is invalid: {excerpt(str(error))}") from None
    return shape


def _rules(about: dict[str, Any], version: int) -> Rules | None:
    if ("rules" in about) != (version == _FORMAT_WITH_RULES):
        raise ValueError("this saved agent is invalid: only format 3 has rules")
    try:
        return from_json(about["rules"]) if "rules" in about else None
    except ValueError as error:
        raise ValueError(f"this saved agent is invalid: {excerpt(str(error))}") from None


def _generator(numbers: Any) -> np.random.BitGenerator:
    has_fields = isinstance(numbers, dict) and numbers.keys() == _PCG64.keys()
    if not (
        has_fields and all(type(numbers[key]) is int and 0 <= numbers[key] < end for key, end in _PCG64.items())
    ):
        raise ValueError("this saved agent is invalid: its generator is not a PCG64, NumPy's default")
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": numbers["state"], "inc": numbers["inc"] | 1},  # an increment is always odd
        "has_uint32": numbers["has_uint32"],
        "uinteger": numbers["uinteger"],
    }
    return bits


def arrays_of(state: State, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the names and arrays of a state, including those of nested states."""
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif hasattr(value, "_fields"):
            yield from arrays_of(value, f"{prefix}{name}.")
