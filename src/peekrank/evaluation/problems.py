"""Estimation problems of measures: rows, weights and bounds of the decisions in a part of a log."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from peekrank.evaluation import estimators as est
from peekrank.evaluation.estimators import Rows, Target
from peekrank.evaluation.log import Log, Scope
from peekrank.evaluation.pairs import fill_pairs, pair_propensities
from peekrank.evaluation.predictions import TOTALS, adjust_means
from peekrank.evaluation.supported_measures import by_items, gain_rule, reject
from peekrank.measures import PairwiseLoss
from peekrank.types import Floats, Ints, LinearMeasure, Measure


class Problem(NamedTuple):
    """Rows and estimand of some decisions, and the constant to add to the value of each."""

    rows: Rows
    target: Target
    shift: Floats


class Limits(NamedTuple):
    """Bounds of the value of a target in any decision, which are known before the first one."""

    least: float
    most: float


class Part(Protocol):
    """Some decisions of a log, and what estimates of different policies share."""

    @property
    def scale(self) -> float:
        """Typical magnitude of a value."""
        ...

    @property
    def rows(self) -> Rows | None:
        """Observations, if they are the same for all policies."""
        ...

    def problem(self, one: Ints | None, other: Ints | None, *, is_difference: bool) -> Problem:
        """Return the problem of a policy's value, or of a difference, from ranks; None: the logging policy."""
        ...


class Problems(Protocol):
    """Problems of a measure on the parts of a log."""

    def part(self, log: Log) -> Part:
        """Prepare some decisions."""
        ...

    def limits(self, *, is_difference: bool) -> Limits:
        """Return bounds of the value of a target."""
        ...


def make_problems(measure: Measure, scope: Scope) -> Problems:
    """Return the problems of a measure. Raises ValueError if it cannot be estimated from a log."""
    if isinstance(measure, PairwiseLoss):
        return _Pairs(scope)
    if not by_items(measure, scope.max_feedback):
        reject(measure, scope)
    return _Items(cast("LinearMeasure", measure), scope)


class _Items:
    """Problems of measures that are sums over items."""

    def __init__(self, measure: LinearMeasure, scope: Scope) -> None:
        self.gains, self.low, high = gain_rule(measure, scope.min_feedback, scope.max_feedback)
        self.span = high - self.low
        self.sizes = scope.lengths
        discounts = [measure.discount(int(n)) for n in self.sizes]
        self.totals = np.array([discount.sum() for discount in discounts])
        self.flat, self.first = np.concatenate(discounts), np.append(0, np.cumsum(self.sizes))

    def limits(self, *, is_difference: bool) -> Limits:
        most = float(self.span * self.totals.max())
        return Limits(-most if is_difference else 0.0, most)

    def part(self, log: Log) -> _ItemsPart:
        return _ItemsPart(self, log)


class _ItemsPart:
    def __init__(self, problems: _Items, log: Log) -> None:
        self.log, self.span = log, problems.span
        which = np.searchsorted(problems.sizes, log.lengths)
        self.totals, self._first, self._flat = problems.totals[which], problems.first[which], problems.flat
        gain = problems.gains(log) - problems.low
        self.rows = Rows(log.offsets, log.propensity, gain, log.item, log.k, self.span, -problems.low)
        self._shift = problems.low * self.totals
        self.scale = self.span * float(self.totals[0])

    def problem(self, one: Ints | None, other: Ints | None, *, is_difference: bool) -> Problem:
        if not is_difference:
            return Problem(self.rows, self._target(one), self._shift)
        return Problem(self.rows, self._target(one).minus(self._target(other)), np.zeros(len(self._shift)))

    def _weights(self, ranks: Ints) -> Floats:
        weights = np.empty(len(ranks))
        est.fill_weights(self.log.offsets, self._flat, self._first, ranks, weights)
        return weights

    def _target(self, ranks: Ints | None) -> Target:
        none = np.zeros(len(self.log.k))
        if ranks is not None:
            return Target(self._weights(ranks), none, none, none, none)
        weights = self._weights(self.log.position)  # the ranking shown: its gains were seen, or are unknown
        seen = np.where(np.isnan(self.rows.gain), 0, weights * self.rows.gain)
        unseen = np.where(np.isnan(self.rows.gain), weights, 0) * self.span
        known, spare = (np.add.reduceat(part, self.log.offsets[:-1]) for part in (seen, unseen))
        return Target(np.zeros(len(weights)), known, spare, none, self.span * self.totals)


