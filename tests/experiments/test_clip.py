"""experiments/clip.py on tiny lists: it measures what an agent learns, keeps it, and says what is above."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import Agent
from peekrank.data.generated import DatasetShape
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.ct16.figure import passes
from peekrank.papers.ours.judged import held_out

sys.modules["ct16"] = load_experiment("ct16")  # scripts in one folder import each other
sys.modules["judged"] = load_experiment("judged")
clip = load_experiment("clip")
TINY = DatasetShape(30, (2, 6), 4, (0.6, 0.3, 0.1))


def test_quality_is_that_of_an_agent_told_step_by_step() -> None:
    split = clip.generated(TINY, "linear", 100)
    found = clip.learned(split, (10, 25), 3)
    assert len(found) == len(clip.CASES) * len(clip.CLIPS) * 2
    train, learner = split.train, RTopKF(clip=1.0)
    agent = Agent(learner, m=int(np.diff(train.offsets).max()), k=5, d=4, seed=3)
    for query in passes(len(train.offsets) - 1, 25, np.random.default_rng(3)):
        rows = slice(train.offsets[query], train.offsets[query + 1])
        decision = agent.rank(train.features[rows])
        agent.update(decision, train.relevance[rows][decision.ranking[:5]])
    state: Any = agent.state
    (value,) = found.filter(surrogate="squared", k=5, rounds=25, clip="printed")["ndcg"]
    assert value == held_out(learner.scores(state, split.test.features), split.test)


def test_what_is_above_is_so_with_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clip, "LAYOUTS", {"tiny": TINY})
    monkeypatch.setattr(clip, "RUNS", 2)
    keep, record = tmp_path / "kept", tmp_path / "rtopkf.json"
    clip.main(["--keep", str(keep), "--rounds", "5", "10", "--record", str(record)])
    assert len(list(keep.iterdir())) == 6
    assert len(records.read(record).tables[0].rows) == 3 * len(clip.CASES) * 2
    capsys.readouterr()
    clip.main(["--keep", str(keep), "--rounds", "5", "10"])
    assert "done" not in capsys.readouterr().err  # all of it was kept
    values = {"exact": (0.5, 0.51), "gamma": (0.6, 0.61), "printed": (0.59, 0.66)}
    rows = [("x", "kl", 1, 5, name, run, value) for name, both in values.items() for run, value in enumerate(both)]
    frame = pl.DataFrame(rows, [*clip.KEYS, "clip", "run", "ndcg"], orient="row")
    assert clip.tables(frame)[0].rows[0][-2:] == ["+0.100 (above)", "-0.020 (level)"]
