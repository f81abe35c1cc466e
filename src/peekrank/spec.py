"""Names that are specifications: ``rtop1f:order=fixed`` is a learner, ``ct15:m=10,noise=0.25`` a stream.

The text of a value is its registered name, then the fields that differ from their defaults. It reads the same on
the command line, in file names, in manifests and in tests. A value within a value is written by its own name,
``blockftrl:measure=rbp:p=0.95,horizon=1000``, and in brackets if it has commas of its own:
``blockftrl:measure=[mine:a=1,b=2],horizon=1000``. Several values in one field are parted by semicolons:
``champion:measure=dcg,members=[doubtsort;marginftrl]``; they are filled from the fields around them.
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

T = TypeVar("T")
_MOST_NAMED = 40  # names in an error
_NEXT_FIELD = re.compile(r",(?=\w+=)")
_BRACKETS = re.compile(r"\A\[(.*)\]\Z", re.DOTALL)


def suggest(wrong: str, known: Collection[str]) -> str:
    """Say which known name was probably meant.

    >>> suggest("rtop1", ["ftpl", "rtop1f"])
    "did you mean 'rtop1f'? Known: ftpl, rtop1f"
    >>> suggest("x", ["ftpl", "rtop1f"])
    'known: ftpl, rtop1f'
    """
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    guess = f"did you mean '{close[0]}'? Known" if close else "known"
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"{guess}: {', '.join(names[:_MOST_NAMED])}{more}"


def parse(kind: str, registry: Mapping[str, type[T]], text: str, **context: Any) -> T:
    """Make the value that a specification names.

    `context` fills those fields the specification leaves open and the class has: the measure and horizon of an
    experiment need not be repeated for each of its learners.
    """
    name, _, rest = text.partition(":")
    if name not in registry:
        raise ValueError(f"unknown {kind} '{name}': {suggest(name, registry)}")
    cls = registry[name]
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given = {key: value for key, value in context.items() if key in fields}
    seen: set[str] = set()
    members: dict[str, str] = {}
    for part in _parts(rest):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{kind} '{text}': '{part}' is not of the form field=value")
        if key not in fields:
            hint = suggest(key, fields) if fields else "it has none"
            raise ValueError(f"{kind} '{name}' has no field '{key}': {hint}")
        if key in seen:
            raise ValueError(f"{kind} '{text}' gives {key} twice")
        seen.add(key)
        if "read_members" in fields[key].metadata:  # once all fields are known, which they are filled from
            members[key] = value
            continue
        read = fields[key].metadata.get("read")
        try:
            given[key] = read(_BRACKETS.sub(r"\1", value)) if read else _read(value, _hints(cls)[key])  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{kind} '{text}', field {key}: {error}") from None
    for key, value in members.items():
        read_members = fields[key].metadata["read_members"]
        given[key] = read_members(_BRACKETS.sub(r"\1", value), **{**context, **given})
    needed = [f.name for f in fields.values() if _required(f) and f.name not in given]
    if needed:
        raise ValueError(f"{kind} '{text}' needs {', '.join(needed)}, as in '{name}:{needed[0]}=...'")
    return cls(**given)


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def format_spec(value: Any) -> str:
    """The specification of a value made from a registry: ``parse(kind, registry, format_spec(x)) == x``."""
    shown = []
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.default == content and type(field.default) is type(content):
            continue
        shown.append(f"{field.name}={write(content)}")
    return f"{value.name}:{','.join(shown)}" if shown else str(value.name)


def _parts(text: str) -> Iterator[str]:
    """The fields of a specification, one by one; a comma within a value, such as a path, stays.

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
    """The specifications of several values, which semicolons part.

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
    """What a field is written as in a specification.

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
        # 1e+300 without its sign: + joins the members of a tuple
        return repr(float(content)).replace("e+", "e")
    inner = dataclasses.is_dataclass(content)
    text = (
        format_spec(content) if inner and str(content) == repr(content) else str(content)
    )  # if it has none of its own
    return f"[{text}]" if inner and _NEXT_FIELD.search(text) else text


def _read(text: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise ValueError(f"'{text}' is not a choice: {suggest(text, get_args(hint))}")
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
            if number is float and not math.isfinite(value):
                raise ValueError(f"'{text}' is not finite")
            return value
    return Path(text) if Path in types else text
