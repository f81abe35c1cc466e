"""Request and reply bodies: one Struct for each, with its fields, limits and descriptions.

msgspec decodes and validates a body in one pass. `Service` takes the same Structs, and ``/openapi.json`` has their
schemas. A body with an unknown field is rejected, so that a misspelt name never goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from peekrank.service.api.limits import LARGEST_GRADE, LARGEST_SCORE, MAX_FEATURES, MAX_ID, MAX_ITEMS
from peekrank.types import LARGEST_FEATURE, LARGEST_VERSION

# "$" alone also matches before a trailing line break.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:~-]*$(?!\n)"
_TEXT = r"^[^\u0000-\u001f\u007f]+$(?!\n)"

EventId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=_NAME,
        description="Id of an event, chosen by the caller: letters, digits and . _ : ~ -, starting with a letter "
        "or digit. It makes calls safe to repeat. A random UUID is a good choice.",
    ),
]
SlotName = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_ID, pattern=_NAME, description="Name of a slot, as in the configuration."),
]
ItemId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=_TEXT,
        description="Name of an item, chosen by the caller: any text without control characters.",
    ),
]
Grade = Annotated[
    float,
    Meta(
        ge=-LARGEST_GRADE,
        le=LARGEST_GRADE,
        description="Feedback on an item: a whole number from 0 to the slot's `max_grade`, or, if the learner is "
        "`mixed`, any number from its `low` to its `high`.",
    ),
]
Score = Annotated[
    float,
    Meta(
        ge=-LARGEST_SCORE,
        le=LARGEST_SCORE,
        description="The app's own score of an item, larger is better, for a slot whose learner is `mixed`. If it "
        "is missing, the registered score counts.",
    ),
]
Group = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=_TEXT,
        description="Group of the item, such as its publisher or brand, which the slot's rules limit. If it is "
        "missing, the registered group counts. An item without either is a group by itself.",
    ),
]
Signal = Annotated[
    float,
    Meta(ge=0, le=1e9, description="How often, or for how many seconds, a person did something with an item."),
]
Features = Annotated[
    Annotated[
        list[Annotated[float, Meta(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE)]],
        Meta(min_length=1, max_length=MAX_FEATURES),
    ]
    | Annotated[bytes, Meta(min_length=4, max_length=4 * MAX_FEATURES)],
    Meta(description="A list of numbers, or the same numbers as base64 of little-endian float32."),
]
EventState = Annotated[
    Literal["open", "shown", "answered", "expired"],
    Meta(
        description="open: ranked, not yet activated. shown: waiting for feedback. answered: closed with "
        "feedback. expired: closed without feedback."
    ),
]


def described(text: str) -> Any:
    """Describe a field, for its schema and the reference."""
    return Meta(description=text)


class Message(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all requests: immutable, without unknown fields. Fields with default values may be left out."""


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all replies. Every field is written, so that a caller can rely on it."""


# Requests


class Item(Message, frozen=True):
    """An item, with its features, its score and its group if it has any."""

    id: ItemId
    features: Features | None = None
    score: Score | None = None
    group: Group | None = None


def names_of(items: Sequence[str | Item]) -> list[str]:
    """Return the names of the items of a call."""
    return [item if isinstance(item, str) else item.id for item in items]


class RankRequest(Message, frozen=True):
    """A list to rank: the body of ``POST /v1/slots/{slot}/rank``."""

    event_id: Annotated[
        EventId | None,
        described("Optional. If missing, the service chooses one, and a retry creates another event."),
    ] = None
    items: Annotated[
        Annotated[list[ItemId | Item], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described("Items to rank, each once. If missing, all items of the slot that are not retired."),
    ] = None
    context: Annotated[
        Features | None,
        described("Features of the visitor or the moment. They precede the features of each item."),
    ] = None
    key: Annotated[
        ItemId | None,
        described(
            "Whom or what the list is for, such as a query, a tenant or a segment, for a slot whose learner is "
            "`mixed` with `cells`."
        ),
    ] = None
    score_version: Annotated[
        Annotated[int, Meta(ge=0, le=LARGEST_VERSION)] | None,
        described(
            "Version of the ranker that computed the scores. A larger one than before makes the learner forget "
            "how far scores can be trusted, but not what it knows about items and keys. If missing, the latest."
        ),
    ] = None
    defer: Annotated[
        bool, described("The list may never be shown: the event stays open until it is activated.")
    ] = False
    baseline: Annotated[
        Annotated[list[ItemId], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described(
            "The order that the app would show without the service. A slot in shadow mode returns it, and one "
            "with a holdout returns it for a share of the lists."
        ),
    ] = None
    pins: Annotated[
        dict[Annotated[int, Meta(ge=1, le=MAX_ITEMS)], ItemId] | None,
        described('Items with fixed positions in this list, beside those of the slot\'s rules: `{"1": "tea"}`.'),
    ] = None
    blocked: Annotated[
        Annotated[list[ItemId], Meta(max_length=MAX_ITEMS)] | None,
        described("Items to leave out of this list, beside those that the slot's rules block."),
    ] = None
    orders: Annotated[
        Annotated[
            list[Annotated[list[ItemId], Meta(min_length=1, max_length=MAX_ITEMS)]],
            Meta(min_length=2, max_length=2),
        ]
        | None,
        described(
            "Instead of `items`, for a slot that compares two rankers: the same items in the order of each."
        ),
    ] = None
    visitor: Annotated[
        ItemId | None,
        described(
            "Who sees the list, such as a session or an account. In a slot with `sticky`, the same visitor gets "
            "the same order. The service stores only a keyed hash."
        ),
    ] = None


class CitedText(Message, frozen=True):
    """A document that is cited by its text, which the service does not keep."""

    text: str


class FeedbackRequest(Message, frozen=True):
    """Feedback on a list: the body of ``PUT /v1/events/{id}/feedback``."""

    grades: Annotated[
        Annotated[dict[ItemId, Grade | None], Meta(max_length=MAX_ITEMS)]
        | Annotated[list[Grade | None], Meta(max_length=MAX_ITEMS)]
        | None,
        described(
            "Grades by item, or in the order of `top_k`. null means no feedback on this item, which is not the "
            "same as 0."
        ),
    ] = None
    signals: Annotated[
        Annotated[dict[ItemId, Annotated[dict[str, Signal], Meta(max_length=20)]], Meta(max_length=MAX_ITEMS)]
        | None,
        described(
            "What people did, instead of grades, for a slot with feedback rules: "
            '`{"tea": {"click": 1, "dwell": 12.5}}`. {} means that they did nothing.'
        ),
    ] = None
    seen: Annotated[
        Annotated[list[ItemId], Meta(max_length=MAX_ITEMS)] | None,
        described("With signals, if the slot's feedback rules need it: items that people looked at."),
    ] = None
    shown: Annotated[
        Annotated[list[ItemId], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described(
            "The list as the app showed it, from the top, at least k items. If missing, the ranking. Alarms "
            "compare the two. The first feedback that has it counts."
        ),
    ] = None
    grade: Annotated[
        Grade | None,
        described("One grade instead of `grades`, for what came of the whole list, such as an answer of a model."),
    ] = None
    cited: Annotated[
        Annotated[list[Annotated[int, Meta(ge=0, lt=MAX_ITEMS)] | ItemId | CitedText], Meta(max_length=MAX_ITEMS)]
        | None,
        described(
            "With `grade`: the items it is about, by id, by position in the `documents` of a rerank call, or by "
            "text. Those below the first k are ignored. Can be left out if k is 1."
        ),
    ] = None


class ItemsRequest(Message, frozen=True):
    """Items to register or update: the body of ``PUT /v1/slots/{slot}/items``."""

    items: Annotated[list[ItemId | Item], Meta(min_length=1, max_length=MAX_ITEMS)]


class BatchRank(Message, frozen=True, tag_field="call", tag="rank"):
    """A line of a batch that ranks a list."""

    slot: SlotName
    request: RankRequest


class BatchFeedback(Message, frozen=True, tag_field="call", tag="feedback"):
    """A line of a batch that submits feedback."""

    event_id: EventId
    request: FeedbackRequest


class BatchActivate(Message, frozen=True, tag_field="call", tag="activate"):
    """A line of a batch that activates a deferred event."""

    event_id: EventId


BatchLine = BatchRank | BatchFeedback | BatchActivate


# Replies


class RankReply(Reply, frozen=True):
    """The ranking to show, and the items whose feedback the learner can use."""

    event_id: EventId
    ranking: Annotated[list[ItemId], described("All items that are not retired, in the order to show them.")]
    top_k: Annotated[list[ItemId], described("The first k items. The learner uses feedback on these.")]
    explored: Annotated[
        bool, described("Whether the learner explored: the list is not the one it estimates to be best.")
    ]
    sequence: Annotated[int, described("Number of the record in the log. Later decisions have larger numbers.")]
    retired: Annotated[
        list[ItemId], described("Items of the request that are retired. The ranking leaves them out.")
    ] = []
    blocked: Annotated[list[ItemId], described("Items that rules left out of the ranking.")] = []


class EventReply(Reply, frozen=True):
    """The current state of an event."""

    event_id: EventId
    slot: SlotName
    state: EventState
    ranking: list[ItemId]
    top_k: list[ItemId]
    grades: Annotated[
        dict[ItemId, float | None], described("Feedback on the first k items so far. null means none.")
    ]
    learned: Annotated[bool, described("Whether the learner was updated with the feedback.")]
    deadline: Annotated[
        float | None, described("When the event closes, in seconds since 1970. null once it is closed.")
    ] = None
    ignored: Annotated[int, described("Number of `cited` items of this call that were not among the first k.")] = 0


class ItemReply(Reply, frozen=True):
    """An item of a slot, with its counts."""

    id: ItemId
    retired: bool = False
    features: Features | None = None
    score: Annotated[float | None, described("The registered score, or null.")] = None
    shown: Annotated[int, described("Number of lists that had it among the first k.")] = 0
    n_feedback: Annotated[int, described("Number of grades that arrived in time.")] = 0
    mean: Annotated[float | None, described("Mean of these grades, or null.")] = None
    recent: Annotated[
        float | None,
        described("Mean of roughly the last hundred grades. Compare it with `mean` to see the trend."),
    ] = None
    group: Annotated[str | None, described("The registered group, or null.")] = None


class ItemsReply(Reply, frozen=True):
    """One page of the items of a slot, sorted by id."""

    items: list[ItemReply]
    next: Annotated[str | None, described("Pass this as `after` to get the next page. null on the last page.")] = (
        None
    )


class ChangedReply(Reply, frozen=True):
    """Number of items that a call added, changed or retired."""

    added: int = 0
    changed: Annotated[int, described("Known items whose features or score changed.")] = 0
    retired: int = 0
    sequence: Annotated[int, described("Number of the latest record in the log.")] = 0


class ReloadReply(Reply, frozen=True):
    """Changes made by a reload of the configuration."""

    changed: Annotated[list[str], described("A line for each field. Empty if the file has not changed.")] = []


class Interval(Reply, frozen=True):
    """An estimate with an anytime confidence interval: it stays valid however often you look."""

    mean: float
    low: float
    high: float
    n: Annotated[int, described("Number of events.")]


class Member(Reply, frozen=True):
    """A learner of a slot: the champion, or a challenger."""

    name: str
    role: Literal["champion", "challenger"]
    value: Annotated[
        Interval | None, described("Value per event minus the champion's, or null if nothing is known yet.")
    ] = None


class ComparisonCheck(Reply, frozen=True):
    """Check of the assumption that answers do not depend on the position, with an anytime interval."""

    kind: Annotated[
        Literal["A/B", "positions"],
        described(
            "A/B: the plain difference between lists in either order, which should agree with the comparison. "
            "positions: by how much grades of items that the coin put higher exceed predictions: 0 if it holds."
        ),
    ]
    estimate: float
    low: float
    high: float
    passed: bool


class Comparison(Reply, frozen=True):
    """Which of two rankers is better, with an interval that stays valid however often you look."""

    a: Annotated[str, described("Name of the first ranker.")]
    b: Annotated[str, described("Name of the second ranker.")]
    mode: Literal["union", "coin"]
    better: Annotated[str | None, described("Name of the better ranker, or null while the interval contains 0.")]
    verdict: Annotated[str, described("The verdict in words.")]
    lists: Annotated[int, described("Lists whose feedback is final.")]
    answered: Annotated[int, described("Of these, lists that count because their feedback is complete.")]
    difference: Annotated[float | None, described("Measure per list of the first minus the second ranker.")] = None
    low: Annotated[float | None, described("Lower end of the interval.")] = None
    high: Annotated[float | None, described("Upper end of the interval.")] = None
    alpha: Annotated[float, described("Probability that the interval is ever wrong.")] = 0.05
    remaining: Annotated[
        int | None,
        described("Further lists that a verdict is likely to need. null if there is a verdict, or if unknown."),
    ] = None
    check: ComparisonCheck | None = None
    ratio: Annotated[
        float | None,
        described("Expected length of this test, divided by that of an A/B test, by the orders alone."),
    ] = None
    forecast: Annotated[str, described("The same in words.")] = ""


class Holdout(Reply, frozen=True):
    """How much better the learner is than the app's own order, by a share of the lists that show this order.

    Both intervals are valid at every look, and hold together with the stated probability.
    """

    share: Annotated[float, described("Share of new lists that show the app's own order, or mix it.")]
    lists: Annotated[int, described("Lists whose feedback is final and in the analysis, with all answers.")]
    held: Annotated[int, described("Of these, lists in the app's own order, or mixed.")]
    better: Literal["learner", "own", "undecided"]
    verdict: Annotated[str, described("The result in words.")]
    alpha: Annotated[float, described("Probability that either interval is ever wrong.")] = 0.05
    difference: Annotated[
        Interval | None,
        described("Value per list, of the first k positions: learner minus own order. null before the first."),
    ] = None
    two_samples: Annotated[
        Interval | None,
        described(
            "The same from the plain means of both kinds of lists, which needs no assumption. null for mixtures."
        ),
    ] = None
    agrees: Annotated[
        bool, described("Whether the two intervals overlap. If not, answers probably depend on the position.")
    ] = True
    remaining: Annotated[
        int | None, described("Further lists that a verdict is likely to need, or null if unknown or decided.")
    ] = None
    mode: Annotated[
        Literal["whole", "union"], described("Whether the share shows the own order, or mixes both orders.")
    ] = "whole"


class Alarm(Reply, frozen=True):
    """An active alarm."""

    name: str
    since: Annotated[float, described("Seconds since 1970.")]
    cause: Annotated[str, described("What happened, with figures.")]
    action: Annotated[str, described("What to do.")]


class Minute(Reply, frozen=True):
    """Traffic of a slot in one minute."""

    start: Annotated[float, described("Seconds since 1970.")]
    ranked: int = 0
    answered: int = 0
    explored: int = 0
    value: Annotated[float | None, described("Mean value of the events answered in this minute.")] = None


class SlotReply(Reply, frozen=True):
    """A slot: its configuration and its counts."""

    name: SlotName
    learner: Annotated[str, described("Specification of the learner.")]
    measure: str
    k: int
    mode: Annotated[
        Literal["shadow", "live"], described("In shadow mode the slot returns the caller's baseline.")
    ] = "live"
    items: Annotated[int | None, described("Items that are not retired, or null if each list brings its own.")] = (
        None
    )
    keys: Annotated[int, described("Number of different keys in calls, up to the limit `max_keys`.")] = 0
    sequence: Annotated[int, described("Number of the latest record of the slot.")] = 0
    ranked: Annotated[int, described("Number of events so far.")] = 0
    answered: Annotated[int, described("Events with feedback in time.")] = 0
    expired: Annotated[int, described("Events that closed without feedback.")] = 0
    due: Annotated[int, described("Events, since the process started, whose feedback window is over.")] = 0
    due_answered: Annotated[int, described("Of these, events with feedback in time.")] = 0
    late: Annotated[
        int, described("Grades that arrived after the event closed. They are logged, not learned from.")
    ] = 0
    explored: Annotated[int, described("Events in which the learner explored.")] = 0
    rules: Annotated[str, described("The slot's rules in a line. Empty if there are none.")] = ""
    relaxed: Annotated[int, described("Lists in which a limit on groups or new items could not be met.")] = 0
    open: Annotated[int, described("Events that are not closed yet.")] = 0
    value: Annotated[Interval | None, described("Mean value per event, estimated from the feedback.")] = None
    ranking: Annotated[
        list[ItemId],
        described(
            "The first ten items by the learner's current estimates, without exploration. Empty if each list "
            "brings its own items, or if a call's context, scores or key decide."
        ),
    ] = []
    members: list[Member] = []
    comparison: Annotated[Comparison | None, described("For a slot that compares two rankers.")] = None
    holdout: Annotated[Holdout | None, described("The holdout, or null if there has been none.")] = None
    alarms: list[Alarm] = []
    minutes: Annotated[list[Minute], described("Traffic of the last hour, latest minute last.")] = []


class SlotsReply(Reply, frozen=True):
    """All slots that the key may see."""

    slots: list[SlotReply]


class StatsReply(Reply, frozen=True):
    """State of the service and of its log."""

    role: Annotated[
        Literal["owner", "follower"], described("The owner ranks and writes the log. A follower reads it.")
    ]
    epoch: Annotated[
        int, described("How often ownership has changed. The store rejects writes of an older epoch.")
    ] = 0
    sequence: Annotated[int, described("Number of the latest record.")] = 0
    lag: Annotated[
        int | None,
        described(
            "Records of the log that this process has not applied yet: 0 for an owner. null if a follower cannot "
            "read the log, or if the key is limited to some slots."
        ),
    ] = 0
    snapshot: Annotated[
        int | None,
        described("Number of the last record in the latest snapshot. null if the key is limited to some slots."),
    ] = None
    queued: Annotated[
        int | None, described("Commands waiting for the writer. null if the key is limited to some slots.")
    ] = None
    log_bytes: Annotated[int | None, described("Size of the log. null if the key is limited to some slots.")] = (
        None
    )
    started: Annotated[float, described("Seconds since 1970.")] = 0.0


class HealthReply(Reply, frozen=True):
    """Whether the service is alive or ready, and the reason if it is not."""

    ok: bool
    reason: str = ""


class ProblemReply(Reply, frozen=True):
    """A problem document (``application/problem+json``, RFC 9457)."""

    type: Annotated[str, described("Address of an explanation, the same for every problem of this type.")]
    title: Annotated[str, described("The type of problem in a few words.")]
    status: Annotated[int, described("The HTTP status.")]
    detail: Annotated[str, described("What is wrong with this call, and what would be valid.")]
    message: Annotated[str, described("The same as `detail`, where clients of reranking services look.")]
    field: Annotated[str | None, described("Location in the body, for example `$.items[3].features`.")] = None
    retry_after: Annotated[float | None, described("Seconds to wait before a retry.")] = None


class BatchReply(Reply, frozen=True):
    """One line of the reply to a batch: the status of the call, and its reply or problem."""

    status: int
    reply: RankReply | None = None
    event: EventReply | None = None
    problem: ProblemReply | None = None
