"""experiments/ct16.py and experiments/judged.py on tiny data: their numbers against direct computations."""

from __future__ import annotations

import sys
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import Agent, Ridge
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.ct16 import figure
from peekrank.papers.ours import judged as module
from peekrank.types import Rounds

ct16 = sys.modules["ct16"] = load_experiment("ct16")  # the other one imports it, as scripts in one folder can
judged = load_experiment("judged")

ROUNDS, RUNS = 60, 2
LAYOUT = DatasetShape(12, (1, 7), 4, (0.6, 0.3, 0.1))


def silent(_: str) -> None:
    pass


def lists(seed: int = 0, layout: DatasetShape = LAYOUT) -> Rounds:
    return make_dataset(layout, np.random.default_rng(seed)).rounds()


def ndcg_at_10(order: Any, relevance: Any) -> float | None:
    """By the definition; None if nothing is relevant."""

    def dcg(grades: Any) -> float:
        return sum(
            (2.0 ** int(grade) - 1) / log2(position + 2) for position, grade in enumerate(list(grades)[:10])
        )

    best = dcg(sorted(relevance, reverse=True))
    return dcg(relevance[order]) / best if best > 0 else None


def letor(rounds: Rounds) -> str:
    lines = []
    for query, (start, end) in enumerate(pairwise(rounds.offsets)):
        for row in range(start, end):
            values = " ".join(f"{f + 1}:{x!r}" for f, x in enumerate(rounds.features[row].tolist()))
            lines.append(f"{rounds.relevance[row]} qid:{query + 1} {values}\n")
    return "".join(lines)


@pytest.fixture
def played() -> Any:
    return figure.play("tiny", lambda rng: lists(int(rng.integers(99))), rounds=ROUNDS, runs=RUNS, say=silent)


def invented(version: Any = figure.PRINTED, **ends: float) -> Any:
    """Curves that are level, two runs that differ by 0.002; of the paper's learners in one version."""
    checkpoints = np.array([10, 50, 100])
    squared, kl, svm = version.convex
    names = {
        "listnet": figure.EVERYTHING, "ranksvm": svm, "kl": kl, "squared": squared, "smooth": version.smooth,
        "random": figure.NOTHING, "twice": figure.TWICE, "ridge": figure.RIDGE,
        **{f"ours_{name[-1]}": name for name in figure.OURS},
    }  # fmt: skip
    curves = {names[n]: np.array([[v - 0.001] * 3, [v + 0.001] * 3]) for n, v in ends.items()}
    return figure.FigureData("invented", 100, checkpoints, curves, dict.fromkeys(curves, 0))


def both(ours: dict[str, float], exact: dict[str, float], **printed: float) -> Any:
    """Curves of both versions."""
    one, two = invented(**printed, **ours), invented(figure.EXACT, **exact)
    return one._replace(curves={**two.curves, **one.curves}, diverged={**two.diverged, **one.diverged})


def test_each_pass_shows_every_query_once() -> None:
    sequence = figure.passes(5, 12, np.random.default_rng(0))
    assert len(sequence) == 12
    assert sorted(sequence[:5]) == sorted(sequence[5:10]) == [0, 1, 2, 3, 4]
    assert not np.array_equal(sequence[:5], sequence[5:10])


def test_the_figure_has_the_six_of_the_paper_with_its_parameters() -> None:
    entrants = figure.contestants(1000)
    papers: list[Any] = [c for c in entrants if getattr(c.learner, "estimator", "") == "printed"]
    four = [("ranksvm", 2), ("kl", 1), ("squared", 1), ("smoothdcg", 1)]
    assert [(str(c.learner.surrogate), c.k, c.learner.clip) for c in papers] == [
        ("listnet", 1, 0), *((*one, 1) for one in four), *((*one, 0) for one in four), ("ranksvm", 2, 1),
    ]  # fmt: skip
    assert [c.learner.rate for c in papers] == [1.0] * 9 + [0.5]
    assert [c.learner.step for c in papers] == ["theorem"] * 10
    assert [c.learner.gamma for c in papers] == pytest.approx([0.1] * 10)
    assert {figure.NOTHING, figure.TWICE, figure.RIDGE} < {c.name for c in entrants}
    assert figure.RIDGE not in {c.name for c in figure.contestants(1000, features=700)}
    assert len({(c.colour, c.dashes) for c in entrants}) == len({c.name for c in entrants}) == len(entrants)


