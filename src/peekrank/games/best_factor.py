"""The best factor of a ranking game: how much of the best ranking's value a learner can guarantee.

If regret is linear, a learner may still earn alpha times what the best fixed ranking earns, up to o(T). The
largest such alpha depends on *flags*, the joint distributions of the relevance of any k items
(docs/theory/best-factor.md).

The lower bound cuts the set of flags into cells by hyperplanes. In each cell, a linear program finds a mixed
ranking that is good for all distributions with a flag of the cell, and multipliers that prove it. The upper bound
is an adversary: a random ranking, and for each ranking a distribution of relevance, all with the same flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappush, heapreplace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.extras import LazyModule
from peekrank._util.progress import Progress, no_progress
from peekrank._util.validate import check_int
from peekrank.games.exact.numbers import UndecidedError
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.measures import NDCG, AUCLoss, AveragePrecision, Recall
from peekrank.measures import measure as measure_named
from peekrank.types import Floats, Ints, Measure

optimize: Any = LazyModule("scipy.optimize", "games")  # importing SciPy takes half a second
sparse: Any = LazyModule("scipy.sparse", "games")
FORMAT = "peekrank best factor 1"
MAX_ITEMS = 5
PROGRAMS = 200  # by default
_NEAR = 1e-5  # bounds that are this close need no further cell
_GRID = 8  # directions of cuts are multiples of 1 / 8
_FURTHER = 0.3  # weight of an item more in a flag, where directions are compared
_ROUNDS = 3  # of the search for an adversary
_STARTS = {0, 1, 2, 3, *(n << i for i in range(1, 10) for n in (2, 3))}  # numbers of cuts before the search
_DENOMINATORS = (12, 120, 5040)
_DIGITS = 12  # of numbers in a certificate
_TINY = 1e-9  # tolerance of the checker


class Adversary(NamedTuple):
    """A random ranking, and for each ranking a distribution of relevance; all of them have the same flag.

    `weights[i]` is the probability of the i-th of `rankings` times its distribution, up to a common factor.
    `value` is the best value under the mixture, divided by the mean value of the rankings, each under its own.
    """

    value: float
    rankings: Ints
    weights: Floats


class Cell(NamedTuple):
    """A cell of flags with a mixed ranking that earns at least `value` times the best, for any flag of the cell.

    The cell is where ``cuts @ flag >= 0``. `path` has the numbers of the cuts of the search, from 1, negative for
    the other side. `multipliers` prove the value: a row per ranking, a column per cut. `rivals` are the flags of
    the worst distributions times their probabilities, one row per ranking.
    """

    value: float
    cuts: Floats
    path: tuple[int, ...]
    mixed: Floats
    multipliers: Floats
    rivals: Floats


@dataclass(frozen=True)
class BestFactor:
    """Bounds on the best factor, as returned by `best_factor`.

    Parameters
    ----------
    measure, m, k, grades
        The problem.
    lower
        A factor that a learner can guarantee.
    upper
        A factor that no learner can exceed.
    exact_upper
        The same as a fraction, if the adversary is rational, otherwise None.
    programs
        Number of linear programs solved for the lower bound.
    certificate
        Proof of both bounds, as a dictionary for JSON.
    """

    measure: str
    m: int
    k: int
    grades: int
    lower: float
    upper: float
    exact_upper: Fraction | None
    programs: int
    certificate: dict[str, Any]


def best_factor(
    measure: Measure | str,
    m: int,
    k: int,
    grades: int = 2,
    programs: int = PROGRAMS,
    progress: Progress = no_progress,
) -> BestFactor:
    """Bound the best factor of a ranking game from both sides, with a certificate.

    Queries without relevant items are skipped: they earn nothing. For `aucloss`, the value of a ranking is the
    area under the ROC curve, and queries without irrelevant items are skipped as well.

    Parameters
    ----------
    measure
        A measure whose values are gains, or its name.
    m
        Number of items, up to 5.
    k
        Number of revealed positions.
    grades
        Number of relevance grades.
    programs
        Largest number of linear programs for the lower bound. More of them narrow the gap.
    progress
        Callback that receives the number of linear programs solved, and the largest number.

    >>> found = best_factor("ap", m=3, k=1, programs=150)
    >>> found.exact_upper, found.upper - found.lower < 1e-4
    (Fraction(17, 19), True)
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 2, MAX_ITEMS)
    check_int("programs", programs, 1, 10**7)
    game, gain = gain_game(measure, m, k, grades)
    relevance = np.array([[int(grade) for grade in name.split()] for name in game.outcomes])[1:]
    rankings = np.array([[int(i) for i in name.split()] for name in game.actions])
    search = _Search(gain[:, 1:], rankings, relevance, k, grades)
    search.narrow(programs, progress)
    exact = _exact(search.adversary, search.flags, game, measure)
    adversary = search.adversary
    upper = adversary.value if exact is None else float(exact[0])
    weights = adversary.weights.tolist() if exact is None else [[str(w) for w in row] for row in exact[1]]
    proof = {
        "format": FORMAT,
        "measure": str(measure),
        "m": m,
        "k": k,
        "grades": grades,
        "rankings": rankings.tolist(),
        "outcomes": relevance.tolist(),
        "gain": gain[:, 1:].tolist(),
        "lower": search.lower,
        "cuts": [cut.tolist() for cut in search.cuts],
        "cells": [_sparse(cell) for _, _, cell in sorted(search.cells, key=lambda entry: entry[1])],
        "upper": upper,
        "exact_upper": exact and str(exact[0]),
        "adversary": {"rankings": adversary.rankings.tolist(), "weights": weights},
    }
    fraction = exact[0] if exact else None
    return BestFactor(str(measure), m, k, grades, search.lower, upper, fraction, search.programs, proof)


