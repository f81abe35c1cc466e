"""FeedExp3: estimates by enumeration, a naive twin of the algorithm, the bound, refusals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from math import log
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import linprog

from peekrank import DCG, NDCG, Agent, PairwiseLoss, Precision, SumLoss, rate_of
from peekrank.checks import check_learner
from peekrank.engine import make_rng
from peekrank.experiments.arena import play_game
from peekrank.games.analysis import analyse
from peekrank.games.classic import CLASSIC, classic
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.learners.feedexp3.learner import FeedExp3
from peekrank.learners.feedexp3.state import FeedExp3State
from peekrank.measures import AveragePrecision
from peekrank.measures import measure as measure_named
from peekrank.types import Floats, Ints, Shape

LEARNABLE = [name for name, example in CLASSIC.items() if example.rate not in (Rate.LINEAR, Rate.ZERO)]
RANKINGS = [
    ("dcg", 3, 1, 1), ("dcg@1", 3, 1, 2), ("ndcg", 3, 2, 1), ("ap", 3, 2, 1),
    ("p@2+sum", 3, 1, 1), ("p@1+sum", 4, 2, 1),
    ("pairwiseloss", 3, 2, 2), ("aucloss", 5, 3, 1), ("sumloss", 4, 3, 1),
]  # fmt: skip
TWO_NAMES = Game.of(  # the last two actions tell the same apart, under other names
    [[0, 1, 2], [2, 1, 0], [1, 2, 1], [3, 2, 3]], [["-"] * 3, ["-"] * 3, ["a", "b", "c"], ["b", "c", "a"]]
)
GAMES = {name: classic(name) for name in LEARNABLE} | {
    "two names": TWO_NAMES,
    "ndcg game": ranking_game("ndcg", 3, 2),
}
NO_FEATURES = np.empty((0, 0), np.float32)


class Case:
    """A game with a learner for it, as matrices; nothing of what the learner makes of it."""

    def __init__(self, learner: FeedExp3, shape: Shape) -> None:
        self.learner, self.shape = learner, shape
        if isinstance(learner.measure, Game):
            self.loss, self.signals = learner.measure.loss, learner.measure.signals
            self.shown = [np.r_[a, np.delete(np.arange(shape.m), a)] for a in range(shape.m)]
            self.answers = [[[float(s)] for s in row] for row in self.signals]
        else:
            outcomes = list(product(range(learner.max_grade + 1), repeat=shape.m))
            self.shown = [np.array(ranking) for ranking in permutations(range(shape.m))]
            sign = -1 if learner.measure.higher_is_better else 1
            relevance = np.array(outcomes)
            self.loss = sign * np.array(
                [learner.measure.values(np.tile(r, (len(outcomes), 1)), relevance) for r in self.shown]
            )
            self.answers = [[[float(o[i]) for i in r[: shape.k]] for o in outcomes] for r in self.shown]
            symbols = sorted({tuple(answer) for row in self.answers for answer in row})
            self.signals = np.array([[symbols.index(tuple(answer)) for answer in row] for row in self.answers])
        partition = [
            frozenset(frozenset(np.flatnonzero(row == s).tolist()) for s in row.tolist()) for row in self.signals
        ]
        self.group = np.array([partition.index(p) for p in partition])

    def propensities(self, state: FeedExp3State, gamma: float, eta: float) -> Floats:
        """P by action, from its definition."""
        w = np.exp(-eta * (state.losses - state.losses.min()))
        P = gamma * self.learner.plan(self.shape).q
        np.add.at(P, state.action, (1 - gamma) * w / w.sum())
        return P


def cases(horizon: int | None = None) -> list[Any]:
    made = [
        pytest.param(Case(FeedExp3(game, horizon), Shape(len(game.actions), 0, 1)), id=name)
        for name, game in GAMES.items()
    ]
    return made + [
        pytest.param(Case(FeedExp3(measure_named(name), horizon, top), Shape(m, 0, k)), id=f"{name} {m} {k} {top}")
        for name, m, k, top in RANKINGS
    ]


@pytest.mark.parametrize("case", cases(5000))
def test_estimates_are_unbiased_whatever_the_outcome(case: Case) -> None:
    state = case.learner.init(case.shape)
    state.losses[:] = np.random.default_rng(0).normal(size=len(state.losses)) / state.rate
    P = case.propensities(state, state.mixing, state.rate * state.mixing)
    assert P.sum() == pytest.approx(1)
    group = np.array([P[case.group == g].sum() for g in case.group])
    means = np.zeros((len(state.losses), case.loss.shape[1]))
    for a in np.flatnonzero(P):
        for r in range(case.loss.shape[1]):
            state.losses[:] = 0
            token, answer = np.array([0, a, group[a]]), np.array(case.answers[a][r])
            case.learner.kernels.update(state, NO_FEATURES, case.shown[a], token, answer)
            means[:, r] += P[a] * state.losses
    losses = case.loss[state.action]
    difference = (means - means[0]) - (losses - losses[0])
    assert np.abs(difference).max() <= 1e-10 * np.ptp(losses)


@pytest.mark.parametrize("case", cases(5000))
def test_every_action_is_drawn_with_its_probability(case: Case) -> None:
    state = case.learner.init(case.shape)
    state.losses[:] = np.random.default_rng(1).normal(size=len(state.losses)) / state.rate
    state = state._replace(mixing=0.4)
    P = case.propensities(state, 0.4, state.rate * 0.4)
    grid = 50
    middles = (np.arange(grid) + 0.5) / grid
    count, explored = np.zeros(len(P)), 0.0
    ranking, token = np.empty(case.shape.m, np.int64), np.zeros(3)
    for u in product(middles, repeat=2):
        case.learner.kernels.rank(state, NO_FEATURES, np.array(u), ranking, token)
        action = int(token[1])
        assert np.array_equal(ranking, case.shown[action])
        assert token[2] == pytest.approx(P[case.group == case.group[action]].sum(), rel=1e-12)
        count[action] += 1
        explored += token[0]
    assert explored == 0.4 * grid**2
    assert np.abs(count / grid**2 - P).max() <= 2 / grid


@pytest.mark.parametrize("case", cases())
def test_every_row_of_the_plan_is_in_its_bound(case: Case) -> None:
    """C, D and R are what the proof needs; all classes that can be best are there, each once."""
    plan = case.learner.plan(case.shape)
    rows = {}
    for a, g in enumerate(case.group):
        for r, s in enumerate(case.signals[a]):
            rows[int(g), int(plan.seen.row[a, s])] = np.ptp(plan.values[plan.seen.row[a, s]])
            assert plan.seen.outcomes[plan.seen.row[a, s], r] == 1
    width = {g: max(w for (h, _), w in rows.items() if h == g) for g in {g for g, _ in rows}}
    assert plan.width == pytest.approx(sum(width.values()))
    assert plan.q.min() >= 0
    for g, w in width.items():
        assert plan.q[case.group == g].sum() == pytest.approx(w / plan.width)
    losses = case.loss[plan.action]
    assert len(np.unique(losses.round(12), axis=0)) == len(losses)
    assert np.allclose(losses.min(axis=0), case.loss.min(axis=0))
    assert plan.cost == pytest.approx((plan.q @ case.loss - losses.min(axis=0)).max())
    assert plan.max_loss == pytest.approx(max(plan.cost, np.ptp(losses, axis=0).max()))


def least_width(case: Case, action: Ints) -> float:
    """The least C, by one large program: a variable for every class and row, none saved by symmetry."""
    rows = sorted(
        {(int(g), tuple(row == s)) for g, row in zip(case.group, case.signals, strict=True) for s in row}
    )
    groups = sorted({g for g, _ in rows})
    N, R, G = len(action), len(rows), len(groups)
    S = np.array([mask for _, mask in rows], dtype=float)
    differences = case.loss[action] - case.loss[action[0]]
    within = []
    for (i, j), r in product(permutations(range(N), 2), range(R)):
        line = np.zeros(N * R + G)
        line[i * R + r], line[j * R + r], line[N * R + groups.index(rows[r][0])] = 1, -1, -1
        within.append(line)
    unbiased = np.hstack([np.kron(np.eye(N), S.T), np.zeros((N * S.shape[1], G))])
    cost = np.repeat([0.0, 1.0], [N * R, G])
    found = linprog(cost, within, np.zeros(len(within)), unbiased, differences.ravel(), bounds=(None, None))
    assert found.fun is not None
    return float(found.fun)


@pytest.mark.parametrize("case", [c for c in cases() if "aucloss" not in str(c.id) and "4" not in str(c.id)])
def test_no_other_estimates_have_a_smaller_width(case: Case) -> None:
    plan = case.learner.plan(case.shape)
    assert plan.width == pytest.approx(least_width(case, plan.action), rel=1e-7)


def test_least_squares_alone_would_give_a_larger_width() -> None:
    """The figures of the page."""
    case = Case(FeedExp3(DCG()), Shape(4, 0, 2))
    rows = sorted(
        {(int(g), tuple(row == s)) for g, row in zip(case.group, case.signals, strict=True) for s in row}
    )
    v = (
        np.linalg.pinv(np.array([mask for _, mask in rows], dtype=float).T)
        @ (case.loss - case.loss.mean(axis=0)).T
    )
    width = {g: max(np.ptp(v[n]) for n, (h, _) in enumerate(rows) if h == g) for g, _ in rows}
    assert sum(width.values()) == pytest.approx(1.14, abs=5e-3)
    assert case.learner.plan(case.shape).width == pytest.approx(0.72, abs=5e-3)


class Twin:
    """The algorithm in NumPy, from the page; of the learner it takes v, q and the classes only."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.plan, self.rng = case, case.learner.plan(case.shape), make_rng(seed)
        self.L, self.t = np.zeros(len(self.plan.action)), 1

    def tuning(self) -> tuple[float, float]:
        plan, T = self.plan, self.case.learner.horizon
        C, D, entropy = plan.width, plan.cost, log(len(plan.action))
        if T is not None:
            gamma = (C**2 * entropy / (8 * D**2 * T)) ** (1 / 3)
            return gamma, 8 * D * gamma**2 / C**2
        a = (C**2 * entropy / (12 * D**2)) ** (1 / 3)
        gamma = min(0.5, a * self.t ** (-1 / 3))
        return gamma, np.sqrt(16 * entropy / (3 * a * C**2)) * self.t ** (-1 / 3) * gamma

    def play(self, outcome: int) -> int:
        gamma, eta = self.tuning()
        p = np.exp(-eta * (self.L - self.L.min()))
        p /= p.sum()
        u, w = self.rng.random(2)
        if u < gamma:
            action = int(np.searchsorted(np.cumsum(self.plan.q), w, side="right"))
        else:
            action = int(self.plan.action[np.searchsorted(np.cumsum(p), w, side="right")])
        same = self.case.group == self.case.group[action]
        P = gamma * self.plan.q[same].sum() + (1 - gamma) * p[same[self.plan.action]].sum()
        self.L += self.plan.values[self.plan.seen.row[action, self.case.signals[action, outcome]]] / P
        self.t += 1
        return action