def test_curves_are_averages_over_the_queries_with_a_relevant_document(played: Any) -> None:
    rng = np.random.default_rng(1)  # that of the second run
    data = lists(int(rng.integers(99)))
    sequence = figure.passes(len(data.offsets) - 1, ROUNDS, rng)
    agent = Agent(RTopKF(), m=int(np.diff(data.offsets).max()), k=2, d=4, seed=1)
    values = []
    for query in sequence:
        rows = slice(data.offsets[query], data.offsets[query + 1])
        decision = agent.rank(data.features[rows])
        agent.update(decision, data.relevance[rows][decision.ranking[:2]])
        values.append(ndcg_at_10(decision.ranking, data.relevance[rows]))
    assert None in values
    seen = [[v for v in values[:t] if v is not None] for t in played.checkpoints]
    wanted = np.array([sum(some) / max(1, len(some)) for some in seen])
    np.testing.assert_allclose(played.curves["ours, k = 2"][1], wanted, rtol=1e-12)


@pytest.mark.parametrize("version", [figure.PRINTED, figure.EXACT])
def test_verdicts_follow_the_curves(version: Any) -> None:
    ends = {"listnet": 0.8, "ranksvm": 0.79, "kl": 0.785, "squared": 0.75, "smooth": 0.55, "random": 0.5}
    as_in_the_paper = invented(version, **ends)
    assert {claim.verdict for claim in figure.claims(as_in_the_paper, version, yahoo=True)} == {"holds"}
    ends = {"listnet": 0.8, "ranksvm": 0.6, "kl": 0.501, "squared": 0.61, "smooth": 0.9, "random": 0.5}
    claims = figure.claims(invented(version, **ends), version, yahoo=True)
    assert {claim.verdict for claim in claims} == {"differs"}
    assert claims[1].here == "RankSVM 33% ± 0%, KL 0% ± 0% (2 runs)"
    assert {claim.what.partition(": ")[0] for claim in claims} == {f"invented, {version.title} propensities"}
    assert [claim.what for claim in figure.claims(invented(version, **ends), version, yahoo=False)] == [
        claim.what for claim in claims if "very close" not in claim.what
    ]  # said of the other data set


PRINTED = {
    "listnet": 0.8,
    "ranksvm": 0.7,
    "kl": 0.65,
    "squared": 0.62,
    "smooth": 0.55,
    "random": 0.5,
    "twice": 0.7,
}
EXACT = {"ranksvm": 0.6, "kl": 0.52, "squared": 0.6, "smooth": 0.55}


def our_verdicts(ours: dict[str, float], **printed: float) -> list[bool]:
    data = both(ours, EXACT, **{**PRINTED, **printed})
    return [claim.holds for claim in figure.our_claims(data, yahoo=False)]


def test_verdicts_on_ours_follow_the_curves() -> None:
    good = {"ours_1": 0.72, "ours_2": 0.75, "ours_5": 0.78, "ridge": 0.79}
    assert our_verdicts(good) == [True] * 5
    assert our_verdicts({**good, "ours_1": 0.69, "ours_2": 0.69}) == [True, True, False, True, False]
    assert our_verdicts({**good, "ours_1": 0.59, "ridge": 0.69}) == [True, False, False, False, True]
    assert our_verdicts(good, twice=0.64)[0] is False  # KL is better than that
    said = list(figure.our_claims(both(good, EXACT, **PRINTED), yahoo=False))
    assert said[0].here == "6 of 6; RankSVM 67% ± 0% and 67% ± 0% (2 runs)"
    ours = both({"ours_1": 0.72, "ours_2": 0.75, "ours_5": 0.78}, EXACT, **PRINTED)
    assert [c.what for c in figure.our_claims(ours, yahoo=False)] == [
        c.what for c in said if "ridge" not in c.what
    ]
    assert "73% ± 0% against 67% ± 0% of RankSVM, k = 2 (" in said[2].here


def test_nothing_holds_where_listnet_is_not_above_random() -> None:
    ends = {"ranksvm": 0.45, "kl": 0.44, "squared": 0.43, "smooth": 0.48, "random": 0.5, "listnet": 0.4}
    ours = {"ours_1": 0.3, "ours_2": 0.2, "ours_5": 0.1, "ridge": 0.3}
    turned = both(ours, EXACT, **ends, twice=0.45)
    claims = figure.claims(turned, figure.PRINTED, yahoo=True)
    assert {claim.verdict for claim in claims} == {"differs"}
    assert "SmoothDCG 0.480, with ListNet not above random" in claims[-1].here
    assert [claim.holds for claim in figure.our_claims(turned, yahoo=True)] == [True] + [False] * 4
    assert all(row[-1] == "" for row in figure.where(turned).rows)


def test_luck_is_not_taken_for_being_above() -> None:
    played = both({"ours_1": 0.72, "ours_2": 0.75, "ours_5": 0.78, "ridge": 0.79}, EXACT, **PRINTED)
    played.curves[figure.OURS[0]][1] += 0.05  # further above in the mean, but as the runs please
    assert [claim.holds for claim in figure.our_claims(played, yahoo=False)] == [True, False, False, True, False]


