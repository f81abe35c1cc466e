"""Compare with algorithms of others: click bandits, linear bandits, and SmoothDCG with an epsilon that falls.

Each algorithm is as its paper prints it, with constants that were fixed beforehand. All of a table see the same
lists, relevance and seeds, which nothing was tuned on.

- Clicks: TopRank (Lattimore, Kveton, Li & Szepesvari 2018) and CascadeUCB1 (Kveton, Szepesvari, Wen & Ashkan 2015)
  against doubtsort with declared examination. DCG@5 by true relevance that is lost.
- Features: LinUCB (Li, Chu, Langford & Schapire 2010) and linear Thompson sampling (Agrawal & Goyal 2013) against
  ridge. NDCG@10 of the order learned, on lists that were not learned from, and relevance on top while learning.
- SmoothDCG, whose epsilon falls geometrically from 1 to 0.01, against fixed ones and KL.

    python experiments/baselines.py                          print the tables (half an hour)
    python experiments/baselines.py --tables clicks          one of them: clicks, features or smooth
    python experiments/baselines.py --record                 write them into records/baselines.json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import erf, log, pi, sqrt
from typing import NamedTuple

import numpy as np
import records
from numpy.random import Generator
from ridge import Split, generated

from peekrank import DCG, KL, Agent, Bernoulli, Ridge, RTopKF, SmoothDCG, simulate
from peekrank.data.generated import Kind
from peekrank.engine import run_agents
from peekrank.learners import learner
from peekrank.learners.rtopkf.state import RTopKFState
from peekrank.papers.ct16.figure import passes
from peekrank.papers.ours.judged import held_out
from peekrank.streams import Clicks
from peekrank.streams.clicks import Cascade, ClickModel, DependentClick, PositionBased, draw_clicks
from peekrank.types import Floats, Grades, Ints, Shape

FIRST_SEED = 910_000
RUNS = 10
M, K, ROUNDS = 10, 5, 20_000
MEANS = {"far apart": np.linspace(0.9, 0.1, M), "close": np.linspace(0.35, 0.15, M)}
PEOPLE: dict[str, ClickModel] = {
    "look at position p with probability 1/p": PositionBased(tuple(1 / np.arange(1.0, K + 1))),
    "leave after a click": Cascade(),
    "stay with probability 1/2 after a click": DependentClick((0.5,) * K),
}
TOP = DCG(K)
ON_TOP = DCG(1, gains="linear")
LISTS, QUERIES = 2_000, 20_000  # rounds of the second and third table
KINDS: tuple[Kind, ...] = ("linear", "query", "misspecified")
STEPS = 40  # of the falling epsilon
TITLE = "Algorithms of others"
SHOWS = (
    "Two click bandits against `doubtsort`, two linear bandits against `ridge`, and SmoothDCG with an epsilon "
    "that falls, as CT16 (section 6) wonders."
)


class TopRank:
    """Blocks of items in order; one item is put below another if clicks in the same block show it. Several runs.

    Needs the number of rounds. Examination must not increase down the list, and must not depend on the items
    below.
    """

    def __init__(self, runs: int, m: int, rounds: int) -> None:
        self.delta = 1 / rounds
        self.constant = 4 * sqrt(2 / pi) / erf(sqrt(2))
        self.sums, self.counts = np.zeros((runs, m, m)), np.zeros((runs, m, m))
        self.above = np.zeros((runs, m, m), dtype=bool)  # [run, j, i]: j is known to be better than i
        self.block = np.zeros((runs, m), dtype=np.int64)

    def rank(self, rng: Generator) -> Ints:
        """Return the blocks in order, each shuffled."""
        return np.lexsort((rng.random(self.block.shape), self.block), axis=1)

    def update(self, ranking: Ints, clicks: Floats) -> None:
        """Count the differences of clicks of items in the same block."""
        clicked = np.zeros(self.block.shape)
        np.put_along_axis(clicked, ranking[:, : clicks.shape[1]], clicks, 1)
        same = self.block[:, :, None] == self.block[:, None]
        difference = np.where(same, clicked[:, :, None] - clicked[:, None], 0.0)
        self.sums += difference
        self.counts += np.abs(difference)
        n = np.maximum(self.counts, 1)
        found = (self.counts > 0) & (self.sums >= np.sqrt(2 * n * np.log(self.constant * np.sqrt(n) / self.delta)))
        for run in np.flatnonzero(np.any(found & ~self.above, axis=(1, 2))):
            self.above[run] |= found[run]
            self._divide(int(run))

    def _divide(self, run: int) -> None:
        """Repeatedly make a block of the items that no remaining item is above."""
        left, number = np.ones(self.block.shape[1], dtype=bool), 0
        while left.any():
            best = left & ~self.above[run, left].any(axis=0)
            if not best.any():  # a cycle, which has a small probability
                best = left.copy()
            self.block[run, best], number = number, number + 1
            left &= ~best


class CascadeUCB1:
    """Upper bounds of the attraction of each item, from the items down to the first click. Several runs.

    Assumes that people leave after the first click.
    """

    def __init__(self, runs: int, m: int, rounds: int) -> None:  # noqa: ARG002
        self.sums, self.counts, self.t = np.zeros((runs, m)), np.zeros((runs, m)), 0

    def rank(self, rng: Generator) -> Ints:
        """Return the items by their bounds; those never examined come first, at random."""
        n = np.maximum(self.counts, 1)
        bounds = self.sums / n + np.sqrt(1.5 * log(max(1, self.t)) / n) + 1e9 * (self.counts == 0)
        return np.lexsort((rng.random(bounds.shape), -bounds), axis=1)

    def update(self, ranking: Ints, clicks: Floats) -> None:
        """Count the items down to the first click."""
        runs, top = np.arange(len(clicks))[:, None], ranking[:, : clicks.shape[1]]
        before = np.cumsum(clicks, axis=1) - clicks
        self.counts[runs, top] += before == 0
        self.sums[runs, top] += clicks * (before == 0)
        self.t += 1


BANDITS: dict[str, Callable[[int, int, int], TopRank | CascadeUCB1]] = {
    "TopRank": TopRank, "CascadeUCB1": CascadeUCB1
}  # fmt: skip
NAMES = ("doubtsort", *BANDITS)


def lost_to_clicks(means: Floats, people: ClickModel, runs: int, rounds: int) -> dict[str, Floats]:
    """Return the share of DCG@5 that each algorithm loses in all rounds, and in the second half: (2, runs)."""
    rngs = [np.random.default_rng([FIRST_SEED, run]) for run in range(runs)]
    orders = np.array([rng.permutation(means) for rng in rngs])
    drawn = [
        Clicks(Bernoulli(tuple(order.tolist())), people).rounds(rounds, rng)
        for order, rng in zip(orders, rngs, strict=True)
    ]
    relevance = np.array([one.relevance.reshape(-1, M) for one in drawn])
    best = np.repeat(np.argsort(-orders, axis=1)[:, None], rounds, axis=1)
    times, ours = np.array([rounds // 2, rounds]), learner("doubtsort", measure=TOP)
    values = [
        simulate(ours, one, k=K, measure=TOP, seed=run, checkpoints=times).value for run, one in enumerate(drawn)
    ]
    earned = {"doubtsort": np.diff(np.array(values), axis=1, prepend=0)}
    for name, make in BANDITS.items():
        bandit, shown = make(runs, M, rounds), np.empty((runs, rounds, M), dtype=np.int64)
        for t in range(rounds):
            shown[:, t] = bandit.rank(rngs[0])
            seen = np.take_along_axis(relevance[:, t], shown[:, t, :K], 1)
            bandit.update(shown[:, t], draw_clicks(people, seen, rngs[0]).astype(np.float64))
        earned[name] = earned_by(shown, relevance)
    possible = earned_by(best, relevance)
    return {
        name: np.array([1 - got.sum(axis=1) / possible.sum(axis=1), 1 - got[:, 1] / possible[:, 1]])
        for name, got in earned.items()
    }


def earned_by(shown: Ints, relevance: Grades) -> Floats:
    """Return the DCG@5 of both halves of the rounds, (runs, 2)."""
    values = TOP.values(shown.reshape(-1, M), relevance.reshape(-1, M))
    return np.asarray(values.reshape(len(shown), 2, -1).sum(axis=2))


def clicks_table(runs: int, rounds: int) -> records.Table:
    """Measure all click models."""
    columns = ["relevance", "people", *(f"`{name}`" if name == "doubtsort" else name for name in NAMES)]
    rows: list[list[records.Cell]] = []
    for (title, means), (words, people) in ((a, b) for a in MEANS.items() for b in PEOPLE.items()):
        found = lost_to_clicks(means, people, runs, rounds)
        row: list[records.Cell] = [title, words]
        row.extend([spread(values, 1, 100) for values in found[name]] for name in NAMES)
        rows.append(row)
    text = (
        f"Ten items, five positions, {rounds:,} rounds: percentage of the best ranking's DCG@5 that is lost, in "
        "all rounds and in the second half. doubtsort knows how people examine: their curve, or that they leave "
        "after a click. TopRank does not, but knows the number of rounds. CascadeUCB1 assumes that they leave."
    )
    return records.Table("Clicks", [text], columns, rows)


class LinearBandit:
    """Bayesian linear regression with unit prior, as LinUCB and linear Thompson sampling have it.

    Both need features of a known scale, and answers in a known range. `width` is LinUCB's alpha, or the v of
    Thompson sampling.
    """

    def __init__(self, d: int, width: float, *, sampling: bool) -> None:
        self.inverse, self.sums, self.width, self.sampling = np.eye(d + 1), np.zeros(d + 1), width, sampling

    @property
    def estimate(self) -> Floats:
        """Weights of the features and of the constant."""
        return np.asarray(self.inverse @ self.sums)

    def scores(self, X: Floats, rng: Generator) -> Floats:
        """Return the bound of each item, or its value under sampled weights."""
        if self.sampling:
            root = np.linalg.cholesky(self.inverse)
            return np.asarray(X @ (self.estimate + self.width * root @ rng.standard_normal(len(self.sums))))
        spread = np.sqrt(np.einsum("ij,jk,ik->i", X, self.inverse, X))
        return np.asarray(X @ self.estimate + self.width * spread)

    def update(self, x: Floats, answer: float) -> None:
        """Add the answer for an item (Sherman-Morrison)."""
        change = self.inverse @ x
        self.inverse -= np.outer(change, change) / (1 + x @ change)
        self.sums += answer * x


class Bandit(NamedTuple):
    """Parameters of a linear bandit, and the scale of its features."""

    width: float
    sampling: bool
    scale: float = 1.0


class Result(NamedTuple):
    held_out: float
    on_top: float


def play_linear(split: Split, how: Bandit, run: int, rounds: int) -> Result:
    """Learn from the answer for the first item of each list."""
    rng, lists = np.random.default_rng([FIRST_SEED, run]), split.train
    X = np.c_[lists.features.astype(np.float64) * how.scale, np.ones(len(lists.features))]
    top = float(lists.relevance.max())
    bandit, total = LinearBandit(X.shape[1] - 1, how.width, sampling=how.sampling), 0.0
    for query in passes(len(lists.offsets) - 1, rounds, np.random.default_rng([4, run])):
        rows = np.arange(lists.offsets[query], lists.offsets[query + 1])
        shown = rows[bandit.scores(X[rows], rng).argmax()]
        bandit.update(X[shown], lists.relevance[shown] / top)
        total += lists.relevance[shown]
    return Result(held_out(split.test.features @ bandit.estimate[:-1], split.test), total / rounds)


def play_ours(subject: Ridge | RTopKF, split: Split, run: int, rounds: int) -> Result:
    """Do the same with a learner of peekrank."""
    lengths = np.diff(split.train.offsets)
    agent = Agent(subject, m=int(lengths.max()), k=1, d=split.train.features.shape[1], seed=FIRST_SEED + run)
    sequence = passes(len(lengths), rounds, np.random.default_rng([4, run]))
    end = np.array([rounds])
    (trace,) = run_agents([agent], split.train, measure=ON_TOP, sequence=sequence, checkpoints=end)
    scores = subject.scores(agent.state, split.test.features)
    return Result(held_out(scores, split.test), float(trace.value[0] / rounds))


def feature_learners() -> dict[str, Bandit | Ridge]:
    """Return the entrants of the second table."""
    return {
        "`ridge`": Ridge(),
        "`ridge`, sampling": Ridge("sampling", confidence=1.0),
        "LinUCB, alpha = 1": Bandit(1.0, sampling=False),
        "LinUCB, alpha = 0.1": Bandit(0.1, sampling=False),
        "the same, features times 0.01": Bandit(0.1, sampling=False, scale=0.01),
        "Thompson sampling, v = 1": Bandit(1.0, sampling=True),
        "Thompson sampling, v = 0.1": Bandit(0.1, sampling=True),
        "the same, with features times 0.01": Bandit(0.1, sampling=True, scale=0.01),
    }


def features_table(runs: int, rounds: int) -> records.Table:
    """Measure the learners with features."""
    found: dict[tuple[str, Kind], list[Result]] = {}
    for kind in KINDS:
        for run in range(runs):
            split = generated(kind, FIRST_SEED + run)
            for name, one in feature_learners().items():
                play = (
                    play_linear(split, one, run, rounds)
                    if isinstance(one, Bandit)
                    else play_ours(one, split, run, rounds)
                )
                found.setdefault((name, kind), []).append(play)
    rows = rows_by_kind(list(feature_learners()), found)
    text = (
        f"Lists of 20 documents with 46 features, one answer per round, {rounds:,} rounds: NDCG@10 of the order "
        "learned on lists that were not learned from, and mean relevance of the first item while learning. "
        "Relevance is linear in the features, linear with a part of each query's own, or not linear. `ridge` "
        "does not depend on the scale of features."
    )
    return records.Table("Features", [text], ["learner", *KINDS], rows)


def continued(epsilon: float, kept: tuple[Floats, ...]) -> RTopKF:
    """Return rtopkf with an epsilon, from the weights and sums that it learned with another."""

    class Continued(RTopKF):
        def init(self, shape: Shape) -> RTopKFState:
            state: RTopKFState = super().init(shape)
            if kept:
                state.w[:], state.v[:], state.sums[:] = kept
            return state

    return Continued(SmoothDCG(epsilon))


def play_smooth(split: Split, epsilons: Sequence[float], run: int, rounds: int) -> Result:
    """Let rtopkf learn with SmoothDCG, with one epsilon after the other, for equally many rounds each."""
    lengths, d = np.diff(split.train.offsets), split.train.features.shape[1]
    sequence, total = passes(len(lengths), rounds, np.random.default_rng([4, run])), 0.0
    kept: tuple[Floats, ...] = ()
    for step, part in enumerate(np.array_split(sequence, len(epsilons))):
        subject = continued(epsilons[step], kept)
        agent = Agent(subject, m=int(lengths.max()), k=1, d=d, seed=(FIRST_SEED + run) * STEPS + step)
        state = agent.state
        end = np.array([len(part)])
        (trace,) = run_agents([agent], split.train, measure=ON_TOP, sequence=part, checkpoints=end)
        total, kept = total + float(trace.value[0]), (state.w, state.v, state.sums)
    return Result(held_out(subject.scores(state, split.test.features), split.test), total / rounds)


def smooth_table(runs: int, rounds: int) -> records.Table:
    """Measure SmoothDCG."""
    schedules = {
        "SmoothDCG, epsilon = 0.01": [0.01], "SmoothDCG, epsilon = 0.1": [0.1], "SmoothDCG, epsilon = 1": [1.0],
        "SmoothDCG, epsilon from 1 to 0.01": list(np.geomspace(1, 0.01, STEPS)),
    }  # fmt: skip
    found: dict[tuple[str, Kind], list[Result]] = {}
    for kind in KINDS:
        for run in range(runs):
            split = generated(kind, FIRST_SEED + run)
            for name, epsilons in schedules.items():
                found.setdefault((name, kind), []).append(play_smooth(split, epsilons, run, rounds))
            found.setdefault(("KL", kind), []).append(play_ours(RTopKF(KL()), split, run, rounds))
    rows = rows_by_kind([*schedules, "KL"], found)
    text = (
        f"`rtopkf` with each surrogate, on the same lists, {rounds:,} rounds with one answer each. The last "
        f"epsilon falls in {STEPS} geometric steps."
    )
    return records.Table("SmoothDCG with an epsilon that falls", [text], ["surrogate", *KINDS], rows)


def rows_by_kind(
    names: Sequence[str], found: Mapping[tuple[str, Kind], Sequence[Result]]
) -> list[list[records.Cell]]:
    """Return a row for each name, with both results for each kind of relevance."""
    rows: list[list[records.Cell]] = []
    for name in names:
        row: list[records.Cell] = [name]
        pairs = ([[getattr(one, part) for one in found[name, kind]] for part in Result._fields] for kind in KINDS)
        row.extend([spread(values, 3) for values in pair] for pair in pairs)
        rows.append(row)
    return rows


def spread(values: Sequence[float] | Floats, digits: int, scale: float = 1.0) -> records.Figure:
    """Return mean and standard deviation."""
    several = np.array(values) * scale
    sd = round(float(np.std(several, ddof=1)), digits) if len(values) > 1 else None
    return records.Figure(round(float(several.mean()), digits), sd, digits=digits)


def tables(names: Sequence[str], runs: int, shorter: int) -> Iterator[records.Table]:
    """Yield the tables. `shorter` divides the numbers of rounds."""
    if "clicks" in names:
        yield clicks_table(runs, ROUNDS // shorter)
    if "features" in names:
        yield features_table(runs, LISTS // shorter)
    if "smooth" in names:
        yield smooth_table(runs, QUERIES // shorter)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or record the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tables", nargs="+", choices=("clicks", "features", "smooth"), default=["clicks", "features", "smooth"]
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--shorter", type=int, default=1, help="divide the numbers of rounds by this")
    records.add_option(parser, "baselines")
    options = parser.parse_args(arguments)
    for table in tables(options.tables, options.runs, options.shorter):
        print(records.show([table]), flush=True)
        if options.record:
            records.update(options.record, [table], title=TITLE, shows=SHOWS)


if __name__ == "__main__":
    main()
