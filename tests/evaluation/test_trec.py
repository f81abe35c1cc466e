"""Files of TREC: against ir_measures, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ir_measures as untyped
import pytest

from peekrank.evaluation.trec import Judgement, read_qrels, read_run, write_qrels, write_run

ir_measures: Any = untyped


def test_files_can_be_read_by_others(tmp_path: Path) -> None:
    rankings = {"q1": ["d2", "d1", "ü"], "q2": ["d9"]}
    write_run(tmp_path / "run", rankings)
    assert read_run(tmp_path / "run") == rankings
    theirs = [(one.query_id, one.doc_id) for one in ir_measures.read_trec_run(str(tmp_path / "run"))]
    assert theirs == [("q1", "d2"), ("q1", "d1"), ("q1", "ü"), ("q2", "d9")]
    judgements = [Judgement("q1", 0, "d2", 2.0, 1), Judgement("q1", 3, "d1", -1.0, 2)]
    write_qrels(tmp_path / "qrels", judgements)
    assert read_qrels(tmp_path / "qrels") == judgements
    qrels = [
        (one.query_id, one.doc_id, one.relevance) for one in ir_measures.read_trec_qrels(str(tmp_path / "qrels"))
    ]
    assert qrels == [("q1", "d2", 2), ("q1", "d1", -1)]


def test_scores_decide_the_order_as_in_trec_eval(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("q Q0 a 1 0.5 x\r\nq\tQ0\tc 2 0.5 x\n\nq Q0 b 3 2e0 x\nq Q0 d 4 -1 x\n", encoding="utf-8-sig")
    assert read_run(path) == {"q": ["b", "c", "a", "d"]}
    run = list(ir_measures.read_trec_run(str(path)))
    for position, document in enumerate(["b", "c", "a", "d"], 1):
        measure = ir_measures.parse_measure(f"P@{position}")
        qrels = [ir_measures.Qrel("q", name, int(name == document)) for name in "abcd"]
        run = [one._replace(query_id="q") for one in run]
        assert ir_measures.pytrec_eval.calc_aggregate([measure], qrels, run)[measure] == pytest.approx(
            1 / position
        )


def test_lines_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text, message in (
        ("q Q0 a 1 0.5\n", "file, line 1: 'q Q0 a 1 0.5': must be 'query Q0 document rank score tag'"),
        ("q Q0 a 1 1 x\n\nq Q0 a 2 0 x\n", "file, line 3: query 'q' has document 'a' twice"),
        ("q Q0 a 1 nan x\n", "file, line 1, field 'score': 'nan': must be a number"),
        ("\n", "file: has no lines"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_run(path)
    for text, message in (
        ("q 0 a\n", "file, line 1: 'q 0 a': must be 'query iteration document grade'"),
        ("q 0 a 1\nq 1 a 0\n", "file, line 2: document 'a' of query 'q' was judged in line 1 already"),
        ("q 0 a yes\n", "file, line 1, field 'grade': 'yes': must be a number"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_qrels(path)
    path.write_bytes(b"\xff\xfe q")
    with pytest.raises(ValueError, match="file: is not UTF-8 text"):
        read_qrels(path)
    with pytest.raises(ValueError, match="'a b': names in TREC files must not be empty or contain blanks"):
        write_run(path, {"q": ["a b"]})
