"""RTop-kF: its estimates over all that exploration can show, its parts against NumPy, learning, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from peekrank import NDCG, Agent, Rounds, Shape, Uniform, play, simulate
from peekrank.engine import LearningStoppedWarning, run_agents, simulate_all, simulation
from peekrank.kernels.vectors import dot
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.learners.rtopkf.state import RTopKFState
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared, Surrogate, softmax
from peekrank.types import Features, Floats, Ints

D = 3
SURROGATES: list[Surrogate] = [Squared(), KL(), SmoothDCG(0.5), RankSVM()]


def items(n: int, seed: int) -> Features:
    return np.random.default_rng(seed).normal(size=(n, D)).astype(np.float32)


def begun(learner: RTopKF, m: int, k: int, seed: int) -> RTopKFState:
    """A state in the midst of learning."""
    rng, state = np.random.default_rng(seed), learner.init(Shape(m, D, k))
    state.w[:], state.v[:] = rng.normal(size=(2, D))
    state.sums[0], state.sums[5] = 100, 0.3
    return state


def show(state: RTopKFState, X: Features, uniforms: Floats) -> tuple[Ints, Floats]:
    learner = RTopKF(estimator="doubly_robust")  # has the longest token
    ranking = np.full(len(X), -1, dtype=np.int64)
    token = np.zeros(learner.token_size(Shape(len(state.scores), D, state.k)))
    learner.kernels.rank(state, X, uniforms, ranking, token)
    return ranking, token


def everything_shown(
    learner: RTopKF, state: RTopKFState, X: Features
) -> Iterator[tuple[float, tuple[Ints, Floats]]]:
    """All that a round can show, with its probability, from the definition of the exploration."""
    n, k = len(X), min(state.k, len(X))
    uniforms = np.zeros(1 + len(state.scores))
    if k == n:
        yield 1.0, show(state, X, uniforms)
        return
    gamma = learner.gamma or 101 ** (-1 / 3)
    drawn = n - 1 if learner.unseen_order == "random" else k
    choices = list(product(*[(np.arange(n - p) + 0.5) / (n - p) for p in range(drawn)]))
    for choice in choices:
        uniforms[0], uniforms[1 : 1 + drawn] = gamma / 2, choice
        yield gamma / len(choices), show(state, X, uniforms)
    scores = np.array([float(dot(x, state.w)) for x in X])
    order = np.argsort(-scores, kind="stable")
    spread = scores.max() - scores.min() or 1.0
    propensities = softmax(scores[order] / (spread * learner.temperature)) if learner.temperature else np.eye(n)[0]
    uniforms[0] = (1 + gamma) / 2
    for p in range(n):
        if propensities[p] > 0:
            uniforms[1] = propensities[:p].sum() + propensities[p] / 2
            yield (1 - gamma) * propensities[p], show(state, X, uniforms)


# --- unbiased, exactly


@pytest.mark.parametrize(
    ("surrogate", "estimator", "m", "n", "k"),
    [
        (surrogate, estimator, m, n, k)
        for surrogate in SURROGATES
        for estimator in ("printed", "residual", "doubly_robust")
        for m, n, k in [(3, 3, 1), (5, 3, 2), (4, 4, 3), (5, 5, 2), (5, 4, 5), (3, 2, 1)]
        if min(k, n) >= (surrogate.min_k or 1) and (estimator != "doubly_robust" or surrogate != RankSVM())
    ],
    ids=str,
)
@pytest.mark.parametrize("below", ["greedy", "random"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_estimates_are_unbiased(
    surrogate: Surrogate, estimator: Any, below: Any, temperature: float, m: int, n: int, k: int
) -> None:
    learner = RTopKF(surrogate, estimator=estimator, unseen_order=below, clip=0.0, temperature=temperature)
    X, rng = items(n, seed=n), np.random.default_rng(m)
    relevance = rng.integers(0, 4, n).astype(np.float64)
    total, mean, seen = 0.0, np.zeros(n), np.zeros(n)
    for propensity, (ranking, token) in everything_shown(learner, begun(learner, m, k, seed=1), X):
        kk = min(k, n)
        state = begun(learner, m, k, seed=1)
        learner.kernels.update(state, X, ranking, token, relevance[ranking[:kk]])
        total += propensity
        mean += propensity * state.slopes[:n]
        seen[ranking[:kk]] += propensity / token[3 : 3 + kk]
        scores = token[3 + k : 3 + k + n]
    assert total == pytest.approx(1)
    np.testing.assert_allclose(seen, 1, atol=1e-9)
    np.testing.assert_allclose(mean, surrogate.gradient(scores, relevance), atol=1e-9)


def test_the_paper_can_show_all_lists() -> None:
    learner = RTopKF.from_paper(Squared(), 1000)
    shown = {tuple(ranking) for _, (ranking, _) in everything_shown(learner, begun(learner, 4, 1, 0), items(4, 0))}
    assert shown == set(permutations(range(4)))


@pytest.mark.parametrize("k", [1, 3])
def test_what_is_seen_and_what_is_not_come_in_greedy_order(k: int) -> None:
    learner, X = RTopKF(), items(5, 3)
    state = begun(learner, 5, k, seed=2)
    scores = np.array([float(dot(x, state.w)) for x in X])
    best = set(np.argsort(-scores)[: k - 1].tolist())
    for _, (ranking, token) in everything_shown(learner, state, X):
        assert np.all(np.diff(scores[ranking[:k]]) <= 0)
        assert np.all(np.diff(scores[ranking[k:]]) <= 0)
        assert token[0] or best <= set(ranking[:k].tolist())


def test_at_the_start_ties_go_by_index() -> None:
    state = RTopKF(gamma=0.1, temperature=0.0).init(Shape(5, D, 1))
    assert show(state, items(5, 0), np.full(6, 0.5))[0].tolist() == [0, 1, 2, 3, 4]


def test_at_the_start_every_item_is_on_top_as_often() -> None:
    learner = RTopKF(gamma=0.1)
    state, on_top = learner.init(Shape(5, D, 1)), np.zeros(5)
    for propensity, (ranking, token) in everything_shown(learner, state, items(5, 0)):
        on_top[ranking[0]] += propensity
        assert token[3] == pytest.approx(0.2)
        assert np.all(np.diff(ranking[1:]) > 0)
    np.testing.assert_allclose(on_top, 0.2)


# --- the parts against NumPy


@pytest.mark.parametrize("surrogate", [*SURROGATES, ListNet()], ids=str)
def test_full_information_is_plain_gradient_descent(surrogate: Surrogate) -> None:
    learner, rng = RTopKF(surrogate, horizon=50, step="theorem", radius=1.5), np.random.default_rng(0)
    state, w = learner.init(Shape(4, D, 4)), np.zeros(D)
    for t in range(50):
        X, relevance = items(4, t), rng.integers(0, 3, 4).astype(np.float64)
        shown = show(state, X, rng.random(5))
        learner.kernels.update(state, X, *shown, relevance[shown[0]])
        z = X.astype(np.float64).T @ surrogate.gradient(X.astype(np.float64) @ w, relevance)
        w = w - 50 ** (-1 / 2) * z
        w *= min(1, 1.5 / np.linalg.norm(w))
        np.testing.assert_allclose(state.w, w, atol=2e-5)


def test_scale_free_steps_by_hand() -> None:
    learner = RTopKF(rate=0.5)
    state, X = learner.init(Shape(2, D, 2)), items(2, 4)
    w, squares, largest = np.zeros(D), 0.0, float(np.max(np.sum(X.astype(np.float64) ** 2, axis=1)))
    for relevance in ([1.0, 0.0], [0.0, 2.0], [1.0, 1.0]):
        shown = show(state, X, np.zeros(3))
        learner.kernels.update(state, X, *shown, np.array(relevance)[shown[0]])
        z = 2 * X.T @ (X @ w - relevance)
        squares += float(z @ z)
        w -= 0.5 * z / np.sqrt(largest * squares)
        np.testing.assert_allclose(state.w, w, atol=1e-6)


@pytest.mark.parametrize("factor", [2.0**10, 2.0**-10])
def test_rankings_do_not_change_with_the_scale_of_features(factor: float) -> None:
    one, two = (synthetic(seed=1, factor=scale) for scale in (1.0, factor))
    learner, how = RTopKF(), {"k": 1, "measure": NDCG(3), "seed": 2}
    assert np.array_equal(simulate(learner, one, **how).value, simulate(learner, two, **how).value)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [1, 7, 46, 700])
def test_dot_is_as_exact_as_single_precision_allows(d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, d)).astype(np.float32)
    exact = float(x.astype(np.float64) @ y.astype(np.float64))
    assert float(dot(x, y)) == pytest.approx(exact, abs=1e-6 * float(np.abs(x) @ np.abs(y)))


def test_large_scores_do_not_overflow() -> None:
    learner = RTopKF(KL())
    state, X = learner.init(Shape(2, D, 1)), items(2, 0)
    state.w[:] = 1e6
    shown = show(state, X, np.full(3, 0.99))
    learner.kernels.update(state, X, *shown, np.array([1.0]))
    assert np.isfinite(state.w).all()


# --- learning


def synthetic(seed: int, queries: int = 4000, factor: float = 1.0) -> Rounds:
    """Lists of 2 to 9 items whose relevance is linear in the features, but for noise."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 10, queries)
    X = rng.normal(size=(lengths.sum(), 6))
    score = X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.3] + rng.normal(scale=0.3, size=len(X))
    relevance = np.digitize(score, [0.5, 1.5]).astype(np.uint8)
    return Rounds((X * factor).astype(np.float32), relevance, np.r_[0, np.cumsum(lengths)])


