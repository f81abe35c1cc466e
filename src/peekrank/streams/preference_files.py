"""Readers of preference files: PrefLib orders, old and new, and tables of ratings, wide and long."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from math import isfinite, nan
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from peekrank._util.text import excerpt
from peekrank.types import Floats, Ints

ORDER_FILES = (".soc", ".soi", ".toc", ".toi")  # strict or tied orders, complete or incomplete
_MAX_PEOPLE, _MAX_ITEMS = 10**7, 10**5
_MAX_SCORES = 10**8  # people times items
_GROUP = r"(?:[0-9]{1,9}|\{[0-9]{1,9}(?:,[0-9]{1,9})*\})"
_ORDER = re.compile(f"{_GROUP}(?:,{_GROUP})*")

_LONG = 3  # cells in a row of user, item and rating
_USERS, _RATINGS = (
    ("user", "person", "people", "rater", "voter", "customer", "reviewer"),
    ("rating", "score", "star"),
)
_SURE = 10  # a smaller table, or one without a larger number, may still hold ratings


class Preferences(NamedTuple):
    """Content of a preference file: counts[u] people have row u of scores; larger is better, NaN is missing."""

    scores: Floats
    counts: Ints
    items: tuple[str, ...]


def read_orders(path: str | PathLike[str]) -> Preferences:
    """Read a PrefLib file of orders: header lines ``# KEY: value``, then lines ``count: 1,{2,3},4``, best first.

    The best group of a person scores 0, the next -1, and so on. The suffix says what is allowed: ``s`` strict,
    ``t`` with ties in braces, ``c`` complete, ``i`` incomplete. PrefLib's old format works as well: the number of
    alternatives, a line ``1,name`` for each, a line of three counts, then lines ``count,1,{2,3},4``. Raises
    ValueError, with the line, if the file does not have this format.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ORDER_FILES:
        raise ValueError(f"{path.name}: orders are read from files that end in {', '.join(ORDER_FILES)}")
    header: dict[str, tuple[int, str]] = {}
    scores, counts, m = array("d"), [], 0
    for line, text in enumerate(_modern(path), 1):
        if text.startswith("#"):
            key, _, value = text[1:].partition(":")
            header[key.strip().upper()] = line, value.strip()
        elif text:
            m = m or _declared(path, header, "NUMBER ALTERNATIVES", _MAX_ITEMS)
            if not m:
                raise _wrong(
                    path, line, "expected a header with '# NUMBER ALTERNATIVES: m' before the first order"
                )
            count, groups = _order(path, line, text)
            counts.append(count)
            scores.extend(_levels(path, line, groups, m))
            _check_room(path, line, len(scores))
    if not counts:
        raise ValueError(f"{path.name}: holds no orders")
    people = sum(counts)
    if people > _MAX_PEOPLE:
        raise ValueError(f"{path.name}: the orders are of {people:,} people, more than {_MAX_PEOPLE:,}")
    voters = _declared(path, header, "NUMBER VOTERS", _MAX_PEOPLE)
    if voters and voters != people:
        line = header["NUMBER VOTERS"][0]
        raise _wrong(path, line, f"NUMBER VOTERS is {voters} but the orders add up to {people}; truncated?")
    table = np.array(scores).reshape(-1, m)
    return Preferences(table, np.array(counts, np.int64), _alternatives(path, header, m))


