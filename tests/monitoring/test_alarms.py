"""Alarms: the naive twin, money on average by enumeration, false alarms as rare as stated, and planted faults."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers.naive_alarms import NaiveWatch
from peekrank import DCG, Agent, learner
from peekrank._jit.fingerprint import fingerprint
from peekrank.evaluation.jsonl import LogWriter
from peekrank.evaluation.log import read_log
from peekrank.monitoring.alarms import NAMES, OVERALL, PER_ITEM, Monitor, Outcome
from peekrank.monitoring.state import EXPECTED, HIDDEN, PUSHED, UNEXPECTED, observe_many
from peekrank.monitoring.tail import monitor_log
from peekrank.types import Floats, Ints

M, K = 6, 2


class World(NamedTuple):
    """Decisions as the arrays of a log have them."""

    offsets: Ints
    items: Ints
    propensities: Floats
    positions: Ints
    answers: Floats
    ks: Ints

    def outcomes(self) -> list[Outcome]:
        rows = [slice(a, b) for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]
        return [
            Outcome(self.items[r], self.propensities[r], self.positions[r], self.answers[r], int(k))
            for r, k in zip(rows, self.ks, strict=True)
        ]


def world(n: int, rng: np.random.Generator, *, rate: float = 0.5, epsilon: float = 0.2) -> World:
    """A learner that sorts by number, and moves one of the others to position k with probability epsilon."""
    positions = np.tile(np.arange(M), (n, 1))
    for t in np.flatnonzero(rng.random(n) < epsilon):
        j = int(rng.integers(K, M))
        positions[t, K - 1], positions[t, j] = j, K - 1
    propensities = np.tile([1.0] * (K - 1) + [1 - epsilon] + [epsilon / (M - K)] * (M - K), (n, 1))
    liked = rng.random((n, M)) < np.linspace(0.8, 0.3, M)
    told = (positions < K) & (rng.random((n, M)) < rate)
    answers = np.where(told, liked, np.nan).astype(np.float64)
    return World(
        np.arange(0, n * M + 1, M), np.tile(np.arange(M), n), propensities.ravel(), positions.ravel(),
        answers.ravel(), np.full(n, K),
    )  # fmt: skip


def joined(*worlds: World) -> World:
    parts = [np.concatenate([getattr(w, name) for w in worlds]) for name in World._fields[1:]]
    return World(np.arange(0, len(parts[0]) + 1, M), *parts)


def raised_by(made: World, alpha: float = 1e-4, **options: Any) -> dict[tuple[str, int | None], int]:
    """Alarms, and when they were raised first."""
    watch = Monitor(alpha, **options)
    watch.observe_many(*made)
    return {(alarm.name, alarm.item): alarm.since for alarm in watch.raised()}


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_alarms_are_those_of_the_naive_twin(tolerance: float) -> None:
    """With an alpha so large that alarms are frequent, accounts and pasts begin anew many times."""
    alpha, rng = 0.5, np.random.default_rng(3)
    made = joined(world(60, rng, rate=0.9), world(40, rng, rate=0.1))
    watch, twin, found = Monitor(alpha, tolerance=tolerance), NaiveWatch(alpha, tolerance=tolerance), []
    for outcome in made.outcomes():
        before = {(a.name, a.item): a.times for a in watch.raised()}
        watch.observe(outcome)
        for a in watch.raised():
            found += [(watch.rounds, a.name, a.item)] * (a.times - before.get((a.name, a.item), 0))
        items, propensities, positions, answers = (part.tolist() for part in outcome[:4])
        twin.observe(items, propensities, positions, answers, outcome.k)
    assert sorted(map(str, found)) == sorted(map(str, twin.raised))
    assert {"no-exploration", "fewer-answers", "unexpected-order", "item-fewer-answers"} <= {
        name for _, name, _ in found
    }
    arrays = watch.arrays()
    for kind, name in enumerate(OVERALL):
        assert arrays["overall"][kind] == pytest.approx(twin.accounts[name, None].parts, rel=1e-9, abs=1e-12)
    for item in range(M):
        for kind, name in enumerate(PER_ITEM):
            parts = twin.accounts[name, item].parts
            assert arrays["items"][item, kind] == pytest.approx(parts, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_money_on_what_is_shown_is_fair_by_enumeration(k: int) -> None:
    """Over all sets that a policy may show, the accounts hold on average what was put in, and no more."""
    sets = list(combinations(range(4), k))
    weights = np.random.default_rng(k).dirichlet(np.ones(len(sets)))
    propensities = np.zeros(4)
    for chosen, weight in zip(sets, weights, strict=True):
        propensities[list(chosen)] += weight
    overall, items = np.zeros((7, 4)), np.zeros((4, 6, 4))
    for chosen, weight in zip(sets, weights, strict=True):
        watch = Monitor(1e-9)
        positions = np.array([chosen.index(i) if i in chosen else k + i for i in range(4)])
        watch.observe(Outcome(np.arange(4), propensities, positions, np.full(4, np.nan), k))
        arrays = watch.arrays()
        overall += weight * arrays["overall"]
        items += weight * arrays["items"]
    for kind in (UNEXPECTED, EXPECTED):
        assert overall[kind] == pytest.approx(np.full(4, 1 / 52), rel=1e-9)
    for kind in (HIDDEN, PUSHED):
        assert items[:, kind].sum() == pytest.approx(1 / 13, rel=1e-6)
    assert items[:, HIDDEN].sum(axis=1) == pytest.approx(propensities / k / 13, rel=1e-6)


def test_an_answer_that_is_copied_to_all_items_is_noticed() -> None:
    made = world(3000, np.random.default_rng(8), rate=1.0)
    answers = made.answers.reshape(-1, M).copy()
    seen = ~np.isnan(answers)
    copied = np.where(seen, np.nanmax(answers, axis=1, keepdims=True), np.nan)
    assert ("equal-answers", None) not in raised_by(made, 1e-6)
    assert 300 < raised_by(made._replace(answers=copied.ravel()), 1e-6)[("equal-answers", None)] < 600
    nothing = np.where(seen, 0.0, np.nan)  # nobody likes anything: that is no copy
    assert ("equal-answers", None) not in raised_by(made._replace(answers=nothing.ravel()), 1e-6)


def test_one_by_one_and_all_at_once_are_the_same_bits() -> None:
    made = world(400, np.random.default_rng(5))
    one, all_at_once = Monitor(0.01), Monitor(0.01)
    for outcome in made.outcomes():
        one.observe(outcome)
    all_at_once.observe_many(*made)
    assert one.raised() == all_at_once.raised()
    for name, part in one.arrays().items():
        assert np.array_equal(part, all_at_once.arrays()[name]), name


def test_a_memory_goes_on_bit_for_bit() -> None:
    made, rng = world(300, np.random.default_rng(6)), np.random.default_rng(7)
    one, two = Monitor(0.01), Monitor(0.01)
    one.observe_many(*made)
    two.restore(one.arrays())
    more = world(300, rng)
    one.observe_many(*more)
    two.observe_many(*more)
    for name, part in one.arrays().items():
        assert np.array_equal(part, two.arrays()[name]), name
    assert two.rounds == 600


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated() -> None:
    """400 runs: the mean number of decisions before the first alarm of any kind is 1 / alpha at least."""
    alpha, rng, first = 0.01, np.random.default_rng(8), []
    for _ in range(400):
        watch = Monitor(alpha)
        while not watch.raised():
            watch.observe_many(*world(50, rng))
        first.append(min(alarm.since for alarm in watch.raised()))
    spread = np.std(first) / np.sqrt(len(first))
    assert np.mean(first) - 3 * spread > 1 / alpha


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "greedy", "doubtsort", "blockftrl", "marginftrl"])
def test_learners_show_items_as_often_as_they_say(name: str) -> None:
    """Propensities of live, adaptive learners: nothing is raised at one false alarm in a million."""
    agent, watch = Agent(learner(name, measure=DCG()), m=M, k=K, seed=4), Monitor(1e-6)
    liked = np.random.default_rng(16).random((1500, M)) < np.linspace(0.3, 0.8, M)
    for row in liked:
        decision, answers = agent.rank(), np.full(M, np.nan)
        seen = decision.ranking[:K]
        answers[seen] = row[seen]
        assert decision.propensities is not None
        watch.observe(Outcome(np.arange(M), decision.propensities, np.argsort(decision.ranking), answers, K))
        agent.update(decision, answers[seen])
    assert watch.raised() == ()


def test_an_app_that_sorts_by_itself_is_noticed() -> None:
    rng = np.random.default_rng(9)
    fault = world(60, rng)
    fault.positions[:] = np.argsort(rng.random((60, M)), axis=1).ravel()
    found = raised_by(joined(world(500, rng), fault))
    assert 500 < found["unexpected-order", None] < 515


def test_an_app_that_undoes_exploration_is_noticed() -> None:
    rng = np.random.default_rng(10)
    found = raised_by(
        joined(world(500, rng), world(400, rng, epsilon=0.0)._replace(propensities=world(400, rng).propensities))
    )
    assert found["no-exploration", None] > 500


def test_an_app_that_hides_or_pins_an_item_is_noticed_by_its_name() -> None:
    rng = np.random.default_rng(11)
    fault = world(200, rng)
    positions = fault.positions.reshape(-1, M)
    positions[:, 0], positions[:, 4] = 5, 0  # item 0 was certain, item 4 rare
    found = raised_by(joined(world(500, rng), fault), name_of="abcdef".__getitem__)
    assert found["item-hidden", 0] == 501
    assert 500 < found["item-overexposed", 4] < 510


@pytest.mark.parametrize(
    ("change", "alarm"),
    [
        (lambda a, _: np.full_like(a, np.nan), ("fewer-answers", None)),
        (lambda a, _: np.where(np.isnan(a), a, 0.0), ("lower-grades", None)),
        (lambda a, i: np.where((i == 1) & ~np.isnan(a), 0.0, a), ("item-lower-grades", 1)),
        (lambda a, i: np.where((i == 1) & ~np.isnan(a), 1.0, a), ("item-higher-grades", 1)),
        (lambda a, i: np.where(i == 0, np.nan, a), ("item-fewer-answers", 0)),
        (lambda a, i: np.where((i == 0) & np.isnan(a), 1.0, a), ("item-more-answers", 0)),
    ],
)
def test_answers_that_change_are_noticed(change: Any, alarm: tuple[str, int | None]) -> None:
    rng = np.random.default_rng(12)
    fault = world(600, rng)
    fault = fault._replace(answers=change(fault.answers, fault.items))
    found = raised_by(joined(world(2000, rng), fault), tolerance=0.05)
    assert 2000 < found[alarm] < 2300
    assert all(since > 2000 for since in found.values())


def healthy(n: int, seed: int, *, tick: int = 0, by_position: bool = False, turned: bool = False) -> World:
    """People who answer by position, or by the time of day: the lowest rate is 80 % of the highest."""
    rng = np.random.default_rng(seed)
    made = world(n, rng)
    positions = made.positions.reshape(n, M)
    if turned:
        positions[n // 2 :] = np.where(positions[n // 2 :] < K, K - 1 - positions[n // 2 :], positions[n // 2 :])
    factor = np.ones((n, M)) if not by_position else np.array([1.0, 0.4, *[0.0] * (M - K)])[positions]
    if tick:
        factor = factor * (1 + np.sin(2 * np.pi * np.arange(n) / tick) / 9)[:, None]
    told = (positions < K) & (rng.random((n, M)) < 0.6 * factor)
    liked = rng.random((n, M)) < np.minimum(1, np.linspace(0.8, 0.3, M) * factor)
    return made._replace(positions=positions.ravel(), answers=np.where(told, liked, np.nan).ravel())


@pytest.mark.parametrize("kind", [{"by_position": True, "turned": True}, {"tick": 1000}, {"tick": 7000}], ids=str)
def test_healthy_logs_raise_nothing(kind: dict[str, Any]) -> None:
    """Another order within the first k where people answer by position; days and weeks; both.

    With an alpha a hundred times the default, one monitor in fifty could raise an alarm.
    """
    for seed in range(4):
        assert raised_by(healthy(20_000, seed, **kind), alpha=1e-6) == {}
        assert raised_by(healthy(20_000, seed, **{"by_position": True, **kind}), alpha=1e-6) == {}


def test_a_tolerance_of_none_tells_days_from_nights() -> None:
    assert raised_by(healthy(20_000, 0, tick=7000), alpha=1e-6, tolerance=0.0) != {}


def test_money_against_the_past_is_fair_where_means_change_within_the_tolerance() -> None:
    """The lowest mean is 80 % of the highest: in the mean no bet gains, whatever the order of the means."""
    watch, rng, total = Monitor(1e-9), np.random.default_rng(0), []
    for run in range(400):
        watch = Monitor(0.02)
        rates = np.where(np.arange(60) < 40, 0.9, 0.72) if run % 2 else np.tile([0.9, 0.72], 30)
        for rate in rates:
            answers = np.where(rng.random(2) < rate, 1.0, np.nan)
            watch.observe(Outcome(np.arange(2), np.ones(2), np.arange(2), answers, 2))
        total.append(sum(alarm.times for alarm in watch.raised()))
    assert np.mean(total) <= 60 * 0.02


def test_references_take_the_room_of_what_was_seen() -> None:
    """20,000 items of which few are shown: rows for those at their positions only, however they come."""
    watch, one_by_one, rng = Monitor(), Monitor(), np.random.default_rng(0)
    items = np.array([rng.choice(20_000, 4, replace=False) for _ in range(50)])
    columns = (np.full(200, 0.5), np.tile(np.arange(4), 50), np.zeros(200))
    watch.observe_many(np.arange(0, 201, 4), items.ravel(), *columns, np.full(50, 2))
    for row in items:
        one_by_one.observe(Outcome(row, np.full(4, 0.5), np.arange(4), np.zeros(4), 2))
    cells = {(item, p) for row in items.tolist() for p, item in enumerate(row[:2])}
    arrays = watch.arrays()
    assert len(arrays["references"]) == arrays["used"][0] == len(cells)
    assert np.argwhere(arrays["cells"] >= 0).tolist() == sorted(map(list, cells))
    assert np.array_equal(arrays["references"], one_by_one.arrays()["references"])
    assert arrays["cells"].shape[1] == 2


def test_nobody_answering_from_the_beginning_is_noticed() -> None:
    quiet = world(20_000, np.random.default_rng(13), rate=0.0)
    assert 5_000 < raised_by(quiet)["no-feedback", None] < 15_000


def test_answers_to_unknown_decisions_are_noticed() -> None:
    watch = Monitor(1e-4)
    watch.observe_many(*world(1000, np.random.default_rng(14)))
    watch.stray(1)
    assert watch.raised() == ()
    watch.stray(4)
    assert watch.raised()[0].name == "orphan-feedback"


def test_facts_are_raised_once_until_they_are_over() -> None:
    watch = Monitor(min_propensity=0.06)
    watch.observe_many(*world(10, np.random.default_rng(15)))
    watch.health("weights are not finite", [1.0, np.inf])
    watch.health("weights are not finite", [1.0, np.inf])
    assert [(alarm.name, alarm.times) for alarm in watch.raised()] == [
        ("low-propensity", 1), ("learner-failed", 1), ("overflow", 1),
    ]  # fmt: skip
    assert "Item '2' had propensity 0.05 in decision 1; the minimum is 0.06" in watch.raised()[0].cause
    watch.health()
    watch.health("again")
    assert watch.raised()[1].times == 2
    assert watch.raised()[1].cause == "The learner reports: again."


def test_decisions_that_say_nothing_teach_nothing() -> None:
    watch = Monitor(0.01)
    nothing = np.full(3, np.nan)
    watch.observe(Outcome(np.arange(3), nothing, np.arange(3), nothing, 1))  # propensities unknown
    watch.observe(Outcome(np.arange(3), np.ones(3), np.arange(3), nothing, 3))  # everything is seen
    watch.observe(Outcome(np.arange(3), nothing, np.full(3, -1), nothing, 1))  # nothing was shown
    assert not watch.arrays()["items"][:, [HIDDEN, PUSHED]].any()
    watch.observe_many(np.zeros(1, np.int64), *(np.empty(0),) * 4, np.empty(0, np.int64))  # type: ignore[arg-type]
    assert watch.rounds == 3


def test_alarms_are_json_and_metrics() -> None:
    watch = Monitor()
    watch.health("stuck")
    made = json.loads(json.dumps([alarm.as_dict() for alarm in watch.raised()]))
    assert made[0]["name"] == "learner-failed"
    assert made[0]["item"] is None
    metrics = watch.metrics()
    assert metrics['peekrank_alarms_total{alarm="learner-failed"}'] == 1
    assert len(metrics) == 1 + len(NAMES)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha = 2\.0: must be a number above 0 and below 1"):
        Monitor(2.0)
    with pytest.raises(ValueError, match="in this order"):
        Monitor(grades=(1.0, 0.0))
    with pytest.raises(ValueError, match=r"min_propensity = 1\.0"):
        Monitor(min_propensity=1.0)
    watch, three = Monitor(), np.zeros(3)
    with pytest.raises(ValueError, match=r"propensities of shape \(2,\)"):
        watch.observe(Outcome(np.arange(3), np.zeros(2), np.arange(3), three, 1))
    with pytest.raises(ValueError, match="items must be numbers from 0"):
        watch.observe(Outcome(np.array([-1, 0, 1]), three, np.arange(3), three, 1))
    with pytest.raises(ValueError, match="columns do not match"):
        watch.observe_many(np.array([0, 4]), np.arange(3), three, np.arange(3), three, np.array([1]))
    watch.observe(Outcome(np.arange(3), three, np.arange(3), three, 2**40))  # more than there are
    with pytest.raises(ValueError, match="'overall' is missing or does not fit"):
        watch.restore({})
    arrays = watch.arrays()
    with pytest.raises(ValueError, match="'items' must contain only finite"):
        watch.restore(arrays | {"items": np.full_like(arrays["items"], np.nan)})
    with pytest.raises(ValueError, match="do not match each other"):
        watch.restore(arrays | {"recent": np.zeros((5, 2))})
    watch.observe(Outcome(np.arange(3), three, np.array([2**50, 0, 1]), three, 2**60))  # a position of its own
    arrays = watch.arrays()
    for cells in (arrays["cells"] + 1, arrays["cells"] - 99):
        with pytest.raises(ValueError, match="'cells' must name rows of 'references'"):
            watch.restore(arrays | {"cells": cells})
    with pytest.raises(ValueError, match="all of which are in use"):
        watch.restore(arrays | {"used": arrays["used"] - 1})
    with pytest.raises(ValueError, match=r"tolerance = 1\.0: must be from 0 to below 1"):
        Monitor(tolerance=1.0)


def test_an_app_can_log_what_it_showed(tmp_path: Path) -> None:
    agent, path = Agent(learner("greedy", measure=DCG()), m=M, k=K, seed=5), tmp_path / "log.jsonl"
    with LogWriter(path, agent.learner) as log:
        for t in range(60):
            decision = agent.rank()
            shown = None if t < 30 else [5, 4]  # the app knows better
            event = log.log_decision(decision, k=K, shown=shown)
            log.log_feedback(event, [1, np.nan])
        with pytest.raises(
            ValueError,
            match=r"shown = \[5\]: must be at least 2 items of the decision, each "
            "once",
        ):
            log.log_decision(decision, k=K, shown=[5])
        with pytest.raises(ValueError, match="items of the decision"):
            log.log_decision(decision, k=K, shown=[5, 9])
        with pytest.raises(ValueError, match="each once"):
            log.log_decision(decision, k=K, shown=[5, 5])
    read = read_log(path)
    assert read.position.reshape(-1, M)[30:, [5, 4]].tolist() == [[0, 1]] * 30
    assert read.feedback.reshape(-1, M)[30:, 5].tolist() == [1.0] * 30
    watch = monitor_log(path, lambda low, high: Monitor(1e-4, grades=(low, high)), lambda _: None)
    found = {(alarm.name, alarm.item): alarm.since for alarm in watch.raised()}
    assert 30 < found["item-overexposed", 5] <= 60
    assert watch.name_of(5) == "5"


def test_the_compiled_kernel_can_be_kept() -> None:
    """A constant that cannot be described would mean a compilation in every process."""
    kept: Any = observe_many
    assert fingerprint(kept)
