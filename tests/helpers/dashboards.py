"""A service with something to see on every part of the board."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any

from peekrank.service.api import problems
from peekrank.service.api.messages import (
    Alarm,
    Comparison,
    ComparisonCheck,
    EventReply,
    Holdout,
    Interval,
    ItemReply,
    ItemsReply,
    Member,
    Minute,
    SlotReply,
    StatsReply,
)
from peekrank.service.core.activity import Day
from peekrank.service.core.commands import Command
from peekrank.service.core.details import Details, Standing

NAMES = ("tea", "cake", "soup", "a rather long name of an item that somebody has really given", "<b>bold</b>")


class BusyService:
    """Two slots: one with all there can be, one that has seen nothing. Nothing can be asked of it."""

    reason, follows = "", False

    def unready_reason(self) -> str:
        return self.reason

    def live(self) -> bool:
        return True

    def submit(self, command: Command[Any]) -> Future[Any]:
        raise NotImplementedError

    def event(self, event_id: str, visible: Collection[str] = ()) -> EventReply:
        raise problems.unknown_event(event_id)

    def slots(self) -> list[SlotReply]:
        if self.reason and not self.follows:
            return []
        return [self.slot("home"), self.slot("search")]

    def slot(self, name: str) -> SlotReply:
        if name not in ("home", "search"):
            raise problems.unknown_slot(name, ("home", "search"))
        return _busy() if name == "home" else SlotReply("search", "rtopkf:surrogate=squared", "ndcg@10", 5)

    def details(self, slot: str, key: str | None = None) -> Details:
        if slot != "home":
            return Details([], None, [], False, [])
        keys = ["vegan", "<b>bold</b>"]
        items = self.items(slot).items
        return Details(standings(), key if key in keys else None, keys, True, days(), items[:100], len(items))

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        names = [*NAMES, *(f"item-{i:03}" for i in range(150))]
        return ItemsReply(
            [
                ItemReply(name, i == 2, None, 12.5 if i == 1 else None, 1000 - i, 500 - i, 1 - i / 200, _recent(i))
                for i, name in enumerate(names)
            ]
        )

    def secret(self) -> bytes:
        return bytes(32)

    def stats(self) -> StatsReply:
        return StatsReply(
            "follower" if self.follows else "owner", 3, 1_234_567, 2, 1_200_000, 5, 987_654_321, time.time() - 7200
        )


def standings() -> list[Standing]:
    return [
        Standing(
            name,
            0.9 - i / 30,
            {"average": 0.5, "score": 0.2 - i / 50, "item": i / 90, "key": -i / 70},
            1.25e6 / (i + 1),
        )
        for i, name in enumerate([*NAMES, *(f"item-{i:03}" for i in range(15))])
    ]


def days() -> list[Day]:
    today = int(time.time() // 86400)
    return [
        Day(today - i, 900 + i % 7 * 90, 30, 200 + i % 5 * 30, 100.0 + i % 5 * 15 - i / 4, 80.0)
        for i in range(220, -1, -1)
        if i % 9
    ]


def _recent(i: int) -> float | None:
    return None if i > 100 else 1 - i / 200 + (-0.2, 0.0, 0.2)[i % 3]


def _busy() -> SlotReply:
    start = 60 * (time.time() // 60) - 59 * 60
    minutes = [
        Minute(start + 60 * i, 40 + i % 7 * 9, 10 + i % 5 * 3, 3, 0.4 + 0.1 * math.sin(i / 6) + i / 300)
        for i in range(60)
        if i % 17
    ]
    return SlotReply(
        "home",
        "champion:learners=[doubtsort:measure=dcg;marginftrl:measure=dcg]",
        "dcg",
        1,
        mode="shadow",
        items=155,
        sequence=1_234_567,
        ranked=1_000_000,
        answered=230_000,
        expired=765_432,
        late=4_568,
        explored=31_415,
        rules="explore at most 10 % of lists; <b>bold</b> at position 2",
        relaxed=1_208,
        due=990_000,
        due_answered=227_700,
        open=1234,
        ranking=[*NAMES, *(f"item-{i:03}" for i in range(5))],
        value=Interval(0.512, 0.49, 0.53, 230_000),
        comparison=Comparison(
            "an_order_with_a_rather_long_name_that_somebody_has_given",
            "<b>bold</b>",
            "coin",
            None,
            "Undecided: dcg@3 of a minus b is 0.0312 (95 %: -0.0112 to 0.0634) after 1,204 lists with answers.",
            1300,
            1204,
            0.0312,
            -0.0112,
            0.0634,
            0.05,
            2400,
            ComparisonCheck("A/B", 0.0287, -0.0834, 0.1412, passed=True),
            0.61,
            "Needs about 0.61 of the lists of an A/B test, which is more than a third.",
        ),
        holdout=Holdout(
            0.05,
            12_345,
            617,
            "learner",
            "The learner is better: dcg differs by 0.0812 (95 %: 0.0212 to 0.13) after 12,345 lists with answers.",
            0.05,
            Interval(0.0812, 0.0212, 0.134, 12_345),
            Interval(0.0712, -0.112, 0.234, 12_345),
        ),
        members=[
            Member("doubtsort:measure=dcg", "champion", Interval(0.512, 0.49, 0.53, 230_000)),
            Member("marginftrl:measure=dcg", "challenger", Interval(0.48, 0.45, 0.51, 4000)),
            Member("ucb", "challenger"),
        ],
        alarms=[
            Alarm(
                "Fewer people answer",
                time.time() - 600,
                "12 of the last 1,000 lists were answered; before it were 230 of 1,000.",
                "Look whether the question is still shown, and whether answers still arrive.",
            )
        ],
        minutes=minutes,
    )
