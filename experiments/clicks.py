"""What a wrong position curve does to learners: the table and the picture of docs/evidence/clicks.md.

Ten items with means from 0.9 to 0.1. People look at place p of the first five with probability 1/p, and click on
what they like. The learner is told clicks that are corrected by the curve (1/p)^strength: strength 0 takes silence
for 0, 1 is the truth, 2 corrects too much. What is lost is DCG by the true means, in the later half of the rounds.

    python experiments/clicks.py                                     print the table (three minutes)
    python experiments/clicks.py --runs 2                            fewer runs
    python experiments/clicks.py --page docs/evidence/clicks.md      put it into the page, with the picture
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from peekrank import DCG, Agent
from peekrank.evidence.clicks import Form, Rule, correct
from peekrank.learners import learner as learner_named
from peekrank.reports import plots
from peekrank.reports.markup import put_into
from peekrank.reports.style import blank, draw, finish, look, spread_of_runs, styled
from peekrank.streams.clicks import PositionBased
from peekrank.types import Floats

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "clicks-wrong-curve.svg"
BEGIN = "<!-- begin: python experiments/clicks.py --page docs/evidence/clicks.md -->"
M, K, ROUNDS = 10, 5, 20_000
MEANS = np.linspace(0.9, 0.1, M)
TRUTH = PositionBased(tuple(1 / np.arange(1.0, K + 1)))
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
LEARNERS = ("doubtsort", "greedy:epsilon=0.1", "uniform")
RUNS = 10
FIRST = 6_000  # number of the first run


def assumed(strength: float) -> PositionBased:
    """A power of the true curve."""
    return PositionBased(tuple(part**strength for part in TRUTH.relevant))


def lost(name: str, strength: float, run: int, rounds: int = ROUNDS) -> float:
    """DCG that is lost per round in the second half, as a share of the best."""
    rng, curve = np.random.default_rng(run), assumed(strength)
    form = Form((Rule("click", 1),), "curve", curve)
    agent = Agent(learner_named(name, measure=DCG()), m=M, k=K, seed=run)
    discount = DCG().discount(M)
    means = rng.permutation(MEANS)
    best, values = discount @ MEANS, np.empty(rounds)
    liked, coins = rng.random((rounds, M)) < means, rng.random((rounds, K))
    for t in range(rounds):
        decision = agent.rank()
        clicks = TRUTH.draw(liked[t, decision.ranking[:K]].astype(np.float64), rng)
        agent.update(decision, form.as_grades(correct(clicks, curve), coins[t]))
        values[t] = discount @ means[decision.ranking]
    return float(1 - values[rounds // 2 :].mean() / best)


def measured(runs: Sequence[int]) -> dict[str, Floats]:
    """What each learner loses: a row for each run, a column for each strength."""
    return {name: np.array([[lost(name, s, run) for s in STRENGTHS] for run in runs]) for name in LEARNERS[:2]}


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
        cells = [f"{100 * c[:, column].mean():.2f} ± {100 * c[:, column].std(ddof=1):.2f}" for c in found.values()]
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
    parser = argparse.ArgumentParser(description="What a wrong position curve does.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    runs = range(FIRST, FIRST + options.runs)
    found = measured(runs)
    lines = table(found, np.array([lost("uniform", 1.0, run, 2_000) for run in runs]))
    if options.page:
        put_into(options.page, BEGIN, lines)
        plots.save_as(picture(found), PICTURE)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
