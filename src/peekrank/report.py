"""A result as one page for newcomers: what was run, how to read the pictures, what came out, in one HTML file."""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from peekrank import plots
from peekrank.experiment import Experiment, Result
from peekrank.measures import DCG
from peekrank.streams import CT15
from peekrank.types import Floats, Learner, LinearMeasure

_SHOWN = 10  # positions of the illustration
_MISSING = "–"
_PAPER = {
    "items": "10",
    "answers seen": "1",
    "judged by": "DCG",
    "rounds": "10,000",
    "runs of each learner": "10",
    "rounds of the runs": "the same",
    "noise": "“small”, not given",
    "seed": "not given",
}
_PLAIN = {
    "rtop1f": "RTop-1F (CT15, Algorithm 1). Time is cut into blocks. In each block every item is on top once, to "
    "learn what people think of it. All other rounds sort the items by the answers of earlier blocks, plus noise.",
    "ftpl": "Follow the perturbed leader. Sorts the items by all answers so far, plus noise. It is told the relevance "
    "of every item after each round: what complete feedback would be worth.",
    "uniform": "A random order in every round: what knowing nothing is worth.",
}
_ORDERS = {
    "leader": "While an item is on top for a question, the others keep their best known order.",
    "fixed": "While an item is on top for a question, the others are in a fixed, arbitrary order.",
}


class Roles(NamedTuple):
    """Specifications of the learners, by what they are told."""

    partial: list[str]
    full: list[str]
    uniform: list[str]


class Fall(NamedTuple):
    """Regret per round of a learner after some numbers of rounds, and by what factor it fell at the end."""

    learner: str
    levels: list[float]
    factor: float


