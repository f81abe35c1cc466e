"""Advice: learners that fit, bounds that are theirs, changes that bring what they claim."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import combinations, permutations, product
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from peekrank import DCG, BlockFTRL, Champion, FeedExp3, MarginFTRL, Mixed, RTop1F, measure
from peekrank.advice import Advice, SurrogateAdvice, advise, advise_surrogate, benchmarks
from peekrank.checks import CheckError
from peekrank.checks.measures import sorting_by_relevance_is_best
from peekrank.games.analysis import analyse
from peekrank.games.minimax import rate_of
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate, Verdict
from peekrank.learners import learner
from peekrank.learners._shared import constants
from peekrank.measures import LinearMeasureMixin, Relevance, learnable, name_of
from peekrank.measures.sanity import prefers_relevant_first
from peekrank.registry import LEARNERS, SURROGATES
from peekrank.spec import format_spec
from peekrank.surrogates import surrogate
from peekrank.types import Floats, Ints, Measure, Shape

MEASURES = ("sumloss", "pairwiseloss", "dcg", "dcg@2", "dcg+linear", "p@1+sum", "p@3+sum", "ndcg", "ndcg@2", "ap",
            "aucloss",
            "rbp", "rbp@2:p=0.5", "rr", "err@2", "recall@2", "hit@2")  # fmt: skip
PROBLEMS = [
    (name, m, k, horizon, grades)
    for name, m, (grades, horizon) in product(MEASURES, (1, 2, 3, 7), ((2, 1), (2, 10**6), (3, 10**6)))
    for k in range(1, m + 1)
]


def can_be_learned(name: str, grades: int) -> bool:
    try:
        learnable(measure(name), grades - 1)
    except ValueError:
        return False
    return True


def can_be_listed(m: int, grades: int) -> bool:
    """Whether a learner of finite games takes the game of all rankings."""
    return m <= 6 and grades**m <= 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_small_problems(name: str) -> None:
    for problem in (p for p in PROBLEMS if p[0] == name):
        _, m, k, horizon, grades = problem
        advice = advise(*problem)
        assert advice.verdict == rate_of(measure(name), m, k, grades)
        listed = can_be_listed(m, grades) and advice.verdict.rate is not Rate.LINEAR
        assert (advice.learner is not None) == (can_be_learned(name, grades) or listed), problem
        if advice.learner is None:
            assert (advice.bound, advice.guarantee, advice.max_regret, advice.vacuous) == (None, None, None, False)
        else:
            check_learner_fits(advice)
        check_changes(advice)
        assert json.loads(json.dumps(advice.as_dict()))["k"] == k
        assert str(advice).startswith(
            f"problem: {name}, m = {m} {'item' if m == 1 else 'items'}, k = {k} revealed, {horizon:,} round"
        )


def check_learner_fits(advice: Advice) -> None:
    assert advice.learner is not None
    assert advice.horizon is not None
    assert advice.bound is not None
    assert advice.informative_from is not None
    assert advice.guarantee is not None
    shape = Shape(advice.m, 0, advice.k)
    made = learner(advice.learner)
    made.init(shape)
    bound = made.bound(shape, advice.horizon)
    assert bound == pytest.approx(advice.bound)
    largest = largest_difference(advice)
    assert advice.max_regret == pytest.approx(advice.horizon * largest)
    assert advice.vacuous == (largest > 0 and advice.bound >= advice.horizon * largest)
    assert advice.vacuous <= (advice.horizon < advice.informative_from)
    if largest:
        for factor, says in ((1, True), (2, True), (100, True), (0.5, False)):
            checkpoints = max(1, int(advice.informative_from * factor))
            then = made.bound(shape, checkpoints)
            assert then is not None
            assert (then < checkpoints * largest) == says or checkpoints < 10, (advice, checkpoints)
    if advice.verdict.rate is not None:
        assert advice.guarantee.exponent >= advice.verdict.rate.exponent
    names = [found.learner for found in advice.evidence]
    assert names == [*dict.fromkeys(name for name in (advice.stationary, advice.learner) if name)]
    assert [found.items_come_and_go for found in advice.evidence] == [
        learner(name).kernels.set_items is not None for name in names
    ]


def largest_difference(advice: Advice) -> float:
    judge = measure(advice.measure)
    if can_be_learned(advice.measure, advice.grades):
        return constants(learnable(judge, advice.grades - 1), advice.m, advice.grades - 1).R
    rankings = np.array(list(permutations(range(advice.m))))
    lists = product(range(advice.grades), repeat=advice.m)
    return max(float(np.ptp(judge.values(rankings, np.tile(row, (len(rankings), 1))))) for row in lists)


def check_changes(advice: Advice) -> None:
    for change in advice.changes:
        assert advice.horizon is not None
        assert change.horizon is not None
        there = advise(change.measure, advice.m, change.k, change.horizon, advice.grades)
        assert there.verdict.rate == change.rate
        assert change.bound == (None if there.vacuous else there.bound)
        assert there.learner is None or there.learner in change.what
        assert change.k > advice.k or change.measure != advice.measure or change.horizon > advice.horizon
        assert change.rate is not Rate.LINEAR
        assert (change.rate != advice.verdict.rate) or change.bound is not None or there.learner
    rate, ks = advice.verdict.rate, [change.k for change in advice.changes if change.k != advice.k]
    if rate in (Rate.LINEAR, Rate.TWO_THIRDS):
        rates = [rate_of(measure(advice.measure), advice.m, k, advice.grades).rate for k in range(1, advice.m + 1)]
        wanted = (Rate.SQRT,) if rate is Rate.TWO_THIRDS else (Rate.SQRT, Rate.TWO_THIRDS)
        assert next(k for k, found in enumerate(rates, 1) if found in wanted) in ks
    if rate in (Rate.ZERO, Rate.SQRT) and advice.learner and not advice.vacuous:
        assert not advice.changes


def test_the_best_rate_comes_first_then_what_was_lost() -> None:
    for horizon in (None, 1000):
        assert advise("dcg", 5, 3, horizon).learner == "marginftrl:measure=dcg"
        assert advise("dcg", 5, 4, horizon).learner == "permftrl:measure=dcg"
        assert advise("dcg@3", 5, 5, horizon, grades=4).learner == "permftrl:measure=dcg@3,max_grade=3"
        assert advise("p@2+sum", 5, 1, horizon).learner == "setftrl:measure=p@2+sum"
        assert (
            advise("dcg@1", 5, 1, horizon).learner == "permftrl:measure=dcg@1"
        )  # not measured: no horizon is told
        for problem in (("dcg", 5, 3), ("dcg", 5, 4), ("p@2+sum", 5, 1), ("sumloss", 9, 9)):
            assert advise(*problem, horizon).stationary == f"doubtsort:measure={problem[0]}"


def test_a_champion_is_advised_where_both_can_be_members() -> None:
    for grades in (2, 4):
        advice = advise("dcg", 5, 1, grades=grades)
        made = learner(advice.hedged or "")
        assert isinstance(made, Champion)
        assert made.max_grade == grades - 1
        assert [format_spec(one) for one in made.team()] == [advice.stationary, advice.learner]
        assert f"{advice.hedged} if you do not know which" in str(advice)
    assert advise("p@2+sum", 5, 1).hedged is None  # setftrl needs its own questions
    assert advise("ndcg", 5, 1).hedged is None


def test_mixed_is_advised_to_whom_has_a_score() -> None:
    for grades in (2, 4):
        advice = advise("dcg", 5, 1, grades=grades)
        made = learner(advice.scored or "")
        assert isinstance(made, Mixed)
        assert (made.high, made.measure) == (grades - 1, DCG())
        assert f"{advice.scored} if your app has a score" in str(advice)
    for problem in (("p@2+sum", 5, 1), ("ndcg", 5, 1), ("ndcg", 3, 3)):
        assert advise(*problem).scored is None


def test_what_advice_rests_on() -> None:
    """Of the learners that guarantee the same rate the chosen one lost least, and doubtsort less than it."""

    def loses(name: str, game: str, k: int, *, told: bool = False) -> float:
        rows = [row for row in benchmarks.streams() if row[:4] == (name, told, game, k) and row.rounds == 100_000]
        assert len(rows) == (2 if game == "p@3+sum" else 3)
        return float(np.prod([row.mean for row in rows]))

    for game, k, chosen, others in (
        ("dcg", 1, "marginftrl", ["blockftrl"]), ("dcg", 9, "permftrl", []), ("p@3+sum", 1, "setftrl", []),
        ("dcg", 10, "permftrl", ["marginftrl"]),
    ):  # fmt: skip
        assert advise(game, 10, k).learner == f"{chosen}:measure={game}"
        assert all(loses(chosen, game, k) < loses(other, game, k) for other in others)
        if chosen != "marginftrl":
            assert loses(chosen, game, k) < loses(chosen, game, k, told=True)
        assert loses("doubtsort", game, k) < loses(chosen, game, k)


def test_a_learner_told_its_horizon_is_advised_where_it_lost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    better = tuple(row._replace(mean=row.mean / 100) if row.knows_horizon else row for row in benchmarks.streams())
    monkeypatch.setattr(benchmarks, "streams", lambda: better)
    assert advise("p@2+sum", 5, 1, 1000).learner == "setftrl:measure=p@2+sum,horizon=1000"
    assert advise("p@2+sum", 5, 1).learner == "setftrl:measure=p@2+sum"


def test_evidence_is_what_was_measured() -> None:
    advice = advise("dcg+linear", 20, 2, 10**5)
    stable, learner = advice.evidence
    assert (stable.measure, stable.k, stable.items_come_and_go, learner.items_come_and_go) == (
        "dcg",
        1,
        True,
        True,
    )
    for found in advice.evidence:
        name = found.learner.partition(":")[0]
        rows = [
            row for row in benchmarks.streams() if row[:4] == (name, False, "dcg", 1) and row.rounds == 100_000
        ]
        assert found.loss_by_stream == {row.stream: row.mean for row in rows}
        assert found.loss_by_response_rate == {
            row.share: row.mean for row in benchmarks.visitors() if row.learner == name
        }
        assert list(found.loss_by_response_rate) == [1, 0.2, 0.05]
    assert advise("ndcg", 3, 3, 1000).evidence[0].loss_by_stream == {}


def test_without_a_number_of_rounds_there_are_rates_but_no_numbers() -> None:
    advice = advise("dcg", 10, 1)
    told = advise("dcg", 10, 1, 10**5)
    assert (advice.horizon, advice.bound, advice.max_regret, advice.vacuous) == (None, None, None, False)
    assert (advice.learner, advice.stationary, advice.guarantee) == (told.learner, told.stationary, told.guarantee)
    assert "guarantee: in every case, regret grows at most as T^(2/3) (marginftrl)" in str(advice)
    assert "rounds, grades" not in str(advice)
    assert json.loads(json.dumps(advice.as_dict()))["horizon"] is None
    assert all(change.bound is None and change.horizon is None for change in advice.changes)
    assert advise("ndcg", 3, 3).learner == "nw2:measure=ndcg"


def test_advice_fits_on_a_screen() -> None:
    for problem in (("dcg", 10, 1), ("sumloss", 10, 3), ("p@3+sum", 10, 1), ("ndcg@10", 100, 3), ("dcg", 10, 9)):
        for horizon in (None, 50_000):
            lines = [line for _, text in advise(*problem, horizon).rows for line in textwrap.wrap(text, 67)]
            assert len(lines) <= 25, problem


def test_a_weaker_guarantee_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "guarantees" not in str(advise("p@3+sum", 10, 1, horizon=10**6))
    fewer = {name: cls for name, cls in LEARNERS.items() if name not in ("setftrl", "permftrl", "marginftrl")}
    monkeypatch.setattr("peekrank.registry.LEARNERS", fewer)
    for problem in (("p@3+sum", 10, 1), ("dcg", 10, 9)):
        advice = advise(*problem, horizon=10**6)
        assert advice.verdict.rate is Rate.SQRT
        assert advice.guarantee is Rate.TWO_THIRDS
        assert "the game allows sqrt(T), but this learner guarantees only T^(2/3)" in str(advice)
    assert "guarantees" not in str(advise("dcg", 10, 10, horizon=10**6))
    assert advise("dcg", 10, 10, horizon=10**6).guarantee is Rate.SQRT


def test_hopeless_problems_name_the_closest_measure() -> None:
    def learned(name: str, grades: int = 2) -> list[str]:
        advice = advise(name, 8, 1, 10**6, grades)
        assert advice.verdict.rate is Rate.LINEAR
        assert "hopeless" in str(advice)
        return [change.measure for change in advice.changes if change.measure != name]

    assert learned("ndcg@3+linear+norel0") == ["dcg@3+linear"]
    assert learned("ap") == ["dcg", "p@1"]
    assert learned("aucloss") == ["pairwiseloss"]
    assert learned("aucloss", grades=3) == ["sumloss"]
    assert learned("pairwiseloss", grades=3) == ["sumloss"]
    assert learned("rr") == ["dcg"]
    assert learned("err@3", grades=3) == ["dcg@3"]
    assert learned("recall@3") == ["p@3"]
    assert learned("hit@3") == ["p@3"]


def test_without_a_learner_for_what_can_be_learned_another_measure_is_named() -> None:
    advice = advise("ndcg", 8, 8, 10**4)
    assert advice.verdict.rate is Rate.SQRT
    assert advice.learner is None
    assert "no learner of this package fits ndcg at k = 8" in str(advice)
    assert [change.what for change in advice.changes] == ["learn dcg with permftrl:measure=dcg"]


def test_a_silent_bound_is_named_with_what_would_make_it_speak() -> None:
    advice = advise("sumloss", m=10, k=1, horizon=8)
    assert advice.vacuous
    assert "the bound is vacuous: no learner can lose more than 200" in advice.notes
    assert f"it is informative from about {advice.informative_from:,} rounds on" in advice.notes
    assert [(change.k, change.horizon) for change in advice.changes] == [(9, 8), (1, advice.informative_from)]
    assert all(change.bound is not None for change in advice.changes)


def test_nothing_to_learn() -> None:
    advice = advise("p@5+sum", m=3, k=1, horizon=10)
    assert advice.verdict.rate is advice.guarantee is Rate.ZERO
    assert (advice.bound, advice.vacuous, advice.changes) == (0, False, ())
    assert "show any" in str(advice)
    assert "usual" not in str(advice)


def test_undecided_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*problem: Any) -> Verdict:
        return Verdict(None, "undecided", "an open question")

    monkeypatch.setattr("peekrank.advice.choice.rate_of", undecided)
    advice = advise("ap", m=5, k=2, horizon=1000)
    assert "rate: unknown (undecided): an open question" in str(advice)
    assert "the growth of regret in this game is unknown" in advice.notes
    assert [change.measure for change in advice.changes] == ["dcg", "p@2"]
    assert advise("dcg", m=5, k=5, horizon=1000).changes == ()


@dataclass(frozen=True)
class Halving(LinearMeasureMixin):
    """Of one's own: linear and separable."""

    name: ClassVar[str] = "halving"
    higher_is_better: ClassVar[bool] = True

    def discount(self, m: int) -> Floats:
        return np.exp2(-np.arange(m, dtype=np.float64))

    def gain(self, relevance: Relevance) -> Floats:
        return relevance.astype(np.float64)