def read_ratings(path: str | PathLike[str]) -> Preferences:
    """Read a CSV file of ratings: a row for each person, a column for each item, an empty cell if unrated.

    A first row without any number holds the names of the items; otherwise items are numbered from 1. If the first
    row names users in its first column and ratings in its third, the rows are ``user,item,rating``, and further
    columns are ignored. People and items are then in the order of their first rows. Raises ValueError, with line
    and column, if the file does not have this format.
    """
    path = Path(path)
    scores = array("d")
    items: tuple[str, ...] = ()
    rows = _rows(path)
    for line, row in rows:
        if not items:
            if _is_long(row):
                return _read_long(path, rows)
            header = any(cell.strip() for cell in row) and not any(isfinite(_number(cell)) for cell in row)
            items = _names(path, line, row) if header else tuple(map(str, range(1, len(row) + 1)))
            if header:
                continue
        if len(row) != len(items):
            raise _wrong(path, line, f"{len(row)} cells where the first row has {len(items)}")
        for column, cell in enumerate(row, 1):
            scores.append(_number(cell))
            if cell.strip() and not isfinite(scores[-1]):
                raise _wrong(
                    path, line, f"column {column}: '{excerpt(cell)}' is not a finite number; empty means unrated"
                )
        _check_room(path, line, len(scores))
    if not scores:
        raise ValueError(f"{path.name}: holds no ratings")
    table = np.array(scores).reshape(-1, len(items))
    _refuse_long(path, table)
    return Preferences(table, np.ones(len(table), np.int64), items)


def _is_long(header: list[str]) -> bool:
    """Return whether the header announces rows of user, item and rating."""
    names = [re.sub("[^a-z]", "", name.lower()) for name in header]
    return len(names) >= _LONG and names[0].startswith(_USERS) and names[2].startswith(_RATINGS)


