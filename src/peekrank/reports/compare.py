"""Run learners on streams in one call, for a tidy table and a figure."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from peekrank._util.extras import extra
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import SweepResult, run_sweep
from peekrank.jobs.executor import Executor, Tick
from peekrank.reports import plots
from peekrank.reports.style import LEGEND_ROW, WIDTH, StyledFigure, draw, look, shorten, spread_of_runs, styled
from peekrank.types import RegretKind

with extra("cli"):
    from matplotlib.figure import Figure

T = TypeVar("T")
_COLUMNS, _MOST = 3, 12  # panels in a row of a figure, and in all


@dataclass(frozen=True)
class LearnerComparison(SweepResult):
    """The result of `compare`: `frame` has all curves, `summary` and `comparisons` verdicts, `plot` a figure."""

    def plot(self, names: Mapping[str, str] | None = None) -> Figure:
        """Plot regret against rounds, log-log, with a panel for each setting, at most twelve.

        ``savefig("regret.pdf")`` writes it for papers, with Type 42 fonts.

        Parameters
        ----------
        names
            What the legend calls learners, such as ``{"doubtsort": "ours"}``; others keep their specification.
        """
        if len(self.results) > _MOST:
            raise ValueError(f"{len(self.results)} settings: a figure has at most {_MOST} panels; compare fewer")
        if len(self.results) == 1:
            return plots.cumulative_regret(self.results[0], names=names)
        columns = min(_COLUMNS, len(self.results))
        rows = -(-len(self.results) // columns)
        with styled():
            legend = LEGEND_ROW * len(self.sweep.learners)
            figure = StyledFigure(
                figsize=(0.62 * WIDTH * columns, 0.5 * WIDTH * rows + legend), layout="constrained"
            )
            panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
            for axes in panels[len(self.results) :]:
                axes.set_visible(False)
            for axes, result in zip(panels, self.results, strict=False):
                e = result.experiment
                axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel=plots.regret_label(result))
                axes.set_title(f"{shorten(e.stream)}, k = {e.k}, T = {e.horizon:,}", fontsize="medium")
                for position, name in enumerate(e.learners):
                    spread = spread_of_runs(result.regrets(name))
                    draw(axes, result.checkpoints, spread, look(position), label=plots.legend_name(name, names))
            handles = panels[0].get_lines()[: len(self.sweep.learners)]
            figure.legend(handles=handles, loc="outside lower left")
        return figure


def compare(
    learners: str | Sequence[str],
    streams: str | Sequence[str] = "ct15",
    measures: str | Sequence[str] = "dcg",
    *,
    k: int | Sequence[int] = 1,
    horizons: int | Sequence[int] = 10_000,
    runs: int = 10,
    seed: int = 0,
    same_rounds: bool = False,
    regret: RegretKind = "static",
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Tick = lambda _: None,
) -> LearnerComparison:
    """Run learners on all combinations of streams, measures, k and horizons, and compare their regret.

    This is a `Sweep` without a file. The runs of the same seed are those of ``peekrank sweep`` and ``simulate``.

    Parameters
    ----------
    learners, streams, measures, k, horizons, runs, seed, same_rounds, regret
        As in `Sweep`. A single value stands for a list of one.
    folder
        The results folder, where an interrupted comparison resumes. None keeps no files.
    executor
        The executor, such as ``Threads(4)``; None for one thread.
    progress
        Called with numbers of finished rounds.

    >>> result = compare(["greedy", "uniform"], ["ct15:m=5", "drifting:m=5"], horizons=200, runs=3)
    >>> result.frame().columns
    ['stream', 'measure', 'k', 'horizon', 'learner', 'run', 'checkpoint', 'value', 'regret', 'explored']
    >>> result.comparisons()["verdict"].to_list()
    ['greedy is better', 'too few runs: cannot tell']
    """
    sweep = Sweep(
        "compare",
        _several(learners),
        _several(streams),
        _several(measures),
        _several(k),
        _several(horizons),
        runs,
        seed,
        same_rounds,
        regret,
    )
    with tempfile.TemporaryDirectory(prefix="peekrank-") as temporary:
        done = run_sweep(sweep, folder or Path(temporary, "compare"), executor=executor, progress=progress)
    return LearnerComparison(done.sweep, done.results)


def _several(values: T | Sequence[T]) -> tuple[T, ...]:
    """Return a tuple of the values, or of the single value."""
    return tuple(values) if isinstance(values, list | tuple) else (values,)  # type: ignore[return-value]
