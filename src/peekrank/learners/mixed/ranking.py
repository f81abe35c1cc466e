"""Rankings of mixed: by posterior mean, with exploration that is paid for if the app has a score."""

from __future__ import annotations

from math import e, log, sqrt

from peekrank._jit import kernel, vload, vsplat, vstore, vsum
from peekrank.kernels.exploration import (
    fill_doubts,
    fill_exploration_costs,
    fill_exploration_probs,
    fill_propensities,
    sample_position,
)
from peekrank.kernels.pair_table import reindex
from peekrank.kernels.sorting import copy_moved, move_up, sort_descending
from peekrank.kernels.triangular import BLOCK, block_dot, solve_transposed
from peekrank.kernels.vectors import all_finite, any_positive, copy
from peekrank.learners.mixed.fit import LU_SCORED, update_from_answers
from peekrank.learners.mixed.posterior import fill_means, given_weights, item_noise, join_answers, observe_features
from peekrank.learners.mixed.score import keep_score
from peekrank.learners.mixed.state import (
    ANSWERS,
    LISTS,
    LU,
    OWN_COLUMNS,
    REFIT,
    SCORED,
    VERSION,
    MixedState,
    n_columns,
    noise_variance,
)
from peekrank.types import Features, Floats, Ints

_SHARE = 0.25  # of the possible loss from doubt, spent on exploration by all items of a list together
_MORE = 3.0  # budgets of exploration that are added for items that are in all lists and well known


@kernel
def set_items(s: MixedState, items: Ints) -> None:
    """Set the items of the rows of the next list."""
    for row in range(len(items)):
        s.present[row] = items[row]


@kernel
def set_key(s: MixedState, key: int) -> None:
    """Set the key of the next list, -1 for none."""
    s.key[0] = key


@kernel
def _sort(s: MixedState, X: Features, ranking: Ints) -> bool:
    """Sort the rows by mean, ties in the order of the app; return False if sums have overflowed."""
    n = len(ranking)
    if s.scored[0] == 1 and s.fit[SCORED] == 0:
        s.fit[SCORED], s.fit[REFIT] = 1, 0
        if s.model.sums[ANSWERS] == 0:
            s.fit[LU] = LU_SCORED
    observe_features(s, X)
    s.fit[LISTS] += 1
    if s.scored[0] == 1 and s.fit[VERSION] > 0 and (s.version[0] < 0 or s.version[0] == s.fit[VERSION]):
        join_answers(s, n)
    for r in range(n):
        s.rounds[s.present[r]] += 1
    fill_means(s, n)
    finite = all_finite(s.means[:n])
    for p in range(n):
        s.keys[p] = s.means[s.app[p]] if finite else 0.0
    sort_descending(s.keys[:n], s.indices[:n], s.sorting)
    for p in range(n):
        s.order[p] = ranking[p] = s.app[s.indices[p]]
        s.explore_probs[p] = 0.0
    return finite


@kernel
def _fill_widths(s: MixedState, n: int) -> None:
    """Fill in the width of the mean of each position, up to what all rows of the list have in common."""
    noise, columns, centre = noise_variance(s), len(s.model.w), s.centre_of_list
    solve_transposed(s.model.R, s.model.ends, s.panel, s.U, n)
    for j in range(0, columns, BLOCK):
        summed = vload(s.U[0], j)
        for i in range(1, n):
            summed = summed + vload(s.U[i], j)
        vstore((1 / n) * summed, centre, j)
    for p in range(n):
        row = s.order[p]
        squares = vsplat(0.0)
        for j in range(0, columns, BLOCK):
            u = vload(s.U[row], j) - vload(centre, j)
            squares = squares + u * u
        item = s.present[row]
        variance = s.spreads[row] * item_noise(s, item, noise) + noise * vsum(squares)
        s.widths[p] = sqrt(variance * log(e + s.rounds[item]))


@kernel
def _pay(s: MixedState, first: int, target: int, probs: Floats) -> None:
    """Scale the probabilities so that exploration costs at most the floor and a share of what the order gains.

    The gain is that of the order over the app's, by the means. Both grow up to fourfold if the items return often,
    because what is learned about them is then used in many lists. The cautious way pays the floor at the costs
    that the explored items would have if they were worth nothing.
    """
    more = 1 + _MORE * s.returning[0]
    weights, n, gained, spent, worst = s.weights, len(probs), 0.0, 0.0, 0.0
    for p in range(n):
        gained += weights[p] * (s.sorted_means[p] - s.means[s.app[p]])
        spent += probs[p] * s.costs[p]
        if p >= first:
            good = max(0.0, s.sorted_means[p] + 0.5)
            worst += probs[p] * (s.costs[p] + (weights[target] - weights[p]) * good)
    floor = more * s.floor * (weights[0] - min(0.0, weights[n - 1]))
    earned = min(max(1.0, s.earned), more * s.earned)
    if not s.safe:
        worst = spent
    if worst <= 0 or spent <= 0:
        return
    scale = floor / worst + earned * max(0.0, gained) / spent
    if scale < 1:
        for p in range(first, n):
            probs[p] *= scale