def gain_game(measure: Measure, m: int, k: int, grades: int) -> tuple[Game, Floats]:
    """Return the game and the values of its rankings, with 0 for skipped queries.

    Raises ValueError if a value is negative, or if a query without relevant items has a value.
    """
    auc = isinstance(measure, AUCLoss)
    if isinstance(measure, NDCG | AveragePrecision | AUCLoss | Recall):
        measure = replace(measure, no_relevant="1" if auc else "0")
    game = ranking_game(measure, m, k, grades)
    gain = 1 - game.loss if auc else -game.loss
    if not (measure.higher_is_better or auc) or gain.min() < -_TINY or gain[:, 0].any():
        raise ValueError(
            f"{measure} has no best factor: its values must be gains, 0 or more, and 0 without relevant items"
        )
    return game, np.where(gain > _TINY, gain, 0.0)


def products(relevance: Any, k: int, grades: int) -> Floats:
    """Return the indicators of all positive grades of up to k items, one row per relevance vector.

    Their means, the flag, determine the joint distributions of the grades of any k items.

    >>> products(np.array([[1, 0], [1, 1]]), 2, 2)
    array([[1., 0., 0.],
           [1., 1., 1.]])
    """
    columns = [
        np.all(relevance[:, items] == values, axis=1)
        for size in range(1, k + 1)
        for items in combinations(range(relevance.shape[1]), size)
        for values in product(range(1, grades), repeat=size)
    ]
    return np.array(columns, dtype=np.float64).T


