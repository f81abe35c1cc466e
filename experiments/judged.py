"""How good the rankers are that learners end up with, on judged documents that they have not seen.

Learners pass over a training part for T rounds, each pass in a new random order, and see k relevances a round.
Then their weights order the documents of a test part: NDCG@10, mean over the queries with a relevant document.
Beside them: random orders, ListNet with all relevances, and LambdaMART (LightGBM, if it is installed), which is no
online learner and has trees for a ranker. Another table is about generated lists that come once each: NDCG@10
while learning.

    python experiments/judged.py --mq2008 FOLDER --yandex FOLDER --generated       print the tables
    python experiments/judged.py ... --page docs/ct16.md                           put them into the page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from ct16 import EVERYTHING, MEASURE, NOTHING, ROUNDS, best_grades, passes, read_rounds, write_page

from peekrank.engine import Agent, drive
from peekrank.learners import Uniform
from peekrank.learners.rtopkf import RTopKF
from peekrank.streams.generated import Kind, Layout, make_dataset
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared
from peekrank.types import Floats, Learner, Rounds

ANSWERS = (1, 2, 5)
RUNS = 5
ORDERS = 20  # random orders of each query whose mean stands for all
OURS, TREES = "ours", "LambdaMART, all relevances"
PRINTED = ("squared, as printed", "KL, as printed", "SmoothDCG, as printed", "RankSVM, as printed")
STREAM_ROUNDS = 50_000
STREAM = Layout(STREAM_ROUNDS, (20, 20), 20, (0.7, 0.15, 0.1, 0.04, 0.01))
VALIDATED = 0.2  # of the training queries, where there is no validation part


class Split(NamedTuple):
    """What is learned from, what tells when to stop (LambdaMART only), and what the result is held against."""

    train: Rounds
    validation: Rounds | None
    test: Rounds


class Entry(NamedTuple):
    """A learner, and the numbers of answers it is tried with; none for all relevances."""

    name: str
    learner: RTopKF
    answers: tuple[int, ...]


Key = tuple[str, int]  # name, and number of answers or 0
Found = dict[Key, list[float]]


def entries(rounds: int) -> list[Entry]:
    """The paper's, then ours."""
    surrogates = (Squared(), KL(), SmoothDCG(), RankSVM())
    printed = [RTopKF.as_printed(surrogate, rounds) for surrogate in surrogates]
    return [
        *(Entry(n, p, _from(p.min_k)) for n, p in zip(PRINTED, printed, strict=True)),
        Entry(OURS, RTopKF(), ANSWERS),
        Entry("ours, temperature 0", RTopKF(temperature=0.0), ANSWERS),
        Entry("ours, temperature 0.1", RTopKF(temperature=0.1), ANSWERS),
        Entry("ours, doubly robust", RTopKF(estimator="doubly_robust"), ANSWERS),
        Entry("ours, rate 0.5", RTopKF(rate=0.5), (1,)),
        Entry("ours, rate 2", RTopKF(rate=2.0), (1,)),
        Entry("ours, KL", RTopKF(KL()), ANSWERS),
        Entry("ours, KL, doubly robust", RTopKF(KL(), estimator="doubly_robust"), ANSWERS),
        Entry("ours, RankSVM", RTopKF(RankSVM()), _from(2)),
        Entry(EVERYTHING, RTopKF.as_printed(ListNet(), rounds), ()),
        Entry("ListNet, all relevances, our steps", RTopKF(ListNet()), ()),
    ]


def _from(least: int) -> tuple[int, ...]:
    return tuple(k for k in ANSWERS if k >= least)


def mq2008(folder: Path) -> list[Split]:
    """The five folds of LETOR 4.0: three parts to learn from, the next for validation, the next to test."""
    parts = [read_rounds(folder / f"S{number}.txt") for number in range(1, 6)]
    turned = [[*parts[fold:], *parts[:fold]] for fold in range(5)]
    return [Split(join(part[:3]), part[3], part[4]) for part in turned]


def yandex(folder: Path) -> list[Split]:
    """Training and test part as published."""
    train, test = (read_rounds(folder / f"{part}.letor.txt.gz") for part in ("train", "test"))
    return [Split(train, None, test)]


