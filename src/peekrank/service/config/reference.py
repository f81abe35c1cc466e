"""The example configuration, and the reference of all fields."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from peekrank.service.config import KeyConfig, LimitsConfig, RerankConfig, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.config.compare import CompareConfig
from peekrank.service.config.holdout import HoldoutConfig
from peekrank.service.config.rules import RulesConfig

TABLES: dict[str, type[Any]] = {
    "[slots.NAME]": SlotConfig,
    "[slots.NAME.rules]": RulesConfig,
    "[slots.NAME.compare]": CompareConfig,
    "[slots.NAME.rerank]": RerankConfig,
    "[store]": StoreConfig,
    "[server]": ServerConfig,
    "[[keys]]": KeyConfig,
    "[limits]": LimitsConfig,
}


def example() -> str:
    """Return the commented configuration that ``peekrank serve --init`` writes."""
    return (Path(__file__).parent / "example.toml").read_text(encoding="utf-8")


def reference() -> str:
    """Describe all tables and fields of a configuration in Markdown.

    >>> reference().splitlines()[4]
    '| `learner` | Specification of the learner. `peekrank list` shows all learners. | `"doubtsort"` |'
    """
    return "\n\n".join(_section(name, cls) for name, cls in TABLES.items())


def _section(name: str, cls: type[Any]) -> str:
    hints = get_type_hints(cls, include_extras=True)
    rows = [
        f"| `{one.name}` | {get_args(hints[one.name])[1]} | {_default(one.default)} |"
        for one in fields(cls)
        if (name, one.name) != ("[slots.NAME]", "name")
    ]
    return "\n".join([f"### `{name}`", "", "| field | meaning | default |", "|---|---|---|", *rows])


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{json.dumps(value)}`"
    if value is None or isinstance(value, RulesConfig | HoldoutConfig):
        return "none"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:_}`"
