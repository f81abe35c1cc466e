"""``peekrank compare`` as a user meets it, against tests computed from the tables that other commands write."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from typer.testing import Result

from helpers.command_line import peekrank
from peekrank.data.dataset import Dataset
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.experiments import runs
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import run_sweep
from peekrank.jobs.results_dir import FORMAT
from peekrank.training.runs import run_training
from peekrank.training.training import Training, prepare_data
from peekrank.types import Floats

LEARNERS = ("rtopkf", "rtopkf:surrogate=kl", "uniform")
TRAINING = Training(LEARNERS, k=1, rounds=150, runs=2)
EXPERIMENT = Experiment(("rtop1f", "rtop1f:order=fixed", "uniform"), "ct15:m=5", "dcg", k=1, horizon=200, runs=4)
FOLDS = ["fold0", "fold1", "fold2"]


def part(queries: int, seed: int) -> Dataset:
    layout = DatasetShape(queries=queries, documents=(2, 8), features=4, shares=(0.6, 0.3, 0.1))
    return make_dataset(layout, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of many kinds; the training parts of folds are drawn anew, which the command cannot know."""
    root = tmp_path_factory.mktemp("made")
    for i, name in enumerate(FOLDS):
        run_training(TRAINING, prepare_data(part(30, i), part(12, 10 + i)), root / name)
    run_training(replace(TRAINING, measure="sumloss", k=2), prepare_data(part(30, 0), part(12, 10)), root / "loss")
    run_training(replace(TRAINING, rounds=120), prepare_data(part(30, 3), part(12, 13)), root / "short")
    run_training(replace(TRAINING, learners=LEARNERS[:2]), prepare_data(part(30, 3), part(12, 13)), root / "two")
    run_training(TRAINING, prepare_data(part(30, 3), part(12, 13), scaling="query"), root / "scaled")
    for i in range(2):
        run_training(TRAINING, prepare_data(part(30, i)), root / f"untested{i}")
        runs.run(replace(EXPERIMENT, seed=i), root / f"simulated{i}")
    runs.run(replace(EXPERIMENT, measure="p@2+sum", same_rounds=True), root / "precision")
    runs.run(replace(EXPERIMENT, learners=("uniform",)), root / "lonely")
    run_sweep(Sweep("s", ("uniform",), ("ct15:m=5",), ("dcg",), (1,), (50,), 1), root / "sweep")
    shutil.copytree(root / "fold0", root / "copy")
    for name, file in (("simulated0", "00-0001"), ("fold0", "0001")):
        shutil.copytree(root / name, root / f"unfinished-{name}")
        next((root / f"unfinished-{name}" / "runs").glob(f"*-{file}.parquet")).unlink()
    for name, manifest in (("study", {"format": FORMAT, "study": {}}), ("old", {"format": 1}), ("bare", None)):
        (root / name).mkdir()
        if manifest:
            (root / name / "manifest.json").write_text(json.dumps(manifest))
    return root


