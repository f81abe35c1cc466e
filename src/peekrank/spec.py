"""Specifications: texts such as ``rtop1f:order=fixed`` (a learner) or ``ct15:m=10,noise=0.25`` (a stream).

A specification is a registered name, followed by the fields that differ from their defaults. The command line,
file names, manifests and tests all use it. A nested value is written as its own specification,
``blockftrl:measure=rbp:p=0.95,horizon=1000``, in brackets if it contains commas:
``blockftrl:measure=[mine:a=1,b=2],horizon=1000``. Semicolons separate several values in one field, as in
``champion:measure=dcg,members=[doubtsort;marginftrl]``; these values take missing fields from the outer ones.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from peekrank._util.text import excerpt

T = TypeVar("T")
_MAX_NAMES = 40  # in an error
_LONG = 300  # characters of a specification in an error
_NEXT_FIELD = re.compile(r",(?=\w+=)")
_BRACKETS = re.compile(r"\A\[(.*)\]\Z", re.DOTALL)


def suggest(name: str, known: Collection[str]) -> str:
    """Return a hint with the closest known name, for an error message.

    >>> suggest("rtop1", ["ftpl", "rtop1f"])
    "did you mean 'rtop1f'? Known: ftpl, rtop1f"
    >>> suggest("x", ["ftpl", "rtop1f"])
    'known: ftpl, rtop1f'
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"did you mean '{excerpt(close[0])}'? Known" if close else "known"
    names = sorted(known)
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return f"{guess}: {', '.join(map(excerpt, names[:_MAX_NAMES]))}{more}"


def parse(kind: str, registry: Mapping[str, type[T]], text: str, **context: Any) -> T:
    """Make the value that a specification describes.

    `context` fills fields that the class has and the specification leaves out. So the learners of an experiment
    need not repeat its measure and horizon.
    """
    name, _, rest = text.partition(":")
    if name not in registry:
        raise ValueError(f"unknown {kind} '{excerpt(name)}': {suggest(name[:_LONG], registry)}")
    cls = registry[name]
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {key: value for key, value in context.items() if key in fields}
    seen: set[str] = set()
    members: dict[str, str] = {}
    for part in _parts(rest):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{kind} '{excerpt(text, _LONG)}': '{excerpt(part)}' is not of the form field=value")
        if key not in fields:
            hint = suggest(key, fields) if fields else "it has none"
            raise ValueError(f"{kind} '{name}' has no field '{excerpt(key)}': {hint}")
        if key in seen:
            raise ValueError(f"{kind} '{excerpt(text, _LONG)}' sets {key} twice")
        seen.add(key)
        if "read_members" in fields[key].metadata:  # read last, since members take fields from the others
            members[key] = value
            continue
        read = fields[key].metadata.get("read")
        hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]
        try:
            values[key] = read(_BRACKETS.sub(r"\1", value)) if read else _read(value, hints[key])
        except ValueError as error:
            raise ValueError(f"{kind} '{excerpt(text, _LONG)}', field {key}: {error}") from None
    for key, value in members.items():
        read_members = fields[key].metadata["read_members"]
        values[key] = read_members(_BRACKETS.sub(r"\1", value), **{**context, **values})
    needed = [f.name for f in fields.values() if _required(f) and f.name not in values]
    if needed:
        raise ValueError(
            f"{kind} '{excerpt(text, _LONG)}' needs {', '.join(needed)}, as in '{name}:{needed[0]}=...'"
        )
    return cls(**values)


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def format_spec(value: Any) -> str:
    """Return the specification of a registered value: ``parse(kind, registry, format_spec(x)) == x``."""
    parts = []
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.default == content and type(field.default) is type(content):
            continue
        parts.append(f"{field.name}={write(content)}")
    return f"{value.name}:{','.join(parts)}" if parts else str(value.name)


def _parts(text: str) -> Iterator[str]:
    """Split a specification into fields. A comma inside a value, such as a path, does not split.

    >>> list(_parts("measure=[mine:a=1,b=2],path=x,y.csv,horizon=5"))
    ['measure=[mine:a=1,b=2]', 'path=x,y.csv', 'horizon=5']
    """
    begin = depth = 0
    for sign in re.finditer(rf"=\[|\]|{_NEXT_FIELD.pattern}", text):
        if sign[0] == "," and not depth:
            yield text[begin : sign.start()]
            begin = sign.end()
        elif sign[0] != ",":
            depth = max(0, depth + (1 if sign[0] == "=[" else -1))
    if text[begin:]:
        yield text[begin:]


def members_of_text(text: str) -> list[str]:
    """Split the specifications of several values at their semicolons.

    >>> members_of_text("doubtsort:measure=dcg,decay=0.9;champion:members=[greedy;doubtsort]")
    ['doubtsort:measure=dcg,decay=0.9', 'champion:members=[greedy;doubtsort]']
    """
    parts, depth = [""], 0
    for sign in text:
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def write(content: Any) -> str:
    """Return the text of a field's content in a specification.

    >>> write(True), write((0.5, 1e300)), write(None)
    ('true', '0.5+1e300', 'none')
    """
    if content is None:
        return "none"
    if isinstance(content, tuple):
        if content and all(map(dataclasses.is_dataclass, content)):
            return f"[{';'.join(map(format_spec, content))}]"
        return "+".join(map(write, content))
    if isinstance(content, bool):
        return str(content).lower()
    if isinstance(content, float):
        # without the sign of 1e+300, because + joins the members of a tuple
        return repr(float(content)).replace("e+", "e")
    inner = dataclasses.is_dataclass(content)
    has_no_text = inner and str(content) == repr(content)
    text = format_spec(content) if has_no_text else str(content)
    return f"[{text}]" if inner and _NEXT_FIELD.search(text) else text


def _read(text: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise ValueError(f"'{excerpt(text)}' is not a valid choice: {suggest(text, get_args(hint))}")
        return text
    if get_origin(hint) is tuple:
        return tuple(_read(part, get_args(hint)[0]) for part in text.split("+"))
    types = get_args(hint) or (hint,)
    if text == "none" and type(None) in types:
        return None
    if bool in types:
        if text not in ("true", "false"):
            raise ValueError(f"'{excerpt(text)}' is neither true nor false")
        return text == "true"
    for number, words in ((int, "a whole number"), (float, "a number")):
        if number in types:
            try:
                value = number(text)
            except ValueError:
                raise ValueError(f"'{excerpt(text)}' is not {words}") from None
            if number is float and not math.isfinite(value):
                raise ValueError(f"'{excerpt(text)}' is not finite")
            return value
    return Path(text) if Path in types else text
