"""FTRL's point in the hypersimplex against high precision, a solver and KKT; samples by integration."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from peekrank.kernels.hypersimplex import smallest, systematic_sample, tsallis_point
from peekrank.types import Floats, Ints

Rng = np.random.Generator


def point(losses: Floats, rate: float, n: int, guess: float = 0.0) -> Floats:
    x, space = np.full(len(losses), np.nan), np.full(len(losses), np.nan)
    before = losses.copy()
    tsallis_point(losses, rate, n, guess, x, space)
    assert np.array_equal(before, losses)
    return x


def sample(x: Floats, n: int, start: float) -> Ints:
    ranking = np.full(len(x), -1, dtype=np.int64)
    systematic_sample(x, n, start, ranking)
    assert sorted(ranking.tolist()) == list(range(len(x)))
    return ranking[:n]


# --- selection


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.data())
@settings(max_examples=200)
def test_smallest(values: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(values)))
    assert smallest(np.array(values, dtype=float), n, np.zeros(len(values))) == sorted(values)[n - 1]


@pytest.mark.parametrize("m", [1, 2, 3, 100, 1001])
def test_smallest_of_many(m: int) -> None:
    rng = np.random.default_rng(m)
    up = np.arange(float(m))
    for values in (rng.random(m), up, -up, np.zeros(m), np.mod(up, 7), np.abs(up - m // 2)):
        for n in {1, (m + 1) // 2, m}:
            assert smallest(values, n, np.zeros(m)) == np.sort(values)[n - 1]


# --- FTRL's point


def far_ahead(distance: float) -> Callable[[int, Rng], Floats]:
    """One item far better than all others, which are about equal."""

    def make(m: int, rng: Rng) -> Floats:
        losses = distance + rng.random(m)
        losses[rng.integers(m)] = rng.random()
        return losses

    return make


LOSSES: dict[str, Callable[[int, Rng], Floats]] = {
    "ties": lambda m, _: np.zeros(m),
    "ties far out": lambda m, _: np.full(m, 1e12),
    "near": lambda m, rng: rng.random(m),
    "spread": lambda m, rng: 1e3 * rng.random(m),
    "all scales": lambda m, rng: np.exp(rng.uniform(-27, 27, m)),
    "large": lambda m, rng: 1e12 * rng.random(m),
    "large with small differences": lambda m, rng: np.asarray(1e12 + rng.integers(0, 50, m) / 8),
    "two levels": lambda m, rng: rng.integers(0, 2, m).astype(np.float64) * 1e12,
    "few values": lambda m, rng: rng.integers(0, 3, m).astype(np.float64) * 10,
    "one ahead": far_ahead(1e3),
    "one far ahead": far_ahead(1e12),
    "negative": lambda m, rng: -100 * rng.random(m),
}
every_kind = pytest.mark.parametrize("kind", LOSSES)
SIZES = [(2, 1), (3, 1), (3, 2), (6, 1), (6, 3), (6, 5), (20, 7)]


def exact_point(losses: Floats, rate: float, n: int) -> list[Decimal]:
    """Bisection for the multiplier itself, with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        L, eta, one = [Decimal(float(loss)) for loss in losses], Decimal(rate), Decimal(1)

        def at(multiplier: Decimal) -> list[Decimal]:
            away = [eta * (loss - multiplier) for loss in L]
            return [one if z <= 1 else one / (z * z) for z in away]

        low, high = min(L) - (Decimal(len(L)) / n).sqrt() / eta, max(L)
        for _ in range(260):
            middle = (low + high) / 2
            low, high = (low, middle) if sum(at(middle)) > n else (middle, high)
        return at(low)


@every_kind
def test_point_against_high_precision(kind: str) -> None:
    """Each x_i to 12 relative digits, however small."""
    for (m, n), rate in product(SIZES, (1e-6, 0.02, 1.0)):
        losses = LOSSES[kind](m, np.random.default_rng([m, n]))
        x = point(losses, rate, n)
        expected = np.array([float(value) for value in exact_point(losses, rate, n)])
        np.testing.assert_allclose(x, expected, rtol=1e-12, atol=0, err_msg=f"m = {m}, n = {n}, rate = {rate}")


@every_kind
def test_point_satisfies_the_kkt_conditions(kind: str) -> None:
    """rate losses_i - x_i^(-1/2) is the same for all x_i < 1, and no larger for those at 1.

    The n-th smallest loss has x < 1 (or rounded to it), since n items at 1 would leave nothing for the others.
    """
    for m in (2, 5, 10, 33, 1000):
        sizes = sorted({1, max(1, m // 10), m // 2, m - 1})
        for n, seed, rate in product(sizes, range(4), (1e-3, 0.1, 3.0)):
            losses = LOSSES[kind](m, np.random.default_rng([m, n, seed]))
            x = point(losses, rate, n)
            assert np.all((x > 0) & (x <= 1))
            assert abs(x.sum() - n) <= 1e-12 * max(1, n / 10)
            anchor = np.argsort(losses)[n - 1]
            root = rate * (losses - losses[anchor]) + 1 / np.sqrt(x[anchor])  # of 1 / x_i where x_i < 1
            free = x < 1
            assert np.all(np.abs(root[free] * np.sqrt(x[free]) - 1) <= 1e-12)
            assert np.all(root[~free] <= 1 + 1e-12)


@given(
    st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=2, max_size=12),
    st.floats(1e-6, 10),
    st.data(),
)
@settings(max_examples=300)
def test_sum_is_n_for_any_losses(values: list[float], rate: float, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(values) - 1))
    x = point(np.array(values), rate, n)
    assert np.all((x > 0) & (x <= 1))
    assert abs(x.sum() - n) <= 1e-12
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(x[order]) <= 0)  # a larger loss is never likelier


