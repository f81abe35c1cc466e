"""Names that are specifications: ``rtop1f:order=fixed`` is a learner, ``ct15:m=10,noise=0.25`` a stream.

The text of a value is its registered name, then the fields that differ from their defaults. It reads the same on
the command line, in file names, in manifests and in tests.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def nearest(wrong: str, known: Collection[str]) -> str:
    """Say which known name was probably meant.

    >>> nearest("rtop1", ["ftpl", "rtop1f"])
    "did you mean 'rtop1f'? Known: ftpl, rtop1f"
    """
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    guess = f"did you mean '{close[0]}'? " if close else ""
    return f"{guess}Known: {', '.join(sorted(known))}"


def build(kind: str, registry: Mapping[str, type[T]], text: str, **context: Any) -> T:
    """Make the value that a specification names.

    `context` fills those fields the specification leaves open and the class has: the measure and horizon of an
    experiment need not be repeated for each of its learners.
    """
    name, _, rest = text.partition(":")
    if name not in registry:
        raise ValueError(f"unknown {kind} '{name}': {nearest(name, registry)}")
    cls = registry[name]
    hints = _hints(cls)  # type: ignore[arg-type]  # classes are hashable
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given = {key: value for key, value in context.items() if key in fields}
    seen: set[str] = set()
    for part in filter(None, re.split(r",(?=\w+=)", rest)):  # a comma within a value, such as a path, stays
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{kind} '{text}': '{part}' is not of the form field=value")
        if key not in fields:
            hint = nearest(key, fields) if fields else "it has none"
            raise ValueError(f"{kind} '{name}' has no field '{key}': {hint}")
        if key in seen:
            raise ValueError(f"{kind} '{text}' gives {key} twice")
        seen.add(key)
        read = fields[key].metadata.get("read", lambda v, hint=hints[key]: _read(v, hint))
        try:
            given[key] = read(value)
        except ValueError as error:
            raise ValueError(f"{kind} '{text}', field {key}: {error}") from None
    needed = [f.name for f in fields.values() if _required(f) and f.name not in given]
    if needed:
        raise ValueError(f"{kind} '{text}' needs {', '.join(needed)}, as in '{name}:{needed[0]}=...'")
    return cls(**given)


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def text_of(value: Any) -> str:
    """The specification of a value made from a registry: ``build(kind, registry, text_of(x)) == x``."""
    shown = []
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.default == content and type(field.default) is type(content):
            continue
        shown.append(f"{field.name}={_write(content)}")
    return f"{value.name}:{','.join(shown)}" if shown else str(value.name)


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _write(content: Any) -> str:
    if isinstance(content, tuple):
        return "+".join(map(_write, content))
    if isinstance(content, bool):
        return str(content).lower()
    # 1e+300 without its sign: + joins the members of a tuple
    return repr(content).replace("e+", "e") if isinstance(content, float) else str(content)


def _read(text: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise ValueError(f"'{text}' is not a choice: {nearest(text, get_args(hint))}")
        return text
    if get_origin(hint) is tuple:
        return tuple(_read(part, get_args(hint)[0]) for part in text.split("+"))
    types = get_args(hint) or (hint,)
    if text == "none" and type(None) in types:
        return None
    if bool in types:
        if text not in ("true", "false"):
            raise ValueError(f"'{text}' is neither true nor false")
        return text == "true"
    for number, words in ((int, "a whole number"), (float, "a number")):
        if number in types:
            try:
                value = number(text)
            except ValueError:
                raise ValueError(f"'{text}' is not {words}") from None
            if not math.isfinite(value):
                raise ValueError(f"'{text}' is not finite")
            return value
    return Path(text) if Path in types else text
