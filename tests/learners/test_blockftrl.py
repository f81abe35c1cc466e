"""Blocked FTRL: estimates over all coins and slots of a block, blocks, bound in runs, missing answers."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product
from math import ceil, log, log10, sqrt
from typing import Any

import numpy as np
import pytest

from helpers.hard_streams import fair, mean_regret, noisy, switching
from helpers.permutahedron import Outcomes, closed_form
from peekrank import CT15, DCG, Agent, PairwiseLoss, Precision, RTop1F, Shape, SumLoss, fixed_items, simulate
from peekrank.checks import check_learner
from peekrank.learners._shared import ShortHorizonWarning, position_weights
from peekrank.learners.blockftrl import BlockFTRL, BlockFTRLState
from peekrank.regret import best_values
from peekrank.streams import Bernoulli, Switching
from peekrank.types import Features, Floats, Ints, LinearMeasure

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)


def show(state: BlockFTRLState, uniforms: Floats) -> tuple[Ints, Floats]:
    ranking, token = np.full(len(uniforms) - 1, -1, dtype=np.int64), np.full(1, np.nan)
    BlockFTRL.kernels.rank(state, NO_FEATURES, uniforms, ranking, token)
    return ranking, token


def tell(state: BlockFTRLState, shown: tuple[Ints, Floats], costs: Any) -> None:
    feedback = np.asarray(costs, dtype=np.float64)[shown[0][: state.k]]
    BlockFTRL.kernels.update(state, NO_FEATURES, *shown, feedback)


def begun(learner: BlockFTRL, shape: Shape, scores: Floats) -> BlockFTRLState:
    """A state whose next block begins with these scores."""
    state = learner.init(shape)
    state.scores[:] = scores
    return state


# --- one block, over all its randomness


@pytest.mark.parametrize(
    ("of", "m", "k", "rounds"),
    [
        (SumLoss(), 2, 1, 2),
        (SumLoss(), 2, 1, 4),
        (SumLoss(), 3, 1, 3),
        (SumLoss(), 3, 2, 3),
        (DCG(), 3, 1, 4),
        (DCG(1), 3, 1, 3),
        (Precision(2, mean=False), 3, 1, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_a_block_is_unbiased_and_costs_no_more_than_promised(
    of: LinearMeasure, m: int, k: int, rounds: int, scale: float
) -> None:
    """Over all slots and coins: the estimate is the block's cost, and the loss to the leader is at most E."""
    shape, w, scores = Shape(m, 0, k), position_weights(of, m), -scale * np.arange(float(m))[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortHorizonWarning)
        make = partial(begun, BlockFTRL(of, horizon=rounds), shape, scores)
        state = make()
    show(state, np.zeros(m + 1))
    assert state.clock[2] == rounds
    x = np.empty(m)
    x[state.space.order] = state.space.x
    np.testing.assert_allclose(x, closed_form(scores, state.rate, w), atol=1e-12)
    state.clock[:2] = 10**6, 0  # no question left: what it shows is what it draws
    coins = Outcomes(m, lambda uniforms: show(state, np.r_[0.0, uniforms])[0])
    np.testing.assert_allclose(
        sum(p * w[np.argsort(r)] for r, p in zip(coins.rankings, coins.probabilities, strict=True)), x, atol=1e-12
    )
    costs = np.random.default_rng(m).integers(0, 2, (rounds, m)).astype(np.float64)
    estimate, lost, total = np.zeros(m), 0.0, 0.0
    slots = list(product(*[(np.arange(left) + 0.5) / left for left in range(rounds, 0, -1)]))
    drawn = list(zip(coins.uniforms, coins.probabilities, strict=True))
    for order, draws in product(slots, product(drawn, repeat=rounds)):
        propensity = float(np.prod([p for _, p in draws])) / len(slots)
        state = make()
        for slot, (uniforms, _), row in zip(order, draws, costs, strict=True):
            shown = show(state, np.r_[slot, uniforms])
            lost += propensity * float(w @ row[shown[0]] - x @ row)
            tell(state, shown, row)
        assert state.counts.all()
        show(state, np.zeros(m + 1))
        estimate += propensity * (scores - state.scores)
        total += propensity
    assert total == pytest.approx(1)
    np.testing.assert_allclose(estimate, costs.sum(axis=0), atol=1e-9)
    assert lost <= np.sum(w[k - 1] - w[k:]) + 1e-9


