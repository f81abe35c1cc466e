"""What a study came to: worst regrets over a family of streams, and how they grow with the horizon."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank.experiments.study import Study
from peekrank.regret import Exponent
from peekrank.types import Floats

_BOOTSTRAPS = 1000


class Worst(NamedTuple):
    """A learner's mean regret on the stream that is worst for it, at a horizon.

    That is the stream with the largest mean after two standard errors are taken off: where a few unlucky runs make
    the mean, as they can where the environment changes, chance would otherwise choose the stream.
    """

    horizon: int
    stream: str
    regret: float
    spread: float  # standard deviation over runs; NaN for a single one
    doubt: float  # two standard errors of the mean; NaN for a single run
    bound: float | None

    @property
    def exceeded(self) -> bool:
        """Whether the mean is above the bound by more than luck explains; if not here, then on no stream."""
        return self.bound is not None and self.regret - self.doubt > self.bound

    @property
    def kept(self) -> bool | None:
        """Whether the mean is within the bound, if there is one."""
        return None if self.bound is None else self.regret <= self.bound


class Findings(NamedTuple):
    """The regret of every learner on every stream at every horizon in every run: one row for each."""

    study: Study
    regrets: pl.DataFrame

    def table(self, learner: str) -> Floats:
        """Final regrets, (streams, horizons, runs)."""
        study = self.study
        rows = self.regrets.filter(pl.col("learner") == learner)
        return rows["regret"].to_numpy().reshape(len(study.streams), len(study.horizons), study.runs)

    def worst(self, learner: str) -> list[Worst]:
        """The worst stream at each horizon."""
        found = []
        for horizon, s, regrets in zip(self.study.horizons, *self._worst(learner), strict=True):
            spread = float(regrets.std(ddof=1)) if len(regrets) > 1 else float("nan")
            bound = self.study.bound(learner, horizon)
            found.append(
                Worst(
                    horizon,
                    self.study.streams[s],
                    float(regrets.mean()),
                    spread,
                    2 * spread / np.sqrt(len(regrets)),
                    bound,
                )
            )
        return found

    def exponent(self, learner: str) -> Exponent:
        """Slope of log(worst mean regret) against log(horizon), over all horizons."""
        return fit_over_horizons(self.study.horizons, self._worst(learner)[1])

    def summary(self) -> pl.DataFrame:
        """Everything that is said of the learners: a row for each learner and horizon."""
        rows = []
        for learner in self.study.learners:
            value, low, high = self.exponent(learner)
            exponent = {"exponent": value, "exponent_low": low, "exponent_high": high}
            rows += [{"learner": learner, **w._asdict(), "kept": w.kept, **exponent} for w in self.worst(learner)]
        return pl.DataFrame(rows, schema_overrides={"bound": pl.Float64, "kept": pl.Boolean})

    def _worst(self, learner: str) -> tuple[list[int], Floats]:
        """The worst stream at each horizon, and its regrets, (horizons, runs)."""
        table, n = self.table(learner), self.study.runs
        doubt = 2 * table.std(axis=2, ddof=1) / np.sqrt(n) if n > 1 else 0.0
        worst = (table.mean(axis=2) - doubt).argmax(axis=0)
        return worst.tolist(), table[worst, np.arange(len(worst))]


def fit_over_horizons(horizons: tuple[int, ...], regrets: Floats, *, seed: int = 0) -> Exponent:
    """Slope b of log(mean regret) = a + b log(T) by least squares, every horizon by itself.

    The interval is the bootstrap's, over the runs of each horizon; which stream is the worst is taken as given.

    Parameters
    ----------
    horizons
        Numbers of rounds.
    regrets
        Final regrets, one row for each horizon, one column for each run.
    seed
        Randomness of the bootstrap.

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
