"""RTop-1F: Lemma 8 and the rule for missing answers by enumeration, blocks, orders, and CT15's Algorithm 1."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, permutations, product
from math import ceil, lcm, perm, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

from helpers import naive
from peekrank import CT15, DCG, Agent, Precision, RTop1F, Shape, SumLoss, fixed_items, measure, simulate
from peekrank.learners._shared import ShortHorizonWarning, constants
from peekrank.learners.rtop1f import RTop1FState
from peekrank.types import Features, Floats, Ints

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)
LEFT, OPEN, BLOCK, UNSETTLED = 0, 1, 2, 3  # what the clock of a state holds
MEMORY = ("scores", "pending", "clock", "open_explorations", "owed_explorations")
Order = Literal["leader", "fixed"]


class Shown(NamedTuple):
    """A decision: the ranking, and the cell on top if the round explored (else -1)."""

    ranking: Ints
    token: Floats

    @property
    def cell(self) -> int:
        return int(self.token[1]) if self.token[0] > 0 else -1


def ask(state: RTop1FState, when: float, noise: float | Floats = 0.5) -> Shown:
    """One round: `when` decides whether and what to explore, `noise` perturbs the leader."""
    m = len(state.scores)
    uniforms = np.concatenate([[when], np.broadcast_to(noise, m)])
    shown = Shown(np.full(m, -1, dtype=np.int64), np.zeros(3))
    RTop1F.kernels.rank(state, NO_FEATURES, uniforms, *shown)
    return shown


def answer(state: RTop1FState, shown: Shown, row: Any) -> None:
    """Reveal the first k grades of the ranking."""
    feedback = np.broadcast_to(np.asarray(row, dtype=np.float64), len(shown.ranking))[shown.ranking[: state.k]]
    RTop1F.kernels.update(state, NO_FEATURES, *shown, np.ascontiguousarray(feedback))


def one_block(m: int, k: int, length: int) -> RTop1FState:
    return RTop1F(SumLoss(), horizon=length, blocks=1).init(Shape(m, 0, k))


def clone(state: RTop1FState) -> RTop1FState:
    memory = {name: getattr(state, name).copy() for name in MEMORY}
    return state._replace(**memory)


# --- enumeration of all the ways a schedule can go


class Path(NamedTuple):
    """One way: its probability, where it led, and what it showed in each round."""

    weight: Fraction
    state: RTop1FState
    shown: tuple[Shown, ...]


def branch(path: Path, fine: int) -> list[Path]:
    """All the ways a round can go: its first uniform runs over a grid of `fine` cells of equal probability."""
    ways: dict[int, Path] = {}
    for j in range(fine):
        state = clone(path.state)
        shown = ask(state, (j + 0.5) / fine)
        before = ways[shown.cell].weight if shown.cell in ways else Fraction(0)
        ways[shown.cell] = Path(before + path.weight / fine, state, (*path.shown, shown))
    return list(ways.values())


def enumerate_ways(
    state: RTop1FState, schedule: str, rows: NDArray[Any] | None = None, *, longest: int | None = None
) -> list[Path]:
    """All the ways of a schedule such as "r0 a0 r1 r2 n1 a2": r ranks, a answers, n leaves round t unanswered.

    Without `rows` the answer of round t is 2^t for every item, so that a sum of answers tells their rounds.
    """
    fine = lcm(*range(1, (longest or state.horizon) + 1))  # cells of all the lengths that are left fit into it
    paths = [Path(Fraction(1), state, ())]
    for step in schedule.split():
        t = int(step[1:])
        if step[0] == "r":
            paths = [way for path in paths for way in branch(path, fine)]
        else:
            row = np.nan if step[0] == "n" else 2.0**t if rows is None else rows[t]
            for path in paths:
                answer(path.state, path.shown[t], row)
    return paths


def answered_rounds(schedule: str) -> list[int]:
    return sorted(int(step[1:]) for step in schedule.split() if step[0] == "a")


def at_once(answered: tuple[bool, ...]) -> str:
    """The schedule in which each answer comes, or not, right after its ranking."""
    return " ".join(f"r{t} {'a' if yes else 'n'}{t}" for t, yes in enumerate(answered))


def asked_at(path: Path, cell: int, answered: list[int]) -> int:
    """When the first block asked about a cell and was answered; the next block may have asked again."""
    return next(t for t in answered if path.shown[t].cell == cell)


def estimate(state: RTop1FState) -> list[float]:
    """What the first block has found: with the next one begun, it is in the scores."""
    return list(map(float, state.pending if state.clock[BLOCK] == 1 else state.scores))


def assert_uniform_assignment(m: int, k: int, length: int, schedule: str) -> None:
    """Each cell is asked once, all choices of distinct answered rounds are equally likely, answers are kept."""
    questions, answered = ceil(m / k), answered_rounds(schedule)
    propensities: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for path in enumerate_ways(one_block(m, k, length), schedule):
        rounds = [asked_at(path, cell, answered) for cell in range(questions)]
        propensities[tuple(rounds)] += path.weight
        assert estimate(path.state) == [2.0 ** rounds[item // k] for item in range(m)]
    assert len(answered) == length
    assert propensities == dict.fromkeys(permutations(answered, questions), Fraction(1, perm(length, questions)))


def assert_unbiased(m: int, k: int, length: int, schedule: str) -> None:
    """For every binary relevance sequence the expected estimate is the average over the answered rounds."""
    answered = answered_rounds(schedule)
    for values in product((0, 1), repeat=m * length):
        rows = np.full((max(answered) + 1, m), np.nan)
        rows[answered] = np.reshape(values, (length, m))
        mean = [Fraction(0)] * m
        for path in enumerate_ways(one_block(m, k, length), schedule, rows):
            mean = [total + path.weight * Fraction(x) for total, x in zip(mean, estimate(path.state), strict=True)]
        assert mean == [Fraction(int(total), length) for total in rows[answered].sum(axis=0)]


ONE_BLOCK = [
    (1, 1, 1),
    (1, 1, 4),
    (2, 1, 2),
    (2, 1, 5),
    (2, 1, 6),
    (3, 1, 3),
    (3, 1, 4),
    (3, 1, 6),
    (4, 1, 5),
    (3, 2, 4),  # k does not divide m
    (4, 2, 5),
    (5, 2, 4),
    (4, 4, 5),  # k = m: one question
]


@pytest.mark.parametrize(("m", "k", "length"), ONE_BLOCK)
def test_lemma_8_every_assignment_is_equally_likely(m: int, k: int, length: int) -> None:
    assert_uniform_assignment(m, k, length, at_once((True,) * length))


@pytest.mark.parametrize(("m", "k", "length"), [(1, 1, 4), (2, 1, 2), (2, 1, 3), (2, 2, 3), (3, 2, 2), (3, 1, 3)])
def test_lemma_8_the_estimate_is_unbiased_for_every_relevance(m: int, k: int, length: int) -> None:
    assert_unbiased(m, k, length, at_once((True,) * length))


@pytest.mark.parametrize("k", [1, 2])
def test_blocks_end_even_if_only_exploring_rounds_are_answered(k: int) -> None:
    rng = np.random.default_rng(6)
    state = RTop1F(SumLoss(), horizon=200, blocks=10).init(Shape(4, 0, k))
    for _ in range(2000):
        shown = ask(state, rng.random())
        answer(state, shown, 1.0 if shown.cell >= 0 else np.nan)
    blocks = int(state.clock[BLOCK])
    assert blocks > 10
    assert state.scores.tolist() == [blocks - 1.0] * 4


def patterns(length: int, rounds: int) -> list[tuple[bool, ...]]:
    """Which rounds are answered, the last being the last that the block can need."""
    every = product((False, True), repeat=rounds)
    return [pattern for pattern in every if sum(pattern) == length and pattern[-1]]


@pytest.mark.parametrize(("m", "k", "length"), [(1, 1, 3), (2, 1, 2), (2, 1, 3), (3, 1, 3), (3, 2, 3), (2, 2, 3)])
@pytest.mark.parametrize("missing", [1, 2])
def test_missing_answers_keep_every_assignment_equally_likely(m: int, k: int, length: int, missing: int) -> None:
    for pattern in patterns(length, length + missing):
        assert_uniform_assignment(m, k, length, at_once(pattern))


@pytest.mark.parametrize(("m", "k", "length"), [(2, 1, 2), (1, 1, 3), (3, 2, 2)])
def test_missing_answers_keep_the_estimate_unbiased(m: int, k: int, length: int) -> None:
    for rounds in (length + 1, length + 2):
        for pattern in patterns(length, rounds):
            assert_unbiased(m, k, length, at_once(pattern))


@pytest.mark.parametrize(
    ("length", "schedule"),
    [
        (2, "r0 r1 a1 a0"),
        (2, "r0 r1 n0 r2 a2 a1"),
        (2, "r0 r1 n0 n1 r2 r3 a3 a2"),
        (2, "r0 r1 n1 r2 n0 r3 a3 a2"),
        (3, "r0 r1 r2 n1 r3 a0 a3 a2"),
        (3, "r0 r1 n0 r2 n2 r3 a1 r4 a3 a4"),
    ],
)
@pytest.mark.parametrize(("m", "k"), [(2, 1), (2, 2), (3, 2)])
def test_late_and_missing_answers_inside_a_block(length: int, schedule: str, m: int, k: int) -> None:
    assert_uniform_assignment(m, k, length, schedule)


def test_of_two_answers_one_settles_the_question() -> None:
    """The other counts as the mean of what was answered so far: about its item, or about all."""
    for position in range(2):
        state = one_block(4, 2, 5)
        shown = ask(state, 0.01)
        row = np.array([1.0, 0.0, 1.0, 0.0])
        silent = int(shown.ranking[position])
        row[silent] = np.nan
        answer(state, shown, row)
        assert state.clock.tolist() == [4, 1, 1, 1]
        told = int(shown.ranking[1 - position])
        assert state.pending[[silent, told]].tolist() == [row[told], row[told]]


def test_a_round_without_answers_is_put_back() -> None:
    for when in (0.01, 0.99):
        state = one_block(4, 2, 5)
        untouched = ask(clone(state), when)
        shown = ask(state, when)
        answer(state, shown, np.full(4, np.nan))
        assert state.clock.tolist() == [5, 2, 1, 2]
        assert state.open_explorations.tolist() == [1, 1]
        assert not state.pending.any()
        assert ask(state, when).cell == untouched.cell == (0 if when < 0.5 else -1)


@pytest.mark.parametrize("when", [0.0, float(np.nextafter(1, 0))])
@pytest.mark.parametrize("length", [3, 4, 5, 7, 100, 1000])
def test_ends_of_the_interval(when: float, length: int) -> None:
    """Always 0: all questions first. Almost 1: all questions last, since a question is asked when it must be."""
    state = one_block(3, 1, length)
    cells = [ask(state, when).cell for _ in range(length)]
    idle = [-1] * (length - 3)
    assert cells == ([0, 1, 2, *idle] if when == 0 else [*idle, 2, 1, 0])


# --- when estimates reach the leader


def test_estimates_enter_with_the_next_block() -> None:
    rng = np.random.default_rng(1)
    state = RTop1F(SumLoss(), horizon=60, blocks=5).init(Shape(3, 0, 1))
    sums = np.zeros((7, 3))  # answers by block, from 1
    for _ in range(60):
        shown = ask(state, rng.random(), rng.random(3))
        block = int(state.clock[BLOCK])
        assert np.array_equal(state.scores, sums[:block].sum(axis=0))
        row = rng.integers(1, 9, 3)
        answer(state, shown, row)
        if shown.cell >= 0:
            sums[block, shown.cell] = row[shown.cell]
    assert np.all(sums[1:6] > 0)


@pytest.mark.parametrize("delay", [1, 4, 12, 30])
def test_late_answers_enter_with_the_block_after_they_came(delay: int) -> None:
    rng = np.random.default_rng(delay)
    state = RTop1F(SumLoss(), horizon=60, blocks=5).init(Shape(3, 0, 1))
    sums, waiting = np.zeros((7, 3)), []
    for _ in range(60):
        waiting.append((ask(state, rng.random(), rng.random(3)), rng.integers(1, 9, 3)))
        block = int(state.clock[BLOCK])
        assert np.array_equal(state.scores, sums[:block].sum(axis=0))
        if len(waiting) > delay:
            shown, row = waiting.pop(0)
            answer(state, shown, row)
            if shown.cell >= 0:
                sums[block, shown.cell] += row[shown.cell]
    assert sums.any()


def test_order_of_answers_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    ends = []
    for order in (range(20), range(19, -1, -1), rng.permutation(20), rng.permutation(20)):
        state = RTop1F(SumLoss(), horizon=20, blocks=2).init(Shape(3, 0, 2))
        fixed = np.random.default_rng(3)
        decisions = [ask(state, fixed.random()) for _ in range(20)]
        for t in order:
            answer(state, decisions[t], [t, 2 * t, 3 * t])
        ask(state, 0.0)
        ends.append(state.scores.tolist())
    assert all(end == ends[0] for end in ends)
    assert all(score > 0 for score in ends[0])


def test_answers_missing_after_the_end_of_their_block_are_asked_for_in_the_next() -> None:
    """Nothing of block 1 is answered: block 3 grows by as many questions, and block 2 stays as it was."""
    rng = np.random.default_rng(4)
    state = RTop1F(SumLoss(), horizon=24, blocks=3).init(Shape(3, 0, 1))
    first = [ask(state, rng.random()) for _ in range(9)]
    for shown in first[:8]:
        answer(state, shown, np.nan)
    second = [first[8], *(ask(state, rng.random()) for _ in range(7))]
    assert state.clock[:UNSETTLED].tolist() == [0, 0, 2]
    assert Counter(shown.cell for shown in second) == {0: 1, 1: 1, 2: 1, -1: 5}
    third = [ask(state, rng.random()) for _ in range(11)]
    assert state.clock[:UNSETTLED].tolist() == [0, 0, 3]
    assert Counter(shown.cell for shown in third) == {0: 2, 1: 2, 2: 2, -1: 5}


def test_answers_missing_across_blocks_leave_every_question_uniform() -> None:
    """Two rounds a block, one item; round 0 turns out unanswered when block 2 has begun."""
    schedule = "r0 r1 a1 r2 n0 a2 r3 a3 r4 a4 r5 a5 r6 a6"
    seconds: dict[tuple[bool, int], Fraction] = defaultdict(Fraction)
    thirds: dict[tuple[bool, tuple[int, ...]], Fraction] = defaultdict(Fraction)
    for path in enumerate_ways(one_block(1, 1, 2), schedule, longest=3):
        asked = [t for t, shown in enumerate(path.shown) if shown.cell == 0]
        owed = asked[0] == 0
        seconds[owed, next(t for t in asked if t >= 2)] += path.weight
        thirds[owed, tuple(t for t in asked if 4 <= t < (7 if owed else 6))] += path.weight
    quarter, sixth = Fraction(1, 4), Fraction(1, 6)
    assert seconds == {(owed, t): quarter for owed in (True, False) for t in (2, 3)}
    assert thirds == dict.fromkeys([(False, (4,)), (False, (5,))], quarter) | dict.fromkeys(
        [(True, (4, 5)), (True, (4, 6)), (True, (5, 6))], sixth
    )


# --- blocks

HORIZONS: list[tuple[int, int, int, int | None]] = [  # m, k, T, K
    (3, 1, 100, None),
    (3, 1, 101, 7),
    (3, 2, 100, 9),
    (5, 5, 64, None),
    (5, 1, 20, None),  # T < m^2: blocks as short as can be
    (7, 3, 50, None),
    (10, 1, 999, None),
    (4, 1, 4, None),
    (4, 1, 7, 1),
    (1, 1, 10, None),
]
every_horizon = pytest.mark.parametrize(("m", "k", "horizon", "blocks"), HORIZONS)


def run(learner: RTop1F, shape: Shape, rounds: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """The block, from 1, and the explored cell of each round."""
    rng, state = np.random.default_rng(seed), learner.init(shape)
    block_of, cell_of = [], []
    for _ in range(rounds):
        shown = ask(state, rng.random(), rng.random(shape.m))
        answer(state, shown, rng.integers(0, 2, shape.m))
        block_of.append(int(state.clock[BLOCK]))
        cell_of.append(shown.cell)
    return block_of, cell_of


@every_horizon
def test_blocks_fill_the_horizon_evenly(m: int, k: int, horizon: int, blocks: int | None) -> None:
    learner, shape = RTop1F(SumLoss(), horizon=horizon, blocks=blocks), Shape(m, 0, k)
    block_of, _ = run(learner, shape, horizon + 1)
    lengths = list(Counter(block_of[:-1]).values())
    K = learner.block_count(shape, horizon)
    assert blocks in (None, K)
    assert len(lengths) == K
    assert sum(lengths) == horizon
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= ceil(m / k)
    assert np.cumsum(lengths).tolist() == [(b + 1) * horizon // K for b in range(K)]
    assert block_of[-1] == K + 1  # the round after T begins a new block


@every_horizon
def test_each_block_asks_each_question_once(m: int, k: int, horizon: int, blocks: int | None) -> None:
    learner, shape = RTop1F(SumLoss(), horizon=horizon, blocks=blocks), Shape(m, 0, k)
    counts = Counter(zip(*run(learner, shape, horizon, seed=1), strict=True))
    K, questions = learner.block_count(shape, horizon), ceil(m / k)
    explored = {key: count for key, count in counts.items() if key[1] >= 0}
    assert explored == dict.fromkeys(product(range(1, K + 1), range(questions)), 1)


@every_horizon
@pytest.mark.parametrize("order", ["leader", "fixed"])
def test_share_of_exploration(m: int, k: int, horizon: int, blocks: int | None, order: Order) -> None:
    learner = RTop1F(SumLoss(), horizon=horizon, blocks=blocks, order=order)
    rounds = fixed_items(np.random.default_rng(0).integers(0, 2, (horizon, m)))
    trace = simulate(learner, rounds, k=k, measure=SumLoss())
    assert trace.explored[-1] == ceil(m / k) * learner.block_count(Shape(m, 0, k), horizon)


def test_rounds_after_the_horizon_go_on_in_blocks_of_the_same_length() -> None:
    learner, shape = RTop1F(SumLoss(), horizon=100, blocks=8), Shape(3, 0, 1)
    block_of, cell_of = run(learner, shape, 300)
    lengths = list(Counter(block_of).values())
    assert len(lengths) == 24
    assert set(lengths) == {12, 13}
    assert sum(cell >= 0 for cell in cell_of) == 3 * 24


@pytest.mark.parametrize(("m", "k", "horizon"), [(5, 1, 3), (5, 2, 2), (40, 1, 39)])
def test_horizon_too_short_to_learn(m: int, k: int, horizon: int) -> None:
    """With T < ceil(m/k) every round explores, another question each, and the leader stays without a score."""
    learner, shape = RTop1F(SumLoss(), horizon=horizon), Shape(m, 0, k)
    assert learner.block_count(shape, horizon) == 1
    block_of, cell_of = run(learner, shape, ceil(m / k))
    assert set(block_of) == {1}
    assert sorted(cell_of) == list(range(ceil(m / k)))


@pytest.mark.parametrize(
    ("m", "k", "horizon", "expected"),
    [
        (10, 1, 10_000, 215),  # 10^(7/3)
        (10, 1, 99, 9),  # T < m^2: 9.9 blocks rounded down, since 10 could not ask about 10 items each
        (10, 1, 50, 2),  # nor could 6 or 5: blocks of 20 rounds or more
        (10, 1, 30, 1),
        (10, 1, 100, 10),
        (8, 2, 1000, 79),  # 2 * 250^(2/3) = 79.4
        (8, 3, 1000, 96),  # 2 * (1000/3)^(2/3) = 96.1
        (8, 8, 1000, 200),  # 2 * 1000^(2/3)
        (8, 8, 8, 8),
        (3, 1, 2, 1),
    ],
)
def test_number_of_blocks(m: int, k: int, horizon: int, expected: int) -> None:
    assert RTop1F(SumLoss(), horizon=horizon).block_count(Shape(m, 0, k), horizon) == expected


def test_block_lengths_do_not_overflow() -> None:
    state = RTop1F(SumLoss(), horizon=10**12, blocks=10**9 - 1).init(Shape(2, 0, 1))
    state.clock[BLOCK] = 10**9 - 3
    ask(state, 0.99)
    ends = [b * 10**12 // (10**9 - 1) for b in (10**9 - 3, 10**9 - 2)]
    assert state.clock[LEFT] + 1 == ends[1] - ends[0]


@every_horizon
@pytest.mark.parametrize("loss", [SumLoss(), DCG(), Precision(2, mean=False)], ids=str)
def test_bound(m: int, k: int, horizon: int, blocks: int | None, loss: Any) -> None:
    """R q K + (T/K) (epsilon R A K + D / epsilon) + R sum over blocks of |length - T/K|."""
    learner, shape = RTop1F(loss, horizon=horizon, blocks=blocks), Shape(m, 0, k)
    D, R, A = constants(loss, m, 1)
    K = learner.block_count(shape, horizon)
    epsilon = 1 / sqrt(m * K)
    ends = [b * horizon // K for b in range(K + 1)]
    rounding = sum(abs(end - start - horizon / K) for start, end in pairwise(ends))
    expected = R * ceil(m / k) * K + horizon / K * (epsilon * R * A * K + D / epsilon) + R * rounding
    assert learner.bound(shape, horizon) == pytest.approx(expected, rel=1e-12)


# --- which ranking is shown


@pytest.mark.parametrize(("m", "k"), [(1, 1), (4, 1), (5, 2), (6, 3), (7, 3), (5, 5), (40, 1), (40, 7)])
@pytest.mark.parametrize("order", ["leader", "fixed"])
def test_rankings_exactly(m: int, k: int, order: Order) -> None:
    """Exploring rounds show a cell above the leader's, or the index, order; all others show the leader."""
    rng = np.random.default_rng(m + k)
    state = RTop1F(SumLoss(), horizon=300, blocks=4, order=order, epsilon=1 / 3).init(Shape(m, 0, k))
    explored = 0
    for _ in range(300):
        noise = rng.random(m)
        shown = ask(state, rng.random(), noise)
        leader = naive.stable_descending(state.scores + 3 * noise)
        if shown.cell >= 0:
            explored += 1
            below = leader if order == "leader" else range(m)
            assert shown.ranking.tolist() == naive.on_top(naive.cells(m, k)[shown.cell], below)
        else:
            assert shown.ranking.tolist() == leader
        answer(state, shown, rng.integers(0, 2, m))
    assert explored == 4 * ceil(m / k)


