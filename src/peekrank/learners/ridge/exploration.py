"""How ridge ranks: by score, with questions where the list is in doubt, or by weights drawn from the posterior."""

from __future__ import annotations

from math import e, log, sqrt

from peekrank._jit import kernel, vload, vsplat, vstore, vsum
from peekrank.kernels.exploration import (
    fill_doubts,
    fill_exploration_costs,
    fill_exploration_probs,
    floor_probs,
    sample_position,
)
from peekrank.kernels.sorting import move_up, sort_descending
from peekrank.kernels.triangular import BLOCK, block_dot, solve, solve_transposed
from peekrank.kernels.vectors import all_finite, copy, fill_normals
from peekrank.learners.ridge.regression import look_at
from peekrank.learners.ridge.state import ONE, ROUNDS, RidgeState, answers_per_column, deviation, most_weight
from peekrank.types import Features, Floats, Ints

_LASTING = 0.1  # a round asks about anything with probability 0.1 (1 + answers per column)^(-1/3) at least
_FORCED = 0.3  # a round that samples forces a question with probability min(1, 0.3 k) t^(-1/3)


@kernel
def _fill_widths(s: RidgeState, n: int) -> None:
    """How far each score may be off, but for what all of the list have in common; by item."""
    d, own = len(s.w), s.sides[len(s.w), ONE]
    solve_transposed(s.R, s.ends, s.panel, s.U, n)
    centre, ones = s.centre, s.x
    for j in range(d):
        ones[j] = s.sides[j, ONE] / own if own > 0 else 0.0
    for j in range(0, d, BLOCK):
        summed = vload(s.U[0], j)
        for i in range(1, n):
            summed = summed + vload(s.U[i], j)
        vstore((1 / n) * summed, centre, j)
    unit = s.confidence * deviation(s) * sqrt(log(e + s.sums[ROUNDS]))
    for i in range(n):
        squares = along = vsplat(0.0)
        for j in range(0, d, BLOCK):
            u = vload(s.U[i], j) - vload(centre, j)
            squares, along = squares + u * u, along + u * vload(ones, j)
        constant = vsum(along)
        s.sampled[i] = unit * sqrt(vsum(squares) + constant * constant)


@kernel
def _noise(s: RidgeState, n: int) -> float:
    """Which share of the variance of a list's scores is expected to be error, by their widths."""
    unit = s.confidence * sqrt(log(e + s.sums[ROUNDS]))
    error = spread = mean = 0.0
    for i in range(n):
        mean += s.scores[i] / n
    for i in range(n):
        error += (s.sampled[i] / unit) ** 2
        spread += (s.scores[i] - mean) ** 2
    return error / (error + spread) if error > 0 else 0.0


@kernel
def _anything(s: RidgeState, n: int) -> float:
    """How often to ask about anything: while scores are mostly noise, and ever less often after that."""
    return float(max(s.uniform * _noise(s, n), _LASTING * (1 + answers_per_column(s)) ** (-1 / 3)))


@kernel
def _ask(s: RidgeState, k: int, uniform: float, ranking: Ints) -> None:
    """Move the item that a question is about to position k."""
    n = len(ranking)
    means, widths, weights, questions = s.means[:n], s.widths[:n], s.weights[:n], s.questions[:n]
    _fill_widths(s, n)
    if not all_finite(s.sampled[:n]):
        return
    for p in range(n):
        means[p], widths[p] = s.scores[ranking[p]], s.sampled[ranking[p]]
    fill_doubts(means, widths, weights, s.doubts[:n], s.space)
    fill_exploration_costs(means, weights, k, s.prices[:n])
    fill_exploration_probs(s.doubts[:n], widths, s.prices[:n], k, s.explore_rate, questions)
    if s.uniform > 0:
        floor_probs(questions, k, _anything(s, n) / n)
    position = sample_position(questions, k, uniform)
    if position >= 0:
        move_up(ranking, position, k - 1)


