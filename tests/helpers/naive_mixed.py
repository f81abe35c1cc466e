"""The learner `mixed` from its definition: one dense solve over weights, items and cells, loops over pairs.

The twin with a short memory is a recursion in plain NumPy with whole matrices. Nothing here uses the package.
"""

from __future__ import annotations

from itertools import product
from math import e, isnan, log, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from helpers.naive_exploration import doubts, price

Floats = NDArray[Any]  # of float64
MEMORY, BOUND, HOLD, STEP = 0.998, 10.0, 5.0, 1.5
SLOPE, SCORE_PRIOR = 0.1, 25.0
LOWEST, HIGHEST = 0.4, 5000.0


class Answer(NamedTuple):
    """An answer, in units of the range and with 0 in its middle, and the number of answers before it."""

    item: int
    key: int  # -1 for none
    x: Floats  # features, 1, two columns of the score
    y: float
    time: int


class Dense(NamedTuple):
    """Posterior of (w, u, v) in units of the noise variance."""

    A: Floats
    b: Floats
    rss: float
    volume: float
    items: list[int]
    cells: list[tuple[int, int]]
    d: int

    def given(self, i: int, key: int, x: Floats) -> tuple[float, float, Floats]:
        """Base, own variance and slope: given w, an answer is expected to be ``base + slope . w``."""
        z = np.zeros(len(self.b) - self.d)
        z[self.items.index(i)] = 1
        if key >= 0:
            z[len(self.items) + self.cells.index((key, i))] = 1
        d, solved = self.d, np.linalg.solve(self.A[self.d :, self.d :], z)
        return float(solved @ self.b[d:]), float(z @ solved), x - self.A[:d, d:] @ solved

    def reduced(self) -> tuple[Floats, Floats]:
        """Precision of w, and its product with the mean."""
        d = self.d
        inner = np.linalg.solve(self.A[d:, d:], np.column_stack([self.A[d:, :d], self.b[d:]]))
        return self.A[:d, :d] - self.A[:d, d:] @ inner[:, :d], self.b[:d] - self.A[:d, d:] @ inner[:, d]


def dense(
    answers: list[Answer], weights: Floats, prior: Floats, w0: Floats, lu: float, lv: float,
    extra: tuple[tuple[int, int], ...] = (),
) -> Dense:  # fmt: skip
    """Solve the normal equations of all unknowns; `extra` are items and keys without answers."""
    items = sorted({a.item for a in answers} | {i for i, _ in extra})
    cells = sorted({(a.key, a.item) for a in answers if a.key >= 0} | {(c, i) for i, c in extra if c >= 0})
    d, n = len(prior), len(answers)
    Z = np.zeros((n, d + len(items) + len(cells)))
    for row, a in enumerate(answers):
        Z[row, :d] = a.x
        Z[row, d + items.index(a.item)] = 1
        if a.key >= 0:
            Z[row, d + len(items) + cells.index((a.key, a.item))] = 1
    y = np.array([a.y for a in answers])
    before = np.r_[prior, np.full(len(items), lu), np.full(len(cells), lv)]
    start = np.r_[w0, np.zeros(len(items) + len(cells))]
    A, b = Z.T @ (weights[:, None] * Z) + np.diag(before), Z.T @ (weights * y) + before * start
    there = before > 0  # a feature that was always 0 has no weight
    A[~there, ~there] = 1
    rss = float(weights @ y**2 + before @ start**2 - b @ np.linalg.solve(A, b))
    volume = float(np.linalg.slogdet(A)[1] - np.log(before[there]).sum())
    return Dense(A, b, rss, volume, items, cells, d)


