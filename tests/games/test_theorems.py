"""Rates by theorem against games worked out in floating point, and the computations that the proofs call for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from math import comb
from typing import Any, ClassVar

import flint
import numpy as np
import pytest
from scipy.optimize import linprog

from peekrank.games import game
from peekrank.games.analysis import analyse
from peekrank.games.exact.numbers import UndecidedError
from peekrank.games.interactions import interaction_order
from peekrank.games.minimax import rate_of
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.measures import DCG, LinearMeasureMixin, measure
from peekrank.registry import MEASURES
from peekrank.types import Floats, Ints, Measure

OPTIONS = [
    "ndcg+linear",
    "ndcg@2+linear",
    "ndcg+skip",
    "ndcg@2+norel0",
    "dcg+linear",
    "p@2",
    "ap+skip",
    "aucloss+skip",
    "rbp:p=0.5",
    "recall@1+skip",
    "err@2:max_grade=9",
]


NEEDED = ("p", "recall", "hit")  # have no value without a cut-off


def names(m: int) -> list[str]:
    cutoffs = [
        f"{base}@{n}"
        for base, kind in MEASURES.items()
        if "n" in kind.__dict__ or base in NEEDED
        for n in range(1, m + 2)
    ]
    return [name for name in MEASURES.built_in if name not in NEEDED] + cutoffs + OPTIONS


def lists(m: int, grades: int) -> Ints:
    return np.array(list(product(range(grades), repeat=m)))


def losses(name: str, rankings: Ints, outcomes: Ints) -> Floats:
    """One row for each ranking, one column for each outcome; a skipped list costs nothing."""
    x = measure(name)
    rows = [x.values(np.tile(ranking, (len(outcomes), 1)), outcomes) for ranking in rankings]
    values: Floats = np.nan_to_num(np.array(rows))
    return -values if x.higher_is_better else values


def spanned(target: Floats, shown: list[Ints], outcomes: Ints, grades: int) -> bool:
    """Whether a function of the outcome is a sum of functions of what was shown."""
    rows = []
    for items in shown:
        seen = outcomes[:, items] @ grades ** np.arange(len(items))
        rows.append(np.equal.outer(np.arange(grades ** len(items)), seen))
    A = np.concatenate(rows).astype(float).T
    found = np.linalg.lstsq(A, target, rcond=1e-12)[0]
    return bool(np.abs(A @ found - target).max() < 1e-8)


class Twin:
    """The game from its definitions, seen from one ranking: the others look the same after renaming items."""

    def __init__(self, name: str, m: int, grades: int) -> None:
        self.m, self.grades = m, grades
        self.rankings, self.outcomes = np.array(list(permutations(range(m)))), lists(m, grades)
        self.loss = losses(name, self.rankings, self.outcomes)
        self.apart = np.round(self.loss - self.loss[0], 9)
        self.classes = np.unique(self.apart, axis=0)
        self.neighbours = [d for d in self.classes if d.any() and self._is_neighbour(d)]

    def _room(self, d: Floats | None) -> float:
        """How far inside the simplex, and better than all others, a tie with the class of difference d can be."""
        others = [c for c in self.classes if c.any() and (d is None or not self._between(c, d))]
        n = len(self.outcomes)
        above = np.array([np.append(-c, 1) for c in others] + [np.append(-row, 1) for row in np.eye(n)])
        equal = [np.append(np.ones(n), 0)] + ([] if d is None else [np.append(d, 0)])
        right = np.append(1, np.zeros(len(equal) - 1))
        found = linprog(
            np.append(np.zeros(n), -1), above, np.zeros(len(above)), np.array(equal), right, bounds=(None, 1)
        )
        assert found.fun is not None
        return -float(found.fun)

    def _between(self, c: Floats, d: Floats) -> bool:
        share = c @ d / (d @ d)
        return bool(np.abs(c - share * d).max() < 1e-8 and -1e-8 <= share <= 1 + 1e-8)

    def _is_neighbour(self, d: Floats) -> bool:
        return self._room(d) > 1e-8

    def all_optimal(self) -> bool:
        return len(self.classes) == 1 or self._room(None) > 1e-8

    def rate(self, k: int) -> Rate:
        if not self.neighbours:
            return Rate.ZERO
        subsets = [np.array(items) for items in combinations(range(self.m), k)]
        if not all(spanned(d, subsets, self.outcomes, self.grades) for d in self.neighbours):
            return Rate.LINEAR
        local = (spanned(d, self._shown(d, k), self.outcomes, self.grades) for d in self.neighbours)
        return Rate.SQRT if all(local) else Rate.TWO_THIRDS

    def _shown(self, d: Floats, k: int) -> list[Ints]:
        tied = [r for r, c in zip(self.rankings, self.apart, strict=True) if self._between(c, d)]
        return [np.array(items) for items in sorted({tuple(sorted(ranking[:k])) for ranking in tied})]


CASES = [
    (name, m, grades)
    for m, grades in [(1, 2), (2, 2), (3, 2), (4, 2), (1, 3), (2, 3), (3, 3), (2, 4)]
    for name in names(m)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m", "grades"), CASES)
def test_rates_are_those_of_the_definitions(name: str, m: int, grades: int) -> None:
    twin = Twin(name, m, grades)
    assert twin.all_optimal()
    assert [theorem_of(measure(name), m, k, grades).rate for k in range(1, m + 1)] == [
        twin.rate(k) for k in range(1, m + 1)
    ]


@cache
def order_in_floats(name: str, m: int, grades: int) -> int:
    """Items in the largest term of any swap of neighbours, from the values of the measure itself."""
    rankings = [np.arange(m)]
    for p in range(m - 1):
        rankings.append(np.arange(m))
        rankings[-1][[p, p + 1]] = p + 1, p
    loss = losses(name, np.array(rankings), lists(m, grades))
    terms = (loss[1:] - loss[0]).reshape((m - 1,) + (grades,) * m)
    for axis in range(1, m + 1):
        zero = terms.take([0], axis)
        terms = np.concatenate([zero, terms.take(range(1, grades), axis) - zero], axis)
    size = (np.indices((grades,) * m) > 0).sum(axis=0)
    return int(max((size[np.abs(term) > 1e-10].max(initial=0) for term in terms), default=0))


@pytest.mark.parametrize(("m", "grades"), [(m, 2) for m in range(1, 8)] + [(m, 3) for m in range(1, 6)] + [(3, 5)])
def test_the_expansion_is_that_of_the_measures_values(m: int, grades: int) -> None:
    for name in names(m):
        assert interaction_order(measure(name), m, grades) == order_in_floats(name, m, grades), name


@pytest.mark.parametrize(("m", "grades"), [(m, 2) for m in range(1, 9)] + [(m, 3) for m in range(1, 7)] + [(5, 4)])
def test_learning_becomes_possible_when_k_reaches_the_order(m: int, grades: int) -> None:
    for name in names(m):
        hopeless = [theorem_of(measure(name), m, k, grades).rate == Rate.LINEAR for k in range(1, m + 1)]
        order = interaction_order(measure(name), m, grades)
        assert hopeless == [k < order for k in range(1, m + 1)], name
        assert (order == 0) == (theorem_of(measure(name), m, 1, grades).rate == Rate.ZERO), name


@pytest.mark.parametrize("grades", [2, 3, 5])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 11, 12])
def test_seeing_more_never_hurts_and_seeing_everything_gives_sqrt(m: int, grades: int) -> None:
    for name in names(m):
        verdicts = [theorem_of(measure(name), m, k, grades) for k in range(1, m + 1)]
        exponents = [verdict.rate.exponent for verdict in verdicts if verdict.rate is not None]
        assert len(exponents) == m
        assert exponents == sorted(exponents, reverse=True)
        assert verdicts[-1].rate in (Rate.SQRT, Rate.ZERO)
        assert all(
            verdict.basis == "theorem" and "docs/theory/rates.md, Theorem" in verdict.reason
            for verdict in verdicts
        )


@pytest.mark.parametrize(
    ("name", "m", "k", "grades", "rate"),
    [
        ("sumloss", 10**7, 10**7 - 2, 2, Rate.TWO_THIRDS),
        ("sumloss", 10**7, 10**7 - 1, 5, Rate.SQRT),
        ("dcg@10", 10**7, 9, 5, Rate.TWO_THIRDS),
        ("dcg@10", 10**7, 10, 5, Rate.SQRT),
        ("p@10+sum", 10**7, 1, 2, Rate.SQRT),
        ("ndcg@10", 10**7, 10**7 - 2, 2, Rate.LINEAR),
        ("ndcg@1", 10**7, 1, 2, Rate.SQRT),
        ("ndcg@1", 10**7, 10**7 - 1, 3, Rate.LINEAR),
        ("ap", 10**7, 10**7 - 1, 2, Rate.TWO_THIRDS),
        ("aucloss", 10**7 + 1, 10**7 - 1, 2, Rate.TWO_THIRDS),
        ("aucloss", 10**7, 10**7 - 2, 2, Rate.LINEAR),
        ("pairwiseloss", 10**7, 2, 3, Rate.TWO_THIRDS),
        ("pairwiseloss", 10**7, 1, 3, Rate.LINEAR),
        ("rbp", 10**7, 10**7 - 2, 2, Rate.TWO_THIRDS),
        ("rbp:p=0.5", 10**7, 10**7 - 1, 5, Rate.SQRT),
        ("rbp@10", 10**7, 10, 2, Rate.SQRT),
        ("rr", 10**7, 10**7 - 2, 2, Rate.LINEAR),
        ("rr", 10**7, 10**7 - 1, 3, Rate.SQRT),
        ("rr@10", 10**7, 9, 2, Rate.LINEAR),
        ("err@10", 10**7, 10, 5, Rate.SQRT),
        ("hit@10", 10**7, 9, 2, Rate.LINEAR),
        ("hit@10", 10**7, 10, 2, Rate.SQRT),
        ("recall@10", 10**7, 10**7 - 2, 2, Rate.LINEAR),
        ("recall@10", 10**7, 10**7 - 1, 2, Rate.SQRT),
    ],
)
def test_large_games(name: str, m: int, k: int, grades: int, rate: Rate) -> None:
    assert theorem_of(measure(name), m, k, grades).rate is rate


def test_whole_numbers_of_numpy_are_welcome() -> None:
    assert theorem_of(measure("ap"), np.int64(5), np.int64(4)) == theorem_of(measure("ap"), 5, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("m", "k", "grades", "message"),
    [
        (0, 1, 2, "m = 0"),
        (3, 0, 2, "k = 0: must be a whole number, from 1 to 3"),
        (3, 4, 2, "k = 4"),
        (3, 1, 1, "grades = 1"),
        (3.0, 1, 2, "m = 3.0"),
    ],
)
def test_wrong_sizes_are_named(m: Any, k: int, grades: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theorem_of(measure("dcg"), m, k, grades)


def test_wrong_sizes_of_expansions_are_named() -> None:
    for m, grades, message in [(0, 2, "m = 0"), (3, 1, "grades = 1"), (10**7, 2, "too many"), (4, 32, "too many")]:
        with pytest.raises(ValueError, match=message):
            interaction_order(measure("ndcg"), m, grades)


def test_err_knows_its_grades() -> None:
    with pytest.raises(ValueError, match="grade 5, above the max_grade = 4 of err: err:max_grade=5 takes it"):
        theorem_of("err", 4, 2, grades=6)
    assert theorem_of("err:max_grade=5", 4, 2, grades=6).rate is Rate.LINEAR


@dataclass(frozen=True)
class Own(LinearMeasureMixin):
    """Discounts of one's own, and gains to match."""

    weights: tuple[float, ...]
    gains: tuple[float, ...] = (0, 1, 2)
    separable: ClassVar[bool] = True
    higher_is_better: ClassVar[bool] = True
    name: ClassVar[str] = "own"

    def discount(self, m: int) -> Floats:
        return np.array(self.weights[:m], dtype=np.float64)

    def gain(self, relevance: Any) -> Floats:
        return np.asarray(np.array(self.gains, dtype=np.float64)[relevance.astype(np.int64)])


