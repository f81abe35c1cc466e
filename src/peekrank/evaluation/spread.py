"""Evaluation with several processes or machines: they read and rank parts, which are added in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from peekrank.evaluation.log import Log
from peekrank.evaluation.policies import Ranker
from peekrank.evaluation.sources import LogSource
from peekrank.jobs.executor import Executor, InterruptedRunError, Tick
from peekrank.types import Ints

Result = tuple[Log, dict[int, Ints | None]]


@runtime_checkable
class Divisible(Protocol):
    """A source whose parts can be read in any order."""

    def starts(self, first: int = 0) -> list[int]:
        """Return the first decision of each part from decision `first` on."""
        ...


def add_parts(
    source: LogSource,
    rankers: Sequence[Ranker],
    executor: Executor,
    first: int,
    add: Callable[[Log, list[Ints | None]], None],
    *,
    features: bool,
) -> None:
    """Read parts with an executor, and add them in the order of time.

    Policies that learn rank in this process, all others where a part is read. All machines must see the files
    under the same paths. Raises ValueError if the parts of a source can only be read one after the other.

    Parameters
    ----------
    source
        A log of Parquet files.
    rankers
        The policies.
    executor
        What runs the jobs.
    first
        Number of the first decision.
    add
        Called with each part and the ranks of each policy.
    features
        Whether `add` needs the features.
    """
    if not isinstance(source, Divisible):
        raise ValueError(f"{source.name}: only Parquet files can be read by several processes")
    apart = {i: one for i, one in enumerate(rankers) if not one.needs_order}
    keep = features or len(apart) < len(rankers)
    names, starts, lock = source.scope.names, iter(source.starts(first)), threading.Lock()
    waiting: dict[int, Result] = {}
    expected = next(starts, None)

    def compute(start: int, tick: Tick) -> Iterator[Result]:
        log = next(source.parts(start))
        ranks = {i: one.ranks(log) for i, one in apart.items()}
        tick(1)
        yield _slim(log, keep=keep), ranks

    def on_result(start: int, result: Result) -> None:
        nonlocal expected
        with lock:
            waiting[start] = result
            while expected is not None and expected in waiting:
                log, ranks = waiting.pop(expected)
                log = log._replace(names=names)
                add(log, [ranks[i] if i in apart else one.ranks(log) for i, one in enumerate(rankers)])
                expected = next(starts, None)

    try:
        executor.run(source.starts(first), compute, on_result, name=lambda start: f"decision {start + 1}")
    except InterruptedRunError:
        raise KeyboardInterrupt from None


def _slim(log: Log, *, keep: bool) -> Log:
    """Return a part without the columns that estimates do not need, because it is sent."""
    none = {"arms": None, "share": None, "own": None, "expected": None}
    slim = log._replace(names=(), **none)  # type: ignore[arg-type]
    return slim if keep else slim._replace(features=None, scores=None)
