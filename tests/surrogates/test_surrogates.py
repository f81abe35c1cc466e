"""Surrogates: gradients, convexity, symmetry, the paper's formulas, Lipschitz constants, names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product
from math import e, exp, log2
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peekrank.learners import RTopKF, learner
from peekrank.measures import NDCG
from peekrank.registry import SURROGATES
from peekrank.spec import format_spec
from peekrank.surrogates import (
    KL,
    Limits,
    ListNet,
    NDCGSquared,
    RankSVM,
    SmoothDCG,
    Squared,
    Surrogate,
    softmax,
    surrogate,
)
from peekrank.types import Floats

EVERY: list[Surrogate] = [Squared(), KL(), SmoothDCG(0.5), RankSVM(), ListNet(), NDCGSquared()]
CONVEX = [phi for phi in EVERY if phi.convex]
SCORES = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    """Two score vectors and a relevance vector of one length."""
    m = draw(st.integers(1, 6))
    one, two = (np.array(draw(st.lists(SCORES, min_size=m, max_size=m))) for _ in range(2))
    return one, two, np.array(draw(st.lists(st.integers(0, 4), min_size=m, max_size=m)), dtype=np.float64)


@pytest.mark.parametrize("phi", EVERY, ids=str)
@given(problem=problems())
@settings(max_examples=40)
def test_gradients_are_those_of_finite_differences(phi: Surrogate, problem: tuple[Floats, Floats, Floats]) -> None:
    scores, _, relevance = problem
    margins = 1 + scores - scores[:, None]
    assume(phi != RankSVM() or np.abs(margins).min() > 1e-4)  # no kink close by
    step = 1e-5
    moved = step * np.eye(len(scores))
    differences = [
        (phi.value(scores + row, relevance) - phi.value(scores - row, relevance)) / (2 * step) for row in moved
    ]
    np.testing.assert_allclose(phi.gradient(scores, relevance), differences, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("phi", CONVEX, ids=str)
@given(problem=problems())
@settings(max_examples=40)
def test_convex_ones_lie_above_their_tangents(phi: Surrogate, problem: tuple[Floats, Floats, Floats]) -> None:
    """Also at the kinks of the hinge: the gradient is then one of the subgradients."""
    one, two, relevance = problem
    one[0] = one[-1] + 1  # a kink
    tangent = phi.value(one, relevance) + phi.gradient(one, relevance) @ (two - one)
    assert phi.value(two, relevance) >= tangent - 1e-9 * (1 + abs(tangent))


def test_smooth_dcg_is_not_convex() -> None:
    phi, relevance = SmoothDCG(1.0), np.array([1.0, 0.0])
    ends = [phi.value(np.array([x, 0.0]), relevance) for x in (-4.0, 0.0)]
    assert phi.value(np.array([-2.0, 0.0]), relevance) > np.mean(ends)


@pytest.mark.parametrize("phi", EVERY, ids=str)
@given(problem=problems(), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_names_of_items_do_not_matter(phi: Surrogate, problem: tuple[Floats, Floats, Floats], seed: int) -> None:
    scores, _, relevance = problem
    order = np.random.default_rng(seed).permutation(len(scores))
    assert phi.value(scores[order], relevance[order]) == pytest.approx(phi.value(scores, relevance))
    np.testing.assert_allclose(
        phi.gradient(scores[order], relevance[order]), phi.gradient(scores, relevance)[order], atol=1e-9
    )


# --- CT16's formulas, term by term


SCORE, GRADES = [0.3, -1.2, 0.9, 0.1], [2.0, 0.0, 1.0, 2.0]


def printed(phi: Surrogate) -> tuple[float, list[float]]:
    """Value and gradient as the paper writes them; SmoothDCG with the other sign, the paper's being a gain."""
    s, R, m = SCORE, GRADES, range(4)
    if phi == Squared():
        return sum((s[i] - R[i]) ** 2 for i in m), [2 * (s[i] - R[i]) for i in m]
    if phi == KL():
        terms = [e ** R[i] * R[i] - e ** R[i] * s[i] - e ** R[i] + e ** s[i] for i in m]
        return sum(terms), [e ** s[i] - e ** R[i] for i in m]
    if phi == RankSVM():
        gradient = [0.0] * 4
        for i, j in product(m, m):
            if R[i] > R[j] and 1 + s[j] > s[i]:
                gradient[j] += 1
                gradient[i] -= 1
        return sum(max(0, 1 + s[j] - s[i]) for i, j in product(m, m) if R[i] > R[j]), gradient
    if phi == ListNet():
        P, Q = ([exp(v[i]) / sum(exp(x) for x in v) for i in m] for v in (R, s))
        return -sum(P[i] * np.log(Q[i]) for i in m), [Q[i] - P[i] for i in m]
    if isinstance(phi, SmoothDCG):
        E = [exp(x / phi.epsilon) for x in s]
        gradient = [0.0] * 4
        for i, j in product(m, m):
            term = (E[i] / sum(E) * (i == j) - E[i] * E[j] / sum(E) ** 2) / phi.epsilon
            gradient[j] -= (2 ** R[i] - 1) * term
        return -sum((2 ** R[i] - 1) * E[i] for i in m) / sum(E), gradient
    gains = [2 ** R[i] - 1 for i in m]
    Z = max(sum(gains[i] / log2(2 + p) for p, i in enumerate(order)) for order in permutations(m))
    return sum((s[i] - gains[i] / Z) ** 2 for i in m), [2 * (s[i] - gains[i] / Z) for i in m]


