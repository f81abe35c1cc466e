"""The state of a slot: the result of applying its records in order.

A live call ranks with `SlotState.rank`; every other change goes through `SlotState.apply`. Replay applies all
records, and ranks again to compare. The state depends on the log alone: random numbers are a function of the
slot's key and of the number of earlier rankings (`kernels.philox`), times are those of the records, and an event
ends because a record says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from peekrank._jit import compile_for
from peekrank.engine import Agent
from peekrank.evaluation.comparison.comparison import Comparison
from peekrank.kernels.philox import fill_uniforms
from peekrank.service.config import SlotConfig
from peekrank.service.core import compared
from peekrank.service.core.activity import Activity, Responses, no_activity
from peekrank.service.core.agents import agent_rules, identity, new_agent
from peekrank.service.core.clock import SECOND
from peekrank.service.core.events import State, Trigger, aggregate, step, unpack_grades
from peekrank.service.core.holdout import SlotHoldout, with_holdout
from peekrank.service.core.items import Items
from peekrank.service.core.monitor import ClosedEvent, SlotMonitor
from peekrank.service.core.open_events import Event, OpenEvents
from peekrank.service.core.rules import rows_of_items, rule_arguments
from peekrank.service.core.stays import Stay, Stays, arrangement, new_stay, repeated
from peekrank.service.event_log.chain import origin
from peekrank.service.event_log.records import (
    Body,
    ClockJump,
    Close,
    Feedback,
    Ranked,
    Settings,
    Shown,
    numbers,
    ranked,
    read_floats,
    read_numbers,
)
from peekrank.service.event_log.records import Items as ItemsBody
from peekrank.types import Decision, Features, Floats, Ints

_MAX_JUMPS = 1000
_RECENT = 4096  # closed events that stay in memory; more than a batch can close


class Jump(Struct, array_like=True):
    """A jump of the clock."""

    time: int  # after it
    length: int


class _Ranking(NamedTuple):
    """A decision of the learner: the record of it, and what the event needs to remember."""

    record: Ranked
    round: int
    features: bytes
    arranged: bytes  # `stays.arrangement`


class SlotState:
    """A slot after some number of records.

    Parameters
    ----------
    slot
        Name of the slot.
    """

    def __init__(self, slot: str) -> None:
        self.slot = slot
        self.number = self.time = 0  # of the last record
        self.link = origin(slot)  # likewise
        self.jumps: list[Jump] = []
        self.settings: Settings | None = None
        self.since = 0  # the record that created the agent
        self._agent: Agent | None = None
        self.comparison: Comparison | None = None  # if there is one, the agent never ranks
        self.items = Items([])
        self.keys: dict[str, int] = {}  # the learner's number of each key, in the order of their first lists
        self.open = OpenEvents(slot)
        self.recent: OrderedDict[str, Event] = OrderedDict()  # closed; not part of a snapshot
        self.activity: Activity = no_activity()
        self.responses = Responses()  # not part of a snapshot
        self.monitor = SlotMonitor((0.0, 1.0), None)
        self.stays = Stays()
        self._holdout: SlotHoldout | None = None
        self._fill_uniforms = compile_for(fill_uniforms, 0, 0, np.empty(1))

    @property
    def config(self) -> SlotConfig:
        """The configuration, which is part of the log."""
        if self.settings is None:
            raise ValueError(f"the log of slot {self.slot!r} does not start with a configuration")
        return self.settings.config

    @property
    def key(self) -> int:
        """The key of the random numbers."""
        return self.settings.key if self.settings else 0

    @property
    def agent(self) -> Agent:
        """The agent that runs the slot's learner."""
        if self._agent is None:
            raise ValueError(f"the log of slot {self.slot!r} does not start with a configuration")
        return self._agent

    @agent.setter
    def agent(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def holdout(self) -> SlotHoldout:
        """The holdout, which is empty in a slot without one."""
        if self._holdout is None:
            self._holdout = SlotHoldout(self.config, self.name_of)
        return self._holdout

    @holdout.setter
    def holdout(self, holdout: SlotHoldout) -> None:
        self._holdout = holdout

    @property
    def lists(self) -> bool:
        """Whether each list brings its own items, which the slot does not store."""
        return self.agent.learner.variable_length and self.config.features_from == "request"

    @property
    def changing(self) -> bool:
        """Whether the set of items may change."""
        learner = self.agent.learner
        return learner.kernels.set_items is not None or learner.variable_length

    @property
    def has_scores(self) -> bool:
        """Whether the learner starts from the app's scores, or else from the order of its list."""
        return self.agent.learner.kernels.set_scores is not None

    @property
    def keeps_order(self) -> bool:
        """Whether the order of the app's list matters."""
        rules = self.agent.rules
        leashed = rules is not None and rules.leash is not None
        return self.has_scores or leashed or self.config.holdout.share > 0

    @property
    def name_of(self) -> Callable[[int], str] | None:
        """A function from the number of an item to its name, or None if each list brings its own items."""
        return None if self.lists else lambda number: self.items.known[number].name

    def rank(self, number: int, time: int, event: str, request: Ranked) -> Ranked:
        """Rank a list for a new event, and return the record to log.

        Parameters
        ----------
        number, time
            Number and time of the record.
        event
            Id of the event.
        request
            A record without ranking.
        """
        self.number, self.time = number, time
        ranking = self._decide(request)
        self._open(event, ranking)
        return ranking.record

    def apply(self, number: int, time: int, event: str | None, body: Body) -> None:
        """Apply the next record.

        On replay this includes rankings: the learner ranks again, and a result that differs from the record is
        counted. The log wins: the slot continues with the ranking that was shown.
        """
        self.number, self.time = number, time
        _APPLY[type(body)](self, event, body)

    # Rankings

    def _decide(self, request: Ranked) -> _Ranking:
        """Let the learner rank a list. Registers new items, and advances the agent by a round."""
        if self.comparison is not None:
            return _Ranking(compared.draw(self.comparison, request), self.comparison.shown, b"", b"")
        for name in request.added:
            self._put(name)
        X, chosen, rows = self._candidates(request)
        agent, arranged = self.agent, self._arranged(request)
        stay = self.stays.current(request, self.time, arranged)
        if stay is not None:  # a repeated list is no new draw
            request = replace(request, share=0.0, baseline=b"", mixture=False)
        n = agent.n_uniforms(len(chosen) if chosen is not None else None)
        uniforms = np.empty(n + (request.share > 0) + request.mixture)
        self._fill_uniforms(self.key, self.activity.counts.n_ranked, uniforms)
        features = b""
        if X is not None and rows is not None:
            features, X = X.tobytes(), self._with_item_effects(X, rows)
        scores = read_floats(request.scores) if request.scores else None
        key = self.keys.setdefault(request.key, len(self.keys)) if request.key else None
        version = None if request.version < 0 else request.version
        expected = np.empty(self._length(request)) if request.share else None
        decision = agent.rank(
            X,
            available=chosen,
            scores=scores,
            key=key,
            version=version,
            uniforms=uniforms[:n],
            expected=expected,
            **rule_arguments(request, rows),
        )
        if stay is not None:
            request, decision = self._repeat(stay, request, decision, rows)
        elif expected is not None:
            held = bool(uniforms[n] < request.share)
            own, uniform = self._baseline(request, rows), float(uniforms[-1])
            decision = with_holdout(agent, request, decision, own, expected, uniform, held=held)
            in_order = expected if rows is None else expected[np.argsort(rows)]
            request = replace(request, held=held, expected=in_order.tobytes())
        elif request.baseline:
            decision = agent.override(decision, self._baseline(request, rows))
        return _Ranking(ranked(request, decision, rows), decision.round, features, arranged)

    def _repeat(
        self, stay: Stay, request: Ranked, decision: Decision, rows: Ints | None
    ) -> tuple[Ranked, Decision]:
        """Return the order of a visitor's first visit, as a list that was not drawn."""
        ranking = decision.ranking if rows is None else rows[decision.ranking]
        current: Any = [request.names[n] for n in ranking.tolist()] if self.lists else ranking.tolist()
        names, whole = repeated(stay, current)
        if self.lists:
            index = {name: n for n, name in enumerate(request.names)}
            order = np.array([index[str(name)] for name in names], np.int64)
        else:
            order = np.array(names, np.int64)
            order = order if rows is None else rows_of_items(rows, order)
        request = replace(request, first=stay.first, whole=whole)
        return request, self.agent.override(decision, order)

    def _arranged(self, request: Ranked) -> bytes:
        """Return everything except the items that determines the order of a visitor."""
        if not request.visitor:
            return b""
        rules = self.agent.rules
        limited = rules is not None and (rules.new or rules.group) is not None
        leashed = rules is not None and rules.leash is not None
        items: Any = request.names or read_numbers(request.items or numbers(self.items.present)).tolist()
        return arrangement(request, items, limited=limited, leashed=leashed)

    def _length(self, request: Ranked) -> int:
        """Return the number of items of a list."""
        return len(request.names) or len(request.items) // 4 or len(self.items.present)

    def _open(self, event: str, ranking: _Ranking) -> None:
        """Open an event for a ranking, and count it."""
        body = ranking.record
        state = State.OPEN if body.deferred else State.SHOWN
        begun = Event(event, self.number, self.time, state.value, body, ranking.round, ranking.features)
        self.open.begin(begun)
        if not self.lists:
            self.items.count_shown(np.frombuffer(body.ranking, "<u4", event_k(begun)).tolist())
        if body.visitor and not body.first:
            ends = self.time + int(self.config.sticky * SECOND)
            stay = new_stay(body, self.number, ends, ranking.arranged)
            self.stays.begin(stay, self.time, self.config.max_visitors)
        self.holdout.began(self.number, self.time, body, self.config)
        self.holdout.settle(self.time)
        self.activity.ranked(self.time, explored=body.explored)
        self.activity.counts.relaxed += body.relaxed > 0
        self.responses.ranked(self.time, int(self.config.feedback_window * SECOND))

    def _apply_ranked(self, event: str, body: Ranked) -> None:
        """Replay a ranking, and count a mismatch with the record."""
        ranking = self._decide(body)
        if (ranking.record.ranking, ranking.record.token) != (body.ranking, body.token):
            self.activity.counts.replay_mismatches += 1
        self._open(event, ranking._replace(record=body))

    def _candidates(self, body: Ranked) -> tuple[Features | None, Ints | None, Ints | None]:
        """Return the features of the list, its items if the learner knows them, and its rows in the registry."""
        agent = self.agent
        if not agent.learner.variable_length:
            if agent.learner.kernels.set_items is None:
                return None, None, None
            return None, read_numbers(body.items) if body.items else self.items.present, None
        if self.lists:
            n, rows = len(body.names), None
            X = np.frombuffer(body.features, dtype="<f4").reshape(n, self.config.features)
        else:
            rows = read_numbers(body.items) if body.items else self.items.present
            X = self.items.features(rows, self.config.features)
        if body.context:
            context = np.frombuffer(body.context, dtype="<f4")
            X = np.hstack([np.broadcast_to(context, (len(X), len(context))), X])
        return X, None, rows

    def _with_item_effects(self, X: Features, rows: Ints) -> Features:
        """Prepend the indicator columns of item effects."""
        indicators = rows[:, None] == np.arange(self.config.item_effects)
        return np.hstack([indicators.astype(np.float32), X])

    def registered_features(self, rows: Ints) -> Features:
        """Return the features of registered items as the learner sees them, without a context."""
        return self._with_item_effects(self.items.features(rows, self.config.features), rows)

    def _baseline(self, body: Ranked, rows: Ints | None) -> Ints:
        """Return the caller's order in the numbers of the learner."""
        order = read_numbers(body.baseline)
        return order if rows is None else rows_of_items(rows, order)

    # Feedback

    def _apply_shown(self, event: str, _: Shown) -> None:
        known = self.open[event]
        known.state = step(self.config.update, known.status, Trigger.ACTIVATE).state.value

    def _apply_feedback(self, event: str, body: Feedback) -> None:
        if body.late:
            self.activity.counts.late += sum(grade == grade for grade in unpack_grades(body.answer))
            self.monitor.late()
            if event in self.recent:
                self.recent[event].late_feedback = [*self.recent[event].late_feedback, body.answer]
            return
        known = self.open.wake(event)
        known.feedback = [*known.feedback, body.answer]
        known.shown = known.shown or body.shown
        self._advance(known, Trigger.NEW_ANSWER)
        self.open.settle(known)

    def _apply_close(self, event: str, _: Close) -> None:
        known = self.open.wake(event)
        self._advance(known, Trigger.DEADLINE_ANSWERED if known.feedback else Trigger.DEADLINE)

    def _advance(self, event: Event, trigger: Trigger) -> None:
        """Move an event to its next state. Update the learner and count the event as the table says."""
        before = event.status
        after = step(self.config.update, before, trigger)
        event.state = after.state.value
        if after.update:
            self._update_agent(event)
        if after.state.closed:
            was_shown = before is State.SHOWN or bool(event.feedback)
            self._count(event, was_shown=was_shown)
            self.holdout.closed(event, self.grades(event, self.config.missing_grade), was_shown=was_shown)
            self.holdout.settle(self.time)
            self._move_to_recent(event)
            first = next(iter(self.open.values()), None)
            rounds = self.agent.rounds if self.comparison is None else self.comparison.shown
            first_open = first.round if first else rounds + 1
            self.monitor.advance(first_open, self.time, self.agent.failure)

    def _move_to_recent(self, event: Event) -> None:
        """Move a closed event to the recent ones, and drop the oldest of these. The log has them all."""
        del self.open[event.id]
        self.recent[event.id] = event
        if len(self.recent) > _RECENT:
            self.recent.popitem(last=False)

    def _count(self, event: Event, *, was_shown: bool) -> None:
        top_k = np.frombuffer(event.body.ranking, "<u4", event_k(event)).tolist()
        grades = [None if grade != grade else grade for grade in self.grades(event).tolist()]
        if was_shown:
            body = event.body
            self.monitor.close(ClosedEvent(event.round, body.ranking, body.propensities, grades, event.shown))
        if not event.feedback:
            self.activity.counts.expired += 1
            return
        by_item = [(item, grade) for item, grade in zip(top_k, grades, strict=True) if grade is not None]
        self.activity.answered(self.time, [grade for _, grade in by_item])
        self.responses.answered(event.time)
        if not self.lists:
            for item, grade in by_item:
                self.items.count_grade(item, grade)

    def grades(self, event: Event, missing: float = np.nan) -> Floats:
        """Aggregate the feedback on an event."""
        config = self.config
        whole = not config.has_real_grades
        return aggregate(event.feedback, event_k(event), config.aggregate, missing, whole=whole)

    def _update_agent(self, event: Event) -> None:
        """Update the learner with the feedback on an event, if there is any."""
        grades = self.grades(event, self.config.missing_grade)
        if self.comparison is not None:
            event.learned = compared.observe(self.comparison, event.body, grades)
            return
        if np.isnan(grades).all():
            return
        try:
            self.agent.update(self._decision(event), grades)
        except ValueError:  # raised before anything changes, for example because a token overflowed
            self.activity.counts.rejected_updates += 1
        else:
            event.learned = True

    def _decision(self, event: Event) -> Decision:
        """Rebuild the learner's decision from the record."""
        body, agent = event.body, self.agent
        ranking, token = read_numbers(body.ranking), read_floats(body.token)
        if not agent.learner.variable_length:
            chosen = np.sort(ranking) if agent.learner.kernels.set_items is not None else None
            key = self.keys[body.key] if body.key else None
            return Decision(_no_features(len(ranking)), ranking, token, None, chosen, event.round, key)
        X = self.features(event)
        if self.lists:
            return Decision(X, ranking, token, None, None, event.round)
        rows = _rows(body)
        return Decision(X, rows_of_items(rows, ranking), token, None, None, event.round)

    def features(self, event: Event) -> Features:
        """Return the features of the candidates as the learner saw them, one row each."""
        if self.lists:
            X, _, _ = self._candidates(event.body)
            return _no_features(len(event.body.names)) if X is None else X
        X = np.frombuffer(event.features, dtype="<f4").reshape(len(event.body.ranking) // 4, -1)
        return self._with_item_effects(X, _rows(event.body))

    def find(self, event_id: str) -> Event | None:
        """Return an event that is open, or closed not long ago, with its record."""
        event = self.open.get(event_id)
        return self.recent.get(event_id) if event is None else self.open.whole(event)

    def due(self, now: int) -> Iterator[str]:
        """Yield the events whose feedback window is over. The caller closes each before it asks for the next."""
        while (event := self.open.oldest()) is not None and self.deadline(event) <= now:
            yield event.id

    def deadline(self, event: Event) -> int:
        """Return the end of the feedback window of an event."""
        return event.time + int(self.config.feedback_window * SECOND)

    # Items and settings

    def _apply_items(self, _: None, body: ItemsBody) -> None:
        size = len(body.features) // max(1, len(body.put))
        for n, name in enumerate(body.put):
            score = np.frombuffer(body.scores, "<f8", 1, 8 * n)[0] if body.scores else np.nan
            group = body.groups[n] if body.groups else ""
            self._put(name, body.features[n * size : (n + 1) * size], float(score), group)
        for name in body.retired:
            self.items.retire(name)

    def _put(self, name: str, features: bytes = b"", score: float = np.nan, group: str = "") -> None:
        number = self.items.put(name, features, score, group)
        agent = self.agent
        if agent.learner.kernels.set_items is not None and number >= agent.shape.m:
            agent.add(number + 1 - agent.shape.m)

    def _apply_settings(self, _: None, body: Settings) -> None:
        """Apply a new configuration. A different learner starts from scratch, and drops the open events."""
        before, self.settings = self.settings, body
        self.stays = Stays()
        if before is None or identity(before.config) != identity(body.config):
            learner = body.config.learner_object
            if learner.kernels.set_items is None and not learner.variable_length:
                self.items = Items([])
            self.open.clear()
            self.keys = {}
            self.since = self.number
            self.agent = new_agent(body.config, len(self.items))
            self.comparison = compared.new_comparison(body.config, body.key)
            self.monitor = SlotMonitor(body.config.grade_range, self.name_of)
            self.holdout = SlotHoldout(body.config, self.name_of)
        elif self.agent.rules != agent_rules(body.config):
            self.agent.rules = agent_rules(body.config)
        self.holdout.alpha = body.config.alpha
        if self.comparison is not None:
            self.comparison.set_alpha(body.config.alpha)
        for name in body.config.items:
            if self.items.number(name) is None and not self.lists:
                self._put(name)

    def _apply_clock_jump(self, _: None, body: ClockJump) -> None:
        self.jumps = [*self.jumps, Jump(self.time, body.length)][-_MAX_JUMPS:]

    def time_before(self, now: int, age: int) -> int:
        """Return the time before which records are older than an age, not counting jumps of the clock."""
        for jump in reversed(self.jumps):
            if now - jump.time >= age:
                break
            age -= now - jump.time
            now = jump.time - jump.length
        return now - age


def _rows(body: Ranked) -> Ints:
    """Return the candidates of a ranking of registered items, in the order of their rows."""
    return read_numbers(body.items) if body.items else np.sort(read_numbers(body.ranking))


def _no_features(n: int) -> Features:
    return np.empty((n, 0), dtype=np.float32)


def event_k(event: Event) -> int:
    """Return k for an event, or the length of its list if that is shorter."""
    return min(event.body.k, len(event.body.ranking) // 4)


_APPLY: dict[type[Any], Callable[..., None]] = {
    Ranked: SlotState._apply_ranked,
    Shown: SlotState._apply_shown,
    Feedback: SlotState._apply_feedback,
    Close: SlotState._apply_close,
    ItemsBody: SlotState._apply_items,
    Settings: SlotState._apply_settings,
    ClockJump: SlotState._apply_clock_jump,
}