def join(parts: Sequence[Rounds]) -> Rounds:
    """All lists of several parts."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    features, relevance = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Rounds(features, relevance, np.append(0, np.cumsum(lengths)))


def held_out(scores: Floats, rounds: Rounds) -> float:
    """Mean NDCG@10 of the orders by score, ties by index, over the queries with a relevant document."""
    lengths = np.diff(rounds.offsets)
    query_of = np.repeat(np.arange(len(lengths)), lengths)
    ranking = np.lexsort((-scores, query_of)) - rounds.offsets[query_of]
    values = []
    for m in np.unique(lengths):
        rows = rounds.offsets[:-1][lengths == m, None] + np.arange(m)
        values.append(MEASURE.values(ranking[rows], rounds.relevance[rows]))
    return float(np.nanmean(np.concatenate(values)))


def learned(split: Split, rounds: int, seed: int) -> dict[Key, float]:
    """Held-out quality of what each learner ends up with; all learn from the same queries in the same order."""
    lengths, d = np.diff(split.train.offsets), split.train.features.shape[1]
    tried = [(e, k) for e in entries(rounds) for k in e.answers or (0,)]
    agents = [Agent(e.learner, m=int(lengths.max()), k=k or 1, d=d, seed=seed) for e, k in tried]
    sequence = passes(len(lengths), rounds, np.random.default_rng(seed))
    drive(agents, split.train, measure=MEASURE, sequence=sequence, at=np.array([rounds]))
    return {
        (e.name, k): held_out(split.test.features @ agent._state.w, split.test)
        for (e, k), agent in zip(tried, agents, strict=True)
    }


def random_orders(split: Split, seed: int) -> float:
    """Quality of random orders of the test part."""
    rng = np.random.default_rng(seed)
    return float(np.mean([held_out(rng.random(len(split.test.relevance)), split.test) for _ in range(ORDERS)]))


def boosted_trees(split: Split, seed: int) -> float | None:
    """Quality of LambdaMART, stopped by the validation part; None where LightGBM is not installed."""
    try:
        lightgbm: Any = import_module("lightgbm")
    except ImportError:
        return None
    train, validation = (split.train, split.validation) if split.validation else _divided(split.train)
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


def _divided(rounds: Rounds) -> tuple[Rounds, Rounds]:
    """The first lists, and the last ones for validation."""
    cut = round((1 - VALIDATED) * (len(rounds.offsets) - 1))
    row = rounds.offsets[cut]
    return (
        Rounds(rounds.features[:row], rounds.relevance[:row], rounds.offsets[: cut + 1]),
        Rounds(rounds.features[row:], rounds.relevance[row:], rounds.offsets[cut:] - row),
    )


def try_all(splits: Sequence[Split], *, rounds: int, runs: int, say: Callable[[str], object]) -> Found:
    """Quality of everything: as many results as there are runs at least, as many of every split."""
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


def table(title: str, splits: Sequence[Split], found: Found) -> list[str]:
    """Means and standard deviations over splits and runs, in Markdown."""
    best = np.concatenate([best_grades(split.test) for split in splits])
    lines = [
        f"### {title}",
        "",
        f"{len(best):,} test queries, of which {np.sum(best == 0):,} without a relevant document are left out.",
        "",
        "| learner | " + " | ".join(f"k = {k}" for k in ANSWERS) + " | all relevances, or none |",
        "|---" * (2 + len(ANSWERS)) + "|",
    ]
    for name in dict.fromkeys(name for name, _ in found):
        cells = [_cell(found.get((name, k))) for k in (*ANSWERS, 0)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if (TREES, 0) not in found:
        lines += ["", "LambdaMART is missing: LightGBM is not installed."]
    return lines


def _cell(values: list[float] | None) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if values else ""


def claims(found: Found) -> list[tuple[str, str]]:
    """What better estimators should bring, and whether they do; differences are between equal splits and runs."""
    best = {k: max((n for n in PRINTED if (n, k) in found), key=lambda n: np.mean(found[n, k])) for k in ANSWERS}
    top = np.mean(found[EVERYTHING, 0])
    gaps = {k: (top - np.mean(found[OURS, k])) / (top - np.mean(found[best[k], k])) for k in ANSWERS}
    said = [
        (
            f"ours at k = {k} above every printed one at k = {k}; the best is {best[k].partition(',')[0]}",
            _difference(found[OURS, k], found[best[k], k]),
        )
        for k in ANSWERS
    ]
    said += [
        (
            f"gap to {EVERYTHING}, k = {k}: ours at most half of the best printed one's",
            f"{'holds' if gaps[k] <= 1 / 2 else 'fails'} ({gaps[k]:.0%})",
        )
        for k in ANSWERS
    ]
    for fewer, more in pairwise(ANSWERS):
        said.append((f"ours at k = {more} above k = {fewer}", _difference(found[OURS, more], found[OURS, fewer])))
    return said


def _difference(one: Sequence[float], other: Sequence[float]) -> str:
    by = np.subtract(one, other)
    return f"{'holds' if by.mean() > 0 else 'fails'} ({by.mean():+.3f} ± {by.std(ddof=1):.3f})"


def stream_entries(rounds: int) -> list[tuple[str, Learner]]:
    """From the printed one to ours, one choice after the other, at k = 1."""
    printed = RTopKF.as_printed(Squared(), rounds)
    robust = replace(printed, estimator="doubly_robust")
    return [
        (NOTHING, Uniform()),
        ("squared, as printed", printed),
        ("residual", replace(printed, estimator="residual")),
        ("doubly robust", robust),
        ("doubly robust, greedy below, gamma = t^(-1/3)", replace(robust, below="greedy", gamma=None)),
        ("the same, temperature 0.05", replace(robust, below="greedy", gamma=None, temperature=0.05)),
        ("ours: residual, scale-free steps, all this", RTopKF()),
        ("ours, temperature 0", RTopKF(temperature=0.0)),
        ("ours, doubly robust", RTopKF(estimator="doubly_robust")),
        ("ours, doubly robust, KL", RTopKF(KL(), estimator="doubly_robust")),
        ("KL, as printed", RTopKF.as_printed(KL(), rounds)),
        (EVERYTHING, RTopKF.as_printed(ListNet(), rounds)),
    ]


def standardised(rounds: Rounds) -> Rounds:
    """Generated features, uniform on [0, 1), moved and stretched to mean 0 and vectors of mean square length 1."""
    factor = np.float32(np.sqrt(12 / rounds.features.shape[1]))
    return rounds._replace(features=(rounds.features - np.float32(0.5)) * factor)


def stream_table(layout: Layout, runs: int, say: Callable[[str], object]) -> list[str]:
    """NDCG@10 while learning from lists that come once each, for each kind of relevance."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    cells: dict[str, list[str]] = {}
    for kind in kinds:
        found: dict[str, list[float]] = {}
        for run in range(runs):
            rounds = standardised(make_dataset(layout, np.random.default_rng(run), kind=kind).rounds())
            named = stream_entries(layout.queries)
            m, d = layout.documents[1], layout.features
            agents = [Agent(learner, m=m, k=1, d=d, seed=run) for _, learner in named]
            counted = np.sum(best_grades(rounds) > 0)
            traces = drive(agents, rounds, measure=MEASURE, at=np.array([layout.queries]))
            for (name, _), trace in zip(named, traces, strict=True):
                found.setdefault(name, []).append(trace.value[-1] / counted)
        for name, values in found.items():
            cells.setdefault(name, []).append(_cell(values))
        say(f"generated, {kind}: done")
    size = f"{layout.documents[1]} documents of {layout.features} features"
    return [
        f"### Generated lists, {layout.queries:,} rounds, up to {size}, k = 1",
        "",
        "| learner | " + " | ".join(kinds) + " |",
        "|---" * (1 + len(kinds)) + "|",
        *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items()),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Try everything on the data that are given."""
    parser = argparse.ArgumentParser(description="Held-out quality of learned rankers.")
    parser.add_argument("--mq2008", type=Path, help="folder with S1.txt to S5.txt")
    parser.add_argument("--yandex", type=Path, help="folder with train.letor.txt.gz and test.letor.txt.gz")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--generated", action="store_true", help="learn from generated lists, too")
    parser.add_argument("--generated-rounds", type=int, default=STREAM_ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS, help="at least, with other seeds or other folds")
    parser.add_argument("--page", type=Path, help="a page to put the tables into")
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error("--runs: two at least, or there is no spread")

    def say(text: str) -> None:
        sys.stderr.write(text + "\n")

    done: dict[str, list[str]] = {}
    for name, title, read in (("mq2008", "MQ2008, five folds", mq2008), ("yandex", "Yandex", yandex)):
        folder: Path | None = getattr(options, name)
        if folder:
            splits = read(folder)
            found = try_all(splits, rounds=options.rounds, runs=options.runs, say=say)
            said = [f"| {claim} | {verdict} |" for claim, verdict in claims(found)]
            done[f"judged {name}"] = [*table(title, splits, found), "", "| claim | here |", "|---|---|", *said]
    if options.generated:
        layout = STREAM._replace(queries=options.generated_rounds)
        done["judged generated"] = stream_table(layout, options.runs, say)
    for name, lines in done.items():
        sys.stdout.write("\n".join(lines) + "\n\n")
        if options.page:
            write_page(options.page, name, lines)


if __name__ == "__main__":
    main()