class Loss(Own):
    """The same, to be made small."""

    higher_is_better: ClassVar[bool] = False


class Whole(Own):
    """Linear, but not item by item: every gain is shared among the items of its list."""

    separable: ClassVar[bool] = False

    def gain(self, relevance: Any) -> Floats:
        return np.asarray(relevance / np.maximum(relevance.sum(axis=-1, keepdims=True), 1))


class Parity:
    """No form at all: whether the first two items are equally relevant."""

    name: ClassVar[str] = "parity"
    higher_is_better: ClassVar[bool] = True
    __str__ = lambda self: "parity"  # noqa: E731

    def values(self, rankings: Ints, relevance: Any) -> Floats:
        first = np.take_along_axis(relevance, rankings[:, :2], axis=1)
        return np.asarray(first[:, 0] == first[:, -1], dtype=np.float64)


class Heir(DCG):
    """What it inherits may be overridden: it is judged by its own discounts."""

    def discount(self, m: int) -> Floats:
        return np.asarray(np.r_[1.0, np.zeros(m - 1)])


PLATEAUS = [
    (Own((4, 3, 2, 1)), 3),
    (Own((4, 3, 2, 2)), 2),
    (Own((4, 3, 3, 3)), 1),
    (Own((1, 0, 0, 0)), 1),
    (Own((1, 1, 1, 0)), 1),
    (Own((2, 2, 1, 1)), 1),
    (Own((3, 2, 2, 1)), 2),
    (Own((0.1 + 0.2, 0.3, 0.1, 0.1)), 1),  # equal but for rounding
    (Own((1.0, 1e-200, 1e-201, 1e-202)), 3),  # small, and not equal
    (Own((-4, -3, -2, -1), gains=(2, 1, 0)), 3),  # less for more relevant items, and less of that on top
    (Loss((1, 2, 3, 4)), 3),
    (Heir(), 1),
]


