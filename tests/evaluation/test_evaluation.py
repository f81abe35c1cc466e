"""Estimates of values: equal to their definitions, unbiased by enumeration, intervals that hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers.enumeration import outcomes
from helpers.naive_evaluation import naive_estimates, naive_interval
from helpers.rounds import NextRound
from peekrank import (
    DCG,
    FTPL,
    NW2,
    RBP,
    UCB,
    Agent,
    BlockFTRL,
    DoubtSort,
    FeedExp3,
    Greedy,
    MarginFTRL,
    Mixed,
    PairwiseLoss,
    PermFTRL,
    Precision,
    Ridge,
    RTopKF,
    SetFTRL,
    SumLoss,
    Thompson,
    Uniform,
    fixed_items,
    measure,
)
from peekrank.evaluation.estimators import DR, LARGEST, Rows, fill_terms
from peekrank.evaluation.evaluation import Estimate, evaluate_log
from peekrank.evaluation.log import Log, log_from_records
from peekrank.evaluation.pairs import pair_propensities
from peekrank.evaluation.policies import Policy, by_scores, fixed_order, policy
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.types import Features, Floats, Grades, Ints, Learner

MEASURES = ["dcg", "dcg@2", "dcg+linear", "p@2+sum", "rbp:p=0.5", "sumloss"]
LEARNERS: list[Learner] = [
    Uniform(),
    FTPL(DCG(), horizon=100),
    PermFTRL(DCG(1), horizon=100),
    BlockFTRL(DCG(), horizon=60),
    BlockFTRL(SumLoss()),
    SetFTRL(Precision(1, mean=False)),
    MarginFTRL(DCG()),
    DoubtSort(DCG()),
    Greedy(DCG()),
    UCB(DCG()),
    NW2(Precision(1, mean=False), horizon=100),
    FeedExp3(Precision(1, mean=False), horizon=100),
    Ridge(),
    RTopKF(),
]


def random_log(seed: int = 0, n: int = 60, m: int = 5, k: int = 2, grades: int = 3) -> Log:
    """A log of random top-k sets, whose propensities are known because they are drawn from a list of sets."""
    rng, records = np.random.default_rng(seed), []
    for t in range(n):
        size = int(rng.integers(k, m + 1))
        names = rng.permutation(m)[:size]
        orders = [rng.permutation(size) for _ in range(3)]
        weights = rng.dirichlet(np.ones(3))
        propensity = sum(w * (np.argsort(o) < k) for w, o in zip(weights, orders, strict=True))
        position = np.argsort(orders[rng.choice(3, p=weights)])
        answer = [int(rng.integers(grades)) if p < k else None for p in position]
        propensity = np.minimum(propensity, 1.0)
        records.append(
            {"event": str(t), "k": k, "candidates": [str(i) for i in names], "position": position.tolist(),
             "propensity": propensity.tolist(), "feedback": answer}
        )  # fmt: skip
    return log_from_records(records, max_feedback=grades - 1)


@pytest.mark.parametrize("regression", ["items", "none"])
@pytest.mark.parametrize("name", MEASURES)
def test_estimates_are_those_of_the_definitions(name: str, regression: Any) -> None:
    log, judge = random_log(), measure(name)
    order = fixed_order(log, ["3", "0", "4", "1", "2"])
    assert order.ranks is not None
    found = evaluate_log(log, [order], judge, regression=regression).estimates[0]
    expected = naive_estimates(log, order.ranks, judge, regression)  # type: ignore[arg-type]
    assert found.ips == pytest.approx(expected.ips, rel=1e-12)
    assert found.snips == pytest.approx(expected.snips, rel=1e-12)
    assert found.dr == pytest.approx(expected.dr, rel=1e-12)
    assert found.ess == pytest.approx(expected.ess, rel=1e-12)
    assert found.max_weight == pytest.approx(expected.max_weight, rel=1e-12)


@pytest.mark.parametrize("name", ["dcg", "dcg@2"])
def test_intervals_are_those_of_the_definitions(name: str) -> None:
    log, judge, at = random_log(n=80), measure(name), [1, 2, 7, 30, 80]
    order = fixed_order(log, ["3", "0", "4", "1", "2"])
    assert order.ranks is not None
    found = evaluate_log(log, [order], judge, checkpoints=np.array(at)).estimates[0]
    expected = naive_interval(log, order.ranks, judge, 0.05, at)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.column_stack([found.lows, found.highs]), expected, rtol=0, atol=1e-9)
    assert found.lows[-1] > 0
    assert found.highs[-1] < found.highs[0]


def features(learner: Learner, m: int) -> Features:
    table = np.random.default_rng(4).normal(size=(m, 3)).astype(np.float32)
    return table if learner.contextual else table[:, :0]


def lived(learner: Learner, m: int, k: int) -> Agent:
    agent, rng = Agent(learner, m=m, k=k, d=3 if learner.contextual else 0, seed=5), np.random.default_rng(6)
    for _ in range(7):
        decision = agent.rank(features(learner, m) if learner.contextual else None)
        agent.update(decision, (rng.random(agent.shape.k) < 0.5).astype(float))
    return agent


def sets_of(agent: Agent, X: Features) -> tuple[dict[Any, float], Floats]:
    """All sets that can be seen in the next round with their probabilities, and the reported propensities."""
    this, k = NextRound(agent, X), agent.shape.k

    def show(uniforms: Floats) -> tuple[int, ...]:
        ranking = this.rank(uniforms).tolist()
        # hundreds of rankings may share a uniform: told in full, none can hide between two that show the same
        return tuple(ranking if this.draws <= 2 else sorted(ranking[:k]))

    found: dict[Any, float] = {}
    for shown, propensity in outcomes(show, this.draws, {1: 1000, 2: 200}.get(this.draws, 48)).items():
        seen = frozenset(shown[:k])  # type: ignore[index]
        found[seen] = found.get(seen, 0.0) + propensity
    show(np.random.default_rng(1).random(this.draws))
    return found, this.propensities()


@pytest.mark.parametrize("m", [3, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: str(learner.name))
def test_estimates_are_unbiased_whatever_the_learner(learner: Learner, m: int) -> None:
    """Every set that can be seen, times its probability: the value of any other ranking comes out."""
    for k in range(max(1, learner.min_k), m + 1):
        try:
            agent = lived(learner, m, k)
        except ValueError:  # this learner does not fit these sizes
            continue
        X = features(learner, m)
        shown, propensity = sets_of(agent, X)
        relevance = np.random.default_rng([m, k]).integers(0, 2, m).astype(np.float64)
        supported = propensity > 0
        for judge in (DCG(), SumLoss(), RBP(p=0.5), Precision(1, mean=False)):
            order = np.random.default_rng([k, m]).permutation(m)
            value = float((judge.discount(m)[order] * judge.gain(relevance))[supported].sum())
            mean = sum(p * _value(r, propensity, relevance, order, agent.shape.k, judge) for r, p in shown.items())
            assert mean == pytest.approx(value, rel=1e-9, abs=1e-9)


def _value(seen: frozenset[int], propensity: Floats, relevance: Floats, order: Ints, k: int, judge: Any) -> float:
    """The IPS estimate of one decision by the package."""
    m = len(propensity)
    position = np.argsort([*seen, *(i for i in range(m) if i not in seen)])
    answer = [relevance[i] if i in seen else None for i in range(m)]
    names = [str(i) for i in range(m)]
    record = {
        "event": "1",
        "k": min(k, m),
        "candidates": names,
        "position": position.tolist(),
        "propensity": propensity.tolist(),
    }
    log = log_from_records([{**record, "feedback": answer}])
    found = evaluate_log(log, [Policy("other", order)], judge, regression="none").estimates[0]
    return found.ips


def test_doubly_robust_is_unbiased_with_any_prediction_from_the_past() -> None:
    """Two decisions in a row, all that can happen: the second one's prediction is the first one's answer."""
    relevance, propensity = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([0.5, 0.3, 0.2])
    total = {"ips": 0.0, "dr": 0.0}
    for first in range(3):
        for second in range(3):
            records = []
            for t, top in enumerate((first, second)):
                position = np.where(
                    np.arange(3) == top, 0, np.where(np.arange(3) < top, np.arange(3) + 1, np.arange(3))
                )
                answer = [relevance[t, i] if i == top else None for i in range(3)]
                shown = {"event": str(t), "k": 1, "candidates": list("abc"), "position": position.tolist()}
                records.append({**shown, "propensity": propensity.tolist(), "feedback": answer})
            log = log_from_records(records)
            found = evaluate_log(log, [fixed_order(log, list("bca"))], DCG()).estimates[0]
            for name in total:
                total[name] += propensity[first] * propensity[second] * getattr(found, name)
    value = np.mean([DCG().discount(3)[[2, 0, 1]] @ row for row in relevance])
    assert total["ips"] == pytest.approx(value, rel=1e-12)
    assert total["dr"] == pytest.approx(value, rel=1e-12)


def test_no_prediction_does_better_than_the_true_means() -> None:
    """All sets, all gains: the variance of the doubly robust error is that of the theorem, least for the means."""
    sets = {(0, 1): 0.5, (0, 2): 0.3, (1, 2): 0.2}
    means, h = np.array([0.9, 0.4, 0.2]), np.array([1.0, 0.2, -0.7])
    both = np.array([[sum(p for s, p in sets.items() if {i, j} <= {*s}) for j in range(3)] for i in range(3)])
    propensity = both.diagonal()
    excess = both / np.outer(propensity, propensity) - 1

    def measured(predicted: Floats) -> float:
        total = 0.0
        for seen, p in sets.items():
            for gains in product([0.0, 1.0], repeat=3):
                g = np.array(gains)
                rows = Rows(
                    np.array([0, 3]), propensity, np.where(np.isin(range(3), seen), g, np.nan), np.arange(3),
                    np.array([2]), 1.0,
                )  # fmt: skip
                terms = np.empty((1, LARGEST + 1))
                fill_terms(rows, h, predicted, np.inf, terms)
                total += p * np.prod(np.where(g > 0, means, 1 - means)) * (terms[0, DR] - h @ g) ** 2
        return float(total)

    for predicted in (np.zeros(3), means, np.array([0.5, 0.8, 0.1])):
        off = h * (means - predicted)
        least = float(h**2 * (1 / propensity - 1) @ (means * (1 - means)))
        assert measured(predicted) == pytest.approx(least + off @ excess @ off, rel=1e-12)
        assert measured(predicted) >= least * (1 - 1e-12)


def simulated(learner: Learner, seed: int, *, rounds: int = 400, m: int = 5, k: int = 2) -> tuple[Log, Grades]:
    rng = np.random.default_rng(seed)
    relevance = (rng.random((rounds, m)) < np.linspace(0.9, 0.1, m)).astype(np.uint8)
    return simulate_log(Agent(learner, m=m, k=k, seed=seed), fixed_items(relevance)), relevance


def test_the_pairwise_loss_is_estimated_from_pairs() -> None:
    log, relevance = simulated(Uniform(), 3, rounds=4000, m=4, k=3)
    for order in (["0", "1", "2", "3"], ["3", "1", "0", "2"]):
        found = evaluate_log(log, [fixed_order(log, order)], PairwiseLoss()).estimates[0]
        rankings = np.tile([int(i) for i in order], (len(relevance), 1))
        value = PairwiseLoss().values(rankings, relevance).mean()
        assert abs(found.dr - value) < 4 * found.std_error
        assert abs(found.ips - value) < 4 * found.ips_std_error
        assert found.anytime[0] < value < found.anytime[1]
    one, other = fixed_order(log, ["0", "1", "2", "3"]), fixed_order(log, ["3", "2", "1", "0"])
    difference = evaluate_log(log, [one, other], PairwiseLoss()).differences[0]
    by_ranks = evaluate_log(log, [one, other], SumLoss()).differences[0]
    assert difference.anytime[1] < 0
    assert abs(difference.dr - by_ranks.dr) < 4 * (difference.std_error + by_ranks.std_error)


def test_propensities_of_pairs_are_implied_or_refused() -> None:
    base = {"event": "1", "candidates": list("abcd"), "position": [0, 1, 2, 3]}
    left_out = log_from_records([{**base, "k": 3, "propensity": [0.9, 0.8, 0.7, 0.6]}])
    np.testing.assert_allclose(pair_propensities(left_out), [0.7, 0.6, 0.5, 0.5, 0.4, 0.3])
    with pytest.raises(ValueError, match=r"event '1' has no field 'pairs'.*Use sumloss"):
        pair_propensities(log_from_records([{**base, "k": 2, "propensity": [0.5, 0.5, 0.5, 0.5]}]))
    told = log_from_records([{**base, "k": 2, "propensity": [0.5] * 4, "pairs": [1 / 6] * 6}])
    np.testing.assert_array_equal(pair_propensities(told), 1 / 6)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ndcg@3", "dcg@3"),
        ("ap", "dcg"),
        ("aucloss", "sumloss"),
        ("recall@2", "p@2+sum"),
        ("rr", "rbp"),
        ("err", "rbp"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_theorem_and_nearest_measure(name: str, instead: str) -> None:
    log = random_log()
    with pytest.raises(ValueError) as raised:
        evaluate_log(log, [fixed_order(log, ["0"])], measure(name))
    said = str(raised.value)
    assert f"{measure(name)} cannot be estimated from feedback on k = 2 of 5 candidates" in said
    assert said.endswith(f"Use {instead}.")
    assert "docs/theory/rates.md, Theorem" in said


def test_a_log_without_propensities_says_why() -> None:
    log, _ = simulated(Thompson(DCG()), 1, rounds=5)
    with pytest.raises(ValueError, match=r"5 decisions of the log cannot be evaluated.*thompson cannot compute"):
        evaluate_log(log, [fixed_order(log, ["0"])], DCG())


def test_candidates_without_support_are_named_and_in_the_intervals() -> None:
    names, position = ["a", "b", "c"], [0, 1, 2]
    shown = {
        "k": 1,
        "candidates": names,
        "position": position,
        "propensity": [1, 0, 0],
        "feedback": [1, None, None],
    }
    log = log_from_records([{**shown, "event": str(t)} for t in range(500)])
    found = evaluate_log(log, [fixed_order(log, ["c", "b", "a"])], DCG()).estimates[0]
    assert found.unsupported == (("b", 500), ("c", 500))
    assert found.support_gap == pytest.approx(1 + 1 / np.log2(3))
    for value in (0.5, 0.5 + 1 + 1 / np.log2(3)):  # whatever b and c are
        assert found.fixed_n[0] <= value <= found.fixed_n[1]
        assert found.anytime[0] <= value <= found.anytime[1]
    own = evaluate_log(log, [Policy("logged", None)], DCG(1)).estimates[0]
    assert own.support_gap == 0
    assert own.dr == 1
    assert own.unsupported == ()


def test_clipping_has_a_bias_that_is_reported() -> None:
    log, _ = simulated(Uniform(), 2, m=5, k=1)
    order = fixed_order(log, ["0", "1", "2", "3", "4"])
    whole = evaluate_log(log, [order], DCG(), regression="none").estimates[0]
    cut = evaluate_log(log, [order], DCG(), regression="none", clip=2.0).estimates[0]
    assert whole.clip_bias == 0
    assert cut.clip_bias == pytest.approx(DCG().discount(5).sum() * (1 - 2 / 5))
    assert cut.ips == pytest.approx(whole.ips * 2 / 5)
    assert abs(whole.ips - cut.ips) <= cut.clip_bias
    assert cut.anytime == whole.anytime


def test_unanswered_decisions_are_left_out() -> None:
    log, _ = simulated(Uniform(), 2)
    answer = log.feedback.copy()
    answer[log.offsets[3] : log.offsets[4]] = np.nan
    answer[np.flatnonzero(~np.isnan(answer))[-1]] = np.nan
    found = evaluate_log(log._replace(feedback=answer), [fixed_order(log, ["0"])], DCG())
    assert (found.decisions, found.answered) == (400, 398)
    with pytest.raises(ValueError, match="nothing can be estimated"):
        evaluate_log(log._replace(feedback=np.full(len(answer), np.nan)), [fixed_order(log, ["0"])], DCG())


def test_differences_are_differences_and_narrower() -> None:
    log, _ = simulated(Uniform(), 5, rounds=3000)
    one, other = fixed_order(log, ["0", "1", "2", "3", "4"]), fixed_order(log, ["0", "1", "2", "4", "3"])
    found = evaluate_log(log, [one, other], DCG())
    a, b, c = *found.estimates, *found.differences
    assert c.dr == pytest.approx(a.dr - b.dr, abs=1e-12)
    assert c.ips == pytest.approx(a.ips - b.ips, abs=1e-12)
    assert _width(c) < 0.5 * min(_width(a), _width(b))
    assert c.verdict in ("higher", "undecided")


def test_several_differences_share_alpha() -> None:
    """The intervals of three differences are those of each pair alone at a third of alpha, or at alpha."""
    log, _ = simulated(Uniform(), 5, rounds=500)
    orders = [fixed_order(log, list(names), names) for names in ("01234", "43210", "24130")]
    pairs = [(0, 1), (0, 2), (1, 2)]
    for simultaneous, each in ((True, 0.03 / 3), (False, 0.03)):
        found = evaluate_log(log, orders, DCG(), alpha=0.03, simultaneous=simultaneous)
        assert [e.alpha for e in found.estimates] == [0.03] * 3
        for (i, j), difference in zip(pairs, found.differences, strict=True):
            alone = evaluate_log(log, [orders[i], orders[j]], DCG(), alpha=each).differences[0]
            assert difference.alpha == pytest.approx(each)
            for name in ("fixed_n", "anytime", "betting"):
                assert getattr(difference, name) == pytest.approx(getattr(alone, name))


@pytest.mark.slow
def test_no_difference_is_wrong_more_often_than_alpha_though_there_are_several() -> None:
    """15 differences that are all 0, in 300 logs: with alpha for each, a fifth of the logs has a wrong one."""
    wrong, each = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        relevance = (rng.random((200, 4)) < 0.5).astype(np.uint8)
        log = simulate_log(Agent(Uniform(), m=4, k=2, seed=seed), fixed_items(relevance), max_feedback=1)
        names = ["0123", "1230", "2301", "3012", "3210", "1032"]
        found = evaluate_log(log, [fixed_order(log, list(n), n) for n in names], DCG()).differences
        wrong += any(e.fixed_n[0] > 0 or e.fixed_n[1] < 0 for e in found)
        each += any(abs(e.dr) > 1.96 * e.std_error for e in found)
    assert each > 0.15 * 300
    assert wrong < 0.05 * 300 + 3 * np.sqrt(0.05 * 0.95 * 300)


def _width(found: Estimate) -> float:
    return found.anytime[1] - found.anytime[0]


def test_shifted_answers_shift_nothing() -> None:
    """Answers from -1 to 1 on a straight line: the same estimates as moved to 0 to 2, moved back."""
    log = random_log(grades=3)
    moved = log._replace(feedback=log.feedback - 1, min_feedback=-1.0, max_feedback=1.0)
    judge = measure("sumloss")
    order = fixed_order(log, ["3", "0", "4", "1", "2"])
    one = evaluate_log(log, [order], judge).estimates[0]
    other = evaluate_log(moved, [order], judge).estimates[0]
    shift = np.mean([judge.discount(int(n)).sum() for n in log.lengths])  # type: ignore[attr-defined]
    assert one.dr - shift == pytest.approx(other.dr)
    np.testing.assert_allclose(np.array(one.anytime) - shift, other.anytime, rtol=1e-9)
    np.testing.assert_allclose(np.array(one.betting) - shift, other.betting, atol=1e-6)


@pytest.mark.parametrize("learner", [DoubtSort(DCG()), BlockFTRL(DCG()), Uniform()], ids=lambda x: str(x.name))
def test_intervals_hold_at_all_looks(learner: Learner) -> None:
    """30 logs of an adaptive learner, each looked at 64 times: 6 of 30 are hardly ever wrong."""
    wrong = 0
    for seed in range(30):
        log, _ = simulated(learner, 100 + seed, rounds=300)
        found = evaluate_log(log, [fixed_order(log, list("34210"))], DCG()).estimates[0]
        mean = np.linspace(0.9, 0.1, 5)[[3, 4, 2, 1, 0]] @ DCG().discount(5)
        wrong += bool(((found.lows > mean) | (found.highs < mean)).any())
    assert wrong <= 6


def test_what_is_asked_is_checked() -> None:
    log = random_log()
    order = fixed_order(log, ["0"])
    with pytest.raises(ValueError, match="alpha = 2"):
        evaluate_log(log, [order], DCG(), alpha=2.0)
    with pytest.raises(ValueError, match=r"clip = 0\.5: must be at least 1"):
        evaluate_log(log, [order], DCG(), clip=0.5)
    with pytest.raises(ValueError, match="regression = 'trees'"):
        evaluate_log(log, [order], DCG(), regression="trees")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the log has no features"):
        evaluate_log(log, [order], DCG(), regression="features")
    with pytest.raises(ValueError, match=r"unknown policy 'doubtsrt'.*doubtsort"):
        policy("doubtsrt", log, measure=DCG())
    with pytest.raises(ValueError, match="order: '9' is not a candidate"):
        policy("order:9", log, measure=DCG())
    with pytest.raises(ValueError, match="blockftrl learns only from its own rankings"):
        policy("blockftrl", log, measure=DCG())
    with pytest.raises(ValueError, match="ridge needs features"):
        policy("ridge", log, measure=DCG())


def test_few_decisions_and_all_propensities_1_claim_no_more_than_is_possible() -> None:
    """One decision, all of it seen; then two of different k: intervals stay within what a value can be."""
    first = {
        "event": "1",
        "k": 2,
        "candidates": ["a", "b"],
        "position": [1, 0],
        "propensity": [1, 1],
        "feedback": [0, 1],
    }
    second = {**first, "event": "2", "k": 1, "propensity": [0.25, 0.75], "feedback": [None, 1]}
    for records in ([first], [first, second]):
        log = log_from_records(records)
        found = evaluate_log(log, [fixed_order(log, list("ab")), fixed_order(log, list("ba"))], DCG(1))
        assert [e.anytime for e in found.estimates] == [(0.0, 1.0)] * 2
        assert found.differences[0].anytime == (-1.0, 1.0)
        assert found.differences[0].verdict == "undecided"


def test_an_order_of_strangers_names_few_of_many_candidates() -> None:
    names = [f"item{i}" for i in range(5000)]
    log = log_from_records([{"event": "1", "k": 1, "candidates": names, "position": list(range(5000))}])
    with pytest.raises(ValueError, match=r"'tea' is not a candidate: .*item10, .* and 4,960 more$") as said:
        fixed_order(log, ["tea"])
    assert len(str(said.value)) < 700


def _lists(*lengths: int) -> Log:
    return log_from_records(
        [
            {"event": str(t), "k": 1, "candidates": [f"i{i}" for i in range(n)], "position": list(range(n))}
            for t, n in enumerate(lengths)
        ]
    )


def test_scores_rank_each_list_by_itself() -> None:
    log, rng = _lists(3, 1, 7, 40), np.random.default_rng(0)
    scores = rng.integers(0, 5, size=51).astype(np.float64)  # many are equal
    ranks = by_scores(log, scores, "ours").ranks
    assert ranks is not None
    for first, last in ((0, 3), (3, 4), (4, 11), (11, 51)):
        order = np.argsort(-scores[first:last], kind="stable")
        assert ranks[first:last][order].tolist() == list(range(last - first))


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([1.0, 2.0], r"ours: scores of shape \(2,\): must be of shape \(4,\)"),
        ([1, 0, np.nan, 2], "of row 2 is not a"),
    ],
)
def test_scores_that_rank_nothing_are_refused(scores: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        by_scores(_lists(3, 1), np.array(scores), "ours")


def scored(*scores: list[float | None] | None) -> Log:
    """A log of lists with these scores; None: a list of three without any."""
    records: list[dict[str, Any]] = []
    for n, one in enumerate(scores):
        m = len(one or "abc")
        fields = {"event": str(n), "k": 1, "candidates": list("abcdef")[:m], "position": list(range(m))[::-1]}
        shown = {"propensity": [0.5 / (m - 1)] * (m - 1) + [0.5], "feedback": [None] * (m - 1) + [n % 2]}
        records.append({**fields, **shown, **({} if one is None else {"score": one})})
    return log_from_records(records)


def test_the_order_by_score_is_the_apps() -> None:
    log = scored([0.1, 0.7, 0.7, 3e9], [None, 2.0, None, 1.0, 3.0], None, [None, 5.0, 5.0], [1.0, None])
    found = policy("score", log, measure=DCG())
    # by hand: ties as listed; without a score: the middle, which 2.0 of 1, 2, 3 and a tie of all are as well
    expected = [3, 1, 2, 0, 1, 2, 3, 4, 0, 0, 1, 2, 0, 1, 2, 0, 1]
    assert found.ranks is not None
    assert found.ranks.tolist() == expected
    assert found.note == "1 decision without scores in the order of the log"
    kept = policy("score", log.select(np.array([False, True, False, False, False])), measure=DCG())
    assert kept.ranks is not None
    assert kept.ranks.tolist() == expected[4:9]


def test_the_order_by_score_is_that_of_mixed_before_the_first_answer() -> None:
    rng, lists = np.random.default_rng(2), []
    for _ in range(40):
        scores = rng.integers(0, 4, rng.integers(2, 7)).astype(float)
        lists.append([None if rng.random() < 0.3 else float(score) for score in scores])
    log = scored(*[one for one in lists if any(score is not None for score in one)])
    ranks = policy("score", log, measure=DCG()).ranks
    assert ranks is not None
    for first, last in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        agent = Agent(Mixed(floor=0.0, earned=0.0), m=int(last - first), k=1)
        assert log.scores is not None
        ranking = agent.rank(scores=log.scores[first:last]).ranking
        assert np.argsort(ranks[first:last]).tolist() == ranking.tolist()


def test_the_value_of_the_order_by_score_against_a_hand_computation() -> None:
    log = scored([1.0, 2.0], [2.0, 1.0], [1.0, None], [1.0, 2.0])  # b was shown with probability 1/2; 0, 1, 0, 1
    found = evaluate_log(log, [policy("score", log, measure=DCG(1))], DCG(1), regression="none").estimates[0]
    # it puts b, a, a and b on top; only b was ever shown: (0 + 0 + 0 + 1) / 0.5 / 4
    assert found.ips == pytest.approx(0.5)


def test_the_order_by_score_needs_scores() -> None:
    for log in (scored(None), scored([None, None])):
        with pytest.raises(ValueError, match="score: the log has no scores"):
            policy("score", log, measure=DCG())
