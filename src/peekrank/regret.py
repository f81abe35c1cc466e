"""Regret against the best ranking in hindsight or in expectation, and the exponent of its growth."""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_ascending, check_choice, check_int
from peekrank.measures import learnable
from peekrank.measures.evaluation import add_up_rows, linear_parts
from peekrank.streams.fixed import known_items, list_lengths, list_shape, row_chunks
from peekrank.types import Floats, Ints, LinearMeasure, Measure, RegretKind, Rounds, Tails, Trace

_EXHAUSTIVE_UP_TO = 7
_CHUNK = 2**19
_BOOTSTRAPS = 1000
_IN_CACHE = 2**16  # numbers


def default_checkpoints(horizon: int, count: int = 400) -> Ints:
    """Return numbers of rounds to record: about half evenly spaced, half geometrically, and always the last.

    >>> default_checkpoints(1000, 8)
    array([   1,   10,  100,  250,  500,  750, 1000])
    """
    check_int("rounds", horizon, 1, 2**53)
    half = count // 2
    spread = np.concatenate([np.geomspace(1, horizon, half), np.linspace(0, horizon, half + 1)[1:]])
    return np.unique(np.rint(spread).astype(np.int64).clip(1, horizon))


def best_values(measure: Measure, rounds: Rounds, checkpoints: Ints, kind: RegretKind = "static") -> Floats:
    """Return the value of what regret compares with in the first t rounds, for each t of `checkpoints`.

    Parameters
    ----------
    measure
        The measure.
    rounds
        The rounds.
    checkpoints
        Numbers of rounds, ascending.
    kind
        What regret compares with:

        - ``static``: the fixed ranking that is best in hindsight for the first t rounds. A linear measure takes
          one sort. Other measures take all m! rankings, so they need m <= 7.
        - ``pseudo``: the ranking by expected gain, averaged over all rounds. The stream must know the distribution
          of the relevance. In expectation no fixed ranking is better if the measure is separable, or if items are
          independent and the measure is AP, RR, ERR, or NDCG or AUC loss of binary relevance.
        - ``dynamic``: in each round the ranking by expected gain in this round, of which the same is true. Where
          the distribution changes in steps, as in `Switching`, this is switching regret.
        - ``none``: 0, so that "regret" is minus the value, or the loss.

    If items come and go, a fixed ranking orders all items, and each round shows the available ones in this order.
    The best such ranking is hard to find. For every t, ``static`` uses the order of the items' mean gains over
    all rounds in which they are available. This order is the best one if all items are always available. If
    relevance is drawn independently in each round, no order is better in expectation than that of the true means,
    to which this one converges.

    >>> from peekrank.measures import DCG
    >>> from peekrank.streams import fixed_items
    >>> best_values(DCG(), fixed_items([[0, 1], [1, 1]]), np.array([1, 2])).round(3)
    array([1.   , 2.631])
    """
    check_choice("regret", kind, RegretKind)
    if kind == "none":
        return np.zeros(len(checkpoints))
    if kind != "static":
        return _values_of_expected_order(measure, rounds, checkpoints, changing=kind == "dynamic")
    if rounds.items is not None:
        return _values_of_mean_order(measure, rounds, rounds.items, checkpoints)
    n, m = list_shape(rounds)
    checkpoints = check_ascending("checkpoints", checkpoints, n)
    relevance = rounds.relevance.reshape(n, m)
    if isinstance(measure, LinearMeasure) and measure.linear(int(relevance.max())):
        return _best_by_sorting(measure, relevance, checkpoints)
    if m > _EXHAUSTIVE_UP_TO:
        raise ValueError(
            f"the best ranking for {measure} is found by trying all rankings, which is possible for up to "
            f"{_EXHAUSTIVE_UP_TO} items, not for {m}. Choose regret = 'pseudo' if the stream knows its means, or "
            "'none' for the value alone"
        )
    return _best_by_search(measure, relevance, checkpoints)