@pytest.mark.parametrize(("own", "start"), PLATEAUS, ids=str)
def test_the_plateau_theorem_is_about_every_linear_and_separable_measure(own: Any, start: int) -> None:
    for grades, k in product((2, 3), (1, 2, 3, 4)):
        verdict = theorem_of(own, 4, k, grades)
        assert verdict.rate is (Rate.SQRT if k >= start else Rate.TWO_THIRDS)
        assert verdict.basis == "theorem"
        assert "Theorem 3" in verdict.reason


@pytest.mark.parametrize(
    "own", [Own((4, 3, 2, 1)), Own((4, 3, 3, 3)), Own((2, 2, 1, 1)), Own((1, 1, 1, 1))], ids=str
)
def test_rates_of_own_measures_are_those_of_the_definitions(own: Own) -> None:
    for m, k in ((1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (4, 4)):
        assert theorem_of(own, m, k).rate is analyse(ranking_game(own, m, k)).rate


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (Whole((4, 3, 2, 1)), "it is not a sum over items of discount(rank) x gain(relevance) for grades 0 to 1"),
        (Parity(), "it is not a sum over items"),
        (Own((1, 2, 0, 0)), "its discounts are not monotone"),
        (Own((1, 2, 3, 4)), "its discounts are not monotone"),
        (Own((4, 3, 2, np.nan)), "its discounts are not monotone"),
        (Own((4, 3, 2, 1), gains=(0, 0, 1)), "grade 1 gains no more than grade 0"),
    ],
    ids=str,
)
def test_a_measure_that_no_theorem_covers_is_undecided(own: Any, why: str) -> None:
    verdict = theorem_of(own, 4, 2)
    assert verdict[:2] == (None, "undecided")
    assert verdict.reason.startswith("No theorem on docs/theory/rates.md covers ")
    assert why in verdict.reason


