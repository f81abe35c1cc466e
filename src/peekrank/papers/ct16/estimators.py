"""CT16 sections 4.1 and 4.2: gradient estimates from the top, and the propensities they need.

The module computes exact means without sampling: a round of the paper's algorithm shows the greedy order with
probability 1 - gamma, else a uniformly random order, and the mean is over all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.learners.rtopkf.state import RTopKFState
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table
from peekrank.surrogates import KL, RankSVM, SmoothDCG, Squared, Surrogate
from peekrank.types import Features, Floats, Ints, Shape

ITEMS, FEATURES, GAMMA = 4, 3, 0.3
LISTS = 20  # random ones, with weights, for each case
PAPER: dict[str, tuple[Surrogate, int]] = {
    "squared": (Squared(), 1),
    "kl": (KL(), 1),
    "smoothdcg": (SmoothDCG(0.5), 1),
    "ranksvm": (RankSVM(), 2),
}
OURS = ("residual", "doubly_robust")
_SAME = 1e-9


class Round(NamedTuple):
    """A possible ranking of a round, its probability, the scores, and the gradient estimate."""

    probability: float
    ranking: Ints
    scores: Floats
    estimate: Floats


class Case(NamedTuple):
    """A surrogate, an estimator, a number of answers, and the largest error of the mean estimate."""

    surrogate: str
    estimator: str
    k: int
    error: float

    @property
    def unbiased(self) -> bool:
        """Whether the mean estimate equals the gradient up to rounding."""
        return self.error < _SAME

    @property
    def shown(self) -> str:
        """The error to one digit, without rounding errors, which differ between machines."""
        return f"below {_SAME:.0e}" if self.unbiased else f"{self.error:.0e}"


def reproduce(options: Options) -> Results:  # noqa: ARG001 - takes a second
    """Check all estimators with every sufficient number of answers below m."""
    cases = [
        Case(name, estimator, k, largest_error(surrogate, estimator, k))
        for name, (surrogate, min_k) in PAPER.items()
        for estimator in ("printed", *OURS)
        for k in range(min_k, ITEMS)
        if (name, estimator) != ("ranksvm", "doubly_robust")  # it does not exist
    ]
    rows = [(f"`{c.surrogate}`", c.estimator.replace("_", " "), c.k, c.shown) for c in cases]
    table = Table(("surrogate", "estimator", "k", "error of the mean"), rows)
    return Results([*claims(cases), *propensity_claims(seen_propensities())], {"estimators": table})


def claims(cases: list[Case]) -> Iterator[Claim]:
    """Yield the claims that the estimates are unbiased, the printed ones and ours."""
    for name, (_, min_k) in PAPER.items():
        (printed,) = (c for c in cases if c[:3] == (name, "printed", min_k))
        yield Claim(
            f"section 4.1: the estimate for `{name}` from the top {min_k} is unbiased, m = {ITEMS}",
            f"its mean is the gradient, for {LISTS} random lists",
            f"error {printed.shown}",
            printed.unbiased,
        )
    ours = [c for c in cases if c.estimator in OURS or c.k > PAPER[c.surrogate][1]]
    wrong = [c for c in ours if not c.unbiased]
    here = f"{count(len(ours) - len(wrong), len(ours))} are"
    if wrong:
        here += f"; not {wrong[0].surrogate}, {wrong[0].estimator}, k = {wrong[0].k}"
    yield Claim(
        f"ours: residual and doubly robust ones, and all with more answers, m = {ITEMS}", "all", here, not wrong
    )


def propensity_claims(propensities: Floats) -> Iterator[Claim]:
    """Yield the claims of section 4.2 on the propensities of positions 1 and 2, for items in greedy order."""
    first, both = propensities.sum(axis=1), propensities + propensities.T
    printed = 1 - GAMMA + GAMMA / ITEMS
    yield Claim(
        f"section 4.2: p(sigma(1)) = 1 - gamma + gamma/m for the greedy item, m = {ITEMS}, gamma = {GAMMA}",
        f"{printed:.4f}",
        f"{first[0]:.4f}; {first[1:].max():.4f} at most for others",
        bool(abs(first[0] - printed) < _SAME),
    )
    printed = 1 - GAMMA + 2 * GAMMA / (ITEMS * (ITEMS - 1))
    others = both[np.triu_indices(ITEMS, 1)][1:]
    yield Claim(
        "section 4.2: p(sigma(1), sigma(2)) = 1 - gamma + 2 gamma/(m(m - 1)) for the greedy two in either order",
        f"{printed:.4f}",
        f"{both[0, 1]:.4f}; {others.max():.4f} at most for others",
        bool(abs(both[0, 1] - printed) < _SAME),
    )


def largest_error(surrogate: Surrogate, estimator: Any, k: int) -> float:
    """Return the largest relative error of the mean estimate over random lists.

    >>> largest_error(Squared(), "printed", 1) < 1e-9
    True
    """
    learner = RTopKF(surrogate, estimator=estimator, unseen_order="random", gamma=GAMMA, clip=0.0, temperature=0.0)
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(LISTS):
        X = rng.normal(size=(ITEMS, FEATURES)).astype(np.float32)
        weights, relevance = rng.normal(size=(2, FEATURES)), rng.integers(0, 4, ITEMS).astype(np.float64)
        shown = list(rounds(learner, X, weights, relevance, k))
        mean = sum(r.probability * r.estimate for r in shown)
        gradient = surrogate.gradient(shown[0].scores, relevance)  # the scores of all rounds are the same
        largest = max(largest, float(np.abs(mean - gradient).max() / max(1.0, np.abs(gradient).max())))
    return largest


def seen_propensities() -> Floats:
    """Return the probability of each pair of items at positions 1 and 2, for items in greedy order.

    >>> round(float(seen_propensities().sum()), 9)
    1.0
    """
    learner = RTopKF(unseen_order="random", temperature=0.0, gamma=GAMMA)
    X = np.eye(ITEMS, FEATURES, dtype=np.float32)
    weights = np.tile(np.arange(FEATURES, 0.0, -1), (2, 1))
    pairs = np.zeros((ITEMS, ITEMS))
    for probability, ranking, *_ in rounds(learner, X, weights, np.zeros(ITEMS), 1):
        pairs[ranking[0], ranking[1]] += probability
    return pairs


def rounds(learner: RTopKF, X: Features, weights: Floats, relevance: Floats, k: int) -> Iterator[Round]:
    """Yield all possible rounds: the greedy order, and every order by exploration."""
    shape = Shape(ITEMS, FEATURES, k)
    shuffles = list(product(*((np.arange(n) + 0.5) / n for n in range(ITEMS, 1, -1))))
    uniforms = [(1 - GAMMA, np.r_[(1 + GAMMA) / 2, np.full(ITEMS, 0.5)])]
    uniforms += [(GAMMA / len(shuffles), np.r_[GAMMA / 2, shuffle, 0.5]) for shuffle in shuffles]
    rank, update = learner.kernels[:2]
    for probability, draws in uniforms:
        state = _state(learner, k, weights)
        ranking, token = np.empty(ITEMS, dtype=np.int64), np.zeros(learner.token_size(shape))
        rank(state, X, draws, ranking, token)
        update(state, X, ranking, token, relevance[ranking[:k]])
        yield Round(probability, ranking, state.scores[:ITEMS].copy(), state.slopes[:ITEMS].copy())


def _state(learner: RTopKF, k: int, weights: Floats) -> RTopKFState:
    state = learner.init(Shape(ITEMS, FEATURES, k))
    state.w[:], state.v[:] = weights
    return state
