"""Compare auto with its members: the cost and the benefit of choosing between them.

NDCG@10 of lists that were not learned from, and while learning (lists without a relevant document are skipped),
after each of several numbers of rounds. A row for each run, then the means, and how far auto is from the best of
its members. With LightGBM, which is not required, also LambdaMART, which sees all relevances of the lists that the
others learn from and stops by a fifth of them (experiments/judged.py). Judged documents are read from where they
are: --mq2008 FOLDER has S1.txt to S5.txt, --yandex FOLDER has train.letor.txt.gz and test.letor.txt.gz.

    python experiments/auto.py --runs 2 --rounds 500 2000 20000 --answers 1 2 5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from judged import boosted_trees
from ridge import KINDS, Split, generated, mq2008, yandex

from peekrank import NDCG, Agent, Auto
from peekrank.engine import run_agents
from peekrank.papers.ct16.figure import passes
from peekrank.papers.ours.judged import Split as Parts
from peekrank.papers.ours.judged import held_out
from peekrank.types import Learner

QUALITY = NDCG(10, no_relevant="skip")
FIRST = 7000  # nothing was chosen by the seeds from here on


class Row(NamedTuple):
    rounds: int
    held_out: float
    learning: float
    promoted: str


def play(learner: Learner, split: Split, k: int, checkpoints: list[int], seed: int) -> Iterator[Row]:
    """A run, and its quality after each number of rounds."""
    lengths = np.diff(split.train.offsets)
    agent = Agent(learner, m=int(lengths.max()), k=k, d=split.train.features.shape[1], seed=seed)
    sequence = passes(len(lengths), checkpoints[-1], np.random.default_rng([4, seed]))
    counts = np.maximum.reduceat(split.train.relevance, split.train.offsets[:-1]) > 0
    value = 0.0
    for first, last in pairwise([0, *checkpoints]):
        part = sequence[first:last]
        (trace,) = run_agents(
            [agent], split.train, measure=QUALITY, sequence=part, checkpoints=np.array([len(part)])
        )
        value += float(trace.value[0])
        promoted = ", ".join(
            f"{p.after.partition(',')[0]} at {p.round:,}"
            for p in (learner.promotions(agent.state) if isinstance(learner, Auto) else [])
        )
        held = held_out(learner.scores(agent.state, split.test.features), split.test)
        yield Row(last, held, value / counts[sequence[:last]].sum(), promoted)


def split_of(name: str, seed: int, options: argparse.Namespace) -> Split:
    if name == "mq2008":
        return mq2008(options.mq2008, seed)
    return yandex(options.yandex) if name == "yandex" else generated(KINDS[name], seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=[*KINDS])
    parser.add_argument("--rounds", nargs="+", type=int, default=[500, 2000])
    parser.add_argument("--answers", nargs="+", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first run")
    parser.add_argument("--expand", type=int, default=1300)
    parser.add_argument("--without", nargs="*", default=[], help="members that are not run alone")
    parser.add_argument("--mq2008", type=Path)
    parser.add_argument("--yandex", type=Path)
    options = parser.parse_args()
    sets = [*options.sets, *(name for name in ("mq2008", "yandex") if getattr(options, name))]
    found: dict[tuple[str, int, int], dict[str, list[Row]]] = {}
    trees: dict[str, list[float]] = {}
    for run in range(options.runs):
        for name in sets:
            split, seed = split_of(name, options.first + run, options), options.first + run
            top = int(split.train.relevance.max())
            boosted = boosted_trees(Parts(split.train, None, split.test), seed)
            if boosted is not None:
                trees.setdefault(name, []).append(boosted)
                say(f"| {name} | | {run} | | LambdaMART | {boosted:.4f} | | |")
            auto = Auto(max_grade=top, expand=options.expand)
            learners = {"auto": auto, **dict(zip(("ridge", "expand", "rtopkf"), auto.team(), strict=True))}
            for k in options.answers:
                for called, learner in learners.items():
                    if called in options.without:
                        continue
                    for row in play(learner, split, k, options.rounds, seed):
                        found.setdefault((name, k, row.rounds), {}).setdefault(called, []).append(row)
                        say(f"| {name} | {k} | {run} | {row.rounds:,} | {called} | {row.held_out:.4f} "
                            f"| {row.learning:.4f} | {row.promoted} |")  # fmt: skip
    for name, values in trees.items():
        say(f"LambdaMART on {name}: {np.mean(values):.3f}, from {min(values):.3f} to {max(values):.3f}")
    say("", "| lists | k | rounds | auto | ridge | expand | rtopkf | auto minus the best |", "|---" * 8 + "|")
    for (name, k, rounds), by_learner in sorted(found.items()):
        say(f"| {name} | {k} | {rounds:,} | " + " | ".join(cells(by_learner)) + " |")


def cells(by_learner: dict[str, list[Row]]) -> Iterator[str]:
    """Tabulate quality held out and during learning, and the difference of auto to the best of the others."""
    means = {
        called: np.array([[row.held_out, row.learning] for row in rows]).mean(axis=0)
        for called, rows in by_learner.items()
    }
    for called in ("auto", "ridge", "expand", "rtopkf"):
        yield f"{means[called][0]:.3f}, {means[called][1]:.3f}" if called in means else "–"
    off = means["auto"] - np.max([mean for called, mean in means.items() if called != "auto"], axis=0)
    yield f"{off[0]:+.3f}, {off[1]:+.3f}"


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
