"""Rankings of rtopkf: by score, with randomly drawn items and exact propensities."""

from __future__ import annotations

from math import exp

from peekrank._jit import kernel
from peekrank.kernels.sorting import shuffle, sort_descending
from peekrank.kernels.vectors import all_finite, copy, score
from peekrank.learners.rtopkf.state import BIAS, GAMMA, PROPENSITIES, ROUNDS, TOP, RTopKFState
from peekrank.types import Features, Floats, Ints


@kernel
def _top_propensities(s: RTopKFState, n: int) -> None:
    """Fill in the probability that each item is drawn: 1 for the best, or a softmax of the scores."""
    if s.temperature == 0:
        s.propensities[:n] = 0
        s.propensities[s.order[0]] = 1
        return
    best = s.scores[s.order[0]]
    unit = s.temperature * (best - s.scores[s.order[n - 1]])
    total = 0.0
    for i in range(n):
        s.propensities[i] = exp((s.scores[i] - best) / unit) if unit > 0 else 1.0
        total += s.propensities[i]
    for i in range(n):
        s.propensities[i] /= total


@kernel
def _show_random_items(s: RTopKFState, k: int, uniforms: Floats, ranking: Ints) -> None:
    """Show k uniformly drawn items, then all others; each part in the greedy order."""
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
    """Show the greedy order; a drawn item that would not be seen takes the last seen position."""
    drawn = 0
    while uniform >= s.propensities[s.order[drawn]] and drawn < len(ranking) - 1:
        uniform -= s.propensities[s.order[drawn]]
        drawn += 1
    copy(s.order[: len(ranking)], ranking)
    for p in range(drawn, k - 1, -1):
        ranking[p] = ranking[p - 1]
    if drawn >= k:
        ranking[k - 1] = s.order[drawn]


@kernel
def _seen_propensity(s: RTopKFState, position: int, k: int, n: int, token: Floats) -> float:
    """Return the propensity of the item at a position of the greedy order."""
    gamma = token[GAMMA]
    exploited = 1.0 if position < k - 1 else token[TOP] if position == k - 1 else s.propensities[s.order[position]]
    return float(min(1.0, gamma * k / n + (1 - gamma) * exploited))


@kernel
def exploit(s: RTopKFState, X: Features, ranking: Ints, token: Floats) -> None:
    """Sort the items in the greedy order."""
    n = len(ranking)
    score(X, s.w, s.scores)
    overflowed = not all_finite(s.scores[:n])
    if s.robust:
        predicted = token[PROPENSITIES + s.k + len(s.scores) :]
        score(X, s.v, predicted)
        for i in range(n):
            predicted[i] += s.sums[BIAS]
        overflowed |= not all_finite(predicted[:n])
    if overflowed:  # such scores are useless
        token[:] = 0
        token[GAMMA] = -1
        for i in range(n):
            ranking[i] = i
        return
    sort_descending(s.scores[:n], s.order[:n], s.sorting)
    copy(s.scores[:n], token[PROPENSITIES + s.k :])
    copy(s.order[:n], ranking)


@kernel
def explore(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Draw the items to explore, and write their propensities to the token."""
    n = len(ranking)
    k = min(s.k, n)
    if token[GAMMA] < 0:
        return
    if k == n:  # every item is seen
        token[PROPENSITIES : PROPENSITIES + n] = 1
        return
    gamma = s.gamma if s.gamma > 0 else min(0.5, (s.sums[ROUNDS] + 1) ** (-1 / 3))
    _top_propensities(s, n)
    if uniforms[0] < gamma:
        token[0] = 1
        if s.random_below:
            shuffle(uniforms[1:], ranking)
        else:
            _show_random_items(s, k, uniforms[1:], ranking)
    else:
        _show_greedy_order(s, k, uniforms[1], ranking)
    token[GAMMA] = gamma
    token[TOP] = 0
    for p in range(k):
        token[TOP] += s.propensities[s.order[p]]
    for p in range(k):
        item, position = ranking[p], 0
        while s.order[position] != item:
            position += 1
        token[PROPENSITIES + p] = _seen_propensity(s, position, k, n, token)


@kernel
def rank(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the greedy order with the drawn items on top."""
    exploit(s, X, ranking, token)
    explore(s, X, uniforms, ranking, token)


@kernel
def fill_propensities(s: RTopKFState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Fill in the propensity of each item."""
    n = len(ranking)
    k = min(s.k, n)
    for position in range(n):
        if token[GAMMA] < 0:  # scores overflowed, and the ranking was deterministic
            out[ranking[position]] = position < k
        else:
            out[s.order[position]] = 1.0 if k == n else _seen_propensity(s, position, k, n, token)


@kernel
def off_policy(s: RTopKFState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Write the propensities of the shown items to the token; the scores stay the learner's own."""
    for p in range(min(s.k, len(ranking))):
        token[PROPENSITIES + p] = propensities[ranking[p]]