@kernel
def _sample(s: RidgeState, k: int, uniforms: Floats, ranking: Ints) -> None:
    """Show the k best by weights drawn from the posterior, one of them replaced by a uniform item now and then."""
    n, d = len(ranking), len(s.w)
    fill_normals(uniforms[2:], s.y)
    own = s.sides[d, ONE]
    constant = s.y[d] / own if own > 0 else 0.0
    for j in range(d):
        s.x[j] = s.y[j] - s.sides[j, ONE] * constant
    solve(s.R, s.ends, s.panel, s.x)
    unit, sampled = s.confidence * deviation(s), s.sampled[:n]
    copy(s.scores[:n], sampled)
    for i in range(n):
        sampled[i] += unit * block_dot(s.U[i], s.x)
    if not all_finite(sampled):
        return
    sort_descending(sampled, s.drawn[:n], s.sorting)
    forced = uniforms[0] < min(0.5, min(1.0, _FORCED * k) * (s.sums[ROUNDS] + 1) ** (-1 / 3))
    chosen = sampled  # from here on: whether an item is shown
    chosen[:] = 0
    for p in range(k):
        chosen[s.drawn[p]] = 1
    item = min(n - 1, int(uniforms[1] * n))
    if forced and chosen[item] == 0:
        chosen[s.drawn[k - 1]] = 0
        chosen[item] = 1
    above, below = 0, k
    for p in range(n):
        item = s.order[p]
        if chosen[item] == 1:
            ranking[above] = item
            above += 1
        else:
            ranking[below] = item
            below += 1


@kernel
def _sort(s: RidgeState, X: Features, ranking: Ints) -> bool:
    """Show the items by score; whether something can be asked about."""
    n = len(ranking)
    order = s.order[:n]
    look_at(s, X)
    s.questions[:n] = 0
    if not all_finite(s.scores[:n]):  # of weights that have overflowed nothing can be learned
        for i in range(n):
            order[i] = ranking[i] = i
        return False
    sort_descending(s.scores[:n], order, s.sorting)
    copy(order, ranking)
    return s.k < n


@kernel
def _mark(s: RidgeState, ranking: Ints, token: Floats) -> None:
    """Whether others than the best are shown; each answer counts once."""
    for p in range(min(s.k, len(ranking))):
        if ranking[p] != s.order[p]:
            token[0] = 1
        token[1 + p] = 1


@kernel
def propensities(s: RidgeState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """After `rank_by_doubt`; by sampling they are integrals over the posterior."""
    n = len(ranking)
    k, questions = min(s.k, n), 0.0
    for p in range(n):
        out[s.order[p]] = 1.0 if p < k else s.questions[p]
        questions += s.questions[p]
    out[s.order[k - 1]] -= questions


@kernel
def off_policy(s: RidgeState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Weigh answers by how seldom their items are seen, as far as the number of answers allows."""
    most = most_weight(s)
    for p in range(min(s.k, len(ranking))):
        propensity = propensities[ranking[p]]
        token[1 + p] = 1 / propensity if most * propensity > 1 else most


@kernel
def exploit(s: RidgeState, X: Features, ranking: Ints, token: Floats) -> None:
    """The items by score."""
    _sort(s, X, ranking)


@kernel
def ask_in_doubt(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Move an item that is asked about to position k; `exploit` comes before."""
    if s.k < len(ranking) and all_finite(s.scores[: len(ranking)]):
        _ask(s, s.k, uniforms[0], ranking)
    _mark(s, ranking, token)
    seen = s.sampled[: len(ranking)]
    propensities(s, X, ranking, token, seen)
    off_policy(s, X, ranking, seen, token)


@kernel
def rank_by_doubt(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the items by score, but for an item that is asked about."""
    exploit(s, X, ranking, token)
    ask_in_doubt(s, X, uniforms, ranking, token)


@kernel
def rank_by_sampling(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show first what is best by weights drawn from the posterior."""
    if _sort(s, X, ranking):
        _sample(s, s.k, uniforms, ranking)
    _mark(s, ranking, token)