def test_only_the_cell_is_estimated_when_more_is_revealed() -> None:
    """m = 3, k = 2: the second cell is one item; what shows below it is revealed too, but not estimated."""
    state = one_block(3, 2, 4)
    ask_second = 0.3  # slot 1 of 4
    shown = ask(state, ask_second)
    assert shown.cell == 1
    answer(state, shown, [1, 1, 1])
    assert state.pending.tolist() == [0, 0, 1]


def test_exploiting_rounds_teach_nothing() -> None:
    state = one_block(3, 1, 10)
    shown = ask(state, 0.99)
    assert shown.cell == -1
    answer(state, shown, [1, 1, 1])
    assert not state.pending.any()
    assert state.clock.tolist() == [9, 3, 1, 3]


def test_feedback_becomes_gains_not_grades() -> None:
    grades = np.array([0, 1, 3, np.nan])
    np.testing.assert_array_equal(
        RTop1F(DCG(), horizon=9, max_grade=3).transform_feedback(grades), [0, 1, 7, np.nan]
    )
    np.testing.assert_array_equal(RTop1F(SumLoss(), horizon=9, max_grade=3).transform_feedback(grades), grades)


# --- parameters


@pytest.mark.parametrize(
    "bad",
    [
        {"horizon": 0},
        {"horizon": -5},
        {"horizon": 10.5},
        {"horizon": float("nan")},
        {"horizon": float("inf")},
        {"max_grade": 0},
        {"max_grade": 1.5},
        {"blocks": 0},
        {"blocks": 2.5},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 1e-320},  # its noise would be infinitely wide
        {"order": "random"},
    ],
    ids=str,
)
def test_bad_parameters_are_named(bad: dict[str, Any]) -> None:
    given = {"measure": SumLoss(), "horizon": 100, **bad}
    with pytest.raises(ValueError, match=next(iter(bad))):
        RTop1F(**given)


