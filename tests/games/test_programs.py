"""Exact linear programs against floating point and duality, exact linear algebra, and certified signs."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import flint
import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import naive
from peekrank.games import game as game_module
from peekrank.games.analysis import analyse
from peekrank.games.exact.linear import coordinates, independent_columns, kernel, rank
from peekrank.games.exact.numbers import UndecidedError, ball, base_and_power, rational, shortest, unit
from peekrank.games.exact.programs import maximise, maximise_exactly
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game

# --- linear programs


def check_program(objective: NDArray[Any], rows: NDArray[Any], limits: NDArray[Any]) -> Fraction | None:
    """Both solvers agree, and the exact answer is feasible with multipliers that prove it; None if unbounded."""
    try:
        found = maximise_exactly(objective, rows, limits)
    except ArithmeticError:
        with pytest.raises(ArithmeticError):
            maximise(objective.astype(float), rows.astype(float), limits.astype(float))
        return None
    x = [Fraction(int(value.p), int(value.q)) for value in found.x]
    y = [Fraction(int(value.p), int(value.q)) for value in found.multipliers]
    value = Fraction(int(found.value.p), int(found.value.q))
    assert min(x, default=Fraction(0)) >= 0
    assert min(y, default=Fraction(0)) >= 0
    assert naive.dot(x, map(Fraction, objective.tolist())) == value == naive.dot(y, map(Fraction, limits.tolist()))
    for row, limit in zip(rows.tolist(), limits.tolist(), strict=True):
        assert naive.dot(x, map(Fraction, row)) <= limit
    for column, c in zip(rows.T.tolist(), objective.tolist(), strict=True):
        assert naive.dot(y, map(Fraction, column)) >= c
    floats = maximise(objective.astype(float), rows.astype(float), limits.astype(float))
    assert floats.value == pytest.approx(float(value), abs=1e-7)
    assert floats.multipliers.min(initial=0) >= -1e-9
    return value


@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounded = 0
    for _ in range(40):
        n, m = rng.integers(1, 6, size=2)
        rows, objective = rng.integers(-3, 6, size=(m, n)), rng.integers(-3, 6, size=n)
        bounded += check_program(objective, rows, rng.integers(0, 9, size=m)) is not None
    assert 5 < bounded < 40


@pytest.mark.parametrize("seed", range(5))
def test_degenerate_programs(seed: int) -> None:
    """All limits but one are 0, rows repeat: most steps of the simplex method stay where they are."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, m = rng.integers(2, 6, size=2)
        cone = rng.integers(-2, 3, size=(m, n))
        rows = np.vstack([cone, cone[::-1], 2 * cone, np.ones((1, n), dtype=np.int64)])
        limits = np.r_[np.zeros(3 * m, dtype=np.int64), 1]
        assert check_program(rng.integers(-3, 4, size=n), rows, limits) is not None


def test_a_program_on_which_the_largest_coefficient_rule_cycles() -> None:
    """Beale (1955), with whole numbers: 3/4 a - 150 b + c/50 - 6 d is at most 1/20."""
    rows = np.array([[25, -6000, -4, 900], [50, -9000, -2, 300], [0, 0, 1, 0]])
    assert check_program(np.array([75, -15000, 2, -600]), rows, np.array([0, 0, 1])) == 5


@pytest.mark.parametrize("rows", [[[1, -1]], [[0, 0]], [[-1, -2], [3, 0]]])
def test_unbounded_programs(rows: list[list[int]]) -> None:
    assert check_program(np.array([1, 1]), np.array(rows), np.ones(len(rows), dtype=np.int64)) is None
    with pytest.raises(ArithmeticError, match="is unbounded"):
        maximise_exactly(np.array([1, 1]), np.array(rows), np.ones(len(rows), dtype=np.int64))


def test_nothing_to_gain() -> None:
    assert check_program(np.array([-1, 0]), np.array([[1, 1]]), np.array([0])) == 0


def test_exact_programs_keep_fractions() -> None:
    half = Fraction(1, 2)
    assert maximise_exactly(np.array([1]), np.array([[half]]), np.array([half])).value == 1
    assert maximise_exactly(np.array([half]), np.array([[1]]), np.array([3])).value == flint.fmpq(3, 2)


def test_exact_programs_keep_long_numbers() -> None:
    large = 10**40 + 1
    found = maximise_exactly(np.array([large], dtype=object), np.array([[3]]), np.array([10**50], dtype=object))
    assert found.value == flint.fmpq(large * 10**50, 3)


# --- linear algebra


@pytest.mark.parametrize("size", [1, 5, 10**12])
def test_linear_algebra(size: int) -> None:
    rng = np.random.default_rng(size % 97)
    for _ in range(60):
        r, n = rng.integers(1, 6, size=2)
        rows = shortest([[int(x) * size for x in row] for row in rng.integers(-2, 3, size=(r, n))])
        exact = [[Fraction(int(x)) for x in row] for row in rows]
        wanted = len(naive.echelon(exact))
        assert rank(rows) == wanted
        columns = independent_columns(rows)
        assert columns == sorted(columns)
        assert len(columns) == wanted == len(naive.echelon([[row[c] for c in columns] for row in exact] or [[]]))
        basis = kernel(rows)
        assert basis.shape == (n - wanted, n)
        assert not (rows.astype(object) @ basis.astype(object).T).any()
        assert len(naive.echelon([[Fraction(int(x)) for x in vector] for vector in basis])) == n - wanted
        weights = rng.integers(-3, 4, size=r)
        found = coordinates(rows, (weights.astype(object) @ rows.astype(object))[None])
        if wanted < r:
            assert found is None
        else:
            assert found is not None
            assert found[0].tolist() == [(weights * found[1]).tolist()]


