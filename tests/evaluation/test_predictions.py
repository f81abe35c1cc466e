"""Outside predictions: unbiased whatever they are worth, better where they are right, and a naive twin."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from peekrank import DCG
from peekrank.evaluation.estimators import Rows
from peekrank.evaluation.evaluation import Fold, Options, evaluate_log
from peekrank.evaluation.log import Log, log_from_records, read_log, scope_of_log, write_log
from peekrank.evaluation.policies import fixed_order
from peekrank.evaluation.predictions import adjust_means
from peekrank.types import Floats

P = (0.7, 0.2, 0.1)


def _log(tops: Any, rewards: Floats, predictions: Floats | None) -> Log:
    """Return a log of three items, one of which is shown in each decision."""
    records = []
    for t, top in enumerate(tops):
        records.append({
            "event": str(t), "k": 1, "candidates": ["a", "b", "c"], "propensity": list(P),
            "position": [0 if i == top else i + int(i < top) for i in range(3)],
            "feedback": [float(rewards[t, i]) if i == top else None for i in range(3)],
        })  # fmt: skip
        if predictions is not None:
            records[-1]["prediction"] = [None if np.isnan(x) else float(x) for x in predictions[t]]
    return log_from_records(records)


@pytest.mark.parametrize("regression", ["items", "mean"])
def test_estimates_are_unbiased_whatever_predictions_are_worth(regression: Any) -> None:
    rng, n = np.random.default_rng(3), 4
    rewards = rng.random((n, 3)).round(2)
    for predictions in (rewards, -50 * rewards, np.where(rng.random((n, 3)) < 0.5, np.nan, 1e90)):
        mean = 0.0
        for tops in product(range(3), repeat=n):
            log = _log(tops, rewards, predictions)
            order = fixed_order(log, ["c", "a", "b"])
            found = evaluate_log(log, [order], DCG(), regression=regression).estimates[0].dr
            mean += float(np.prod([P[top] for top in tops])) * found
        true = (rewards[:, [2, 0, 1]] @ DCG().discount(3)).mean()
        assert abs(mean - true) < 1e-12


def test_good_predictions_narrow_intervals_and_bad_ones_cost_nothing() -> None:
    rng, n = np.random.default_rng(4), 3000
    rewards = (rng.random((n, 3)) < [0.5, 0.4, 0.3]).astype(float)
    tops = rng.choice(3, n, p=P)
    widths = {}
    noise = rng.normal(size=(n, 3))
    scores = {"none": None, "right": 3 + 2 * rewards + noise / 4, "noise": noise}
    for name, predictions in scores.items():
        log = _log(tops, rewards, predictions)
        e = evaluate_log(log, [fixed_order(log, ["c", "b", "a"])], DCG()).estimates[0]
        widths[name] = e.std_error
        assert e.anytime[0] < 0.3 + 0.4 / np.log2(3) + 0.5 / 2 < e.anytime[1]
    assert widths["right"] < 0.5 * widths["none"]
    assert widths["noise"] < 1.01 * widths["none"]


def test_adjustment_equals_its_definition() -> None:
    rng = np.random.default_rng(5)
    n, items = 60, 4
    gain = np.full((n, items), np.nan)
    seen = rng.random((n, items)) < 0.4
    gain[seen] = rng.random(int(seen.sum()))
    predictions = np.where(rng.random((n, items)) < 0.1, np.nan, rng.normal(size=(n, items)) + np.nan_to_num(gain))
    subject = rng.permuted(np.tile(np.arange(items), (n, 1)), axis=1)
    before = rng.random((n, items))
    out = before.ravel().copy()
    rows = Rows(np.arange(n + 1) * items, np.full(n * items, 0.4), gain.ravel(), subject.ravel(), seen.sum(1), 1.0)
    adjust_means(rows, predictions.ravel(), np.zeros(items), np.zeros(items), np.zeros(4), out)
    past: list[tuple[int, float]] = []
    pairs: list[tuple[float, float]] = []
    expected = []
    for t in range(n):
        average = np.mean([x for _, x in past]) if past else 0.0
        slope = 0.0
        if pairs and (squares := sum(d * d for d, _ in pairs)) > 0:
            slope = sum(d * e for d, e in pairs) / squares * len(past) / (len(past) + 10)
        now = []
        for j in range(items):
            own = [x for s, x in past if s == subject[t, j]]
            away = predictions[t, j] - (sum(own) + average) / (len(own) + 1)
            moved = before[t, j] if np.isnan(away) else min(max(before[t, j] + slope * away, 0.0), 1.0)
            expected.append(moved)
            if seen[t, j] and not np.isnan(away):
                now.append((int(subject[t, j]), float(predictions[t, j])))
                if past:
                    pairs.append((away, gain[t, j] - before[t, j]))
        past += now
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_predictions_survive_files_parts_and_saved_states(tmp_path: Any) -> None:
    rng, n = np.random.default_rng(6), 50
    rewards = rng.random((n, 3))
    log = _log(rng.choice(3, n, p=P), rewards, np.where(rng.random((n, 3)) < 0.2, np.nan, rewards))
    for name in ("log.jsonl", "log.parquet"):
        write_log(tmp_path / name, log)
        np.testing.assert_array_equal(read_log(tmp_path / name).predictions, log.predictions)
    order = fixed_order(log, ["b"])
    whole = evaluate_log(log, [order], DCG()).estimates[0]
    at = np.arange(1, n + 1)
    fold = Fold(["order"], DCG(), scope_of_log(log), Options(), at)
    for first, last in ((0, 20), (20, 50)):
        chosen = (np.arange(n) >= first) & (np.arange(n) < last)
        assert order.ranks is not None
        fold.add(log.select(chosen), [order.ranks[chosen[log.owner]]])
        state = {key: value.copy() for key, value in fold.state().items()}
        fold = Fold(["order"], DCG(), scope_of_log(log), Options(), at)
        fold.restore(state)
    assert fold.result().estimates[0].dr == pytest.approx(whole.dr, abs=1e-12)
    with pytest.raises(ValueError, match="field 'prediction': 1e\\+200 of candidate 'a'"):
        _log([0], rewards[:1], np.array([[1e200, 0.0, 0.0]]))