class _Search:
    """Branch and bound over cells of flags, the worst cell first, and the best adversary so far."""

    def __init__(self, gain: Floats, rankings: Ints, relevance: Ints, k: int, grades: int) -> None:
        m = rankings.shape[1]
        self.gain, self.flags = gain, products(relevance, k, grades)
        means = np.zeros((m, self.flags.shape[1]))
        means[:, : m * (grades - 1)] = np.kron(np.eye(m), np.arange(1, grades))
        self.total = means.sum(axis=0)  # maps a flag to the mean sum of all grades
        self.scale = _FURTHER ** (m - 1 - np.log(self.flags.sum(axis=0)) / np.log(grades))
        self.size, self.free = self._size(relevance)
        self.cuts: list[Floats] = []
        order = means[:-1] - means[1:]  # items can be numbered by their means
        self.cells = [(0.0, 0, self._cell(order, ()))]
        self.cells[0] = (self.cells[0][2].value, 0, self.cells[0][2])
        self.programs = 1
        self.adversary = self._first_adversary(rankings, relevance)

    @property
    def lower(self) -> float:
        """The value of the worst cell."""
        return self.cells[0][0]

    def narrow(self, programs: int, progress: Progress) -> None:
        """Cut the worst cell until the bounds meet or no linear programs are left."""
        while self.programs < programs and self.adversary.value - self.lower > _NEAR:
            worst = self.cells[0][2]
            cut, flag = self._separate(worst)
            if len(self.cuts) in _STARTS:
                self._improve(flag)
            self.cuts.append(cut)
            halves = []
            for sign in (1, -1):
                path = (*worst.path, sign * len(self.cuts))
                cuts = np.vstack([worst.cuts, sign * cut])
                cell = worst._replace(cuts=cuts, path=path)  # what is proved there, if the solver gives up
                cell = cell._replace(multipliers=np.pad(worst.multipliers, ((0, 0), (0, 1))))
                with suppress(UndecidedError):
                    cell = self._cell(cuts, path)
                halves.append((cell.value, sign * len(self.cuts), cell))
            heapreplace(self.cells, halves[0])
            heappush(self.cells, halves[1])
            self.programs += 2
            progress(min(self.programs, programs), programs)

    def _cell(self, cuts: Floats, path: tuple[int, ...]) -> Cell:
        """Find the best mixed ranking of a cell.

        Maximise alpha, subject to gain(mixed, R) - alpha gain(s, R) >= multipliers[s] @ cuts @ flag(R) for all
        rankings s and outcomes R, over mixed rankings and multipliers that are not negative.
        """
        n, outcomes = self.gain.shape
        J, at_cuts = len(cuts), self.flags @ cuts.T
        # columns: mixed, earned (its gain under each outcome), alpha, multipliers
        rows = sparse.hstack(
            [
                sparse.csr_array((n * outcomes, n)),
                sparse.kron(np.ones((n, 1)), -sparse.eye_array(outcomes)),
                sparse.csr_array(self.gain.reshape(-1, 1)),
                sparse.kron(sparse.eye_array(n), at_cuts),
            ]
        )
        equal = sparse.bmat(
            [
                [
                    sparse.csr_array(self.gain.T),
                    -sparse.eye_array(outcomes),
                    sparse.csr_array((outcomes, 1 + n * J)),
                ],
                [sparse.csr_array(np.ones((1, n))), None, None],
            ]
        )
        objective = np.zeros(rows.shape[1])
        objective[n + outcomes] = -1
        bounds = [(0, None)] * (n + outcomes) + [(0, 1)] + [(0, None)] * (n * J)
        x, worst = _minimise(objective, rows, np.zeros(n * outcomes), equal, np.r_[np.zeros(outcomes), 1], bounds)
        mixed = _rounded(x[:n])
        mixed /= mixed.sum()
        multipliers = _rounded(x[n + outcomes + 1 :]).reshape(n, J)
        excess = mixed @ self.gain - multipliers @ at_cuts.T
        earns = self.gain > 0
        value = float(np.min(excess[earns] / self.gain[earns], initial=1.0))
        if np.min(excess[~earns], initial=0.0) < -_TINY:
            value = 0.0  # the multipliers prove nothing
        rivals = np.maximum(-worst, 0).reshape(n, outcomes) @ self.flags
        return Cell(max(0.0, value), cuts, path, mixed, multipliers, rivals)

    def _size(self, relevance: Ints) -> tuple[Floats, Floats]:
        """Return what maps a flag to its size, and the projection onto the flags of size 0.

        The size is the mean number of pairs of unequal grades if lists without such pairs earn nothing, as for the
        area under the curve, and flags tell this number. Otherwise it is the mean sum of all grades.
        """
        unequal = (relevance[:, :, None] < relevance[:, None]).sum(axis=(1, 2))
        size = np.rint(np.linalg.lstsq(self.flags, unequal)[0])
        if np.array_equal(self.flags @ size, unequal) and np.array_equal(self.gain.any(axis=0), unequal > 0):
            basis = np.linalg.qr(self.flags[unequal == 0].T)[0]
            return size, basis @ basis.T
        return self.total, np.zeros((len(size), len(size)))

    def _separate(self, cell: Cell) -> tuple[Floats, Floats]:
        """Return a cut through the flags of size 0 and the mean of a cell's worst flags, and this mean.

        It is across the direction in which these flags, divided by their sizes, differ most.
        """
        mass = cell.rivals @ self.size
        used = mass > _TINY
        flags, mass = cell.rivals[used] / mass[used, None], mass[used] / mass[used].sum()
        mean: Floats = mass @ flags
        apart = (flags - mean) * np.sqrt(mass)[:, None]
        apart = (apart - apart @ self.free) * self.scale
        spread = np.linalg.svd(apart, full_matrices=False)[2][0] * self.scale
        direction = np.round(spread / np.abs(spread).max() * _GRID) / _GRID
        direction -= direction @ self.free
        return np.round(direction - np.round(mean @ direction, 6) * self.size, _DIGITS), mean

    def _first_adversary(self, rankings: Ints, relevance: Ints) -> Adversary:
        """Return the best adversary that treats all items alike, or a better one with two rankings."""
        n, outcomes = self.gain.shape
        numbers = {tuple(row): i for i, row in enumerate(relevance.tolist())}
        moved = np.empty(
            (n, outcomes), dtype=np.int64
        )  # the relevance of item j goes to the j-th item of a ranking
        for s, ranking in enumerate(rankings):
            moved[s] = [numbers[tuple(row)] for row in relevance[:, np.argsort(ranking)].tolist()]
        alike = np.unique(np.vstack([(self.flags[moved[s]] - self.flags).T for s in range(1, n)]), axis=0)
        equal, targets = np.vstack([self.gain[:1], alike]), np.r_[1.0, np.zeros(len(alike))]
        p, _ = _minimise(self.gain.mean(axis=0), None, None, equal, targets, (0, None))
        weights = np.zeros((n, outcomes))
        for s in range(n):
            weights[s, moved[s]] = np.maximum(p, 0)
        found = [self._valued(np.arange(n), weights)]
        pairs = [self._with_shares(np.array([0, s]), np.ones(2)) for s in range(1, n)]
        found += sorted(pairs, key=lambda one: one.value)[:2]
        return min((self._refined(one) for one in found), key=lambda one: one.value)

    def _improve(self, flag: Floats) -> None:
        """Look for a better adversary near a flag."""
        with suppress(UndecidedError):  # the solver may give up; then the best adversary so far stays
            self.adversary = min(self.adversary, self._refined(self._at_flag(flag)), key=lambda a: a.value)

    def _refined(self, adversary: Adversary) -> Adversary:
        """Improve the distributions for fixed probabilities of the rankings and for a fixed flag, in turn."""
        for _ in range(_ROUNDS):
            try:
                other = self._at_flag((adversary.weights @ self.flags).sum(axis=0))
                other = self._with_shares(other.rankings, other.weights @ self.flags @ self.total)
            except UndecidedError:
                break
            if other.value > adversary.value - _TINY:
                break
            adversary = other
        return adversary

    def _at_flag(self, flag: Floats) -> Adversary:
        """Return the best adversary with this flag."""
        n = len(self.gain)
        return self._adversary(np.arange(n), n, sparse.kron(sparse.eye_array(n), -flag[:, None] / flag.max()))

    def _with_shares(self, rankings: Ints, shares: Floats) -> Adversary:
        """Return the best adversary with these rankings, whose probabilities are proportional to `shares`."""
        d = self.flags.shape[1]
        return self._adversary(rankings, d, sparse.kron(-shares[:, None] / shares.max(), sparse.eye_array(d)))

    def _adversary(self, rankings: Ints, free: int, link: Any) -> Adversary:
        """Minimise the best value under the mixture, if the mean value of the rankings is 1.

        The variables are the weights and `free` others, which `link` makes flags of the rankings.
        """
        n, (outcomes, d) = len(rankings), self.flags.shape
        tile = sparse.csr_array(np.tile(self.gain, n))
        rows = sparse.hstack([tile, sparse.csr_array((len(self.gain), free)), -np.ones((len(self.gain), 1))])
        value = np.r_[self.gain[rankings].reshape(-1), np.zeros(free + 1)]
        same = sparse.hstack([sparse.kron(sparse.eye_array(n), self.flags.T), link, sparse.csr_array((n * d, 1))])
        equal = sparse.vstack([sparse.csr_array(value[None]), same])
        objective = np.r_[np.zeros(n * outcomes + free), 1.0]
        at = np.r_[1.0, np.zeros(n * d)]
        x, _ = _minimise(objective, rows, np.zeros(len(self.gain)), equal, at, (0, None))
        weights = np.maximum(x[: n * outcomes].reshape(n, outcomes), 0)
        used = weights.sum(axis=1) > _TINY
        return self._valued(rankings[used], weights[used])

    def _valued(self, rankings: Ints, weights: Floats) -> Adversary:
        weights = _rounded(weights / weights.max())
        best, mean = np.max(self.gain @ weights.sum(axis=0)), np.sum(self.gain[rankings] * weights)
        return Adversary(float(best / mean), rankings, weights)