class Shared(Halving):
    """Of one's own: linear, but gains are shared by the relevant items of a list."""

    separable: ClassVar[bool] = False

    def gain(self, relevance: Relevance) -> Floats:
        return np.asarray(relevance / np.maximum(relevance.sum(axis=-1, keepdims=True), 1))


@dataclass(frozen=True)
class FirstIsBest:
    """Of one's own, and not linear: whether nothing is more relevant than the first item."""

    scale: float = 1.0
    name: ClassVar[str] = "firstisbest"
    higher_is_better: ClassVar[bool] = True
    __str__ = name_of

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        first = np.take_along_axis(relevance, rankings[:, :1], axis=1)[:, 0]
        return self.scale * np.asarray(first == relevance.max(axis=1), dtype=np.float64)


def test_a_measure_of_ones_own_that_is_linear_and_separable_has_theorem_and_learner() -> None:
    advice = advise(Halving(), m=3, k=1, horizon=10**5)
    assert advice.verdict[:2] == (Rate.TWO_THIRDS, "theorem")
    assert advice.guarantee is Rate.TWO_THIRDS
    assert advice.learner == "marginftrl:measure=halving"
    assert advice.max_regret == 0.75 * 10**5
    assert [(change.k, change.rate) for change in advice.changes] == [(2, Rate.SQRT)]
    assert "unknown" not in str(advice)


