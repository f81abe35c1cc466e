"""Learning from data: runs equal `simulate`, regret equals a naive twin's, models say what the learner would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog

from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.scaling import fit_standardisation, scale_within_queries, standardise
from peekrank.engine import Agent, play, simulate
from peekrank.jobs.executor import InterruptedRunError
from peekrank.jobs.results_dir import count_finished
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import NDCG, evaluate
from peekrank.measures import measure as measure_named
from peekrank.registry import SURROGATES
from peekrank.reports import plots
from peekrank.surrogates import KL, ListNet, RankSVM, Squared, Surrogate
from peekrank.training.hindsight import best_fixed, loss_along
from peekrank.training.model import Model, load_model, preparation, save_model
from peekrank.training.result import TrainingResult
from peekrank.training.runs import model_file, run_training
from peekrank.training.training import Training, TrainTest, make_learner, prepare_data
from peekrank.types import Floats, Ints, Rounds

SMALL = Training(("rtopkf", "from_paper:surrogate=kl", "uniform"), k=1, rounds=300, runs=2)
COUNTS = np.arange(20) % 4  # how often each list came
CONVEX = [cls() for cls in SURROGATES.values() if cls.convex]


def make(queries: int, seed: int, d: int = 3, source: str = "made") -> Dataset:
    """Lists of one to five documents, graded by a linear score and noise; some without a relevant document."""
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(rng.integers(1, 6, queries)))
    features = rng.random((int(offsets[-1]), d), dtype=np.float32)
    score = features @ np.linspace(-1, 1, d) + 0.3 * rng.standard_normal(len(features))
    return Dataset(
        features,
        np.digitize(score, [0.2, 0.6]).astype(np.uint8),
        offsets,
        np.arange(queries) + 10,
        Provenance(source),
    )


@pytest.fixture(scope="module")
def material() -> TrainTest:
    return prepare_data(make(20, 1), make(10, 2, source="other"))


@pytest.fixture(scope="module")
def done(material: TrainTest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingResult, Path]:
    folder = tmp_path_factory.mktemp("trained") / "x"
    return run_training(SMALL, material, folder, workers=2), folder


def test_a_run_is_passes_over_all_queries() -> None:
    sequence = SMALL.sequence(0, 20)
    assert len(sequence) == 300
    for first in range(0, 300, 20):
        assert sorted(sequence[first : first + 20]) == list(range(20))
    assert not np.array_equal(sequence[:20], sequence[20:40])
    assert not np.array_equal(sequence, SMALL.sequence(1, 20))
    assert not np.array_equal(sequence, replace(SMALL, seed=1).sequence(0, 20))
    assert len(SMALL.sequence(0, 7)) == 300


def test_runs_are_those_of_play(done: tuple[TrainingResult, Path], material: TrainTest) -> None:
    outcome, _ = done
    for text in SMALL.learners:
        for run in range(2):
            trace = play(
                make_learner(text, 300), material.train.rounds(), k=1, measure=NDCG(10),
                seed=SMALL.learner_seed(run), sequence=SMALL.sequence(run, 20), checkpoints=outcome.checkpoints,
            )  # fmt: skip
            rows = outcome.curves.filter((pl.col("learner") == text) & (pl.col("run") == run))
            assert np.array_equal(rows["value"].to_numpy(), trace.value)
            assert np.array_equal(rows["explored"].to_numpy(), trace.explored)
            assert np.allclose(outcome.qualities(text)[run], trace.value / outcome.checkpoints)


def test_summaries_are_what_the_curves_say(done: tuple[TrainingResult, Path]) -> None:
    outcome, folder = done
    for summary in outcome.summaries():
        rows = outcome.curves.filter(pl.col("learner") == summary.learner)
        ends = rows.filter(pl.col("checkpoints") == 300)["value"].to_numpy()
        before = rows.filter(pl.col("checkpoints") == 270)["value"].to_numpy()
        assert summary.quality == pytest.approx(ends.mean() / 300)
        assert summary.quality_sd == pytest.approx(ends.std(ddof=1) / 300)
        assert summary.final_quality == pytest.approx(((ends - before) / 30).mean())
        assert summary.regret is None
        assert summary.finite == 2
    written = pl.read_csv(folder / "summary.csv")
    assert written["learner"].to_list() == list(SMALL.learners)
    assert written["quality"].to_list() == [s.quality for s in outcome.summaries()]
    assert pl.read_parquet(folder / "curves.parquet").equals(outcome.curves)


def test_lists_that_the_measure_skips_do_not_count(material: TrainTest, tmp_path: Path) -> None:
    training = Training(("uniform",), rounds=40, runs=1, measure="ndcg@10+skip")
    outcome = run_training(training, material, tmp_path / "x")
    trace = simulate(
        make_learner("uniform", 40), material.train.rounds(), k=1, measure=measure_named("ndcg@10+skip"),
        seed=training.learner_seed(0), sequence=training.sequence(0, 20),
    )  # fmt: skip
    data = material.train
    relevant = [data.relevance[a:b].any() for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    counted = sum(relevant[q] for q in training.sequence(0, 20))
    assert 0 < counted < 40
    assert outcome.summaries()[0].quality == pytest.approx(trace.value[-1] / counted)


def test_models_are_the_final_weights_and_held_out_is_their_quality(
    done: tuple[TrainingResult, Path], material: TrainTest
) -> None:
    outcome, folder = done
    assert material.test is not None
    rounds, test = material.train.rounds(), material.test
    assert SMALL.model_names() == ["rtopkf", "from-paper-surrogate-kl", "uniform"]
    assert sorted(path.name for path in (folder / "models").iterdir()) == [
        "from-paper-surrogate-kl-0.json", "from-paper-surrogate-kl-1.json", "rtopkf-0.json", "rtopkf-1.json",
    ]  # fmt: skip
    qualities = []
    for run in range(2):
        agent = Agent(make_learner("rtopkf", 300), m=5, k=1, d=3, seed=SMALL.learner_seed(run))
        for q in SMALL.sequence(run, 20):
            here = slice(rounds.offsets[q], rounds.offsets[q + 1])
            decision = agent.rank(rounds.features[here])
            agent.update(decision, rounds.relevance[here][decision.ranking[:1]])
        model = load_model(model_file(folder, "rtopkf", run))
        assert np.array_equal(model.weights, agent._state.w)
        assert (model.run, model.rounds, model.k, model.source) == (run, 300, 1, "made")
        ranked, values = model.rank(test), []
        for first, last in zip(test.offsets, test.offsets[1:], strict=False):
            scores = test.features[first:last].astype(np.float64) @ model.weights
            order = np.argsort(-scores, kind="stable")
            assert np.array_equal(ranked.rankings[first:last], order)
            assert np.allclose(ranked.scores[first:last], scores, atol=1e-5)
            values.append(evaluate(NDCG(10), order, test.relevance[first:last]))
        qualities.append(np.mean(values))
        assert ranked.quality(NDCG(10)) == pytest.approx(np.mean(values))
    assert outcome.summaries()[0].held_out == pytest.approx(np.mean(qualities))


@pytest.mark.parametrize("rounds", [12, 20, 70])
def test_online_scaling_is_a_naive_twins(rounds: int, tmp_path: Path) -> None:
    """Less than a pass, one pass, several: a twin that keeps all it was shown, and asks NumPy each round."""
    sizes, shifts = np.array([1, 50, 0.01], np.float32), np.array([0, 7, -1], np.float32)
    train, test = (
        data._replace(features=data.features * sizes + shifts)
        for data in (make(20, 1), make(10, 2, source="other"))
    )
    training = Training(("rtopkf", "uniform"), k=1, rounds=rounds, runs=2, regret=True)
    outcome = run_training(training, prepare_data(train, test, scaling="online"), tmp_path / "x")
    qualities = []
    for run in range(2):
        agent = Agent(make_learner("rtopkf", rounds), m=5, k=1, d=3, seed=training.learner_seed(run))
        parts: dict[int, Floats] = {}
        value = loss = 0.0
        X, y = [], []
        for q in training.sequence(run, 20):
            here = slice(train.offsets[q], train.offsets[q + 1])
            grades = train.relevance[here]
            parts[q] = train.features[here].astype(np.float64)
            seen = np.concatenate(list(parts.values()))
            spread = np.where(np.ptp(seen, axis=0) > 0, seen.std(axis=0), np.inf)  # constant so far: 0
            scaled = ((parts[q] - seen.mean(axis=0)) / spread).astype(np.float32)
            X.append(scaled)
            y.append(grades)
            loss += float(np.sum((scaled @ agent._state.w - grades) ** 2))
            decision = agent.rank(scaled)
            value += evaluate(NDCG(10), decision.ranking, grades)
            agent.update(decision, grades[decision.ranking[:1]])
        rows = outcome.curves.filter((pl.col("learner") == "rtopkf") & (pl.col("run") == run))
        assert rows["value"][-1] == pytest.approx(value)
        assert rows["loss"][-1] == pytest.approx(loss, rel=1e-4)
        both, grades = np.concatenate(X).astype(np.float64), np.concatenate(y)
        best = both @ np.linalg.lstsq(both, grades, rcond=None)[0]
        assert rows["best"][-1] == pytest.approx(np.sum((best - grades) ** 2), rel=1e-4)
        model = load_model(model_file(tmp_path / "x", "rtopkf", run))
        np.testing.assert_allclose(model.weights, agent._state.w, rtol=1e-3, atol=1e-5)
        assert model.preparation.scaling == "online"
        assert model.preparation.standardisation is not None
        np.testing.assert_allclose(model.preparation.standardisation.mean, seen.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(model.preparation.standardisation.deviation, spread, rtol=1e-9)
        values = []
        for first, last in zip(test.offsets, test.offsets[1:], strict=False):
            scores = ((test.features[first:last] - seen.mean(axis=0)) / spread) @ model.weights
            values.append(evaluate(NDCG(10), np.argsort(-scores, kind="stable"), test.relevance[first:last]))
        assert rows["held_out"][-1] == pytest.approx(np.mean(values))
        assert model.rank(test).quality(NDCG(10)) == pytest.approx(np.mean(values))
        qualities.append(np.mean(values))
    assert outcome.summaries()[0].held_out == pytest.approx(np.mean(qualities))


def test_online_scaling_is_recorded_and_statistics_of_runs_are_not_mixed_up(tmp_path: Path) -> None:
    train = make(20, 1)
    training = Training(("rtopkf",), rounds=12, runs=2)
    run_training(training, prepare_data(train, scaling="online"), tmp_path / "x")
    assert json.loads((tmp_path / "x" / "manifest.json").read_text())["data"]["scaling"] == "online"
    with pytest.raises(ValueError, match="with different scaling of the data; choose another folder"):
        run_training(training, prepare_data(train), tmp_path / "x")
    one, two = (load_model(model_file(tmp_path / "x", "rtopkf", run)) for run in range(2))
    assert (one.preparation.fitted_on, two.preparation.fitted_on) == tuple(
        f"made, 12 queries in the order of seed 0, run {run}" for run in range(2)
    )
    for other in (one.rank(train).data, two.rank(train).data):
        with pytest.raises(
            ValueError, match=r"is scaled already \(global, .*\): must be online, .*, or not scaled"
        ):
            one.rank(other)
    with pytest.raises(ValueError, match=r"is scaled already \(query\); leave it out"):
        prepare_data(scale_within_queries(train), scaling="online")
    with pytest.raises(ValueError, match=r"is scaled already \(query\): must be online, or not scaled"):
        prepare_data(train, scale_within_queries(make(10, 2)), scaling="online")


def test_with_online_scaling_k_may_exceed_all_lists_of_a_short_run(tmp_path: Path) -> None:
    training = Training(("rtopkf",), k=5, rounds=1, runs=1, seed=2, regret=True)
    train = make(20, 1)
    assert np.diff(train.offsets)[training.sequence(0, 20)[0]] < 5
    assert (
        run_training(training, prepare_data(train, scaling="online"), tmp_path / "x").summaries()[0].explored == 0
    )


def test_random_order_is_held_against_the_test_part_too(done: tuple[TrainingResult, Path]) -> None:
    held_out = done[0].curves.filter(pl.col("learner") == "uniform")["held_out"].unique()
    assert len(held_out) == 2
    assert held_out.is_between(0, 1).all()


def naive_loss(surrogate: Surrogate, rounds: Rounds, counts: Ints, w: Floats) -> float:
    total = 0.0
    for q, count in enumerate(counts):
        here = slice(rounds.offsets[q], rounds.offsets[q + 1])
        scores = rounds.features[here].astype(np.float64) @ w
        total += count * surrogate.value(scores, rounds.relevance[here].astype(np.float64))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", CONVEX, ids=str)
@pytest.mark.parametrize("radius", [None, 0.5, 100.0])
def test_no_weights_are_better_than_the_best_by_more_than_the_gap(
    surrogate: Surrogate, radius: float | None, material: TrainTest
) -> None:
    rounds, counts = material.train.rounds(), COUNTS
    best = best_fixed(surrogate, rounds, counts, radius)
    assert best.loss == pytest.approx(naive_loss(surrogate, rounds, counts, best.weights), rel=1e-10)
    assert best.gap <= 2e-3 * best.loss
    assert radius is None or np.linalg.norm(best.weights) <= radius * (1 + 1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            w = best.weights + size * rng.standard_normal(3)
            if radius is not None and np.linalg.norm(w) > radius:
                w *= radius / np.linalg.norm(w)
            assert naive_loss(surrogate, rounds, counts, w) >= best.loss - best.gap - 1e-9 * best.loss


def test_the_best_squared_loss_is_that_of_least_squares(material: TrainTest) -> None:
    rounds, counts = material.train.rounds(), COUNTS
    root = np.sqrt(np.repeat(counts, np.diff(rounds.offsets)))
    w = np.linalg.lstsq(rounds.features * root[:, None], rounds.relevance * root, rcond=None)[0]
    best = best_fixed(Squared(), rounds, counts)
    assert best.weights == pytest.approx(w, rel=1e-6)
    assert best.gap < 1e-9 * best.loss


def test_the_best_hinge_loss_is_that_of_a_linear_program(material: TrainTest) -> None:
    rounds, rows = material.train.rounds(), []
    for first, last in zip(rounds.offsets, rounds.offsets[1:], strict=False):
        for i in range(first, last):
            rows += [
                rounds.features[i] - rounds.features[j]
                for j in range(first, last)
                if rounds.relevance[i] > rounds.relevance[j]
            ]
    pairs, n = np.array(rows, np.float64), len(rows)  # minimise the sum of slacks, each at least 1 - pair w
    solved = linprog(
        np.r_[np.zeros(3), np.ones(n)],
        A_ub=np.hstack([-pairs, -np.eye(n)]),
        b_ub=-np.ones(n),
        bounds=[(None, None)] * 3 + [(0, None)] * n,
    )
    assert solved.fun is not None
    best = best_fixed(RankSVM(), rounds, np.ones(20, np.int64))
    assert best.loss - best.gap <= solved.fun + 1e-9 <= best.loss + 2e-9
    assert best.loss == pytest.approx(solved.fun, rel=1e-3)


@pytest.mark.parametrize("surrogate", [KL(), ListNet()], ids=str)
def test_the_gradient_of_the_sum_vanishes_at_the_best(surrogate: Surrogate, material: TrainTest) -> None:
    rounds, counts = material.train.rounds(), COUNTS
    best, slope = best_fixed(surrogate, rounds, counts), np.zeros(3)
    for q in range(20):
        here = slice(rounds.offsets[q], rounds.offsets[q + 1])
        X = rounds.features[here].astype(np.float64)
        gradient = surrogate.gradient(X @ best.weights, rounds.relevance[here].astype(np.float64))
        slope += counts[q] * (gradient @ X)
    assert np.abs(slope).max() < 1e-4


def test_a_loss_that_is_not_convex_has_no_regret(material: TrainTest, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="smoothdcg: must be convex"):
        best_fixed(SURROGATES["smoothdcg"](), material.train.rounds(), np.ones(20, np.int64))
    training = Training(("rtopkf:surrogate=smoothdcg", "uniform"), rounds=20, runs=1, regret=True)
    assert [s.regret for s in run_training(training, material, tmp_path / "x").summaries()] == [None, None]


@pytest.mark.parametrize(
    "text", ["rtopkf", "from_paper:surrogate=kl", "rtopkf:surrogate=listnet", "rtopkf:radius=0.3"]
)
def test_loss_along_a_run_is_a_naive_twins(text: str, material: TrainTest) -> None:
    rounds, learner, sequence = material.train.rounds(), make_learner(text, 300), SMALL.sequence(0, 20)
    assert isinstance(learner, RTopKF)
    agent, total = Agent(learner, m=5, k=2, d=3, seed=SMALL.learner_seed(0)), 0.0
    for q in sequence:
        here = slice(rounds.offsets[q], rounds.offsets[q + 1])
        scores = rounds.features[here].astype(np.float64) @ agent._state.w
        total += learner.surrogate.value(scores, rounds.relevance[here].astype(np.float64))
        decision = agent.rank(rounds.features[here])
        agent.update(decision, rounds.relevance[here][decision.ranking[: agent.shape.k]])
    ticks: list[int] = []
    along = loss_along(learner, rounds, sequence, k=2, seed=SMALL.learner_seed(0), progress=ticks.append)
    assert along == pytest.approx(total, rel=1e-5)
    assert sum(ticks) == 300


def test_regret_is_loss_minus_the_best_for_lists_as_often_as_they_came(
    material: TrainTest, tmp_path: Path
) -> None:
    training = Training(("rtopkf", "rtopkf:surrogate=kl"), k=2, rounds=50, runs=2, regret=True)
    ticks: list[int] = []
    outcome = run_training(training, material, tmp_path / "x", progress=ticks.append)
    assert sum(ticks) == training.total_rounds() == 2 * 50 * 4
    rounds, regrets = material.train.rounds(), []
    for run in range(2):
        sequence = training.sequence(run, 20)
        loss = loss_along(RTopKF(horizon=50), rounds, sequence, k=2, seed=training.learner_seed(run))
        root = np.sqrt(np.repeat(np.bincount(sequence, minlength=20), np.diff(rounds.offsets)))
        X, y = rounds.features * root[:, None], rounds.relevance * root
        regrets.append(loss - np.sum((X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) ** 2))
    summary = outcome.summaries()[0]
    assert summary.regret == pytest.approx(np.mean(regrets), rel=1e-6)
    assert summary.gap is not None
    assert summary.gap < 1e-6


def test_what_is_finished_is_not_done_again_and_nothing_depends_on_interruptions(
    done: tuple[TrainingResult, Path], material: TrainTest, tmp_path: Path
) -> None:
    calls = 0

    def interrupt(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # what is there already, then one chunk in each run
            raise KeyboardInterrupt

    folder = tmp_path / "x"
    with pytest.raises(InterruptedRunError):
        run_training(SMALL, material, folder, progress=interrupt)
    assert count_finished(folder) == 1
    (kept,) = (folder / "runs").iterdir()
    stamp = kept.stat().st_mtime_ns
    again = run_training(SMALL, material, folder)
    assert kept.stat().st_mtime_ns == stamp
    assert again.curves.equals(done[0].curves)
    assert not list(folder.rglob("*.part"))


def test_another_training_is_refused_by_what_differs(
    done: tuple[TrainingResult, Path], material: TrainTest
) -> None:
    _, folder = done
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for other, data, message in (
        (replace(SMALL, rounds=301), material, "with different rounds; choose another folder"),
        (replace(SMALL, k=2, seed=5), material, "with different k, seed;"),
        (
            SMALL,
            prepare_data(make(20, 3), make(10, 2, source="other")),
            "with different content of the data, documents",
        ),
        (SMALL, prepare_data(make(20, 1)), "source of the test"),
        (SMALL, prepare_data(make(20, 1), make(10, 2, source="other"), scaling="query"), "scaling of the data"),
    ):
        with pytest.raises(ValueError, match=message):
            run_training(other, data, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learners": ()}, "no learners"),
        ({"learners": ("rtopkf", "rtopkf")}, "a learner occurs twice"),
        ({"learners": ("rtopkg",)}, "unknown learner 'rtopkg': did you mean 'rtopkf'"),
        ({"learners": ("rtop1f",)}, "rtop1f learns about fixed items, not from features"),
        ({"score": 0}, "only mixed starts from a score, and the learners are"),
        ({"learners": ("from_paper:surrogate=kk",)}, "unknown surrogate 'kk'"),
        ({"learners": ("from_paper:rate=2",)}, "learner 'from_paper' has no field 'rate'"),
        ({"learners": ("rtopkf:surrogate=ranksvm",)}, "k = 1: rtopkf:surrogate=ranksvm needs at least k = 2"),
        ({"k": 0}, "k = 0: must be a whole number, at least 1"),
        ({"rounds": 0}, "rounds = 0"),
        ({"runs": 0}, "runs = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"measure": "ndgc"}, "unknown measure 'ndgc'"),
    ],
)
def test_wrong_trainings(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_k_may_exceed_short_lists_but_not_all(material: TrainTest, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="k = 6: must be between 1 and the number of items, m = 5"):
        run_training(replace(SMALL, k=6), material, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    training = Training(("rtopkf",), k=5, rounds=30, runs=1)
    outcome = run_training(training, material, tmp_path / "x")
    assert outcome.summaries()[0].explored == 0  # every list is seen as a whole


def test_weights_that_diverge_leave_no_model_and_stop_nothing(tmp_path: Path) -> None:
    data = make(20, 1)
    huge = prepare_data(data._replace(features=data.features * np.float32(1e8)), make(10, 2))
    training = Training(("from_paper", "uniform"), rounds=300, runs=1)
    summaries = run_training(training, huge, tmp_path / "x").summaries()
    assert [s.finite for s in summaries] == [0, 1]
    assert summaries[0].held_out is None
    assert not (tmp_path / "x" / "models").exists()


def test_quality_is_that_of_the_runs_that_did_not_diverge(done: tuple[TrainingResult, Path]) -> None:
    outcome, _ = done
    whole = outcome.summaries()[0]
    first = pl.col("run") == 0
    lost = outcome.curves.with_columns(
        pl.when(first).then(False).otherwise("finite").alias("finite"),
        *(pl.when(first).then(None).otherwise(name).alias(name) for name in ("held_out", "loss", "best", "gap")),
    )
    part = outcome._replace(curves=lost).summaries()[0]
    mine = outcome.curves.filter(pl.col("learner") == SMALL.learners[0], ~first)["held_out"].to_numpy()
    assert part.finite == whole.finite - 1
    assert part.held_out == pytest.approx(mine.mean())


def test_models_that_were_removed_are_made_again(material: TrainTest, tmp_path: Path) -> None:
    run_training(SMALL, material, tmp_path)
    models = {path.name: path.read_bytes() for path in (tmp_path / "models").iterdir()}
    for path in (tmp_path / "models").iterdir():
        path.unlink()
    run_training(SMALL, material, tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "models").iterdir()} == models != {}


def test_models_of_a_training_that_never_finished_a_run_do_not_stay(material: TrainTest, tmp_path: Path) -> None:
    run_training(SMALL, material, tmp_path)
    for path in (tmp_path / "runs").iterdir():
        path.unlink()
    run_training(replace(SMALL, learners=("uniform",)), material, tmp_path)
    assert not list((tmp_path / "models").iterdir())


def test_another_training_in_the_same_folder_at_the_same_time_is_noticed(
    material: TrainTest, tmp_path: Path
) -> None:
    def take_over(_: int) -> None:
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        manifest["training"]["seed"] = 77
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(ValueError, match="another training, with different seed"):
        run_training(SMALL, material, tmp_path, progress=take_over)
    assert not (tmp_path / "runs").exists()


def test_the_file_of_one_run_is_not_taken_for_another(material: TrainTest, tmp_path: Path) -> None:
    run_training(SMALL, material, tmp_path)
    one, other = sorted((tmp_path / "runs").iterdir())
    one.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match=r"0000.parquet does not belong to this training; remove the file"):
        run_training(SMALL, material, tmp_path)


def test_arrays_that_were_changed_after_reading_are_other_data(material: TrainTest, tmp_path: Path) -> None:
    train = material.train._replace(about=replace(material.train.about, digest="abc"))
    run_training(SMALL, material._replace(train=train), tmp_path)
    other = train._replace(features=train.features * np.float32(2))
    with pytest.raises(ValueError, match="with different content of the data"):
        run_training(SMALL, material._replace(train=other), tmp_path)


def test_models_whose_plain_names_agree_are_numbered() -> None:
    training = Training(("rtopkf:rate=1e-3", "uniform", "rtopkf:rate=1e+3"))
    assert training.model_names() == ["rtopkf-rate-1e-3-0", "uniform", "rtopkf-rate-1e-3-2"]


def test_the_picture_shows_the_mean_over_runs(done: tuple[TrainingResult, Path]) -> None:
    outcome, _ = done
    axes = plots.average_quality(outcome).axes[0]
    assert axes.get_ylabel() == "average NDCG@10"
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in lines] == list(SMALL.learners)
    for line, text in zip(lines, SMALL.learners, strict=True):
        shown = outcome.checkpoints >= 3
        assert np.allclose(line.get_xdata(), outcome.checkpoints[shown])
        assert np.allclose(line.get_ydata(), outcome.qualities(text).mean(axis=0)[shown])


# Models


def model_of(data: Dataset, scaling: str = "none") -> Model:
    weights = np.linspace(-1, 1, data.features.shape[1]).astype(np.float32)
    return Model(weights, preparation(data, scaling), "rtopkf", 1, "ndcg@10", 10, 0, 0, data.about.source, "abc")


@pytest.mark.parametrize("scaling", ["none", "query", "global"])
def test_a_model_comes_back_and_scales_new_data_as_it_learned(scaling: str, tmp_path: Path) -> None:
    train, test = make(20, 1), make(10, 2)
    model = model_of(train, scaling)
    save_model(model, tmp_path / "m.json")
    loaded = load_model(tmp_path / "m.json")
    assert np.array_equal(loaded.weights, model.weights)
    assert loaded._replace(weights=model.weights, preparation=model.preparation) == model
    scaled = {
        "none": lambda: test,
        "query": lambda: scale_within_queries(test),
        "global": lambda: standardise(test, fit_standardisation(train)),
    }[scaling]()
    assert np.array_equal(loaded.rank(test).data.features, scaled.features)
    assert np.array_equal(loaded.rank(scaled).scores, loaded.rank(test).scores)  # scaled before, or by the model


def test_data_that_do_not_fit_a_model_are_refused() -> None:
    train = make(20, 1)
    model = model_of(train)
    with pytest.raises(ValueError, match="wide: has 4 features: must have 3 like the training part"):
        model.rank(make(5, 3, d=4, source="wide"))
    with pytest.raises(ValueError, match="thin: has 2 features: must have 3"):
        model.rank(make(5, 3, d=2, source="thin"))
    with pytest.raises(ValueError, match="made: feature ids start at 0: must start at 1"):
        model.rank(train._replace(about=Provenance("made", base=0)))
    with pytest.raises(ValueError, match=r"is scaled already \(query\): must be none, or not scaled"):
        model.rank(scale_within_queries(train))
    other = standardise(train, fit_standardisation(train)._replace(fitted_on="elsewhere"))
    with pytest.raises(ValueError, match=r"\(global, fitted on elsewhere\): must be global, fitted on made"):
        model_of(train, "global").rank(other)
    with pytest.raises(ValueError, match="must be scaled like the training part; use"):
        model_of(standardise(train, fit_standardisation(train))).rank(train)
    with pytest.raises(ValueError, match=r"scaling = query: made is scaled already \(query\); leave it out"):
        preparation(scale_within_queries(train), "query")
    with pytest.raises(ValueError, match="scaling = 'cubic'"):
        preparation(train, "cubic")


def test_features_that_sparse_data_leave_out_everywhere_are_zero() -> None:
    thin = make(5, 3, d=2)
    sparse = thin._replace(about=Provenance("sparse", warnings={"missing_values": 1}))
    prepared = model_of(make(20, 1)).rank(sparse).data
    assert np.array_equal(prepared.features, np.c_[thin.features, np.zeros(len(thin.features))])


def test_real_valued_relevance_is_rounded() -> None:
    train = make(20, 1)
    real = train._replace(relevance=train.relevance + np.float32(0.25))
    material = prepare_data(real, real)
    assert np.array_equal(material.train.relevance, train.relevance)
    assert material.train.about.rounded
    assert material.test is not None
    assert material.test.about.rounded


def test_files_that_are_no_models_or_damaged_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(model_of(make(20, 1)), path)
    text = path.read_text()
    for content in ("", "[1]", '{"kind": "else"}', text[: len(text) // 2], "\x00\xff"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"m\.json: is not a peekrank model, or is truncated"):
            load_model(path)
    path.write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match=r"m\.json: has format 2; this peekrank reads format 1"):
        load_model(path)
    changed = json.loads(text)
    changed["weights"][0] += 1
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"m\.json: is damaged"):
        load_model(path)
    del changed["weights"]
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"m\.json: is damaged"):
        load_model(path)
    infinite = model_of(make(20, 1))._replace(weights=np.full(3, np.inf, np.float32))
    with pytest.raises(ValueError, match="its weights are not finite"):
        save_model(infinite, tmp_path / "n.json")
    assert not (tmp_path / "n.json").exists()
