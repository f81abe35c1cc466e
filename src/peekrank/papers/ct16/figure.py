"""CT16 Figure 1: average NDCG@10 against time, on any lists of documents.

The figure compares the six learners of the paper, with the paper's parameters, and ours. Learners with
propensities come in two versions: with those that section 4.2 of the paper prints, and with the exact ones that
its definition (1) and its theorems need. All of them rank the same queries in the same order, in passes that each
have a new random order. The paper's data may not be redistributed, so every run generates data of the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from peekrank.data.generated import Kind, make_dataset
from peekrank.engine import Agent, run_agents
from peekrank.learners import Ridge, Uniform
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import NDCG
from peekrank.papers.record import Claim, Heartbeat, Options, Results, count, mean_exceeds
from peekrank.reports.markup import Table
from peekrank.reports.style import COLOURS, Look, blank, draw, finish, spread_of_runs, styled
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared
from peekrank.types import Floats, Grades, Ints, Learner, Rounds

ROUNDS = 250_000
RUNS = 5
POINTS = 50  # of a curve
SETTLED = 0.1  # of the rounds; before, the order of the curves is mostly noise
CLOSE = 0.9  # of the way from random to ListNet
RIDGE_FEATURES = 300  # at most; its time grows with their square, to minutes per run
MEASURE = NDCG(10, no_relevant="skip")  # a query without a relevant document is the same for all rankings
NOTHING, EVERYTHING = "random", "ListNet, all relevances"
OURS = ("ours, k = 1", "ours, k = 2", "ours, k = 5")
UNBIASED, CLIPPED, RIDGE = "ours, clip = 0, k = 1", "ours, clip = 1, k = 1", "ridge, k = 1"


class Version(NamedTuple):
    """Names of the paper's learners with one kind of propensities, and the `clip` that gives it."""

    title: str
    clip: float

    def name(self, surrogate: str, k: int = 1) -> str:
        """Return the name of a learner's curve."""
        return f"{surrogate}, k = {k}, {self.title}"

    @property
    def convex(self) -> tuple[str, str, str]:
        """Names of the learners with squared loss, KL and RankSVM."""
        return self.name("squared"), self.name("KL"), self.name("RankSVM", 2)

    @property
    def smooth(self) -> str:
        """Name of the learner with SmoothDCG."""
        return self.name("SmoothDCG")


PRINTED, EXACT = Version("printed", 1.0), Version("exact", 0.0)
TWICE = "RankSVM, k = 2, twice the printed"  # the other reading of the pair's denominator in section 4.1


class Contestant(NamedTuple):
    """A learner, its number of answers, and the style of its curve."""

    name: str
    learner: Learner
    k: int
    colour: str
    dashes: str


class Setting(NamedTuple):
    """Generated data: shape, kind of relevance, share of the queries, and whether to scale to length 1."""

    shape: str
    kind: Kind = "linear"
    scale: float = 1.0
    unit: bool = False

    @property
    def name(self) -> str:
        """Name of the setting, for titles and files."""
        return f"{self.shape}-{self.kind}" + ("-unit" if self.unit else "")

    def draw(self, rng: np.random.Generator) -> Rounds:
        """Draw the data of a run."""
        drawn = make_dataset(self.shape, rng, kind=self.kind, scale=self.scale).rounds()
        return of_unit_length(drawn) if self.unit else drawn


class Size(NamedTuple):
    """A setting, its number of rounds and of runs."""

    setting: Setting
    rounds: int
    runs: int


FULL = (Size(Setting("yandex"), ROUNDS, RUNS), Size(Setting("yahoo", unit=True), ROUNDS, RUNS))
QUICK = (Size(Setting("yandex", scale=0.1), 10_000, 4),)


class FigureData(NamedTuple):
    """Curves of average NDCG@10, one row per run, and the number of runs that diverged."""

    title: str
    rounds: int
    checkpoints: Ints
    curves: dict[str, Floats]
    diverged: dict[str, int]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.curves[NOTHING])

    def ends(self, name: str) -> Floats:
        """Return the end of a learner's curve in each run."""
        return np.asarray(self.curves[name][:, -1])

    def ways(self, name: str) -> Floats:
        """Return the final quality in each run, on a scale from random (0) to ListNet (1).

        The result is NaN if ListNet is not above random; no claim on it holds then.
        """
        low, high, value = (self.ends(n) for n in (NOTHING, EVERYTHING, name))
        way = (high - low).mean()
        return (value - low) / (way if way > 0 else np.nan)

    def way(self, name: str) -> float:
        """Return the mean of `ways`."""
        return float(self.ways(name).mean())


