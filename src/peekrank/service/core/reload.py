"""Changes of the configuration while a service runs: which are possible, and the command that makes them.

The log has the configuration of each slot, as a record between those of the calls before and after the change. So
replay and audit compute the same state. What the log does not have (keys, limits, retention) decides whether the
service takes a call, but never about a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from peekrank._util.text import excerpt
from peekrank.service.api import problems
from peekrank.service.config import Config, SlotConfig
from peekrank.service.core.agents import identity

if TYPE_CHECKING:
    from peekrank.service.core.slot_manager import SlotManager

_OPEN = "the service opens its address and its log once"
_NEW_LEARNER = "the learner would start from scratch"
_STORE = frozenset({"store.snapshot_every", "store.retention"})


class Change(NamedTuple):
    """A field whose value changes, as a line of text, and why it needs a restart, if it does."""

    field: str
    text: str
    obstacle: str = ""


def changes(before: Config, after: Config) -> list[Change]:
    """Compare two configurations.

    >>> one, two = SlotConfig("home", feedback_window=60.0), SlotConfig("home", feedback_window=90.0)
    >>> [change.text for change in changes(Config((one,)), Config((two,)))]
    ['slots.home.feedback_window: 60.0 -> 90.0']
    """
    found = [Change(field, text, _OPEN) for field, text in _differences("server", before.server, after.server)]
    for field, text in _differences("store", before.store, after.store):
        found.append(Change(field, text, "" if field in _STORE else _OPEN))
    found += [Change(*one) for one in _differences("limits", before.limits, after.limits)]
    found += _changes_of_keys(before, after)
    old, new = ({slot.name: slot for slot in config.slots} for config in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        found += _changes_of_slot(name, old.get(name), new.get(name))
        if before.reranks.get(name) != after.reranks.get(name):
            field = f"slots.{name}.rerank"
            found.append(Change(field, f"{field}: changed", "the service connects to the upstream once"))
    return found


def _changes_of_keys(before: Config, after: Config) -> Iterator[Change]:
    """Compare keys by name, without showing hashes."""
    old, new = ({key.name: key for key in config.keys} for config in (before, after))
    why = "" if bool(old) == bool(new) else "a service without keys checks host names instead"
    for name in [*old, *(name for name in new if name not in old)]:
        if old.get(name) != new.get(name):
            what = "removed" if name not in new else "added" if name not in old else "changed"
            yield Change(f"keys.{name}", f"keys.{name}: {what}", why)


def _changes_of_slot(name: str, before: SlotConfig | None, after: SlotConfig | None) -> Iterator[Change]:
    field = f"slots.{name}"
    if before is None or after is None:
        what = "added" if before is None else "removed"
        yield Change(field, f"{field}: {what}", "the service opens the log of each slot once")
        return
    blamed = _fields_of_learner(before, after)
    for one, text in _differences(field, before, after):
        yield Change(one, text, _NEW_LEARNER if one.split(".")[2] in blamed else "")


def _fields_of_learner(before: SlotConfig, after: SlotConfig) -> set[str]:
    """Return the fields because of which the learner would start from scratch."""
    if identity(before) == identity(after):
        return set()
    changed = {one.name for one in fields(before) if getattr(before, one.name) != getattr(after, one.name)}
    return {name for name in changed if _is_new(before, name, getattr(after, name))} or changed


def _is_new(before: SlotConfig, name: str, value: Any) -> bool:
    try:
        return identity(replace(before, **{name: value})) != identity(before)
    except ValueError:  # not valid without the other changes
        return True


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ, and a line about each. Addresses of logs may hold passwords."""
    for field in fields(before):
        name, old, new = f"{path}.{field.name}", getattr(before, field.name), getattr(after, field.name)
        if is_dataclass(old) and type(old) is type(new):
            yield from _differences(name, old, new)
        elif old != new:
            values = "changed" if name == "store.url" else f"{excerpt(repr(old))} -> {excerpt(repr(new))}"
            yield name, f"{name}: {values}"


def check(found: list[Change]) -> None:
    """Raise a `Problem` that names the fields which need a restart."""
    if obstacles := [change for change in found if change.obstacle]:
        raise problems.needs_restart([(change.field, change.obstacle) for change in obstacles])


class Reload(NamedTuple):
    """Change the configuration of a running service."""

    config: Config

    def run(self, manager: SlotManager) -> list[str]:
        """Log the configuration of each slot that changes. Returns a line for each field."""
        return manager.reload(self.config)
