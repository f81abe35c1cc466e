"""Reproductions: what is exact against the papers, verdicts that can go either way, folders that go on."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import records

from helpers import ct15
from helpers.command_line import peekrank
from helpers.reproductions import invented
from helpers.scripts import ROOT, load_experiment
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.experiments.arena import ArenaResult, run_arena
from peekrank.experiments.experiment import Experiment, Result
from peekrank.games.analysis import analyse
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.papers import ALL, definitions
from peekrank.papers.ct15 import figures as ct15_figures
from peekrank.papers.ct15 import observability as ct15_observability
from peekrank.papers.ct15 import tables as ct15_tables
from peekrank.papers.ct16 import estimators as ct16_estimators
from peekrank.papers.ct16 import figure as ct16_figure
from peekrank.papers.ct16 import regret as ct16_regret
from peekrank.papers.ct16 import surrogates as ct16_surrogates
from peekrank.papers.ct16 import table as ct16_table
from peekrank.papers.ours import arena, bounds, hopeless, open_rates
from peekrank.papers.record import TOO_FEW, Claim, Options, Record, Results, read_record
from peekrank.papers.zt import classification as zt_classification
from peekrank.papers.zt import tables as zt_tables
from peekrank.regret import default_checkpoints
from peekrank.reports.markup import Table

QUICKLY = Options(Path("nowhere"), quick=True)
SQRT, TWO_THIRDS, LINEAR, ZERO = Rate.SQRT, Rate.TWO_THIRDS, Rate.LINEAR, Rate.ZERO


def differing(claims: Any) -> list[str]:
    return [claim.what for claim in claims if not claim.holds]


# --- all of it


@pytest.mark.slow
def test_everything_is_made_in_a_look_and_nothing_twice(tmp_path: Path) -> None:
    """About 80 s of processor time, most of it compiling."""
    folder = tmp_path / "all"
    done = peekrank("reproduce", "--quick", "--out", folder, columns=80)
    assert done.exit_code == 0, done.output
    _, kept = read_record(folder)
    assert list(kept) == sorted(ALL)
    for name, item in kept.items():
        assert item.claims, name
        assert all(claim.what and claim.expected and claim.here for claim in item.claims)
        assert all((folder / file).stat().st_size > 0 for file in item.files)
        assert {f"{name}/claims.md", f"{name}/claims.tex"} <= set(item.files)
    for name in ("ct15-figure-1", "ct15-figure-2", "ct16-figure-1", "rates"):
        assert {Path(file).suffix for file in kept[name].files} == {".md", ".tex", ".csv", ".png", ".svg"}
    exact = {
        "ct15-table-1": 0, "ct15-table-2": 0, "ct15-observability": 3, "ct16-table-1": 1, "ct16-estimators": 0,
        "zt-classification": 2, "zt-tables": 2, "open-rates": 0, "bounds": 0,
    }  # fmt: skip
    assert {name: kept[name].differ for name in exact} == exact
    claims = [claim for item in kept.values() for claim in item.claims]
    differ, unclear = (sum(claim.verdict == word for claim in claims) for word in ("differs", TOO_FEW))
    assert differ + unclear == len(differing(claims))
    holding = len(claims) - differ - unclear
    assert f"{len(claims)} claims: {holding} hold, {differ} differ" in done.stdout
    written = (folder / "claims.json").stat().st_mtime_ns
    assert peekrank("reproduce", "--all", "--quick", "--out", folder, columns=80).stdout == done.stdout
    assert (folder / "claims.json").stat().st_mtime_ns == written


# --- CT15


def test_ct15_table_1_is_the_printed_one() -> None:
    assert ct15_tables.loss_matrix() == ct15.TABLE_1
    made = ct15_tables.reproduce_table_1(QUICKLY)
    assert not differing(made.claims)
    assert made.tables["table-1"].heads == ("sigma", "000", "001", "010", "011", "100", "101", "110", "111")


def test_ct15_table_2_is_the_printed_one() -> None:
    assert ct15_tables.feedback_matrix() == ct15.TABLE_2
    assert not differing(ct15_tables.reproduce_table_2(QUICKLY).claims)


def test_one_wrong_entry_is_noticed() -> None:
    here = ct15_tables.loss_matrix()
    here["231"][4] += 1
    claim = ct15_tables.compare("Table 1", ct15_tables.TABLE_1, here)
    assert claim == Claim("Table 1", "48 entries as printed", "47 of 48 equal", holds=False)
    ndcg = ct15_tables.VECTORS[1]
    wrong = {"123": [*ndcg.rows["123"][:-1], 0.5], "321": ndcg.rows["321"]}
    assert ct15_tables.vector_claim(ndcg._replace(rows=wrong)).here == "23 of 24 equal"


def test_ct15_observability() -> None:
    made = ct15_observability.reproduce(QUICKLY)
    assert made.tables["rates"].rows[0] == ("`sumloss`", "sqrt(T)", "T^(2/3)", "T^(2/3)")
    assert made.tables["rates"].rows[-1] == ("`aucloss`", "sqrt(T)", "T^(2/3)", "T")
    assert [what.partition(":")[0] for what in differing(made.claims)] == ["Result 1", "Result 3", "section 3"]
    assert "not sumloss at m = 2, pairwiseloss at m = 2, dcg at m = 2" in made.claims[6].here
    assert made.claims[-1].what.startswith("Result 4: more grades do not change the rate of `ndcg`")


def test_wrong_observability_is_noticed() -> None:
    def asked(
        name: str, m: int, rate: Rate, *, grades: int = 2, globally: bool
    ) -> ct15_observability.ObservabilityResult:
        found = analyse(ranking_game(name, m, 1, grades))
        return ct15_observability.ObservabilityResult(replace(found, rate=rate), globally)

    names, sizes = (*definitions.STRICT, *ct15_observability.PRECISION), (2, 3, 4)
    found = {(name, m): asked(name, m, TWO_THIRDS, globally=True) for name, m in product(names, sizes)}
    hopeless_ones = product(ct15_observability.HOPELESS, sizes)
    found |= {(name, m): asked(name, m, LINEAR, globally=False) for name, m in hopeless_ones}
    assert [what.partition(":")[0] for what in differing(ct15_observability.claims(found))] == [
        "appendix 15.1", "section 3",
    ]  # fmt: skip
    found["aucloss", 3] = found["aucloss", 3]._replace(globally=True)
    found["sumloss", 3] = asked("sumloss", 3, SQRT, globally=False)
    assert [what.partition(":")[0] for what in differing(ct15_observability.claims(found))] == [
        "Theorem 1", "Theorem 4", "Result 1", "Result 3", "section 3",
    ]  # fmt: skip
    graded = {
        "dcg": asked("dcg", 3, SQRT, grades=3, globally=True),
        "ndcg": asked("ndcg", 3, LINEAR, grades=3, globally=True),
    }
    assert len(differing(ct15_observability.graded_claims(graded))) == 2


@pytest.mark.parametrize("name", ["sumloss", "p@2+sum", "ndcg", "aucloss"])
def test_every_pair_of_actions_is_observable_where_neighbours_are(name: str) -> None:
    for m, k in ((3, 1), (3, 2), (4, 1), (4, 3)):
        found = analyse(ranking_game(name, m, k))
        assert definitions.globally_observable(found.game) == found.globally_observable


def simulated(powers: dict[str, float], factors: dict[str, float]) -> ct15_figures.Simulated:
    """Regrets that are power laws of t, the same over horizons; two runs that differ by 1 %."""
    experiment = Experiment(tuple(powers), ct15_figures.STREAM, "dcg", k=1, horizon=10_000, runs=2)
    checkpoints, luck, horizons = default_checkpoints(10_000), np.array([[0.99], [1.01]]), (1_000, 10_000)
    regrets = {name: factors[name] * checkpoints**power * luck for name, power in powers.items()}
    curves = {name: pl.DataFrame({"regret": curve.ravel()}) for name, curve in regrets.items()}
    finals = {name: factors[name] * np.power(horizons, power) * luck for name, power in powers.items()}
    return ct15_figures.Simulated(
        Result(experiment, checkpoints, curves, {}), horizons, {name: final.T for name, final in finals.items()}
    )


def test_verdicts_of_ct15_figure_1_follow_the_curves() -> None:
    one, other = ct15_figures.TOP_1
    from_paper = simulated({one: 2 / 3, other: 2 / 3, "uniform": 1.0}, {one: 1.0, other: 1.0, "uniform": 0.6})
    assert not differing(ct15_figures.claims_1(from_paper))
    lazy = simulated({one: 2 / 3, other: 1.0, "uniform": 1.0}, {one: 1.0, other: 0.5, "uniform": 0.6})
    wrong = differing(ct15_figures.claims_1(lazy))
    assert [what.partition(":")[0] for what in wrong] == ["`rtop1f"] * 3  # of order=fixed
    assert "mostly correct" in wrong[0]


def test_verdicts_of_ct15_figure_2_follow_the_curves() -> None:
    one, other = ct15_figures.TOP_1
    from_paper = simulated({one: 2 / 3, other: 2 / 3, "ftpl": 0.5}, {one: 1.0, other: 1.0, "ftpl": 0.6})
    assert not differing(ct15_figures.claims_2(from_paper))
    slow = simulated({one: 2 / 3, other: 2 / 3, "ftpl": 0.7}, {one: 1.0, other: 1.0, "ftpl": 1.0})
    assert len(differing(ct15_figures.claims_2(slow))) == 6  # lower and faster than either, and twice its power


# --- ZT


def test_zt_classification_of_four_items() -> None:
    rows = {row[:2]: row[2:] for row in zt_classification.reproduce(QUICKLY).tables["rates"].rows}
    hard = ("T^(2/3)", "T^(2/3)", "sqrt(T)", "sqrt(T)")
    easy = ("sqrt(T)",) * 4
    assert {name: rate for (name, m), rate in rows.items() if m == 4} == {
        "`sumloss`": hard, "`pairwiseloss`": hard, "`dcg`": hard,
        "`p@1+sum`": easy, "`p@2+sum`": easy, "`p@3+sum`": easy, "`p@4+sum`": ("0",) * 4,
        "`aucloss`": ("T", "", "", ""), "`ap`": ("T", "", "", ""), "`ndcg`": ("T", "", "", ""),
    }  # fmt: skip
    assert rows["`dcg`", 2] == ("sqrt(T)", "sqrt(T)", "", "")
    assert rows["`dcg`", 3] == ("T^(2/3)", "sqrt(T)", "sqrt(T)", "")


def test_a_wrong_rate_or_neighbour_is_noticed() -> None:
    small_games = zt_classification.analyses(QUICKLY)
    usual = differing(zt_classification.claims(small_games))
    assert len(usual) == 2  # n = m, and m = 2 or 3 for NDCG, AP and AUC
    dcg = small_games["dcg", 3]
    wrong = {**small_games, ("dcg", 3): [replace(dcg[0], rate=SQRT), *dcg[1:]]}
    (new,) = set(differing(zt_classification.claims(wrong))) - set(usual)
    assert new.startswith("Theorem 6, Corollary 8, section 4 (1): `dcg`")
    assert dcg[0].cells is not None
    fewer = replace(dcg[0].cells, borders=dcg[0].cells.borders[1:])
    wrong = {**small_games, ("dcg", 3): [replace(dcg[0], cells=fewer), *dcg[1:]]}
    (new,) = set(differing(zt_classification.claims(wrong))) - set(usual)
    assert new.startswith("Lemmas 4 and 5")
    seen = {**small_games, ("dcg", 3): [dcg[1], *dcg[1:]]}  # two answers taken for one
    (new,) = set(differing(zt_classification.claims(seen))) - set(usual)
    assert new.startswith("Theorem 6, Corollary 8, section 4 (1): `dcg`")


def test_zt_tables() -> None:
    made = zt_tables.reproduce(QUICKLY)
    assert [what.partition(",")[0] for what in differing(made.claims)] == ["Table 2", "Table 4"]
    assert made.tables["table-3"].rows == [
        ("difference of losses", "0", "1", "-1", "0"),
        ("row of S", 1, 1, 0, 0), ("row of S", 1, 0, 1, 0), ("row of S", 0, 1, 0, 1), ("row of S", 0, 0, 1, 1),
        ("row of S", 0, 0, 0, 0),
    ]  # fmt: skip
    table_2, table_4 = (claim for claim in made.claims if not claim.holds)
    assert table_2.here == "exactly these in 6 of 9 pairs; for sumloss at m = 3 not 0000"
    assert table_4.here == "exactly these in 0 of 15 pairs; for p@1+sum at m = 2 not 0000"


def test_another_row_or_difference_is_noticed() -> None:
    (pair,) = (p for p in zt_tables.pairs(3, QUICKLY) if (p.table, p.measure) == (3, "dcg"))
    others = [pair._replace(table=n, rows=[rows] * 2) for n, rows in zt_tables.PRINTED.items() if n != 3]
    others[0] = others[0]._replace(spanned=False)
    others[2] = others[2]._replace(differences=[[0, 1, -1, 0]] * 2)  # Table 4
    doubled = [*others[:2], others[2]._replace(differences=[[0, 2, -2, 0]] * 2), pair]
    (claim,) = (claim for claim in zt_tables.claims(doubled) if not claim.holds)
    assert (claim.expected, claim.here) == ("0, 1, -1, 0", "so in 0 of 1 pairs")

    def differ(changed: zt_tables.Pair) -> list[str]:
        return [what.rpartition(": ")[2] for what in differing(zt_tables.claims([*others, changed]))]

    assert differ(pair) == []
    assert differ(pair._replace(differences=[[0, 1, -2, 0], [0, 1, -1, 0]])) == ["difference of losses in a group"]
    assert differ(pair._replace(rows=[pair.rows[0], pair.rows[1] | {(1, 1, 1, 1)}])) == [
        "types of rows of S in a group"
    ]
    assert differ(pair._replace(spanned=False)) == ["the difference is in the span of the rows"]


# --- CT16


def test_ct16_table_1() -> None:
    made = ct16_table.reproduce(QUICKLY)
    assert [str(x) for x in made.tables["table-1"].rows[0]] == [
        "p",
        "0",
        "0.1",
        "0.15",
        "0.05",
        "0.2",
        "0.3",
        "0.2",
        "0",
    ]
    assert [str(x) for x in made.tables["table-1"].rows[1]] == [
        "p~",
        "0",
        "0.3",
        "0",
        "0",
        "0.15",
        "0.15",
        "0.4",
        "0",
    ]
    (claim,) = (claim for claim in made.claims if not claim.holds)
    assert claim.here == "231 does, 0.0284 against 0.0296"


def test_another_pair_is_told_from_the_printed_one() -> None:
    moved = {**ct16_table.PAIR, "100": ("0.25", "0.15"), "010": ("0.25", "0.15")}
    wrong = differing(ct16_table.claims(moved))
    assert "expected relevance on p" in wrong
    assert "one answer does not distinguish p and p~" in wrong
    assert "p is a distribution" not in wrong
    assert "p is a distribution" in differing(ct16_table.claims({**ct16_table.PAIR, "111": ("0.1", "0")}))


def test_ct16_surrogates() -> None:
    assert [what[:8] for what in differing(ct16_surrogates.reproduce(QUICKLY).claims)] == ["Lemma 3:"]
    terms = {"squared": [1] * 4, "kl": [1] * 4, "smoothdcg": [1] * 4, "ranksvm": [2] * 4, "listnet": [3, 3, 4, 4]}
    bent = {**dict.fromkeys(terms, 0), "smoothdcg": 7}
    assert not differing(ct16_surrogates.claims(terms, bent))
    wrong = differing(
        ct16_surrogates.claims({**terms, "kl": [1, 1, 2, 1]}, {**bent, "listnet": 1, "smoothdcg": 0})
    )
    assert [what.partition(":")[0] for what in wrong] == ["section 4.1", "section 4.1.1", "Lemma 3"]


def test_ct16_estimators() -> None:
    made = ct16_estimators.reproduce(QUICKLY)
    assert not differing(made.claims)
    assert [claim.here for claim in made.claims[-2:]] == [
        "0.7750; 0.0750 at most for others", "0.7500; 0.0500 at most for others",
    ]  # fmt: skip
    cases = [
        ct16_estimators.Case(
            name, kind, least, 0.1 if (name, kind) in (("kl", "printed"), ("squared", "residual")) else 0
        )
        for name, (_, least) in ct16_estimators.PAPER.items()
        for kind in ("printed", "residual")
    ]
    wrong = [claim for claim in ct16_estimators.claims(cases) if not claim.holds]
    assert ["`kl`" in wrong[0].what, wrong[0].here] == [True, "error 1e-01"]
    assert wrong[1].here == "3 of 4 are; not squared, residual, k = 1"
    alike = (1 - np.eye(4)) / 12
    assert [claim.holds for claim in ct16_estimators.propensity_claims(alike)] == [False, False]


def test_ct16_regret() -> None:
    """The theorem's claims on made-up regrets, and on a run: the printed propensities lose more."""
    horizons = (100, 1_000, 10_000)
    growing = {power: np.outer(np.array(horizons) ** power, [0.9, 1.0, 1.1]) for power in (0.6, 0.9, 1.1)}
    for power, wrong in ((0.6, 0), (0.9, 1), (1.1, 2)):
        made = [ct16_regret.Played(name, "exact", horizons, growing[power]) for name in ct16_regret.PAPER]
        assert len(differing(ct16_regret.claims(made))) == 3 * wrong
    exact, printed = (ct16_regret.surrogate_regret("squared", clip, 4_000, 0) for clip in (0.0, 1.0))
    assert 0 < exact < printed / 2


