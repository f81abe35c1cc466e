"""``peekrank demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer
from rich.text import Text

from peekrank.cli._experiments import result_table, run_experiment, write_result
from peekrank.cli._options import THREADS, Workers
from peekrank.cli._outputs import check_replaceable, echo
from peekrank.cli._progress import status
from peekrank.cli._tables import TerminalTable

if TYPE_CHECKING:
    from peekrank.types import Floats, Learner, Rounds

EXAMPLES = """\
# Ten items, six learners; half a minute the first time.
peekrank demo
# Start from the score of a ranker that you have.
peekrank demo --score
# Rerank real texts behind BM25, with simulated readers.
peekrank demo --rerank"""
_LISTS, _ITEMS, _LENGTH, _RUNS = 4000, 200, 20, 5


def command(
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the report.")] = Path(
        "peekrank-demo"
    ),
    workers: Workers = THREADS,
    score: Annotated[
        bool, typer.Option("--score", help="Instead, print how mixed improves on the score of a ranker.")
    ] = False,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Instead, rerank docstrings behind BM25, for simulated readers.")
    ] = False,
) -> None:
    """Compare learners on ten items with one answer per round, and write an HTML report."""
    if score and rerank:
        raise ValueError("--score and --rerank are two demos; choose one")
    if rerank:
        echo(*_rerank(folder))
        return
    if score:
        echo(_start_from_a_score())
        return
    from peekrank.experiments.experiment import Experiment
    from peekrank.reports.experiment_page import write_report

    experiment = Experiment(
        learners=("doubtsort", "marginftrl", "rtop1f", "rtop1f:order=fixed", "ftpl", "uniform"),
        stream="ct15:m=10,noise=0.25",
        measure="dcg",
        k=1,
        horizon=10_000,
        same_rounds=True,
    )
    result = run_experiment(experiment, folder, workers)
    write_result(result, folder)
    report = write_report(result, folder / "report.html", title="Ranking with top-1 feedback")
    echo(result_table(result), Text(f"Open this page in a browser: {report.resolve().as_uri()}"))


def _rerank(folder: Path) -> tuple[TerminalTable, Text]:
    """Rerank passages behind BM25, and write a report."""
    from peekrank.experiments.rerank_demo import ANSWERING, TENTHS, VISITS, run_demo
    from peekrank.reports.rerank_page import write_rerank_report

    folder.mkdir(parents=True, exist_ok=True)
    check_replaceable(folder / "report.html")
    with status("reading the docstrings of the standard library") as spinner:
        demo = run_demo(progress=spinner.update)
    runs = len(demo.values["BM25 alone"])
    title = (
        f"Mean DCG of {VISITS:,} lists of 20 of {demo.passages} docstrings, a thumb for the first passage of one "
        f"list in {1 / ANSWERING:.0f}, {runs} runs"
    )
    rows = [
        (
            "",
            [
                name,
                *(f"{values[:, tenth].mean():.2f}" for tenth in (0, 4, TENTHS - 1)),
                f"{demo.first[name][:, -1].mean():.0%}",
            ],
        )
        for name, values in demo.values.items()
    ]
    heads = ["ranked by", "first tenth", "fifth tenth", "last tenth", "right first at end"]
    report = write_rerank_report(demo, folder / "report.html")
    found = TerminalTable(title, heads, rows, names=("ranked by",))
    return found, Text(f"Open this page in a browser: {report.resolve().as_uri()}")


def _start_from_a_score() -> TerminalTable:
    """Compare the order by a half-right score with mixed, which starts from it, and doubtsort, which cannot."""
    from peekrank import DCG, DoubtSort, Mixed, simulate

    learners: dict[str, Learner] = {"mixed, from the score": Mixed(), "doubtsort, without it": DoubtSort(DCG())}
    ends = np.arange(1, 11) * _LISTS // 10
    lost = {name: np.empty((_RUNS, 10)) for name in ("the score alone", *learners)}
    for run in range(_RUNS):
        lists = _scored_lists(np.random.default_rng(run))
        totals = {"the score alone": np.cumsum(lists.by_score)[ends - 1]}
        for name, learner in learners.items():
            with status(f"run {run + 1} of {_RUNS}: {name}"):
                trace = simulate(learner, lists.rounds, k=1, measure=DCG(), seed=run, checkpoints=ends)
            totals[name] = trace.value
        for name, total in totals.items():
            lost[name][run] = np.diff(np.cumsum(lists.best)[ends - 1] - total, prepend=0) * 10 / _LISTS
    title = (
        f"DCG lost per list against the best order; {_LISTS:,} lists of {_LENGTH} from {_ITEMS} items, one answer "
        f"per list, score of correlation 0.6, {_RUNS} runs"
    )
    means = {name: tenths.mean(axis=0) for name, tenths in lost.items()}
    rows = [("", [name, *(f"{part[tenth]:.2f}" for tenth in (0, 4, 9))]) for name, part in means.items()]
    return TerminalTable(
        title, ["ranked by", "first tenth", "fifth tenth", "last tenth"], rows, names=("ranked by",)
    )


class _Lists(NamedTuple):
    """Lists with scores, and the DCG of each in the order of the scores and in the best order."""

    rounds: Rounds
    by_score: Floats
    best: Floats


def _scored_lists(rng: np.random.Generator) -> _Lists:
    """Draw lists whose items are liked or not, with a probability for each item."""
    from peekrank import DCG, Rounds

    quality, noise = rng.standard_normal((2, _ITEMS))
    items = np.sort(rng.permuted(np.tile(np.arange(_ITEMS), (_LISTS, 1)), axis=1)[:, :_LENGTH], axis=1)
    scores = (0.6 * quality + 0.8 * noise)[items]
    likes = (rng.random(items.shape) < 1 / (1 + np.exp(0.5 - 1.2 * quality))[items]).astype(np.uint8)
    by_score, best = (
        np.take_along_axis(likes, np.argsort(-by, axis=1), axis=1) @ DCG().discount(_LENGTH)
        for by in (scores, quality[items])
    )
    offsets, features = np.arange(0, items.size + 1, _LENGTH), np.empty((items.size, 0), np.float32)
    rounds = Rounds(features, likes.ravel(), offsets, items.ravel(), scores=scores.ravel())
    return _Lists(rounds, by_score, best)
