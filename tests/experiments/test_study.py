"""Studies: their numbers by hand, families of streams, folders, pictures and the experiment."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import Agent
from peekrank.experiments.families import GAPS, family, lower_bound_pair
from peekrank.experiments.study import Study, fitting
from peekrank.experiments.study_result import StudyResult, fit_over_horizons
from peekrank.experiments.study_runs import run_study
from peekrank.jobs.executor import InterruptedRunError
from peekrank.learners import SetFTRL, Uniform
from peekrank.measures import Precision
from peekrank.measures import measure as measure_named
from peekrank.papers.ours import rates
from peekrank.registry import LEARNERS
from peekrank.reports import plots
from peekrank.streams import Bernoulli, Joint, stream
from peekrank.types import Floats, Shape

ROOT = Path(__file__).parents[2]
FOR_FIXED_ITEMS = {name for name, cls in LEARNERS.items() if not cls.contextual}
TINY = Study("p@1+sum", m=3, k=1, learners=("setftrl", "uniform"), horizons=(20, 40), runs=3, seed=7)


def files(folder: Path) -> dict[str, bytes]:
    """All files with their bytes, but for how long things took."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(TINY, tmp_path_factory.mktemp("tiny") / "study")


# --- numbers


def test_regrets_are_those_of_a_loop_by_hand(found: StudyResult) -> None:
    expected = {}
    for s, horizon in product(range(len(TINY.streams)), TINY.horizons):
        label, source = family("p@1+sum", 3, 1, horizon)[s]
        setting_seed = int(np.random.SeedSequence(7, spawn_key=(s, horizon)).generate_state(1)[0])
        for run in range(3):
            rng = np.random.default_rng(np.random.SeedSequence(setting_seed, spawn_key=(run, 0)))
            relevance = source.rounds(horizon, rng).relevance.reshape(horizon, 3)
            for name, learner in (
                ("setftrl", SetFTRL(Precision(1, mean=False), horizon=horizon)),
                ("uniform", Uniform()),
            ):
                agent = Agent(learner, m=3, k=1, seed=np.random.SeedSequence(setting_seed, spawn_key=(run, 1)))
                hits = 0
                for row in relevance:
                    decision = agent.rank()
                    top = decision.ranking[0]
                    hits += int(row[top])
                    agent.update(decision, [row[top]])
                expected[name, label, horizon, run] = int(relevance.sum(axis=0).max()) - hits
    measured = {(a, b, c, d): regret for a, b, c, d, regret in found.regrets.rows()}
    assert measured == expected


def test_rows_come_learner_by_learner_and_stream_by_stream(found: StudyResult) -> None:
    keys = [tuple(row[:4]) for row in found.regrets.rows()]
    assert keys == list(product(TINY.learners, TINY.streams, TINY.horizons, range(3)))


def test_the_worst_stream_is_that_of_the_summary(found: StudyResult) -> None:
    rows = found.summary().rows(named=True)
    assert [(r["learner"], r["horizon"]) for r in rows] == list(product(TINY.learners, TINY.horizons))
    by_key: dict[tuple[str, str, int], list[float]] = {}
    for learner, label, horizon, _, regret in found.regrets.rows():
        by_key.setdefault((learner, label, horizon), []).append(regret)
    for r in rows:
        surely = {
            label: np.mean(x) - 2 * np.std(x, ddof=1) / math.sqrt(3)
            for (learner, label, horizon), x in by_key.items()
            if (learner, horizon) == (r["learner"], r["horizon"])
        }
        assert surely[r["stream"]] == pytest.approx(max(surely.values()))
        regrets = by_key[r["learner"], r["stream"], r["horizon"]]
        assert r["regret"] == pytest.approx(np.mean(regrets))
        assert r["spread"] == pytest.approx(np.std(regrets, ddof=1))
        if r["learner"] == "uniform":
            assert r["bound"] is r["within_bound"] is None
        else:
            bound = SetFTRL(Precision(1, mean=False), horizon=r["horizon"]).bound(Shape(3, 0, 1), r["horizon"])
            assert r["bound"] == bound
            assert r["within_bound"] == (r["regret"] <= bound)


def test_a_few_unlucky_runs_do_not_choose_the_stream() -> None:
    regrets = made({"lucky": [0.0, 0.0, 0.0, 100.0], "steady": [20.0, 21.0, 19.0, 20.0]})
    assert [w.stream for w in regrets.worst("uniform")] == ["halves 1/4"]  # the second label
    assert regrets.worst("uniform")[0].regret == 20


