"""Rankings of ridge: by score with exploration in proportion to doubt, or by posterior sampling."""

from __future__ import annotations

from math import e, log, sqrt

from peekrank._jit import kernel, vload, vsplat, vstore, vsum
from peekrank.kernels.exploration import (
    fill_doubts,
    fill_exploration_costs,
    fill_exploration_probs,
    fill_propensities,
    floor_probs,
    sample_position,
)
from peekrank.kernels.sorting import copy_moved, move_up, sort_descending
from peekrank.kernels.triangular import BLOCK, block_dot, solve, solve_transposed
from peekrank.kernels.vectors import all_finite, any_positive, copy, fill_normals
from peekrank.learners.ridge.regression import observe_features
from peekrank.learners.ridge.state import ONE, ROUNDS, RidgeState, answers_per_column, max_weight, noise_std
from peekrank.types import Features, Floats, Ints

_LASTING = 0.1  # a round explores a uniform item with probability at least 0.1 (1 + answers per column)^(-1/3)
_FORCED = 0.3  # a sampling round shows a uniform item with probability min(1, 0.3 k) t^(-1/3)


@kernel
def _fill_widths(s: RidgeState, n: int) -> None:
    """Fill in the confidence width of each score, up to what all items of the list have in common."""
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
    unit = s.confidence * noise_std(s) * sqrt(log(e + s.sums[ROUNDS]))
    for i in range(n):
        squares = along = vsplat(0.0)
        for j in range(0, d, BLOCK):
            u = vload(s.U[i], j) - vload(centre, j)
            squares, along = squares + u * u, along + u * vload(ones, j)
        intercept = vsum(along)
        s.sampled[i] = unit * sqrt(vsum(squares) + intercept * intercept)


@kernel
def _noise(s: RidgeState, n: int) -> float:
    """Return the share of the variance of a list's scores that is expected to be error, by their widths."""
    unit = s.confidence * sqrt(log(e + s.sums[ROUNDS]))
    error = spread = mean = 0.0
    for i in range(n):
        mean += s.scores[i] / n
    for i in range(n):
        error += (s.sampled[i] / unit) ** 2
        spread += (s.scores[i] - mean) ** 2
    return error / (error + spread) if error > 0 else 0.0


@kernel
def _uniform_explore_rate(s: RidgeState, n: int) -> float:
    """Return the rate of uniform exploration: high while scores are mostly noise, then falling."""
    return float(max(s.uniform * _noise(s, n), _LASTING * (1 + answers_per_column(s)) ** (-1 / 3)))


@kernel
def _price(s: RidgeState, first: int, target: int, probs: Floats) -> None:
    """Fill in the probability of exploring each position from `first` on, at the price for `target`."""
    n = len(probs)
    fill_exploration_costs(s.means[:n], s.weights[:n], target + 1, s.costs[:n])
    fill_exploration_probs(s.doubts[:n], s.widths[:n], s.costs[:n], first, s.explore_rate, probs)
    if s.uniform > 0:
        floor_probs(probs, first, _uniform_explore_rate(s, n) / n)
    if not all_finite(probs):
        probs[:] = 0


@kernel
def mixture(s: RidgeState, X: Features, first: int, target: int, probs: Floats) -> None:
    """Fill in the probabilities of exploration for another target position, after `rank_by_doubt`."""
    n = len(probs)
    copy(s.explore_probs[:n], probs)
    if target < s.k - 1 and any_positive(s.explore_probs[:n]):
        for p in range(n):
            s.sampled[s.order[p]] = s.widths[p]  # `explore_in_doubt` has reused the array
        _price(s, first, target, probs)


@kernel
def component(s: RidgeState, position: int, upto: int, ranking: Ints) -> bool:
    """Fill in the list that explores the item at a position, -1 for none."""
    copy_moved(s.order, position, s.k - 1, upto, ranking)
    return True


