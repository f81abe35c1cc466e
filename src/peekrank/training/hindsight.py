"""Surrogate regret: the loss of a run, and the loss of the best fixed weights in hindsight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, reassociating_kernel, specialise, unspecialised
from peekrank._util.extras import extra
from peekrank.engine import Agent, Seed
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.streams.fixed import list_lengths, row_chunks
from peekrank.surrogates import KL, ListNet, NDCGSquared, RankSVM, Squared, Surrogate
from peekrank.types import Features, Floats, Ints, Rounds

_SMOOTHINGS = (1.0, 0.1, 0.01, 0.001)  # of the hinge, decreasing
_HEADROOM = 30.0  # above the largest relevance, the solver continues KL's exponential linearly
_REACH = 2.0  # without a ball, the certificate covers weights up to this many times as long
_LIMITS: Any = {"maxiter": 4_000, "maxfun": 8_000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-11}
_RANGE, _PRECISION = 40.0, 1e-6  # of the search for the logarithm of the penalty
_CHUNK = 256  # rounds

# The arguments are smoothing, ceiling, scores, relevance, offsets, counts and slopes; see `_add_losses`
Losses = Callable[[float, float, Floats, Floats, Ints, Floats, Floats], float]


class Best(NamedTuple):
    """Fixed weights, their total loss over all rounds, and a certified gap.

    No weights in the ball have a loss below ``loss - gap``. Without a ball, this holds for weights that are up to
    twice as long, with lengths measured on scaled features (`best_fixed`).
    """

    weights: Floats
    loss: float
    gap: float


def loss_along(
    learner: RTopKF,
    rounds: Rounds,
    sequence: Ints,
    *,
    k: int,
    seed: Seed,
    progress: Callable[[int], None] = lambda _: None,
) -> float:
    """Compute the sum over rounds of phi(X_t w_t, R_t), where w_t are the weights before round t.

    This repeats the run of `simulate` with the same arguments step by step, because an `Agent` returns its scores.
    The surrogate must be convex, as for `best_fixed`.

    >>> features = np.array([[1.0], [0.0]], np.float32)
    >>> rounds = Rounds(features, np.array([2, 0], np.uint8), np.array([0, 2]))
    >>> loss_along(RTopKF(), rounds, np.zeros(1, np.int64), k=1, seed=0)  # w = 0: (0 - 2)^2 + 0
    4.0
    """
    surrogate, offsets = learner.surrogate, rounds.offsets
    _check_convex(surrogate)
    agent = Agent(learner, m=int(list_lengths(rounds).max()), k=k, d=rounds.features.shape[1], seed=seed)
    first = 3 + agent.shape.k  # index of the first score in a token
    total = 0.0
    for start in range(0, len(sequence), _CHUNK):
        lists = sequence[start : start + _CHUNK]
        scores = []
        for n in lists:
            rows = slice(offsets[n], offsets[n + 1])
            decision = agent.rank(rounds.features[rows])
            scores.append(decision.token[first : first + len(decision.ranking)])
            agent.update(decision, rounds.relevance[rows][decision.ranking[: agent.shape.k]])
        relevance = [rounds.relevance[offsets[n] : offsets[n + 1]] for n in lists]
        total += _value(surrogate, scores, relevance)
        progress(len(lists))
    return total


def _check_convex(surrogate: Surrogate) -> None:
    if not surrogate.convex:
        raise ValueError(f"surrogate = {surrogate}: must be convex to compute the best weights")


def _value(surrogate: Surrogate, scores: Sequence[Floats], relevance: Sequence[NDArray[Any]]) -> float:
    """Sum the losses of several lists."""
    flat, counts = np.concatenate(scores), np.ones(len(scores))
    offsets = np.append(0, np.cumsum([len(s) for s in scores]))
    add_losses, targets = _loss_function(surrogate), _targets(surrogate, relevance)
    return add_losses(0.0, np.inf, flat, targets, offsets, counts, np.empty_like(flat))


def _targets(surrogate: Surrogate, relevance: Sequence[NDArray[Any]]) -> Floats:
    """Compute the targets of the loss from the relevance."""
    if isinstance(surrogate, NDCGSquared):
        return np.concatenate([surrogate.target(grades) for grades in relevance])
    return np.concatenate(relevance).astype(np.float64)


def _loss_function(surrogate: Surrogate) -> Losses:
    """Return the function that sums a surrogate's losses, compiled for the package's own surrogates."""
    loss = _LOSSES.get(type(surrogate))
    return partial(_add_by_definition, surrogate) if loss is None else _compiled(loss)


def best_fixed(surrogate: Surrogate, rounds: Rounds, counts: Ints, radius: float | None = None) -> Best:
    """Compute the weights w that minimise the sum over lists of count phi(X w, R), in a ball if there is one.

    Squared losses are solved exactly, KL and ListNet by L-BFGS, and RankSVM by L-BFGS on hinges with decreasing
    smoothing. The gap follows from convexity and holds even if the solver fails: the smooth function f lies below
    the loss, and f(u) >= f(w) + f'(w) (u - w) >= f(w) - (f'(w) w + B |f'(w)|) for all u of length at most B. B is
    the radius of the ball. Without a ball, B is twice the length of the weights, and lengths are measured after
    scaling all features to the same mean square.

    Parameters
    ----------
    surrogate
        A convex surrogate.
    rounds
        The lists.
    counts
        How often each list was shown.
    radius
        Radius of the ball; None for no ball.

    >>> features = np.array([[1.0], [0.5]], np.float32)
    >>> rounds = Rounds(features, np.array([2, 1], np.uint8), np.array([0, 2]))
    >>> best = best_fixed(Squared(), rounds, np.array([10]))
    >>> best.weights.round(6), round(best.loss, 6)
    (array([2.]), 0.0)
    """
    _check_convex(surrogate)
    problem = _Problem(surrogate, rounds, counts)
    candidates: list[tuple[float, Floats]] = []
    w = np.zeros(rounds.features.shape[1])
    for smoothing in _SMOOTHINGS if isinstance(surrogate, RankSVM) else (0.0,):
        w = _minimise_in_ball(problem, smoothing, w, radius)
        candidates.append((smoothing, w))
    losses = [problem.exact(w) for _, w in candidates]
    best = candidates[int(np.argmin(losses))][1]
    scale = problem.scale if radius is None else np.ones_like(problem.scale)
    reach = _REACH * float(np.linalg.norm(best * scale)) if radius is None else radius
    lowest = -np.inf
    for smoothing, w in candidates:
        value, slope = problem.smooth(w, smoothing)
        lowest = max(lowest, value - float(slope @ w) - reach * float(np.linalg.norm(slope / scale)))
    return Best(best, min(losses) * problem.total, max(0.0, min(losses) - lowest) * problem.total)


class _Problem:
    """The mean loss of a round as a function of the weights, and its gradient."""

    def __init__(self, surrogate: Surrogate, rounds: Rounds, counts: Ints) -> None:
        self.X, self.offsets = rounds.features, rounds.offsets
        self.relevance = _targets(surrogate, np.split(rounds.relevance, self.offsets[1:-1]))
        self.add_losses, self.squared = _loss_function(surrogate), isinstance(surrogate, Squared | NDCGSquared)
        self.total = float(counts.sum())
        self.counts = counts / self.total
        self.ceiling = float(self.relevance.max()) + _HEADROOM
        squares = np.zeros(self.X.shape[1])
        _add_squares(self.X, np.repeat(self.counts, np.diff(self.offsets)), squares)
        self.scale = np.sqrt(np.where(squares > 0, squares, 1.0))

    def exact(self, w: Floats) -> float:
        """Compute the loss itself."""
        return self._sum(self._scores(w), 0.0, np.inf)[0]

    def smooth(self, w: Floats, smoothing: float) -> tuple[float, Floats]:
        """Compute a smooth lower bound on the loss, and its gradient."""
        value, slopes = self._sum(self._scores(w), smoothing, self.ceiling)
        gradient = np.zeros(self.X.shape[1])
        _add_documents(self.X, slopes, gradient)
        return value, gradient

    def solve(self, smoothing: float, start: Floats, penalty: float) -> Floats:
        """Minimise the smooth function plus penalty |w|^2 / 2."""
        if self.squared:
            return self._least_squares(penalty)
        with extra("cli"):  # importing SciPy takes a fifth of a second
            from scipy.optimize import minimize

        def objective(scaled: Any) -> tuple[float, Floats]:
            w = scaled / self.scale
            value, slope = self.smooth(w, smoothing)
            return value + penalty / 2 * float(w @ w), (slope + penalty * w) / self.scale

        result = minimize(objective, start * self.scale, jac=True, method="L-BFGS-B", options=_LIMITS)
        return np.asarray(result.x / self.scale)

    def _least_squares(self, penalty: float) -> Floats:
        """Solve least squares by the normal equations. Their error in w enters the loss squared."""
        gram, right = self._normal
        gram = (gram + penalty / 2 * np.eye(len(gram))) / np.outer(self.scale, self.scale)
        return np.asarray(np.linalg.lstsq(gram, right / self.scale, rcond=None)[0] / self.scale)

    @cached_property
    def _normal(self) -> tuple[Floats, Floats]:
        """The matrices X' C X and X' C R with the counts C."""
        d = self.X.shape[1]
        weight = np.repeat(self.counts, np.diff(self.offsets))
        gram, right = np.zeros((d, d)), np.zeros(d)
        for rows in row_chunks(*self.X.shape):
            x = self.X[rows].astype(np.float64)
            weighted = x.T * weight[rows]
            gram += weighted @ x
            right += weighted @ self.relevance[rows]
        return gram, right

    def _scores(self, w: Floats) -> Floats:
        out = np.empty(len(self.X))
        _score(self.X, w, out)
        return out

    def _sum(self, scores: Floats, smoothing: float, ceiling: float) -> tuple[float, Floats]:
        slopes = np.empty_like(scores)
        value = self.add_losses(smoothing, ceiling, scores, self.relevance, self.offsets, self.counts, slopes)
        return value, slopes


def _minimise_in_ball(problem: _Problem, smoothing: float, start: Floats, radius: float | None) -> Floats:
    """Minimise in the ball. If the minimiser is on the sphere, search the penalty that puts it there."""
    w = problem.solve(smoothing, start, 0.0)
    if radius is None or np.linalg.norm(w) <= radius:
        return w
    solution, candidates = w, [w * (radius / float(np.linalg.norm(w)))]

    def excess(logarithm: float) -> float:
        nonlocal solution
        solution = problem.solve(smoothing, solution, exp(logarithm))
        length = max(float(np.linalg.norm(solution)), 1e-300)
        candidates.append(solution * min(1.0, radius / length))
        return log(length / radius)

    high = log(float(np.linalg.norm(problem.smooth(w * 0, smoothing)[1])) / radius)
    while excess(high) > 0:
        high += 1
    low = high - 1
    while excess(low) < 0 and high - low < _RANGE:  # the shortest of many minimisers may lie within the ball
        low -= 1
    middle, over = high, -np.inf
    while high - low > _PRECISION and abs(over) > _PRECISION:  # bisection: solver errors would mislead a secant
        middle = (low + high) / 2
        over = excess(middle)
        low, high = (middle, high) if over > 0 else (low, middle)
    # The last one may be worse: with a tiny penalty, the solver can jump to a minimiser outside the ball.
    return min(candidates, key=lambda w: problem.smooth(w, smoothing)[0])


@reassociating_kernel
def _score(X: Features, w: Floats, out: Floats) -> None:
    """Compute X w in double precision."""
    for i in range(len(X)):
        total = 0.0
        for f in range(len(w)):
            total += X[i, f] * w[f]
        out[i] = total


@kernel
def _add_documents(X: Features, slopes: Floats, out: Floats) -> None:
    """Add X' slopes to `out`."""
    for i in range(len(X)):
        if slopes[i] != 0:
            for f in range(len(out)):
                out[f] += slopes[i] * X[i, f]


