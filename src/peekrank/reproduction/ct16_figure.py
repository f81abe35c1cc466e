"""CT16 Figure 1: average NDCG@10 against time, on any lists of documents.

The six learners of the paper as printed, with the paper's parameters, and ours: with k = 1, 2 and 5, and with
other choices at k = 1. All of them rank the same queries in the same order, pass after pass, each pass in a new
random order. The paper's data cannot be passed on; here they are generated in its shapes, anew for every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from peekrank.engine import Agent, drive
from peekrank.files import write_whole
from peekrank.learners import Uniform
from peekrank.learners.rtopkf import RTopKF
from peekrank.measures import NDCG
from peekrank.plots import _COLOURS, _blank, _finish, _marks, _spread, _styled
from peekrank.reproduction.record import Claim, How, Made, Table
from peekrank.streams.generated import Kind, make_dataset
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared
from peekrank.types import Floats, Grades, Ints, Learner, Rounds

ROUNDS = 250_000
RUNS = 5
POINTS = 50  # of a curve
SETTLED = 0.1  # of the rounds: before, the order of the curves is mostly luck
CLOSE = 0.9  # of the way from random to ListNet
MEASURE = NDCG(10, blank="skip")  # a query without a relevant document is the same for all rankings
NOTHING, EVERYTHING = "random", "ListNet, all relevances"
SQUARED, KL_PRINTED, SMOOTH, SVM = "squared, k = 1", "KL, k = 1", "SmoothDCG, k = 1", "RankSVM, k = 2"
CONVEX = (SQUARED, KL_PRINTED, SVM)


class Contestant(NamedTuple):
    """A learner, how many answers it sees, and how its curve looks."""

    name: str
    learner: Learner
    k: int
    colour: str
    dashes: str


class Setting(NamedTuple):
    """Generated data: shape, kind of relevance, part of the queries, whether the longest document has length 1."""

    shape: str
    kind: Kind = "linear"
    scale: float = 1.0
    unit: bool = False

    @property
    def name(self) -> str:
        """For titles and files."""
        return f"{self.shape}-{self.kind}" + ("-unit" if self.unit else "")

    def draw(self, rng: np.random.Generator) -> Rounds:
        """Fresh data."""
        drawn = make_dataset(self.shape, rng, kind=self.kind, scale=self.scale).rounds()
        return of_unit_length(drawn) if self.unit else drawn


class Size(NamedTuple):
    """A setting, and how much of it is played."""

    setting: Setting
    rounds: int
    runs: int


FULL = (Size(Setting("yandex"), ROUNDS, RUNS), Size(Setting("yahoo", unit=True), ROUNDS, 2))
QUICK = (Size(Setting("yandex", scale=0.1), 10_000, 2),)


class Played(NamedTuple):
    """Average NDCG@10 of the first t rounds, a row for each run; how often weights were not finite at the end."""

    title: str
    rounds: int
    at: Ints
    curves: dict[str, Floats]
    diverged: dict[str, int]

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.curves[NOTHING])

    def way(self, name: str) -> float:
        """How far a learner came at the end: 0 is random, 1 is ListNet with all relevances."""
        low, high, here = (self.curves[n][:, -1].mean() for n in (NOTHING, EVERYTHING, name))
        return float((here - low) / (high - low))

    def ways(self, name: str) -> Floats:
        """The same for each run by itself."""
        low, high, here = (self.curves[n][:, -1] for n in (NOTHING, EVERYTHING, name))
        return np.asarray((here - low) / (high - low))


def make(how: How) -> Made:
    """Play on generated data of the paper's two shapes."""
    made = Made([], {}, {}, {})
    sizes = QUICK if how.quick else FULL
    for n, (setting, rounds, runs) in enumerate(sizes):
        part, done = how.part(n, len(sizes)), 0

        def say(_: str, part: How = part, runs: int = runs) -> None:
            nonlocal done
            done += 1
            part.progress(done, runs)

        folder = how.folder / setting.name
        played = play(setting.name, setting.draw, rounds=rounds, runs=runs, say=say, folder=folder)
        made = Made(
            [*made.claims, *claims(played)],
            {**made.tables, setting.name: where(played)},
            {**made.pictures, setting.name: picture(played)},
            {**made.data, setting.name: curves(played)},
        )
    return made


