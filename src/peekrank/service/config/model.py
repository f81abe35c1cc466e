"""What a service is: one TOML file, read whole and checked whole before anything starts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from peekrank._util.text import excerpt
from peekrank._util.validate import whole
from peekrank.engine.border import problem_shape
from peekrank.learners import learner as learner_named
from peekrank.measures import measure as measure_named
from peekrank.service.api.messages import MAX_BODY, MAX_FEATURES, MAX_ID, MAX_ITEMS, MAX_LINES, MAX_OPEN
from peekrank.service.config.file import Document, Place, read_document
from peekrank.spec import nearest, text_of
from peekrank.streams.forms import Form, form
from peekrank.types import Learner, Measure

_form = lru_cache(maxsize=256)(form)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "day": 86400, "days": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_SLOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")
_LONGEST_WAIT = 366 * 86400.0

T = TypeVar("T")
Synchronous = Literal["full", "normal"]
Update = Literal["immediate", "on_close"]
Aggregate = Literal["first", "last", "max", "mean"]
Source = Literal["request", "registry"]
NewItems = Literal["add", "reject"]
Mode = Literal["live", "shadow"]
Role = Literal["app", "reader", "admin"]


@dataclass(frozen=True)
class ServerConfig:
    """Where the service listens."""

    host: Annotated[str, "Address to listen on. Anything but this machine needs keys."] = "127.0.0.1"
    port: Annotated[int, "Port to listen on."] = 8000


@dataclass(frozen=True)
class KeyConfig:
    """A key that may call: never the key itself."""

    name: Annotated[str, "Name of the key, which begins the key itself: `peek_NAME_...`."] = ""
    role: Annotated[Role, "`app` ranks and answers, `reader` looks, `admin` may do all."] = "app"
    hash: Annotated[str, "What `peekrank serve --new-key NAME` printed: `sha256:` and 64 digits."] = ""
    slots: Annotated[tuple[str, ...], "Slots that the key is for; none: all."] = ()


@dataclass(frozen=True)
class StoreConfig:
    """Where the log is kept."""

    path: Annotated[str, "The SQLite file; a relative path begins at the folder of this file."] = "peekrank.db"
    url: Annotated[str, "`postgresql://...` instead of a file, for more than one machine."] = ""
    synchronous: Annotated[
        Synchronous, "`full`: what was acknowledged survives a power cut. `normal`: the end of the process only."
    ] = "full"
    snapshot_every: Annotated[int, "Records between two snapshots: how much a start has to replay."] = 100_000
    retention: Annotated[float, "How long closed events are kept: `90 days`; 0: for ever."] = 0.0


@dataclass(frozen=True)
class LimitsConfig:
    """How much is taken on."""

    max_open_events: Annotated[int, "Events of a slot that are not closed."] = 100_000
    max_items: Annotated[int, "Items that a slot knows."] = 10_000
    max_body_bytes: Annotated[int, "Bytes of a call."] = MAX_BODY
    max_batch_lines: Annotated[int, "Lines of a batch."] = MAX_LINES
    max_queue_length: Annotated[int, "Calls that wait for the writer."] = 10_000


@dataclass(frozen=True)
class SlotConfig:
    """A place in an app where a list is shown."""

    name: Annotated[str, "Its name, which stands in the header: `[slots.NAME]`."] = ""
    learner: Annotated[str, "Specification of the learner: `peekrank list` names them."] = "doubtsort"
    measure: Annotated[str, "What a list is worth: `dcg`, `p@3` ..."] = "dcg"
    k: Annotated[int, "How many items, from the top, people are asked about."] = 1
    max_grade: Annotated[int, "The largest grade of an answer: 1 for yes and no."] = 1
    items: Annotated[tuple[str, ...], "The items, or those to begin with."] = ()
    new_items: Annotated[NewItems, "What happens to an item that is new in a call: `add` it or `reject`."] = "add"
    max_list_length: Annotated[int, "Items of the longest list, for a learner of lists."] = 100
    features: Annotated[int, "Numbers that describe an item; 0: items are known by name."] = 0
    context: Annotated[int, "Numbers of a call's context, put before those of each item."] = 0
    features_from: Annotated[Source, "Features come with each `request`, or from the `registry` of items."] = (
        "request"
    )
    item_effects: Annotated[
        int,
        "Registered items that are remembered beside their features, the first so many: a column for each.",
    ] = 0
    feedback_window: Annotated[float, "How long answers are waited for, from the ranking on: `30 min`."] = 1800.0
    missing_feedback: Annotated[
        int | Literal["missing"],
        'What silence means: nothing (`missing`), or a grade; a grade needs update = "on_close".',
    ] = "missing"
    update: Annotated[Update, "From the first answer at once, or from all when the waiting is over."] = "immediate"
    aggregate: Annotated[Aggregate, 'How several answers to a question combine, with update = "on_close".'] = (
        "last"
    )
    mode: Annotated[
        Mode, "`shadow`: the order that each call brings as its `baseline` is shown, and learned from."
    ] = "live"
    feedback: Annotated[
        str, "What people tell: `grades`, or rules for what they do, as in `click = 1; cascade`."
    ] = "grades"
    seed: Annotated[int, "Which randomness; 0: the service draws it once, and keeps it in the log."] = 0

    @property
    def measure_object(self) -> Measure:
        """The measure."""
        return measure_named(self.measure)

    @property
    def feedback_rules(self) -> Form:
        """What becomes of what people tell."""
        return _form(self.feedback)

    @property
    def learner_object(self) -> Learner:
        """The learner, its open fields filled from the slot."""
        return learner_named(self.learner, measure=self.measure_object, max_grade=self.max_grade)

    @property
    def d(self) -> int:
        """Numbers that a learner sees of an item."""
        return self.item_effects + self.features + self.context if self.features else 0


@dataclass(frozen=True)
class Config:
    """A service."""

    slots: tuple[SlotConfig, ...]
    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    limits: LimitsConfig = LimitsConfig()
    keys: tuple[KeyConfig, ...] = ()

    def slot(self, name: str) -> SlotConfig:
        """The slot of this name."""
        return {slot.name: slot for slot in self.slots}[name]


def read_config(path: str | Path) -> Config:
    """The service that a file describes; a ValueError with line, field and nearest name if it describes none."""
    path = Path(path)
    config = parse_config(read_document(path))
    where = path.parent / config.store.path
    return replace(config, store=replace(config.store, path=str(where)))


def parse_config(document: Document) -> Config:
    r"""The service that a document describes.

    >>> parse_config(Document("[slots.home]\nlearner = 'doubtsort'\nk = 2", "service.toml")).slots[0].k
    2
    >>> parse_config(Document("[slots.home]\nlearner = 'doubtsor'", "service.toml"))
    Traceback (most recent call last):
    ValueError: service.toml, line 2: slots.home.learner = 'doubtsor': unknown learner 'doubtsor': did you mean ...
    """
    document.refuse_unknown((), {"server", "store", "limits", "keys", "slots"})
    slots = document.content.get("slots")
    if not isinstance(slots, dict) or not slots:
        document.refuse(("slots",), "must be a table with a slot at least, as in [slots.home]")
    return Config(
        tuple(_slot(document, name) for name in slots),
        _server(document),
        _store(document),
        _limits(document),
        tuple(_key(document, n) for n in range(len(_list(document, "keys")))),
    )


def _server(document: Document) -> ServerConfig:
    server = _table(document, ("server",), ServerConfig)
    _within(document, ("server", "port"), server.port, 0, 65535)
    return server


def _store(document: Document) -> StoreConfig:
    store = _table(document, ("store",), StoreConfig)
    _within(document, ("store", "snapshot_every"), store.snapshot_every, 100, 10**9)
    if store.url and not store.url.startswith(("postgresql://", "postgres://")):
        document.refuse(("store", "url"), "must begin with postgresql://")
    return store


def _limits(document: Document) -> LimitsConfig:
    limits = _table(document, ("limits",), LimitsConfig)
    highest = {
        "max_open_events": MAX_OPEN,
        "max_items": 10**6,
        "max_body_bytes": MAX_BODY,
        "max_batch_lines": MAX_LINES,
        "max_queue_length": 10**6,
    }
    for name, most in highest.items():
        _within(document, ("limits", name), getattr(limits, name), 1, most)
    return limits


def _key(document: Document, n: int) -> KeyConfig:
    key = _table(document, ("keys", n), KeyConfig)
    if not re.fullmatch(r"[a-z0-9-]{1,40}", key.name):
        document.refuse(("keys", n, "name"), "must be 1 to 40 small letters, digits and hyphens")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", key.hash):
        document.refuse(
            ("keys", n, "hash"), "must be sha256: and 64 digits, as peekrank serve --new-key prints it"
        )
    known = document.content["slots"]
    for slot in key.slots:
        if slot not in known:
            document.refuse(("keys", n, "slots"), f"there is no slot {slot!r}: {nearest(slot, known)}")
    return key


def _slot(document: Document, name: str) -> SlotConfig:
    place: Place = ("slots", name)
    if not _SLOT_NAME.fullmatch(name) or len(name) > MAX_ID:
        document.refuse(place, "a slot's name must be letters, digits and . _ ~ -, a letter or digit first")
    slot = replace(_table(document, place, SlotConfig, left_out={"name"}), name=name)
    bounds = {
        "k": (1, MAX_ITEMS),
        "max_grade": (1, 255),
        "max_list_length": (1, MAX_ITEMS),
        "seed": (0, 2**63 - 1),
    }
    bounds |= {"features": (0, MAX_FEATURES), "context": (0, MAX_FEATURES), "item_effects": (0, MAX_FEATURES)}
    for key, (low, high) in bounds.items():
        _within(document, (*place, key), getattr(slot, key), low, high)
    _check_waiting(document, place, slot)
    _check_feedback(document, place, slot)
    _check_learner(document, place, slot)
    return slot


def _check_waiting(document: Document, place: Place, slot: SlotConfig) -> None:
    if not 0 < slot.feedback_window <= _LONGEST_WAIT:
        document.refuse((*place, "feedback_window"), "must be a time above 0 and up to 366 days")
    if slot.missing_feedback != "missing":
        _within(document, (*place, "missing_feedback"), slot.missing_feedback, 0, slot.max_grade)
        if slot.update == "immediate":
            document.refuse(
                (*place, "missing_feedback"),
                "learning at once would learn from quick answers first: where silence counts as a grade, "
                'update = "on_close"',
            )


def _check_feedback(document: Document, place: Place, slot: SlotConfig) -> None:
    try:
        found = slot.feedback_rules
    except ValueError as error:
        document.refuse((*place, "feedback"), str(error))
    if found.rules and found.max_grade > slot.max_grade:
        document.refuse((*place, "feedback"), f"gives the grade {found.max_grade}; max_grade is {slot.max_grade}")
    if found.curve is not None and found.curve.places < slot.k:
        document.refuse((*place, "feedback"), f"its curve has {found.curve.places} places, and k is {slot.k}")
    if not found.whole and slot.update == "on_close":
        document.refuse(
            (*place, "feedback"), 'a curve corrects one report of a list: update = "immediate", and send it once'
        )


def _check_learner(document: Document, place: Place, slot: SlotConfig) -> None:
    """Refuse what cannot be learned: the learner says why."""
    try:
        measure_object = slot.measure_object
    except ValueError as error:
        document.refuse((*place, "measure"), str(error))
    del measure_object
    try:
        learner = slot.learner_object
    except ValueError as error:
        document.refuse((*place, "learner"), str(error))
    if learner.full_information:
        document.refuse((*place, "learner"), f"{learner.name} needs answers about all items, in every list")
    lists = learner.any_length
    if slot.mode == "shadow" and learner.kernels.adopt is None:
        document.refuse((*place, "mode"), f"{learner.name} learns from lists of its own only; doubtsort can do it")
    if learner.contextual and not slot.features:
        document.refuse((*place, "learner"), f"{learner.name} learns from features: say how many, features = 16")
    if slot.features and not learner.contextual:
        document.refuse((*place, "features"), f"{learner.name} does not use features; take ridge, for instance")
    if slot.context and not slot.features:
        document.refuse((*place, "context"), "a context needs items with features")
    if slot.item_effects and not (slot.features and slot.features_from == "registry"):
        document.refuse(
            (*place, "item_effects"), 'items are remembered beside registered features: features_from = "registry"'
        )
    by_name = learner.kernels.enter is not None
    if not (lists or by_name) and len(slot.items) < 2:
        document.refuse(
            (*place, "items"),
            f"{learner.name} ranks a fixed set of items: name them; doubtsort lets them come and go",
        )
    if len(set(slot.items)) < len(slot.items):
        document.refuse((*place, "items"), "must name each item once")
    for item in slot.items:
        if not item.isprintable() or not 1 <= len(item) <= MAX_ID:
            document.refuse(
                (*place, "items"), f"{excerpt(item)!r} is no name of an item: 1 to {MAX_ID} characters"
            )
    m = slot.max_list_length if lists else max(slot.k, len(slot.items)) if by_name else len(slot.items)
    try:
        problem_shape(learner, m=m, k=slot.k, d=slot.d)
    except ValueError as error:
        document.refuse((*place, "k"), str(error))


def _list(document: Document, name: str) -> list[Any]:
    found = document.content.get(name, [])
    if not (isinstance(found, list) and all(isinstance(entry, dict) for entry in found)):
        document.refuse((name,), f"must be tables, as in [[{name}]]")
    return found


def _within(document: Document, place: Place, value: Any, low: int, high: int) -> None:
    try:
        whole(str(place[-1]), value, low, high)
    except ValueError:
        document.refuse(place, f"must be a whole number from {low} to {high}")


def _table(document: Document, place: Place, cls: type[T], left_out: set[str] | None = None) -> T:
    """A table as a dataclass, each field of its type."""
    table = document.at(place, {})
    if not isinstance(table, dict):
        document.refuse(place, "must be a table")
    known = [name for name in cls.__dataclass_fields__ if name not in (left_out or ())]  # type: ignore[attr-defined]
    if table:
        document.refuse_unknown(place, known)
    hints = get_type_hints(cls)
    return cls(
        **{name: _value(document, (*place, name), table[name], hints[name]) for name in known if name in table}
    )


def _value(document: Document, place: Place, value: Any, hint: Any) -> Any:
    """The value of a field, if it is of its type."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            hint_text = nearest(str(value), get_args(hint))
            document.refuse(place, f"must be {' or '.join(map(repr, get_args(hint)))}; {hint_text}")
    elif hint is float:
        return _seconds(document, place, value)
    elif hint is int:
        if isinstance(value, bool) or not isinstance(value, int):
            document.refuse(place, "must be a whole number")
    elif hint is str:
        if not isinstance(value, str):
            document.refuse(place, "must be a text")
    elif get_origin(hint) is tuple:
        if not (isinstance(value, list) and all(isinstance(part, str) for part in value)):
            document.refuse(place, 'must be a list of texts, as in ["one", "two"]')
        return tuple(value)
    elif isinstance(value, bool) or not (isinstance(value, int) or value == "missing"):
        document.refuse(place, "must be 'missing' or a grade")
    return value


def _seconds(document: Document, place: Place, value: Any) -> float:
    """A time: seconds, or a text such as 30 min."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found or found[2] not in _SECONDS:
        document.refuse(place, "must be a time, as in '30 s', '30 min', '24 h' or '7 days'")
    return float(found[1]) * _SECONDS[found[2]]


def specification(slot: SlotConfig) -> str:
    """The learner of a slot, all of its fields told."""
    return text_of(slot.learner_object)
