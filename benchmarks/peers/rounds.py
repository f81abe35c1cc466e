"""Compare rounds per second and quality with river, mabwiser, contextualbandits and Vowpal Wabbit.

Three tasks: a fixed set of items; lists of documents with features of their own; a fixed set of items for users
with features. In each of them all see the relevance of as many items a round, and the same loop plays them step by
step. They take turns, one for each seed; times are of the processor, on one thread, the best of the turns. Speed
without learning is no comparison, so each row also says how relevant the item on top was while learning, and how
good the order of all items is that came out: NDCG@10, means and standard deviations over the seeds. Packages are
used as they come, except for the rate of random exploration, which is the same for all. Of peekrank's learners,
only rtop1f knows the number of rounds. Without one of the packages, which are not required, its rows are
missing.

    python benchmarks/peers/rounds.py
    python benchmarks/peers/rounds.py items --seeds 20
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1]))  # where clock.py and peers/ are

import numpy as np
from clock import two_digits
from peers.documents import documents, of_documents
from peers.items import coins, of_fixed_items
from peers.playing import Contestant, Result, Task, at_random
from peers.users import of_users, users
from rich.console import Console
from rich.table import Table

SEEDS = 5


def compare(make: Callable[[int], Task], contestants: Sequence[Contestant], seeds: int) -> Table:
    """Run all contestants for each seed. The first one is the reference."""
    tasks = [make(seed) for seed in range(seeds)]
    for contestant in contestants:
        if contestant.name.startswith("peekrank"):
            contestant.play(tasks[0], 0)  # pays for compiling
    results: dict[str, list[Result]] = {contestant.name: [] for contestant in contestants}
    for seed, task in enumerate(tasks):
        for contestant in contestants:
            results[contestant.name].append(contestant.play(task, seed))
    table = Table(
        "who", "rounds per second", "time per round, first line = 1", "relevance on top", "NDCG at the end",
        "how the task differs", title=tasks[0].title,
        caption=f"NDCG of random orders: {np.mean([at_random(task) for task in tasks]):.4f}",
    )  # fmt: skip
    rounds = len(tasks[0].rounds.offsets) - 1
    base = min(result.seconds for result in results[contestants[0].name])
    for contestant in contestants:
        best = min(result.seconds for result in results[contestant.name])
        on_top, at_end = (
            f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
            for values in zip(*((r.on_top, r.quality) for r in results[contestant.name]), strict=True)
        )
        table.add_row(
            contestant.name, f"{rounds / best:,.0f}", two_digits(best / base), on_top, at_end, contestant.differs
        )
    return table


TASKS = {"items": (coins, of_fixed_items), "documents": (documents, of_documents), "users": (users, of_users)}


def main(seeds: int = SEEDS, tasks: Sequence[str] = tuple(TASKS)) -> None:
    warnings.simplefilter("ignore")
    for make, contestants in (TASKS[name] for name in tasks):
        Console(width=200).print(compare(make, contestants(), seeds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rounds beside other packages.")
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], help="which of them; all if none is named")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    main(options.seeds, options.tasks or tuple(TASKS))
