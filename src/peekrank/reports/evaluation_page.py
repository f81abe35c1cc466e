"""HTML report of an evaluation: the value of each policy, the differences, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peekrank._util.extras import extra
from peekrank.evaluation.evaluation import Estimate, Evaluation
from peekrank.jobs.results_dir import write_table
from peekrank.reports import plots
from peekrank.reports.pages import write_page
from peekrank.reports.style import Spread, blank, draw, finish, look, shorten, styled

with extra("cli"):
    import polars as pl
    from matplotlib.figure import Figure

_MAX_CURVES = 6  # that fit into a figure
_COLUMNS = (
    "name",
    "baseline",
    "decisions",
    "dr",
    "std_error",
    "ips",
    "snips",
    "ess",
    "max_weight",
)


def write_evaluation(result: Evaluation, folder: Path, *, source: str, notes: Sequence[str] = ()) -> Path:
    """Write ``report.html``, one file that needs no network, and ``evaluation.csv`` and the figures next to it.

    Parameters
    ----------
    result
        Estimates and differences.
    folder
        Folder of the files.
    source
        Name of the log.
    notes
        Remarks to print on the page.
    """
    figure = anytime_intervals(result)
    plots.save(figure, folder, "evaluation")
    write_table(folder / "evaluation.csv", _table(result))
    path = folder / "report.html"
    write_page(
        "evaluation.html",
        path,
        source=source,
        result=result,
        level=f"{1 - result.alpha:.0%}",
        together=_together(result),
        notes=list(notes),
        picture=plots.inline_svg(figure),
        verdicts=[_verdict(result, e) for e in result.differences],
        best=_best(result),
    )
    return path


def anytime_intervals(result: Evaluation) -> Figure:
    """Plot estimates and anytime intervals against the number of decisions: of differences, or of one policy."""
    shown = (result.differences or result.estimates)[:_MAX_CURVES]
    what = "difference in" if result.differences else "mean"
    with styled():
        title = f"{1 - result.alpha:.0%} anytime intervals{_together(result)}"
        figure, axes = blank(title, f"{what} {result.measure}", scale="linear", legend_rows=len(shown))
        axes.set(xlabel="decisions", xscale="log")
        for position, e in enumerate(shown):
            label = shorten(f"{e.name} minus {e.baseline}" if e.baseline else e.name)
            draw(axes, e.checkpoints, Spread(e.means, e.lows, e.highs), look(position), label=label)
        late = [e.checkpoints >= max(1, e.decisions // 50) for e in shown]
        low = min(float(e.lows[these].min()) for e, these in zip(shown, late, strict=True))
        high = max(float(e.highs[these].max()) for e, these in zip(shown, late, strict=True))
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        if result.differences:
            axes.axhline(0, color="#5a5f68", lw=0.8)
        figure.legend(loc="outside lower center", ncols=1, frameon=False)
        finish(figure, axes)
    return figure


def _together(result: Evaluation) -> str:
    """Say whether the level refers to all differences together or to each of several."""
    count = len(result.differences)
    return "" if count < 2 else f", all {count} together" if result.simultaneous else ", each"


def _table(result: Evaluation) -> pl.DataFrame:
    def row(e: Estimate) -> dict[str, Any]:
        ends = {
            f"{name}_{end}": getattr(e, name)[i] for name in _INTERVALS for i, end in enumerate(("low", "high"))
        }
        limits = {"clip_bias": e.clip_bias, "support_gap": e.support_gap, "alpha": e.alpha}
        return {name: getattr(e, name) for name in _COLUMNS} | ends | limits

    return pl.DataFrame([row(e) for e in (*result.estimates, *result.differences)], infer_schema_length=None)


_INTERVALS = ("fixed_n", "anytime", "betting")


def _verdict(result: Evaluation, e: Estimate) -> str:
    if e.verdict == "undecided":
        return "undecided so far"
    better = (e.verdict == "higher") == result.measure.higher_is_better
    return f"{e.name} is {'better' if better else 'worse'}"


def _best(result: Evaluation) -> str:
    """Return the name of the policy that is significantly better than every other, or an empty string."""
    for e in result.estimates:
        comparisons = [d for d in result.differences if e.name in (d.name, d.baseline)]
        wins = [
            (d.verdict == ("higher" if d.name == e.name else "lower")) == result.measure.higher_is_better
            for d in comparisons
            if d.verdict != "undecided"
        ]
        if comparisons and len(wins) == len(comparisons) and all(wins):
            return e.name
    return ""
