"""A slot at work: what a call asks for is checked, becomes a record, and is answered.

A record is made and taken in by `Slot.write`, which is all that ever changes a state. Whatever can be wrong with a
call is found before.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np

from peekrank.service import messages, problems
from peekrank.service.clock import SECOND
from peekrank.service.config import LimitsConfig
from peekrank.service.events import SILENT, Call, Step, Write, combined, packed, step
from peekrank.service.feedback import grades_from_feedback, shown_told
from peekrank.service.fold import Event, Fold, event_k
from peekrank.service.log.records import (
    Body,
    Close,
    Feedback,
    Items,
    Ranked,
    Record,
    Shown,
    encode,
    kind_of,
    numbers,
    read_numbers,
)
from peekrank.service.messages import ChangedReply, EventReply, ItemReply, ItemsReply, RankReply, SlotReply

_encode_request = msgspec.msgpack.Encoder().encode
_DIGEST = 12  # bytes


class Slot:
    """A slot that takes calls.

    Parameters
    ----------
    fold
        The state, which this slot changes by records only.
    limits
        How much is taken on.
    """

    def __init__(self, fold: Fold, limits: LimitsConfig) -> None:
        self.fold, self._limits = fold, limits
        self.written: list[Record] = []  # taken in, and not yet in the store
        self.now = 0  # time of the next record

    def write(self, event: str | None, body: Body) -> None:
        """Take a record in, and have it written."""
        number = self.fold.number + 1
        self.fold.apply(number, self.now, event, body)
        self.written.append(Record(self.fold.slot, number, self.now, kind_of(body), event, encode(body)))

    # Rankings

    def rank(self, request: messages.RankRequest) -> RankReply:
        """Rank a list for an event that is new."""
        fold = self.fold
        if len(fold.open) >= self._limits.open_events:
            raise problems.too_many_open(fold.slot, self._limits.open_events)
        body = Ranked(digest_of(request), request.defer, fold.config.k)
        if fold.lists:
            self._fill_list(body, request)
        else:
            self._fill_items(body, request.items)
        self._fill_context(body, request.context)
        if fold.config.mode == "shadow":
            self._fill_baseline(body, request.baseline)
        event = request.event_id or secrets.token_urlsafe(12).lstrip("-_") + "0"
        self.write(event, body)
        return rank_reply(fold, fold.open[event])

    def _fill_list(self, body: Ranked, request: messages.RankRequest) -> None:
        """A list that brings its items."""
        items, d, most = request.items, self.fold.config.features, self.fold.config.longest
        if items is None:
            raise problems.invalid("items: must be given, since every list of this slot has its own", "$.items")
        if len(items) > most:
            raise problems.too_large("items of a list", most)
        body.names = [item if isinstance(item, str) else item.id for item in items]
        _check_once(body.names)
        if d:
            body.features = b"".join(_features(item, n, d) for n, item in enumerate(items))

    def _fill_items(self, body: Ranked, items: Sequence[str | messages.Item] | None) -> None:
        """Items that are known, all or some of them, or that become known."""
        fold = self.fold
        if items is None:
            if not len(fold.items.present):
                raise problems.invalid("items: none is known yet; name some, or register them", "$.items")
            if fold.learner.learner.variable_length and len(fold.items.present) > fold.config.longest:
                raise problems.too_large("items of a list", fold.config.longest)
            return
        if not fold.changing:
            self._check_all(items)
            return
        names = [item if isinstance(item, str) else item.id for item in items]
        _check_once(names)
        if fold.learner.learner.variable_length and len(names) > fold.config.longest:
            raise problems.too_large("items of a list", fold.config.longest)
        if any(not isinstance(item, str) and item.features is not None for item in items):
            raise problems.invalid("items: this slot takes no features in a call; register them", "$.items")
        unknown = [name for name in names if not fold.items.is_present(name)]
        if unknown:
            self._add(body, unknown)
        known = len(fold.items)
        later = {name: known + n for n, name in enumerate(body.added)}
        chosen = [later[name] if name in later else fold.items.number(name) for name in names]
        body.items = numbers(np.sort(np.array(chosen, dtype=np.int64)))

    def _add(self, body: Ranked, unknown: list[str]) -> None:
        fold = self.fold
        retired = [name for name in unknown if fold.items.number(name) is not None]
        if retired or fold.config.new_items == "refuse" or fold.learner.learner.variable_length:
            raise problems.new_stats(unknown, (item.name for item in fold.items.known if item.present))
        self._check_room(len(unknown))
        body.added = unknown

    def _check_room(self, more: int) -> None:
        if len(self.fold.items) + more > self._limits.items:
            raise problems.too_large("items of a slot", self._limits.items)

    def _check_all(self, items: Sequence[str | messages.Item]) -> None:
        """Refuse a list that is not the list, for a learner that ranks all items every time."""
        fold = self.fold
        names = {item if isinstance(item, str) else item.id for item in items}
        if names != {item.name for item in fold.items.known} or len(items) != len(names):
            raise problems.invalid(
                f"items: {fold.learner.learner.name} ranks all {len(fold.items)} items of the slot every time; "
                "leave them out, or take a learner whose items come and go, as doubtsort",
                "$.items",
            )

    def _fill_baseline(self, body: Ranked, baseline: Sequence[str] | None) -> None:
        """The order that the caller shows, while this slot only looks on."""
        fold = self.fold
        if baseline is None:
            raise problems.invalid("baseline: must be given, since this slot is in shadow mode", "$.baseline")
        known = len(fold.items)
        numbered = (
            {name: position for position, name in enumerate(body.names)}
            if fold.lists
            else {name: known + n for n, name in enumerate(body.added)}
        )
        order = [numbered[name] if name in numbered else self._number(name) for name in baseline]
        listed = (
            range(len(body.names))
            if fold.lists
            else read_numbers(body.items)
            if body.items
            else fold.items.present
        )
        if sorted(order) != sorted(listed):
            raise problems.invalid("baseline: must hold the items of the list, each once", "$.baseline")
        body.baseline = numbers(np.array(order, dtype=np.int64))

    def _number(self, name: str) -> int:
        number = None if self.fold.lists else self.fold.items.number(name)
        return -1 if number is None else number

    def _fill_context(self, body: Ranked, context: Any) -> None:
        wanted = self.fold.config.context
        if context is None and not wanted:
            return
        body.context = b"" if context is None else _float32(context)
        if len(body.context) != 4 * wanted:
            raise problems.invalid(
                f"context: {len(body.context) // 4} numbers, and this slot takes {wanted}", "$.context"
            )
        _check_finite(body.context, "$.context")

    # Answers

    def again(self, event: Event, request: messages.RankRequest) -> RankReply:
        """The stored decision, if it is asked for by the same request."""
        same = bool(event.body.digest) and event.body.digest == digest_of(request)
        done = step(self.fold.config.learn, event.at, Call.SAME_RANK if same else Call.OTHER_RANK)
        if done.problem:
            raise problems.other_request(event.id)
        return rank_reply(self.fold, event)

    def activate(self, event: Event) -> EventReply:
        """Say that a deferred list is shown."""
        done = step(self.fold.config.learn, event.at, Call.ACTIVATE)
        if done.write is Write.SHOWN:
            self.write(event.id, Shown())
        return self._told(event, done)

    def answer(self, event: Event, request: messages.FeedbackRequest) -> EventReply:
        """Take an answer; one in which nothing was answered changes nothing."""
        ranking = names_of(self.fold, event)
        answer = packed(grades_from_feedback(self.fold, event, ranking, request))
        shown = shown_told(event, ranking, request)
        if answer == packed([SILENT] * event_k(event)):
            return event_reply(self.fold, event)
        call = (
            Call.SAME_ANSWER
            if answer in event.answers
            else Call.SAME_LATE_ANSWER
            if answer in event.late
            else Call.NEW_ANSWER
        )
        done = step(self.fold.config.learn, event.at, call)
        if done.write is not None:
            self.write(event.id, Feedback(answer, done.write is Write.LATE, shown))
        return self._told(event, done)

    def close(self, event: str) -> None:
        """Write that the waiting time of an event is over."""
        self.write(event, Close())

    def _told(self, event: Event, done: Step) -> EventReply:
        if done.problem == "other-answer":
            raise problems.other_answer(event.id)
        if done.problem == "closed":
            raise problems.closed(event.id)
        return event_reply(self.fold, event)

    # Items

    def put_items(self, request: messages.ItemsRequest) -> ChangedReply:
        """Register items, bring them back, or replace their descriptions."""
        fold, d = self.fold, self.fold.config.features
        self._require_registry()
        names = [item if isinstance(item, str) else item.id for item in request.items]
        _check_once(names)
        rows = [_features(item, n, d) if d else b"" for n, item in enumerate(request.items)]
        if not d and any(not isinstance(item, str) and item.features is not None for item in request.items):
            raise problems.invalid("items: this slot knows items by name, and takes no features", "$.items")
        new = [n for n, name in enumerate(names) if not fold.items.is_present(name)]
        self._check_room(sum(fold.items.number(name) is None for name in names))
        other = [n for n, name in enumerate(names) if n not in new and self._features_of(name) != rows[n]]
        if changes := sorted(new + other):
            self.write(None, Items([names[n] for n in changes], b"".join(rows[n] for n in changes)))
        return ChangedReply(added=len(new), changed=len(other), version=fold.number)

    def _features_of(self, name: str) -> bytes:
        return self.fold.items.known[self.fold.items.number(name) or 0].features

    def retire_items(self, ids: Sequence[str]) -> ChangedReply:
        """Leave items out from now on; those that are out already are no mistake."""
        fold = self.fold
        self._require_registry()
        if unknown := [name for name in ids if fold.items.number(name) is None]:
            raise problems.new_stats(unknown, (item.name for item in fold.items.known))
        if gone := [name for name in dict.fromkeys(ids) if fold.items.is_present(name)]:
            self.write(None, Items(retired=gone))
        return ChangedReply(retired=len(gone), version=fold.number)

    def _require_registry(self) -> None:
        if self.fold.lists:
            raise problems.invalid("this slot keeps no items: every list brings its own")
        if not self.fold.changing:
            raise problems.invalid(
                f"{self.fold.learner.learner.name} ranks a fixed set of items; doubtsort lets them come and go"
            )


# Replies


def names_of(fold: Fold, event: Event) -> list[str]:
    """The ranking of an event, in names."""
    ranking = np.frombuffer(event.body.ranking, dtype="<u4").tolist()
    if event.body.names:
        return [event.body.names[position] for position in ranking]
    return fold.items.names(ranking)


def rank_reply(fold: Fold, event: Event) -> RankReply:
    """What to show."""
    ranking = names_of(fold, event)
    return RankReply(event.id, ranking, ranking[: event.body.k], event.body.explored, event.number)


def event_reply(fold: Fold, event: Event) -> EventReply:
    """An event as it stands."""
    ranking = names_of(fold, event)
    asked = ranking[: event.body.k]
    grades = combined(event.answers, len(asked), fold.config.combine)
    answers = {name: None if np.isnan(grade) else float(grade) for name, grade in zip(asked, grades, strict=True)}
    deadline = None if event.at.closed else fold.deadline(event) / SECOND
    return EventReply(event.id, fold.slot, event.at.value, ranking, asked, answers, event.learned, deadline)


def items_reply(fold: Fold, after: str, limit: int) -> ItemsReply:
    """Items in order of their names, from the first after a name."""
    rest = sorted((item for item in fold.items.known if item.name > after), key=lambda item: item.name)
    shown = [
        ItemReply(
            item.name,
            not item.present,
            np.frombuffer(item.features, dtype="<f4").tolist() if item.features else None,
            item.shown,
            item.answers,
            item.total / item.answers if item.answers else None,
            item.recent if item.answers else None,
        )
        for item in rest[:limit]
    ]
    return ItemsReply(shown, shown[-1].id if len(rest) > limit else None)


def slot_reply(fold: Fold) -> SlotReply:
    """A slot, and what has happened in it."""
    counts, config = fold.activity.counts, fold.config
    minutes = [
        messages.Minute(
            one.number * 60.0,
            one.ranked,
            one.answered,
            one.explored,
            one.value / one.answered if one.answered else None,
        )
        for one in fold.activity.minutes
    ]
    return SlotReply(
        name=fold.slot,
        learner=config.learner,
        measure=config.measure,
        k=config.k,
        mode=config.mode,
        items=None if fold.lists else len(fold.items.present),
        version=fold.number,
        ranked=counts.ranked,
        answered=counts.answered,
        expired=counts.expired,
        late=counts.late,
        explored=counts.explored,
        open=len(fold.open),
        value=fold.watching.value(),
        members=members(fold),
        alarms=[
            messages.Alarm(alarm.name, alarm.since / SECOND, alarm.cause, alarm.action)
            for alarm in fold.watching.alarms
        ],
        minutes=minutes,
    )


@runtime_checkable
class _Team(Protocol):
    """A learner that is made of several, one of which is in charge (`learners.champion`)."""

    def member_status(self, state: Any) -> Sequence[Any]: ...


def members(fold: Fold) -> list[messages.Member]:
    """The learners of a slot that has several, each with what it is worth more than the one in charge."""
    agent = fold.learner
    if not isinstance(agent.learner, _Team):
        return []
    return [
        messages.Member(
            one.member,
            "champion" if one.is_champion else "challenger",
            None
            if one.is_champion or not one.rounds
            else messages.Interval(one.difference, one.low, one.high, one.rounds),
        )
        for one in agent.learner.member_status(agent.state)
    ]


def digest_of(request: messages.RankRequest) -> bytes:
    """What tells a request from others with the same event id; empty if it has no id."""
    if request.event_id is None:
        return b""
    return blake2b(_encode_request(request), digest_size=_DIGEST).digest()


def _check_once(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise problems.invalid(f"items: {twice!r} is named twice", "$.items")


def _float32(values: Any) -> bytes:
    return values if isinstance(values, bytes) else np.array(values, dtype="<f4").tobytes()


def _features(item: str | messages.Item, n: int, d: int) -> bytes:
    """The features of an item, if they are so many finite numbers."""
    given = None if isinstance(item, str) else item.features
    if given is None:
        raise problems.invalid(f"items[{n}]: needs its features, {d} numbers", f"$.items[{n}]")
    row = _float32(given)
    if len(row) != 4 * d:
        raise problems.invalid(
            f"items[{n}].features: {len(row) / 4:g} numbers, and this slot takes {d}", f"$.items[{n}].features"
        )
    _check_finite(row, f"$.items[{n}].features")
    return row


def _check_finite(row: bytes, field: str) -> None:
    if not np.isfinite(np.frombuffer(row, dtype="<f4")).all():
        raise problems.invalid(f"{field.removeprefix('$.')}: must be finite numbers", field)
