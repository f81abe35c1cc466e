"""Tables in files: what is read from CSV, Parquet and JSON lines, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from peekrank.data.dataset import Dataset
from peekrank.data.peek import open_dataset, save_dataset
from peekrank.jobs import parquet
from peekrank.training import table_files
from peekrank.training.table_files import TableOptions, is_table, read_table

OPTIONS = TableOptions("sold", "search", "sku")
Write = Callable[[pl.DataFrame, Path], Path]


def csv(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_csv(folder / "shop.csv")
    return folder / "shop.csv"


def packed(frame: pl.DataFrame, folder: Path) -> Path:
    (folder / "shop.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    return folder / "shop.csv.gz"


def semicolons(frame: pl.DataFrame, folder: Path) -> Path:
    (folder / "shop.CSV").write_bytes(
        b"\xef\xbb\xbf" + frame.write_csv(separator=";", line_terminator="\r\n").encode()
    )
    return folder / "shop.CSV"


def tabs(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_csv(folder / "shop.tsv", separator="\t")
    return folder / "shop.tsv"


def lines(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_ndjson(folder / "shop.jsonl")
    return folder / "shop.jsonl"


def sparse_lines(frame: pl.DataFrame, folder: Path) -> Path:
    """JSON lines in which missing values have no key."""
    rows = [{name: value for name, value in row.items() if value is not None} for row in frame.to_dicts()]
    (folder / "shop.ndjson").write_text("\n\n".join(map(json.dumps, rows)))
    return folder / "shop.ndjson"


def groups(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_parquet(folder / "shop.parquet", row_group_size=7)
    return folder / "shop.parquet"


WRITERS = [csv, packed, semicolons, tabs, lines, sparse_lines, groups]


def shop(rows: int = 60, *, gaps: bool = True, words: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({
        "search": [f"q {i}, or so" if words else str(i) for i in rng.integers(0, 9, rows)],
        "price": rng.gamma(2, 10, rows).round(2),
        "sku": [f's"{i}' for i in range(rows)],
        "stars": rng.integers(1, 6, rows),
        "brand": rng.choice(["acme", "zeta\nco", "=1+1"], rows),
        "sold": rng.integers(0, 3, rows),
    })  # fmt: skip
    if gaps:
        hole = pl.Series(rng.random(rows) < 0.2)
        names = ("price", "stars", "brand")
        frame = frame.with_columns(
            pl.when(hole.shuffle(i)).then(None).otherwise(n).alias(n) for i, n in enumerate(names)
        )
    return frame


def assert_same(ours: Dataset, theirs: Dataset) -> None:
    for name in ("features", "relevance", "offsets", "queries"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert (ours.names, ours.documents) == (theirs.names, theirs.documents)
    assert ours.about.columns == theirs.about.columns


@pytest.fixture(params=[1 << 19, 50])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in one block, or in many."""
    monkeypatch.setattr(table_files, "_CELLS", request.param)
    monkeypatch.setattr(parquet, "_ROWS", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("write", WRITERS)
def test_every_form_of_a_table_is_read_as_its_data_frame(write: Write, tmp_path: Path, *, words: bool) -> None:
    frame = shop(words=words)
    options = OPTIONS._replace(categories=("brand",), missing="median")
    data = read_table(write(frame, tmp_path), options)
    queries = frame["search"] if words else frame["search"].cast(pl.Int64)
    expected = Dataset.of(
        frame.with_columns(queries), "sold", "search", documents="sku", categories=["brand"], missing="median"
    )
    assert_same(data, expected)
    save_dataset(data, tmp_path / "a.peek")
    assert_same(open_dataset(tmp_path / "a.peek"), data)
    assert open_dataset(tmp_path / "a.peek").about == data.about


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("write", WRITERS)
def test_features_are_all_other_numbers_and_what_is_left_out_is_reported(write: Write, tmp_path: Path) -> None:
    path = write(shop(gaps=False), tmp_path)
    with pytest.warns(UserWarning, match=r"columns that are no numbers are left out: 'brand' \("):
        data = read_table(path, OPTIONS)
    assert data.about.feature_names == ("price", "stars")
    chosen = read_table(path, OPTIONS._replace(columns=("stars", "price")))
    np.testing.assert_array_equal(chosen.features[:, ::-1], data.features)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("write", WRITERS)
def test_missing_values_are_refused_with_column_count_and_first_row(write: Write, tmp_path: Path) -> None:
    frame = shop()
    path = write(frame, tmp_path)
    with pytest.raises(ValueError, match="has missing values") as raised:
        read_table(path, OPTIONS._replace(columns=("price", "stars")))
    for name in ("price", "stars"):
        gaps = frame[name].is_null()
        first = gaps.to_list().index(True) + 1
        assert f"column '{name}' ({gaps.sum()}, the first in row {first})" in str(raised.value)
    assert str(raised.value).startswith(path.name)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("write", WRITERS)
def test_another_part_has_the_columns_of_the_training_part(write: Write, tmp_path: Path) -> None:
    train, test = shop(), shop(40).select("brand", "stars", "sku", "price", "search")
    options = OPTIONS._replace(categories=("brand",), missing="median")
    columns = read_table(groups(train, tmp_path), options).about.columns
    (tmp_path / "test").mkdir()
    data = read_table(write(test, tmp_path / "test"), TableOptions(query="search", id="sku"), columns)
    assert_same(data, Dataset.of(test, queries="search", documents="sku", columns=columns))
    with pytest.raises(ValueError, match=r"has no column 'price', a feature of the training part: known: .*stars"):
        read_table(write(test.drop("price"), tmp_path / "test"), TableOptions(query="search"), columns)


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("write", WRITERS)
def test_what_is_no_number_or_no_column_is_refused_where_it_is_named(write: Write, tmp_path: Path) -> None:
    path = write(shop(gaps=False), tmp_path)
    for options, said in (
        (OPTIONS._replace(columns=("brand",)), "column 'brand' .*: must be numbers"),
        (OPTIONS._replace(relevance="brand"), "column 'brand' .*: must be numbers"),
        (OPTIONS._replace(relevance="sald"), "has no column 'sald', which is wanted: did you mean 'sold'"),
        (OPTIONS._replace(query="q"), "has no column 'q', which is wanted: known: brand"),
    ):
        with pytest.raises(ValueError, match=said):
            read_table(path, options)
    other = write(shop(gaps=False).rename({"search": "query_id"}), tmp_path)
    with pytest.raises(ValueError, match="column 'query_id' looks like the query of each document"):
        read_table(other, TableOptions("sold"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "x,r\n1,0\n2\n", "a.csv, line 3: has 1 cells: must have 2, as the first line"),
        ("a.csv", "x,r\n1,0\n1.5.2,1\n", "a.csv: column 'x' has '1.5.2' in row 2: must be numbers"),
        ("a.csv", "x,r\n1,0\n\n٣,1\n", "has '٣' in row 2"),
        ("a.csv", "x,r\n1e400,0\n", "feature 'x' is inf: must be a number up to 3.4e38"),
        ("a.csv", "x,r\n1e39,0\n", "feature 'x' is inf: must be a number up to 3.4e38"),
        ("a.csv", "x,x\n1,0\n", "a.csv: column 'x' occurs twice"),
        ("a.csv", "x,r\n", "a.csv: has no rows"),
        ("a.csv", "", "a.csv: has no names of columns in its first line"),
        ("a.csv", 'x,r\n1,0\n"1,0\n2,0\n', r'a.csv, line 3: has a quote \("\) that no other closes'),
        ("a.csv", "x;r\n1,5;0\n", r"has '1,5' \(with a decimal comma: write a point\) in row 1: must be"),
        ("a.csv", 'x,r\n"1"2,0\n', "a.csv, line 2: is not CSV"),
        ("a.csv", "x,r\n1,-1\n", "relevance must be a number for every document, 0 or more; it is -1.0 in row 1"),
        ("a.jsonl", '{"x": 1, "r": 0}\n{"x": [1], "r": 0}\n', "column 'x' has a list in row 2: must be numbers"),
        ("a.jsonl", '{"x": 1, "r": 0}\n\n[1]\n', "a.jsonl, line 3: is a list: must be an object"),
        ("a.jsonl", '{"x": 1, "r": 0\n', "a.jsonl, line 1: is not JSON"),
        (
            "a.jsonl",
            '{"x": 1, "r": 0}\n{"x": 1, "r": 0, "x": 2}\n',
            r"line 2: is not JSON \(key 'x' occurs twice\)",
        ),
        ("a.jsonl", '{"x": ' + "9" * 400 + ', "r": 0}\n', "column 'x' has a number of 1,329 bits in row 1"),
        ("a.jsonl", '{"x": "1", "r": 0}\n', "column 'x' has '1' in row 1: must be numbers"),
        ("a.jsonl", '{"x": 1, "r": true}\n{"x": 1}\n', "relevance must be .*; it is nan in row 2"),
        ("a.parquet", "PAR1", "a.parquet: is not a Parquet file"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_table(tmp_path / name, TableOptions("r", columns=("x",)))


def test_texts_that_are_not_whole_or_not_utf_8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,r\n1,0\n" * 99)[:-9])
    with pytest.raises(ValueError, match=r"a.csv.gz: the compressed data ends early"):
        read_table(path, TableOptions("r"))
    path.write_bytes(gzip.compress(b"x,r\n1,0\n" * 99)[:20] + b"?" * 30)
    with pytest.raises(ValueError, match=r"a.csv.gz: is damaged"):
        read_table(path, TableOptions("r"))
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,r\n1,0\n\xff,0\n")
    with pytest.raises(ValueError, match=r"a.csv, line 3: is not UTF-8 text: save the file as UTF-8"):
        read_table(path, TableOptions("r"))


def test_a_log_and_a_table_without_features_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("q,item,position,propensity,clicked\n1,a,1,0.5,1\n1,b,2,0.5,0\n")
    options = TableOptions("clicked", "q", "item")
    with pytest.warns(
        UserWarning, match="peekrank evaluate reads logs of what was shown, see docs/evaluation/log.md"
    ) as noted:
        read_table(path, options)
    assert [str(one.message).split("'")[1] for one in noted] == ["position", "propensity"]
    read_table(path, options._replace(columns=("position",)))
    path.write_text("q,r\n1,a\n1,b\n")
    with pytest.raises(
        ValueError, match=r"a.csv: no column is left for features; texts can be named as categories"
    ):
        read_table(path, TableOptions(query="q", id="r"))


def test_an_index_without_a_name_is_no_feature(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",x,r\n0,1,0\n1,2,1\n")
    with pytest.warns(UserWarning, match="left out: '' .column 1 has no name"):
        data = read_table(tmp_path / "a.csv", TableOptions("r"))
    assert data.about.feature_names == ("x",)


def test_a_bomb_takes_no_more_memory_than_is_fair(tmp_path: Path) -> None:
    """Lines with a column of their own would be a table of 10^9 cells; a small gzip may hold many long texts."""
    (tmp_path / "a.jsonl").write_text("".join(f'{{"k{i}": 1, "r": 0}}\n' for i in range(30_000)))
    with pytest.raises(ValueError, match=r"a.jsonl: would take more than .* bytes of memory"):
        read_table(tmp_path / "a.jsonl", TableOptions("r", missing="median"))
    with gzip.open(tmp_path / "a.csv.gz", "wt", compresslevel=9) as file:
        file.write("q,x,r\n")
        file.writelines(f"{'q' * 100_000}{i},1,1\n" for i in range(3000))
    with pytest.raises(ValueError, match=r"a.csv.gz: would take more than 268,435,456 bytes of memory"):
        read_table(tmp_path / "a.csv.gz", TableOptions("r", "q"))


def test_names_say_what_is_a_table() -> None:
    assert all(is_table(Path(name)) for name in ("a.csv", "a.jsonl.gz", "b.PARQUET"))
    assert not any(is_table(Path(name)) for name in ("a.peek", "a.txt.gz", "csv", "a.parquet.gz"))


def test_a_parquet_file_is_read_by_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []

    def read(path: Path, columns: list[str]) -> Iterator[pl.DataFrame]:
        for frame in parquet.read_row_groups(path, columns):
            sizes.append(frame.shape)
            yield frame

    monkeypatch.setattr(table_files, "read_row_groups", read)
    monkeypatch.setattr(parquet, "_ROWS", 10)
    path = groups(shop(gaps=False), tmp_path)  # in groups of 7
    read_table(path, OPTIONS._replace(columns=("price",)))
    assert sizes == [(14, 4)] * 4 + [(4, 4)]
