"""``peekrank simulate`` as a user meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from helpers.command_line import numbers, peekrank

QUICK = ["simulate", "rtop1f", "uniform", "--horizon", "200", "--runs", "2", "--workers", "1"]

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_simulate_prints_a_table_and_writes_everything() -> None:
    done = peekrank(*QUICK)
    assert done.exit_code == 0
    assert "dcg, k = 1, 200 rounds, 2 runs, ct15" in done.output
    for word in ("learner", "regret", "exponent", "bound", "explored", "rounds/s", "rtop1f", "uniform"):
        assert word in done.output
    written = {path.name for path in Path("results").iterdir()}
    pictures = {f"{name}.{kind}" for name in ("regret", "average") for kind in ("png", "svg")}
    assert written == {"manifest.json", "runs", "timings.csv", "curves.parquet", "summary.csv"} | pictures


@pytest.mark.slow
def test_same_seed_same_table_and_results_are_reused() -> None:
    assert peekrank(*QUICK, "--csv").exit_code == 0
    curves = Path("results/curves.csv").read_bytes()
    assert peekrank(*QUICK, "--csv").exit_code == 0
    assert Path("results/curves.csv").read_bytes() == curves


def test_files_of_people_are_streams() -> None:
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n1: 3,1,2\n")
    done = peekrank(*QUICK, "--stream", "votes.soc", "--measure", "p@1+sum", "--out", "people")
    assert done.exit_code == 0
    assert json.loads(Path("people/manifest.json").read_text())["experiment"]["stream"] == "orders:path=votes.soc"


def test_m_fills_what_the_stream_leaves_open() -> None:
    assert peekrank(*QUICK, "--m", "7").exit_code == 0
    assert json.loads(Path("results/manifest.json").read_text())["experiment"]["stream"] == "ct15:m=7"


def test_learners_may_have_a_measure_of_their_own() -> None:
    done = peekrank("simulate", "rtop1f:measure=dcg", "--measure", "ndcg@5", "--horizon", "200", "--runs", "2")
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--k", "0"], "k = 0: must be a whole number, at least 1"),
        (["--k", "11"], "k = 11: must be between 1 and the number of items, m = 10"),
        (["--horizon", "0"], "horizon = 0: must be a whole number, at least 1"),
        (["--measure", "dgc"], "unknown measure 'dgc': did you mean 'dcg'?"),
        (["--measure", "ndcg"], "ndcg cannot be learned"),
        (["--stream", "ct51"], "unknown stream 'ct51': did you mean 'ct15'?"),
        (["--stream", "ct15:noise=-1"], "noise = -1"),
        (["--stream", "nowhere.soc"], "nowhere.soc"),
        (["--m", "9", "--stream", "bernoulli"], "m = 9: stream 'bernoulli' has 5 items"),
        (["--workers", "0"], "workers = 0"),
        (["--out", "taken"], "taken is not empty and has no manifest.json"),
        (["rtop1g"], "unknown learner 'rtop1g': did you mean 'rtop1f'?"),
        (["rtop1f:ordre=fixed"], "has no field 'ordre': did you mean 'order'?"),
    ],
)
def test_bad_input_is_a_line_and_code_2(arguments: list[str], message: str) -> None:
    Path("taken").mkdir()
    Path("taken/file").write_text("mine")
    done = peekrank(*QUICK, *arguments)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ")
    assert "Traceback" not in done.output
    assert Path("taken/file").read_text() == "mine"


def test_a_broken_line_of_a_file_is_named() -> None:
    Path("votes.soc").write_text("# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n1: 3,1,4\n")
    done = peekrank(*QUICK, "--stream", "votes.soc")
    assert done.exit_code == 2
    assert "votes.soc, line 3" in done.output


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_finished_runs_and_says_how_to_go_on() -> None:
    command = [sys.executable, "-m", "peekrank", "simulate", "uniform", "rtop1f"]
    command += ["--stream", "ct15:m=60", "--horizon", "300000", "--runs", "40", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        deadline = time.monotonic() + 90
        while not list(Path("results").glob("runs/*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    kept = len(list(Path("results").glob("runs/*.parquet")))
    assert 0 < kept < 80
    assert f"{kept} of 80 runs are finished" in output.replace("\n", " ")
    assert "run the same command again to resume" in output.replace("\n", " ")
    assert "Traceback" not in output


def test_warnings_are_notes() -> None:
    warnings.simplefilter("default")
    done = peekrank("simulate", "rtop1f", "--horizon", "40", "--runs", "2")
    assert done.exit_code == 0
    assert done.stderr.count("note: rtop1f: horizon = 40 is short") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "codes"), [(("1", "1"), [0, 0]), (("1", "2"), [0, 2])], ids=["same", "another"])
def test_two_processes_in_one_folder(seeds: tuple[str, str], codes: list[int]) -> None:
    """The same command twice comes to the bytes of one; of two commands one is refused, or notices the other."""
    quick = ["simulate", "rtop1f", "uniform", "--horizon", "20000", "--runs", "12"]

    def started(seed: str, folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "peekrank", *quick, "--seed", seed, "--out", folder]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    processes = [started(seed, "both") for seed in seeds]
    said = [process.communicate()[0] for process in processes]
    assert sorted(process.returncode for process in processes) == codes, said
    winner = next(i for i, process in enumerate(processes) if process.returncode == 0)
    if codes == [0, 2]:
        assert "both holds results of another experiment, with different seed; choose another folder" in " ".join(
            said[1 - winner].split()
        )
    peekrank(*quick, "--seed", seeds[winner], "--out", "alone")
    both, alone = (
        {path.name: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        for folder in ("both", "alone")
    )
    del both["timings.csv"], alone["timings.csv"]
    assert alone.items() <= both.items()  # parts of the other may be there, under names of their own
    assert codes == [0, 2] or both == alone


@pytest.mark.slow
def test_no_number_is_broken_in_a_narrow_terminal() -> None:
    asked = ["simulate", "rtop1f:order=fixed", "uniform", "--horizon", "1000", "--runs", "3"]
    wide = numbers(peekrank(*asked).stdout)
    assert sum(".." in word for word in wide) == 2
    for columns in (40, 60, 80, 120):
        assert wide - {"rtop1f:order=fixed"} <= numbers(peekrank(*asked, columns=columns).stdout)
