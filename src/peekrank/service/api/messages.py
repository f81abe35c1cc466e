"""What a service is asked and what it replies: one Struct for every body, with its fields and their limits.

The same Structs are decoded from JSON and from msgpack, checked in the same pass, handed to `Service`, and turned
into the schemas of ``/openapi.json``. A field that is not listed here is refused: a misspelt name must not be
ignored in silence.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

# Limits of any service; a configuration can lower the last three for a slot, and raise none of them.
MAX_BODY = 4 * 2**20  # bytes
MAX_LINES = 1000  # of a batch
MAX_ID = 128  # characters
MAX_ITEMS = 1000  # of a list, or of a call that registers items
MAX_FEATURES = 1024  # numbers for an item
MAX_OPEN = 1_000_000  # events of a slot that wait for an answer
_LARGEST = 1e30  # of a feature: finite as float32, also after it was multiplied by a weight

# "$" alone also matches before a line break at the end of a text.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:~-]*$(?!\n)"
_TEXT = r"^[^\u0000-\u001f\u007f]+$(?!\n)"

EventId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=_NAME,
        description="Name of a decision, chosen by the caller: letters, digits and . _ : ~ -, a letter or digit "
        "first. It makes calls safe to repeat; a random UUID is a good one.",
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
        description="Name of an item, as the caller has it: any text without control characters.",
    ),
]
Grade = Annotated[
    float,
    Meta(
        ge=0,
        le=255,
        description="What a person said of an item: a whole number from 0 to the learner's largest grade.",
    ),
]
Signal = Annotated[
    float, Meta(ge=0, le=1e9, description="How often, or for how many seconds, something was done with an item.")
]
Features = Annotated[
    Annotated[list[Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]], Meta(min_length=1, max_length=MAX_FEATURES)]
    | Annotated[bytes, Meta(min_length=4, max_length=4 * MAX_FEATURES)],
    Meta(description="Numbers, or the same as little-endian float32: raw in msgpack, base64 in JSON."),
]
EventState = Annotated[
    Literal["open", "shown", "answered", "expired"],
    Meta(
        description="open: ranked, not yet activated; shown: waits for answers; answered: closed with at least "
        "one answer; expired: closed without."
    ),
]


def described(text: str) -> Any:
    """The description of a field, for its schema and the reference."""
    return Meta(description=text)


class Message(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all bodies share: they do not change, and have no fields but those that are listed."""


# Requests


class Item(Message, frozen=True):
    """An item by name, with its features if it has any."""

    id: ItemId
    features: Features | None = None


