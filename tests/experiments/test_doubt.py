"""The script behind the figures on doubtsort's page: compiled and live runs agree, and the page has its tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.scripts import ROOT, load_experiment
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


def test_the_page_has_every_table_and_the_picture() -> None:
    page = (ROOT / "docs" / "learners" / "doubtsort.md").read_text(encoding="utf-8")
    inside = page.partition(script.BEGIN)[2].partition("<!-- end -->")[0]
    titles = "Few answers", "Items that come and go", "A new best item", "Two of ten replaced", "Orders of sushi"
    for title in titles:
        assert f"**{title}" in inside
    for name in script.LEARNERS:
        assert f"`{name}`" in inside
    assert 1_000 < script.PICTURE.stat().st_size < 100_000
