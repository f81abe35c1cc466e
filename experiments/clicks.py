"""Learn from clicks: the tables and the picture of records/clicks.json.

There are ten items with means from 0.9 to 0.1, and five positions. The loss is the DCG by true relevance that is
lost in the second half of the rounds. In the first table, users examine position p with probability 1/p, and the
learner gets clicks that are corrected by the curve (1/p)^strength: strength 0 counts a missing click as 0, 1 is
the true curve, and 2 overcorrects. The second table has other click models and feedback rules. The last two have
the coverage of the intervals of `estimate_curve` where items have few decisions, and its bias where clicks move
items.

    python experiments/clicks.py                                     print the tables (a minute)
    python experiments/clicks.py --runs 2                            fewer runs
    python experiments/clicks.py --record                            write them into the record, with the picture
    python experiments/clicks.py --coverage --record                 only the coverage of intervals (a minute)
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import records
from matplotlib.figure import Figure

from peekrank import DCG, Bernoulli, simulate
from peekrank.evaluation.log import Log
from peekrank.evaluation.position_bias import estimate_curve
from peekrank.learners import learner as learner_named
from peekrank.reports import plots
from peekrank.reports.style import blank, draw, finish, look, spread_of_runs, styled
from peekrank.streams import Clicks
from peekrank.streams.clicks import Cascade, ClickModel, DependentClick, PositionBased, draw_clicks
from peekrank.streams.feedback_rules import FeedbackRules, Rule, parse_rules
from peekrank.types import Floats

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "clicks-wrong-curve.svg"
M, K, ROUNDS = 10, 5, 20_000
MEANS = np.linspace(0.9, 0.1, M)
TRUTH = PositionBased(tuple(1 / np.arange(1.0, K + 1)))
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
LEARNERS = ("doubtsort", "greedy:epsilon=0.1", "uniform")
RUNS = 40
FIRST = 7_000  # number of the first run
RAW = parse_rules("click = 1; curve" + " 1" * K)
CURVE = np.array([1.0, 0.6, 0.4, 0.25])  # of the logs with few decisions
FEW = ((1000, 2), (300, 4), (100, 10))  # items, and decisions of each
LOGS = 2_000
LEARNED = ((1000, 2), (300, 20), (100, 200), (20, 1000))  # the same, where clicks move items
FEW_LOGS = 50
PEOPLE: dict[str, ClickModel] = {
    "look at position p with probability 1/p": TRUTH,
    "the same, and click on one in ten that they do not like": PositionBased(
        TRUTH.if_relevant, tuple(part / 10 for part in TRUTH.if_relevant)
    ),
    "leave after a click": Cascade(),
    "leave after a click, and skip every other position": Cascade(skip=0.5),
    "stay with probability 1/2 after a click": DependentClick((0.5,) * K),
}


def assumed(strength: float) -> FeedbackRules:
    """Return a power of the true curve."""
    return FeedbackRules(
        (Rule("click", 1),), "curve", PositionBased(tuple(a**strength for a in TRUTH.if_relevant))
    )


def lost(name: str, people: ClickModel, taken: FeedbackRules | None, run: int, rounds: int = ROUNDS) -> float:
    """Measure the lost DCG per round in the second half, as a share of the DCG of the order of the means."""
    rng = np.random.default_rng(run)
    means, half = rng.permutation(MEANS), rounds // 2
    drawn = Clicks(Bernoulli(tuple(means.tolist())), people, taken).rounds(rounds, rng)
    learner, checkpoints = learner_named(name, measure=DCG()), np.array([half, rounds])
    value = np.diff(simulate(learner, drawn, k=K, measure=DCG(), seed=run, checkpoints=checkpoints).value)[0]
    relevance = drawn.relevance.reshape(-1, M)[half:]
    best = DCG().values(np.tile(np.argsort(-means), (len(relevance), 1)), relevance).sum()
    return float(1 - value / best)


def measured(runs: Sequence[int]) -> dict[str, Floats]:
    """Measure the loss of each learner, with a row for each run and a column for each strength."""
    return {
        name: np.array([[lost(name, TRUTH, assumed(s), run) for s in STRENGTHS] for run in runs])
        for name in LEARNERS[:2]
    }


def other_people(runs: Sequence[int]) -> records.Table:
    """Measure the loss of doubtsort for each click model and each feedback rule."""
    rules = {"missing clicks as 0": RAW, "cascade": parse_rules("click = 1; cascade"), "true curve": None}
    lines = ["| people | " + " | ".join(rules) + " |", "|---|" + "---|" * len(rules)]
    for words, people in PEOPLE.items():
        cells = []
        for taken in rules.values():
            if taken is None and not isinstance(people, PositionBased):
                cells.append("there is none")
            else:
                cells.append(_spread(np.array([lost(LEARNERS[0], people, taken, run) for run in runs])))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return records.parse_table("Other people", lines, [f"The same for `{LEARNERS[0]}` and other people."])


def few_decisions(items: int, times: int, least: float, seed: int, *, learned: bool = False) -> Log:
    """Draw a log in which each item has a few decisions, in lists with the better items mostly on top.

    Relevance is uniform from `least` to 1. Lists are as long as the curve. They are sorted by relevance and luck
    or, if `learned`, by the clicks so far and luck.
    """
    rng, k = np.random.default_rng([FIRST, seed]), len(CURVE)
    relevance, clicked = rng.uniform(least, 1, items), np.zeros(items)
    lists, clicks = [], []
    for before in range(times):
        known = (clicked + 0.5) / (before + 1) if learned else relevance
        drawn = rng.permutation(items).reshape(-1, k)
        order = np.argsort(-(known[drawn] + rng.normal(0, 0.3, drawn.shape)), axis=1)
        lists.append(np.take_along_axis(drawn, order, 1))
        clicks.append(draw_clicks(PositionBased(tuple(CURVE)), relevance[lists[-1]], rng).astype(np.float64))
        clicked[lists[-1]] += clicks[-1]
    n, unknown = items * times // k, np.full(items * times, np.nan)
    return Log(
        pl.Series("event", np.arange(n)).cast(pl.String), np.full(n, np.nan), np.full(n, k), np.zeros(n, np.int64),
        np.arange(n + 1) * k, np.concatenate(lists).reshape(-1), np.tile(np.arange(k), n), unknown,
        np.concatenate(clicks).reshape(-1), unknown, tuple(map(str, range(items))), ("",), ("",),
    )  # fmt: skip


def moved_by_clicks(logs: int) -> records.Table:
    """Measure the bias of the estimated curve if the clicks on an item decide where it stands next."""
    heads = [f"position {p}, truth {part:g}" for p, part in enumerate(CURVE[1:], start=2)]
    lines = [f"| items x decisions | {' | '.join(heads)} |", "|---" * len(CURVE) + "|"]
    for items, times in LEARNED:
        found = [estimate_curve(few_decisions(items, times, 0.0, s, learned=True)).examined for s in range(logs)]
        cells = " | ".join(
            f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(np.mean(found, 0), np.std(found, 0, ddof=1), strict=True)
        )
        lines.append(f"| {items:,} x {times} | {cells.partition(' | ')[2]} |")
    text = "Estimated examination if lists are sorted by the clicks so far and luck; mean ± standard deviation."
    return records.parse_table("Items moved by their own clicks", lines, [text], **_facts(logs))


def coverage(logs: int) -> records.Table:
    """Measure how often the intervals of the estimated curve contain the true one."""
    heads = [f"position {p}" for p in range(2, len(CURVE) + 1)]
    lines = [f"| relevance | items x decisions | {' | '.join(heads)} | width |", "|---" * (len(CURVE) + 2) + "|"]
    for least in (0.0, 0.9):
        for items, times in FEW:
            curves = [estimate_curve(few_decisions(items, times, least, seed)) for seed in range(logs)]
            held = np.mean([(c.low[1:] <= CURVE[1:]) & (CURVE[1:] <= c.high[1:]) for c in curves], axis=0)
            radius = np.mean([np.log(c.high[1:] / c.low[1:]) / 2 for c in curves], axis=0)
            needed = 1.96 * np.std([np.log(c.examined[1:]) for c in curves], axis=0)
            wide = f"{(radius / needed).min():.2f} to {(radius / needed).max():.2f}"
            cells = " | ".join(f"{100 * share:.1f} %" for share in held)
            lines.append(f"| {least:g} to 1 | {items:,} x {times} | {cells} | {wide} |")
    text = (
        "Share of logs in which the 95 % interval of `estimate_curve` contains the true examination, relative to "
        f"the first position: {', '.join(f'{part:g}' for part in CURVE[1:])}. Better items stand higher. *Width* "
        "compares with 1.96 standard deviations of the estimates, over the positions."
    )
    return records.parse_table("Intervals of the curve with few decisions", lines, [text], **_facts(logs))


def _facts(logs: int) -> dict[str, str]:
    return {"command": "python experiments/clicks.py --coverage --record", "runs": f"{logs:,} logs in each row"}


def _spread(losses: Floats) -> str:
    return f"{100 * losses.mean():.2f} ± {100 * losses.std(ddof=1):.2f}"


def table(found: dict[str, Floats], random: Floats) -> records.Table:
    """Tabulate means and standard deviations over runs."""
    lost = f"random lists lose {100 * random.mean():.1f} %"
    text = f"DCG lost in the second half of {ROUNDS:,} rounds, in % of the best; {lost}."
    lines = [
        "| curve, as a power of the true one | " + " | ".join(f"`{name}`" for name in found) + " |",
        "|---|" + "---|" * len(found),
    ]  # fmt: skip
    for column, strength in enumerate(STRENGTHS):
        note = {0.0: " (missing clicks as 0)", 1.0: " (the truth)"}.get(strength, "")
        cells = [_spread(curves[:, column]) for curves in found.values()]
        lines.append(f"| {strength:g}{note} | {' | '.join(cells)} |")
    pictures = {PICTURE.name: "DCG lost against the assumed curve"}
    return records.parse_table("A wrong curve", lines, [text], pictures=pictures)


def picture(found: dict[str, Floats]) -> Figure:
    """Draw the loss against the assumed curve."""
    with styled():
        figure, axes = blank("What a wrong position curve costs", "DCG lost, %", scale="linear", legend_rows=1)
        for position, (name, curves) in enumerate(found.items()):
            draw(axes, np.array(STRENGTHS), spread_of_runs(100 * curves), look(position), label=name)
        axes.set_xlabel("assumed curve, as a power of the true one (0: missing clicks count as 0)")
        axes.set_ylim(bottom=0)
        axes.legend()
        finish(figure, axes)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="Learning from clicks.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--coverage", type=int, nargs="?", const=LOGS, help="only the intervals, on so many logs")
    records.add_option(parser, "clicks")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    if options.coverage:
        print(records.show(tables := [coverage(options.coverage), moved_by_clicks(FEW_LOGS)]))
        if options.record:
            records.update(options.record, tables)
        return
    runs = range(FIRST, FIRST + options.runs)
    found = measured(runs)
    tables = [table(found, np.array([lost("uniform", TRUTH, None, run) for run in runs])), other_people(runs)]
    if options.record:
        records.update(options.record, tables)
        plots.save_as(picture(found), options.picture)
    else:
        print(records.show(tables))


if __name__ == "__main__":
    main()
