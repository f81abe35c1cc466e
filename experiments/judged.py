"""Measure the quality of trained rankers on held-out judged documents.

The learners and the claims are those of `peekrank reproduce judged`, which generates its lists. This script takes
judged documents, which are not part of this project, and writes the record. Beside the learners: random orders,
ListNet with all relevances, and LambdaMART (LightGBM, if it is installed), which is no online learner and has
trees for a ranker. `experiments/ridge.py` measures ridge and ours after few rounds.

    python experiments/judged.py --mq2008 FOLDER --yandex FOLDER --generated       print the tables
    python experiments/judged.py ... --record                                      write records/ct16.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import records
from ct16 import read_rounds

from peekrank.data.generated import DatasetShape
from peekrank.papers.ct16.figure import NOTHING, ROUNDS, best_grades
from peekrank.papers.ours.judged import (
    KINDS,
    STREAM,
    Found,
    Split,
    claims,
    divided,
    held_out,
    held_out_table,
    learned,
    learned_once,
    once_table,
    random_orders,
)
from peekrank.reports.markup import Table
from peekrank.types import Rounds

RUNS = 5
TREES = "LambdaMART, all relevances"


def mq2008(folder: Path) -> list[Split]:
    """Read the five folds of LETOR 4.0: three parts for training, one for validation, one for testing."""
    parts = [read_rounds(folder / f"S{number}.txt") for number in range(1, 6)]
    turned = [[*parts[fold:], *parts[:fold]] for fold in range(5)]
    return [Split(join(part[:3]), part[3], part[4]) for part in turned]


def yandex(folder: Path) -> list[Split]:
    """Read the training and the test part as published."""
    train, test = (read_rounds(folder / f"{part}.letor.txt.gz") for part in ("train", "test"))
    return [Split(train, None, test)]


def join(parts: Sequence[Rounds]) -> Rounds:
    """Concatenate the lists of several parts."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    features, relevance = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Rounds(features, relevance, np.append(0, np.cumsum(lengths)))


def boosted_trees(split: Split, seed: int) -> float | None:
    """Measure LambdaMART with early stopping on the validation part. Returns None without LightGBM."""
    try:
        lightgbm: Any = import_module("lightgbm")
    except ImportError:
        return None
    train, validation = (split.train, split.validation) if split.validation else divided(split.train)
    options = {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "learning_rate": 0.05, "num_leaves": 15,
        "min_data_in_leaf": 20, "bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.8,
        "num_threads": 1, "seed": seed, "verbosity": -1,
    }  # fmt: skip
    first, second = (
        lightgbm.Dataset(part.features, part.relevance, group=np.diff(part.offsets))
        for part in (train, validation)
    )
    stop = lightgbm.early_stopping(50, verbose=False)
    booster = lightgbm.train(options, first, 500, valid_sets=[second], callbacks=[stop])
    return held_out(booster.predict(split.test.features), split.test)


def try_all(splits: Sequence[Split], *, rounds: int, runs: int, say: Callable[[str], object]) -> Found:
    """Measure the quality of all rankers, with at least `runs` results and equally many of every split."""
    found: Found = {}
    repeats = -(-runs // len(splits))
    for number, split in enumerate(splits):
        for run in range(repeats):
            here = {(NOTHING, 0): random_orders(split, run), **learned(split, rounds, run)}
            trees = boosted_trees(split, run)
            if trees is not None:
                here[TREES, 0] = trees
            for key, value in here.items():
                found.setdefault(key, []).append(value)
            say(f"split {number + 1} of {len(splits)}, run {run + 1} of {repeats}: done")
    return found


def tables(title: str, splits: Sequence[Split], found: Found) -> list[records.Table]:
    """Return means and standard deviations over splits and runs, and the claims."""
    best = np.concatenate([best_grades(split.test) for split in splits])
    without = f"{np.sum(best == 0):,} without a relevant document"
    text = [f"{len(best):,} test queries, of which {without} are left out."]
    if (TREES, 0) not in found:
        text.append("LambdaMART is missing: LightGBM is not installed.")
    said = [
        (f"{c.what.partition(': ')[2]}: {c.expected}", f"{c.verdict} ({c.here})") for c in claims(found, title)
    ]
    return [
        records.parse_table(f"{title}, held out", held_out_table(found).markdown(), text),
        records.parse_table(f"{title}: claims", Table(("claim", "here"), said).markdown()),
    ]


def stream_table(shape: DatasetShape, runs: int, say: Callable[[str], object]) -> records.Table:
    """Return NDCG@10 while learning from lists that come once each, for each kind of relevance."""
    found = {}
    for kind in KINDS:
        mine: Found = {}
        for run in range(runs):
            for name, value in learned_once(shape, kind, run).items():
                mine.setdefault((name, 1), []).append(value)
        found[kind] = mine
        say(f"generated, {kind}: done")
    size = f"{shape.queries:,} rounds, up to {shape.documents[1]} documents of {shape.features} features, k = 1"
    text = [f"{size}; NDCG@10 while learning from lists that come once each."]
    return records.parse_table("Generated lists", once_table(found).markdown(), text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all rankers on the given data."""
    parser = argparse.ArgumentParser(description="Held-out quality of learned rankers.")
    parser.add_argument("--mq2008", type=Path, help="folder with S1.txt to S5.txt")
    parser.add_argument("--yandex", type=Path, help="folder with train.letor.txt.gz and test.letor.txt.gz")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--generated", action="store_true", help="also learn from generated lists")
    parser.add_argument("--generated-rounds", type=int, default=STREAM.queries)
    parser.add_argument("--runs", type=int, default=RUNS, help="at least, with other seeds or other folds")
    records.add_option(parser, "ct16")
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error("--runs: two at least, or there is no spread")

    def say(text: str) -> None:
        sys.stderr.write(text + "\n")

    done: list[records.Table] = []
    for name, title, read in (("mq2008", "MQ2008, five folds", mq2008), ("yandex", "Yandex", yandex)):
        folder: Path | None = getattr(options, name)
        if folder:
            splits = read(folder)
            found = try_all(splits, rounds=options.rounds, runs=options.runs, say=say)
            done += tables(title, splits, found)
    if options.generated:
        shape = STREAM._replace(queries=options.generated_rounds)
        done.append(stream_table(shape, options.runs, say))
    sys.stdout.write(records.show(done))
    if options.record:
        records.update(options.record, done)


if __name__ == "__main__":
    main()
