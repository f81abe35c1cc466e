"""Small charts as SVG, drawn by the server: colours are classes, so that light and dark come from the page.

Pictures are stretched to the width that there is. Words and numbers therefore stand beside them, in the page.
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
    """Bars of the last hour: lists that were ranked, and within them those that were answered.

    >>> "2 lists in the last hour, 1 answered" in traffic([Minute(0.0, ranked=2, answered=1)], 30.0)
    True
    """
    recent = [(place, minute) for minute in minutes if (place := _place(minute, now)) is not None]
    highest = max((minute.ranked for _, minute in recent), default=0) or 1
    step = WIDTH / MINUTES
    bars = []
    for place, minute in recent:
        for count, kind in ((minute.ranked, "ranked"), (min(minute.answered, minute.ranked), "answered")):
            height = HEIGHT * count / highest
            bars.append(
                f'<rect class="{kind}" x="{place * step + 0.5:.1f}" y="{HEIGHT - height:.1f}" '
                f'width="{step - 1:.1f}" height="{height:.1f}"/>'
            )
    ranked, answered = sum(m.ranked for _, m in recent), sum(m.answered for _, m in recent)
    return _svg(f"{ranked:,} lists in the last hour, {answered:,} answered", "".join(bars), "bars")


def values(minutes: Sequence[Minute], value: Interval | None, now: float) -> str:
    """The mean value of each minute as a line, over the interval for the mean of all.

    >>> "value" in values([Minute(0.0, value=1.0)], Interval(1.0, 0.5, 1.5, 9), 30.0)
    True
    """
    points = [
        (place, minute.value)
        for minute in minutes
        if (place := _place(minute, now)) is not None and minute.value is not None
    ]
    low, high = value_range(minutes, value, now)
    step, scale = WIDTH / MINUTES, HEIGHT / (high - low)
    body = ""
    if value is not None:
        top, bottom = HEIGHT - (value.high - low) * scale, HEIGHT - (value.low - low) * scale
        body += f'<rect class="band" x="0" y="{top:.1f}" width="{WIDTH}" height="{max(bottom - top, 1):.1f}"/>'
        mean = HEIGHT - (value.mean - low) * scale
        body += f'<line class="mean" x1="0" x2="{WIDTH}" y1="{mean:.1f}" y2="{mean:.1f}"/>'
    path = " ".join(f"{(place + 0.5) * step:.1f},{HEIGHT - (y - low) * scale:.1f}" for place, y in points)
    if len(points) == 1:  # a line of one point is not drawn
        path += f" {(points[0][0] + 0.9) * step:.1f},{HEIGHT - (points[0][1] - low) * scale:.1f}"
    body += f'<polyline class="curve" points="{path}"/>' if points else ""
    return _svg(f"value per minute, {len(points)} minutes", body, "lines")


def value_range(minutes: Sequence[Minute], value: Interval | None, now: float) -> tuple[float, float]:
    """The lowest and the highest value that a picture shows.

    >>> value_range([], None, 0.0)
    (0.0, 1.0)
    """
    seen = [m.value for m in minutes if m.value is not None and _place(m, now) is not None]
    seen += [] if value is None else [value.mean, value.low, value.high]
    if not seen:
        return 0.0, 1.0
    low, high = min(seen), max(seen)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def _place(minute: Minute, now: float) -> int | None:
    """Where a minute stands in the last hour, the present one being the last."""
    place = MINUTES - 1 - int(now // 60 - minute.start // 60)
    return place if 0 <= place < MINUTES else None
