"""Made-up logs for evaluations, and a comparison of results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from peekrank.evaluation.evaluation import Evaluation
from peekrank.evaluation.log import Log, log_from_records, write_log

POLICIES = ["logged", "order:3,0,1", "doubtsort", "feature:2", "score"]


def mixed_log(seed: int = 0, n: int = 300, m: int = 5, k: int = 2) -> Log:
    """A log of lists of different lengths, some without answers, with features and scores of some."""
    rng, records = np.random.default_rng(seed), []
    for t in range(n):
        size = int(rng.integers(k, m + 1))
        names = rng.permutation(m)[:size]
        orders = [rng.permutation(size) for _ in range(3)]
        weights = rng.dirichlet(np.ones(3))
        propensity = sum(w * (np.argsort(o) < k) for w, o in zip(weights, orders, strict=True))
        position = np.argsort(orders[rng.choice(3, p=weights)])
        answered = rng.random() < 0.9
        answer = [int(rng.integers(3)) if p < k and answered else None for p in position]
        records.append(
            {"event": f"e{t}", "time": 1000.0 + t, "k": k, "candidates": [f"{i}" for i in names],
             "position": position.tolist(), "propensity": np.minimum(propensity, 1).tolist(), "feedback": answer,
             "features": rng.normal(size=(size, 2)).tolist(),
             "score": [None if rng.random() < 0.2 else float(rng.integers(3)) for _ in names]}
        )  # fmt: skip
    return log_from_records(records, max_feedback=2)


def close(one: Evaluation, other: Evaluation, tolerance: float = 1e-9) -> None:
    for a, b in zip([*one.estimates, *one.differences], [*other.estimates, *other.differences], strict=True):
        for name, value in a._asdict().items():
            if isinstance(value, str) or name == "unsupported":
                assert value == getattr(b, name), name
            elif value is not None:
                np.testing.assert_allclose(
                    value, getattr(b, name), tolerance, tolerance, err_msg=f"{a.name} {name}"
                )


def days(log: Log, folder: Path, suffix: str = "parquet") -> None:
    """Write a log as a folder of days, with 100 decisions each in two files."""
    number = np.arange(len(log.k))
    for first in range(0, len(log.k), 50):
        part = log.select((number >= first) & (number < first + 50))
        day = folder / f"day=2026-01-{30 + first // 100:02d}" if first < 200 else folder / "day=2026-02-01"
        write_log(day / "slot=home" / f"part-{first // 50 % 2}.{suffix}", part)
