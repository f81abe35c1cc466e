"""HTML report of a sweep: the settings, the curves of every setting, and sortable tables; and its figures."""

from __future__ import annotations

import math
import platform
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.code_digest import code_digest
from peekrank._util.extras import extra
from peekrank.experiments.comparison import LEVEL
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.runs import data_digest
from peekrank.experiments.sweep_runs import SETTING, SweepResult
from peekrank.jobs.results_dir import versions
from peekrank.regret import Exponent
from peekrank.reports import plots
from peekrank.reports.numbers import exponent_text, interval, number, p_value_text, percent
from peekrank.reports.pages import command, described, first_line, write_page
from peekrank.reports.style import look, mean_and_deviation
from peekrank.types import Floats, Ints

with extra("cli"):
    import polars as pl

MOST_PICTURES = 8  # settings; drawing more would take longer than many sweeps
_MAX_POINTS = 400  # of a curve
_MIN_POINTS = 30
_ALL_POINTS = 80_000  # of all curves together, unless the minimum needs more: about 2 MB
_MAX_ROWS = 1_500  # of a table


class Entry(NamedTuple):
    """A cell of a table, and the number to sort it by, if any."""

    text: str
    value: float | None = None
    code: bool = False


class TextTable(NamedTuple):
    """A table: its heads, each with whether it is numeric; its rows, each with its setting; and shared values."""

    heads: list[tuple[str, bool]]
    rows: list[tuple[int, list[Entry]]]
    total: int
    same: list[str]


def write_sweep_report(finished: SweepResult, path: Path) -> Path:
    """Write a sweep as one HTML file that needs no network.

    Only the curves need scripts. The same sweep gives the same bytes.

    Parameters
    ----------
    finished
        Result of a sweep.
    path
        File to write. An existing file is replaced atomically.
    """
    sweep, summary, comparisons = finished.sweep, finished.summary(), finished.comparisons()
    first = finished.results[0].experiment
    lowest = [frame.sort("regret")["learner"][0] for frame in _by_setting(summary, finished)]
    write_page(
        "sweep.html",
        path,
        sweep=sweep,
        settings=len(finished.results),
        learners=described(first),
        streams=[(text, first_line(e.parts.stream)) for text, e in _first_of("stream", finished).items()],
        measures=[(text, first_line(e.parts.measure)) for text, e in _first_of("measure", finished).items()],
        wins=Counter(lowest).most_common(),
        shown_different=int((comparisons["adjusted"].fill_nan(None) <= LEVEL).sum()) if len(comparisons) else 0,
        level=LEVEL,
        bounded=bool(summary["bound"].is_not_null().any()),
        below_zero=bool((summary["regret"] < 0).any()),
        axes=[(name, _values(name, finished)) for name in SETTING],
        curves=_curves(finished, summary),
        summary=_summary(finished, summary),
        comparisons=_comparisons(finished, comparisons) if len(comparisons) else None,
        versions={
            "Python": platform.python_version(),
            **versions(),
            "code": code_digest("peekrank.experiments.run"),
        },
        contents=[
            (text, digest)
            for text, e in _first_of("stream", finished).items()
            if (digest := data_digest(e.parts.stream))
        ],
        file=f"{_file_name(sweep.name)}-again.toml",
        folder=f"{_file_name(sweep.name)}-again",
    )
    return path


def write_pictures(finished: SweepResult, folder: Path) -> list[Path]:
    """Write regret and regret per round of every setting as PNG and SVG, for at most `MOST_PICTURES` settings.

    File names begin with the number of the setting in the report. Returns no paths if there are more settings.
    """
    for outdated in (*folder.glob("[0-9]*-regret.*"), *folder.glob("[0-9]*-average.*")):
        outdated.unlink()
    if len(finished.results) > MOST_PICTURES:
        return []
    paths = []
    for position, result in enumerate(finished.results, 1):
        paths += plots.save(plots.cumulative_regret(result), folder, f"{position}-regret")
        paths += plots.save(plots.average_regret(result), folder, f"{position}-average")
    return paths


def thin(checkpoints: Ints, limit: int) -> Ints:
    """Select the points of a curve to draw: the first, the last, and others, evenly on both kinds of axes.

    Half of them are spread evenly over a linear axis, half over a logarithmic one.

    >>> thin(np.arange(1, 1001), 8) + 1
    array([   1,   10,  100,  334,  667, 1000])
    """
    if len(checkpoints) <= limit:
        return np.arange(len(checkpoints))
    half = limit // 2
    targets = np.concatenate(
        [np.geomspace(checkpoints[0], checkpoints[-1], half), np.linspace(checkpoints[0], checkpoints[-1], half)]
    )
    positions = np.searchsorted(checkpoints, np.rint(targets)).clip(0, len(checkpoints) - 1)
    return np.unique(np.concatenate([positions, [0, len(checkpoints) - 1]]))


def _by_setting(table: pl.DataFrame, finished: SweepResult) -> Iterator[pl.DataFrame]:
    """Return the rows of each setting. All settings have equally many."""
    rows = len(table) // len(finished.results)
    return (table[start : start + rows] for start in range(0, len(table), rows))


def _values(name: str, finished: SweepResult) -> list[str]:
    return list(dict.fromkeys(_setting_text(name, result.experiment) for result in finished.results))


def _setting_text(name: str, experiment: Experiment) -> str:
    value = getattr(experiment, name)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _first_of(name: str, finished: SweepResult) -> dict[str, Experiment]:
    """Return one experiment for each value of a field."""
    by_value: dict[str, Experiment] = {}
    for result in finished.results:
        by_value.setdefault(getattr(result.experiment, name), result.experiment)
    return by_value


