"""The state of a slot: the fold of its records, in the order of their numbers.

A live call and a replay both end in `Fold.apply`: there is no other code that changes a state. Randomness is a
function of the slot's key and of how many lists were ranked before (`kernels.philox`), time is that of the record,
and an event ends because a record says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from peekrank._jit import compile_for
from peekrank.engine import Agent
from peekrank.kernels.philox import fill_uniforms
from peekrank.service.activity import Activity, nothing_yet
from peekrank.service.clock import SECOND
from peekrank.service.config import SlotConfig, specification
from peekrank.service.events import SILENT, Call, State, combined, step, unpacked
from peekrank.service.items import Items
from peekrank.service.log.records import (
    Body,
    Close,
    Feedback,
    Ranked,
    Settings,
    Shown,
    numbers,
    read_floats,
    read_numbers,
)
from peekrank.service.log.records import Items as ItemsBody
from peekrank.service.watching import Closed, Watching
from peekrank.types import Decision, Features, Floats, Ints

_RECENT = 4096  # closed events that are still in memory; more than a batch can close


class Event(Struct, array_like=True):
    """A list for a visitor, as far as it has come."""

    id: str
    number: int  # of its first record
    time: int
    state: str
    body: Ranked
    round: int = 0  # of the learner
    features: bytes = b""  # float32 of the registry, as they were
    answers: list[bytes] = []  # `events.packed`, in time
    late: list[bytes] = []
    learned: bool = False
    shown: bytes = b""  # the list as the app showed it; empty: as it was ranked, as far as is known

    @property
    def at(self) -> State:
        """Where it stands."""
        return State(self.state)


class Fold:
    """A slot as its log has made it so far.

    Parameters
    ----------
    slot
        The name of the slot.
    """

    def __init__(self, slot: str) -> None:
        self.slot = slot
        self.number = self.time = 0  # of the last record
        self.settings: Settings | None = None
        self.since = 0  # the record that the learner began with
        self.agent: Agent | None = None
        self.items = Items([])
        self.open: OrderedDict[str, Event] = OrderedDict()  # by time, hence by deadline
        self.recent: OrderedDict[str, Event] = OrderedDict()  # closed, in no snapshot
        self.activity: Activity = nothing_yet()
        self.watching = Watching(1, None)
        self._draw = compile_for(fill_uniforms, 0, 0, np.empty(1))

    @property
    def config(self) -> SlotConfig:
        """The configuration, which is in the log like all else."""
        if self.settings is None:
            raise ValueError(f"the log of slot {self.slot!r} does not begin with a configuration")
        return self.settings.config

    @property
    def key(self) -> int:
        """The key of its randomness."""
        return self.settings.key if self.settings else 0

    @property
    def learner(self) -> Agent:
        """The learner at work."""
        if self.agent is None:
            raise ValueError(f"the log of slot {self.slot!r} does not begin with a configuration")
        return self.agent

    @property
    def lists(self) -> bool:
        """Whether each list brings its own items, of which nothing is kept."""
        return self.learner.learner.variable_length and self.config.features_from == "request"

    @property
    def changing(self) -> bool:
        """Whether items may come and go."""
        learner = self.learner.learner
        return learner.kernels.set_items is not None or learner.variable_length

    @property
    def name_of(self) -> Callable[[int], str] | None:
        """The name of an item by its number; None if each list brings its own items."""
        return None if self.lists else lambda number: self.items.known[number].name

    def apply(self, number: int, time: int, event: str | None, body: Body) -> None:
        """Take the next record in."""
        self.number, self.time = number, time
        _APPLY[type(body)](self, event, body)

    # Rankings

    def _ranked(self, event: str, body: Ranked) -> None:
        for name in body.added:
            self._put(name, b"")
        X, chosen, given = self._candidates(body)
        agent = self.learner
        uniforms = np.empty(agent.n_uniforms(len(chosen) if chosen is not None else None))
        self._draw(self.key, self.activity.counts.ranked, uniforms)
        kept = b""
        if X is not None and given is not None:
            kept, X = X.tobytes(), self._described(X, given)
        decision = agent.rank(X, available=chosen, uniforms=uniforms)
        if body.baseline:
            decision = agent.override(decision, self._baseline(body, given))
        self._note(body, decision, given)
        state = State.OPEN if body.deferred else State.SHOWN
        self.open[event] = Event(event, self.number, self.time, state.value, body, decision.round, kept)
        if not self.lists:
            self.items.note_shown(np.frombuffer(body.ranking, "<u4", min(body.k, len(decision.ranking))).tolist())
        self.activity.ranked(self.time, explored=body.explored)

    def _candidates(self, body: Ranked) -> tuple[Features | None, Ints | None, Ints | None]:
        """Features of the list, its items if the learner knows them, and if only the registry does."""
        agent = self.learner
        if not agent.learner.variable_length:
            if agent.learner.kernels.set_items is None:
                return None, None, None
            return None, read_numbers(body.items) if body.items else self.items.present, None
        if self.lists:
            n, given = len(body.names), None
            X = np.frombuffer(body.features, dtype="<f4").reshape(n, self.config.features)
        else:
            given = read_numbers(body.items) if body.items else self.items.present
            X = self.items.features(given, self.config.features)
        if body.context:
            context = np.frombuffer(body.context, dtype="<f4")
            X = np.hstack([np.broadcast_to(context, (len(X), len(context))), X])
        return X, None, given

    def _described(self, X: Features, given: Ints) -> Features:
        """Features, behind a column for each item that is remembered: 1 in its own row, 0 elsewhere."""
        own = given[:, None] == np.arange(self.config.item_effects)
        return np.hstack([own.astype(np.float32), X])

    def _baseline(self, body: Ranked, given: Ints | None) -> Ints:
        """The caller's order as the learner knows the items."""
        order = read_numbers(body.baseline)
        return order if given is None else np.searchsorted(given, order)

    def _note(self, body: Ranked, decision: Decision, given: Ints | None) -> None:
        """Keep what came out in the record, or see whether it is what is there."""
        ranking = numbers(decision.ranking if given is None else given[decision.ranking])
        token = decision.token.astype("<f8").tobytes()
        if not body.ranking:
            body.ranking, body.token = ranking, token
            body.propensities = (
                b"" if decision.propensities is None else decision.propensities.astype("<f8").tobytes()
            )
        elif body.ranking != ranking or body.token != token:
            self.activity.counts.differing += 1  # what was shown was shown: the record is what is learned from

    # Answers

    def _shown(self, event: str, _: Shown) -> None:
        known = self.open[event]
        known.state = step(self.config.learn, known.at, Call.ACTIVATE).state.value

    def _feedback(self, event: str, body: Feedback) -> None:
        if body.late:
            self.activity.counts.late += sum(grade != SILENT for grade in unpacked(body.answer))
            self.watching.late()
            if event in self.recent:
                self.recent[event].late = [*self.recent[event].late, body.answer]
            return
        known = self.open[event]
        known.answers = [*known.answers, body.answer]
        known.shown = known.shown or body.shown
        self._go_on(known, Call.NEW_ANSWER)

    def _closed(self, event: str, _: Close) -> None:
        known = self.open[event]
        self._go_on(known, Call.DEADLINE_ANSWERED if known.answers else Call.DEADLINE)

    def _go_on(self, event: Event, call: Call) -> None:
        was = event.at
        done = step(self.config.learn, was, call)
        event.state = done.state.value
        if done.teach:
            self._teach(event)
        if done.state.closed:
            self._count(event, seen=was is State.SHOWN or bool(event.answers))
            self._forget(event)
            first = next(iter(self.open.values()), None)
            before = first.round if first else self.learner.rounds + 1
            self.watching.continuation(before, self.time, self.learner.failure)

    def _forget(self, event: Event) -> None:
        """A closed event is in the log; the last ones stay at hand."""
        del self.open[event.id]
        self.recent[event.id] = event
        if len(self.recent) > _RECENT:
            self.recent.popitem(last=False)

    def _count(self, event: Event, *, seen: bool) -> None:
        asked = np.frombuffer(event.body.ranking, "<u4", event_k(event)).tolist()
        grades = [None if grade != grade else grade for grade in self._grades(event).tolist()]
        if seen:
            body = event.body
            self.watching.closed(Closed(event.round, body.ranking, body.propensities, grades, event.shown))
        if not event.answers:
            self.activity.counts.expired += 1
            return
        said = [(item, int(grade)) for item, grade in zip(asked, grades, strict=True) if grade is not None]
        self.activity.answered(self.time, [grade for _, grade in said])
        if not self.lists:
            for item, grade in said:
                self.items.note_answer(item, grade)

    def _grades(self, event: Event, silence: float = np.nan) -> Floats:
        """The result of the answers to an event."""
        return combined(event.answers, event_k(event), self.config.combine, silence)

    def _teach(self, event: Event) -> None:
        """Have the learner learn what was said, if anything was."""
        config = self.config
        silence = np.nan if config.unanswered == "missing" else float(config.unanswered)
        answers = self._grades(event, silence)
        if np.isnan(answers).all():
            return
        try:
            self.learner.update(self._decision(event), answers)
        except ValueError:  # it refuses, before it changes anything: a token that overflowed, for instance
            self.activity.counts.refused += 1
        else:
            event.learned = True

    def _decision(self, event: Event) -> Decision:
        """What the learner decided, from what was kept of it."""
        body, agent = event.body, self.learner
        ranking, token = read_numbers(body.ranking), read_floats(body.token)
        if not agent.learner.variable_length:
            chosen = np.sort(ranking) if agent.learner.kernels.set_items is not None else None
            return Decision(_no_features(len(ranking)), ranking, token, None, chosen, event.round)
        X = self.seen(event)
        if self.lists:
            return Decision(X, ranking, token, None, None, event.round)
        given = _given(body)
        return Decision(
            X, np.argsort(given)[np.searchsorted(np.sort(given), ranking)], token, None, None, event.round
        )

    def seen(self, event: Event) -> Features:
        """What the learner saw of the candidates of an event: a row for each."""
        if self.lists:
            X, _, _ = self._candidates(event.body)
            return _no_features(len(event.body.names)) if X is None else X
        kept = np.frombuffer(event.features, dtype="<f4").reshape(len(event.body.ranking) // 4, -1)
        return self._described(kept, _given(event.body))

    def due(self, now: int) -> Iterator[str]:
        """Events whose waiting time is over, one by one as they are closed."""
        while self.open:
            event = next(iter(self.open.values()))
            if event.time + int(self.config.wait * SECOND) > now:
                return
            yield event.id

    def deadline(self, event: Event) -> int:
        """When an event closes."""
        return event.time + int(self.config.wait * SECOND)

    # Items and settings

    def _items(self, _: None, body: ItemsBody) -> None:
        size = len(body.features) // max(1, len(body.put))
        for n, name in enumerate(body.put):
            self._put(name, body.features[n * size : (n + 1) * size])
        for name in body.retired:
            self.items.retire(name)

    def _put(self, name: str, features: bytes) -> None:
        number = self.items.put(name, features)
        agent = self.learner
        if agent.learner.kernels.set_items is not None and number >= agent.shape.m:
            agent.add(number + 1 - agent.shape.m)

    def _configured(self, _: None, body: Settings) -> None:
        """Go on as configured; another learner starts from scratch, and learns nothing from old decisions."""
        before, self.settings = self.settings, body
        if before is None or identity(before.config) != identity(body.config):
            fixed = body.config.made
            if fixed.kernels.set_items is None and not fixed.variable_length:
                self.items = Items([])
            self.open.clear()
            self.since = self.number
            self.agent = new_agent(body.config, len(self.items))
            self.watching = Watching(body.config.max_grade, self.name_of)
        for name in body.config.items:
            if self.items.number(name) is None and not self.lists:
                self._put(name, b"")


def new_agent(config: SlotConfig, known: int) -> Agent:
    """A learner that has seen nothing, for a slot that knows so many items."""
    learner = config.made
    if learner.variable_length:
        m = config.longest
    elif learner.kernels.set_items is not None:
        m = max(config.k, known, 1)  # numbers without a name are given one when it comes
    else:
        m = len(config.items)
    return Agent(learner, m=m, k=config.k, d=config.d).compile()


def identity(config: SlotConfig) -> tuple[Any, ...]:
    """What makes a learner another one: all that its memory depends on."""
    learner = config.made
    fixed = learner.kernels.set_items is None and not learner.variable_length
    items = config.items if fixed else config.longest if learner.variable_length else None
    features = (config.features, config.context, config.features_from, config.item_effects)
    return specification(config), config.k, config.max_grade, items, *features


def _given(body: Ranked) -> Ints:
    """The candidates of a ranking of registered items, in the order of their rows."""
    return read_numbers(body.items) if body.items else np.sort(read_numbers(body.ranking))


def _no_features(n: int) -> Features:
    return np.empty((n, 0), dtype=np.float32)


def event_k(event: Event) -> int:
    """How many questions an event asks: fewer than k if its list is shorter."""
    return min(event.body.k, len(event.body.ranking) // 4)


_APPLY: dict[type[Any], Callable[..., None]] = {
    Ranked: Fold._ranked,
    Shown: Fold._shown,
    Feedback: Fold._feedback,
    Close: Fold._closed,
    ItemsBody: Fold._items,
    Settings: Fold._configured,
}
