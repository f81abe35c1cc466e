"""RTop-kF, ranking lists with features from top-k feedback (CT16, Algorithm 1), and better estimators for it."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cache
from math import exp, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, specialise, unspecialised
from peekrank._util.validate import choice, positive, whole
from peekrank.kernels.sorting import SortSpace, place_of, shuffle, sort_descending, sort_space
from peekrank.kernels.vectors import Weights, add, add_rows, all_finite, copy, dot, score, shrink_into_ball
from peekrank.learners._shared import answered, fault_in_numbers
from peekrank.surrogates import Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.surrogates.estimates import Estimate, Estimates, Estimator, Parameters, Seen, Target
from peekrank.types import Features, Floats, Ints, Kernels, Shape

Below = Literal["greedy", "random"]
Step = Literal["scale_free", "theorem"]
# The token: explored mark, gamma (-1: scores overflowed), P(first k of the greedy order), k propensities, scores,
# predictions
_GAMMA, _TOP, _CHANCES = 1, 2, 3
# Sums: rounds answered; for w and for the regression, squared norms of gradients and the largest of an item; the
# constant of the regression; whether scores overflowed in the last round
_ROUNDS, _SQUARES, _LARGEST, _SQUARES_V, _LARGEST_V, _BIAS, _OVERFLOWED = range(7)


class RTopKFState(NamedTuple):
    """Weights of the features, what their step sizes come from, and working memory."""

    w: Weights
    v: Weights  # of a regression of the targets, for doubly robust estimates
    sums: Floats
    parameters: Parameters  # of the surrogate
    robust: bool
    all_needed: bool  # whether a missing answer spoils the others
    random_below: bool
    temperature: float
    gamma: float  # of every round, or 0: t^(-1/3) in round t
    step: float  # of every round, or 0: scale-free
    rate: float
    radius: float
    k: int
    z: Weights
    scores: Floats
    slopes: Floats
    chances: Floats
    pairs: Floats  # chances of two answers to be seen both; empty where no pairs count, or all are seen
    order: Ints
    items: Ints
    sorting: SortSpace


@kernel
def _top_chances(s: RTopKFState, n: int) -> None:
    """Chance of each item to be put on top of the greedy order: all on its first, or a softmax of the scores."""
    if s.temperature == 0:
        s.chances[:n] = 0
        s.chances[s.order[0]] = 1
        return
    best = s.scores[s.order[0]]
    unit = s.temperature * (best - s.scores[s.order[n - 1]])
    total = 0.0
    for i in range(n):
        s.chances[i] = exp((s.scores[i] - best) / unit) if unit > 0 else 1.0
        total += s.chances[i]
    for i in range(n):
        s.chances[i] /= total


@kernel
def _show_random_items(s: RTopKFState, k: int, uniforms: Floats, ranking: Ints) -> None:
    """Draw k items uniformly, then come all others; each part in the greedy order."""
    n = len(ranking)
    for i in range(n):
        s.items[i] = i
    for p in range(k):
        q = p + int(uniforms[p] * (n - p))
        s.items[p], s.items[q] = s.items[q], s.items[p]
    above, below = 0, k
    for p in range(n):
        drawn = False
        for q in range(k):
            drawn |= s.items[q] == s.order[p]
        if drawn:
            ranking[above] = s.order[p]
            above += 1
        else:
            ranking[below] = s.order[p]
            below += 1


@kernel
def _show_greedy_order(s: RTopKFState, k: int, uniform: float, ranking: Ints) -> None:
    """The greedy order; an item drawn by the chances takes the last place that is seen if it would not be seen."""
    drawn = 0
    while uniform >= s.chances[s.order[drawn]] and drawn < len(ranking) - 1:
        uniform -= s.chances[s.order[drawn]]
        drawn += 1
    copy(s.order[: len(ranking)], ranking)
    for p in range(drawn, k - 1, -1):
        ranking[p] = ranking[p - 1]
    if drawn >= k:
        ranking[k - 1] = s.order[drawn]


@kernel
def _seen_chance(s: RTopKFState, place: int, k: int, n: int, token: Floats) -> float:
    """Probability of the item at a place of the greedy order to be among the first k."""
    gamma = token[_GAMMA]
    exploited = 1.0 if place < k - 1 else token[_TOP] if place == k - 1 else s.chances[s.order[place]]
    return float(min(1.0, gamma * k / n + (1 - gamma) * exploited))


@kernel
def _best(s: RTopKFState, X: Features, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    score(X, s.w, s.scores)
    overflowed = not all_finite(s.scores[:n])
    if s.robust:
        predicted = token[_CHANCES + s.k + len(s.scores) :]
        score(X, s.v, predicted)
        for i in range(n):
            predicted[i] += s.sums[_BIAS]
        overflowed |= not all_finite(predicted[:n])
    if overflowed:  # nothing can be learned from them
        token[:] = 0
        token[_GAMMA] = -1
        for i in range(n):
            ranking[i] = i
        return
    sort_descending(s.scores[:n], s.order[:n], s.sorting)
    copy(s.scores[:n], token[_CHANCES + s.k :])
    copy(s.order[:n], ranking)


@kernel
def _explore(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    k = min(s.k, n)
    if token[_GAMMA] < 0:
        return
    if k == n:  # all is seen whatever is shown
        token[_CHANCES : _CHANCES + n] = 1
        return
    gamma = s.gamma if s.gamma > 0 else min(0.5, (s.sums[_ROUNDS] + 1) ** (-1 / 3))
    _top_chances(s, n)
    if uniforms[0] < gamma:
        token[0] = 1
        if s.random_below:
            shuffle(uniforms[1:], ranking)
        else:
            _show_random_items(s, k, uniforms[1:], ranking)
    else:
        _show_greedy_order(s, k, uniforms[1], ranking)
    token[_GAMMA] = gamma
    token[_TOP] = 0
    for p in range(k):
        token[_TOP] += s.chances[s.order[p]]
    for p in range(k):
        item, place = ranking[p], 0
        while s.order[place] != item:
            place += 1
        token[_CHANCES + p] = _seen_chance(s, place, k, n, token)


@kernel
def _rank(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    _best(s, X, ranking, token)
    _explore(s, X, uniforms, ranking, token)


@kernel
def _fill_chances(s: RTopKFState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    n = len(ranking)
    k = min(s.k, n)
    for place in range(n):
        if token[_GAMMA] < 0:  # scores overflowed, and nothing was left to chance
            out[ranking[place]] = place < k
        else:
            out[s.order[place]] = 1.0 if k == n else _seen_chance(s, place, k, n, token)


@kernel
def _adopt(s: RTopKFState, X: Features, ranking: Ints, chances: Floats, token: Floats) -> None:
    """What was seen is divided by the probability of seeing it, whoever chose the ranking; scores are our own."""
    for p in range(min(s.k, len(ranking))):
        token[_CHANCES + p] = chances[ranking[p]]


@kernel
def _fill_pairs(s: RTopKFState, ranking: Ints, token: Floats, scores: Floats) -> None:
    """Probability of each two of the items that were seen to be both seen; s.items gets their places."""
    k, n, gamma = len(s.pairs), len(ranking), token[_GAMMA]
    for a in range(k):
        s.items[a] = place_of(scores, ranking[a])
    for a in range(k):
        for b in range(a):
            low, high = (a, b) if s.items[a] < s.items[b] else (b, a)
            if s.items[high] < k - 1:
                exploited = 1.0
            elif s.items[high] == k - 1:
                exploited = token[_TOP]
            elif s.items[low] < k - 1:
                exploited = (token[_CHANCES + high] - gamma * k / n) / (1 - gamma)
            else:
                exploited = 0.0
            chance = gamma * k * (k - 1) / (n * (n - 1)) + (1 - gamma) * exploited
            s.pairs[a, b] = s.pairs[b, a] = chance


@kernel
def _descend_scale_free(s: RTopKFState, X: Features, rows: Ints) -> None:
    """A step of rate / sqrt(largest squared norm of an item x sum of squared norms of gradients)."""
    norm = 0.0
    for i in rows:
        norm = float(dot(X[i], X[i]))
        s.sums[_LARGEST] = max(s.sums[_LARGEST], norm)
    if len(rows) == 1:
        s.sums[_SQUARES] += s.slopes[rows[0]] ** 2 * norm
    else:
        s.z[:] = 0
        add_rows(X, rows, s.slopes, 1.0, s.z)
        s.sums[_SQUARES] += dot(s.z, s.z)
    scale = s.sums[_LARGEST] * s.sums[_SQUARES]
    step = s.rate / sqrt(scale) if scale > 0 else 0.0
    if len(rows) == 1:
        add_rows(X, rows, s.slopes, -step, s.w)
    else:
        add(s.z, -step, s.w)


@kernel
def _descend(s: RTopKFState, X: Features) -> None:
    """One step against the estimated gradient X' slopes, and back into the ball."""
    count = 0
    for i in range(len(X)):
        if s.slopes[i] != 0:
            s.items[count] = i
            count += 1
    rows = s.items[:count]
    if s.step > 0:
        add_rows(X, rows, s.slopes, -s.step, s.w)
    elif count > 0:
        _descend_scale_free(s, X, rows)
    if s.radius < np.inf:
        shrink_into_ball(s.w, s.radius)


