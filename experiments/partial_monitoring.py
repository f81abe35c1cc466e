"""Compare with FTRL for games of rate T^(2/3) whose learning rate adapts (Tsuchiya & Ito 2024, arXiv 2405.20028).

Its actions are all rankings. It mixes a Tsallis entropy with its complement, explores uniformly with probability
gamma, and chooses gamma and the learning rate so that stability, penalty and bias match in every round. Constants
that are large enough for a proof, in terms of the size of the estimates, are far from the best on such streams. So
we also play the same rule with all constants 1, without the complement.

    python experiments/partial_monitoring.py              print the table (a few minutes)
    python experiments/partial_monitoring.py --record     write it into records/baselines.json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import permutations
from math import log, sqrt

import numpy as np
import records

from peekrank import DCG, fixed_items, simulate
from peekrank.learners import learner
from peekrank.regret import best_values
from peekrank.types import Floats, Grades

FIRST_SEED, RUNS, ROUNDS, M = 930_000, 10, 20_000, 3
STREAMS = {"far apart": (0.9, 0.5, 0.1), "close": (0.6, 0.5, 0.4), "close, reversed halfway": (0.6, 0.5, 0.4)}
OURS = ("marginftrl:measure=dcg", "feedexp3:measure=dcg")
THEIRS = {"Tsuchiya & Ito": True, "the same, all constants 1": False}  # whether with constants of a proof
MEASURE = DCG()
NEWTON, PRECISION = 60, 1e-9  # steps at most


class Matched:
    """FTRL over all rankings, with one answer per round, in several runs at once."""

    def __init__(self, runs: int, m: int, *, proved: bool) -> None:
        self.rankings = np.array(list(permutations(range(m))))
        n = len(self.rankings)
        weights, position = MEASURE.discount(m), np.argsort(self.rankings, axis=1)
        span = float(weights.sum())  # losses are (span - DCG) / span, in [0, 1]
        same = n // m  # rankings with the same item on top
        # estimates[a, b] times the answer: minus what the top item of a is worth in b
        self.estimates = -weights[position[:, self.rankings[:, 0]]].T / (span * same)
        self.alpha = 1 - 1 / log(n)
        c, rest = max(1.0, n * float(np.abs(self.estimates).max())), 1 - self.alpha
        first = 64 * c**2 / rest
        self.beta = np.full(runs, first if proved else 1.0)
        self.extra = 32 * c * sqrt(n) / (rest**2 * sqrt(first)) if proved else 0.0  # rate of the complement
        self.z_scale, self.u_scale = (4 * c**2 / rest, 8 * c / rest) if proved else (1.0, 1.0)
        self.totals, self.q = np.zeros((runs, n)), np.full((runs, n), 1 / n)

    def rank(self, uniforms: Floats) -> Floats:
        """Return the number of the ranking that each run shows."""
        self.q = self._leader()
        largest = self.q.max(axis=1)
        others = np.minimum(largest, 1 - largest)
        power = 2 - self.alpha
        z = self.z_scale * ((self.q**power).sum(axis=1) - largest**power + others**power)
        u = self.u_scale * others ** (1 - self.alpha)
        entropy = ((self.q**self.alpha).sum(axis=1) - 1) / self.alpha
        gamma = np.minimum(0.5, np.sqrt(z / self.beta) + u / self.beta)
        self.p = (1 - gamma)[:, None] * self.q + gamma[:, None] / self.q.shape[1]
        self.beta += (2 * np.sqrt(z / self.beta) + u / self.beta) / np.maximum(entropy, 1e-12)
        shown = (np.cumsum(self.p, axis=1) < uniforms[:, None]).sum(axis=1)
        self.shown = np.minimum(shown, self.p.shape[1] - 1)
        return np.asarray(self.shown)

    def update(self, answers: Floats) -> None:
        """Add the estimated losses, up to a constant."""
        runs = np.arange(len(answers))
        self.totals += self.estimates[self.shown] * (answers / self.p[runs, self.shown])[:, None]

    def _leader(self) -> Floats:
        """Return argmin <totals, q> - beta H_alpha(q) - extra H_(1 - alpha)(q) by Newton's method, twice.

        At the minimum, beta q^(alpha - 1) + extra q^(-alpha) is totals plus the same value for all actions. Both
        log q, given the value, and the value for which q sums to 1 are zeros of convex functions.
        """
        a, b, e = self.alpha, self.beta[:, None], self.extra
        cost = self.totals - self.totals.min(axis=1, keepdims=True)
        value = b + e  # the best action has q = 1, so the sum is too large
        x = np.zeros_like(cost)
        for _ in range(NEWTON):
            target = cost + value
            x = np.minimum(np.log(target / b) / (a - 1), 0.0)
            for _ in range(NEWTON):
                left, right = b * np.exp((a - 1) * x), e * np.exp(-a * x)
                slope = (1 - a) * left + a * right
                step = (left + right - target) / slope
                x += step
                if np.abs(step).max() < PRECISION:
                    break
            q = np.exp(x)
            excess = q.sum(axis=1, keepdims=True) - 1
            if np.abs(excess).max() < PRECISION:
                break
            value = value + excess / (q / slope).sum(axis=1, keepdims=True)
        return np.asarray(q / q.sum(axis=1, keepdims=True))


def draw(name: str, runs: int, rounds: int) -> Grades:
    """Draw the relevance of all runs, (runs, rounds, m)."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng([FIRST_SEED, run])
        means = np.tile(rng.permutation(STREAMS[name]), (rounds, 1))
        if "halfway" in name:
            means[rounds // 2 :] = means[rounds // 2 :, ::-1]
        found.append(rng.random((rounds, M)) < means)
    return np.array(found, dtype=np.uint8)


def regrets(name: str, runs: int, rounds: int) -> dict[str, Floats]:
    """Return the regret of each learner in each run."""
    relevance, end = draw(name, runs, rounds), np.array([rounds])
    lists = [fixed_items(one) for one in relevance]
    best = np.array([float(best_values(MEASURE, one, end)[0]) for one in lists])
    found = {}
    for spec in OURS:
        subject = learner(spec, horizon=rounds)
        earned = [
            simulate(subject, one, k=1, measure=MEASURE, seed=run, checkpoints=end).value[0]
            for run, one in enumerate(lists)
        ]
        found[f"`{spec.partition(':')[0]}`"] = best - np.array(earned)
    for title, proved in THEIRS.items():
        rng, theirs = np.random.default_rng(FIRST_SEED), Matched(runs, M, proved=proved)
        uniforms, value = rng.random((rounds, runs)), np.zeros(runs)
        weights = MEASURE.discount(M)
        for t in range(rounds):
            rankings = theirs.rankings[theirs.rank(uniforms[t])]
            shown = np.take_along_axis(relevance[:, t], rankings, 1)
            value += shown @ weights
            theirs.update(shown[:, 0].astype(np.float64))
        found[title] = best - value
    return found


def table(runs: int, rounds: int) -> records.Table:
    """Measure all streams."""
    rows: list[list[records.Cell]] = []
    names = [*(f"`{spec.partition(':')[0]}`" for spec in OURS), *THEIRS]
    for name, means in STREAMS.items():
        found = regrets(name, runs, rounds)
        spreads = [
            records.Figure(round(float(found[one].mean())), round(float(found[one].std(ddof=1)))) for one in names
        ]
        rows.append([f"{name}, {', '.join(map(str, means))}", *spreads])
    text = (
        f"DCG of three items from one answer, {rounds:,} rounds, {runs} runs: regret against the best fixed "
        "ranking. Items have these means, in random order."
    )
    return records.Table("A game of rate T^(2/3)", [text], ["stream", *names], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    records.add_option(parser, "baselines")
    options = parser.parse_args(arguments)
    made = table(options.runs, options.rounds)
    print(records.show([made]))
    if options.record:
        records.update(options.record, [made])


if __name__ == "__main__":
    main()
