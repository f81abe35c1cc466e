"""Measure the loss of learners for items without features, for `advise`: records/choosing.json.

The streams are stationary, with two horizons, and the tutorial's ten items with several response rates. Learners
run without a horizon and, if they accept one, also with it. Figures are means and standard deviations over seeds.
The package contains them and bases its advice on them.

    python experiments/choosing.py --measure             measure (an hour), for src/peekrank/advice/benchmarks.json
    python experiments/choosing.py --measure visitors    the same for the response rates only
    python experiments/choosing.py --record              write the measured figures into the record
    python experiments/choosing.py --horizon --record measure the effect of the horizon, and write it there
    python experiments/choosing.py                       print the table "which learner when"
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parent))  # where margin.py is

import numpy as np
import records
from margin import CROWDS, LAB, STATIONARY, asked, drawn, drawn_from, played

from peekrank.advice import Advice, advise, benchmarks
from peekrank.advice.benchmarks import FILE, ITEMS, Benchmark, ResponseRateBenchmark, figures
from peekrank.experiments.families import family
from peekrank.learners import learner
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.measures import measure
from peekrank.streams import stream
from peekrank.types import Floats, Learner, Measure, Shape

NAMES = ("doubtsort", "marginftrl", "blockftrl", "setftrl", "permftrl", "greedy", "thompson")
GAMES = (("dcg", 1), ("dcg", 9), ("dcg", 10), ("p@3+sum", 1))
STREAMS = ("ct15", "linear means", "graded")
LENGTHS = (10_000, 100_000)
FIRST_SEED = 820_000  # of runs that no constant of a learner was chosen by
RUNS, VISITED = 10, 100
IN_LABORATORY = (("blockftrl", "dcg", 1), ("blockftrl", "sumloss", 1), ("setftrl", "p@2+sum", 1),
                 ("permftrl", "dcg", 4), ("permftrl", "sumloss", 4))  # fmt: skip


def players(name: str, judge: Measure, max_grade: int, k: int) -> Iterator[tuple[Learner, tuple[int, ...]]]:
    """Make a learner without a horizon, and one with the horizon for each length; none if it does not fit."""
    for horizon, lengths in ((None, LENGTHS), *((length, (length,)) for length in LENGTHS)):
        context = {} if horizon is None else {"horizon": horizon}
        try:
            made = learner(name, measure=judge, max_grade=max_grade, **context)
            made.init(Shape(ITEMS, 0, k))
        except ValueError:
            return
        if made.horizon == horizon:
            yield made, lengths


def streams(runs: int) -> Iterator[Benchmark]:
    """Measure the loss per round on stationary streams."""
    for game, k in GAMES:
        judge = measure(game)
        for label in STREAMS:
            top = stream(STATIONARY[label]).max_grade
            if top > 1 and game.startswith("p@"):
                continue
            for name in NAMES:
                for player, lengths in players(name, judge, top, k):
                    draw = drawn(STATIONARY[label], lengths[-1])
                    lost = played(player, draw, judge, k, runs, lengths, FIRST_SEED).regrets
                    for length, column in zip(lengths, lost.T, strict=True):
                        mean, sd = spread(column / length)
                        yield Benchmark(name, player.horizon is not None, game, k, label, length, mean, sd)


def visitors(runs: int) -> Iterator[ResponseRateBenchmark]:
    """Measure the loss per visit in the tutorial's setting at response rates of 100, 20 and 5 %."""
    for name in NAMES[:3] + NAMES[5:]:
        for crowd in CROWDS[:3]:
            mean, sd = spread(np.array([asked(name, crowd, FIRST_SEED + run) for run in range(runs)]))
            yield ResponseRateBenchmark(name, float(crowd.propensity[0]), mean, sd)


def spread(values: Floats) -> tuple[float, float]:
    """Return mean and standard deviation in four digits."""
    return float(f"{values.mean():.4g}"), float(f"{values.std(ddof=1):.4g}")


def told(rows: Iterator[Any]) -> list[list[Any]]:
    """Measure all learners and print each result."""
    found = []
    for row in rows:
        sys.stderr.write(f"{row}\n")
        found.append(list(row))
    return found


