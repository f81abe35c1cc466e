"""The executor for those who outgrow one machine: jobs as tasks of a Ray cluster. Ray is an optional extra."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from peekrank._util.code_digest import package_sources
from peekrank._util.extras import extra
from peekrank._util.validate import check_int
from peekrank.jobs.executor import InterruptedRunError, J, R, Tick
from peekrank.jobs.results_dir import versions
from peekrank.registry import ImportedFile, import_file, imported_files

_PATIENCE = 5.0  # seconds for an address to answer
_PATIENCE_OF_RAY = {"RAY_NUM_REDIS_GET_RETRIES": "2", "RAY_py_gcs_connect_timeout_s": "5"}  # else: 14 minutes
_AHEAD = 2  # tasks for each processor that are handed out at a time
_TRIES = 3  # of a job that ends its process
_EQUAL = "nodes need the same peekrank, NumPy, numba and SciPy as this machine"


@dataclass(frozen=True)
class Ray:
    """A Ray cluster as executor: results are those of threads, bit for bit, and a lost node loses nothing.

    Jobs that a node had when it went are done again elsewhere, however often. One that raises an error is not, and
    ends all; so does one whose process dies three times on nodes that live. What jobs share, the content of data
    files too, is sent once to each node. All nodes need the same peekrank, NumPy, numba and SciPy.

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
        check_int("workers", self.workers, 1)
        if self.address not in (None, "auto"):
            _host_and_port(str(self.address))

    def run_all_jobs(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, as `peekrank.jobs.executor.Executor` says."""
        try:
            with self._connected() as ray:
                _do_all(ray, jobs, compute, keep, progress, name)
        except KeyboardInterrupt:
            raise InterruptedRunError from None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Ray, with a connection."""
        ray = _imported(briefly=self.address is not None)
        if self.address is None and ray.is_initialized():
            yield ray
            return
        where: dict[str, Any] = {"address": self.address, "logging_level": logging.WARNING}
        if self.address is None:
            where = {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
            where["logging_level"] = logging.ERROR  # it warns that its own cluster is safe
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # our cluster tells nobody that it was there
        elif self.address != "auto":
            _check_answer(self.address)
        before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
        try:
            _join(ray, where)
            try:
                _at_sigterm(signal.default_int_handler)  # as Ctrl-C; Ray prints a stack of machine code and aborts
                yield ray
            finally:
                ray.shutdown()
        finally:
            _at_sigterm(before)


def _do_all(
    ray: Any,
    jobs: Sequence[J],
    compute: Callable[[J, Tick], Iterable[R]],
    keep: Callable[[J, R], None],
    progress: Tick,
    name: Callable[[J], str],
) -> None:
    # Ray's own retries do not tell a lost node from a job that ends its process, which would be tried for ever.
    task = ray.remote(max_retries=0)(_work)
    shared, files, ours = [ray.put(compute)], ray.put(imported_files()), _code()
    left = iter(range(len(jobs)))
    open_tasks: dict[Any, int] = {}
    crashes: Counter[int] = Counter()

    def begin(number: int) -> None:
        open_tasks[task.remote(files, shared, jobs[number])] = number

    try:
        while True:
            most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))  # nodes come and go
            for number in islice(left, max(0, most - len(open_tasks))):
                begin(number)
            if not open_tasks:
                return
            (done,), _ = ray.wait(list(open_tasks))
            number = open_tasks.pop(done)
            job = jobs[number]
            try:
                results, rounds, theirs = ray.get(done)
            except ray.exceptions.NodeDiedError:
                begin(number)
            except (
                ray.exceptions.WorkerCrashedError,
                ray.exceptions.OutOfMemoryError,
                ray.exceptions.ObjectLostError,
            ) as crash:
                crashes[number] += 1
                if crashes[number] == _TRIES:
                    raise ChildProcessError(
                        f"{name(job)}: its process died {_TRIES} times. {_line(crash)}"
                    ) from None
                begin(number)
            except ray.exceptions.RayTaskError as failure:
                raise _cause(ray, failure, name(job)) from None
            else:
                _check_code(theirs, ours)
                for result in results:
                    keep(job, result)
                progress(rounds)
    finally:
        for reference in open_tasks:
            ray.cancel(reference, force=True)


def _work(files: list[ImportedFile], shared: list[Any], job: J) -> tuple[list[Any], int, dict[str, Any]]:
    """Do a job on a node: its results, the number of rounds done, and by which code.

    What jobs share is given by reference, since it can hold values of classes of one's own: their files
    must be imported before it is read.
    """
    import ray

    for file in files:
        import_file(file)
    done: list[int] = []
    compute = ray.get(shared[0])
    return list(compute(job, done.append)), sum(done), _code()


def _cause(ray: Any, failure: Any, name: str) -> Exception:
    """The error that a task raised, to be raised here."""
    error = failure.cause if isinstance(failure.cause, Exception) else failure
    if isinstance(error, ray.exceptions.RaySystemError):  # the job was never begun
        return ValueError(f"a node of the cluster cannot read what is to be done. {_line(error)}; {_EQUAL}")
    error.add_note(f"in {name}")
    return error


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]  # Ray tells much


def _imported(*, briefly: bool) -> Any:
    """Ray, which reads how patient it is with an address when it is imported, and never again."""
    ours = {key: value for key, value in _PATIENCE_OF_RAY.items() if briefly and key not in os.environ}
    os.environ.update(ours)
    try:
        with extra("ray"):
            import ray
    finally:
        for key in ours:
            del os.environ[key]
    return ray


def _join(ray: Any, where: dict[str, Any]) -> None:
    try:
        ray.init(**where, log_to_driver=False)
    except (ConnectionError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
        message = f"cannot join a Ray cluster at address '{where['address']}': {str(error).strip()}"
        if isinstance(error, ConnectionError):
            message += "; if it asks for tokens, set RAY_AUTH_MODE=token"
        raise ConnectionError(message) from None


@cache
def _code() -> dict[str, Any]:
    return {**versions(), "sources of peekrank": package_sources().fingerprint()}


def _check_code(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    differ = [f"{key} {theirs.get(key)}, not {ours[key]}" for key in ours if theirs.get(key) != ours[key]]
    if differ:
        raise ValueError(f"a node of the cluster has {', '.join(differ)}; {_EQUAL}")


def _at_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():  # elsewhere neither Ray nor we can set it
        signal.signal(signal.SIGTERM, handler)


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
