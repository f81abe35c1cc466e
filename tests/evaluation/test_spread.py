"""Evaluation with several threads or processes: the numbers of one, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.command_line import peekrank, refused
from helpers.made_logs import POLICIES, close, days, mixed_log
from peekrank import DCG
from peekrank.evaluation import sources
from peekrank.evaluation.evaluation import Evaluation, Options, evaluate_log, evaluate_source
from peekrank.evaluation.policies import policy, ranker
from peekrank.evaluation.saved_fold import SavedFold
from peekrank.evaluation.sources import open_source
from peekrank.jobs.executor import Executor, InterruptedRunError, Threads
from peekrank.jobs.ray import Ray


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "CANDIDATES", 40)
    days(mixed_log(), tmp_path / "days")
    return tmp_path / "days"


def evaluated(folder: Path, executor: Executor | None, **more: Any) -> Evaluation:
    source = open_source(folder)
    rankers = [ranker(text, source.scope, measure=DCG()) for text in POLICIES]
    options = Options(regression=more.pop("regression", "items"))
    return evaluate_source(source, rankers, DCG(), options, executor=executor, **more)


@pytest.fixture(params=["threads", pytest.param("ray", marks=pytest.mark.ray)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Four workers."""
    if request.param == "threads":
        yield Threads(4)
        return
    ray = import_module("ray")
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
    try:
        yield Ray()
    finally:
        ray.shutdown()


def test_four_workers_give_the_numbers_of_one_process(executor: Executor, folder: Path) -> None:
    alone = evaluated(folder, None)
    close(alone, evaluated(folder, executor), 0)
    log = mixed_log()
    at = alone.estimates[0].checkpoints
    whole = evaluate_log(log, [policy(text, log, measure=DCG()) for text in POLICIES], DCG(), checkpoints=at)
    close(whole, alone)
    close(evaluated(folder, None, regression="features"), evaluated(folder, executor, regression="features"), 0)
    last = folder / "day=2026-02-01" / "slot=home" / "part-0.parquet"
    pl.read_parquet(last).with_columns(pl.Series("k", [2] * 30 + [9] + [2] * 19)).write_parquet(last)
    with pytest.raises(ValueError, match=r"part-0\.parquet, row 31, field 'k': 9: must be from 1 to"):
        evaluated(folder, executor)


def test_threads_continue_what_was_interrupted(folder: Path, tmp_path: Path) -> None:
    alone, done = evaluated(folder, None), 0
    source = open_source(folder)
    texts = ["order:3,0,1", "score"]
    rankers = [ranker(text, source.scope, measure=DCG()) for text in texts]
    expected = evaluate_source(source, rankers, DCG())

    def stopped(n: int) -> None:
        nonlocal done
        done += n
        if done > 150:
            raise InterruptedRunError

    for progress in (stopped, lambda _: None):
        rankers = [ranker(text, source.scope, measure=DCG()) for text in texts]
        saved = SavedFold(tmp_path / "state", source, {}, pause=0.0)
        given: dict[str, Any] = {"saved": saved, "executor": Threads(3), "progress": progress}
        if progress is stopped:
            with pytest.raises(KeyboardInterrupt):
                evaluate_source(source, rankers, DCG(), **given)
        else:
            close(expected, evaluate_source(source, rankers, DCG(), **given), 0)
    assert saved.resumed
    assert alone.decisions == 300


def test_parts_start_where_they_are_read(folder: Path) -> None:
    source = open_source(folder)
    for first in (0, 1, 8, 49, 50, 123, 299):
        lengths = [len(part.k) for part in source.parts(first)]
        assert source.starts(first) == (first + np.append(0, np.cumsum(lengths)[:-1])).tolist()  # type: ignore[attr-defined]
    assert source.starts(300) == []  # type: ignore[attr-defined]


def test_the_command_reads_with_several_threads(folder: Path, tmp_path: Path) -> None:
    base = ["evaluate", str(folder), "--policy", "order:3,0,1", "--policy", "score", "--json", "-"]
    assert peekrank(*base, "--workers", "3").output == peekrank(*base).output
    lines = tmp_path / "log.jsonl"
    from peekrank.evaluation.log import write_log

    write_log(lines, mixed_log())
    assert "only Parquet files can be read by several processes" in refused(
        "evaluate", str(lines), "--policy", "score", "--workers", "2"
    )
