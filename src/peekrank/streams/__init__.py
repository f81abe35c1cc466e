"""Sources of rounds over fixed items: generators, files of preferences, click models and feedback rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peekrank.registry import STREAMS
from peekrank.spec import parse
from peekrank.streams.adversary import Adversary
from peekrank.streams.available import Available
from peekrank.streams.click_stream import Clicks
from peekrank.streams.fixed import available_items, fixed_items
from peekrank.streams.preference_files import ORDER_FILES, Preferences, read_orders, read_ratings
from peekrank.streams.preferences import Orders, Ratings
from peekrank.streams.synthetic import CT15, Bernoulli, Binomial, Drifting, Joint, Switching
from peekrank.types import Stream

__all__ = [
    "CT15",
    "Adversary",
    "Available",
    "Bernoulli",
    "Binomial",
    "Clicks",
    "Drifting",
    "Joint",
    "Orders",
    "Preferences",
    "Ratings",
    "Switching",
    "available_items",
    "fixed_items",
    "read_orders",
    "read_ratings",
    "stream",
]


def stream(text: str, **context: Any) -> Stream:
    """Make the stream that a specification, or the path of a preference file, describes.

    `context` fills fields that the stream has and the specification leaves out.

    >>> stream("ct15:noise=0.5")
    CT15(m=10, noise=0.5)
    >>> stream("votes.soc").rule
    'top3'
    """
    path = Path(text)
    if text.partition(":")[0] not in STREAMS:
        if path.suffix.lower() in ORDER_FILES:
            return Orders(path)
        if path.suffix.lower() == ".csv":
            return Ratings(path)
    parsed: Stream = parse("stream", STREAMS, text, **context)
    return parsed