@pytest.mark.parametrize("own", [Shared(), FirstIsBest()])
def test_other_measures_of_ones_own_are_worked_out_where_they_are_small(own: Measure) -> None:
    for k in (1, 2, 3):
        advice = advise(own, m=3, k=k, horizon=10**5)
        assert advice.verdict[:2] == (analyse(ranking_game(own, 3, k)).rate, "definitions")
        assert (advice.learner is None) == (advice.verdict.rate is Rate.LINEAR)
        if advice.guarantee and advice.verdict.rate:
            assert advice.guarantee.exponent >= advice.verdict.rate.exponent
        assert ("hopeless" in str(advice)) == (advice.verdict.rate is Rate.LINEAR)
        for change in advice.changes:
            assert change.rate == advise(own, 3, change.k, change.horizon).verdict.rate != Rate.LINEAR


@dataclass(frozen=True)
class LastCounts(Halving):
    """Of one's own, and upside down: later positions count more."""

    rises_from: int = 1
    name: ClassVar[str] = "lastcounts"

    def discount(self, m: int) -> Floats:
        return np.asarray(np.maximum(np.arange(1.0, m + 1), self.rises_from))


@dataclass(frozen=True)
class FirstIsWorst(FirstIsBest):
    """The same, not linear."""

    name: ClassVar[str] = "firstisworst"
    higher_is_better: ClassVar[bool] = False


