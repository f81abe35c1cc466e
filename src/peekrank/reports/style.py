"""Style of the figures: colours, axes, and curves with bands. `reports.plots` draws the content."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import numpy as np

from peekrank._util.extras import extra
from peekrank._util.text import presentable
from peekrank.types import Floats, Ints

with extra("cli"):
    from matplotlib import style
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

# Okabe and Ito's colours for all kinds of colour vision, without the yellow that is pale on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
WIDTH, _HEIGHT, LEGEND_ROW = 4.7, 3.2, 0.18  # inches; small, so that text stays readable on a phone
_LABEL_LENGTH = 32
_FEW_POINTS = 10
_STYLE: dict[str, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 8,
    "axes.xmargin": 0.02,
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3,
    "legend.title_fontsize": 8,
    "pdf.fonttype": 42,  # publishers reject Type 3
    "ps.fonttype": 42,
    "svg.hashsalt": "peekrank",
    "text.parse_math": False,
}


class Look(NamedTuple):
    """Appearance of a learner's curve, by its position among the learners."""

    position: int
    colour: str
    marker: str
    dashes: str = "-"


class Spread(NamedTuple):
    """Mean over runs and the edges of its band. The edges are NaN for a single run."""

    mean: Floats
    low: Floats
    high: Floats


class StyledFigure(Figure):
    """A figure that is saved in our style, and to PDF with Type 42 fonts, whatever the user's settings are."""

    def savefig(self, *args: Any, **options: Any) -> None:
        """Write the figure to a file, as matplotlib does."""
        with styled():
            super().savefig(*args, **options)


def look(position: int) -> Look:
    """Return colour and marker for a position. No two of the first 63 positions share both.

    >>> look(8)
    Look(position=8, colour='#D55E00', marker='>', dashes='-')
    """
    return Look(position, COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)])


def styled() -> AbstractContextManager[None]:
    """Return a context with our style on top of matplotlib's default, independent of the user's settings."""
    return style.context(["default", _STYLE])


def spread_of_runs(curves: Floats) -> Spread:
    """Return mean and spread of curves with one row per run.

    >>> spread_of_runs(np.array([[1.0, 2.0], [3.0, 2.0]])).high.round(2).tolist()
    [3.41, 2.0]
    """
    return spread_of_points(mean_and_deviation(curves).T)


def mean_and_deviation(curves: Floats) -> Floats:
    """Return mean and standard deviation over runs as two rows. The deviation of a single run is NaN.

    >>> mean_and_deviation(np.array([[1.0, 2.0], [3.0, 2.0]])).round(2).tolist()
    [[2.0, 2.0], [1.41, 0.0]]
    """
    mean = curves.mean(axis=0)
    return np.stack([mean, curves.std(axis=0, ddof=1) if len(curves) > 1 else np.full_like(mean, np.nan)])


def spread_of_points(points: Floats) -> Spread:
    """Return the spread from rows of mean and standard deviation."""
    mean, deviation = points.T
    return Spread(mean, mean - deviation, mean + deviation)


def blank(title: str, quantity: str, *, scale: Literal["linear", "log"], legend_rows: int) -> tuple[Figure, Axes]:
    """Return a figure with empty axes and rounds on the horizontal axis. Draw on it, then call `finish`."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    figure = StyledFigure(figsize=(WIDTH, _HEIGHT + LEGEND_ROW * legend_rows), layout=layout)
    axes = figure.subplots()
    axes.set_title(title)
    axes.set(xlabel="rounds", ylabel=quantity, xscale=scale, yscale=scale)
    return figure, axes


def draw(axes: Axes, t: Ints, spread: Spread, look: Look, *, label: str) -> Line2D:
    """Draw a curve with its band, if it has one."""
    (line,) = axes.plot(
        t, spread.mean, look.dashes, color=look.colour, marker=look.marker, ms=4.5, lw=1.6, label=label
    )
    line.set_markevery(mark_positions(t, look.position, geometric=axes.get_xscale() == "log"))
    if not np.isnan(spread.low).all():
        axes.fill_between(t, spread.low, spread.high, color=look.colour, alpha=0.2, linewidth=0)
    return line


def mark_positions(t: Ints, position: int, *, geometric: bool) -> list[int]:
    """Return the marker positions of a curve: all of few points, else six that differ from its neighbours'.

    >>> mark_positions(np.arange(1, 101), 0, geometric=False)
    [3, 19, 36, 52, 69, 85]
    """
    if len(t) <= _FEW_POINTS:
        return list(range(len(t)))
    positions = (np.arange(6) + (position + 0.5) / 4 % 1) / 6
    targets = t[0] * (t[-1] / t[0]) ** positions if geometric else t[0] + (t[-1] - t[0]) * positions
    return [int(i) for i in np.unique(np.searchsorted(t, targets))]


def finish(figure: Figure, axes: Axes) -> None:
    """Format the numbers on both axes, then fix the layout so that rendering again gives the same bytes."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1,) if high / low >= 100 else (1, 2, 5), numticks=6))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
        axis.set_major_formatter(FuncFormatter(thousands))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def shorten(text: str) -> str:
    """Shorten a name to fit a legend, by cutting its middle.

    >>> shorten("adversary:path=certificates/ndcg.json,side=p")
    'adversary:…ates/ndcg.json,side=p'
    """
    text = presentable(text)
    return text if len(text) <= _LABEL_LENGTH else f"{text[:10]}…{text[11 - _LABEL_LENGTH :]}"


def thousands(value: float, _: int | None = None) -> str:
    """Format a number on an axis.

    >>> thousands(10_000), thousands(0.25)
    ('10,000', '0.25')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"
