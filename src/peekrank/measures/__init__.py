"""Ranking measures as values with names: ``str(DCG(10)) == "dcg@10"`` and ``measure("dcg@10") == DCG(10)``.

A ranking is the array of items in display order; relevance is indexed by item. Most measures have the form

    value = offset(R) + sum_p discount(p) * gain(R)[item at position p]

so that learners and regret need arrays only. A name may carry options after ``+``: ``ndcg@10+linear+blank0`` has
linear gains and scores a list without relevant items 0.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._util.validate import choice, whole
from peekrank.measures.evaluation import (
    add_discounted,
    are_permutations,
    average_precision,
    best_sums,
    discordant_pairs,
    linear_parts,
    powers,
)
from peekrank.registry import MEASURES
from peekrank.spec import nearest
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Gains = Literal["exponential", "linear"]
Blank = Literal["0", "1", "skip"]
_CHOICES = {"gains": Gains, "blank": Blank}
Relevance = NDArray[Any]

_OPTIONS: dict[str, tuple[str, Any]] = {
    "linear": ("gains", "linear"),
    "mean": ("mean", True),
    "blank0": ("blank", "0"),
    "blank1": ("blank", "1"),
    "skip": ("blank", "skip"),
}


def evaluate(measure: Measure, ranking: ArrayLike, relevance: ArrayLike) -> Any:
    """Value of one ranking, or of each row of a matrix of rankings.

    Parameters
    ----------
    measure
        Which measure.
    ranking
        Items in display order, or one such row per list.
    relevance
        Relevance of item 0, 1, ..., in the same shape.

    >>> round(evaluate(DCG(), [2, 0, 1], [0, 1, 1]), 4)
    1.5
    """
    rankings, rel = np.asarray(ranking), np.asarray(relevance)
    if rankings.shape != rel.shape or rankings.ndim not in (1, 2) or rankings.size == 0:
        raise ValueError(
            f"ranking of shape {rankings.shape} and relevance of shape {rel.shape}: "
            "both must be one list, or one list per row, of the same shape and not empty"
        )
    rankings, rows = np.atleast_2d(rankings), np.atleast_2d(rel)
    with np.errstate(invalid="ignore"):
        shown = np.ascontiguousarray(rankings, dtype=np.int64)
    if not np.array_equal(shown, rankings) or not are_permutations(shown, np.full(rows.shape[1], -1)):
        raise ValueError(f"a ranking must hold each of the items 0 to {rows.shape[1] - 1} exactly once")
    grades = rows.dtype == np.uint8
    if not grades and (rows.dtype.kind not in "buif" or not np.all(np.isfinite(rows)) or np.any(rows < 0)):
        raise ValueError("relevance must be numbers, finite and not negative")
    values = measure.values(shown, rows)
    return float(values[0]) if rel.ndim == 1 else values


def measure(name: str) -> Measure:
    """The measure with this name.

    >>> measure("ndcg@10+linear")
    NDCG(n=10, gains='linear', blank='1')
    """
    match = re.fullmatch(r"([\w-]+)(?:@(\d+))?((?:\+\w+)*)", name)
    if match is None:
        raise ValueError(f"'{name}' is not the name of a measure, such as dcg, p@3 or ndcg@10+linear")
    base, cutoff, options = match[1], match[2], match[3].split("+")[1:]
    if base not in MEASURES:
        raise ValueError(f"unknown measure '{base}': {nearest(base, MEASURES)}")
    known = {field.name: field for field in fields(MEASURES[base])}
    given: dict[str, Any] = {"n": int(cutoff)} if cutoff else {}
    for option in options:
        if option not in _OPTIONS:
            raise ValueError(f"measure '{name}': no option '{option}': {nearest(option, _OPTIONS)}")
        field, value = _OPTIONS[option]
        if field in given:
            raise ValueError(f"measure '{name}': '{option}' and another option for {field}, choose one")
        given[field] = value
    foreign = [field for field in given if field not in known]
    if foreign:
        raise ValueError(f"measure '{name}': '{base}' has no {'cut-off' if foreign == ['n'] else foreign[-1]}")
    if "n" in known and known["n"].default is MISSING and not cutoff:
        raise ValueError(f"measure '{base}' needs a cut-off, as in '{base}@3'")
    made: Measure = MEASURES[base](**given)
    return made


def _name(self: Any) -> str:
    options = {field: option for option, field in _OPTIONS.items()}
    text: str = self.name
    for field in fields(self):
        value = getattr(self, field.name)
        if value != field.default:
            text += f"@{value}" if field.name == "n" else f"+{options[field.name, value]}"
    return text


class LinearForm:
    """What the linear measures share: offset(R) + discount(m) @ gain(R)[ranking], for all grades, offset 0."""

    separable: ClassVar[bool] = True
    __str__ = _name

    def linear(self, max_grade: int) -> bool:  # noqa: ARG002
        """Whether the form holds for grades 0..max_grade."""
        return True

    def offset(self, relevance: Relevance) -> Floats:
        """What a list adds whatever its order."""
        return np.zeros(relevance.shape[:-1])

    def values(self: LinearMeasure, rankings: Ints, relevance: Relevance) -> Floats:
        """Value of each row."""
        discount, gain, out = linear_parts(self, relevance)
        add_discounted(discount, gain, rankings, out)
        return out


@dataclass(frozen=True)
class SumLoss(LinearForm):
    """Sum of the ranks of the relevant items, a loss: sum_i rank(i) R(i).

    >>> evaluate(SumLoss(), [1, 0, 2], [0, 1, 1])
    4.0

    References
    ----------
    CT15 section 3 and Table 1.
    """

    name: ClassVar[str] = "sumloss"
    higher_is_better: ClassVar[bool] = False

    def discount(self, m: int) -> Floats:
        """1, 2, ..., m."""
        return _ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """R itself."""
        return relevance.astype(np.float64)


@dataclass(frozen=True)
class PairwiseLoss(LinearForm):
    """Number of pairs in the wrong order, a loss: #{(i, j): i above j, R(i) < R(j)}.

    For binary R with s ones it equals SumLoss - s(s + 1)/2, hence the same regret (CT15 equation 2); with more
    grades it does not, and the measure is not linear (an erratum of CT15, which states no restriction).

    >>> evaluate(PairwiseLoss(), [0, 1, 2], [0, 1, 2])
    3.0

    References
    ----------
    CT15 section 3.
    """

    name: ClassVar[str] = "pairwiseloss"
    higher_is_better: ClassVar[bool] = False

    def linear(self, max_grade: int) -> bool:
        """Linear for binary relevance."""
        return max_grade <= 1

    def discount(self, m: int) -> Floats:
        """1, 2, ..., m."""
        return _ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """R itself."""
        return relevance.astype(np.float64)

    def offset(self, relevance: Relevance) -> Floats:
        """-s(s + 1)/2 for s relevant items."""
        s: Floats = relevance.sum(axis=-1, dtype=np.float64)
        return -s * (s + 1) / 2

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Value of each row."""
        return discordant_pairs(rankings, relevance)


