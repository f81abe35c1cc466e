"""Measure what sampled judgements are worth: tables of records/judging.json.

python experiments/judging.py needed      # judgements needed for the same interval, by way of sampling
python experiments/judging.py coverage    # 2,000 pools with few judgements: how often were intervals wrong?
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from peekrank import DCG
from peekrank.evaluation.judging import Judging, Pool, group_by_prediction, make_pool
from peekrank.types import Floats

POOLS, QUERIES, BATCH, WIDTHS = 24, 50, 25, (0.5, 0.3, 0.2)
MANY, FEW, JUDGED = 2000, 10, 40


def made_pool(
    rng: np.random.Generator, queries: int, share: float, *, documents: int = 30, listed: int = 20, depth: int = 10
) -> tuple[Pool, Any, Floats]:
    """Return a pool of two noisy rankers, the grades of its pairs, and predictions (correlation about 0.7).

    Documents near the top of both are more often relevant; `share` of all documents are.
    """
    runs: tuple[dict[str, list[str]], ...] = {}, {}
    graded: dict[tuple[str, str], int] = {}
    for q in range(queries):
        quality = rng.normal(size=documents)
        chances = np.exp(1.5 * quality)
        relevant = rng.random(documents) < np.clip(share * chances / chances.mean(), 0, 0.95)
        for run in runs:
            noisy = quality + rng.normal(size=documents) + 0.1 * relevant
            run[f"q{q}"] = [f"d{i}" for i in np.argsort(-noisy)[:listed]]
        graded.update({(f"q{q}", f"d{i}"): int(relevant[i]) for i in range(documents)})
    pool = make_pool(runs[0], runs[1], DCG(depth))
    grades = np.array([graded[pair] for pair in pool.pairs])
    spread = np.sqrt(share * (1 - share))
    return pool, grades, grades + spread * rng.normal(size=len(grades))


def judged(judging: Judging, grades: Any, count: int, batch: int) -> Judging:
    """Judge pairs in batches."""
    while judging.judged < count and judging.left:
        drawn = judging.draw(min(batch, count - judging.judged))
        judging.add([int(grades[i]) for i in drawn])
    return judging


def needed() -> None:
    """Print the judgements needed until the interval of the difference has a certain width."""
    heads = " | ".join(f"width {width}" for width in WIDTHS)
    print(f"| relevant | sampling | {heads} | a verdict | pairs |\n|{'---|' * (len(WIDTHS) + 4)}")
    for share in (0.05, 0.3):
        for sampling in ("uniform", "position", "difference", "difference, predictions"):
            rows, sizes = [], []
            for seed in range(POOLS):
                pool, grades, predictions = made_pool(np.random.default_rng([1, seed]), QUERIES, share)
                groups = None
                if "predictions" in sampling:
                    groups = group_by_prediction(pool, dict(zip(pool.pairs, map(float, predictions), strict=True)))
                way: Any = sampling.partition(",")[0]
                judging = judged(Judging(pool, groups=groups, sampling=way, seed=seed), grades, 10**6, BATCH)
                _, lows, highs = np.array(judging.history).T
                decided = (lows > 0) | (highs < 0)
                reached = [highs - lows <= width for width in WIDTHS]
                rows.append([int(np.argmax(one)) if one.any() else len(lows) for one in (*reached, decided)])
                sizes.append(len(pool.pairs))
            mean, sd = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
            cells = " | ".join(f"{a:.0f} ± {b:.0f}" for a, b in zip(mean, sd, strict=True))
            print(f"| {share} | {sampling} | {cells} | {np.mean(sizes):.0f} |", flush=True)


def coverage() -> None:
    """Print how often intervals were ever wrong, where it is hardest: few judgements, few relevant documents."""
    print("| pool | difference | value of the first | width of the difference at the end, of that at first |")
    print("|---|---|---|---|")
    names = ("1 % relevant", "5 % relevant", "half relevant", "half relevant, all judged")
    for name in (*names, "relevant where least drawn", "misleading predictions"):
        wrong, widths = np.zeros(2), []
        for seed in range(MANY):
            rng = np.random.default_rng([2, seed])
            share = 0.01 if name.startswith("1 %") else 0.5 if name.startswith("half") else 0.05
            pool, grades, predictions = made_pool(rng, FEW, share, documents=15, listed=10, depth=5)
            groups = None
            if name == "misleading predictions":  # right for pairs likely to be drawn first, reversed for others
                d = np.abs(pool.weights[0] - pool.weights[1])
                predictions = np.where(d > np.median(d), predictions, 1 - predictions)
                groups = group_by_prediction(pool, dict(zip(pool.pairs, map(float, predictions), strict=True)))
            judging = Judging(pool, groups=groups, seed=seed)
            if name == "relevant where least drawn":
                judging.draw(1)
                grades = np.zeros(len(grades), np.int64)
                grades[np.argsort(judging._rates)[: len(grades) // 8]] = 1
                judging = Judging(pool, seed=seed)
            judged(judging, grades, 10**6 if "all" in name else JUDGED, JUDGED // 2)
            first, second = pool.weights @ pool.gains[grades]
            for i, true in enumerate((first - second, first)):
                _, lows, highs = np.array(judging._tracks[i].history).T
                wrong[i] += bool(((lows > true + 1e-12) | (highs < true - 1e-12)).any())
            start, end = judging.history[0], judging.history[-1]
            widths.append((end.high - end.low) / (start.high - start.low))
        cells = " | ".join(f"{100 * count / MANY:.2f} %" for count in wrong)
        print(f"| {name} | {cells} | {np.mean(widths):.2f} |", flush=True)


if __name__ == "__main__":
    {"needed": needed, "coverage": coverage}[sys.argv[1]]()
