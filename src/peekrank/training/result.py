"""What a training came to: the quality of rankings along the way, and of the models on unseen queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from peekrank._util.extras import extra
from peekrank.training.no_relevant import NoRelevant
from peekrank.training.run import ENDS
from peekrank.training.training import Training
from peekrank.types import Floats, Ints

with extra("cli"):
    import polars as pl

_LATE = 0.9  # part of the rounds after which the last ones begin


class Summary(NamedTuple):
    """What a learner came to, means and standard deviations (NaN for a single run) over runs.

    Quality is the mean of the measure over the rounds that it counts: of all rounds, of the last tenth, and of the
    final weights on the test part. Regret is in the surrogate; its true value is up to `gap` higher.
    """

    learner: str
    quality: float
    quality_sd: float
    final_quality: float
    final_quality_sd: float
    held_out: float | None
    held_out_sd: float | None
    explored: float  # share of rounds
    regret: float | None
    regret_sd: float | None
    gap: float | None
    finite: int  # runs whose weights did not diverge
    rounds_per_second: float  # of one thread, for all learners together


class TrainingResult(NamedTuple):
    """The curves of all runs: a row for each learner, run and number of rounds; and the median time of a run.

    ``no_relevant`` counts queries with nothing relevant, in the test part if there is one, or in the training part.
    """

    training: Training
    source: str
    checkpoints: Ints
    curves: pl.DataFrame
    seconds: float
    no_relevant: NoRelevant

    def qualities(self, learner: str) -> Floats:
        """Mean quality of the first t rounds, one row for each run; NaN before the first that counts."""
        return _ratio(self._table(learner, "value"), self._table(learner, "counted"))

    def held_out(self, learner: str) -> Floats:
        """Quality of the final weights on the test part, for each run; NaN where there is none."""
        return self._table(learner, "held_out")[:, -1]

    def summaries(self) -> list[Summary]:
        """One for each learner, in the order given."""
        return [self._summary(learner) for learner in self.training.learners]

    def summary_table(self) -> pl.DataFrame:
        """The summaries as a table; how long they took is no result."""
        columns = {name: _type(name) for name in Summary._fields}
        return pl.DataFrame(self.summaries(), columns, orient="row").drop("rounds_per_second")

    def _table(self, learner: str, column: str) -> Floats:
        rows = self.curves.filter(pl.col("learner") == learner)
        table: Floats = rows[column].cast(pl.Float64).to_numpy().reshape(-1, len(self.checkpoints))
        return table

    def _summary(self, learner: str) -> Summary:
        T, count = self.training.rounds, len(self.training.learners)
        values, counted = self._table(learner, "value"), self._table(learner, "counted")
        early = np.flatnonzero(self.checkpoints <= _LATE * T)
        before = (values[:, early[-1]], counted[:, early[-1]]) if len(early) else (0.0, 0.0)
        late = _ratio(values[:, -1] - before[0], counted[:, -1] - before[1])
        ends = {name: self._table(learner, name)[:, -1] for name in (*ENDS, "explored")}
        known = {name: None if np.isnan(ends[name]).all() else ends[name] for name in ("held_out", "loss")}
        held_out, held_out_sd = _mean_and_sd(known["held_out"])
        regret, regret_sd = _mean_and_sd(None if known["loss"] is None else ends["loss"] - ends["best"])
        gap = None if known["loss"] is None else float(np.nanmax(ends["gap"]))
        return Summary(
            learner,
            *_mean_and_sd(self.qualities(learner)[:, -1]),
            *_mean_and_sd(late),
            held_out,
            held_out_sd,
            float(ends["explored"].mean()) / T,
            regret,
            regret_sd,
            gap,
            int(ends["finite"].sum()),
            count * T / self.seconds,
        )


def _ratio(value: Floats, counted: Floats) -> Floats:
    return np.where(counted > 0, value / np.maximum(counted, 1), np.nan)


def _mean_and_sd(values: Floats | None) -> tuple[Any, Any]:
    """Mean and standard deviation over the runs that have a value: one that diverged has none."""
    if values is None:
        return None, None
    there = values[~np.isnan(values)]
    mean = float(there.mean()) if len(there) else float("nan")
    finite = len(there) > 1 and np.isfinite(there).all()  # of diverging weights, a loss may be infinite
    return mean, float(there.std(ddof=1)) if finite else float("nan")


def _type(name: str) -> Any:
    return {"learner": pl.String, "finite": pl.Int64}.get(name, pl.Float64)