@dataclass(frozen=True)
class DCG(LinearForm):
    """Discounted cumulative gain of the first n positions: sum_i (2^R(i) - 1) / log2(1 + rank(i)).

    Parameters
    ----------
    n
        Positions that count; None for all.
    gains
        ``exponential`` as in the papers, or ``linear``: R(i) instead of 2^R(i) - 1.

    >>> evaluate(DCG(2), [0, 1, 2], [2, 0, 1])
    3.0

    References
    ----------
    CT15 section 3.
    """

    n: int | None = None
    gains: Gains = "exponential"
    name: ClassVar[str] = "dcg"
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self)

    def discount(self, m: int) -> Floats:
        """1 / log2(1 + p), and 0 beyond position n."""
        weights = np.zeros(m)
        counted = weights[: self.n]
        counted[:] = np.arange(2, len(counted) + 2)
        np.log2(counted, out=counted)  # in place: lists of millions of items are a matter of memory
        np.reciprocal(counted, out=counted)
        return weights

    def gain(self, relevance: Relevance) -> Floats:
        """2^R - 1, or R."""
        if self.gains == "linear":
            return relevance.astype(np.float64)
        return powers(relevance) if relevance.dtype == np.uint8 else np.exp2(relevance, dtype=np.float64) - 1


@dataclass(frozen=True)
class Precision(LinearForm):
    """Number of relevant items among the first n: sum_i 1[rank(i) <= n] 1[R(i) > 0].

    CT15 and ZT do not divide by n; most other tools do. (CT15 section 3 once prints < for <=.)

    Parameters
    ----------
    n
        Positions that count.
    mean
        Divide by n, as other tools do.

    >>> evaluate(Precision(2), [0, 1, 2], [1, 1, 1])
    2.0
    >>> evaluate(measure("p@2+mean"), [0, 1, 2], [1, 1, 1])
    1.0
    """

    n: int
    mean: bool = False
    name: ClassVar[str] = "p"
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self)

    def discount(self, m: int) -> Floats:
        """1 for the first n positions, then 0."""
        return (_ranks(m) <= self.n) / (self.n if self.mean else 1.0)

    def gain(self, relevance: Relevance) -> Floats:
        """1[R > 0]."""
        return np.sign(relevance.astype(np.float64))


