"""experiments/partial_monitoring.py: its estimates are unbiased, its leader is the minimum, and it learns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers.scripts import load_experiment
from peekrank import measure

script = load_experiment("partial_monitoring")


@pytest.mark.parametrize("m", [3, 4])
def test_estimates_are_unbiased_up_to_a_constant(m: int) -> None:
    """Over all shown rankings, they add up to minus the DCG of each ranking, in units of the largest."""
    subject, span = script.Matched(1, m, proved=True), float(script.MEASURE.discount(m).sum())
    for relevance in product((0, 1), repeat=m):
        answers = np.array(relevance)[subject.rankings[:, 0]]
        value = measure("dcg").values(subject.rankings, np.tile(relevance, (len(subject.rankings), 1)))
        np.testing.assert_allclose(answers @ subject.estimates, -value / span)


@pytest.mark.parametrize("proved", [True, False])
def test_the_leader_is_the_minimum(proved: bool) -> None:
    """No distribution nearby has a smaller regularised loss."""
    rng, subject = np.random.default_rng(0), script.Matched(4, 3, proved=proved)
    subject.totals = rng.random((4, 6)) * np.array([[1.0], [30.0], [300.0], [3000.0]])
    q, a = subject._leader(), subject.alpha
    assert np.allclose(q.sum(axis=1), 1)

    def objective(q: np.ndarray) -> np.ndarray:
        entropies = subject.beta * ((q**a - q).sum(axis=1) / a)
        other = subject.extra * ((q ** (1 - a) - q).sum(axis=1) / (1 - a))
        return np.asarray((subject.totals * q).sum(axis=1) - entropies - other)

    for _ in range(200):
        near = q * np.exp(0.01 * rng.normal(size=q.shape))
        near /= near.sum(axis=1, keepdims=True)
        assert (objective(near) >= objective(q) - 1e-9 * np.abs(objective(q))).all()


def test_it_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second half it loses less than in the first; random rankings would lose as much."""
    monkeypatch.setattr(script, "OURS", ())
    found = {rounds: script.regrets("far apart", 3, rounds) for rounds in (1_000, 2_000)}
    for name, most in (("Tsuchiya & Ito", 0.98), ("the same, all constants 1", 0.9)):
        half, whole = found[1_000][name].mean(), found[2_000][name].mean()
        assert 0 < whole - half < most * half
