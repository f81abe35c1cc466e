"""Where biased estimates fail: rtopkf on the lists of Theorem 5 of docs/theory/rtopkf.md.

Ten items with one feature: A, eight times C, and B. Relevance falls from A to C, and an order by the feature has
B, the best item, on top only if A is last. A learner that counts mainly the items it shows keeps A on top.

    python experiments/biased.py [--record]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import records

from peekrank.engine import simulate_all
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import NDCG
from peekrank.reports.markup import Table
from peekrank.surrogates import KL, RankSVM, Squared, Surrogate
from peekrank.types import Floats, Rounds

FEATURES = np.array([1.0, *[0.5] * 8, -1.0], np.float32)
RELEVANCE = np.array([1, *[0] * 8, 2], np.uint8)
ROUNDS, RUNS, KEPT = 100_000, 8, 0.55  # NDCG is 0.514 with A on top, 0.906 with B
CASES: tuple[tuple[Surrogate, int], ...] = ((Squared(), 1), (KL(), 1), (RankSVM(), 2))
CLIPS: dict[str, float | None] = {"exact": 0.0, "gamma": None, "printed": 1.0}


def lists(k: int, first: int, rounds: int) -> Rounds:
    """Return lists with the first k items only, then lists with all of them."""
    X = np.concatenate([np.tile(FEATURES[:k], first), np.tile(FEATURES, rounds)])[:, None]
    relevance = np.concatenate([np.tile(RELEVANCE[:k], first), np.tile(RELEVANCE, rounds)])
    return Rounds(X, relevance, np.r_[0, np.cumsum([k] * first + [len(FEATURES)] * rounds)])


def late_quality(learners: Sequence[RTopKF], k: int, seeds: Sequence[int], rounds: int = ROUNDS) -> Floats:
    """Return the mean NDCG of each learner in the last tenth of the rounds."""
    first, late = round(rounds ** (2 / 3)), rounds // 10
    checkpoints = np.array([first + rounds - late, first + rounds])
    traces = simulate_all(
        learners, lists(k, first, rounds), k=k, measure=NDCG(), seeds=seeds, checkpoints=checkpoints
    )
    return np.array([(trace.value[1] - trace.value[0]) / late for trace in traces])


def table(rounds: int, runs: int) -> records.Table:
    """Return how often each learner keeps the worse order, and its NDCG."""
    rows = []
    for (surrogate, k), (name, clip) in product(CASES, CLIPS.items()):
        papers = RTopKF.from_paper(surrogate, rounds, clip=clip)
        cells = []
        for learner in (papers, replace(papers, estimator="residual"), RTopKF(surrogate, clip=clip)):
            values = late_quality([learner] * runs, k, range(runs), rounds)
            stuck = f"{np.sum(values < KEPT)} of {runs} keep it"
            cells.append(f"{stuck}; {values.mean():.3f} ± {values.std(ddof=1):.3f}")
        rows.append((f"{surrogate}, k = {k}", name, *cells))
    heads = ("surrogate", "propensities", "CT16's steps", "the same, residual", "our other defaults")
    text = f"NDCG in the last tenth of {rounds:,} rounds; the worse order has 0.514, the better one 0.906."
    return records.parse_table("A stream on which bias fails", Table(heads, rows).markdown(), [text])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="rtopkf on lists on which biased estimates fail.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "rtopkf")
    options = parser.parse_args(arguments)
    made = [table(options.rounds, options.runs)]
    sys.stdout.write(records.show(made))
    if options.record:
        records.update(options.record, made)


if __name__ == "__main__":
    main()