def test_a_learner_that_diverges_is_named() -> None:
    large = lists()._replace(features=lists().features * np.float32(1e6))
    played = figure.play("large", lambda _: large, rounds=ROUNDS, runs=2, say=silent)
    assert played.diverged[figure.EXACT.name("squared")] == 2
    assert played.diverged["ours, k = 1"] == played.diverged[figure.NOTHING] == 0
    assert "squared, k = 1, exact; diverged in 2 of 2 runs" in [row[0] for row in ct16.tables(played)[0].rows]


def test_the_longest_document_has_length_one() -> None:
    lengths = np.linalg.norm(figure.of_unit_length(lists()).features, axis=1)
    assert lengths.max() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(
        lengths / lengths.max(), (n := np.linalg.norm(lists().features, axis=1)) / n.max(), 1e-5
    )


def test_the_figure_goes_into_a_record(tmp_path: Path) -> None:
    source, record = tmp_path / "some.txt", tmp_path / "ct16.json"
    source.write_text(letor(lists()))
    outputs = ["--record", str(record), "--pictures", str(tmp_path)]
    ct16.main(["--data", str(source), "--name", "mine", "--rounds", "30", "--runs", "2", *outputs])
    where, said, ours = records.read(record).tables
    assert (where.title, said.title) == ("Figure 1, mine", "Figure 1, mine: statements of the paper")
    assert (ours.title, len(ours.rows)) == ("Figure 1, mine: ours", 5)
    assert "ours, k = 5" in [row[0] for row in where.rows]
    assert said.columns == ["the paper", "printed propensities", "exact propensities"]
    assert "RankSVM, k = 2, printed" in (tmp_path / "ct16-mine.svg").read_text()


def test_one_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for script in (ct16, judged):
        with pytest.raises(SystemExit):
            script.main(["--runs", "1", *(["--shape", "yandex"] if script is ct16 else [])])
        assert "no spread" in capsys.readouterr().err


def test_held_out_quality_is_the_mean_of_ndcg() -> None:
    data = lists(3)
    scores = np.round(np.random.default_rng(0).random(len(data.relevance)), 1)  # some are equal
    wanted = []
    for start, end in pairwise(data.offsets):
        order = sorted(range(end - start), key=lambda i: (-scores[start + i], i))
        wanted.append(ndcg_at_10(order, data.relevance[start:end]))
    assert None in wanted
    np.testing.assert_allclose(judged.held_out(scores, data), np.mean([v for v in wanted if v is not None]))


def test_folds_rotate_through_the_five_parts(tmp_path: Path) -> None:
    parts = [lists(seed) for seed in range(5)]
    for number, part in enumerate(parts, 1):
        (tmp_path / f"S{number}.txt").write_text(letor(part))
    splits = judged.mq2008(tmp_path)
    for fold, split in enumerate(splits):
        *three, validation, test = (parts[(fold + i) % 5] for i in range(5))
        np.testing.assert_array_equal(split.train.features, np.concatenate([p.features for p in three]))
        lengths = np.concatenate([np.diff(p.offsets) for p in three])
        np.testing.assert_array_equal(np.diff(split.train.offsets), lengths)
        np.testing.assert_array_equal(split.validation.relevance, validation.relevance)
        np.testing.assert_array_equal(split.test.features, test.features)


def test_learned_weights_are_those_of_an_agent_that_is_told_step_by_step() -> None:
    train, test = lists(1), lists(2)
    found = judged.learned(judged.Split(train, None, test), ROUNDS, 7)
    agent = Agent(RTopKF(clip=0.0), m=int(np.diff(train.offsets).max()), k=2, d=4, seed=7)
    for query in figure.passes(len(train.offsets) - 1, ROUNDS, np.random.default_rng(7)):
        rows = slice(train.offsets[query], train.offsets[query + 1])
        decision = agent.rank(train.features[rows])
        agent.update(decision, train.relevance[rows][decision.ranking[:2]])
    state: Any = agent._state
    assert found[module.OURS, 2] == judged.held_out(test.features @ state.w, test)
    assert {k for name, k in found if name == "RankSVM of CT16"} == {2, 5}