def made(streams: dict[str, list[float]]) -> StudyResult:
    """StudyResult with these regrets on the first streams, and none on the others; a single horizon."""
    study = replace(TINY, learners=("uniform",), horizons=(20,), runs=4)
    values = list(streams.values()) + [[0.0] * 4] * (len(study.streams) - len(streams))
    rows = [
        ("uniform", label, 20, run, x)
        for label, regrets in zip(study.streams, values, strict=True)
        for run, x in enumerate(regrets)
    ]
    return StudyResult(study, pl.DataFrame(rows, ["learner", "stream", "horizon", "run", "regret"], orient="row"))


def test_bounds_only_for_what_a_learner_is_tuned_to() -> None:
    study = Study("dcg", 4, 1, ("rtop1f", "rtop1f:measure=sumloss", "rtop1f:horizon=99", "blockftrl:horizon=none"))
    assert [study.bound(name, 2000) is None for name in study.learners] == [False, True, True, False]


@pytest.mark.parametrize("power", [0.5, 2 / 3, 1.0])
def test_exponents_of_power_laws(power: float) -> None:
    horizons = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
    exact = np.outer(3.7 * np.array(horizons) ** power, np.ones(4))
    assert fit_over_horizons(horizons, exact).value == pytest.approx(power, abs=1e-9)
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(200):
        noisy = exact[:, :1] * (1 + 0.3 * rng.standard_normal((len(horizons), 10)))
        value, low, high = fit_over_horizons(horizons, noisy)
        assert low < value < high
        covered.append(low <= power <= high)
    assert np.mean(covered) > 0.85  # of 95 %: the bootstrap of ten runs is a little narrow


def test_exponents_that_cannot_be_had() -> None:
    positive = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert all(math.isnan(x) for x in fit_over_horizons((10,), positive[:1]))
    assert all(math.isnan(x) for x in fit_over_horizons((10, 20), -positive))
    value, low, high = fit_over_horizons((10, 20), positive[:, :1])
    assert value == pytest.approx(math.log(3) / math.log(2))
    assert math.isnan(low)
    assert math.isnan(high)
    value, low, _ = fit_over_horizons((10, 20), np.array([[-1.0, 3.0], [3.0, 4.0]]))  # not positive in some draws
    assert not math.isnan(value)
    assert math.isnan(low)


# --- families


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "counted", "good"),
    [
        ("p@2+sum", 2, 2),
        ("dcg@3", 3, 3),
        ("dcg", 4, 2),
        ("sumloss", 4, 2),
        ("p@9+sum", 4, 4),
        ("ndcg@2", 2, 2),
        ("ap", 4, 2),
    ],
)
def test_families_have_the_means_they_promise(measure: str, counted: int, good: int) -> None:
    members = {source.label: source.stream for source in family(measure, 5, 1, 1000)}
    for parts in GAPS:
        low, high = 1 / 2 - 1 / (2 * parts), 1 / 2 + 1 / (2 * parts)
        halves, ladder, last_two = (
            means_of(members[f"{name} 1/{parts}"]) for name in ("halves", "ladder", "last two")
        )
        assert halves == pytest.approx([low] * (5 - good) + [high] * good)
        assert ladder == pytest.approx([low + i * (high - low) / 4 for i in range(5)])
        best_first = last_two[::-1]
        assert best_first[: counted - 1] == [0.9] * (counted - 1)
        assert best_first[counted - 1] - best_first[counted] == pytest.approx(1 / parts)
        assert best_first[counted + 1 :] == [0.1] * (4 - counted)
        for means in (halves, ladder, last_two):
            assert means == sorted(means)  # no gain by breaking ties in favour of low indices
    assert set(Counter(source.label for source in family(measure, 5, 1, 1000)).values()) == {1}


def means_of(source: object) -> list[float]:
    assert isinstance(source, Bernoulli)
    return list(source.means)


def test_streams_have_the_number_of_items_and_grades_of_the_game() -> None:
    for m, grades in product((2, 3, 11), (2, 3)):
        for source in family("dcg", m, 1, 500, grades):
            assert (source.stream.m, source.stream.max_grade) == (m, grades - 1)
    assert [source.label for source in family("dcg", 11, 1, 500)][-2:] == [
        "ct15",
        "switching",
    ]  # too large for a pair