@pytest.mark.parametrize(("m", "k", "most"), [(5, 1, 20), (5, 2, 33), (5, 5, 100)])
def test_too_many_blocks(m: int, k: int, most: int) -> None:
    shape = Shape(m, 0, k)
    assert RTop1F(SumLoss(), horizon=100, blocks=most).init(shape).blocks == most
    with pytest.raises(ValueError, match=f"blocks = {most + 1}: a block of 100 / {most + 1} rounds is too short"):
        RTop1F(SumLoss(), horizon=100, blocks=most + 1).init(shape)


@pytest.mark.parametrize(
    ("name", "max_grade"),
    [("ndcg", 1), ("ndcg@3", 4), ("ap", 1), ("aucloss", 1), ("aucloss", 2), ("pairwiseloss", 2)],
)
def test_measures_that_cannot_be_learned(name: str, max_grade: int) -> None:
    unlearnable: Any = measure(name)
    message = rf"{name} cannot be learned .* grades 0 to {max_grade}.*measure=dcg"
    with pytest.raises(ValueError, match=message):
        RTop1F(unlearnable, horizon=100, max_grade=max_grade)


# --- Algorithm 1, literally


@dataclass(frozen=True)
class Spy:
    """A measure whose value tells the ranking: the digits of the items in base m."""

    name: ClassVar[str] = "spy"
    higher_is_better: ClassVar[bool] = True

    def values(self, rankings: Ints, relevance: NDArray[Any]) -> Floats:
        m = rankings.shape[1]
        return np.asarray(rankings @ m ** np.arange(m), dtype=np.float64)


