"""Simulations of a surrogate calibrated for NDCG: no learner that sees only the top k has sublinear regret in it.

The items are fixed, so scores and weights are the same. The lists come from one of two distributions that k
answers cannot distinguish. The total loss of every learner on the two is at least gap x T
(docs/theory/surrogates.md, Theorem 2). The regret of a learner of the surrogate that sees everything grows at most
as sqrt(T). Learners of another surrogate, `squared`, have another optimum, so their regret is linear even if they
see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank._util.text import pluralize
from peekrank.advice import Witness, advise_surrogate
from peekrank.engine import make_rng
from peekrank.games.analysis import analyse
from peekrank.games.certificate import Adversaries, adversaries
from peekrank.games.ranking import ranking_game
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.record import Claim, Heartbeat, Options, Results, count, mean_reaches
from peekrank.reports.markup import Table
from peekrank.surrogates import NDCGSquared, Squared
from peekrank.types import Floats, Grades, Ints, Shape

AT = np.array([10_000, 20_000, 40_000])
RUNS = 5
QUICK, QUICK_RUNS = np.array([1_000, 2_000, 4_000]), 4
NEAR = 0.1  # tolerance of the exponent with full feedback
ALIKE = 0.2  # relative tolerance of a regret
TRIED = 1_000  # random scores
BEAT = 1_000  # rounds between checks for Ctrl-C
MIDDLE, KNOWS = "knows both, plays the middle", "ndcgsquared, sees all"
AIMS_ELSEWHERE = "squared, sees all"
_SAME = 1e-12


class Player(NamedTuple):
    """A learner that sees k answers or all. Without a learner, it knows both adversaries and plays the middle."""

    learner: RTopKF | None
    sees_all: bool = False


LEARNERS = {
    "squared": Player(RTopKF(Squared(), clip=0.0)),
    "squared, doubly robust, temperature 1": Player(
        RTopKF(Squared(), estimator="doubly_robust", clip=0.0, temperature=1.0)
    ),
    AIMS_ELSEWHERE: Player(RTopKF(Squared()), sees_all=True),
    MIDDLE: Player(None),
    KNOWS: Player(RTopKF(NDCGSquared()), sees_all=True),
}


class Cell(NamedTuple):
    """A pair of adversaries: from the certificate of the NDCG game, or by parity."""

    m: int
    k: int
    parity: bool = False

    def __str__(self) -> str:
        return f"m = {self.m}, k = {self.k}, {'parity' if self.parity else 'certificate of `ndcg`'}"

    @property
    def file(self) -> str:
        """Name of the file with its results."""
        return f"m{self.m}-k{self.k}-{'parity' if self.parity else 'certificate'}"


CELLS = (Cell(3, 1), Cell(4, 2), Cell(3, 2, parity=True))


class Pair(NamedTuple):
    """Lists, their probabilities on either side, and the gap in the calibrated surrogate."""

    relevance: Grades
    p: Floats
    q: Floats
    gap: float


class PairResult(NamedTuple):
    """Regret of one learner on one pair: (2 sides, round counts, runs)."""

    cell: Cell
    gap: float
    learner: str
    checkpoints: Ints
    regret: Floats

    @property
    def a_round(self) -> Floats:
        """Final regret per round, (sides, runs)."""
        return np.asarray(self.regret[:, -1] / self.checkpoints[-1])

    @property
    def late(self) -> Floats:
        """Regret per round since the last but one checkpoint, (sides, runs)."""
        return np.asarray(
            (self.regret[:, -1] - self.regret[:, -2]) / (self.checkpoints[-1] - self.checkpoints[-2])
        )

    @property
    def exponent(self) -> float:
        """Slope of log(regret on p + regret on q) against log(rounds) at the end."""
        before, after = self.regret.sum(axis=0).mean(axis=1)[-2:]
        return float(np.log(after / before) / np.log(self.checkpoints[-1] / self.checkpoints[-2]))


def reproduce(options: Options) -> Results:
    """Run all pairs."""
    checkpoints, runs = (QUICK, QUICK_RUNS) if options.quick else (AT, RUNS)

    def job(cell: Cell) -> Callable[[Heartbeat], pl.DataFrame]:
        return lambda alive: as_frame(play(cell, checkpoints, runs, alive=alive))

    one_by_one = options._replace(workers=1)  # rounds run in Python, one thread at a time
    found = one_by_one.frames({cell.file: job(cell) for cell in CELLS})
    results = [played for cell in CELLS for played in as_played(cell, found[cell.file])]
    titled = [found[cell.file].with_columns(pair=pl.lit(str(cell).replace("`", ""))) for cell in CELLS]
    data = pl.concat(titled).select("pair", pl.exclude("pair"))
    return Results(list(claims(results)), {"pairs": table(results)}, data={"pairs": data})


def as_frame(results: Sequence[PairResult]) -> pl.DataFrame:
    """Return a row for each learner, number of rounds and run."""
    return pl.DataFrame(
        [
            {"gap": r.gap, "learner": r.learner, "rounds": int(t), "run": run, "on_p": r.regret[0, h, run],
             "on_q": r.regret[1, h, run]}
            for r in results
            for (h, t), run in product(enumerate(r.checkpoints), range(r.regret.shape[2]))
        ]
    )  # fmt: skip


def as_played(cell: Cell, frame: pl.DataFrame) -> list[PairResult]:
    """Invert `as_frame`."""
    found = []
    for (learner,), mine in frame.group_by("learner", maintain_order=True):
        checkpoints = mine["rounds"].unique(maintain_order=True).to_numpy()
        sides = np.array([mine[side].to_numpy().reshape(len(checkpoints), -1) for side in ("on_p", "on_q")])
        found.append(PairResult(cell, mine["gap"][0], str(learner), checkpoints, sides))
    return found


def claims(results: Sequence[PairResult]) -> Iterator[Claim]:
    """Yield claims on each pair, on learners that see k answers, and on learners that see all."""
    for cell in dict.fromkeys(r.cell for r in results):
        mine = {r.learner: r for r in results if r.cell == cell}
        pair = pair_of(cell)
        yield from pair_claims(cell, pair)
        blind = [r for name, r in mine.items() if name != MIDDLE and not LEARNERS[name].sees_all]
        best = min(blind, key=lambda r: r.a_round.sum(axis=0).mean())
        total = best.a_round.sum(axis=0)
        yield Claim(
            f"{cell}: regret per round on p plus that on q of learners that see {cell.k}, "
            f"{best.checkpoints[-1]:,} rounds",
            f"{pair.gap:.4f} at least, within the 95 % interval of the mean",
            f"{_spread(total)} at least, of {len(blind)}: {best.learner}",
            mean_reaches(total, pair.gap),
        )
        late, target = mine[AIMS_ELSEWHERE].late.sum(axis=0), far_off(pair)
        yield Claim(
            f"{cell}: {AIMS_ELSEWHERE}: the same in the last half of the rounds",
            f"{target:.4f} ± {ALIKE:.0%}, which is |E R - E y|^2 on both sides: it aims at E R",
            _spread(late),
            bool(abs(late.mean() - target) <= ALIKE * target),
        )
        full = mine[KNOWS]
        yield Claim(
            f"{cell}: {KNOWS}: exponent of its regret on both together",
            f"1/2 + {NEAR} at most: all answers suffice, {cell.k} do not",
            f"{full.exponent:.2f} ({full.regret.shape[2]} runs)",
            full.exponent <= 1 / 2 + NEAR,
        )


def far_off(pair: Pair) -> float:
    """Return the cost per round of playing E R, on both sides together.

    >>> round(far_off(pair_of(CELLS[0])), 4)
    0.1244
    """
    sides = (side @ pair.relevance - best_scores(pair.relevance, side) for side in (pair.p, pair.q))
    return sum(float(distance @ distance) for distance in sides)


def _spread(values: Floats) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f} ({len(values)} runs)"


def pair_claims(cell: Cell, pair: Pair) -> Iterator[Claim]:
    """Yield the claims that k answers do not distinguish the sides, and that all scores lose at least the gap."""
    relevance, p, q, gap = pair
    sets = list(combinations(range(cell.m), cell.k))
    alike = 0
    for seen in sets:
        _, answers = np.unique(relevance[:, seen], axis=0, return_inverse=True)
        on_p, on_q = (np.bincount(answers.ravel(), side) for side in (p, q))
        alike += bool(np.abs(on_p - on_q).max() < _SAME)
    yield Claim(
        f"{cell}: {pluralize(cell.k, 'answer')} cannot distinguish p and q",
        "all answers equally likely on both, for every choice of items",
        count(alike, len(sets)),
        alike == len(sets),
    )

    def value(scores: Floats, probabilities: Floats) -> float:
        return float(probabilities @ [NDCGSquared().value(scores, row) for row in relevance.astype(np.float64)])

    best = [best_scores(relevance, side) for side in (p, q)]
    least, rng = value(best[0], p) + value(best[1], q), np.random.default_rng(0)
    middle, scales = (best[0] + best[1]) / 2, rng.uniform(0, 0.5, TRIED)
    lost = min(value(middle + rng.normal(scale=scale, size=cell.m), p + q) - least for scale in scales)
    yield Claim(
        f"{cell}: no scores lose less than the gap on both together",
        f"{gap:.4f} at least, with {TRIED:,} random scores",
        f"{lost:.4f} at least",
        lost >= gap - _SAME,
    )


def pair_of(cell: Cell) -> Pair:
    """Return the two adversaries of a cell."""
    proof: Witness | Adversaries | None
    if cell.parity:
        proof = advise_surrogate(NDCGSquared(), cell.m, cell.k).witness
    else:
        proof = adversaries(analyse(ranking_game("ndcg", cell.m, cell.k)))
    if proof is None:
        raise ValueError(f"{cell}: too many lists to write down")
    lists = proof.relevance if isinstance(proof, Witness) else list(product((0, 1), repeat=cell.m))
    relevance, p, q = np.array(lists, dtype=np.uint8), np.array(proof.p, float), np.array(proof.q, float)
    distance = best_scores(relevance, p) - best_scores(relevance, q)
    return Pair(relevance, p, q, float(distance @ distance) / 2)


def best_scores(relevance: Grades, probabilities: Floats) -> Floats:
    """Return the expected target, which minimises the surrogate."""
    return np.asarray(probabilities @ np.array([NDCGSquared().target(row) for row in relevance]))


def regret_of(
    learner: RTopKF,
    k: int,
    lists: Grades,
    best: Floats,
    checkpoints: Ints,
    seed: int,
    alive: Heartbeat = lambda: None,
) -> Floats:
    """Return the regret at the checkpoints. The regret of a round is its expectation over lists, |w - best|^2."""
    m = lists.shape[1]
    shape = Shape(m, m, k)
    state, X, rng = learner.init(shape), np.eye(m, dtype=np.float32), make_rng(seed)
    ranking, token = np.empty(m, dtype=np.int64), np.zeros(learner.token_size(shape))
    rank, update = learner.kernels[:2]
    weights = np.empty((len(lists), m))
    for t, draws in enumerate(rng.random((len(lists), learner.n_uniforms(shape)))):
        if t % BEAT == 0:
            alive()
        weights[t] = state.w
        token[:] = 0
        rank(state, X, draws, ranking, token)
        update(state, X, ranking, token, lists[t, ranking[: shape.k]].astype(np.float64))
    return np.asarray(np.cumsum(np.sum((weights - best) ** 2, axis=1))[checkpoints - 1])


def play(
    cell: Cell,
    checkpoints: Ints,
    runs: int,
    say: Callable[[str], object] = lambda _: None,
    alive: Heartbeat = lambda: None,
) -> list[PairResult]:
    """Run all learners on both adversaries of a cell."""
    relevance, *sides, gap = pair_of(cell)
    best = [best_scores(relevance, side) for side in sides]
    middle = (best[0] + best[1]) / 2
    found = []
    for name, (learner, sees_all) in LEARNERS.items():
        k = cell.m if sees_all else cell.k
        regret = np.empty((2, len(checkpoints), runs))
        for side, run in product((0, 1), range(runs)):
            if learner is None:
                regret[side, :, run] = checkpoints * np.sum((middle - best[side]) ** 2)
                continue
            chosen = np.random.default_rng([run, side]).choice(len(relevance), size=checkpoints[-1], p=sides[side])
            regret[side, :, run] = regret_of(learner, k, relevance[chosen], best[side], checkpoints, run, alive)
        found.append(PairResult(cell, gap, name, checkpoints, regret))
        say(f"{cell}: {name} done")
    return found


def table(results: Sequence[PairResult]) -> Table:
    """Return a table of the final regret per round; ± is the standard deviation over runs."""
    rows = []
    for r in results:
        numbers = (*r.a_round, r.a_round.sum(axis=0))
        cells = (f"{x.mean():.4f} ± {x.std(ddof=1):.4f}" for x in numbers)
        rows.append((r.cell, f"{r.gap:.4f}", r.learner, *cells, f"{r.exponent:.2f}"))
    return Table(("pair", "gap", "learner", "regret / T on p", "on q", "sum", "exponent"), rows)
