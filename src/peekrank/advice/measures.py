"""Advice on learning a measure: how fast regret must grow, which learner to use, and what would help."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import log10
from typing import Any, NamedTuple

import numpy as np

from peekrank import learners, registry
from peekrank._util.text import counted
from peekrank._util.validate import whole
from peekrank.games.rate import Rate, Verdict
from peekrank.games.rates import rate_of
from peekrank.learners._shared import constants
from peekrank.measures import (
    AUC,
    DCG,
    ERR,
    NDCG,
    RBP,
    AveragePrecision,
    Hit,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
    learnable,
)
from peekrank.measures import measure as measure_named
from peekrank.spec import text_of
from peekrank.types import Blocked, Learner, Measure, Shape

_LONGEST = 10**12  # the longest horizon that learners accept
_NEVER = 10**18  # a bound that says nothing up to here is taken to say nothing ever


class Change(NamedTuple):
    """Another problem close by that is easier, and what it brings.

    The bound is None where no learner has one or where it says nothing.
    """

    what: str
    rate: Rate | None
    bound: float | None
    measure: str
    k: int
    horizon: int

    def __str__(self) -> str:
        bound = "" if self.bound is None else f", regret at most {_number(self.bound)}"
        return f"{self.what}: rate {self.rate or 'unknown'}{bound}"


@dataclass(frozen=True)
class Advice:
    """What to expect of a problem, and what to do; made by `advise`.

    Parameters
    ----------
    measure, m, k, horizon, grades
        The problem.
    verdict
        The rate at which the regret of the best learner grows, on which basis, and why.
    learner
        Specification of the learner with the smallest bound, or None if no learner fits.
    guarantee
        Growth of that learner's bound.
    bound
        That learner's bound on the expected regret after `horizon` rounds.
    worst
        The largest regret that any learner can have: `horizon` times the largest difference of two rankings.
    speaks_from
        Horizon from about which the bound is below `worst`, in two digits; None: never.
    blocks
        Blocks that the learner cuts the horizon into, or None.
    exploration
        Share of the rounds that the learner spends on exploration, or None where it has no blocks.
    changes
        What would help where the answer is bad.
    """

    measure: str
    m: int
    k: int
    horizon: int
    grades: int
    verdict: Verdict
    learner: str | None = None
    guarantee: Rate | None = None
    bound: float | None = None
    worst: float | None = None
    speaks_from: int | None = None
    blocks: int | None = None
    exploration: float | None = None
    changes: tuple[Change, ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing, being no smaller than the largest regret there can be."""
        return self.bound is not None and not _speaks(self.bound, self.worst)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should not be overlooked, in plain words."""
        rate, said = self.verdict.rate, []
        if rate is None:
            said.append("it is not known how fast regret must grow here")
        elif rate is Rate.LINEAR:
            said.append("hopeless: whatever the learner, regret can grow by a constant in every round")
        elif rate is Rate.ZERO:
            said.append("all rankings are worth the same: show any")
        if self.learner is None and rate not in (Rate.LINEAR, Rate.ZERO):
            said.append(f"no learner here fits {self.measure} at k = {self.k:,}")
        if rate and self.guarantee and self.guarantee.exponent > rate.exponent:
            said.append(f"the game allows {rate}, but this learner guarantees {self.guarantee} only")
        if self.vacuous and self.worst is not None:
            said.append(f"the bound says nothing here, as nobody can lose more than {_number(self.worst)}")
            said.append(
                f"it says something from about {counted(self.speaks_from, 'round')} on"
                if self.speaks_from
                else "it never does"
            )
        return tuple(said)

    def as_dict(self) -> dict[str, Any]:
        """All of it in numbers, texts, lists and dictionaries, for JSON."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "verdict": self.verdict._asdict(),
            "vacuous": self.vacuous,
            "notes": list(self.notes),
            "changes": [change._asdict() for change in self.changes],
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """All of it in words: a label and what belongs to it, line by line."""
        size = f"m = {counted(self.m, 'item')}, k = {self.k:,} revealed, {counted(self.horizon, 'round')}"
        rate, basis, reason = self.verdict
        told = [
            ("problem", f"{self.measure}, {size}, grades 0 to {self.grades - 1}"),
            ("rate", f"{rate or 'unknown'} ({basis}): {reason}"),
            ("learner", self.learner or "none"),
        ]
        if self.bound is not None and self.worst is not None:
            most = f"regret at most {_number(self.bound)} of {_number(self.worst)} possible"
            told.append(("bound", f"{most}, growing as {self.guarantee}"))
        if self.blocks is not None and self.exploration is not None:
            share = f"{100 * self.exploration:.1f} % of the rounds"
            told.append(("exploration", f"{share} (blocks: {self.blocks:,})"))
        told += [("note", note) for note in self.notes]
        return told + [("change", str(change)) for change in self.changes]

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows)


