"""A learner: random rankings now and then, otherwise items by the feedback on them."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from peekrank import LearnerDefaults, Shape, kernel
from peekrank.kernels.sorting import SortSpace, shuffle, sort_descending, sort_space
from peekrank.types import Features, Floats, Ints, Kernels


class State(NamedTuple):
    """State: arrays are saved or workspace, scalars are constants."""

    scores: Floats
    share: float
    sorting: SortSpace


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


@dataclass(frozen=True)
class Sometimes(LearnerDefaults):
    """Explore in a share of the rounds; otherwise rank by the feedback from these."""

    share: float = 0.1
    name: ClassVar[str] = "sometimes"
    kernels: ClassVar[Kernels] = Kernels(_rank, _update)
    persistent = ("scores",)  # what a saved agent holds; `init` makes all else

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share}: must be above 0, and at most 1")

    def init(self, shape: Shape) -> State:
        """Return the state before the first round."""
        return State(np.zeros(shape.m), self.share, sort_space(shape.m))
