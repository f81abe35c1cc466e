"""The bytes of an agent: format and checksum, a description in JSON, then the numbers of its memory. Never pickle.

What a stranger wrote is believed in nothing: the description is checked, the learner makes a state of its own, and
only its memory is filled, which the learner then checks. What `init` can rebuild is not in the file.
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
from peekrank.learners import learner as learner_named
from peekrank.spec import format_spec
from peekrank.types import Learner, Shape, State

_MAGIC = b"PEEKRANK"
_FORMAT = 2
_FORMAT_BYTES, _LENGTH_BYTES = 2, 4
_DIGEST = slice(len(_MAGIC) + _FORMAT_BYTES, len(_MAGIC) + _FORMAT_BYTES + hashlib.sha256().digest_size)
_MOST_COUNTED = 2**53  # what a float can count to
_LONGEST_LIST = 2**24  # items, for a learner whose memory does not grow with them
_MOST_WORDS = 300
# What the generator of NumPy's default kind is made of, and what its numbers are below
_PCG64 = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}


class SavedAgent(NamedTuple):
    """What a blob holds; the numbers of the memory are still bytes."""

    learner: Learner
    shape: Shape
    bits: np.random.BitGenerator
    names: list[str]
    numbers: bytes


def dump(learner: Learner, shape: Shape, state: State, counts: Counts, rng: np.random.Generator) -> bytes:
    """Pack the memory of a state with the specification that makes the rest of it, and the generator."""
    make_rng: Any = rng.bit_generator.state
    if make_rng["bit_generator"] != "PCG64":
        raise ValueError(f"a {make_rng['bit_generator']} generator cannot be saved; use numpy.random.default_rng")
    memory = _memory(learner, state, counts)
    about = {
        "learner": format_spec(learner),
        "shape": list(shape),
        "generator": {key: (make_rng | make_rng["state"])[key] for key in _PCG64},
        "persistent": list(memory),
        "peekrank": __version__,
    }
    text = json.dumps(about).encode()
    numbers = b"".join(array.astype(_portable(array)).tobytes() for array in memory.values())
    body = len(text).to_bytes(_LENGTH_BYTES, "big") + text + numbers
    return _MAGIC + _FORMAT.to_bytes(_FORMAT_BYTES, "big") + hashlib.sha256(body).digest() + body


def read(blob: bytes, learner: Learner | None = None) -> SavedAgent:
    """Read all but the memory; a ValueError says what is wrong with bytes that are foreign, damaged or forged."""
    if not blob.startswith(_MAGIC):
        raise ValueError("these bytes are not a saved peekrank agent")
    found = int.from_bytes(blob[len(_MAGIC) : _DIGEST.start], "big")
    if found != _FORMAT:
        raise ValueError(f"this agent was saved in format {found}; this peekrank reads format {_FORMAT}")
    body = blob[_DIGEST.stop :]
    if hashlib.sha256(body).digest() != blob[_DIGEST]:
        raise ValueError("this saved agent is damaged: its content does not match its checksum")
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    about, numbers = _described(body[_LENGTH_BYTES:end]), body[end:]
    made = _learner(about["learner"], learner)
    shape = _shape(about["shape"], made, len(numbers))
    names = about["persistent"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("this saved agent is no agent: its memory has no names")
    return SavedAgent(made, shape, _generator(about["generator"]), names, numbers)


def fill(found: SavedAgent, state: State, counts: Counts) -> None:
    """Put the numbers into a state that the learner made; a ValueError if it cannot have reached them."""
    memory, learner = _memory(found.learner, state, counts), format_spec(found.learner)
    size = sum(array.nbytes for array in memory.values())
    if found.names != list(memory) or len(found.numbers) != size:
        raise ValueError(
            f"this saved agent does not fit learner '{learner}': it remembers {excerpt(', '.join(found.names))} "
            f"in {len(found.numbers)} bytes, and the learner {', '.join(memory)} in {size} bytes"
        )
    start = 0
    for array in memory.values():
        there = np.frombuffer(found.numbers, _portable(array), array.size, start)
        array[...] = there.reshape(array.shape)
        start += array.nbytes
    for name, array in counts._asdict().items():
        if np.any((array < 0) | (array > _MOST_COUNTED)):
            raise ValueError(f"this saved agent cannot be right: its number of {name} cannot have been counted")
    if fault := found.learner.fault(state):
        raise ValueError(f"this saved agent cannot be right: {fault}")


def copy_persistent(learner: Learner, state: State, counts: Counts, new_state: State, new_counts: Counts) -> None:
    """Copy what is remembered of items to a state and counts for more items, or for fewer."""
    old, new = _memory(learner, state, counts), _memory(learner, new_state, new_counts)
    for name, array in new.items():
        n = min(len(array), len(old[name]))
        array[:n] = old[name][:n]


def _memory(learner: Learner, state: State, counts: Counts) -> dict[str, NDArray[Any]]:
    """The arrays that are saved, by name."""
    arrays = dict(arrays_of(state))
    if missing := [name for name in learner.persistent if name not in arrays]:
        raise ValueError(f"{learner.name}: its memory names {missing[0]!r}, and its state has no such array")
    return counts._asdict() | {f"state.{name}": arrays[name] for name in learner.persistent}


def _portable(array: NDArray[Any]) -> np.dtype[Any]:
    """The type of an array, in the order of bytes that all machines write."""
    return array.dtype.newbyteorder("<")


def _described(text: bytes) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("this saved agent is no agent: its description is not JSON") from None
    needed = ("learner", "shape", "generator", "persistent")
    if not isinstance(about, dict) or any(name not in about for name in needed):
        raise ValueError(f"this saved agent is no agent: its description must have {', '.join(needed)}")
    return about


def _learner(text: object, given: Learner | None) -> Learner:
    if not isinstance(text, str):
        raise ValueError("this saved agent is no agent: its learner is no text")
    if given is not None:
        if format_spec(given) != text:
            raise ValueError(f"this agent was saved with learner '{excerpt(text)}', not '{format_spec(given)}'")
        return given
    if "measure=game-" in text:
        raise ValueError("this agent plays a game of your own: give its learner too, Agent.load(saved, learner)")
    try:
        return learner_named(text)
    except (ValueError, OverflowError, OSError) as error:
        what = excerpt(str(error), _MOST_WORDS)
        raise ValueError(f"the learner of this saved agent cannot be made: {what}") from None


def _shape(numbers: object, learner: Learner, size: int) -> Shape:
    """The shape, if the memory can be that of so many items."""
    if not (isinstance(numbers, list) and len(numbers) == len(Shape._fields)):
        raise ValueError("this saved agent is no agent: its shape must be three numbers")
    shape = Shape(*numbers)
    try:
        most = _LONGEST_LIST if learner.variable_length else size // np.dtype(np.int64).itemsize
        check_int("m", shape.m, 1, max(1, most))
        check_int("d", shape.d, 0, _LONGEST_LIST)
        check_int("k", shape.k, 1, shape.m)
    except ValueError as error:
        raise ValueError(f"this saved agent cannot be right: {excerpt(str(error))}") from None
    return shape


def _generator(numbers: Any) -> np.random.BitGenerator:
    right = isinstance(numbers, dict) and numbers.keys() == _PCG64.keys()
    if not (right and all(type(numbers[key]) is int and 0 <= numbers[key] < end for key, end in _PCG64.items())):
        raise ValueError("this saved agent cannot be right: its generator is not one of NumPy's default kind")
    make_rng = np.random.PCG64()
    make_rng.state = {
        "bit_generator": "PCG64",
        "state": {"state": numbers["state"], "inc": numbers["inc"] | 1},  # it is odd in all there are
        "has_uint32": numbers["has_uint32"],
        "uinteger": numbers["uinteger"],
    }
    return make_rng


def arrays_of(state: State, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a state, also of states within it, with their names."""
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif hasattr(value, "_fields"):
            yield from arrays_of(value, f"{prefix}{name}.")