def test_finished_runs_of_ct16_figure_1_are_kept(tmp_path: Path) -> None:
    calls: list[str] = []

    def job(name: str) -> Any:
        def play(_: Any) -> pl.DataFrame:
            calls.append(name)
            return ct16_figure.play_run(draw, 40, int(name[-1]))

        return play

    def draw(rng: np.random.Generator) -> Any:
        return make_dataset(DatasetShape(12, (2, 5), 3, (0.5, 0.5)), rng).rounds()

    def play() -> ct16_figure.FigureData:
        found = Options(tmp_path / "runs", workers=2).frames(
            {name: job(name) for name in ("run-0", "run-1", "run-2")}
        )
        return ct16_figure.gather("tiny", 40, list(found.values()))

    first = play()
    next(tmp_path.rglob("*-run-1.parquet")).unlink()
    again = play()
    assert sorted(calls) == ["run-0", "run-1", "run-1", "run-2"]
    for name, curve in first.curves.items():
        np.testing.assert_array_equal(again.curves[name], curve)
    assert again.diverged == first.diverged


def test_a_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    Options(tmp_path).frames({"one": lambda _: pl.DataFrame()})
    next(tmp_path.rglob("*-one.parquet")).write_text("no Parquet")
    with pytest.raises(ValueError, match=r"one\.parquet cannot be read: .*; remove the file to compute it again"):
        Options(tmp_path).frames({"one": lambda _: pl.DataFrame()})


