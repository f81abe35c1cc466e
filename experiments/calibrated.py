"""A surrogate that is calibrated for NDCG, played: no learner that sees the top k only has sublinear regret in it.

The items are fixed, so that scores and weights are the same. The lists are drawn from one of two distributions
that k answers cannot tell apart. Whatever scores a learner comes to, it loses gap x T or more on the two together
(docs/surrogates.md, Theorem 2). The regret of a learner of the surrogate that sees all grows as sqrt(T) at
most. Learners of another surrogate, `squared`, aim elsewhere, so theirs is linear even if they see all.

    python experiments/calibrated.py                             print the table
    python experiments/calibrated.py --page docs/surrogates.md   put it into the page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from peekrank.advice import Witness, advise_surrogate
from peekrank.engine import generator
from peekrank.files import put_into
from peekrank.games.classify import analyse
from peekrank.games.ranking import ranking_game
from peekrank.games.witness import Adversaries, adversaries
from peekrank.learners.rtopkf import RTopKF
from peekrank.surrogates import NDCGSquared, Squared
from peekrank.types import Floats, Grades, Ints, Shape

AT = np.array([10_000, 20_000, 40_000])
RUNS = 5
BEGIN = "<!-- begin: python experiments/calibrated.py --page docs/surrogates.md -->"


class Player(NamedTuple):
    """A learner that sees k answers or all; without a learner, it knows both adversaries and plays the middle."""

    learner: RTopKF | None
    sees_all: bool = False


LEARNERS = {
    "squared": Player(RTopKF(Squared())),
    "squared, doubly robust, temperature 1": Player(RTopKF(Squared(), estimator="doubly_robust", temperature=1.0)),
    "squared, sees all": Player(RTopKF(Squared()), sees_all=True),
    "knows both, plays the middle": Player(None),
    "ndcgsquared, sees all": Player(RTopKF(NDCGSquared()), sees_all=True),
}


class Cell(NamedTuple):
    """A pair of adversaries: those of the certificate of the game of NDCG, or those of the parity."""

    m: int
    k: int
    parity: bool = False

    def __str__(self) -> str:
        return f"m = {self.m}, k = {self.k}, {'parity' if self.parity else 'certificate of `ndcg`'}"


CELLS = (Cell(3, 1), Cell(4, 2), Cell(3, 2, parity=True))


class Pair(NamedTuple):
    """Lists, their probabilities on either side, and the gap in the calibrated surrogate."""

    relevance: Grades
    p: Floats
    q: Floats
    gap: float


class Played(NamedTuple):
    """Regret of one learner on one pair: (2 sides, round counts, runs)."""

    cell: Cell
    gap: float
    learner: str
    at: Ints
    regret: Floats

    @property
    def a_round(self) -> Floats:
        """Regret over rounds, at the end; (sides, runs)."""
        return np.asarray(self.regret[:, -1] / self.at[-1])

    @property
    def exponent(self) -> float:
        """Slope of log(regret on p + regret on q) against log(rounds) at the end."""
        before, after = self.regret.sum(axis=0).mean(axis=1)[-2:]
        return float(np.log(after / before) / np.log(self.at[-1] / self.at[-2]))


def pair_of(cell: Cell) -> Pair:
    """The two adversaries of a cell."""
    found: Witness | Adversaries | None
    if cell.parity:
        found = advise_surrogate(NDCGSquared(), cell.m, cell.k).witness
    else:
        found = adversaries(analyse(ranking_game("ndcg", cell.m, cell.k)))
    if found is None:
        raise ValueError(f"{cell}: too many lists to write down")
    lists = found.relevance if isinstance(found, Witness) else list(product((0, 1), repeat=cell.m))
    relevance, p, q = np.array(lists, dtype=np.uint8), np.array(found.p, float), np.array(found.q, float)
    distance = best_scores(relevance, p) - best_scores(relevance, q)
    return Pair(relevance, p, q, float(distance @ distance) / 2)


def best_scores(relevance: Grades, chances: Floats) -> Floats:
    """The expected target, which the surrogate is least at."""
    return np.asarray(chances @ np.array([NDCGSquared().target(row) for row in relevance]))


def regret_of(learner: RTopKF, k: int, lists: Grades, best: Floats, at: Ints, seed: int) -> Floats:
    """Regret after some numbers of rounds; that of a round is its expectation over the list, |w - best|^2."""
    m = lists.shape[1]
    shape = Shape(m, m, k)
    state, X, rng = learner.init(shape), np.eye(m, dtype=np.float32), generator(seed)
    ranking, token = np.empty(m, dtype=np.int64), np.zeros(learner.token_size(shape))
    rank, update = learner.kernels
    weights = np.empty((len(lists), m))
    for t, draws in enumerate(rng.random((len(lists), learner.draws(shape)))):
        weights[t] = state.w
        token[:] = 0
        rank(state, X, draws, ranking, token)
        update(state, X, ranking, token, lists[t, ranking[: shape.k]].astype(np.float64))
    return np.asarray(np.cumsum(np.sum((weights - best) ** 2, axis=1))[at - 1])


def play(cell: Cell, at: Ints, runs: int, say: Callable[[str], object]) -> list[Played]:
    """All learners on both adversaries of a cell."""
    relevance, *sides, gap = pair_of(cell)
    best = [best_scores(relevance, side) for side in sides]
    middle = (best[0] + best[1]) / 2
    found = []
    for name, (learner, sees_all) in LEARNERS.items():
        k = cell.m if sees_all else cell.k
        regret = np.empty((2, len(at), runs))
        for side, run in product((0, 1), range(runs)):
            if learner is None:
                regret[side, :, run] = at * np.sum((middle - best[side]) ** 2)
                continue
            chosen = np.random.default_rng([run, side]).choice(len(relevance), size=at[-1], p=sides[side])
            regret[side, :, run] = regret_of(learner, k, relevance[chosen], best[side], at, seed=run)
        found.append(Played(cell, gap, name, at, regret))
        say(f"{cell}: {name} done")
    return found


def table(results: Sequence[Played]) -> list[str]:
    """A table in Markdown, at the last round; +- is the standard deviation over runs."""
    lines = ["| pair | gap | learner | regret / T on p | on q | sum | exponent |", "|---|---|---|---|---|---|---|"]
    for r in results:
        numbers = (*r.a_round, r.a_round.sum(axis=0))
        on_p, on_q, total = (f"{x.mean():.4f} ± {x.std(ddof=1):.4f}" for x in numbers)
        lines.append(f"| {r.cell} | {r.gap:.4f} | {r.learner} | {on_p} | {on_q} | {total} | {r.exponent:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play adversaries against learners of calibrated surrogates.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results: list[Played] = []
    for cell in CELLS:
        results += play(cell, AT, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results)
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
