"""Measure the CPU time to monitor a decision, one by one and in a log.

python benchmarks/monitoring.py
"""

from __future__ import annotations

import numpy as np
from clock import in_turns

from peekrank.monitoring.alarms import Monitor, Outcome

N, K = 20_000, 3


def columns(n: int, m: int) -> tuple[np.ndarray, ...]:
    """Make decisions of a policy that explores with probability 0.1 with feedback for 30 % of the top items."""
    rng = np.random.default_rng(0)
    positions = np.tile(np.arange(m), (n, 1))
    for t in np.flatnonzero(rng.random(n) < 0.1):
        j = int(rng.integers(K, m))
        positions[t, K - 1], positions[t, j] = j, K - 1
    propensities = np.tile([1.0] * (K - 1) + [0.9] + [0.1 / (m - K)] * (m - K), n)
    observed = (positions < K) & (rng.random((n, m)) < 0.3)
    answers = np.where(observed, rng.random((n, m)) < 0.5, np.nan).ravel()
    return (
        np.arange(0, n * m + 1, m),
        np.tile(np.arange(m), n),
        propensities,
        positions.ravel(),
        answers,
        np.full(n, K),
    )


def main() -> None:
    for m in (10, 100):
        offsets, items, propensities, positions, answers, ks = columns(N, m)
        one = Outcome(items[:m], propensities[:m], positions[:m], answers[:m], K)
        monitor = Monitor()

        def single(monitor: Monitor = monitor, one: Outcome = one) -> None:
            for _ in range(2_000):
                monitor.observe(one)

        def many(made: tuple[np.ndarray, ...] = (offsets, items, propensities, positions, answers, ks)) -> None:
            Monitor().observe_many(*made)

        best = in_turns({"one": single, "many": many}, 5)
        in_log, in_call = 1e6 * best["many"] / N, 1e6 * best["one"] / 2_000
        print(f"{m} candidates: {in_log:.2f} us in a log, {in_call:.1f} us in a call")


if __name__ == "__main__":
    main()
