"""Names of queries, ids of documents, files beside and files that are none; and texts that are written."""

from __future__ import annotations

import bz2
import zipfile
from pathlib import Path

import numpy as np
import pytest

from peekrank.data.dataset import Dataset
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.data.letor import read_letor, write_letor
from peekrank.data.peek import open_dataset, save_dataset


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def test_queries_have_names_or_long_numbers(text: Path) -> None:
    text.write_text("1 qid:shoes 1:1\n0 qid:1234567890123456789 1:2\n2 qid:shoes 1:3\n0 qid:7 1:4\n")
    data = read_letor(text)
    assert data.names == ("shoes", "1234567890123456789", "7")
    assert data.queries.tolist() == [1, 2, 3]
    assert data.offsets.tolist() == [0, 2, 3, 4]
    assert data.features[:, 0].tolist() == [1, 3, 2, 4]


def test_many_names_over_many_blocks(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peekrank.data.letor._BLOCK", 64)
    names = [f"q-{i * i}" for i in range(300)]
    text.write_text("".join(f"{i % 3} qid:{name} 1:{i}\n" for i, name in enumerate(names)))
    assert read_letor(text).names == tuple(names)


def test_ids_of_documents_come_from_comments(text: Path) -> None:
    text.write_text(
        "1 qid:2 1:1 #docid = GX-1 inc = 1 prob = 0.5\n0 qid:1 1:2 # d7\n0 qid:2 1:3 # a comment\n1 qid:1 1:1\n"
    )
    assert read_letor(text).documents == ()
    data = read_letor(text, documents=True)
    assert data.documents == ("GX-1", "", "d7", "")
    assert data.select(np.array([1])).documents == ("d7", "")


def test_comments_without_ids_are_none(text: Path) -> None:
    text.write_text("1 qid:2 1:1 # two words\n0 qid:1 1:2\n")
    assert read_letor(text, documents=True).documents == ()
    text.write_text("1 1:1 # 5\n0 1:2 # 5\n")  # these are queries
    assert read_letor(text, documents=True).documents == ()


@pytest.mark.parametrize("ending", [".query", ".group"])
def test_a_file_beside_has_the_sizes_of_queries(text: Path, ending: str) -> None:
    text.write_text("1 1:1\n0 1:2 # x\n2 1:3\n")
    Path(f"{text}{ending}").write_text("2\r\n1\n")
    data = read_letor(text, documents=True)
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.queries.tolist() == [1, 2]
    assert data.documents == ("", "x", "")
    assert data.about.warnings["queries_in_group_file"] == 2


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (b"2\n2\n", r"^a\.txt\.query: its 2 queries have 4 documents, but a\.txt has 3$"),
        (b"2\n-1\n", r"^a\.txt\.query, line 2: '-1': must be the number of documents of a query, 1 or more$"),
        (b"2\n\n0\n", r"^a\.txt\.query, line 3: '0': must be the number"),
        (b"3 0\n", r"^a\.txt\.query, line 1: '3 0': must be the number"),
        (b"\xff\n", r"^a\.txt\.query: is not text; expected a whole number in each line$"),
        (b"", r"^a\.txt\.query: its 0 queries have 0 documents, but a\.txt has 3$"),
    ],
)
def test_a_file_beside_that_does_not_fit(text: Path, sizes: bytes, said: str) -> None:
    text.write_text("1 1:1\n0 1:2\n2 1:3\n")
    Path(f"{text}.query").write_bytes(sizes)
    with pytest.raises(ValueError, match=said):
        read_letor(text)


def test_queries_in_the_text_come_before_a_file_beside(text: Path) -> None:
    Path(f"{text}.query").write_text("1\n")
    text.write_text("1 qid:5 1:1\n0 qid:5 1:2\n")
    assert read_letor(text).queries.tolist() == [5]
    text.write_text("1 1:1\n0 qid:5 1:2\n")
    with pytest.raises(ValueError, match=r"^a\.txt, line 2: 'qid:5' comes after lines without qid:"):
        read_letor(text)


def test_relevance_may_be_missing_everywhere_where_that_is_allowed(text: Path) -> None:
    text.write_text("qid:7 1:1 # a\n# head\nqid:7 1:2 # b\n")
    data = read_letor(text, relevance=False, documents=True)
    assert data.relevance.tolist() == [0, 0]
    assert data.features[:, 0].tolist() == [1, 2]
    assert data.documents == ("a", "b")
    assert data.about.warnings["documents_without_relevance"] == 2
    with pytest.raises(ValueError, match=r"^a\.txt, line 1: relevance is missing before 'qid:7'"):
        read_letor(text)
    text.write_text("1:1 2:0.5\n1:2\n")
    Path(f"{text}.group").write_text("2\n")
    assert read_letor(text, relevance=False).features.tolist() == [[1, 0.5], [2, 0]]
    text.write_text("1 qid:7 1:1\n")
    Path(f"{text}.group").unlink()
    assert read_letor(text, relevance=False).about.warnings["documents_without_relevance"] == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("1 qid:7 1:1\nqid:7 1:2\n", "line 2: this line has no relevance, but the lines before have"),
        ("qid:7 1:1\n1 qid:7 1:2\n", "line 2: this line has relevance, but the lines before have none"),
    ],
)
def test_relevance_is_everywhere_or_nowhere(text: Path, lines: str, said: str) -> None:
    text.write_text(lines)
    with pytest.raises(ValueError, match=said):
        read_letor(text, relevance=False)


def test_other_files_are_named_as_what_they_are(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        read_letor(tmp_path)
    text.write_bytes(bz2.compress(b"1 qid:1 1:1\n"))
    with pytest.raises(
        ValueError, match=r"^a\.txt: is compressed by bzip2, but must be text, plain or compressed by gzip"
    ):
        read_letor(text)
    with zipfile.ZipFile(text, "w") as archive:
        archive.writestr("b.txt", "1 qid:1 1:1\n")
    with pytest.raises(ValueError, match=r"^a\.txt: is a zip archive"):
        read_letor(text)


@pytest.mark.parametrize("name", ["b.txt", "b.txt.gz"])
@pytest.mark.parametrize("base", [0, 1])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, base: int) -> None:
    made = make_dataset(DatasetShape(20, (1, 6), 5, (0.5, 0.5)), np.random.default_rng(1), values="tails")
    made.features[::3, 1:] = 0
    made.features[0, -1] = made.features[0, 0] = 0
    first = Dataset.of(
        made.features,
        made.relevance,
        np.repeat([f"query{q}" for q in range(20)], np.diff(made.offsets)),
        documents=[f"d{row}" for row in range(len(made.features))],
    )
    first = first._replace(about=first.about.__class__("x", base=base))
    write_letor(first, tmp_path / name)
    again = read_letor(tmp_path / name, documents=True)
    assert np.array_equal(again.features, first.features)
    assert np.array_equal(again.relevance, first.relevance)
    assert np.array_equal(again.offsets, first.offsets)
    assert (again.names, again.documents, again.about.base) == (first.names, first.documents, base)
    save_dataset(again, tmp_path / "c.peek")
    opened = open_dataset(tmp_path / "c.peek")
    assert (opened.names, opened.documents) == (first.names, first.documents)


def test_names_that_could_not_be_read_back_are_not_written(text: Path) -> None:
    with pytest.raises(
        ValueError, match=r"'two words': ids of queries and documents must not contain white space"
    ):
        write_letor(Dataset.of([[1.0]], queries=["two words"]), text)
    assert not text.exists()
