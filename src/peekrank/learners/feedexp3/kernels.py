"""The kernels of feedexp3: draw an action, and update the loss estimates."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.learners._finite_games import NO_SYMBOL, symbol_of
from peekrank.learners.feedexp3.state import MAX_MIXING, FeedExp3State
from peekrank.types import Features, Floats, Ints


@kernel
def _shrink(s: FeedExp3State) -> float:
    """Return the ratio of gamma and eta to those of the first round."""
    return float((s.rounds[0] + 1.0) ** (-1 / 3)) if s.anytime else 1.0


@kernel
def rank(s: FeedExp3State, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Draw an action by its exponential weight, or from q."""
    shrink = _shrink(s)
    gamma = min(s.mixing * shrink, MAX_MIXING)
    eta = s.rate * shrink * gamma
    least = s.losses[0]
    for i in range(1, len(s.losses)):
        least = min(least, s.losses[i])
    total = 0.0
    for i in range(len(s.losses)):
        s.weights[i] = np.exp(-eta * (s.losses[i] - least))
        total += s.weights[i]
    if uniforms[0] < gamma:
        action = _first_above(s.cumulative_q, uniforms[1])
        token[0] = 1
    else:
        action = s.action[_drawn(s.weights, uniforms[1] * total)]
        token[0] = 0
    group = s.group[action]
    seen = 0.0
    for i in range(len(s.losses)):
        if s.group[s.action[i]] == group:
            seen += s.weights[i]
    token[1] = action
    token[2] = min(1.0, (1 - gamma) * seen / total + gamma * s.explore_probs[group])
    for p in range(len(ranking)):
        ranking[p] = s.rankings[action, p]


@kernel
def _first_above(sums: Floats, u: float) -> int:
    """Return the first index whose cumulative sum is above u; the last sum is 1."""
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _drawn(weights: Floats, u: float) -> int:
    """Return the index at which the sum of the weights, not all 0, exceeds u."""
    last = 0
    for i in range(len(weights)):
        if weights[i] > 0:
            last = i
            u -= weights[i]
            if u < 0:
                break
    return last


@kernel
def update(s: FeedExp3State, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Add the estimates from the observed symbol to the losses."""
    action = int(token[1])
    if not (0 <= action < len(s.group) and ranking[0] == s.rankings[action, 0] and 0 < token[2] <= 1):
        raise ValueError("the token of this decision is not from this agent")
    symbol = symbol_of(feedback, s.grades)
    if symbol == NO_SYMBOL:
        return
    row = s.row[action, symbol]
    if row < 0:
        raise ValueError("the feedback is a symbol that the action of this decision never produces")
    s.rounds[0] += 1
    for i in range(len(s.losses)):
        s.losses[i] += s.values[row, i] / token[2]


@kernel
def propensities(s: FeedExp3State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Sum the probabilities of the actions that have the item among the first k."""
    gamma = min(s.mixing * _shrink(s), MAX_MIXING)
    total, before = 0.0, 0.0
    for i in range(len(s.weights)):
        total += s.weights[i]
    out[:] = 0
    for i in range(len(s.weights)):
        for p in range(s.k):
            out[s.rankings[s.action[i], p]] += (1 - gamma) * s.weights[i] / total
    for a in range(len(s.cumulative_q)):
        for p in range(s.k):
            out[s.rankings[a, p]] += gamma * (s.cumulative_q[a] - before)
        before = s.cumulative_q[a]