@pytest.mark.parametrize("phi", EVERY, ids=str)
def test_formulas_of_the_paper(phi: Surrogate) -> None:
    value, gradient = printed(phi)
    assert phi.value(np.array(SCORE), np.array(GRADES)) == pytest.approx(value)
    np.testing.assert_allclose(phi.gradient(np.array(SCORE), np.array(GRADES)), gradient)


def test_lemma_2_one_relevance_at_a_time_does_not_make_up_ranksvm() -> None:
    """CT16's example: the difference that R_1 makes depends on the others."""
    scores, first = np.array([1.0, 0.0, 0.0]), np.eye(3)[0]

    def difference(others: float) -> float:
        lists = np.array([0, others, others])
        return float((RankSVM().gradient(scores, lists + first) - RankSVM().gradient(scores, lists))[0])

    assert (difference(0.0), difference(1.0)) == (0.0, -2.0)


def test_the_calibrated_target_is_what_ndcg_sums() -> None:
    for grades in product(range(3), repeat=4):
        relevance = np.array(grades, dtype=np.float64)
        np.testing.assert_allclose(NDCGSquared().target(relevance), NDCG().gain(relevance))
    assert NDCGSquared().target([0, 0]).tolist() == [0, 0]
    assert NDCGSquared().target(np.array([7, 0], dtype=np.uint8)).tolist() == [1, 0]


# --- Theorem 3 of docs/theory/surrogates.md: binary relevance, one item is not seen


def centred(relevance: Floats) -> Floats:
    """The target of the calibrated surrogate that k = m - 1 answers can teach."""
    target = NDCGSquared().target(relevance)
    return np.asarray(target - target.mean())


def from_all_but_one(F: Callable[[Floats], Floats], relevance: Floats, hidden: int, propensity: float) -> Floats:
    """The estimate of F(relevance): hidden relevance is NaN, and so would be everything that depends on it."""
    seen = relevance.copy()
    seen[hidden] = np.nan
    others, total = [i for i in range(len(seen)) if i != hidden], np.zeros(len(seen))
    for size in range(len(seen)):
        for chosen in combinations(others, size):
            replaced = seen.copy()
            replaced[[hidden, *chosen]] = 0
            total += (-1) ** size * F(replaced) / ((size + 1) * propensity)
    return total


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_all_but_one_answer_teach_listnet_and_a_calibrated_surrogate(m: int) -> None:
    gamma = 0.2
    propensities = gamma / m + (1 - gamma) * (np.arange(m) == m - 1)  # of being hidden: the last one, or any
    bias = []
    for row in product((0.0, 1.0), repeat=m):
        relevance = np.array(row)
        for F in (softmax, centred):
            estimates = [from_all_but_one(F, relevance, z, p) for z, p in enumerate(propensities)]
            np.testing.assert_allclose(propensities @ estimates, F(relevance), atol=1e-12)
        moment = propensities @ [(1 + np.abs(from_all_but_one(softmax, relevance, z, p)).sum()) ** 2
                            for z, p in enumerate(propensities)]  # fmt: skip
        assert moment <= 4**m / gamma
        target = NDCGSquared().target
        estimates = [from_all_but_one(target, relevance, z, p) for z, p in enumerate(propensities)]
        bias.append(np.abs(propensities @ estimates - target(relevance)).max())
    assert max(bias) > 0.05  # that of the hopeless one is not unbiased


def test_three_grades_cannot_be_estimated_so() -> None:
    relevance, propensities = np.array([1.0, 2.0, 2.0]), np.full(3, 1 / 3)
    estimates = [from_all_but_one(softmax, relevance, z, p) for z, p in enumerate(propensities)]
    assert np.abs(propensities @ estimates - softmax(relevance)).max() > 0.01


# --- Lipschitz constants


LIMITS = [Limits(4, 1.0, 1.0, 1.0), Limits(5, 0.5, 3.0, 4.0), Limits(2, 2.0, 0.7, 2.0), Limits(1, 1.0, 1.0, 1.0)]


