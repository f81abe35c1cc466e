"""The scripts of experiments/: small runs of each, and the records they wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank.papers.ours import hopeless

open_rates, script = load_experiment("open_rates"), load_experiment("hopeless")


@pytest.mark.slow
def test_the_record_of_open_rates_is_what_the_script_writes(capsys: pytest.CaptureFixture[str]) -> None:
    open_rates.main(["--check", "--max-m", "4"])
    assert "definitions: ndcg, 2 grades, m = 4 done" in capsys.readouterr().err


def test_a_changed_record_of_open_rates_is_noticed(tmp_path: Path) -> None:
    record = records.read(open_rates.RECORD)
    rows = record.tables[0].rows
    (row,) = (row for row in rows if row[:2] == ["`ndcg`", 3])
    assert row[2:5] == ["T", "T^(2/3)", "sqrt(T)"]
    row[2] = "T^(2/3)"
    records.write(tmp_path / "changed.json", record)
    with pytest.raises(SystemExit, match=r"from: From the definitions, binary relevance: \['`ndcg`', 3, 'T'"):
        open_rates.main(["--check", "--max-m", "3", "--record", str(tmp_path / "changed.json")])


def test_rows_are_compared_in_order() -> None:
    def table(letters: str) -> records.Table:
        return records.Table("t", columns=["letter"], rows=[[letter] for letter in letters])

    def differs(there: str, made: str, *, partly: bool) -> str:
        record = records.Record("r", "", tables=[table(there)])
        return str(open_rates.differs(record, [table(made)], partly=partly))

    assert differs("abc", "abc", partly=False) == ""
    assert differs("abc", "ac", partly=True) == ""
    assert differs("abc", "ac", partly=False) == "t: the record has rows of its own"
    assert differs("abc", "acb", partly=False) == "t: ['b']"
    assert differs("ab", "abc", partly=True) == "t: ['c']"


def test_a_small_record_is_not_written() -> None:
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


def test_a_tiny_run_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "CELLS", hopeless.CELLS[:1])
    monkeypatch.setattr(script, "HORIZONS", (200, 400))
    script.main(["--runs", "2", "--record", str(tmp_path / "games.json")])
    (table,) = records.read(tmp_path / "games.json").tables
    assert table.columns == list(hopeless.table([]).heads)
    assert [row[2] for row in table.rows] == [f"`{name}`" for name in hopeless.LEARNERS]


@pytest.mark.slow
def test_the_record_of_hopeless_games_has_every_cell_and_the_certified_gaps() -> None:
    (table,) = (t for t in records.read(open_rates.RECORD).tables if t.title == "Adversaries played")
    assert table.columns == list(hopeless.table([]).heads)
    assert len(table.rows) == len(hopeless.CELLS) * len(hopeless.LEARNERS)
    for n, cell in enumerate(hopeless.CELLS):
        for row in table.rows[n * len(hopeless.LEARNERS) :][: len(hopeless.LEARNERS)]:
            assert str(row[0]).startswith(f"`{cell.measure}` m = {cell.m}, k = {cell.k}")
            assert row[1] == records.parse_cell(f"{hopeless.proof_of(cell)['adversaries']['gap']:.4f}")


def test_a_tenth_of_random_tops_keeps_every_item_seen() -> None:
    verdicts = load_experiment("verdicts")
    lowest = {name: verdicts.log_of_visits(*way, 2_000, 0).propensity.min() for name, way in verdicts.WAYS.items()}
    assert [round(float(propensity), 9) for propensity in lowest.values()] == [0, 0.01, 0.01]
    assert len(list(verdicts.main(1, 200))) == 1 + len(verdicts.WAYS)
