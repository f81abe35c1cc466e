"""Draw docs/pictures/peek.svg: one round, and the loss over many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from peekrank import CT15, DCG, learner, simulate
from peekrank.regret import best_values, regret
from peekrank.reports import plots
from peekrank.types import Floats, Ints

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "peek.svg"
ITEMS, ROUNDS, RUNS = 10, 20_000, 10
CURVES = {  # label, where it stands, colour
    "uniform": ("random orders", (500, 0.71), "#666666"),
    "rtop1f": ("RTop-1F (2015)", (30, 0.5), "#D55E00"),
    "doubtsort": ("doubtsort", (100, 0.13), "#0072B2"),
}


def average_regret(name: str, checkpoints: Ints) -> Floats:
    """Measure the regret per round of a learner, as mean over runs."""
    total = np.zeros(len(checkpoints))
    for run in range(RUNS):
        rounds = CT15(m=ITEMS).rounds(ROUNDS, np.random.default_rng(run))
        made = learner(name, measure=DCG(), horizon=ROUNDS)
        trace = simulate(made, rounds, k=1, measure=DCG(), seed=run, checkpoints=checkpoints)
        total += regret(DCG(), trace, best_values(DCG(), rounds, checkpoints))
    return np.asarray(total / checkpoints / RUNS)


def draw_round(axes: Axes) -> None:
    """Draw a list with feedback for its first item, while the whole list counts."""
    axes.set(xlim=(0, 10), ylim=(0, 10))
    axes.axis("off")
    for position in range(6):
        asked = position == 0
        box = FancyBboxPatch(
            (0.5, 8.4 - 1.5 * position), 3.4, 1.0, boxstyle="round,pad=0,rounding_size=0.2", linewidth=1.2,
            facecolor="#cfe4f5" if asked else "#f2f2f2", edgecolor="#0072B2" if asked else "#bbbbbb",
        )  # fmt: skip
        axes.add_patch(box)
        word = f"item {(7, 2, 9, 0, 4, 1)[position]}" if position < 5 else "..."
        axes.text(
            2.2, 8.9 - 1.5 * position, word, ha="center", va="center", color="#222222" if asked else "#777777"
        )
    axes.text(4.2, 8.9, "asked: relevant?", va="center", color="#0072B2")
    axes.plot([4.2, 4.5, 4.5, 4.2], [7.9, 7.9, 0.9, 0.9], color="#bbbbbb")
    axes.text(4.8, 4.4, "not asked about,\nbut it counts", va="center", color="#555555")
    axes.set_title("one round", loc="left", fontsize=11)


def draw_rounds(axes: Axes) -> None:
    """Draw the regret per round against rounds."""
    checkpoints = np.unique(np.geomspace(20, ROUNDS, 60).astype(np.int64))
    for name, (label, position, colour) in CURVES.items():
        axes.plot(checkpoints, average_regret(name, checkpoints), color=colour, linewidth=1.8)
        axes.text(*position, label, color=colour, fontsize=10)
    axes.set(xscale="log", xlim=(20, ROUNDS), ylim=(0, 0.8), xlabel="rounds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("many rounds: DCG lost per round", loc="left", fontsize=11)


def draw() -> Figure:
    """Return both halves side by side."""
    figure = Figure(figsize=(6.6, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    draw_round(left)
    draw_rounds(right)
    return figure


if __name__ == "__main__":
    plots.save_as(draw(), PICTURE)