def largest_norm(phi: Surrogate, limits: Limits, tries: int = 3000) -> float:
    """Of the derivative by w, over random problems within the limits, most of them at the borders."""
    m, norm, radius, grade = limits
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(tries):
        w = rng.normal(size=2)
        w *= radius * rng.choice([0.0, rng.random(), 1.0]) / np.linalg.norm(w)
        X = rng.normal(size=(m, 2)) + rng.choice([0, 10]) * w
        if rng.random() < 0.5:
            X = np.sign(X[:, :1]) * X[0]
        X *= norm / np.linalg.norm(X, axis=1)[:, None]
        relevance = grade * rng.choice([rng.random(m), rng.integers(0, 2, m), X @ w > 0, X @ w < 0])
        largest = max(largest, float(np.linalg.norm(X.T @ phi.gradient(X @ w, relevance))))
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("phi", EVERY, ids=str)
def test_no_gradient_is_longer_than_the_constant(phi: Surrogate, limits: Limits) -> None:
    constant = phi.lipschitz(limits)
    assert 0.3 * constant <= largest_norm(phi, limits) <= constant * (1 + 1e-12)


def test_constants_are_attained() -> None:
    """The worst cases of docs/theory/surrogates.md: all items alike, or two groups of opposite items."""

    def norm(phi: Surrogate, x: list[float], w: float, relevance: list[float]) -> float:
        X = np.array(x)[:, None]
        return float(np.abs(X.T @ phi.gradient(X[:, 0] * w, np.array(relevance)))[0])

    limits = Limits(4, 2.0, 0.5, 2.0)  # scores up to 1
    worst: list[tuple[Surrogate, list[float], float, list[float]]] = [
        (Squared(), [2.0] * 4, -0.5, [2.0] * 4),
        (KL(), [2.0] * 4, -0.5, [2.0] * 4),
        (SmoothDCG(0.5), [2.0, 2.0, -2.0, -2.0], 0.0, [2.0, 2.0, 0.0, 0.0]),
        (RankSVM(), [-2.0, -2.0, 2.0, 2.0], 0.0, [2.0, 2.0, 0.0, 0.0]),
        (ListNet(), [-2.0, -2.0, 2.0, 2.0], 0.5, [2.0, 2.0, 0.0, 0.0]),
        (NDCGSquared(), [2.0] * 4, -0.5, [2.0] * 4),
    ]
    for phi, x, w, relevance in worst:
        assert norm(phi, x, w, relevance) == pytest.approx(phi.lipschitz(limits)), phi
    assert norm(KL(), [2.0] * 4, 1.5, [0.0] * 4) == pytest.approx(KL().lipschitz(Limits(4, 2.0, 1.5, 2.0)))
    assert norm(RankSVM(), [-1.0, 1.0, 1.0], 0.0, [1.0, 0, 0]) == RankSVM().lipschitz(Limits(3, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("phi", EVERY, ids=str)
def test_constants_grow_with_the_list(phi: Surrogate) -> None:
    """So one for the longest list does for all."""
    constants = [phi.lipschitz(Limits(m, 1.0, 2.0, 3.0)) for m in range(1, 30)]
    assert constants == sorted(constants)
    if phi not in (Squared(), KL(), NDCGSquared()):  # nothing to compare, nothing to learn
        assert phi.lipschitz(Limits(1, 1.0, 2.0, 3.0)) == 0


def test_nothing_relevant_leaves_nothing_to_rank() -> None:
    limits = Limits(5, 1.0, 0.0, 0.0)
    assert [phi.lipschitz(limits) for phi in EVERY] == [0] * 6


# --- names


@pytest.mark.parametrize("phi", [*EVERY, SmoothDCG(), SmoothDCG(1e-5)], ids=str)
def test_names_round_trip(phi: Surrogate) -> None:
    assert surrogate(str(phi)) == phi
    assert isinstance(phi, Surrogate)


def test_names_from_before_are_read() -> None:
    assert surrogate("smoothdcg/0.1") == SmoothDCG(0.1)
    made: Any = learner("rtopkf:surrogate=smoothdcg/0.1")
    assert str(made.surrogate) == "smoothdcg:epsilon=0.1"


def test_names_within_specifications() -> None:
    text = "rtopkf:surrogate=smoothdcg:epsilon=0.1,gamma=0.2"
    assert learner(text) == RTopKF(SmoothDCG(0.1), gamma=0.2)
    assert format_spec(learner(text)) == text


def test_answers_that_are_needed() -> None:
    assert {name: cls.min_k for name, cls in SURROGATES.items()} == {
        "squared": 1, "kl": 1, "smoothdcg": 1, "ranksvm": 2, "listnet": None, "ndcgsquared": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("squard", "unknown surrogate 'squard'"),
        ("kl/2", "unknown surrogate 'kl/2': did you mean 'kl'"),
        ("kl:epsilon=2", "'kl' has no field 'epsilon': it has none"),
        ("smoothdcg:epsilon=x", "surrogate 'smoothdcg:epsilon=x', field epsilon: 'x' is not a number"),
        ("smoothdcg/-1", "epsilon = -1.0: must be a positive number"),
    ],
)
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        surrogate(name)


def test_softmax_of_whole_numbers() -> None:
    np.testing.assert_allclose(softmax(np.array([0, 1], dtype=np.uint8)), [1 / (1 + e), e / (1 + e)])
