"""How rtopkf ranks: by score, with items drawn to be seen, whose probabilities it knows."""

from __future__ import annotations

from math import exp

from peekrank._jit import kernel
from peekrank.kernels.sorting import shuffle, sort_descending
from peekrank.kernels.vectors import all_finite, copy, score
from peekrank.learners.rtopkf.state import BIAS, CHANCES, GAMMA, ROUNDS, TOP, RTopKFState
from peekrank.types import Features, Floats, Ints


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
    gamma = token[GAMMA]
    exploited = 1.0 if place < k - 1 else token[TOP] if place == k - 1 else s.chances[s.order[place]]
    return float(min(1.0, gamma * k / n + (1 - gamma) * exploited))


@kernel
def best(s: RTopKFState, X: Features, ranking: Ints, token: Floats) -> None:
    """The greedy order."""
    n = len(ranking)
    score(X, s.w, s.scores)
    overflowed = not all_finite(s.scores[:n])
    if s.robust:
        predicted = token[CHANCES + s.k + len(s.scores) :]
        score(X, s.v, predicted)
        for i in range(n):
            predicted[i] += s.sums[BIAS]
        overflowed |= not all_finite(predicted[:n])
    if overflowed:  # nothing can be learned from them
        token[:] = 0
        token[GAMMA] = -1
        for i in range(n):
            ranking[i] = i
        return
    sort_descending(s.scores[:n], s.order[:n], s.sorting)
    copy(s.scores[:n], token[CHANCES + s.k :])
    copy(s.order[:n], ranking)


@kernel
def explore(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Draw what is to be seen besides, and say with which probability each was."""
    n = len(ranking)
    k = min(s.k, n)
    if token[GAMMA] < 0:
        return
    if k == n:  # all is seen whatever is shown
        token[CHANCES : CHANCES + n] = 1
        return
    gamma = s.gamma if s.gamma > 0 else min(0.5, (s.sums[ROUNDS] + 1) ** (-1 / 3))
    _top_chances(s, n)
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
        token[TOP] += s.chances[s.order[p]]
    for p in range(k):
        item, place = ranking[p], 0
        while s.order[place] != item:
            place += 1
        token[CHANCES + p] = _seen_chance(s, place, k, n, token)


@kernel
def rank(s: RTopKFState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """The greedy order, with what was drawn on top."""
    best(s, X, ranking, token)
    explore(s, X, uniforms, ranking, token)


@kernel
def fill_chances(s: RTopKFState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Probability of each item to be seen."""
    n = len(ranking)
    k = min(s.k, n)
    for place in range(n):
        if token[GAMMA] < 0:  # scores overflowed, and nothing was left to chance
            out[ranking[place]] = place < k
        else:
            out[s.order[place]] = 1.0 if k == n else _seen_chance(s, place, k, n, token)


@kernel
def adopt(s: RTopKFState, X: Features, ranking: Ints, chances: Floats, token: Floats) -> None:
    """What was seen is divided by the probability of seeing it, whoever chose the ranking; scores are our own."""
    for p in range(min(s.k, len(ranking))):
        token[CHANCES + p] = chances[ranking[p]]
