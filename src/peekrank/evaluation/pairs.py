"""Pairs of candidates: the probability to see both, and the pairwise loss as a sum over pairs."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.evaluation.log import Log
from peekrank.types import Floats, Ints

_CERTAIN = 1 - 1e-9


@kernel
def _fill_pair_propensities(offsets: Ints, k: Ints, propensity: Floats, out: Floats) -> int:
    """Fill the propensities of pairs implied by those of items. Return the first decision without, or -1."""
    row = 0
    for t in range(len(k)):
        first, last = offsets[t], offsets[t + 1]
        n, sure = last - first, 0
        for i in range(first, last):
            sure += propensity[i] >= _CERTAIN
        if not (sure >= k[t] - 1 or k[t] >= n - 1):
            return t
        for i in range(first, last):
            for j in range(i + 1, last):
                if sure >= k[t] - 1:  # one random position: two uncertain candidates are never seen together
                    both = (
                        min(propensity[i], propensity[j]) if max(propensity[i], propensity[j]) >= _CERTAIN else 0.0
                    )
                else:  # one candidate is left out
                    both = max(0.0, propensity[i] + propensity[j] - 1)
                out[row] = both
                row += 1
    return -1


def pair_propensities(log: Log) -> Floats:
    """Return the probability that both candidates of a pair are seen: logged, or implied by propensities.

    Propensities imply those of pairs if all positions but the last are certain (doubtsort and ridge explore
    only at position k), or if at most one candidate is not seen.

    >>> from peekrank.evaluation.log import log_from_records
    >>> shown = {"event": "1", "k": 2, "candidates": ["a", "b", "c"], "position": [0, 1, 2]}
    >>> pair_propensities(log_from_records([{**shown, "propensity": [1, 0.75, 0.25]}]))
    array([0.75, 0.25, 0.  ])
    """
    if log.pairs is not None:
        return log.pairs
    lengths = log.lengths
    out = np.empty(int((lengths * (lengths - 1) // 2).sum()))
    event = _fill_pair_propensities(log.offsets, log.k, log.propensity, out)
    if event >= 0:
        raise ValueError(
            f"pairwiseloss needs the probability to see each pair, but event '{log.events[event]}' has no field "
            "'pairs' and its propensities do not imply them. Use sumloss: for binary relevance, differences of "
            "policies are the same"
        )
    return out


@kernel
def fill_pairs(offsets: Ints, answer: Floats, ranks: Ints, signs: Floats, above: Floats) -> None:
    """Fill the observed order of each pair (i, j) and that of a policy.

    Parameters
    ----------
    offsets, answer
        Decisions, and the feedback on each candidate; NaN: not seen.
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
