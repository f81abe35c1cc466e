"""Compare the rates of finite games by peekrank's analyser with pmlib's rules, and measure the time.

pmlib (github.com/TanguyUrvoy/pmlib, 2017) is written for Python 2 and the Parma Polyhedra Library, and is not run
here. The comparison uses what it publishes: its games, and its rules as its source states them. Cells, and what is
locally observable, come from peekrank: the column shows where the rules differ, and is no check of peekrank. The
check is the known rate: from papers, for ranking games from the theorems of docs/games/rates.md.

    python benchmarks/peers/classification.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where clock.py is

import numpy as np
from clock import timed
from rich.console import Console
from rich.table import Table

from peekrank import Game, analyse, ranking_game, rate_of
from peekrank.games.analysis import Analysis
from peekrank.games.classic import CLASSIC, apple_tasting, bandit, classic, dynamic_pricing
from peekrank.games.rates import Rate


class Case(NamedTuple):
    """A game and its rate by the literature or by a theorem."""

    name: str
    make: Callable[[], Game]
    rate: Rate | None
    rules: str = ""  # what pmlib cannot do with it
    differs: str = ""


def duel(arms: int) -> Game:
    """Make the duelling bandit: pull two arms, see which wins, and lose the mean of both losses."""
    outcomes = list(product((0, 1), repeat=arms))
    pairs = list(combinations_with_replacement(range(arms), 2))
    return Game.of(
        [[1 - (won[i] + won[j]) / 2 for won in outcomes] for i, j in pairs],
        [[won[i] - won[j] for won in outcomes] for i, j in pairs],
    )


def never_played() -> Game:
    """Make a game with two informative actions, and one that is never best and cannot be estimated."""
    return Game.of([[0, 1, 1], [1, 0, 0], [2, 2, 3]], [["x", "y", "y"]] * 3)


def one_way_out() -> Game:
    """Make a game in which each action has zero loss for one of three outcomes and reveals whether it occurred."""
    return Game.of(
        [[1, 1, 0], [0, 1, 1], [1, 0, 1]],
        [["a", "b", "b"], ["b", "a", "b"], ["b", "b", "a"]],
    )


def cases() -> Iterator[Case]:
    yield Case("bandit, 3 arms (pmlib's)", partial(bandit, 3), Rate.SQRT)
    yield Case("bandit, 4 arms (pmlib's)", partial(bandit, 4), Rate.SQRT)
    yield Case("dynamic pricing, 4 prices (pmlib's)", partial(dynamic_pricing, range(4)), Rate.TWO_THIRDS)
    yield Case("dynamic pricing, 6 prices (pmlib's)", partial(dynamic_pricing, range(6)), Rate.TWO_THIRDS)
    yield Case("Bartok's example (pmlib's)", one_way_out, Rate.SQRT)
    yield Case("apple tasting (pmlib's)", apple_tasting, Rate.SQRT)
    yield Case("duelling bandit, 3 arms (pmlib's)", partial(duel, 3), Rate.SQRT)
    yield Case("duelling bandit, 4 arms (pmlib's)", partial(duel, 4), Rate.SQRT)
    for name in ("label-efficient", "cheap-labels", "telling-degenerate", "telling-corner", "blind-pennies"):
        yield Case(name, partial(classic, name), CLASSIC[name].rate)
    often = "it calls a game trivial if all actions but one are never best"
    yield Case("trivial", partial(classic, "trivial"), Rate.ZERO, differs=often)
    yield Case("all-alike", partial(classic, "all-alike"), Rate.ZERO, differs=often)
    every = "it asks of actions that are never best whether they can be estimated"
    yield Case("an action never played", never_played, Rate.SQRT, differs=every)
    for measure, m, k in (("p@2+sum", 3, 1), ("p@2+sum", 4, 1), ("sumloss", 4, 1), ("ap", 4, 2)):
        rate = rate_of(measure, m, k).rate
        yield Case(f"{measure}, m = {m}, k = {k}", partial(ranking_game, measure, m, k), rate)
    reason = "its library takes whole numbers, and cuts others off; these losses are irrational"
    for measure in ("dcg", "ndcg"):
        rate = rate_of(measure, 4, 1).rate
        yield Case(f"{measure}, m = 4, k = 1", partial(ranking_game, measure, 4, 1), rate, "cannot", reason)


def by_pmlibs_rules(found: Analysis) -> Rate:
    """Return the class of a game by pmlib's rules.

    Trivial if just one action is ever best; else intractable if the feedback of all actions does not tell the loss
    difference of every pair; else easy if that of N+ does for neighbours, hard if not. Degenerate actions count as
    neighbours. Inside a border they change nothing: their difference to its two sides is a part of that of these.
    At the rim of the simplex they could; of the games here only telling-corner has one, whose feedback tells all.
    """
    game, cells = found.game, found.cells
    if cells is None:
        raise ValueError("undecided")
    if sum(kind != "dominated" for kind in cells.kind) == 1:
        return Rate.ZERO
    signals = np.vstack([game.signal_matrix(action) for action in range(len(game.actions))]).astype(float)
    rank = np.linalg.matrix_rank(signals)
    for i, j in combinations(range(len(game.actions)), 2):
        if np.linalg.matrix_rank(np.vstack([signals, game.loss[i] - game.loss[j]])) > rank:
            return Rate.LINEAR
    return Rate.SQRT if found.locally_observable else Rate.TWO_THIRDS


def main() -> None:
    table = Table(
        "game", "known rate", "peekrank", "seconds", "pmlib's rules", "how the task differs",
        title="the rate of regret",
    )  # fmt: skip
    analyse(apple_tasting())  # imports
    for case in cases():
        took, found = timed(partial(analyse, case.make()))
        rules = case.rules or str(by_pmlibs_rules(found))
        right, theirs = (rate == case.rate for rate in (found.rate, rules))
        table.add_row(
            case.name, str(case.rate), str(found.rate) + ("" if right else ", WRONG"), f"{took:.3f}",
            rules + ("" if case.rules or theirs else ", differs"), case.differs, style="" if right else "red",
        )  # fmt: skip
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
