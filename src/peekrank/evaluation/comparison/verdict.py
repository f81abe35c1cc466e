"""Verdict of a comparison: a difference with its interval, in numbers and in words."""

from __future__ import annotations

from math import ceil
from typing import Literal, NamedTuple

from peekrank._util.text import pluralize

_SD, _RANGE = 13, 8  # lists until a verdict: 13 (sd/difference)^2, but at least 8 range/difference (measured)


class Check(NamedTuple):
    """Check of the assumption that answers do not depend on the position.

    ``A/B`` is the plain difference between the lists in a's order and those in b's. If the assumption holds, it
    estimates the same as the verdict. ``positions`` is the mean by which answers about the items that the coin put
    higher are better than predicted. If the assumption holds, it is 0.
    """

    kind: Literal["A/B", "positions"]
    estimate: float
    low: float
    high: float
    passed: bool


class Verdict(NamedTuple):
    """Difference of a and b in the measure per list, with an interval that is valid at every look.

    The probability that the interval is ever wrong is at most alpha. It is None before the first answer, as are
    `check` and `remaining` if they are unknown.
    """

    measure: str
    higher_is_better: bool
    lists: int  # whose feedback is final
    answered: int  # those that count
    difference: float
    low: float
    high: float
    alpha: float
    std_error: float
    remaining: int | None  # lists with answers that are likely to be needed, if the difference is as estimated
    check: Check | None

    @property
    def better(self) -> Literal["a", "b", "undecided"]:
        """The better ranker, or undecided while the interval contains 0."""
        if self.low <= 0 <= self.high:
            return "undecided"
        return "a" if (self.low > 0) == self.higher_is_better else "b"

    def __str__(self) -> str:
        """Return the verdict in words."""
        return self.text()

    def text(self, a: str = "a", b: str = "b") -> str:
        """Return the verdict in words, with names for both rankers."""
        if self.answered == 0:
            return f"Undecided: no list has answers yet ({pluralize(self.lists, 'list')} closed)."
        level = f"{100 * (1 - self.alpha):g} %"
        ends = f"{self.low:.3g} to {self.high:.3g}"
        counted = f"after {pluralize(self.answered, 'list')} with answers"
        if self.better == "undecided":
            text = (
                f"Undecided: {self.measure} of {a} minus {b} is {self.difference:.3g} ({level}: {ends}) {counted}."
            )
            text += describe_remaining(self.remaining)
        else:
            size, better = abs(self.difference), a if self.better == "a" else b
            low, high = sorted((abs(self.low), abs(self.high)))
            ends = f"{low:.3g} to {high:.3g}"
            text = f"{better} is better: {self.measure} differs by {size:.3g} ({level}: {ends}) {counted}."
        if self.check is not None and not self.check.passed:
            text += _ALARMS[self.check.kind]
        return text


_ALARMS = {
    "A/B": " But the plain A/B value contradicts this: answers probably depend on the position.",
    "positions": " But answers depend on the position: use clicks with their examination, or the A/B value of "
    "mode = 'coin'.",
}


def describe_remaining(lists: int | None) -> str:
    """Say how many more lists are needed. The rule of thumb has no number beyond the one that it expected.

    >>> describe_remaining(1)
    ' If that is right, few more are needed.'
    """
    if lists is None:
        return ""
    return f" If that is right, {f'about {lists:,}' if lists > 1 else 'few'} more are needed."


def remaining_lists(answered: int, difference: float, sd: float, spread: float) -> int | None:
    """Return how many more lists a verdict is likely to need; None if the estimate is 0.

    >>> remaining_lists(100, 0.1, 0.5, 1.0)
    225
    """
    size = abs(difference)
    if size == 0:
        return None
    needed = max(_SD * (sd / size) ** 2, _RANGE * spread / size)
    return max(1, ceil(needed) - answered) if needed < 2**53 else None
