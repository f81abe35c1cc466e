"""A stand-in for the service below HTTP: keeps events in memory, ranks as it was asked, learns nothing."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any
from uuid import uuid4

from peekrank.service import problems
from peekrank.service.commands import Activate, Answer, Command, PutItems, Rank, RetireItems
from peekrank.service.messages import (
    ChangedReply,
    EventReply,
    Item,
    ItemReply,
    ItemsReply,
    RankReply,
    RankRequest,
    SlotReply,
    StatsReply,
)
from peekrank.service.problems import Problem


class FakeService:
    def __init__(self) -> None:
        self.known = {"home": {"tea": False, "cake": False, "soup": False}, "search": {}}
        self.events: dict[str, tuple[str, RankRequest, RankReply, EventReply]] = {}
        self.reason = ""
        self.fails: Exception | None = None

    def not_ready(self) -> str:
        return self.reason

    def submit(self, command: Command) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            if self.fails:
                raise self.fails
            done.set_result(self._do(command))
        except Exception as error:
            done.set_exception(error)
        return done

    def _do(self, command: Command) -> Any:
        if isinstance(command, Rank):
            return self._rank(command.slot, command.request)
        if isinstance(command, Answer):
            return self.event(command.event_id)
        if isinstance(command, Activate):
            return self.event(command.event_id)
        items = self._items(command.slot)
        if isinstance(command, PutItems):
            names = [item.id if isinstance(item, Item) else item for item in command.request.items]
            added = [name for name in names if name not in items]
            items.update(dict.fromkeys(names, False))
            return ChangedReply(added=len(added), version=1)
        assert isinstance(command, RetireItems)
        if missing := [name for name in command.ids if name not in items]:
            raise problems.unknown_items(missing, items)
        items.update(dict.fromkeys(command.ids, True))
        return ChangedReply(retired=len(command.ids), version=1)

    def _items(self, slot: str) -> dict[str, bool]:
        if slot not in self.known:
            raise problems.unknown_slot(slot, self.known)
        return self.known[slot]

    def _rank(self, slot: str, request: RankRequest) -> RankReply:
        items = self._items(slot)
        event_id = request.event_id or uuid4().hex
        if event_id in self.events:
            if self.events[event_id][:2] != (slot, request):
                raise problems.other_request(event_id)
            return self.events[event_id][2]
        given = request.items or [name for name, retired in items.items() if not retired]
        names = [item.id if isinstance(item, Item) else item for item in given]
        reply = RankReply(event_id, names, names[:1], False, len(self.events) + 1)
        event = EventReply(event_id, slot, "shown", names, names[:1], {}, False)
        self.events[event_id] = slot, request, reply, event
        return reply

    def event(self, event_id: str) -> EventReply:
        if event_id not in self.events:
            raise problems.unknown_event(event_id)
        return self.events[event_id][3]

    def slots(self) -> list[SlotReply]:
        return [self.slot(name) for name in self.known]

    def slot(self, name: str) -> SlotReply:
        self._items(name)
        return SlotReply(name, "doubtsort", "dcg", 1, items=len(self.known[name]), ranked=len(self.events))

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        names = sorted(name for name in self._items(slot) if name > after)
        page = [ItemReply(name, retired=self.known[slot][name]) for name in names[:limit]]
        return ItemsReply(page, next=names[limit - 1] if len(names) > limit else None)

    def stats(self) -> StatsReply:
        if self.reason:
            raise Problem("not-ready", self.reason)
        return StatsReply("owner", sequence=len(self.events))