def _curves(finished: SweepResult, summary: pl.DataFrame) -> dict[str, Any]:
    """Return the data that the script of the page draws."""
    count = len(finished.results) * len(finished.sweep.learners)
    limit = max(_MIN_POINTS, min(_MAX_POINTS, _ALL_POINTS // count))
    looks = [look(position) for position in range(len(finished.sweep.learners))]
    bounds: dict[tuple[object, ...], Floats | None] = {}
    return {
        "runs": finished.sweep.runs,
        "learners": [
            {"name": name, "colour": its.colour, "marker": its.marker}
            for name, its in zip(finished.sweep.learners, looks, strict=True)
        ],
        "axes": [len(_values(name, finished)) for name in SETTING],
        "settings": [
            _curves_of(result, frame, limit, bounds)
            for result, frame in zip(finished.results, _by_setting(summary, finished), strict=True)
        ],
    }


def _curves_of(
    result: Result, summary: pl.DataFrame, limit: int, bounds: dict[tuple[object, ...], Floats | None]
) -> dict[str, Any]:
    e, drawn = result.experiment, thin(result.checkpoints, limit)
    packed, setting = [], (e.measure, e.horizon, e.shape, e.parts.stream.max_grade)
    for name, final in zip(e.learners, summary["bound"], strict=True):
        problem = (name, *setting)
        if problem not in bounds:  # the same for all streams of a shape
            bounds[problem] = None if final is None else result.bound(name, result.checkpoints[drawn])
        packed.append(_packed(result, name, drawn, bounds[problem]))
    exponents = summary.select("exponent", "exponent_low", "exponent_high").rows()
    return {
        "what": ", ".join(f"{name} {_setting_text(name, e)}" for name in SETTING),
        "measure": plots.measure_label(result),
        "gain": e.parts.measure.higher_is_better,
        "of": len(result.checkpoints),
        "checkpoints": result.checkpoints[drawn].tolist(),
        "curves": packed,
        "exponents": [_exponent(*exponent) for exponent in exponents],
        "command": command(e, "results/again"),
    }


def _packed(result: Result, learner: str, drawn: Ints, bound: Floats | None) -> str:
    """Encode mean and standard deviation of regret and of value, then the bound if any, as 32-bit floats.

    The encoding is a third shorter than decimal digits, is decoded only for the drawn curves, and allows NaN.
    """
    values = result.curves[learner]["value"].to_numpy().reshape(-1, len(result.checkpoints))
    rows = [*mean_and_deviation(result.regrets(learner)[:, drawn]), *mean_and_deviation(values[:, drawn])]
    if bound is not None:
        rows.append(bound)
    return b64encode(np.concatenate(rows).astype("<f4").tobytes()).decode()


def _summary(finished: SweepResult, table: pl.DataFrame) -> TextTable:
    heads = [("learner", False), ("regret", True), ("± sd", True), ("regret per round", True),
             ("exponent, 95 %", True), ("bound", True), ("explored", True)]  # fmt: skip
    rows = [
        [
            Entry(row["learner"], code=True),
            _number(row["regret"]),
            _number(row["spread"]),
            _number(row["regret"] / row["horizon"]),
            Entry(_exponent(row["exponent"], row["exponent_low"], row["exponent_high"]), row["exponent"]),
            _number(row["bound"]),
            Entry(percent(row["explored"]), row["explored"]),
        ]
        for row in table[:_MAX_ROWS].iter_rows(named=True)
    ]
    return _sheet(finished, heads, rows, len(table))


def _comparisons(finished: SweepResult, table: pl.DataFrame) -> TextTable:
    heads = [("learner", False), ("minus", False), ("verdict", False), ("difference, 95 %", True),
             ("adjusted p", True), ("p", True)]  # fmt: skip
    rows = [
        [
            Entry(row["learner"], code=True),
            Entry(row["other"], code=True),
            Entry(row["verdict"]),
            Entry(interval(row["difference"], row["low"], row["high"]), row["difference"]),
            Entry(p_value_text(row["adjusted"]), row["adjusted"]),
            Entry(p_value_text(row["p"]), row["p"]),
        ]
        for row in table[:_MAX_ROWS].iter_rows(named=True)
    ]
    return _sheet(finished, heads, rows, len(table))


def _sheet(finished: SweepResult, heads: list[tuple[str, bool]], rows: list[list[Entry]], total: int) -> TextTable:
    """Add columns for the settings that vary. The table states the others once."""
    varying = [name for name in SETTING if len(_values(name, finished)) > 1]
    settings = [
        [_setting_entry(getattr(result.experiment, name)) for name in varying] for result in finished.results
    ]
    each = total // len(finished.results)
    return TextTable(
        [(name, name in ("k", "horizon")) for name in varying] + heads,
        [(position // each, settings[position // each] + row) for position, row in enumerate(rows)],
        total,
        [f"{name} {_values(name, finished)[0]}" for name in SETTING if name not in varying],
    )


def _setting_entry(value: str | int) -> Entry:
    return Entry(f"{value:,}", value) if isinstance(value, int) else Entry(value, code=True)


def _exponent(value: float, low: float, high: float) -> str:
    return exponent_text(Exponent(value, low, high))


def _number(value: float | None) -> Entry:
    return Entry(number(value), math.nan if value is None else value)


def _file_name(text: str) -> str:
    """Return a file name that needs no quotes and has no folder."""
    cleaned = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text).strip("-")
    return cleaned[:40] or "sweep"
