"""Getting many jobs done: on the threads of this machine, or on whatever else can do them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from peekrank._util.validate import check_int

J = TypeVar("J")
R = TypeVar("R")
Tick = Callable[[int], None]


class InterruptedRunError(Exception):
    """The user stopped the experiment; what was finished is kept."""


class _CancelledError(Exception):
    pass


class Executor(Protocol):
    """What gets many jobs done."""

    def run_all_jobs(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, in about this order; the first that fails, or Ctrl-C, ends all.

        Parameters
        ----------
        jobs
            What is to be done.
        compute
            Does one, giving its results one by one, and calls what it is given with numbers of rounds done. It
            depends on the job alone, and touches no file: it may be called on another machine.
        keep
            Takes each result as soon as it is there; called in this process, perhaps from several threads.
        progress
            Called in this process, perhaps from several threads, with numbers of rounds done.
        name
            What to call a job in the note of an error.
        """
        ...


@dataclass(frozen=True)
class Threads:
    """The executor of one machine: compiled code lets go of Python's lock.

    Parameters
    ----------
    workers
        Number of threads.

    >>> squares = []
    >>> Threads(2).run_all_jobs(
    ...     [1, 2], lambda x, tick: [x * x], lambda x, y: squares.append(y), lambda n: None, str
    ... )
    >>> sorted(squares)
    [1, 4]
    """

    workers: int = 1

    def __post_init__(self) -> None:
        check_int("workers", self.workers, 1)

    def run_all_jobs(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, as `Executor` says."""
        stop = threading.Event()

        def tick(rounds: int) -> None:
            if stop.is_set():
                raise _CancelledError
            progress(rounds)

        def work(job: J) -> None:
            for result in compute(job, tick):
                keep(job, result)

        with ThreadPoolExecutor(self.workers) as pool:
            futures = {pool.submit(work, job): job for job in jobs}
            done: SimpleQueue[Future[None]] = SimpleQueue()
            try:
                for future in futures:
                    future.add_done_callback(done.put)
                for _ in futures:
                    future = _next(done)
                    error = future.exception()
                    if isinstance(error, Exception):
                        error.add_note(f"in {name(futures[future])}")
                    future.result()
            except KeyboardInterrupt:
                raise InterruptedRunError from None
            finally:
                stop.set()  # whatever is still running, if anything, has no reader any more
                pool.shutdown(wait=True, cancel_futures=True)


def _next(done: SimpleQueue[Future[None]]) -> Future[None]:
    while True:
        with suppress(Empty):
            return done.get(timeout=0.2)  # a wait without end hears Ctrl-C only when a job ends