def write_report(result: Result, path: Path, *, title: str, seconds: float | None = None) -> Path:
    """Write a result as one HTML file that needs no network and no scripts.

    Parameters
    ----------
    result
        What to tell about.
    path
        Where to write it; an old file is replaced in one step.
    title
        Heading of the page.
    seconds
        How long the runs took, if that is to be told.
    """
    environment = Environment(
        loader=PackageLoader("peekrank"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, decimals=decimals, percent=percent)
    page = environment.get_template("report.html").render(
        title=title, seconds=seconds, **_basics(result), **_pictures(result), **_outcomes(result)
    )
    plots.write_whole(path, page.encode())
    return path


def number(value: float | None) -> str:
    """Three significant digits or all before the point, with thousands separators; a dash for what is missing.

    >>> number(11811.3), number(64.35), number(0.1046), number(float("nan"))
    ('11,811', '64.4', '0.105', '–')
    """
    if value is None or math.isnan(value):
        return _MISSING
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def decimals(value: float, digits: int = 2) -> str:
    """A fixed number of decimals; a dash for what is missing."""
    return _MISSING if math.isnan(value) else f"{value:.{digits}f}"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.215)
    '21.5 %'
    """
    return _MISSING if math.isnan(share) else f"{100 * share:.1f} %"


def roles(experiment: Experiment) -> Roles:
    """Who is told what.

    >>> roles(Experiment(("rtop1f", "ftpl"), "ct15", "dcg", k=1, horizon=100)).full
    ['ftpl']
    """
    sorted_out = Roles([], [], [])
    for name, made in zip(experiment.learners, experiment.make_learners(), strict=True):
        if made.name == "uniform":
            sorted_out.uniform.append(name)
        else:
            (sorted_out.full if made.full_information else sorted_out.partial).append(name)
    return sorted_out


def repeats_paper(experiment: Experiment) -> bool:
    """Whether this is the simulation of CT15, section 10, whatever its size."""
    return isinstance(experiment.make_stream(), CT15) and experiment.make_measure() == DCG() and experiment.k == 1


def falls(result: Result, learners: Sequence[str]) -> tuple[list[int], list[Fall]]:
    """Regret per round after about a hundredth, a tenth and all of the rounds; and which rounds these are."""
    horizon = result.experiment.horizon
    columns = np.unique(np.searchsorted(result.at, [max(1, horizon // 100), max(1, horizon // 10), horizon]))
    found = []
    for name in learners:
        levels = (result.regrets(name).mean(axis=0) / result.at)[columns].tolist()
        found.append(Fall(name, levels, _factor(levels)))
    return result.at[columns].tolist(), found


def command(experiment: Experiment, folder: str) -> str:
    """The command line that repeats an experiment.

    >>> command(Experiment(("rtop1f",), "ct15", "dcg", k=1, horizon=100, redraw=False), "results/again")
    'peekrank simulate rtop1f --measure dcg --stream ct15 --k 1 --horizon 100 --runs 10 --seed 0 --same-rounds ...'
    """
    e = experiment
    words = ["peekrank", "simulate", *e.learners, "--measure", e.measure, "--stream", e.stream, "--k", str(e.k)]
    words += ["--horizon", str(e.horizon), "--runs", str(e.runs), "--seed", str(e.seed)]
    words += ([] if e.redraw else ["--same-rounds"]) + ["--out", folder]
    return shlex.join(words)


def _basics(result: Result) -> dict[str, Any]:
    e = result.experiment
    stream, measure = e.make_stream(), e.make_measure()
    noise = getattr(stream, "noise", None)
    made = zip(e.learners, e.make_learners(), strict=True)
    return {
        "e": e,
        "m": e.shape.m,
        "paper": repeats_paper(e),
        "measure": plots.measure_label(result),
        "gain": measure.higher_is_better,
        "weights": measure.discount(e.shape.m)[:3] if isinstance(measure, LinearMeasure) else None,
        "settings": _settings(result),
        "positions": _positions(e.shape.m, e.k),
        "learners": [(name, _described(learner)) for name, learner in made],
        "flip": None if noise is None else NormalDist().cdf(-0.5 / noise) if noise else 0.0,
        "command": command(e, "results/again"),
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("peekrank", "numpy", "numba", "matplotlib")},
        },
    }


def _settings(result: Result) -> list[tuple[str, str, str, str | None]]:
    """What was set: name, value, explanation, and what the paper had."""
    e = result.experiment
    stream = e.make_stream()
    rows = [
        ("stream", e.stream, _first_line(stream)),
        ("items", f"{e.shape.m:,}", "m, the length of the list"),
        ("answers seen", f"{e.k:,}", "k, counted from the top of the list"),
        ("judged by", plots.measure_label(result), _first_line(e.make_measure())),
        ("rounds", f"{e.horizon:,}", "T, one person each"),
        ("runs of each learner", f"{e.runs:,}", ""),
        ("rounds of the runs", "drawn anew" if e.redraw else "the same", "so that runs differ in " + _luck(e)),
    ]
    for field in fields(stream):  # type: ignore[arg-type]
        if field.name != "m":
            rows.append((field.name.replace("_", " "), str(getattr(stream, field.name)), "of the stream"))
    rows.append(("seed", str(e.seed), "same seed, same numbers"))
    return [(name, here, why, _PAPER.get(name)) for name, here, why in rows]


def _luck(experiment: Experiment) -> str:
    return "what people want, and in the learners’ luck" if experiment.redraw else "the learners’ luck only"


def _positions(m: int, k: int) -> list[tuple[str, bool]]:
    """Item and whether its relevance is seen, for the first positions of a made-up list."""
    letters = "ABCDEFGHIJ"[: min(m, _SHOWN)]
    half = len(letters) // 2
    return [(letter, position < k) for position, letter in enumerate(letters[half:] + letters[:half])]


def _described(made: Learner) -> str:
    plain = _PLAIN.get(made.name, _first_line(made))
    return f"{plain} {_ORDERS.get(getattr(made, 'order', ''), '')}".strip()


def _first_line(value: object) -> str:
    return (type(value).__doc__ or "").strip().partition("\n")[0]


def _pictures(result: Result) -> dict[str, Any]:
    e, who = result.experiment, roles(result.experiment)
    late = max(1, e.horizon // 10)
    early = plots.average_regret(result, learners=who.partial or None)
    versus = who.partial + who.full if who.partial and who.full else None
    return {
        "roles": who,
        "late": late,
        "early_svg": plots.inline_svg(early),
        "early": falls(result, who.partial or e.learners),
        "versus_svg": plots.inline_svg(plots.average_regret(result, start=late, learners=versus)) if versus else None,
        "versus": falls(result, versus or []),
        "growth_svg": plots.inline_svg(plots.cumulative_regret(result)),
    }


def _outcomes(result: Result) -> dict[str, Any]:
    e, who = result.experiment, roles(result.experiment)
    summaries = {s.learner: s for s in result.summaries()}
    random = [summaries[name].regret for name in who.uniform]
    partial, full = (min((summaries[n] for n in names), key=lambda s: s.regret, default=None) for names in who[:2])
    return {
        "summaries": list(summaries.values()),
        "best": _best_per_round(result),
        "random": random[0] if random else None,
        "empty_bounds": [s for s in summaries.values() if random and s.bound is not None and s.bound > random[0]],
        "below_zero": [s for s in summaries.values() if s.regret < 0],
        "partial_winner": partial,
        "full_winner": full,
        "rate": lambda power, rounds: (rounds[-1] / rounds[-2]) ** power if len(rounds) > 1 else math.nan,
        "total": e.horizon * e.runs * len(e.learners),
    }


def _best_per_round(result: Result) -> float:
    """Value of the best fixed ranking in hindsight, per round; all learners of a run share it."""
    e = result.experiment
    last = result.curves[e.learners[0]].filter(pl.col("at") == e.horizon)
    value: Floats = last["value"].to_numpy()
    regret: Floats = last["regret"].to_numpy()
    best = value + regret if e.make_measure().higher_is_better else value - regret
    return float(best.mean()) / e.horizon


def _factor(levels: Sequence[float]) -> float:
    if len(levels) < 2 or min(levels[-2:]) <= 0:
        return math.nan
    return levels[-2] / levels[-1]