def contestants(rounds: int) -> list[Contestant]:
    """The six of the paper, then ours."""
    printed, black, grey = RTopKF.as_printed, _COLOURS[-1], "#777777"
    return [
        Contestant(EVERYTHING, printed(ListNet(), rounds), 1, _COLOURS[4], "-"),
        Contestant(SVM, printed(RankSVM(), rounds), 2, _COLOURS[2], "-"),
        Contestant(KL_PRINTED, printed(KL(), rounds), 1, _COLOURS[0], "-"),
        Contestant(SQUARED, printed(Squared(), rounds), 1, _COLOURS[5], "-"),
        Contestant(SMOOTH, printed(SmoothDCG(), rounds), 1, _COLOURS[3], "-"),
        Contestant(NOTHING, Uniform(), 1, _COLOURS[1], "-"),
        Contestant("ours, k = 1", RTopKF(), 1, black, "-"),
        Contestant("ours, k = 2", RTopKF(), 2, black, "--"),
        Contestant("ours, k = 5", RTopKF(), 5, black, ":"),
        Contestant("doubly robust, k = 1", RTopKF(estimator="doubly_robust"), 1, grey, "-"),
        Contestant("temperature 0, k = 1", RTopKF(temperature=0.0), 1, grey, "--"),
        Contestant("temperature 0.1, k = 1", RTopKF(temperature=0.1), 1, grey, ":"),
    ]


