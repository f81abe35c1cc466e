"""Saved comparisons: a checksum and JSON, which `load` validates before any kernel sees it."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.text import excerpt
from peekrank._util.untrusted_json import read_json
from peekrank.evaluation.comparison.evidence import CHECK_SCALE, CHECKS, COUNT, SCALE, TOTALS, Evidence
from peekrank.evaluation.comparison.forecast import LISTS, PLAIN, SUMS
from peekrank.evaluation.comparison.settings import Settings
from peekrank.kernels.confidence import Bound, Interval
from peekrank.types import Floats, Ints

_MAGIC, _VERSION = b"PEEKRANK-COMPARISON ", 1
_INTERVALS = ("difference", "check")
_SAVED = ("sums", "squares", "observed")  # arrays of a bound
_MOST = 2**53


class Open(NamedTuple):
    """A list without final answers, by rows in the order of a."""

    subject: Ints
    ranks: Ints
    exposure: Floats
    ranking: Ints
    arm: int
    answers: Floats | None


class Saved(NamedTuple):
    """Content of a saved comparison."""

    settings: Settings
    shown: int
    settled: int
    items: list[int | str]
    open: dict[int, Open]
    evidence: Evidence
    planned: Floats  # sums of the forecast


def dump(state: Saved) -> bytes:
    """Return a state as bytes."""
    evidence = {
        name: getattr(state.evidence, name).tolist() for name in ("sums", "counts", "squares", "overall", "totals")
    }
    for name in _INTERVALS:
        interval = getattr(state.evidence, name)
        evidence[name] = {
            side: {part: getattr(bound, part).tolist() for part in _SAVED}
            for side, bound in interval._asdict().items()
        }
    about = {
        "version": _VERSION,
        "settings": state.settings.as_json(),
        "shown": state.shown,
        "settled": state.settled,
        "items": state.items,
        "open": [[event, *_plain(waiting)] for event, waiting in state.open.items()],
        "evidence": evidence,
        "planned": state.planned.tolist(),
    }
    text = json.dumps(about, allow_nan=False).encode()
    return _MAGIC + hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def load(blob: bytes) -> Saved:
    """Return a state from untrusted bytes. Raises ValueError, with the reason, if they are invalid."""
    if not blob.startswith(_MAGIC):
        raise ValueError("these bytes are not a saved comparison")
    digest, _, text = blob[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise ValueError("this saved comparison is damaged: its content does not match its checksum")
    try:
        return _parse(read_json(text))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError) as error:
        raise ValueError(f"this saved comparison is invalid: {excerpt(str(error), 200)}") from None


def _plain(waiting: Open) -> list[Any]:
    answers = waiting.answers
    given = None if answers is None else [None if np.isnan(answer) else answer for answer in answers.tolist()]
    arrays = (waiting.subject, waiting.ranks, waiting.exposure, waiting.ranking)
    return [*(part.tolist() for part in arrays), waiting.arm, given]


def _parse(about: Any) -> Saved:
    if about["version"] != _VERSION:
        raise ValueError(f"it has version {about['version']}; this peekrank reads {_VERSION}")
    settings = Settings.from_json(about["settings"])
    shown, settled = _count(about["shown"]), _count(about["settled"])
    items = about["items"]
    if not all(type(item) in (int, str) for item in items) or len(set(items)) < len(items):
        raise ValueError("its items must be different numbers or texts")
    evidence = _evidence(about["evidence"], float(settings.gains().max()))
    if len(items) > len(evidence.sums):
        raise ValueError("it has more items than statistics")
    if max(evidence.totals[COUNT], evidence.totals[CHECKS]) > settled:
        raise ValueError("it has more evidence than lists")
    waiting = {_count(row[0]): _open(row[1:], settings, len(evidence.sums)) for row in about["open"]}
    events = [settled, *waiting, shown + 1]
    if len(waiting) < len(about["open"]) or any(b - a < 1 for a, b in pairwise(events)):
        raise ValueError("its open lists are not in order")
    if shown - settled < len(waiting) or len(waiting) > settings.max_open:
        raise ValueError("its open lists do not match its counts")
    planned = _array(about["planned"], SUMS, 0.0, 1e300)
    if planned[LISTS] > 0 and not planned[PLAIN] > 0:
        raise ValueError("the sums of its forecast do not match its lists")
    return Saved(settings, shown, settled, items, waiting, evidence, planned)


def _open(row: list[Any], settings: Settings, subjects: int) -> Open:
    subject, ranks, exposure, ranking, arm, answers = row
    n = len(ranks)
    if n == 0 or sorted(ranks) != list(range(n)) or sorted(ranking) != list(range(n)):
        raise ValueError("the orders of an open list are no permutations")
    settings.weights(n)
    numbers = _array(exposure, n, 0.0, 1.0)
    rows = [*ranks, *ranking, *subject]
    if (
        len(subject) != n
        or any(type(part) is not int for part in rows)
        or not 0 <= min(subject) <= max(subject) < subjects
    ):
        raise ValueError("an open list has unknown items")
    seen = min(settings.k, n)
    if not (numbers[ranking[:seen]] > 0).all():
        raise ValueError("an open list shows an item of propensity 0")
    if type(arm) is not int or arm not in (-1, 0, 1):
        raise ValueError("an open list follows neither order")
    given = None
    if answers is not None:
        whole = [np.nan if part is None else part for part in answers]
        given = np.full(seen, np.nan)
        known = [i for i, part in enumerate(answers) if part is not None]
        given[known] = _array([whole[i] for i in known], len(known), 0.0, float(settings.max_feedback))
        if len(whole) != seen:
            raise ValueError("an open list has too few answers")
    rows_of, ranks_of, order = (np.array(part, np.int64) for part in (subject, ranks, ranking))
    return Open(rows_of, ranks_of, numbers, order, arm, given)


def _evidence(values: Any, span: float) -> Evidence:
    size = len(values["sums"])
    if size < 1:
        raise ValueError("it has no statistics")
    limit = _MOST * max(span, 1.0) ** 2
    overall, totals = _array(values["overall"], 2, 0.0, limit), _array(values["totals"], TOTALS, -1e200, 1e200)
    if (
        overall[1] < 1
        or (totals[[COUNT, CHECKS]] % 1).any()
        or (totals[[COUNT, CHECKS, SCALE, CHECK_SCALE]] < 0).any()
    ):
        raise ValueError("its numbers of answers are impossible")
    difference, check = (
        Interval(*(_bound(values[name][side]) for side in Interval._fields)) for name in _INTERVALS
    )
    return Evidence(
        _array(values["sums"], size, 0.0, limit), _array(values["counts"], size, 0.0, _MOST),
        _array(values["squares"], size, 0.0, limit), overall, totals, difference, check,
    )  # fmt: skip


def _bound(values: Any) -> Bound:
    bound = Bound.fresh(1.0, growing=True)
    size = len(bound.rates)
    sums, squares = _array(values["sums"], size, -1e100, 1e100), _array(values["squares"], size, 0.0, 1e100)
    return bound._replace(sums=sums, squares=squares, observed=_array(values["observed"], 1, 0.0, _MOST))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("a number of lists is out of range")
    return value


def _array(values: Any, size: int, low: float, high: float) -> Floats:
    """Return numbers as an array. Raises ValueError if one is out of range, or if their number is wrong."""
    if len(values) != size or not all(type(part) in (int, float) and low <= part <= high for part in values):
        raise ValueError(f"{size} numbers from {low:g} to {high:g} were expected")
    return np.array(values, np.float64)
