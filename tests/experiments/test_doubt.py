"""The script behind the record of doubtsort: compiled and live runs agree, and the record has its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import DCG, Available, Bernoulli, DoubtSort, Greedy

script: Any = load_experiment("doubt")


@pytest.mark.parametrize("learner", [DoubtSort(DCG()), Greedy(DCG())], ids=lambda learner: learner.name)
@pytest.mark.parametrize("k", [1, 2])
def test_live_runs_lose_what_compiled_ones_do(learner: Any, k: int) -> None:
    """The same loss, in expectation, of the same rankings: a loop over an agent against `simulate`."""
    means = np.array([0.2, 0.9, 0.5])
    fixed = script.World(Bernoulli(tuple(means)).rounds(300, np.random.default_rng(0)), means, DCG())
    for world in (fixed, script.drawn(Available(m=8, n=4), 3, DCG(), 300)):
        found = script.live(learner, world, k, 5)
        assert script.lost(learner, world, k, 5) == pytest.approx(found.lost.sum(), rel=1e-12)
        assert len(found.first) == 300


def test_loss_is_that_of_the_true_means() -> None:
    means = np.array([0.25, 1.0])
    world = script.World(Bernoulli(tuple(means)).rounds(4, np.random.default_rng(0)), means, DCG())
    ranked = np.array([[0, 1], [1, 0], [1, 0], [0, 1]])
    lacking = 0.75 * (1 - 1 / np.log2(3))
    assert script.Lost(world).values(ranked, np.zeros((4, 2))) == pytest.approx([lacking, 0, 0, lacking])


def test_parts_of_rounds_are_those_rounds() -> None:
    world = script.drawn(Available(m=6, n=3), 0, DCG(), 20)
    whole, some = list(world.lists()), list(script.part(world, 5, 9).lists())
    assert len(some) == 4
    for (here, relevance), (same, equal) in zip(whole[5:9], some, strict=True):
        assert here.tolist() == same.tolist()
        assert relevance.tolist() == equal.tolist()


def test_nobody_answering_teaches_nothing() -> None:
    world = script.drawn(Available(m=6, n=3), 0, DCG(), 50)
    silent = script.live(DoubtSort(DCG()), world, 1, 0, rates=0.0)
    late = script.live(DoubtSort(DCG()), world, 1, 0, delay=1000)
    assert silent.lost.tolist() == late.lost.tolist()


def test_the_record_has_every_table_and_the_picture() -> None:
    tables = {table.title: table for table in records.read(records.FOLDER / "doubtsort.json").tables}
    assert {"Late and unequal answers", "Two of ten replaced", "Orders of sushi"} <= set(tables)
    assert tables["Items that come and go"].columns == ["lists", *(f"`{name}`" for name in script.LEARNERS)]
    assert 1_000 < script.PICTURE.stat().st_size < 100_000


def test_a_tiny_run_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "VISITS", 50)
    monkeypatch.setattr(script, "LEARNERS", ("greedy",))
    record, picture = tmp_path / "doubtsort.json", tmp_path / "picture.svg"
    script.main(["few", "--runs", "2", "--record", str(record), "--picture", str(picture)])
    (table,) = records.read(record).tables
    assert (table.title, table.columns[0], len(table.rows)) == ("Late and unequal answers", "learner", 2)
    assert all(isinstance(cell, records.Figure) and cell.sd is not None for cell in table.rows[0][1:])
    assert picture.exists()