def passes(queries: int, rounds: int, rng: np.random.Generator) -> Ints:
    """The query of each round: all in random order, then all in another, and so on."""
    return np.concatenate([rng.permutation(queries) for _ in range(-(-rounds // queries))])[:rounds]


def best_grades(rounds: Rounds) -> Grades:
    """The highest relevance of each list; where it is 0, NDCG says nothing."""
    best: Grades = np.maximum.reduceat(rounds.relevance, rounds.offsets[:-1])
    return best


def of_unit_length(rounds: Rounds) -> Rounds:
    """All features divided by the length of the longest document, which theorems take for bounded."""
    longest = np.sqrt(max(float(np.vdot(row, row)) for row in rounds.features))
    return rounds._replace(features=rounds.features / np.float32(longest))


def play(
    title: str,
    draw: Callable[[np.random.Generator], Rounds],
    *,
    rounds: int,
    runs: int,
    say: Callable[[str], object],
    folder: Path | None = None,
) -> Played:
    """Let all learners rank the same queries, once for each run.

    Parameters
    ----------
    title
        Of the setting.
    draw
        Gives the data of a run.
    rounds, runs
        How long, and how often.
    say
        Called with each run that is done.
    folder
        Where finished runs are kept, and found; None to keep nothing.
    """
    at = np.unique(np.ceil(np.linspace(rounds / POINTS, rounds, POINTS)).astype(np.int64))
    frames = []
    for run in range(runs):
        path = folder / f"{run:04d}.parquet" if folder else None
        if path and path.exists():
            frame = pl.read_parquet(path)
        else:
            frame = _play_run(draw, rounds, run, at)
            if path:
                write_whole(path, frame.write_parquet)
        frames.append(frame)
        say(f"{title}: run {run + 1} of {runs} done")
    names = frames[0]["learner"].unique(maintain_order=True).to_list()
    mine = {name: [frame.filter(pl.col("learner") == name) for frame in frames] for name in names}
    return Played(
        title,
        rounds,
        at,
        {name: np.array([part["value"].to_numpy() for part in parts]) for name, parts in mine.items()},
        {name: sum(bool(part["lost"][0]) for part in parts) for name, parts in mine.items()},
    )


def _play_run(draw: Callable[[np.random.Generator], Rounds], rounds: int, run: int, at: Ints) -> pl.DataFrame:
    """The curves of one run: learner, average so far, whether weights were not finite at the end."""
    rng = np.random.default_rng(run)
    data = draw(rng)
    lengths, d = np.diff(data.offsets), data.features.shape[1]
    sequence = passes(len(lengths), rounds, rng)
    counted = np.maximum(1, np.cumsum(best_grades(data)[sequence] > 0)[at - 1])
    all_of_them = contestants(rounds)
    agents = [Agent(c.learner, m=int(lengths.max()), k=c.k, d=d, seed=run) for c in all_of_them]
    traces = drive(agents, data, measure=MEASURE, sequence=sequence, at=at)
    return pl.concat(
        pl.DataFrame(
            {
                "learner": contestant.name,
                "value": trace.value / counted,
                "lost": bool(agent.trouble()),
            }
        )
        for contestant, agent, trace in zip(all_of_them, agents, traces, strict=True)
    )


def claims(played: Played) -> list[Claim]:
    """What the paper says of its figure, and whether it is so here."""
    late = played.at >= SETTLED * played.rounds
    means = {name: curve.mean(axis=0) for name, curve in played.curves.items()}
    way = {name: played.way(name) for name in (*CONVEX, SMOOTH)}
    others = np.max([means[name] for name in (*CONVEX, SMOOTH, NOTHING)], axis=0)
    ahead = (means[EVERYTHING] > others)[late]
    apart = {
        name: _interval(played, name)[0] > _interval(played, NOTHING)[1] for name in CONVEX
    }  # by a standard deviation of each

    def claim(statement: str, names: Sequence[str], *, holds: bool) -> Claim:
        numbers = ", ".join(
            f"{name.partition(',')[0]} {way[name]:.0%} ± {played.ways(name).std(ddof=1):.0%}" for name in names
        )
        return Claim(played.title, statement, f"{numbers}; {played.runs} runs", holds)

    return [
        Claim(
            played.title,
            f"ListNet is the highest of the six, from {SETTLED:.0%} of the rounds on",
            f"at {ahead.sum()} of {len(ahead)} points; {played.runs} runs",
            bool(ahead.all()),
        ),
        claim(
            "RankSVM and KL are very close to ListNet (said of Yahoo)",
            (SVM, KL_PRINTED),
            holds=min(way[SVM], way[KL_PRINTED]) >= CLOSE,
        ),
        claim(
            "RankSVM is better than KL and squared", CONVEX, holds=way[SVM] > max(way[KL_PRINTED], way[SQUARED])
        ),
        claim("KL is better than squared", (KL_PRINTED, SQUARED), holds=way[KL_PRINTED] > way[SQUARED]),
        claim("all three convex ones are better than random", CONVEX, holds=all(apart.values())),
        claim(
            "all three are closer to ListNet than to random",
            CONVEX,
            holds=min(way[name] for name in CONVEX) > 1 / 2,
        ),
        claim(
            "SmoothDCG is poor: below all three", (SMOOTH,), holds=way[SMOOTH] < min(way[name] for name in CONVEX)
        ),
    ]


def _interval(played: Played, name: str) -> tuple[float, float]:
    """A standard deviation on each side of the mean, at the end."""
    ends = played.curves[name][:, -1]
    return float(ends.mean() - ends.std(ddof=1)), float(ends.mean() + ends.std(ddof=1))


def where(played: Played) -> Table:
    """Where the curves are at a tenth of the rounds and at the end."""
    tenth = int(np.searchsorted(played.at, SETTLED * played.rounds))
    heads = ("learner", *(f"{played.at[i]:,} rounds" for i in (tenth, -1)), "random 0 %, ListNet 100 %")
    rows = []
    for name, curve in played.curves.items():
        cells = [f"{curve[:, i].mean():.3f} ± {curve[:, i].std(ddof=1):.3f}" for i in (tenth, -1)]
        lost = f"; diverged in {played.diverged[name]} of {played.runs} runs" if played.diverged[name] else ""
        rows.append((name + lost, *cells, f"{played.way(name):.0%}"))
    return Table(heads, rows)


def curves(played: Played) -> pl.DataFrame:
    """All curves as numbers."""
    return pl.concat(
        pl.DataFrame(
            {"learner": name, "round": played.at, "mean": curve.mean(axis=0), "sd": curve.std(axis=0, ddof=1)}
        )
        for name, curve in played.curves.items()
    )


def picture(played: Played) -> Figure:
    """The curves, with a band of one standard deviation."""
    with _styled():
        title = f"{played.title}\nmean of {played.runs} runs, band: ± 1 standard deviation"
        figure, axes = _blank(title, "average NDCG@10", scale="linear", legend_rows=6)
        for place, contestant in enumerate(contestants(played.rounds)):
            spread = _spread(played.curves[contestant.name])
            axes.plot(
                played.at,
                spread.mean,
                contestant.dashes,
                color=contestant.colour,
                marker="o^sDvP"[place % 6],
                ms=4,
                markevery=_marks(played.at, place, geometric=False),
                lw=1.4,
                label=contestant.name,
            )
            axes.fill_between(played.at, spread.low, spread.high, color=contestant.colour, alpha=0.2, linewidth=0)
        figure.legend(loc="outside lower left", ncols=2)
        _finish(figure, axes)
    return figure
