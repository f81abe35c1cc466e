"""Measure start-up: CPU seconds, user and system, of separate processes, with their limits.

    python benchmarks/startup.py

Medians of several processes. Bytecode is on disk, as after an installation. Cold means an empty cache of compiled
kernels, warm one that has them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

TURNS = 7
COLD_TURNS = 3
AGENT = """
from peekrank import DCG, Agent, BlockFTRL
agent = Agent(BlockFTRL(DCG()), m=10, k=1)
agent.update(agent.rank(), [1.0])
"""
DOUBTSORT = """
from peekrank import DCG, Agent, DoubtSort
agent = Agent(DoubtSort(DCG()), m=10, k=1)
agent.update(agent.rank(), [1.0])
"""
RIDGE = """
import numpy as np
from peekrank import Agent, Ridge
agent = Agent(Ridge(), m=10, k=1, d=5)
agent.update(agent.rank(np.eye(10, 5)), [1.0])
"""
SIMULATE = """
import numpy as np
from peekrank import CT15, DCG, RTop1F, simulate
rounds = CT15(m=10).rounds(10_000, np.random.default_rng(0))
simulate(RTop1F(DCG(), horizon=10_000), rounds, k=1, measure=DCG())
"""
ADVISE = ("advise", "dcg", "--m", "10", "--k", "1", "--horizon", "10000")


def processor_seconds(arguments: tuple[str, ...], cache: Path) -> float:
    """Measure the CPU seconds of a whole Python process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        env={**environment, "NUMBA_CACHE_DIR": str(cache)},
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm(*arguments: str) -> float:
    """Return the median over processes, after one that fills the cache."""
    with tempfile.TemporaryDirectory() as cache:
        processor_seconds(arguments, Path(cache))
        return median(processor_seconds(arguments, Path(cache)) for _ in range(TURNS))


def cold(*arguments: str) -> float:
    """Return the median over processes, each with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        return median(processor_seconds(arguments, Path(folder, str(turn))) for turn in range(COLD_TURNS))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = ("simulate", "rtop1f", "--runs", "1", "--out", folder)
        figures = [
            ("python -c pass", warm("-c", "pass"), None),
            ("import peekrank", warm("-c", "import peekrank"), 0.1),
            ("peekrank --help", warm("-m", "peekrank", "--help"), 0.4),
            ("peekrank list", warm("-m", "peekrank", "list"), 0.4),
            (f"peekrank {' '.join(ADVISE)}", warm("-m", "peekrank", *ADVISE), 0.4),
            ("first simulate of a process, warm cache", warm("-c", SIMULATE), 1.5),
            ("first agent of a process (blockftrl), warm cache", warm("-c", AGENT), 1.5),
            ("first agent of a process (blockftrl), cold cache", cold("-c", AGENT), 5.0),
            ("first agent of a process (doubtsort), cold cache", cold("-c", DOUBTSORT), 3.0),
            ("first agent of a process (ridge), cold cache", cold("-c", RIDGE), 6.0),
            ("peekrank simulate, tables and pictures included, warm cache", warm("-m", "peekrank", *run), None),
        ]
    table = Table("a process of its own", "seconds of the processor", "limit")
    for text, taken, limit in figures:
        late = limit is not None and taken > limit
        table.add_row(text, f"{taken:.2f}", "" if limit is None else f"{limit:g}", style="red" if late else "")
    Console().print(table)


if __name__ == "__main__":
    main()