def measured(what: str, runs: int, visited: int) -> str:
    """Write the file of the package; what is not measured stays as it is."""
    before = json.loads(FILE.read_text(encoding="utf-8"))
    head = {
        "script": "python experiments/choosing.py --measure",
        "first seed": FIRST_SEED,
        "runs": before["runs"] if what == "visitors" else runs,
        "runs with visitors": visited,
    }
    parts = {
        "streams": before["streams"] if what == "visitors" else told(streams(runs)),
        "visitors": told(visitors(visited)),
    }
    lines = [f'  "{key}": {json.dumps(value)}' for key, value in head.items()]
    for key, rows in parts.items():
        lines.append(f'  "{key}": [\n' + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def horizons(runs: int) -> Iterator[str]:
    """Measure the worst stream of the study and the mean over all, without a horizon and with it."""
    heads = [f"{what}, horizon {known}" for what in ("worst stream", "mean") for known in ("unknown", "known")]
    yield f"| m = 5, {LAB:,} rounds | {' | '.join(heads)} |"
    yield "|---|---|---|---|---|"
    for name, game, k in IN_LABORATORY:
        judge, worst, means = measure(game), [], []
        for context in ({}, {"horizon": LAB}):
            player = learner(name, measure=judge, **context)
            found = {
                source.label: played(player, drawn_from(source.stream), judge, k, runs, (LAB,))
                for source in family(game, 5, k, LAB)
            }
            label = max(found, key=lambda label: found[label].worse_than)
            worst.append(f"{found[label]} ({label})")
            means.append(f"{np.mean([lost.mean for lost in found.values()]):,.0f}")
        yield f"| {name}, `{game}`, k = {k} | {' | '.join(worst + means)} |"


def recorded() -> list[records.Table]:
    """Return the tables of the record, from the file of the package."""
    few: dict[str, list[records.Cell]] = {}
    for one in benchmarks.visitors():
        few.setdefault(f"`{one.learner}`", []).append(records.Figure(one.mean, one.sd, digits=4))
    columns = ["learner", *(f"{crowd.propensity[0]:.0%} answer".replace("%", " %") for crowd in CROWDS[:3])]
    tables = [records.Table("Few answers", columns=columns, rows=[[name, *cells] for name, cells in few.items()])]
    found: dict[str, dict[tuple[str, str, str], dict[int, records.Figure]]] = {}
    for row in benchmarks.streams():
        game = found.setdefault(f"Stationary streams, {row.measure}, k = {row.k}", {})
        cells = game.setdefault((f"`{row.learner}`", "yes" if row.knows_horizon else "no", row.stream), {})
        cells[row.rounds] = records.Figure(row.mean, row.sd)
    columns = ["learner", "knows the horizon", "stream", *(f"{length:,} rounds" for length in LENGTHS)]
    for title, game in found.items():
        rows: list[list[records.Cell]] = [[*key, *map(cells.get, LENGTHS)] for key, cells in game.items()]
        tables.append(records.Table(title, columns=columns, rows=rows))
    return tables


class When(NamedTuple):
    """A situation, the arguments of `advise` for it, and which of its learners to show."""

    situation: str
    problem: tuple[str, int, int, int]  # measure, items, answers, grades
    stable: bool = False


DCG_PROBLEM = ("dcg", 10, 1, 2)
WHEN = (
    When("stable tastes, separable measure, any k", DCG_PROBLEM, stable=True),
    When("stable tastes, `p@n+sum`, any k", ("p@3+sum", 10, 1, 2), stable=True),
    When("stable tastes, items come and go", DCG_PROBLEM, stable=True),
    When("changing tastes, separable measure, any k", DCG_PROBLEM),
    When("changing tastes, `p@n+sum`, any k", ("p@3+sum", 10, 1, 2)),
    When("changing tastes, all positions that count are seen (`dcg@3`, k = 3)", ("dcg@3", 10, 3, 2)),
    When("changing tastes, everything is seen (k = m)", ("dcg", 10, 10, 2)),
    When("not separable, up to six items, k = m", ("ndcg", 4, 4, 2)),
    When("`ndcg`, more items than answers", ("ndcg", 10, 1, 2)),
)
HEAD = ("your situation", "learner", "guarantee", "few answers", "items come and go")


def which_learner_when() -> list[str]:
    """Tabulate the advice of the package."""
    rows = [
        HEAD,
        *(row(when, advise(*when.problem[:3], grades=when.problem[3])) for when in WHEN),
    ]
    rows += [
        (
            "unsure whether tastes are stable",
            linked("champion"),
            "right promotions, with probability 0.95",
            "",
            "no",
        ),
        ("items have features", f"{linked('ridge')}, {linked('rtopkf')} or {linked('auto')}", "", "", "yes"),
    ]
    head, *lines = ("| " + " | ".join(cells) + " |" for cells in rows)
    return [head, "|---" * len(HEAD) + "|", *lines]


def row(when: When, advice: Advice) -> tuple[str, ...]:
    """Return a line of the table."""
    spec = advice.stationary if when.stable else advice.learner
    if spec is None:
        other = "; ".join(f"learn `{change.measure}` instead" for change in advice.changes if change.k == advice.k)
        return (when.situation, "none", f"hopeless; {other}", "", "")
    found = next(found for found in advice.evidence if found.learner == spec)
    certain = str(advice.guarantee) if spec == advice.learner else "T^(2/3) if stable, safe variant"
    few = figures(found.loss_by_response_rate.values(), " / ")
    return (
        when.situation,
        linked(spec.partition(":")[0]),
        certain,
        few,
        "yes" if found.items_come_and_go else "no",
    )


def linked(name: str) -> str:
    """Link a learner to its page."""
    return f"[{name}]({name}.md)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the record, or print the table."""
    parser = argparse.ArgumentParser(description="Which learner when.")
    parser.add_argument(
        "--measure", nargs="?", const="all", choices=("all", "visitors"), help="write the file of the package"
    )
    parser.add_argument("--horizon", action="store_true", help="compare learners with and without their horizon")
    parser.add_argument("--runs", type=int, default=RUNS, help="on streams")
    parser.add_argument("--visited", type=int, default=VISITED, help="runs at each response rate")
    records.add_option(parser, "choosing")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ShortHorizonWarning)
    if options.measure:
        FILE.write_text(measured(options.measure, options.runs, options.visited), encoding="utf-8")
    if options.horizon:
        tables = [records.parse_table("With and without the horizon", list(horizons(options.runs)))]
    else:
        tables = recorded()
    if options.record:
        records.update(options.record, tables)
    elif not options.measure:
        print(records.show(tables) if options.horizon else "\n".join(which_learner_when()))


if __name__ == "__main__":
    main()
