"""Which learner for a problem: by its guaranteed rate, then by what was lost on stationary streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import inf, log10
from typing import NamedTuple

import numpy as np

from peekrank import learners, registry
from peekrank.advice import benchmarks
from peekrank.games.rate import Rate, Verdict
from peekrank.games.rates import rate_of
from peekrank.learners._shared import constants, position_weights
from peekrank.measures import learnable
from peekrank.types import Learner, LinearMeasure, Measure, Shape, StochasticBound

_NEVER = 10**18  # a bound that says nothing up to here is taken to say nothing ever
_LONG = 10**6  # rounds at which bounds are compared where no number of rounds is known


class Problem(NamedTuple):
    """What is to be learned: a measure of m items, k of which are seen; no horizon where it is not known."""

    measure: Measure
    m: int
    k: int
    horizon: int | None
    grades: int

    @property
    def shape(self) -> Shape:
        """Its size, without features."""
        return Shape(self.m, 0, self.k)

    @property
    def verdict(self) -> Verdict:
        """The rate that its game allows."""
        return rate_of(self.measure, self.m, self.k, self.grades)

    @property
    def measured(self) -> tuple[str, int]:
        """The measure, and k of ten items, that stands for this problem in what was measured."""
        if _chooses_a_set(learnable(self.measure, self.grades - 1), self.m):
            return "p@3+sum", 1
        if self.k == self.m:
            return "dcg", evidence.ITEMS
        return "dcg", evidence.ITEMS - 1 if self.verdict.rate is Rate.SQRT else 1


@lru_cache(maxsize=64)
def _chooses_a_set(measure: LinearMeasure, m: int) -> bool:
    """Whether some positions count, all the same, and the others do not."""
    weights = position_weights(measure, m)
    return bool(weights[0] > 0 and np.all((weights == 0) | (weights == weights[0])))


class Choice(NamedTuple):
    """A learner, its bound if the number of rounds is known, and what two rankings can differ by in a round."""

    learner: Learner
    bound: float | None
    difference: float


def choose(p: Problem) -> Choice | None:
    """The learner for relevance that may change at will; learners of finite games only if no other fits."""
    best = _best_of(_quick(), p) or _best_of(learners.FINITE, p)
    if best is None:
        return None
    bound = None if p.horizon is None else best.bound(p.shape, p.horizon)
    return Choice(best, bound, _largest_difference(p))


def _quick() -> list[str]:
    return [name for name in registry.LEARNERS if name not in learners.FINITE]


def _best_of(names: Iterable[str], p: Problem) -> Learner | None:
    """The best guaranteed rate, then the least usual loss, then no horizon to be told, then the smallest bound."""

    def key(learner: Learner) -> tuple[float, float, bool, float]:
        bound = learner.bound(p.shape, p.horizon or _LONG)
        rate, told = growth(learner, p.shape), learner.horizon is not None
        return rate.exponent, mean_loss(learner, p), told, 0.0 if bound is None else bound

    promising = [found for found in _fitting(names, p) if _promises(found, p)]
    return min(promising, key=key, default=None)


def for_stable(p: Problem) -> Learner | None:
    """The measured learner with a theorem that lost least on stationary streams."""
    found = [
        learner
        for learner in _fitting(_quick(), p)
        if (isinstance(learner, StochasticBound) or _promises(learner, p)) and mean_loss(learner, p) < inf
    ]
    return min(found, key=lambda learner: mean_loss(learner, p), default=None)


def _fitting(names: Iterable[str], p: Problem) -> Iterator[Learner]:
    """The learners that fit: without a horizon, and told it."""
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


def _promises(learner: Learner, p: Problem) -> bool:
    return learner.bound(p.shape, p.horizon or _LONG) is not None


def mean_loss(learner: Learner, p: Problem) -> float:
    """What a learner lost on stationary streams; infinite where that was not measured."""
    try:
        return evidence.loss_by_stream(learner.name, *p.measured, told=learner.horizon is not None)
    except ValueError:  # a measure that is not learned item by item
        return inf


def _largest_difference(p: Problem) -> float:
    """What two rankings can differ by in a round."""
    try:
        return constants(learnable(p.measure, p.grades - 1), p.m, p.grades - 1).R
    except ValueError:  # then a learner of finite games fits, so that all rankings can be listed
        from peekrank.learners._finite_games import finite

        return float(np.ptp(finite(p.measure, p.shape, p.grades - 1).game.loss, axis=0).max())


def growth(learner: Learner, shape: Shape) -> Rate:
    """The rate that is closest to how a bound grows far out."""
    near, far = learner.bound(shape, 10**30), learner.bound(shape, 10**36)
    slope = log10(far / near) / 6 if near and far else 0.0
    return min(Rate, key=lambda rate: abs(rate.exponent - slope))


def informative_from_round(choice: Choice, p: Problem) -> int | None:
    """The horizon from about which the bound says something, in two digits; None: never."""

    def telling(T: int) -> bool:
        return is_informative(choice.learner.bound(p.shape, T), T * choice.difference)

    first = least(1, _NEVER, telling)
    if first is None:
        return None
    # rounding makes bounds jump a little: close to the first horizon that will do, there are others that will not
    step: int = 10 ** max(0, len(str(first)) - 2)
    start = -(-first // step) * step
    silent = max((T for T in [p.horizon or first, *range(start, 2 * first, step)] if not telling(T)), default=0)
    return max(start, (silent // step + 1) * step)


def is_informative(bound: float | None, worst: float | None) -> bool:
    """Whether there is a bound that is below the largest regret, or nothing to lose."""
    return bound is not None and worst is not None and (bound < worst or worst == 0)


def least(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """The smallest number from low to high that is good, if all after a good one are."""
    numbers = range(low, high + 1)
    index = bisect_left(numbers, 1, key=good)
    return numbers[index] if index < len(numbers) else None
