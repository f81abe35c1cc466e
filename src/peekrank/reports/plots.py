"""Figures of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from peekrank._util.atomic import write_whole
from peekrank._util.extras import extra
from peekrank._util.text import pluralize
from peekrank.experiments.experiment import REGRET_NAMES, Result
from peekrank.experiments.study_result import StudyResult
from peekrank.games.rate_table import MEANINGS, Table
from peekrank.games.rates import Rate
from peekrank.measures import measure as measure_named
from peekrank.regret import Exponent
from peekrank.reports.style import (
    LEGEND_ROW,
    WIDTH,
    Look,
    Spread,
    StyledFigure,
    blank,
    draw,
    finish,
    look,
    shorten,
    spread_of_points,
    spread_of_runs,
    styled,
    thousands,
)
from peekrank.training.result import TrainingResult
from peekrank.types import Floats, Ints, Measure

with extra("cli"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

_BOUND_POINTS = 40  # of the curve of a bound
_ROUNDING = 1e-9  # share of the largest regret below which a value is rounding error and would stretch a log axis


def average_regret(
    result: Result,
    *,
    start: int = 1,
    learners: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Plot time-normalised regret R_t / t against t, with mean and one standard deviation over runs.

    Parameters
    ----------
    result
        Curves of an experiment.
    start
        First round to show.
    learners
        Which of the experiment's learners to show; None for all.
    names
        What the legend calls them; others keep their specification.

    References
    ----------
    CT15 Figure 1 (from the start) and Figure 2 (from round 1000 on, with the learner that has full information).
    """
    horizon = result.experiment.horizon
    if not 1 <= start <= horizon:
        raise ValueError(f"start = {start}: must be between 1 and the horizon, {horizon}")
    known = result.experiment.learners
    shown = known if learners is None else learners
    if not shown or not set(shown) <= set(known):
        raise ValueError(f"learners = {list(shown)}: must be some of {list(known)}")
    late = result.checkpoints >= start
    t = result.checkpoints[late]
    with styled():
        title, label = _titles(result, "regret per round", shown, names)
        figure, axes = blank(title, label, scale="linear", legend_rows=len(shown))
        axes.axhline(0, color="#666666", linewidth=0.8)
        for name in shown:
            spread = spread_of_runs(result.regrets(name)[:, late] / t)
            draw(axes, t, spread, look(result.experiment.learners.index(name)), label=legend_name(name, names))
        figure.legend(loc="outside lower left")
        finish(figure, axes)
    return figure