@pytest.mark.parametrize(("own", "m"), [(LastCounts(), 5), (LastCounts(rises_from=9), 10), (FirstIsWorst(), 3)])
def test_measures_that_reward_the_bottom_are_refused(own: Any, m: int) -> None:
    assert not prefers_relevant_first(own, m, 1)
    with pytest.raises(ValueError, match="rewards rankings without the most relevant items on top"):
        advise(own, m=m, k=1)
    with pytest.raises(CheckError, match="a ranking is better than the order of relevance"):
        sorting_by_relevance_is_best(LastCounts() if isinstance(own, LastCounts) else own)


@pytest.mark.parametrize(("own", "m"), [(Shared(), 50), (FirstIsBest(), 50), (FirstIsBest(np.pi), 3)])
def test_of_others_it_is_reported_that_nothing_is_known(own: Measure, m: int) -> None:
    advice = advise(own, m=m, k=2, horizon=10**5)
    assert advice.verdict[:2] == (None, "undecided")
    assert "rate: unknown (undecided): No theorem on docs/theory/rates.md covers " in str(advice)
    assert advice.notes == (
        "the growth of regret in this game is unknown", f"no learner of this package fits {own} at k = 2",
    )  # fmt: skip
    assert advice.learner is None
    assert advice.changes == ()