def reproduce(options: Options) -> Results:
    """Run on generated data of the paper's two shapes, or of a tenth of one."""
    results = Results([], {}, {}, {})
    sizes = QUICK if options.quick else FULL
    jobs = {run_file(size.setting, run): _job(size, run) for size in sizes for run in range(size.runs)}
    frames = options.frames(jobs)
    for setting, rounds, runs in sizes:
        data = gather(setting.name, rounds, [frames[run_file(setting, run)] for run in range(runs)])
        yahoo = setting.shape == "yahoo"
        results = Results(
            [
                *results.claims,
                *claims(data, PRINTED, yahoo=yahoo),
                *claims(data, EXACT, yahoo=yahoo),
                *our_claims(data, yahoo=yahoo),
            ],
            {**results.tables, setting.name: where(data)},
            {**results.pictures, setting.name: picture(data)},
            {**results.data, setting.name: curves(data)},
        )
    return results


def run_file(setting: Setting, run: int) -> str:
    """Return the name of the file with the results of a run."""
    return f"{setting.name}-{run:04d}"


def _job(size: Size, run: int) -> Callable[[Heartbeat], pl.DataFrame]:
    return lambda alive: play_run(size.setting.draw, size.rounds, run, alive)


def contestants(rounds: int, features: int = 0) -> list[Contestant]:
    """Return the six learners of the paper, in two versions, then ours; ridge if there are few features."""
    svm, black, grey = COLOURS[2], COLOURS[-1], "#777777"
    entrants = [Contestant(EVERYTHING, RTopKF.from_paper(ListNet(), rounds), 1, COLOURS[4], "-")]
    for version, dashes in ((PRINTED, "-"), (EXACT, "--")):
        for surrogate, k, colour, name in (
            (RankSVM(), 2, svm, "RankSVM"),
            (KL(), 1, COLOURS[0], "KL"),
            (Squared(), 1, COLOURS[5], "squared"),
            (SmoothDCG(), 1, COLOURS[3], "SmoothDCG"),
        ):
            learner = RTopKF.from_paper(surrogate, rounds, clip=version.clip)
            entrants.append(Contestant(version.name(name, k), learner, k, colour, dashes))
    # half the step is the same as twice the denominator
    twice = replace(RTopKF.from_paper(RankSVM(), rounds, clip=PRINTED.clip), rate=0.5)
    return [
        *entrants,
        Contestant(TWICE, twice, 2, svm, ":"),
        Contestant(NOTHING, Uniform(), 1, COLOURS[1], "-"),
        *(
            Contestant(name, RTopKF(), int(name[-1]), black, d)
            for name, d in zip(OURS, ("-", "--", ":"), strict=True)
        ),
        Contestant(UNBIASED, RTopKF(clip=EXACT.clip), 1, grey, "--"),
        Contestant(CLIPPED, RTopKF(clip=PRINTED.clip), 1, grey, ":"),
        *([Contestant(RIDGE, Ridge(), 1, grey, "-")] if features <= RIDGE_FEATURES else []),
    ]