def cumulative_regret(
    result: Result,
    *,
    exponents: Mapping[str, Exponent] | None = None,
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Plot regret R_t against t on log-log axes, with one standard deviation over runs, bounds and exponents.

    A bound is dashed, in the colour of its learner. Its value at t holds for that learner tuned to t rounds. The
    figure omits regret that is not positive.

    Parameters
    ----------
    result
        Curves of an experiment.
    exponents
        Exponents by learner, if known; by default those of `Result.summaries`.
    names
        What the legend calls the learners; others keep their specification.
    """
    shown = result.experiment.learners
    spreads = {name: spread_of_runs(result.regrets(name)) for name in shown}
    t = _bound_rounds(result.checkpoints)
    bounds = {name: bound for name in shown if (bound := result.bound(name, t)) is not None}
    low, high = _log_limits([s.mean for s in spreads.values()], [s.high for s in spreads.values()], bounds)
    if exponents is None:
        exponents = {summary.learner: summary.exponent for summary in result.summaries()}
    looks = [look(position) for position in range(len(shown))]
    labels = {name: legend_name(name, names) for name in shown}
    with styled():
        title, label = _titles(result, "regret", shown, names)
        figure, axes = blank(title, label, scale="log", legend_rows=len(shown) + bool(bounds))
        axes.set_ylim(low, high)
        _draw_with_bounds(axes, result.checkpoints, spreads, looks, exponents, (t, bounds), labels)
        _legend_with_bounds(figure, axes, looks, [name in bounds for name in shown])
        finish(figure, axes)
    return figure


def average_quality(outcome: TrainingResult) -> Figure:
    """Plot the mean quality of the first t rounds against t, with one standard deviation over runs.

    The figure omits the first hundredth of the rounds, which is mostly noise.

    Parameters
    ----------
    outcome
        Curves of a training.

    References
    ----------
    CT16 Figure 1.
    """
    training = outcome.training
    title = f"{shorten(outcome.source)}, top {training.k} revealed\n{_averaged(training.runs)}"
    quantity = f"average {_measure_name(training.make_measure())}"
    shown = outcome.checkpoints >= training.rounds / 100
    with styled():
        figure, axes = blank(title, quantity, scale="linear", legend_rows=len(training.learners))
        for position, name in enumerate(training.learners):
            spread = spread_of_runs(outcome.qualities(name)[:, shown])
            draw(axes, outcome.checkpoints[shown], spread, look(position), label=shorten(name))
        figure.legend(loc="outside lower left")
        finish(figure, axes)
    return figure


def rates(table: Table) -> Figure:
    """Plot the rates of measures for every k as a table whose cells are darker for harder games."""
    columns, rows = len(table.spans), len(table.measures)
    present = {cell.rate for cells in table.cells for cell in cells}
    looks = [(rate, look) for rate, look in _RATES.items() if rate in present]
    with styled():
        size = (max(WIDTH, 1.3 + 0.75 * columns), 1.1 + 0.27 * rows + LEGEND_ROW * len(looks))
        figure = StyledFigure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06))
        axes = figure.subplots()
        for y, cells in enumerate(table.cells):
            for x, cell in enumerate(cells):
                back, front = _RATES[cell.rate]
                axes.add_patch(Rectangle((x, y), 1, 1, facecolor=back, edgecolor="white", linewidth=1.5))
                axes.text(x + 0.5, y + 0.5, cell.rate or "?", color=front, ha="center", va="center", size=8)
        axes.set(xlim=(0, columns), ylim=(rows, 0), xlabel="k, the number of revealed answers")
        axes.set_title(
            f"How regret grows in T rounds: m = {pluralize(table.m, 'item')},\n"
            f"grades 0 to {table.grades - 1}, the first k are revealed"
        )
        spans = [f"{s[0]:,}" if len(s) == 1 else f"{s[0]:,} to {s[-1]:,}" for s in table.spans]
        axes.set_xticks(np.arange(columns) + 0.5, spans)
        axes.set_yticks(np.arange(rows) + 0.5, table.measures)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        patches = [Patch(facecolor=look.back, edgecolor="#666666", label=_meaning(rate)) for rate, look in looks]
        figure.legend(handles=patches, loc="outside lower left", handlelength=1.2)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def shown_when(positions: Floats, rounds: int, title: str) -> Figure:
    """Plot the positions of the items over time: a row for each item, a column for each part of the rounds.

    Parameters
    ----------
    positions
        Mean position, from 1, of each item in each of equal parts of the rounds; NaN if it was not available. The
        first row is on top.
    rounds
        Number of rounds.
    title
        Title of the figure.
    """
    with styled():
        figure, axes = blank(title, "items, the best on top", scale="linear", legend_rows=0)
        axes.grid(visible=False)
        extent = (0.0, float(rounds), float(len(positions)), 0.0)
        image = axes.imshow(positions, cmap="viridis", aspect="auto", interpolation="nearest", extent=extent)
        bar = figure.colorbar(image, ax=axes, label="mean position; white: not available")
        bar.ax.invert_yaxis()
        finish(figure, axes)
        axes.set_yticks([])
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG. The same figure gives the same bytes."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure to a .png, .svg or .pdf file. The same figure gives the same bytes."""
    content = _render(figure, path.suffix.lower()[1:])
    write_whole(path, partial(_write_bytes, content=content))


def inline_svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page: as wide as its box, with a description and unique ids.

    >>> inline_svg(Figure()).startswith('<svg viewBox="0 0 460.8 345.6"')
    True
    """
    content = _render(figure, "svg")
    root = ElementTree.fromstring(content)  # noqa: S314 - written by ourselves
    prefix = f"f{sha256(content).hexdigest()[:10]}-"
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            _local(key): _renamed(_local(key), value, prefix) for key, value in element.attrib.items()
        }
        for child in list(element):
            if _local(child.tag) in ("metadata", "style"):  # its style would apply to the whole page
                element.remove(child)
    for position, (tag, text) in enumerate(zip(("title", "desc"), _describe(figure), strict=True)):
        element = ElementTree.Element(tag, id=prefix + tag)
        element.text = text
        root.insert(position, element)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "width": "100%",
        "role": "img",
        "aria-labelledby": f"{prefix}title {prefix}desc",
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
    return ElementTree.tostring(root, encoding="unicode")


def measure_label(result: Result) -> str:
    """Return the display name of the measure, such as DCG or Precision@3."""
    return _measure_name(result.experiment.parts.measure)


def regret_label(result: Result, quantity: str = "regret") -> str:
    """Return the label of an axis: the quantity, by the kind of regret of the experiment, and the measure."""
    return f"{quantity.replace('regret', REGRET_NAMES[result.experiment.regret])} ({measure_label(result)})"


def worst_regret(findings: StudyResult, *, learners: Sequence[str] | None = None) -> Figure:
    """Plot regret on the worst stream of a family against the horizon, log-log, with bounds and exponents.

    The curves are means over runs, with one standard deviation. Each learner is tuned to each horizon. Thin grey
    lines have the slopes 1/2 and 2/3.

    Parameters
    ----------
    findings
        Result of a study.
    learners
        Which of the study's learners to show; None for all.
    """
    study = findings.study
    shown = study.learners if learners is None else tuple(learners)
    if not shown or not set(shown) <= set(study.learners):
        raise ValueError(f"learners = {list(shown)}: must be some of {list(study.learners)}")
    horizons = np.array(study.horizons)
    worst = {name: findings.worst(name) for name in shown}
    spreads = {name: spread_of_points(np.array([(w.regret, w.spread) for w in ws])) for name, ws in worst.items()}
    bounds = {
        name: np.array([w.bound for w in ws], dtype=np.float64)
        for name, ws in worst.items()
        if all(w.bound for w in ws)
    }
    low, high = _log_limits([s.mean for s in spreads.values()], [s.high for s in spreads.values()], bounds)
    looks = [look(study.learners.index(name)) for name in shown]
    size = f"top {study.k} of {study.m} revealed, worst of {len(study.streams)} streams"
    title = f"{size}\n{_averaged(study.runs)}"
    quantity = f"regret ({_measure_name(measure_named(study.measure))})"
    with styled():
        figure, axes = blank(title, quantity, scale="log", legend_rows=len(shown) + bool(bounds))
        axes.set_xlabel("rounds T, separate runs for each")
        axes.set_ylim(low, high)
        exponents = {name: findings.exponent(name) for name in shown}
        labels = {name: shorten(name) for name in shown}
        _draw_with_bounds(axes, horizons, spreads, looks, exponents, (horizons, bounds), labels)
        _draw_guides(axes, horizons, low)
        _legend_with_bounds(figure, axes, looks, [name in bounds for name in shown])
        finish(figure, axes)
    return figure


class _Shade(NamedTuple):
    """Colours of a cell and of its text."""

    back: str
    front: str


# each is much darker than the one before, so that they also differ without colour
_RATES: dict[Rate | None, _Shade] = {
    Rate.ZERO: _Shade("#f4f4f4", "black"),
    Rate.SQRT: _Shade("#b7e0c3", "black"),
    Rate.TWO_THIRDS: _Shade("#e2942b", "black"),
    Rate.LINEAR: _Shade("#7f1d1d", "white"),
    None: _Shade("white", "black"),
}


def _measure_name(measure: Measure) -> str:
    return type(measure).__name__ + str(measure).removeprefix(measure.name)


def _log_limits(means: list[Floats], highs: list[Floats], bounds: dict[str, Floats]) -> tuple[float, float]:
    values = np.concatenate(means)
    values = values[values > max(0.0, _ROUNDING * float(values.max()))]
    if len(values) == 0:
        return 0.1, max([10.0, *(float(bound.max()) for bound in bounds.values())])
    top = float(np.nanmax(np.concatenate([values, *highs, *bounds.values()])))
    return float(values.min()) / 1.3, top * 1.5


def legend_name(learner: str, names: Mapping[str, str] | None) -> str:
    """Return what a legend calls a learner.

    >>> legend_name("doubtsort", {"doubtsort": "ours"}), legend_name("doubtsort", None)
    ('ours', 'doubtsort')
    """
    return shorten((names or {}).get(learner, learner))


def _titles(
    result: Result, quantity: str, shown: Sequence[str], names: Mapping[str, str] | None
) -> tuple[str, str]:
    """Return the title of a figure and the label of its vertical axis."""
    e = result.experiment
    learners = zip(e.learners, e.parts.learners, strict=True)
    seeing = [legend_name(name, names) for name, one in learners if one.full_information and name in shown]
    revealed = f"top {e.k} of {e.shape.m} revealed"
    if len(seeing) == len(shown):
        revealed = f"all {e.shape.m} revealed"
    elif seeing and e.k < e.shape.m:
        revealed += f", to {', '.join(seeing)} all"
    return f"{shorten(e.stream)}, {revealed}\n{_averaged(e.runs)}", regret_label(result, quantity)


def _averaged(runs: int) -> str:
    return f"mean of {runs} runs, band: ± 1 standard deviation" if runs > 1 else "a single run"


def _draw_with_bounds(
    axes: Axes,
    t: Ints,
    spreads: dict[str, Spread],
    looks: Sequence[Look],
    exponents: Mapping[str, Exponent],
    bounds: tuple[Ints, dict[str, Floats]],
    labels: Mapping[str, str],
) -> None:
    """Draw curves with their exponents, then bounds, dashed in the same colours.

    Set the limits of the axes first.
    """
    low = axes.get_ylim()[0]
    for (name, (mean, *band)), mine in zip(spreads.items(), looks, strict=True):
        slope = exponents[name].value
        label = f"{labels[name]} ({'no exponent' if np.isnan(slope) else f'exponent {slope:.2f}'})"
        shown = Spread(np.where(mean > low, mean, np.nan), *np.maximum(band, low))
        draw(axes, t, shown, mine, label=label)
    rounds, values = bounds
    for name, mine in zip(spreads, looks, strict=True):
        if name in values:
            dashes = (6 * mine.position, (5, 7))  # the dashes of equal bounds alternate
            axes.plot(
                rounds, values[name], color=mine.colour, ls=dashes, lw=1.4, label=f"bound for {shorten(name)}"
            )


def _bound_rounds(checkpoints: Ints) -> Ints:
    """Return at most `_BOUND_POINTS` checkpoints, evenly on a log axis: bounds are smooth, and some take long."""
    targets = np.geomspace(checkpoints[0], checkpoints[-1], _BOUND_POINTS)
    return np.asarray(
        checkpoints[np.unique(np.searchsorted(checkpoints, np.rint(targets)).clip(0, len(checkpoints) - 1))]
    )


def _draw_guides(axes: Axes, t: Ints, low: float) -> None:
    """Draw thin grey lines with slopes 1/2 and 2/3 from near the lower left corner."""
    if len(t) < 2:
        return
    for slope, words in ((1 / 2, "1/2"), (2 / 3, "2/3")):
        guide = 1.1 * low * (t / t[0]) ** slope
        axes.plot(t, guide, color="#999999", lw=0.7, zorder=1, label=f"_slope {words}")
        axes.annotate(
            words, (t[-1], guide[-1]), (2, 0), textcoords="offset points", color="#777777", size=7, va="center"
        )


def _legend_with_bounds(figure: Figure, axes: Axes, looks: Sequence[Look], bounded: Sequence[bool]) -> None:
    """Draw the legend: curves in the left column, and the bound of each to its right."""
    curves = axes.get_lines()[: len(looks)]
    handles, labels = list(curves), [str(line.get_label()) for line in curves]
    title = None
    if any(bounded):
        title = "dashed: proved bound at t, for the learner tuned to t rounds"
        for mine, has in zip(looks, bounded, strict=True):
            handles.append(Line2D([], [], color=mine.colour, ls="--" if has else "none", lw=1.4))
            labels.append("its bound" if has else "")
    columns = 1 + any(bounded)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, title=title, alignment="left")


def _meaning(rate: Rate | None) -> str:
    return "?, undecided" if rate is None else f"{rate}, {MEANINGS[rate]}"


def _render(figure: Figure, kind: str) -> bytes:
    buffer = BytesIO()
    dates_and_versions = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    with styled():
        figure.savefig(buffer, format=kind, dpi=150, metadata={**dates_and_versions[kind]})
    return buffer.getvalue()


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _renamed(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return value.replace("url(#", f"url(#{prefix}")


def _describe(figure: Figure) -> tuple[str, str]:
    """Return title and description for screen readers: the axes, and the end of each line."""
    title = "; ".join(f"{axes.get_ylabel()} against {axes.get_xlabel()}" for axes in figure.axes)
    ends = []
    for line in (line for axes in figure.axes for line in axes.get_lines()):
        points = np.asarray(line.get_xydata())
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) and not str(line.get_label()).startswith("_"):
            ends.append(f"{line.get_label()}: {points[-1, 1]:.4g} at {thousands(points[-1, 0])}")
    return title, "; ".join(ends)