def enumerated(measure: str, m: int) -> tuple[list[tuple[int, ...]], dict[str, Floats]]:
    """All rankings, and the losses of all for each list of grades, one evaluation at a time."""
    judge, rankings = measure_named(measure), list(permutations(range(m)))
    sign = -1 if judge.higher_is_better else 1
    losses = {}
    for digits in product((0, 1), repeat=m):
        relevance = np.array([digits] * len(rankings), dtype=np.uint8)
        losses["".join(map(str, digits))] = sign * judge.values(np.array(rankings), relevance)
    return rankings, losses


def expected_losses(losses: dict[str, Floats], side: Joint) -> Floats:
    table = np.array([losses[digits] for digits in side.lists])
    total: Floats = np.array(side.probabilities) @ table
    return total


def law_of_answers(ranking: Sequence[int], k: int, side: Joint) -> dict[str, float]:
    law: dict[str, float] = {}
    for digits, probability in zip(side.lists, side.probabilities, strict=True):
        seen = "".join(digits[item] for item in ranking[:k])
        law[seen] = law.get(seen, 0.0) + probability
    return law


@pytest.mark.parametrize(
    ("measure", "m", "k", "power"),
    [("p@2+sum", 4, 1, -1 / 2), ("sumloss", 4, 3, -1 / 2), ("sumloss", 4, 1, -1 / 3), ("dcg", 4, 2, -1 / 3),
     ("dcg@2", 4, 2, -1 / 2), ("ndcg", 3, 2, -1 / 3)],
)  # fmt: skip
def test_pairs_disagree_and_come_closer(measure: str, m: int, k: int, power: float) -> None:
    rankings, losses = enumerated(measure, m)
    distances = []
    for horizon in (10_000, 80_000):
        p, q = lower_bound_pair(measure, m, k, horizon)
        loss_p, loss_q = expected_losses(losses, p), expected_losses(losses, q)
        best_p, best_q = (set(np.flatnonzero(x < x.min() + 1e-12)) for x in (loss_p, loss_q))
        assert not best_p & best_q
        distances.append(np.abs(np.array(p.probabilities) - np.array(q.probabilities)).sum())
        if power == -1 / 3:  # what is optimal between the two shows nothing
            between = (loss_p + loss_q) / 2
            for ranking in np.flatnonzero(between < between.min() + 1e-9):
                seen_p, seen_q = (law_of_answers(rankings[ranking], k, side) for side in (p, q))
                assert seen_p == pytest.approx(seen_q, abs=1e-12)
            assert any(
                law_of_answers(r, k, p) != pytest.approx(law_of_answers(r, k, q), abs=1e-6) for r in rankings
            )
    assert distances[1] / distances[0] == pytest.approx(8**power, rel=0.01)


def test_pairs_of_hopeless_games_cannot_be_told_apart() -> None:
    p, q = lower_bound_pair("ap", 3, 1, 1000)
    assert lower_bound_pair("ap", 3, 1, 99_000) == (p, q)
    rankings, losses = enumerated("ap", 3)
    for ranking in rankings:
        assert law_of_answers(ranking, 1, p) == pytest.approx(law_of_answers(ranking, 1, q), abs=1e-12)
    loss_p, loss_q = expected_losses(losses, p), expected_losses(losses, q)
    assert (loss_p + loss_q).min() - loss_p.min() - loss_q.min() > 0.1


def test_games_without_a_pair() -> None:
    assert lower_bound_pair("dcg", 6, 1, 1000) == ()
    assert lower_bound_pair("p@3+sum", 3, 1, 1000) == ()  # nothing to learn


def test_the_learners_that_fit() -> None:
    fit, unfit = fitting("dcg", 4, 1, horizons=(1000,))
    assert {"rtop1f", "blockftrl", "blockftrl:horizon=none"} <= set(fit)
    assert not {"uniform", "ftpl", "setftrl", "permftrl", "rtop1f:horizon=none"} & set(fit)
    assert unfit["setftrl"].startswith("measure = dcg: setftrl learns which n items")
    assert unfit["permftrl"].startswith("k = 1: permftrl needs to see every position with a weight under dcg")
    assert {name.partition(":")[0] for name in (*fit, *unfit)} == FOR_FIXED_ITEMS - {"uniform", "ftpl"}
    assert fitting("dcg", 5, 1, horizons=(1000,))[1]["feedexp3"].startswith("slow with more than 4 items")
    assert "ftpl" in fitting("dcg", 4, 4, horizons=(1000,))[0]  # sees no more than the others


