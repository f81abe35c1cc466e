"""CT15 Tables 1 and 2, and the vectors of its equation 8 and appendix: the game of SumLoss with three objects.

In the paper sigma maps an object to its rank: ``312`` ranks object 1 third.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import log2
from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

TABLE_1 = {
    "123": "0 3 2 5 1 4 3 6",
    "132": "0 2 3 5 1 3 4 6",
    "213": "0 3 1 4 2 5 3 6",
    "231": "0 1 3 4 2 3 5 6",
    "312": "0 2 1 3 3 5 4 6",
    "321": "0 1 2 3 3 4 5 6",
}
TABLE_2 = {
    "123": "0 0 0 0 1 1 1 1",
    "132": "0 0 0 0 1 1 1 1",
    "213": "0 0 1 1 0 0 1 1",
    "231": "0 1 0 1 0 1 0 1",
    "312": "0 0 1 1 0 0 1 1",
    "321": "0 1 0 1 0 1 0 1",
}
_LOG3 = log2(3)
_MIXED = (1 + _LOG3 / 2) / (1 + _LOG3)
_STEP = _LOG3 / (2 * (1 + _LOG3))
_ENDS = 3 / (2 * (1 + 1 / _LOG3))
_FOUR = (  # the order of appendix 15.1
    "0000", "0001", "0010", "0100", "1000", "0011", "0101", "1001",
    "0110", "1010", "1100", "0111", "1011", "1101", "1110", "1111",
)  # fmt: skip
SIGNALS_4 = {  # second rows of the signal matrices of appendix 15.1, by the object on top
    1: "0 0 0 0 1 0 0 1 0 1 1 0 1 1 1 1",
    2: "0 0 0 1 0 0 1 0 1 0 1 1 0 1 1 1",
    3: "0 0 1 0 0 1 0 0 1 1 0 1 1 0 1 1",
    4: "0 1 0 0 0 1 1 1 0 0 0 1 1 1 0 1",
}
_THREE = tuple("".join(map(str, r)) for r in product((0, 1), repeat=3))
_SAME = 1e-12


class Vectors(NamedTuple):
    """Two printed rows of the loss matrix of a measure, and their difference if printed. Gains stay gains."""

    where: str
    measure: str
    outcomes: tuple[str, ...]
    rows: dict[str, list[float]]
    difference: list[float] | None = None


VECTORS = (
    Vectors("14.1.1, DCG", "dcg", _THREE, {
        "123": [0, 1 / 2, 1 / _LOG3, 1 / 2 + 1 / _LOG3, 1, 3 / 2, 1 + 1 / _LOG3, 3 / 2 + 1 / _LOG3],
        "132": [0, 1 / _LOG3, 1 / 2, 1 / 2 + 1 / _LOG3, 1, 1 + 1 / _LOG3, 3 / 2, 3 / 2 + 1 / _LOG3],
    }),
    Vectors("15.1, NDCG", "ndcg", _THREE, {
        "123": [1, 1 / 2, 1 / _LOG3, _MIXED, 1, _ENDS, 1, 1],
        "321": [1, 1, 1 / _LOG3, 1, 1 / 2, _ENDS, _MIXED, 1],
    }, [0, -1 / 2, 0, -_STEP, 1 / 2, 0, _STEP, 0]),
    Vectors("15.1, MAP", "ap", _THREE, {
        "123": [1, 1 / 3, 1 / 2, 7 / 12, 1, 5 / 6, 1, 1],
        "321": [1, 1, 1 / 2, 1, 1 / 3, 5 / 6, 7 / 12, 1],
    }, [0, -2 / 3, 0, -5 / 12, 2 / 3, 0, 5 / 12, 0]),
    Vectors("15.1, AUC", "aucloss", _FOUR, {
        "1234": [0, 1, 2 / 3, 1 / 3, 0, 1, 3 / 4, 1 / 2, 1 / 2, 1 / 4, 0, 1, 2 / 3, 1 / 3, 0, 0],
        "4321": [0, 0, 1 / 3, 2 / 3, 1, 0, 1 / 4, 1 / 2, 1 / 2, 3 / 4, 1, 0, 1 / 3, 2 / 3, 1, 0],
    }, [0, 1, 1 / 3, -1 / 3, -1, 1, 1 / 2, 0, 0, -1 / 2, -1, 1, 1 / 3, -1 / 3, -1, 0]),
)  # fmt: skip


def action_of(game: Game, sigma: str) -> int:
    """Return the action that ranks the objects by sigma.

    >>> game = ranking_game("sumloss", m=3, k=1)
    >>> game.actions[action_of(game, "312")]
    '1 2 0'
    """
    order = sorted(range(len(sigma)), key=lambda item: sigma[item])
    return game.actions.index(" ".join(map(str, order)))


def loss_matrix() -> dict[str, list[int]]:
    """Compute Table 1: SumLoss of every permutation against every relevance vector.

    >>> loss_matrix()["213"]
    [0, 3, 1, 4, 2, 5, 3, 6]
    """
    game = ranking_game("sumloss", m=3, k=1)
    return {sigma: [int(x) for x in game.loss[action_of(game, sigma)]] for sigma in TABLE_1}


def feedback_matrix() -> dict[str, list[int]]:
    """Compute Table 2: the relevance of the object on top.

    >>> feedback_matrix()["213"]
    [0, 0, 1, 1, 0, 0, 1, 1]
    """
    game = ranking_game("sumloss", m=3, k=1)
    return {sigma: [game.symbols[s][0] for s in game.signals[action_of(game, sigma)]] for sigma in TABLE_2}


def reproduce_table_1(options: Options) -> Results:  # noqa: ARG001 - nothing random
    """Check the loss matrix, equation 8, and the vectors of the appendix."""
    here = loss_matrix()
    difference = np.subtract(here["123"], here["132"]).tolist()
    claims = [
        compare("Table 1, loss matrix of SumLoss, m = 3", TABLE_1, here),
        Claim("section 5, L_{3,4}", "4", str(here["213"][3]), here["213"][3] == 4),
        Claim(
            "equation 8, first row minus second", "0 1 -1 0 0 1 -1 0", _words(difference),
            difference == [0, 1, -1, 0, 0, 1, -1, 0],
        ),
        *(vector_claim(vectors) for vectors in VECTORS),
    ]  # fmt: skip
    return Results(claims, {"table-1": _table(here)}, data={"table-1": _frame(here)})


def reproduce_table_2(options: Options) -> Results:  # noqa: ARG001
    """Check the feedback matrix, and the signal matrix of equation 8."""
    here = feedback_matrix()
    game = ranking_game("sumloss", m=3, k=1)
    signals = [sorted(game.signal_matrix(action_of(game, s)).astype(int).tolist()) for s in ("123", "132")]
    printed = [[0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0]]
    claims = [
        compare("Table 2, feedback matrix, m = 3", TABLE_2, here),
        Claim("section 5, H_{3,4}", "1", str(here["213"][3]), here["213"][3] == 1),
        Claim(
            "equation 8, signals of the first two permutations", "the same, 1 1 1 1 0 0 0 0 and 0 0 0 0 1 1 1 1",
            " and ".join(_words(line) for line in reversed(signals[0])) + ", "
            + ("the same" if signals[0] == signals[1] else "not the same"),
            signals == [printed, printed],
        ),
        *signal_claims(),
    ]  # fmt: skip
    return Results(claims, {"table-2": _table(here)}, data={"table-2": _frame(here)})


def signal_claims() -> Iterator[Claim]:
    """Check the signal matrices of appendix 15.1 for every permutation: the complement, then the object on top."""
    for where, measure, outcomes, tops in (
        ("NDCG, MAP", "ndcg", _THREE, {n + 1: TABLE_2[s] for n, s in enumerate(("123", "213", "231"))}),
        ("AUC", "aucloss", _FOUR, SIGNALS_4),
    ):
        m = len(tops)
        game = ranking_game(measure, m, k=1)
        columns = [game.outcomes.index(" ".join(r)) for r in outcomes]
        printed = {top: [int(x) for x in row.split()] for top, row in tops.items()}
        right = 0
        for action, order in enumerate(game.actions):
            row = printed[int(order.split()[0]) + 1]
            right += game.signal_matrix(action)[:, columns].tolist() == [[1 - x for x in row], row]
        yield Claim(
            f"appendix 15.1, {where}: signal matrices, m = {m}",
            f"as printed, by the object on top, for all {len(game.actions)} permutations",
            count(right, len(game.actions)),
            right == len(game.actions),
        )


def compare(what: str, printed: dict[str, str], computed: dict[str, list[int]]) -> Claim:
    """Return a claim that a matrix equals the printed one."""
    same = [
        a == b
        for sigma, line in printed.items()
        for a, b in zip(map(int, line.split()), computed[sigma], strict=True)
    ]
    return Claim(what, f"{len(same)} entries as printed", f"{count(sum(same), len(same))} equal", all(same))


def vector_claim(vectors: Vectors) -> Claim:
    """Return a claim that printed rows of a measure, and their difference, equal those computed here."""
    m = len(vectors.outcomes[0])
    game = ranking_game(vectors.measure, m, k=1)
    columns = [game.outcomes.index(" ".join(r)) for r in vectors.outcomes]
    sign = 1 if vectors.measure == "aucloss" else -1  # AUC is a loss in the paper, the others are gains
    rows = [sign * game.loss[action_of(game, sigma)][columns] for sigma in vectors.rows]
    errors = [np.abs(row - printed) for row, printed in zip(rows, vectors.rows.values(), strict=True)]
    if vectors.difference is not None:
        errors.append(np.abs(rows[0] - rows[1] - vectors.difference))
    right = np.concatenate(errors) < _SAME
    return Claim(
        f"appendix {vectors.where}, rows {' and '.join(vectors.rows)}"
        + ("" if vectors.difference is None else ", and their difference"),
        f"{right.size} entries as printed",
        f"{count(int(right.sum()), right.size)} equal",
        bool(right.all()),
    )


def _table(matrix: dict[str, list[int]]) -> Table:
    return Table(("sigma", *_THREE), [(sigma, *line) for sigma, line in matrix.items()])


def _frame(matrix: dict[str, list[int]]) -> pl.DataFrame:
    table = _table(matrix)
    return pl.DataFrame(table.rows, list(table.heads), orient="row")


def _words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))
