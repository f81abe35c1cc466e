"""Experiments in folders: results do not depend on workers or interruptions, and nothing foreign is touched."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peekrank import CT15, DCG, Precision, RTop1F, simulate
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.runs import read, run, write_tables
from peekrank.jobs.executor import InterruptedRunError
from peekrank.regret import best_values, default_checkpoints, regret
from peekrank.types import Trace

SMALL = Experiment(("rtop1f", "uniform"), "ct15:m=6", "dcg", k=1, horizon=300, runs=3, seed=11)


def files(folder: Path) -> dict[str, bytes]:
    """Every run, by its learner and number."""
    return {path.stem.partition("-")[2]: path.read_bytes() for path in sorted((folder / "runs").iterdir())}


def file_of(folder: Path, part: str) -> Path:
    (found,) = (folder / "runs").glob(f"*-{part}.parquet")
    return found


def test_curves_are_those_of_simulate(tmp_path: Path) -> None:
    result = run(SMALL, tmp_path)
    checkpoints = default_checkpoints(300)
    for learner, name in zip(SMALL.parts.learners, SMALL.learners, strict=True):
        for r in range(3):
            rounds = SMALL.rounds(r)
            trace = simulate(
                learner, rounds, k=1, measure=DCG(), seed=SMALL.learner_seed(r), checkpoints=checkpoints
            )
            expected = regret(DCG(), trace, best_values(DCG(), rounds, checkpoints))
            assert np.array_equal(result.regrets(name)[r], expected)


def test_stream_measure_and_learners_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the experiment to its tables: a file behind a stream may be long, and a learner's tables large."""
    made: Counter[str] = Counter()
    for cls in (CT15, Precision, RTop1F):

        def count(self: Any, cls: type = cls, check: Any = cls.__post_init__) -> None:
            made[cls.__name__] += 1
            check(self)

        monkeypatch.setattr(cls, "__post_init__", count)
    experiment = replace(SMALL, measure="p@2+sum", runs=2)
    write_tables(run(experiment, tmp_path, workers=2), tmp_path)
    assert made == {"CT15": 1, "Precision": 1, "RTop1F": 1}


def test_results_do_not_depend_on_workers(tmp_path: Path) -> None:
    run(SMALL, tmp_path / "one", workers=1)
    run(SMALL, tmp_path / "three", workers=3)
    assert files(tmp_path / "one") == files(tmp_path / "three")


def test_missing_runs_are_done_again_and_others_left_alone(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    before = files(tmp_path)
    kept = file_of(tmp_path, "00-0001")
    stamp = kept.stat().st_mtime_ns
    file_of(tmp_path, "01-0002").unlink()
    run(SMALL, tmp_path)
    assert files(tmp_path) == before
    assert kept.stat().st_mtime_ns == stamp


def test_interruption_keeps_what_is_finished(tmp_path: Path) -> None:
    done: list[int] = []

    def stop_in_the_middle(rounds: int) -> None:
        done.append(rounds)
        if len(done) == 5:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        run(SMALL, tmp_path, progress=stop_in_the_middle)
    assert 0 < len(files(tmp_path)) < 6
    with pytest.raises(ValueError, match="the experiment is not finished"):
        read(tmp_path)
    run(SMALL, tmp_path)
    run(SMALL, tmp_path / "straight")
    kept = files(tmp_path)
    assert kept == files(tmp_path / "straight")


def test_rounds_of_runs(tmp_path: Path) -> None:
    redrawn, fixed = (replace(SMALL, same_rounds=same_rounds) for same_rounds in (False, True))
    assert not np.array_equal(redrawn.rounds(0).relevance, redrawn.rounds(1).relevance)
    assert np.array_equal(fixed.rounds(0).relevance, fixed.rounds(1).relevance)
    assert not np.array_equal(*run(fixed, tmp_path).regrets("rtop1f")[:2])


def test_manifest_says_what_was_run(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["experiment"]["learners"] == ["rtop1f", "uniform"]
    assert manifest["experiment"]["seed"] == 11
    assert set(manifest["versions"]) == {"peekrank", "numpy", "numba", "scipy"}


@pytest.mark.parametrize("as_csv", [False, True])
def test_tables(as_csv: bool, tmp_path: Path) -> None:
    result = run(SMALL, tmp_path)
    curves, summary = write_tables(result, tmp_path, as_csv=as_csv)
    table = pl.read_csv(curves) if as_csv else pl.read_parquet(curves)
    assert table.columns == ["learner", "run", "checkpoints", "value", "regret", "explored"]
    assert len(table) == 2 * 3 * len(result.checkpoints)
    last = table.filter((pl.col("checkpoints") == 300) & (pl.col("learner") == "rtop1f"))
    row = pl.read_csv(summary).row(0, named=True)
    assert row["learner"] == "rtop1f"
    assert row["regret"] == pytest.approx(np.mean(last["regret"].to_list()))
    assert row["spread"] == pytest.approx(np.std(last["regret"].to_list(), ddof=1))
    assert row["explored"] == pytest.approx(np.mean(last["explored"].to_list()) / 300)


def test_a_failing_run_fails_the_experiment_and_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, checkpoints: object = None, **__: object) -> Trace:
        if checkpoints is not None:
            raise RuntimeError("no luck")
        return Trace(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))

    monkeypatch.setattr("peekrank.experiments.run.simulate", broken)
    with pytest.raises(RuntimeError, match="no luck") as caught:
        run(SMALL, tmp_path)
    learner, where = caught.value.__notes__
    assert learner == "learner 'rtop1f'"
    assert "run 0 of Experiment(learners=('rtop1f'" in where