# --- folders


def test_results_depend_neither_on_workers_nor_on_interruptions(tmp_path: Path) -> None:
    run_study(TINY, tmp_path / "one")
    straight = files(tmp_path / "one")
    ticks: list[int] = []

    def stop_in_the_middle(rounds: int) -> None:
        ticks.append(rounds)
        if len(ticks) == 30:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        run_study(TINY, tmp_path / "two", workers=2, progress=stop_in_the_middle)
    kept = files(tmp_path / "two")
    assert 1 < len(kept) < len(straight)
    assert "summary.csv" not in kept
    assert kept.items() <= straight.items()
    counted: list[int] = []
    run_study(TINY, tmp_path / "two", workers=2, progress=counted.append)
    assert files(tmp_path / "two") == straight
    assert sum(counted) == TINY.rounds
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "two" / "runs").iterdir()}
    run_study(TINY, tmp_path / "two")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "two" / "runs").iterdir()} == stamps


def test_a_horizon_has_the_same_rounds_whatever_the_others_are(found: StudyResult, tmp_path: Path) -> None:
    alone = run_study(replace(TINY, horizons=(40,), learners=("uniform",)), tmp_path / "study")
    assert np.array_equal(alone.table("uniform")[:, 0], found.table("uniform")[:, 1])


def test_the_manifest_repeats_every_setting(tmp_path: Path) -> None:
    found = run_study(replace(TINY, horizons=(20,)), tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["study"]["learners"] == ["setftrl", "uniform"]
    assert [setting["stream"] for setting in manifest["settings"]] == list(found.study.streams)
    for setting in manifest["settings"]:
        assert stream(setting["specification"]).m == 3
        assert setting["horizon"] == 20
        assert setting["seed"] >= 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"runs": 4}, "runs"),
        ({"seed": 8, "horizons": (20, 41)}, "horizons, seed"),
        ({"learners": ("uniform",)}, "learners"),
        ({"k": 2}, "k"),
        ({"measure": "p@2+sum"}, "measure"),
    ],
)
def test_a_folder_of_other_settings_is_refused(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    run_study(TINY, tmp_path)
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"holds results of another study, with different {named}; choose"):
        run_study(replace(TINY, **change), tmp_path)
    assert files(tmp_path) == before


def test_a_setting_of_another_stream_is_named(tmp_path: Path) -> None:
    run_study(TINY, tmp_path)
    one, other = ((tmp_path / "runs").glob(f"*-{stream}-20.parquet") for stream in ("00", "01"))
    next(one).write_bytes(next(other).read_bytes())
    with pytest.raises(ValueError, match=r"00-20.parquet does not belong to this study"):
        run_study(TINY, tmp_path)


def test_a_failing_setting_fails_the_study_and_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("peekrank.experiments.run.regret", broken)
    with pytest.raises(RuntimeError, match="no luck") as caught:
        run_study(TINY, tmp_path)
    assert "in Setting(label='halves 1/2'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 4}, "k = 4: must be a whole number, from 1 to 3"),
        ({"m": 1}, "m = 1: must be a whole number, at least 2"),
        ({"runs": 0}, "runs = 0: must be"),
        ({"seed": -1}, "seed = -1: must be"),
        ({"grades": 1}, "grades = 1: must be"),
        ({"horizons": (40, 20)}, "horizons = 40,20: must be one or more ascending"),
        ({"horizons": (20, 20)}, "horizons = 20,20: must be one or more ascending"),
        ({"horizons": ()}, "horizons = : must be one or more ascending"),
        ({"horizons": (0, 20)}, "horizon = 0: must be"),
        ({"measure": "p@x"}, "p@x"),
        ({"learners": ("rtop1g",)}, "unknown learner 'rtop1g': did you mean 'rtop1f'"),
        (
            {"learners": ("permftrl",), "measure": "dcg"},
            "k = 1: permftrl needs to see every position with a weight under dcg",
        ),
        ({"learners": ()}, "no learners"),
        ({"learners": "uniform"}, r"learners = 'uniform': must be a tuple, as in \('uniform',\)"),
    ],
)
def test_bad_studies(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)


# --- pictures


