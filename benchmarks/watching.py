"""What watching a decision takes, of the processor: one by one, and in a log.

python benchmarks/watching.py
"""

from __future__ import annotations

import numpy as np
from clock import in_turns
from peekrank.evidence.alarms import Outcome, Watch

N, K = 20_000, 3


def columns(n: int, m: int) -> tuple[np.ndarray, ...]:
    """Decisions of a policy that explores with chance 0.1, a third of whose questions are answered."""
    rng = np.random.default_rng(0)
    places = np.tile(np.arange(m), (n, 1))
    for t in np.flatnonzero(rng.random(n) < 0.1):
        j = int(rng.integers(K, m))
        places[t, K - 1], places[t, j] = j, K - 1
    chances = np.tile([1.0] * (K - 1) + [0.9] + [0.1 / (m - K)] * (m - K), n)
    told = (places < K) & (rng.random((n, m)) < 0.3)
    answers = np.where(told, rng.random((n, m)) < 0.5, np.nan).ravel()
    return np.arange(0, n * m + 1, m), np.tile(np.arange(m), n), chances, places.ravel(), answers, np.full(n, K)


def main() -> None:
    for m in (10, 100):
        offsets, items, chances, places, answers, ks = columns(N, m)
        one = Outcome(items[:m], chances[:m], places[:m], answers[:m], K)
        watch = Watch()

        def single(watch: Watch = watch, one: Outcome = one) -> None:
            for _ in range(2_000):
                watch.observe(one)

        def many(made: tuple[np.ndarray, ...] = (offsets, items, chances, places, answers, ks)) -> None:
            Watch().observe_many(*made)

        best = in_turns({"one": single, "many": many}, 5)
        in_log, in_call = 1e6 * best["many"] / N, 1e6 * best["one"] / 2_000
        print(f"{m} candidates: {in_log:.2f} us in a log, {in_call:.1f} us in a call")


if __name__ == "__main__":
    main()
