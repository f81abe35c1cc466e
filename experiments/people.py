"""Run every learner that fits on orders of sushi and on ratings of jokes by real people, for k = 1, 2 and 5.

A round is a person. People come in random order, once each in the short runs and repeatedly in the long ones. The
tables give the regret, its share of uniform's regret, and the final quality. The pictures show how the share falls
with rounds and with k. The data are not part of this project: records/people.json gives their sources.

    python experiments/people.py --sushi sushi.soc --jester jester.csv          print the tables
    python experiments/people.py ... --record      write them into records/people.json, with pictures
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple, get_args, get_type_hints

import numpy as np
import polars as pl
import records
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import PercentFormatter

from peekrank.engine import problem_shape
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.runs import run
from peekrank.registry import LEARNERS
from peekrank.reports.plots import save_as
from peekrank.reports.style import (
    COLOURS,
    LEGEND_ROW,
    MARKERS,
    WIDTH,
    Look,
    draw,
    spread_of_runs,
    styled,
    thousands,
)
from peekrank.streams.preference_files import read_orders, read_ratings
from peekrank.types import LinearMeasure

MEASURES = ("dcg", "p@3+sum")
ANSWERS = (1, 2, 5)
LONG = 50_000
RUNS = 10
LATE = 0.9  # the last tenth of the rounds is where quality is looked at
NOTHING, EVERYTHING = "uniform", "ftpl"  # the references: learns nothing, sees everything
POINTS = 60  # of a curve in a picture
FIRST_SHOWN = 100  # rounds; before, the best ranking in hindsight is mostly luck
PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


class Data(NamedTuple):
    """A file of preferences as a stream, and the number of people."""

    title: str
    stream: str
    people: int


class Setting(NamedTuple):
    """Data, measure and number of rounds."""

    data: Data
    measure: str
    horizon: int


class Comparators(NamedTuple):
    """The values of the best fixed and of personal rankings, as means over runs."""

    best_late: float  # sum over the last tenth of the rounds, of the ranking that is best for all rounds
    own: float  # value of a round in which the person's own relevant items come first


class Played(NamedTuple):
    """The results of a setting for each k, and the values to compare them with."""

    setting: Setting
    results: dict[int, Result]
    comparators: Comparators

    @property
    def fewest(self) -> Result:
        """The result for the smallest k."""
        return self.results[min(self.results)]

    @property
    def learners(self) -> list[str]:
        """The learners that fit for some k."""
        return [name for name in candidates() if any(name in r.experiment.learners for r in self.results.values())]


class Figures(NamedTuple):
    """The figures of a learner: means over runs, and the standard deviation of its regret."""

    regret: float
    spread: float
    share: float  # of the regret of uniformly random rankings
    quality: float  # in the last tenth of the rounds: 0 is random, 1 the best fixed ranking


def sushi(path: Path) -> Data:
    """Read the orders of a PrefLib file. The first three items of a person are relevant."""
    return Data("Sushi", f"orders:path={path},rule=top3", int(read_orders(path).counts.sum()))


def jester(path: Path) -> Data:
    """Read the ratings of people who rated everything. The better half of a person's ratings is relevant."""
    rated_all = ~np.isnan(read_ratings(path).scores).any(axis=1)
    return Data("Jester", f"ratings:path={path},rule=quantile2,complete=true", int(rated_all.sum()))


def candidates() -> list[str]:
    """List every registered learner for fixed items, with the horizon and, if possible, without it."""
    found = []
    for name, cls in LEARNERS.items():
        if not cls.contextual:
            optional = any(f.name == "horizon" for f in fields(cls)) and type(None) in get_args(
                get_type_hints(cls)["horizon"]
            )
            found += [name, f"{name}:horizon=none"] if optional else [name]
    return found


def fits(learner: str, experiment: Experiment) -> bool:
    """Return whether a learner can run in a setting."""
    try:
        replace(experiment, learners=(learner,))
    except ValueError:
        return False
    return True


def play(
    setting: Setting, answers: Sequence[int], runs: int, workers: int, say: Callable[[str], object]
) -> Played:
    """Run all learners that fit, for each k."""
    alone = Experiment((NOTHING,), setting.data.stream, setting.measure, answers[0], setting.horizon, runs)
    found = {}
    for k in answers:
        able = tuple(name for name in candidates() if fits(name, replace(alone, k=k)))
        with tempfile.TemporaryDirectory() as folder:
            found[k] = run(replace(alone, k=k, learners=able), Path(folder), workers=workers)
        say(f"{setting.data.title}, {setting.measure}, {setting.horizon:,} rounds, k = {k}: done")
    return Played(setting, found, comparators(alone, late_from(found[answers[0]])[1]))