def test_parts_that_are_done_are_kept_when_another_fails(tmp_path: Path) -> None:
    def fail(_: Any) -> pl.DataFrame:
        raise ValueError("no luck")

    options = Options(tmp_path)
    with pytest.raises(ValueError, match="no luck") as error:
        options.frames({"good": lambda _: pl.DataFrame({"n": [1]}), "bad": fail})
    assert error.value.__notes__ == ["in bad"]
    again = options.frames({"good": fail, "bad": lambda _: pl.DataFrame({"n": [2]})})
    assert [frame["n"].to_list() for frame in again.values()] == [[1], [2]]


# --- ours


def test_learners_that_beat_a_gap_are_noticed() -> None:
    def played(total: float, power: float) -> hopeless.PairResult:
        halves = total / 2 * np.outer(np.power([1_000.0, 4_000.0], power), [0.99, 1.0, 1.01])
        return hopeless.PairResult(hopeless.Cell("ndcg", 3, 1), 0.08, "uniform", (1_000, 4_000), halves, halves)

    assert not differing(hopeless.claims([played(0.1, 0.0)]))
    assert ["exponent" in what for what in differing(hopeless.claims([played(0.07, 0.0)]))] == [False]
    assert ["exponent" in what for what in differing(hopeless.claims([played(10.0, -0.3)]))] == [True]