@pytest.mark.parametrize("case", cases(800) + cases(None))
def test_the_learner_plays_as_its_naive_twin(case: Case) -> None:
    agent, twin = Agent(case.learner, m=case.shape.m, k=case.shape.k, seed=3), Twin(case, seed=3)
    for outcome in np.random.default_rng(2).integers(case.loss.shape[1], size=300):
        decision = agent.rank()
        action = twin.play(int(outcome))
        assert np.array_equal(decision.ranking, case.shown[action])
        agent.update(decision, case.answers[action][outcome])
    assert np.allclose(agent._state.losses, twin.L, rtol=1e-9, atol=1e-9 * np.abs(twin.L).max())


@pytest.mark.parametrize("case", [c for c in cases() if c.id in ("label-efficient", "ndcg 3 2 1", "posted-price")])
@pytest.mark.parametrize("horizon", [2, 40, 1000, 10**6])
def test_the_bound_is_the_sum_that_was_proved(case: Case, horizon: int) -> None:
    plan = case.learner.plan(case.shape)
    entropy = log(len(plan.action))
    known = FeedExp3(case.learner.measure, horizon).bound(case.shape, horizon)
    gammas, etas = np.geomspace(1e-5, 0.5, 400)[:, None], np.geomspace(1e-7, 10, 4000)
    tried = gammas * plan.cost * horizon + entropy / etas + etas * plan.width**2 * horizon / (8 * gammas)
    assert known == pytest.approx(min(tried.min(), plan.max_loss * horizon), rel=1e-3)
    if horizon <= 1000:
        twin = Twin(case, 0)
        tunings = []
        for twin.t in range(1, horizon + 1):
            tunings.append(twin.tuning())
        gamma, eta = np.array(tunings).T
        assert np.all(np.diff(eta) <= 0)
        total = plan.cost * gamma.sum() + entropy / eta[-1] + plan.width**2 / 8 * np.sum(eta / gamma)
        anytime = case.learner.bound(case.shape, horizon)
        assert anytime is not None
        assert min(total, plan.max_loss * horizon) <= anytime <= min(1.3 * total, plan.max_loss * horizon)