def late_from(result: Result) -> tuple[int, int]:
    """Find the beginning of the last tenth of the rounds: index of the checkpoint, and number of rounds."""
    position = int(np.searchsorted(result.checkpoints, LATE * result.experiment.horizon, side="right")) - 1
    return position, int(result.checkpoints[position])


def comparators(experiment: Experiment, start: int) -> Comparators:
    """Compute the values of the best fixed ranking after the first `start` rounds, and of personal rankings."""
    measure = experiment.parts.measure
    if not isinstance(measure, LinearMeasure):
        raise ValueError(f"measure = {measure}: must be linear, for its best ranking is found by sorting")
    best_late, own = [], []
    for number in range(experiment.runs):
        relevance = experiment.rounds(number).relevance.reshape(experiment.horizon, -1)
        gain, late = measure.gain(relevance), relevance[start:]
        best = np.argsort(-gain.sum(axis=0), kind="stable")
        best_late.append(measure.values(np.tile(best, (len(late), 1)), late).sum())
        own.append(measure.values(np.argsort(-gain, axis=1), relevance).mean())
    return Comparators(float(np.mean(best_late)), float(np.mean(own)))


def figures(played: Played, k: int, learner: str) -> Figures:
    """Compute regret and quality of a learner relative to uniform in the same rounds."""
    result = played.results[k]
    lost, by_chance = result.regrets(learner)[:, -1], result.regrets(NOTHING)[:, -1].mean()
    late, late_by_chance = (late_value(result, name) for name in (learner, NOTHING))
    return Figures(
        regret=float(lost.mean()),
        spread=float(lost.std(ddof=1)),
        share=float(lost.mean() / by_chance),
        quality=(late - late_by_chance) / (played.comparators.best_late - late_by_chance),
    )


def late_value(result: Result, learner: str) -> float:
    """Compute the value of a learner's rankings in the last tenth of the rounds, as mean over runs."""
    value = result.curves[learner]["value"].to_numpy().reshape(-1, len(result.checkpoints))
    return float((value[:, -1] - value[:, late_from(result)[0]]).mean())


def table(played: Played) -> records.Table:
    """Tabulate all learners that fit for some k, and name the others."""
    data, measure, horizon = played.setting
    passes = "everybody once" if horizon == data.people else f"{horizon / data.people:.3g} passes"
    own = f"{played.comparators.own:.2f} if everybody had their own"
    nothing = played.fewest.curves[NOTHING].filter(pl.col("checkpoints") == horizon)
    by_chance, lost = (float(nothing[column].to_numpy().mean()) / horizon for column in ("value", "regret"))
    best = f"{by_chance + lost:.2f} with the best fixed ranking"
    text = [f"Value of a round: {by_chance:.2f} at random, {best}, {own}."]
    lines = [
        "| learner | " + " | ".join(f"k = {k}" for k in played.results) + " |",
        "|---" * (1 + len(played.results)) + "|",
    ]
    for name in played.learners:
        cells = []
        for k, result in played.results.items():
            if name in result.experiment.learners:
                f = figures(played, k, name)
                cells.append(f"{f.regret:,.0f} ± {f.spread:,.0f}; {f.share:.0%}; {f.quality:.2f}")
            else:
                cells.append("does not fit")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    others = [f"`{name}`" for name in candidates() if name not in played.learners and ":" not in name]
    if others:
        text.append(f"Fit for none of these k: {', '.join(others)}.")
    return records.parse_table(f"{data.title}, {measure}, {horizon:,} rounds ({passes})", lines, text)


def promises(played: Sequence[Played]) -> records.Table:
    """Tabulate proved bounds for the smallest k, as multiples of the regret of uniform."""
    names = (f"{data.title}, `{measure}`, {horizon:,}" for data, measure, horizon in (p.setting for p in played))
    title = f"Bounds for k = {played[0].fewest.experiment.k}, as multiples of the regret of uniform"
    lines = [
        "| learner | " + " | ".join(names) + " |",
        "|---" * (1 + len(played)) + "|",
    ]
    for name in candidates():
        cells = [multiple(p.fewest, name) for p in played]
        if any(cells):
            lines.append(f"| `{name}` | " + " | ".join(cell or "-" for cell in cells) + " |")
    return records.parse_table(title, lines, ["Numbers above 1 promise nothing."])


