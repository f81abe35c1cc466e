"""Uniformly random rankings: the baseline without learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.kernels.sorting import shuffle
from peekrank.types import Features, Floats, Ints, Kernels, Shape


class UniformState(NamedTuple):
    """Empty state."""

    k: int


@kernel
def _rank(state: UniformState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    shuffle(uniforms, ranking)
    token[0] = 0


@kernel
def _update(state: UniformState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    pass


@kernel
def _propensities(state: UniformState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    out[:] = min(state.k, len(out)) / len(out)


@dataclass(frozen=True)
class Uniform:
    """Show a uniformly random ranking in every round, and learn nothing.

    >>> from peekrank import Agent
    >>> Agent(Uniform(), m=4, k=1, seed=0).rank().ranking
    array([2, 1, 3, 0])
    """

    name: ClassVar[str] = "uniform"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = True
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities)
    persistent: ClassVar[tuple[str, ...]] = ()

    def init(self, shape: Shape) -> UniformState:
        """Make the state before the first round."""
        return UniformState(shape.k)

    def validate_state(self, state: UniformState) -> None:
        """Accept every state: nothing is saved."""

    def scores(self, state: UniformState, X: Features) -> Floats:
        """Return zeros."""
        return np.zeros(len(X))

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark, which is always 0."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return m - 1: one uniform for each swap of the shuffle."""
        return shape.m - 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the relevance unchanged; this learner ignores it."""
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: the regret is linear."""
