"""Compare held-out NDCG@10 with LightGBM's LambdaMART, which trains on all relevances.

RTop-kF passes over the training lists and sees 1, 2 or 5 relevances a round; ListNet and LambdaMART see all. Then
each orders lists that it has not learned from. Learners, splits and LambdaMART are those of experiments/judged.py.
Lists are generated, three kinds of relevance, or come from a file. Means and standard deviations over the seeds,
each with other lists, or with another part of the file to test on. Without LightGBM, which is not required, its
line is missing.

    python benchmarks/peers/offline.py                  generated lists
    python benchmarks/peers/offline.py --data FILE      LETOR text, or a .peek file
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "experiments"))

import numpy as np
from ct16 import read_rounds
from judged import TREES, try_all
from rich.console import Console
from rich.table import Table

from peekrank.data.generated import make_dataset
from peekrank.papers.ct16.figure import EVERYTHING, NOTHING
from peekrank.papers.ours.judged import KINDS, OURS, Split, divided, held_out_table
from peekrank.types import Rounds

SEEDS, ROUNDS, SHAPE = 5, 20_000, "mq2008"
DIFFERS = {
    NOTHING: "learns nothing",
    OURS: "online; a linear function; sees k relevances a round",
    EVERYTHING: "online, as CT16 prints it; a linear function; sees all relevances",
    "ListNet, all relevances, our steps": "the same with the steps of RTop-kF",
    TREES: "offline, with a validation part of its own; trees; sees all relevances of all lists at once",
}


def shuffled(rounds: Rounds, seed: int) -> Rounds:
    """Shuffle the lists."""
    lengths = np.diff(rounds.offsets)
    order = np.random.default_rng(seed).permutation(len(lengths))
    rows = np.concatenate([np.arange(rounds.offsets[n], rounds.offsets[n + 1]) for n in order])
    return Rounds(rounds.features[rows], rounds.relevance[rows], np.append(0, np.cumsum(lengths[order])))


def split(rounds: Rounds) -> Split:
    """Split lists: a fifth for testing, a fifth of the rest for early stopping, the others for training."""
    rest, test = divided(rounds)
    train, validation = divided(rest)
    return Split(train, validation, test)


def compare(title: str, splits: Sequence[Split], rounds: int) -> Table:
    found = try_all(splits, rounds=rounds, runs=len(splits), say=lambda _: None)
    shown = held_out_table({key: values for key, values in found.items() if key[0] in DIFFERS})
    table = Table(*shown.heads, "how the task differs", title=f"{title}: NDCG@10 of lists that were held out")
    for row in shown.rows:
        name, *cells = map(str, row)
        table.add_row(name, *cells, DIFFERS[name])
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Held-out NDCG@10 beside LambdaMART.")
    parser.add_argument("--data", type=Path, help="LETOR text or a .peek file; else lists are generated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="that learners play")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error("--seeds: two at least, or there is no spread")
    seeds = range(options.seeds)
    if options.data:
        rounds = read_rounds(options.data)
        splits = {options.data.name: [split(shuffled(rounds, seed)) for seed in seeds]}
    else:
        splits = {
            f"generated, {kind}": [
                split(make_dataset(SHAPE, np.random.default_rng(seed), kind=kind).rounds()) for seed in seeds
            ]
            for kind in KINDS
        }
    for title, parts in splits.items():
        Console(width=180).print(compare(title, parts, options.rounds))


if __name__ == "__main__":
    main()
