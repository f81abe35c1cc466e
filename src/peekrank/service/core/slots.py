"""A slot that takes calls: it validates a call, writes a record, and replies.

All validation happens before the record is written. Only `SlotState.rank` and `SlotState.apply` change the state.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from peekrank.evaluation.comparison.comparison import Comparison
from peekrank.service.api import messages, problems
from peekrank.service.api.messages import ChangedReply, EventReply, RankReply
from peekrank.service.config import LimitsConfig
from peekrank.service.core.compared import set_orders
from peekrank.service.core.events import Step, Trigger, Write, pack_grades, step
from peekrank.service.core.feedback import parse_grades, parse_shown
from peekrank.service.core.open_events import Event
from peekrank.service.core.replies import event_reply, names_of, rank_reply
from peekrank.service.core.rules import (
    allowed_items,
    check_order,
    names_of_rows,
    sent_groups,
    set_groups,
    set_pins,
)
from peekrank.service.core.slot_state import SlotState
from peekrank.service.event_log.chain import link
from peekrank.service.event_log.records import (
    Body,
    Close,
    Feedback,
    Items,
    Ranked,
    Record,
    Shown,
    encode,
    numbers,
    read_numbers,
    record_type,
)
from peekrank.types import LARGEST_FEATURE, Floats, Ints

_encode_request = msgspec.msgpack.Encoder().encode
_DIGEST = 12  # bytes


class Slot:
    """A slot that takes calls.

    Parameters
    ----------
    state
        The state. The slot changes it only by records.
    limits
        Limits of the service.
    """

    def __init__(self, state: SlotState, limits: LimitsConfig) -> None:
        self.state, self.limits = state, limits
        self.pending: list[Record] = []  # applied, and not yet in the store
        self.now = 0  # time of the next record

    def write(self, event: str | None, body: Body) -> None:
        """Apply a record, and queue it for the store."""
        self.state.apply(self.state.number + 1, self.now, event, body)
        self._queue(event, body)

    def _queue(self, event: str | None, body: Body) -> None:
        state, kind, content = self.state, record_type(body), encode(body)
        state.link = link(state.link, state.number, self.now, kind, event, content)
        self.pending.append(Record(state.slot, state.number, self.now, kind, event, content, state.link))

    # Rankings

    def rank(self, request: messages.RankRequest, begun: Ranked | None = None) -> RankReply:
        """Rank a list for a new event. A rerank call has begun its record."""
        state = self.state
        if len(state.open) >= self.limits.max_open_events:
            raise problems.too_many_open(state.slot, self.limits.max_open_events)
        body = begun or Ranked(digest(request), request.defer, state.config.k)
        if state.comparison is not None:
            self._set_orders(state.comparison, body, request)
        else:
            self._set_learner_list(body, request, is_rerank=begun is not None)
        event = request.event_id or secrets.token_urlsafe(12).lstrip("-_") + "0"
        self._queue(event, state.rank(state.number + 1, self.now, event, body))
        return rank_reply(state, state.open[event], request)

    def _set_orders(self, comparison: Comparison, body: Ranked, request: messages.RankRequest) -> None:
        """Set the two orders of a list of a slot that compares."""
        self._set_list(body, set_orders(body, request))
        if comparison.count_items(body.names) > self.limits.max_items:
            hint = "; for items that rarely come back, set compare.regression = 'mean'"
            raise problems.too_large(f"items of a slot{hint}", self.limits.max_items)

    def _set_learner_list(self, body: Ranked, request: messages.RankRequest, *, is_rerank: bool) -> None:
        """Set everything that the learner of a slot needs for a list."""
        state = self.state
        if request.orders is not None:
            raise problems.invalid(
                "orders: this slot has a learner; a slot with a compare table takes orders", "$.orders"
            )
        items, body.blocked = allowed_items(state, request)
        if state.lists:
            self._set_list(body, items)
        else:
            self._set_items(body, items)
        self._set_scores(body, items)
        self._set_version(body, request.score_version)
        check_order(state, body, request.items)
        set_groups(state, body, items)
        set_pins(state, body, request)
        self._set_key(body, request.key)
        self._set_context(body, request.context)
        if state.config.mode == "shadow" or (is_rerank and request.baseline is not None):
            self._set_baseline(body, request.baseline)
        else:
            self._set_holdout(body, request)
            if request.visitor is not None and state.config.sticky:
                body.visitor = bytes.fromhex(request.visitor)

    def _set_list(self, body: Ranked, items: Sequence[str | messages.Item] | None) -> None:
        """Set the items of a list that brings its own."""
        d, limit = self.state.config.features, self.state.config.max_list_length
        if items is None:
            raise problems.invalid("items is missing: every list of this slot brings its own", "$.items")
        if len(items) > limit:
            raise problems.too_large("items of a list", limit)
        body.names = messages.names_of(items)
        _check_distinct(body.names)
        if d:
            body.features = b"".join(_features(item, n, d) for n, item in enumerate(items))

    def _set_items(self, body: Ranked, items: Sequence[str | messages.Item] | None) -> None:
        """Set the items of a list of known items, some of which may be new."""
        state = self.state
        if items is None:
            if not len(state.items.present):
                raise problems.invalid("items is missing: the slot has no items yet", "$.items")
            self._check_length(len(state.items.present))
            return
        if not state.changing:
            self._check_all_items(items)
            return
        names = messages.names_of(items)
        _check_distinct(names)
        if state.config.retired_items == "skip":
            names = [name for name in names if not state.items.is_retired(name)]
            if not names:
                raise problems.invalid("items: all of them are retired", "$.items")
        self._check_length(len(names))
        if any(not isinstance(item, str) and item.features is not None for item in items):
            raise problems.invalid("items: this slot takes no features with a list; send names only", "$.items")
        unknown = [name for name in names if not state.items.is_present(name)]
        if unknown:
            self._add(body, unknown)
        chosen = state.items.numbers(names, body.added)
        body.items = numbers(np.array(chosen if state.keeps_order else sorted(chosen), dtype=np.int64))

    def _check_length(self, n: int) -> None:
        limit = self.state.config.max_list_length
        if self.state.agent.learner.variable_length and n > limit:
            raise problems.too_large("items of a list", limit)

    def _add(self, body: Ranked, unknown: list[str]) -> None:
        state = self.state
        retired = [name for name in unknown if state.items.number(name) is not None]
        if retired or state.config.new_items == "reject" or state.agent.learner.variable_length:
            raise problems.unknown_item(unknown, (item.name for item in state.items.known if item.present))
        self._check_room(len(unknown))
        body.added = unknown

    def _check_room(self, n_new: int) -> None:
        if len(self.state.items) + n_new > self.limits.max_items:
            raise problems.too_large("items of a slot", self.limits.max_items)

    def _check_all_items(self, items: Sequence[str | messages.Item]) -> None:
        """Raise a `Problem` unless the list has all items, for a learner that always ranks all of them."""
        state = self.state
        names = set(messages.names_of(items))
        if names != {item.name for item in state.items.known} or len(items) != len(names):
            raise problems.invalid(
                f"items: {state.agent.learner.name} always ranks all {len(state.items)} items of the slot. Omit "
                "items, or use a learner whose items may change, such as doubtsort",
                "$.items",
            )

    def _set_holdout(self, body: Ranked, request: messages.RankRequest) -> None:
        """Set the app's own order, which a share of the lists shows."""
        state, holdout = self.state, self.state.config.holdout
        if not holdout.share:
            return
        body.share, body.mixture = holdout.share, holdout.mode == "union"
        if body.mixture and body.pins:
            raise problems.invalid(
                "pins: the slot's holdout mixes two orders, and mixtures obey no pins", "$.pins"
            )
        if request.baseline is not None:
            self._set_baseline(body, request.baseline)
        elif holdout.order:
            order = {name: n for n, name in enumerate(holdout.order)}
            names = names_of_rows(state, body)
            self._set_baseline(body, sorted(names, key=lambda name: order.get(name, len(order))))
        elif request.items is None and not body.scores:
            raise problems.invalid(
                "baseline is missing: this slot has a holdout, which shows your order; send it as baseline, or "
                "as items",
                "$.baseline",
            )
        else:
            names = names_of_rows(state, body)
            scores = np.frombuffer(body.scores) if body.scores else np.zeros(len(names))
            self._set_baseline(body, [names[row] for row in order_by_scores(scores).tolist()])

    def _set_baseline(self, body: Ranked, baseline: Sequence[str] | None) -> None:
        """Set the caller's order, which a slot in shadow mode returns."""
        state = self.state
        if baseline is None:
            raise problems.invalid("baseline is missing: this slot is in shadow mode", "$.baseline")
        known = len(state.items)
        new = (
            {name: p for p, name in enumerate(body.names)}
            if state.lists
            else {name: known + n for n, name in enumerate(body.added)}
        )
        baseline = [name for name in baseline if name not in body.blocked]
        if state.config.retired_items == "skip" and not state.lists:
            baseline = [name for name in baseline if not state.items.is_retired(name)]
        order = [new[name] if name in new else self._number(name) for name in baseline]
        listed = (
            range(len(body.names))
            if state.lists
            else read_numbers(body.items)
            if body.items
            else state.items.present
        )
        if sorted(order) != sorted(listed):
            raise problems.invalid("baseline: must contain the items of the list, each once", "$.baseline")
        body.baseline = numbers(np.array(order, dtype=np.int64))

    def _number(self, name: str) -> int:
        number = None if self.state.lists else self.state.items.number(name)
        return -1 if number is None else number

    def _set_scores(self, body: Ranked, items: Sequence[str | messages.Item] | None) -> None:
        """Set the scores of the list, unless no item has one: those of the call, else the registered ones."""
        state, sent = self.state, _scores(items or ())
        self._check_scores(sent)
        if state.has_scores:
            names = names_of_rows(state, body)
            scores = np.array([sent[name] if name in sent else state.items.score(name) for name in names])
            body.scores = b"" if np.isnan(scores).all() else scores.astype("<f8").tobytes()

    def _check_scores(self, sent: dict[str, float]) -> None:
        if sent and not self.state.has_scores:
            raise problems.invalid(
                f"items: {self.state.agent.learner.name} does not use scores; use mixed", "$.items"
            )

    def _set_version(self, body: Ranked, version: int | None) -> None:
        """Set the version of the scores."""
        learner = self.state.agent.learner
        if version is None:
            return
        if learner.kernels.renew_score is None:
            raise problems.invalid(
                f"score_version: {learner.name} learns nothing about a score; use mixed", "$.score_version"
            )
        body.version = version

    def _set_key(self, body: Ranked, key: str | None) -> None:
        """Set the key of the list, unless it is a new one beyond the limit."""
        state, learner = self.state, self.state.agent.learner
        if key is None:
            return
        if learner.kernels.set_key is None:
            hint = "set cells" if learner.name == "mixed" else "use mixed and set cells"
            example = 'learner = "mixed:cells=10000"'
            raise problems.invalid(f"key: this slot learns nothing per key; {hint}, {example}", "$.key")
        if key in state.keys or len(state.keys) < self.limits.max_keys:
            body.key = key

    def _set_context(self, body: Ranked, context: Any) -> None:
        expected = self.state.config.context
        if context is None and not expected:
            return
        body.context = b"" if context is None else _float32(context)
        if len(body.context) != 4 * expected:
            raise problems.invalid(
                f"context: got {len(body.context) // 4} numbers, expected {expected}", "$.context"
            )
        _check_numbers(body.context, "$.context")

    def repeat_rank(self, event: Event, request: messages.RankRequest, known: bytes = b"") -> RankReply:
        """Return the stored ranking. Raises a `Problem` if the request, or its known digest, differs."""
        is_same = bool(event.body.digest) and event.body.digest == (known or digest(request))
        trigger = Trigger.SAME_RANK if is_same else Trigger.OTHER_RANK
        if step(self.state.config.update, event.status, trigger).problem:
            raise problems.other_request(event.id)
        return rank_reply(self.state, event, request)

    # Feedback

    def activate(self, event: Event) -> EventReply:
        """Activate a deferred event."""
        effect = step(self.state.config.update, event.status, Trigger.ACTIVATE)
        if effect.write is Write.SHOWN:
            self.write(event.id, Shown())
        return self._reply(event, effect, is_feedback=False)

    def submit_feedback(self, event: Event, request: messages.FeedbackRequest) -> EventReply:
        """Apply feedback. Feedback without any grade changes nothing."""
        ranking = names_of(self.state, event)
        parsed = parse_grades(self.state, event, ranking, request)
        grades = pack_grades(parsed)
        shown = parse_shown(event, ranking, request)
        if all(grade is None for grade in parsed):
            return event_reply(self.state, event)
        trigger = (
            Trigger.SAME_ANSWER
            if grades in event.feedback
            else Trigger.SAME_LATE_ANSWER
            if grades in event.late_feedback
            else Trigger.NEW_ANSWER
        )
        effect = step(self.state.config.update, event.status, trigger)
        if effect.write is not None:
            self.write(event.id, Feedback(grades, effect.write is Write.LATE, shown))
        return self._reply(event, effect)

    def close(self, event: str) -> None:
        """Close an event whose feedback window is over. Raises DamagedError if its record is damaged."""
        self.state.open.wake(event)
        self.write(event, Close())

    def _reply(self, event: Event, effect: Step, *, is_feedback: bool = True) -> EventReply:
        if effect.problem == "other-answer":
            raise problems.other_answer(event.id)
        if effect.problem == "closed":
            raise problems.closed(event.id, is_feedback=is_feedback)
        return event_reply(self.state, self.state.find(event.id) or event)

    # Items

    def put_items(self, request: messages.ItemsRequest) -> ChangedReply:
        """Register items, bring them back, or replace their features or scores."""
        state, d = self.state, self.state.config.features
        self._check_registry()
        names = messages.names_of(request.items)
        _check_distinct(names)
        if not d and any(not isinstance(item, str) and item.features is not None for item in request.items):
            raise problems.invalid("items: this slot does not use features; send names only", "$.items")
        sent = _scores(request.items)
        self._check_scores(sent)
        rows = [_features(item, n, d) if d else b"" for n, item in enumerate(request.items)]
        new = [n for n, name in enumerate(names) if not state.items.is_present(name)]
        self._check_room(sum(state.items.number(name) is None for name in names))
        added = set(new)
        of_group = sent_groups(request.items)
        changed = [
            n for n, name in enumerate(names) if n not in added and self._changes(name, rows[n], sent, of_group)
        ]
        if changes := sorted(new + changed):
            put = [names[n] for n in changes]
            scores = np.array([sent.get(name, np.nan) for name in put], dtype="<f8").tobytes() if sent else b""
            groups = [of_group.get(name, "") for name in put] if of_group else []
            self.write(None, Items(put, b"".join(rows[n] for n in changes), scores=scores, groups=groups))
        return ChangedReply(added=len(new), changed=len(changed), sequence=state.number)

    def _changes(self, name: str, features: bytes, scores: dict[str, float], groups: dict[str, str]) -> bool:
        """Check whether features, scores and groups differ from those of a known item."""
        item = self.state.items.known[self.state.items.number(name) or 0]
        return (item.features, item.score, item.group) != (
            features,
            scores.get(name, item.score),
            groups.get(name, item.group),
        )

    def retire_items(self, ids: Sequence[str]) -> ChangedReply:
        """Retire items. Items that are already retired are ignored."""
        state = self.state
        self._check_registry()
        if unknown := [name for name in ids if state.items.number(name) is None]:
            raise problems.unknown_item(unknown, (item.name for item in state.items.known))
        if present := [name for name in dict.fromkeys(ids) if state.items.is_present(name)]:
            self.write(None, Items(retired=present))
        return ChangedReply(retired=len(present), sequence=state.number)

    def _check_registry(self) -> None:
        if self.state.lists:
            raise problems.invalid("this slot stores no items: every list brings its own")
        if not self.state.changing:
            raise problems.invalid(
                f"{self.state.agent.learner.name} ranks a fixed set of items; with doubtsort, items may change"
            )


