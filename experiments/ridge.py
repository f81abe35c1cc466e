"""Compare ridge with rtopkf and mixed after few and many rounds, on generated relevance and on benchmarks/peers.

NDCG@10 of the final order on lists that were not learned from, and the relevance of the first item while learning:
means and standard deviations over runs, each of which has data of its own. With --locked also how many runs over
misspecified lists ended far below the median. Judged documents are read from where they are: --mq2008 FOLDER has
S1.txt to S5.txt, --yandex FOLDER has train.letor.txt.gz and test.letor.txt.gz. Each document is an item of mixed,
which `mixed_beside.py` compares on the tasks of users.

    python experiments/ridge.py --tasks users documents linear query misspecified --rounds 500 2000 --locked
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from peekrank import DCG, Agent, Mixed, Ridge, Rounds, RTopKF
from peekrank.data.dataset import Dataset
from peekrank.data.generated import DatasetShape, Kind, make_dataset
from peekrank.data.letor import read_letor
from peekrank.engine import run_agents
from peekrank.papers.ct16.figure import passes
from peekrank.papers.ours.judged import divided, held_out
from peekrank.types import Features, Floats

DOCUMENTS = DatasetShape(2500, (20, 20), 46, (0.8, 0.13, 0.07))
ON_TOP = DCG(1, gains="linear")
KINDS: dict[str, Kind] = {"linear": "linear", "query": "query", "misspecified": "misspecified"}
LOCKED = 0.05  # below the median


class Split(NamedTuple):
    train: Rounds
    test: Rounds


def learners(expand: int, only: Sequence[str] | None = None) -> dict[str, Ridge | RTopKF | Mixed]:
    tried: dict[str, Ridge | RTopKF | Mixed] = {
        "ridge": Ridge(),
        "ridge, sampling": Ridge("sampling", confidence=1.0),
    }
    expanded = {"expand": Ridge(expand=expand)} if expand else {}
    all_of_them = {**tried, **expanded, "rtopkf": RTopKF(), "mixed": Mixed()}
    return {name: learner for name, learner in all_of_them.items() if not only or name in only}


def generated(kind: Kind, seed: int) -> Split:
    return Split(*divided(make_dataset(DOCUMENTS, np.random.default_rng([3, seed]), kind=kind).rounds()))


def together(parts: Sequence[Dataset]) -> Rounds:
    """Concatenate the lists of all parts."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    features: Features = np.concatenate([part.features for part in parts])
    relevance = np.concatenate([part.relevance for part in parts]).astype(np.uint8)
    return Rounds(features, relevance, np.r_[0, np.cumsum(lengths)])


def mq2008(folder: Path, seed: int) -> Split:
    """Return the fold of this number."""
    parts = [read_letor(folder / f"S{1 + (seed + i) % 5}.txt") for i in range(5)]
    return Split(together(parts[:3]), together(parts[4:]))


def yandex(folder: Path) -> Split:
    train, test = (read_letor(folder / f"{name}.letor.txt.gz") for name in ("train", "test"))
    return Split(together([train]), together([test]))


def play(learner: Ridge | RTopKF | Mixed, split: Split, k: int, rounds: int, seed: int) -> tuple[float, float]:
    """Measure quality on the test part, and the relevance of the first item during learning."""
    lengths = np.diff(split.train.offsets)
    m = int(lengths.max())
    if isinstance(learner, Mixed):  # the first numbers are those of test documents, which nobody answers about
        first, m = len(split.test.relevance), len(split.test.relevance) + len(split.train.relevance)
        learner = replace(learner, high=max(1, int(split.train.relevance.max())))
        split = split._replace(train=split.train._replace(items=np.arange(first, m)))
    agent = Agent(learner, m=m, k=k, d=split.train.features.shape[1], seed=seed)
    sequence = passes(len(lengths), rounds, np.random.default_rng([4, seed]))
    (trace,) = run_agents([agent], split.train, measure=ON_TOP, sequence=sequence, checkpoints=np.array([rounds]))
    scores = learner.scores(agent.state, split.test.features)
    return held_out(scores, split.test), float(trace.value[0] / rounds)