def test_verdicts_of_the_arena_follow_the_crossings() -> None:
    def crossing(learner: str, rate: Rate, worst: tuple[float, float], reason: str = "") -> ArenaResult:
        numbers = np.array([] if reason else worst)
        horizons = () if reason else (1_000, 4_000)
        return ArenaResult(
            "game", rate, learner, horizons, numbers, numbers / 10, "", None if reason else 90.0, reason
        )

    good = [
        crossing("feedexp3", TWO_THIRDS, (10.0, 25.0)), crossing("feedexp3", LINEAR, (0.0, 0.0), "hopeless"),
        crossing("nw2", SQRT, (10.0, 20.0)), crossing("nw2", TWO_THIRDS, (0.0, 0.0), "not enough"),
    ]  # fmt: skip
    assert not differing(arena.claims(good, 2))
    bad = [crossing("feedexp3", LINEAR, (10.0, 25.0)), crossing("nw2", SQRT, (40.0, 100.0))]
    assert [what.partition(" ")[0] for what in differing(arena.claims(bad, 2))] == [
        "`feedexp3`",
        "`nw2`:",
        "`nw2`:",
    ]


def test_what_the_arena_keeps_is_what_was_played() -> None:
    games = {name: arena.games()[name] for name in ("matching-pennies", "blind-pennies")}
    for crossing in run_arena(games, arena.LEARNERS, (100, 200), 2):
        again = arena.as_crossing(arena.as_frame(crossing))
        for one, other in zip(again, crossing, strict=True):
            np.testing.assert_array_equal(one, other)
    files = [arena.file_of(name, learner) for name in arena.games() for learner in arena.LEARNERS]
    assert len(set(files)) == len(files)


