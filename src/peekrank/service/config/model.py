"""The configuration of a service. A TOML file describes it, and is validated before the service starts."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from peekrank.engine.validation import problem_shape
from peekrank.learners import learner as learner_named
from peekrank.measures import measure as measure_named
from peekrank.service.api.limits import MAX_BODY, MAX_FEATURES, MAX_ID, MAX_ITEMS, MAX_LINES, MAX_OPEN
from peekrank.service.config.address import check_address
from peekrank.service.config.compare import CompareConfig, check_compare, check_no_learner, parse_compare
from peekrank.service.config.file import Document, FieldPath, read_document
from peekrank.service.config.holdout import NO_HOLDOUT, HoldoutConfig, check_holdout, parse_holdout
from peekrank.service.config.rerank import RerankConfig, check_rerank
from peekrank.service.config.rules import NO_RULES, RulesConfig, check_items, check_slot_rules, parse_slot_rules
from peekrank.spec import format_spec, suggest
from peekrank.streams.feedback_rules import FeedbackRules, parse_rules
from peekrank.types import Learner, Measure, RealAnswers

_SECONDS = {"s": 1, "min": 60, "h": 3600, "day": 86400, "days": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_SLOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")
_MAX_WINDOW = 366 * 86400.0
NO_LEARNER = "uniform"  # of a slot that compares; it never ranks

T = TypeVar("T")
Synchronous = Literal["full", "normal"]
Update = Literal["immediate", "on_close"]
Aggregate = Literal["first", "last", "max", "mean"]
Source = Literal["request", "registry"]
NewItems = Literal["add", "reject"]
RetiredItems = Literal["skip", "reject"]
Mode = Literal["live", "shadow"]
Role = Literal["app", "reader", "admin"]


@dataclass(frozen=True)
class ServerConfig:
    """The address of the service."""

    host: Annotated[str, "Address to listen on. Any address but this machine's needs keys."] = "127.0.0.1"
    port: Annotated[int, "Port to listen on."] = 8000


@dataclass(frozen=True)
class KeyConfig:
    """A key: its hash, never the key itself."""

    name: Annotated[str, "Name of the key. The key itself starts with it: `peek_NAME_...`."] = ""
    role: Annotated[Role, "`app` may rank and give feedback, `reader` may read, `admin` may do everything."] = (
        "app"
    )
    hash: Annotated[str, "Hash that `peekrank serve --new-key NAME` printed: `sha256:` and 64 digits."] = ""
    slots: Annotated[tuple[str, ...], "Slots that the key is valid for. Empty means all."] = ()


@dataclass(frozen=True)
class StoreConfig:
    """The log."""

    path: Annotated[str, "SQLite file, relative to the folder of this file."] = "peekrank.db"
    url: Annotated[str, "`postgresql://...` instead of a file, to share the log between machines."] = ""
    synchronous: Annotated[
        Synchronous, "With `full`, acknowledged calls survive a power cut; with `normal`, only a crash."
    ] = "full"
    snapshot_every: Annotated[int, "Records between two snapshots. A start replays at most so many."] = 100_000
    retention: Annotated[float, "How long closed events are kept, for example `90 days`. 0 means forever."] = 0.0


@dataclass(frozen=True)
class LimitsConfig:
    """Limits of the service."""

    max_open_events: Annotated[int, "Events of a slot that are not closed yet."] = 100_000
    max_items: Annotated[int, "Items of a slot."] = 10_000
    max_keys: Annotated[int, "Keys of a slot. Further ones count as no key."] = 100_000
    max_body_bytes: Annotated[int, "Size of a request body in bytes."] = MAX_BODY
    max_batch_lines: Annotated[int, "Lines of a batch."] = MAX_LINES
    max_queue_length: Annotated[int, "Commands waiting for the writer."] = 10_000


@dataclass(frozen=True)
class SlotConfig:
    """A list in an app, such as the one on its home screen."""

    name: Annotated[str, "Name of the slot, from the header `[slots.NAME]`."] = ""
    learner: Annotated[str, "Specification of the learner. `peekrank list` shows all learners."] = "doubtsort"
    measure: Annotated[str, "Measure to optimise, for example `dcg` or `p@3`."] = "dcg"
    k: Annotated[int, "Number of items, from the top, with feedback."] = 1
    max_grade: Annotated[
        int, "Largest grade. 1 means yes or no. The range of `mixed` is that of its `low` and `high`."
    ] = 1
    items: Annotated[tuple[str, ...], "Items, or initial items if they may change."] = ()
    new_items: Annotated[NewItems, "What to do with a new item in a call: `add` or `reject` it."] = "add"
    retired_items: Annotated[
        RetiredItems,
        "What to do with a retired item in a call: `skip` it and say so in the reply, or `reject` it.",
    ] = "skip"
    max_list_length: Annotated[int, "Largest number of items of a list, for learners with features."] = 100
    features: Annotated[int, "Number of features of an item. 0 means that the learner knows items by name."] = 0
    context: Annotated[int, "Number of features of a call's context, which precede those of each item."] = 0
    features_from: Annotated[Source, "Features come with each `request`, or from the `registry` of items."] = (
        "request"
    )
    item_effects: Annotated[
        int, "Number of registered items, from the first, that get an effect of their own beside their features."
    ] = 0
    feedback_window: Annotated[
        float, "How long the service waits for feedback after the ranking, for example `30 min`."
    ] = 1800.0
    missing_feedback: Annotated[
        int | Literal["missing"],
        'Meaning of missing feedback: `missing` ignores it, a grade counts as such and needs update = "on_close".',
    ] = "missing"
    update: Annotated[
        Update, "When to learn: `immediate` from the first feedback, or `on_close` from all feedback on the event."
    ] = "immediate"
    aggregate: Annotated[Aggregate, 'How to aggregate repeated feedback, with update = "on_close".'] = "last"
    mode: Annotated[
        Mode, "With `shadow`, the slot returns the caller's `baseline`, and learns from its feedback."
    ] = "live"
    feedback: Annotated[
        str, "Feedback that the app sends: `grades`, or rules for signals such as `click = 1; cascade`."
    ] = "grades"
    seed: Annotated[int, "Random seed. 0 means that the service draws one, and stores it in the log."] = 0
    rules: Annotated[RulesConfig, "Limits on the lists: a table of its own, `[slots.NAME.rules]`."] = NO_RULES
    compare: Annotated[
        CompareConfig | None, "Compare two rankers, without a learner: a table of its own, `[slots.NAME.compare]`."
    ] = None
    holdout: Annotated[
        HoldoutConfig,
        "Share of the lists, such as `0.05`, that show the app's own order: the call's `baseline`, or else its "
        "items by score or as listed. `{ share = 0.05, order = [...] }` sets the order here. With "
        '`{ share = 0.1, mode = "union" }`, these lists mix items from the first k of both orders.',
    ] = NO_HOLDOUT
    alpha: Annotated[
        float,
        "Error probability of the verdict of a holdout or a comparison. Divide it among slots.",
    ] = 0.05
    sticky: Annotated[
        float,
        "How long the same `visitor` gets the order of the first visit, for example `1 day`. 0 means never.",
    ] = 0.0
    max_visitors: Annotated[int, "Visitors whose order is remembered. Beyond it, the earliest gets a new one."] = (
        10_000
    )

    @cached_property
    def measure_object(self) -> Measure:
        """The measure."""
        return measure_named(self.measure)

    @cached_property
    def feedback_rules(self) -> FeedbackRules:
        """The rules that turn feedback into grades."""
        return parse_rules(self.feedback)

    @property
    def learner_object(self) -> Learner:
        """The learner, with the measure and the largest grade of the slot."""
        return learner_named(self.learner, measure=self.measure_object, max_grade=self.max_grade)

    @cached_property
    def has_real_grades(self) -> bool:
        """Whether grades may be any numbers of their range. If not, they must be whole."""
        return isinstance(self.learner_object, RealAnswers)

    @cached_property
    def grade_range(self) -> tuple[float, float]:
        """The least and the largest grade."""
        learner = self.learner_object
        return learner.answer_range if isinstance(learner, RealAnswers) else (0.0, float(self.max_grade))

    @property
    def missing_grade(self) -> float:
        """The grade that missing feedback counts as, or NaN."""
        return math.nan if self.missing_feedback == "missing" else float(self.missing_feedback)

    @property
    def specification(self) -> str:
        """The learner with all of its parameters."""
        return format_spec(self.learner_object)

    @property
    def d(self) -> int:
        """Number of features that the learner sees."""
        return self.item_effects + self.features + self.context if self.features else 0


@dataclass(frozen=True)
class Config:
    """A service."""

    slots: tuple[SlotConfig, ...]
    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    limits: LimitsConfig = LimitsConfig()
    keys: tuple[KeyConfig, ...] = ()
    reranks: Mapping[str, RerankConfig] = field(default_factory=dict)  # by slot; not part of the log

    def slot(self, name: str) -> SlotConfig:
        """Return the slot of this name."""
        return {slot.name: slot for slot in self.slots}[name]


def read_config(path: str | Path) -> Config:
    """Read a configuration. Raises ValueError with the line, the field and the closest valid name."""
    path = Path(path)
    config = parse_config(read_document(path))
    log = path.parent / config.store.path
    return replace(config, store=replace(config.store, path=str(log)))


def parse_config(document: Document) -> Config:
    r"""Parse and validate a configuration.

    >>> parse_config(Document("[slots.home]\nlearner = 'doubtsort'\nk = 2", "service.toml")).slots[0].k
    2
    >>> parse_config(Document("[slots.home]\nlearner = 'doubtsor'", "service.toml"))
    Traceback (most recent call last):
    ValueError: service.toml, line 2: slots.home.learner = 'doubtsor': unknown learner 'doubtsor': did you mean ...
    """
    document.check_names((), {"server", "store", "limits", "keys", "slots"})
    slots = document.content.get("slots")
    if not isinstance(slots, dict) or not slots:
        document.fail(("slots",), "must be a table with at least one slot, for example [slots.home]")
    made = tuple(_slot(document, name) for name in slots)
    return Config(
        made,
        _server(document),
        _store(document),
        _limits(document),
        tuple(_key(document, n) for n in range(_n_keys(document))),
        _reranks(document, made),
    )


def _reranks(document: Document, slots: tuple[SlotConfig, ...]) -> dict[str, RerankConfig]:
    reranks: dict[str, RerankConfig] = {}
    for slot in slots:
        path: FieldPath = ("slots", slot.name)
        if document.get((*path, "rerank")) is not None:
            reranks[slot.name] = _table(document, (*path, "rerank"), RerankConfig)
            check_rerank(document, path, slot, reranks[slot.name])
            if sum(one.default for one in reranks.values()) > 1:
                document.fail((*path, "rerank", "default"), "another slot is the default already")
    return reranks


def _server(document: Document) -> ServerConfig:
    server = _table(document, ("server",), ServerConfig)
    _check_ranges(document, ("server",), server, {"port": (0, 65535)})
    return server


def _store(document: Document) -> StoreConfig:
    store = _table(document, ("store",), StoreConfig)
    _check_ranges(document, ("store",), store, {"snapshot_every": (100, 10**9)})
    if store.url:
        try:
            check_address(store.url)
        except ValueError as error:
            document.fail(("store", "url"), str(error))
    return store


def _limits(document: Document) -> LimitsConfig:
    limits = _table(document, ("limits",), LimitsConfig)
    maxima = {"max_open_events": MAX_OPEN, "max_items": 10**6, "max_keys": 10**6, "max_body_bytes": MAX_BODY}
    maxima |= {"max_batch_lines": MAX_LINES, "max_queue_length": 10**6}
    _check_ranges(document, ("limits",), limits, {name: (1, limit) for name, limit in maxima.items()})
    return limits


def _n_keys(document: Document) -> int:
    keys = document.content.get("keys", [])
    if not (isinstance(keys, list) and all(isinstance(key, dict) for key in keys)):
        document.fail(("keys",), "must be a list of tables, for example [[keys]]")
    return len(keys)


def _key(document: Document, n: int) -> KeyConfig:
    key = _table(document, ("keys", n), KeyConfig)
    if not re.fullmatch(r"[a-z0-9-]{1,40}", key.name):
        document.fail(("keys", n, "name"), "must be 1 to 40 lower-case letters, digits and hyphens")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", key.hash):
        document.fail(("keys", n, "hash"), "must be sha256: and 64 digits, from peekrank serve --new-key")
    known = document.content["slots"]
    for slot in key.slots:
        if slot not in known:
            document.fail(("keys", n, "slots"), f"unknown slot {slot!r}: {suggest(slot, known)}")
    return key


def _slot(document: Document, name: str) -> SlotConfig:
    path: FieldPath = ("slots", name)
    if not _SLOT_NAME.fullmatch(name) or len(name) > MAX_ID:
        document.fail(path, "a slot's name must be letters, digits and . _ ~ -, starting with a letter or digit")
    slot = replace(_table(document, path, SlotConfig, omit={"name"}, tables={"rerank"}), name=name)
    ranges = {
        "k": (1, MAX_ITEMS),
        "max_grade": (1, 255),
        "max_list_length": (1, MAX_ITEMS),
        "seed": (0, 2**63 - 1),
    }
    ranges |= {"max_visitors": (1, 10**6)}
    ranges |= {"features": (0, MAX_FEATURES), "context": (0, MAX_FEATURES), "item_effects": (0, MAX_FEATURES)}
    _check_ranges(document, path, slot, ranges)
    if not 0 < slot.alpha < 1:
        document.fail((*path, "alpha"), "must be a probability between 0 and 1, for example 0.05")
    if slot.compare is not None:
        check_no_learner(document, path)
        slot = replace(slot, learner=NO_LEARNER, update="on_close")
    _check_learner(document, path, slot)
    check_slot_rules(document, (*path, "rules"), slot.rules, slot.learner_object, slot.k)
    if slot.holdout.share:
        learner, (_, high), shadow = slot.learner_object, slot.grade_range, slot.mode == "shadow"
        check_holdout(document, (*path, "holdout"), slot.holdout, slot.rules, learner, high, shadow=shadow)
    _check_window(document, path, slot)
    _check_feedback(document, path, slot)
    if slot.compare is not None:
        check_compare(document, path, slot, slot.compare)
    return slot


def _check_window(document: Document, path: FieldPath, slot: SlotConfig) -> None:
    if not 0 < slot.feedback_window <= _MAX_WINDOW:
        document.fail((*path, "feedback_window"), "must be a time above 0 and up to 366 days")
    if slot.sticky > _MAX_WINDOW:
        document.fail((*path, "sticky"), "must be a time of up to 366 days")
    if slot.sticky and slot.learner_object.kernels.off_policy is None:
        name = slot.learner_object.name
        document.fail((*path, "sticky"), f"{name} cannot learn from lists that it showed before; use doubtsort")
    if slot.missing_feedback != "missing":
        low, high = slot.grade_range
        _check_ranges(document, path, slot, {"missing_feedback": (math.ceil(low), math.floor(high))})
        if slot.update == "immediate":
            document.fail(
                (*path, "missing_feedback"),
                "immediate updates would learn from fast feedback first. To count missing feedback as a grade, "
                'set update = "on_close"',
            )


def _check_feedback(document: Document, path: FieldPath, slot: SlotConfig) -> None:
    try:
        rules = slot.feedback_rules
    except ValueError as error:
        document.fail((*path, "feedback"), str(error))
    if not rules.whole and slot.compare is not None:
        document.fail((*path, "feedback"), "a curve is for learners: set compare.examination, and send grades")
    low, high = slot.grade_range
    if rules.rules and not low <= 0 <= rules.max_grade <= high:
        limit = (
            f"grades are from {low:g} to {high:g}" if slot.has_real_grades else f"max_grade is {slot.max_grade}"
        )
        document.fail((*path, "feedback"), f"gives the grade {rules.max_grade if low <= 0 else 0}, but {limit}")
    if rules.curve is not None and rules.curve.positions < slot.k:
        document.fail((*path, "feedback"), f"the curve has {rules.curve.positions} positions, but k is {slot.k}")
    if not rules.whole and slot.update == "on_close":
        document.fail(
            (*path, "feedback"), 'a curve corrects one report per list: set update = "immediate", and report once'
        )


def _check_learner(document: Document, path: FieldPath, slot: SlotConfig) -> None:
    """Check that the learner can learn this slot. The learner explains why not."""
    try:
        slot.measure_object  # noqa: B018 - raises ValueError
    except ValueError as error:
        document.fail((*path, "measure"), str(error))
    try:
        learner = slot.learner_object
    except ValueError as error:
        document.fail((*path, "learner"), str(error))
    if learner.full_information:
        document.fail((*path, "learner"), f"{learner.name} needs feedback on all items of every list")
    lists = learner.variable_length
    if slot.mode == "shadow" and learner.kernels.off_policy is None:
        document.fail((*path, "mode"), f"{learner.name} cannot learn from other lists than its own; use doubtsort")
    if learner.contextual and not slot.features:
        document.fail((*path, "learner"), f"{learner.name} needs features: set their number, features = 16")
    if slot.has_real_grades and slot.max_grade != 1:
        example = f"{learner.name}:high={slot.max_grade}"
        document.fail((*path, "max_grade"), f"{learner.name} has a range of its own: learner = '{example}'")
    if slot.features and not learner.contextual:
        document.fail((*path, "features"), f"{learner.name} does not use features in a slot; use ridge")
    if slot.context and not slot.features:
        document.fail((*path, "context"), "a context needs items with features")
    if slot.item_effects and not (slot.features and slot.features_from == "registry"):
        document.fail((*path, "item_effects"), 'item effects need registered features: features_from = "registry"')
    by_name = learner.kernels.set_items is not None
    if not (lists or by_name) and len(slot.items) < 2:
        document.fail(
            (*path, "items"),
            f"{learner.name} ranks a fixed set of items: list them. With doubtsort, items may change",
        )
    check_items(document, (*path, "items"), slot.items)
    m = slot.max_list_length if lists else max(slot.k, len(slot.items)) if by_name else len(slot.items)
    try:
        problem_shape(learner, m=m, k=slot.k, d=slot.d)
    except ValueError as error:
        document.fail((*path, "k"), str(error))


def _check_ranges(document: Document, path: FieldPath, table: Any, ranges: dict[str, tuple[int, int]]) -> None:
    for name, (low, high) in ranges.items():
        if not low <= getattr(table, name) <= high:
            document.fail((*path, name), f"must be a whole number from {low} to {high}")


def _table(
    document: Document, path: FieldPath, cls: type[T], omit: Collection[str] = (), tables: Collection[str] = ()
) -> T:
    """Convert a table to a dataclass, and check the type of each field. It may have some tables of its own."""
    table = document.get(path, {})
    if not isinstance(table, dict):
        document.fail(path, "must be a table")
    known = [name for name in cls.__dataclass_fields__ if name not in omit]  # type: ignore[attr-defined]
    if table:
        document.check_names(path, [*known, *tables])
    hints = get_type_hints(cls)
    return cls(
        **{name: _value(document, (*path, name), table[name], hints[name]) for name in known if name in table}
    )


def _value(document: Document, path: FieldPath, value: Any, hint: Any) -> Any:
    """Check the type of a field, and return its value."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            suggestion = suggest(str(value), get_args(hint))
            document.fail(path, f"must be {' or '.join(map(repr, get_args(hint)))}; {suggestion}")
    elif hint is RulesConfig:
        return parse_slot_rules(document, path)
    elif hint == CompareConfig | None:
        return parse_compare(document, path)
    elif hint is HoldoutConfig:
        return parse_holdout(document, path)
    elif hint is float:
        return _parse_seconds(document, path, value)
    elif hint is int:
        if isinstance(value, bool) or not isinstance(value, int):
            document.fail(path, "must be a whole number")
    elif hint is bool:
        if not isinstance(value, bool):
            document.fail(path, "must be true or false")
    elif hint is str:
        if not isinstance(value, str):
            document.fail(path, "must be a text")
    elif get_origin(hint) is tuple:
        if not (isinstance(value, list) and all(isinstance(part, str) for part in value)):
            document.fail(path, 'must be a list of texts, for example ["one", "two"]')
        return tuple(value)
    elif isinstance(value, bool) or not (isinstance(value, int) or value == "missing"):
        document.fail(path, "must be 'missing' or a grade")
    return value


def _parse_seconds(document: Document, path: FieldPath, value: Any) -> float:
    """Parse a duration: seconds, or a text such as 30 min."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match or match[2] not in _SECONDS:
        document.fail(path, "must be a time, for example '30 s', '30 min', '24 h' or '7 days'")
    return float(match[1]) * _SECONDS[match[2]]
