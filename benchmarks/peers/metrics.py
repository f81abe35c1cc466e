"""Compare measures of 20,000 queries with scikit-learn, ranx and pytrec_eval: values and time.

Each gets what it is made for before the clock starts: peekrank rankings, scikit-learn scores, ranx its Qrels and
Run, pytrec_eval its dictionaries. All are warm, use one thread, and take turns; times are of the processor, the
best of the repetitions, since machines are shared. They must agree. Without one of them, which are not required,
its lines are missing.

    python benchmarks/peers/metrics.py
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1]))  # where clock.py is

import numpy as np
from clock import turns, two_digits
from rich.console import Console
from rich.table import Table

from peekrank import DCG, NDCG, AveragePrecision, evaluate
from peekrank.types import Floats, Grades, Ints, Measure

QUERIES, REPETITIONS, WANTED = 20_000, 3, 10
SAME = 1e-9
SORTED = "is given rankings; the others sort scores, too"
OURS, OURS_TOO = "peekrank, rankings", "peekrank, sorting scores first"


class Question(NamedTuple):
    """A measure by its name in each package, or None. Conventions are those that all of them share."""

    name: str
    ours: Measure
    sklearn: str
    options: dict[str, Any]
    ranx: str | None
    trec: str | None


QUESTIONS = (
    Question(
        "NDCG@10", NDCG(10, gains="linear", no_relevant="0"), "ndcg_score", {"k": 10}, "ndcg@10", "ndcg_cut_10"
    ),
    Question("DCG@10", DCG(10, gains="linear"), "dcg_score", {"k": 10}, None, None),
    Question("average precision", AveragePrecision(), "label_ranking_average_precision_score", {}, "map", "map"),
)


def dictionaries(table: Grades | Floats) -> dict[str, dict[str, Any]]:
    """Queries and their documents by name."""
    documents = [f"d{i}" for i in range(table.shape[1])]
    return {f"q{q}": dict(zip(documents, row, strict=True)) for q, row in enumerate(table.tolist())}


def contestants(
    asked: Question, relevance: Grades, scores: Floats, rankings: Ints
) -> dict[str, tuple[str, Callable[[], float]]]:
    """The difference of the task, and the function for the mean, by name."""

    def ours(sort: bool) -> float:
        shown = np.argsort(-scores, axis=1, kind="stable") if sort else rankings
        return float(evaluate(asked.ours, shown, relevance).mean())

    found: dict[str, tuple[str, Callable[[], float]]] = {
        OURS: (SORTED, partial(ours, sort=False)),
        OURS_TOO: ("documents with equal scores by index", partial(ours, sort=True)),
    }
    if find_spec("sklearn"):
        metric = getattr(import_module("sklearn.metrics"), asked.sklearn)
        averaged = "averages over the orders of documents with equal scores"
        found["scikit-learn"] = (averaged, partial(metric, relevance, scores, **asked.options))
        if asked.options:
            ignoring = partial(metric, relevance, scores, ignore_ties=True, **asked.options)
            found["scikit-learn, ignore_ties"] = (
                "documents with equal scores in no order that it promises",
                ignoring,
            )
    if asked.trec and find_spec("pytrec_eval"):
        evaluator = import_module("pytrec_eval").RelevanceEvaluator(dictionaries(relevance), {asked.trec})
        run, field = dictionaries(scores), asked.trec

        def trec() -> float:
            return float(np.mean([value[field] for value in evaluator.evaluate(run).values()]))

        found["pytrec_eval"] = ("values of each query by name; equal scores by name", trec)
    if asked.ranx and find_spec("ranx"):
        ranx = import_module("ranx")
        theirs = ranx.Qrels(dictionaries(relevance)), ranx.Run(dictionaries(scores))
        found["ranx"] = (
            "has sorted the scores before the clock starts",
            partial(ranx.evaluate, *theirs, asked.ranx),
        )
    return found


def compare(asked: Question, documents: int, queries: int, table: Table) -> None:
    rng = np.random.default_rng(0)
    relevance = rng.integers(0, 5, (queries, documents)).astype(np.uint8)
    if not asked.options:
        relevance = (relevance > 2).astype(np.uint8)  # what is relevant is the same for all
        relevance[:, 0] = 1  # conventions for queries without relevant documents differ
    scores = rng.random((queries, documents))
    tools = contestants(asked, relevance, scores, np.argsort(-scores, axis=1))
    means = {name: float(action()) for name, (_, action) in tools.items()}
    if max(means.values()) - min(means.values()) > SAME:
        raise SystemExit(f"{asked.name}: the tools do not compute the same: {means}")
    best = turns({name: action for name, (_, action) in tools.items()}, REPETITIONS)
    for name, (differs, _) in tools.items():
        ratios = [best[name] / best[ours] for ours in (OURS, OURS_TOO)]
        slow = not name.startswith("peekrank") and ratios[0] < WANTED
        table.add_row(
            asked.name, str(documents), name, f"{best[name] * 1e3:.2f}", " and ".join(map(two_digits, ratios)),
            f"{means[name]:.9f}", differs, style="red" if slow else "",
        )  # fmt: skip


def ties(table: Table) -> None:
    """Compare three documents of which two have the same score, the only case where values differ."""
    relevance, scores = np.array([[0, 2, 1]], np.uint8), np.array([[1.0, 1.0, 0.0]])
    asked = QUESTIONS[0]
    found = contestants(asked, relevance, scores, np.argsort(-scores, axis=1, kind="stable"))
    for name, (differs, action) in found.items():
        table.add_row("grades 0 2 1, scores 1 1 0", name, f"{action():.6f}", differs)


def main(queries: int = QUERIES) -> None:
    warnings.simplefilter("ignore")
    table = Table(
        "measure", "documents", "tool", "ms", "that is, times peekrank's", "mean", "how the task differs",
        title=f"means of {queries:,} queries, equal to {SAME:g}",
    )  # fmt: skip
    for asked in QUESTIONS:
        for documents in (10, 24) if asked is QUESTIONS[0] else (24,):
            compare(asked, documents, queries, table)
    Console(width=160).print(table)
    tied = Table("one query", "tool", "NDCG@10", "how the task differs", title="equal scores: values differ")
    ties(tied)
    Console(width=160).print(tied)


if __name__ == "__main__":
    main()
