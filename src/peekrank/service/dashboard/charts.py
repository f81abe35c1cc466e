"""Small SVG charts, drawn on the server. Colours are CSS classes, so that the page sets light and dark.

The page stretches charts to the available width. Therefore all text is in the page, not in the chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from peekrank.service.api.messages import Interval, Minute

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
    busiest = max((minute.ranked for _, minute in recent), default=0) or 1
    step = WIDTH / MINUTES
    bars = []
    for column, minute in recent:
        for count, kind in ((minute.ranked, "ranked"), (min(minute.answered, minute.ranked), "answered")):
            height = HEIGHT * count / busiest
            bars.append(
                f'<rect class="{kind}" x="{column * step + 0.5:.1f}" y="{HEIGHT - height:.1f}" '
                f'width="{step - 1:.1f}" height="{height:.1f}"/>'
            )
    ranked, answered = sum(m.ranked for _, m in recent), sum(m.answered for _, m in recent)
    return _svg(f"{ranked:,} lists in the last hour, {answered:,} answered", "".join(bars), "bars")


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