ROWS = np.array([[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1]] * 3)
RUNS = 2000


class Setting(NamedTuple):
    """A game small enough to be played thousands of times, in which the order of the items is learned."""

    k: int
    order: Order
    blocks: int = 3
    epsilon: float = 0.35


@cache
def played(setting: Setting) -> Ints:
    """The code of the ranking in each round (column) of each run (row), by the package."""
    k, order, blocks, epsilon = setting
    learner = RTop1F(SumLoss(), horizon=len(ROWS), blocks=blocks, epsilon=epsilon, order=order)
    rounds = fixed_items(ROWS)
    sums = [simulate(learner, rounds, k=k, measure=Spy(), seed=seed).value for seed in range(RUNS)]
    return np.diff(sums, axis=1, prepend=0).astype(np.int64)


@cache
def played_literally(setting: Setting) -> Ints:
    """The same by the naive twin."""
    k, order, blocks, epsilon = setting
    rng, leader = np.random.default_rng(11), order == "leader"
    runs = [naive.algorithm_1(ROWS, blocks, epsilon, rng, k=k, follow_leader=leader) for _ in range(RUNS)]
    return Spy().values(np.reshape(runs, (-1, 3)), ROWS).astype(np.int64).reshape(RUNS, -1)


def smallest_p_value(a: Ints, b: Ints) -> float:
    """How likely two samples of one distribution are to differ as much, in the column where they differ most.

    Bonferroni's correction for the number of columns is included.
    """
    smallest = 1.0
    for one, two in zip(a.T, b.T, strict=True):
        codes = np.union1d(one, two)
        table = [[np.count_nonzero(sample == code) for code in codes] for sample in (one, two)]
        smallest = min(smallest, float(chi2_contingency(table).pvalue))
    return smallest * len(a.T)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [Setting(1, "fixed"), Setting(1, "leader"), Setting(2, "leader")], ids=str)
