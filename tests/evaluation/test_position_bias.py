"""Curves of positions: closed forms, an independent fit, better items on top, intervals that hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from peekrank.evaluation.log import Log, log_from_records
from peekrank.evaluation.position_bias import _tables, estimate_curve
from peekrank.evaluation.sources import MemorySource
from peekrank.streams.clicks import PositionBased, draw_clicks
from peekrank.streams.feedback_rules import parse_rules

CURVE = np.array([1.0, 0.6, 0.35])
MEANS = np.array([0.8, 0.6, 0.5, 0.3, 0.2])


def clicked_log(n: int, seed: int, curve: Any = CURVE, *, good_first: float = 0.8, drift: float = 0.0) -> Log:
    """Clicks on lists in which better items tend to stand higher, by a position-based model.

    With a drift the two best items lose relevance, and move down the list as they do.
    """
    rng, k, m = np.random.default_rng(seed), len(curve), len(MEANS)
    means = MEANS * (1 - drift * np.linspace(0, 1, n)[:, None] * (MEANS > 0.5))
    order = np.argsort(-(means + rng.gumbel(size=(n, m)) * (1 - good_first)), axis=1)
    clicks = draw_clicks(PositionBased(tuple(curve)), np.take_along_axis(means, order, 1)[:, :k], rng)
    records = []
    for t in range(n):
        position, answer = [0] * m, list[int | None]([None] * m)
        for p, item in enumerate(order[t].tolist()):
            position[item] = p
            if p < k:
                answer[item] = int(clicks[t, p])
        records.append(
            {"event": str(t), "k": k, "candidates": list("abcde"), "position": position, "feedback": answer}
        )
    return log_from_records(records)


def test_two_positions_and_one_item_have_a_closed_form() -> None:
    rows = [(0, 1)] * 30 + [(0, 0)] * 10 + [(1, 1)] * 6 + [(1, 0)] * 14  # position of a, clicked
    records = [
        {"event": str(t), "k": 2, "candidates": ["a", f"b{t}"], "position": [p, 1 - p], "feedback": [c, 0]}
        for t, (p, c) in enumerate(rows)
    ]
    found = estimate_curve(log_from_records(records))
    ratio = (6 / 20) / (30 / 40)
    assert found.examined.tolist() == pytest.approx([1, ratio])
    error = np.sqrt(1 / 6 + 1 / 30)  # of the logarithm of a ratio of two Poisson counts
    assert [found.low[1], found.high[1]] == pytest.approx(ratio * np.exp([-1.96 * error, 1.96 * error]), rel=1e-4)
    assert found.clicks.tolist() == [30, 6]
    assert found.shown.tolist() == [40, 20]


def test_the_fit_is_that_of_a_poisson_regression() -> None:
    """Expected clicks n_ip theta_p r_i, both factors free: another likelihood with the same maximum."""
    log = clicked_log(400, 0)
    shown, clicks = _tables(MemorySource("log", log), 1)
    items, positions = shown.shape

    def loss(x: Any) -> Any:
        logs = x[:items, None] + np.append(0, x[items:])
        return (shown * np.exp(logs) - clicks * logs).sum()

    best = minimize(loss, np.full(items + positions - 1, -0.5), method="BFGS", options={"gtol": 1e-6}).x
    assert estimate_curve(log).examined[1:] == pytest.approx(np.exp(best[items:]), rel=1e-4)


def test_better_items_on_top_do_not_bias_it() -> None:
    log = clicked_log(20_000, 1)
    found = estimate_curve(log)
    assert found.examined == pytest.approx(CURVE, abs=0.03)
    rates = found.clicks / found.shown
    assert rates[2] / rates[0] < 0.28  # what comparing positions without items would say


def test_periods_allow_relevance_to_change() -> None:
    log = clicked_log(40_000, 2, drift=0.8)
    apart, together = estimate_curve(log, periods=20), estimate_curve(log)
    assert apart.examined == pytest.approx(CURVE, abs=0.04)
    assert (
        together.high[2] < CURVE[2]
    )  # lower positions seem to be looked at less: worse items came to stand there


@pytest.mark.slow
def test_intervals_contain_the_curve_as_often_as_stated() -> None:
    """150 logs: 95 % of the intervals must contain the truth; 89 % is three standard errors below."""
    held = np.array([
        [found.low[p] <= CURVE[p] <= found.high[p] for p in (1, 2)]
        for found in (estimate_curve(clicked_log(300, seed)) for seed in range(100, 250))
    ])  # fmt: skip
    assert held.mean(axis=0).min() >= 0.89


def test_the_slope_has_mean_zero_at_the_truth_though_clicks_depend_on_relevance() -> None:
    """Enumerated over all clicks on one item: the estimating equation holds, and the information is large enough.

    The law of the positions of the clicks, given their number, does depend on relevance.
    """
    curve, stood = CURVE, np.array([0, 1, 1, 2])
    shown = np.bincount(stood, minlength=3).astype(float)
    shares = shown * curve / (shown * curve).sum()
    laws = []
    for relevance in (0.3, 0.9):
        chance = curve[stood] * relevance
        slope, spread, information, law = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3)
        for clicked in product((0, 1), repeat=len(stood)):
            weight = np.prod(np.where(clicked, chance, 1 - chance))
            counts = np.bincount(stood, clicked, minlength=3)
            off = counts - shares * counts.sum()
            slope += weight * off
            spread += weight * np.outer(off, off)
            information += weight * counts.sum() * (np.diag(shares) - np.outer(shares, shares))
            law += weight * counts if counts.sum() == 2 else 0
        laws.append(law / law.sum())
        assert slope == pytest.approx(np.zeros(3), abs=1e-12)
        assert np.linalg.eigvalsh(information - spread).min() > -1e-12  # intervals are not too narrow
    assert abs(laws[0] - laws[1]).max() > 0.01


def test_clicks_without_a_finite_maximum_are_refused() -> None:
    """Whatever stood at positions 1 and 3 was clicked at 3 only, so the ratio of the two has no upper bound."""
    rows = [("a", 0, 1), ("a", 1, 1), ("b", 0, 0), ("b", 2, 1)] * 5  # item, position, clicked
    records = [
        {
            "event": str(t), "k": 3, "candidates": [item, f"x{t}", f"y{t}"],
            "position": [at, *({0, 1, 2} - {at})], "feedback": [clicked, 0, 0],
        }
        for t, (item, at, clicked) in enumerate(rows)
    ]  # fmt: skip
    with pytest.raises(ValueError, match="too few clicks to compare position 1 with position 3"):
        estimate_curve(log_from_records(records))


def test_the_form_it_suggests_is_one() -> None:
    found = estimate_curve(clicked_log(2000, 3))
    made = parse_rules(found.feedback_rules())
    assert made.curve is not None
    assert made.curve.if_relevant == pytest.approx(found.examined, rel=1e-3)


def test_logs_that_cannot_tell_positions_from_items_are_refused() -> None:
    fixed = [
        {"event": str(t), "k": 2, "candidates": ["a", "b"], "position": [0, 1], "feedback": [1, 1]}
        for t in range(9)
    ]
    with pytest.raises(ValueError, match="no click on an item that was also shown elsewhere"):
        estimate_curve(log_from_records(fixed))
    one = [{"event": "1", "k": 1, "candidates": ["a", "b"], "position": [0, 1], "feedback": [1, None]}]
    with pytest.raises(ValueError, match="only one position"):
        estimate_curve(log_from_records(one))
    swaps = [[0, 1, 2, 3], [1, 0, 3, 2]]  # a and b share positions 1 and 2, c and d positions 3 and 4
    apart = [
        {"event": str(t), "k": 4, "candidates": list("abcd"), "position": swaps[t % 2], "feedback": [1, 1, 1, 1]}
        for t in range(8)
    ]
    with pytest.raises(ValueError, match="position 3 shares no item with position 1"):
        estimate_curve(log_from_records(apart))
    with pytest.raises(ValueError, match="periods = 0"):
        estimate_curve(log_from_records(apart), periods=0)


def test_trust_is_not_identified_but_the_order_is() -> None:
    """Two worlds with the same clicks, one of them without trust at the first position; one line for all items."""
    relevance, slopes, trust = np.array([0.2, 0.5, 0.9]), np.array([0.6, 0.4, 0.1]), np.array([0.2, 0.1, 0.05])
    rates = trust + relevance[:, None] * slopes
    u, v = -trust[0] / slopes[0], 2.0
    assert (trust + u * slopes) + (relevance[:, None] - u) / v * (v * slopes) == pytest.approx(rates)
    assert trust[0] + u * slopes[0] == pytest.approx(0)
    for p in range(3):
        sigma, beta = np.polyfit(rates[:, 0], rates[:, p], 1)
        assert [sigma, beta] == pytest.approx([slopes[p] / slopes[0], trust[p] - trust[0] * slopes[p] / slopes[0]])
        assert (rates[:, p] - beta) / sigma == pytest.approx(rates[:, 0])