def _read_long(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Preferences:
    people: dict[str, int] = {}
    items: dict[str, int] = {}
    known: dict[tuple[int, int], float] = {}
    for line, row in rows:
        if len(row) < _LONG:
            raise _wrong(path, line, f"{len(row)} cells: must be user, item and rating")
        user, item, cell = (text.strip() for text in row[:_LONG])
        if not isfinite(rating := _number(cell)):
            raise _wrong(path, line, f"column 3: '{excerpt(cell)}' is not a finite number")
        cell_index = people.setdefault(user, len(people)), items.setdefault(item, len(items))
        if cell_index in known:
            raise _wrong(path, line, f"user '{excerpt(user)}' has rated item '{excerpt(item)}' before")
        known[cell_index] = rating
        _check_room(path, line, len(people) * len(items))
    if not known:
        raise ValueError(f"{path.name}: holds no ratings")
    table = np.full((len(people), len(items)), nan)
    table[tuple(np.array(list(known)).T)] = list(known.values())
    return Preferences(table, np.ones(len(table), np.int64), tuple(items))


def _refuse_long(path: Path, table: Floats) -> None:
    """Raise ValueError if a wide table of 3 or 4 columns looks like rows of user and item numbers and ratings."""
    rows, columns = table.shape
    if columns not in (_LONG, _LONG + 1) or rows < _SURE or np.isnan(table).any():
        return
    ids = table[:, :2]
    if np.all((ids == np.rint(ids)) & (ids >= 0)) and len(np.unique(ids, axis=0)) == rows and ids.max() > _SURE:
        raise ValueError(
            f"{path.name}: looks like rows of user, item and rating, since no two have the same first two cells; "
            "if so, add a first row user,item,rating; if each column is an item, add a first row of item names"
        )


def _wrong(path: Path, line: int, reason: str) -> ValueError:
    return ValueError(f"{path.name}, line {line}: {reason}")


def _check_room(path: Path, line: int, scores: int) -> None:
    if scores > _MAX_SCORES:
        raise _wrong(path, line, f"up to here people times items are {scores:,}, more than {_MAX_SCORES:,}")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None


def _modern(path: Path) -> Iterator[str]:
    """Yield the lines of a file of orders, with the old format converted to the new one."""
    m, named, counts = 0, 0, 0
    for number, text in enumerate(map(str.strip, _lines(path)), 1):
        if number == 1 and re.fullmatch("[0-9]{1,9}", text):
            m = int(text)
            yield f"# NUMBER ALTERNATIVES: {text}"
        elif not m or not text:
            yield text
        elif named < m or not counts:
            parts = text.split(",", 1 if named < m else 2)
            if len(parts) < 2 or not parts[0].strip().isdigit():
                format_ = "number,name of an alternative" if named < m else "voters,sum of counts,different orders"
                raise _wrong(path, number, f"'{excerpt(text)}': must be {format_}, as in PrefLib's old format")
            key = f"ALTERNATIVE NAME {parts[0]}" if named < m else "NUMBER VOTERS"
            counts, named = int(named >= m), named + 1
            yield f"# {key}: {parts[0] if counts else parts[1]}"
        else:
            yield text.replace(",", ": ", 1)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(_lines(path), strict=True)
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise _wrong(path, rows.line_num, f"not a row of a CSV file: {excerpt(str(error))}") from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return nan


def _names(path: Path, line: int, row: list[str]) -> tuple[str, ...]:
    """Read the names in a header row. Raises ValueError for a blank or repeated name, a sign of row labels."""
    names: dict[str, None] = {}
    for column, name in enumerate(map(str.strip, row), 1):
        if not name or name in names:
            reason = f"repeats the name '{excerpt(name)}'" if name else "has no name"
            raise _wrong(
                path, line, f"without a number, this row must name the items, but column {column} {reason}"
            )
        names[name] = None
    return tuple(names)


def _declared(path: Path, header: dict[str, tuple[int, str]], key: str, limit: int) -> int:
    """Read a count from the header; return 0 if it is missing."""
    line, value = header.get(key, (0, ""))
    return _count(path, line, key, value, limit) if line else 0


def _count(path: Path, line: int, name: str, text: str, limit: int) -> int:
    """Parse a positive count up to a limit."""
    if not re.fullmatch("[0-9]*[1-9][0-9]*", text):
        raise _wrong(path, line, f"{name} is '{excerpt(text)}', not a whole number, at least 1")
    if _number(text) > limit:
        raise _wrong(path, line, f"{name} is {excerpt(text)}, more than {limit:,}")
    return int(text)


def _alternatives(path: Path, header: dict[str, tuple[int, str]], m: int) -> tuple[str, ...]:
    keys = [f"ALTERNATIVE NAME {item}" for item in range(1, m + 1)]
    named = {key for key in header if key.startswith("ALTERNATIVE NAME")}
    if not named:
        return tuple(map(str, range(1, m + 1)))
    if named != set(keys):
        odd = min(named.symmetric_difference(keys))
        state = "is present as well" if odd in named else "is missing"
        raise _wrong(
            path, header["NUMBER ALTERNATIVES"][0], f"NUMBER ALTERNATIVES is {m} but {excerpt(odd)} {state}"
        )
    return tuple(header[key][1] for key in keys)


def _order(path: Path, line: int, text: str) -> tuple[int, list[list[int]]]:
    """Split ``count: 1,{2,3},4`` into the count and the groups of equally good items."""
    count, _, order = (part.strip() for part in text.partition(":"))
    order = re.sub(r"\s*([,{}])\s*", r"\1", order)
    people = _count(path, line, "the count before ':'", count, _MAX_PEOPLE)
    if not _ORDER.fullmatch(order):
        raise _wrong(path, line, f"'{excerpt(order)}' is not an order like 1,2,{{3,4}},5")
    groups = re.findall(r"\{[0-9,]+\}|[0-9]+", order)
    return people, [[int(item) for item in group.strip("{}").split(",")] for group in groups]


def _levels(path: Path, line: int, groups: list[list[int]], m: int) -> list[float]:
    """Score one order: 0 for the best group, then -1, -2, ...; NaN for items that it leaves out."""
    ending = path.suffix.lower()
    scores = [nan] * m
    for level, group in enumerate(groups):
        if len(group) > 1 and ending.startswith(".s"):
            raise _wrong(
                path, line, f"items {excerpt(str(group))} are tied, but a {ending} file holds strict orders"
            )
        for item in group:
            if not 1 <= item <= m:
                raise _wrong(path, line, f"item {item} is not one of the {m} alternatives")
            if scores[item - 1] <= 0:
                raise _wrong(path, line, f"item {item} comes twice")
            scores[item - 1] = -level
    listed = sum(map(len, groups))
    if listed < m and ending.endswith("c"):
        raise _wrong(path, line, f"{listed} of the {m} alternatives, but a {ending} file holds complete orders")
    return scores
