"""``peekrank rank`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.command_line import peekrank, refused
from helpers.documents import letor_text
from peekrank.evaluation.trec import read_run

QUICK = ["train", "train.txt", "--rounds", "200", "--runs", "2", "--workers", "1"]

pytestmark = pytest.mark.usefixtures("judged_lists")


def test_rank_refuses_what_does_not_fit() -> None:
    assert peekrank(*QUICK).exit_code == 0
    model = "trained/models/ridge-0.json"
    Path("wide.txt").write_text(letor_text(5, 3, d=5))
    Path("thin.txt").write_text(letor_text(5, 3, d=3))
    assert "wide.txt: has 5 features: must have 4 like the training part" in refused("rank", model, "wide.txt")
    assert "thin.txt: has 3 features: must have 4" in refused("rank", model, "thin.txt", "--out", "x.tsv")
    assert "is not a peekrank model" in refused("rank", "train.txt", "test.txt")
    assert "is not a peekrank model" in refused("rank", "trained/manifest.json", "test.txt")
    Path("broken.json").write_text(Path(model).read_text().replace('"rounds": 200', '"rounds": 201'))
    assert "broken.json: is damaged" in refused("rank", "broken.json", "test.txt")
    assert "nowhere.json" in refused("rank", "nowhere.json", "test.txt")
    assert "unknown measure" in refused("rank", model, "test.txt", "--measure", "ndgc")
    before = Path("test.txt").read_bytes()
    assert "each output needs its own file" in refused("rank", model, "test.txt", "--out", "test.txt")
    assert Path("test.txt").read_bytes() == before
    assert not Path("x.tsv").exists()


def test_sparse_text_may_lack_the_last_features() -> None:
    assert peekrank(*QUICK).exit_code == 0
    Path("sparse.txt").write_text("1 qid:1 1:0.5\n0 qid:1 2:0.5\n")
    assert peekrank("rank", "trained/models/ridge-0.json", "sparse.txt").exit_code == 0


def test_rank_replaces_no_model_and_no_data_set() -> None:
    assert peekrank(*QUICK).exit_code == 0
    model, other = "trained/models/ridge-0.json", Path("trained/models/ridge-1.json")
    before = other.read_bytes()
    assert "ridge-1.json is a model and would be overwritten" in refused(
        "rank", model, "test.txt", "--out", str(other)
    )
    assert other.read_bytes() == before
    peekrank("data", "train.txt", "--out", "train.peek")
    Path("train.peek").rename("plain")
    assert "plain is a data set and would be overwritten" in refused("rank", model, "test.txt", "--out", "plain")
    for _ in range(2):  # an earlier table may be replaced
        assert peekrank("rank", model, "test.txt", "--out", "ranks.tsv").exit_code == 0


def test_rank_writes_a_run_of_trec() -> None:
    assert peekrank(*QUICK).exit_code == 0
    Path("new.txt").write_text(letor_text(4, 3))
    model = "trained/models/ridge-0.json"
    for out in ("ranks.tsv", "ranks.run"):
        assert peekrank("rank", model, "new.txt", "--out", out).exit_code == 0
    table = [line.split("\t") for line in Path("ranks.tsv").read_text().splitlines()[1:]]
    wanted: dict[str, list[str]] = {}
    for row in table:
        wanted.setdefault(row[0], []).append(row[1])
    assert read_run(Path("ranks.run")) == wanted
    assert len(wanted) == 4


def test_rank_says_how_many_queries_count() -> None:
    assert peekrank(*QUICK).exit_code == 0
    model = "trained/models/ridge-0.json"
    lines = [f"{int(q == 2)} qid:{q} 1:{d} 2:1 3:1 4:1\n" for q in (1, 2, 3) for d in (1, 2)]
    Path("some.txt").write_text("".join(lines))
    assert (
        "ndcg@10+skip 1.0000 over 1 query, 2 skipped\n"
        in peekrank("rank", model, "some.txt", "--measure", "ndcg@10+skip").stderr
    )
    assert "ndcg@10 1.0000 over 3 queries\n" in peekrank("rank", model, "some.txt", "--measure", "ndcg@10").stderr
    Path("none.txt").write_text("".join(lines[:2] + lines[4:]))
    none = peekrank("rank", model, "none.txt", "--measure", "ndcg@10+skip").stderr
    assert "ndcg@10+skip counts none of 2 queries\n" in none
    assert "nan" not in none


def test_relevance_above_the_grades_is_refused_only_where_it_is_used() -> None:
    assert peekrank(*QUICK).exit_code == 0
    Path("large.txt").write_text("300 qid:1 1:0.5 2:1 3:1 4:1\n0 qid:1 1:0.25 2:1 3:1 4:1\n")
    model = "trained/models/ridge-0.json"
    assert len(peekrank("rank", model, "large.txt").stdout.splitlines()) == 3
    judged = peekrank("rank", model, "large.txt", "--measure", "ndcg@10", "--out", "x.tsv")
    assert (judged.exit_code, Path("x.tsv").exists()) == (2, False)
    assert "relevance from 0 to 300: must be within 0 to 255" in judged.stderr


def test_names_and_ids_are_carried_through() -> None:
    assert peekrank(*QUICK).exit_code == 0
    text = Path("test.txt").read_text().splitlines()
    lines = [line.split() for line in text]
    named = [f"qid:q-{line[1][4:]} {' '.join(line[2:])} # docid = d{i}" for i, line in enumerate(lines)]
    Path("unjudged.txt").write_text("\n".join(named) + "\n")
    model = "trained/models/ridge-0.json"
    plain = peekrank("rank", model, "test.txt").stdout.splitlines()
    done = peekrank("rank", model, "unjudged.txt")
    assert done.exit_code == 0, done.output
    found = done.stdout.splitlines()
    assert found[0].split("\t") == ["qid", "document", "docid", "position", "score"]
    assert len(found) == len(plain)
    number: dict[str, int] = {}
    document_of = {}
    for i, line in enumerate(lines):
        number[line[1]] = number.get(line[1], 0) + 1
        document_of[f"d{i}"] = (f"q-{line[1][4:]}", str(number[line[1]]))
    for ours, theirs in zip(found[1:], plain[1:], strict=True):
        qid, document, docid, position, score = ours.split("\t")
        assert [qid.removeprefix("q-"), document, position, score] == theirs.split("\t")
        assert document_of[docid] == (qid, document)
    assert "unjudged.txt has no relevance, which --measure ndcg@10 needs" in refused(
        "rank", model, "unjudged.txt", "--measure", "ndcg@10"
    )
    assert "line 1: relevance is missing before 'qid:q-" in refused("train", "unjudged.txt")
