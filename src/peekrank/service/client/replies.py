"""Replies as a client returns them: plain dataclasses with the fields of `api.messages`.

The HTTP reference describes the fields. A client ignores fields that it does not know, so that it can talk to a
newer service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class RankReply:
    """The ranking to show, and the items whose feedback the learner can use."""

    event_id: str
    ranking: list[str]
    top_k: list[str]
    explored: bool
    sequence: int
    retired: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EventReply:
    """The current state of an event."""

    event_id: str
    slot: str
    state: str
    ranking: list[str]
    top_k: list[str]
    grades: dict[str, float | None]
    learned: bool
    deadline: float | None = None
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class ItemReply:
    """An item of a slot, with its counts."""

    id: str
    retired: bool = False
    features: list[float] | None = None
    score: float | None = None
    shown: int = 0
    n_feedback: int = 0
    mean: float | None = None
    recent: float | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class ItemsReply:
    """One page of the items of a slot, sorted by id."""

    items: list[ItemReply]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedReply:
    """Number of items that a call added, changed or retired."""

    added: int = 0
    changed: int = 0
    retired: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with an anytime confidence interval."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Member:
    """A learner of a slot: the champion, or a challenger."""

    name: str
    role: str
    value: Interval | None = None


@dataclass(frozen=True, slots=True)
class ComparisonCheck:
    """Check of the assumption that answers do not depend on the position."""

    kind: str
    estimate: float
    low: float
    high: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of two rankers is better."""

    a: str
    b: str
    mode: str
    better: str | None
    verdict: str
    lists: int
    answered: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    alpha: float = 0.05
    remaining: int | None = None
    check: ComparisonCheck | None = None
    ratio: float | None = None
    forecast: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An active alarm."""

    name: str
    since: float
    cause: str
    action: str


@dataclass(frozen=True, slots=True)
class Minute:
    """Traffic of a slot in one minute."""

    start: float
    ranked: int = 0
    answered: int = 0
    explored: int = 0
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Holdout:
    """How much better the learner is than the app's own order, by a share of the lists that show this order."""

    share: float
    lists: int
    held: int
    better: str
    verdict: str
    alpha: float = 0.05
    difference: Interval | None = None
    two_samples: Interval | None = None
    agrees: bool = True
    remaining: int | None = None
    mode: str = "whole"


@dataclass(frozen=True, slots=True)
class SlotReply:
    """A slot: its configuration and its counts."""

    name: str
    learner: str
    measure: str
    k: int
    mode: str = "live"
    items: int | None = None
    keys: int = 0
    sequence: int = 0
    ranked: int = 0
    answered: int = 0
    expired: int = 0
    due: int = 0
    due_answered: int = 0
    late: int = 0
    explored: int = 0
    rules: str = ""
    relaxed: int = 0
    open: int = 0
    value: Interval | None = None
    ranking: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    comparison: Comparison | None = None
    holdout: Holdout | None = None
    alarms: list[Alarm] = field(default_factory=list)
    minutes: list[Minute] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SlotsReply:
    """All slots that the key may see."""

    slots: list[SlotReply]


@dataclass(frozen=True, slots=True)
class StatsReply:
    """State of the service and of its log."""

    role: str
    epoch: int = 0
    sequence: int = 0
    lag: int | None = 0
    snapshot: int | None = None
    queued: int | None = None
    log_bytes: int | None = None
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class ProblemReply:
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    message: str
    field: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class BatchReply:
    """One line of the reply to a batch: the status of the call, and its reply or problem."""

    status: int
    reply: RankReply | None = None
    event: EventReply | None = None
    problem: ProblemReply | None = None


def as_reply(cls: type[Reply], content: Mapping[str, Any]) -> Reply:
    """Convert a JSON object to a reply.

    >>> as_reply(Member, {"name": "ucb", "role": "challenger", "value": {"mean": 0, "low": -1, "high": 1, "n": 9}})
    Member(name='ucb', role='challenger', value=Interval(mean=0, low=-1, high=1, n=9))
    """
    values: dict[str, Any] = {}
    for name, nested in _fields(cls).items():  # type: ignore[arg-type] # classes are hashable
        if name in content:
            value = content[name]
            if nested is not None and value is not None:
                is_list = isinstance(value, list)
                value = [as_reply(nested, one) for one in value] if is_list else as_reply(nested, value)
            values[name] = value
    return cls(**values)


@cache
def _fields(cls: type[Any]) -> dict[str, Any]:
    """Map each field to the dataclass of its value, or of the elements of its value, or None."""
    hints = get_type_hints(cls)
    types = {name: (hint, *get_args(hint)) for name, hint in hints.items()}
    return {name: next((one for one in some if is_dataclass(one)), None) for name, some in types.items()}
