"""Executors, which compute many independent jobs, and the executor for the threads of this machine."""

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
    """The user interrupted the work. All finished results are saved."""


class _CancelledError(Exception):
    pass


class Executor(Protocol):
    """The protocol of everything that can compute many jobs."""

    def run(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        on_result: Callable[[J, R], None],
        progress: Tick = lambda _: None,
        name: Callable[[J], str] = str,
    ) -> None:
        """Compute jobs in roughly the given order. The first error, or Ctrl-C, stops all of them.

        Parameters
        ----------
        jobs
            The jobs.
        compute
            Computes one job and yields its results. It calls its second argument with numbers of finished rounds.
            It must depend on the job only, because it may run on another machine, and use no files but those
            that all machines see.
        on_result
            Called with each job and result as soon as the result exists. The calls happen in this process, but
            possibly from several threads.
        progress
            Called with numbers of finished rounds, in this process, possibly from several threads.
        name
            Returns the name of a job for error messages.
        """
        ...


@dataclass(frozen=True)
class Threads(Executor):
    """The executor that uses threads of this process. Compiled code releases the GIL, so they run in parallel.

    Parameters
    ----------
    workers
        Number of threads.

    >>> squares = []
    >>> Threads(2).run([1, 2], lambda x, tick: [x * x], lambda x, y: squares.append(y))
    >>> sorted(squares)
    [1, 4]
    """

    workers: int = 1

    def __post_init__(self) -> None:
        check_int("workers", self.workers, 1)

    def run(  # noqa: D102 - inherited
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        on_result: Callable[[J, R], None],
        progress: Tick = lambda _: None,
        name: Callable[[J], str] = str,
    ) -> None:
        stop = threading.Event()

        def tick(rounds: int) -> None:
            if stop.is_set():
                raise _CancelledError
            progress(rounds)

        def work(job: J) -> None:
            for result in compute(job, tick):
                on_result(job, result)

        with ThreadPoolExecutor(self.workers) as pool:
            futures = {pool.submit(work, job): job for job in jobs}
            done: SimpleQueue[Future[None]] = SimpleQueue()
            try:
                for future in futures:
                    future.add_done_callback(done.put)
                for _ in futures:
                    future = _next_done(done)
                    error = future.exception()
                    if isinstance(error, Exception):
                        error.add_note(f"in {name(futures[future])}")
                    future.result()
            except KeyboardInterrupt:
                raise InterruptedRunError from None
            finally:
                stop.set()  # jobs that are still running stop at their next tick
                pool.shutdown(wait=True, cancel_futures=True)


def _next_done(done: SimpleQueue[Future[None]]) -> Future[None]:
    while True:
        with suppress(Empty):
            return done.get(timeout=0.2)  # without a timeout, Ctrl-C would have no effect until a job ends