def held(S: Floats, r: Floats, noise: float, hold: bool) -> Floats:
    """The weights, the two slopes of the score not below 0 unless the answers contradict that."""
    free = np.linalg.solve(S, r)
    if not hold or min(free[-2:]) >= 0:
        return free
    best: Floats = free
    cost = float(np.inf)
    for fixed in product((False, True), repeat=2):
        kept = np.r_[np.ones(len(r) - 2, bool), ~np.array(fixed)]
        w = np.zeros(len(r))
        w[kept] = np.linalg.solve(S[np.ix_(kept, kept)], r[kept])
        lost = float((w - free) @ S @ (w - free))
        if min(w[-2:]) >= 0 and lost < cost:
            best, cost = w, lost
    return best if cost / (2 * noise) <= HOLD else free


class NaiveTwin:
    """The model with a short memory: sums that fade with every answer."""

    def __init__(self, prior: Floats, w0: Floats) -> None:
        self.S, self.r, self.prior, self.w0 = np.diag(prior), prior * w0, prior.copy(), w0
        self.rows: dict[Any, list[Any]] = {}
        self.clock = self.renew = 0

    def row(self, name: Any) -> list[Any]:
        """Number, sums of x and y of an item or cell, faded to the present; an item's are effective."""
        d = len(self.r)
        n, sx, sy, last = self.rows.get(name, [0.0, np.zeros(d), 0.0, self.clock])
        f = MEMORY ** (self.clock - last)
        self.rows[name] = [f * n, f * sx, f * sy, self.clock]
        return self.rows[name]

    def start(self, j: int, precision: float) -> None:
        self.prior[j] = self.S[j, j] = precision

    def learn(self, a: Answer, target: Floats, lu: float, lv: float, noise: float, hold: bool) -> float:
        """Learn an answer, and return what was expected."""
        w = held(self.there(self.S), self.r, noise, hold)
        self.clock += 1
        self.S, self.r, self.prior = MEMORY * self.S, MEMORY * self.r, MEMORY * self.prior
        j, self.renew = self.renew, (self.renew + 1) % len(self.r)
        lost = target[j] - self.prior[j]
        if lost > 0:
            self.S[j, j] += lost
            self.r[j] += lost * self.w0[j]
            self.prior[j] = target[j]
        item = self.row(a.item)
        cell: list[Any] = self.row((a.key, a.item)) if a.key >= 0 else [0.0, 0 * a.x, 0.0]
        ac = 1 / (cell[0] + lv) if a.key >= 0 else 0.0
        h, ai = (lv * ac if a.key >= 0 else 1.0), 1 / (item[0] + lu)
        base, own = ac * cell[2] + h * ai * item[2], ac + h * h * ai
        cx = a.x - ac * cell[1] - h * ai * item[1]
        self.S += np.outer(cx, cx) / (1 + own)
        self.r += cx * (a.y - base) / (1 + own)
        before = h
        new = [cell[0] + 1, cell[1] + a.x, cell[2] + a.y]
        after = lv / (new[0] + lv) if a.key >= 0 else 1.0
        for part in range(3):
            item[part] = item[part] + after * new[part] - before * cell[part]
        if a.key >= 0:
            self.rows[(a.key, a.item)][:3] = new
        return float(base + cx @ w)

    @staticmethod
    def there(S: Floats) -> Floats:
        """The matrix with 1 for features that were always 0."""
        full: Floats = S + np.diag(np.where(np.diag(S) == 0, 1.0, 0.0))
        return full


class Ranked(NamedTuple):
    """What is shown, by rows of the list, and what it was computed from."""

    ranking: list[int]
    order: list[int]
    x: Floats
    means: Floats
    widths: Floats
    probabilities: list[float]


