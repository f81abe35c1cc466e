"""CT15 Figures 1 and 2: regret per round for DCG, with one answer and with full information.

The paper's figures follow one run of 10,000 rounds, and its text attributes the rates of its theorems to them.
These are two questions: how regret per round falls *along* a run that is tuned to its end, and how it falls *with
the horizon*, if every run is tuned to its own. This module answers both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from peekrank.experiments import runs
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.study import HORIZONS, Setting, play_setting
from peekrank.experiments.study_result import fit_over_horizons
from peekrank.papers.record import Claim, Options, Results
from peekrank.regret import Exponent, fit_exponent
from peekrank.reports import plots
from peekrank.reports.experiment_page import regret_reductions
from peekrank.reports.markup import Table
from peekrank.reports.numbers import number
from peekrank.types import Floats

STREAM = "ct15:m=10,noise=0.25"
TOP_1 = ("rtop1f", "rtop1f:order=fixed")  # the paper does not specify the order below the revealed item
FULL, NOTHING = "ftpl", "uniform"
ROUNDS, RUNS = 10_000, 10  # the paper's
LATE = 1_000  # where Figure 2 begins
NEAR = 0.08  # tolerance of an exponent
QUICK_HORIZONS, QUICK_RUNS = (2_000, 8_000, 32_000), 3
TENTH = 10


class Simulated(NamedTuple):
    """The paper's experiment, and the final regrets at several horizons by learner, (horizons, runs)."""

    result: Result
    horizons: tuple[int, ...]
    finals: dict[str, Floats]

    def along(self, learner: str) -> Exponent:
        """Fit the power of t in regret per round over the last decade of the run."""
        return _per_round(fit_exponent(self.result.checkpoints, self.result.regrets(learner)))

    def over_horizons(self, learner: str) -> Exponent:
        """Fit the power of T in the final regret per round, with every run tuned to its T."""
        return _per_round(fit_over_horizons(self.horizons, self.finals[learner]))


def reproduce_figure_1(options: Options) -> Results:
    """Reproduce Figure 1: learners with one answer per round."""
    simulated = simulate((*TOP_1, NOTHING), options)
    picture = plots.average_regret(simulated.result, learners=TOP_1)
    return _results("figure-1", simulated, picture, list(claims_1(simulated)))


def reproduce_figure_2(options: Options) -> Results:
    """Reproduce Figure 2: one answer per round against full information."""
    simulated = simulate((*TOP_1, FULL), options)
    picture = plots.average_regret(simulated.result, start=LATE)
    return _results("figure-2", simulated, picture, list(claims_2(simulated)))


def simulate(learners: tuple[str, ...], options: Options) -> Simulated:
    """Run the paper's experiment, and the same with other horizons."""
    experiment = Experiment(learners, STREAM, "dcg", k=1, horizon=ROUNDS, runs=RUNS, same_rounds=True)
    horizons, times = (QUICK_HORIZONS, QUICK_RUNS) if options.quick else (HORIZONS, RUNS)
    tick = options.counter(len(learners) * (ROUNDS * RUNS + sum(horizons) * times))
    result = runs.run(experiment, options.folder / "simulation", workers=options.workers, progress=tick)
    ends = np.empty((len(learners), len(horizons), times))
    for h, horizon in enumerate(horizons):
        setting = Setting(
            "ct15", Experiment(learners, STREAM, "dcg", k=1, horizon=horizon, runs=times, seed=horizon)
        )
        ends[:, h] = play_setting(setting, tick)["regret"].to_numpy().reshape(len(learners), times)
    return Simulated(result, horizons, dict(zip(learners, ends, strict=True)))


def claims_1(simulated: Simulated) -> Iterator[Claim]:
    """Yield the paper's claims on Figure 1, for either order below the revealed item."""
    result = simulated.result
    checkpoints, reductions = regret_reductions(result, result.experiment.learners)
    (at_random,) = (fall for fall in reductions if fall.learner == NOTHING)
    for fall in reductions:
        if fall.learner == NOTHING:
            continue
        name = fall.learner
        spread = result.regrets(name)[:, -1].std(ddof=1) / ROUNDS
        yield Claim(
            f"`{name}`: regret per round goes down",
            "less and less after " + ", ".join(f"{t:,}" for t in checkpoints) + " rounds",
            ", ".join(map(number, fall.levels)) + f" ± {number(float(spread))} ({result.experiment.runs} runs)",
            sorted(fall.levels, reverse=True) == fall.levels,
        )
        share = fall.last / at_random.last
        yield Claim(
            f"`{name}`: mostly correct rankings after the learning phase",
            "in the last tenth, less than half of the regret of random orders",
            f"{number(fall.last)} against {number(at_random.last)} per round: {share:.0%} "
            f"({result.experiment.runs} runs)",
            share < 1 / 2,
        )
        yield along_claim(simulated, name, -1 / 3, "-1/3", sharp=False)
        yield horizon_claim(simulated, name, -1 / 3, "-1/3", sharp=False)


