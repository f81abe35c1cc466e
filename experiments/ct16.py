"""CT16's Figure 1: average NDCG@10 against time, on a data file or on generated data of the paper's shapes.

The six learners of the paper as printed, with the paper's parameters, and ours: with k = 1, 2 and 5, and with
other choices at k = 1. All of them rank the same queries in the same order, pass after pass, each pass in a new
random order. Generated data are drawn anew for every run. Then what the paper observed, and whether it is so here.

    python experiments/ct16.py --shape yandex --kind linear      print the table of one setting
    python experiments/ct16.py --data train.txt                  the same from a LETOR file or a .peek file
    python experiments/ct16.py ... --page docs/ct16.md           put it into the page, and a picture beside it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from matplotlib.figure import Figure

from peekrank.engine import Agent, drive
from peekrank.files import put_into
from peekrank.learners import Uniform
from peekrank.learners.rtopkf import RTopKF
from peekrank.measures import NDCG
from peekrank.plots import _COLOURS, _blank, _finish, _marks, _spread, _styled, save_as
from peekrank.streams.compact import open_dataset
from peekrank.streams.generated import LAYOUTS, Kind, make_dataset
from peekrank.streams.letor import read_letor
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


def play(
    title: str,
    draw: Callable[[np.random.Generator], Rounds],
    *,
    rounds: int,
    runs: int,
    say: Callable[[str], object],
) -> Played:
    """Let all learners rank the same queries, once for each run."""
    at = np.unique(np.ceil(np.linspace(rounds / POINTS, rounds, POINTS)).astype(np.int64))
    found: dict[str, list[Floats]] = {}
    diverged: dict[str, int] = {}
    for run in range(runs):
        rng = np.random.default_rng(run)
        data = draw(rng)
        lengths, d = np.diff(data.offsets), data.features.shape[1]
        sequence = passes(len(lengths), rounds, rng)
        counted = np.maximum(1, np.cumsum(best_grades(data)[sequence] > 0)[at - 1])
        all_of_them = contestants(rounds)
        agents = [Agent(c.learner, m=int(lengths.max()), k=c.k, d=d, seed=run) for c in all_of_them]
        traces = drive(agents, data, measure=MEASURE, sequence=sequence, at=at)
        for (name, *_), agent, trace in zip(all_of_them, agents, traces, strict=True):
            found.setdefault(name, []).append(trace.value / counted)
            lost = not np.all(np.isfinite(getattr(agent._state, "w", 0)))
            diverged[name] = diverged.get(name, 0) + lost
        say(f"{title}: run {run + 1} of {runs} done")
    return Played(title, rounds, at, {name: np.array(rows) for name, rows in found.items()}, diverged)


def verdicts(played: Played) -> list[tuple[str, str]]:
    """What the paper says of its figure, and whether it is so here."""
    late = played.at >= SETTLED * played.rounds
    means = {name: curve.mean(axis=0) for name, curve in played.curves.items()}
    way = {name: played.way(name) for name in (*CONVEX, SMOOTH)}
    others = np.max([means[name] for name in (*CONVEX, SMOOTH, NOTHING)], axis=0)
    ahead = bool(np.all((means[EVERYTHING] > others)[late]))
    apart = {
        name: _interval(played, name)[0] > _interval(played, NOTHING)[1] for name in CONVEX
    }  # by a standard deviation of each

    def verdict(*, holds: bool, names: Sequence[str]) -> str:
        numbers = ", ".join(f"{name.partition(',')[0]} {way[name]:.0%}" for name in names)
        return ("holds" if holds else "differs") + (f" ({numbers})" if numbers else "")

    return [
        (
            f"ListNet is the highest of the six, from {SETTLED:.0%} of the rounds on",
            verdict(holds=ahead, names=()),
        ),
        (
            "RankSVM and KL are very close to ListNet (said of Yahoo)",
            verdict(holds=min(way[SVM], way[KL_PRINTED]) >= CLOSE, names=(SVM, KL_PRINTED)),
        ),
        (
            "RankSVM is better than KL and squared",
            verdict(holds=way[SVM] > max(way[KL_PRINTED], way[SQUARED]), names=CONVEX),
        ),
        ("KL is better than squared", verdict(holds=way[KL_PRINTED] > way[SQUARED], names=(KL_PRINTED, SQUARED))),
        ("all three convex ones are better than random", verdict(holds=all(apart.values()), names=CONVEX)),
        (
            "all three are closer to ListNet than to random",
            verdict(holds=min(way[name] for name in CONVEX) > 1 / 2, names=CONVEX),
        ),
        (
            "SmoothDCG is poor: below all three",
            verdict(holds=way[SMOOTH] < min(way[name] for name in CONVEX), names=(SMOOTH,)),
        ),
    ]


def _interval(played: Played, name: str) -> tuple[float, float]:
    """A standard deviation on each side of the mean, at the end."""
    ends = played.curves[name][:, -1]
    return float(ends.mean() - ends.std(ddof=1)), float(ends.mean() + ends.std(ddof=1))


def table(played: Played) -> list[str]:
    """Where the curves are at a tenth of the rounds and at the end, and the verdicts, in Markdown."""
    tenth = int(np.searchsorted(played.at, SETTLED * played.rounds))
    lines = [
        f"### {played.title}",
        "",
        f"| learner | {played.at[tenth]:,} rounds | {played.rounds:,} rounds | random 0 %, ListNet 100 % |",
        "|---|---|---|---|",
    ]
    for name, curve in played.curves.items():
        cells = [f"{curve[:, i].mean():.3f} ± {curve[:, i].std(ddof=1):.3f}" for i in (tenth, -1)]
        lost = f"; diverged in {played.diverged[name]} of {played.runs} runs" if played.diverged[name] else ""
        lines.append(f"| {name}{lost} | {' | '.join(cells)} | {played.way(name):.0%} |")
    lines += ["", "| the paper | here |", "|---|---|"]
    return lines + [f"| {statement} | {verdict} |" for statement, verdict in verdicts(played)]


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


def write_page(path: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines into a page, between the marks of this name."""
    put_into(path, f"<!-- begin: {name} -->", lines)


