"""Results of studies: worst regrets over a family of streams, and their growth with the horizon."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank.experiments.study import Study
from peekrank.regret import Exponent
from peekrank.types import Floats

_BOOTSTRAPS = 1000


class Worst(NamedTuple):
    """A learner's mean regret on its worst stream, at a horizon.

    The worst stream has the largest mean regret minus two standard errors. Without the standard errors, a few
    unlucky runs could decide which stream is worst, especially if the environment changes.
    """

    horizon: int
    stream: str
    regret: float
    spread: float  # standard deviation over runs; NaN for one run
    std_error: float  # of the mean; NaN for one run
    bound: float | None

    @property
    def exceeded(self) -> bool:
        """Whether the mean exceeds the bound by more than two standard errors. If not, no stream exceeds it."""
        return self.bound is not None and self.regret - 2 * self.std_error > self.bound

    @property
    def within_bound(self) -> bool | None:
        """Whether the mean is within the bound, or None if there is no bound."""
        return None if self.bound is None else self.regret <= self.bound


class StudyResult(NamedTuple):
    """The regrets of a study, one row for each learner, stream, horizon and run."""

    study: Study
    regrets: pl.DataFrame

    def table(self, learner: str) -> Floats:
        """Return the final regrets of a learner, of shape (streams, horizons, runs)."""
        study = self.study
        rows = self.regrets.filter(pl.col("learner") == learner)
        return rows["regret"].to_numpy().reshape(len(study.streams), len(study.horizons), study.runs)

    def worst(self, learner: str) -> list[Worst]:
        """Return the learner's regret on its worst stream at each horizon."""
        rows = []
        for horizon, s, regrets in zip(self.study.horizons, *self._worst(learner), strict=True):
            spread = float(regrets.std(ddof=1)) if len(regrets) > 1 else float("nan")
            bound = self.study.bound(learner, horizon)
            rows.append(
                Worst(
                    horizon,
                    self.study.streams[s],
                    float(regrets.mean()),
                    spread,
                    spread / np.sqrt(len(regrets)),
                    bound,
                )
            )
        return rows

    def exponent(self, learner: str) -> Exponent:
        """Fit the slope of log(worst mean regret) against log(horizon)."""
        return fit_over_horizons(self.study.horizons, self._worst(learner)[1])

    def summary(self) -> pl.DataFrame:
        """Return a table with a row for each learner and horizon."""
        rows = []
        for learner in self.study.learners:
            value, low, high = self.exponent(learner)
            exponent = {"exponent": value, "exponent_low": low, "exponent_high": high}
            rows += [
                {"learner": learner, **w._asdict(), "within_bound": w.within_bound, **exponent}
                for w in self.worst(learner)
            ]
        return pl.DataFrame(rows, schema_overrides={"bound": pl.Float64, "within_bound": pl.Boolean})

    def _worst(self, learner: str) -> tuple[list[int], Floats]:
        """Return the worst stream at each horizon, and its regrets of shape (horizons, runs)."""
        table, n = self.table(learner), self.study.runs
        std_error = table.std(axis=2, ddof=1) / np.sqrt(n) if n > 1 else 0.0
        worst = (table.mean(axis=2) - 2 * std_error).argmax(axis=0)
        return worst.tolist(), table[worst, np.arange(len(worst))]


def fit_over_horizons(horizons: tuple[int, ...], regrets: Floats, *, seed: int = 0) -> Exponent:
    """Fit the slope b of log(mean regret) = a + b log(T) by least squares over independent horizons.

    The interval is a bootstrap over the runs of each horizon. It ignores that the worst stream was selected.

    Parameters
    ----------
    horizons
        Numbers of rounds.
    regrets
        Final regrets, with a row for each horizon and a column for each run.
    seed
        Random seed of the bootstrap.

    >>> fit_over_horizons((1000, 2000, 4000), np.outer([10.0, 20.0, 40.0], [1, 1, 1]))
    Exponent(value=1.0, low=1.0, high=1.0)
    """
    runs = regrets.shape[1]
    nothing = float("nan")
    if len(horizons) < 2:
        return Exponent(nothing, nothing, nothing)
    t = np.log(horizons) - np.log(horizons).mean()

    def slope(means: Floats) -> Floats:
        logs = np.log(means, out=np.full(means.shape, np.nan), where=means > 0)
        return np.asarray(logs @ t / (t @ t)).round(12)

    value = float(slope(regrets.mean(axis=1)))
    if runs < 2 or np.isnan(value):
        return Exponent(value, nothing, nothing)
    draws = np.random.default_rng(seed).integers(runs, size=(_BOOTSTRAPS, len(horizons), runs))
    resampled = slope(np.take_along_axis(regrets[None], draws, axis=2).mean(axis=2))
    if np.isnan(resampled).any():
        return Exponent(value, nothing, nothing)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Exponent(value, float(low), float(high))
