"""The Ray executor on a real cluster of several nodes: the results of threads, whatever becomes of the nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from helpers.folders import contents
from helpers.own import LEARNER, MEASURE
from peekrank._util.extras import MissingExtraError
from peekrank.experiments import sweep_runs
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.run import Curve, play_run, run_context
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import run_sweep
from peekrank.jobs import ray as ray_executor
from peekrank.jobs.executor import Executor, InterruptedRunError, Threads, Tick
from peekrank.jobs.ray import Ray

pytestmark = pytest.mark.ray

SWEEP = Sweep("s", ("rtop1f", "uniform"), ("ct15",), ("dcg", "p@3+sum"), k=(1,), horizons=(300,), runs=3)
PATIENCE = 180.0  # seconds: what takes moments takes long where much else is done


def ray() -> Any:
    return import_module("ray")  # as something without types: it has few


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one more node, each a set of processes with one processor."""
    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    head = {**size, "include_dashboard": False}
    made = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
    try:
        made.add_node(**size)
        yield made
    finally:
        ray().shutdown()
        made.shutdown()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def played(executor: Executor, stage: Any, runs: int) -> dict[tuple[int, int], bytes]:
    """Regrets of all learners of an experiment."""
    found = {}

    def keep(run: int, curve: Curve) -> None:
        found[run, curve.learner] = curve.regret.tobytes()

    def play(run: int, tick: Tick) -> Iterator[Curve]:  # local: nodes do not know this file
        return play_run(stage, run, range(len(stage.learners)), tick)

    executor.run(range(runs), play, keep, lambda _: None, str)
    return found


def test_a_node_lost_in_the_middle_loses_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    lost, begun = victim.node_id, tmp_path / "begun"
    begun.touch()

    def play(stages: Any, job: Any, tick: Tick) -> Iterator[Curve]:
        node = import_module("ray").get_runtime_context().get_node_id()
        with begun.open("a") as file:
            file.write(f"{job.setting} {job.run} {node}\n")
        if node == lost:
            time.sleep(600)  # nothing comes back from there
        return play_run(stages[job.setting], job.run, job.learners, tick)

    def remove_the_node_at_work() -> None:
        until(lambda: lost in begun.read_text())
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=remove_the_node_at_work)
    killer.start()
    with monkeypatch.context() as patch:
        patch.setattr(sweep_runs, "_compute_job", play)
        run_sweep(SWEEP, tmp_path / "ray", executor=Ray(cluster.address))
    killer.join()
    jobs = [line.rsplit(" ", 1) for line in begun.read_text().splitlines()]
    stuck = {job for job, node in jobs if node == lost}
    assert stuck
    assert stuck <= {job for job, node in jobs if node != lost}
    assert not ray().is_initialized()
    run_sweep(SWEEP, tmp_path / "threads", executor=Threads(2))
    assert contents(tmp_path / "ray") == contents(tmp_path / "threads")


@pytest.mark.usefixtures("own_registry")
def test_nodes_get_the_files_of_ones_own(cluster: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MEASURE + LEARNER)
    sweep = Sweep("own", ("stubborn:first=1",), ("ct15",), ("mine",), (1,), (100,), 2, imports=(str(file),))
    file.unlink()  # nodes have no such file
    run_sweep(sweep, tmp_path / "ray", executor=Ray(cluster.address))
    run_sweep(sweep, tmp_path / "threads", executor=Threads(2))
    assert contents(tmp_path / "ray") == contents(tmp_path / "threads")


# The command line, but for two things: all runs after the second take for ever, and it is told what was kept.
COMMAND = """
import time
from pathlib import Path
from peekrank.cli import app as cli
from peekrank.experiments import sweep_runs
from peekrank.experiments.run import play_run
from peekrank.jobs import run_files

def play(stages, job, tick):
    if job.run > 1:
        (here / "begun").touch()
        time.sleep(600)
    return play_run(stages[job.setting], job.run, job.learners, tick)

def add(self, *run, **known):
    took(self, *run, **known)
    with (here / "kept").open("a") as file:
        file.write(".")

here = Path.cwd()  # nodes have another
sweep_runs._compute_job, took, run_files.RunFiles.add = play, run_files.RunFiles.add, add
cli.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_signals_keep_what_is_finished_and_leave_no_process(
    way: signal.Signals, cluster: Any, tmp_path: Path
) -> None:
    sweep = Sweep("s", ("uniform",), ("ct15",), ("dcg",), k=(1,), horizons=(300,), runs=4)
    (tmp_path / "s.toml").write_text(sweep.toml())
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "kept").touch()
    command = [sys.executable, "command.py", "sweep", "s.toml", "--out", "ray", "--executor", "ray"]
    command += ["--workers", "1"] if way == signal.SIGINT else ["--address", cluster.address]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, start_new_session=True)
    try:
        until(
            lambda: (
                process.poll() is not None
                or ((tmp_path / "begun").exists() and (tmp_path / "kept").read_text() == "..")
            )
        )
        os.killpg(process.pid, way)  # as a terminal does: Ray's processes get it, too
        ended = process.wait(PATIENCE), (tmp_path / "said").read_text()
    finally:
        process.kill()
        process.wait()
    assert ended[0] == 130, ended[1]
    assert "Traceback" not in ended[1]
    assert "stopped; 2 of 4 runs are finished and kept in ray" in ended[1]
    until(lambda: not of_session(process.pid))
    assert not list(cluster.head_node.dead_processes())
    run_sweep(sweep, tmp_path / "ray")
    run_sweep(sweep, tmp_path / "threads")
    assert contents(tmp_path / "ray") == contents(tmp_path / "threads")


def of_session(session: int) -> list[str]:
    """Processes that were begun in a session and live."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _, _, its = file.read_text().rpartition(")")[2].split()[:4]
            if its == str(session) and state != "Z":
                found.append(file.parent.name)
    return found