def test_rankings_are_distributed_as_in_algorithm_1(setting: Setting) -> None:
    """In every round, and in every two rounds in a row: exploring without replacement ties them together."""
    a, b = played(setting), played_literally(setting)
    assert smallest_p_value(a, b) > 0.01
    in_a_row = [100 * codes[:, :-1] + codes[:, 1:] for codes in (a, b)]
    assert smallest_p_value(*in_a_row) > 0.01


@pytest.mark.slow
def test_the_comparison_of_distributions_would_notice() -> None:
    """Another order, epsilon, or number of blocks is seen at this number of runs."""
    usual = played_literally(Setting(1, "fixed"))
    for other in (Setting(1, "leader"), Setting(1, "fixed", epsilon=0.7), Setting(1, "fixed", blocks=4)):
        assert smallest_p_value(played(other), usual) < 1e-6


# --- the simulation of CT15


def ct15_regret(order: Order, seed: int) -> float:
    rounds = CT15(m=10, noise=0.25).rounds(10_000, np.random.default_rng(seed))
    trace = simulate(RTop1F(DCG(), horizon=10_000, order=order), rounds, k=1, measure=DCG(), seed=seed)
    totals = sorted(rounds.relevance.reshape(-1, 10).sum(axis=0, dtype=np.int64).tolist(), reverse=True)
    best = naive.dcg(range(10), totals, gains="linear")
    return best - float(trace.value[-1])


