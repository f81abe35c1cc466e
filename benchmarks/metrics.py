"""NDCG@10 of 20,000 queries beside ranx and pytrec_eval, measured in this run.

Each gets what it is made for before the clock starts: peekrank arrays, ranx its Qrels and Run, pytrec_eval its
dictionaries. All are warm, use one thread, and take turns; times are of the processor, the best of the
repetitions, since machines are shared. They must agree. Without one of them, which is not required, its line is
missing.

    python benchmarks/metrics.py
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

from peekrank import NDCG, evaluate
from peekrank.types import Floats, Grades

QUERIES, REPETITIONS, WANTED = 20_000, 7, 10
MEASURE = NDCG(10, gains="linear", blank="0")  # as both others compute it
SAME = 1e-6


def judgements(relevance: Grades, scores: Floats) -> tuple[dict[str, Any], dict[str, Any]]:
    documents = [f"d{i}" for i in range(relevance.shape[1])]
    names = [f"q{q}" for q in range(len(relevance))]
    made = [
        {name: dict(zip(documents, row, strict=True)) for name, row in zip(names, table.tolist(), strict=True)}
        for table in (relevance, scores)
    ]
    return made[0], made[1]


def contestants(documents: int) -> dict[str, Callable[[], float]]:
    """What computes the mean, by name."""
    rng = np.random.default_rng(0)
    relevance = rng.integers(0, 5, (QUERIES, documents)).astype(np.uint8)
    scores = rng.random((QUERIES, documents))
    rankings = np.argsort(-scores, axis=1)
    found: dict[str, Callable[[], float]] = {
        "peekrank, rankings": lambda: float(evaluate(MEASURE, rankings, relevance).mean()),
        "peekrank, sorting scores first": lambda: float(
            evaluate(MEASURE, np.argsort(-scores, axis=1), relevance).mean()
        ),
    }
    judged, run = judgements(relevance, scores)
    if find_spec("pytrec_eval"):
        evaluator = import_module("pytrec_eval").RelevanceEvaluator(judged, {"ndcg_cut.10"})
        found["pytrec_eval"] = lambda: float(
            np.mean([value["ndcg_cut_10"] for value in evaluator.evaluate(run).values()])
        )
    if find_spec("ranx"):
        ranx = import_module("ranx")
        theirs = ranx.Qrels(judged), ranx.Run(run)
        found["ranx"] = lambda: float(ranx.evaluate(*theirs, "ndcg@10"))
    return found


def seconds(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


def main() -> None:
    warnings.simplefilter("ignore")
    table = Table(
        "documents", "tool", "ms", "that is, times peekrank's", "mean", title=f"NDCG@10 of {QUERIES:,} queries"
    )
    for documents in (10, 24):
        tools = contestants(documents)
        means = {name: action() for name, action in tools.items()}
        if max(means.values()) - min(means.values()) > SAME:
            raise SystemExit(f"the tools do not compute the same: {means}")
        runs = [{name: seconds(action) for name, action in tools.items()} for _ in range(REPETITIONS)]
        best = {name: min(run[name] for run in runs) for name in tools}
        for name, took in best.items():
            ratios = [took / best[ours] for ours in tools if ours.startswith("peekrank")]
            slow = not name.startswith("peekrank") and ratios[0] < WANTED
            table.add_row(
                str(documents), name, f"{took * 1e3:.2f}", " and ".join(f"{ratio:.1f}" for ratio in ratios),
                f"{means[name]:.6f}", style="red" if slow else "",
            )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
