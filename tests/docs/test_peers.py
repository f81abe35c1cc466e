"""What the comparisons with other packages say of peekrank itself; the packages are not needed."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest
from rich.table import Table

from helpers.scripts import load_benchmark
from peekrank import DCG, RTop1F, analyse
from peekrank.games.rates import Rate


class Rounds(NamedTuple):
    """The parts of the script, which are found once it has run."""

    playing: Any
    items: Any
    users: Any


@pytest.fixture(scope="module")
def rounds() -> Rounds:
    load_benchmark("peers/rounds")
    return Rounds(*(import_module(f"peers.{part}") for part in Rounds._fields))


def test_step_by_step_and_simulated_are_the_same(rounds: Rounds) -> None:
    task, learner, playing = rounds.items.coins(0), RTop1F(DCG(), horizon=10_000), rounds.playing
    stepwise = playing.stepwise(partial(playing.Ours, learner))(task, 3)
    assert stepwise[1:] == playing.compiled(learner)(task, 3)[1:]
    assert stepwise.quality > playing.at_random(task) + 0.1


def test_each_item_has_the_users_features_in_columns_of_its_own(rounds: Rounds) -> None:
    task, traits = rounds.users.users(0), rounds.users.TRAITS
    item, block = 3, slice(3 * traits, 4 * traits)
    shown = task.tests[:, item]
    assert np.array_equal(shown[:, block], task.users[rounds.users.USERS :].astype(np.float32))
    assert np.count_nonzero(shown) == np.count_nonzero(shown[:, block])


def test_arms_are_ordered_by_the_means_of_what_they_told(rounds: Rounds) -> None:
    arms = rounds.items.Arms()
    arms.m = 4
    log = [((2,), [1]), ((0,), [0]), ((3,), [1]), ((3,), [0])]
    assert arms.orders(log).tolist() == [[2, 3, 0, 1]]


# ranx, which `make bench` installs, warns while Python and numba compile it
@pytest.mark.filterwarnings("ignore:.*unsafe cast from uint64 to int64", "ignore:invalid escape sequence")
def test_measures_are_those_of_scikit_learn() -> None:
    metrics = load_benchmark("peers/metrics")
    for asked in metrics.QUESTIONS:
        table = Table(*["column"] * 7)
        metrics.compare(asked, 12, 50, table)  # ends the program where tools differ
        assert table.row_count >= 3


def test_rates_are_the_known_ones_and_where_pmlibs_rules_differ() -> None:
    classification = load_benchmark("peers/classification")
    differing = {}
    for case in classification.cases():
        found = analyse(case.make())
        assert found.rate == case.rate, case.name
        if not case.rules and (theirs := classification.by_pmlibs_rules(found)) != case.rate:
            differing[case.name] = theirs
    assert differing == {"trivial": Rate.LINEAR, "all-alike": Rate.SQRT, "an action never played": Rate.LINEAR}