def test_verdicts_on_bounds_follow_their_sizes() -> None:
    found = {case: bounds.bound(*case) for case in bounds.CASES}
    assert not differing(bounds.claims(found))
    for case in bounds.CASES[1:]:
        assert differing(bounds.claims({**found, case: 2 * found[case]})), case


def test_open_rates_compare_theorem_and_definitions() -> None:
    def checked(found: Rate | None) -> list[open_rates.Checked]:
        cases = product(open_rates.MEASURES, (2, 3))
        return [open_rates.Checked(name, g, 3, 1, LINEAR, found if name == "ap" else LINEAR) for name, g in cases]

    assert not differing(open_rates.claims(checked(LINEAR)))
    for found in (SQRT, None):
        claims = [claim for claim in open_rates.claims(checked(found)) if not claim.holds]
        assert [claim.what[:14] for claim in claims] == ["`ap`, 2 grades", "`ap`, 3 grades"]
        assert claims[0].here == f"0 of 1 games, from the definitions; not m = 3, k = 1: {found}"


# --- the record


def test_a_record_keeps_claims_tables_and_data(tmp_path: Path) -> None:
    made = Results(
        [Claim("a", "1 ± 0", "50 %", holds=False)],
        {"t": Table(("x_1", "y"), [("`p@2+sum`", 3)])},
        data={"d": pl.DataFrame({"n": [1, 2]})},
    )
    record = Record(tmp_path / "record", quick=True)
    kept = record.reproduce(invented(make=lambda _: made), workers=1, progress=lambda *_: None)
    assert kept.differ == 1
    assert read_record(tmp_path / "record") == ("quick", {"mine": kept})
    assert kept.files == [f"mine/{name}" for name in ("claims.md", "claims.tex", "d.csv", "t.md", "t.tex")]
    mine = tmp_path / "record" / "mine"
    assert (mine / "claims.md").read_text().splitlines()[2] == "| a | 1 ± 0 | 50 % | differs |"
    assert r"a & 1 $\pm$ 0 & 50 \% & differs \\" in (mine / "claims.tex").read_text()
    assert r"x\_1 & y \\" in (mine / "t.tex").read_text()
    assert r"\texttt{p@2+sum} & 3 \\" in (mine / "t.tex").read_text()
    assert (mine / "d.csv").read_text() == "n\n1\n2\n"
    saved = json.loads((tmp_path / "record" / "claims.json").read_text())
    assert saved["mode"] == "quick"
    assert saved["items"]["mine"]["claims"][0]["verdict"] == "differs"