@kernel
def _add_squares(X: Features, weights: Floats, out: Floats) -> None:
    for i in range(len(X)):
        for f in range(len(out)):
            out[f] += weights[i] * X[i, f] * X[i, f]


def _add_by_definition(
    surrogate: Surrogate,
    smoothing: float,
    ceiling: float,
    scores: Floats,
    relevance: Floats,
    offsets: Ints,
    counts: Floats,
    slopes: Floats,
) -> float:
    """Sum the losses of a surrogate without compiled code. Ignores smoothing and ceiling."""
    total = 0.0
    for q, count in enumerate(counts):
        rows = slice(offsets[q], offsets[q + 1])
        total += count * surrogate.value(scores[rows], relevance[rows])
        slopes[rows] = count * surrogate.gradient(scores[rows], relevance[rows])
    return total


loss: Callable[[float, float, Floats, Floats, Floats], float] = unspecialised  # the loss that `_add_losses` sums


def _add_losses(
    smoothing: float,
    ceiling: float,
    scores: Floats,
    relevance: Floats,
    offsets: Ints,
    counts: Floats,
    slopes: Floats,
) -> float:
    """Sum count x loss over lists, and write the derivatives with respect to the scores to `slopes`.

    Hinges are smoothed from below over the length `smoothing`. Exponentials are linear above `ceiling`.
    """
    total = 0.0
    for q in range(len(counts)):
        first, last = offsets[q], offsets[q + 1]
        s, r, out = scores[first:last], relevance[first:last], slopes[first:last]
        total += counts[q] * loss(smoothing, ceiling, s, r, out)
        for i in range(len(s)):
            out[i] *= counts[q]
    return total