@pytest.fixture(autouse=True)
def _among_them(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def compare(*arguments: str, columns: int = 200) -> Result:
    return peekrank("compare", *arguments, columns=columns)


def said(done: Result) -> str:
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def held_out(folder: str, learner: str) -> float:
    return float(
        pl.read_csv(Path(folder, "summary.csv")).row(by_predicate=pl.col("learner") == learner, named=True)[
            "held_out"
        ]
    )


def last_regrets(folder: str, learner: str) -> Floats:
    files = sorted(Path(folder, "runs").glob(f"*-{EXPERIMENT.learners.index(learner):02d}-*.parquet"))
    return np.array([pl.read_parquet(file)["regret"][-1] for file in files])


@pytest.mark.slow
def test_folds_are_compared_by_the_corrected_test(tmp_path: Path) -> None:
    done = compare(*FOLDS, "--folds", "--csv", str(tmp_path / "found.csv"))
    assert "Differences of held-out ndcg@10 over 3 folds, higher is better, k 1, rounds 150" in said(done)
    assert "test corrects for this by the ratio of test to training queries, 0.40" in said(done)
    table = pl.read_csv(tmp_path / "found.csv")
    assert table.select("learner", "other").rows() == [
        (LEARNERS[0], LEARNERS[1]), (LEARNERS[0], LEARNERS[2]), (LEARNERS[1], LEARNERS[2]),
    ]  # fmt: skip
    for row in table.iter_rows(named=True):
        differences = [held_out(fold, row["learner"]) - held_out(fold, row["other"]) for fold in FOLDS]
        plain = stats.ttest_1samp(differences, 0)
        t = plain.statistic * np.sqrt((1 / 3) / (1 / 3 + 12 / 30))
        assert row["difference"] == pytest.approx(np.mean(differences))
        assert row["p"] == pytest.approx(2 * stats.t.sf(abs(t), 2))
        assert row["folds"] == 3
    assert table["adjusted"].to_list() == pytest.approx(holm_of_three(table["p"].to_list()))


def holm_of_three(p: list[float]) -> list[float]:
    """Holm's adjusted values of three, written out."""
    small, middle, large = sorted(p)
    adjusted = {small: 3 * small, middle: max(3 * small, 2 * middle), large: max(3 * small, 2 * middle, large)}
    return [min(1, adjusted[x]) for x in p]


def test_runs_of_experiments_are_compared_by_their_last_regret(tmp_path: Path) -> None:
    done = compare("simulated0", "precision", "--csv", str(tmp_path / "found.csv"))
    assert (
        "Differences of regret over paired runs, lower is better, stream ct15:m=5, k 1, horizon 200, runs 4"
        in said(done)
    )
    assert "by folder, measure" in said(done)
    assert "With --same-rounds all runs see the same rounds" in said(done)
    table = pl.read_csv(tmp_path / "found.csv")
    assert len(table) == 6
    for row in table.iter_rows(named=True):
        mine, its = (last_regrets(row["folder"], row[name]) for name in ("learner", "other"))
        assert row["p"] == pytest.approx(stats.ttest_rel(mine, its).pvalue)
    chosen = (pl.col("folder") == "simulated0") & (pl.col("learner") == "rtop1f") & (pl.col("other") == "uniform")
    clear = table.row(by_predicate=chosen, named=True)
    assert clear["verdict"] == "rtop1f is better"
    assert clear["difference"] < 0


def test_quality_is_reported_with_its_direction_and_its_limit() -> None:
    gain, loss = compare("fold0"), compare("loss")
    assert "held-out ndcg@10 over paired runs, higher is better" in said(gain)
    assert "held-out sumloss over paired runs, lower is better" in said(loss)
    assert "share its queries and differ in their order and in random numbers only" in said(gain)


def test_without_test_parts_folders_are_independent(tmp_path: Path) -> None:
    done = compare("untested0", "untested1", "--folds", "--csv", str(tmp_path / "found.csv"))
    assert "Differences of average ndcg@10 over 2 folds, higher is better" in said(done)
    assert "no test parts, so folders count as independent" in said(done)
    qualities = [pl.read_csv(f"untested{i}/summary.csv")["quality"].to_numpy() for i in range(2)]
    ours, propensity = (np.array([quality[i] for quality in qualities]) for i in (0, 2))
    expected = stats.ttest_rel(ours, propensity).pvalue
    assert pl.read_csv(tmp_path / "found.csv")["p"][1] == pytest.approx(expected)
    assert "independent" in said(compare("simulated0", "simulated1", "--folds"))


def test_a_table_for_papers_and_one_for_pages(tmp_path: Path) -> None:
    files = [str(tmp_path / "new" / "a.tex"), str(tmp_path / "a.md")]
    assert compare("fold0", "--latex", files[0], "--markdown", files[1]).exit_code == 0
    assert r"\texttt{rtopkf:surrogate=kl} & \texttt{uniform}" in Path(files[0]).read_text()
    assert "| `rtopkf` | `uniform` |" in Path(files[1]).read_text()


def test_a_table_fits_a_terminal() -> None:
    done = compare(*FOLDS, "--folds", columns=80)
    rows = [line for line in done.stdout.splitlines() if line.startswith(" rtopkf")]
    # two names, difference and interval, p, verdict: too few folds
    assert [len(line.split()) for line in rows] == [8, 8, 8]
    assert done.stdout.count("too few folds") == 3
    assert "Too few: no difference could reach significance with so few runs; run more." in done.stdout
    assert max(map(len, rows)) <= 80


def test_a_learner_that_diverged_is_not_compared_and_the_others_are(tmp_path: Path) -> None:
    training = replace(TRAINING, learners=("from_paper", *LEARNERS[1:]))
    for i in range(2):
        train = part(30, i)
        huge = train._replace(features=train.features * np.float32(1e8))
        run_training(training, prepare_data(huge, part(12, 10 + i)), tmp_path / f"wild{i}")
    done = compare(*(str(tmp_path / f"wild{i}") for i in range(2)), "--folds")
    assert "from_paper has no held-out ndcg@10 in 2 of 2 runs" in said(done)
    assert said(done).count("no outcome") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere", "nowhere has no manifest.json: it is not a results folder"),
        ("bare", "bare has no manifest.json"),
        ("old", "has format 1 of an earlier peekrank, but this one needs format 3; compute the results again"),
        ("sweep", "sweep holds a sweep; sweep/comparisons.csv compares its learners"),
        ("study", "study holds neither an experiment (peekrank simulate) nor a training (peekrank train)"),
        ("unfinished-simulated0", "-00-0001.parquet is missing: the experiment is not finished"),
        ("unfinished-fold0", "-0001.parquet is missing: the training is not finished"),
        ("lonely", "lonely has one learner, uniform; a comparison needs two"),
        ("fold0 ./fold0", "fold0 is given twice; name each folder once"),
        ("fold0 --folds", "--folds needs at least two folders, got only fold0"),
        ("fold0 simulated0", "simulated0 holds an experiment (peekrank simulate), but fold0 a training"),
        ("fold0 loss", "loss: measure = sumloss, but ndcg@10 in fold0; all folders of a table must agree"),
        ("fold0 untested1", "untested1: test part = none, but one in fold0; all folders of a table must agree"),
        ("fold0 short --folds", "short: rounds = 120, but 150 in fold0; all folds must agree"),
        ("fold0 scaled --folds", "scaled: scaling = query, but none in fold0; all folds must agree"),
        ("fold0 two --folds", "two: learners = rtopkf rtopkf:surrogate=kl, but rtopkf rtopkf:surrogate=kl"),
        ("simulated0 precision --folds", ("precision: measure = p@2+sum, but dcg in simulated0; all folds must "
        "agree")),
        ("fold0 copy --folds", "copy has the same test part as fold0; folds must differ in it"),
        ("fold0 --csv fold0/manifest.json", "fold0/manifest.json would overwrite a manifest"),
        ("fold0 --csv fold0/runs/0001.parquet", "0001.parquet is inside the results folder fold0; choose a file"),
        ("fold0 fold1 --markdown ./fold1/new/t.md", "t.md is inside the results folder fold1; choose a file"),
        ("fold0 --csv x --latex x", "each output needs its own file"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_a_line_and_code_2(arguments: str, message: str) -> None:
    done = compare(*arguments.split())
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not done.stdout


@pytest.mark.parametrize("field", ["content", "queries"])
def test_a_damaged_manifest_is_named(field: str, tmp_path: Path) -> None:
    shutil.copytree("fold0", tmp_path / "damaged")
    file = tmp_path / "damaged" / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["test"][field]
    file.write_text(json.dumps(manifest))
    done = compare(str(tmp_path / "damaged"))
    assert done.exit_code == 2
    assert f"manifest.json does not describe its field test: '{field}'" in " ".join(done.stderr.split())


@pytest.mark.filterwarnings("default:.*different versions")
def test_folds_of_different_code_are_a_note(tmp_path: Path) -> None:
    shutil.copytree("fold1", tmp_path / "older")
    file = tmp_path / "older" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sources": "other"}))
    assert "different versions of peekrank" in said(compare("fold0", str(tmp_path / "older"), "--folds"))
    assert "different versions" not in said(compare("fold0", "fold1", "--folds"))