def passes(queries: int, rounds: int, rng: np.random.Generator) -> Ints:
    """Return the query of each round, in passes that each have a new random order."""
    return np.concatenate([rng.permutation(queries) for _ in range(-(-rounds // queries))])[:rounds]


def best_grades(rounds: Rounds) -> Grades:
    """Return the highest relevance of each list. If it is 0, NDCG is undefined."""
    best: Grades = np.maximum.reduceat(rounds.relevance, rounds.offsets[:-1])
    return best


def of_unit_length(rounds: Rounds) -> Rounds:
    """Divide all features by the length of the longest document, as the theorems assume."""
    longest = np.sqrt(max(float(np.vdot(row, row)) for row in rounds.features))
    return rounds._replace(features=rounds.features / np.float32(longest))


def play(
    title: str,
    draw: Callable[[np.random.Generator], Rounds],
    *,
    rounds: int,
    runs: int,
    say: Callable[[str], object],
) -> FigureData:
    """Run all learners on the same queries, once for each run.

    Parameters
    ----------
    title
        Title of the setting.
    draw
        Draws the data of a run.
    rounds, runs
        Number of rounds and of runs.
    say
        Receives a message after each run.
    """
    frames = []
    for run in range(runs):
        frames.append(play_run(draw, rounds, run))
        say(f"{title}: run {run + 1} of {runs} done")
    return gather(title, rounds, frames)


def play_run(
    draw: Callable[[np.random.Generator], Rounds], rounds: int, run: int, alive: Heartbeat = lambda: None
) -> pl.DataFrame:
    """Return the curves of one run: learner, average so far, and whether the learner diverged."""
    rng, checkpoints = np.random.default_rng(run), shown_rounds(rounds)
    data = draw(rng)
    lengths, d = np.diff(data.offsets), data.features.shape[1]
    sequence = passes(len(lengths), rounds, rng)
    counted = np.maximum(1, np.cumsum(best_grades(data)[sequence] > 0)[checkpoints - 1])
    entrants = contestants(rounds, d)
    agents = [Agent(c.learner, m=int(lengths.max()), k=c.k, d=d, seed=run) for c in entrants]
    traces = run_agents(
        agents, data, measure=MEASURE, sequence=sequence, checkpoints=checkpoints, progress=lambda _: alive()
    )
    return pl.concat(
        pl.DataFrame(
            {
                "learner": contestant.name,
                "value": trace.value / counted,
                "lost": bool(agent.failure()),
            }
        )
        for contestant, agent, trace in zip(entrants, agents, traces, strict=True)
    )


def shown_rounds(rounds: int) -> Ints:
    """Return the rounds at which curves have their points.

    >>> len(shown_rounds(250_000)), int(shown_rounds(250_000)[0])
    (50, 5000)
    """
    return np.unique(np.ceil(np.linspace(rounds / POINTS, rounds, POINTS)).astype(np.int64))


def gather(title: str, rounds: int, frames: Sequence[pl.DataFrame]) -> FigureData:
    """Collect the curves of all runs."""
    names = frames[0]["learner"].unique(maintain_order=True).to_list()
    mine = {name: [frame.filter(pl.col("learner") == name) for frame in frames] for name in names}
    return FigureData(
        title,
        rounds,
        shown_rounds(rounds),
        {name: np.array([part["value"].to_numpy() for part in parts]) for name, parts in mine.items()},
        {name: sum(bool(part["lost"][0]) for part in parts) for name, parts in mine.items()},
    )


def claims(data: FigureData, version: Version, *, yahoo: bool) -> list[Claim]:
    """Check the paper's claims on its figure with one kind of propensities, one of them only on Yahoo data."""
    return list(_claims(data, version, version.convex[-1], yahoo=yahoo))


def _claims(data: FigureData, version: Version, svm: str, *, yahoo: bool) -> Iterator[Claim]:
    """Yield the claims for one of the two readings of RankSVM."""
    (squared, kl, _), smooth = version.convex, version.smooth
    convex = (squared, kl, svm)
    late = data.checkpoints >= SETTLED * data.rounds
    means = {name: curve.mean(axis=0) for name, curve in data.curves.items()}
    way = {name: data.way(name) for name in (*convex, smooth)}
    others = np.max([means[name] for name in (*convex, smooth, NOTHING)], axis=0)
    ahead = (means[EVERYTHING] > others)[late]
    # by a standard deviation of each
    apart = [_interval(data, name)[0] > _interval(data, NOTHING)[1] for name in convex]
    where = f"{data.title}, {version.title} propensities"

    def claim(statement: str, expected: str, names: Sequence[str], *, holds: bool) -> Claim:
        here = ", ".join(f"{name.partition(',')[0]} {_way(data, name)}" for name in names)
        return Claim(f"{where}: {statement}", expected, f"{here} ({data.runs} runs)", holds)

    yield Claim(
        f"{where}: ListNet has the highest average NDCG throughout",
        f"above the other five at every point, from {SETTLED:.0%} of the rounds on",
        f"at {ahead.sum()} of {len(ahead)} points ({data.runs} runs)",
        bool(ahead.all()),
    )
    if yahoo:
        yield claim(
            "RankSVM and KL are very close to ListNet", f"{CLOSE:.0%} of the way from random at least",
            (svm, kl), holds=min(way[svm], way[kl]) >= CLOSE,
        )  # fmt: skip
    yield claim(
        "RankSVM does better than the other surrogates", "further from random", (svm, squared, kl, smooth),
        holds=way[svm] > max(way[kl], way[squared], way[smooth]),
    )  # fmt: skip
    yield claim(
        "KL does better than squared loss", "further from random", (kl, squared), holds=way[kl] > way[squared]
    )
    yield claim(
        "all three convex ones are significantly better than random",
        "by a standard deviation of both", convex, holds=all(apart),
    )  # fmt: skip
    yield claim(
        "all three are much closer to ListNet than to random", "more than half of the way", convex,
        holds=min(way[name] for name in convex) > 1 / 2,
    )  # fmt: skip
    yield claim(
        "SmoothDCG is poor", "below all three", (smooth, *convex),
        holds=way[smooth] < min(way[name] for name in convex),
    )  # fmt: skip


def our_claims(data: FigureData, *, yahoo: bool) -> Iterator[Claim]:
    """Check our claims on the readings of the paper, and on our own learners in the same figure."""
    svm = PRINTED.convex[-1]
    once, twice = ([c.holds for c in _claims(data, PRINTED, name, yahoo=yahoo)] for name in (svm, TWICE))
    runs = f"({data.runs} runs)"
    yield Claim(
        f"{data.title}: the pair's denominator may be read as p or as 2 p",
        "the same verdicts with the printed propensities",
        f"{count(int(np.equal(once, twice).sum()), len(once))}; "
        f"RankSVM {_way(data, svm)} and {_way(data, TWICE)} {runs}",
        once == twice,
    )
    for name, version in ((OURS[0], EXACT), (OURS[0], PRINTED), (RIDGE, PRINTED)):
        if name not in data.curves:
            continue
        best = max((*version.convex, version.smooth), key=lambda name: data.ends(name).mean())
        yield Claim(
            f"{data.title}: {name}, is above the paper's four with {version.title} propensities",
            "above the best of them, with all of the 95 % interval",
            f"{_way(data, name)} against {_way(data, best)} of {best.rpartition(',')[0]} {runs}",
            mean_exceeds(data.ends(name) - data.ends(best), 0),
        )
    ends = [data.ends(name) for name in OURS]
    yield Claim(
        f"{data.title}: more answers help ours",
        "above k = 1 with k = 2, and above that with k = 5, with all of the 95 % interval",
        ", ".join(f"{_way(data, name)} with {name[-5:]}" for name in OURS) + f" {runs}",
        all(mean_exceeds(more_seen - fewer, 0) for fewer, more_seen in pairwise(ends)),
    )


def _way(data: FigureData, name: str) -> str:
    if np.isnan(data.way(name)):
        return f"{data.ends(name).mean():.3f}, with ListNet not above random"
    return f"{data.way(name):.0%} ± {data.ways(name).std(ddof=1):.0%}"


def _interval(data: FigureData, name: str) -> tuple[float, float]:
    """Return the final mean minus and plus one standard deviation."""
    ends = data.curves[name][:, -1]
    return float(ends.mean() - ends.std(ddof=1)), float(ends.mean() + ends.std(ddof=1))


def where(data: FigureData) -> Table:
    """Return a table of the curves at a tenth of the rounds and at the end."""
    tenth = int(np.searchsorted(data.checkpoints, SETTLED * data.rounds))
    heads = ("learner", *(f"{data.checkpoints[i]:,} rounds" for i in (tenth, -1)), "random 0 %, ListNet 100 %")
    rows = []
    for name, curve in data.curves.items():
        cells = [f"{curve[:, i].mean():.3f} ± {curve[:, i].std(ddof=1):.3f}" for i in (tenth, -1)]
        lost = f"; diverged in {data.diverged[name]} of {data.runs} runs" if data.diverged[name] else ""
        way = data.way(name)
        rows.append((name + lost, *cells, "" if np.isnan(way) else f"{way:.0%}"))
    return Table(heads, rows)


def curves(data: FigureData) -> pl.DataFrame:
    """Return all curves as a data frame."""
    return pl.concat(
        pl.DataFrame(
            {
                "learner": name,
                "round": data.checkpoints,
                "mean": curve.mean(axis=0),
                "sd": curve.std(axis=0, ddof=1),
            }
        )
        for name, curve in data.curves.items()
    )


def picture(data: FigureData) -> Figure:
    """Plot the curves, with a band of one standard deviation."""
    with styled():
        title = f"{data.title}\nmean of {data.runs} runs, band: ± 1 standard deviation"
        figure, axes = blank(title, "average NDCG@10", scale="linear", legend_rows=9)
        entrants = [c for c in contestants(data.rounds) if c.name in data.curves]
        for position, (name, _, _, colour, dashes) in enumerate(entrants):
            look = Look(position, colour, "o^sDvP"[position % 6], dashes)
            draw(axes, data.checkpoints, spread_of_runs(data.curves[name]), look, label=name)
        figure.legend(loc="outside lower left", ncols=2)
        finish(figure, axes)
    return figure