@kernel
def _price(s: MixedState, first: int, target: int, probs: Floats) -> None:
    """Fill in the probability of exploring each position from `first` on, at the price for `target`."""
    n = len(probs)
    fill_exploration_costs(s.sorted_means[:n], s.weights, target + 1, s.costs[:n])
    fill_exploration_probs(s.doubts[:n], s.widths[:n], s.costs[:n], first, _SHARE / n, probs)
    if s.scored[0] == 1:
        _pay(s, first, target, probs)


@kernel
def _fill_probabilities(s: MixedState, n: int, k: int) -> bool:
    """Fill in the probability of exploring the item at each position; return False if none can be computed."""
    means, widths = s.sorted_means[:n], s.widths[:n]
    _fill_widths(s, n)
    if not all_finite(widths):
        return False
    for p in range(n):
        means[p] = s.means[s.order[p]]
    fill_doubts(means, widths, s.weights[:n], s.doubts[:n], s.space)
    _price(s, k, k - 1, s.explore_probs[:n])
    return True


@kernel
def mixture(s: MixedState, X: Features, first: int, target: int, probs: Floats) -> None:
    """Fill in the probabilities of exploration for another target position, after `rank`."""
    n = len(probs)
    copy(s.explore_probs[:n], probs)
    if target < s.k - 1 and any_positive(s.explore_probs[:n]):
        _price(s, first, target, probs)


@kernel
def component(s: MixedState, position: int, upto: int, ranking: Ints) -> bool:
    """Fill in the list that explores the item at a position, -1 for none."""
    copy_moved(s.order, position, s.k - 1, upto, ranking)
    return True


@kernel
def _fill_token(s: MixedState, ranking: Ints, token: Floats) -> None:
    """Put the columns of the score of the first k rows into the token."""
    for p in range(min(s.k, len(ranking))):
        token[1 + 2 * p], token[2 + 2 * p] = s.columns[ranking[p], 0], s.columns[ranking[p], 1]


@kernel
def rank(s: MixedState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the rows by mean, except for the explored item."""
    n = len(ranking)
    k = min(s.k, n)
    reindex(s.items)
    reindex(s.cells)
    if _sort(s, X, ranking) and k < n and _fill_probabilities(s, n, k):
        position = sample_position(s.explore_probs[:n], k, uniforms[0])
        if position >= 0:
            move_up(ranking, position, k - 1)
            token[0] = 1
    _fill_token(s, ranking, token)
    token[len(token) - 1] = s.fit[VERSION] if s.version[0] < 0 else s.version[0]
    s.version[0] = -1
    keep_score(s, n, uniforms[1])


@kernel
def update(s: MixedState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Learn from the answers of a round."""
    reindex(s.items)
    reindex(s.cells)
    update_from_answers(s, X, ranking, token, feedback)


@kernel
def propensities(s: MixedState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Fill in the propensities."""
    fill_propensities(s.order, s.explore_probs, min(s.k, len(ranking)), out)


@kernel
def off_policy(s: MixedState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Replace the columns of the score by those of the ranking shown."""
    _fill_token(s, ranking, token)


@kernel
def fill_scores(s: MixedState, X: Features, rows: Ints, cx: Floats, out: Floats) -> None:
    """Fill in the mean gain of each item, given its row of sums, for a missing score and no key."""
    d, columns = len(s.centre), len(s.model.w)
    first = columns - n_columns(s)
    for item in range(len(X)):
        cx[:] = 0
        for j in range(d):
            cx[first + j] = X[item, j] - s.centre[j]
        cx[columns - OWN_COLUMNS] = 1
        base, _ = given_weights(s, s.model, rows[item], -1, -1, cx)
        out[item] = s.lowest + s.unit * (base + block_dot(cx, s.model.w) + 0.5)


@kernel
def fill_effects(
    s: MixedState, rows: Ints, cells: Ints, key: int, cx: Floats, of_item: Floats, of_key: Floats
) -> None:
    """Fill in what each item and its cell add to the mean gain, given their rows of sums (-1: no answers)."""
    for item in range(len(rows)):
        cx[:] = 0
        base, _ = given_weights(s, s.model, rows[item], -1, -1, cx)
        of_item[item] = s.unit * (base + block_dot(cx, s.model.w))
        if key >= 0:
            cx[:] = 0
            base, _ = given_weights(s, s.model, rows[item], cells[item], key, cx)
            of_key[item] = s.unit * (base + block_dot(cx, s.model.w)) - of_item[item]