def _minimise(
    objective: Floats, rows: Any, limits: Floats | None, equal: Any, targets: Floats, bounds: Any
) -> tuple[Floats, Floats]:
    """Solve a linear program with HiGHS. Return its solution and the marginals of the inequalities."""
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = optimize.linprog(objective, rows, limits, equal, targets, bounds, method="highs", options=options)
    if found.x is None:
        raise UndecidedError(f"the solution of a linear program: {found.message}")
    return found.x, found.ineqlin.marginals


def _rounded(numbers: Floats) -> Floats:
    """Return numbers as the certificate gives them: not negative, with twelve digits."""
    return np.asarray(np.maximum(numbers, 0).round(_DIGITS))


def _exact(
    adversary: Adversary, flags: Floats, game: Game, measure: Measure
) -> tuple[Fraction, list[list[Fraction]]] | None:
    """Return the value and the weights of an adversary as fractions, or None if no simple ones fit."""
    if not game.rational:
        return None
    ((scale,),) = game.scales
    gain = [
        [int(isinstance(measure, AUCLoss)) - Fraction(int(x)) / scale for x in row[1:]]
        for row in game.numerators[0]
    ]
    shown = flags.astype(np.int64).T.tolist()
    for denominator in _DENOMINATORS:
        weights = [[Fraction(w).limit_denominator(denominator) for w in row] for row in adversary.weights.tolist()]
        seen = [[_dot(row, column) for column in shown] for row in weights]
        mass = [sum(row) for row in seen]
        if any(
            a * mass[0] != b * n
            for row, n in zip(seen, mass, strict=True)
            for a, b in zip(row, seen[0], strict=True)
        ):
            continue
        mixture = [sum(column) for column in zip(*weights, strict=True)]
        mean = sum(_dot(gain[s], row) for s, row in zip(adversary.rankings, weights, strict=True))
        if mean and (value := Fraction(max(_dot(row, mixture) for row in gain), mean)) < adversary.value + 1e-6:
            return value, weights
    return None


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=True) if x and y)


def _sparse(cell: Cell) -> dict[str, Any]:
    """Return a cell for a certificate. Multipliers are triples: ranking, column of the cut, value."""
    ranking, cut = np.nonzero(cell.multipliers)
    values = cell.multipliers[ranking, cut]
    return {
        "path": list(cell.path),
        "mixed": cell.mixed.tolist(),
        "multipliers": [
            list(entry) for entry in zip(ranking.tolist(), cut.tolist(), values.tolist(), strict=True)
        ],
    }
