"""``peekrank data``: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from helpers.command_line import peekrank
from peekrank.cli._progress import transient_progress
from peekrank.data.letor import read_letor
from peekrank.data.peek import open_dataset

TRAIN = "2 qid:7 1:0.5 3:1\n0 qid:7 2:4\n\n0 qid:3 1:2\n1 qid:7 1:0.5 3:1\n"
TEST = "1 qid:1 1:1 2:2\n"


def run(*arguments: object) -> Result:
    return peekrank("data", *arguments)


def said(*arguments: object) -> dict[str, list[str]]:
    """What is printed, by label."""
    done = run(*arguments)
    assert done.exit_code == 0, done.stderr
    lines: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        label, _, text = line.partition("  ")
        lines.setdefault(label, []).append(text.strip())
    return lines


def refused(*arguments: object) -> str:
    done = run(*arguments)
    assert done.exit_code == 2
    return done.stderr.removeprefix("error: ").rstrip("\n")


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TRAIN)
    return path


def test_a_text_is_described(train: Path) -> None:
    lines = said(train)
    assert lines["source"] == [f"train.txt, sha256 {read_letor(train).about.digest[:16]}"]
    assert lines["queries"] == ["2"]
    assert lines["documents"] == ["4; 1 to 3 per query, median 2"]
    assert lines["features"] == ["3, ids from 1; 3 used, 0 constant"]
    assert lines["values"] == ["0 to 4"]
    assert lines["relevance"] == ["0: 2 (50.0%), 1: 1 (25.0%), 2: 1 (25.0%)"]
    assert lines["scaling"] == ["none"]
    assert lines["oddity"] == [
        "queries with a single document: 1",
        "queries without a relevant document: 1",
        "queries whose lines were not contiguous, now gathered: 1",
        "documents with the same features as an earlier one of their query: 1",
        "feature values missing in the file, taken as 0: 6",
        "blank lines: 1",
    ]


def test_conversion_and_reopening_say_the_same(train: Path, tmp_path: Path) -> None:
    packed = tmp_path / "train.gz"
    packed.write_bytes(gzip.compress(TRAIN.encode()))
    out = tmp_path / "new" / "a.peek"
    first = said(packed, "--out", out)
    assert first.pop(f"Wrote {out}, {out.stat().st_size} bytes") == [""]
    assert said(out) == first
    np.testing.assert_array_equal(open_dataset(out).features, read_letor(train).features)


def test_json_has_all_of_it(train: Path, tmp_path: Path) -> None:
    run(train, "--json", tmp_path / "a.json", "--scaling", "query")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["documents"] == 4
    assert found["lengths"] == [1, 2, 3]
    assert found["grades"] == {"0": 2, "1": 1, "2": 1}
    assert found["warnings"]["scattered_queries"] == 1
    assert found["about"]["scaling"] == "query"


def test_scaling_is_applied_and_recorded(train: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    test.write_text(TEST)
    assert said(train, "--scaling", "query", "--out", tmp_path / "q.peek")["scaling"] == ["query"]
    assert open_dataset(tmp_path / "q.peek").features.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]]
    lines = said(test, "--scaling", "global", "--train", train, "--out", tmp_path / "g.peek")
    digest = read_letor(train).about.digest
    assert lines["scaling"] == [f"global, fitted on {digest[:16]}"]
    data, table = open_dataset(tmp_path / "g.peek"), read_letor(train).features.astype(np.float64)
    np.testing.assert_allclose(data.features, [([1, 2, 0] - table.mean(axis=0)) / table.std(axis=0)], rtol=1e-6)
    assert data.about.fitted_on == digest
    said(train, "--out", tmp_path / "train.peek")
    again = said(test, "--scaling", "global", "--train", tmp_path / "train.peek", "--out", tmp_path / "h.peek")
    assert again["values"] == lines["values"]
    own = said(train, "--scaling", "global")
    assert own["scaling"] == lines["scaling"]


def test_features_and_base(train: Path, tmp_path: Path) -> None:
    assert said(train, "--features", 5, "--first-feature-id", 0)["features"] == [
        "5, ids from 0; 3 used, 2 constant"
    ]
    said(train, "--out", tmp_path / "a.peek")
    assert "has 3 features with ids from 1" in refused(tmp_path / "a.peek", "--features", 5)
    assert "has 3 features with ids from 1" in refused(tmp_path / "a.peek", "--first-feature-id", 0)
    assert "feature id 3 is above 2" in refused(train, "--features", 2)


def test_real_valued_relevance(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{x / 64} qid:1 1:{x}\n" for x in range(65)))
    assert said(path)["relevance"] == ["real-valued, 0 to 1"]


def test_refusals(train: Path, tmp_path: Path) -> None:
    before = train.read_bytes()
    assert "each output needs its own file" in refused(train, "--json", train)
    assert "each output needs its own file" in refused(
        train, "--out", tmp_path / "a.peek", "--json", tmp_path / "b" / ".." / "a.peek"
    )
    assert "--scaling = 'cubic': must be 'none' or 'query' or 'global'" in refused(train, "--scaling", "cubic")
    assert "--train needs --scaling global or robust, got none" in refused(train, "--train", tmp_path / "t.txt")
    train.with_suffix(".peek").write_text(TRAIN)
    assert "is not a peekrank data set" in refused(train.with_suffix(".peek"))
    assert "nowhere.txt" in refused(tmp_path / "nowhere.txt")
    assert train.read_bytes() == before


def test_nothing_is_written_for_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TRAIN + "1 qid:7 1:nan\n")
    message = refused(path, "--out", tmp_path / "a.peek", "--json", tmp_path / "a.json")
    assert message == "a.txt, line 6: feature 1 has the value 'nan', which is not a finite number"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_the_bar_stays_away_where_nobody_looks(train: Path) -> None:
    with transient_progress("reading") as progress:
        progress(1, 2)
    assert run(train).stderr == ""


def test_no_text_is_replaced_by_the_compact_form(train: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    test.write_text(TEST)
    assert "test.txt: --out must end in .peek" in refused(train, "--out", test)
    assert test.read_text() == TEST
    said(test, "--out", tmp_path / "a.peek")
    said(train, "--out", tmp_path / "a.peek")
    assert open_dataset(tmp_path / "a.peek").about.source == "train.txt"
    assert "a.peek is a data set and would be overwritten" in refused(train, "--json", tmp_path / "a.peek")


def test_the_compact_form_is_known_by_content(train: Path, tmp_path: Path) -> None:
    first = said(train, "--out", tmp_path / "a.peek")
    renamed = (tmp_path / "a.peek").rename(tmp_path / "a.txt")
    assert said(renamed)["features"] == first["features"]
    assert "a.txt is a data set and would be overwritten" in refused(train, "--json", renamed)


@pytest.mark.parametrize("scaling", ["none", "query", "global"])
def test_numbers_that_are_not_finite_are_an_error(train: Path, tmp_path: Path, scaling: str) -> None:
    path = tmp_path / "a.peek"
    said(train, "--out", path)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(np.float32(4).tobytes(), np.float32(np.nan).tobytes()))
    message = refused(path, "--scaling", scaling, "--json", tmp_path / "a.json")
    assert message == "a.peek: query 7, document 2: feature 2 is nan: must be a number up to 3.4e38"
    assert not (tmp_path / "a.json").exists()
    if scaling == "global":
        assert refused(train, "--scaling", "global", "--train", path) == message
