"""CT16 Theorem 4.1: regret in the surrogate of order T^(2/3), measured.

The paper's algorithm, with gamma = T^(-1/3), eta = 0.1 T^(-2/3) and exact propensities, against the best fixed
weights of the ball. A round costs phi at the scores that were played: uniform ones if it explores, which we weight
by gamma instead of drawing them. With the propensities that section 4.2 prints, the estimates are biased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.random import Generator

from peekrank.experiments.study_result import fit_over_horizons
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.record import Claim, Heartbeat, Options, Results
from peekrank.reports.markup import Table
from peekrank.reports.numbers import exponent_text
from peekrank.surrogates import KL, RankSVM, Squared, Surrogate
from peekrank.training.hindsight import best_fixed, loss_along
from peekrank.types import Floats, Rounds

LISTS, ITEMS, FEATURES, RADIUS = 20, 8, 4, 2.0
RATE = 0.1  # eta = RATE T^(-2/3)
HORIZONS, RUNS = (4_000, 16_000, 64_000), 5
QUICK, QUICK_RUNS = (500, 1_000, 2_000), 3
NEAR = 0.08  # tolerance of an exponent
PAPER: dict[str, tuple[Surrogate, int]] = {"squared": (Squared(), 1), "kl": (KL(), 1), "ranksvm": (RankSVM(), 2)}
CLIPS = {"exact": 0.0, "printed": 1.0}  # which propensities


class Played(NamedTuple):
    """Regrets of a learner: (horizons, runs)."""

    surrogate: str
    propensities: str
    horizons: tuple[int, ...]
    regret: Floats

    @property
    def name(self) -> str:
        """Name for tables."""
        return f"`{self.surrogate}`, k = {PAPER[self.surrogate][1]}, {self.propensities} propensities"


def reproduce(options: Options) -> Results:
    """Run all surrogates, with exact and with printed propensities."""
    horizons, runs = (QUICK, QUICK_RUNS) if options.quick else (HORIZONS, RUNS)

    def job(surrogate: str, propensities: str) -> Callable[[Heartbeat], pl.DataFrame]:
        return lambda alive: frame(surrogate, propensities, horizons, runs, alive)

    names = [(surrogate, propensities) for surrogate in PAPER for propensities in CLIPS]
    one_by_one = options._replace(workers=1)  # rounds run in Python, one thread at a time
    found = one_by_one.frames({"-".join(name): job(*name) for name in names})
    results = [played(*name, found["-".join(name)]) for name in names]
    return Results(list(claims(results)), {"regret": table(results)}, data={"regret": pl.concat(found.values())})


def frame(
    surrogate: str, propensities: str, horizons: tuple[int, ...], runs: int, alive: Heartbeat
) -> pl.DataFrame:
    """Return the regret of each run, each tuned to its horizon."""
    rows = []
    for horizon in horizons:
        for run in range(runs):
            alive()
            lost = surrogate_regret(surrogate, CLIPS[propensities], horizon, run)
            rows.append((surrogate, propensities, horizon, run, lost))
    return pl.DataFrame(rows, ["surrogate", "propensities", "horizon", "run", "regret"], orient="row")


def played(surrogate: str, propensities: str, found: pl.DataFrame) -> Played:
    """Read the regrets from a table."""
    horizons = found["horizon"].unique(maintain_order=True).to_list()
    return Played(surrogate, propensities, tuple(horizons), found["regret"].to_numpy().reshape(len(horizons), -1))


def lists(rng: Generator) -> Rounds:
    """Draw lists: features of length at most 1, and grades by a noisy linear score."""
    features = rng.normal(size=(LISTS * ITEMS, FEATURES))
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    score = features @ np.array([1.5, -1.0, 0.5, 0.0]) + 0.3 * rng.normal(size=len(features))
    grades = np.digitize(score, np.quantile(score, [0.5, 0.8])).astype(np.uint8)
    return Rounds(features.astype(np.float32), grades, np.arange(LISTS + 1) * ITEMS)


def surrogate_regret(name: str, clip: float, horizon: int, run: int) -> float:
    """Return the regret of a run of the paper's algorithm, with the mean cost of its exploration."""
    rng = np.random.default_rng([41, run])
    rounds, (surrogate, k) = lists(rng), PAPER[name]
    sequence = rng.integers(0, LISTS, horizon)
    learner = replace(RTopKF.from_paper(surrogate, horizon, clip=clip), radius=RADIUS, rate=RATE)
    followed = loss_along(learner, rounds, sequence, k=k, seed=run)
    uniform = sum(
        surrogate.value(rng.random(ITEMS), rounds.relevance[n * ITEMS : (n + 1) * ITEMS].astype(np.float64))
        for n in sequence.tolist()
    )
    gamma = learner.gamma or 0.0
    best = best_fixed(surrogate, rounds, np.bincount(sequence, minlength=LISTS), RADIUS)
    return (1 - gamma) * followed + gamma * uniform - best.loss


def claims(results: list[Played]) -> Iterator[Claim]:
    """Yield the theorem's claims: the rate with unbiased estimates."""
    for one in results:
        if one.propensities != "exact":
            continue
        exponent, per_round = fit_over_horizons(one.horizons, one.regret), one.regret.mean(axis=1) / one.horizons
        runs = f"{one.regret.shape[1]} runs each"
        yield Claim(
            f"Theorem 4.1: regret in `{one.surrogate}`, k = {PAPER[one.surrogate][1]}: exponent over T = "
            f"{one.horizons[0]:,} to {one.horizons[-1]:,}",
            f"2/3 + {NEAR} at most",
            f"{exponent_text(exponent)} ({runs})",
            exponent.value <= 2 / 3 + NEAR,
        )
        yield Claim(
            f"Theorem 4.1: regret in `{one.surrogate}` per round",
            "falls with T",
            f"{', '.join(f'{value:.3f}' for value in per_round)} ({runs})",
            bool((np.diff(per_round) < 0).all()),
        )


def table(results: list[Played]) -> Table:
    """Return regret and exponents, with the printed propensities as well."""
    heads = ("learner", *(f"T = {horizon:,}" for horizon in results[0].horizons), "exponent, 95% CI")
    rows = []
    for one in results:
        cells = [f"{row.mean():,.1f} ± {row.std(ddof=1):,.1f}" for row in one.regret]
        rows.append((one.name, *cells, exponent_text(fit_over_horizons(one.horizons, one.regret))))
    return Table(heads, rows)