class NaiveMixed:
    """The whole learner, for answers from 0 to 1; `weights` are those of the longest list."""

    def __init__(
        self,
        weights: list[float],
        k: int,
        d: int = 0,
        *,
        floor: float = 0.003,
        earned: float = 0.2,
        safe: bool = False,
    ) -> None:
        self.weights, self.k, self.d, self.floor, self.earned, self.safe = weights, k, d, floor, earned, safe
        self.answers: list[Answer] = []
        self.trust = np.zeros(0)  # weight of each answer
        self.prior = np.r_[np.zeros(d), 1.0, SCORE_PRIOR, SCORE_PRIOR]
        self.w0 = np.r_[np.zeros(d + 1), SLOPE, SLOPE]
        self.lu, self.lv, self.refit, self.alarm, self.restarts = 2.0, 64.0, 1.0, 0.0, 0
        self.scored, self.hold = False, True
        self.ring: list[float] = []
        self.rounds: dict[int, int] = {}
        self.lists, self.returning = 0, 0.0
        self.version, self.versions, self.stale = 0, dict[int, int](), 0.0
        self.centre: Floats | None = None
        self.seen: list[Floats] = []
        self.twin = NaiveTwin(self.prior, self.w0)

    # --- the score and the features

    def columns(self, scores: Floats | None, n: int) -> Floats:
        """Place in the list, and among recent scores, as normal quantiles."""
        x = np.zeros((n, 2))
        if scores is None:
            return x
        given = [s for s in scores if not isnan(s)]
        for i, s in enumerate(scores):
            if isnan(s):
                continue
            below, ties = sum(t < s for t in given), sum(t == s for t in given)
            x[i] = NormalDist().inv_cdf((below + ties / 2) / len(given))
            if len(self.ring) >= 64:
                kept = self.ring[-512:]
                below, ties = sum(t < s for t in kept), sum(t == s for t in kept)
                x[i, 1] = NormalDist().inv_cdf((below + ties / 2 + 0.5) / (len(kept) + 1))
        return x

    def features(self, X: Floats) -> Floats:
        """Features less the mean of the first list, where none of it is 0; they give weights their scale."""
        if self.centre is None:
            self.centre = np.where((X != 0).all(0), X.mean(0), 0.0)
        x = X - self.centre
        self.seen.extend(x)
        for j in range(self.d):
            if self.prior[j] == 0 and (precision := self.precision(j)) > 0:
                self.prior[j] = precision
                self.twin.start(j, precision)
        return x

    def precision(self, j: int) -> float:
        column = np.array(self.seen)[:, j]
        if not column.any():
            return 0.0
        spread, squares = float(((column - column.mean()) ** 2).sum()), float((column**2).sum())
        return (spread if spread > 1e-12 * squares else squares) / np.count_nonzero(column)

    # --- rounds

    def posterior(self, extra: tuple[tuple[int, int], ...] = ()) -> Dense:
        return dense(self.answers, self.trust, self.prior, self.w0, self.lu, self.lv, extra)

    def noise(self) -> float:
        return float((self.posterior().rss + 0.5) / (self.trust.sum() + 2))

    def rank(
        self,
        items: list[int],
        uniforms: Floats,
        scores: Floats | None = None,
        key: int = -1,
        X: Floats | None = None,
    ) -> Ranked:
        n = len(items)
        k = min(self.k, n)
        if scores is not None and not self.scored:
            self.scored, self.refit = True, 0.0
            self.lu = 24.0 if not self.answers else self.lu
        x = np.ones((n, self.d + 3))
        if X is not None:
            x[:, : self.d] = self.features(X)
        x[:, self.d + 1 :] = self.columns(scores, n)
        for i in items:
            self.rounds[i] = self.rounds.get(i, 0) + 1
        self.lists += 1
        if scores is not None:
            self.join(items, x)
        told = sum(self.number(i, key) for i in items) / n
        share = sum(self.rounds[i] for i in items) / (n * self.lists)
        self.returning = share * told / (told + 10)
        known, noise = self.posterior(tuple((i, key) for i in items)), self.noise()
        S, r = known.reduced()
        w, P = held(S, r, noise, self.hold), np.linalg.inv(S)
        parts = [known.given(i, key, row) for i, row in zip(items, x, strict=True)]
        means = np.array([base + cx @ w for base, _, cx in parts])
        app = sorted(range(n), key=lambda i: -x[i, self.d + 1])
        order = sorted(app, key=lambda i: -means[i])
        centre = np.mean([cx for _, _, cx in parts], axis=0)
        widths = np.array([
            sqrt(log(e + self.rounds[i]))
            * sqrt(own * self.variance(i, key, noise) + noise * (cx - centre) @ P @ (cx - centre))
            for i, (_, own, cx) in zip(items, parts, strict=True)
        ])  # fmt: skip
        q = self.probabilities(means, widths, order, app if scores is not None else None)
        ranking, left = order.copy(), uniforms[0]
        for p in range(k, n):
            left -= q[p]
            if left < 0:
                ranking.insert(k - 1, ranking.pop(p))
                break
        if scores is not None and not isnan(kept := scores[min(n - 1, int(uniforms[1] * n))]):
            self.ring.append(kept)
        return Ranked(ranking, order, x, means, widths, q)

    def number(self, item: int, key: int) -> float:
        """Answers about an item, with a key those of its cell."""
        told = zip(self.trust, self.answers, strict=True)
        return float(sum(t for t, a in told if a.item == item and key in (-1, a.key)))

    def variance(self, item: int, key: int, noise: float) -> float:
        """The item's own variance of answers, the common one counting as four."""
        if key >= 0:
            return noise
        told = [(t, a.y) for t, a in zip(self.trust, self.answers, strict=True) if a.item == item]
        n = sum(t for t, _ in told)
        mean = sum(t * y for t, y in told) / n if n else 0.0
        return (sum(t * (y - mean) ** 2 for t, y in told) + 4 * noise) / (n + 4)

    def probabilities(self, means: Floats, widths: Floats, order: list[int], app: list[int] | None) -> list[float]:
        n, k = len(order), min(self.k, len(order))
        weights = self.weights[:n]
        sorted_means = [float(means[i]) + 0.5 for i in order]
        spread = [float(widths[i]) for i in order]
        doubt, q = doubts(sorted_means, spread, weights), [0.0] * n
        costs = [0.0] * k + [max(0.0, price(sorted_means, weights, k, p)) for p in range(k, n)]
        for p in range(k, n):
            worth = 0.25 / n * doubt[p] * spread[p]
            q[p] = 0.0 if worth == 0 else 1.0 if worth >= costs[p] else worth / costs[p]
        q = [c * min(1.0, 0.5 / sum(q)) if sum(q) > 0 else c for c in q]
        if app is None:
            return q
        gain = sum(v * (means[i] - means[j]) for v, i, j in zip(weights, order, app, strict=True))
        spent = sum(c * cost for c, cost in zip(q, costs, strict=True))
        more = 1 + 3 * self.returning
        floor = more * self.floor * (weights[0] - min(0.0, weights[-1]))
        if self.safe:
            worst = [
                cost + (weights[k - 1] - weights[p]) * max(0.0, sorted_means[p]) for p, cost in enumerate(costs)
            ]
            costly = sum(c * cost for c, cost in zip(q, worst, strict=True))
            scale = (floor / costly if costly else np.inf) + (
                min(1.0, more * self.earned) * gain / spent if spent else np.inf
            )
        else:
            scale = (floor + min(1.0, more * self.earned) * gain) / spent if spent else np.inf
        return [c * min(1.0, scale) for c in q]

    def update(self, told: list[tuple[int, int, Floats, float]]) -> None:
        """Learn from answers from 0 to 1 (item, key, x, answer)."""
        for item, key, x, y in told:
            a = Answer(item, key, x, y - 0.5, self.twin.clock + 1)
            known, noise = self.posterior(((item, key),)), self.noise()
            base, _, cx = known.given(item, key, x)
            expected = base + cx @ held(*known.reduced(), noise, self.hold)
            twin = self.twin.learn(a, self.prior, self.lu, self.lv, noise, self.hold)
            self.answers.append(a)
            self.trust = np.append(self.trust, 1.0)
            self.alarm = max(0.0, self.alarm + 2 * float((a.y - expected) ** 2 - (a.y - twin) ** 2))
            if self.alarm > BOUND:
                self.trust = np.array([MEMORY ** (self.twin.clock - old.time) for old in self.answers])
                self.alarm, self.hold, self.restarts = 0.0, False, self.restarts + 1
                self.lu, self.lv = (24.0 if self.scored else 2.0), 64.0
                self.refit = max(16.0, 1.5 * self.trust.sum())
                self.fit()
            elif (due := self.trust.sum() >= self.refit) or self.stale > 0.1 * self.trust.sum():
                self.refit = 2 * self.trust.sum() if due else self.refit
                self.fit(climbs=bool(due))
                if self.stale > 0:
                    self.stale = 0.0
                    self.solve_twin_again()

    def renew(self, version: int) -> None:
        """Forget what the score was worth: earlier answers have none until their item is listed."""
        self.version, self.ring = version, []
        self.lu, self.lv, self.alarm, self.hold = 24.0, 64.0, 0.0, True
        self.refit, self.stale = 1.25 * self.trust.sum(), 0.0
        for a in self.answers:
            a.x[-2:] = 0
        self.twin.prior[-2:] = SCORE_PRIOR
        self.solve_twin_again()

    def solve_twin_again(self) -> None:
        """Compute the equations and sums of the twin from all answers."""
        trust, d = np.array([MEMORY ** (self.twin.clock - a.time) for a in self.answers]), self.d + 3
        known = dense(self.answers, trust, self.twin.prior, self.w0, self.lu, self.lv)
        self.twin.S, self.twin.r = known.reduced()
        rows: dict[Any, list[Any]] = {}
        for t, a in zip(trust, self.answers, strict=True):
            for name in [a.item] if a.key < 0 else [a.item, (a.key, a.item)]:
                n, sx, sy, _ = rows.get(name, [0.0, np.zeros(d), 0.0, 0])
                rows[name] = [n + t, sx + t * a.x, sy + t * a.y, self.twin.clock]
        for name, (n, sx, sy, _) in list(rows.items()):  # an item's sums are effective
            if isinstance(name, tuple):
                lost, item = n / (n + self.lv), rows[name[1]]
                item[:3] = [item[0] - lost * n, item[1] - lost * sx, item[2] - lost * sy]
        self.twin.rows = rows

    def join(self, items: list[int], x: Floats) -> None:
        """Give earlier answers about listed items the columns of the new score."""
        for i, row in zip(items, x, strict=True):
            if self.versions.get(i, 0) != self.version:
                self.versions[i] = self.version
                for a, t in zip(self.answers, self.trust, strict=True):
                    if a.item == i:
                        a.x[-2:] = row[-2:]
                        self.stale += t

    # --- variances

    def evidence(self, lu: float, lv: float) -> float:
        """Log marginal likelihood of all answers, noise profiled, times the prior of the ratios."""
        known = dense(self.answers, self.trust, self.prior, self.w0, lu, lv)
        value = -known.volume / 2 - (self.trust.sum() + 2) / 2 * log(known.rss + 0.5)
        value -= (log(lu) - log(24.0 if self.scored else 2.0)) ** 2 / (2 * 0.7**2)
        return float(value - (log(lv) - log(64.0)) ** 2 / (2 * 1.4**2) if known.cells else value)

    def fit(self, *, climbs: bool = True) -> None:
        for j in range(self.d):
            self.prior[j] = self.precision(j) or self.prior[j]
        if self.trust.sum() < 16 or not climbs:
            return
        keyed, best, moved = any(a.key >= 0 for a in self.answers), self.evidence(self.lu, self.lv), True
        while moved:
            moved = False
            for du, dv in ((STEP, 1.0), (1 / STEP, 1.0), (1.0, STEP), (1.0, 1 / STEP)):
                while LOWEST < self.lu * du < HIGHEST and LOWEST < self.lv * dv < HIGHEST and (dv == 1 or keyed):
                    value = self.evidence(self.lu * du, self.lv * dv)
                    if value <= best + 1e-9:
                        break
                    best, self.lu, self.lv, moved = value, self.lu * du, self.lv * dv, True
