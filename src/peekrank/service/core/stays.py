"""Visitors of a sticky slot, who get the order of their first visit for some time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from msgspec import Struct

from peekrank.service.event_log.records import Ranked, read_numbers


class Stay(Struct, array_like=True):
    """A visitor with the list of the first visit."""

    visitor: bytes
    first: int  # number of the record
    ends: int
    order: bytes  # numbers of the items, best first; for lists that bring their own items, empty
    names: list[str]  # the other way round
    arranged: bytes  # `arrangement`


class Stays(OrderedDict[bytes, Stay]):
    """The visitors of a slot, the earliest first visit first.

    Parameters
    ----------
    stays
        Initial ones.
    """

    def __init__(self, stays: Iterable[Stay] = ()) -> None:
        super().__init__((stay.visitor, stay) for stay in stays)

    def begin(self, stay: Stay, time: int, limit: int) -> None:
        """Add a first visit. Drop visitors whose time is over, and the earliest beyond a limit."""
        self.pop(stay.visitor, None)
        self[stay.visitor] = stay
        while self:
            first = next(iter(self.values()))
            if first.ends > time and len(self) <= limit:
                return
            del self[first.visitor]

    def current(self, body: Ranked, time: int, arranged: bytes) -> Stay | None:
        """Return the stay whose order a list repeats, or None if it gets a new one."""
        stay = self.get(body.visitor) if body.visitor else None
        return stay if stay and stay.ends > time and stay.arranged == arranged else None


def new_stay(body: Ranked, number: int, ends: int, arranged: bytes) -> Stay:
    """Create the stay of a first list."""
    order = read_numbers(body.ranking)
    named = [body.names[n] for n in order.tolist()] if body.names else []
    return Stay(body.visitor, number, ends, b"" if named else body.ranking, named, arranged)


def repeated(stay: Stay, current: Sequence[str] | Sequence[int]) -> tuple[list[str] | list[int], bool]:
    """Return the order of a stay without the items that are gone, and whether the list has exactly its items.

    New items come last, in the order of `current`, which is how the learner ranks the list now.
    """
    order: list[str] | list[int] = stay.names or read_numbers(stay.order).tolist()
    listed, known = set(current), set(order)
    kept = [one for one in order if one in listed]
    out = [*kept, *(one for one in current if one not in known)]
    return out, len(kept) == len(order) == len(out)  # type: ignore[return-value]


def arrangement(body: Ranked, items: Sequence[str] | Sequence[int], *, limited: bool, leashed: bool) -> bytes:
    """Return a digest of what the rules about positions depend on; empty without such rules.

    If it changes, the old order might break a rule, so that the visitor gets a new one.
    """
    if not (limited or leashed or body.pins):
        return b""
    groups = read_numbers(body.groups).tolist() if body.groups else [0] * len(items)
    listed = list(zip(items, groups, strict=True))
    said = listed if leashed or body.groups else sorted(items)
    content = repr((said, body.pins, body.scores if leashed else b""))
    return blake2b(content.encode(), digest_size=8).digest()
