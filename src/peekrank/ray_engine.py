"""The engine for those who outgrow one machine: jobs as tasks of a Ray cluster. Ray is an optional extra."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from peekrank._jit import sources
from peekrank.parameters import whole
from peekrank.runs import InterruptedRunError, J, R, Tick, versions

_PATIENCE = 5.0  # seconds for an address to answer
_AHEAD = 2  # tasks for each processor that are handed out at a time


@dataclass(frozen=True)
class Ray:
    """A Ray cluster as engine: results are those of threads, bit for bit, and a lost node loses nothing.

    Jobs that a node had when it went are done again elsewhere; one that raises an error is not, and ends all. What
    jobs share, the content of data files too, is sent once to each node. All nodes need the same peekrank,
    NumPy and numba.

    Parameters
    ----------
    address
        ``host:port`` of the cluster's head, ``auto`` for one that runs on this machine, None for a new one that
        lives as long as the work, or for the connection that the process already has, which is left open.
    workers
        Number of processes of a new cluster.

    >>> Ray("localhost")
    Traceback (most recent call last):
    ValueError: address = 'localhost': must be host:port, as in 10.0.0.1:6379, or auto
    """

    address: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1)
        if self.address not in (None, "auto"):
            _host_and_port(str(self.address))

    def do_all(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, as `peekrank.runs.Engine` says."""
        with self._connected() as ray:
            task = ray.remote(max_retries=-1, retry_exceptions=False)(_work)
            shared, ours = ray.put(compute), _code()
            left = iter(jobs)
            open_tasks: dict[Any, J] = {}
            ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
            try:
                while True:
                    for job in left:
                        open_tasks[task.remote(shared, job)] = job
                        if len(open_tasks) >= ahead:
                            break
                    if not open_tasks:
                        return
                    (done,), _ = ray.wait(list(open_tasks))
                    job = open_tasks.pop(done)
                    results, rounds, theirs = _result(ray, done, name(job))
                    if theirs != ours:
                        raise ValueError(f"a node of the cluster has {theirs}, this machine {ours}: must be equal")
                    for result in results:
                        keep(job, result)
                    progress(rounds)
            except KeyboardInterrupt:
                raise InterruptedRunError from None
            finally:
                for reference in open_tasks:
                    ray.cancel(reference, force=True)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Ray, with a connection."""
        try:
            import ray
        except ImportError:
            raise ValueError("the engine ray needs Ray, an optional extra: pip install 'peekrank[ray]'") from None
        if self.address is None and ray.is_initialized():
            yield ray
            return
        where: dict[str, Any] = {"address": self.address}
        if self.address is None:
            where = {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # our cluster tells nobody that it was there
        elif self.address != "auto":
            _check_answer(self.address)
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.WARNING)
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            raise ConnectionError(f"no Ray cluster at address '{where['address']}': {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


def _work(compute: Callable[[J, Tick], Iterable[R]], job: J) -> tuple[list[R], int, dict[str, Any]]:
    """Do a job on a node: its results, the number of rounds done, and by which code."""
    done: list[int] = []
    return list(compute(job, done.append)), sum(done), _code()


def _result(ray: Any, reference: Any, name: str) -> Any:
    """What a task returned; its error, if it raised one, as if it had been raised here."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as failure:
        error = failure.cause
        if not isinstance(error, Exception):
            raise
        error.add_note(f"in {name}")
        raise error from None


@cache
def _code() -> dict[str, Any]:
    return {**versions(), "sources": sources()}


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"address = '{address}': must be host:port, as in 10.0.0.1:6379, or auto")
    return host, int(port)


def _check_answer(address: str) -> None:
    """Raise unless something answers in HTTP/2, as the head of a cluster does: Ray itself waits for minutes."""
    settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    try:
        with socket.create_connection(_host_and_port(address), _PATIENCE) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
            frame = connection.recv(9)
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at address '{address}': {error}") from None
    if frame[3:4] != settings[3:4]:
        raise ConnectionError(f"what answers at address '{address}' is no Ray cluster")
