"""Does clipping the propensities of rtopkf help on queries, seeds and data on which it was not chosen?

Learners that differ only in `clip` train on the same lists in the same order. Their weights then rank held-out
lists: mean NDCG@10. Generated data have seeds from 100 on; we chose between clips on seeds 0 and 1.

    python experiments/clip.py --keep FOLDER                                        generated data
    python experiments/clip.py --keep FOLDER --mq2008 FOLDER --yandex FOLDER --record
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import get_args

import judged
import numpy as np
import polars as pl
import records

from peekrank.data.generated import SHAPES, DatasetShape, Kind, make_dataset
from peekrank.engine import Agent, run_agents
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.ct16.figure import MEASURE, passes
from peekrank.papers.ours.judged import Split, divided, held_out
from peekrank.papers.record import mean_exceeds
from peekrank.reports.markup import Table
from peekrank.surrogates import KL, RankSVM, Squared, Surrogate

ROUNDS = (500, 5_000, 50_000)
CLIPS: dict[str, float | None] = {"exact": 0.0, "gamma": None, "printed": 1.0}
CASES: tuple[tuple[Surrogate, int], ...] = ((Squared(), 1), (Squared(), 5), (KL(), 1), (RankSVM(), 2))
LAYOUTS = {"mq2008": SHAPES["mq2008"], "yandex": SHAPES["yandex"]._replace(queries=2_000)}
FIRST, RUNS = 100, 5
KEYS = ("data", "surrogate", "k", "rounds")


def learned(split: Split, counts: Sequence[int], seed: int) -> pl.DataFrame:
    """Return the held-out NDCG@10 of every case and clip after each number of rounds."""
    lengths, d = np.diff(split.train.offsets), split.train.features.shape[1]
    named = [(s, k, name, RTopKF(s, clip=clip)) for (s, k), (name, clip) in product(CASES, CLIPS.items())]
    agents = [Agent(learner, m=int(lengths.max()), k=k, d=d, seed=seed) for _, k, _, learner in named]
    sequence, rows = passes(len(lengths), max(counts), np.random.default_rng(seed)), []
    for begin, end in pairwise((0, *counts)):
        run_agents(agents, split.train, measure=MEASURE, sequence=sequence[begin:end])
        for (surrogate, k, clip, learner), agent in zip(named, agents, strict=True):
            scores = learner.scores(agent.state, split.test.features)
            rows.append((str(surrogate), k, end, clip, held_out(scores, split.test)))
    return pl.DataFrame(rows, ["surrogate", "k", "rounds", "clip", "ndcg"], orient="row")


def generated(layout: DatasetShape, kind: Kind, seed: int) -> Split:
    """Generate lists, and hold out the last fifth."""
    train, test = divided(make_dataset(layout, np.random.default_rng(seed), kind=kind).rounds())
    return Split(train, None, test)


def jobs(mq2008: Path | None, yandex: Path | None) -> Iterator[tuple[str, int, Callable[[], Split]]]:
    """Yield the data sets, with a seed and a function that makes them."""
    real = {"MQ2008": judged.mq2008(mq2008) if mq2008 else [], "Yandex": judged.yandex(yandex) if yandex else []}
    for run in range(FIRST, FIRST + RUNS):
        for name, splits in real.items():
            if splits:
                yield name, run, partial(splits.__getitem__, run % len(splits))
        for (name, layout), kind in product(LAYOUTS.items(), get_args(Kind)):
            yield f"{name} shape, {kind}", run, partial(generated, layout, kind, run)


def tables(results: pl.DataFrame) -> list[records.Table]:
    """Return the quality with each clip, and its difference from that with exact propensities."""
    heads = ("data", "surrogate, k", "rounds", *CLIPS, "gamma - exact", "gamma - printed")
    rows = []
    for key, part in results.group_by(KEYS, maintain_order=True):
        ndcg = {clip: part.filter(clip=clip).sort("run")["ndcg"].to_numpy() for clip in CLIPS}
        cells = [f"{values.mean():.3f} ± {values.std(ddof=1):.3f}" for values in ndcg.values()]
        by = [ndcg["gamma"] - ndcg[other] for other in ("exact", "printed")]
        data, surrogate, k, rounds = key
        words = [
            f"{d.mean():+.3f} ({'above' if mean_exceeds(d, 0) else 'below' if mean_exceeds(-d, 0) else 'level'})"
            for d in by
        ]
        rows.append((data, f"{surrogate}, {k}", rounds, *cells, *words))
    return [records.parse_table("Clipped propensities, held out", Table(heads, rows).markdown())]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing in the folder, and print the table."""
    parser = argparse.ArgumentParser(description="Held-out quality of rtopkf with clipped propensities.")
    parser.add_argument("--keep", type=Path, required=True, help="folder for the results of single runs")
    parser.add_argument("--mq2008", type=Path, help="folder with S1.txt to S5.txt")
    parser.add_argument("--yandex", type=Path, help="folder with train.letor.txt.gz and test.letor.txt.gz")
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS)
    records.add_option(parser, "rtopkf")
    options = parser.parse_args(arguments)
    options.keep.mkdir(parents=True, exist_ok=True)
    frames = []
    for name, run, make in jobs(options.mq2008, options.yandex):
        file = options.keep / f"{name.replace(', ', '-').replace(' ', '-')}-{run}.parquet"
        if not file.exists():
            learned(make(), options.rounds, run).write_parquet(file)
            sys.stderr.write(f"{name}, run {run}: done\n")
        frames.append(pl.read_parquet(file).with_columns(data=pl.lit(name), run=pl.lit(run)))
    made = tables(pl.concat(frames))
    sys.stdout.write(records.show(made))
    if options.record:
        records.update(options.record, made)


if __name__ == "__main__":
    main()
