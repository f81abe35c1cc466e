"""The script behind the record of mixed behind BM25: its texts, worlds and players, and the trap of the slope."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import Agent
from peekrank.experiments import passages

script: Any = load_experiment("bm25")
WEAK, FLAT = passages.World("weak", 0.1), passages.World("flat", 0.1, flat=True)


def test_scores_are_those_of_the_formula() -> None:
    found = passages.BM25([("a", "b", "a"), ("b",), ("c", "d")]).scores(("a", "b", "unknown"))
    length = [0.25 + 0.75 * n / 2 for n in (3, 1, 2)]
    rare, common = log(1 + 2.5 / 1.5), log(1 + 1.5 / 2.5)
    first = rare * 2 * 2.5 / (2 + 1.5 * length[0]) + common * 2.5 / (1 + 1.5 * length[0])
    assert found == pytest.approx([first, common * 2.5 / (1 + 1.5 * length[1]), 0])


def test_passages_are_docstrings_without_their_summary_lines() -> None:
    found = passages.passages()
    assert len(found) > 300
    assert len({passage.answer for passage in found}) == len(found)
    example = next(passage for passage in found if passage.question[:2] == ("context", "automatically"))
    assert "block" in example.answer  # contextlib.closing
    assert passages.words("The list, sorted by its KEYS.") == ["list", "sorted", "keys"]


def test_visits_are_lists_of_bm25_and_thumbs_say_which_passage_is_the_own() -> None:
    world = replace(WEAK, fresh=0.5)
    visits = passages.drawn(world, 3, 2000)
    assert (np.diff(visits.scores, axis=1) <= 0).all()
    assert (np.diff(np.sort(visits.items, axis=1), axis=1) > 0).all()
    known = visits.own >= 0
    is_own = np.arange(passages.N) == visits.own[:, None]
    assert visits.thumbs[is_own].mean() == pytest.approx(0.85, abs=0.03)
    assert visits.thumbs[~is_own].mean() == pytest.approx(0.1, abs=0.01)
    assert 0.5 < known.mean() < 0.8
    assert (passages.drawn(replace(world, strong=True), 3, 2000).own >= 0).mean() > 0.95
    fresh = visits.keys >= passages.WORDINGS * len(passages.passages())
    assert fresh.mean() == pytest.approx(0.5, abs=0.05)
    assert len(np.unique(visits.keys[fresh])) == fresh.sum()


@pytest.mark.parametrize("name", ["mixed, keys, no exploration", "crude greedy rule"])
def test_without_answers_lists_stay_in_the_order_of_bm25(name: str) -> None:
    world = replace(WEAK, answering=0)
    visits = passages.drawn(world, 0, 200)
    assert script.LEARNERS[name](world, visits, 0).tolist() == visits.own.tolist()


def test_worth_is_the_discount_at_the_own_passage() -> None:
    assert passages.worth(np.array([0, -1, 2])) == pytest.approx([1, 0, 0.5])


def test_slopes_do_not_turn_behind_bm25() -> None:
    """Passages from below come first only after good answers; without the hold, slopes would turn in some runs."""
    turned, gained = 0, []

    def watch(agent: Agent) -> None:
        nonlocal turned
        model: Any = agent.state.model
        assert model.w[-2:].min() > -1e-12
        turned += bool(np.linalg.solve(np.triu(model.R[5:, 5:]), model.z[5:, 0])[1:].min() < 0)

    player = passages.play("mixed:cells=1000,floor=0.005,earned=0.5", key=True, watch=watch)
    for seed in range(8):
        for world in (WEAK, FLAT):
            visits = passages.drawn(world, seed, 500)
            gained.append(passages.worth(player(world, visits, seed)) - passages.worth(visits.own))
    assert turned > 20  # answers after which a slope would be negative
    assert np.mean(gained) > -script.ALLOWED


def test_a_tiny_run_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "WORLDS", [WEAK, replace(WEAK, name="k = 3", k=3)])
    record = tmp_path / "bm25.json"
    script.main(["--runs", "2", "--visits", "60", "--record", str(record)])
    gains, worst = records.read(record).tables
    assert gains.columns == ["learner", "weak", "k = 3"]
    assert [row[0] for row in gains.rows] == ["BM25", "ceiling", *script.LEARNERS]
    assert [len(row) for row in worst.rows] == [5] * len(script.LEARNERS)
    assert all(isinstance(cell, records.Figure) and cell.sd is not None for cell in gains.rows[2][1:])


def test_losses_are_bold() -> None:
    found = {"weak": {name: np.full((2, 10), 0.1) for name in ("BM25", "ceiling", *script.LEARNERS)}}
    found["weak"]["doubtsort"] = np.full((2, 10), -0.02)
    gains, worst = script.tables(found)
    assert [row[0] for row in gains.rows if isinstance(row[1], records.Figure) and row[1].mark] == ["doubtsort"]
    assert [row[0] for row in worst.rows if isinstance(row[1], records.Figure) and row[1].mark] == ["doubtsort"]