def claims_2(simulated: Simulated) -> Iterator[Claim]:
    """Yield the paper's claims on Figure 2."""
    result = simulated.result
    late = result.checkpoints >= LATE
    full = result.regrets(FULL).mean(axis=0)
    for name in TOP_1:
        one = result.regrets(name).mean(axis=0)
        below = bool((full < one)[late].all())
        yield Claim(
            f"`{FULL}` against `{name}`: lower with full information",
            f"from {LATE:,} rounds on",
            f"{'everywhere' if below else 'not everywhere'}; at the end {number(full[-1] / ROUNDS)} against "
            f"{number(one[-1] / ROUNDS)} per round ({result.experiment.runs} runs)",
            below,
        )
        faster = simulated.along(FULL).value < simulated.along(name).value
        yield Claim(
            f"`{FULL}` against `{name}`: goes down faster, along the run",
            "a smaller power of t",
            f"{_text(simulated.along(FULL))} against {_text(simulated.along(name))}",
            faster,
        )
    for name, target, words in ((FULL, -1 / 2, "-1/2"), *((name, -1 / 3, "-1/3") for name in TOP_1)):
        yield along_claim(simulated, name, target, words, sharp=True)
        yield horizon_claim(simulated, name, target, words, sharp=True)


def along_claim(simulated: Simulated, name: str, target: float, words: str, *, sharp: bool) -> Claim:
    """Return a claim on the power of t along the run: Theta if `sharp`, else O."""
    exponent = simulated.along(name)
    return Claim(
        f"`{name}`: the power of t in regret per round, along the run",
        _expected(words, sharp=sharp),
        f"{_text(exponent)} ({simulated.result.experiment.runs} runs)",
        _meets(exponent.value, target, sharp=sharp),
    )


def horizon_claim(simulated: Simulated, name: str, target: float, words: str, *, sharp: bool) -> Claim:
    """Return a claim on the power of T over horizons."""
    exponent, horizons = simulated.over_horizons(name), simulated.horizons
    return Claim(
        f"`{name}`: the power of T in regret per round, each run tuned to its T, {horizons[0]:,} to "
        f"{horizons[-1]:,}",
        _expected(words, sharp=sharp),
        f"{_text(exponent)} ({simulated.finals[name].shape[1]} runs each)",
        _meets(exponent.value, target, sharp=sharp),
    )


def _results(name: str, simulated: Simulated, picture: Figure, claims: list[Claim]) -> Results:
    result = simulated.result
    checkpoints, reductions = regret_reductions(result, result.experiment.learners)
    heads = ("regret per round", *(f"after {t:,}" for t in checkpoints), f"in the last {ROUNDS // TENTH:,}")
    rows = [(f"`{f.learner}`", *map(number, f.levels), number(f.last)) for f in reductions]
    curves = pl.concat(
        pl.DataFrame(
            {
                "learner": learner,
                "round": result.checkpoints,
                "mean": (regrets := result.regrets(learner) / result.checkpoints).mean(axis=0),
                "sd": regrets.std(axis=0, ddof=1),
            }
        )
        for learner in result.experiment.learners
    )
    return Results(claims, {name: Table(heads, rows)}, {name: picture}, {name: curves})


def _per_round(exponent: Exponent) -> Exponent:
    return Exponent(*(x - 1 for x in exponent))


def _expected(words: str, *, sharp: bool) -> str:
    return f"{words} ± {NEAR}" if sharp else f"{words} + {NEAR} at most"


def _meets(value: float, target: float, *, sharp: bool) -> bool:
    return abs(value - target) <= NEAR if sharp else value <= target + NEAR


def _text(exponent: Exponent) -> str:
    """Format an exponent with its interval. `exponent_text` is for the positive exponents of regret."""
    return f"{exponent.value:.2f}, {exponent.low:.2f}..{exponent.high:.2f}"