def test_independent_columns_are_the_first() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        rows = rng.integers(-1, 2, size=(3, 5))
        ranks = [rank(rows[:, : c + 1]) for c in range(5)]
        assert independent_columns(rows) == [c for c in range(5) if ranks[c] > (ranks[c - 1] if c else 0)]


# --- numbers


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, "1/10"),
        (1e-3, "1/1000"),
        (3, "3"),
        ("1/3", "1/3"),
        ("-2.5e-1", "-1/4"),
        (Fraction(2, 7), "2/7"),
        (Decimal("0.3"), "3/10"),
        (True, "1"),
        (np.int64(4), "4"),
        (np.uint8(4), "4"),
        (np.float32(0.1), "1/10"),
        (np.float64(0.1), "1/10"),
        (np.float64(-3), "-3"),
        (np.bool_(False), "0"),
    ],
    ids=lambda value: f"{type(value).__name__}-{value}",
)
def test_rational(value: Any, exact: str) -> None:
    assert rational(value) == Fraction(exact)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", None, "1/0", np.float64("nan"), 1j, [1]])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        rational(value)


def test_games_from_arrays() -> None:
    loss = np.array([[0.0, 0.1], [1.0, 0.0]])
    game = Game.of(loss, np.array([[0.5, 1.5], [0.5, 0.5]]))
    np.testing.assert_array_equal(game.loss, loss)
    assert game.rational


@pytest.mark.parametrize("large", ["1e100", "1e150", "1e160", "1e200", "1e300"])
def test_losses_beyond_floating_point_are_classified_or_refused(large: str) -> None:
    """Over their common denominator these are whole numbers of up to 600 digits."""
    try:
        game = Game.of([[large, 0], [0, "1e-" + large[2:]]], [[0, 1]] * 2)
    except ValueError:
        return
    assert str(analyse(game).rate) == "sqrt(T)"


def test_base_and_power() -> None:
    powers = {b**e for b in range(2, 1000) for e in range(2, 10)}
    for n in range(2, 1000):
        b, e = base_and_power(n)
        assert b**e == n
        assert b not in powers


def test_units() -> None:
    for b, bits in [(2, 64), (3, 64), (7, 256), (10, 1024)]:
        with flint.ctx.workprec(4096):
            assert unit(b, bits).overlaps(flint.arb(2).log() / flint.arb(b).log())
            assert unit(b, bits).rad() < 2.0 ** (3 - bits) if bits < 1000 else True
    units = [unit(2, 256), unit(3, 256)]
    with flint.ctx.workprec(256):
        assert ball([Fraction(1, 3), -2], units).overlaps(flint.arb(1) / 3 - 2 * units[1])
        assert ball([0, 0], units) == 0


def convergents(digits: int) -> list[tuple[int, int]]:
    """Of 1 / log2(3): fractions that alternate about it, each closer than one over its denominator squared."""
    with flint.ctx.workprec(8 * digits):
        value = flint.arb(2).log() / flint.arb(3).log()
        found, (p, q), (p0, q0) = [], (0, 1), (1, 0)
        while q < 10**digits:
            value = 1 / value
            whole = value.floor().unique_fmpz()
            assert whole is not None
            a = int(whole)
            value -= a
            (p, q), (p0, q0) = (a * p + p0, a * q + q0), (p, q)
            found.append((p, q))
    return found


def logs() -> Game:
    plain = Game.of([[0, 1], [1, 0]], [[0, 1]] * 2)
    return dataclasses.replace(
        plain,
        numerators=np.concatenate([plain.numerators, 0 * plain.numerators]),
        bases=(2, 3),
        scales=((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))),
        column=np.array([0, 1]),
    )


def test_signs_of_combinations_close_to_zero() -> None:
    """p - q / log2(3) for the best fractions p / q, down to 10^-500: they alternate."""
    game = logs()
    for n, (p, q) in enumerate(convergents(500)):
        assert game.sign([p, -q]) == (1 if n % 2 == 0 else -1)
        assert game.sign([-p, q]) == (-1 if n % 2 == 0 else 1)
        assert game.sign_weighted([p, -q], [(0, 0), (1, 0)]) == (1 if n % 2 == 0 else -1)
    assert game.sign([0, 0]) == game.sign_weighted([], []) == 0


def test_signs_too_close_to_zero_are_undecided() -> None:
    p, q = convergents(700)[-1]
    with pytest.raises(UndecidedError, match="logarithms"):
        logs().sign([p, -q])


def test_one_written_in_two_ways_is_undecided() -> None:
    """u / u - 1 / 1: both weights are 1, which no ball shows."""
    game = logs()
    assert game.sign_weighted([1, 1], [(1, 1), (0, 0)]) == 1
    with pytest.raises(UndecidedError, match="combination of logarithms"):
        game.sign_weighted([1, -1], [(1, 1), (0, 0)])


def test_without_precision_nothing_irrational_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game_module, "PRECISIONS", ())
    analysis = analyse(ranking_game("dcg", 3, 1))
    assert (analysis.rate, analysis.cells) == (None, None)
    assert "logarithms" in analysis.undecided


def test_differences_of_games_split_into_terms() -> None:
    for name in ("ndcg", "dcg", "ap", "ndcg@2+linear"):
        game = ranking_game(name, 3, 1, grades=3)
        for i, j in combinations(range(4), 2):
            rows, keys = game.terms(game.difference(i, j))
            weights = np.array([float(weight) for weight in game.weights(keys, 128)])
            np.testing.assert_allclose(weights @ rows, game.loss[i] - game.loss[j], atol=1e-12)
