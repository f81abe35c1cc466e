"""A result as one page for newcomers: what was run, how to read the pictures, what came out, in one HTML file."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.extras import extra
from peekrank.experiments.experiment import Experiment, Result
from peekrank.jobs.results_dir import versions
from peekrank.measures import DCG
from peekrank.reports import plots
from peekrank.reports.pages import command, described, first_line, write_page
from peekrank.streams import CT15
from peekrank.types import Floats, Ints

with extra("cli"):
    import polars as pl

_SHOWN = 10  # positions of the illustration
_PAPER = {
    "items": "10",
    "answers seen": "1",
    "judged by": "DCG",
    "rounds": "10,000",
    "runs of each learner": "10",
    "rounds in each run": "the same",
    "noise": "“small”, not given",
    "seed": "not given",
}


class Roles(NamedTuple):
    """Specifications of the learners, by what they are told."""

    partial: list[str]
    full: list[str]
    uniform: list[str]


class RegretReduction(NamedTuple):
    """Regret per round of a learner: after some numbers of rounds, and in the last tenth of them alone."""

    learner: str
    levels: list[float]
    factor: float  # the last level but one over the last; NaN where they are not positive
    last: float


def write_report(result: Result, path: Path, *, title: str) -> Path:
    """Write a result as one HTML file that needs no network and no scripts.

    Parameters
    ----------
    result
        What to tell about.
    path
        Where to write it; an old file is replaced in one step.
    title
        Heading of the page.
    """
    write_page("report.html", path, title=title, **_basics(result), **_pictures(result), **_outcomes(result))
    return path


def roles(experiment: Experiment) -> Roles:
    """Who is told what.

    >>> roles(Experiment(("rtop1f", "ftpl"), "ct15", "dcg", k=1, horizon=100)).full
    ['ftpl']
    """
    sorted_out = Roles([], [], [])
    for name, made in zip(experiment.learners, experiment.parts.learners, strict=True):
        if made.name == "uniform":
            sorted_out.uniform.append(name)
        else:
            (sorted_out.full if made.full_information else sorted_out.partial).append(name)
    return sorted_out


def repeats_paper(experiment: Experiment) -> bool:
    """Whether this is the simulation of CT15, section 10, whatever its size."""
    return isinstance(experiment.parts.stream, CT15) and experiment.parts.measure == DCG() and experiment.k == 1


def regret_reductions(result: Result, learners: Sequence[str]) -> tuple[list[int], list[RegretReduction]]:
    """Regret per round after about a hundredth, a tenth and all of the rounds; and which rounds these are."""
    horizon = result.experiment.horizon
    columns = np.unique(
        np.searchsorted(result.checkpoints, [max(1, horizon // 100), max(1, horizon // 10), horizon])
    )
    found = []
    for name in learners:
        mean = result.regrets(name).mean(axis=0)
        levels = (mean / result.checkpoints)[columns].tolist()
        found.append(
            RegretReduction(
                name, levels, _factor(levels), _slope(result.checkpoints, mean, horizon - horizon // 10)
            )
        )
    return result.checkpoints[columns].tolist(), found


def _basics(result: Result) -> dict[str, Any]:
    e = result.experiment
    stream, measure = e.parts.stream, e.parts.measure
    noise = stream.noise if isinstance(stream, CT15) else None
    return {
        "e": e,
        "m": e.shape.m,
        "paper": repeats_paper(e),
        "measure": plots.measure_label(result),
        "gain": measure.higher_is_better,
        "weights": measure.discount(e.shape.m)[:3].tolist() if isinstance(measure, DCG) else [],
        "settings": _settings(result),
        "positions": _positions(e.shape.m, e.k),
        "learners": described(e),
        "noise": noise,
        "flip": None if noise is None else NormalDist().cdf(-0.5 / noise) if noise else 0.0,
        "command": command(e, "results/again"),
        "versions": {"Python": platform.python_version(), **versions()},
    }


def _settings(result: Result) -> list[tuple[str, str, str, str | None]]:
    """What was set: name, value, explanation, and what the paper had."""
    e = result.experiment
    stream = e.parts.stream
    rows = [
        ("stream", e.stream, first_line(stream)),
        ("items", f"{e.shape.m:,}", "m, the length of the list"),
        ("answers seen", f"{e.k:,}", "k, counted from the top of the list"),
        ("judged by", plots.measure_label(result), first_line(e.parts.measure)),
        ("rounds", f"{e.horizon:,}", "T, one person each"),
        ("runs of each learner", f"{e.runs:,}", ""),
        ("rounds in each run", "drawn anew" if not e.same_rounds else "the same", "what people want"),
    ]
    options = (field.name for field in fields(stream) if field.name != "m")  # type: ignore[arg-type]
    rows += [(name.replace("_", " "), str(getattr(stream, name)), "option of the stream") for name in options]
    rows.append(("seed", str(e.seed), "same seed, same numbers"))
    return [(name, here, why, _PAPER.get(name)) for name, here, why in rows]


def _positions(m: int, k: int) -> list[tuple[str, bool]]:
    """Item and whether its relevance is seen, for the first positions of a made-up list."""
    letters = "ABCDEFGHIJ"[: min(m, _SHOWN)]
    half = len(letters) // 2
    return [(letter, position < k) for position, letter in enumerate(letters[half:] + letters[:half])]


def _pictures(result: Result) -> dict[str, Any]:
    e, who = result.experiment, roles(result.experiment)
    late = max(1, e.horizon // 10)
    first, versus = who.partial or e.learners, who.partial + who.full if who.partial and who.full else []
    rounds, _ = early = regret_reductions(result, first)
    return {
        "roles": who,
        "late": late,
        "early": early,
        "versus": regret_reductions(result, versus),
        "steps": rounds[-1] / rounds[-2] if len(rounds) > 1 else math.nan,
        "early_svg": plots.inline_svg(plots.average_regret(result, learners=first)),
        "versus_svg": plots.inline_svg(plots.average_regret(result, start=late, learners=versus))
        if versus
        else None,
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
        "halved": {n: _below(result, n, random[0] / e.horizon / 2) for n in e.learners} if random else {},
        "empty_bounds": [s for s in summaries.values() if random and s.bound is not None and s.bound > random[0]],
        "below_zero": [s for s in summaries.values() if s.regret < 0],
        "partial_winner": partial,
        "full_winner": full,
    }


def _best_per_round(result: Result) -> float:
    """Value of the best fixed ranking in hindsight, per round; all learners of a run share it."""
    e = result.experiment
    last = result.curves[e.learners[0]].filter(pl.col("checkpoints") == e.horizon)
    sign = 1 if e.parts.measure.higher_is_better else -1
    return float((last["value"] + sign * last["regret"]).to_numpy().mean()) / e.horizon


def _below(result: Result, learner: str, level: float) -> int | None:
    """First checkpoint from which on regret per round is below a level; None if it is not at the end."""
    above = np.flatnonzero(result.regrets(learner).mean(axis=0) / result.checkpoints >= level)
    after = int(above[-1]) + 1 if len(above) else 0
    return int(result.checkpoints[after]) if after < len(result.checkpoints) else None


def _factor(levels: Sequence[float]) -> float:
    if len(levels) < 2 or min(levels[-2:]) <= 0:
        return math.nan
    return levels[-2] / levels[-1]


def _slope(checkpoints: Ints, regret: Floats, since: int) -> float:
    """Regret per round after `since` rounds or the nearest checkpoint before it; NaN where there is none."""
    start = int(np.searchsorted(checkpoints, since, side="right")) - 1
    return (
        float((regret[-1] - regret[start]) / (checkpoints[-1] - checkpoints[start]))
        if checkpoints[start] < checkpoints[-1]
        else math.nan
    )
