"""records/: every file is valid and renders, and tables can be put into one."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
import records
from records import Figure, Record, Table, parse_cell

from helpers.scripts import ROOT

NAMES = sorted(path.stem for path in records.FOLDER.glob("*.json"))


def test_there_are_records() -> None:
    assert {"choosing", "doubtsort", "benchmarks", "reproduce"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_valid_and_written_as_it_is(name: str, tmp_path: Path) -> None:
    record = records.read(records.FOLDER / f"{name}.json")
    assert record.tables
    records.write(tmp_path / "again.json", record)
    assert (tmp_path / "again.json").read_bytes() == (records.FOLDER / f"{name}.json").read_bytes()
    for table in record.tables:
        for picture in table.pictures:
            assert (ROOT / "docs" / "pictures" / picture).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_record_renders_with_every_table_and_row(name: str) -> None:
    record = records.read(records.FOLDER / f"{name}.json")
    page = record.markdown()
    assert page.startswith(f"# {record.title}\n\n{record.shows}\n")
    assert re.findall(r"^## (?!Notes$)(.*)$", page, re.M) == [table.title for table in record.tables]
    rows = sum(len(table.rows) + 2 for table in record.tables if table.columns)
    assert len(re.findall(r"^\|", page, re.M)) == rows


def test_the_index_names_every_record() -> None:
    page = records.index(records.read_all())
    assert re.findall(r"^\| \[.*?\]\((.*?)\.md\)", page, re.M) == NAMES


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("0.0100 ± 0.0012", Figure(0.01, 0.0012, digits=4)),
        ("-1,234 ± 56", Figure(-1234, 56)),
        ("**13.8x**", Figure(13.8, unit="x", mark="loses")),
        ("11 (4 to 24)", Figure(11, low=4, high=24)),
        ("2.9 to 3.2 s", Figure(low=2.9, high=3.2, unit="s")),
        ("1,599 ± 21; 100 %; 0.00", [Figure(1599, 21), Figure(100, unit="%"), Figure(0.0, digits=2)]),
        ("7 (not in 5,000)", "7 (not in 5,000)"),
        ("", None),
    ],
)
def test_a_cell_is_read_and_shown_as_it_was(text: str, cell: records.Cell) -> None:
    assert parse_cell(text) == cell
    row = Table("t", columns=["c"], rows=[[cell]], marks={"loses": "it loses"}).markdown()[2]
    assert row == f"| {text} |"


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([{"title": "a", "date": "today"}], "unknown field `date`"),
        ([{"title": "a"}, {"title": "a"}], "two tables"),
        ([{"title": "a", "columns": ["b"], "rows": [[1, 2]]}], "a row of 2"),
        ([{"title": "a", "columns": ["b"], "rows": [[{"value": 1, "mark": "loses"}]]}], "unexplained marks"),
        ([{"title": "a", "columns": ["b"], "rows": [[{"sd": 1}]]}], "needs a value"),
        ([{"title": "a", "columns": ["b"], "rows": [[{"low": 1}]]}], "go together"),
    ],
)
def test_an_invalid_record_is_refused_with_its_name(tables: object, why: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({"title": "t", "shows": "s", "tables": tables}))
    with pytest.raises(ValueError, match=rf"wrong\.json: .*{why}"):
        records.read(path)


def test_new_rows_leave_the_words_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    old = Table("a", ["Words."], ["b"], [[1]], notes=["Two runs only."])
    records.write(path, Record("Some", "Something.", tables=[old, Table("z")], notes=["Mine."]))
    records.update(path, [Table("a", columns=["b", "c"], rows=[[2, 3]]), Table("new")])
    record = records.read(path)
    assert record.notes == ["Mine."]
    assert [table.title for table in record.tables] == ["a", "z", "new"]
    first = record.tables[0]
    assert (first.text, first.notes, first.rows) == (["Words."], ["Two runs only."], [[2, 3]])


def test_a_printed_table_is_put_into_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("progress\n| a | b |\n|---|---|\n| `x\\|y` | **1 ± 2** |\n"))
    records.main(["some", "Title", "--folder", str(tmp_path)])
    (table,) = records.read(tmp_path / "some.json").tables
    assert table.rows == [["`x|y`", Figure(1, 2, mark="bold")]]
