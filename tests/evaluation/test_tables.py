"""Tables with a row per event and item: the same log in three formats, and messages about all that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peekrank.evaluation.log import log_from_records
from peekrank.evaluation.tables import TableLog, parse_columns, read_table_log

ROLES = {"event": "session", "item": "sku", "position": "rank", "reward": "clicked", "propensity": "p"}
ROWS: dict[str, list[Any]] = {
    "session": ["s2", "s1", "s2", "s1", "s2", "s1"],
    "sku": ["tea", "milk", "rice", "tea", "milk", "rice"],
    "rank": [2, 1, 1, None, None, 4],
    "clicked": [None, 1, 0, None, None, None],
    "p": [0.2, 0.7, 0.5, 0.1, 0.3, 0.2],
    "llm": [0.5, 3, None, -1, 2, 2],
    "price": [1, 2, 3, 1, 2, 3],
    "at": [20, 10, 20, 10, 20, 10],
}


def _read(path: Path, rows: dict[str, list[Any]], roles: dict[str, str], **options: Any) -> TableLog:
    pl.DataFrame(rows, strict=False).write_csv(path)
    return read_table_log(path, roles, **options)


def test_formats_agree_with_a_log_of_records(tmp_path: Path) -> None:
    roles = ROLES | {"time": "at", "prediction": "llm", "features": "price+p", "score": "price"}
    expected = log_from_records([
        {"event": "s1", "time": 10, "k": 1, "candidates": ["milk", "tea", "rice"], "position": [0, 2, 1],
         "propensity": [0.7, 0.1, 0.2], "feedback": [1, None, None], "prediction": [3, -1, 2], "score": [2, 1, 3],
         "features": [[2, 0.7], [1, 0.1], [3, 0.2]]},
        {"event": "s2", "time": 20, "k": 1, "candidates": ["tea", "rice", "milk"], "position": [1, 0, 2],
         "propensity": [0.2, 0.5, 0.3], "feedback": [None, 0, None], "prediction": [0.5, None, 2],
         "score": [1, 3, 2], "features": [[1, 0.2], [3, 0.5], [2, 0.3]]},
    ])  # fmt: skip
    table = pl.DataFrame(ROWS, strict=False)
    table.write_csv(tmp_path / "log.csv")
    table.write_parquet(tmp_path / "log.parquet")
    table.write_ndjson(tmp_path / "log.jsonl")
    (tmp_path / "columns.toml").write_text(
        "[columns]\n" + "".join(f'{role} = "{name}"\n' for role, name in roles.items())
    )
    assert parse_columns(str(tmp_path / "columns.toml")) == roles
    for name in ("log.csv", "log.parquet", "log.jsonl"):
        found = read_table_log(tmp_path / name, roles)
        log = found.log
        assert found.has_propensities
        assert log.events.to_list() == expected.events.to_list()
        items = [log.names[i] for i in log.item]
        assert items == [expected.names[i] for i in expected.item]
        fields = "time k offsets position propensity feedback predictions features scores"
        for field in fields.split():
            np.testing.assert_array_equal(getattr(log, field), getattr(expected, field), err_msg=field)
        assert [note.partition(":")[0] for note in found.notes] == ["k is missing"]


def test_dates_booleans_and_k(tmp_path: Path) -> None:
    rows = ROWS | {"at": ["2026-01-02", "2026-01-01"] * 3, "clicked": ["", "TRUE", "false", "", "", ""]}
    rows |= {"kk": [2, 1, 2, 1, 2, 1], "p": [0.7, 0.7, 0.9, 0.1, 0.4, 0.2]}
    found = _read(tmp_path / "t.csv", rows, ROLES | {"time": "at", "k": "kk"})
    assert found.log.events.to_list() == ["s1", "s2"]
    assert found.log.time[1] - found.log.time[0] == 86400
    assert found.log.k.tolist() == [1, 2]
    assert found.notes == []
    every = _read(tmp_path / "t.csv", {**rows, "p": [0.7, 0.9, 0.9, 0.5, 0.4, 0.6]}, ROLES, k=2)
    assert every.log.k.tolist() == [2, 2]


def test_what_is_missing_is_named_with_its_consequence(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    fewer = {role: name for role, name in ROLES.items() if role != "propensity"}
    bounded = _read(path, ROWS, fewer)
    assert not bounded.has_propensities
    assert "no value can be estimated, only bounded" in bounded.notes[-1]
    drawn = _read(path, ROWS, fewer | {"score": "price"}, temperature=1.0)
    assert drawn.log.propensity[2] == pytest.approx(np.exp(2) / np.exp([1, 2, 3]).sum())
    shown = {name: [cells[1], cells[2]] for name, cells in ROWS.items()}
    only = _read(path, shown, fewer)
    assert only.log.propensity.tolist() == [1, 1]
    assert "only orders of what was shown can be compared" in only.notes[-1]
    without = {role: name for role, name in ROLES.items() if role != "position"}
    unplaced = _read(path, ROWS, without, k=1)
    assert unplaced.log.position.tolist() == [0, 1, 2, 0, 1, 2]
    assert "position is missing: each event was shown in the order of its rows" in unplaced.notes[-1]
    with pytest.raises(ValueError, match="the event from row 1, field 'p': all 1 row of event 's1' were seen"):
        _read(path, shown, ROLES)


@pytest.mark.parametrize(
    ("changed", "roles", "message"),
    [
        ({}, {"reward": "click"}, "t.csv: has no column 'click': did you mean 'clicked'?"),
        ({}, {"rewards": "clicked"}, "columns: unknown role 'rewards': did you mean 'reward'?"),
        ({"clicked": ["", "x", "", "", "", ""]}, {}, r"row 2, column 'clicked' \(reward\): 'x' is not a number"),
        ({"clicked": ["", 1, 5, "", "", ""]}, {}, "event from row 1, field 'feedback': 5 on candidate 'rice'"),
        ({"rank": [1, 1, 1, 2, 3, 3]}, {}, "t.csv, the event from row 1, field 'rank': position 1 occurs twice"),
        ({"sku": ["tea", "milk", "rice", "tea", "tea", "rice"]}, {}, "candidate 'tea' occurs twice"),
        ({"sku": ["tea", None, "rice", "tea", "milk", "rice"]}, {}, "t.csv, row 2, column 'sku': is missing"),
        ({"p": [0.2, 0.7, 0.5, 0.1, 0.4, 0.2]}, {}, "row 1, field 'propensity': the propensities add up to 1.1"),
        ({"p": [0.2, 0.7, 0.5, "inf", 0.4, 0.2]}, {}, r"t.csv, row 4, column 'p' \(propensity\): 'inf' is not"),
    ],
)  # fmt: skip
def test_errors_name_file_row_and_column(
    tmp_path: Path, changed: dict[str, Any], roles: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _read(tmp_path / "t.csv", ROWS | changed, ROLES | roles)


def test_unreadable_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00,\n1,2\n")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    (tmp_path / "t.jsonl").write_text('{"session": 1}\n{"session": ')
    (tmp_path / "empty.csv").write_text("session,sku,rank,clicked,p\n")
    for name, message in (
        ("t.csv", "t.csv"), ("t.parquet", "t.parquet: "), ("t.jsonl", "t.jsonl, line 2 is not JSON and cut off"),
        ("empty.csv", "empty.csv: has no rows"), ("none.csv", "none.csv does not exist"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read_table_log(tmp_path / name, ROLES)
    with pytest.raises(ValueError, match="columns: reward is missing"):
        parse_columns("event=a,item=b")
    with pytest.raises(ValueError, match="must be ROLE=COLUMN"):
        parse_columns("event")
    with pytest.raises(ValueError, match="temperature: needs the column of scores"):
        _read(tmp_path / "t.csv", ROWS, ROLES | {"score": "p"}, temperature=1.0)


def test_a_softmax_needs_the_candidates_that_were_not_shown(tmp_path: Path) -> None:
    roles = {name: column for name, column in ROLES.items() if name != "propensity"} | {"score": "price"}
    shown = {name: [values[i] for i in (0, 1, 2, 5)] for name, values in ROWS.items()}
    with pytest.raises(
        ValueError, match=r"t\.csv: all rows of every event were seen, so the candidates .* missing"
    ):
        _read(tmp_path / "t.csv", shown, roles, k=2, temperature=1.0)
    assert not np.isnan(_read(tmp_path / "t.csv", ROWS, roles, k=2, temperature=1.0).log.propensity).any()
