"""Simulations of hopeless games: certified pairs of adversaries against learners that see only the top k.

A learner may do well against one adversary of a pair, but then does badly against the other: for every learner,
the expected regret on p plus that on q is at least gap x T.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank.experiments import study
from peekrank.experiments.experiment import Experiment
from peekrank.games.analysis import analyse
from peekrank.games.certificate import certificate
from peekrank.games.ranking import ranking_game
from peekrank.papers.ct16 import table as ct16_table
from peekrank.papers.record import Claim, Heartbeat, Options, Results, mean_reaches
from peekrank.reports.markup import Table
from peekrank.types import Floats

LEARNERS = ("uniform", "rtop1f:measure=dcg")
HORIZONS = (2_500, 5_000, 10_000, 20_000, 40_000)
RUNS = 10
QUICK, QUICK_RUNS = (1_000, 4_000), 3
NEAR = 0.1  # tolerance of an exponent of 1


class Cell(NamedTuple):
    """A hopeless game. ``printed`` selects the pair of CT16 instead of a computed one."""

    measure: str
    m: int
    k: int
    printed: bool = False

    @property
    def title(self) -> str:
        """Title of the game."""
        return f"`{self.measure}` m = {self.m}, k = {self.k}" + (", CT16's pair" if self.printed else "")

    @property
    def file(self) -> str:
        """Name of the file with its results."""
        return f"{self.measure}-m{self.m}-k{self.k}" + ("-ct16" if self.printed else "")


CELLS = (
    Cell("ndcg", 3, 1),
    Cell("ndcg", 3, 1, printed=True),
    Cell("ndcg", 4, 2),
    Cell("ap", 4, 2),
    Cell("aucloss", 4, 2),
    Cell("aucloss", 5, 2),
)


class PairResult(NamedTuple):
    """Regret per round of one learner on one pair: (horizons, runs) on either side."""

    cell: Cell
    gap: float
    learner: str
    horizons: tuple[int, ...]
    on_p: Floats
    on_q: Floats

    @property
    def total(self) -> Floats:
        """Regret per round on p plus that on q."""
        return self.on_p + self.on_q

    @property
    def exponent(self) -> float:
        """Slope of log(regret on p + regret on q) against log(horizon)."""
        return 1 + float(np.polyfit(np.log(self.horizons), np.log(self.total.mean(axis=1)), 1)[0])


def reproduce(options: Options) -> Results:
    """Run all cells."""
    horizons, runs = (QUICK, QUICK_RUNS) if options.quick else (HORIZONS, RUNS)

    def job(cell: Cell) -> Callable[[Heartbeat], pl.DataFrame]:
        return lambda alive: as_frame(play(cell, LEARNERS, horizons, runs, lambda _: alive()))

    # the largest first, so that all threads finish at about the same time
    largest_first = sorted(CELLS, key=lambda cell: -cell.m)
    found = options.frames({cell.file: job(cell) for cell in largest_first})
    results = [played for cell in CELLS for played in as_played(cell, found[cell.file])]
    titled = [found[cell.file].with_columns(game=pl.lit(cell.title.replace("`", ""))) for cell in CELLS]
    data = pl.concat(titled).select("game", pl.exclude("game"))
    return Results(list(claims(results)), {"pairs": table(results)}, data={"pairs": data})


def as_frame(results: Sequence[PairResult]) -> pl.DataFrame:
    """Return a row for each learner, horizon and run."""
    return pl.DataFrame(
        [
            {"learner": r.learner, "horizon": horizon, "run": run, "gap": r.gap, "on_p": r.on_p[h, run],
             "on_q": r.on_q[h, run]}
            for r in results
            for (h, horizon), run in product(enumerate(r.horizons), range(r.on_p.shape[1]))
        ]
    )  # fmt: skip


def as_played(cell: Cell, frame: pl.DataFrame) -> list[PairResult]:
    """Invert `as_frame`."""
    found = []
    for (learner,), mine in frame.group_by("learner", maintain_order=True):
        horizons = tuple(mine["horizon"].unique(maintain_order=True).to_list())
        on_p, on_q = (mine[side].to_numpy().reshape(len(horizons), -1) for side in ("on_p", "on_q"))
        found.append(PairResult(cell, mine["gap"][0], str(learner), horizons, on_p, on_q))
    return found


def claims(results: Sequence[PairResult]) -> Iterator[Claim]:
    """Yield the claims that every learner loses at least the gap on both sides together, linearly in T."""
    for r in results:
        last, runs = r.total[-1], r.total.shape[1]
        spread = float(last.std(ddof=1))
        yield Claim(
            f"{r.cell.title}: `{r.learner}`, regret per round on p plus that on q, {r.horizons[-1]:,} rounds",
            f"{r.gap:.4f} at least, within the 95 % interval of the mean",
            f"{last.mean():.4f} ± {spread:.4f} ({runs} runs)",
            mean_reaches(last, r.gap),
        )
        yield Claim(
            f"{r.cell.title}: `{r.learner}`, exponent of the two together",
            f"1 ± {NEAR}: linear",
            f"{r.exponent:.2f} ({runs} runs per horizon)",
            abs(r.exponent - 1) <= NEAR,
        )


def proof_of(cell: Cell) -> dict[str, Any]:
    """Return the certificate of a cell."""
    if cell.printed:
        return ct16_table.certificate()
    return certificate(analyse(ranking_game(cell.measure, cell.m, cell.k)))


def play(
    cell: Cell, learners: Sequence[str], horizons: Sequence[int], runs: int, say: Callable[[str], object]
) -> list[PairResult]:
    """Run both adversaries of a cell, separately for every horizon, because learners are tuned to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        proof = proof_of(cell)
        path.write_text(json.dumps(proof))
        found = np.empty((len(learners), 2, len(horizons), runs))
        for side, (h, horizon) in product((0, 1), enumerate(horizons)):
            stream = f"adversary:path={path},side={'pq'[side]}"
            experiment = Experiment(tuple(learners), stream, cell.measure, cell.k, horizon, runs, seed=side)
            lost = study.play_setting(study.Setting("pq"[side], experiment))["regret"].to_numpy()
            found[:, side, h] = lost.reshape(len(learners), runs) / horizon
            say(f"{cell.measure} m = {cell.m} k = {cell.k}: {horizon:,} rounds on {'pq'[side]} done")
    gap = proof["adversaries"]["gap"]
    return [
        PairResult(cell, gap, learner, tuple(horizons), found[n, 0], found[n, 1])
        for n, learner in enumerate(learners)
    ]


def table(results: Sequence[PairResult]) -> Table:
    """Return a table of regret per round at the largest horizon; ± is the standard deviation over runs."""
    rows = []
    for r in results:
        numbers = (f"{x[-1].mean():.4f} ± {x[-1].std(ddof=1):.4f}" for x in (r.on_p, r.on_q, r.total))
        rows.append((r.cell.title, f"{r.gap:.4f}", f"`{r.learner}`", *numbers, f"{r.exponent:.2f}"))
    return Table(("game", "gap", "learner", "regret / T on p", "on q", "sum", "exponent"), rows)
