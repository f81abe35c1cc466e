"""``peekrank train`` as a user meets it, and what is ranked with what it learned."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.command_line import peekrank, refused
from helpers.documents import letor_text
from peekrank.data.letor import read_letor
from peekrank.jobs.executor import InterruptedRunError
from peekrank.measures import NDCG, evaluate
from peekrank.training import runs
from peekrank.training.base_scores import quality_alone
from peekrank.training.model import load_model

QUICK = ["train", "train.txt", "--rounds", "200", "--runs", "2", "--workers", "1"]
ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[str]:
    """The commands in the shell blocks of a page."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.S)
    return re.findall(r"^(peekrank [^#\n]*)", "".join(blocks).replace("\\\n", ""), re.M)


pytestmark = pytest.mark.usefixtures("judged_lists")


@pytest.mark.slow
def test_the_commands_of_the_page_run_one_after_the_other() -> None:
    found = commands("docs/data/train.md")
    assert [command.split()[1] for command in found] == ["data", "train", "rank", "train"]
    for number, command in enumerate(found):
        out = ["--out", "another", "--rounds", "200"] if number == 3 else []
        done = peekrank(*shlex.split(command)[1:], *out)
        assert done.exit_code == 0, done.output
    table = pl.read_csv("ranks.tsv", separator="\t")
    test = read_letor("test.txt")
    assert table["qid"].to_list() == np.repeat(test.queries, np.diff(test.offsets)).tolist()
    quality = []
    for q, (first, last) in enumerate(zip(test.offsets, test.offsets[1:], strict=False)):
        rows = table.filter(pl.col("qid") == test.queries[q])
        assert rows["position"].to_list() == list(range(1, last - first + 1))
        scores = rows["score"].to_numpy()
        assert np.all(np.diff(scores) <= 0)
        model = load_model("trained/models/ridge-0.json")
        fitted = model.preparation.standardisation
        assert fitted is not None
        scaled = (test.features[first:last] - fitted.mean) / fitted.deviation
        shown = rows["document"].to_numpy() - 1
        assert np.allclose(scores, (scaled @ model.weights)[shown], atol=1e-5)
        quality.append(evaluate(NDCG(10), shown, test.relevance[first:last]))
    done = peekrank(
        "rank", "trained/models/ridge-0.json", "test.txt", "--out", "ranks.tsv", "--measure", "ndcg@10"
    )
    assert f"ndcg@10 {np.mean(quality):.4f} over 10 queries" in done.stdout
    assert np.mean(quality) > 0.9  # the first feature says it all


def test_learn_prints_a_table_and_writes_everything() -> None:
    done = peekrank(*QUICK, "rtopkf", "from_paper:surrogate=kl", "uniform", "--test", "test.txt", "--regret")
    assert done.exit_code == 0, done.output
    assert "ndcg@10, k = 1, 200 rounds, 2 runs, train.txt" in done.output
    for word in ("average", "last tenth", "held out", "explored", "regret", "rounds/s", "uniform"):
        assert word in done.output
    assert "Apply it: peekrank rank trained/models/rtopkf-0.json DATA" in done.output
    assert {path.name for path in Path("trained").iterdir()} == {
        "manifest.json", "runs", "models", "curves.parquet", "summary.csv", "timings.csv", "quality.png",
        "quality.svg",
    }  # fmt: skip
    manifest = json.loads(Path("trained/manifest.json").read_text())
    assert manifest["training"]["learners"] == ["rtopkf", "from_paper:surrogate=kl", "uniform"]
    assert manifest["data"]["digest"] == read_letor("train.txt").about.digest
    assert manifest["test"]["source"] == "test.txt"


def test_learners_are_specifications_and_ridge_is_the_default() -> None:
    for number, (options, learner) in enumerate(
        [
            ([], "ridge"),
            (["rtopkf:surrogate=kl"], "rtopkf:surrogate=kl"),
            (["from_paper"], "from_paper"),
            (["from_paper:surrogate=ranksvm", "--k", "2"], "from_paper:surrogate=ranksvm"),
        ]
    ):
        assert peekrank(*QUICK, *options, "--rounds", "20", "--out", f"x{number}").exit_code == 0
        assert json.loads(Path(f"x{number}/manifest.json").read_text())["training"]["learners"] == [learner]


