"""Mixed against a naive twin with dense solves, enumeration, and what it promises."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.naive_mixed import NaiveMixed
from peekrank import DCG, Agent, Decision, DoubtSort, Mixed, Rounds, Shape, SumLoss, replay, simulate
from peekrank.engine import play
from peekrank.engine.serialization import arrays_of
from peekrank.learners.mixed.posterior import solve_weights
from peekrank.learners.mixed.state import ALARM, HELD, LEFT, LU, LV, RESTARTS, VERSION, MixedState
from peekrank.types import Floats, Ints

N, LIST = 30, 8


class Life(NamedTuple):
    """A learner and its naive twin that saw the same lists, and the largest difference so far."""

    state: MixedState
    naive: NaiveMixed


class World:
    """Lists of some of the items, with a score of their means."""

    def __init__(self, items: int, d: int, *, keyed: bool, turns: int = 10**9, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.items, self.d, self.keyed, self.turns = items, d, keyed, turns
        self.means = self.rng.random(items)
        self.scores = self.means + 0.2 * self.rng.standard_normal(items)

    def listed(self, t: int) -> tuple[Ints, Floats, int, NDArray[np.float32]]:
        """Items, scores, key and features of a list; some scores are missing, tied or infinite."""
        rng, n = self.rng, min(LIST, self.items)
        items = np.sort(rng.choice(self.items, n, replace=False))
        scores = self.scores[items].copy()
        if t % 7 == 3:
            scores[rng.integers(n, size=2)] = np.nan
        if t % 11 == 5:
            scores = np.round(2 * scores)
        if t % 13 == 6:
            scores[:2] = np.inf, -np.inf
        units, offsets = np.resize([1e-3, 1e4, 3.0], self.d), np.resize([0.0, 1e5, 0.0], self.d)
        X = rng.standard_normal((n, self.d)) * units + offsets
        X[:, 2:] *= rng.random((n, max(0, self.d - 2))) < 0.5
        return items, scores, int(rng.integers(-1, 3)) if self.keyed else -1, X.astype(np.float32)

    def answers(self, items: Ints, t: int) -> Floats:
        means = 1 - self.means[items] if t >= self.turns else self.means[items]
        told = (self.rng.random(len(items)) < means).astype(np.float64)
        if t % 5 == 0:
            told[0] = self.rng.random()
        return told


def alongside(
    learner: Mixed,
    world: World,
    k: int,
    rounds: int,
    *,
    scored: bool = True,
    life: Life | None = None,
    is_exact: bool = True,
) -> Life:
    """Let a learner and its naive twin live through the same lists, and compare everything in every round."""
    shape, kernels = Shape(world.items, world.d, k), learner.kernels
    s = learner.init(shape) if life is None else life.state
    naive = NaiveMixed(list(s.weights), k, world.d, safe=learner.safe) if life is None else life.naive
    for t in range(rounds):
        items, scores, key, X = world.listed(t)
        n, uniforms, token = len(items), world.rng.random(2), np.zeros(learner.token_size(shape))
        said = scores if scored else None
        found = naive.rank(items.tolist(), uniforms, said, key, X.astype(np.float64) if world.d else None)
        assert kernels.set_items is not None
        assert kernels.set_scores is not None
        kernels.set_items(s, items)
        if kernels.set_key is not None:
            kernels.set_key(s, key)
        kernels.set_scores(s, scores if scored else scores[:0], np.arange(n))
        ranking, out = np.empty(n, np.int64), np.empty(n)
        kernels.rank(s, X, uniforms, ranking, token)
        order, app, widths = s.order[:n].tolist(), s.app[:n].tolist(), np.empty(n)
        widths[order] = s.widths[:n]
        np.testing.assert_allclose(s.columns[:n], found.x[:, -2:], atol=1e-6)
        assert sorted(order, key=lambda r: (-s.means[r], app.index(r))) == order
        if is_exact:
            np.testing.assert_allclose(s.means[:n], found.means, atol=1e-6)
        if is_exact and k < n:  # widths may be equal but for rounding, which decides doubts: q follows from these
            np.testing.assert_allclose(widths, found.widths, atol=1e-6)
            q = naive.probabilities(s.means[:n], widths, order, app if scored else None)
            np.testing.assert_allclose(s.explore_probs[:n], q, atol=1e-9)
        assert kernels.propensities is not None
        kernels.propensities(s, X, ranking, token, out)
        assert abs(out.sum() - min(k, n)) < 1e-9
        told = world.answers(items[ranking[:k]], t)
        told[world.rng.random(len(told)) < 0.1] = np.nan
        kernels.update(s, X, ranking, token, told)
        there = [p for p in range(len(told)) if not np.isnan(told[p])]
        naive.update([(int(items[r]), key, found.x[r], float(told[p])) for p in there for r in [ranking[p]]])
        assert s.fit[RESTARTS] == naive.restarts
        assert s.fit[[LU, LV]] == pytest.approx([naive.lu, naive.lv], rel=1e-9)
        assert not is_exact or s.fit[ALARM] == pytest.approx(naive.alarm, abs=1e-5)
        learner.validate_state(s)
    assert s.model.sums[LEFT] == pytest.approx(naive.posterior().rss, rel=1e-6)
    return Life(s, naive)


@pytest.mark.parametrize(
    ("learner", "k", "d", "scored"),
    [
        (Mixed(), 1, 0, True),
        (Mixed(), 3, 0, False),
        (Mixed(safe=True), 2, 3, True),
        (Mixed(cells=200), 2, 1, True),
        (Mixed(), LIST, 0, True),
    ],
)
def test_it_equals_a_naive_twin_with_dense_solves(learner: Mixed, k: int, d: int, *, scored: bool) -> None:
    alongside(learner, World(N, d, keyed=learner.cells > 0), k, 100, scored=scored)


@pytest.mark.slow
def test_it_equals_its_naive_twin_with_many_features() -> None:
    alongside(Mixed(), World(N, 300, keyed=False), 2, 20)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [0, 200])
def test_it_equals_its_naive_twin_when_the_world_turns(cells: int) -> None:
    state, naive = alongside(Mixed(cells=cells), World(LIST, 0, keyed=cells > 0, turns=150), 3, 300)
    assert naive.restarts > 0
    assert state.fit[HELD] == 0


@pytest.mark.parametrize("cells", [0, 200])
def test_a_new_version_of_the_score_joins_old_answers_to_it_as_the_naive_twin_does(cells: int) -> None:
    learner, world = Mixed(cells=cells), World(LIST, 0, keyed=cells > 0)
    life = alongside(learner, world, 3, 60)
    assert learner.kernels.renew_score is not None
    learner.kernels.renew_score(life.state, 1)
    life.naive.renew(1)
    world.scores = -world.scores
    alongside(learner, world, 3, 1, life=life, is_exact=False)  # the answers of all items are joined, then solved
    life.naive.alarm = float(life.state.fit[ALARM])
    alongside(learner, world, 3, 60, life=life)
    assert life.state.fit[VERSION] == 1


def test_a_score_that_comes_late_starts_a_new_fit() -> None:
    learner, items = Mixed(), np.arange(4)
    state, naive = learner.init(Shape(4, 0, 1)), NaiveMixed(list(1 / np.log2(np.arange(2, 6))), 1)
    for t in range(40):
        scores = np.array([3.0, 1.0, 2.0, 0.0]) if t >= 20 else None
        found = naive.rank([0, 1, 2, 3], np.full(2, 0.99), scores)
        learner.kernels.set_scores(state, np.empty(0) if scores is None else scores, items)  # type: ignore[misc]
        ranking, token = np.empty(4, np.int64), np.zeros(4)
        learner.kernels.rank(state, np.empty((4, 0), np.float32), np.full(2, 0.99), ranking, token)
        np.testing.assert_allclose(state.means, found.means, atol=1e-6)
        told = float(t % 3 == 0)
        learner.kernels.update(state, np.empty((4, 0), np.float32), ranking, token, np.array([told]))
        naive.update([(int(ranking[0]), -1, found.x[ranking[0]], told)])
    assert state.fit[LU] == pytest.approx(naive.lu)


def test_held_slopes_are_the_best_of_all_subsets() -> None:
    rng, learner = np.random.default_rng(3), Mixed()
    for _ in range(300):
        s = learner.init(Shape(4, 0, 1))
        rows, target = rng.standard_normal((5, 3)), 0.3 * rng.standard_normal(5)
        S = rows.T @ rows + np.eye(3)
        s.model.R[5:, 5:], s.model.z[5:, 0] = (
            np.linalg.cholesky(S).T,
            np.linalg.solve(np.linalg.cholesky(S), rows.T @ target),
        )
        solve_weights(s, s.model)
        free, best, least = np.linalg.solve(S, rows.T @ target), np.zeros(3), np.inf
        for fixed in product((False, True), repeat=2):
            kept, w = np.r_[True, ~np.array(fixed)], np.zeros(3)
            w[kept] = np.linalg.solve(S[np.ix_(kept, kept)], (rows.T @ target)[kept])
            lost = float((w - free) @ S @ (w - free))
            if w[1:].min() >= 0 and lost < least - 1e-12:
                best, least = w, lost
        np.testing.assert_allclose(s.model.w[5:], best if least / (2 * 0.25) <= 5 else free, atol=1e-9)


def test_slopes_do_not_turn_although_items_from_below_come_first_only_when_they_are_good() -> None:
    turned = 0
    for seed in range(20):
        rng, agent = np.random.default_rng(seed), Agent(Mixed(), m=60, k=1, seed=seed)
        z = rng.standard_normal(60)
        means, scores = 1 / (1 + np.exp(0.5 - 1.2 * z)), 0.6 * z + 0.8 * rng.standard_normal(60)
        for _ in range(300):
            items = np.sort(rng.choice(60, 15, replace=False))
            decision = agent.rank(available=items, scores=scores[items])
            agent.update(decision, [float(rng.random() < means[decision.ranking[0]])])
            model = agent.state.model
            assert model.w[-2:].min() > -1e-12
            turned += bool(np.linalg.solve(model.R[5:, 5:], model.z[5:, 0])[1:].min() < 0)
    assert turned > 100  # rounds in which a slope would be negative if it were not held


# --- exploration


def test_propensities_are_those_of_the_uniform() -> None:
    """The ranking is constant between the ends of the intervals that the probabilities give to positions."""
    for learner, k in product((Mixed(), Mixed(safe=True), Mixed(floor=0.5)), (1, 2, 5)):
        agent, rng = Agent(learner, m=6, k=k), np.random.default_rng(1)
        for t in range(60):
            scores = rng.standard_normal(6)
            state = deepcopy(agent.state)
            for _, array in arrays_of(state):
                array.flags.writeable = True
            decision = agent.rank(scores=scores)
            if t % 10 == 0:
                learner.kernels.set_scores(state, scores, np.arange(6))  # type: ignore[misc]
                kept = [array.copy() for _, array in arrays_of(state)]
                ends = np.cumsum(agent.state.explore_probs[k:6])
                seen = np.zeros(6)
                for low, high in zip(np.r_[0, ends], np.r_[ends, 1.0], strict=True):
                    ranking, token = np.empty(6, np.int64), np.zeros(2 + 2 * k)
                    if high > low:
                        uniforms = np.array([(low + high) / 2, 0.5])
                        learner.kernels.rank(state, np.empty((6, 0), np.float32), uniforms, ranking, token)
                        seen[ranking[:k]] += high - low
                    for (_, array), old in zip(arrays_of(state), kept, strict=True):
                        array[...] = old
                assert decision.propensities is not None
                np.testing.assert_allclose(decision.propensities, seen, atol=1e-12)
            agent.update(decision, rng.random(k))


def test_before_the_first_answer_lists_are_in_the_order_of_the_app() -> None:
    agent, rng = Agent(Mixed(), m=50, k=1, seed=1), np.random.default_rng(0)
    explored = 0
    for _ in range(300):
        items = rng.permutation(50)[:12]
        scores = np.round(rng.standard_normal(12))  # with ties, which keep the order of the list
        decision = agent.rank(available=items, scores=scores)
        expected = items[np.argsort(-scores, kind="stable")].tolist()
        if decision.explored:
            explored += 1
            expected.insert(0, expected.pop(expected.index(decision.ranking[0])))
        assert decision.ranking.tolist() == expected
    assert 0 < explored < 150  # at most half of the rounds: among ties, exploration is cheap


@pytest.mark.parametrize(("m", "least", "most"), [(4000, 0.0029, 0.0031), (10, 0.0091, 0.012)])
def test_exploration_costs_at_most_the_floor_and_its_share_of_the_gain(m: int, least: float, most: float) -> None:
    """The floor and the share grow with the share of lists that have the items, and with answers about them."""
    rng, agent = np.random.default_rng(2), Agent(Mixed(), m=m, k=1)
    weights = 1 / np.log2(np.arange(2, 12))
    means = rng.random(m)
    scores, spent_most = 0.6 * means + 0.3 * rng.random(m), 0.0
    counts, told = np.zeros((2, m))
    for t in range(500):
        items = np.sort(rng.choice(m, 10, replace=False))
        counts[items] += 1
        known = told[items].mean()
        more = 1 + 3 * counts[items].mean() / (t + 1) * known / (known + 10)
        decision = agent.rank(available=items, scores=scores[items])
        s = agent.state
        believed, app = s.means[:10], s.app[:10]
        gain = weights @ (believed[s.order[:10]] - believed[app])
        spent = float(s.explore_probs[:10] @ s.costs[:10])
        assert spent <= more * (0.003 + 0.2 * gain) + 1e-12
        spent_most = max(spent_most, spent - more * 0.2 * gain)
        told[decision.ranking[0]] += 1
        agent.update(decision, [float(rng.random() < means[decision.ranking[0]])])
    assert least < spent_most < most


# --- the score


def final_order(scores: Floats, relevance: Floats) -> list[Any]:
    agent, rankings = Agent(Mixed(), m=20, k=1, seed=3), []
    for row, told in zip(scores, relevance, strict=True):
        decision = agent.rank(scores=row)
        agent.update(decision, [told[decision.ranking[0]]])
        rankings.append(decision.ranking.tolist())
    return rankings


def test_monotone_changes_of_the_scale_do_nothing() -> None:
    rng = np.random.default_rng(4)
    scores, relevance = rng.standard_normal((200, 20)), (rng.random((200, 20)) < 0.5).astype(np.float64)
    plain = final_order(scores, relevance)
    with np.errstate(over="ignore"):
        outliers = np.where(scores > 1.5, 1.5 + 1e6 * (scores - 1.5), scores)
        for other in (np.exp(3 * scores), 1e300 * scores, outliers):
            assert final_order(other, relevance) == plain


def test_a_constant_score_and_missing_ones_are_no_score() -> None:
    agent = Agent(Mixed(), m=5, k=1)
    for scores in ([2.0] * 5, [np.nan] * 5, [np.nan] * 4 + [7.0]):
        agent.rank(scores=scores)
        assert not agent.state.columns[:5].any()
    agent.rank(scores=[np.inf, -np.inf, np.nan, 0.0, 1.0])
    assert np.isfinite(agent.state.columns).all()
    assert agent.state.columns[2].tolist() == [0.0, 0.0]


# --- features, keys, items


def test_features_are_learned_on_any_scale() -> None:
    rng = np.random.default_rng(5)
    agents = [Agent(Mixed(), m=500, k=1, d=2, seed=1) for _ in range(2)]
    units, offsets = np.array([1e-6, 1e5]), np.array([3e-6, 0.0])
    for _ in range(300):
        items = rng.choice(500, 8, replace=False)
        X, told = rng.standard_normal((8, 2)), rng.random()
        for agent, features in zip(agents, (X, X * units + offsets), strict=True):
            decision = agent.rank(features, available=items)
            first = X[list(items).index(decision.ranking[0])]
            agent.update(decision, [float(told < 1 / (1 + np.exp(-2 * first[1])))])
    plain, other = (agent.state.model.w[-5:-3] for agent in agents)
    np.testing.assert_allclose(other * units, plain, rtol=0.02, atol=0.002)
    assert plain[1] > 5 * abs(plain[0])


def test_keys_are_learned_apart_and_together() -> None:
    agent, rng = Agent(Mixed(cells=100), m=3, k=1), np.random.default_rng(6)
    best = {0: 0, 1: 1, 2: 2}
    for t in range(900):
        decision = agent.rank(key=t % 3)
        agent.update(decision, [float(rng.random() < (0.9 if decision.ranking[0] == best[t % 3] else 0.1))])
    assert [int(agent.rank(key=key, uniforms=np.full(2, 0.999)).ranking[0]) for key in range(3)] == [0, 1, 2]


def test_old_cells_make_room_for_new_ones() -> None:
    agent, rng = Agent(Mixed(cells=16), m=6, k=2), np.random.default_rng(7)
    for t in range(400):
        decision = agent.rank(key=int(rng.integers(50)) if t % 2 else 7, scores=rng.standard_normal(6))
        agent.update(decision, rng.random(2))
        agent.learner.validate_state(agent._state)
        assert Agent.load(agent.dump()).dump() == agent.dump()
    pairs = agent.state.cells.pairs.tolist()
    assert len({tuple(pair) for pair in pairs}) == 16
    assert sum(key == 7 for key, _ in pairs) >= 4  # the key that is used most stays
    plain = agent.state.model
    effective = plain.base.copy()
    for (_, item), sums in zip(pairs, plain.cells, strict=True):
        row = [pair[1] for pair in agent.state.items.pairs.tolist()].index(item)
        h = agent.state.fit[LV] / (sums[0] + agent.state.fit[LV])
        effective[row] += h * sums[:4]
    np.testing.assert_allclose(plain.rows[:, :4], effective, atol=1e-9)


def test_memory_is_for_items_that_were_asked_about() -> None:
    agent = Agent(Mixed(), m=100_000, k=1)
    for t in range(10):
        decision = agent.rank(available=np.arange(t, 100_000, 5_000), scores=np.arange(20.0))
        agent.update(decision, [1])
    assert agent.state.items.used[0] <= 10
    assert not agent.state.model.rows[10:].any()


# --- answers, drivers, saved states


def test_late_answers_in_any_order_lead_to_the_same_posterior() -> None:
    """Between two fits, the order of answers does not matter."""
    agents = [Agent(Mixed(cells=10), m=6, k=2, seed=4) for _ in range(2)]
    rng = np.random.default_rng(8)
    scores, answers = rng.random((7, 6)), rng.random((7, 2))
    for agent, order in zip(agents, ([0, 1, 2, 3, 4, 5, 6], [6, 2, 0, 4, 1, 5, 3]), strict=True):
        decisions = [agent.rank(scores=row, key=t % 2) for t, row in enumerate(scores)]
        for t in order:
            agent.update(decisions[t], answers[t])
    np.testing.assert_allclose(agents[0].state.model.w, agents[1].state.model.w, atol=1e-12)
    np.testing.assert_allclose(agents[0].best_ranking(), agents[1].best_ranking())


@pytest.mark.parametrize("d", [0, 2])
@pytest.mark.parametrize("cells", [0, 12])
def test_simulate_equals_play_with_scores_and_keys(cells: int, d: int) -> None:
    rng, T, n = np.random.default_rng(9), 300, 6
    items = np.concatenate([np.sort(rng.choice(20, n, replace=False)) for _ in range(T)])
    scores = rng.standard_normal(T * n)
    scores[rng.integers(T * n, size=40)] = np.nan
    rounds = Rounds(
        rng.standard_normal((T * n, d)).astype(np.float32),
        (rng.random(T * n) < 0.5).astype(np.uint8),
        np.arange(0, T * n + 1, n),
        items,
        scores=scores,
        keys=rng.integers(-1, 4, T),
    )
    learner = Mixed(cells=cells)
    one, two = (run(learner, rounds, k=2, measure=DCG(), seed=5) for run in (play, simulate))
    assert np.array_equal(one.value, two.value)
    assert np.array_equal(one.explored, two.explored)
    without = simulate(learner, rounds._replace(scores=None, keys=None), k=2, measure=DCG(), seed=5)
    assert not np.array_equal(without.value, two.value)


def test_rounds_with_wrong_scores_or_keys_are_refused() -> None:
    none, items = np.empty((4, 0), np.float32), np.array([0, 1, 0, 1])
    rounds = Rounds(none, np.zeros(4, np.uint8), np.array([0, 2, 4]), items)
    for wrong, name in (
        ({"scores": np.zeros(3)}, "scores"), ({"scores": np.zeros(4, np.float32)}, "scores"),
        ({"keys": np.array([0, -2])}, "keys"), ({"keys": np.zeros(3, np.int64)}, "keys"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{name} "):
            simulate(Mixed(cells=3), rounds._replace(**wrong), k=1, measure=DCG())


def test_a_better_score_is_used_at_once_if_its_version_is_given() -> None:
    rng, m = np.random.default_rng(3), 200
    liked, useless = rng.random((2, m))
    lost = []
    for version in (None, 1):
        agent, seen = Agent(Mixed(), m=m, k=1, seed=0), 0.0
        rng = np.random.default_rng(4)
        for t in range(1200):
            items = np.sort(rng.choice(m, 20, replace=False))
            new = t >= 1000
            scores = (liked if new else useless)[items]
            decision = agent.rank(available=items, scores=scores, version=version if new else None)
            weights = DCG().discount(20)
            seen += new * float(weights @ (np.sort(liked[items])[::-1] - liked[decision.ranking]))
            agent.update(decision, [float(rng.random() < liked[decision.ranking[0]])])
        lost.append(seen / 200)
    assert lost[1] < 0.5 * lost[0]


def test_answers_to_lists_of_an_old_version_do_not_count_for_the_new_score() -> None:
    agents = [Agent(Mixed(), m=6, k=2, seed=1) for _ in range(2)]
    for agent, scores in zip(agents, ([5.0, 4, 3, 2, 1, 0], [9.0, 8, 2, 1, 0.5, 0]), strict=True):
        agent.update(agent.rank(scores=scores, version=1), [1, 0])
        agent.rank(scores=[0, 1, 2, 3, 4, 5], version=2)
        old = agent.rank(scores=scores, version=1)  # an instance of the app that was not replaced yet
        assert old.version == 1
        agent.update(old, [1, 1])
        agent.rank(scores=[0, 1, 2, 3, 4, 5])  # without a version: the latest one
    np.testing.assert_array_equal(agents[0].state.model.w, agents[1].state.model.w)
    assert agents[0].state.fit[VERSION] == 2


def test_a_log_with_versions_is_replayed_and_saved() -> None:
    agent, rng = Agent(Mixed(cells=50), m=9, k=2, seed=2), np.random.default_rng(0)
    log: list[tuple[Decision, Any]] = []
    for t in range(200):
        decision = agent.rank(scores=rng.random(9), key=t % 3, version=None if t % 4 == 0 else t // 50)
        log.append((decision, None))
        if t % 2:
            answers = (rng.random(2) < 0.5).astype(float)
            agent.update(decision, answers)
            log.append((decision, answers))
    again = replay(Agent(Mixed(cells=50), m=9, k=2, seed=2), log)
    assert again.dump() == agent.dump()
    saved = Agent.load(agent.dump())
    scores = rng.random(9)
    np.testing.assert_array_equal(saved.rank(scores=scores).ranking, agent.rank(scores=scores).ranking)
    assert saved.dump() == agent.dump()


def test_a_loaded_agent_takes_a_new_version_as_one_that_was_not_saved() -> None:
    agent, rng = Agent(Mixed(cells=50), m=8, k=3, seed=1), np.random.default_rng(0)
    for t in range(9):
        agent.update(agent.rank(scores=rng.random(8), key=t % 4), rng.random(3))
    saved, scores = Agent.load(agent.dump()), rng.random(8)
    for each in (agent, saved):
        each.rank(scores=scores, key=1, version=2)
    assert saved.dump() == agent.dump()


def test_a_log_with_scores_keys_and_features_is_replayed() -> None:
    def new() -> Agent:
        return Agent(Mixed(cells=4), m=9, k=2, d=1, seed=6)

    agent, rng = new(), np.random.default_rng(10)
    log: list[tuple[Decision, Floats | None]] = []
    for t in range(60):
        items = rng.permutation(9)[: 9 if t % 3 else 5]
        X = rng.standard_normal((len(items), 1))
        decision = agent.rank(X, available=items, scores=np.round(rng.random(len(items)) * 3), key=t % 5)
        log.append((decision, None))
        if t % 2:
            told = rng.random(2)
            agent.update(decision, told)
            log.append((decision, told))
    assert replay(new(), log).dump() == agent.dump()


def test_an_override_is_learned_with_the_columns_of_what_was_shown() -> None:
    agents = [Agent(Mixed(), m=4, k=2, seed=7) for _ in range(2)]
    shown = [3, 1, 0, 2]
    for agent in agents:
        decision = agent.override(agent.rank(scores=[0.1, 0.2, 0.3, 0.4]), shown)
        assert decision.token[1:3] == pytest.approx([1.1503, 1.1503], abs=1e-3)
        agent.update(decision, [1, 0])
    assert agents[0].state.model.rows[0, 1] == pytest.approx(1.1503, abs=1e-3)


def test_real_answers_are_taken_in_their_range_only() -> None:
    agent = Agent(Mixed(low=-1.0, high=3.0), m=3, k=1)
    for good in (-1, -0.25, 0.5, 3, np.nan):
        agent.update(agent.rank(), [good])
    for wrong in (-1.01, 3.5, np.inf):
        with pytest.raises(ValueError, match=r"^feedback\[0\] = .*: must be a number from -1 to 3"):
            agent.update(agent.rank(), [wrong])
    other = Agent(DoubtSort(DCG()), m=3, k=1)
    with pytest.raises(ValueError, match="whole number"):
        other.update(other.rank(), [0.5])


def test_the_range_is_a_change_of_units() -> None:
    rng = np.random.default_rng(11)
    agents = [Agent(Mixed(), m=6, k=1, seed=8), Agent(Mixed(low=-20.0, high=60.0), m=6, k=1, seed=8)]
    for _ in range(100):
        scores, told = rng.random(6), rng.integers(0, 9) / 8
        shown = [agent.rank(scores=scores) for agent in agents]
        assert np.array_equal(shown[0].ranking, shown[1].ranking)
        agents[0].update(shown[0], [told])
        agents[1].update(shown[1], [-20 + 80 * told])
    np.testing.assert_allclose(
        agents[1].summary().estimate, -20 + 80 * np.asarray(agents[0].summary().estimate), atol=1e-9
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"scores": [1.0, 2.0]}, "scores of shape"),
        ({"key": 1}, "set cells, for example cells=10000"),
        ({"key": -1}, "set cells"),
        ({"version": -1}, "version = -1: must be"),
        ({"version": 1.5}, "version"),
    ],
)
def test_wrong_contexts_are_named(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Agent(Mixed(), m=3, k=1).rank(**said)
    with pytest.raises(ValueError, match="use mixed"):
        Agent(DoubtSort(DCG()), m=3, k=1).rank(**said)


def test_exponential_gains_of_large_answers_are_warned_about() -> None:
    with pytest.warns(UserWarning, match=r"max_grade = 20 with dcg: .* as much as 1.02e\+03 answers of 10"):
        Mixed(DCG(), high=20.0)
    Mixed(DCG(), high=10.0)
    Mixed(high=20.0)


def test_wrong_parameters_are_named() -> None:
    for wrong in ({"low": 1.0}, {"high": np.inf}, {"floor": -1.0}, {"cells": -1}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} |^high"):
            Mixed(**wrong)
    with pytest.raises(ValueError, match="d = 2,001: mixed takes at most 2,000 features"):
        Agent(Mixed(), m=3, k=1, d=2001)


def lived() -> Agent:
    agent, rng = Agent(Mixed(cells=8), m=6, k=2, d=1), np.random.default_rng(12)
    for _ in range(40):
        decision = agent.rank(rng.standard_normal((6, 1)), scores=rng.random(6), key=int(rng.integers(3)))
        agent.update(decision, rng.random(2))
    return agent


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("model.R", (7, 0), 1.0), ("model.R", (7, 7), 0.0), ("model.ends", 0, 12), ("model.prior", 7, 0.0),
        ("twin.raw", (7, 0), 1.0), ("twin.sums", 4, 4.0), ("twin.sums", 4, 0.5), ("model.sums", 2, -1.0),
        ("model.rows", (0, 1), -3.0), ("twin.rows", (0, 8), 1e9), ("twin.cells", (0, 5), 1e9),
        ("model.base", (0, 1), -3.0), ("items.used", 0, 7), ("items.pairs", (0, 1), 6), ("items.pairs", (0, 1), 1),
        ("items.pairs", (0, 0), 1), ("cells.pairs", (0, 0), -1), ("cells.used", 0, 9), ("recently", 0, 2),
        ("hand", 0, 8), ("rounds", 0, -1.0), ("fit", 0, 0.0), ("fit", 5, 0.5), ("recent.ring", 0, np.nan),
        ("recent.ascending", 0, 9.0), ("recent.total", 0, -1), ("moments", (0, 4), -1.0), ("fit", 7, 0.0),
        ("fit", 9, 0.0),
    ],
)  # fmt: skip
def test_a_damaged_state_is_refused(name: str, place: Any, value: float) -> None:
    agent = lived()
    array = dict(arrays_of(agent._state))[name]
    if name == "items.pairs" and value == 1 and place == (0, 1):
        value = array[1, 1]
    array[place] = value
    with pytest.raises(ValueError, match="its "):
        agent.learner.validate_state(agent._state)


def test_huge_features_lead_to_a_ranking() -> None:
    agent = Agent(Mixed(), m=4, k=1, d=1)
    for _ in range(3):
        agent.update(agent.rank([[1e15], [-1e15], [0.0], [1.0]]), [1])
    assert sorted(agent.rank([[1e15], [1.0], [0.0], [1.0]]).ranking.tolist()) == [0, 1, 2, 3]


def test_a_measure_that_counts_losses_is_ranked_alike() -> None:
    agent, rng = Agent(Mixed(SumLoss()), m=5, k=1), np.random.default_rng(13)
    for _ in range(400):
        decision = agent.rank()
        agent.update(decision, [float(rng.random() < 0.2 * decision.ranking[0])])
    assert agent.best_ranking()[0] == 4


def test_scores_of_a_state_that_cannot_be_written_are_those_of_its_means() -> None:
    agent, rng = Agent(Mixed(), m=6, k=1, d=2), np.random.default_rng(14)
    for _ in range(30):
        agent.update(agent.rank(rng.standard_normal((6, 2))), [float(rng.random() < 0.5)])
    X = rng.standard_normal((6, 2)).astype(np.float32)
    for some in (agent, Agent.load(agent.dump())):
        scores = some.learner.scores(some.state, X)
        some.rank(X)
        assert scores == pytest.approx(some.state.means[:6] + 0.5, abs=1e-12)


@pytest.mark.parametrize("saved", [False, True])
def test_an_explanation_adds_up_to_the_means_of_a_list(saved: bool) -> None:
    """Each part is pinned by a list without it: no score, no key, an item that nobody was asked about."""
    learner, rng = Mixed(low=-1.0, high=3.0, cells=50), np.random.default_rng(15)
    agent = Agent(learner, m=7, k=2)
    for _ in range(150):
        decision = agent.rank(available=np.arange(6), scores=rng.random(6), key=int(rng.integers(4)))
        agent.update(decision, rng.uniform(-1, 3, 2))
    some = Agent.load(agent.dump()) if saved else agent
    scores = np.array([0.3, np.nan, 0.9, 0.1, 0.5, 0.2, 0.7])
    missing = np.full(7, np.nan)
    for given in (missing, scores):
        for key in (None, 2, 9):
            found = learner.explain(some.state, given, key)
            assert sum(found.parts.values()) == pytest.approx(found.means, abs=1e-12)
            lived = Agent.load(agent.dump())
            lived.rank(scores=given, key=key)
            assert found.means == pytest.approx(-1 + 4 * (lived.state.means[:7] + 0.5), abs=1e-9)
            assert found.parts["average"] == pytest.approx(learner.explain(some.state, missing, None).means[6])
            assert found.parts["item"] == pytest.approx(learner.explain(some.state, missing, None).parts["item"])
            assert (found.parts["key"] != 0).sum() == (6 if key == 2 else 0)
            assert (found.parts["score"] != 0).sum() == (6 if given is scores else 0)
    assert found.answers.tolist()[6] == 0
    assert found.answers.sum() == 300


def test_effects_shrink_the_mean_of_an_item_by_its_answers() -> None:
    """Without scores and keys, an effect is (mean of the item - average) n / (n + lambda)."""
    learner, rng = Mixed(), np.random.default_rng(16)
    agent = Agent(learner, m=3, k=1)
    grades: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for _ in range(60):
        item = int(rng.integers(3))
        order = [item, *(other for other in range(3) if other != item)]
        grade = float(rng.random() < (0.2, 0.5, 0.8)[item])
        agent.update(agent.override(agent.rank(), order), [grade])
        grades[item].append(grade)
    found, ratio = learner.explain(agent.state, np.full(3, np.nan), None), agent.state.fit[LU]
    average = found.parts["average"][0]
    for item, given in grades.items():
        shrunk = (np.mean(given) - average) * len(given) / (len(given) + ratio)
        assert found.parts["item"][item] == pytest.approx(shrunk, abs=1e-9)
        assert found.answers[item] == len(given)
