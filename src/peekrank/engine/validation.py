"""The border of the engine: what comes in is checked, and made into what kernels are compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._util.text import excerpt
from peekrank._util.validate import whole
from peekrank.types import Ints, Learner, Shape, missing_members

Seed = int | np.integer[Any] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator


def generator(seed: Seed) -> np.random.Generator:
    """The randomness of a learner.

    A number gives another generator than ``default_rng`` makes of it, so that rounds drawn from
    ``default_rng(0)`` and a learner with ``seed=0`` are independent: the theorems need that.

    >>> bool(generator(0).random() == np.random.default_rng(0).random())
    False
    """
    if isinstance(seed, int | np.integer):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(1,)))
    return np.random.default_rng(seed)


def problem_shape(learner: Learner, *, m: int, k: int, d: int = 0) -> Shape:
    """The shape a learner works in, checked; a learner with full information has k = m.

    >>> from peekrank.learners import Uniform
    >>> problem_shape(Uniform(), m=10, k=11)
    Traceback (most recent call last):
    ...
    ValueError: k = 11: must be between 1 and the number of items, m = 10
    """
    if missing := missing_members(learner):
        raise ValueError(f"{learner!r} is no learner: it lacks {', '.join(missing)} (see peekrank.types.Learner)")
    whole("m", m, 1)
    whole("d", d, 0)
    whole("k", k, 1)
    if k > m:
        raise ValueError(f"k = {k}: must be between 1 and the number of items, m = {m}")
    if k < learner.min_k:
        raise ValueError(f"k = {k}: {learner.name} needs k = {learner.min_k} at least")
    if learner.contextual and d < 1:
        raise ValueError(f"{learner.name} needs items with features, and these have none")
    return Shape(int(m), int(d), int(m if learner.full_information else k))


def whole_numbers(ranking: ArrayLike, n: int) -> Ints:
    """The ranking of a decision over n items, if it holds whole numbers."""
    given = np.asarray(ranking)
    if given.dtype.kind not in "iu":
        what = f"must hold whole numbers, and not {given.dtype}"
        raise ValueError(f"ranking of the decision {line_of(given)}: {what}")
    return array_of(given, np.int64, (n,), "ranking of the decision")


def line_of(array: NDArray[Any]) -> str:
    """An array as far as a line has room for it."""
    return excerpt(" ".join(str(array).split()), 200)


def array_of(values: ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """What kernels are compiled for; a ValueError if the shape is not as it must be."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} of shape {array.shape}: must be of shape {shape}")
    return array if array.flags.carray else array.copy()  # aligned and writable, too
