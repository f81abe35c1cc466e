"""The executor that runs jobs as tasks of a Ray cluster. Ray is an optional extra."""

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
from typing import Any

from peekrank._util.code_digest import package_sources
from peekrank._util.extras import extra
from peekrank._util.validate import check_int
from peekrank.jobs.executor import Executor, InterruptedRunError, J, R, Tick
from peekrank.jobs.results_dir import versions
from peekrank.registry import ImportedFile, import_file, imported_files

_TIMEOUT = 5.0  # seconds to wait for an address to answer
_RAY_TIMEOUTS = {"RAY_NUM_REDIS_GET_RETRIES": "2", "RAY_py_gcs_connect_timeout_s": "5"}  # default: 14 minutes
_AHEAD = 2  # submitted tasks per processor
_WINDOW = 4  # times as many jobs are between the first open one and the last
_TRIES = 3  # attempts for a job whose process dies
_SAME_VERSIONS = "nodes need the same peekrank, NumPy, numba and SciPy as this machine"


@dataclass(frozen=True)
class Ray(Executor):
    """The executor that uses a Ray cluster. Its results equal those of `Threads` bit for bit.

    If a node is lost, its jobs run again on another node, without a limit on the number of attempts. A job that
    raises an error stops all jobs, and so does a job whose process dies three times on live nodes. Data that jobs
    share, including the content of data files, is sent once to each node. All nodes need the same versions of
    peekrank, NumPy, numba and SciPy.

    Parameters
    ----------
    address
        ``host:port`` of the cluster's head, or ``auto`` for a cluster that runs on this machine. With None, the
        executor uses the connection that this process already has and leaves it open; if it has none, the
        executor starts a local cluster and stops it after the last job.
    workers
        Number of processes of a new local cluster.

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

    def run(  # noqa: D102 - inherited
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        on_result: Callable[[J, R], None],
        progress: Tick = lambda _: None,
        name: Callable[[J], str] = str,
    ) -> None:
        try:
            with self._connect() as ray:
                _run(ray, jobs, compute, on_result, progress, name)
        except KeyboardInterrupt:
            raise InterruptedRunError from None

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        """Connect to a cluster for the length of a with statement, and return the module `ray`."""
        ray = _import_ray(short_timeouts=self.address is not None)
        if self.address is None and ray.is_initialized():
            yield ray
            return
        where: dict[str, Any] = {"address": self.address, "logging_level": logging.WARNING}
        if self.address is None:
            where = {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
            where["logging_level"] = logging.ERROR  # Ray warns about the local cluster
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports from a local cluster
        elif self.address != "auto":
            _check_answer(self.address)
        before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
        try:
            _join(ray, where)
            try:
                _at_sigterm(signal.default_int_handler)  # as for Ctrl-C; Ray would print a native stack and abort
                yield ray
            finally:
                ray.shutdown()
        finally:
            _at_sigterm(before)


def _run(
    ray: Any,
    jobs: Sequence[J],
    compute: Callable[[J, Tick], Iterable[R]],
    on_result: Callable[[J, R], None],
    progress: Tick,
    name: Callable[[J], str],
) -> None:
    # Ray's own retries treat a lost node and a crashing job alike, so a crashing job would be retried forever.
    task = ray.remote(max_retries=0)(_compute_job)
    shared, files, own_code = [ray.put(compute)], ray.put(imported_files()), _code()
    following = 0
    open_tasks: dict[Any, int] = {}
    crashes: Counter[int] = Counter()

    def submit(number: int) -> None:
        open_tasks[task.remote(files, shared, jobs[number])] = number

    try:
        while True:
            limit = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))  # the number of nodes may change
            first = min(open_tasks.values(), default=following)  # callers may keep results until it is done
            while following < min(len(jobs), first + _WINDOW * limit) and len(open_tasks) < limit:
                submit(following)
                following += 1
            if not open_tasks:
                return
            (done,), _ = ray.wait(list(open_tasks))
            number = open_tasks.pop(done)
            job = jobs[number]
            try:
                results, rounds, node_code = ray.get(done)
            except ray.exceptions.NodeDiedError:
                submit(number)
            except (
                ray.exceptions.WorkerCrashedError,
                ray.exceptions.OutOfMemoryError,
                ray.exceptions.ObjectLostError,
            ) as crash:
                crashes[number] += 1
                if crashes[number] == _TRIES:
                    raise ChildProcessError(
                        f"{name(job)}: its process died {_TRIES} times. {_first_line(crash)}"
                    ) from None
                submit(number)
            except ray.exceptions.RayTaskError as failure:
                raise _task_error(ray, failure, name(job)) from None
            else:
                _check_code(node_code, own_code)
                for result in results:
                    on_result(job, result)
                progress(rounds)
    finally:
        for reference in open_tasks:
            ray.cancel(reference, force=True)


def _compute_job(files: list[ImportedFile], shared: list[Any], job: J) -> tuple[list[Any], int, dict[str, Any]]:
    """Compute a job on a node. Return its results, the number of finished rounds and the node's code versions.

    `shared` is a reference because it can hold instances of the user's own classes. The node must import the files
    that define them before it reads the reference.
    """
    import ray

    for file in files:
        import_file(file)
    done: list[int] = []
    compute = ray.get(shared[0])
    return list(compute(job, done.append)), sum(done), _code()


def _task_error(ray: Any, failure: Any, name: str) -> Exception:
    """Return the error that a task raised, so that the caller can raise it in this process."""
    error = failure.cause if isinstance(failure.cause, Exception) else failure
    if isinstance(error, ray.exceptions.RaySystemError):  # the job did not start
        return ValueError(f"a node of the cluster cannot read its job. {_first_line(error)}; {_SAME_VERSIONS}")
    error.add_note(f"in {name}")
    return error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]  # Ray's messages are long


def _import_ray(*, short_timeouts: bool) -> Any:
    """Import Ray. It reads its connection timeouts from the environment, only when it is imported."""
    timeouts = {key: value for key, value in _RAY_TIMEOUTS.items() if short_timeouts and key not in os.environ}
    os.environ.update(timeouts)
    try:
        with extra("ray"):
            import ray
    finally:
        for key in timeouts:
            del os.environ[key]
    return ray


def _join(ray: Any, where: dict[str, Any]) -> None:
    try:
        ray.init(**where, log_to_driver=False)
    except (ConnectionError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
        message = f"cannot join a Ray cluster at address '{where['address']}': {str(error).strip()}"
        if isinstance(error, ConnectionError):
            message += "; if the cluster requires a token, set RAY_AUTH_MODE=token"
        raise ConnectionError(message) from None


@cache
def _code() -> dict[str, Any]:
    return {**versions(), "sources of peekrank": package_sources().fingerprint()}


def _check_code(node: dict[str, Any], own: dict[str, Any]) -> None:
    differences = [f"{key} {node.get(key)}, not {own[key]}" for key in own if node.get(key) != own[key]]
    if differences:
        raise ValueError(f"a node of the cluster has {', '.join(differences)}; {_SAME_VERSIONS}")


def _at_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():  # Python allows it in the main thread only
        signal.signal(signal.SIGTERM, handler)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"address = '{address}': must be host:port, as in 10.0.0.1:6379, or auto")
    return host, int(port)


def _check_answer(address: str) -> None:
    """Raise ConnectionError unless the address speaks HTTP/2 as a cluster does. Ray would wait for minutes."""
    settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    try:
        with socket.create_connection(_host_and_port(address), _TIMEOUT) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
            frame = connection.recv(9)
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at address '{address}': {error}") from None
    if frame[3:4] != settings[3:4]:
        raise ConnectionError(f"the server at address '{address}' is not a Ray cluster")
