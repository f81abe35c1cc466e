"""Comparison of two rankers in a slot: it takes the place of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec
import numpy as np

from peekrank.evaluation.comparison.comparison import Comparison
from peekrank.evaluation.comparison.saved import Open
from peekrank.service.api import messages, problems
from peekrank.service.config import SlotConfig
from peekrank.service.event_log.records import Ranked, numbers, read_floats, read_numbers
from peekrank.types import Floats

CLICKS = "clicks with examination have no propensity in a log; the slot itself has the verdict"


def new_comparison(config: SlotConfig, key: int) -> Comparison | None:
    """Create the comparison of a slot. Returns None if the slot has a learner."""
    return None if config.compare is None else Comparison.from_settings(config.compare.settings(config, key))


def set_orders(body: Ranked, request: messages.RankRequest) -> Sequence[str]:
    """Set the second order of a call, and return the first. Raises a `Problem` if the call is no comparison."""
    for name in ("items", "context", "key", "baseline", "pins", "blocked", "score_version"):
        if getattr(request, name) is not None:
            raise problems.invalid(
                f"{name}: this slot compares the two orders of a call; send orders", f"$.{name}"
            )
    if request.orders is None:
        raise problems.invalid(
            "orders is missing: this slot compares two rankers, so send both orders", "$.orders"
        )
    first, second = request.orders
    index = {name: n for n, name in enumerate(first)}
    if unknown := [name for name in second if name not in index]:
        raise problems.invalid(f"orders: {unknown[0]!r} is in the second order only", "$.orders[1]")
    if len(set(second)) < len(second):
        duplicate = next(name for name in second if second.count(name) > 1)
        raise problems.invalid(f"orders: {duplicate!r} appears twice in the second order", "$.orders[1]")
    if missing := [name for name in first if name not in set(second)]:
        raise problems.invalid(f"orders: {missing[0]!r} is in the first order only", "$.orders[0]")
    body.other = numbers(np.array([index[name] for name in second], np.int64))
    return first


def draw(comparison: Comparison, request: Ranked) -> Ranked:
    """Draw a list, and return the record of it. Rows are those of the first order."""
    names = request.names
    drawn, propensities = comparison.draw(names, [names[row] for row in read_numbers(request.other).tolist()])
    return msgspec.structs.replace(
        request,
        ranking=numbers(drawn.ranking),
        token=np.array([0.0, drawn.arm], "<f8").tobytes(),
        propensities=propensities.astype("<f8").tobytes(),
        exposure=drawn.exposure.astype("<f8").tobytes() if comparison.settings.examination else b"",
    )


def observe(comparison: Comparison, body: Ranked, answers: Floats) -> bool:
    """Add a list whose feedback is final, and return whether it counts."""
    other = read_numbers(body.other)
    return comparison.observe(
        Open(
            comparison.subjects(body.names),
            np.argsort(other),
            read_floats(body.exposure or body.propensities),
            read_numbers(body.ranking),
            int(read_floats(body.token)[1]),
            answers,
        )
    )


def comparison_reply(config: SlotConfig, comparison: Comparison | None) -> messages.Comparison | None:
    """Describe a comparison so far."""
    if comparison is None or config.compare is None:
        return None
    names, verdict = config.compare.names, comparison.verdict()
    check, forecast = verdict.check, comparison.forecast() if comparison.shown else None
    return messages.Comparison(
        a=names[0],
        b=names[1],
        mode=config.compare.mode,
        better=None if verdict.better == "undecided" else dict(zip("ab", names, strict=True))[verdict.better],
        verdict=verdict.text(*names),
        lists=verdict.lists,
        answered=verdict.answered,
        difference=_known(verdict.difference),
        low=_known(verdict.low),
        high=_known(verdict.high),
        alpha=verdict.alpha,
        remaining=verdict.remaining,
        check=None
        if check is None
        else messages.ComparisonCheck(check.kind, check.estimate, check.low, check.high, check.passed),
        ratio=forecast.ratio if forecast else None,
        forecast=str(forecast) if forecast else "",
    )


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