def read_rounds(path: Path) -> Rounds:
    """A LETOR file or a compact one; relevance that is real-valued is rounded to grades."""
    data = open_dataset(path) if path.suffix == ".peek" else read_letor(path)
    return data.graded().rounds()


def of_unit_length(rounds: Rounds) -> Rounds:
    """All features divided by the length of the longest document, which theorems take for bounded."""
    longest = np.sqrt(max(float(np.vdot(row, row)) for row in rounds.features))
    return rounds._replace(features=rounds.features / np.float32(longest))


def main(arguments: Sequence[str] | None = None) -> None:
    """Play on one setting."""
    parser = argparse.ArgumentParser(description="Average NDCG@10 of CT16's learners, and of ours, against time.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="a file in LETOR format, or a .peek file")
    source.add_argument("--shape", choices=sorted(LAYOUTS), help="generate data of this shape")
    parser.add_argument("--kind", choices=get_args(Kind), default="linear", help="of generated relevance")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the queries to generate")
    parser.add_argument("--unit", action="store_true", help="divide features so that no document is longer than 1")
    parser.add_argument("--name", help="of the setting: in titles, in marks of the page and of the picture's file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into, with a picture in pictures/")
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error("--runs: two at least, or there is no spread")
    if options.data:
        data, name = read_rounds(options.data), options.data.name.partition(".")[0]
    else:
        data, name = None, f"{options.shape}-{options.kind}"

    def draw(rng: np.random.Generator) -> Rounds:
        drawn = data or make_dataset(options.shape, rng, kind=options.kind, scale=options.scale).rounds()
        return of_unit_length(drawn) if options.unit else drawn

    name = options.name or (f"{name}-unit" if options.unit else name)
    played = play(
        name, draw, rounds=options.rounds, runs=options.runs, say=lambda text: sys.stderr.write(text + "\n")
    )
    lines = table(played)
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        save_as(picture(played), options.page.parent / "pictures" / f"ct16-{name}.svg")
        write_page(options.page, name, lines)


if __name__ == "__main__":
    main()