def test_few_runs_of_a_quick_look_judge_nothing(tmp_path: Path) -> None:
    made = Results(
        [
            Claim("exact", "1", "2", holds=False),
            Claim("few", "1", "0.7 (3 runs)", holds=False),
            Claim("as many as in full", "1", "0.7 (10 runs)", holds=False),
            Claim("fine", "1", "1.0 (3 runs)", holds=True),
        ]
    )
    for quick, second in ((True, "too few runs to judge"), (False, "differs")):
        kept = Record(tmp_path / str(quick), quick=quick).reproduce(
            invented(make=lambda _: made), workers=1, progress=lambda *_: None
        )
        assert [claim.verdict for claim in kept.claims] == ["differs", second, "differs", "holds"]
        assert (kept.differ, kept.unclear) == ((2, 1) if quick else (3, 0))


def test_what_another_process_finished_meanwhile_is_kept(tmp_path: Path) -> None:
    def make_while_another_does(_: Options) -> Results:
        Record(tmp_path, quick=True).reproduce(invented("theirs"), workers=1, progress=lambda *_: None)
        return Results([Claim("a", "b", "c", holds=True)])

    Record(tmp_path, quick=True).reproduce(
        invented(make=make_while_another_does), workers=1, progress=lambda *_: None
    )
    assert list(read_record(tmp_path)[1]) == ["mine", "theirs"]
    assert list(json.loads((tmp_path / "claims.json").read_text())["items"]) == ["mine", "theirs"]