def test_the_bound_in_closed_form() -> None:
    game, T = classic("label-efficient"), 100_000  # C = D = 1: asking costs 1 and shows all
    assert FeedExp3(game, T).bound(Shape(3, 0, 1), T) == pytest.approx(1.5 * (log(2) * T**2) ** (1 / 3))
    assert FeedExp3(game).bound(Shape(3, 0, 1), T) == pytest.approx(4.5 * (log(2) * T**2 / 12) ** (1 / 3))


@pytest.mark.parametrize("case", cases())
def test_a_horizon_that_is_too_short_is_warned_of(case: Case) -> None:
    plan = case.learner.plan(case.shape)
    for rounds in range(1, plan.min_horizon + 3):
        learner = FeedExp3(case.learner.measure, rounds, case.learner.max_grade)
        bound = learner.bound(case.shape, rounds)
        assert bound is not None
        if rounds < plan.min_horizon:
            assert bound == plan.max_loss * rounds
            with pytest.warns(UserWarning, match=f"says nothing below {plan.min_horizon} rounds"):
                learner.init(case.shape)
        else:
            assert bound < plan.max_loss * rounds or rounds == plan.min_horizon
            learner.init(case.shape)


@pytest.mark.parametrize("name", ["label-efficient", "dynamic-pricing", "telling-corner", "bandit"])
@pytest.mark.parametrize("anytime", [False, True])
def test_regret_stays_below_the_bound_and_has_its_exponent(name: str, anytime: bool) -> None:
    game, horizons, found = classic(name), (2_000, 8_000, 32_000), []
    uniform = np.full(len(game.outcomes), 1 / len(game.outcomes))
    for T in horizons:
        learner = FeedExp3(game, None if anytime else T)
        bound = learner.bound(Shape(len(game.actions), 0, 1), T)
        assert bound is not None
        lost = []
        for n, p in enumerate([uniform, *np.eye(len(uniform))]):
            draws = [np.random.default_rng([n, run]).choice(len(p), size=T, p=p) for run in range(4)]
            lost.append(np.mean([play_game(learner, game, d, seed=i).regret[-1] for i, d in enumerate(draws)]))
        assert max(lost) <= bound
        found.append(max(lost))
    assert np.polyfit(np.log(horizons), np.log(found), 1)[0] == pytest.approx(2 / 3, abs=0.1)


