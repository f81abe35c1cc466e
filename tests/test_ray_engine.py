"""The Ray engine on a real cluster of several nodes: the results of threads, whatever becomes of the nodes."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from peekrank import ray_engine, sweep_runs
from peekrank.experiment import Experiment
from peekrank.ray_engine import Ray
from peekrank.runs import Curve, Engine, InterruptedRunError, Threads, Tick, play_run, setting_of
from peekrank.sweep import Sweep
from peekrank.sweep_runs import run_sweep

NODES = 3
SWEEP = Sweep("s", ("rtop1f", "uniform"), ("ct15:m=60",), ("dcg", "p@3"), k=(1,), horizons=(30_000,), runs=5)


def ray() -> Any:
    return import_module("ray")  # as something without types: it has few


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two more nodes, each a set of processes with one processor."""
    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    soon = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 3,
    }
    head = {**size, "include_dashboard": False, "_system_config": soon}  # a lost node is noticed within seconds
    made = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(NODES - 1):
            made.add_node(wait=False, **size)
        made.wait_for_nodes()
        yield made
    finally:
        ray().shutdown()
        made.shutdown()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def played(engine: Engine, setting: Any, runs: int) -> dict[tuple[int, int], bytes]:
    """Regrets of all learners of a setting."""
    found = {}

    def keep(run: int, curve: Curve) -> None:
        found[run, curve.learner] = curve.regret.tobytes()

    def play(run: int, tick: Tick) -> Iterator[Curve]:  # local: nodes do not know this file
        return play_run(setting, run, range(len(setting.learners)), tick)

    engine.do_all(range(runs), play, keep, lambda _: None, str)
    return found


def test_a_node_lost_in_the_middle_loses_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    lost, begun = victim.node_id, tmp_path / "begun"
    begun.touch()

    def play(settings: Any, job: Any, tick: Tick) -> Iterator[Curve]:
        node = import_module("ray").get_runtime_context().get_node_id()
        with begun.open("a") as file:
            file.write(f"{job.cell} {job.run} {node}\n")
        if node == lost:
            time.sleep(600)  # nothing comes back from there
        return play_run(settings[job.cell], job.run, job.learners, tick)

    def remove_the_node_at_work() -> None:
        deadline = time.monotonic() + 120
        while lost not in begun.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=remove_the_node_at_work)
    killer.start()
    with monkeypatch.context() as patch:
        patch.setattr(sweep_runs, "_play", play)
        run_sweep(SWEEP, tmp_path / "ray", engine=Ray(cluster.address))
    killer.join()
    jobs = [line.rsplit(" ", 1) for line in begun.read_text().splitlines()]
    stuck = {job for job, node in jobs if node == lost}
    assert stuck
    assert stuck <= {job for job, node in jobs if node != lost}
    assert not ray().is_initialized()
    run_sweep(SWEEP, tmp_path / "threads", engine=Threads(2))
    assert contents(tmp_path / "ray") == contents(tmp_path / "threads")


def test_data_errors_and_interruptions(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray().init(cluster.address, log_to_driver=False, logging_level="warning")  # it is used, and left open
    engine, attempts = Ray(), tmp_path / "attempts"
    votes = tmp_path / "votes.soc"
    votes.write_text("# NUMBER ALTERNATIVES: 4\n2: 1,2,3,4\n1: 3,1,2,4\n")
    setting = setting_of(Experiment(("rtop1f", "uniform"), str(votes), "p@1", k=1, horizon=200))
    votes.unlink()  # nobody needs the file any more
    assert played(engine, setting, 3) == played(Threads(), setting, 3)

    def fail(job: int, _: object) -> list[int]:
        with attempts.open("a") as file:
            file.write(f"{job}\n")
        if job == 1:
            raise FloatingPointError("no luck")
        return [job]

    kept: list[int] = []
    with pytest.raises(FloatingPointError, match="no luck") as caught:
        engine.do_all([1], fail, lambda _, result: kept.append(result), lambda _: None, "job {}".format)
    assert caught.value.__notes__ == ["in job 1"]
    assert attempts.read_text() == "1\n"

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        engine.do_all([2, 3, 4, 5], fail, lambda _, result: kept.append(result), interrupt, str)
    assert len(kept) == 1

    monkeypatch.setattr(ray_engine, "_code", lambda: {"peekrank": "0.0"})
    with pytest.raises(ValueError, match=r"a node of the cluster has .*, this machine {'peekrank': '0.0'}"):
        engine.do_all([6], fail, lambda _, result: kept.append(result), lambda _: None, str)
    assert len(kept) == 1
    assert ray().is_initialized()


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n"])
def test_an_address_that_does_not_answer(
    answer: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_PATIENCE", 0.3)
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
            run_sweep(SWEEP, tmp_path / "results", engine=Ray(address))
    assert not (tmp_path / "results" / "runs").exists()


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port", "head:70000"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        Ray(address)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'peekrank\[ray\]'"):
        Ray().do_all([1], lambda job, _: [job], lambda *_: None, lambda _: None, str)
