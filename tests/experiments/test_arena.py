"""The arena: contests against a plain loop, opponents by their definition, the table of the experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import records
from records import parse_cell

from helpers.scripts import load_experiment
from peekrank import DCG, Agent, Uniform
from peekrank.engine.simulation import chunk_length
from peekrank.experiments.arena import ArenaResult, Opponent, draw, opponents, play_game, run_arena
from peekrank.games.analysis import analyse
from peekrank.games.classic import CLASSIC, classic
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.learners.feedexp3.learner import FeedExp3
from peekrank.types import Ints, Learner, Shape

ROOT = Path(__file__).parents[2]
GAMES = {name: example.game for name, example in CLASSIC.items()} | {
    "ndcg": ranking_game("ndcg", m=3, k=2),
    "p@2+sum": ranking_game("p@2+sum", m=3, k=1),
    "hopeless ap": ranking_game("ap", m=3, k=1),
}


def outcomes_of(game: Game, n: int) -> Ints:
    return np.random.default_rng(7).integers(len(game.outcomes), size=n)


@pytest.mark.parametrize(
    ("name", "learner"),
    [(name, FeedExp3(GAMES[name], 300)) for name in ("label-efficient", "bandit", "ndcg", "p@2+sum")]
    + [("hopeless ap", Uniform())],
)
def test_a_contest_is_what_an_agent_plays_step_by_step(name: str, learner: Learner) -> None:
    game = GAMES[name]
    numbers = outcomes_of(game, 300)
    checkpoints = np.array([1, 17, 300])
    contest = play_game(learner, game, numbers, seed=5, checkpoints=checkpoints)
    agent = Agent(learner, m=len(game.actions), k=1, seed=5)
    paid, explored = [], []
    for outcome in numbers:
        decision = agent.rank()
        action = int(decision.ranking[0])
        paid.append(game.loss[action, outcome])
        explored.append(int(decision.token[0]))
        agent.update(decision, [game.signals[action, outcome]])
    best = [min(sum(game.loss[a, r] for r in numbers[:t]) for a in range(len(game.actions))) for t in checkpoints]
    assert np.allclose(contest.loss, np.cumsum(paid)[checkpoints - 1])
    assert np.allclose(contest.best, best)
    assert np.allclose(contest.regret, np.cumsum(paid)[checkpoints - 1] - best)
    assert contest.explored.tolist() == np.cumsum(explored)[checkpoints - 1].tolist()


def test_rounds_and_outcomes_stay_together_over_many_chunks() -> None:
    """The loss tells the outcome, and the only action pays it."""
    game = Game.of([[0, 1, 5]] * 2, [["-"] * 3] * 2)
    n = 2 * chunk_length(2) + 100
    numbers = outcomes_of(game, n)
    checkpoints = np.arange(1, n + 1, 997)
    contest = play_game(Uniform(), game, numbers, checkpoints=checkpoints)
    assert np.allclose(contest.loss, np.cumsum(np.array([0, 1, 5])[numbers])[checkpoints - 1])
    assert not contest.regret.any()


def test_checkpoints_end_with_the_last_round() -> None:
    game = classic("bandit")
    contest = play_game(Uniform(), game, outcomes_of(game, 5000))
    assert contest.checkpoints[-1] == 5000
    assert len(contest.checkpoints) < 500


@pytest.mark.parametrize("wrong", [[], [2], [-1], [[0, 1]]])
def test_wrong_outcomes_are_refused(wrong: Any) -> None:
    game = classic("matching-pennies")
    with pytest.raises(ValueError, match="outcomes must be whole numbers from 0 to 1"):
        play_game(FeedExp3(game), game, wrong)


def test_a_learner_of_another_game_is_refused() -> None:
    game = classic("matching-pennies")
    for learner in (FeedExp3(classic("apple-tasting")), FeedExp3(DCG())):
        with pytest.raises(ValueError, match="feedexp3 was made for another game"):
            play_game(learner, game, [0, 1])


@pytest.mark.parametrize("name", GAMES)
def test_opponents_are_on_their_side_of_the_border(name: str) -> None:
    found = analyse(GAMES[name])
    assert found.cells is not None
    horizon = 10_000
    made = {o.name: o.phases for o in opponents(found, horizon)}
    for phases in made.values():
        assert phases.min() >= 0
        assert np.allclose(phases.sum(axis=1), 1)
    assert np.ptp(made["uniform"]) == 0
    loss, actions = found.game.loss, found.game.actions
    pairs = {frozenset((b.i, b.j)) for b in found.cells.borders}
    assert sum("just ahead of" in key for key in made) == 2 * len(pairs)
    for r, outcome in enumerate(found.game.outcomes):
        assert made[f"always {outcome}"][0, r] == 1
    for b in {frozenset((b.i, b.j)): b for b in reversed(found.cells.borders)}.values():
        i, j = actions[b.i], actions[b.j]
        (near_i,), (near_j,) = made[f"{i} just ahead of {j}"], made[f"{j} just ahead of {i}"]
        difference = loss[b.i] - loss[b.j]
        far_i, far_j = made[f"from {i} to {j}"]
        assert difference @ near_i < 0 < difference @ near_j
        assert difference @ far_i <= difference @ near_i < difference @ near_j <= difference @ far_j
        assert loss[b.i] @ near_i == pytest.approx(min(loss @ near_i))
        assert loss[b.j] @ near_j == pytest.approx(min(loss @ near_j))
        gap = np.abs(difference).max() * horizon ** (CLASSIC[name].rate.exponent - 1) if name in CLASSIC else 1
        assert difference @ near_j <= gap * (1 + 1e-9)


def test_opponents_of_a_blind_pair_differ_where_its_actions_do_not_see() -> None:
    found = analyse(GAMES["ndcg"])
    assert found.unobservable_pair is not None
    game = found.game
    i, j = (game.actions[a] for a in (found.unobservable_pair.i, found.unobservable_pair.j))
    made = {o.name: o.phases[0] for o in opponents(found, 1000)}
    one, two = made[f"{i} just ahead of {j}"], made[f"{j} just ahead of {i}"]
    for action in found.unobservable_pair.neighborhood:
        assert np.allclose(game.signal_matrix(action) @ one, game.signal_matrix(action) @ two)
    assert not all(np.allclose(game.signal_matrix(a) @ one, game.signal_matrix(a) @ two) for a in range(6))


def test_phases_take_equal_parts_and_outcomes_follow_them() -> None:
    opponent = Opponent("", np.array([[0.2, 0.8, 0], [0, 0.5, 0.5], [1, 0, 0]]))
    numbers = draw(opponent, 30_000, np.random.default_rng(0))
    for p, part in zip(opponent.phases, numbers.reshape(3, -1), strict=True):
        assert np.abs(np.bincount(part, minlength=3) / 10_000 - p).max() < 0.02
    assert [len(draw(opponent, n, np.random.default_rng(0))) for n in (1, 2, 7)] == [1, 2, 7]


def test_crossing_takes_the_worst_opponent_of_each_horizon() -> None:
    game = classic("label-efficient")
    said: list[str] = []
    rows = run_arena(
        {"labels": game}, {"feedexp3": FeedExp3, "any": lambda *_: Uniform()}, [500, 2000], 3, echo=said.append
    )
    assert said == ["labels done"]
    assert [(row.game, row.learner, row.rate) for row in rows] == [
        ("labels", "feedexp3", Rate.TWO_THIRDS),
        ("labels", "any", Rate.TWO_THIRDS),
    ]
    learned, random = rows
    assert random.opponent in ("always heads", "always tails")
    assert random.worst == pytest.approx([2 / 3 * 500, 2 / 3 * 2000], rel=0.1)  # one action in three is right
    assert random.exponent == pytest.approx(1, abs=0.1)
    assert random.bound is None
    assert learned.bound is not None
    assert 0 < learned.worst[-1] < learned.bound
    assert np.all(learned.spread > 0)
    for o in opponents(analyse(game), 2000):
        runs = [
            play_game(FeedExp3(game, 2000), game, draw(o, 2000, np.random.default_rng(s))).regret[-1]
            for s in range(3)
        ]
        assert np.mean(runs) < 1.5 * learned.worst[-1]


def test_games_tell_of_their_rounds_and_can_be_ended_between_runs() -> None:
    played: list[int] = []
    games, learners = {"labels": classic("label-efficient")}, {"any": lambda *_: Uniform()}
    run_arena(games, learners, [100, 200], 3, progress=played.append)
    assert sum(played) == 6 * 3 * (100 + 200)  # opponents, runs, horizons

    def stop(_: int) -> None:
        if len(played) == 20:
            raise InterruptedError
        played.append(0)

    played.clear()
    with pytest.raises(InterruptedError):
        run_arena(games, learners, [100, 200], 3, progress=stop)
    assert len(played) == 20


def test_a_learner_that_does_not_fit_says_why() -> None:
    (row,) = run_arena({"unobservable_pair": classic("blind-pennies")}, {"feedexp3": FeedExp3}, [100], 2)
    assert row.reason.startswith("hopeless: no feedback shows")
    assert (row.rate, row.bound, row.horizons) == (Rate.LINEAR, None, ())
    assert np.isnan(row.exponent)


experiment = load_experiment("arena")


def test_the_table_has_a_row_for_every_crossing() -> None:
    one = np.array([10.0, 20.0])
    rows = [
        ArenaResult("a", Rate.SQRT, "x", (100, 400), one, one / 10, "uniform", 1234.5),
        ArenaResult("b", None, "y", (100, 400), 0 * one, 0 * one, "always 1", None),
        ArenaResult(
            "c", Rate.LINEAR, "z", (), one[:0], one[:0], "", None, "hopeless: so it is. Do something else"
        ),
    ]
    assert experiment.table(rows).markdown()[2:] == [
        "| a | sqrt(T) | `x` | 20 ± 2 | 1,234 | 0.50 | uniform |",
        "| b | None | `y` | 0 ± 0 |  |  | always 1 |",
        "| c | T | `z` | hopeless: so it is |  |  |  |",
    ]


@pytest.mark.slow
def test_the_record_holds_the_table_of_the_experiment() -> None:
    (table,) = records.read(records.FOLDER / "arena.json").tables
    assert table.columns == list(experiment.table([]).heads)
    games = experiment.games()
    assert [row[:3:2] for row in table.rows] == [[g, f"`{name}`"] for g in games for name in experiment.LEARNERS]
    rows: list[Any] = table.rows
    for name, rate, who, worst, most, *_ in rows:
        assert rate == parse_cell(analyse(games[name]).rate)
        if most is not None:
            learner: Learner = experiment.LEARNERS[who.strip("`")](games[name], experiment.HORIZONS[-1])
            bound = learner.bound(Shape(len(games[name].actions), 0, 1), experiment.HORIZONS[-1])
            assert bound is not None
            assert most == round(bound)
            assert worst.value <= most