def test_a_bound_that_never_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (RTop1F, BlockFTRL, MarginFTRL, FeedExp3):
        monkeypatch.setattr(cls, "bound", lambda self, shape, horizon: 100.0 * horizon)
    advice = advise("dcg", m=5, k=3, horizon=1000)
    assert advice.vacuous
    assert advice.guarantee is Rate.LINEAR
    assert advice.informative_from is None
    assert advice.notes[-1] == "it is vacuous at every horizon"
    assert [change.what for change in advice.changes] == [
        "reveal k = 4 with permftrl:measure=dcg",
        "learn dcg@3 with permftrl:measure=dcg@3",
    ]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (("dgc", 10, 1, 100), "did you mean 'dcg'"),
        (("p", 10, 1, 100), "needs a cut-off"),
        (("dcg", 0, 1, 100), "m = 0: must be"),
        (("dcg", 10.0, 1, 100), "m = 10.0: must be"),
        (("dcg", 10, 0, 100), "k = 0: must be a whole number, from 1 to 10"),
        (("dcg", 10, 11, 100), "k = 11: must be a whole number, from 1 to 10"),
        (("dcg", 10, 1, 0), "horizon = 0: must be"),
        (("dcg", 10, 1, 10**12 + 1), "horizon = .* from 1 to 1000000000000"),
        (("dcg", 10, 1, 100, 1), "grades = 1: must be a whole number, from 2 to 256"),
        (("dcg", 10, 1, 100, 257), "grades = 257: must be a whole number, from 2 to 256"),
    ],
)
def test_wrong_questions(problem: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        advise(*problem)


def test_a_measure_is_as_good_as_its_name() -> None:
    assert advise(measure("dcg@3"), 5, 2, 100) == advise("dcg@3", 5, 2, 100)


def test_large_grades() -> None:
    with pytest.warns(UserWarning, match="a grade g is worth"):
        advice = advise("dcg", 10, 1, 10**4, grades=256)
    assert advice.learner == "marginftrl:measure=dcg,max_grade=255"
    assert "e+" in str(advice)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dcg", "dcg@10", "sumloss", "p@10+sum", "ndcg@10", "ap", "aucloss", "rbp", "rr", "recall@10"]
)
def test_millions_of_items(name: str) -> None:
    advice = advise(name, m=2_000_000, k=10, horizon=10**6)
    assert advice.vacuous or advice.verdict.rate in (Rate.LINEAR, Rate.SQRT)
    assert "2,000,000 items" in str(advice)


