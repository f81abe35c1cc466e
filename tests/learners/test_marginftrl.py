"""Margin FTRL: a twin in plain NumPy, coins by enumeration, the inequalities of its proof, its bound in runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers.hard_streams import cyclic, fair, mean_regret, noisy, swapping, switching
from helpers.naive_margin import Twin, led
from helpers.permutahedron import ALWAYS, Outcomes
from peekrank import DCG, Agent, MarginFTRL, PairwiseLoss, Precision, Shape, SumLoss, fixed_items, measure
from peekrank.checks import LEARNER_CHECKS
from peekrank.engine.serialization import arrays_of
from peekrank.learners._shared import position_weights
from peekrank.learners.marginftrl.plan import (
    ALLOWED,
    ANSWERED,
    BETA,
    COST,
    EXPLORING,
    LENGTH,
    ROUNDS,
    SAFE,
    MarginFTRLState,
)
from peekrank.measures import learnable
from peekrank.types import Features, Floats, Ints, LinearMeasure

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)


class Shown(NamedTuple):
    ranking: Ints
    token: Floats


def show(state: MarginFTRLState, uniforms: Floats, items: Ints | None = None) -> Shown:
    """The rows of a list, of all items if none is given, in the order shown."""
    items = np.arange(len(state.marks)) if items is None else items
    shown = Shown(np.full(len(items), -1, dtype=np.int64), np.zeros(1 + state.k))
    set_items(state, items)
    MarginFTRL.kernels.rank(state, NO_FEATURES, uniforms, *shown)
    return shown


def set_items(state: MarginFTRLState, items: Ints) -> None:
    assert MarginFTRL.kernels.set_items is not None
    MarginFTRL.kernels.set_items(state, items)


def tell(state: MarginFTRLState, shown: Shown, costs: Any, items: Ints | None = None) -> None:
    """Costs are those of the rows."""
    set_items(state, np.arange(len(state.marks)) if items is None else items)
    feedback = np.asarray(costs, dtype=np.float64)[shown.ranking[: state.k]]
    MarginFTRL.kernels.update(state, NO_FEATURES, *shown, feedback)


def memory(state: MarginFTRLState) -> list[Any]:
    arrays = dict(arrays_of(state))
    return [arrays[name] for name in MarginFTRL.persistent]


def by_item(state: MarginFTRLState, of_order: Floats) -> Floats:
    values = np.empty(len(of_order))
    values[state.space.order] = of_order
    return values


def close(state: MarginFTRLState) -> None:
    """Settle the present plan, and make another."""
    state.clock[LENGTH] = 0
    show(state, np.full(1 + len(state.items.costs) + state.k, 0.5))


def played(
    learner: MarginFTRL, shape: Shape, rounds: int, seed: int, means: Floats | None = None
) -> MarginFTRLState:
    """A state after some rounds, its plan just made."""
    rng, state = np.random.default_rng(seed), learner.init(shape)
    means = rng.random(shape.m) if means is None else means
    for _ in range(rounds):
        tell(state, show(state, rng.random(learner.n_uniforms(shape))), rng.random(shape.m) < means)
    if rounds:
        close(state)
    else:
        show(state, rng.random(learner.n_uniforms(shape)))
    return state


# --- a twin from the formulas of the page


@pytest.mark.parametrize(
    ("of", "m", "k"),
    [
        (DCG(), 5, 1),
        (DCG(), 4, 2),
        (DCG(2), 5, 1),
        (SumLoss(), 4, 1),
        (SumLoss(), 3, 2),
        (Precision(2, mean=False), 5, 1),
        (Precision(2, mean=False), 4, 3),
        (Precision(3, mean=False), 5, 2),
        (DCG(6), 70, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("safe", [False, True])
def test_naive_twin(of: LinearMeasure, m: int, k: int, safe: bool) -> None:
    """Some hundred rounds, with answers missing, agree to rounding: rankings, tokens, costs, beta and rates."""
    rng, learner, twin = np.random.default_rng([m, k, safe]), MarginFTRL(of), Twin(of, m, k)
    state, means = learner.init(Shape(m, 0, k)), np.linspace(0.9, 0.05, m)
    state.items.costs[:] = twin.L = rng.random(m)  # items of the same cost would be sorted by rounding
    if safe:  # as if much had been lost
        state.numbers[BETA] = twin.beta = 2 * learner.scale(Shape(m, 0, k)).start
    for t in range(300 if m < 10 else 60):
        uniforms, costs = drawn(rng, m, k), rng.beta(means, 1 - means)  # without ties
        costs[rng.random(m) < 0.1] = np.nan
        shown, (ranking, token) = show(state, uniforms), twin.rank(uniforms, range(m))
        agree(state, twin, shown, ranking, token, t)
        tell(state, shown, costs)
        twin.update(range(m), ranking, token, costs[ranking[:k]])
        assert state.clock[[ANSWERED, LENGTH]].tolist() == [twin.N, twin.length]
    assert state.clock[SAFE] == safe


@pytest.mark.parametrize(
    ("of", "k", "discount"),
    [
        (DCG(), 1, 1.0),
        (DCG(), 2, 0.97),
        (DCG(2), 1, 1.0),
        (SumLoss(), 2, 1.0),
        (Precision(2, mean=False), 1, 0.99),
    ],
    ids=str,
)
@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("late", [0, 3])
def test_naive_twin_over_lists_that_change(
    of: LinearMeasure, k: int, discount: float, safe: bool, late: int
) -> None:
    """Lists of one to six of six items, some of them twice and more in turn, every fourth answer late."""
    rng, learner, m = np.random.default_rng([k, safe, late]), MarginFTRL(of, decay=discount), 6
    twin, state, means = Twin(of, m, k, discount), learner.init(Shape(m, 0, k)), np.linspace(0.9, 0.05, m)
    if safe:
        state.numbers[BETA] = twin.beta = 2 * learner.scale(Shape(m, 0, k)).start
    here, waiting = np.arange(m), list[tuple[Ints, Shown, Floats]]()
    for t in range(300):
        if rng.random() < 0.7:
            here = np.flatnonzero(rng.random(m) < 0.6)
            here = here if len(here) else np.array([t % m])
        uniforms = drawn(rng, len(here), min(k, len(here)))
        shown = show(state, uniforms, here)
        ranking, token = twin.rank(uniforms, here.tolist())
        agree(state, twin, shown, ranking, token, t)
        costs = rng.beta(means, 1 - means)[here]
        waiting.append((here, shown, costs))
        while waiting and (len(waiting) > late or t % 4):
            items, then, costs = waiting.pop(0)
            tell(state, then, costs, items)
            twin.update(items.tolist(), then.ranking, then.token, costs[then.ranking[:k]])
    assert state.clock[SAFE] == safe


def drawn(rng: np.random.Generator, n: int, k: int) -> Floats:
    """Uniforms; coins of exchanges are alike, for rounding chooses whose settles the last two of a pool."""
    uniforms = rng.random(1 + n + k)
    uniforms[1 : 1 + n] = uniforms[1]
    return uniforms


def agree(state: MarginFTRLState, twin: Twin, shown: Shown, ranking: Ints, token: Floats, t: int) -> None:
    n = len(ranking)
    assert shown.ranking.tolist() == ranking.tolist(), t
    np.testing.assert_allclose(shown.token, token, rtol=1e-7)
    np.testing.assert_allclose(state.explore_probs[:n], twin.gamma, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(state.items.costs, twin.L, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(state.items.rounds, twin.own, rtol=1e-9)
    assert state.numbers[BETA] == pytest.approx(twin.beta, rel=1e-9)
    assert state.numbers[ALLOWED] == pytest.approx(twin.allowed, rel=1e-9)
    assert state.numbers[ROUNDS] == pytest.approx(twin.t, rel=1e-12)


# --- one round, over all its randomness


def played_with_others(
    learner: MarginFTRL, m: int, others: int, k: int, rounds: int
) -> tuple[MarginFTRLState, Ints]:
    """A state with a plan for m items, and who they are; lists of these and others have been ranked before."""
    shape = Shape(m + others, 0, k)
    state, rng = played(learner, shape, rounds, seed=10 * m + k), np.random.default_rng([m, k])
    if others == 0:
        return state, np.arange(m)
    for _ in range(rounds):
        items = np.sort(rng.permutation(shape.m)[: rng.integers(1, shape.m + 1)])
        n = len(items)
        tell(state, show(state, rng.random(1 + n + min(k, n)), items), rng.random(n) < 0.4, items)
    here = np.arange(others % 2, others % 2 + m)
    show(state, rng.random(1 + m + k), here)
    return state, here


def every_outcome(
    learner: MarginFTRL, state: MarginFTRLState, here: Ints | None = None
) -> Iterator[tuple[float, int | None, Shown]]:
    """All that a round can come to under the present plan: probability, item asked about, ranking and token."""
    here = np.arange(len(state.items.costs)) if here is None else here
    m, k = len(here), state.k
    gamma = state.explore_probs[:m]
    questions = [(float(gamma[j]), j) for j in range(m)] + [(1 - float(gamma.sum()), None)]
    starts = np.concatenate([[0.0], np.cumsum(gamma)])
    none = np.zeros(k)
    coins = Outcomes(m, lambda uniforms: show(state, np.concatenate([[ALWAYS], uniforms, none]), here).ranking)
    shuffled = (
        range(state.positions.ends[1], k) if state.positions.ends[2] - state.positions.ends[1] > 1 else range(0)
    )
    shuffles = list(product(*[range(state.positions.ends[2] - p) for p in shuffled]))
    for (asked, item), (flips, propensity), picks in product(
        questions, zip(coins.uniforms, coins.probabilities, strict=True), shuffles
    ):
        if asked > 0:
            mixed = np.zeros(k)
            for p, pick in zip(shuffled, picks, strict=True):
                mixed[p] = (pick + 0.5) / (state.positions.ends[2] - p)
            first = ALWAYS if item is None else starts[item] + asked / 2
            yield (
                asked * propensity / len(shuffles),
                item,
                show(state, np.concatenate([[first], flips, mixed]), here),
            )


@pytest.mark.parametrize("known", [0, 3])
@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "of", [DCG(), DCG(2), SumLoss(), Precision(1, mean=False), Precision(2, mean=False)], ids=str
)
def test_propensities_are_exact_and_estimates_without_bias(of: LinearMeasure, m: int, known: int) -> None:
    """For every k: expected weights are the plan's point, tokens the propensities of teaching; the price is exact.

    Of all items there are, or of some, after rounds with other lists.
    """
    w = position_weights(of, m)
    for k, rounds in product(range(1, m + 1), (0, 3, 40)):
        learner = MarginFTRL(of)
        state, here = played_with_others(learner, m, known, k, rounds)
        x, total, taught, asked = np.empty(m), 0.0, np.zeros(m), np.zeros(m)
        x[state.space.order[:m]] = state.space.x[:m] - state.positions.scale[0]
        weight, claimed, seen, said = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
        assert MarginFTRL.kernels.propensities is not None
        MarginFTRL.kernels.propensities(state, NO_FEATURES, np.arange(m), np.zeros(1 + k), said)
        for probability, item, shown in every_outcome(learner, state, here):
            total += probability
            seen[shown.ranking[:k]] += probability
            used = shown.ranking[:k][shown.token[1:] > 0]
            taught[used] += probability
            claimed[used] = shown.token[1:][shown.token[1:] > 0]
            if item is None:
                weight[shown.ranking] += probability * w
                low = np.maximum(w[k - 1] - w, 0)  # what moving the items of this ranking would cost
                asked[shown.ranking] += probability * low
                assert shown.token[0] == 0
            else:
                assert used.tolist() == [item]
        quiet = 1 - state.explore_probs[:m].sum()
        assert state.explore_probs[:m] @ asked / quiet == pytest.approx(state.numbers[COST], abs=1e-12)
        assert total == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(weight / quiet, x, atol=1e-11)
        np.testing.assert_allclose(taught, state.propensity[:m], atol=1e-12)
        np.testing.assert_allclose(seen, said, atol=1e-12)
        np.testing.assert_allclose(claimed[claimed > 0], state.propensity[:m][claimed > 0], rtol=1e-12)


# --- the proof: certificate, pathwise inequality, what a plan can lose, safe rates


@pytest.mark.parametrize("of", [DCG(), DCG(3), SumLoss(), Precision(2, mean=False)], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_an_estimate_below_the_margin_leaves_the_leader_exactly_as_it_is(of: LinearMeasure, seed: int) -> None:
    """One item by its whole margin, all at once by half of theirs; and by more than the margin it changes."""
    rng, shape = np.random.default_rng([seed, 1]), Shape(6, 0, 1)
    state = played(MarginFTRL(of), shape, 30 * 4 ** (seed % 4), seed)
    x, beta = by_item(state, state.space.x), float(state.numbers[BETA])
    scores, up, down = state.scores.copy(), by_item(state, state.up), by_item(state, state.down)
    assert np.array_equal(led(scores, 1 / beta, state.positions.weights), x)
    for i in range(6):
        for move, margin in ((1, up[i]), (-1, down[i])):
            if margin > 0:
                moved = scores.copy()
                moved[i] += move * min(margin, 1e9) * (1 - 1e-9)
                assert np.array_equal(led(moved, 1 / beta, state.positions.weights), x)
                if margin < 1e9:
                    moved[i] = scores[i] + move * margin * (1 + 1e-6)
                    assert not np.array_equal(led(moved, 1 / beta, state.positions.weights), x)
    for _ in range(20):
        half = rng.uniform(-np.minimum(down, 1e9), np.minimum(up, 1e9)) / 2
        assert np.array_equal(led(scores + half * (1 - 1e-9), 1 / beta, state.positions.weights), x)


def test_there_are_margins() -> None:
    """The test above would pass if all items were pooled. Which runs end with a pool hangs on how a CPU rounds."""
    means = np.linspace(0.1, 0.9, 6)
    ended = [played(MarginFTRL(DCG()), Shape(6, 0, 1), 2000, seed, means) for seed in range(20)]
    apart = [state for state in ended if np.all(state.up > 0) and np.all(state.down > 0)]
    assert len(apart) > 1
    for state in apart:
        assert state.up[0] > 1e98
        assert state.down[5] > 1e98
        assert np.all(state.up[1:] == pytest.approx(state.down[:-1]))


def hard(kind: str, T: int, m: int, seed: int) -> Floats:
    """Costs: luck, cycles, changes of mind, and an opponent who makes the present first item cost most."""
    rng = np.random.default_rng(seed)
    costs: dict[str, Floats] = {
        "luck": rng.random((T, m)),
        "coins": (rng.random((T, m)) < rng.random(m)).astype(np.float64),
        "cycles": 1.0 - cyclic(T, m, seed).astype(np.float64),
        "change": 1.0 - swapping(T, m, seed).astype(np.float64),
    }
    return costs[kind]


@pytest.mark.parametrize("kind", ["luck", "coins", "cycles", "change", "opponent"])
@pytest.mark.parametrize(
    ("of", "k"),
    [(DCG(), 1), (DCG(), 2), (SumLoss(), 1), (Precision(2, mean=False), 1), (Precision(2, mean=False), 3)],
)
def test_pathwise_inequality(of: LinearMeasure, k: int, kind: str) -> None:
    """In every run, against every ranking: regret of the estimates <= what plans lost + h beta; no high jumps."""
    T, m, rng = 400, 4, np.random.default_rng(5)
    learner, shape = MarginFTRL(of), Shape(4, 0, k)
    state, c = learner.init(shape), learner.scale(shape)
    costs = np.zeros((T, m)) if kind == "opponent" else hard(kind, T, m, seed=3)
    gained, estimates, price, beta = 0.0, np.zeros(m), 0.0, 1.0
    for row in costs:
        shown = show(state, rng.random(learner.n_uniforms(shape)))
        after = float(state.numbers[BETA])
        assert beta <= after <= (1 + c.jump) * beta + c.hop
        beta = after
        if kind == "opponent":
            row[shown.ranking[0]] = 1.0
        x, estimate = by_item(state, state.space.x), state.items.hints.copy()
        for i, P in zip(shown.ranking[:k], shown.token[1:], strict=True):
            if P > 0:
                estimate[i] += (row[i] - state.items.hints[i]) / P
        gained += float(x @ estimate)
        estimates += estimate
        price += float(state.numbers[COST])
        tell(state, shown, row)
    close(state)
    np.testing.assert_allclose(state.items.costs, estimates, atol=1e-9 * T)
    lost = (state.numbers[BETA] - 1) * 2 * c.h - price
    for ranking in permutations(range(m)):
        u = state.positions.weights[np.argsort(ranking)]
        assert gained - u @ estimates <= lost + c.h * beta + 1e-9
    assert state.clock[SAFE] == 0


@pytest.mark.parametrize("kind", ["luck", "coins", "cycles", "change"])
@pytest.mark.parametrize(("of", "k"), [(DCG(), 1), (SumLoss(), 2), (Precision(2, mean=False), 1)], ids=str)
def test_discounted_regret_is_what_beta_has_become(of: LinearMeasure, k: int, kind: str) -> None:
    """Theorem 4 in every run: estimates, prices and losses count less and less, and come to 3 h beta at most."""
    T, m, discount, rng = 400, 4, 0.98, np.random.default_rng(5)
    learner, shape = MarginFTRL(of, decay=discount), Shape(4, 0, k)
    assert learner.bound(shape, T) is None
    state, c = learner.init(shape), MarginFTRL(of).scale(shape)
    lost, estimates, now, new = 0.0, np.zeros(m), 0.0, np.zeros(m)
    for t, row in enumerate([*hard(kind, T, m, seed=3), None]):
        ends, part = state.clock[ANSWERED] >= state.clock[LENGTH], discount ** state.clock[ANSWERED]
        if row is None:
            close(state)
        else:
            shown = show(state, rng.random(learner.n_uniforms(shape)))
        if ends or row is None:
            lost, estimates, now, new = (lost + now) * part, (estimates + new) * part, 0.0, np.zeros(m)
            np.testing.assert_allclose(state.items.costs, estimates, atol=1e-9 * T)
            for ranking in permutations(range(m)):
                u = state.positions.weights[np.argsort(ranking)]
                assert lost - u @ estimates <= 3 * c.h * state.numbers[BETA] + 1e-9, t
        if row is not None:
            x, estimate = by_item(state, state.space.x), state.items.hints.copy()
            for i, P in zip(shown.ranking[:k], shown.token[1:], strict=True):
                estimate[i] += (row[i] - state.items.hints[i]) / P if P > 0 else 0.0
            now, new = now + float(x @ estimate + state.numbers[COST]), new + estimate
            tell(state, shown, row)


@pytest.mark.parametrize("kind", ["luck", "coins", "cycles", "change"])
@pytest.mark.parametrize(("of", "k"), [(DCG(), 1), (SumLoss(), 2), (Precision(2, mean=False), 1)], ids=str)
def test_the_point_travels_no_farther_than_late_answers_are_charged_for(
    of: LinearMeasure, k: int, kind: str
) -> None:
    T, m, rng = 400, 4, np.random.default_rng(6)
    learner, shape = MarginFTRL(of), Shape(4, 0, k)
    state, c = learner.init(shape), learner.scale(shape)
    x = np.full(m, np.nan)
    for row in hard(kind, T, m, seed=4):
        beta, spent = float(state.numbers[BETA]), state.clock[ANSWERED] * state.numbers[COST]
        ends = state.clock[ANSWERED] >= state.clock[LENGTH]
        shown = show(state, rng.random(learner.n_uniforms(shape)))
        if ends:
            after, before, x = float(state.numbers[BETA]), x, by_item(state, state.space.x)
            B = max((after - beta) * 2 * c.h - spent, 0.0)
            spread = log(state.positions.weights[0] / state.positions.weights[m - 1])
            way = sqrt(2 * c.V * B / beta) + c.V * spread * (after - beta) / (2 * beta) + c.V / (2 * after)
            assert np.isnan(before).all() or np.abs(x - before).sum() <= way + 1e-7
        tell(state, shown, row)


def test_a_discount_follows_change() -> None:
    rounds = [fixed_items(swapping(6000, 5, seed).astype(int)) for seed in range(3)]
    plain, following = (mean_regret(MarginFTRL(DCG(), decay=d), rounds, 1) for d in (1.0, 0.995))
    assert following < plain


@pytest.mark.parametrize(
    ("of", "m", "k"), [(DCG(), 3, 1), (DCG(), 4, 2), (SumLoss(), 3, 1), (Precision(1, mean=False), 3, 1)]
)
def test_a_round_at_safe_rates_loses_no_more_than_the_proof_says(of: LinearMeasure, m: int, k: int) -> None:
    """Over all coins and costs: price and expected loss are at most (R / sqrt(beta)) (1 + zeta / 4)."""
    learner, shape = MarginFTRL(of), Shape(m, 0, k)
    c, rng = learner.scale(shape), np.random.default_rng(1)
    for scale in (0.0, 1.0, 3.0):
        state = learner.init(shape)
        state.items.costs[:] = rng.random(m) * scale * c.start
        state.numbers[BETA] = 1.5 * c.start
        show(state, np.zeros(learner.n_uniforms(shape)))
        beta, R = float(state.numbers[BETA]), sqrt(c.E * c.V / 2)
        assert state.clock[SAFE] == 1
        assert beta == 1.5 * c.start
        assert state.propensity.min() >= sqrt(c.V / (8 * beta * c.E)) * (1 - 1e-12)
        assert state.explore_probs.sum() <= 0.5
        start, x = state.items.costs.copy(), by_item(state, state.space.x)

        def potential(y: Floats, costs: Floats, beta: float = beta) -> float:
            return float(y @ costs + beta * y @ np.log(y))

        outcomes = list(every_outcome(learner, state))
        for row in product((0.0, 0.3, 1.0), repeat=m):
            mean = 0.0
            for probability, _, (ranking, token) in outcomes:
                moved = start.copy()
                for i, P in zip(ranking[:k], token[1:], strict=True):
                    moved[i] += (row[i] - 0.5) / P if P > 0 else 0.0
                y = led(-moved, 1 / beta, state.positions.weights)
                mean += probability * (potential(x, moved) - potential(y, moved))
            zeta = sqrt(2 * c.E / (c.V * beta))
            assert mean + state.numbers[COST] <= R / sqrt(beta) * (1 + zeta / 4) + 1e-9


# --- the guard


def test_safe_rates_are_taken_for_good_when_beta_has_grown_too_fast() -> None:
    learner, shape, rng = MarginFTRL(DCG()), Shape(5, 0, 1), np.random.default_rng(0)
    state, c = learner.init(shape), learner.scale(shape)
    show(state, rng.random(learner.n_uniforms(shape)))
    assert state.clock[SAFE] == 0
    state.numbers[BETA] = (c.start - c.hop) / (1 + c.jump) * (1 - 1e-9)
    close(state)
    assert state.clock[SAFE] == 0  # just not
    state.numbers[BETA] = (c.start - c.hop) / (1 + c.jump) * (1 + 1e-9)
    close(state)
    assert state.clock[SAFE] == 1
    assert state.numbers[BETA] == c.start
    for _ in range(300):
        tell(state, show(state, rng.random(learner.n_uniforms(shape))), rng.random(5) < np.linspace(0.1, 0.9, 5))
        assert np.all(state.items.hints == 0.5)
        assert np.ptp(state.explore_probs) < 0.5
        assert state.clock[SAFE] == 1
        assert state.clock[LENGTH] <= 1


# --- the bound


def test_constants_of_the_bound_by_hand() -> None:
    """SumLoss of three items, k = 1: w = 2, 1, 0, E = 3; v = w + a."""
    c = MarginFTRL(SumLoss()).scale(Shape(3, 0, 1))
    v = np.array([2, 1, 0]) + c.shift
    assert c.E == 3
    assert pytest.approx(3 + 3 * c.shift) == c.V
    assert c.h == pytest.approx(float(v @ np.log(3 * v / c.V)))
    phi = [exp(z) - 1 - z for z in (1 / 16, 1 / 16 + 1 / 2, 1 / 16 + 2)]
    jump = (c.V * phi[0] + v[0] / 4 * max(phi[1] * 4, phi[2] / 4)) / (2 * c.h)
    assert c.jump == pytest.approx(jump)
    assert c.hop == pytest.approx((12 * 2 + 2) / (2 * c.h))
    large = MarginFTRL(SumLoss()).scale(Shape(100, 0, 2))  # plans that explore are for three rounds
    assert large.hop == pytest.approx((99 * 100 * (4 * 3 * 2 + 1) + 3 * 98) / (2 * large.h))
    start = max(c.V * 9 / 6, 150 / c.V, 12 / c.h, 4 * (1 + c.jump + c.hop))
    assert c.start == pytest.approx(start)
    R = sqrt(3 * c.V / 2)
    most = R / (2 * sqrt(start)) + 1.08 * 3 * v[0] / c.V
    pace = 3 * R / (4 * c.h) * (1 + sqrt(6 / (c.V * start)) / 4) * (1 + most / (8 * c.h * start))
    assert c.pace == pytest.approx(pace)
    bound = c.h * (3 * (start**1.5 + 1.5 * pace * 10_031) ** (2 / 3) - 2)
    assert MarginFTRL(SumLoss()).bound(Shape(3, 0, 1), 10_000) == pytest.approx(bound)
    assert MarginFTRL(SumLoss(), max_grade=3).bound(Shape(3, 0, 1), 10_000) == pytest.approx(3 * bound)


@pytest.mark.parametrize("m", [2, 5, 10, 50, 1000])
@pytest.mark.parametrize("name", ["dcg", "dcg@10", "p@1+sum", "p@3+sum", "sumloss", "rbp:p=0.9"])
def test_the_shift_is_nearly_as_good_as_the_best(name: str, m: int) -> None:
    """The bound grows with the cube root of h V, which is at most 8 % above what the best shift would make it."""
    judge = learnable(measure(name), 1)
    w, c = position_weights(judge, m), MarginFTRL(judge).scale(Shape(m, 0, 1))

    def product_of(a: float) -> float:
        v = w + a
        return float(v @ np.log(v / v.mean())) * float(v.sum())

    if w[0] > 0:
        assert c.shift == pytest.approx(w.mean() / 4)
        assert c.h * c.V == pytest.approx(product_of(c.shift))
        best = min(product_of(a) for a in w.mean() * np.geomspace(1e-3, 1, 200))
        assert (c.h * c.V / best) ** (1 / 3) < 1.08


@pytest.mark.parametrize("stream", [switching, fair, noisy])
@pytest.mark.parametrize(
    ("of", "k", "top"),
    [
        (SumLoss(), 1, 1),
        (PairwiseLoss(), 3, 1),
        (DCG(), 1, 2),
        (DCG(), 8, 1),
        (DCG(3), 3, 1),
        (Precision(2, mean=False), 1, 1),
    ],
    ids=str,
)
def test_regret_is_below_the_bound(of: LinearMeasure, k: int, top: int, stream: Any) -> None:
    learner = MarginFTRL(of, max_grade=top)
    lost = mean_regret(learner, [stream(3000, 8, top, seed) for seed in range(8)], k)
    assert lost < (learner.bound(Shape(8, 0, k), 3000) or 0)


def test_less_regret_than_half_of_blockftrl() -> None:
    from peekrank import BlockFTRL

    rounds = [
        fixed_items((np.random.default_rng(s).random((20_000, 8)) < np.linspace(0.9, 0.1, 8)).astype(int))
        for s in range(3)
    ]
    assert mean_regret(MarginFTRL(DCG()), rounds, 1) < 0.7 * mean_regret(BlockFTRL(DCG()), rounds, 1)


@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 1), (5, 5), (3, 2)])
def test_where_all_rankings_are_equal_there_is_nothing_to_lose(m: int, k: int) -> None:
    learner = MarginFTRL(Precision(5, mean=False))
    assert learner.bound(Shape(m, 0, k), 10) == 0
    agent = Agent(learner, m=m, k=k)
    for _ in range(40):
        agent.update(decision := agent.rank(), np.zeros(k))
        assert sorted(decision.ranking.tolist()) == list(range(m))


@pytest.mark.parametrize(("name", "max_grade"), [("ndcg", 1), ("ap", 1), ("aucloss", 1), ("pairwiseloss", 2)])
def test_measures_that_cannot_be_learned(name: str, max_grade: int) -> None:
    unlearnable: Any = measure(name)
    with pytest.raises(ValueError, match=f"{name} cannot be learned"):
        MarginFTRL(unlearnable, max_grade=max_grade)


@pytest.mark.parametrize("k", [1, 5, 6])
@pytest.mark.parametrize("learner", [MarginFTRL(DCG()), MarginFTRL(Precision(2, mean=False))], ids=str)
def test_passes_every_check_with_fewer_and_more_answers(
    learner: MarginFTRL, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peekrank.checks.learners.problem.K", k)
    for check in LEARNER_CHECKS.values():
        check(learner)


# --- answers late, missing, in part


def test_a_round_without_any_answer_is_as_if_it_had_not_been() -> None:
    learner, shape = MarginFTRL(DCG()), Shape(5, 0, 2)
    states = [played(learner, shape, 50, 0) for _ in range(2)]
    rng = np.random.default_rng(2)
    for _ in range(50):
        uniforms, costs = rng.random(learner.n_uniforms(shape)), rng.random(5)
        tell(states[1], show(states[1], rng.random(learner.n_uniforms(shape))), np.full(5, np.nan))
        for state in states:
            tell(state, show(state, uniforms), costs)
        for one, two in zip(memory(states[0]), memory(states[1]), strict=True):
            assert np.array_equal(one, two)


def test_of_k_answers_those_that_came_count() -> None:
    learner, shape = MarginFTRL(DCG()), Shape(5, 0, 3)
    state = played(learner, shape, 80, 0)
    shown = show(state, np.concatenate([[ALWAYS], np.full(8, 0.5)]))
    before, hints, costs = state.items.costs.copy(), state.items.hints.copy(), np.full(5, np.nan)
    i, j = shown.ranking[[0, 2]]
    costs[[i, j]] = 1.0, 0.25
    tell(state, shown, costs)
    before[i] += (1 - hints[i]) / shown.token[1]
    before[j] += (0.25 - hints[j]) / shown.token[3]
    np.testing.assert_allclose(state.items.costs, before, rtol=1e-12)
    assert state.numbers[ROUNDS] == 81


def test_answers_in_any_order_come_to_the_same() -> None:
    """Under one plan, what a decision teaches is in its token."""
    learner, shape, rng = MarginFTRL(SumLoss()), Shape(5, 0, 2), np.random.default_rng(0)
    states = [played(learner, shape, 60, 1) for _ in range(2)]
    shown = [show(states[0], rng.random(learner.n_uniforms(shape))) for _ in range(8)]
    costs = rng.random((8, 5))
    for state, order in zip(states, (np.arange(8), rng.permutation(8)), strict=True):
        for i in order:
            tell(state, shown[i], costs[i])
    for one, two in zip(memory(states[0]), memory(states[1]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_an_item_that_is_never_answered_for_is_not_favoured() -> None:
    """It is taken to cost one half, and ends between the good and the bad ones."""
    learner, shape, rng = MarginFTRL(DCG()), Shape(5, 0, 1), np.random.default_rng(0)
    state, means = learner.init(shape), np.array([0.1, 0.2, 0.0, 0.8, 0.9])
    for _ in range(6000):
        costs = (rng.random(5) < means).astype(np.float64)
        costs[2] = np.nan
        tell(state, show(state, rng.random(learner.n_uniforms(shape))), costs)
    assert np.argsort(state.items.costs + state.clock[ANSWERED] * state.items.hints).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [-0.5, 1.5, 1e-14])
def test_foreign_tokens_are_refused(wrong: float) -> None:
    agent = Agent(MarginFTRL(SumLoss()), m=4, k=3)
    decision = agent.rank()
    decision.token[2] = wrong
    with pytest.raises(ValueError, match="token"):
        agent.update(decision, [1, 0, 1])


def test_grades_of_any_size() -> None:
    """Gains up to 2^255: costs are parts of the largest gain, and nothing overflows."""
    grades = np.array([0, 1, 3, np.nan])
    np.testing.assert_allclose(MarginFTRL(DCG(), max_grade=3).transform_feedback(grades), [1, 6 / 7, 0, np.nan])
    rng = np.random.default_rng(0)
    rounds = fixed_items(rng.choice([0, 255], size=(2000, 5), p=[0.7, 0.3]).astype(np.uint8))
    with pytest.warns(UserWarning, match="a grade g is worth"):
        learner = MarginFTRL(DCG(), max_grade=255)
    assert 0 < mean_regret(learner, [rounds], 1) < (learner.bound(Shape(5, 0, 1), 2000) or 0)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_forged_state_cannot_report_propensities_above_1(rows: int) -> None:
    agent = Agent(MarginFTRL(DCG()), m=5, k=2)
    for _ in range(50):
        agent.update(agent.rank(), [1, 0])
    agent.learner.validate_state(agent.state)
    probabilities, numbers = agent.state.explore_probs.copy(), agent.state.numbers.copy()
    probabilities[:rows] += 1
    for exploring in (numbers[EXPLORING], numbers[EXPLORING] + rows):
        numbers[EXPLORING] = exploring
        forged = agent.state._replace(explore_probs=probabilities, numbers=numbers)
        with pytest.raises(ValueError, match="explore_probs must add up to its exploration, at most"):
            agent.learner.validate_state(forged)
