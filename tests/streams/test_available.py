"""Items that come and go: who is available when, how often, and with which relevance."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from peekrank import Available, Rounds, available_items, fixed_items
from peekrank.streams.available import Rule
from peekrank.streams.fixed import known_items, list_lengths
from peekrank.types import Ints

RULES: list[Rule] = ["random", "blocks", "rare", "churn", "joining", "replaced"]


def lists(rounds: Rounds) -> list[list[int]]:
    assert rounds.items is not None
    return [part.tolist() for part in np.split(rounds.items, rounds.offsets[1:-1])]


def items_of(rounds: Rounds) -> Ints:
    assert rounds.items is not None
    return rounds.items


@pytest.mark.parametrize("rule", RULES)
def test_lists_ascend_and_relevance_has_its_means(rule: Rule) -> None:
    stream = Available(m=12, n=8, rule=rule)
    rounds, means = stream.rounds(20_000, np.random.default_rng(1)), stream.means(np.random.default_rng(1))
    items = items_of(rounds)
    assert all(np.diff(part).min() > 0 for part in lists(rounds)[::100])
    assert np.sort(means) == pytest.approx(np.linspace(0.05, 0.9, 12))
    for item in range(12):
        grades = rounds.relevance[items == item]
        assert len(grades) > 500
        assert abs(grades.mean() - means[item]) < 4 * np.sqrt(0.25 / len(grades))


def test_random_lists_hold_every_item_equally_often() -> None:
    rounds = Available(m=10, n=3).rounds(20_000, np.random.default_rng(0))
    counts = np.bincount(items_of(rounds)) / 20_000
    assert np.abs(counts - 0.3).max() < 5 * np.sqrt(0.21 / 20_000)
    assert len({tuple(part) for part in lists(rounds)}) == 120  # all there are


def test_the_better_an_item_the_rarer_it_is() -> None:
    stream = Available(m=10, n=3, rule="rare")
    counts = np.bincount(items_of(stream.rounds(20_000, np.random.default_rng(0))))
    order = np.argsort(stream.means(np.random.default_rng(0)))
    assert (np.diff(counts[order]) < 0).all()


def test_blocks_change_a_hundred_times() -> None:
    shown = lists(Available(m=20, n=5, rule="blocks").rounds(1000, np.random.default_rng(0)))
    changes = [t for t in range(1, 1000) if shown[t] != shown[t - 1]]
    assert changes == list(range(10, 1000, 10))
    assert len(lists(Available(m=20, n=5, rule="blocks").rounds(7, np.random.default_rng(0)))) == 7


def test_churn_replaces_one_at_a_time_and_no_item_comes_back() -> None:
    shown = lists(Available(m=9, n=4, rule="churn").rounds(600, np.random.default_rng(0)))
    gone: set[int] = set()
    for before, after in pairwise(shown):
        gone |= set(before) - set(after)
        assert not gone & set(after)
        assert len(set(after) - set(before)) <= 1
    assert [t for t in range(1, 600) if shown[t] != shown[t - 1]] == [100, 200, 300, 400, 500]
    assert len(gone) == 5


def test_joining_makes_lists_longer_and_brings_the_best() -> None:
    stream = Available(m=6, n=4, rule="joining")
    shown = lists(stream.rounds(11, np.random.default_rng(0)))
    assert shown == [[0, 1, 2, 3]] * 6 + [[0, 1, 2, 3, 4, 5]] * 5
    assert stream.means(np.random.default_rng(0)).argmax() == 5


def test_replaced_changes_once() -> None:
    shown = lists(Available(m=6, n=4, rule="replaced").rounds(10, np.random.default_rng(0)))
    assert shown[:5] == [[0, 1, 2, 3]] * 5
    assert shown[5:] == [shown[5]] * 5
    assert set(shown[5]) > {4, 5}
    with pytest.raises(ValueError, match=r"m = 9: must be at most 2 n = 8"):
        Available(m=9, n=4, rule="replaced")


@pytest.mark.parametrize(("name", "bad"), [("m", 1), ("n", 0), ("n", 51), ("rule", "never"), ("grade", 256)])
def test_bad_parameters(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} = "):
        Available(**{name: bad})


def test_available_items_are_those_of_the_mask() -> None:
    rng = np.random.default_rng(0)
    relevance, mask = rng.integers(0, 4, (30, 5)), rng.random((30, 5)) < 0.5
    mask[:, 2] = True
    rounds = available_items(relevance, mask)
    assert lists(rounds) == [np.flatnonzero(row).tolist() for row in mask]
    assert rounds.relevance.tolist() == relevance[mask].tolist()
    assert list_lengths(rounds).tolist() == mask.sum(axis=1).tolist()
    assert known_items(rounds) == items_of(rounds).max() + 1
    mask[3] = False
    with pytest.raises(ValueError, match="at least one item in every round"):
        available_items(relevance, mask)
    with pytest.raises(ValueError, match=r"available of shape \(30, 4\)"):
        available_items(relevance, mask[:, :4])


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (np.array([0, 1, 1, 0]), "ascending"),
        (np.array([0, 1, -1, 0]), "of at least 0"),
        (np.array([0, 1, 2]), "one for each row"),
        (np.array([0.0, 1, 0, 1]), "int64"),
    ],
)
def test_bad_items_of_rounds(items: Any, what: str) -> None:
    with pytest.raises(ValueError, match=f"items of the rounds: .*{what}"):
        list_lengths(fixed_items([[0, 1], [1, 0]])._replace(items=items))


def test_ascending_within_each_round_is_enough() -> None:
    rounds = fixed_items([[0, 1], [1, 0]])._replace(items=np.array([3, 4, 0, 4]))
    assert list_lengths(rounds).tolist() == [2, 2]
    assert known_items(rounds) == 5
