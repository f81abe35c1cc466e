"""Measure the CPU seconds to evaluate a million decisions, and to read their log."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from peekrank import DCG, measure
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.log import Log, read_log, write_log
from peekrank.evaluation.policies import fixed_order, policy


def made_log(n: int, m: int = 10, k: int = 3, gamma: float = 0.2) -> Log:
    """Make lists whose top k are random with probability gamma."""
    rng = np.random.default_rng(1)
    order = np.tile(np.arange(m), (n, 1))
    random = rng.random(n) < gamma
    order[random] = np.argsort(rng.random((int(random.sum()), m)), axis=1)
    position = np.argsort(order, axis=1)
    relevance = rng.random((n, m)) < np.linspace(0.9, 0.1, m)
    propensity = np.where(np.arange(m) < k, 1 - gamma, 0) + gamma * k / m
    return Log(
        pl.Series("event", np.arange(n)).cast(pl.String), np.full(n, np.nan), np.full(n, k), np.zeros(n, np.int64),
        np.arange(n + 1) * m, np.tile(np.arange(m), n), position.reshape(-1), np.tile(propensity, n),
        np.where(position < k, relevance, np.nan).reshape(-1), np.full(n * m, np.nan), tuple(map(str, range(m))),
        ("random tops",), ("",),
    )  # fmt: skip


def main(n: int) -> None:
    log = made_log(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, log)
        begun = time.process_time()
        read_log(path)
        print(f"read {n:,} decisions of 10 candidates ({path.stat().st_size / 1e6:.0f} MB): {_since(begun)}")
    small = log.select(np.arange(n) < 100)
    best, worst = ([str(i) for i in order] for order in (range(10), range(9, -1, -1)))
    evaluate_log(small, [fixed_order(small, best)], measure("dcg"))  # compiles
    policy("doubtsort", small, measure=DCG())
    begun = time.process_time()
    evaluate_log(log, [fixed_order(log, best)], measure("dcg"))
    print(f"a fixed order by dcg, with all intervals: {_since(begun)}")
    begun = time.process_time()
    evaluate_log(log, [fixed_order(log, best), fixed_order(log, worst)], measure("dcg"))
    print(f"two fixed orders and their difference: {_since(begun)}")
    begun = time.process_time()
    policy("doubtsort", log, measure=DCG())
    print(f"doubtsort, replayed: {_since(begun)}")


def _since(begun: float) -> str:
    return f"{time.process_time() - begun:.1f} s"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