def test_every_item_is_asked_about_once_a_block() -> None:
    learner, rng = BlockFTRL(DCG(), horizon=4000), np.random.default_rng(0)
    state = learner.init(Shape(7, 0, 2))
    moved, lengths = 0.0, []
    for _ in range(4000):
        if state.clock[0] == 0:
            before = None
        shown = show(state, rng.random(8))
        if before is None:
            lengths.append(int(state.clock[2]))
        before = state.clock[0]
        moved += shown[1][0]
        tell(state, shown, rng.integers(0, 2, 7))
        if state.clock[0] == 0:
            assert state.counts.all()
            assert state.clock[1] == 0
    blocks = learner.block_count(Shape(7, 0, 2), 4000)
    assert len(lengths) == blocks
    assert sum(lengths) == 4000
    assert max(lengths) - min(lengths) <= 1
    assert abs(moved - blocks * learner.moves(Shape(7, 0, 2))) < 5 * sqrt(blocks)


def test_an_item_moves_to_the_last_position_that_is_seen() -> None:
    state = BlockFTRL(SumLoss(), horizon=1000).init(Shape(5, 0, 2))
    rng = np.random.default_rng(2)
    for _ in range(200):
        if state.clock[0] == 0:
            show(state, rng.random(6))
        uniforms = rng.random(6)
        twin = state._replace(**{name: getattr(state, name).copy() for name in ("clock", "to_explore")})
        plain = show(state._replace(clock=np.r_[state.clock[0], 0, state.clock[2:]]), uniforms)[0]
        item = twin.to_explore[slot] if (slot := int(uniforms[0] * twin.clock[0])) < twin.clock[1] else None
        ranking, token = show(state, uniforms)
        if item is None or item in plain[:2]:
            assert token[0] == 0
            assert np.array_equal(ranking, plain)
        else:
            assert token[0] == 1
            rest = [i for i in plain if i != item]
            assert ranking.tolist() == [rest[0], item, *rest[1:]]


# --- lengths and learning rates


def lengths_of(state: BlockFTRLState, blocks: int) -> list[int]:
    found, m = [], len(state.scores)
    for _ in range(blocks):
        state.clock[0] = 0
        state.counts[:] = 1  # answered, and without cost
        show(state, np.zeros(m + 1))
        found.append(int(state.clock[2]))
    return found


def test_blocks_grow_without_a_horizon() -> None:
    shape = Shape(10, 0, 1)
    state = BlockFTRL(DCG()).init(shape)
    w = position_weights(DCG(), 10)
    r, W = sum(v * log(10 * v / w.sum()) for v in w[:9]), w.sum()
    first = 2 * np.sum(w[0] - w[1:]) / sqrt(r * W / 2)
    expected = [max(10, ceil(first * sqrt(b))) for b in range(1, 200)]
    assert lengths_of(state, 199) == expected
    assert state.memory[1] == pytest.approx(np.sum(np.square(expected[:-1], dtype=np.float64)))


def test_the_rate_falls_with_squared_lengths_without_a_horizon() -> None:
    shape, w, scores = Shape(4, 0, 1), position_weights(SumLoss(), 4), np.array([0.0, -9.0, -50.0, -51.0])
    state = begun(BlockFTRL(SumLoss()), shape, scores)
    squares, r = 0.0, sum(v * log(4 * v / 6) for v in (3, 2, 1))
    for length in lengths_of(state, 5):
        squares += length**2
    x = np.empty(4)
    x[state.space.order] = state.space.x
    np.testing.assert_allclose(x, closed_form(scores, sqrt(4 * r / 6 / squares), w), rtol=1e-12)