def test_a_small_game_that_no_theorem_covers_is_worked_out() -> None:
    whole = Whole((4, 3, 2, 1))
    games: list[tuple[Measure, int, int]] = [(whole, 3, 2), (whole, 4, 2), (Parity(), 3, 2), (Parity(), 3, 3)]
    for own, m, grades in games:
        for k in range(1, m + 1):
            found = analyse(ranking_game(own, m, k, grades)).rate
            verdict = rate_of(own, m, k, grades)
            assert verdict[:2] == (found, "definitions")
            assert verdict.reason.startswith("Computed for these sizes: ")
    assert rate_of(whole, 4, 1).rate is Rate.LINEAR


def test_what_is_neither_proved_nor_small_is_not_known() -> None:
    verdict = rate_of(Parity(), 40, 2)
    assert verdict[:2] == (None, "undecided")
    assert verdict.reason.endswith("Its game is too large to analyse.")
    odd = Whole((np.pi, 1, 0))
    verdict = rate_of(odd, 3, 1)
    assert verdict[:2] == (None, "undecided")
    assert "Analysing its game failed: " in verdict.reason


def test_a_theorem_goes_before_the_definitions() -> None:
    assert rate_of("ndcg", 4, 2) == theorem_of("ndcg", 4, 2)


def test_a_term_that_no_precision_tells_from_zero_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game, "PRECISIONS", (2,))
    with pytest.raises(UndecidedError, match="combination of logarithms"):
        interaction_order(measure("ndcg"), 4)


# What the proofs on docs/theory/rates.md leave to computation, in balls.