@pytest.fixture(scope="module")
def executor(cluster: Any) -> Executor:
    """One that uses the connection of this process, which stays open."""
    ray().init(cluster.address, log_to_driver=False, logging_level="warning")
    return Ray()


def nothing(*_: object) -> None:
    pass


def test_data_are_sent(executor: Executor, tmp_path: Path) -> None:
    votes = tmp_path / "votes.soc"
    votes.write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    stage = run_context(Experiment(("rtop1f", "uniform"), str(votes), "p@1+sum", k=1, horizon=200))
    votes.unlink()  # nobody needs the file any more
    assert played(executor, stage, 3) == played(Threads(), stage, 3)


def test_errors_and_interruptions(
    executor: Executor, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = tmp_path / "attempts"

    def fail(job: int, _: object) -> list[int]:
        with attempts.open("a") as file:
            file.write(f"{job}\n")
        if job == 1:
            raise FloatingPointError("no luck")
        return [job]

    kept: list[int] = []
    with pytest.raises(FloatingPointError, match="no luck") as caught:
        executor.run([1], fail, nothing, nothing, "job {}".format)
    assert caught.value.__notes__ == ["in job 1"]
    assert attempts.read_text() == "1\n"

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        executor.run([2, 3, 4, 5], fail, lambda _, result: kept.append(result), interrupt, str)
    assert len(kept) == 1

    class Unknown:
        def __reduce__(self) -> tuple[Any, ...]:
            return import_module, ("peekrank.unknown",)

    with pytest.raises(ValueError, match=r"No module named 'peekrank.unknown'; nodes need the same peekrank"):
        executor.run([Unknown()], lambda *_: [0], nothing, nothing, str)
    monkeypatch.setattr(ray_executor, "_code", lambda: {"peekrank": "0.0"})
    with pytest.raises(ValueError, match=r"a node of the cluster has peekrank .*, not 0.0; nodes need the same"):
        executor.run([6], fail, lambda _, result: kept.append(result), nothing, str)
    assert len(kept) == 1
    with pytest.raises(ConnectionError, match="cannot join a Ray cluster at address"):
        Ray(cluster.address).run([7], fail, nothing, nothing, str)  # while there is another connection
    assert ray().is_initialized()


def test_a_job_that_ends_its_process_ends_all(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_TRIES", 2)
    attempts = tmp_path / "attempts"
    attempts.touch()

    def crash(job: int, _: object) -> list[int]:
        before = attempts.read_text().count(f"{job}")
        with attempts.open("a") as file:
            file.write(f"{job}")
        if before < job:
            os._exit(1)
        return [job]

    kept: list[int] = []
    executor.run([1], crash, lambda _, result: kept.append(result), nothing, str)
    assert kept == [1]
    with pytest.raises(ChildProcessError, match=r"job 7: its process died 2 times\."):
        executor.run([7], crash, nothing, nothing, "job {}".format)
    assert attempts.read_text() == "1177"


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n"])
def test_an_address_that_does_not_answer(
    answer: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer or b"")

        if answer is None:
            server.close()
        elif answer:
            threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ConnectionError, match=rf"at address '{address}'"):
            run_sweep(SWEEP, tmp_path / "results", executor=Ray(address))
    assert not (tmp_path / "results" / "runs").exists()


def test_an_address_that_answers_but_is_no_ray(tmp_path: Path) -> None:
    script = """
import sys
from peekrank.jobs import ray
assert ray._RAY_TIMEOUTS.keys() == (shorter := dict.fromkeys(ray._RAY_TIMEOUTS, "1")).keys()
ray._RAY_TIMEOUTS = shorter
ray.Ray(sys.argv[1]).run([1], print, print, print, str)
"""
    with socket.create_server(("", 0)) as server:  # Ray calls this machine by another name

        def serve() -> None:
            while True:
                connection, _ = server.accept()
                connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # HTTP/2, and not a word more
                connections.append(connection)

        connections: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-c", script, address]
        said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False).stderr
    for connection in connections:
        connection.close()
    assert f"ConnectionError: cannot join a Ray cluster at address '{address}'" in said
    assert "set RAY_AUTH_MODE=token" in said


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port", "head:70000"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        Ray(address)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"the package ray for .*pip install '\.\[ray\]'"):
        Ray().run([1], lambda job, _: [job], lambda *_: None, lambda _: None, str)