def test_mixed_starts_from_a_score_and_its_log_has_it() -> None:
    options = ["--score", "1", "--test", "test.txt", "--json", "told.json", "--scaling", "none"]
    assert "In the order of feature 1 alone: " in peekrank(*QUICK, *options, "--log", "log.parquet").output
    told, log = json.loads(Path("told.json").read_text()), pl.read_parquet("log.parquet")
    assert (told["score"], [one["learner"] for one in told["learners"]]) == (0, ["mixed"])
    train, test = read_letor("train.txt"), read_letor("test.txt")
    for part, name in ((train, "score_alone"), (test, "score_alone_held_out")):
        assert told[name] == pytest.approx(quality_alone(part, 0, NDCG(10)))
    assert set(log["score"].explode().to_list()) <= set(train.features[:, 0].astype(np.float64).tolist())
    done = peekrank("rank", "trained/models/mixed-0.json", "test.txt", "--out", "r.tsv", "--measure", "ndcg@10")
    held_out = load_model("trained/models/mixed-0.json").rank(test).quality(NDCG(10))
    assert f"ndcg@10 {held_out:.4f} over 10 queries" in done.stdout


def test_the_same_command_goes_on_and_another_is_refused() -> None:
    assert peekrank(*QUICK).exit_code == 0
    curves = Path("trained/curves.parquet").read_bytes()
    next(Path("trained/runs").glob("*-0001.parquet")).unlink()
    assert peekrank(*QUICK).exit_code == 0
    there, again = pl.read_parquet("trained/curves.parquet"), pl.read_parquet(curves)
    assert there.equals(again)
    assert "holds results of another training, with different k, rounds" in refused(
        *QUICK, "--k", "2", "--rounds", "300"
    )
    peekrank("simulate", "uniform", "--horizon", "20", "--runs", "1", "--out", "simulated")
    assert "does not describe any training; choose another folder" in refused(*QUICK, "--out", "simulated")


def test_an_interruption_says_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise InterruptedRunError

    monkeypatch.setattr(runs, "run_training", interrupted)
    done = peekrank(*QUICK)
    assert done.exit_code == 130
    assert "stopped; 0 of 2 runs are finished and kept in trained" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--k", "0"], "k = 0: must be a whole number, at least 1"),
        (["--k", "8"], "k = 8: must be between 1 and the number of items, m = 7"),
        (["rtopkf:surrogate=ranksvm"], "k = 1: rtopkf:surrogate=ranksvm needs at least k = 2"),
        (["rtopkf:surrogate=cubic"], "unknown surrogate 'cubic'"),
        (["--measure", "ndgc"], "unknown measure 'ndgc'"),
        (["--scaling", "cubic"], "scaling = 'cubic'"),
        (["--test", "nowhere.txt"], "nowhere.txt"),
        (["--test", "wide.txt"], "wide.txt, line 1: feature id 5 is above 4"),
        (["--test", "from-zero.txt"], "from-zero.txt, line 1"),
        (["rtop1f"], "rtop1f learns about fixed items, not from features"),
        (["ridge", "--score", "1"], "only mixed starts from a score, and the learners are ridge"),
        (["--score", "5"], "score = 5: the features of train.txt are numbers from 1 to 4"),
    ],
)
def test_what_is_wrong_is_reported_in_a_line_and_nothing_is_written(options: list[str], message: str) -> None:
    Path("wide.txt").write_text(letor_text(5, 3, d=5))
    Path("from-zero.txt").write_text(letor_text(5, 3, base=0))
    assert message in refused(*QUICK, *options)
    assert not Path("trained").exists()


def test_scaling_travels_with_the_model() -> None:
    assert peekrank(*QUICK, "--scaling", "global", "--test", "test.txt").exit_code == 0
    held_out = pl.read_parquet("trained/curves.parquet").filter(pl.col("run") == 0)["held_out"][0]
    done = peekrank("rank", "trained/models/ridge-0.json", "test.txt", "--measure", "ndcg@10")
    assert f"ndcg@10 {held_out:.4f} over 10 queries" in done.stderr
    assert done.stdout.startswith("qid\tdocument\tposition\tscore\n5\t")
    peekrank("data", "test.txt", "--scaling", "global", "--train", "train.txt", "--out", "test.peek")
    scaled = peekrank("rank", "trained/models/ridge-0.json", "test.peek")
    assert scaled.stdout == done.stdout
    peekrank("data", "test.txt", "--scaling", "query", "--out", "query.peek")
    assert "is scaled already (query): must be global" in refused(
        "rank", "trained/models/ridge-0.json", "query.peek"
    )


