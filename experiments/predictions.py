"""Measure what outside predictions are worth in an evaluation, and bounds without propensities.

The tables are those of records/predictions.json.

python experiments/predictions.py widths      # widths of intervals for correlations from 0 to 0.9
python experiments/predictions.py coverage    # 2,000 logs of few decisions about many items: how often wrong?
python experiments/predictions.py bounds      # bounds without propensities on 2,000 logs: how often wrong?
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from peekrank import DCG
from peekrank.evaluation.bounds import bound_source
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.log import Log
from peekrank.evaluation.policies import fixed_order, ranker
from peekrank.evaluation.softmax import add_softmax_propensities
from peekrank.evaluation.sources import MemorySource
from peekrank.types import Floats

M, K = 10, 3
WIDTHS = (
    (3000, 20, (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9)),
    (30_000, 4, (0.5, 0.9)),
)  # decisions, logs, correlations
LOGS, FEW, MANY, SEEN = 2000, 60, 50, 10


def softmax_log(
    rng: np.random.Generator, n: int, scores: Floats, k: int, gains: Floats, predictions: Floats
) -> Log:
    """Return the log of a logger that draws each ranking from the softmax of the scores."""
    m = len(scores)
    noisy = scores + rng.gumbel(size=(n, m))
    position = np.argsort(np.argsort(-noisy, axis=1), axis=1)
    log = Log(
        events=pl.Series([str(t) for t in range(n)]), time=np.full(n, np.nan), k=np.full(n, k),
        learner=np.zeros(n, np.int64), offsets=np.arange(n + 1) * m, item=np.tile(np.arange(m), n),
        position=position.ravel(), propensity=np.full(n * m, np.nan),
        feedback=np.where(position < k, gains, np.nan).ravel(), feedback_time=np.full(n * m, np.nan),
        names=tuple(map(str, range(m))), learners=("softmax",), reasons=("",), scores=np.tile(scores, n),
        predictions=predictions.ravel(),
    )  # fmt: skip
    return add_softmax_propensities(log, 1.0)


def correlated(rng: np.random.Generator, gains: Floats, means: Floats, rho: float) -> Floats:
    """Return predictions that correlate with the gains of each item, on another scale and biased by item."""
    noise = rng.normal(size=gains.shape)
    spread = np.sqrt(means * (1 - means))
    return np.asarray(
        3 * (rho * (gains - means) / spread + np.sqrt(1 - rho**2) * noise) + rng.normal(size=len(means))
    )


def widths() -> None:
    """Print the widths of the intervals of a difference relative to those without predictions."""
    print("| decisions | correlation | usual | anytime | anytime, stationary |\n|---|---|---|---|---|")
    for n, logs, rho in [(n, logs, rho) for n, logs, some in WIDTHS for rho in some]:
        ratios = []
        for seed in range(logs):
            rng = np.random.default_rng([1, seed])
            means = rng.uniform(0.1, 0.9, M)
            gains = (rng.random((n, M)) < means).astype(float)
            scores, predictions = rng.normal(size=M), correlated(rng, gains, means, rho)
            log = softmax_log(rng, n, scores, K, gains, predictions)
            orders = [fixed_order(log, [str(i) for i in rng.permutation(M)], name) for name in "ab"]
            found = [
                evaluate_log(one, orders, DCG(K)).differences[0] for one in (log, log._replace(predictions=None))
            ]
            sizes = [[high - low for low, high in (e.fixed_n, e.anytime, e.betting)] for e in found]
            ratios.append(np.array(sizes[0]) / np.array(sizes[1]))
        mean, sd = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1)
        cells = " | ".join(f"{a:.2f} ± {b:.2f}" for a, b in zip(mean, sd, strict=True))
        print(f"| {n:,} | {rho} | {cells} |", flush=True)


def coverage() -> None:
    """Print how often intervals were ever wrong, where it is hardest: few decisions, many items."""
    print("| predictions | anytime, ever wrong | usual, wrong at the end |\n|---|---|---|")
    for name in ("none", "right", "noise", "reversed"):
        wrong = usual = 0
        for seed in range(LOGS):
            rng = np.random.default_rng([2, seed])
            means = rng.beta(0.3, 1.2, MANY).clip(0.01, 0.99)
            gains = (rng.random((FEW, MANY)) < means).astype(float)
            half = np.arange(FEW)[:, None] < FEW // 2
            predictions = {
                "none": np.full(gains.shape, np.nan),
                "right": gains + rng.normal(size=gains.shape) / 4,
                "noise": rng.standard_cauchy(gains.shape),
                "reversed": np.where(half, gains, -gains) + rng.normal(size=gains.shape) / 4,
            }[name]
            log = softmax_log(rng, FEW, 1.5 * rng.normal(size=MANY), SEEN, gains, predictions)
            ranks = rng.permutation(MANY)
            order = fixed_order(log, [str(i) for i in ranks])
            true = gains[:, ranks] @ DCG(SEEN).discount(MANY)
            at = np.arange(1, FEW + 1)
            e = evaluate_log(log, [order], DCG(SEEN), checkpoints=at).estimates[0]
            running = np.cumsum(true) / at
            wrong += bool(((running < e.lows) | (running > e.highs)).any())
            usual += not e.fixed_n[0] <= running[-1] <= e.fixed_n[1]
        print(f"| {name} | {100 * wrong / LOGS:.2f} % | {100 * usual / LOGS:.1f} % |", flush=True)


def bounds() -> None:
    """Print how often bounds without propensities were wrong, for a logger that always shows the same order."""
    print("| seen | mean relevance | anytime, wrong | same relevance everywhere, wrong | width, anytime |")
    print("|---|---|---|---|---|")
    falling = np.array([-1000.0 * i for i in range(M)])
    for seen in (M, K):
        for level in (0.05, 0.5):
            wrong, width = np.zeros(2), 0.0
            for seed in range(LOGS):
                rng = np.random.default_rng([3, seed])
                means = rng.beta(4 * level, 4 * (1 - level), M)
                gains = (rng.random((FEW, M)) < means).astype(float)
                log = softmax_log(rng, FEW, falling, seen, gains, np.full((FEW, M), np.nan))
                log = log._replace(propensity=np.full(FEW * M, np.nan), scores=None, predictions=None)
                ranks = rng.permutation(M)
                source = MemorySource("log", log)
                order = ranker("order:" + ",".join(map(str, ranks)), source.scope, measure=DCG())
                found = bound_source(source, [order], DCG()).values[0]
                true = means[ranks] @ DCG().discount(M)
                for i, (low, high) in enumerate((found.anytime, found.stationary or (0.0, 0.0))):
                    wrong[i] += not low <= true <= high
                width += (found.anytime[1] - found.anytime[0]) / LOGS
            cells = " | ".join(f"{100 * count / LOGS:.2f} %" for count in wrong)
            print(f"| {seen} of {M} | {level} | {cells} | {width:.2f} |", flush=True)


if __name__ == "__main__":
    {"widths": widths, "coverage": coverage, "bounds": bounds}[sys.argv[1]]()