@cache
def partial_sums(count: int) -> list[Any]:
    """Z_0, ..., Z_count with 1000 bits."""
    with flint.ctx.workprec(1000):
        sums = [flint.arb(0)]
        for p in range(1, count + 1):
            sums.append(sums[-1] + flint.arb.const_log2() / flint.arb(1 + p).log())
        return sums


def alternating(values: list[Any], j: int) -> Any:
    """sum_i (-1)^i C(j, i) values[i], the last value going on for ever: (-1)^j times the j-th difference at 0."""
    with flint.ctx.workprec(1000):
        head = sum((-1) ** i * comb(j, i) * x for i, x in enumerate(values[: j + 1]))
        tail = sum((-1) ** i * comb(j, i) for i in range(len(values), j + 1))
        return head + tail * values[-1]


def test_lemma_b_and_theorem_5_differences_of_a_cut_sequence() -> None:
    """Even n: all positive. Odd n: positive up to j = n, negative beyond."""
    Z = partial_sums(310)
    for n in range(2, 41):
        with flint.ctx.workprec(1000):
            values = [1 / Z[s] for s in range(1, n + 1)]
        for j in range(1, 2 * n + 20):
            found = alternating(values, j)
            assert found > 0 if n % 2 == 0 or j <= n else found < 0, (n, j)


def test_theorem_5_numbers() -> None:
    Z = [float(z) for z in partial_sums(310)]
    assert Z[5] * Z[6] * np.log2(7) < 4 * 7
    assert (Z[7] / 7) ** 2 * np.log2(9) < 1 - 2 / 56
    slope = np.log(2) * (1 / (2 * np.log(2) ** 2) + 1 / (3 * np.log(3) ** 2) + 1 / np.log(3))
    assert slope < 1.55
    assert Z[3] > 2.1


@pytest.mark.parametrize("c", [1, 2])
def test_theorem_8_numbers_without_cut_off(c: int) -> None:
    Z = partial_sums(310)
    with flint.ctx.workprec(1000):
        F = [c / (c + Z[t + 2]) - (c + 1) / (c + Z[t + 1]) + 1 / Z[t + 1] for t in range(101)]
    assert all(alternating(F[: j + 1], j) > 0 for j in range(101))
    assert 0.6 - 1 / np.log2(1.6) > -1
    assert 1.5 - 1 / np.log2(1.5) > -0.21
    assert np.prod([(i + 1) / (i + 1.4) for i in range(1, 5)]) < 1 / 1.55


@pytest.mark.parametrize("c", [1, 2])
def test_theorem_8_numbers_for_even_cut_offs(c: int) -> None:
    """The differences fall with j: it is enough to follow them until they are negative."""
    Z = partial_sums(310)
    for n in range(2, 301, 2):
        with flint.ctx.workprec(1000):
            values = [1 / (Z[n] + c * Z[t]) for t in range(n + 1)]
        j, found = n, alternating(values, n)
        assert found > 0
        while not found < 0:
            j += 1
            found = alternating(values, j)
            assert not found.contains(0), (n, j)
        assert j <= n + 4


@pytest.mark.parametrize("c", [1, 2])
def test_theorem_8_numbers_for_large_cut_offs(c: int) -> None:
    n = 300
    Z, L = [float(z) for z in partial_sums(310)], np.log2(302)
    K, u = (Z[n] / n) ** 2 * L, c / Z[n]
    rest = (1 + c) ** 2 / c * 1.33 * (n + 1) ** 2 / n * np.sqrt(K * L) * (n + 2) ** -1.5
    first = (1 + c) ** 2 * np.log(2) * L * ((n + 1) / n) ** 2 * 2**u / (1 - u) * (n + 2) ** (u - 1)
    assert rest < 0.46
    assert first < 0.25


@pytest.mark.parametrize("j", range(30))
def test_theorem_9_coefficient(j: int) -> None:
    def term(t: int) -> flint.fmpq:
        both, low, none = j + 1 + (t + 1) * (j - t), j + 1 + t * (j - t + 1), (t + 1) * (j - t + 1)
        return flint.fmpq(1, both) - flint.fmpq(1, low) + flint.fmpq(1, none)

    total = sum((-1) ** t * comb(j, t) * term(t) for t in range(j + 1))
    assert total != 0
    if j % 2 == 0:
        assert total == flint.fmpq(2, (j + 1) * (j + 2))
