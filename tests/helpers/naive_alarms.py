"""Alarms written out from their definitions, in plain Python: what the compiled ones must agree with."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

STAKES = (0.9, 0.3, 0.1, 0.03)
SHARE = 1 / 13
EQUAL = 0.95
TINY = 1e-9


class Account:
    def __init__(self) -> None:
        self.parts = [0.0] * 4

    def bet(self, coin: float, gain: float) -> None:
        gain = max(-1.0, min(1e9, gain))
        self.parts = [
            (part + coin / 4) * (1 + stake * gain) for part, stake in zip(self.parts, STAKES, strict=True)
        ]

    def alarm(self, alpha: float) -> bool:
        if sum(self.parts) < 1 / alpha:
            return False
        self.parts = [0.0] * 4
        return True


class Past:
    """All numbers since the beginning, and the confidence sequence of their mean, computed anew each time."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.level = math.nan
        self.low, self.high = 0.0, 1.0

    def take(self, x: float) -> None:
        self.numbers.append(x)
        numbers = np.array(self.numbers)
        counts = np.arange(1, len(numbers) + 1)
        means = (0.5 + np.cumsum(numbers) - numbers) / counts  # before each number
        after = (0.5 + np.cumsum(numbers)) / (counts + 1)
        deviations = (numbers - after) ** 2
        variances = (0.25 + np.cumsum(deviations) - deviations) / counts
        slopes = np.minimum(0.5, np.sqrt(2 * np.log(2 / self.level) / (variances * counts * np.log(counts + 1))))
        costs = ((numbers - means) ** 2 * (-np.log(1 - slopes) - slopes)).sum()
        middle = float(slopes @ numbers / slopes.sum())
        radius = float((np.log(2 / self.level) + costs) / slopes.sum())
        self.low, self.high = max(self.low, middle - radius), min(self.high, middle + radius)


class NaiveWatch:
    def __init__(self, alpha: float, min_feedback_rate: float = 0.001, tolerance: float = 0.2) -> None:
        self.alpha, self.min_feedback_rate, self.tolerance = alpha, min_feedback_rate, tolerance
        self.accounts: dict[tuple[str, int | None], Account] = defaultdict(Account)
        self.pasts: dict[tuple[str, int | None, int], Past] = defaultdict(Past)
        self.raised: list[tuple[int, str, int | None]] = []
        self.round = 0

    def observe(
        self,
        items: Sequence[int],
        propensities: Sequence[float],
        positions: Sequence[int],
        answers: Sequence[float],
        k: int,
    ) -> None:
        self.round += 1
        is_seen = [0 <= position < k for position in positions]
        rows = list(zip(items, propensities, is_seen, answers, strict=True))
        if k < len(rows) and not any(math.isnan(propensity) for propensity in propensities):
            self.shown(rows, k)
        seen = [
            (item, at, answer) for (item, _, is_seen, answer), at in zip(rows, positions, strict=True) if is_seen
        ]
        told = [(item, answer) for item, _, answer in seen if not math.isnan(answer)]
        if not seen:
            return
        self.against_past("fewer-answers", None, -1, SHARE, len(told) / len(seen))
        self.bet("no-feedback", None, SHARE, (self.min_feedback_rate - bool(told)) / (1 - self.min_feedback_rate))
        if told:
            self.against_past("lower-grades", None, -1, SHARE, sum(answer for _, answer in told) / len(told))
            self.accounts["orphan-feedback", None].bet(SHARE, -1.0)
        if len(told) > 1 and max(answer for _, answer in told) > 0:
            is_equal = len({answer for _, answer in told}) == 1
            self.bet("equal-answers", None, SHARE, (is_equal - EQUAL) / EQUAL)
        for item, at, answer in seen:
            self.against_past("answers", item, at, SHARE / len(seen), float(not math.isnan(answer)))
            if not math.isnan(answer):
                self.against_past("grades", item, at, SHARE / len(told), answer)

    def shown(self, rows: list[tuple[int, float, bool, float]], k: int) -> None:
        propensities = [propensity for _, propensity, _, _ in rows]
        squares, largest = sum(propensity**2 for propensity in propensities), sum(sorted(propensities)[-k:])
        found = sum(propensity for _, propensity, is_seen, _ in rows if is_seen)
        coin = SHARE if largest - squares > TINY else 0.0
        self.bet("unexpected-order", None, coin, (squares - found) / max(TINY, largest - squares))
        self.bet("no-exploration", None, coin, (found - squares) / max(TINY, squares))
        total = sum(propensities)
        for item, propensity, is_seen, _ in rows:
            most, least = min(propensity, 1 - TINY), max(propensity, TINY)
            self.bet("item-hidden", item, SHARE * propensity / total, (most - is_seen) / (1 - most))
            self.bet(
                "item-overexposed", item, SHARE * (1 - propensity) / (len(rows) - total), (is_seen - least) / least
            )

    def against_past(self, what: str, item: int | None, at: int, coin: float, x: float) -> None:
        past = self.pasts[what, item, at]
        names = [what] if item is None else [f"item-{word}-{what}" for word in _words(what)]
        if not past.numbers:
            past.level = len(names) * coin * self.alpha
            past.take(x)
            return
        low, high = past.low * (1 - self.tolerance), past.high / (1 - self.tolerance)
        past.take(x)
        gains = ((low - x) / (1 - low), (x - high) / high)
        possible = (low > 0, high < 1)
        fired = [self.bet(name, item, coin, gains[i]) for i, name in enumerate(names) if possible[i]]
        if any(fired):
            for name in names:
                self.accounts[name, item] = Account()
            for key in [key for key in self.pasts if key[:2] == (what, item)]:
                del self.pasts[key]

    def bet(self, name: str, item: int | None, coin: float, gain: float) -> bool:
        account = self.accounts[name, item]
        account.bet(coin, gain)
        fired = account.alarm(self.alpha)
        if fired:
            self.raised.append((self.round, name, item))
        return fired


def _words(what: str) -> tuple[str, str]:
    return ("fewer", "more") if what == "answers" else ("lower", "higher")
