"""The bytes of an agent: a header with version and digest, then NumPy's own format. Never pickle."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank import __version__
from peekrank.learners import learner as learner_named
from peekrank.spec import text_of
from peekrank.types import Learner, Shape, State

_MAGIC = b"PEEKRANK"
_VERSION = 1
_HEADER = len(_MAGIC) + 2 + hashlib.sha256().digest_size


class Saved(NamedTuple):
    """What a blob holds."""

    learner: Learner
    shape: Shape
    state: State
    rng: np.random.Generator


def dump(learner: Learner, shape: Shape, state: State, rng: np.random.Generator) -> bytes:
    """Pack the arrays of a state with the specification that makes its constants, and the generator."""
    generator = rng.bit_generator.state
    if generator["bit_generator"] != "PCG64":
        raise ValueError(f"a {generator['bit_generator']} generator cannot be saved; use numpy.random.default_rng")
    about = {
        "learner": text_of(learner),
        "shape": list(shape),
        "generator": generator,
        "peekrank": __version__,
    }
    payload = io.BytesIO()
    arrays = {f"state.{path}": array for path, array in arrays_of(state)}
    np.savez(payload, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    body = payload.getvalue()
    return _MAGIC + _VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body


def load(blob: bytes, learner: Learner | None = None) -> Saved:
    """Unpack a blob; a ValueError says what is wrong with one that is foreign, damaged or of another learner."""
    if not blob.startswith(_MAGIC):
        raise ValueError("these bytes are not a saved peekrank agent")
    saved_version = int.from_bytes(blob[len(_MAGIC) : len(_MAGIC) + 2], "big")
    if saved_version != _VERSION:
        raise ValueError(f"this agent was saved in format {saved_version}; this peekrank reads format {_VERSION}")
    digest, body = blob[len(_MAGIC) + 2 : _HEADER], blob[_HEADER:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("this saved agent is damaged: its content does not match its checksum")
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        content = dict(arrays)
    about = json.loads(content.pop("about").tobytes())
    if learner is None:
        if "measure=game-" in about["learner"]:
            raise ValueError(
                "this agent plays a game of your own: give its learner too, Agent.load(saved, learner)"
            )
        learner = learner_named(about["learner"])
    elif text_of(learner) != about["learner"]:
        raise ValueError(f"this agent was saved with learner '{about['learner']}', not '{text_of(learner)}'")
    shape = Shape(*about["shape"])
    state = learner.init(shape)
    for path, array in arrays_of(state):
        stored = content.pop(f"state.{path}", None)
        if stored is None or (stored.shape, stored.dtype) != (array.shape, array.dtype):
            raise ValueError(f"this saved agent does not fit learner '{about['learner']}': its {path} differs")
        array[:] = stored
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = about["generator"]
    return Saved(learner, shape, state, rng)


def arrays_of(state: State, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a state, also of states within it, with their names."""
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif hasattr(value, "_fields"):
            yield from arrays_of(value, f"{prefix}{name}.")