def regret(measure: Measure, trace: Trace, best: Floats) -> Floats:
    """Return the cumulative regret of a run against the best fixed ranking, at each checkpoint of the trace."""
    return best - trace.value if measure.higher_is_better else trace.value - best


class Exponent(NamedTuple):
    """Fitted exponent of the growth of regret, with a 95 % interval over runs that contains it.

    The ends of the interval are NaN if it cannot be computed.
    """

    value: float
    low: float
    high: float


def fit_exponent(checkpoints: Ints, regrets: Floats, *, seed: int = 0) -> Exponent:
    """Fit the slope b of log(mean regret) = a + b log(t) over the last decade of rounds by least squares.

    The interval is a bootstrap interval over runs, widened to contain the value. It is too narrow for a handful of
    runs, and reflects only the learner's randomness if all runs share the same rounds. The slope describes the
    curve of one horizon; the rate of a learner tuned to its horizon needs several horizons.

    Parameters
    ----------
    checkpoints
        Round counts.
    regrets
        Cumulative regret, one row for each run.
    seed
        Random seed of the bootstrap.

    >>> t = default_checkpoints(100_000)
    >>> fit_exponent(t, np.outer([1.0, 1.2, 0.9], t ** (2 / 3))).value.__round__(3)
    0.667
    """
    targets = np.geomspace(checkpoints[-1] / 10, checkpoints[-1], 20)
    columns = np.unique(np.searchsorted(checkpoints, targets).clip(0, len(checkpoints) - 1))
    t, curves = np.log(checkpoints[columns]), regrets[:, columns]
    if len(columns) < 2:
        return Exponent(np.nan, np.nan, np.nan)
    weights = (t - t.mean()) / np.sum((t - t.mean()) ** 2)

    def slopes(means: Floats) -> Floats:
        logs = np.log(means, out=np.full(means.shape, np.nan), where=means > 0)
        return np.asarray(logs @ weights)

    value = float(slopes(curves.mean(axis=0)))
    runs = len(curves)
    if runs < 2 or np.isnan(value):
        return Exponent(value, np.nan, np.nan)
    draws = np.random.default_rng(seed).integers(runs, size=(_BOOTSTRAPS, runs))
    pieces = np.array_split(draws, 1 + draws.size * len(columns) // _IN_CACHE)
    resampled = slopes(np.concatenate([curves[piece].mean(axis=1) for piece in pieces]))
    if np.isnan(resampled).any():
        return Exponent(value, np.nan, np.nan)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Exponent(value, min(value, float(low)), max(value, float(high)))


def _best_by_sorting(measure: LinearMeasure, relevance: NDArray[Any], checkpoints: Ints) -> Floats:
    n, m = relevance.shape
    best_first = np.sort(measure.discount(m))[:: -1 if measure.higher_is_better else 1]
    sums, done = np.zeros(m + 1), 0  # sums of gains, then the sum of offsets
    out = np.empty(len(checkpoints))
    chunk = max(1, _CHUNK // m)
    for first in range(0, n, chunk):
        rows = relevance[first : first + chunk]
        reached = checkpoints[slice(*np.searchsorted(checkpoints, (first + 1, first + len(rows) + 1)))]
        records = np.empty((len(reached), m + 1))
        _, gain, offset = linear_parts(measure, rows)
        add_up_rows(gain, offset, sums, reached - first, records)
        descending = -np.sort(-records[:, :m], axis=1)
        out[done : done + len(reached)] = records[:, m] + descending @ best_first
        done += len(reached)
    return out


def _values_of_mean_order(measure: Measure, rounds: Rounds, items: Ints, checkpoints: Ints) -> Floats:
    """Return the value of the order by mean gain, restricted in each round to the available items."""
    lengths = list_lengths(rounds)
    checkpoints = check_ascending("checkpoints", checkpoints, len(lengths))
    relevance, offsets = rounds.relevance, rounds.offsets
    measure, m = learnable(measure, int(relevance.max())), known_items(rounds)
    sums = np.bincount(items, measure.gain(relevance), m)
    means = sums / np.maximum(1, np.bincount(items, minlength=m))
    values = np.empty(len(lengths))
    for n in np.unique(lengths):
        same = np.flatnonzero(lengths == n)
        for these in np.array_split(same, 1 + len(same) * n // _CHUNK):
            rows = offsets[these, None] + np.arange(n)
            rankings = np.argsort(-means[items[rows]], axis=1, kind="stable")
            values[these] = measure.values(rankings, relevance[rows])
    total: Floats = np.cumsum(np.nan_to_num(values))
    return total[checkpoints - 1]


def _values_of_expected_order(measure: Measure, rounds: Rounds, checkpoints: Ints, *, changing: bool) -> Floats:
    """Return the value of ranking by expected gain, in each round or averaged over all rounds."""
    if rounds.tails is None:
        raise ValueError(
            "the stream does not know the distribution of its relevance: choose regret = 'static' or 'none'"
        )
    lengths = list_lengths(rounds)
    checkpoints = check_ascending("checkpoints", checkpoints, len(lengths))
    chunks = [np.arange(rows.start, rows.stop) for rows in row_chunks(len(lengths), known_items(rounds))]
    values = np.empty(len(lengths))
    average = None if changing else sum(_expected_gains(measure, rounds.tails, t).sum(axis=0) for t in chunks)
    for t in chunks:
        gains = _expected_gains(measure, rounds.tails, t) if average is None else np.tile(average, (len(t), 1))
        for length in np.unique(lengths[t]):
            same = lengths[t] == length
            rows = rounds.offsets[t[same], None] + np.arange(length)
            of_rows = (
                gains[same] if rounds.items is None else np.take_along_axis(gains[same], rounds.items[rows], 1)
            )
            rankings = np.argsort(-of_rows, axis=1, kind="stable")
            values[t[same]] = measure.values(rankings, rounds.relevance[rows])
    total: Floats = np.cumsum(np.nan_to_num(values))
    return total[checkpoints - 1]


def _expected_gains(measure: Measure, tails: Tails, t: Ints) -> Floats:
    """Return the expected gain of each item in the rounds t, one row for each."""
    probabilities = [np.broadcast_to(tail, (len(t), np.shape(tail)[-1])) for tail in tails(t)]
    steps = np.diff(_gains(measure, len(probabilities)))
    return np.asarray(np.einsum("g,gti->ti", steps, np.array(probabilities)))


def _gains(measure: Measure, max_grade: int) -> Floats:
    """Return what an item of each grade gains, up to a factor.

    Measures that are not linear gain what they lose if the item and an irrelevant one swap positions.
    """
    grades = np.arange(max_grade + 1, dtype=np.uint8)
    if isinstance(measure, LinearMeasure) and measure.linear(max_grade):
        return np.asarray(measure.gain(grades[None])[0])
    lists = np.column_stack([grades, np.zeros_like(grades)])
    above, below = (
        np.nan_to_num(measure.values(np.tile(np.array(order), (len(lists), 1)), lists))
        for order in ([0, 1], [1, 0])
    )
    return above - below if measure.higher_is_better else below - above


def _best_by_search(measure: Measure, relevance: NDArray[Any], checkpoints: Ints) -> Floats:
    m = relevance.shape[1]
    kinds, kind_of = np.unique(relevance, axis=0, return_inverse=True)
    rankings = np.array(list(permutations(range(m))), dtype=np.int64)
    value = np.empty((len(kinds), len(rankings)))
    for row, kind in enumerate(kinds):
        value[row] = np.nan_to_num(measure.values(rankings, np.tile(kind, (len(rankings), 1))))
    best = np.max if measure.higher_is_better else np.min
    sums = np.zeros(len(rankings))
    out = np.empty(len(checkpoints))
    start = 0
    for i, t in enumerate(checkpoints):
        sums += np.bincount(kind_of[start:t], minlength=len(kinds)) @ value
        out[i], start = best(sums), t
    return out