def late_value(learner: Any, rounds: Rounds, k: int, runs: int = 3) -> float:
    """Mean NDCG of the second half."""
    n, measure = len(rounds.offsets) - 1, NDCG()
    checkpoints, value = np.array([n // 2, n]), 0.0
    for seed in range(runs):
        trace = simulate(learner, rounds, k=k, measure=measure, seed=seed, checkpoints=checkpoints)
        value += float(trace.value[1] - trace.value[0]) / (n - n // 2) / runs
    return value


def test_defaults_beat_the_paper() -> None:
    rounds = synthetic(seed=0)
    nothing, papers = late_value(Uniform(), rounds, 1), late_value(RTopKF.from_paper(Squared(), 4000), rounds, 1)
    ours, more, everything = (
        late_value(RTopKF(), rounds, 1),
        late_value(RTopKF(), rounds, 3),
        late_value(RTopKF(ListNet()), rounds, 1),
    )
    assert nothing < papers < ours < more < everything + 0.005
    assert everything - ours < 0.5 * (everything - papers)


@pytest.mark.parametrize(
    ("learner", "k"),
    [
        (RTopKF(KL()), 1),
        (RTopKF(estimator="doubly_robust"), 1),
        (RTopKF(KL(), estimator="doubly_robust", temperature=0.2), 1),
        (RTopKF(RankSVM()), 2),
        (RTopKF(SmoothDCG(0.5)), 1),
    ],
    ids=lambda value: str(getattr(value, "surrogate", value)),
)
def test_every_choice_learns(learner: RTopKF, k: int) -> None:
    rounds = synthetic(seed=0)
    assert late_value(learner, rounds, k) > late_value(Uniform(), rounds, k) + 0.15


def mean_step(learner: RTopKF, X: Features, relevance: Floats, k: int) -> tuple[Floats, Floats]:
    """The weights before a round, and how they change on average over all that it can show."""
    n = len(X)
    before = begun(learner, n, k, seed=1).w.astype(np.float64)
    moved = np.zeros(D)
    for propensity, (ranking, token) in everything_shown(learner, begun(learner, n, k, seed=1), X):
        state = begun(learner, n, k, seed=1)
        learner.kernels.update(state, X, ranking, token, relevance[ranking[:k]])
        moved += propensity * (state.w - before)
    return before, moved


@pytest.mark.parametrize("estimator", ["printed", "residual"])
@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_the_mean_step_goes_down_the_loss(surrogate: Surrogate, estimator: Any) -> None:
    """By finite differences of the value, which know nothing of gradients."""
    X, relevance = items(4, seed=5), np.array([2.0, 0.0, 1.0, 0.0])
    learner = RTopKF(surrogate, 1000, estimator, clip=0.0, step="theorem")  # of length 0.01

    def loss(w: Floats) -> float:
        return surrogate.value(X.astype(np.float64) @ w, relevance)

    w, moved = mean_step(learner, X, relevance, surrogate.min_k or 4)
    slope = np.array([loss(w + row) - loss(w - row) for row in 1e-5 * np.eye(D)]) / 2e-5
    assert np.linalg.norm(slope) > 0.1
    np.testing.assert_allclose(moved, -0.01 * slope, rtol=1e-3, atol=1e-6)
    assert loss(w + moved) < loss(w) < loss(w - moved)


def test_descending_the_gain_is_a_loss() -> None:
    """CT16 prints w - eta z for a gain; a step must raise the smooth DCG@1, written here from its definition."""
    X, relevance = items(4, seed=5), np.array([2.0, 0.0, 1.0, 0.0])

    def gain(w: Floats) -> float:
        shares = np.exp(X.astype(np.float64) @ w / 0.5)
        return float(np.sum((2**relevance - 1) * shares) / np.sum(shares))

    w, moved = mean_step(RTopKF(SmoothDCG(0.5), clip=0.0), X, relevance, 1)
    assert gain(w + moved) > gain(w) > gain(w - moved)


# --- running


def too_long(rounds: Rounds) -> Rounds:
    return rounds._replace(features=rounds.features * np.float32(100))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("estimator", ["printed", "residual"])
def test_weights_that_overflow_are_reported(estimator: Any, temperature: float) -> None:
    rounds, checkpoints = too_long(synthetic(seed=0)), np.array([4000])
    learner = RTopKF(horizon=100, estimator=estimator, temperature=temperature, step="theorem")
    with pytest.warns(LearningStoppedWarning, match="rtopkf: weights, scores or steps have overflowed"):
        trace = simulate(learner, rounds, k=1, measure=NDCG(), checkpoints=checkpoints)
    assert 0 < trace.value[0] < 4000


def test_a_list_whose_scores_overflow_is_left_out() -> None:
    learner = RTopKF()
    agent = Agent(learner, m=5, k=1, d=D)
    for t in range(5):
        agent.update(agent.rank(items(5, t)), [1])
    agent._state.w[:] = before = np.full(D, 3e30, np.float32)
    decision = agent.rank(np.full((5, D), 1e15))
    agent.update(decision, [2])
    assert decision.ranking.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(agent._state.w, before)
    assert learner.failure(agent._state)
    agent._state.w[:] = before = np.full(D, 2, np.float32)
    agent.update(agent.rank(items(5, 9)), [2])
    assert not np.array_equal(agent._state.w, before)
    assert not learner.failure(agent._state)


def test_features_that_are_too_small_for_steps_are_reported() -> None:
    agent = Agent(RTopKF(), m=5, k=5, d=D)
    agent.update(agent.rank(items(5, 0) * np.float32(1e-17)), [1, 0, 2, 0, 1])
    assert not agent.state.w.any()
    assert "features are too large or too small" in agent.failure()
    agent.update(agent.rank(items(5, 1)), [1, 0, 2, 0, 1])
    assert agent.state.w.any()
    assert not agent.failure()


@pytest.mark.parametrize("gamma", [1e-17, 1e-9])
def test_propensities_never_exceed_one(gamma: float) -> None:
    agent, rng = Agent(RTopKF(gamma=gamma), m=7, k=3, d=D), np.random.default_rng(0)
    for t in range(300):
        decision = agent.rank(items(int(rng.integers(2, 8)), t))
        agent.update(decision, rng.integers(0, 3, min(3, len(decision.ranking))))
    assert agent._state.sums[0] == 300


@pytest.mark.parametrize("surrogate", [KL(), SmoothDCG()], ids=str)
def test_grades_that_are_too_large_for_exponentials(surrogate: Surrogate) -> None:
    rounds = synthetic(seed=0, queries=200)
    for highest in (30, 31):
        relevance = np.where(rounds.relevance > 0, highest, 0).astype(np.uint8)
        learner = RTopKF(surrogate)
        agent = Agent(learner, m=9, k=1, d=6)
        if highest == 31:
            with pytest.raises(ValueError, match="relevance 31 occurs, but rtopkf has max_grade = 30"):
                run_agents([agent], rounds._replace(relevance=relevance), measure=NDCG())
        else:
            run_agents([agent], rounds._replace(relevance=relevance), measure=NDCG())
            assert np.isfinite(agent._state.w).all()


def test_step_by_step_is_compiled_bit_for_bit() -> None:
    rounds = synthetic(seed=3, queries=300)
    sequence = np.random.default_rng(0).integers(0, 300, 500)
    for learner, k in (
        (RTopKF(), 1),
        (RTopKF(RankSVM(), temperature=0.5), 3),
        (RTopKF(estimator="doubly_robust"), 2),
    ):
        how: dict[str, Any] = {"k": k, "measure": NDCG(), "seed": 5, "sequence": sequence}
        one, two = play(learner, rounds, **how), simulate(learner, rounds, **how)
        assert np.array_equal(one.value, two.value)
        assert np.array_equal(one.explored, two.explored)


def test_learners_taking_turns_are_as_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_CACHE", 1)  # so that turns are short
    rounds = synthetic(seed=3, queries=500)
    learners = [RTopKF(), RTopKF(KL()), RTopKF(ListNet())]
    sequence = np.random.default_rng(0).integers(0, 500, 3000)
    together = simulate_all(learners, rounds, k=1, measure=NDCG(), seeds=[1, 2, 3], sequence=sequence)
    for learner, seed, trace in zip(learners, (1, 2, 3), together, strict=True):
        assert np.array_equal(
            trace.value, simulate(learner, rounds, k=1, measure=NDCG(), seed=seed, sequence=sequence).value
        )


def test_late_missing_and_resumed() -> None:
    """One agent is saved and loaded amid open decisions, the other is not."""
    whole, resumed = (Agent(RTopKF(), m=6, k=2, d=D, seed=1) for _ in range(2))
    rng, answered = np.random.default_rng(0), 0.0
    for t in range(200):
        lists = [items(int(rng.integers(1, 7)), 10 * t + i) for i in range(3)]
        both = [(whole.rank(X), resumed.rank(X)) for X in lists]
        if t == 100:
            resumed = Agent.load(resumed.dump())
        for i in rng.permutation(3)[:2]:
            answers = rng.integers(0, 3, min(2, len(lists[i]))).astype(np.float64)
            answers[rng.random(len(answers)) < 0.3] = np.nan
            answered += float(np.mean(~np.isnan(answers)))
            for agent, decision in zip((whole, resumed), both[i], strict=True):
                agent.update(decision, answers)
    assert whole.dump() == resumed.dump()
    assert whole._state.sums[0] == answered
    assert np.linalg.norm(whole._state.w) > 0.01


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "gamma = 0.0: must be a probability above 0"),
        ({"gamma": 1.5}, "gamma = 1.5"),
        ({"temperature": -1.0}, "temperature = -1.0"),
        ({"rate": 0.0}, "rate"),
        ({"radius": -1.0}, "radius"),
        ({"horizon": 0}, "horizon"),
        ({"step": "theorem"}, "step = theorem: needs a horizon"),
        ({"estimator": "best"}, "estimator"),
        ({"surrogate": RankSVM(), "estimator": "doubly_robust"}, "use squared, kl or smoothdcg"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RTopKF(**parameters)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused(wrong: float) -> None:
    agent, X = Agent(RTopKF(), m=5, k=1, d=D), items(5, 0)
    X[3, 1] = wrong
    with pytest.raises(ValueError, match=r"features of item 3, .*: must be finite numbers"):
        agent.rank(X)
    agent.update(decision := agent.rank(items(5, 0)), [2])
    assert np.isfinite(agent._state.w).all()
    assert sorted(decision.ranking) == [0, 1, 2, 3, 4]


def test_too_few_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="k = 1: rtopkf needs at least k = 2"):
        Agent(RTopKF(RankSVM()), m=5, k=1, d=D)
    with pytest.raises(ValueError, match="rtopkf needs items with features"):
        Agent(RTopKF(), m=5, k=1)
    assert Agent(RTopKF(ListNet()), m=5, k=1, d=D).shape.k == 5


@pytest.mark.parametrize(("rounds", "gamma"), [(0, 0.5), (1, 0.5), (6, 0.5), (8, 9 ** (-1 / 3)), (999, 0.1)])
def test_without_a_gamma_it_is_one_half_at_most(rounds: int, gamma: float) -> None:
    """t^(-1/3) in round t: above one half before the eighth."""
    state = RTopKF().init(Shape(5, D, 1))
    state.sums[0] = rounds
    token = np.zeros(RTopKF().token_size(Shape(5, D, 1)))
    uniforms, ranking = np.full(RTopKF().n_uniforms(Shape(5, D, 1)), 0.99), np.empty(5, dtype=np.int64)
    RTopKF().kernels.rank(state, np.zeros((5, D), np.float32), uniforms, ranking, token)
    assert token[1] == pytest.approx(gamma, rel=1e-12)


@pytest.mark.parametrize(("horizon", "gamma"), [(1, 0.5), (7, 0.5), (27, 1 / 3), (1000, 0.1)])
def test_the_papers_gamma_is_one_half_at_most(horizon: int, gamma: float) -> None:
    assert RTopKF.from_paper(Squared(), horizon).gamma == pytest.approx(gamma, rel=1e-12)


def test_one_feature_is_enough_to_learn_from() -> None:
    """What a list with one feature teaches is what it teaches with a second one that is zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4, 1)).astype(np.float32)
    one, two = (Agent(RTopKF(), m=4, k=1, d=d, seed=3) for d in (1, 2))
    last = []
    for lists in X:
        relevance = (lists[:, 0] > 0).astype(float)
        for agent, features in ((one, lists), (two, np.pad(lists, ((0, 0), (0, 1))))):
            decision = agent.rank(features)
            agent.update(decision, relevance[decision.ranking[:1]])
            last.append(decision.ranking.tolist())
    assert last[::2] == last[1::2]
    ordered = [ranking == np.argsort(-lists[:, 0]).tolist() for ranking, lists in zip(last[::2], X, strict=True)]
    assert np.mean(ordered[300:]) > 0.5
    with pytest.raises(ValueError, match="features"):
        one.rank()
