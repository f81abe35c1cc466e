"""Measure the overhead of a sweep against calls of `simulate`, and the number of tiny runs per second.

    python benchmarks/sweeps.py

Both ways take turns, and the best of the turns counts: other work on the machine only ever adds. Processor time,
with the wall clock in brackets.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from peekrank.engine import simulate
from peekrank.experiments.run import compile_kernels
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import run_sweep
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.regret import best_values, default_checkpoints


class Took(NamedTuple):
    processor: float
    wall: float


def took(work: Callable[[], object]) -> Took:
    processor, wall = time.process_time(), time.perf_counter()
    work()
    return Took(time.process_time() - processor, time.perf_counter() - wall)


def best(turns: list[Took]) -> Took:
    return Took(min(turn.processor for turn in turns), min(turn.wall for turn in turns))


def bare(sweep: Sweep, *, with_best: bool) -> None:
    """The runs of a sweep and nothing else: rounds are drawn once for all learners, and so is the best ranking."""
    for cell in sweep.settings:
        stream, measure, learners, checkpoints = *cell.parts, default_checkpoints(cell.horizon)
        for run in range(cell.runs):
            rounds, seed = cell.rounds(run, stream), cell.learner_seed(run)
            if with_best:
                best_values(measure, rounds, checkpoints)
            for learner in learners:
                simulate(learner, rounds, k=cell.k, measure=measure, seed=seed, checkpoints=checkpoints)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--runs", type=int, default=250, help="runs of each of 4 learners a turn, of 10 ms or more"
    )
    parser.add_argument("--tiny", type=int, default=2_500, help="runs of each of 4 learners a turn, of 100 rounds")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ShortHorizonWarning)
    four = ("rtop1f", "rtop1f:order=fixed", "uniform", "ftpl")
    long = Sweep("long", four, ("ct15:m=20",), ("dcg",), (1,), (30_000,), options.runs)
    tiny = Sweep("tiny", four, ("ct15:m=5",), ("dcg",), (1,), (100,), options.tiny)
    compile_kernels(long.settings[0])
    alone, regrets, swept, again, quick = [], [], [], [], []
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            alone.append(took(partial(bare, long, with_best=False)))
            regrets.append(took(partial(bare, long, with_best=True)))
            swept.append(took(partial(run_sweep, long, folder / "long")))
            again.append(took(partial(run_sweep, long, folder / "long")))
            quick.append(took(partial(run_sweep, tiny, folder / "tiny")))
    count, small = options.runs * len(four), options.tiny * len(four)
    zeroth, first, second, third, fourth = map(best, (alone, regrets, swept, again, quick))
    over = [[a / b - 1 for a, b in zip(second, base, strict=True)] for base in (zeroth, first)]
    print(f"{options.turns} x {count:,} runs of {1000 * first.processor / count:.1f} ms, one worker")
    print(f"  simulate alone        {zeroth.processor:8.2f} s ({zeroth.wall:.2f} s)")
    print(f"  with best rankings    {first.processor:8.2f} s ({first.wall:.2f} s)")
    print(f"  as a sweep            {second.processor:8.2f} s ({second.wall:.2f} s)")
    for base, more in zip(("simulate", "with best"), over, strict=True):
        print(f"  over {base:<17}{more[0]:8.1%} ({more[1]:.1%})")
    print(f"  again, nothing to do  {third.processor:8.2f} s ({third.wall:.2f} s)")
    print(f"{options.turns} x {small:,} runs of 100 rounds, one worker")
    print(f"  runs/s                {small / fourth.processor:8,.0f} ({small / fourth.wall:,.0f})")


if __name__ == "__main__":
    main()