def test_the_leaders_order_below_the_explored_item_pays() -> None:
    seeds = range(12)
    leader = np.array([ct15_regret("leader", seed) for seed in seeds])
    fixed = np.array([ct15_regret("fixed", seed) for seed in seeds])
    gain = fixed - leader
    assert np.all(gain > 0)
    assert gain.mean() > 4 * gain.std(ddof=1) / sqrt(len(seeds))
    assert 0 < leader.mean() < 0.8 * fixed.mean()
    assert fixed.mean() < RTop1F(DCG(), horizon=10_000).bound(Shape(10, 0, 1), 10_000)


def test_a_short_horizon_is_reported() -> None:
    with pytest.warns(
        ShortHorizonWarning, match=r"horizon = 50 is short: .* 10 explorations.* blocks of 25 rounds"
    ):
        RTop1F(DCG(), horizon=50).init(Shape(10, 0, 1))
    with pytest.warns(ShortHorizonWarning, match=r"all rounds go into the 10 explorations .* nothing is learned"):
        RTop1F(DCG(), horizon=9).init(Shape(10, 0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RTop1F(DCG(), horizon=5000).init(Shape(10, 0, 1))


@pytest.mark.parametrize(("k", "cells"), [(1, 5), (2, 3), (5, 1)])
def test_a_token_of_no_cell_is_refused_and_changes_nothing(k: int, cells: int) -> None:
    for cell in (-1, cells, cells + 1, 2**40):
        agent = Agent(RTop1F(SumLoss(), horizon=400), m=5, k=k)
        decision, before = agent.rank(), agent.dump()
        decision.token[:2] = 1, cell
        for answer in (1.0, np.nan):
            with pytest.raises(ValueError, match="not from this agent"):
                agent.update(decision, [answer] * k)
        assert agent.dump() == before
    agent = Agent(RTop1F(SumLoss(), horizon=400), m=5, k=k)
    decision = agent.rank()
    decision.token[:2] = 1, cells - 1
    agent.update(decision, [1] * k)