class RankRequest(Message, frozen=True):
    """A list to rank: ``POST /v1/slots/{slot}/rank``."""

    event_id: Annotated[
        EventId | None, described("Left out, the service makes one; then a retry is another event.")
    ] = None
    items: Annotated[
        Annotated[list[ItemId | Item], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described("What to rank, each once. Left out: all items of the slot that have not retired."),
    ] = None
    context: Annotated[
        Features | None, described("Features of the visitor or the moment; put before those of each item.")
    ] = None
    defer: Annotated[
        bool, described("The list may never be seen: the event is open until it is activated, and then waits.")
    ] = False
    baseline: Annotated[
        Annotated[list[ItemId], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described(
            "The order the caller would show without this service: shown as long as the slot is in shadow mode."
        ),
    ] = None


class FeedbackRequest(Message, frozen=True):
    """What people said of a list: ``PUT /v1/events/{id}/feedback``."""

    grades: Annotated[
        Annotated[dict[ItemId, Grade | None], Meta(max_length=MAX_ITEMS)]
        | Annotated[list[Grade | None], Meta(max_length=MAX_ITEMS)]
        | None,
        described(
            "Grades by item, or in the order of `top_k`. null: was not answered, which is not the same as 0. An "
            "answer to two of five questions is two answers."
        ),
    ] = None
    signals: Annotated[
        Annotated[dict[ItemId, Annotated[dict[str, Signal], Meta(max_length=20)]], Meta(max_length=MAX_ITEMS)]
        | None,
        described(
            "Instead of answers, for a slot with rules for them: what people did, as in "
            '`{"tea": {"click": 1, "dwell": 12.5}}`. {}: nothing.'
        ),
    ] = None
    seen: Annotated[
        Annotated[list[ItemId], Meta(max_length=MAX_ITEMS)] | None,
        described("With signals, if the slot's rules ask for it: which items were looked at."),
    ] = None
    shown: Annotated[
        Annotated[list[ItemId], Meta(min_length=1, max_length=MAX_ITEMS)] | None,
        described(
            "What the app did show, from the top, at least as many items as were asked about; left out: the "
            "ranking. Alarms compare it with what was ranked. It counts with the first answer that tells it."
        ),
    ] = None


class ItemsRequest(Message, frozen=True):
    """Items to register, or whose description to replace: ``PUT /v1/slots/{slot}/items``."""

    items: Annotated[list[ItemId | Item], Meta(min_length=1, max_length=MAX_ITEMS)]


class BatchRank(Message, frozen=True, tag_field="call", tag="rank"):
    """A line of a batch that asks for a ranking."""

    slot: SlotName
    request: RankRequest


class BatchFeedback(Message, frozen=True, tag_field="call", tag="feedback"):
    """A line of a batch that tells answers."""

    event_id: EventId
    request: FeedbackRequest


class BatchActivate(Message, frozen=True, tag_field="call", tag="activate"):
    """A line of a batch that activates a deferred event."""

    event_id: EventId


BatchLine = BatchRank | BatchFeedback | BatchActivate


# Replies


class RankReply(Message, frozen=True):
    """What to show, and whom to ask about."""

    event_id: EventId
    ranking: Annotated[list[ItemId], described("All items, the one to show first comes first.")]
    top_k: Annotated[list[ItemId], described("The first k: answers about these can be learned from.")]
    explored: Annotated[
        bool, described("Whether the list was shown to learn something, not because it seemed best.")
    ]
    sequence: Annotated[int, described("Number of the record in the log: a later decision has a larger one.")]


class EventReply(Message, frozen=True):
    """An event, as it stands: the reply to feedback, to activation, and to a look at it."""

    event_id: EventId
    slot: SlotName
    state: EventState
    ranking: list[ItemId]
    top_k: list[ItemId]
    grades: Annotated[
        dict[ItemId, float | None], described("What is known of those asked about; null: no answer.")
    ]
    learned: Annotated[
        bool, described("Whether the learner has seen the answers: at once or on closing, as configured.")
    ]
    deadline: Annotated[
        float | None, described("When it closes, in seconds since 1970; null before it is activated.")
    ] = None


class ItemReply(Message, frozen=True):
    """An item of a slot, with what is known of it."""

    id: ItemId
    retired: bool = False
    features: Features | None = None
    shown: Annotated[int, described("How often it was among the first k of a list that was shown.")] = 0
    n_feedback: Annotated[int, described("How many answers about it were given in time.")] = 0
    mean: Annotated[float | None, described("Mean grade of these; null if there are none.")] = None
    recent: Annotated[
        float | None,
        described("Mean grade of its latest answers, the last hundred or so: beside `mean`, the trend."),
    ] = None


class ItemsReply(Message, frozen=True):
    """Items of a slot in order of their ids, and where to go on if there are more."""

    items: list[ItemReply]
    next: Annotated[
        str | None, described("Give this as `after` to get the next items; null if these were the last.")
    ] = None


class ChangedReply(Message, frozen=True):
    """What a call changed about the items of a slot."""

    added: int = 0
    changed: Annotated[int, described("Items that were known and have other features now.")] = 0
    retired: int = 0
    sequence: Annotated[int, described("Number of the latest record in the log.")] = 0


class Interval(Message, frozen=True):
    """An estimate with a confidence sequence: its interval holds at all times at once, however often one looks."""

    mean: float
    low: float
    high: float
    n: Annotated[int, described("From how many events.")]


class Member(Message, frozen=True):
    """A learner of a slot: the one that decides, or one that would like to."""

    name: str
    role: Literal["champion", "challenger"]
    value: Annotated[
        Interval | None, described("Value per event minus that of the champion; null: nothing known.")
    ] = None


class Alarm(Message, frozen=True):
    """Something a person should look at."""

    name: str
    since: Annotated[float, described("Seconds since 1970.")]
    cause: Annotated[str, described("What was seen, with its numbers.")]
    action: Annotated[str, described("What to do about it.")]


class Minute(Message, frozen=True):
    """Traffic of a slot in one minute."""

    start: Annotated[float, described("Seconds since 1970.")]
    ranked: int = 0
    answered: int = 0
    explored: int = 0
    value: Annotated[float | None, described("Mean value of the events that closed in it.")] = None


class SlotReply(Message, frozen=True):
    """A slot: what it is, and what has happened in it."""

    name: SlotName
    learner: Annotated[str, described("Specification of the learner.")]
    measure: str
    k: int
    mode: Annotated[Literal["shadow", "live"], described("shadow: the baseline is shown, and learned from.")] = (
        "live"
    )
    items: Annotated[int | None, described("Items that have not retired; null where lists bring their own.")] = (
        None
    )
    sequence: Annotated[int, described("Number of the latest record of the slot in the log.")] = 0
    ranked: Annotated[int, described("Events that there ever were.")] = 0
    answered: Annotated[int, described("Events with at least one answer in time.")] = 0
    expired: Annotated[int, described("Events that closed without an answer.")] = 0
    late: Annotated[int, described("Answers that came after closing: logged, not learned.")] = 0
    explored: Annotated[int, described("Events that were spent on exploration.")] = 0
    open: Annotated[int, described("Events that are not closed.")] = 0
    value: Annotated[Interval | None, described("Value per event, estimated from answers.")] = None
    members: list[Member] = []
    alarms: list[Alarm] = []
    minutes: Annotated[list[Minute], described("Traffic of the last hour, the latest minute last.")] = []


class SlotsReply(Message, frozen=True):
    """All slots of a service that the key may see."""

    slots: list[SlotReply]


class StatsReply(Message, frozen=True):
    """The service as a whole: where its log stands."""

    role: Annotated[Literal["owner", "follower"], described("owner: decides and writes; follower: reads along.")]
    epoch: Annotated[int, described("How often ownership has changed: writes of an older epoch are refused.")] = 0
    sequence: Annotated[int, described("Number of the latest record.")] = 0
    lag: Annotated[int, described("Records that are in the log and not yet in memory.")] = 0
    snapshot: Annotated[int, described("Number of the record that the latest snapshot was made after.")] = 0
    queued: Annotated[int, described("Calls that wait for the writer.")] = 0
    log_bytes: int = 0
    started: Annotated[float, described("Seconds since 1970.")] = 0.0


class HealthReply(Message, frozen=True):
    """Whether the service lives or is ready, and if not, why."""

    ok: bool
    reason: str = ""


class ProblemReply(Struct, frozen=True, omit_defaults=True):
    """What went wrong, as RFC 9457 has it (``application/problem+json``)."""

    type: Annotated[str, described("Address of an explanation; the same for every problem of this kind.")]
    title: Annotated[str, described("The kind of problem in a few words.")]
    status: Annotated[int, described("The HTTP status.")]
    detail: Annotated[str, described("What was wrong in this call, and what would be right.")]
    field: Annotated[str | None, described("Where in the body, as in `$.items[3].features`.")] = None
    retry_after: Annotated[float | None, described("Seconds after which a retry may succeed.")] = None


class BatchReply(Message, frozen=True):
    """A line of the reply to a batch: the status the call would have had by itself, and its reply or problem."""

    status: int
    reply: RankReply | None = None
    event: EventReply | None = None
    problem: ProblemReply | None = None