def test_long_horizons_are_cut_without_overflow() -> None:
    """K times what is left over is above 2^63 here."""
    state = BlockFTRL(SumLoss(), horizon=992 * 10**9).init(Shape(100, 0, 99))
    assert state.blocks * (state.horizon % state.blocks) > 2**63
    assert set(lengths_of(state, 2000)) == {state.horizon // state.blocks, state.horizon // state.blocks + 1}
    state.clock[5] = state.blocks - 1
    assert lengths_of(state, 1) == [state.horizon // state.blocks + 1]
    assert BlockFTRL(SumLoss(), 10**12).bound(Shape(10**6, 0, 1), np.int64(10**12)) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1, 8])
@pytest.mark.parametrize("horizon", [1, 9])
def test_horizons_without_a_whole_block_are_reported(horizon: int, k: int) -> None:
    with pytest.warns(ShortHorizonWarning, match=r"ends before the first block of 10 rounds.* nothing is learned"):
        BlockFTRL(DCG(), horizon=horizon).init(Shape(10, 0, k))


@pytest.mark.parametrize(("horizon", "blocks", "length"), [(10, 1, 10), (95, 9, 10)])
def test_short_horizons_are_reported(horizon: int, blocks: int, length: int) -> None:
    learner = BlockFTRL(SumLoss(), horizon=horizon)
    with pytest.warns(ShortHorizonWarning, match=rf"horizon = {horizon} is short: .* blocks of {length} rounds"):
        state = learner.init(Shape(10, 0, 8))
    assert state.blocks == blocks
    assert min(lengths_of(state, 20)) == 10


# --- the bound


