"""Comparisons without a service: late answers, saved state, the log, and the check of the assumptions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peekrank import DCG, Comparison
from peekrank.evaluation.comparison.evidence import CHECK_SCALE
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.jsonl import LogWriter
from peekrank.evaluation.log import read_log
from peekrank.evaluation.policies import policy

NAMES = ["tea", "rice", "milk", "soup", "cola"]
OTHER = ["cola", "rice", "milk", "soup", "tea"]
LIKED = dict(zip(NAMES, (0.9, 0.7, 0.5, 0.3, 0.1), strict=True))


def answers(shown: Any, rng: np.random.Generator, effects: tuple[float, ...] = (1.0, 1.0)) -> list[float]:
    pairs = zip(shown.items, effects, strict=False)
    return [float(rng.random() < effect * LIKED[str(item)]) for item, effect in pairs]


def lived(lists: int = 60, **more: Any) -> Comparison:
    comparison, rng = Comparison(DCG(2), k=2, **more), np.random.default_rng(0)
    for _ in range(lists):
        shown = comparison.rank(NAMES, OTHER)
        if rng.random() < 0.9:
            comparison.update(shown.event, answers(shown, rng))
    return comparison


def test_answers_count_in_the_order_of_the_lists_and_once() -> None:
    rng, late, prompt = np.random.default_rng(1), Comparison(DCG(2), k=2), Comparison(DCG(2), k=2)
    given = {}
    for _ in range(20):
        shown = late.rank(NAMES, OTHER)
        assert prompt.rank(NAMES, OTHER).items == shown.items
        given[shown.event] = answers(shown, rng)
        prompt.update(shown.event, given[shown.event])
    for event in rng.permutation(20)[:15] + 1:
        assert late.update(int(event), given[int(event)])
        assert not late.update(int(event), [0, 0])
    missing = [event for event in given if event in late._open and late._open[event].answers is None]
    assert late.verdict().lists == missing[0] - 1
    assert Comparison.load(late.dump()).dump() == late.dump()
    for event in missing:
        late.update(event, given[event])
    assert late.verdict() == prompt.verdict()
    assert not late.update(3, [1, 1])
    late.close(before=100)
    with pytest.raises(ValueError, match="no list has this number"):
        late.update(21, [1, 1])


def test_a_saved_comparison_resumes_bit_for_bit_and_lists_without_answers_do_not_count() -> None:
    one = lived(mode="coin")
    other = Comparison.load(one.dump())
    for comparison in (one, other):
        rng = np.random.default_rng(3)
        for _ in range(30):
            shown = comparison.rank(NAMES, OTHER)
            comparison.update(shown.event, answers(shown, rng))
        comparison.close(before=91)
    assert one.dump() == other.dump()
    verdict = one.verdict()
    assert verdict.answered < verdict.lists == 90
    assert verdict.check is not None
    assert verdict.check.passed


def test_forged_comparisons_are_rejected_or_harmless() -> None:
    """Change numbers anywhere, with a checksum that fits."""
    blob, rng, rejected = lived(40).dump(), np.random.default_rng(0), 0
    head, _, text = blob.partition(b"\n")
    with pytest.raises(ValueError, match="damaged"):
        Comparison.load(blob.replace(b'"shown": 40', b'"shown": 41'))
    with pytest.raises(ValueError, match="not a saved comparison"):
        Comparison.load(b"PK")
    magic = head.rpartition(b" ")[0] + b" "
    forged = json.dumps({**json.loads(text), "planned": [1.0, 1.0, 0.0, 40.0, 40.0]}).encode()
    with pytest.raises(ValueError, match="the sums of its forecast do not match its lists"):
        Comparison.load(magic + hashlib.sha256(forged).hexdigest().encode() + b"\n" + forged)
    value = json.loads(text)
    value["evidence"]["totals"][CHECK_SCALE] = 0.0
    forged = json.dumps(value).encode()
    comparison = Comparison.load(magic + hashlib.sha256(forged).hexdigest().encode() + b"\n" + forged)
    assert comparison.verdict().check is None
    for _ in range(300):
        value = json.loads(text)
        spot: Any = value
        while isinstance(spot, dict | list) and len(spot):
            parent: Any = spot
            key: Any = rng.choice(list(spot)) if isinstance(spot, dict) else int(rng.integers(len(spot)))
            spot = parent[key]
        parent[key] = rng.choice([-1, 0, 1, 7, 1e300, 1e-300, 2**60, 0.5]).item()
        forged = json.dumps(value).encode()
        try:
            comparison = Comparison.load(magic + hashlib.sha256(forged).hexdigest().encode() + b"\n" + forged)
        except ValueError:
            rejected += 1
            continue
        comparison.close(before=10**6)
        shown = comparison.rank(NAMES, OTHER)
        assert sorted(shown.items) == sorted(NAMES)
        comparison.update(shown.event, [1.0] * min(comparison.settings.k, 5))
        assert str(comparison.verdict())
    assert rejected > 50


@pytest.mark.parametrize("mode", ["union", "coin"])
def test_the_log_has_the_estimate_of_the_verdict(mode: Any, tmp_path: Path) -> None:
    comparison, rng = Comparison(DCG(2), k=2, mode=mode), np.random.default_rng(2)
    with LogWriter(tmp_path / "log.jsonl", comparison.settings.name) as log:
        for _ in range(150):
            shown = comparison.rank(NAMES, OTHER)
            event = log.log_decision(shown.decision, k=2, names=NAMES)
            given = answers(shown, rng)
            log.log_feedback(event, given)
            comparison.update(shown.event, given)
    written = read_log(tmp_path / "log.jsonl")
    policies = [policy(f"feature:{n}", written, measure=DCG(2), seed=0) for n in (1, 2)]
    (difference,) = evaluate_log(written, policies, DCG(2), regression="items").differences
    verdict = comparison.verdict()
    assert verdict.better == "a"
    assert difference.dr == pytest.approx(verdict.difference, rel=1e-9)
    assert difference.anytime == pytest.approx((verdict.low, verdict.high), rel=1e-9)


@pytest.mark.parametrize("mode", ["union", "coin"])
def test_the_check_notices_that_answers_depend_on_the_position(mode: Any) -> None:
    """People look at the first item only."""
    comparison, rng = Comparison(DCG(2), k=2, mode=mode), np.random.default_rng(4)
    flipped = ["rice", "tea", *NAMES[2:]] if mode == "coin" else OTHER
    for _ in range(2500):
        shown = comparison.rank(NAMES, flipped)
        first = [float(rng.random() < 0.8), 0.0]
        comparison.update(shown.event, first)
    verdict = comparison.verdict()
    assert verdict.check is not None
    assert verdict.check.kind == ("A/B" if mode == "coin" else "positions")
    if mode == "union":
        assert not verdict.check.passed
        assert "answers depend on the position" in str(verdict)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (["x"], ["y"], "must hold the same items"),
        (["x", "x"], ["x", "x"], "each once"),
        ([], [], "each once"),
        ([1.5], [1.5], "numbers or texts"),
    ],
)
def test_orders_are_checked(a: Any, b: Any, said: str) -> None:
    comparison = Comparison(DCG(2), k=2)
    with pytest.raises(ValueError, match=said):
        comparison.rank(a, b)
    shown = comparison.rank(NAMES, OTHER)
    for wrong in ([1], [2, 0], [-1, 0]):
        with pytest.raises(ValueError, match="feedback"):
            comparison.update(shown.event, wrong)