@dataclass(frozen=True)
class NDCG(LinearForm):
    """DCG@n divided by the largest DCG@n that any ranking of the same list has.

    Parameters
    ----------
    n
        Positions that count; None for all.
    gains
        As for DCG.
    blank
        Value of a list without relevant items: ``1`` as in the papers, ``0`` as in scikit-learn, or ``skip``
        (the value is NaN, and averages leave the list out). It cancels in regret.

    >>> round(evaluate(NDCG(), [0, 1, 2], [0, 1, 0]), 4)
    0.6309

    References
    ----------
    CT15 section 3; with three items, no learner with top-1 feedback has sublinear regret (Theorem 12).
    """

    n: int | None = None
    gains: Gains = "exponential"
    blank: Blank = "1"
    name: ClassVar[str] = "ndcg"
    higher_is_better: ClassVar[bool] = True
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    def discount(self, m: int) -> Floats:
        """As for DCG@n."""
        return DCG(self.n).discount(m)

    def gain(self, relevance: Relevance) -> Floats:
        """g(R) / max DCG; 0 in a blank list."""
        gains = DCG(self.n, self.gains).gain(relevance)
        best = best_sums(self.discount(relevance.shape[-1]), gains, relevance)
        return gains / np.where(best > 0, best, 1)[..., None]

    def offset(self, relevance: Relevance) -> Floats:
        """The value of a blank list, 0 for others."""
        return np.where(relevance.any(axis=-1), 0, _blank_value(self.blank))


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision of one list ("MAP" in CT15): the mean, over relevant items, of precision at their rank.

    Items with R > 0 are relevant. The measure is not linear in any gain.

    Parameters
    ----------
    blank
        As for NDCG.

    >>> round(evaluate(AveragePrecision(), [0, 1, 2], [0, 1, 1]), 4)
    0.5833

    References
    ----------
    CT15 section 3 and appendix 15.
    """

    blank: Blank = "1"
    name: ClassVar[str] = "ap"
    higher_is_better: ClassVar[bool] = True
    __str__ = _name

    def __post_init__(self) -> None:
        _check(self)

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Value of each row."""
        out = np.empty(len(rankings))
        average_precision(rankings, relevance > 0, _blank_value(self.blank), out)
        return out


@dataclass(frozen=True)
class AUC(LinearForm):
    """Share of comparable pairs in the wrong order, a **loss**: 1 minus the usual area under the ROC curve.

    PairwiseLoss / #{(i, j): R(i) < R(j)}; for binary R the number of pairs is (#relevant)(#irrelevant).

    Parameters
    ----------
    blank
        Value of a list whose items are all equally relevant: ``0`` as in the papers, ``1`` or ``skip``.

    >>> evaluate(AUC(), [0, 1, 2], [0, 1, 1])
    1.0

    References
    ----------
    CT15 section 3 and appendix 15.
    """

    blank: Blank = "0"
    name: ClassVar[str] = "auc"
    higher_is_better: ClassVar[bool] = False
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    def linear(self, max_grade: int) -> bool:
        """Linear for binary relevance."""
        return max_grade <= 1

    def discount(self, m: int) -> Floats:
        """1, 2, ..., m."""
        return _ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """R / (s(m - s)) for s relevant items; 0 in a blank list."""
        s = relevance.sum(axis=-1, dtype=np.float64)
        pairs = s * (relevance.shape[-1] - s)
        return relevance * np.where(pairs > 0, 1 / np.maximum(pairs, 1), 0)[..., None]

    def offset(self, relevance: Relevance) -> Floats:
        """-(s + 1) / (2(m - s)), or the value of a blank list."""
        s = relevance.sum(axis=-1, dtype=np.float64)
        others = relevance.shape[-1] - s
        return np.where((s > 0) & (others > 0), -(s + 1) / (2 * np.maximum(others, 1)), _blank_value(self.blank))

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Value of each row."""
        ascending = np.argsort(relevance, axis=-1, kind="stable").astype(np.int64)
        pairs = discordant_pairs(ascending, relevance)  # the worst ranking has every pair in the wrong order
        wrong = discordant_pairs(rankings, relevance)
        return np.where(pairs > 0, wrong / np.maximum(pairs, 1), _blank_value(self.blank))


def learnable(measure: Measure, max_grade: int) -> LinearMeasure:
    """The measure, if a learner can estimate it from single revealed items; else a ValueError that says why.

    >>> learnable(measure("ndcg"), 1)
    Traceback (most recent call last):
    ...
    ValueError: ndcg cannot be learned from revealed items one by one, for grades 0 to 1: ...
    """
    given: object = measure
    if not isinstance(given, Measure):
        raise ValueError(f"measure = {given!r}: must be a measure, as in measure('dcg')")
    if isinstance(measure, LinearMeasure) and measure.separable and measure.linear(max_grade):
        return measure
    raise ValueError(
        f"{measure} cannot be learned from revealed items one by one, for grades 0 to {max_grade}: it is no sum "
        "over items of discount(rank) x gain(relevance). Give the learner a measure of its own that is, for "
        "instance measure=dcg, measure=sumloss or measure=p@3"
    )


def _ranks(m: int) -> Floats:
    return np.arange(1.0, m + 1)


def _check(measure: Any) -> None:
    for field in fields(measure):
        value = getattr(measure, field.name)
        if field.name == "n" and value is not None:
            whole("cut-off n", value, 1, 10**9)
        elif field.name in _CHOICES:
            choice(field.name, value, _CHOICES[field.name])


def _blank_value(blank: Blank) -> float:
    return np.nan if blank == "skip" else float(blank)
