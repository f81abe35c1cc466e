"""Sweeps: values, TOML files, and folders that come to the same bytes whatever happens on the way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.folders import contents
from peekrank import simulate
from peekrank.experiments import run, runs
from peekrank.experiments.sweep import EXAMPLE, Sweep, read_sweep
from peekrank.experiments.sweep_runs import _make_plan, finished_runs, run_sweep
from peekrank.jobs import results_dir as folders
from peekrank.jobs import run_files
from peekrank.jobs.executor import InterruptedRunError, Threads

SMALL = Sweep(
    "small", ("rtop1f", "uniform"), ("ct15:m=5",), ("dcg", "p@2+sum"), k=(1, 2), horizons=(60, 90), runs=3
)
RUNS = 2 * 8 * 3


def rows_of(folder: Path) -> set[tuple[Any, ...]]:
    """All that the files of runs hold."""
    return {(path.name, *row) for path in folder.glob("runs/*.parquet") for row in pl.read_parquet(path).rows()}


def read(text: str, folder: Path) -> Sweep:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return read_sweep(path)


def test_settings_are_all_combinations() -> None:
    found = SMALL.settings
    assert {(e.stream, e.measure, e.k, e.horizon) for e in found} == {
        ("ct15:m=5", measure, k, horizon) for measure in ("dcg", "p@2+sum") for k in (1, 2) for horizon in (60, 90)
    }
    assert {(e.learners, e.runs, e.seed, e.same_rounds) for e in found} == {(SMALL.learners, 3, 0, False)}
    assert SMALL.rounds == sum(e.horizon * e.runs * len(e.learners) for e in found)


def test_the_digest_tells_sweeps_apart_and_spellings_not() -> None:
    changes: list[dict[str, Any]] = [{"seed": 1}, {"runs": 4}, {"k": (1,)}, {"name": "other"}]
    assert len({replace(SMALL, **change).digest for change in [{}, *changes]}) == 5
    spelled: dict[str, Any] = {"streams": ["ct15:m=5,noise=0.25"], "k": [np.int64(1), 2]}
    assert replace(SMALL, **spelled).digest == SMALL.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name = '': must be one line of text"),
        ({"learners": "rtop1f"}, "learners = 'rtop1f': must be a list of one or more"),
        ({"learners": ()}, "must be a list of one or more"),
        (
            {"learners": ("uniform", "rtop1f", "rtop1f:horizon=60")},
            "learners 'rtop1f' and 'rtop1f:horizon=60' are the same in the setting with .* horizon 60",
        ),
        ({"streams": ("nowhere.soc",)}, r"No such file or directory: 'nowhere\.soc'"),
        ({"runs": 10**9}, "runs = 1000000000: 16,000,000,000 in total; must be at most 10,000,000"),
        ({"learners": ("uniform", "uniform")}, "learners has 'uniform' twice"),
        ({"learners": ("rtop1",)}, "unknown learner 'rtop1': did you mean 'rtop1f'"),
        ({"streams": ("ct15", "ct15:m=10")}, "streams has 'ct15' twice"),
        ({"streams": ("ct16",)}, "unknown stream 'ct16': did you mean 'ct15'"),
        ({"measures": ("dgc",)}, "unknown measure 'dgc': did you mean 'dcg'"),
        ({"measures": (3,)}, "measures = 3: must be one line of text"),
        ({"k": (0,)}, "k = 0: must be a whole number, at least 1"),
        ({"horizons": (1.5,)}, "horizons = 1.5: must be a whole number"),
        ({"runs": True}, "runs = True: must be a whole number"),
        ({"same_rounds": 1}, "same_rounds = 1: must be true or false"),
        ({"k": (1, 6)}, "k = 6: stream 'ct15:m=5' has 5 items"),
        (
            {"measures": ("dcg", "ndcg")},
            "learner 'rtop1f' does not fit the setting with .* measure 'ndcg', .*: ndcg cannot be learned",
        ),
        ({"learners": ("uniform", "rtop1f:ordre=fixed")}, "learner 'rtop1f:ordre=fixed' .* did you mean 'order'"),
    ],
)
def test_bad_sweeps(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_the_example_is_a_sweep(tmp_path: Path) -> None:
    sweep = read(EXAMPLE, tmp_path)
    assert sweep.name == "example"
    assert sweep.k == (1,)  # one value stands for a list of one
    assert len(sweep.settings) == 8


@given(
    name=st.text(min_size=1).filter(lambda text: text.strip() and text.isprintable()),
    k=st.lists(st.integers(1, 5), min_size=1, unique=True),
    seed=st.integers(0, 2**63 - 1),
    same_rounds=st.booleans(),
)
def test_toml_round_trip(
    name: str, k: list[int], seed: int, same_rounds: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sweep = replace(SMALL, name=name, k=tuple(k), seed=seed, same_rounds=same_rounds)
    assert read(sweep.toml(), tmp_path_factory.mktemp("toml")) == sweep


GOOD = """\
# k = 0 and "rtop1" in a comment mislead nobody
name = "n"
learners = [
    "uniform",  # not "rtop1"
    "rtop1f",
]
streams = "ct15"
measures = ["dcg"]
k = [1, 2]
horizons = 100
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"rtop1f"', '"rtop1"', 5, "unknown learner 'rtop1': did you mean 'rtop1f'?"),
        ('"ct15"', "'ct51'", 7, "unknown stream 'ct51': did you mean 'ct15'?"),
        ('["dcg"]', '["p@3+sum", "dgc"]', 8, "unknown measure 'dgc': did you mean 'dcg'?"),
        ("[1, 2]", "[\n  1,\n  0,\n]", 11, "k = 0: must be a whole number, at least 1"),
        ("[1, 2]", "[1, 11]", 9, "k = 11: stream 'ct15' has 10 items"),
        ('"ct15"', '"nowhere.soc"', 7, "No such file or directory"),
        ("horizons = 100", "horizons = '100'", 10, "horizons = '100': must be a whole number"),
        ("horizons = 100", "horizons = []", 10, r"horizons = \[\]: must be a list of one or more"),
        ("horizons = 100", "horizons = 100\nrun = 3", 11, "unknown key 'run': did you mean 'runs'?"),
        ("horizons = 100", "horizons = 100\n[runs]\nx = 1", 11, "runs = {'x': 1}: must be a whole number"),
        ("horizons = 100", "horizons = 100\n[more]\nx = 1", 11, "unknown key 'more'"),
        ("horizons = 100", "horizons = 100\nsame_rounds = 'no'", 11, "same_rounds = 'no': must be true or false"),
        ('name = "n"', "name = 3", 2, "name = 3: must be one line of text"),
        ('streams = "ct15"', 'streams = "ct15', 7, "not valid TOML"),
        ("horizons = 100", "horizons = [100", 10, "not valid TOML"),
        ('"ct15"', '"ct15:m=2147483647"', 7, "m = 2147483647: must be a whole number, from 1 to 1000000"),
        ('"dcg"', f'"p@1{"0" * 400}"', 8, r"cut-off n = 10+\.\.\.|cut-off n = 10+: must be"),
        ('"rtop1f"', f'"{"x" * 5000}"', 5, r"unknown learner 'x{780}x*\.\.\.$"),
        ("horizons = 100", "horizons = 100\nk = 3", 11, "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported_with_its_line(
    old: str, new: str, line: int, message: str, tmp_path: Path
) -> None:
    assert read(GOOD, tmp_path).k == (1, 2)
    with pytest.raises(ValueError, match=rf"sweep\.toml, line {line}: .*{message}"):
        read(GOOD.replace(old, new), tmp_path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sweep\.toml: learners, streams, measures, k, horizons missing"):
        read("name = 'a'", tmp_path)
    (tmp_path / "sweep.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_sweep(tmp_path / "sweep.toml")
    with pytest.raises(FileNotFoundError):
        read_sweep(tmp_path / "nowhere.toml")
    for text, reason in (
        ("k = " + "1" * 5000, "has a number of too many digits"),
        ("k = " + "[" * 5000 + "]" * 5000, "is nested too deeply"),
    ):
        with pytest.raises(ValueError, match=rf"sweep\.toml: {reason}"):
            read(text, tmp_path)


def test_runs_are_those_of_simulate(tmp_path: Path) -> None:
    done = run_sweep(SMALL, tmp_path / "sweep")
    alone = runs.run(SMALL.settings[3], tmp_path / "alone")
    for learner in SMALL.learners:
        assert np.array_equal(done.results[3].regrets(learner), alone.regrets(learner))
    row = done.summary().row(3 * 2, named=True)
    first = next(alone.summaries())
    assert (row["measure"], row["k"], row["horizon"], row["learner"]) == ("dcg", 2, 90, "rtop1f")
    assert (row["regret"], row["spread"], row["bound"]) == (first.regret, first.spread, first.bound)


def test_the_folder_says_what_is_in_it(tmp_path: Path) -> None:
    done = run_sweep(SMALL, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["sweep"]["digest"] == SMALL.digest
    assert manifest["sweep"]["measures"] == ["dcg", "p@2+sum"]
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        f"{digest}-000000.parquet" for digest in manifest["runs"]
    }
    assert len(manifest["runs"]) == RUNS / SMALL.runs
    for digest, what in manifest["runs"].items():
        assert what["code"] in manifest["code"]
        position = next(
            i for i, e in enumerate(SMALL.settings)
            if (e.measure, e.k, e.horizon) == (what["measure"], what["k"], what["horizon"])
        )  # fmt: skip
        learner = what["learner"].partition(":")[0]
        stored = pl.read_parquet(tmp_path / "runs" / f"{digest}-000000.parquet")
        assert np.array_equal(stored["run"].unique(), np.arange(SMALL.runs))
        assert np.array_equal(stored["regret"], done.results[position].regrets(learner).ravel())
    summary = pl.read_parquet(tmp_path / "summary.parquet")
    assert summary.equals(done.summary())
    assert pl.read_csv(tmp_path / "summary.csv")["regret"].to_list() == summary["regret"].to_list()
    assert len(pl.read_csv(tmp_path / "comparisons.csv")) == 8
    timings = pl.read_csv(tmp_path / "timings.csv")
    assert {part.partition("-")[0] for part in timings["part"]} == set(manifest["runs"])
    assert len(timings) == RUNS
    assert all(s.rounds_per_second > 0 for s in done.results[0].summaries())


def test_every_learner_of_a_run_has_the_same_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[Any, set[bytes]] = {}

    def spy(learner: Any, rounds: Any, **how: Any) -> Any:
        if "seed" in how:  # compiling plays without one
            seen.setdefault((how["seed"].spawn_key, len(rounds.offsets)), set()).add(rounds.relevance.tobytes())
        return simulate(learner, rounds, **how)

    monkeypatch.setattr(run, "simulate", spy)
    run_sweep(SMALL, tmp_path)
    assert [len(different) for different in seen.values()] == [1] * 6  # three runs of two lengths
    assert len(set.union(*seen.values())) == 6


@pytest.mark.parametrize("same_rounds", [True, False])
def test_results_do_not_depend_on_workers(same_rounds: bool, tmp_path: Path) -> None:
    sweep = replace(SMALL, same_rounds=same_rounds)
    run_sweep(sweep, tmp_path / "one")
    run_sweep(sweep, tmp_path / "three", executor=Threads(3))
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


@pytest.mark.parametrize(
    ("change", "new"),
    [({"runs": 4}, 16), ({"learners": ("ftpl", "uniform")}, 24), ({"horizons": (60,)}, 0), ({"seed": 5}, RUNS)],
)
def test_only_what_is_missing_is_done_and_nothing_is_lost(
    change: dict[str, Any], new: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(SMALL, tmp_path)
    before, played = rows_of(tmp_path), []
    counted: list[int] = []

    def spy(*what: Any, **how: Any) -> Any:
        if "seed" in how:  # compiling plays without one
            played.append(what)
        return simulate(*what, **how)

    monkeypatch.setattr(run, "simulate", spy)
    changed = replace(SMALL, **change)
    done = run_sweep(changed, tmp_path, progress=counted.append)
    assert len(played) == new
    assert sum(counted) == changed.rounds
    assert before <= rows_of(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert set(manifest["runs"]) == {path.name.partition("-")[0] for path in (tmp_path / "runs").iterdir()}
    assert done.summary().equals(run_sweep(changed, tmp_path / "fresh").summary())
    assert rows_of(tmp_path / "fresh") <= rows_of(tmp_path)


def test_bytes_do_not_depend_on_what_was_added_when(tmp_path: Path) -> None:
    for part in (replace(SMALL, runs=1), replace(SMALL, learners=("uniform",)), SMALL):
        run_sweep(part, tmp_path / "bit by bit")
    run_sweep(SMALL, tmp_path / "at once")
    assert contents(tmp_path / "bit by bit") == contents(tmp_path / "at once")


@pytest.mark.parametrize(("runs_of_a_file", "seconds"), [(2, 1.0), (64, 0.0)])
def test_runs_are_the_same_however_many_share_a_file(
    runs_of_a_file: int, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_sweep(SMALL, tmp_path / "whole").summary()
    monkeypatch.setattr(run_files, "_RUNS", runs_of_a_file)
    monkeypatch.setattr(run_files, "_SECONDS", seconds)
    assert run_sweep(SMALL, tmp_path / "parts").summary().equals(whole)
    assert finished_runs(SMALL, tmp_path / "parts") == RUNS
    files = -(-SMALL.runs // runs_of_a_file) * RUNS // SMALL.runs
    assert len(list((tmp_path / "parts" / "runs").iterdir())) == files
    assert run_sweep(SMALL, tmp_path / "parts").summary().equals(whole)


def test_other_code_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sweep(SMALL, tmp_path)
    monkeypatch.setattr(folders, "code_digest", lambda *_: "0123456789abcdef")
    assert finished_runs(SMALL, tmp_path) == 0
    run_sweep(SMALL, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert len(manifest["runs"]) == 2 * RUNS / SMALL.runs
    assert len(manifest["code"]) == 2 + 1  # of either learner, and the other code


@pytest.mark.parametrize(
    "change",
    [
        {"same_rounds": True}, {"seed": 1}, {"horizons": (61,)}, {"k": (3,)}, {"measures": ("dcg@3",)},
        {"streams": ("ct15:m=6",)}, {"learners": ("ftpl",)},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_determines_a_run_makes_it_another(change: dict[str, Any]) -> None:
    before, after = _make_plan(SMALL).runs, _make_plan(replace(SMALL, **change)).runs
    assert after
    assert before.keys().isdisjoint(after)


def test_a_file_counts_by_its_content_not_its_position(tmp_path: Path) -> None:
    votes = [tmp_path / "here" / "votes.soc", tmp_path / "there" / "votes.soc"]
    for path in votes:
        path.parent.mkdir()
        path.write_text("# NUMBER ALTERNATIVES: 5\n2: 1,2,3,4,5\n1: 3,1,2,4,5\n")
    here, there = (replace(SMALL, streams=(str(path),)) for path in votes)
    run_sweep(here, tmp_path / "results")
    assert finished_runs(there, tmp_path / "results") == RUNS
    votes[1].write_text("# NUMBER ALTERNATIVES: 5\n2: 5,2,3,4,1\n1: 3,1,2,4,5\n")
    assert finished_runs(there, tmp_path / "results") == 0


def test_interrupted_and_again_is_the_same_as_straight(tmp_path: Path) -> None:
    done: list[int] = []

    def stop_in_the_middle(rounds: int) -> None:
        done.append(rounds)
        if len(done) == 20:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        run_sweep(SMALL, tmp_path / "stopped", progress=stop_in_the_middle)
    assert 0 < finished_runs(SMALL, tmp_path / "stopped") < RUNS
    assert len(pl.read_csv(tmp_path / "stopped" / "timings.csv")) == finished_runs(SMALL, tmp_path / "stopped")
    counted: list[int] = []
    run_sweep(SMALL, tmp_path / "stopped", progress=counted.append)
    assert sum(counted) == SMALL.rounds
    run_sweep(SMALL, tmp_path / "straight")
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")


KILLED = """
import sys
from pathlib import Path
from peekrank.jobs.executor import Threads
from peekrank.experiments.sweep import read_sweep
from peekrank.experiments.sweep_runs import run_sweep
run_sweep(read_sweep(Path(sys.argv[1])), Path(sys.argv[2]), executor=Threads(2))
"""


@pytest.mark.slow
def test_killed_without_warning_it_comes_to_the_same_bytes(tmp_path: Path) -> None:
    sweep = replace(SMALL, streams=("ct15:m=20",), horizons=(10_000, 12_000), runs=25)
    (tmp_path / "sweep.toml").write_text(sweep.toml())
    command = [sys.executable, "-c", KILLED, str(tmp_path / "sweep.toml"), str(tmp_path / "killed")]
    counts: list[int] = []
    for more in (2, 4):
        with subprocess.Popen(command) as process:
            wanted, deadline = more + sum(counts[-1:]), time.monotonic() + 120
            while process.poll() is None and time.monotonic() < deadline:
                counts.append(len(list((tmp_path / "killed" / "runs").glob("*.parquet"))))
                if counts[-1] >= wanted:
                    break
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    assert 0 < finished_runs(sweep, tmp_path / "killed") < 400
    # what a kill in the middle of writing leaves behind
    (tmp_path / "killed" / "runs" / f".x.parquet.{process.pid}-1.part").write_bytes(b"PAR1")
    run_sweep(sweep, tmp_path / "killed")
    run_sweep(sweep, tmp_path / "straight")
    assert contents(tmp_path / "killed") == contents(tmp_path / "straight")


def failing(after: int, error: Callable[[], BaseException], real: Callable[..., Any]) -> Callable[..., Any]:
    calls: list[int] = []

    def work(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) > after:
            raise error()
        return real(*arguments, **named)

    return work


def test_a_failed_run_is_named_and_finished_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        broken = failing(5, lambda: FloatingPointError("no luck"), simulate)
        # Compiling plays without a seed, and is no run.
        patch.setattr(run, "simulate", lambda *what, **how: (broken if "seed" in how else simulate)(*what, **how))
        with pytest.raises(FloatingPointError, match="no luck") as caught:
            run_sweep(SMALL, tmp_path)
    learner, where = caught.value.__notes__
    assert learner == "learner 'uniform'"
    assert where == (
        "in run 2 with stream = ct15:m=5, measure = dcg, k = 1, horizon = 90, seed = 0, same_rounds = False, "
        "regret = static"
    )
    assert finished_runs(SMALL, tmp_path) == 5
    run_sweep(SMALL, tmp_path)
    assert finished_runs(SMALL, tmp_path) == RUNS


def test_a_full_disk_is_reported_and_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.replace

    def full(path: Path, target: Path) -> Path:
        if len(list((tmp_path / "runs").glob("[0-9a-f]*.parquet"))) == 4 and path.suffix == ".part":
            path.write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            run_sweep(SMALL, tmp_path)
    assert "run the same command again to resume" in caught.value.__notes__[-1]
    assert len(contents(tmp_path / "runs")) == 4
    run_sweep(SMALL, tmp_path)
    run_sweep(SMALL, tmp_path / "straight")
    assert contents(tmp_path / "runs") == contents(tmp_path / "straight" / "runs")


@pytest.mark.parametrize("why", [FloatingPointError("no luck"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_what_cannot_be_written_at_the_end_hides_nothing(
    why: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")

    monkeypatch.setattr(folders.ResultsDir, "write", full)
    expected = InterruptedRunError if isinstance(why, KeyboardInterrupt) else FloatingPointError
    with pytest.raises(expected) as caught:
        run_sweep(replace(SMALL, horizons=(60,)), tmp_path, progress=failing(5, lambda: why, lambda rounds: None))
    assert "cannot write some finished runs: [Errno 28] No space left" in caught.value.__notes__[-1]


@pytest.mark.parametrize("damage", [{"runs": 7}, {"code": []}])
def test_a_manifest_that_does_not_say_what_is_there_is_named(damage: dict[str, Any], tmp_path: Path) -> None:
    run_sweep(SMALL, tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(ValueError, match=r"manifest\.json has no field (runs|code); choose another folder"):
        run_sweep(SMALL, tmp_path)


def test_one_learner_has_nobody_to_be_compared_with(tmp_path: Path) -> None:
    run_sweep(replace(SMALL, learners=("uniform",)), tmp_path / "one")
    run_sweep(SMALL, tmp_path / "two")
    one, two = (pl.read_csv(tmp_path / name / "comparisons.csv") for name in ("one", "two"))
    assert one.is_empty()
    assert one.columns == two.columns


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    run_sweep(SMALL, tmp_path / "mine")
    runs.run(SMALL.settings[0], tmp_path / "experiment")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("1")
    before = contents(tmp_path)
    for folder, sweep, message in (
        ("mine", replace(SMALL, name="other"), "holds results of another sweep, with different name"),
        ("experiment", SMALL, "does not describe any sweep"),
        ("thesis", SMALL, r"is not empty and has no manifest\.json"),
    ):
        with pytest.raises(ValueError, match=message):
            run_sweep(sweep, tmp_path / folder)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("broken", ["half", "foreign"])
def test_a_broken_run_is_named_before_anything_is_done(broken: str, tmp_path: Path) -> None:
    run_sweep(SMALL, tmp_path)
    path, other = sorted((tmp_path / "runs").iterdir())[:2]
    other.unlink()
    if broken == "half":
        path.write_bytes(path.read_bytes()[:100])
    else:
        pl.read_parquet(path).head(3).write_parquet(path)
    with pytest.raises(ValueError, match=rf"{path.name} .*; remove the file to compute it again"):
        run_sweep(SMALL, tmp_path)
    assert not other.exists()
