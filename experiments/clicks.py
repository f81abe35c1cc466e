"""Learn from clicks: the tables and the picture of records/clicks.json.

There are ten items with means from 0.9 to 0.1, and five positions. The loss is the DCG by true relevance that is
lost in the second half of the rounds. In the first table, users examine position p with probability 1/p, and the
learner gets clicks that are corrected by the curve (1/p)^strength: strength 0 counts a missing click as 0, 1 is
the true curve, and 2 overcorrects. The second table has other click models and feedback rules.

    python experiments/clicks.py                                     print the tables (a minute)
    python experiments/clicks.py --runs 2                            fewer runs
    python experiments/clicks.py --record                            write them into the record, with the picture
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import records
from matplotlib.figure import Figure

from peekrank import DCG, Bernoulli, simulate
from peekrank.learners import learner as learner_named
from peekrank.reports import plots
from peekrank.reports.style import blank, draw, finish, look, spread_of_runs, styled
from peekrank.streams import Clicks
from peekrank.streams.clicks import Cascade, ClickModel, DependentClick, PositionBased
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
    forms = {"silence taken for 0": RAW, "cascade": parse_rules("click = 1; cascade"), "true curve": None}
    lines = ["| people | " + " | ".join(forms) + " |", "|---|" + "---|" * len(forms)]
    for words, people in PEOPLE.items():
        cells = []
        for taken in forms.values():
            if taken is None and not isinstance(people, PositionBased):
                cells.append("there is none")
            else:
                cells.append(_spread(np.array([lost(LEARNERS[0], people, taken, run) for run in runs])))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return records.parse_table("Other people", lines, [f"The same for `{LEARNERS[0]}` and other people."])


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
        note = {0.0: " (silence taken for 0)", 1.0: " (the truth)"}.get(strength, "")
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
        axes.set_xlabel("assumed curve, as a power of the true one (0: silence taken for 0)")
        axes.set_ylim(bottom=0)
        axes.legend()
        finish(figure, axes)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="Learning from clicks.")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "clicks")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
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
