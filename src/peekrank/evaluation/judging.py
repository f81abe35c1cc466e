r"""What to have judged next, to find out which of two rankers is better, and what the judgements say.

**What is sampled.** The pool holds all pairs of a query and a document that either ranker lists. Its pairs have
unknown, fixed gains. The value of a ranker is the mean over the queries of sum_i discount(rank_i) gain_i, a sum
w . g over pairs, and a document that a ranker does not list has weight 0 in it. So D = sum_i d_i g_i, with
d = w - w', is the difference of two rankers on these queries. It says nothing about other queries.

**How.** Pairs are drawn one after another, *without* replacement, with probabilities q_t(i) that depend on earlier
batches of judgements only. If S is the sum of d_i g_i over the pairs judged before draw t, and m_i are predicted
gains, then

    Y_t = S + sum_{i left} d_i m_i + d_I (g_I - m_I) / q_t(I)

has the conditional mean D in every draw: the inverse-probability estimate of Horvitz & Thompson for what is left
(Des Raj's estimator). The estimate is a mean of Y_1, ..., Y_n with weights fixed in advance, so it is unbiased,
whatever m is worth, until it is limited to what is possible. Y_t is bounded by numbers known before the draw, and
its mean never changes, so bets on it (`peekrank.kernels.confidence`) give an interval that is valid after every
judgement. It is intersected with what is certain: gains that were not judged are between 0 and the largest gain.

**Which.** The variance of Y_t is smallest for q_t(i) proportional to |d_i| sigma_i, with sigma_i^2 the expected
square of g_i - m_i (Neyman allocation). The code adds a small part for the values of the rankers themselves, and
another one that limits what a wrong sigma costs. m and sigma are those of similar pairs: with about the same
prediction, or else with about the same best position.

References
----------
Horvitz & Thompson (1952), A generalization of sampling without replacement from a finite universe. Des Raj
(1956), Some estimators in sampling with varying probabilities without replacement. Waudby-Smith & Ramdas,
Confidence sequences for sampling without replacement (2020). Shekhar, Xu, Lipton, Liang & Ramdas (2023),
Risk-limiting financial audits via weighted sampling without replacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_choice, check_int, check_open_unit
from peekrank.evaluation.supported_measures import by_items, nearest_measure
from peekrank.evaluation.trec import Run
from peekrank.kernels.confidence import BOLDEST, POINTS, Bets, bet_bound, narrow_bets, place_bet
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Sampling = Literal["difference", "position", "uniform"]

_VALUES = 0.02  # weight of the variances of both values beside that of the difference
_CAUTION = 0.3  # share of the probabilities that does not depend on sigma
_PRIOR = 5.0  # judgements that a guess counts for
_FIRST = 0.1  # guessed mean gain before the first judgement, as a part of the largest
_CELLS = 8  # groups of pairs by prediction
_NARROWER = 0.7  # part of the width at which the limits of bets are drawn in
_LARGEST_GRADE = 100


class Pool(NamedTuple):
    """The pairs that two rankers list, in the order of their names."""

    pairs: list[tuple[str, str]]  # query and document
    weights: Floats  # of each pair in the values of both rankers, which are means over queries
    best: Ints  # the better one of its positions, from 0
    queries: int
    gains: Floats  # of each grade
    identity: str  # changes if anything else in the pool does


def make_pool(one: Run, other: Run, measure: Measure, *, max_grade: int = 1) -> Pool:
    """Return the pairs of two runs that count for a measure.

    Raises ValueError if the runs have different queries, if they rank alike, or if the measure is not a sum over
    items with weights that fall with the rank.

    Parameters
    ----------
    one, other
        The runs.
    measure
        A sum over items of discount(rank) x gain(grade).
    max_grade
        The largest grade.

    >>> from peekrank import DCG
    >>> pool = make_pool({"q": ["a", "b"]}, {"q": ["b", "c"]}, DCG(2))
    >>> pool.pairs
    [('q', 'a'), ('q', 'b'), ('q', 'c')]
    >>> pool.weights.round(2)
    array([[1.  , 0.63, 0.  ],
           [0.  , 1.  , 0.63]])
    """
    check_int("max_grade", max_grade, 1, _LARGEST_GRADE)
    longest = max(len(documents) for run in (one, other) for documents in run.values())
    discount, gains = _parts(measure, longest, max_grade)
    for missing, name in ((set(one) - set(other), "second"), (set(other) - set(one), "first")):
        if missing:
            raise ValueError(f"the {name} run has no query '{min(missing)}'; both need the same queries")
    positions: dict[tuple[str, str], list[int]] = {}
    for side, run in enumerate((one, other)):
        for query, documents in run.items():
            for rank, document in enumerate(documents):
                positions.setdefault((query, document), [longest, longest])[side] = rank
    discounts = np.append(discount, 0.0)
    chosen = sorted(pair for pair, ranks in positions.items() if discounts[ranks].any())
    ranks = np.array([positions[pair] for pair in chosen], np.int64).reshape(-1, 2)
    weights = discounts[ranks.T] / len(one)
    if not np.any(weights[0] != weights[1]):
        raise ValueError(f"both runs rank alike, as far as {measure} counts; no judgement can tell them apart")
    identity = repr((str(measure), max_grade, len(one), chosen, ranks.tolist()))
    return Pool(chosen, weights, ranks.min(axis=1), len(one), gains, identity)


def _parts(measure: Measure, longest: int, max_grade: int) -> tuple[Floats, Floats]:
    """Return the weight of each position and the gain of each grade."""
    if not (isinstance(measure, LinearMeasure) and by_items(measure, max_grade)):
        raise ValueError(
            f"{measure} is not a sum over items of discount(rank) x gain(grade), which sampled judgements can "
            f"estimate; use {nearest_measure(measure)}"
        )
    discount, gains = measure.discount(longest), measure.gain(np.arange(max_grade + 1))
    if np.any(discount < 0) or np.any(np.diff(discount) > 0) or gains[0] != 0 or np.any(np.diff(gains) < 0):
        raise ValueError(f"{measure} does not weigh documents less the lower they stand; use dcg, rbp or p@5")
    return discount, gains


def group_by_position(pool: Pool) -> Ints:
    """Return a group for each pair: best position 1, 2 to 3, 4 to 7, 8 to 15, and so on."""
    groups: Ints = np.frexp(pool.best + 1.0)[1].astype(np.int64) - 1
    return groups


def group_by_prediction(pool: Pool, predictions: Mapping[tuple[str, str], float]) -> Ints:
    """Return a group for each pair: pairs with similar predictions, on any scale; the last one is for none.

    >>> from peekrank import DCG
    >>> pool = make_pool({"q": ["a", "b"]}, {"q": ["b", "c"]}, DCG(2))
    >>> group_by_prediction(pool, {("q", "a"): 7.0, ("q", "b"): 1.0})
    array([1, 0, 8])
    """
    values = np.array([predictions.get(pair, np.nan) for pair in pool.pairs])
    known = ~np.isnan(values)
    groups = np.full(len(values), _CELLS)
    if known.any():
        levels, which = np.unique(values[known], return_inverse=True)
        if len(levels) > _CELLS:
            ends = np.quantile(values[known], np.arange(1, _CELLS) / _CELLS, method="higher")
            which = np.searchsorted(ends, values[known], side="right")
        groups[known] = which
    return groups


class Interval(NamedTuple):
    """An estimate after some judgements, with an interval that is valid after every judgement."""

    estimate: float
    low: float
    high: float


class _Track:
    """Bets on one sum of weight x gain, and its estimate."""

    def __init__(self, weights: Floats, gains: Floats, span: float) -> None:
        self.weights = weights
        unknown = np.isnan(gains)
        self.sum = float(weights[~unknown] @ gains[~unknown])  # of the pairs judged
        self.ends = np.array([np.minimum(weights, 0)[unknown].sum(), np.maximum(weights, 0)[unknown].sum()]) * span
        lowest, highest = self.sum + self.ends
        self.below, self.above = Bets.fresh(lowest, highest), Bets.fresh(-highest, -lowest)
        self.totals = np.zeros(4)
        self.history = [Interval((lowest + highest) / 2, lowest, highest)]


@kernel
def _bet(
    below: Bets, above: Bets, values: Floats, lows: Floats, highs: Floats, shares: Floats, certain: Floats,
    totals: Floats, alpha: float, space: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add observations with their limits, and fill an estimate and bounds on the mean after each.

    The standard deviation of an observation is taken to be proportional to `shares`, so bets are in proportion
    to 1 / shares^2, as in a weighted mean. `totals` are the sums of 1 / shares^2, of values / shares^2, and of
    squared deviations / shares^2, and the number of observations.
    """
    for t in range(len(values)):
        x, share = values[t], shares[t]
        precision = totals[0] + 1 / (share * share)
        middle = totals[1] / totals[0] if totals[0] > 0 else (lows[t] + highs[t]) / 2
        for bets, limit, value in ((below, lows[t], x), (above, -highs[t], -x)):
            scale = max(bets.means[-1] - limit, 1e-300)
            variance = (totals[2] + scale * scale / (4 * share * share)) / (totals[3] + 1)
            wanted = sqrt(2 * log(2 / alpha) / (max(variance, 1e-300) * precision * log(totals[3] + 2)))
            place_bet(bets, value, min(wanted / (share * share), BOLDEST / scale))
        totals[0] = precision
        totals[1] += x / (share * share)
        totals[2] += (x - middle) ** 2 / (share * share)
        totals[3] += 1
        low = min(max(bet_bound(below, alpha / 2), certain[t, 0]), certain[t, 1])
        high = max(min(-bet_bound(above, alpha / 2), certain[t, 1]), low)
        out[t, 0], out[t, 1], out[t, 2] = min(max(totals[1] / totals[0], low), high), low, high
        if high - low < _NARROWER * (below.means[-1] - below.means[0]) and high > low:
            narrow_bets(below, low, high, space)
            narrow_bets(above, -high, -low, space)


