"""Number formats of pages and terminals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peekrank.experiments.study_result import Worst
    from peekrank.regret import Exponent

_MISSING = "–"


def number(value: float | None) -> str:
    """Format a number with three significant digits, or all before the point, or a dash if it is missing.

    >>> number(11811.3), number(64.38), number(0.1046), number(float("nan"))
    ('11,811', '64.4', '0.105', '–')
    """
    if value is None or math.isnan(value):
        return _MISSING
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def decimals(value: float, digits: int = 2) -> str:
    """Format a number with fixed decimals, or a dash if it is missing."""
    return _MISSING if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.00


def percent(share: float) -> str:
    """Format a share in percent.

    >>> percent(0.215)
    '21.5 %'
    """
    return _MISSING if math.isnan(share) else f"{100 * share:.1f} %"


def interval(value: float, low: float, high: float) -> str:
    """Format a value and the ends of its interval, if it has one.

    >>> interval(0.666, 0.641, 0.702), interval(12.5, float("nan"), float("nan"))
    ('0.666, 0.641..0.702', '12.5')
    """
    return (
        number(value) if math.isnan(low) or math.isnan(high) else f"{number(value)}, {number(low)}..{number(high)}"
    )


def p_value_text(p: float) -> str:
    """Format a p-value.

    >>> p_value_text(0.0321), p_value_text(1e-9)
    ('0.032', '< 0.001')
    """
    return _MISSING if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "< 0.001"


def regret_text(worst: Worst) -> str:
    """Format mean and spread of a learner's worst regret."""
    return f"{number(worst.regret)} ± {number(worst.spread)}"


def exponent_text(exponent: Exponent) -> str:
    """Format an exponent with its interval, if it has one.

    >>> from peekrank.regret import Exponent
    >>> exponent_text(Exponent(0.667, 0.65, 0.68)), exponent_text(Exponent(0.5, math.nan, math.nan))
    ('0.67, 0.65..0.68', '0.50')
    """
    value, low, high = exponent
    if math.isnan(value):
        return _MISSING
    return decimals(value) + ("" if math.isnan(low) else f", {decimals(low)}..{decimals(high)}")


def bound_text(worst: Worst) -> str:
    """Format a bound, and mark it if the regret exceeds it significantly."""
    return number(worst.bound) + (" exceeded" if worst.exceeded else "")
