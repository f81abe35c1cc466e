"""`LearnerDefaults`: a learner that adds only what it needs passes all checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from peekrank import LearnerDefaults, Shape, check_learner, kernel
from peekrank.checks import CheckError
from peekrank.kernels.sorting import SortSpace, shuffle, sort_descending, sort_space
from peekrank.types import Features, Floats, Ints, Kernels


class State(NamedTuple):
    """Sums of answers, and the number of rounds."""

    scores: Floats
    rounds: Ints
    sorting: SortSpace


@kernel
def _rank(s: State, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    s.rounds[0] += 1
    if s.rounds[0] <= 800:
        shuffle(uniforms, ranking)
        token[0] = 1
    else:
        sort_descending(s.scores, ranking, s.sorting)


@kernel
def _update(s: State, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    if token[0] == 1 and not np.isnan(feedback[0]):
        s.scores[ranking[0]] += feedback[0]


@dataclass(frozen=True)
class ExploreThenCommit(LearnerDefaults):
    """Random rankings in the first 800 rounds, then the order by their answers."""

    name: ClassVar[str] = "etc"
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, counts_rounds=True)
    persistent = ("scores", "rounds")

    def init(self, shape: Shape) -> State:
        """Make the state before the first round."""
        return State(np.zeros(shape.m), np.zeros(1, np.int64), sort_space(shape.m))


@dataclass(frozen=True)
class Forgetful(ExploreThenCommit):
    """The same without counts_rounds."""

    kernels: ClassVar[Kernels] = Kernels(_rank, _update)


def test_explore_then_commit_passes_the_checks() -> None:
    check_learner(ExploreThenCommit())


def test_counts_rounds_must_be_set() -> None:
    with pytest.raises(CheckError, match="rank changes rounds, but counts_rounds is not set"):
        check_learner(Forgetful())


def test_states_that_are_no_numbers_are_refused() -> None:
    learner = ExploreThenCommit()
    state = learner.init(Shape(3, 0, 1))
    learner.validate_state(state)
    for broken in (state._replace(scores=np.array([0, np.nan, 0])), state._replace(rounds=np.array([-1]))):
        with pytest.raises(ValueError, match="must be finite, and not negative"):
            learner.validate_state(broken)
    assert learner.scores(state._replace(scores=np.arange(3.0)), np.empty((3, 0), np.float32)).tolist() == [
        0,
        1,
        2,
    ]
