"""HTML report of an experiment for newcomers: the settings, the figures with explanations, and the results."""

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
from peekrank.experiments.experiment import Experiment, Result, Summary
from peekrank.jobs.results_dir import versions
from peekrank.measures import DCG
from peekrank.reports import plots
from peekrank.reports.numbers import number
from peekrank.reports.pages import command, described, first_line, write_page
from peekrank.streams import CT15
from peekrank.types import Floats, Ints

with extra("cli"):
    import polars as pl

_SHOWN = 10  # positions of the illustration
_PAPER = {
    "items": "10",
    "answers revealed": "1",
    "measure": "DCG",
    "rounds": "10,000",
    "runs of each learner": "10",
    "rounds in each run": "the same",
    "noise": "“small”, not given",
    "seed": "not given",
}


class Roles(NamedTuple):
    """Specifications of the learners, by their feedback."""

    partial: list[str]
    full: list[str]
    uniform: list[str]


class RegretReduction(NamedTuple):
    """Regret per round of a learner after several numbers of rounds, and in the last tenth alone."""

    learner: str
    levels: list[float]
    factor: float  # the last level but one over the last; NaN if one is not positive
    last: float


def write_report(result: Result, path: Path, *, title: str) -> Path:
    """Write a result as one HTML file that needs no network and no scripts.

    Parameters
    ----------
    result
        Result of an experiment.
    path
        File to write. An existing file is replaced atomically.
    title
        Heading of the page.
    """
    summaries = list(result.summaries())
    results = {**_pictures(result, summaries), **_outcomes(result, summaries)}
    write_page("report.html", path, title=title, **_basics(result), **results)
    return path


def roles(experiment: Experiment) -> Roles:
    """Group the learners by the feedback they receive.

    >>> roles(Experiment(("rtop1f", "ftpl"), "ct15", "dcg", k=1, horizon=100)).full
    ['ftpl']
    """
    groups = Roles([], [], [])
    for name, learner in zip(experiment.learners, experiment.parts.learners, strict=True):
        if learner.name == "uniform":
            groups.uniform.append(name)
        else:
            (groups.full if learner.full_information else groups.partial).append(name)
    return groups


def repeats_paper(experiment: Experiment) -> bool:
    """Return whether this is the simulation of CT15, section 10, of any size."""
    return isinstance(experiment.parts.stream, CT15) and experiment.parts.measure == DCG() and experiment.k == 1


def regret_reductions(result: Result, learners: Sequence[str]) -> tuple[list[int], list[RegretReduction]]:
    """Return the rounds at about 1 %, 10 % and 100 % of the horizon, and each learner's regret per round."""
    horizon = result.experiment.horizon
    columns = np.unique(
        np.searchsorted(result.checkpoints, [max(1, horizon // 100), max(1, horizon // 10), horizon])
    )
    reductions = []
    for name in learners:
        mean = result.regrets(name).mean(axis=0)
        levels = (mean / result.checkpoints)[columns].tolist()
        last = _slope(result.checkpoints, mean, horizon - horizon // 10)
        reductions.append(RegretReduction(name, levels, _factor(levels), last))
    return result.checkpoints[columns].tolist(), reductions


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
    """Return the settings: name, value, explanation, and the value in the paper."""
    e = result.experiment
    stream = e.parts.stream
    rows = [
        ("stream", e.stream, first_line(stream)),
        ("items", f"{e.shape.m:,}", "m, the length of the list"),
        ("answers revealed", f"{e.k:,}", "k, counted from the top of the list"),
        ("measure", plots.measure_label(result), first_line(e.parts.measure)),
        ("rounds", f"{e.horizon:,}", "T, one person each"),
        ("runs of each learner", f"{e.runs:,}", ""),
        (
            "rounds in each run",
            "drawn for each run" if not e.same_rounds else "the same",
            "the people and their relevance",
        ),
    ]
    options = (field.name for field in fields(stream) if field.name != "m")  # type: ignore[arg-type]
    rows += [(name.replace("_", " "), str(getattr(stream, name)), "option of the stream") for name in options]
    if e.lower_bound is not None:
        why = f"a regret that each learner with {e.k:,} of {e.shape.m:,} answers exceeds on some stream"
        rows.append(("limit", number(e.lower_bound), why))
    rows.append(("seed", str(e.seed), "same seed, same numbers"))
    return [(name, here, why, _PAPER.get(name)) for name, here, why in rows]


def _positions(m: int, k: int) -> list[tuple[str, bool]]:
    """Return the item and whether its relevance is revealed, for the first positions of an example list."""
    letters = "ABCDEFGHIJ"[: min(m, _SHOWN)]
    half = len(letters) // 2
    return [(letter, position < k) for position, letter in enumerate(letters[half:] + letters[:half])]


def _pictures(result: Result, summaries: Sequence[Summary]) -> dict[str, Any]:
    e, who = result.experiment, roles(result.experiment)
    late = max(1, e.horizon // 10)
    first, versus = who.partial or e.learners, who.partial + who.full if who.partial and who.full else []
    rounds, _ = early = regret_reductions(result, first)
    exponents = {summary.learner: summary.exponent for summary in summaries}
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
        "growth_svg": plots.inline_svg(plots.cumulative_regret(result, exponents=exponents)),
    }


def _outcomes(result: Result, all_summaries: Sequence[Summary]) -> dict[str, Any]:
    e, who = result.experiment, roles(result.experiment)
    summaries = {s.learner: s for s in all_summaries}
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
    """Return the value per round of the best fixed ranking in hindsight, which all learners of a run share."""
    e = result.experiment
    last = result.curves[e.learners[0]].filter(pl.col("checkpoints") == e.horizon)
    sign = 1 if e.parts.measure.higher_is_better else -1
    return float((last["value"] + sign * last["regret"]).to_numpy().mean()) / e.horizon


def _below(result: Result, learner: str, level: float) -> int | None:
    """Return the first checkpoint from which regret per round stays below a level, or None if it does not."""
    above = np.flatnonzero(result.regrets(learner).mean(axis=0) / result.checkpoints >= level)
    after = int(above[-1]) + 1 if len(above) else 0
    return int(result.checkpoints[after]) if after < len(result.checkpoints) else None


def _factor(levels: Sequence[float]) -> float:
    if len(levels) < 2 or min(levels[-2:]) <= 0:
        return math.nan
    return levels[-2] / levels[-1]


def _slope(checkpoints: Ints, regret: Floats, since: int) -> float:
    """Return the regret per round after the checkpoint at or before `since`, or NaN if that is the last one."""
    start = int(np.searchsorted(checkpoints, since, side="right")) - 1
    return (
        float((regret[-1] - regret[start]) / (checkpoints[-1] - checkpoints[start]))
        if checkpoints[start] < checkpoints[-1]
        else math.nan
    )
