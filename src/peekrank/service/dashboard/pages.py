"""Pages of the dashboard, rendered from the state in memory. They never read the log."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from peekrank.service.api.messages import SlotReply, StatsReply
from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS
from peekrank.service.core.activity import Day
from peekrank.service.core.details import Details
from peekrank.service.dashboard import charts


class Card(NamedTuple):
    """A slot, with figures computed from its counts."""

    slot: SlotReply
    response_rate: float | None  # share of the events with feedback, of those whose feedback window is over
    explored_share: float | None
    traffic: Markup
    values: Markup
    busiest: int  # lists in the busiest minute
    chart_min: float  # range of the value chart
    chart_max: float


def card(slot: SlotReply, now: float) -> Card:
    """Compute the figures and charts of a slot."""
    low, high = charts.value_range(slot.minutes, slot.value, now)
    return Card(
        slot,
        slot.due_answered / slot.due if slot.due else None,
        slot.explored / slot.ranked if slot.ranked else None,
        Markup(charts.traffic(slot.minutes, now)),  # noqa: S704 - numbers and escaped text
        Markup(charts.values(slot.minutes, slot.value, now)),  # noqa: S704
        max((minute.ranked for minute in slot.minutes), default=0),
        low,
        high,
    )


class Trend(NamedTuple):
    """The periods of a trend, drawn."""

    unit: str
    columns: int
    values: Markup
    traffic: Markup
    busiest: int
    chart_min: float
    chart_max: float


def trends(days: Sequence[Day], now: float) -> list[Trend]:
    """Draw the last days, and the last weeks if there are several. One day alone is no trend."""
    drawn = []
    for unit, length, columns in (("day", 1, 35), ("week", 7, 52)):
        found = charts.periods(days, now, length, columns)
        if len(found) < 2:
            continue
        low, high = charts.trend_range(found)
        drawn.append(
            Trend(
                unit,
                columns,
                Markup(charts.trend_values(found, columns, unit)),  # noqa: S704 - numbers and our own words
                Markup(charts.trend_traffic(found, columns, unit)),  # noqa: S704
                max(period.ranked for period in found),
                low,
                high,
            )
        )
    return drawn


class View(NamedTuple):
    """How a page is viewed: the service's time, whether the page reloads, the banner, and the key of a ranking."""

    now: float
    live: bool = True
    banner: str = ""
    key: str | None = None

    def query(self, *, live: bool) -> str:
        """Return the query of the same page, live or not.

        >>> View(0.0, key="a b").query(live=False), View(0.0).query(live=True)
        ('?live=no&key=a+b', '?')
        """
        fields = ({} if live else {"live": "no"}) | ({} if self.key is None else {"key": self.key})
        return f"?{urlencode(fields)}"


def overview(slots: Sequence[SlotReply], stats: StatsReply | None, reason: str, view: View) -> str:
    """Render the first page: the service, and a card for each slot."""
    cards = [card(slot, view.now) for slot in slots]
    return _render("overview.html", cards=cards, stats=stats, reason=reason, view=view)


def slot_page(slot: SlotReply, details: Details, view: View) -> str:
    """Render the page of a slot, with its current ranking, its trend and its best items."""
    return _render(
        "slot.html",
        card=card(slot, view.now),
        details=details,
        trends=trends(details.days, view.now),
        view=view,
    )


def compiling_page(seconds: float, view: View) -> str:
    """Return the page that is shown while kernels are compiled."""
    return _render("compiling.html", seconds=seconds, view=view)


def problem_page(kind: str) -> str:
    """Render the explanation that the `type` of a problem links to."""
    return _render("problem.html", kind=kind, problem=PROBLEM_TYPES[kind], view=View(0.0, live=False))


@cache
def api_page() -> str:
    """Render the reference of the HTTP calls."""
    document = openapi()
    calls = []
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        reply, request = _schema(operation["responses"]["200"]), _schema(operation.get("requestBody", {}))
        calls.append(endpoint._replace(reply=reply, request=request))
    return _render(
        "api.html",
        version=document["info"]["version"],
        description=document["info"]["description"],
        calls=calls,
        schemas=sorted(document["components"]["schemas"].items()),
        problems=PROBLEM_TYPES,
        view=View(0.0, live=False),
    )


def _schema(body: dict[str, Any]) -> Any:
    """Return the schema of a body in the description, or None if there is no body."""
    return next((media["schema"] for media in body.get("content", {}).values()), None)


@cache
def style() -> str:
    """Return the style sheet, which every page includes."""
    return (files("peekrank.service.dashboard") / "templates" / "dashboard.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return the content security policy of a page: only its own style sheet, identified by its hash."""
    digest = base64.b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("peekrank.service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        inline=_inline, percent=_percent, number=_number, ago=_ago, size=_size, count=_count, signed=_signed
    )
    return environment


def _render(template: str, **content: Any) -> str:
    return _environment().get_template(template).render(style=Markup(style()), **content)  # noqa: S704 - our own


def _inline(text: str) -> Markup:
    """Mark what is between backquotes as code.

    >>> print(_inline("`a<b` or c"))
    <code>a&lt;b</code> or c
    """
    return Markup(re.sub(r"`+([^`]+)`+", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _signed(value: float) -> str:
    """Format an effect.

    >>> _signed(0.1234), _signed(-0.5), _signed(-0.0)
    ('+0.123', '−0.500', '0.000')
    """
    text = f"{abs(value):.3f}"
    return text if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _ago(moment: float, now: float) -> str:
    """Format the time since a moment.

    >>> _ago(0.0, 59.0), _ago(0.0, 3600.0), _ago(0.0, 90_000.0)
    ('59 s', '60 min', '25 h')
    """
    seconds = max(now - moment, 0.0)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _size(size: int) -> str:
    """Format a size in bytes.

    >>> _size(999), _size(2_500_000)
    ('999 B', '2.5 MB')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"