@kernel
def _explore(s: RidgeState, k: int, uniform: float, ranking: Ints) -> None:
    """Move the explored item, if any, to position k."""
    n = len(ranking)
    means, widths, explore_probs = s.means[:n], s.widths[:n], s.explore_probs[:n]
    _fill_widths(s, n)
    if not all_finite(s.sampled[:n]):
        return
    for p in range(n):
        means[p], widths[p] = s.scores[ranking[p]], s.sampled[ranking[p]]
    fill_doubts(means, widths, s.weights[:n], s.doubts[:n], s.space)
    _price(s, k, k - 1, explore_probs)
    position = sample_position(explore_probs, k, uniform)
    if position >= 0:
        move_up(ranking, position, k - 1)


@kernel
def _sample(s: RidgeState, k: int, uniforms: Floats, ranking: Ints) -> None:
    """Show the k best items by weights drawn from the posterior; sometimes a uniform item replaces one."""
    n, d = len(ranking), len(s.w)
    fill_normals(uniforms[2:], s.y)
    own = s.sides[d, ONE]
    intercept = s.y[d] / own if own > 0 else 0.0
    for j in range(d):
        s.x[j] = s.y[j] - s.sides[j, ONE] * intercept
    solve(s.R, s.ends, s.panel, s.x)
    unit, sampled = s.confidence * noise_std(s), s.sampled[:n]
    copy(s.scores[:n], sampled)
    for i in range(n):
        sampled[i] += unit * block_dot(s.U[i], s.x)
    if not all_finite(sampled):
        return
    sort_descending(sampled, s.drawn[:n], s.sorting)
    forced = uniforms[0] < min(0.5, min(1.0, _FORCED * k) * (s.sums[ROUNDS] + 1) ** (-1 / 3))
    chosen = sampled  # reused: whether an item is shown
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
    """Sort the items by score, and return whether exploration is possible."""
    n = len(ranking)
    order = s.order[:n]
    observe_features(s, X)
    s.explore_probs[:n] = 0
    if not all_finite(s.scores[:n]):  # the weights have overflowed
        for i in range(n):
            order[i] = ranking[i] = i
        return False
    sort_descending(s.scores[:n], order, s.sorting)
    copy(order, ranking)
    return s.k < n


@kernel
def _mark(s: RidgeState, ranking: Ints, token: Floats) -> None:
    """Mark the round if it does not show the best items, and give each answer weight 1."""
    for p in range(min(s.k, len(ranking))):
        if ranking[p] != s.order[p]:
            token[0] = 1
        token[1 + p] = 1


@kernel
def propensities(s: RidgeState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Fill in the propensities after `rank_by_doubt`; for sampling they are integrals over the posterior."""
    fill_propensities(s.order, s.explore_probs, min(s.k, len(ranking)), out)


@kernel
def off_policy(s: RidgeState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Weight answers by their inverse propensities, up to a limit that grows with the number of answers."""
    limit = max_weight(s)
    for p in range(min(s.k, len(ranking))):
        propensity = propensities[ranking[p]]
        token[1 + p] = 1 / propensity if limit * propensity > 1 else limit


@kernel
def exploit(s: RidgeState, X: Features, ranking: Ints, token: Floats) -> None:
    """Sort the items by score."""
    _sort(s, X, ranking)


@kernel
def explore_in_doubt(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Move the explored item, if any, to position k; `exploit` comes first."""
    if s.k < len(ranking) and all_finite(s.scores[: len(ranking)]):
        _explore(s, s.k, uniforms[0], ranking)
    _mark(s, ranking, token)
    seen = s.sampled[: len(ranking)]
    propensities(s, X, ranking, token, seen)
    off_policy(s, X, ranking, seen, token)


@kernel
def rank_by_doubt(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the items by score, except for the explored item."""
    exploit(s, X, ranking, token)
    explore_in_doubt(s, X, uniforms, ranking, token)


@kernel
def rank_by_sampling(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the best items by weights drawn from the posterior."""
    if _sort(s, X, ranking):
        _sample(s, s.k, uniforms, ranking)
    _mark(s, ranking, token)