def digest(request: messages.RankRequest) -> bytes:
    """Hash a request, to recognise its repetitions. Empty if it has no event id."""
    if request.event_id is None:
        return b""
    return blake2b(_encode_request(request), digest_size=_DIGEST).digest()


def _scores(items: Sequence[str | messages.Item]) -> dict[str, float]:
    """Return the scores of a call, by item."""
    return {item.id: item.score + 0.0 for item in items if not isinstance(item, str) and item.score is not None}


def order_by_scores(scores: Floats) -> Ints:
    """Return the items by descending score. Items without one are in the middle, and ties stay as listed.

    >>> order_by_scores(np.array([0.1, np.nan, 0.2, 0.9])).tolist()
    [3, 1, 2, 0]
    """
    known = np.sort(scores[~np.isnan(scores)])
    below, above = np.searchsorted(known, scores, "left"), len(known) - np.searchsorted(known, scores, "right")
    balance = np.where(np.isnan(scores), 0, below - above)
    order: Ints = np.argsort(-balance, kind="stable")
    return order


def _check_distinct(names: list[str]) -> None:
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise problems.invalid(f"items: {duplicate!r} appears twice", "$.items")


def _float32(values: Any) -> bytes:
    return values if isinstance(values, bytes) else np.array(values, dtype="<f4").tobytes()


def _features(item: str | messages.Item, n: int, d: int) -> bytes:
    """Return the d features of an item as float32. Raises a `Problem` if they are missing or invalid."""
    features = None if isinstance(item, str) else item.features
    if features is None:
        raise problems.invalid(f"items[{n}]: features are missing, expected {d} numbers", f"$.items[{n}]")
    row = _float32(features)
    if len(row) != 4 * d:
        raise problems.invalid(
            f"items[{n}].features: got {len(row) / 4:g} numbers, expected {d}", f"$.items[{n}].features"
        )
    _check_numbers(row, f"$.items[{n}].features")
    return row


def _check_numbers(row: bytes, field: str) -> None:
    if not (np.abs(np.frombuffer(row, dtype="<f4")) <= LARGEST_FEATURE).all():
        raise problems.invalid(
            f"{field.removeprefix('$.')}: must be finite numbers up to {LARGEST_FEATURE:g}", field
        )
