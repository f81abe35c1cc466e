"""Names of measures: the grammar of specifications, with short forms for cut-offs and conventions.

``ndcg@10+linear`` is short for ``ndcg:cutoff=10,gains=linear``. Fields without a short form follow in the usual
form: ``rbp@10:p=0.95``. A name lists the short forms in the order of the fields.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

from peekrank._util.text import excerpt
from peekrank.registry import MEASURES
from peekrank.spec import parse, suggest, write
from peekrank.types import Measure

_LONG = 100  # characters of a name that are compared with known ones
_NAME = re.compile(r"([\w-]+)(?:@(\d+))?((?:\+\w+)*)(?::(.+))?")
_OPTIONS: dict[str, tuple[str, Any]] = {
    "linear": ("gains", "linear"),
    "sum": ("mean", False),
    "norel0": ("no_relevant", "0"),
    "norel1": ("no_relevant", "1"),
    "skip": ("no_relevant", "skip"),
}
_SHORT = {field: option for option, field in _OPTIONS.items()}


def measure(name: str) -> Measure:
    """Return the measure with this name.

    >>> measure("ndcg@10+linear")
    NDCG(cutoff=10, gains='linear', no_relevant='1')
    >>> measure("rbp:p=0.95")
    RBP(cutoff=None, p=0.95)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        example = "such as dcg, p@3, ndcg@10+linear or rbp:p=0.8"
        raise ValueError(f"'{excerpt(name)}' is not the name of a measure, {example}")
    base, cutoff, options, rest = match[1], match[2], match[3].split("+")[1:], match[4]
    if base not in MEASURES:
        raise ValueError(f"unknown measure '{excerpt(base)}': {suggest(base[:_LONG], MEASURES)}")
    known = {field.name: field for field in fields(MEASURES[base])}
    texts: dict[str, Any] = {"cutoff": cutoff} if cutoff else {}
    for option in options:
        if option not in _OPTIONS:
            hint = suggest(option[:_LONG], _OPTIONS)
            raise ValueError(f"measure '{excerpt(name)}': no option '{excerpt(option)}': {hint}")
        field, value = _OPTIONS[option]
        if field in texts:
            raise ValueError(f"measure '{excerpt(name)}': '{option}' and another option for {field}, choose one")
        texts[field] = write(value)
    unknown = [field for field in texts if field not in known]
    if unknown:
        missing = "cut-off" if unknown == ["cutoff"] else f"field '{unknown[-1]}'"
        raise ValueError(f"measure '{excerpt(name)}': '{base}' has no {missing}")
    if "cutoff" in known and known["cutoff"].default is MISSING and not cutoff and not rest:
        raise ValueError(f"measure '{base}' needs a cut-off, as in '{base}@3'")
    spec = ",".join([f"{field}={value}" for field, value in texts.items()] + [rest] * bool(rest))
    parsed: Measure = parse("measure", MEASURES, f"{base}:{spec}")
    return parsed


def name_of(measure: Any) -> str:
    """Return the name of a measure, for its ``__str__``: ``measure(name_of(x)) == x`` for every registered one.

    >>> from peekrank.measures import DCG, RBP
    >>> name_of(DCG(10, gains="linear")), name_of(RBP(10, p=0.95))
    ('dcg@10+linear', 'rbp@10:p=0.95')
    """
    short, rest = str(measure.name), []
    for field in fields(measure):
        value = getattr(measure, field.name)
        if value == field.default:
            continue
        if field.name == "cutoff" and value is not None:
            short += f"@{value}"
        elif (field.name, value) in _SHORT:
            short += f"+{_SHORT[field.name, value]}"
        else:
            rest.append(f"{field.name}={write(value)}")
    return ":".join([short, ",".join(rest)]) if rest else short