# --- surrogates


SURROGATE_PROBLEMS = [(m, k, grades) for m in (1, 2, 3, 4, 5) for k in range(1, m + 1) for grades in (2, 3)]


@pytest.mark.parametrize("name", SURROGATES)
def test_what_is_reported_of_surrogates_is_what_learners_can_do(name: str) -> None:
    phi = surrogate(name)
    for m, k, grades in SURROGATE_PROBLEMS:
        advice = advise_surrogate(name, m, k, grades)
        assert advice == advise_surrogate(phi, m, k, grades)
        assert (advice.witness is not None) == (advice.rate is Rate.LINEAR)
        assert str(advice).startswith(
            f"problem: {name}, m = {m} {'item' if m == 1 else 'items'}, k = {k} revealed, grades 0 to {grades - 1}"
        )
        if not phi.convex:
            assert advice.rate is None
        elif k == m:
            assert advice.rate is Rate.SQRT
        elif phi.min_k is not None and k >= phi.min_k:
            assert advice.rate is Rate.TWO_THIRDS
            assert "no learner of this package" not in advice.reason
        elif (name, k, grades) == ("listnet", m - 1, 2):
            assert advice.rate is Rate.TWO_THIRDS
            assert "no learner of this package" in advice.reason
        else:
            assert advice.rate in (Rate.LINEAR, None)


HOPELESS = [
    (name, m, k, grades)
    for name, (m, k, grades) in product(SURROGATES, SURROGATE_PROBLEMS)
    if advise_surrogate(name, m, k, grades).rate is Rate.LINEAR
]


def test_what_is_hopeless() -> None:
    found = {(name, m, k) for name, m, k, grades in HOPELESS if grades == 2}
    assert found == {("ranksvm", m, 1) for m in (3, 4, 5)} | {
        (name, m, k) for name, last in (("ndcgsquared", 1), ("listnet", 2)) for m in (2, 3, 4, 5)
        for k in range(1, m - last + 1)
    }  # fmt: skip
    assert {(m, k) for name, m, k, grades in HOPELESS if name == "listnet" and grades == 3} == {
        (m, k) for m in (2, 3, 4, 5) for k in range(1, m)
    }
    assert {(m, k) for name, m, k, grades in HOPELESS if name == "ranksvm" and grades == 3} == {
        (m, 1) for m in (2, 3, 4, 5)
    }


@pytest.mark.parametrize(("name", "m", "k", "grades"), HOPELESS)
def test_witnesses_prove_what_they_claim(name: str, m: int, k: int, grades: int) -> None:
    phi, witness = surrogate(name), advise_surrogate(name, m, k, grades).witness
    assert witness is not None
    relevance, p, q, gap = (np.array(part) for part in witness)
    assert relevance.shape[1] == m
    assert relevance.max() < grades
    assert p.sum() == pytest.approx(1)
    assert q.sum() == pytest.approx(1)
    for seen in combinations(range(m), k):
        answers = np.unique(relevance[:, seen], axis=0, return_inverse=True)[1].ravel()
        np.testing.assert_allclose(np.bincount(answers, p), np.bincount(answers, q), atol=1e-12)

    def least(side: Floats) -> float:
        """Of the expected loss, by a solver that knows nothing of the surrogate but values and gradients."""
        lists = relevance.astype(np.float64)
        if name == "ranksvm":
            return least_hinges(lists, side)

        def both(scores: Floats) -> tuple[float, Floats]:
            value = side @ [phi.value(scores, row) for row in lists]
            return float(value), side @ np.array([phi.gradient(scores, row) for row in lists])

        return float(minimize(both, np.zeros(m), jac=True, tol=1e-12).fun)

    assert gap > 0
    assert least(p + q) - least(p) - least(q) == pytest.approx(gap, rel=1e-3, abs=1e-12)


