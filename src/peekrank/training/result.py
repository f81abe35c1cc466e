"""Results of trainings: the quality of rankings during training, and of the models on held-out queries."""

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

_FINAL = 0.9  # fraction of the rounds before those of the final quality


class Summary(NamedTuple):
    """The results of a learner: means and standard deviations over runs. The latter are NaN for one run.

    ``quality`` is the mean of the measure over all rounds, ``final_quality`` that over the last tenth, and
    ``held_out`` that of the final weights on the test part. Queries that the measure skips do not count.
    ``regret`` is in the surrogate; its true value is up to ``gap`` higher.
    """

    learner: str
    quality: float
    quality_sd: float
    final_quality: float
    final_quality_sd: float
    held_out: float | None
    held_out_sd: float | None
    explored: float  # fraction of rounds
    regret: float | None
    regret_sd: float | None
    gap: float | None
    finite: int  # runs whose weights did not diverge
    rounds_per_second: float  # of one thread, summed over all learners


class TrainingResult(NamedTuple):
    """The curves of all runs, with a row for each learner, run and checkpoint, and the median duration of a run.

    ``no_relevant`` counts queries without relevant documents, in the test part or else in the training part.
    """

    training: Training
    source: str
    checkpoints: Ints
    curves: pl.DataFrame
    seconds: float
    no_relevant: NoRelevant

    def qualities(self, learner: str) -> Floats:
        """Return the mean quality of the first t rounds, with a row for each run. NaN while no round counts."""
        return _ratio(self._table(learner, "value"), self._table(learner, "counted"))

    def held_out(self, learner: str) -> Floats:
        """Return the quality of the final weights on the test part in each run, or NaN if there is none."""
        return self._table(learner, "held_out")[:, -1]

    def summaries(self) -> list[Summary]:
        """Return a summary of each learner, in the order of the training."""
        return [self._summary(learner) for learner in self.training.learners]

    def summary_table(self) -> pl.DataFrame:
        """Return the summaries as a table, without the speed."""
        columns = {name: _type(name) for name in Summary._fields}
        return pl.DataFrame(self.summaries(), columns, orient="row").drop("rounds_per_second")

    def _table(self, learner: str, column: str) -> Floats:
        rows = self.curves.filter(pl.col("learner") == learner)
        table: Floats = rows[column].cast(pl.Float64).to_numpy().reshape(-1, len(self.checkpoints))
        return table

    def _summary(self, learner: str) -> Summary:
        T, count = self.training.rounds, len(self.training.learners)
        values, counted = self._table(learner, "value"), self._table(learner, "counted")
        early = np.flatnonzero(self.checkpoints <= _FINAL * T)
        before = (values[:, early[-1]], counted[:, early[-1]]) if len(early) else (0.0, 0.0)
        final = _ratio(values[:, -1] - before[0], counted[:, -1] - before[1])
        ends = {name: self._table(learner, name)[:, -1] for name in (*ENDS, "explored")}
        known = {name: None if np.isnan(ends[name]).all() else ends[name] for name in ("held_out", "loss")}
        held_out, held_out_sd = _mean_and_sd(known["held_out"])
        regret, regret_sd = _mean_and_sd(None if known["loss"] is None else ends["loss"] - ends["best"])
        unknown = known["loss"] is None or np.isnan(ends["gap"]).all()
        gap = None if unknown else float(np.nanmax(ends["gap"]))
        return Summary(
            learner,
            *_mean_and_sd(self.qualities(learner)[:, -1]),
            *_mean_and_sd(final),
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
    """Compute mean and standard deviation over the runs that have a value. Diverged runs have none."""
    if values is None:
        return None, None
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if len(known) else float("nan")
    has_sd = len(known) > 1 and np.isfinite(known).all()  # diverging weights can have an infinite loss
    return mean, float(known.std(ddof=1)) if has_sd else float("nan")


def _type(name: str) -> Any:
    return {"learner": pl.String, "finite": pl.Int64}.get(name, pl.Float64)
