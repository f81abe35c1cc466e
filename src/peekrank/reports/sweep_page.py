"""A sweep as one page: what was asked and run, the curves of every setting, tables to sort; and as pictures."""

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

MOST_PICTURES = 8  # settings: more would take longer to draw than many a sweep takes to run
_MOST_POINTS = 400  # of a curve
_FEWEST_POINTS = 30
_ALL_POINTS = 80_000  # of all curves together, as long as each has the fewest: about 2 MB
_MOST_ROWS = 1_500  # of a table


class Entry(NamedTuple):
    """What stands in a table, and the number it is sorted by, if it is one."""

    text: str
    value: float | None = None
    code: bool = False


class TextTable(NamedTuple):
    """A table: its heads, whether each is of numbers, its rows with the setting each is of, and what all share."""

    heads: list[tuple[str, bool]]
    rows: list[tuple[int, list[Entry]]]
    total: int
    same: list[str]


def write_sweep_report(finished: SweepResult, path: Path) -> Path:
    """Write a sweep as one HTML file that needs no network.

    Tables need no scripts either; the curves do. The same sweep gives the same bytes.

    Parameters
    ----------
    finished
        What to tell about.
    path
        Where to write it; an old file is replaced in one step.
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
    """Write regret and regret per round of every setting as PNG and SVG, if these are at most `MOST_PICTURES`.

    Files begin with the number of the setting, as the report gives it.
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


def thin(checkpoints: Ints, most: int) -> Ints:
    """Which points of a curve to draw: the first, the last, and others that lie evenly on both kinds of axes.

    Half of them are spread evenly over a linear axis, half over a logarithmic one.

    >>> thin(np.arange(1, 1001), 8) + 1
    array([   1,   10,  100,  334,  667, 1000])
    """
    if len(checkpoints) <= most:
        return np.arange(len(checkpoints))
    half = most // 2
    wanted = np.concatenate(
        [np.geomspace(checkpoints[0], checkpoints[-1], half), np.linspace(checkpoints[0], checkpoints[-1], half)]
    )
    positions = np.searchsorted(checkpoints, np.rint(wanted)).clip(0, len(checkpoints) - 1)
    return np.unique(np.concatenate([positions, [0, len(checkpoints) - 1]]))


def _by_setting(table: pl.DataFrame, finished: SweepResult) -> Iterator[pl.DataFrame]:
    """The rows of each setting, which all have as many."""
    rows = len(table) // len(finished.results)
    return (table[start : start + rows] for start in range(0, len(table), rows))


def _values(name: str, finished: SweepResult) -> list[str]:
    return list(dict.fromkeys(_setting_text(name, result.experiment) for result in finished.results))


def _setting_text(name: str, experiment: Experiment) -> str:
    value = getattr(experiment, name)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _first_of(name: str, finished: SweepResult) -> dict[str, Experiment]:
    """An experiment for each value of a field."""
    found: dict[str, Experiment] = {}
    for result in finished.results:
        found.setdefault(getattr(result.experiment, name), result.experiment)
    return found


def _curves(finished: SweepResult, summary: pl.DataFrame) -> dict[str, Any]:
    """All that the script of the page draws."""
    count = len(finished.results) * len(finished.sweep.learners)
    most = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // count))
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
            _curves_of(result, frame, most, bounds)
            for result, frame in zip(finished.results, _by_setting(summary, finished), strict=True)
        ],
    }


def _curves_of(
    result: Result, summary: pl.DataFrame, most: int, bounds: dict[tuple[object, ...], Floats | None]
) -> dict[str, Any]:
    e, drawn = result.experiment, thin(result.checkpoints, most)
    packed, setting = [], (e.measure, e.horizon, e.shape, e.parts.stream.max_grade)
    for name, limit in zip(e.learners, summary["bound"], strict=True):
        problem = (name, *setting)
        if problem not in bounds:  # the same for all streams of a shape
            bounds[problem] = None if limit is None else result.bound(name, result.checkpoints[drawn])
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
    """Mean and standard deviation of regret, the same of value, then a bound if there is one, in 32 bits each.

    So packed they are a third shorter than as digits, need no reading but where they are drawn, and can be NaN.
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
        for row in table[:_MOST_ROWS].iter_rows(named=True)
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
        for row in table[:_MOST_ROWS].iter_rows(named=True)
    ]
    return _sheet(finished, heads, rows, len(table))


def _sheet(finished: SweepResult, heads: list[tuple[str, bool]], rows: list[list[Entry]], total: int) -> TextTable:
    """Rows with the columns that tell their settings; what is the same in all settings is said once."""
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
    """A name of a file that needs no quotes and no folders."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text).strip("-")
    return kept[:40] or "sweep"
