"""Propensities of softmax loggers: against enumeration, simulation, and logs with known propensities."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from peekrank.evaluation.log import log_from_records
from peekrank.evaluation.softmax import SoftmaxSource, add_softmax_propensities, fill_inclusion
from peekrank.evaluation.sources import MemorySource
from peekrank.types import Floats


def _inclusion(weights: Floats, k: int) -> Floats:
    out = np.empty(len(weights))
    fill_inclusion(weights, k, np.empty((2 * len(weights) + 3, k)), out)
    return out


def _enumerated(weights: Floats, k: int) -> Floats:
    """Add the probabilities of all ordered lists of k items."""
    out = np.zeros(len(weights))
    for order in permutations(range(len(weights)), k):
        probability, left = 1.0, list(range(len(weights)))
        for item in order:
            probability *= float(weights[item] / weights[left].sum())
            left.remove(item)
        out[list(order)] += probability
    return out


def test_inclusion_equals_enumeration() -> None:
    rng = np.random.default_rng(0)
    for m in range(1, 7):
        for k in range(1, m + 1):
            for spread in (0.0, 1.0, 10.0):
                weights = np.exp(rng.normal(size=m) * spread)
                weights /= weights.max()
                np.testing.assert_allclose(
                    _inclusion(weights, k), _enumerated(weights, k), rtol=0, atol=1e-9 * spread**3 + 1e-13
                )


def test_inclusion_of_many_items_sums_to_k_and_agrees_with_simulation() -> None:
    rng = np.random.default_rng(1)
    for m, k, spread in ((50, 10, 2.0), (50, 10, 30.0), (50, 49, 1.0), (300, 20, 4.0)):
        scores = rng.normal(size=m) * spread
        found = _inclusion(np.exp(scores - scores.max()), k)
        assert abs(found.sum() - k) < 1e-11
        assert (np.diff(found[np.argsort(scores)]) >= -1e-14).all()  # a higher score is seen more often
    scores, n = rng.normal(size=50) * 2, 40_000
    noisy = scores + rng.gumbel(size=(n, 50))
    counts = np.bincount(np.argpartition(-noisy, 10, axis=1)[:, :10].ravel(), minlength=50)
    found = _inclusion(np.exp(scores - scores.max()), 10)
    z = (counts / n - found) / np.sqrt(found * (1 - found) / n)
    assert np.abs(z).max() < 4.5


def test_a_source_computes_propensities_and_names_what_is_missing() -> None:
    fields = {"k": 2, "candidates": ["a", "b", "c"], "position": [1, 0, 2], "feedback": [1, 0, None]}
    records = [{**fields, "event": name, "score": [0.0, 700.0, -900.0]} for name in "xy"]
    log = log_from_records(records)
    source = SoftmaxSource(MemorySource("log", log), 100.0)
    (part,) = source.parts(1)
    assert part.events.to_list() == ["y"]
    np.testing.assert_allclose(part.propensity, _enumerated(np.exp([-7.0, 0.0, -16.0]), 2), atol=1e-14)
    assert source.scope.decisions == 2
    assert source.digest() != SoftmaxSource(MemorySource("log", log), 99.0).digest()
    assert (add_softmax_propensities(log, 1e-3).propensity > 0).all()  # never 0, which would be an error if seen
    with pytest.raises(ValueError, match="log, event 'x': candidate 'a' already has a propensity"):
        add_softmax_propensities(part._replace(events=log.events[:1]), 1.0)
    with pytest.raises(ValueError, match="candidate 'c' has no score"):
        add_softmax_propensities(log_from_records([{**records[0], "score": [1, 2, None]}]), 1.0)
    with pytest.raises(ValueError, match="temperature"):
        add_softmax_propensities(log, 0.0)