def advise(measure: str | Measure, m: int, k: int, horizon: int, grades: int = 2) -> Advice:
    """What to expect of learning a ranking, which learner to use, and what to change.

    Parameters
    ----------
    measure
        What rankings are judged by, or its name.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    horizon
        Number of rounds.
    grades
        Number of relevance grades, 0 to grades - 1.

    >>> advice = advise("dcg", m=10, k=1, horizon=10_000)
    >>> advice.learner, round(advice.bound), advice.vacuous
    ('blockftrl:measure=dcg,horizon=10000', 1480, False)

    References
    ----------
    The bounds are those of the learners' pages; the rates are those of `peekrank.games`.
    """
    judge = measure_named(measure) if isinstance(measure, str) else measure
    whole("m", m, 1, 10**8)
    whole("k", k, 1, m)
    whole("horizon", horizon, 1, _LONGEST)
    whole("grades", grades, 2, 256)
    p = _Problem(judge, int(m), int(k), int(horizon), int(grades))
    advice = Advice(str(judge), p.m, p.k, p.horizon, p.grades, p.verdict)
    choice = _choose(p)
    if choice is not None:
        blocks, exploration = _blocks(choice.learner, p)
        advice = replace(
            advice,
            learner=text_of(choice.learner),
            guarantee=_growth(choice.learner, p.shape),
            bound=choice.bound,
            worst=p.horizon * choice.difference,
            speaks_from=_speaks_from(choice, p),
            blocks=blocks,
            exploration=exploration,
        )
    return replace(advice, changes=tuple(_changes(p, advice)))


class _Problem(NamedTuple):
    measure: Measure
    m: int
    k: int
    horizon: int
    grades: int

    @property
    def shape(self) -> Shape:
        return Shape(self.m, 0, self.k)

    @property
    def verdict(self) -> Verdict:
        return rate_of(self.measure, self.m, self.k, self.grades)


class _Choice(NamedTuple):
    """A learner, its bound, and the largest difference of two rankings in a round."""

    learner: Learner
    bound: float
    difference: float


def _choose(p: _Problem) -> _Choice | None:
    """The learner with the smallest bound among those that fit; learners of finite games only if no other does."""
    quick = [name for name in registry.LEARNERS if name not in learners.FINITE]
    return _best_of(quick, p) or _best_of(learners.FINITE, p)


def _best_of(names: Sequence[str], p: _Problem) -> _Choice | None:
    found = []
    for name in names:
        cls = registry.LEARNERS[name]
        if cls.contextual or p.k < cls.min_k or (cls.full_information and p.k < p.m):
            continue
        try:
            learner = learners.learner(name, measure=p.measure, horizon=p.horizon, max_grade=p.grades - 1)
        except ValueError:
            continue
        bound = learner.bound(p.shape, p.horizon)
        if bound is not None:
            found.append((bound, learner))
    if not found:
        return None
    bound, best = min(found, key=lambda pair: pair[0])
    return _Choice(best, bound, _largest_difference(p))


def _largest_difference(p: _Problem) -> float:
    """What two rankings can differ by in a round."""
    try:
        return constants(learnable(p.measure, p.grades - 1), p.m, p.grades - 1).R
    except ValueError:  # then a learner of finite games fits, so that all rankings can be listed
        from peekrank.learners._finite_games import finite

        return float(np.ptp(finite(p.measure, p.shape, p.grades - 1).game.loss, axis=0).max())