def test_constants_of_the_bound_by_hand() -> None:
    """SumLoss of three items, k = 1: w = 2, 1, 0, E = 3, r = 2 ln 2, A = sqrt(3 ln 2)."""
    shape, A = Shape(3, 0, 1), sqrt(3 * log(2))
    K = round((A * 10_000 / 6) ** (2 / 3))
    lengths = np.diff([b * 10_000 // K for b in range(K + 1)])
    learner = BlockFTRL(SumLoss(), 10_000)
    assert learner.block_count(shape, 10_000) == K
    assert learner.bound(shape, 10_000) == pytest.approx(3 * K + A * sqrt(np.sum(lengths**2)))
    assert learner.bound(shape, 10_000) == pytest.approx(3 * 3 ** (1 / 3) * (A * 5000) ** (2 / 3), rel=1e-3)
    assert BlockFTRL(SumLoss(), 10_000, decay=0.9).bound(shape, 10_000) is None
    graded, binary = (BlockFTRL(DCG(), 50, max_grade=top).bound(Shape(5, 0, 1), 5000) for top in (3, 1))
    assert graded == pytest.approx(7 * (binary or 0))


@pytest.mark.parametrize(("of", "m", "k"), [(SumLoss(), 3, 1), (DCG(), 10, 1), (DCG(), 10, 8), (DCG(3), 20, 3)])
def test_bound_without_a_horizon_covers_the_blocks_begun(of: LinearMeasure, m: int, k: int) -> None:
    learner, shape, w = BlockFTRL(of), Shape(m, 0, k), position_weights(of, m)
    E, (r, W) = np.sum(w[k - 1] - w[k:]), (np.sum(w[w > 0] * np.log(m * w[w > 0] / w.sum())), w.sum())
    first = 2 * E / sqrt(r * W / 2)
    lengths = np.maximum(m, np.ceil(first * np.sqrt(np.arange(1, 40_000))))
    begins, squares = np.r_[0, np.cumsum(lengths)], np.cumsum(lengths**2)
    for horizon in (1, m, 10 * m, 10_000, 100_000):
        K = int(np.searchsorted(begins, horizon))  # blocks begun
        exact = E * K + sqrt(r * W * squares[K - 1])
        found = learner.bound(shape, horizon) or 0
        assert exact <= found + 1e-9
        assert found < 1.2 * exact + 2 * (E + sqrt(r * W) * m)
    known = BlockFTRL(of, 10**9).bound(shape, 10**9) or 0
    if E > 0:
        assert (learner.bound(shape, 10**9) or 0) / known == pytest.approx(1.5 ** (2 / 3), rel=0.02)


def test_bound_is_below_that_of_rtop1f() -> None:
    for of, m, k in (
        (DCG(), 10, 1),
        (SumLoss(), 5, 1),
        (SumLoss(), 30, 4),
        (DCG(5), 20, 2),
        (Precision(2, mean=False), 5, 1),
    ):
        for T in (10_000, 10**6):
            ours = BlockFTRL(of, T).bound(Shape(m, 0, k), T)
            assert ours is not None
            assert ours < 0.5 * RTop1F(of, T).bound(Shape(m, 0, k), T)


@pytest.mark.parametrize("stream", [switching, fair, noisy])
@pytest.mark.parametrize("horizon", [None, 3000])
@pytest.mark.parametrize(
    ("of", "k", "top"),
    [
        (SumLoss(), 1, 1),
        (SumLoss(), 6, 1),
        (PairwiseLoss(), 2, 1),
        (DCG(), 1, 2),
        (DCG(3), 1, 1),
        (Precision(2, mean=False), 1, 1),
    ],
    ids=str,
)
def test_regret_is_below_the_bound(of: LinearMeasure, k: int, top: int, horizon: int | None, stream: Any) -> None:
    learner = BlockFTRL(of, horizon, max_grade=top)
    bound = learner.bound(Shape(8, 0, k), 3000)
    assert bound is not None
    assert mean_regret(learner, [stream(3000, 8, top, seed) for seed in range(8)], k) < bound


def test_less_than_half_of_rtop1f_on_ct15() -> None:
    rounds = [CT15(m=10, noise=0.25).rounds(10_000, np.random.default_rng(seed)) for seed in range(3)]
    fixed, best, known, anytime = (
        mean_regret(learner, rounds, 1)
        for learner in (
            RTop1F(DCG(), 10_000, order="fixed"),
            RTop1F(DCG(), 10_000),
            BlockFTRL(DCG(), 10_000),
            BlockFTRL(DCG()),
        )
    )
    assert anytime < 0.5 * fixed
    assert anytime < known < best


def test_regret_grows_as_two_thirds() -> None:
    """Items that differ clearly: what is lost is the price of asking, E for each of T^(2/3) blocks."""
    stream, lost = Bernoulli(means=tuple(np.linspace(0.1, 0.9, 5))), []
    for horizon in (4000, 64_000):
        rounds = [stream.rounds(horizon, np.random.default_rng(seed)) for seed in range(6)]
        lost.append(mean_regret(BlockFTRL(SumLoss(), horizon), rounds, 1))
    assert 0.5 < log10(lost[1] / lost[0]) / log10(16) < 0.8


@pytest.mark.parametrize("horizon", [None, 20_000])
def test_discounting_follows_change(horizon: int | None) -> None:
    """What is lost to the best ranking of each of five segments."""
    lost = np.zeros(2)
    for seed in range(3):
        rounds = Switching(m=10, segments=5).rounds(20_000, np.random.default_rng(seed))
        end, segments = np.array([20_000]), rounds.relevance.reshape(5, 4000, 10)
        best = sum(best_values(DCG(), fixed_items(segment), np.array([4000]))[0] for segment in segments)
        for n, discount in enumerate((1.0, 0.8)):
            learner = BlockFTRL(DCG(), horizon, decay=discount)
            lost[n] += best - simulate(learner, rounds, k=1, measure=DCG(), seed=seed, checkpoints=end).value[0]
    assert lost[1] < 0.3 * lost[0]


@pytest.mark.parametrize("discount", [1.0, 0.8, 0.3])
def test_the_step_size_counts_the_squares_of_discounted_blocks(discount: float) -> None:
    """A block that counts for discount^n after n others moves the leader by its square."""
    learner, shape, rng = BlockFTRL(SumLoss(), decay=discount), Shape(3, 0, 1), np.random.default_rng(1)
    state, w, lengths = learner.init(shape), position_weights(SumLoss(), 3), np.array([])
    for _ in range(400):
        begins = state.clock[0] == 0
        shown = show(state, rng.random(4))
        if begins:
            lengths = np.append(lengths, state.clock[2])
            ages = np.arange(len(lengths))[::-1]
            rate = state.rate / np.sqrt(np.sum((discount**ages * lengths) ** 2))
            x = np.empty(3)
            x[state.space.order] = state.space.x
            np.testing.assert_allclose(x, closed_form(state.scores, rate, w), atol=1e-9)
        tell(state, shown, rng.random(3) < 0.5)
    assert len(lengths) > 10


@pytest.mark.parametrize("discount", [0.8, 0.3])
def test_with_a_horizon_the_step_size_is_that_of_the_blocks_remembered(discount: float) -> None:
    shape = Shape(4, 0, 1)
    plain, forgetful = (BlockFTRL(DCG(), 9000, decay=x).init(shape) for x in (1.0, discount))
    remembered = sum(discount ** (2 * age) for age in range(plain.blocks))
    assert forgetful.rate == pytest.approx(plain.rate * np.sqrt(plain.blocks / remembered), rel=1e-12)


# --- checks, answers late, missing, never


@pytest.mark.parametrize(
    "learner",
    [BlockFTRL(SumLoss()), BlockFTRL(PairwiseLoss(), 4000), BlockFTRL(DCG(3), 4000, max_grade=3)],
    ids=str,
)
def test_passes_every_check(learner: BlockFTRL) -> None:
    check_learner(learner)


def finish_block(state: BlockFTRLState) -> None:
    state.clock[0] = 0
    show(state, np.zeros(len(state.scores) + 1))


def test_an_item_without_answers_costs_what_it_did() -> None:
    state = BlockFTRL(SumLoss(), horizon=300).init(Shape(3, 0, 1))
    show(state, np.zeros(4))
    first = int(state.clock[2])
    state.sums[:], state.counts[:] = [2, 3, 0], [4, 3, 0]
    finish_block(state)
    np.testing.assert_allclose(state.scores, [-first * 0.5, -first * 1.0, -first * 0.75])  # the third: their mean
    second = int(state.clock[2])
    state.sums[:], state.counts[:] = [0, 2, 0], [0, 2, 1]
    finish_block(state)
    np.testing.assert_allclose(state.scores, [-(first + second) * 0.5, -(first + second), -first * 0.75])


def test_a_block_without_answers_changes_nothing() -> None:
    state = BlockFTRL(SumLoss()).init(Shape(3, 0, 1))
    show(state, np.zeros(4))
    state.sums[:], state.counts[:] = [2, 3, 1], [4, 3, 2]
    finish_block(state)
    scores, memory, x = state.scores.copy(), state.memory.copy(), state.space.x.copy()
    for _ in range(20):
        finish_block(state)
    assert np.array_equal(state.scores, scores)
    assert np.array_equal(state.memory, memory)
    np.testing.assert_allclose(state.space.x, x, rtol=0.5)  # eta falls by the length of the running block only


def test_answers_count_one_by_one_whenever_they_come() -> None:
    state, rng = BlockFTRL(SumLoss(), horizon=300).init(Shape(4, 0, 2)), np.random.default_rng(0)
    shown = show(state, rng.random(5))
    finish_block(state)  # the answers come after the block has ended
    costs = np.array([1.0, 0.0, np.nan, 1.0])
    tell(state, shown, costs)
    expected = [int(i in shown[0][:2] and i != 2) for i in range(4)]
    assert state.counts.tolist() == expected
    assert state.sums.tolist() == [float(e and i in (0, 3)) for i, e in enumerate(expected)]


def test_rounds_without_answers_do_not_count() -> None:
    """The block's clock goes back, and the question is open again; once, however often it is told."""
    state = BlockFTRL(SumLoss(), horizon=300).init(Shape(4, 0, 1))
    asked = show(state, np.zeros(5))
    left, questions = state.clock[:2].tolist()
    for _ in range(3):
        tell(state, asked, np.full(4, np.nan))
        assert state.clock[:2].tolist() == [left + 1, questions + 1]
        assert sorted(state.to_explore.tolist()) == [0, 1, 2, 3]
    plain = show(state, np.full(5, 0.99))
    tell(state, plain, np.full(4, np.nan))
    assert state.clock[:2].tolist() == [left + 1, questions + 1]
    tell(state, show(state, np.zeros(5)), np.ones(4))
    assert state.clock[:2].tolist() == [left, questions]


def test_a_question_that_nobody_answers_does_not_hold_up_its_block() -> None:
    rng, agent, asked = np.random.default_rng(0), Agent(BlockFTRL(DCG(), horizon=3000), m=5, k=1, seed=0), 0
    for _ in range(2000):
        decision = agent.rank()
        item = decision.ranking[0]
        asked += item == 0
        agent.update(decision, [np.nan if item == 0 else float(rng.random() < item / 5)])
    assert agent.state.clock[3] > 30  # blocks
    assert asked < 500


def test_learns_when_half_of_the_answers_are_missing() -> None:
    rng = np.random.default_rng(3)
    agent = Agent(BlockFTRL(DCG()), m=6, k=1, seed=1)
    means, last = np.array([0.1, 0.3, 0.5, 0.6, 0.8, 0.95]), []
    for t in range(20_000):
        decision = agent.rank()
        answer = float(rng.random() < means[decision.ranking[0]])
        if rng.random() < 0.7:  # three in ten are never reported, two of them come as "not answered"
            agent.update(decision, [answer if rng.random() < 5 / 7 else np.nan])
        if t >= 15_000 and decision.token[0] == 0:
            last.append(decision.ranking)
    assert np.mean(np.array(last) == [5, 4, 3, 2, 1, 0]) > 0.7


# --- many rounds


@pytest.mark.parametrize("horizon", [None, 10**6])
def test_nothing_drifts_in_a_million_rounds(horizon: int | None) -> None:
    means = (0.45, 0.5, 0.55)
    rounds = Bernoulli(means=means).rounds(10**6, np.random.default_rng(0))
    trace = simulate(
        BlockFTRL(SumLoss(), horizon), rounds, k=1, measure=SumLoss(), checkpoints=np.array([10**6 // 2, 10**6])
    )
    best = float(np.array([3, 2, 1]) @ means) * 10**6 / 2
    assert trace.value[1] - trace.value[0] == pytest.approx(best, rel=0.01)


def test_grades_of_any_size() -> None:
    """Gains up to 2^255: nothing overflows."""
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="a grade g is worth"):
        agent = Agent(BlockFTRL(DCG(), max_grade=255), m=5, k=1)
    for _ in range(2000):
        decision = agent.rank()
        agent.update(decision, [int(rng.choice([0, 255]))])
    assert np.isfinite(agent._state.scores).all()


@pytest.mark.parametrize("discount", [0.0, -0.5, 1.5, float("nan")])
def test_a_wrong_discount_is_named(discount: float) -> None:
    with pytest.raises(ValueError, match=r"decay = .*: must be"):
        BlockFTRL(DCG(), decay=discount)


@pytest.mark.parametrize(("of", "m", "k"), [(Precision(3, mean=False), 3, 1), (DCG(), 1, 1), (SumLoss(), 4, 4)])
def test_nothing_to_learn_or_nothing_hidden(of: LinearMeasure, m: int, k: int) -> None:
    for horizon in (None, 1000):
        learner = BlockFTRL(of, horizon)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortHorizonWarning)
            agent = Agent(learner, m=m, k=k)
        for _ in range(50):
            agent.update(agent.rank(), [1] * k)
        bound = learner.bound(Shape(m, 0, k), 1000)
        assert bound is not None
        assert (bound == 0) == (k < 4)