def test_a_run_of_another_length_is_refused(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    path = file_of(tmp_path, "00-0000")
    pl.read_parquet(path).head(3).write_parquet(path)
    with pytest.raises(ValueError, match=r"00-0000\.parquet does not belong to this experiment"):
        run(SMALL, tmp_path)


def test_how_fast_it_was_is_known_from_the_timings_alone(tmp_path: Path) -> None:
    first = next(run(SMALL, tmp_path).summaries())
    assert next(read(tmp_path).summaries()).rounds_per_second == pytest.approx(first.rounds_per_second, rel=1e-4)
    killed_while_writing = "part,seconds\n00-0000,2.0\n00-0001,0.5\n00-0002,1e-0\n01-0000,4.01-0001,5\n01-0002,4"
    (tmp_path / "timings.csv").write_text(killed_while_writing)
    one, other = run(SMALL, tmp_path).summaries()
    assert one.rounds_per_second == 300
    assert np.isnan(other.rounds_per_second)


def test_another_experiment_is_refused(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    with pytest.raises(ValueError, match="another experiment, with different k, seed"):
        run(replace(SMALL, seed=12, k=2), tmp_path)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    votes = tmp_path / "votes.soc"
    votes.write_text("# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n1: 3,1,2\n")
    experiment = replace(SMALL, stream=f"orders:path={votes}")
    run(experiment, tmp_path / "results")
    file_of(tmp_path / "results", "00-0000").unlink()
    votes.write_text("# NUMBER ALTERNATIVES: 3\n2: 3,2,1\n1: 3,1,2\n")
    with pytest.raises(ValueError, match="another experiment, with different content of the data"):
        run(experiment, tmp_path / "results")


def test_a_file_may_change_before_anything_is_finished(tmp_path: Path) -> None:
    votes, folder = tmp_path / "votes.soc", tmp_path / "results"
    votes.write_text("# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n")
    experiment = replace(SMALL, stream=f"orders:path={votes}")

    def stop_at_once(rounds: int) -> None:
        if rounds:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        run(experiment, folder, progress=stop_at_once)
    assert not (folder / "runs").exists()
    votes.write_text("# NUMBER ALTERNATIVES: 3\n2: 3,2,1\n")
    run(experiment, folder)
    assert run(experiment, folder).experiment == experiment


def test_numpy_integers_are_integers(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"horizon": np.int64(300), "k": np.int32(1)}
    assert run(replace(SMALL, **numbers), tmp_path).experiment == SMALL


@pytest.mark.parametrize("learner", ["rtop1f:measure=p@1+sum", "rtop1f:horizon=100"])
def test_no_bound_for_what_a_learner_was_not_tuned_to(learner: str, tmp_path: Path) -> None:
    summary, tuned = run(replace(SMALL, learners=(learner, "rtop1f"), runs=1), tmp_path).summaries()
    assert summary.bound is None
    assert tuned.bound is not None


def test_a_folder_of_something_else_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a results folder"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learners": ()}, "no learners"),
        ({"learners": ("uniform", "uniform")}, "occurs twice"),
        ({"learners": ("rtop1",)}, "unknown learner 'rtop1': did you mean 'rtop1f'"),
        ({"stream": "ct16"}, "unknown stream 'ct16': did you mean 'ct15'"),
        ({"measure": "dgc"}, "unknown measure 'dgc': did you mean 'dcg'"),
        ({"measure": "ndcg"}, "ndcg cannot be learned from revealed items"),
        ({"k": 7}, "k = 7: must be between 1 and the number of items, m = 6"),
        ({"horizon": 0}, "horizon = 0"),
        ({"runs": 0}, "runs = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_bad_experiments(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_items_that_come_and_go(tmp_path: Path) -> None:
    """Learners that know items one by one, or nothing about them, can be compared; others say why not."""
    how: dict[str, Any] = {"stream": "available:m=12,n=4", "measure": "dcg", "k": 1, "horizon": 2000, "runs": 2}
    result = run(Experiment(("doubtsort", "uniform"), **how), tmp_path / "a")
    learned, random = (result.regrets(name)[:, -1].mean() for name in ("doubtsort", "uniform"))
    assert 0 < learned < 0.3 * random
    with pytest.raises(ValueError, match="blockftrl ranks a fixed set of items"):
        run(Experiment(("blockftrl",), **how), tmp_path / "b")