def least_hinges(lists: Floats, probabilities: Floats) -> float:
    """The least expected hinge loss, as a linear program: scores from -9 to 9, then one slack for each pair."""
    m = lists.shape[1]
    pairs = list(permutations(range(m), 2))
    weights = [float(probabilities @ (lists[:, i] > lists[:, j])) for i, j in pairs]
    rows = np.hstack([np.array([np.eye(m)[j] - np.eye(m)[i] for i, j in pairs]), -np.eye(len(pairs))])
    found = linprog(
        np.r_[np.zeros(m), weights], rows, -np.ones(len(pairs)), bounds=[(-9, 9)] * m + [(0, None)] * len(pairs)
    )
    assert found.fun is not None
    return found.fun


@pytest.mark.parametrize(
    ("m", "k", "grades"),
    [(3, 1, 2), (13, 11, 2), (20, 11, 2), (100, 11, 2), (1000, 3, 2), (2, 1, 3), (8, 7, 3), (12, 11, 3)],
)
def test_gaps_of_listnet_are_right_however_small(m: int, k: int, grades: int) -> None:
    """Against the definition in 90 digits, more than its divergences and their sums cancel."""
    witness = advise_surrogate("listnet", m, k, grades).witness
    assert witness is not None
    with localcontext() as context:
        context.prec = 90
        powers = [Decimal(grade).exp() for grade in range(3)]
        best = [[Decimal(0)] * m, [Decimal(0)] * m]
        for row, *probabilities in zip(*witness[:3], strict=True):
            total = sum(powers[grade] for grade in row)
            for side, probability in zip(best, probabilities, strict=True):
                if probability:
                    for i, grade in enumerate(row):
                        side[i] += Decimal(probability) * powers[grade] / total
        gap = sum(x * (2 * x / (x + y)).ln() for a, b in (best, best[::-1]) for x, y in zip(a, b, strict=True))
        assert gap > 0
        assert witness.gap == pytest.approx(float(gap), rel=1e-12, abs=0)


def test_long_witnesses_are_left_out() -> None:
    written = advise_surrogate("ndcgsquared", 100, 12)
    assert written.witness is not None
    assert written.notes == ()
    advice = advise_surrogate("ndcgsquared", 100, 13)
    assert advice.rate is Rate.LINEAR
    assert advice.witness is None
    assert "witness" not in str(advice)
    assert "omits the adversaries that prove it: their lists have over 1,000,000 grades" in str(advice)
    assert advice.as_dict()["notes"] == list(advice.notes)


@pytest.mark.parametrize("name", SURROGATES)
def test_grades_that_the_learner_refuses_are_reported(name: str) -> None:
    for grades, told in ((31, False), (32, name in ("kl", "smoothdcg"))):
        for k in (1, 2, 3):
            assert ("rtopkf accepts only grades up to 30" in advise_surrogate(name, 3, k, grades).reason) == told


def test_one_round_is_no_rounds() -> None:
    assert "m = 1 item, k = 1 revealed, 1 round, grades" in str(advise("dcg", 1, 1, 1))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (("squard", 3, 1), "unknown surrogate 'squard'"),
        (("squared", 0, 1), "m = 0: must be"),
        (("squared", 3, 4), "k = 4: must be a whole number, from 1 to 3"),
        (("squared", 3, 1, 1), "grades = 1: must be"),
    ],
)
def test_wrong_questions_about_surrogates(problem: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        advise_surrogate(*problem)


@pytest.mark.parametrize("advice", [advise("ndcg@10", 100, 5, 10**6), advise_surrogate("ndcgsquared", 10, 1)])
def test_a_text_has_a_line_for_every_row(advice: Advice | SurrogateAdvice) -> None:
    assert [tuple(line.split(": ", 1)) for line in str(advice).splitlines()] == advice.rows
    assert [label for label, _ in advice.rows][:2] == ["problem", "rate"]
