"""A learner: random rankings now and then, otherwise items by the feedback on them."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from peekrank import Shape, kernel
from peekrank.kernels.sorting import SortSpace, shuffle, sort_descending, sort_space
from peekrank.types import Features, Floats, Ints, Kernels


class State(NamedTuple):
    """State: arrays are saved or workspace, scalars are constants."""

    scores: Floats
    share: float
    k: int
    sorting: SortSpace
    order: Ints


@kernel
def _rank(s: State, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if uniforms[0] < s.share:
        shuffle(uniforms[1:], ranking)
        token[0] = 1
    else:
        sort_descending(s.scores, ranking, s.sorting)


@kernel
def _update(s: State, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    if token[0] == 1 and not np.isnan(feedback[0]):
        s.scores[ranking[0]] += feedback[0]


@kernel
def _propensities(s: State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    sort_descending(s.scores, s.order, s.sorting)
    out[:] = s.share * s.k / len(out)
    for p in range(s.k):
        out[s.order[p]] += 1 - s.share


@dataclass(frozen=True)
class Sometimes:
    """Explore in a share of the rounds; otherwise rank by the feedback from these."""

    share: float = 0.1
    name: ClassVar[str] = "sometimes"
    contextual: ClassVar[bool] = False  # uses no features of items ...
    variable_length: ClassVar[bool] = False  # ... and keeps a score for each of a fixed set of them
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255  # accepts all grades
    horizon: ClassVar[None] = None  # is not tuned to a horizon or a measure
    measure: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities)
    persistent: ClassVar[tuple[str, ...]] = ("scores",)  # what a saved agent holds; `init` makes all else

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share}: must be above 0, and at most 1")

    def init(self, shape: Shape) -> State:
        """Return the state before the first round."""
        scores, order = np.zeros(shape.m), np.zeros(shape.m, np.int64)
        return State(scores, self.share, shape.k, sort_space(shape.m), order)

    def validate_state(self, state: State) -> None:
        """Raise ValueError if scores that were read from a file are invalid."""
        if not np.isfinite(state.scores).all():
            raise ValueError("its scores must be finite")

    def scores(self, state: State, X: Features) -> Floats:
        """Return the current estimate of each item."""
        return state.scores

    def token_size(self, shape: Shape) -> int:
        """Return 1: the token only marks rounds that explore."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return the number of uniforms: one to decide, m - 1 to shuffle."""
        return shape.m

    def transform_feedback(self, relevance: np.ndarray[Any, Any]) -> Floats:
        """Return the grades unchanged."""
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: no bound is known."""
