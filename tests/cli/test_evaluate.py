"""``peekrank evaluate`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.command_line import numbers, peekrank, refused
from peekrank import DCG, Agent, DoubtSort, simulate
from peekrank.evaluation.log import log_from_records, read_log, write_log
from peekrank.evaluation.policies import by_model
from peekrank.experiments.experiment import Experiment
from peekrank.training.model import load_model

SIMULATE = ["simulate", "doubtsort", "--stream", "ct15:m=5", "--k", "2", "--horizon", "600", "--runs", "2"]

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def log() -> Path:
    done = peekrank(*SIMULATE, "--log", "log.parquet")
    assert done.exit_code == 0, done.output
    return Path("log.parquet")


def test_the_log_of_a_simulation_is_its_first_run(log: Path) -> None:
    written = read_log(log)
    experiment = Experiment(("doubtsort",), "ct15:m=5", "dcg", k=2, horizon=600, runs=2)
    rounds = experiment.rounds(0)
    trace = simulate(experiment.parts.learners[0], rounds, k=2, measure=DCG(), seed=experiment.learner_seed(0))
    relevance = rounds.relevance.reshape(600, 5)
    rankings = np.argsort(written.position.reshape(600, 5), axis=1)
    assert DCG().values(rankings, relevance).sum() == pytest.approx(trace.value[-1])
    np.testing.assert_array_equal(written.feedback[written.seen], relevance.reshape(-1)[written.seen])
    assert written.learners[0].startswith("doubtsort:measure=dcg @ ")


def test_a_table_differences_and_files(log: Path) -> None:
    policies = ["--policy", "logged", "--policy", "order:0,1,2,3,4", "--policy", "doubtsort"]
    done = peekrank("evaluate", log, *policies, "--measure", "dcg@2", "--json", "a.json", "--out", "report")
    assert done.exit_code == 0, done.output
    for word in (
        "dcg@2 per decision, log.parquet",
        "600 decisions, 600 with all answers",
        "95% anytime CI",
        "verdict",
        "ESS is the effective sample size: the number of decisions",
        "Max weight is the largest factor by which a single answer counts",
    ):
        assert word in done.output
    found = json.loads(Path("a.json").read_text())
    assert [e["name"] for e in found["estimates"]] == ["logged", "order:0,1,2,3,4", "doubtsort"]
    assert len(found["differences"]) == 3
    assert "Differences: 95% for all 3 together" in done.output
    assert found["simultaneous"] is True
    assert {e["alpha"] for e in found["differences"]} == {0.05 / 3}
    assert {"verdict", "anytime", "betting", "checkpoints", "lows"} <= set(found["differences"][0])
    table = pl.read_csv("report/evaluation.csv")
    assert table["dr"].to_list()[:3] == pytest.approx([e["dr"] for e in found["estimates"]])
    page = Path("report/report.html").read_text()
    assert "<h1>Offline evaluation</h1>" in page
    assert "any of the 3 intervals is ever wrong is at most 5" in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert Path("report/evaluation.svg").exists()


def test_differences_may_have_alpha_each(log: Path) -> None:
    policies = ["--policy", "logged", "--policy", "order:0,1,2,3,4", "--policy", "order:4,3,2,1,0"]
    done = peekrank("evaluate", log, *policies, "--separate", "--json", "a.json", "--out", "report")
    assert "Differences: 95% each" in done.output
    found = json.loads(Path("a.json").read_text())
    assert found["simultaneous"] is False
    assert {e["alpha"] for e in found["differences"]} == {0.05}
    assert "the interval is ever wrong is at most 5" in Path("report/report.html").read_text()
    single = peekrank("evaluate", log, *policies[:4])
    assert "Differences\n" in single.stdout


def test_no_number_is_broken_in_a_narrow_terminal(log: Path) -> None:
    asked = ["evaluate", log, "--policy", "logged", "--policy", "doubtsort"]
    wide = numbers(peekrank(*asked).stdout)
    assert len(wide) > 12
    for columns in (40, 60, 80, 120):
        assert wide <= numbers(peekrank(*asked, columns=columns).stdout)


def test_orders_from_files_and_json_lines(log: Path) -> None:
    write_log("log.jsonl", read_log(log))
    Path("mine.txt").write_text("4\n3\n")
    done = peekrank("evaluate", "log.jsonl", "--policy", "mine.txt", "--regression", "none", "--clip", "2")
    assert done.exit_code == 0, done.output
    assert "mine: 3 candidates not in the order come last." in done.output


def test_what_is_wrong_is_reported(log: Path) -> None:
    assert "none.jsonl does not exist" in refused("evaluate", "none.jsonl", "--policy", "logged")
    assert "ndcg cannot be estimated" in refused("evaluate", log, "--policy", "logged", "--measure", "ndcg")
    assert "unknown policy 'loged'" in refused("evaluate", log, "--policy", "loged")
    assert "names the same policy twice" in refused("evaluate", log, "--policy", "logged", "--policy", "logged")
    assert "each output needs its own file" in refused("evaluate", log, "--policy", "logged", "--json", log)
    assert "--log needs exactly one learner, got 2" in refused("simulate", "uniform", "ftpl", "--log", "x.parquet")
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    assert "log.parquet is not a Parquet file" in refused("evaluate", log, "--policy", "logged")


def test_a_learner_that_cannot_tell_its_propensities_is_logged_with_the_reason() -> None:
    done = peekrank("simulate", "thompson", "--horizon", "50", "--runs", "1", "--log", "log.jsonl")
    assert done.exit_code == 0, done.output
    said = refused("evaluate", "log.jsonl", "--policy", "order:0,1")
    assert "50 decisions of the log cannot be evaluated" in said
    assert "thompson cannot compute propensities" in said


def test_agents_log_in_three_lines() -> None:
    from peekrank.evaluation.jsonl import LogWriter

    agent = Agent(DoubtSort(DCG()), m=4, k=1)
    with LogWriter("own.jsonl", agent.learner) as log:
        for _ in range(30):
            decision = agent.rank()
            event = log.log_decision(decision, k=1)
            agent.update(decision, [1])
            log.log_feedback(event, [1])
    done = peekrank(
        "evaluate", "own.jsonl", "--policy", "order:3,2,1,0", "--policy", "logged", "--measure", "p@1+sum"
    )
    assert done.exit_code == 0, done.output


def test_learning_from_files_is_logged_and_evaluated() -> None:
    rng, lines = np.random.default_rng(3), []
    for query in range(40):
        for _ in range(5):
            x = rng.random(3)
            grade = int(2 * x[0] + 0.3 * rng.random())
            lines.append(f"{grade} qid:{query} " + " ".join(f"{i + 1}:{v:.4f}" for i, v in enumerate(x)))
    Path("train.txt").write_text("\n".join(lines) + "\n")
    how = ["--k", "2", "--rounds", "300", "--runs", "1", "--scaling", "none", "--log", "log.parquet"]
    done = peekrank("train", "train.txt", "ridge", *how)
    assert done.exit_code == 0, done.output
    written = read_log("log.parquet")
    assert written.features is not None
    assert (len(written.k), written.features.shape) == (300, (1500, 3))
    model = next(Path("trained/models").glob("*.json"))
    done = peekrank("evaluate", "log.parquet", "--policy", model, "--policy", "rtopkf", "--regression", "features")
    assert done.exit_code == 0, done.output
    assert model.stem in done.output
    believed = written.features @ load_model(model).weights
    by_hand = [np.argsort(np.argsort(-one)).tolist() for one in believed.reshape(300, 5)]
    ranks = by_model(written, load_model(model), "ours").ranks
    assert ranks is not None
    assert ranks.reshape(300, 5).tolist() == by_hand
    assert "--log needs exactly one learner, got 2" in refused(
        "train", "train.txt", "ridge", "uniform", "--log", "x.jsonl"
    )


def test_a_table_is_bounded_or_evaluated_by_what_it_has() -> None:
    rows = []
    rng = np.random.default_rng(0)
    for visit in range(300):
        order = np.argsort(-(np.array([0.0, 1.0, 0.5]) + rng.gumbel(size=3)))
        for rank, i in enumerate(order):
            seen = f"{rank + 1},{int(rng.random() < 0.2 + 0.3 * i)}" if rank == 0 else ","
            rows.append(f"{visit},{'abc'[i]},{seen},{(0.0, 1.0, 0.5)[i]}")
    Path("t.csv").write_text("visit,sku,rank,click,s\n" + "\n".join(rows) + "\n")
    columns = "event=visit,item=sku,position=rank,reward=click"
    policies = ["--policy", "order:c,b", "--policy", "order:a,b", "--measure", "dcg@1"]
    done = peekrank("evaluate", "t.csv", "--columns", columns, *policies, "--json", "a.json", columns=120)
    assert done.exit_code == 0, done.output
    assert (
        "Bounds on dcg@1 per decision, t.csv: 300 decisions, 33.3 % of the candidates with answers" in done.stdout
    )
    assert "propensity is missing: no value can be estimated, only bounded" in done.stderr
    bounds = json.loads(Path("a.json").read_text())
    assert bounds["differences"][0]["verdict"] == "undecided"
    done = peekrank(
        "evaluate", "t.csv", "--columns", f"{columns},score=s", "--temperature", "1", *policies, "--json", "b.json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(Path("b.json").read_text())["differences"][0]
    assert found["verdict"] == "higher"
    low, high = bounds["differences"][0]["log"]
    assert low <= found["dr"] <= high
    for options, message in (
        (["--columns", columns, "--out", "report"], "--out writes estimates, and this log is only bounded"),
        (["--k", "1"], "--k and --reward-range are for tables: name their columns with --columns"),
        (["--columns", columns, "--reward-range", "1"], "--reward-range 1: must be two numbers"),
        (["--columns", columns, "--temperature", "1"], "temperature: needs the column of scores"),
    ):
        assert message in refused("evaluate", "t.csv", *policies, *options)


def test_any_log_can_be_bounded(log: Path) -> None:
    done = peekrank("evaluate", log, "--policy", "logged", "--policy", "order:0,1,2,3,4", "--bounds")
    assert done.exit_code == 0, done.output
    assert "Bounds on dcg per decision, log.parquet" in done.stdout


def test_a_table_without_columns_is_told_to_name_them(tmp_path: Path) -> None:
    (tmp_path / "shown.csv").write_text("visit,sku,rank,clicked\n1,tea,1,1\n")
    said = refused("evaluate", str(tmp_path / "shown.csv"), "--policy", "logged")
    assert "For another table, name its columns (--columns)" in said


@pytest.mark.parametrize(
    ("arms", "said"), [(("learner", "own"), "in your order"), (("unmixed", "mixed"), "mixed")]
)
def test_a_holdout_is_reported_with_its_plain_means(arms: tuple[str, str], said: str) -> None:
    """The learner shows a first, the own order b. People like a."""
    records = [
        {
            "event": str(t), "k": 1, "candidates": ["a", "b"], "position": [int(held), 1 - int(held)],
            "propensity": [0.5, 0.5], "feedback": [None, 0.0] if held else [1.0, None], "arm": arms[held],
            "share": 0.5, "own": [1, 0], "expected": [1.0, 0.0], "learner": "doubtsort:measure=dcg @ 1",
        }
        for t, held in enumerate([False, True] * 100)
    ]  # fmt: skip
    write_log(Path("held.jsonl"), log_from_records(records))
    done = peekrank("evaluate", "held.jsonl", "--json", "held.json")
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "Holdout, held.jsonl: The learner is better: dcg differs by 1" in words
    assert ("Plain means: 1" in words) == (said == "in your order")
    assert f"100 lists {said}." in words
    told = json.loads(Path("held.json").read_text())["holdout"]
    assert (told["better"], told["lists"], told["held"]) == ("learner", 200, 100)
    assert told["plain"] == (200 if said == "in your order" else 0)
