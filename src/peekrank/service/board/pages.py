"""Pages of the board, filled from what the service has in memory: nothing here reads the log."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from peekrank.service.board import pictures
from peekrank.service.messages import ItemReply, SlotReply, StatsReply
from peekrank.service.problems import KINDS

SHOWN = 100  # items on a page


class Card(NamedTuple):
    """A slot, with what is computed from its counts."""

    slot: SlotReply
    answer_rate: float | None  # of closed events
    explored_share: float | None
    traffic: Markup
    values: Markup
    busiest: int  # lists in a minute
    lowest: float  # values at the edges of the picture
    highest: float


def card(slot: SlotReply, now: float) -> Card:
    """A slot as a page shows it."""
    closed = slot.answered + slot.expired
    low, high = pictures.value_range(slot.minutes, slot.value, now)
    return Card(
        slot,
        slot.answered / closed if closed else None,
        slot.explored / slot.ranked if slot.ranked else None,
        Markup(pictures.traffic(slot.minutes, now)),  # noqa: S704 - numbers, and words that are escaped
        Markup(pictures.values(slot.minutes, slot.value, now)),  # noqa: S704
        max((minute.ranked for minute in slot.minutes), default=0),
        low,
        high,
    )


class View(NamedTuple):
    """How a page is looked at: the service's time, whether it loads itself again, and what stands above all."""

    now: float
    live: bool = True
    notice: str = ""


def overview(slots: Sequence[SlotReply], stats: StatsReply | None, reason: str, view: View) -> str:
    """The first page: the service, its alarms, and a card for each slot."""
    cards = [card(slot, view.now) for slot in slots]
    return _render("overview.html", cards=cards, stats=stats, reason=reason, view=view)


def slot_page(slot: SlotReply, items: Sequence[ItemReply], view: View) -> str:
    """All that is known of a slot; of its items those with the best answers."""
    ordered = sorted(items, key=lambda item: (item.retired, -(item.mean or 0.0), -item.shown, item.id))
    return _render("slot.html", card=card(slot, view.now), items=ordered[:SHOWN], known=len(items), view=view)


def compiling_page(seconds: float, view: View) -> str:
    """Return the page that is shown while kernels are compiled."""
    return _render("compiling.html", seconds=seconds, view=view)


def problem_page(kind: str) -> str:
    """What a problem means: what its `type` links to."""
    return _render("problem.html", kind=kind, problem=KINDS[kind], view=View(0.0, live=False))


@cache
def style() -> str:
    """The style sheet, which is in every page."""
    return (files("peekrank.service.board") / "templates" / "board.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """What a browser may load for a page: its own style sheet, known by its hash, and nothing else."""
    digest = base64.b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("peekrank.service.board"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(percent=_percent, number=_number, ago=_ago, size=_size, count=_count)
    return made


def _render(template: str, **content: Any) -> str:
    return _environment().get_template(template).render(style=Markup(style()), **content)  # noqa: S704 - our own


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _ago(moment: float, now: float) -> str:
    """How long ago something was, in a word.

    >>> _ago(0.0, 59.0), _ago(0.0, 3600.0), _ago(0.0, 90_000.0)
    ('59 s', '60 min', '25 h')
    """
    seconds = max(now - moment, 0.0)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _size(size: int) -> str:
    """A size in bytes.

    >>> _size(999), _size(2_500_000)
    ('999 B', '2.5 MB')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"