def _blocks(learner: Learner, p: _Problem) -> tuple[int | None, float | None]:
    """The number of blocks of a learner that has them, and the share of its rounds that explore."""
    if not isinstance(learner, Blocked):
        return None, None
    blocks = learner.block_count(p.shape, p.horizon)
    return blocks, min(1.0, blocks * learner.moves(p.shape) / p.horizon)


def _growth(learner: Learner, shape: Shape) -> Rate:
    """The rate that is closest to how a bound grows far out."""
    near, far = learner.bound(shape, 10**30), learner.bound(shape, 10**36)
    slope = log10(far / near) / 6 if near and far else 0.0
    return min(Rate, key=lambda rate: abs(rate.exponent - slope))


def _speaks_from(choice: _Choice, p: _Problem) -> int | None:
    def speaks(T: int) -> bool:
        return _speaks(choice.learner.bound(p.shape, T), T * choice.difference)

    first = _least(1, _NEVER, speaks)
    if first is None:
        return None
    # rounding makes bounds jump a little: close to the first horizon that will do, there are others that will not
    step: int = 10 ** max(0, len(str(first)) - 2)
    start = -(-first // step) * step
    silent = max((T for T in [p.horizon, *range(start, 2 * first, step)] if not speaks(T)), default=0)
    return max(start, (silent // step + 1) * step)


def _speaks(bound: float | None, worst: float | None) -> bool:
    """Whether there is a bound that is below the largest regret, or nothing to lose."""
    return bound is not None and worst is not None and (bound < worst or worst == 0)


def _changes(p: _Problem, advice: Advice) -> Iterator[Change]:
    """What would help: more answers, another measure, more rounds."""
    rate, ks = advice.verdict.rate, set()
    if rate in (None, Rate.LINEAR, Rate.TWO_THIRDS):
        wanted = Rate.SQRT if rate is Rate.TWO_THIRDS else Rate.TWO_THIRDS
        ks.add(_least(p.k + 1, p.m, lambda k: _at_most(p._replace(k=k).verdict.rate, wanted)))
    if advice.vacuous:
        ks.add(_least(p.k + 1, p.m, lambda k: _telling(_choose(p._replace(k=k)), p.horizon) is not None))
    for k in sorted(k for k in ks if k):
        yield _change(p._replace(k=k), f"reveal k = {k:,}")
    if advice.learner is None and rate is not Rate.ZERO:
        for measure in _stand_ins(p):
            yield _change(p._replace(measure=measure), f"learn {measure}")
    elif rate is Rate.TWO_THIRDS and isinstance(p.measure, DCG | RBP):
        shorter = replace(p.measure, n=p.k)
        yield _change(p._replace(measure=shorter), f"learn {shorter}")
    if advice.vacuous and advice.speaks_from and advice.speaks_from <= _LONGEST:
        yield _change(p._replace(horizon=advice.speaks_from), f"play {counted(advice.speaks_from, 'round')}")


def _change(p: _Problem, what: str) -> Change:
    choice = _choose(p)
    if choice is not None:
        what += f" with {text_of(choice.learner)}"
    return Change(what, p.verdict.rate, _telling(choice, p.horizon), str(p.measure), p.k, p.horizon)


def _telling(choice: _Choice | None, horizon: int) -> float | None:
    """The bound, if it says something."""
    return choice.bound if choice and _speaks(choice.bound, horizon * choice.difference) else None


def _stand_ins(p: _Problem) -> tuple[Measure, ...]:
    """The closest measures that can be learned item by item."""
    match p.measure:
        case NDCG(n=n, gains=gains):
            return (DCG(n, gains),)
        case AveragePrecision():
            return (DCG(), Precision(p.k)) if p.k < p.m else (DCG(),)
        case AUC() | PairwiseLoss():
            return (PairwiseLoss() if p.grades == 2 else SumLoss(),)
        case ReciprocalRank(n) | ERR(n):
            return (DCG(n),)
        case Recall(n) | Hit(n):
            return (Precision(n),)
    return ()


def _at_most(rate: Rate | None, wanted: Rate) -> bool:
    return rate is not None and rate.exponent <= wanted.exponent


def _least(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """The smallest number from low to high that is good, if all after a good one are."""
    numbers = range(low, high + 1)
    index = bisect_left(numbers, 1, key=good)
    return numbers[index] if index < len(numbers) else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.3g}"