def test_online_scaling_travels_with_the_model() -> None:
    assert peekrank(*QUICK, "--scaling", "online", "--test", "test.txt").exit_code == 0
    model = json.loads(Path("trained/models/ridge-0.json").read_text())
    features = read_letor("train.txt").features.astype(np.float64)
    assert np.allclose(model["mean"], features.mean(axis=0))
    assert np.allclose(model["deviation"], features.std(axis=0))
    held_out = pl.read_parquet("trained/curves.parquet").filter(pl.col("run") == 0)["held_out"][0]
    done = peekrank("rank", "trained/models/ridge-0.json", "test.txt", "--measure", "ndcg@10")
    assert f"ndcg@10 {held_out:.4f} over 10 queries" in done.stderr
    peekrank("data", "test.txt", "--scaling", "global", "--train", "train.txt", "--out", "test.peek")
    assert "must be online, fitted on" in refused("rank", "trained/models/ridge-0.json", "test.peek")
    assert "must be 'none' or 'query' or 'global'" in refused("data", "test.txt", "--scaling", "online")


@pytest.mark.filterwarnings("default:.*rounded to grades")
def test_rounded_relevance_is_a_note() -> None:
    Path("train.txt").write_text(letor_text(30, 1) + "0.4 qid:999 1:0.5 2:1 3:1 4:1\n")
    done = peekrank(*QUICK)
    assert done.exit_code == 0
    assert "note: train.txt: real-valued relevance is rounded to grades" in done.stderr


def test_parts_that_the_measure_cannot_judge_are_reported() -> None:
    Path("zero.txt").write_text("".join(f"0 qid:{q} 1:{d} 2:1 3:1 4:1\n" for q in (1, 2) for d in (1, 2)))
    skip = ["rtopkf", "uniform", "--measure", "ndcg@10+skip"]
    done = peekrank(*QUICK, *skip, "--test", "zero.txt")
    assert done.exit_code == 0
    assert "held out" in done.stdout
    assert re.search(r"rtopkf .* – .*%", done.stdout)
    assert "ndcg@10+skip counts no query of zero.txt" in done.stdout
    assert "counts none of the queries that were shown" not in done.stdout
    none = peekrank("train", "zero.txt", *QUICK[2:], *skip, "--test", "test.txt", "--out", "zero")
    assert none.exit_code == 0
    assert "nan" not in none.stdout
    assert "ndcg@10+skip counts none of the queries that were shown" in none.stdout
    assert "counts no query of test.txt" not in none.stdout


@pytest.mark.filterwarnings("default:.*training part itself")
def test_a_test_part_that_is_the_training_part_is_a_note() -> None:
    Path("copy.txt").write_bytes(Path("train.txt").read_bytes())
    note = "is the training part itself, so --test holds nothing out"
    assert f"note: copy.txt {note}" in peekrank(*QUICK, "--test", "copy.txt").stderr
    assert note not in peekrank(*QUICK, "--test", "test.txt", "--out", "other").stderr


def test_numbers_that_are_not_finite_are_not_learned_from() -> None:
    peekrank("data", "train.txt", "--out", "train.peek")
    raw = Path("train.peek").read_bytes()
    value = read_letor("train.txt").features[0, 2]
    Path("train.peek").write_bytes(raw.replace(value.tobytes(), np.float32(np.nan).tobytes(), 1))
    assert "query 5, document 1: feature 3 is nan: must be a number up to 3.4e38" in refused(
        "train", "train.peek", *QUICK[2:], "--scaling", "global"
    )
    assert not Path("trained").exists()


def test_one_run_is_no_runs() -> None:
    done = peekrank("train", "train.txt", "--rounds", "1", "--runs", "1")
    assert "k = 1, 1 round, 1 run, train.txt" in done.stdout


@pytest.mark.slow
def test_names_that_are_not_utf_8_are_shown_with_replacements() -> None:
    name = os.fsdecode(b"bad\xffname.txt")
    Path(name).write_bytes(Path("train.txt").read_bytes())
    main = [sys.executable, "-m", "peekrank"]
    for command in (["data", name], ["train", name, *QUICK[2:]]):
        done = subprocess.run([*main, *command], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert re.search("bad[?\ufffd]name", done.stdout.decode())
    assert "bad\ufffdname.txt" in Path("trained/quality.svg").read_text(encoding="utf-8")
