"""Measure decisions per second and peak memory of an evaluation: two orders and their difference.

python benchmarks/evaluation.py 100000 1000000 10000000 100000000     # the last takes a quarter of an hour

The log is a folder of Parquet files with a million decisions each. From the second file on, decisions repeat those
of the first, with names and times of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from peekrank import DCG, measure
from peekrank.evaluation.evaluation import evaluate_source
from peekrank.evaluation.log import Log, write_log
from peekrank.evaluation.policies import ranker
from peekrank.evaluation.sources import MemorySource, open_source

SHARD = 1_000_000


def made_log(n: int, m: int = 10, k: int = 3, gamma: float = 0.2) -> Log:
    """Make lists whose top k are random with probability gamma."""
    rng = np.random.default_rng(1)
    order = np.tile(np.arange(m), (n, 1))
    random = rng.random(n) < gamma
    order[random] = np.argsort(rng.random((int(random.sum()), m)), axis=1)
    position = np.argsort(order, axis=1)
    relevance = rng.random((n, m)) < np.linspace(0.9, 0.1, m)
    propensity = np.where(np.arange(m) < k, 1 - gamma, 0) + gamma * k / m
    number = np.arange(n)
    return Log(
        pl.Series("event", number).cast(pl.String), number.astype(np.float64), np.full(n, k),
        np.zeros(n, np.int64), np.arange(n + 1) * m, np.tile(np.arange(m), n), position.reshape(-1),
        np.tile(propensity, n), np.where(position < k, relevance, np.nan).reshape(-1), np.full(n * m, np.nan),
        tuple(map(str, range(m))), ("random tops",), ("",),
    )  # fmt: skip


def run(path: Path) -> None:
    """Evaluate a log, and print its decisions, seconds and memory."""
    small = MemorySource("small", made_log(100))
    orders = ["order:" + ",".join(map(str, order)) for order in (range(10), range(9, -1, -1))]
    evaluate_source(
        small, [ranker(text, small.scope, measure=DCG()) for text in orders], measure("dcg")
    )  # compiles
    before = _memory()
    begun = time.process_time()
    source = open_source(path)
    surveyed = time.process_time()
    result = evaluate_source(source, [ranker(t, source.scope, measure=DCG()) for t in orders], measure("dcg"))
    ended = time.process_time()
    n, low, high = result.decisions, *result.differences[0].anytime
    rate = n / (ended - begun)
    print(
        f"{n:>11,} decisions: {ended - begun:7.1f} s of processor time, first pass {surveyed - begun:.1f} s; "
        f"{rate:,.0f} decisions/s; peak memory {_memory():,.0f} MB, {before:,.0f} MB before; "
        f"difference {low:.5f} to {high:.5f}",
        flush=True,
    )


def _memory() -> float:
    """Return the peak memory of this process in MB; `ru_maxrss` would include that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


def write_shards(folder: Path, n: int) -> None:
    """Write a log of n decisions."""
    write_log(folder / "part-0.parquet", made_log(min(SHARD, n)))
    first = pl.read_parquet(folder / "part-0.parquet")
    for start in range(SHARD, n, SHARD):
        number = pl.int_range(start, start + min(SHARD, n - start))
        part = first.head(min(SHARD, n - start)).with_columns(
            event=number.cast(pl.String), time=number.cast(pl.Float64)
        )
        part.write_parquet(folder / f"part-{start // SHARD}.parquet")


def main(sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            path = Path(folder) / str(n)
            path.mkdir()
            write_shards(path, n)
            subprocess.run([sys.executable, __file__, "--one", str(path)], check=True)  # noqa: S603
            shutil.rmtree(path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run(Path(sys.argv[2]))
    else:
        main([int(text) for text in sys.argv[1:]] or [100_000, 1_000_000])
