"""Small SVG charts, drawn on the server. Colours are CSS classes, so that the page sets light and dark.

The page stretches charts to the available width. Therefore all text is in the page, not in the chart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from peekrank.service.api.messages import Interval, Minute
from peekrank.service.core.activity import Day

WIDTH, HEIGHT = 600, 120
MINUTES = 60


def _svg(label: str, body: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{body}</svg>'
    )


def traffic(minutes: Sequence[Minute], now: float) -> str:
    """Draw the traffic of the last hour: a bar of ranked lists per minute, with the answered ones inside.

    >>> "2 lists in the last hour, 1 answered" in traffic([Minute(0.0, ranked=2, answered=1)], 30.0)
    True
    """
    recent = [(column, minute) for minute in minutes if (column := _column(minute, now)) is not None]
    ranked, answered = sum(m.ranked for _, m in recent), sum(m.answered for _, m in recent)
    bars = _bars([(column, minute.ranked, minute.answered) for column, minute in recent], MINUTES)
    return _svg(f"{ranked:,} lists in the last hour, {answered:,} answered", bars, "bars")


def _bars(counts: Sequence[tuple[int, int, int]], columns: int) -> str:
    """Draw a bar of ranked lists for each column, with the answered ones inside."""
    busiest = max((ranked for _, ranked, _ in counts), default=0) or 1
    step = WIDTH / columns
    bars = []
    for column, ranked, answered in counts:
        for count, kind in ((ranked, "ranked"), (min(answered, ranked), "answered")):
            height = HEIGHT * count / busiest
            bars.append(
                f'<rect class="{kind}" x="{column * step + 0.5:.1f}" y="{HEIGHT - height:.1f}" '
                f'width="{step - 1:.1f}" height="{height:.1f}"/>'
            )
    return "".join(bars)


def values(minutes: Sequence[Minute], value: Interval | None, now: float) -> str:
    """Draw the mean value of each minute as a line, over the confidence interval of the overall mean.

    >>> "value" in values([Minute(0.0, value=1.0)], Interval(1.0, 0.5, 1.5, 9), 30.0)
    True
    """
    points = [
        (column, minute.value)
        for minute in minutes
        if (column := _column(minute, now)) is not None and minute.value is not None
    ]
    low, high = value_range(minutes, value, now)
    step, scale = WIDTH / MINUTES, HEIGHT / (high - low)
    body = ""
    if value is not None:
        top, bottom = HEIGHT - (value.high - low) * scale, HEIGHT - (value.low - low) * scale
        body += f'<rect class="band" x="0" y="{top:.1f}" width="{WIDTH}" height="{max(bottom - top, 1):.1f}"/>'
        mean = HEIGHT - (value.mean - low) * scale
        body += f'<line class="mean" x1="0" x2="{WIDTH}" y1="{mean:.1f}" y2="{mean:.1f}"/>'
    path = " ".join(f"{(column + 0.5) * step:.1f},{HEIGHT - (y - low) * scale:.1f}" for column, y in points)
    if len(points) == 1:  # SVG does not draw a line of one point
        path += f" {(points[0][0] + 0.9) * step:.1f},{HEIGHT - (points[0][1] - low) * scale:.1f}"
    body += f'<polyline class="curve" points="{path}"/>' if points else ""
    return _svg(f"value per minute, {len(points)} minutes", body, "lines")


def value_range(minutes: Sequence[Minute], value: Interval | None, now: float) -> tuple[float, float]:
    """Return the smallest and largest value of a chart.

    >>> value_range([], None, 0.0)
    (0.0, 1.0)
    """
    shown = [m.value for m in minutes if m.value is not None and _column(m, now) is not None]
    shown += [] if value is None else [value.mean, value.low, value.high]
    if not shown:
        return 0.0, 1.0
    low, high = min(shown), max(shown)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def _column(minute: Minute, now: float) -> int | None:
    """Return the index of a minute in the last hour, or None. The current minute is the last."""
    column = MINUTES - 1 - int(now // 60 - minute.start // 60)
    return column if 0 <= column < MINUTES else None


class Period(NamedTuple):
    """Some days of a trend: its column, its counts, and the mean value of its answered lists with an interval."""

    column: int
    ranked: int
    answered: int
    mean: float
    low: float
    high: float


def periods(days: Sequence[Day], now: float, length: int, columns: int) -> list[Period]:
    """Sum up days to periods of some length, of which the present one is the last column. Weeks begin on Monday.

    >>> days = [Day(3, 9, 0, 2, 1.0, 1.0), Day(4, 1), Day(11, 5, 0, 1, 1.0, 1.0)]
    >>> [period[:4] for period in periods(days, 11 * 86400.0, 7, 3)]
    [(0, 9, 2, 0.5), (1, 1, 0, 0.0), (2, 5, 1, 1.0)]
    """

    def number(day: int) -> int:
        return (day + 3) // 7 if length == 7 else day

    last = number(int(now // 86400))
    found = []
    for which, group in groupby(days, lambda day: number(day.number)):
        column = columns - 1 - (last - which)
        if 0 <= column < columns:
            together = list(group)
            n, value = sum(day.answered for day in together), sum(day.value for day in together)
            mean = value / n if n else 0.0
            deviations = max(0.0, sum(day.squares for day in together) - value * mean)
            half = 1.96 * math.sqrt(deviations / (n - 1) / n) if n > 1 else 0.0
            found.append(Period(column, sum(day.ranked for day in together), n, mean, mean - half, mean + half))
    return found


def trend_traffic(found: Sequence[Period], columns: int, unit: str) -> str:
    """Draw the lists of each period."""
    label = f"lists per {unit}, {len(found)} {unit}s with lists"
    return _svg(label, _bars([period[:3] for period in found], columns), "bars")


def trend_range(found: Sequence[Period]) -> tuple[float, float]:
    """Return the smallest and largest value of a trend.

    >>> trend_range([])
    (0.0, 1.0)
    """
    answered = [period for period in found if period.answered]
    if not answered:
        return 0.0, 1.0
    low, high = min(period.low for period in answered), max(period.high for period in answered)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def trend_values(found: Sequence[Period], columns: int, unit: str) -> str:
    """Draw the mean value of each period as a line, over its confidence interval."""
    answered = [period for period in found if period.answered]
    low, high = trend_range(found)
    step, scale = WIDTH / columns, HEIGHT / (high - low)
    body = "".join(
        f'<rect class="band" x="{period.column * step:.1f}" y="{HEIGHT - (period.high - low) * scale:.1f}" '
        f'width="{step:.1f}" height="{max((period.high - period.low) * scale, 1):.1f}"/>'
        for period in answered
    )
    points = [f"{(p.column + 0.5) * step:.1f},{HEIGHT - (p.mean - low) * scale:.1f}" for p in answered]
    if len(points) == 1:  # SVG does not draw a line of one point
        points.append(f"{(answered[0].column + 0.9) * step:.1f},{points[0].partition(',')[2]}")
    body += f'<polyline class="curve" points="{" ".join(points)}"/>' if points else ""
    said = f": {answered[0].mean:.3f} in the first, {answered[-1].mean:.3f} in the last" if answered else ""
    return _svg(f"value per list by {unit}, {len(answered)} {unit}s with answers{said}", body, "lines")