class _Pairs:
    """Problems of the pairwise loss, a sum over pairs."""

    def __init__(self, scope: Scope) -> None:
        if scope.lengths[0] < 2:
            raise ValueError("pairwiseloss needs at least two candidates in each decision")
        self._most = float(scope.lengths[-1] * (scope.lengths[-1] - 1) // 2)
        self._indices = {int(n): np.triu_indices(int(n), 1) for n in scope.lengths}

    def limits(self, *, is_difference: bool) -> Limits:
        return Limits(-2 * self._most, 2 * self._most) if is_difference else Limits(0.0, self._most)

    def part(self, log: Log) -> _PairsPart:
        return _PairsPart(log, self._indices)


class _PairsPart:
    rows = None  # subjects and gains depend on the policy

    def __init__(self, log: Log, indices: dict[int, Any]) -> None:
        self.log = log
        self.offsets = np.append(0, np.cumsum(log.lengths * (log.lengths - 1) // 2))
        self.propensity, self.seen = pair_propensities(log), log.k * (log.k - 1) // 2
        firsts = list(zip(log.lengths.tolist(), log.offsets[:-1].tolist(), strict=True))
        self._one, self._other = (
            log.item[np.concatenate([indices[n][side] + first for n, first in firsts])] for side in (0, 1)
        )
        self.scale = float(self.offsets[1])

    def problem(self, one: Ints | None, other: Ints | None, *, is_difference: bool) -> Problem:
        signs, first = self._pairs(one)
        none = np.zeros(len(self.log.k))
        if not is_difference:  # the gain of a pair is 1 if its order is wrong
            gain, weights, span = np.where(np.isnan(signs), np.nan, first * signs > 0), np.ones(len(signs)), 1.0
            subject, shift = self._subjects(first), none
        else:  # its sign plus 1; the weight says which policy has the wrong order
            gain, weights, span = signs + 1, (first - self._pairs(other)[1]) / 2, 2.0
            subject, shift = self._subjects(np.ones(len(signs))), -np.add.reduceat(weights, self.offsets[:-1])
        rows = Rows(self.offsets, self.propensity, gain, subject, self.seen, span, span - 1)
        return Problem(rows, Target(weights, none, none, none, none), shift)

    def _pairs(self, ranks: Ints | None) -> tuple[Floats, Floats]:
        if ranks is None:
            raise ValueError(
                "pairwiseloss of the logging policy cannot be estimated, because most pairs are not seen"
            )
        signs, above = np.empty(self.offsets[-1]), np.empty(self.offsets[-1])
        fill_pairs(self.log.offsets, self.log.feedback, ranks, signs, above)
        return signs, above

    def _subjects(self, above: Floats) -> Ints:
        """Return a number for each ordered pair of items."""
        first, second = np.where(above > 0, self._one, self._other), np.where(above > 0, self._other, self._one)
        return np.asarray(first * len(self.log.names) + second)


class Predictor:
    """Predictions of gains from earlier decisions and outside predictions, carried through the parts of a log.

    Parameters
    ----------
    regression
        As for `evaluate_log`.
    subjects
        Number of items if rows are items; 0 if rows are pairs.
    """

    def __init__(self, regression: str, subjects: int) -> None:
        self.regression = regression
        self.sums, self.counts = np.zeros(subjects), np.zeros(subjects)
        self.codes = np.empty(0, np.int64)  # ordered pairs seen so far, in the order of `sums`
        self.overall = np.zeros(2)
        self.scale, self.P, self.w = np.empty(0), np.empty((0, 0)), np.empty(0)
        self._by_items = subjects > 0
        self.adjustment, self.adjustment_totals = np.empty((2, 0)), np.zeros(TOTALS)  # by outside predictions

    def predict(self, rows: Rows, log: Log) -> Floats:
        """Predict the gain of each row, then learn from it."""
        out = np.zeros(len(rows.propensity))
        if self.regression in ("items", "mean"):
            rows = rows._replace(subject=self._subjects(rows))
            if self.overall[1] == 0:
                self.overall[:] = rows.span / 2, 1.0
            est.fill_means(rows, self.sums, self.counts, self.overall, out)
            if self._by_items and log.predictions is not None:
                known = self.adjustment.shape[1]
                if known < len(self.sums):
                    self.adjustment = np.hstack([self.adjustment, np.zeros((2, len(self.sums) - known))])
                sums, counts = self.adjustment[0], self.adjustment[1]
                adjust_means(rows, log.predictions, sums, counts, self.adjustment_totals, out)
        elif self.regression == "features":
            if log.features is None or len(rows.propensity) != len(log.item):
                raise ValueError(
                    "regression = 'features': the log has no features, or the measure is a sum over pairs"
                )
            X, d = log.features, log.features.shape[1]
            if len(self.w) not in (0, d + 1):
                raise ValueError(f"regression = 'features': {d} features after {len(self.w) - 1}")
            if not len(self.w):
                scale = np.sqrt(np.mean(X[: rows.offsets[1]].astype(np.float64) ** 2, axis=0))
                self.scale = np.where(scale > 0, scale, 1.0)
                self.P, self.w = np.eye(d + 1), np.zeros(d + 1)
            est.fill_ridge(rows, X, self.scale, self.P, self.w, np.empty(d + 1), np.empty(d + 1), out)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the predictor has learned, by name."""
        names = ("sums", "counts", "codes", "overall", "scale", "P", "w", "adjustment", "adjustment_totals")
        return {name: getattr(self, name) for name in names}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue from saved arrays. Raises ValueError if they do not fit together."""
        subjects, d = len(arrays["sums"]), len(arrays["w"])
        known = len(arrays["codes"]) == subjects if len(arrays["codes"]) else subjects == len(self.sums)
        fits = arrays["P"].shape == (d, d) and len(arrays["scale"]) == max(d - 1, 0)
        fits &= arrays["adjustment"].shape in ((2, 0), (2, subjects))
        fits &= arrays["adjustment_totals"].shape == (TOTALS,)
        if not (known or self.regression == "mean") or not fits or len(arrays["counts"]) != subjects:
            raise ValueError("the state is of another evaluation")
        if len(np.unique(arrays["codes"])) < len(arrays["codes"]):
            raise ValueError("its candidates are not different")
        for name, array in arrays.items():
            setattr(self, name, np.array(array, getattr(self, name).dtype))

    def _subjects(self, rows: Rows) -> Ints:
        if self.regression == "mean":
            if not len(self.sums):
                self.sums, self.counts = np.zeros(1), np.zeros(1)
            return np.zeros_like(rows.subject)
        if len(self.sums) and not len(self.codes):
            return rows.subject
        present = np.unique(rows.subject)
        new = np.setdiff1d(present, self.codes)
        self.codes = np.append(self.codes, new)
        self.sums, self.counts = (np.append(part, np.zeros(len(new))) for part in (self.sums, self.counts))
        order = np.argsort(self.codes)
        return np.asarray(order[np.searchsorted(self.codes, rows.subject, sorter=order)])
