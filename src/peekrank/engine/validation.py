"""Validation of the engine's inputs, and their conversion to the types that kernels are compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._util.text import excerpt
from peekrank._util.validate import check_int
from peekrank.types import Ints, Learner, Shape, missing_members

Seed = int | np.integer[Any] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator


def make_rng(seed: Seed) -> np.random.Generator:
    """Return the random generator of a learner.

    A number seeds it differently from ``default_rng``. So rounds drawn from ``default_rng(0)`` and a learner with
    ``seed=0`` are independent, as the theorems require.

    >>> bool(make_rng(0).random() == np.random.default_rng(0).random())
    False
    """
    if isinstance(seed, int | np.integer):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(1,)))
    return np.random.default_rng(seed)


def problem_shape(learner: Learner, *, m: int, k: int, d: int = 0) -> Shape:
    """Validate m, k and d for a learner and return the shape. A learner with full information gets k = m.

    >>> from peekrank.learners import Uniform
    >>> problem_shape(Uniform(), m=10, k=11)
    Traceback (most recent call last):
    ...
    ValueError: k = 11: must be between 1 and the number of items, m = 10
    """
    if missing := missing_members(learner):
        raise ValueError(f"{learner!r} is no learner: it lacks {', '.join(missing)} (see peekrank.types.Learner)")
    check_int("m", m, 1)
    check_int("d", d, 0)
    check_int("k", k, 1)
    if k > m:
        raise ValueError(f"k = {k}: must be between 1 and the number of items, m = {m}")
    if k < learner.min_k:
        raise ValueError(f"k = {k}: {learner.name} needs at least k = {learner.min_k}")
    if learner.contextual and d < 1:
        raise ValueError(f"{learner.name} needs items with features, but these have none")
    return Shape(int(m), int(d), int(m if learner.full_information else k))


def as_ranking(ranking: ArrayLike, n: int) -> Ints:
    """Return the ranking of a decision over n items as int64. Raises ValueError unless it holds whole numbers."""
    items = np.asarray(ranking)
    if items.dtype.kind not in "iu":
        reason = f"must hold whole numbers, not {items.dtype}"
        raise ValueError(f"ranking of the decision {abbreviate(items)}: {reason}")
    return as_array(items, np.int64, (n,), "ranking of the decision")


def abbreviate(array: NDArray[Any]) -> str:
    """Return the text of an array, shortened to one line."""
    return excerpt(" ".join(str(array).split()), 200)


def rows_of(values: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """Return values of any type, one for each item of a list. Raises ValueError if there are more or fewer."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} of shape {array.shape}: must be of shape ({n},)")
    return array


def as_array(values: ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Return values as an aligned, writable C array of this type. Raises ValueError if the shape differs."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} of shape {array.shape}: must be of shape {shape}")
    return array if array.flags.carray else array.copy()  # a copy is aligned and writable