def test_ties_share_evenly() -> None:
    assert point(np.full(8, 3.0), 0.5, 3) == pytest.approx([3 / 8] * 8, abs=1e-15)


def test_items_at_one() -> None:
    """Two items far ahead of four tied ones: they are in every set, the others share what is left."""
    x = point(np.array([0.0, 50, 50, 1, 50, 50]), 1.0, 4)
    assert x == pytest.approx([1, 0.5, 0.5, 1, 0.5, 0.5], abs=1e-15)
    assert x[0] == x[3] == 1


def test_a_set_of_all_items() -> None:
    assert point(np.array([0.0, 5, 1e12]), 1.0, 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("m", "n"), [(3, 1), (5, 2), (6, 4)])
def test_point_against_a_solver(m: int, n: int) -> None:
    losses = 4 * np.random.default_rng(m).random(m)
    x = point(losses, 1.0, n)

    def objective(y: Floats) -> float:
        return float(y @ losses - 2 * np.sqrt(y).sum())

    found = minimize(
        objective,
        np.full(m, n / m),
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * m,
        constraints=LinearConstraint(np.ones(m), n, n),
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    assert objective(x) <= found.fun + 1e-9
    np.testing.assert_allclose(x, found.x, atol=1e-5)


@every_kind
def test_guess_does_not_matter(kind: str) -> None:
    m, n, rate = 12, 4, 0.1
    losses = LOSSES[kind](m, np.random.default_rng(0))
    x, space = np.zeros(m), np.zeros(m)
    found = tsallis_point(losses, rate, n, 0.0, x, space)
    for guess in (found, np.nextafter(found, 0), -1e300, 1e300, np.inf, -np.inf, np.nan, float(losses.max())):
        np.testing.assert_allclose(point(losses, rate, n, guess), x, rtol=1e-12)


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_the_multiplier_is_returned(m: int, n: int) -> None:
    losses, x = np.random.default_rng(m).random(m) * 9, np.zeros(m)
    multiplier = tsallis_point(losses, 0.7, n, 0.0, x, np.zeros(m))
    away = 0.7 * (losses - multiplier)
    np.testing.assert_allclose(x, np.where(away <= 1, 1, away**-2.0), rtol=1e-12)


# --- systematic sampling


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_inclusion_probabilities_are_exact(n: int) -> None:
    """With x_i of the form a / 16 the set depends on which sixteenth the start is in: counting is exact."""
    parts, rng, checked = 16, np.random.default_rng(n), 0
    while checked < 40:
        cuts = rng.integers(0, parts + 1, 5)
        rest = n * parts - int(cuts.sum())
        if not 0 <= rest <= parts:
            continue
        sixteenths = [*map(int, cuts), rest]
        x = np.array(sixteenths) / parts
        counts = np.zeros(6, dtype=int)
        for j in range(parts):
            chosen = sample(x, n, (j + 0.5) / parts)
            assert chosen.tolist() == sample(x, n, j / parts).tolist()
            counts[chosen] += 1
        assert [Fraction(int(c), parts) for c in counts] == [Fraction(a, parts) for a in sixteenths]
        checked += 1


def probabilities_by_integration(x: Floats, n: int) -> Floats:
    """The set is constant between the starts at which an item's end meets a whole number: sum the lengths."""
    corners = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(x) % 1]))
    probabilities = np.zeros(len(x))
    for low, high in pairwise(corners):
        probabilities[sample(x, n, (low + high) / 2)] += high - low
    return probabilities


@every_kind
def test_inclusion_probabilities_of_ftrl_points(kind: str) -> None:
    for m, n in ((2, 1), (5, 2), (6, 5), (20, 7), (100, 30)):
        x = point(LOSSES[kind](m, np.random.default_rng(m)), 0.1, n)
        np.testing.assert_allclose(probabilities_by_integration(x, n), x, atol=1e-12, err_msg=f"m = {m}, n = {n}")


STARTS = (0.0, 5e-324, 1e-17, 0.5, float(np.nextafter(1, 0)))


@every_kind
def test_always_n_items(kind: str) -> None:
    for start, (m, n) in product(STARTS, ((2, 1), (6, 3), (40, 39), (1000, 100))):
        chosen = sample(point(LOSSES[kind](m, np.random.default_rng(m)), 0.5, n), n, start)
        assert len(set(chosen.tolist())) == n, (start, m, n)


def test_a_set_of_all_items_is_drawn_whole() -> None:
    for start in STARTS:
        assert sorted(sample(np.ones(5), 5, start).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("missing", [-1e-16, 0, 1e-16, 1e-9, 0.1])
def test_rounding_never_takes_an_unlikely_item(missing: float) -> None:
    """If x adds up to a little less than n, a start near 1 falls behind the last item: the likeliest is taken."""
    last = float(np.nextafter(1, 0))
    assert 3 not in sample(np.array([0.5, 0.9 - missing, 0.6, 1e-30]), 2, last)
    assert sample(np.array([0.4, 0.6 - missing, 1e-30]), 1, last).tolist() == [1]
    assert sample(np.array([1e-30, 0.4, 0.6 - missing]), 1, last).tolist() == [2]
    assert sample(np.array([0.6 - missing, 0.4, 1e-30]), 1, last).tolist() in ([0], [1])


def test_an_item_of_no_probability_is_passed_over() -> None:
    for start in np.arange(2) * 2.0**-53 + 0.25:
        assert 1 not in sample(np.array([0.25, 1e-20, 0.75]), 1, float(start))
        assert 1 not in sample(np.array([0.25, 1e-20, 0.75, 1.0]), 2, float(start))
