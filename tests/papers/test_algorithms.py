"""records/algorithms.json: every line of the papers' pseudo-code has its place in the code, and a test."""

from __future__ import annotations

import re

import pytest
import records

from helpers.scripts import ROOT

TABLES = records.read(records.FOLDER / "algorithms.json").tables
LAST_LINES = {"CT15": 21, "CT16": 11, "ZT": 11}
TESTS = {"CT15": ["rtop1f"], "CT16": ["rtopkf", "rtopkf_clip"], "ZT": ["nw2"]}


def paper(table: records.Table) -> str:
    return table.title.partition(",")[0]


@pytest.mark.parametrize("table", TABLES, ids=paper)
def test_code_and_tests_of_each_line_exist(table: records.Table) -> None:
    files = [ROOT / "tests" / "learners" / f"test_{name}.py" for name in TESTS[paper(table)]]
    tested = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for _, _, file, code, test in table.rows:
        source = (ROOT / str(file).strip("`")).read_text(encoding="utf-8")
        assert str(code).strip("`") in source, code
        assert f"def {str(test).strip('`')}(" in tested, test


@pytest.mark.parametrize("table", TABLES, ids=paper)
def test_no_line_is_left_out(table: records.Table) -> None:
    """Except for "end for", and CT15's line 20, which is one."""
    lines: list[int] = []
    for row in table.rows:
        for part in str(row[0]).split(", "):
            ends = [int(number) for number in re.findall(r"\d+", part)]
            lines += range(ends[0], ends[-1] + 1)
    left_out = {20} if paper(table) == "CT15" else set()
    assert sorted(lines) == sorted({*range(1, LAST_LINES[paper(table)] + 1)} - left_out)