@kernel
def _squares(smoothing: float, ceiling: float, s: Floats, r: Floats, out: Floats) -> float:
    value = 0.0
    for i in range(len(s)):
        value += (s[i] - r[i]) ** 2
        out[i] = 2 * (s[i] - r[i])
    return value


@kernel
def _divergence(smoothing: float, ceiling: float, s: Floats, r: Floats, out: Floats) -> float:
    value = 0.0
    for i in range(len(s)):
        e, own = exp(r[i]), exp(min(s[i], ceiling))
        value += e * (r[i] - s[i] - 1) + own * (1 + max(0.0, s[i] - ceiling))
        out[i] = own - e
    return value


@kernel
def _cross_entropy(smoothing: float, ceiling: float, s: Floats, r: Floats, out: Floats) -> float:
    high_s, high_r = s[0], r[0]
    for i in range(len(s)):
        high_s, high_r = max(high_s, s[i]), max(high_r, r[i])
    sum_s = sum_r = 0.0
    for i in range(len(s)):
        sum_s += exp(s[i] - high_s)
        sum_r += exp(r[i] - high_r)
    value = 0.0
    for i in range(len(s)):
        target = exp(r[i] - high_r) / sum_r
        value -= target * (s[i] - high_s - log(sum_s))
        out[i] = exp(s[i] - high_s) / sum_s - target
    return value


@kernel
def _hinges(smoothing: float, ceiling: float, s: Floats, r: Floats, out: Floats) -> float:
    value = 0.0
    for i in range(len(s)):
        out[i] = 0
    for i in range(len(s)):
        for j in range(len(s)):
            margin = 1 + s[j] - s[i]
            if r[i] > r[j] and margin > 0:
                if margin < smoothing:
                    value += margin * margin / (2 * smoothing)
                    slope = margin / smoothing
                else:
                    value += margin - smoothing / 2
                    slope = 1.0
                out[i] -= slope
                out[j] += slope
    return value


_LOSSES: dict[type[Any], Any] = {
    Squared: _squares,
    NDCGSquared: _squares,
    KL: _divergence,
    ListNet: _cross_entropy,
    RankSVM: _hinges,
}


@cache
def _compiled(loss: Callable[..., float]) -> Losses:
    return specialise(_add_losses, loss.__name__, loss=loss)