def test_of_duplicates_the_telling_one_is_played() -> None:
    game = classic("telling-duplicate")
    assert [game.actions[a] for a in FeedExp3(game).plan(Shape(3, 0, 1)).action] == ["heads, then look", "tails"]


def test_actions_that_are_never_best_have_no_weight_but_may_be_asked() -> None:
    plan = FeedExp3(classic("label-efficient")).plan(Shape(3, 0, 1))
    assert plan.action.tolist() == [0, 1]
    assert plan.q.tolist() == [0, 0, 1]


def test_of_actions_that_show_the_same_the_cheap_one_explores() -> None:
    shown = [["-", "-"], ["-", "-"], ["a", "b"], ["x", "y"]]
    plan = FeedExp3(Game.of([[0, 1], [1, 0], [9, 9], [2, 2]], shown)).plan(Shape(4, 0, 1))
    assert plan.q.tolist() == [0, 0, 0, 1]
    assert (plan.width, plan.cost) == (1, 2)


def test_hopeless_games_are_refused_with_the_reason() -> None:
    for measure, shape in ((NDCG(), Shape(3, 0, 1)), (AveragePrecision(), Shape(5, 0, 3))):
        learner = FeedExp3(measure)
        with pytest.raises(
            ValueError, match=r"^hopeless: .* needs the answers for \d items .* show more feedback"
        ):
            learner.init(shape)
        assert learner.bound(shape, 1000) is None
    with pytest.raises(
        ValueError, match=r"^hopeless: no feedback shows .* 'heads' and 'tails' .* show more feedback"
    ):
        FeedExp3(classic("blind-pennies")).init(Shape(2, 0, 1))


