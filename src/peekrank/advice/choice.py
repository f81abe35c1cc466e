"""Choice of a learner for a problem: by its guaranteed rate, then by its measured loss on stationary streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import inf, log10
from typing import NamedTuple

import numpy as np

from peekrank import learners, registry
from peekrank.advice import benchmarks
from peekrank.games.feedback import Feedback
from peekrank.games.minimax import rate_of
from peekrank.games.rates import Rate, Verdict
from peekrank.learners._shared import constants, position_weights
from peekrank.measures import learnable
from peekrank.types import Learner, LinearMeasure, Measure, Shape, StochasticBound

_NEVER = 10**18  # a bound that is vacuous up to here counts as always vacuous
_LONG = 10**6  # number of rounds to compare bounds at if the horizon is unknown


class Problem(NamedTuple):
    """A learning problem: a measure of m items, of which k are revealed. The horizon is None if it is unknown."""

    measure: Measure
    m: int
    k: int
    horizon: int | None
    grades: int
    feedback: Feedback = "answers"

    @property
    def has_answers(self) -> bool:
        """Whether feedback is the relevance of each of the first k items, which learners need."""
        alone = self.feedback == "sum" or (self.feedback in ("first", "any") and self.grades == 2)
        return self.feedback == "answers" or (self.k == 1 and alone)

    @property
    def shape(self) -> Shape:
        """Size of the problem, without features."""
        return Shape(self.m, 0, self.k)

    @property
    def verdict(self) -> Verdict:
        """Rate of the ranking game."""
        return rate_of(self.measure, self.m, self.k, self.grades, self.feedback)

    @property
    def benchmark(self) -> tuple[str, int]:
        """Measure and k of the benchmark (ten items) that represents this problem."""
        if _chooses_a_set(learnable(self.measure, self.grades - 1), self.m):
            return "p@3+sum", 1
        if self.k == self.m:
            return "dcg", benchmarks.ITEMS
        return "dcg", benchmarks.ITEMS - 1 if self.verdict.rate is Rate.SQRT else 1


@lru_cache(maxsize=64)
def _chooses_a_set(measure: LinearMeasure, m: int) -> bool:
    """Return whether some positions have equal weights and all others none."""
    weights = position_weights(measure, m)
    return bool(weights[0] > 0 and np.all((weights == 0) | (weights == weights[0])))


class Choice(NamedTuple):
    """A learner, its bound if the horizon is known, and the largest difference of two rankings in a round."""

    learner: Learner
    bound: float | None
    difference: float


def choose(p: Problem) -> Choice | None:
    """Return the learner for relevance that may change arbitrarily, or None if no learner fits.

    It is a learner of finite games only if no other fits.
    """
    if not p.has_answers:
        return None
    best = _best_of(_scalable(), p) or _best_of(learners.FINITE, p)
    if best is None:
        return None
    bound = None if p.horizon is None else best.bound(p.shape, p.horizon)
    return Choice(best, bound, _largest_difference(p))


def _scalable() -> list[str]:
    return [name for name in registry.LEARNERS if name not in learners.FINITE]


def _best_of(names: Iterable[str], p: Problem) -> Learner | None:
    """Return the learner with the best rate; ties by the mean loss, by needing no horizon, then by the bound."""

    def key(learner: Learner) -> tuple[float, float, bool, float]:
        bound = learner.bound(p.shape, p.horizon or _LONG)
        rate, knows_horizon = growth(learner, p.shape), learner.horizon is not None
        return rate.exponent, mean_loss(learner, p), knows_horizon, 0.0 if bound is None else bound

    bounded = [learner for learner in _fitting(names, p) if _has_bound(learner, p)]
    return min(bounded, key=key, default=None)


def choose_for_stationary(p: Problem) -> Learner | None:
    """Return the learner with the smallest measured loss on stationary streams, among those with a theorem."""
    measured = [
        learner
        for learner in _fitting(_scalable(), p)
        if (isinstance(learner, StochasticBound) or _has_bound(learner, p)) and mean_loss(learner, p) < inf
    ]
    return min(measured, key=lambda learner: mean_loss(learner, p), default=None)


def _fitting(names: Iterable[str], p: Problem) -> Iterator[Learner]:
    """Yield the learners that fit the problem, first without a horizon, then with it."""
    for name in names:
        cls = registry.LEARNERS[name]
        if cls.contextual or p.k < cls.min_k or (cls.full_information and p.k < p.m):
            continue
        for horizon in dict.fromkeys((None, p.horizon)):
            context = {} if horizon is None else {"horizon": horizon}
            try:
                learner = learners.learner(name, measure=p.measure, max_grade=p.grades - 1, **context)
            except ValueError:
                continue
            if learner.horizon == horizon:
                yield learner


def _has_bound(learner: Learner, p: Problem) -> bool:
    return learner.bound(p.shape, p.horizon or _LONG) is not None


def mean_loss(learner: Learner, p: Problem) -> float:
    """Return the mean loss of a learner on stationary streams. It is infinite if not measured."""
    try:
        return benchmarks.mean_loss(learner.name, *p.benchmark, knows_horizon=learner.horizon is not None)
    except ValueError:  # no learner learns this measure item by item
        return inf


def _largest_difference(p: Problem) -> float:
    """Return the largest difference of two rankings in a round."""
    try:
        return constants(learnable(p.measure, p.grades - 1), p.m, p.grades - 1).R
    except ValueError:  # then a learner of finite games fits, so listing all rankings is feasible
        from peekrank.learners._finite_games import finite

        return float(np.ptp(finite(p.measure, p.shape, p.grades - 1).game.loss, axis=0).max())


def growth(learner: Learner, shape: Shape) -> Rate:
    """Return the rate closest to the growth of the learner's bound at very long horizons."""
    near, far = learner.bound(shape, 10**30), learner.bound(shape, 10**36)
    slope = log10(far / near) / 6 if near and far else 0.0
    return min(Rate, key=lambda rate: abs(rate.exponent - slope))


def informative_from_round(choice: Choice, p: Problem) -> int | None:
    """Return the approximate horizon from which the bound is informative, in two digits, or None if never."""

    def informative(T: int) -> bool:
        return is_informative(choice.learner.bound(p.shape, T), T * choice.difference)

    first = smallest(1, _NEVER, informative)
    if first is None:
        return None
    # bounds jump a little because of rounding: some horizons close to the first informative one are vacuous
    step: int = 10 ** max(0, len(str(first)) - 2)
    start = -(-first // step) * step
    vacuous = max(
        (T for T in [p.horizon or first, *range(start, 2 * first, step)] if not informative(T)), default=0
    )
    return max(start, (vacuous // step + 1) * step)


def is_informative(bound: float | None, max_regret: float | None) -> bool:
    """Return whether a bound exists and is below the largest possible regret, or that regret is 0."""
    return bound is not None and max_regret is not None and (bound < max_regret or max_regret == 0)


def smallest(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """Return the smallest good number from low to high, or None. All numbers after a good one must be good."""
    numbers = range(low, high + 1)
    index = bisect_left(numbers, 1, key=good)
    return numbers[index] if index < len(numbers) else None