# Kernels that the templates below are specialised for
target: Target = unspecialised
estimate: Estimate = unspecialised


def _regress(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """A step of the regression on what was seen."""
    predicted = token[_CHANCES + s.k + len(s.scores) :]
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            continue
        x = X[ranking[p]]
        error = predicted[ranking[p]] - target(s.parameters, feedback[p])
        norm = 1 + dot(x, x)
        s.sums[_LARGEST_V] = max(s.sums[_LARGEST_V], norm)
        s.sums[_SQUARES_V] += error * error * norm
        if error != 0:
            step = error / sqrt(s.sums[_LARGEST_V] * s.sums[_SQUARES_V])
            s.sums[_BIAS] -= step
            add(x, -step, s.v)


@kernel
def regress(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Nothing: only doubly robust estimates need predictions."""


def _update(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    n, k = len(ranking), len(feedback)
    if token[_GAMMA] < 0:
        s.sums[_OVERFLOWED] = 1
        return
    for p in range(k):
        if not (0 < token[_CHANCES + p] <= 1 and token[_GAMMA] < 1):
            raise ValueError("the token of this decision is not one of this agent's")
    answers = answered(feedback)
    if answers == 0 or (s.all_needed and answers < k):
        return
    s.sums[_ROUNDS] += answers / k
    s.sums[_OVERFLOWED] = 0
    chances, scores, predicted = token[_CHANCES:], token[_CHANCES + s.k :], token[_CHANCES + s.k + len(s.scores) :]
    pairs = s.pairs if k < n else s.pairs[:0]
    if len(pairs) > 0:
        _fill_pairs(s, ranking, token, scores[:n])
    s.slopes[:n] = 0
    seen = Seen(
        scores[:n], ranking, feedback, chances[:k], pairs, predicted[:n], s.chances[:n], s.order[:n], s.sorting
    )
    estimate(s.parameters, seen, s.slopes[:n])
    regress(s, X, ranking, token, feedback)
    _descend(s, X)


@cache
def _kernels(name: str, estimates: Estimates, estimator: Estimator, *, pairs: bool) -> Kernels:
    """The kernels that descend the surrogate of this name by one of its estimates.

    Chances of pairs cannot be told from those of items: where they count, nothing is learned from others.
    """
    parts: dict[str, Any] = {"estimate": estimates.of(estimator)}
    if estimates.target is not None and estimator == "doubly_robust":
        parts["regress"] = specialise(_regress, name, target=estimates.target)
    update = specialise(_update, f"{name}-{estimator}", **parts)
    adopt = None if pairs else _adopt
    return Kernels(_rank, update, _fill_chances, adopt=adopt, best=_best, explore=_explore)


@dataclass(frozen=True)
class RTopKF:
    """Descend a surrogate's gradient, estimated without bias from the k relevances that are seen.

    Each round scores the items of a list by ``s = X w`` and shows the greedy order; with probability gamma, k
    random items come on top. The gradient of the surrogate at s is estimated by dividing what is seen by the
    probability of seeing it, exactly. Then ``w <- w - eta X' (estimate)``, projected on a ball.

    As printed (`as_printed`): all of the list is shuffled when exploring, gamma = T^(-1/3), eta = T^(-2/3), and
    the squared loss uses ``2 (s - R_i e_i / p_i)``. The defaults need no horizon and no tuning and are better:

    - *residual* ``2 (s_i - R_i) / p_i`` for what was seen: its noise shrinks with the residual. *Doubly robust*: a
      regression predicts all relevances, and what was seen corrects it.
    - the k items that were drawn come in the greedy order, and so do those below. The propensities are the same.
    - gamma = t^(-1/3) in round t (1/2 at most), after t - 1 answered rounds.
    - *scale-free* steps: ``rate z / (M sqrt(sum of |z|^2))`` with M the largest norm of an item: multiplying all
      features or the loss by a number does not change the rankings (without a ball; not with doubly robust).
    - else an item is drawn from ``softmax(s / (temperature (max s - min s)))``, and moves up to place k: those
      nearly as good as the best are seen often. With temperature 0 the greedy order is shown.

    A list of k items or fewer is seen as a whole: nothing is explored, and the gradient is exact. So k = m is full
    information. All items or pairs that were answered are used, whatever k is; estimates as printed, and those of
    surrogates that need the whole list, leave out a round with an unanswered question. At w = 0 all scores tie:
    ties go by index, always.

    Parameters
    ----------
    surrogate
        What is descended; listnet and ndcgsquared need k = m.
    horizon
        Rounds T; needed for `step=theorem` and for nothing else.
    estimator
        How the gradient is estimated.
    below
        How the drawn items, and those below them, are ordered in a round that explores.
    gamma
        Probability of exploring; None for t^(-1/3).
    temperature
        Temperature of the softmax that draws an item, in units of the spread of a list's scores; 0 draws the best.
    step
        Scale-free, or the theorem's T^(-2/3), T^(-1/2) where all is seen.
    rate
        Factor of the step.
    radius
        Radius of the ball that w stays in; None for no ball.

    >>> from peekrank.surrogates import KL
    >>> learner = RTopKF(KL(), gamma=0.1)
    >>> learner.min_k, learner.full_information
    (1, False)

    References
    ----------
    CT16 Algorithm 1 and section 4. Erratum: its p(sigma(1)) = 1 - gamma + gamma / m is that of the greedy top
    only; for another item it is gamma / m.
    """

    surrogate: Surrogate = field(default=Squared(), metadata={"read": surrogate_named})
    horizon: int | None = None
    estimator: Estimator = "residual"
    below: Below = "greedy"
    gamma: float | None = None
    temperature: float = 0.05
    step: Step = "scale_free"
    rate: float = 1.0
    radius: float | None = None
    name: ClassVar[str] = "rtopkf"
    contextual: ClassVar[bool] = True
    any_length: ClassVar[bool] = True
    measure: ClassVar[None] = None
    memory: ClassVar[tuple[str, ...]] = ("w", "v", "sums")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            whole("horizon", self.horizon, 1, 10**12)
        choice("estimator", self.estimator, Estimator)
        choice("below", self.below, Below)
        choice("step", self.step, Step)
        positive("rate", self.rate)
        if self.radius is not None:
            positive("radius", self.radius)
        if self.gamma is not None and not 0 < self.gamma < 1:
            raise ValueError(f"gamma = {self.gamma}: must be a probability above 0 and below 1")
        if not 0 <= self.temperature < np.inf:
            raise ValueError(f"temperature = {self.temperature}: must be a number from 0 on")
        if self.step == "theorem" and self.horizon is None:
            raise ValueError("step = theorem: needs a horizon, as in horizon=250000")
        if self._estimates.of(self.estimator) is None:
            what = f"predicts one relevance at a time, and {self.surrogate} is no sum over items"
            raise ValueError(f"estimator = {self.estimator}: {what}; use squared, kl or smoothdcg")

    @staticmethod
    def as_printed(surrogate: Surrogate, horizon: int) -> RTopKF:
        """The paper's algorithm with the paper's parameters."""
        gamma = min(0.5, horizon ** (-1 / 3))
        return RTopKF(surrogate, horizon, "printed", "random", gamma=gamma, temperature=0.0, step="theorem")

    @property
    def kernels(self) -> Kernels:
        """The kernels for this surrogate and estimator."""
        return _kernels(self.surrogate.name, self._estimates, self.estimator, pairs=self.min_k > 1)

    @property
    def _estimates(self) -> Estimates:
        given: object = self.surrogate
        if not isinstance(given, Surrogate) or not isinstance(given.estimates, Estimates):
            what = "has no estimates of its gradient that rtopkf could descend"
            raise ValueError(f"surrogate = {given}: {what}; docs/extend.md shows what a surrogate needs")
        return given.estimates

    @property
    def min_k(self) -> int:
        """Answers that the estimate needs."""
        return self.surrogate.min_k or 1

    @property
    def full_information(self) -> bool:
        """Whether it must see all."""
        return self.surrogate.min_k is None

    @property
    def max_grade(self) -> int:
        """The largest grade: some surrogates are exponential in it, and gradients are float32."""
        return self._estimates.max_grade

    def init(self, shape: Shape) -> RTopKFState:
        """State before the first round."""
        m, d, k = shape
        pairs = k if self.min_k > 1 and k < m else 0
        exponent = -1 / 2 if self.full_information or k >= m else -2 / 3
        return RTopKFState(
            w=np.zeros(d, dtype=np.float32),
            v=np.zeros(d, dtype=np.float32),
            sums=np.zeros(7),
            parameters=astuple(self.surrogate),
            robust=self.estimator == "doubly_robust",
            all_needed=self.estimator == "printed" or self.surrogate.min_k is None,
            random_below=self.below == "random",
            temperature=self.temperature,
            gamma=self.gamma or 0.0,
            step=self.rate * (self.horizon or 1) ** exponent if self.step == "theorem" else 0.0,
            rate=self.rate,
            radius=self.radius or np.inf,
            k=k,
            z=np.zeros(d, dtype=np.float32),
            scores=np.zeros(m),
            slopes=np.zeros(m),
            chances=np.zeros(m),
            pairs=np.zeros((pairs, pairs)),
            order=np.zeros(m, dtype=np.int64),
            items=np.zeros(m, dtype=np.int64),
            sorting=sort_space(m),
        )

    def fault(self, state: RTopKFState) -> str:
        """What is wrong with a memory that was read."""
        if fault := fault_in_numbers(state, "w", "v", "sums"):
            return fault
        return "" if np.delete(state.sums, _BIAS).min() >= 0 else "its sums of squares and rounds are below 0"

    def scores(self, state: RTopKFState, X: Features) -> Floats:
        """The weighted sum of each item's features."""
        scores = np.empty(len(X))
        score(X, state.w, scores)
        return scores

    def token_size(self, shape: Shape) -> int:
        """Explored mark, gamma, a chance, k propensities, the scores, and predictions if there are any."""
        return _CHANCES + shape.k + shape.m * (2 if self.estimator == "doubly_robust" else 1)

    def draws(self, shape: Shape) -> int:
        """One for whether to explore, and one for each item that may be drawn."""
        return 1 + (shape.m if self.below == "random" else shape.k)

    def perceive(self, relevance: NDArray[Any]) -> Floats:
        """The grades as they are."""
        return np.asarray(relevance, dtype=np.float64)

    def weights(self, state: RTopKFState) -> Weights:
        """The weight of each feature."""
        return state.w

    def trouble(self, state: RTopKFState) -> str:
        """Why the learner has stopped learning; empty while it is healthy."""
        if np.isfinite(state.w).all() and np.isfinite(state.sums).all() and not state.sums[_OVERFLOWED]:
            return ""
        remedy = ", or use step=scale_free" if self.step == "theorem" else ""
        return (
            "weights, scores or steps have overflowed, and nothing is learned any more: features are too large or "
            f"not finite, or steps are too long for them; scale the features{remedy}"
        )

    def bound(self, shape: Shape, horizon: int) -> None:
        """None: the theorem bounds regret in the surrogate, not in a measure."""