class Judging:
    """Sampled judgements of a pool: draws batches of pairs, and estimates from what was judged.

    Parameters
    ----------
    pool
        The pairs.
    known
        Grades that are known before the first draw, whatever they were chosen by.
    groups
        Group of each pair, for the predicted gains.
    sampling
        ``difference``: as the module says; ``position`` and ``uniform`` are for comparison.
    seed
        Random seed of all batches.
    alpha
        Error probability of each of the three intervals.

    >>> from peekrank import DCG
    >>> pool = make_pool({"q": ["a", "b", "c"]}, {"q": ["c", "b", "a"]}, DCG(2))
    >>> judging = Judging(pool)
    >>> batch = judging.draw(3)
    >>> judging.add([int(pool.pairs[i][1] == "c") for i in batch])
    >>> judging.difference.estimate, judging.verdict
    (-1.0, 'lower')
    """

    def __init__(
        self,
        pool: Pool,
        *,
        known: Mapping[tuple[str, str], int] | None = None,
        groups: Ints | None = None,
        sampling: Sampling = "difference",
        seed: int = 0,
        alpha: float = 0.05,
    ) -> None:
        check_choice("sampling", sampling, Sampling)
        check_open_unit("alpha", alpha)
        self.pool, self.sampling, self.seed, self.alpha = pool, sampling, seed, alpha
        self.groups = group_by_position(pool) if groups is None else groups
        self.grades = np.array([(known or {}).get(pair, -1) for pair in pool.pairs], np.int64)  # -1: not judged
        self.gains = np.where(self.grades < 0, np.nan, pool.gains[self.grades])
        self.known = int((self.grades >= 0).sum())
        self.judged = self.batches = 0
        self._drawn, self._size = np.zeros(0, np.int64), len(pool.pairs) - self.known
        first, second = pool.weights
        span = float(pool.gains[-1])
        self._tracks = [_Track(w, self.gains, span) for w in (first - second, first, second)]
        self._rates, self._means = np.zeros(0), np.zeros(0)

    @property
    def difference(self) -> Interval:
        """The value of the first ranker minus that of the second."""
        return self._tracks[0].history[-1]

    @property
    def values(self) -> tuple[Interval, Interval]:
        """The values of both rankers."""
        return self._tracks[1].history[-1], self._tracks[2].history[-1]

    @property
    def history(self) -> list[Interval]:
        """The difference before the first judgement and after each."""
        return self._tracks[0].history

    @property
    def verdict(self) -> str:
        """Whether the first ranker is ``higher`` or ``lower`` than the second, or ``undecided``."""
        return "higher" if self.difference.low > 0 else "lower" if self.difference.high < 0 else "undecided"

    @property
    def missing(self) -> int:
        """Number of pairs that were drawn and not judged."""
        return len(self._drawn)

    @property
    def left(self) -> int:
        """Number of pairs that were neither known nor judged."""
        return self._size - self.judged

    def draw(self, count: int) -> Ints:
        """Draw the next pairs to be judged, in this order, as indices of the pool.

        Raises ValueError if pairs drawn before are not judged.
        """
        check_int("count", count, 1)
        if self.missing:
            raise ValueError(f"{self.missing} pairs drawn before are not judged")
        self.batches += 1
        left = np.flatnonzero(np.isnan(self.gains))
        self._means, self._rates = self._model()
        text = f"{self.seed} {self.batches} {self.groups.tolist()} {self.grades.tolist()} {self.pool.identity}"
        rng = np.random.default_rng(int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little"))
        # whoever arrives first in a race of exponential times is drawn first
        times = rng.standard_exponential(len(self.gains))[left] / self._rates[left]
        self._drawn = left[np.argsort(times, kind="stable")][:count]
        return self._drawn

    def add(self, grades: list[int]) -> None:
        """Add the grades of the next pairs drawn; a batch may be added in parts."""
        check_int("number of grades", len(grades), 0, self.missing)
        for grade in grades:
            check_int("grade", grade, 0, len(self.pool.gains) - 1)
        now, self._drawn = np.split(self._drawn, [len(grades)])
        if not len(now):
            return
        found = self.pool.gains[np.array(grades)]
        left = np.isnan(self.gains)
        left[now] = False
        shares = (
            1 - (self.judged + np.arange(len(now))) / self._size
        )  # of the pairs that are left before each draw
        for track in self._tracks:
            self._observe(track, now, np.flatnonzero(left), found, shares)
        self.grades[now], self.gains[now] = grades, found
        self.judged += len(now)

    def _observe(self, track: _Track, now: Ints, rest: Ints, found: Floats, shares: Floats) -> None:
        """Add judgements, in the order drawn, to the bets and the estimate of a sum."""
        w, m, span = track.weights, self._means, float(self.pool.gains[-1])
        mass = np.cumsum(self._rates[now][::-1])[::-1] + self._rates[rest].sum()  # of the pairs left before each
        order = np.append(now, rest)
        missed, least, most = w[now] * (found - m[now]), w * (0 - m), w * (span - m)
        before = track.sum + w[order] @ m[order] + np.cumsum(missed) - missed
        lows = before + mass * _suffix(np.minimum, np.minimum(least, most) / self._rates, now, rest)
        highs = before + mass * _suffix(np.maximum, np.maximum(least, most) / self._rates, now, rest)
        values = np.clip(before + missed * mass / self._rates[now], lows, highs)
        sums = track.sum + np.cumsum(w[now] * found)
        ends = track.ends - span * np.cumsum([np.minimum(w[now], 0), np.maximum(w[now], 0)], axis=1).T
        if not len(rest):
            ends[-1] = 0.0
        out = np.empty((len(now), 3))
        certain = sums[:, None] + ends
        _bet(
            track.below,
            track.above,
            values,
            lows,
            highs,
            shares,
            certain,
            track.totals,
            self.alpha,
            np.empty(POINTS),
            out,
        )
        track.history += [Interval(*map(float, row)) for row in out]
        track.sum, track.ends = float(sums[-1]), ends[-1]

    def _model(self) -> tuple[Floats, Floats]:
        """Return the predicted gain of each pair, and rates proportional to its probability."""
        known, span = ~np.isnan(self.gains), float(self.pool.gains[-1])
        groups, gains, size = self.groups[known], self.gains[known], int(self.groups.max()) + 1
        count = np.bincount(groups, minlength=size)
        mean = (gains.sum() + _PRIOR * _FIRST * span) / (len(gains) + _PRIOR)
        means = (np.bincount(groups, gains, size) + _PRIOR * mean) / (count + _PRIOR)
        squares = (gains - means[groups]) ** 2
        square = (squares.sum() + _PRIOR * _FIRST * span**2) / (len(gains) + _PRIOR)
        spreads = np.sqrt((np.bincount(groups, squares, size) + _PRIOR * square) / (count + _PRIOR))
        first, second = self.pool.weights
        if self.sampling == "uniform":
            return means[self.groups], np.ones(len(first))
        if self.sampling == "position":
            return means[self.groups], first + second
        plain = np.sqrt((first - second) ** 2 + _VALUES * (first**2 + second**2))
        wanted = plain * spreads[self.groups]
        left = ~known
        mixed = (1 - _CAUTION) * wanted / wanted[left].sum() + _CAUTION * plain / plain[left].sum()
        return means[self.groups], mixed


def _suffix(extreme: np.ufunc, values: Floats, now: Ints, rest: Ints) -> Floats:
    """Return the extreme over the pairs left before each draw."""
    ends = extreme.accumulate(values[now][::-1])[::-1]
    return np.asarray(extreme(ends, extreme.reduce(values[rest])) if len(rest) else ends)
