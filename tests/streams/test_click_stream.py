"""Streams with click feedback, against rules and models implemented a second time."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from peekrank import CT15, DCG, Agent, Bernoulli, DoubtSort, Greedy, Uniform, play, simulate
from peekrank.engine.feedback import reveal
from peekrank.evaluation.position_bias import estimate_curve
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.runs import data_digest
from peekrank.kernels.philox import fill_uniforms
from peekrank.streams import Clicks, stream
from peekrank.streams.clicks import Cascade, ClickModel, DependentClick, PositionBased
from peekrank.streams.feedback_rules import parse_rules
from peekrank.types import Floats, Rounds

TRUST = PositionBased((0.95, 0.7, 0.4), (0.15, 0.1, 0.0))
CASES: list[tuple[ClickModel, str]] = [
    (TRUST, "click = 1; curve 0.95/0.15 0.7/0.1 0.4"),
    (TRUST, "click = 1; curve 1 1 1"),
    (TRUST, "click = 1; cascade"),
    (Cascade(), "click = 1; cascade"),
    (DependentClick((0.6, 0.3), skip=0.25), "click = 1; cascade"),
    (DependentClick((0.6, 0.3)), "click = 1; curve 1 0.5 0.25"),
]


def naive_clicks(model: ClickModel, relevance: Floats, u: Floats) -> list[int]:
    """Clicks by the definitions of the models, one position after the other."""
    clicks: list[int] = []
    for p, r in enumerate(relevance):
        if isinstance(model, PositionBased):
            clicks.append(int(u[2 * p] < model.if_relevant[p] * r + model.if_irrelevant[p] * (1 - r)))
            continue
        assert isinstance(model, Cascade | DependentClick)
        left = any(
            c
            and not (
                isinstance(model, DependentClick)
                and q < len(model.continuation)
                and u[2 * q + 1] < model.continuation[q]
            )
            for q, c in enumerate(clicks)
        )
        clicks.append(int(not left and u[2 * p] < (1 - model.skip) * r))
    return clicks


@pytest.mark.parametrize(("model", "taken"), CASES)
def test_feedback_follows_the_rules_and_the_model(model: ClickModel, taken: str) -> None:
    graded = stream("binomial:m=5,max_grade=2")
    made = parse_rules(taken)
    rounds = Clicks(graded, model, made).rounds(300, np.random.default_rng(3))
    assert rounds.visitors is not None
    rng = np.random.default_rng(4)
    for n in range(300):
        ranking, u = rng.permutation(5)[:3], np.empty(9)
        fill_uniforms(rounds.visitors.key, 10 + n, u)
        relevance = rounds.relevance.reshape(-1, 5)[n][ranking] / 2
        reports = [{"click": float(c)} for c in naive_clicks(model, relevance, u)]
        expected = made.as_grades(made.estimates(reports), u[6:])
        assert reveal(rounds, n, ranking, 10 + n) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("relevance", list(product([0, 1, 2], repeat=2)))
def test_feedback_through_the_right_curve_does_not_depend_on_the_position(relevance: tuple[int, int]) -> None:
    """The mean feedback is (R - low) / (high - low) at every position."""
    source = Clicks(stream("binomial:m=2,max_grade=2"), PositionBased((0.9, 0.5), (0.2, 0.1)))
    rounds = source.rounds(1, np.random.default_rng(0))._replace(relevance=np.array(relevance, np.uint8))
    told = np.array([reveal(rounds, 0, np.array([0, 1]), number) for number in range(20_000)])
    low, high = source.rules.spread
    assert told.mean(axis=0) == pytest.approx((np.array(relevance) / 2 - low) / (high - low), abs=0.015)


@pytest.mark.parametrize(("model", "taken"), CASES[2:5])
def test_simulate_and_play_and_a_log_agree(model: ClickModel, taken: str) -> None:
    rounds = Clicks(CT15(m=5), model, parse_rules(taken)).rounds(200, np.random.default_rng(1))
    for learner in (DoubtSort(DCG()), Greedy(DCG())):
        one = simulate(learner, rounds, k=3, measure=DCG(), seed=5)
        two = play(learner, rounds, k=3, measure=DCG(), seed=5)
        assert np.array_equal(one.value, two.value)
        log = simulate_log(Agent(learner, m=5, k=3, seed=5), rounds)
        value = DCG().values(np.argsort(log.position.reshape(-1, 5), axis=1), rounds.relevance.reshape(-1, 5))
        assert np.cumsum(value) == pytest.approx(one.value)


def lost(rounds: Rounds, best: float) -> float:
    trace = simulate(Greedy(DCG()), rounds, k=3, measure=DCG(), seed=2, checkpoints=np.array([15_000, 30_000]))
    return best - float(np.diff(trace.value)[0]) / 15_000


def test_the_right_curve_teaches_items_and_silence_taken_for_0_teaches_positions() -> None:
    means = Bernoulli((0.3, 0.4, 0.5, 0.6, 0.7))
    best = float(DCG().discount(5) @ (0.7, 0.6, 0.5, 0.4, 0.3))
    people = PositionBased((1.0, 0.3, 0.1))
    right, raw = (
        lost(Clicks(means, people, taken).rounds(30_000, np.random.default_rng(7)), best)
        for taken in (None, parse_rules("click = 1; curve 1 1 1"))
    )
    assert right < 0.05 < raw


def test_raw_clicks_in_a_log_reveal_the_curve() -> None:
    people = PositionBased((1.0, 0.6, 0.3))
    source = Clicks(Bernoulli((0.3, 0.4, 0.5, 0.6, 0.7)), people, parse_rules("click = 1; curve 1 1 1"))
    log = simulate_log(Agent(Uniform(), m=5, k=3, seed=1), source.rounds(8_000, np.random.default_rng(2)))
    assert estimate_curve(log).examined == pytest.approx(people.if_relevant, abs=0.05)


def test_more_positions_than_the_curve_has_are_rejected() -> None:
    rounds = stream("clicks:stream=ct15,model=position:if_relevant=1+0.5").rounds(5, np.random.default_rng(0))
    for run in (simulate, play):
        with pytest.raises(ValueError, match="k = 3: the click model describes only the first 2 positions"):
            run(Uniform(), rounds, k=3, measure=DCG())
    with pytest.raises(ValueError, match="k = 3: the click model"):
        simulate_log(Agent(Uniform(), m=10, k=3), rounds)


@pytest.mark.parametrize("taken", ["grades", "click = 1; seen", "purchase = 1; cascade", "click = 2; cascade"])
def test_feedback_that_click_models_cannot_give_is_rejected(taken: str) -> None:
    with pytest.raises(ValueError, match="simulated users give clicks only, neither"):
        stream(f"clicks:stream=ct15,feedback=[{taken}]")


def test_a_file_below_clicks_counts_as_data(tmp_path: Path) -> None:
    file = tmp_path / "votes.soc"
    file.write_text("# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n")
    assert data_digest(stream(f"clicks:stream=[{file}]")) is not None
    assert data_digest(stream("clicks:stream=ct15")) is None


def test_an_experiment_takes_clicks_by_their_specification() -> None:
    stream_text, model_text = "[bernoulli:means=0.9+0.5]", "[position:if_relevant=1+0.5]"
    text = f"clicks:stream={stream_text},model={model_text},feedback=[click = 1; curve 1 1]"
    made = Experiment(("doubtsort",), text, "dcg", k=2, horizon=10)
    assert made.rounds(0).visitors is not None
    assert made.shape.m == 2