def test_the_picture_shows_worst_means_bounds_and_slopes(found: StudyResult) -> None:
    figure = plots.worst_regret(found)
    (axes,) = figure.axes
    lines = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.get_lines()}
    exponents = {name: f"{name} (exponent {found.exponent(name).value:.2f})" for name in TINY.learners}
    for name in TINY.learners:
        expected = [(w.horizon, w.regret) for w in found.worst(name)]
        assert lines[exponents[name]] == pytest.approx(np.array(expected))
    bounds = [w.bound for w in found.worst("setftrl")]
    assert lines["bound for setftrl"][:, 1] == pytest.approx(bounds)
    assert "bound for uniform" not in lines
    for words, slope in (("1/2", 1 / 2), ("2/3", 2 / 3)):
        (a, b), (c, d) = lines[f"_slope {words}"]
        assert math.log(d / b) / math.log(c / a) == pytest.approx(slope)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_ylabel() == "regret (Precision@1+sum)"
    assert "worst of" in axes.get_title(loc="left")


def test_a_single_run_and_horizon_can_be_drawn(tmp_path: Path) -> None:
    found = run_study(replace(TINY, horizons=(20,), runs=1), tmp_path)
    figure = plots.worst_regret(found)
    assert "a single run" in figure.axes[0].get_title(loc="left")
    assert math.isnan(found.worst("uniform")[0].spread)
    assert not figure.axes[0].collections


# --- the experiment


script = load_experiment("rates")


def power_law(game: Any, factors: dict[str, float], powers: dict[str, float]) -> StudyResult:
    """StudyResult of a game where the regrets of each learner are a power law on every stream."""
    study = Study(game.measure, game.m, game.k, game.learners, horizons=(16_000, 64_000), runs=2)
    rows = [
        (name, label, horizon, run, factors.get(name, 0.1) * horizon ** powers.get(name, 2 / 3))
        for name, label, horizon, run in product(study.learners, study.streams, study.horizons, range(2))
    ]
    return StudyResult(study, pl.DataFrame(rows, ["learner", "stream", "horizon", "run", "regret"], orient="row"))


def verdicts(found: dict[Any, StudyResult], ct15: dict[str, Floats]) -> dict[str, bool]:
    return {claim.what: claim.holds for claim in rates.claims(found, ct15)}


@pytest.mark.slow
def test_claims_hold_and_differ() -> None:
    slow = ("setftrl", "permftrl", "setftrl:horizon=none", "permftrl:horizon=none", "nw2")
    powers = {**dict.fromkeys(slow, 0.5), "nw2:paper_rate=true": 1.0}
    found = {game: power_law(game, {"nw2:paper_rate=true": 0.01}, powers) for game in rates.GRID}
    ct15 = {
        "blockftrl:horizon=none": np.array([10.0, 12.0]),
        "rtop1f": np.array([20.0, 21.0]),
        "rtop1f:order=fixed": np.array([30.0, 31.0]),
    }
    assert all(verdicts(found, ct15).values())
    lazy = power_law(rates.PRECISION, {"setftrl": 0.3}, powers)
    differs = [what for what, holds in verdicts({**found, rates.PRECISION: lazy}, ct15).items() if not holds]
    assert differs == ["`rtop1f` over `setftrl`, `p@2+sum`, m = 5, k = 1, 64,000 rounds, each on its worst stream"]
    worse = {**ct15, "rtop1f:order=fixed": np.array([20.0, 20.0])}
    (half,) = [claim for claim in rates.claims(found, worse) if not claim.holds]
    assert (half.expected, half.here) == ("at most half", "11 ± 1 against 20 ± 0: 0.55 (2 runs)")
    linear = power_law(rates.SMALL, {"nw2:paper_rate=true": 0.01}, {**powers, "nw2": 1.0})
    differs = [what for what, holds in verdicts({**found, rates.SMALL: linear}, ct15).items() if not holds]
    assert [what.partition(",")[0] for what in differs] == [
        "exponent of `nw2`", "worst mean regret within the bound",
    ]  # fmt: skip


def test_the_record_has_every_game_with_its_picture() -> None:
    claims, *tables = records.read(records.FOLDER / "study.json").tables
    assert claims.title == "Claims"
    for game, table in zip(rates.GRID, tables, strict=True):
        assert table.title.startswith(game.title.replace("`", "") + ": ")
        assert [row[0] for row in table.rows] == [f"`{name}`" for name in game.learners]
        assert list(table.pictures) == [f"{game.name}.svg"]
        assert 1_000 < (script.PICTURES / f"{game.name}.svg").stat().st_size < 100_000