@dataclass(frozen=True)
class OwnAP:
    """A measure that no theorem of the package knows."""

    name: ClassVar[str] = "own"
    higher_is_better: ClassVar[bool] = True

    def values(self, rankings: Ints, relevance: Any) -> Floats:
        return AveragePrecision().values(rankings, relevance)


def test_a_measure_of_ones_own_is_learned_where_it_can_be() -> None:
    one, two = (FeedExp3(measure).plan(Shape(3, 0, 2)) for measure in (OwnAP(), AveragePrecision()))
    assert (one.width, one.cost, one.max_loss) == pytest.approx((two.width, two.cost, two.max_loss))
    with pytest.raises(ValueError, match=r"^hopeless: no combination of the feedback"):
        FeedExp3(OwnAP()).init(Shape(3, 0, 1))


@pytest.mark.parametrize(("name", "m"), [("ap", 4), ("dcg", 4), ("p@2+sum", 4), ("ndcg", 3), ("aucloss", 4)])
def test_all_rankings_are_pareto_optimal_but_for_duplicates(name: str, m: int) -> None:
    """What FeedExp3 takes for granted of ranking games, by the analyser."""
    game = ranking_game(name, m, m)
    known = analyse(game).cells
    assert known is not None
    assert set(known.kind) == {"pareto"}
    assert len(FeedExp3(measure_named(name)).plan(Shape(m, 0, m)).action) == len(np.unique(known.duplicate_of))


