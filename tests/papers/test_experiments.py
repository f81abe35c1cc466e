"""The scripts of experiments/: small runs of each, and the pages they wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.scripts import load_experiment
from peekrank.papers.ours import hopeless
from peekrank.reports.markup import put_into

ROOT = Path(__file__).parents[2]


open_rates, script = load_experiment("open_rates"), load_experiment("hopeless")


@pytest.mark.slow
def test_the_page_of_open_rates_is_what_the_script_writes(capsys: pytest.CaptureFixture[str]) -> None:
    open_rates.main(["--check", "--max-m", "4"])
    assert "definitions: ndcg, 2 grades, m = 4 done" in capsys.readouterr().err


def test_a_changed_page_of_open_rates_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    right = open_rates.PAGE.read_text(encoding="utf-8")
    assert "| `ndcg` | 3 | T | T^(2/3) | sqrt(T) |" in right
    page.write_text(right.replace("| `ndcg` | 3 | T | T^(2/3) |", "| `ndcg` | 3 | T^(2/3) | T^(2/3) |"))
    with pytest.raises(SystemExit, match=r"from: \| `ndcg` \| 3 \| T \| T\^\(2/3\) \|"):
        open_rates.main(["--check", "--max-m", "3", "--page", str(page)])


def test_lines_are_compared_in_order() -> None:
    differs = open_rates.differs
    assert differs("abc", "abc", partly=False) == ""
    assert differs("abc", "ac", partly=True) == ""
    assert differs("abc", "ac", partly=False) == "the page has lines of its own"
    assert differs("abc", "acb", partly=False) == "b"
    assert differs("ab", "abc", partly=True) == "c"


def test_a_small_page_is_not_written() -> None:
    with pytest.raises(SystemExit):
        open_rates.main(["--max-m", "3"])


def test_a_disagreement_stops_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rates, "rate_by_theorem", lambda name, m, k, grades: open_rates.Rate.SQRT)
    with pytest.raises(SystemExit, match=r"ndcg, m = 3, k = 1, 2 grades: computed T, but by theorem sqrt\(T\)"):
        open_rates.generate(3)


def test_hopeless_games_cost_their_gap_at_every_horizon() -> None:
    said: list[str] = []
    results = hopeless.play(hopeless.CELLS[0], hopeless.LEARNERS, (1000, 4000), 4, said.append)
    assert len(said) == 4
    for r in results:
        assert r.on_p.shape == r.on_q.shape == (2, 4)
        assert np.all(r.total.mean(axis=1) >= 0.8 * r.gap)
        assert abs(r.exponent - 1) < 0.2
    table = hopeless.table(results).markdown()
    assert len(table) == 2 + len(hopeless.LEARNERS)
    assert table[2].startswith("| `ndcg` m = 3, k = 1 | 0.0882 | `uniform` | ")


def test_the_pair_of_ct16_is_played_too() -> None:
    (cell,) = (cell for cell in hopeless.CELLS if cell.printed)
    (result,) = hopeless.play(cell, ("uniform",), (4000,), 4, lambda _: None)
    assert result.gap == pytest.approx(0.0284, abs=5e-5)
    assert result.total.mean() >= 0.8 * result.gap


def test_tables_go_between_their_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin: a -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        put_into(page, "<!-- begin: a -->", ["| new |"])
        assert page.read_text() == "before\n<!-- begin: a -->\n\n| new |\n\n<!-- end -->\nafter\n"
    with pytest.raises(ValueError, match="has no lines"):
        put_into(page, "<!-- begin: b -->", [])


@pytest.mark.slow
def test_the_table_of_games_has_every_cell_and_the_certified_gaps() -> None:
    page = (ROOT / "docs" / "games" / "index.md").read_text(encoding="utf-8")
    table = page.partition(script.BEGIN)[2].partition("<!-- end -->")[0].strip().splitlines()
    assert table[:2] == hopeless.table([]).markdown()
    assert len(table) == 2 + len(hopeless.CELLS) * len(hopeless.LEARNERS)
    for n, cell in enumerate(hopeless.CELLS):
        for row in table[2 + n * len(hopeless.LEARNERS) :][: len(hopeless.LEARNERS)]:
            assert row.startswith(f"| `{cell.measure}` m = {cell.m}, k = {cell.k}")
            assert f"| {hopeless.proof_of(cell)['adversaries']['gap']:.4f} |" in row


def test_a_tenth_of_random_tops_keeps_every_item_seen() -> None:
    verdicts = load_experiment("verdicts")
    lowest = {name: verdicts.log_of_visits(*way, 2_000, 0).propensity.min() for name, way in verdicts.WAYS.items()}
    assert [round(float(propensity), 9) for propensity in lowest.values()] == [0, 0.01, 0.01]
    assert len(list(verdicts.main(1, 200))) == 1 + len(verdicts.WAYS)
