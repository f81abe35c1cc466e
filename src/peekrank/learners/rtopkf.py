"""RTop-kF, ranking lists with features from top-k feedback (CT16, Algorithm 1), and better estimators for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, exp2, log2, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, sum_kernel
from peekrank._util.validate import choice, positive, whole
from peekrank.kernels.sorting import SortSpace, shuffle, sort_descending, sort_space
from peekrank.learners._shared import answered
from peekrank.surrogates import KL, ListNet, NDCGSquared, RankSVM, SmoothDCG, Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.types import Features, Floats, Ints, Kernels, Shape

Estimator = Literal["printed", "residual", "doubly_robust"]
Below = Literal["greedy", "random"]
Step = Literal["scale_free", "theorem"]
Weights = NDArray[np.float32]

_SQUARED, _KL, _SMOOTHDCG, _RANKSVM, _LISTNET, _NDCGSQUARED = (
    s.code for s in (Squared, KL, SmoothDCG, RankSVM, ListNet, NDCGSquared)
)
_PRINTED, _ROBUST = 0, 2
# The token: explored mark, gamma, P(first k of the greedy order), k propensities, then scores, then predictions
_GAMMA, _TOP, _CHANCES = 1, 2, 3
# Sums: rounds answered; for w and for the regression, squared norms of gradients and the largest of an item; the
# constant of the regression; whether scores overflowed in the last round
_ROUNDS, _SQUARES, _LARGEST, _SQUARES_V, _LARGEST_V, _BIAS, _OVERFLOWED = range(7)
_HIGHEST = 30.0  # score whose exponential is taken for all higher ones, so that nothing overflows


class RTopKFState(NamedTuple):
    """Weights of the features, what their step sizes come from, and working memory."""

    w: Weights
    v: Weights  # of a regression of the targets, for doubly robust estimates
    sums: Floats
    surrogate: int
    epsilon: float
    estimator: int
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
    order: Ints
    items: Ints
    sorting: SortSpace


@sum_kernel
def dot(x: Weights, y: Weights) -> np.float32:
    """Inner product."""
    total = np.float32(0)
    for f in range(len(x)):
        total += x[f] * y[f]
    return total


@kernel
def _score(X: Features, w: Weights, out: Floats) -> None:
    for i in range(len(X)):
        out[i] = dot(X[i], w)


@kernel
def _all_finite(numbers: NDArray[Any]) -> bool:
    total = 0.0
    for i in range(len(numbers)):
        total += numbers[i]
    return bool(np.isfinite(total))


@kernel
def _top_chances(s: RTopKFState, n: int) -> None:
    """Chance of each item to be put on top of the greedy order: all on its first, or a softmax of the scores."""
    if s.temperature == 0:
        for i in range(n):
            s.chances[i] = 0
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
    for p in range(len(ranking)):
        ranking[p] = s.order[p]
    for p in range(drawn, k - 1, -1):
        ranking[p] = ranking[p - 1]
    if drawn >= k:
        ranking[k - 1] = s.order[drawn]


@kernel
def _rank(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    k = min(s.k, n)
    _score(X, s.w, s.scores)
    if not _all_finite(s.scores[:n]):  # nothing can be learned from them
        token[_GAMMA] = np.nan
        for i in range(n):
            ranking[i] = i
        return
    sort_descending(s.scores[:n], s.order[:n], s.sorting)
    for i in range(n):
        token[_CHANCES + s.k + i] = s.scores[i]
    if s.estimator == _ROBUST:
        predicted = token[_CHANCES + s.k + len(s.scores) :]
        _score(X, s.v, predicted)
        for i in range(n):
            predicted[i] += s.sums[_BIAS]
    if k == n:  # all is seen whatever is shown
        for p in range(n):
            ranking[p] = s.order[p]
            token[_CHANCES + p] = 1
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
        exploited = 1.0 if place < k - 1 else token[_TOP] if place == k - 1 else s.chances[item]
        token[_CHANCES + p] = min(1.0, gamma * k / n + (1 - gamma) * exploited)


@kernel
def _rank_of(scores: Floats, item: int) -> int:
    """Place of an item in the greedy order."""
    place = 0
    for j in range(len(scores)):
        place += scores[j] > scores[item] or (scores[j] == scores[item] and j < item)
    return place


@kernel
def _pair_chance(scores: Floats, token: Floats, k: int, i: int, j: int, chance_i: float, chance_j: float) -> float:
    """Probability that two items are both seen; `chance_` are those of each."""
    n = len(scores)
    if k == n:
        return 1.0
    gamma = token[_GAMMA]
    a, b = _rank_of(scores, i), _rank_of(scores, j)
    low, high, seldom = (a, b, chance_j) if a < b else (b, a, chance_i)
    if high < k - 1:
        exploited = 1.0
    elif high == k - 1:
        exploited = token[_TOP]
    elif low < k - 1:
        exploited = (seldom - gamma * k / n) / (1 - gamma)
    else:
        exploited = 0.0
    return float(gamma * k * (k - 1) / (n * (n - 1)) + (1 - gamma) * exploited)


@kernel
def _target(s: RTopKFState, relevance: float) -> float:
    """What the regression predicts: the part of the gradient that depends on relevance."""
    if s.surrogate == _KL:
        return exp(relevance)
    return exp2(relevance) - 1 if s.surrogate == _SMOOTHDCG else relevance


@kernel
def _own(s: RTopKFState, score: float) -> float:
    """The part of the gradient that depends on the score alone, in the same unit as the target."""
    return exp(min(score, _HIGHEST)) if s.surrogate == _KL else score


@kernel
def _estimate_items(s: RTopKFState, ranking: Ints, token: Floats, feedback: Floats, scores: Floats) -> None:
    """Squared, KL, SmoothDCG: fill s.chances with estimated targets, then the slopes."""
    n, k = len(ranking), len(feedback)
    chances, predicted = token[_CHANCES:], token[_CHANCES + s.k + len(s.scores) :]
    whole_list = s.estimator == _ROBUST or (s.estimator == _PRINTED and s.surrogate != _KL)
    if not whole_list and s.surrogate != _SMOOTHDCG:
        for p in range(k):
            i = ranking[p]
            s.slopes[i] = (_own(s, scores[i]) - _target(s, feedback[p])) / chances[p]
    else:
        for i in range(n):
            s.chances[i] = predicted[i] if s.estimator == _ROBUST else 0.0
        for p in range(k):
            i = ranking[p]
            s.chances[i] += (_target(s, feedback[p]) - s.chances[i]) / chances[p]
        if s.surrogate != _SMOOTHDCG:
            for i in range(n):
                s.slopes[i] = _own(s, scores[i]) - s.chances[i]
        else:
            _soften(scores, s.epsilon, s.slopes)
            total = 0.0
            for i in range(n):
                s.chances[i] *= s.slopes[i] / s.epsilon
                total += s.chances[i]
            for i in range(n):
                s.slopes[i] = total * s.slopes[i] - s.chances[i]
    if s.surrogate == _SQUARED:
        for i in range(n):
            s.slopes[i] *= 2


@kernel
def _soften(scores: Floats, epsilon: float, out: Floats) -> None:
    best, total = scores[0], 0.0
    for i in range(len(scores)):
        best = max(best, scores[i])
    for i in range(len(scores)):
        out[i] = exp((scores[i] - best) / epsilon)
        total += out[i]
    for i in range(len(scores)):
        out[i] /= total


@kernel
def _estimate_pairs(s: RTopKFState, ranking: Ints, token: Floats, feedback: Floats, scores: Floats) -> None:
    """RankSVM, from all pairs that were seen."""
    chances, k = token[_CHANCES:], len(feedback)
    for a in range(k):
        for b in range(k):
            i, j = ranking[a], ranking[b]
            if feedback[a] > feedback[b] and 1 + scores[j] > scores[i]:
                weight = 1 / _pair_chance(scores, token, k, i, j, chances[a], chances[b])
                s.slopes[i] -= weight
                s.slopes[j] += weight


@kernel
def _whole_list(s: RTopKFState, ranking: Ints, feedback: Floats, scores: Floats) -> None:
    """ListNet and the calibrated squared loss, from all answers."""
    n = len(ranking)
    if s.surrogate == _NDCGSQUARED:
        for p in range(n):
            s.chances[ranking[p]] = exp2(feedback[p]) - 1
        sort_descending(s.chances[:n], s.order[:n], s.sorting)
        largest = 0.0
        for p in range(n):
            largest += s.chances[s.order[p]] / log2(2.0 + p)
        for i in range(n):
            s.slopes[i] = 2 * (scores[i] - (s.chances[i] / largest if largest > 0 else 0.0))
        return
    for p in range(n):
        s.chances[ranking[p]] = feedback[p]
    _soften(s.chances[:n], 1.0, s.chances)
    _soften(scores, 1.0, s.slopes)
    for i in range(n):
        s.slopes[i] -= s.chances[i]


@kernel
def _add_rows(X: Features, rows: Ints, slopes: Floats, factor: float, out: Weights) -> None:
    """Add factor times slope times row; four rows at a time, so that `out` is read and written less often."""
    q = 0
    while q + 4 <= len(rows):
        g, h, i, j = rows[q], rows[q + 1], rows[q + 2], rows[q + 3]
        a, b = np.float32(factor * slopes[g]), np.float32(factor * slopes[h])
        c, d = np.float32(factor * slopes[i]), np.float32(factor * slopes[j])
        for f in range(len(out)):
            out[f] += (a * X[g, f] + b * X[h, f]) + (c * X[i, f] + d * X[j, f])
        q += 4
    while q < len(rows):
        i = rows[q]
        a = np.float32(factor * slopes[i])
        for f in range(len(out)):
            out[f] += a * X[i, f]
        q += 1


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
        for f in range(len(s.z)):
            s.z[f] = 0
        _add_rows(X, rows, s.slopes, 1.0, s.z)
        s.sums[_SQUARES] += dot(s.z, s.z)
    scale = s.sums[_LARGEST] * s.sums[_SQUARES]
    step = s.rate / sqrt(scale) if scale > 0 else 0.0
    if len(rows) == 1:
        _add_rows(X, rows, s.slopes, -step, s.w)
    else:
        factor = np.float32(step)
        for f in range(len(s.w)):
            s.w[f] -= factor * s.z[f]


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
        _add_rows(X, rows, s.slopes, -s.step, s.w)
    elif count > 0:
        _descend_scale_free(s, X, rows)
    if s.radius < np.inf:
        norm = sqrt(dot(s.w, s.w))
        if norm > s.radius:
            shrink = np.float32(s.radius / norm)
            for f in range(len(s.w)):
                s.w[f] *= shrink


@kernel
def _predict_better(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """A step of the regression on what was seen."""
    predicted = token[_CHANCES + s.k + len(s.scores) :]
    for p in range(len(feedback)):
        x = X[ranking[p]]
        error = predicted[ranking[p]] - _target(s, feedback[p])
        norm = 1 + dot(x, x)
        s.sums[_LARGEST_V] = max(s.sums[_LARGEST_V], norm)
        s.sums[_SQUARES_V] += error * error * norm
        if error != 0:
            step = error / sqrt(s.sums[_LARGEST_V] * s.sums[_SQUARES_V])
            s.sums[_BIAS] -= step
            for f in range(len(x)):
                s.v[f] -= np.float32(step) * x[f]


@kernel
def _update(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    n = len(ranking)
    if np.isnan(token[_GAMMA]):
        s.sums[_OVERFLOWED] = 1
        return
    for p in range(len(feedback)):
        if not 0 < token[_CHANCES + p] <= 1:
            raise ValueError("the token of this decision is not one of this agent's")
    if not answered(feedback):
        return
    s.sums[_ROUNDS] += 1
    s.sums[_OVERFLOWED] = 0
    scores = token[_CHANCES + s.k : _CHANCES + s.k + n]
    for i in range(n):
        s.slopes[i] = 0
    if s.surrogate == _RANKSVM:
        _estimate_pairs(s, ranking, token, feedback, scores)
    elif s.surrogate in (_LISTNET, _NDCGSQUARED):
        _whole_list(s, ranking, feedback, scores)
    else:
        _estimate_items(s, ranking, token, feedback, scores)
        if s.estimator == _ROBUST:
            _predict_better(s, X, ranking, token, feedback)
    _descend(s, X)


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
    information. All items or pairs that were seen are used, whatever k is. A round with an unanswered question is
    left out as a whole. At w = 0 all scores tie: ties go by index, always.

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
        Of the softmax that draws an item, in units of the spread of a list's scores; 0 to draw the best always.
    step
        Scale-free, or the theorem's T^(-2/3), T^(-1/2) where all is seen.
    rate
        Factor of the step.
    radius
        Of the ball that w stays in; None for no ball.

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
    kernels: ClassVar[Kernels] = Kernels(_rank, _update)

    def __post_init__(self) -> None:
        if self.horizon is not None:
            whole("horizon", self.horizon, 1, 10**12)
        for name, hint in (("estimator", Estimator), ("below", Below), ("step", Step)):
            choice(name, getattr(self, name), hint)
        positive("rate", self.rate)
        if self.radius is not None:
            positive("radius", self.radius)
        if self.gamma is not None and not 0 < self.gamma < 1:
            raise ValueError(f"gamma = {self.gamma}: must be a probability above 0 and below 1")
        if not 0 <= self.temperature < np.inf:
            raise ValueError(f"temperature = {self.temperature}: must be a number from 0 on")
        if self.step == "theorem" and self.horizon is None:
            raise ValueError("step = theorem: needs a horizon, as in horizon=250000")
        if self.estimator == "doubly_robust" and self.surrogate.min_k != 1:
            raise ValueError(
                f"estimator = doubly_robust: predicts one relevance at a time, and {self.surrogate} is no sum "
                "over items; use squared, kl or smoothdcg"
            )

    @staticmethod
    def as_printed(surrogate: Surrogate, horizon: int) -> RTopKF:
        """The paper's algorithm with the paper's parameters."""
        gamma = min(0.5, horizon ** (-1 / 3))
        return RTopKF(surrogate, horizon, "printed", "random", gamma=gamma, temperature=0.0, step="theorem")

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
        """The largest grade: kl and smoothdcg are exponential in it, and gradients are float32."""
        return 30 if self.surrogate.code in (_KL, _SMOOTHDCG) else 255

    def init(self, shape: Shape) -> RTopKFState:
        """State before the first round."""
        m, d, k = shape
        exponent = -1 / 2 if self.full_information or k >= m else -2 / 3
        return RTopKFState(
            w=np.zeros(d, dtype=np.float32),
            v=np.zeros(d, dtype=np.float32),
            sums=np.zeros(7),
            surrogate=self.surrogate.code,
            epsilon=getattr(self.surrogate, "epsilon", 1.0),
            estimator=("printed", "residual", "doubly_robust").index(self.estimator),
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
            order=np.zeros(m, dtype=np.int64),
            items=np.zeros(m, dtype=np.int64),
            sorting=sort_space(m),
        )

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
        """Why nothing is learned any more; empty if nothing is wrong."""
        if np.isfinite(state.w).all() and np.isfinite(state.sums).all() and not state.sums[_OVERFLOWED]:
            return ""
        return (
            "weights, scores or steps have overflowed, and nothing is learned any more: features are too large or "
            "not finite, or steps are too long for them; scale the features, or use step=scale_free"
        )

    def bound(self, shape: Shape, horizon: int) -> None:
        """None: the theorem bounds regret in the surrogate, not in a measure."""
