"""``peekrank judge`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import peekrank, refused
from peekrank.evaluation.trec import write_run


@pytest.fixture(autouse=True)
def _with_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    relevant, better, worse = range(3), {}, {}
    for query in range(12):
        rest = [f"d{i}" for i in rng.permutation(np.arange(3, 9))]
        better[f"q{query}"] = [f"d{i}" for i in relevant] + rest
        worse[f"q{query}"] = rest + [f"d{i}" for i in relevant]
    write_run(Path("today.run"), worse)
    write_run(Path("new.run"), better)


def _judge_all() -> None:
    """Replace each -1 by the grade."""
    lines = Path("judged.qrels").read_text().splitlines()
    fields = [line.split() for line in lines]
    graded = [f"{q} {i} {d} {int(d in ('d0', 'd1', 'd2')) if g == '-1' else g}" for q, i, d, g in fields]
    Path("judged.qrels").write_text("\n".join(graded) + "\n")


def test_from_two_runs_to_a_verdict() -> None:
    asked = ("judge", "today.run", "new.run", "--qrels", "judged.qrels", "--measure", "dcg@5")
    done = peekrank(*asked, "--budget", "20")
    assert "dcg@5, mean over 12 queries: 0 of 96 pairs judged" in done.stdout
    assert "Added 20 pairs to judged.qrels: replace each -1 by a grade, from the top down" in done.stdout
    lines = Path("judged.qrels").read_text().splitlines()
    assert len(lines) == 20
    assert {line.split()[3] for line in lines} == {"-1"}
    done = peekrank(*asked)
    query, _, document, _ = lines[0].split()
    assert f"20 pairs not judged yet, from query {query}, document {document} on" in done.stdout
    assert "judge them first, or leave --budget out" in refused(*asked, "--budget", "5")
    _judge_all()
    peekrank(*asked, "--budget", "60")
    _judge_all()
    done = peekrank(*asked, "--json", "result.json")
    assert "new is better" in done.stdout
    result = json.loads(Path("result.json").read_text())
    assert (result["judged"], result["missing"], result["pairs"], result["verdict"]) == (80, 0, 96, "lower")
    true = -float(np.sum(1 / np.log2([2, 3, 4])))
    assert result["difference"]["low"] <= true <= result["difference"]["high"] < 0
    assert len(result["history"]) == 81
    assert result["next"] == []
    peekrank(*asked, "--budget", "1000")
    _judge_all()
    done = peekrank(*asked, "--json", "result.json")
    result = json.loads(Path("result.json").read_text())
    assert result["difference"]["estimate"] == pytest.approx(true, abs=1e-9)
    assert "all 96 pairs are judged" in refused(*asked, "--budget", "5")


def test_predictions_must_stay_the_same() -> None:
    Path("llm.qrels").write_text("".join(f"q{q} 0 d{d} {0.9 - d / 10}\n" for q in range(12) for d in range(9)))
    asked = ("judge", "today.run", "new.run", "--qrels", "judged.qrels", "--predictions", "llm.qrels")
    assert peekrank(*asked, "--budget", "20").exit_code == 0
    _judge_all()
    assert "20 of 108 pairs judged" in peekrank(*asked).stdout
    message = refused(*asked[:-2])
    assert "judged.qrels, line 1: the draw here is" in message
    assert "the predictions" in message


def test_what_is_wrong_is_told() -> None:
    asked = ("judge", "today.run", "new.run", "--qrels", "judged.qrels")
    assert "judged.qrels does not exist; --budget N chooses the first pairs to judge" in refused(*asked)
    assert "--budget = -1: must be a whole number" in refused(*asked, "--budget", "-1")
    assert "use dcg@10" in refused(*asked, "--budget", "5", "--measure", "ndcg@10")
    assert "none.run" in refused("judge", "none.run", "new.run", "--qrels", "judged.qrels", "--budget", "5")
    message = refused("judge", "today.run", "new.run", "--qrels", "today.run", "--budget", "5")
    assert "is also an input" in message
    Path("judged.qrels").write_text("q0 0 d1 1\nq0 0 d1 1\n")
    assert "judged.qrels, line 2: document 'd1' of query 'q0' was judged in line 1 already" in refused(*asked)
