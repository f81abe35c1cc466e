"""Pairs of candidates: their chances to be both seen, and the pairwise loss as a sum over them."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.evidence.log import Log
from peekrank.types import Floats, Ints

_SURE = 1 - 1e-9


@kernel
def _fill_pair_chances(offsets: Ints, k: Ints, chance: Floats, out: Floats) -> int:
    """Fill the chances of all pairs where those of items imply them; the first decision where not, or -1."""
    row = 0
    for t in range(len(k)):
        first, last = offsets[t], offsets[t + 1]
        n, sure = last - first, 0
        for i in range(first, last):
            sure += chance[i] >= _SURE
        if not (sure >= k[t] - 1 or k[t] >= n - 1):
            return t
        for i in range(first, last):
            for j in range(i + 1, last):
                if sure >= k[t] - 1:  # one place is open, so two that are not sure are never seen together
                    both = min(chance[i], chance[j]) if max(chance[i], chance[j]) >= _SURE else 0.0
                else:  # one candidate is left out
                    both = max(0.0, chance[i] + chance[j] - 1)
                out[row] = both
                row += 1
    return -1


def pair_chances(log: Log) -> Floats:
    """The probability of each two candidates of a decision to be both seen: logged, or implied by the chances.

    Chances imply those of pairs where all places but the last are sure (greedy orders with a question at place k,
    as doubtsort and ridge have them), and where at most one candidate is left out.

    >>> from peekrank.evidence.log import log_of
    >>> shown = {"event": "1", "k": 2, "candidates": ["a", "b", "c"], "place": [0, 1, 2]}
    >>> pair_chances(log_of([{**shown, "chance": [1, 0.75, 0.25]}]))
    array([0.75, 0.25, 0.  ])
    """
    if log.pairs is not None:
        return log.pairs
    lengths = log.lengths
    out = np.empty(int((lengths * (lengths - 1) // 2).sum()))
    event = _fill_pair_chances(log.offsets, log.k, log.chance, out)
    if event >= 0:
        raise ValueError(
            f"pairwiseloss needs the probability to see each pair: event '{log.events[event]}' has no field "
            "'pairs', nor do its chances imply them; sumloss can be estimated, and for relevance that is 0 or 1 "
            "differences of policies are the same in both"
        )
    return out


@kernel
def fill_pairs(offsets: Ints, answer: Floats, ranks: Ints, signs: Floats, above: Floats) -> None:
    """What was seen of each pair (i, j), and how a policy orders it.

    Parameters
    ----------
    offsets, answer
        Decisions, and the answer of each candidate; NaN: not seen.
    ranks
        The policy's rank of each candidate.
    signs
        Filled with the sign of answer(j) - answer(i); NaN where one was not seen.
    above
        Filled with 1 if i is above j, -1 if not.

    >>> signs, above = np.empty(1), np.empty(1)
    >>> fill_pairs(np.array([0, 2]), np.array([0.0, 2.0]), np.array([1, 0]), signs, above)
    >>> signs, above
    (array([1.]), array([-1.]))
    """
    row = 0
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            for j in range(i + 1, offsets[t + 1]):
                signs[row] = np.sign(answer[j] - answer[i])
                above[row] = 1.0 if ranks[i] < ranks[j] else -1.0
                row += 1
