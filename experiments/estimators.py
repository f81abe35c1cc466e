"""Measure how often intervals are ever wrong, and the errors of estimates: records/evaluation.json.

python experiments/estimators.py coverage     # 10,000 logs of adaptive learners, 200 rounds each: some minutes
python experiments/estimators.py robust       # 20 items, 5 seen, 5,000 lists: IPS against doubly robust, 5 minutes
python experiments/estimators.py several      # 2,000 logs, 15 differences that are all 0: a few minutes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtr

from peekrank import DCG, Agent, BlockFTRL, DoubtSort, Greedy, MarginFTRL, Uniform, fixed_items
from peekrank.evaluation.evaluation import Evaluation, Regression, evaluate_log
from peekrank.evaluation.log import Log
from peekrank.evaluation.policies import Policy, fixed_order, replayed
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.types import Features, Floats, Ints, Learner

ROUNDS, M, K = 200, 4, 2
LEARNERS: tuple[Learner, ...] = (DoubtSort(DCG()), BlockFTRL(DCG()), MarginFTRL(DCG()), Greedy(DCG()))


class Missed(NamedTuple):
    """Count the logs with an interval that was wrong after some round."""

    fixed: int  # the value of a fixed order
    learning: int  # the mean value so far of a learner that is replayed
    difference: int  # of the two
    betting: int  # the value of the fixed order, where it does not change; after the last round
    usual: int  # the usual interval of IPS for the fixed order, looked at after each round from the 30th on
    supported: int  # whether the log had support, without which the usual interval is not counted


def means_of(rng: np.random.Generator, t: Ints, *, changing: bool) -> Floats:
    """Return the probability that each item is relevant in each round, reversed halfway if it changes."""
    means = rng.random(M)
    return np.where((t[:, None] < ROUNDS // 2) | (not changing), means, 1 - means)


def one_log(seed: int, *, changing: bool) -> Missed:
    """Simulate a log of an adaptive learner, and return whether its intervals were ever wrong."""
    rng, t = np.random.default_rng([7, seed]), np.arange(ROUNDS)
    means = means_of(rng, t, changing=changing)
    relevance = (rng.random((ROUNDS, M)) < means).astype(np.uint8)
    log = simulate_log(
        Agent(LEARNERS[seed % len(LEARNERS)], m=M, k=K, seed=seed), fixed_items(relevance), max_feedback=1
    )
    order = fixed_order(log, [str(i) for i in rng.permutation(M)])
    learner = replayed(log, DoubtSort(DCG()), seed=seed)
    found = evaluate_log(log, [order, learner], DCG(), checkpoints=t + 1)
    truths = [true_values(policy, means) for policy in (order, learner)]
    running = [np.cumsum(truth) / (t + 1) for truth in truths]
    low, high = found.estimates[0].betting
    supported = bool((log.propensity > 0).all())
    return Missed(
        ever(found, 0, running[0]),
        ever(found, 1, running[1]),
        ever(found, 2, running[0] - running[1]),
        not changing and not low <= truths[0][0] <= high,
        supported and usual_ever_wrong(log, order, running[0]),
        supported,
    )


def true_values(policy: Policy, means: Floats) -> Floats:
    assert policy.ranks is not None  # noqa: S101
    return np.asarray((DCG().discount(M)[policy.ranks.reshape(-1, M)] * means).sum(axis=1))


def ever(found: Evaluation, number: int, truth: Floats) -> bool:
    e = (*found.estimates, *found.differences)[number]
    return bool(((e.lows > truth) | (e.highs < truth)).any())


def usual_ever_wrong(log: Log, order: Policy, truth: Floats) -> bool:
    assert order.ranks is not None  # noqa: S101
    weights = DCG().discount(M)[order.ranks]
    with np.errstate(invalid="ignore"):
        terms = np.nan_to_num(weights * log.feedback / log.propensity).reshape(-1, M).sum(axis=1)
    n = np.arange(1, len(terms) + 1)
    mean = np.cumsum(terms) / n
    deviation = np.sqrt(np.maximum(np.cumsum(terms**2) / n - mean**2, 0) / n)
    return bool((np.abs(mean - truth) > 1.96 * deviation)[29:].any())


def coverage(logs: int) -> Iterator[str]:
    for changing in (False, True):
        missed = np.array([one_log(seed, changing=changing) for seed in range(logs)], dtype=np.int64).sum(axis=0)
        what = "relevance that turns round half-way" if changing else "stable relevance"
        yield f"{what}: {logs:,} logs of {ROUNDS} rounds, looked at after each; % of logs with a wrong one"
        for name, count in zip(Missed._fields, missed, strict=True):
            if name == "supported" or (changing and name == "betting"):
                continue
            of = missed[-1] if name == "usual" else logs
            yield f"  {name:>10} {100 * count / of:6.2f}  ({count:,} of {of:,})"


def several(logs: int = 2_000, rounds: int = 500, orders: int = 6) -> Iterator[str]:
    """Measure how often any of several differences is wrong, where all orders have the same value.

    `fixed_n` with the whole alpha for each difference is the estimate +- 1.96 standard errors.
    """
    wrong = np.zeros(3, dtype=np.int64)
    for seed in range(logs):
        rng = np.random.default_rng([11, seed])
        relevance = (rng.random((rounds, M)) < 0.5).astype(np.uint8)
        log = simulate_log(Agent(Uniform(), m=M, k=K, seed=seed), fixed_items(relevance), max_feedback=1)
        names = rng.permutation(list(permutations("0123")))[:orders]
        policies = [fixed_order(log, list(order), "".join(order)) for order in names]
        found = evaluate_log(log, policies, DCG(), checkpoints=np.arange(rounds) + 1)
        each = any(abs(e.dr) > 1.96 * e.std_error for e in found.differences)
        together = any(e.fixed_n[0] > 0 or e.fixed_n[1] < 0 for e in found.differences)
        wrong += [each, together, any(((e.lows > 0) | (e.highs < 0)).any() for e in found.differences)]
    yield f"| {len(found.differences)} differences that are all 0 | logs with a wrong one, % |"
    yield "|---|---|"
    titles = ("usual, alpha for each", "usual, alpha divided", "at all times, alpha divided")
    for title, count in zip(titles, wrong, strict=True):
        yield f"| {title} | {100 * count / logs:.2f} |"


def robust(logs: int = 400, lists: int = 5000, m: int = 20, k: int = 5) -> Iterator[str]:
    """Measure errors of estimated DCG on lists whose top k are random with probability gamma, as for rtopkf.

    "true" is the doubly robust estimate whose predictions are the true means: no prediction has a smaller error.
    """
    yield f"{m} items, {k} seen, {lists:,} lists, {logs} logs: root mean square error of estimated DCG"
    for world in (sorted_world, unsorted_world, featured_world):
        for gamma in (0.05, 0.1, 0.2, 0.5):
            errors, covered = np.empty((logs, 4)), 0
            for seed in range(logs):
                rng = np.random.default_rng([9, seed])
                relevance, means, X = world(rng, lists, m)
                log = explored_log(rng, relevance, X, gamma, k)
                ranks = np.argsort(np.argsort(rng.random((lists, m) if X is not None else m)), axis=-1)
                ranks = np.broadcast_to(ranks, (lists, m))
                by: Regression = "items" if X is None else "features"
                policy = Policy("other", ranks.reshape(-1))
                e = evaluate_log(log, [policy], DCG(gains="linear"), regression=by).estimates[0]
                weights = DCG().discount(m)[ranks]
                truth = float((weights * relevance).sum(axis=1).mean())
                assert e.snips is not None  # noqa: S101
                best = predicted_by(means, weights, log)
                errors[seed] = np.array([e.ips, e.snips, e.dr, best]) - truth
                covered += e.anytime[0] <= truth <= e.anytime[1]
            ips, normalised, dr, true = np.sqrt((errors**2).mean(axis=0))
            bias = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(logs))
            yield (
                f"  {world.__name__}, gamma {gamma:4}: IPS {ips:.3f}, self-normalised {normalised:.3f}, doubly "
                f"robust {dr:.3f}, true {true:.3f}; ratio to IPS {dr / ips:.2f}, true {true / ips:.2f}; bias in "
                f"standard errors {bias[0]:+.1f} {bias[2]:+.1f}; in interval {covered}"
            )
    for gamma in (0.05, 0.1, 0.2, 0.5):
        yield f"  sorted_world, gamma {gamma:4}, exact: ratio of true to IPS {exact_ratio(gamma, m, k):.3f}"


def predicted_by(means: Floats, weights: Floats, log: Log) -> float:
    """Compute the doubly robust estimate with these predictions, independently of the package."""
    gain, propensity = log.feedback.reshape(means.shape), log.propensity.reshape(means.shape)
    seen = np.nan_to_num((gain - means) / propensity)
    return float((weights * (means + seen)).sum(axis=1).mean())


def exact_ratio(gamma: float, m: int, k: int) -> float:
    """Compute the ratio of both errors for sorted items by the formulas of docs/theory/evaluation.md.

    Over random orders the weights of an item have the mean square of the discounts, those of two the mean product.
    """
    means, discount = sorted_means(m), DCG().discount(m)
    square = (discount**2).mean()
    product = (discount.sum() ** 2 - (discount**2).sum()) / (m * (m - 1))
    propensity = propensities(gamma, m, k)
    both = np.full((m, m), gamma * k * (k - 1) / (m * (m - 1)))
    both[:k, :k] += 1 - gamma
    excess = both / np.outer(propensity, propensity) - 1
    np.fill_diagonal(excess, 0)
    alone = square * (1 / propensity - 1)
    ips = alone @ means + product * (means @ excess @ means)
    return float(np.sqrt(alone @ (means * (1 - means)) / ips))


def sorted_means(m: int) -> Floats:
    return np.linspace(0.9, 0.1, m)


def sorted_world(rng: np.random.Generator, lists: int, m: int) -> tuple[Floats, Floats, None]:
    """Make items that are relevant with probabilities from 0.9 to 0.1, in the order of a trained learner."""
    means = np.tile(sorted_means(m), (lists, 1))
    return (rng.random((lists, m)) < means).astype(np.float64), means, None


def unsorted_world(rng: np.random.Generator, lists: int, m: int) -> tuple[Floats, Floats, None]:
    """Make items that are relevant with random probabilities, before any learning."""
    means = np.tile(rng.random(m), (lists, 1))
    return (rng.random((lists, m)) < means).astype(np.float64), means, None


def featured_world(rng: np.random.Generator, lists: int, m: int) -> tuple[Floats, Floats, Features]:
    """Make documents with 8 features and grades 0 to 4: a linear score plus noise a third as large, rounded."""
    X, w = rng.normal(size=(lists, m, 8)).astype(np.float32), rng.normal(size=8)
    middle = 2 + X @ (w / np.linalg.norm(w))
    relevance = np.clip(np.rint(middle + rng.normal(size=(lists, m)) / 3), 0, 4)
    means = sum((ndtr(3 * (middle - checkpoints)) for checkpoints in (0.5, 1.5, 2.5, 3.5)), np.zeros(middle.shape))
    return relevance, means, X.reshape(-1, 8)


def propensities(gamma: float, m: int, k: int) -> Floats:
    """Return the propensity of each item. The first k are certain unless the list is random."""
    return np.asarray(np.where(np.arange(m) < k, 1 - gamma, 0) + gamma * k / m)


def explored_log(rng: np.random.Generator, relevance: Floats, X: Features | None, gamma: float, k: int) -> Log:
    """Make lists in the order of the items, with k random ones on top with probability gamma."""
    n, m = relevance.shape
    order = np.tile(np.arange(m), (n, 1))
    random = np.asarray(rng.random(n) < gamma)
    order[random] = np.argsort(rng.random((int(random.sum()), m)), axis=1)
    position = np.argsort(order, axis=1)
    answer, events = np.where(position < k, relevance, np.nan), pl.Series("event", np.arange(n)).cast(pl.String)
    return Log(
        events, np.full(n, np.nan), np.full(n, k), np.zeros(n, np.int64), np.arange(n + 1) * m,
        np.tile(np.arange(m), n), position.reshape(-1), np.tile(propensities(gamma, m, k), n), answer.reshape(-1),
        np.full(n * m, np.nan), tuple(map(str, range(m))), ("random tops",), ("",), 0.0,
        4.0 if X is not None else 1.0, X,
    )  # fmt: skip


def main(what: str, logs: int) -> None:
    for line in {"coverage": lambda: coverage(logs), "robust": robust, "several": several}[what]():
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
