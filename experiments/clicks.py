"""Learning from clicks: the tables and the picture of docs/evidence/clicks.md.

Ten items with means from 0.9 to 0.1, five places. What is lost is DCG by the true relevance, in the later half of
the rounds. First, people look at place p with probability 1/p, and the learner is told clicks that are corrected
by the curve (1/p)^strength: strength 0 takes silence for 0, 1 is the truth, 2 corrects too much. Then people who
click in other ways, and what can be made of their clicks.

    python experiments/clicks.py                                     print the tables (a minute)
    python experiments/clicks.py --runs 2                            fewer runs
    python experiments/clicks.py --page docs/evidence/clicks.md      put them into the page, with the picture
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from peekrank.streams.forms import Form, Rule, form

from peekrank import DCG, Means, simulate
from peekrank.learners import learner as learner_named
from peekrank.reports import plots
from peekrank.reports.markup import put_into
from peekrank.reports.style import blank, draw, finish, look, spread_of_runs, styled
from peekrank.streams import Clicked
from peekrank.streams.clicks import Cascade, ClickModel, DependentClick, PositionBased
from peekrank.types import Floats

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "clicks-wrong-curve.svg"
BEGIN = "<!-- begin: python experiments/clicks.py --page docs/evidence/clicks.md -->"
M, K, ROUNDS = 10, 5, 20_000
MEANS = np.linspace(0.9, 0.1, M)
TRUTH = PositionBased(tuple(1 / np.arange(1.0, K + 1)))
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
LEARNERS = ("doubtsort", "greedy:epsilon=0.1", "uniform")
RUNS = 40
FIRST = 7_000  # number of the first run
RAW = form("click = 1; curve" + " 1" * K)
PEOPLE: dict[str, ClickModel] = {
    "look at place p with probability 1/p": TRUTH,
    "the same, and click on one in ten that they do not like": PositionBased(
        TRUTH.relevant, tuple(part / 10 for part in TRUTH.relevant)
    ),
    "leave after a click": Cascade(),
    "leave after a click, and skip every other place": Cascade(skip=0.5),
    "stay with probability 1/2 after a click": DependentClick((0.5,) * K),
}


def assumed(strength: float) -> Form:
    """A power of the true curve."""
    return Form((Rule("click", 1),), "curve", PositionBased(tuple(a**strength for a in TRUTH.relevant)))


def lost(name: str, people: ClickModel, taken: Form | None, run: int, rounds: int = ROUNDS) -> float:
    """DCG that is lost per round in the second half, as a share of what the order of the means has."""
    rng = np.random.default_rng(run)
    means, half = rng.permutation(MEANS), rounds // 2
    drawn = Clicked(Means(tuple(means.tolist())), people, taken).rounds(rounds, rng)
    learner, at = learner_named(name, measure=DCG()), np.array([half, rounds])
    value = np.diff(simulate(learner, drawn, k=K, measure=DCG(), seed=run, at=at).value)[0]
    relevance = drawn.relevance.reshape(-1, M)[half:]
    best = DCG().values(np.tile(np.argsort(-means), (len(relevance), 1)), relevance).sum()
    return float(1 - value / best)


def measured(runs: Sequence[int]) -> dict[str, Floats]:
    """What each learner loses: a row for each run, a column for each strength."""
    return {
        name: np.array([[lost(name, TRUTH, assumed(s), run) for s in STRENGTHS] for run in runs])
        for name in LEARNERS[:2]
    }


def other_people(runs: Sequence[int]) -> list[str]:
    """What doubtsort loses with people of all kinds, whatever is made of their clicks."""
    forms = {"silence taken for 0": RAW, "cascade": form("click = 1; cascade"), "true curve": None}
    lines = [
        "", f"The same for `{LEARNERS[0]}` and other people:", "",
        "| people | " + " | ".join(forms) + " |", "|---|" + "---|" * len(forms),
    ]  # fmt: skip
    for words, people in PEOPLE.items():
        cells = []
        for taken in forms.values():
            if taken is None and not isinstance(people, PositionBased):
                cells.append("there is none")
            else:
                cells.append(_spread(np.array([lost(LEARNERS[0], people, taken, run) for run in runs])))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def _spread(losses: Floats) -> str:
    return f"{100 * losses.mean():.2f} ± {100 * losses.std(ddof=1):.2f}"


def table(found: dict[str, Floats], random: Floats) -> list[str]:
    """Means and standard deviations over runs."""
    worst, spread = 100 * random.mean(), f"mean ± standard deviation of {len(random)} runs"
    lines = [
        f"DCG lost in the second half of {ROUNDS:,} rounds, in % of the best, {spread};",
        f"random lists lose {worst:.1f} %:", "",
        "| curve, as a power of the true one | " + " | ".join(f"`{name}`" for name in found) + " |",
        "|---|" + "---|" * len(found),
    ]  # fmt: skip
    for column, strength in enumerate(STRENGTHS):
        note = {0.0: " (silence taken for 0)", 1.0: " (the truth)"}.get(strength, "")
        cells = [_spread(curves[:, column]) for curves in found.values()]
        lines.append(f"| {strength:g}{note} | {' | '.join(cells)} |")
    return lines


def picture(found: dict[str, Floats]) -> Figure:
    """What is lost against the curve that is assumed."""
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
    """Print the table, or put it into the page."""
    parser = argparse.ArgumentParser(description="Learning from clicks.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    runs = range(FIRST, FIRST + options.runs)
    found = measured(runs)
    lines = table(found, np.array([lost("uniform", TRUTH, None, run) for run in runs])) + other_people(runs)
    if options.page:
        put_into(options.page, BEGIN, lines)
        plots.save_as(picture(found), PICTURE)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