def test_a_look_and_the_record_are_never_mixed(tmp_path: Path) -> None:
    Record(tmp_path, quick=True).reproduce(invented(), workers=1, progress=lambda *_: None)
    with pytest.raises(ValueError, match="holds results of another record, with different mode; choose another"):
        Record(tmp_path, quick=False)


def test_every_built_in_class_is_part_of_the_code_of_a_reproduction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reproductions name learners and measures in texts."""
    monkeypatch.setattr("peekrank.jobs.results_dir.code_digest", lambda *modules: " ".join(modules))
    Record(tmp_path, quick=True).reproduce(ALL["ct15-table-1"], workers=1, progress=lambda *_: None)
    manifest = json.loads((tmp_path / "ct15-table-1" / "manifest.json").read_text())
    asked = {"peekrank.papers.ct15.tables", "peekrank.learners.rtop1f", "peekrank.surrogates.kl"}
    assert asked <= set(manifest["sources"].split())


# --- the record

script = load_experiment("reproduce")


def test_the_record_is_written_from_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "reproduce.json"
    options = ["--record", str(record), "--pictures", str(tmp_path / "pictures")]
    Record(tmp_path / "full", quick=False).reproduce(ALL["ct16-table-1"], workers=1, progress=lambda *_: None)
    script.main([str(tmp_path / "full"), *options])
    tables = {table.title: table for table in records.read(record).tables}
    assert tables["Totals"].rows == [["CT16", 11, 10, 1], ["all", 11, 10, 1]]
    names = {row[0]: row[1:4] for row in tables["Reproductions"].rows}
    assert names["ct16-table-1"] == ["CT16 Table 1", 11, 1]
    assert names["rates"] == ["ours", "not in this record", None]
    assert ["best rankings on p", 213, 213, "holds"] in tables["ct16-table-1"].rows
    written = record.read_text()
    Record(tmp_path / "quick", quick=True)
    for other, why in (("quick", "is of mode quick"), ("nowhere", "it is not a results folder")):
        with pytest.raises(SystemExit):
            script.main([str(tmp_path / other), *options])
        assert why in capsys.readouterr().err
    assert record.read_text() == written


def test_the_record_and_the_page_have_everything() -> None:
    tables = {table.title for table in records.read(records.FOLDER / "reproduce.json").tables}
    page = (ROOT / "docs" / "papers" / "reproduce.md").read_text(encoding="utf-8")
    assert set(ALL) <= tables
    assert "(../records/reproduce.md)" in page
