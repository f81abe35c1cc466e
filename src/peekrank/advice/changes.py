"""Changes of a problem that would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from peekrank._util.text import pluralize
from peekrank.advice.choice import Choice, Problem, choose, is_informative, smallest
from peekrank.games.feedback import Feedback
from peekrank.games.rates import Rate
from peekrank.measures import (
    DCG,
    ERR,
    NDCG,
    RBP,
    AUCLoss,
    AveragePrecision,
    Hit,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
)
from peekrank.spec import format_spec
from peekrank.types import Measure

if TYPE_CHECKING:
    from peekrank.advice.measures import Advice

MAX_HORIZON = 10**12  # that learners accept


class Change(NamedTuple):
    """A similar but easier problem, with its rate and bound.

    The bound is None if no learner has one or if it is vacuous.
    """

    what: str
    rate: Rate | None
    bound: float | None
    measure: str
    k: int
    horizon: int | None
    feedback: Feedback = "answers"

    def __str__(self) -> str:
        bound = "" if self.bound is None else f", regret at most {number_text(self.bound)}"
        return f"{self.what}: rate {self.rate or 'unknown'}{bound}"


def changes(p: Problem, advice: Advice) -> Iterator[Change]:
    """Yield changes that would help: more answers, another measure, more rounds."""
    if not p.has_answers:
        yield from _changes_of_feedback(p)
        return
    rate, ks = advice.verdict.rate, set()
    if rate in (None, Rate.LINEAR, Rate.TWO_THIRDS):
        target = Rate.SQRT if rate is Rate.TWO_THIRDS else Rate.TWO_THIRDS
        ks.add(smallest(p.k + 1, p.m, lambda k: _at_most(p._replace(k=k).verdict.rate, target)))
    if advice.vacuous:
        ks.add(
            smallest(p.k + 1, p.m, lambda k: _informative_bound(choose(p._replace(k=k)), p.horizon) is not None)
        )
    for k in sorted(k for k in ks if k):
        yield _change(p._replace(k=k), f"reveal k = {k:,}")
    if advice.learner is None and rate is not Rate.ZERO:
        for measure in _stand_ins(p):
            yield _change(p._replace(measure=measure), f"learn {measure}")
    elif rate is Rate.TWO_THIRDS and isinstance(p.measure, DCG | RBP):
        shorter = replace(p.measure, cutoff=p.k)
        yield _change(p._replace(measure=shorter), f"learn {shorter}")
    if advice.vacuous and advice.informative_from and advice.informative_from <= MAX_HORIZON:
        yield _change(
            p._replace(horizon=advice.informative_from), f"run {pluralize(advice.informative_from, 'round')}"
        )


def _changes_of_feedback(p: Problem) -> Iterator[Change]:
    """Yield answers for each item, for the first item alone, and other measures, if these have a better rate."""
    rate = p.verdict.rate
    if rate is Rate.ZERO:
        return
    each = p._replace(feedback="answers")
    for one, what in (
        (each._replace(k=1), "ask for the relevance of the first item alone"),
        (each, f"ask for the relevance of each of the first {p.k:,} items"),
    ):
        if _at_most(one.verdict.rate, Rate.TWO_THIRDS) and (one.k == 1 or p.k > 1):
            yield _change(one, what)
    if rate is Rate.LINEAR:
        for measure in _stand_ins(p):
            if _at_most(p._replace(measure=measure).verdict.rate, Rate.TWO_THIRDS):
                yield _change(p._replace(measure=measure), f"learn {measure}")


def _change(p: Problem, what: str) -> Change:
    choice = choose(p)
    if choice is not None:
        what += f" with {format_spec(choice.learner)}"
    return Change(
        what, p.verdict.rate, _informative_bound(choice, p.horizon), str(p.measure), p.k, p.horizon, p.feedback
    )


def _informative_bound(choice: Choice | None, horizon: int | None) -> float | None:
    """Return the bound if it is informative, otherwise None."""
    return (
        choice.bound if choice and horizon and is_informative(choice.bound, horizon * choice.difference) else None
    )


def _stand_ins(p: Problem) -> tuple[Measure, ...]:
    """Return the closest measures that a learner can learn item by item."""
    match p.measure:
        case NDCG(cutoff=n, gains=gains):
            return (DCG(n, gains),)
        case AveragePrecision():
            return (DCG(), Precision(p.k)) if p.k < p.m else (DCG(),)
        case AUCLoss() | PairwiseLoss():
            return (PairwiseLoss() if p.grades == 2 else SumLoss(),)
        case ReciprocalRank(n) | ERR(n):
            return (DCG(n),)
        case Recall(n) | Hit(n):
            return (Precision(n),)
    return ()


def _at_most(rate: Rate | None, target: Rate) -> bool:
    return rate is not None and rate.exponent <= target.exponent


def number_text(value: float) -> str:
    """Return a number with three digits or more."""
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.3g}"