def test_quality_after_few_rounds_is_that_of_an_agent_that_stops_there() -> None:
    train, test = lists(1), lists(2)
    found = module.learned_by_rounds(judged.Split(train, None, test), (20, 50), 7)
    learner = Ridge()
    agent = Agent(learner, m=int(np.diff(train.offsets).max()), k=1, d=4, seed=7)
    sequence = figure.passes(len(train.offsets) - 1, 50, np.random.default_rng(7))
    for count, query in enumerate(sequence, 1):
        rows = slice(train.offsets[query], train.offsets[query + 1])
        decision = agent.rank(train.features[rows])
        agent.update(decision, train.relevance[rows][decision.ranking[:1]])
        if count in (20, 50):
            assert found[module.RIDGE, count] == judged.held_out(learner.scores(agent.state, test.features), test)
    assert [row[0] for row in module.rounds_table({key: [value, 1.0] for key, value in found.items()}).rows] == [
        module.RIDGE, module.EXPANDED, module.OURS,
    ]  # fmt: skip
    few = {(module.RIDGE, 20): [0.7, 0.8], (module.OURS, 20): [0.6, 0.7]}
    (claim,) = module.rounds_claims(few)
    assert claim.holds
    (claim,) = module.rounds_claims({**few, (module.OURS, 20): [0.7, 0.8]})
    assert not claim.holds


def test_claims_compare_equal_splits() -> None:
    found = {(name, k): [0.5, 0.6] for name in module.PAPERS for k in module.ANSWERS}
    found["KL of CT16", 1] = [0.6, 0.7]
    del found["RankSVM of CT16", 1]
    found |= {(module.OURS, 1): [0.7, 0.8], (module.OURS, 2): [0.72, 0.8], (module.OURS, 5): [0.6, 0.61]}
    found[figure.EVERYTHING, 0] = [0.78, 0.88]
    said = {claim.what: claim for claim in module.claims(found, "here")}
    assert said["here: ours above all of CT16's, k = 1"] == (
        "here: ours above all of CT16's, k = 1", "above KL of CT16, with all of the 95 % interval",
        "+0.100 ± 0.000 (2 runs)", True,
    )  # fmt: skip
    gap = "here: gap to ListNet, all relevances, k = {}: ours against the best of CT16's"
    assert said[gap.format(1)][2:] == ("44%: beyond half by +0.010 ± 0.000 (2 runs)", True)
    assert said[gap.format(5)][2:] == ("80%: beyond half by -0.085 ± 0.064 (2 runs)", False)
    found |= {(module.OURS, k): [0.4, 0.4] for k in module.ANSWERS}
    found[figure.EVERYTHING, 0] = [0.5, 0.5]  # below those of the paper, so that there is no gap
    turned = {claim.what: claim for claim in module.claims(found, "here")}
    assert turned[gap.format(1)][2:] == ("no gap: beyond half by -0.175 ± 0.035 (2 runs)", False)
    assert said["here: ours, k = 2 above k = 1"][2:] == ("+0.010 ± 0.014 (2 runs)", False)
    assert said["here: ours, k = 5 above k = 2"][2:] == ("-0.155 ± 0.049 (2 runs)", False)


def test_claims_on_lists_that_come_once() -> None:
    names = (module.PAPERS[0], module.RESIDUAL, module.PAPERS_STEPS, module.ALL_OURS, figure.EVERYTHING)

    def verdicts(*values: float) -> list[bool]:
        found = {(name, 1): [value, value + 0.01] for name, value in zip(names, values, strict=True)}
        return [claim.holds for claim in module.once_claims(found, "linear")]

    assert verdicts(0.6, 0.5, 0.65, 0.8, 0.9) == [True, True, True]
    assert verdicts(0.6, 0.7, 0.65, 0.68, 0.9) == [False, False, False]
    assert verdicts(0.6, 0.5, 0.4, 0.3, 0.5) == [False, True, True]  # ListNet is below the paper's


def test_the_last_lists_are_for_validation() -> None:
    data = lists(4)
    first, last = module.divided(data)
    assert len(last.offsets) - 1 == round(0.2 * 12)
    np.testing.assert_array_equal(judged.join([first, last]).features, data.features)
    np.testing.assert_array_equal(judged.join([first, last]).offsets, data.offsets)


def test_tables_of_generated_lists_have_every_learner() -> None:
    table = judged.stream_table(LAYOUT, 2, silent)
    assert len(table.rows) == len(module.stream_entries(12))
    assert all(isinstance(cell, records.Figure) and cell.sd is not None for row in table.rows for cell in row[1:])


def test_half_a_gap_is_more_than_propensity() -> None:
    """A share just below a half says nothing if runs differ by more than that: rounding would turn the verdict."""
    top, papers = np.full(5, 0.7), np.array([0.60, 0.64, 0.56, 0.62, 0.58])

    def verdict(ours: float) -> bool:
        return module._halves("", "", [top, papers, np.full(5, ours)], lambda gap, left: left / gap).holds

    assert [verdict(ours) for ours in (0.64, 0.652, 0.67, 0.7)] == [False, False, True, True]
    assert not module._halves("", "", [papers, top, top], lambda gap, left: left / gap).holds
