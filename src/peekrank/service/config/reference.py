"""The configuration for readers: a file to begin with, and a table of all fields."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from peekrank.service.config import KeyConfig, LimitsConfig, ServerConfig, SlotConfig, StoreConfig

TABLES: dict[str, type[Any]] = {
    "[slots.NAME]": SlotConfig,
    "[store]": StoreConfig,
    "[server]": ServerConfig,
    "[[keys]]": KeyConfig,
    "[limits]": LimitsConfig,
}


def example() -> str:
    """A file to begin with, for ``peekrank serve --init``."""
    return (Path(__file__).parent / "example.toml").read_text(encoding="utf-8")


def reference() -> str:
    """All tables of a configuration with their fields, as Markdown.

    >>> reference().splitlines()[4]
    '| `learner` | Specification of the learner: `peekrank list` names them. | `"doubtsort"` |'
    """
    return "\n\n".join(_section(name, cls) for name, cls in TABLES.items())


def _section(name: str, cls: type[Any]) -> str:
    hints = get_type_hints(cls, include_extras=True)
    rows = [
        f"| `{one.name}` | {get_args(hints[one.name])[1]} | {_shown(one.default)} |"
        for one in fields(cls)
        if (name, one.name) != ("[slots.NAME]", "name")
    ]
    return "\n".join([f"### `{name}`", "", "| field | what it means | default |", "|---|---|---|", *rows])


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return "`[]`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default:_}`"