def multiple(result: Result, learner: str) -> str:
    """Return the bound of a learner divided by the regret of uniform, or an empty text if there is none."""
    experiment = result.experiment
    if learner not in experiment.learners:
        return ""
    made = experiment.learner(learner)
    bound = made.bound(problem_shape(made, m=experiment.shape.m, k=experiment.k), experiment.horizon)
    if bound is None:
        return ""
    found = bound / result.regrets(NOTHING)[:, -1].mean()
    return f"{found:.2g}" if found < 10 else f"{found:,.0f}"


def picture(played: Played) -> Figure:
    """Draw the learners' share of uniform's regret against rounds, above, and against k, below."""
    (data, measure, horizon), results, first = played.setting, played.results, played.fewest
    checkpoints, by_chance = first.checkpoints, first.regrets(NOTHING).mean(axis=0)
    late = np.unique(np.searchsorted(checkpoints, np.geomspace(FIRST_SHOWN, horizon, POINTS)))
    shown = [name for name in played.learners if name != NOTHING]
    with styled():
        figure = Figure(
            figsize=(WIDTH, 5.4 + LEGEND_ROW * len(shown)), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
        )
        above, below = figure.subplots(2, height_ratios=(3, 2))
        above.set(xscale="log", xlabel="rounds", ylabel="share of uniform's regret")
        lines = []
        for name in shown:
            position = list(LEARNERS).index(name.partition(":")[0])
            colour = COLOURS[(position - 2) % len(COLOURS)]  # black, the last one, for what sees everything
            marker = MARKERS[position % len(MARKERS)]
            dashes = "--" if ":" in name else "-"
            if name in first.experiment.learners:
                share = first.regrets(name)[:, late] / by_chance[late]
                draw(
                    above,
                    checkpoints[late],
                    spread_of_runs(share),
                    Look(position, colour, marker, dashes),
                    label=name,
                )
            ends = {k: figures(played, k, name).share for k, r in results.items() if name in r.experiment.learners}
            x = [list(results).index(k) for k in ends]
            lines += below.plot(
                x, list(ends.values()), dashes, color=colour, marker=marker, ms=5, lw=1.6, label=name
            )
        above.set_title(
            f"{data.title}, {measure}, {first.experiment.shape.m} items: regret as a share of uniform's\n"
            f"top {first.experiment.k} revealed; mean of {first.experiment.runs} runs, band: "
            "± 1 standard deviation"
        )
        above.xaxis.set_major_formatter(thousands)
        below.set_title(f"after {horizon:,} rounds, for each k")
        below.set(xlabel="k, the number of answers seen", ylabel="share")
        below.set_xticks(range(len(results)), [str(k) for k in results])
        above.axhline(1, color="#666666", linewidth=0.8)
        for axes in (above, below):
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        figure.legend(handles=lines, loc="outside lower left", ncols=2)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Run on all data."""
    parser = argparse.ArgumentParser(description="Run all learners on preferences of real people.")
    parser.add_argument("--sushi", type=Path, required=True, help="PrefLib 00014-00000001.soc")
    parser.add_argument("--jester", type=Path, required=True, help="ratings of 100 jokes, a row for each person")
    parser.add_argument("--horizon", type=int, default=LONG, help="rounds of the long runs")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "people")
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error("--runs: must be at least 2 to compute the spread")
    workers = os.cpu_count() or 1
    played = []
    for data, measure in product((sushi(options.sushi), jester(options.jester)), MEASURES):
        for horizon in (data.people, options.horizon):
            setting = Setting(data, measure, horizon)
            played.append(
                play(setting, ANSWERS, options.runs, workers, lambda text: sys.stderr.write(text + "\n"))
            )
    tables = [*map(table, played), promises(played)]
    for p, made in list(zip(played, tables, strict=False))[1::2]:
        name = (
            f"people-{p.setting.data.title}-{p.setting.measure.replace('@', '').removesuffix('+sum')}.svg".lower()
        )
        words = "share of uniform's regret against rounds and against k"
        made.pictures = {name: f"{p.setting.data.title}, {p.setting.measure}: {words}"}
        if options.record:
            save_as(picture(p), options.pictures / name)
    sys.stdout.write(records.show(tables))
    if options.record:
        records.update(options.record, tables)


if __name__ == "__main__":
    main()