def cell(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def splits(task: str, options: argparse.Namespace) -> Iterator[Split]:
    shared = yandex(options.yandex) if task == "yandex" else None
    for seed in range(options.runs):
        if shared is not None:
            yield shared
        else:
            yield mq2008(options.mq2008, seed) if task == "mq2008" else generated(KINDS[task], seed)


def table(task: str, k: int, options: argparse.Namespace) -> Iterator[str]:
    """Print a row for each learner and number of rounds."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed, split in enumerate(splits(task, options)):
        for rounds in options.rounds:
            for name, learner in learners(options.expand, options.only).items():
                found.setdefault((name, rounds), []).append(play(learner, split, k, rounds, seed))
    for (name, rounds), values in sorted(found.items(), key=lambda one: (one[0][1], one[0][0])):
        held, on_top = zip(*values, strict=True)
        yield f"| {task} | {k} | {rounds:,} | {name} | {cell(held)} | {cell(on_top)} |"


def peers(task: str, runs: int, only: Sequence[str] | None) -> Iterator[str]:
    """Run the tasks of benchmarks/peers with their seeds and measures."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    compiled, make = import_module("peers.playing").compiled, getattr(import_module(f"peers.{task}"), task)
    for name, learner in learners(0, only).items():
        if isinstance(learner, Mixed):
            continue
        results = [compiled(learner)(make(seed), seed) for seed in range(runs)]
        held, on_top = [r.quality for r in results], [r.on_top for r in results]
        made = make(0)
        yield f"| {task} | {made.k} | {len(made.grades):,} | {name} | {cell(held)} | {cell(on_top)} |"


def locked(runs: int, rounds: int, only: Sequence[str] | None) -> Iterator[str]:
    """Run on misspecified lists with k = 1, and compare with the best linear order of the same lists."""
    off: dict[str, list[float]] = {}
    for seed in range(runs):
        split = generated("misspecified", 100 + seed)
        X = np.c_[split.train.features, np.ones(len(split.train.features))].astype(np.float64)
        best: Floats = np.linalg.lstsq(X, split.train.relevance.astype(np.float64), rcond=None)[0]
        reachable = held_out(split.test.features @ best[:-1], split.test)
        for name, learner in learners(0, only).items():
            off.setdefault(name, []).append(play(learner, split, 1, rounds, seed)[0] - reachable)
    for name, values in off.items():
        count = int(np.sum(np.array(values) < np.median(values) - LOCKED))
        yield (
            f"| {name} | {rounds:,} | {np.median(values):+.3f} | {min(values):+.3f} | {count} of {runs} "
            f"more than {LOCKED} below the median |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=["users", "documents", *KINDS])
    parser.add_argument("--rounds", nargs="+", type=int, default=[500, 2000])
    parser.add_argument("--answers", nargs="+", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--expand", type=int, default=0, help="columns to add; 0: without a feature map")
    parser.add_argument("--locked", type=int, nargs="?", const=30, default=0, help="runs; 30 if none are said")
    parser.add_argument("--only", nargs="+", help="learners to try; all without")
    parser.add_argument("--mq2008", type=Path)
    parser.add_argument("--yandex", type=Path)
    options = parser.parse_args()
    tasks = [*options.tasks, *(name for name in ("mq2008", "yandex") if getattr(options, name))]
    sys.stdout.write(
        "| task | k | rounds | learner | NDCG@10 held out | relevance on top |\n|---|---|---|---|---|---|\n"
    )
    for task in tasks:
        for k in options.answers if task in (*KINDS, "mq2008", "yandex") else (0,):
            for row in table(task, k, options) if k else peers(task, options.runs, options.only):
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()
    if options.locked:
        sys.stdout.write("\n| learner | rounds | median below the best linear order | least | locked in |\n")
        sys.stdout.write("|---|---|---|---|---|\n")
        for row in locked(options.locked, 2000, options.only):
            sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