def test_games_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="m = 7: this learner enumerates the game of all rankings"):
        FeedExp3(DCG()).init(Shape(7, 0, 1))
    assert FeedExp3(DCG()).bound(Shape(1000, 0, 1), 1000) is None
    with pytest.raises(ValueError, match="2 actions needs m = 2 and k = 1"):
        FeedExp3(classic("matching-pennies")).init(Shape(3, 0, 1))
    for wrong in ({"horizon": 0}, {"max_grade": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            FeedExp3(DCG(), **wrong)


def test_trivial_games_are_played_without_exploring() -> None:
    for measure, shape in ((Precision(3, mean=False), Shape(3, 0, 1)), (classic("trivial"), Shape(2, 0, 1))):
        learner = FeedExp3(measure, 100)
        assert learner.bound(shape, 100) == 0
        agent = Agent(learner, m=shape.m, k=1)
        decisions = [agent.rank() for _ in range(50)]
        assert {tuple(d.ranking) for d in decisions} == {tuple(range(shape.m))}
        assert not any(d.token[0] for d in decisions)


def test_unanswered_rounds_are_left_out_and_wrong_ones_refused() -> None:
    game = classic("label-efficient")
    agent = Agent(FeedExp3(game), m=3, k=1)
    decision = agent.rank()
    agent.update(decision, [np.nan])
    assert agent._state.rounds[0] == 0
    assert not agent._state.losses.any()
    shows = game.signals[decision.ranking[0]]
    (other,) = {0, 1, 2} - set(shows.tolist()) if len(set(shows.tolist())) == 2 else {1}
    with pytest.raises(ValueError, match="never produces"):
        agent.update(decision, [other])
    for token in ([0, 3, 0.5], [0, -1, 0.5], [0, decision.token[1], 0], [0, (decision.token[1] + 1) % 3, 0.5]):
        with pytest.raises(ValueError, match="not from this agent"):
            agent.update(decision._replace(token=np.array(token)), [shows[0]])
    assert agent._state.rounds[0] == 0


def test_late_answers_count_as_they_would_have_at_once() -> None:
    game = classic("dynamic-pricing")
    one, two = (Agent(FeedExp3(game, 1000), m=5, k=1, seed=1) for _ in range(2))
    decisions = [one.rank() for _ in range(40)]
    answers = [game.signals[d.ranking[0], n % 5] for n, d in enumerate(decisions)]
    for n in np.random.default_rng(0).permutation(40):
        one.update(decisions[n], [answers[n]])
        two.update(decisions[39 - n], [answers[39 - n]])
    assert np.allclose(one._state.losses, two._state.losses, rtol=1e-12)


def test_an_agent_of_a_game_is_saved_and_goes_on() -> None:
    game = classic("dynamic-pricing")
    learner = FeedExp3(game)
    agent = Agent(learner, m=5, k=1, seed=1)
    copy = Agent.load(agent.dump(), learner)
    for n in range(200):
        one, two = agent.rank(), copy.rank()
        assert np.array_equal(one.ranking, two.ranking)
        for a, decision in ((agent, one), (copy, two)):
            a.update(decision, [game.signals[decision.ranking[0], n % 5]])
        if n == 100:
            copy = Agent.load(agent.dump(), learner)


def test_a_class_far_ahead_does_no_harm() -> None:
    learner, shape = FeedExp3(SumLoss(), 10**7), Shape(3, 0, 1)
    state = learner.init(shape)
    state.losses[:] = 1e12 * np.arange(len(state.losses))
    ranking, token, rng = np.empty(3, np.int64), np.zeros(3), np.random.default_rng(0)
    for _ in range(2000):
        learner.kernels.rank(state, NO_FEATURES, rng.random(2), ranking, token)
        learner.kernels.update(state, NO_FEATURES, ranking, token, np.ones(1))
        assert token[2] > 0
    assert np.isfinite(state.losses).all()
    assert np.array_equal(ranking, [0, 1, 2])


def test_states_do_not_share_memory() -> None:
    learner, shape = FeedExp3(DCG()), Shape(3, 0, 1)
    one, two = learner.init(shape), learner.init(shape)
    for a, b in zip(one, two, strict=True):
        assert not (isinstance(a, np.ndarray) and np.shares_memory(a, b))


@pytest.mark.parametrize(
    "learner",
    [
        FeedExp3(Precision(1, mean=False), horizon=4000),
        FeedExp3(Precision(2, mean=False)),
        FeedExp3(DCG(), horizon=4000),
        FeedExp3(SumLoss(), horizon=4000),
    ],
    ids=str,
)
def test_it_passes_every_check_of_a_learner(learner: FeedExp3) -> None:
    check_learner(learner)


def test_a_game_does_not_need_to_be_small_in_numbers() -> None:
    game = partial(Game.of, feedback=[["-", "-"], ["-", "-"], ["heads", "tails"]])
    small, large = (FeedExp3(game([[0, x], [x, 0], [x, x]])).plan(Shape(3, 0, 1)) for x in (1, 10**9))
    assert (large.width, large.cost, large.max_loss) == pytest.approx(
        (1e9 * small.width, 1e9 * small.cost, 1e9 * small.max_loss)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert large.min_horizon == small.min_horizon


@pytest.mark.parametrize(("m", "grades"), [(2, 2), (3, 2), (2, 4), (3, 3), (4, 2)])
@pytest.mark.parametrize("name", ["sumloss", "pairwiseloss", "dcg@2", "p@1+sum", "ndcg", "ap", "aucloss"])
def test_every_small_game_fits_unless_it_is_hopeless(name: str, m: int, grades: int) -> None:
    for k in range(1, m + 1):
        bound = FeedExp3(measure_named(name), 10**6, max_grade=grades - 1).bound(Shape(m, 0, k), 10**6)
        assert (bound is None) == (rate_of(measure_named(name), m, k, grades).rate is Rate.LINEAR)


def test_groups_that_are_one_by_symmetry_are_explored_alike() -> None:
    plan = FeedExp3(PairwiseLoss(), 10**6, max_grade=2).plan(Shape(4, 0, 2))
    assert np.bincount(plan.seen.group, plan.q) == pytest.approx(1 / 6)
