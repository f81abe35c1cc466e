"""What people prefer, read from files: PrefLib orders and tables of ratings, turned into grades by a rule.

Both become scores, person by item: larger is better, NaN is missing. A missing item gets grade 0 whatever the
rule: a person who never spoke of it cannot reveal it as relevant.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, nan
from os import PathLike
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from peekrank._util.text import excerpt
from peekrank._util.validate import whole
from peekrank.streams.fixed import fixed_items
from peekrank.types import Floats, Grades, Ints, Rounds

ORDER_FILES = (".soc", ".soi", ".toc", ".toi")  # strict or tied orders, complete or incomplete
_MOST_PEOPLE, _MOST_ITEMS = 10**7, 10**5
_MOST_SCORES = 10**8  # of all people and items
_GROUP = r"(?:[0-9]{1,9}|\{[0-9]{1,9}(?:,[0-9]{1,9})*\})"
_ORDER = re.compile(f"{_GROUP}(?:,{_GROUP})*")


class Preferences(NamedTuple):
    """What a file says: row u of scores holds for counts[u] people; larger is better, NaN is missing."""

    scores: Floats
    counts: Ints
    items: tuple[str, ...]


@dataclass(frozen=True)
class Top:
    """``top3``: grade 1 for the t best items of each person.

    R(i) = 1[fewer than t items are strictly better than i]: all items tied with the t-th are in.

    >>> Top(2).grades(np.array([[5.0, 1.0, 4.0, 4.0], [np.nan, 2.0, np.nan, np.nan]]))
    array([[1, 0, 1, 1],
           [0, 1, 0, 0]], dtype=uint8)
    """

    t: int
    max_grade: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole("rule top: t", self.t, 1)

    def grades(self, scores: Floats) -> Grades:
        """Grade every person's items."""
        return ((_better(scores) < self.t) & ~np.isnan(scores)).astype(np.uint8)


@dataclass(frozen=True)
class Quantile:
    """``quantile4``: grades 0..q-1 by where an item stands among those that the same person listed or rated.

    R(i) = q - 1 - floor(q b / s) with b of the person's s items strictly better than i: tied items share the best
    grade any of them would have.

    >>> Quantile(4).grades(np.array([[8.0, 7, 6, 5, 4, 3, 2, 1], [9.0, 9, 9, 9, 1, 1, np.nan, np.nan]]))
    array([[3, 3, 2, 2, 1, 1, 0, 0],
           [3, 3, 3, 3, 1, 1, 0, 0]], dtype=uint8)
    """

    q: int

    def __post_init__(self) -> None:
        whole("rule quantile: q", self.q, 2, 256)

    @property
    def max_grade(self) -> int:
        """The largest grade."""
        return self.q - 1

    def grades(self, scores: Floats) -> Grades:
        """Grade every person's items."""
        present = ~np.isnan(scores)
        size = np.maximum(present.sum(axis=1, keepdims=True), 1)
        return np.where(present, self.q - 1 - self.q * _better(scores) // size, 0).astype(np.uint8)


@dataclass(frozen=True)
class Above:
    """``above5``, ``above-2.5``: grade 1 for ratings strictly above a threshold.

    >>> Above(-2.5).grades(np.array([[-3.0, -2.5, 0.0, np.nan]]))
    array([[0, 0, 1, 0]], dtype=uint8)
    """

    threshold: float
    max_grade: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isfinite(self.threshold):
            raise ValueError(f"threshold = {self.threshold}: must be finite")

    def grades(self, scores: Floats) -> Grades:
        """Grade every person's items."""
        return (scores > self.threshold).astype(np.uint8)


Rule = Top | Quantile | Above


def parse_rule(text: str) -> Rule:
    """Read a rule.

    >>> parse_rule("top3"), parse_rule("quantile4"), parse_rule("above-2.5")
    (Top(t=3), Quantile(q=4), Above(threshold=-2.5))
    """
    if match := re.fullmatch(r"(top|quantile)([0-9]{1,9})", text):
        return (Top if match[1] == "top" else Quantile)(int(match[2]))
    if match := re.fullmatch(r"above(-?[0-9]+(?:\.[0-9]+)?)", text):
        return Above(float(match[1]))
    raise ValueError(f"rule = '{text}': must be one like top3, quantile4 or (for ratings) above2.5")


@dataclass(frozen=True)
class People:
    """Graded people without their file: what a stream of them draws from.

    Parameters
    ----------
    grades
        A row for each kind of person.
    counts
        How many people of each kind there are.
    max_grade
        The largest grade that can occur.

    >>> two = People(np.array([[0, 1], [1, 0]], np.uint8), np.array([1, 1]), max_grade=1)
    >>> two.rounds(2, np.random.default_rng(0)).relevance
    array([0, 1, 1, 0], dtype=uint8)
    """

    name: ClassVar[str] = "people"
    d: ClassVar[int] = 0
    grades: Grades
    counts: Ints
    max_grade: int

    @property
    def m(self) -> int:
        """Number of items."""
        return int(self.grades.shape[1])

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Let everyone come once, in random order, and again until there are n rounds."""
        whole("n", n, 1)
        people = np.repeat(np.arange(len(self.counts)), self.counts)
        passes = np.tile(people, (-(-n // len(people)), 1))
        return fixed_items(self.grades[rng.permuted(passes, axis=1).ravel()[:n]])


@dataclass(frozen=True)
class Orders:
    """People who order the same items, from a PrefLib file; each comes once per pass, passes in random order.

    Parameters
    ----------
    path
        A ``.soc``, ``.soi``, ``.toc`` or ``.toi`` file; see `read_orders`.
    rule
        How an order becomes grades: `Top` or `Quantile`. In an incomplete order the items left out get grade 0.

    References
    ----------
    Mattei and Walsh, PrefLib: A Library for Preferences, ADT 2013.
    """

    name: ClassVar[str] = "orders"
    d: ClassVar[int] = 0
    path: Path
    rule: str = "top3"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if isinstance(parse_rule(self.rule), Above):
            raise ValueError(f"rule = '{self.rule}': orders have no ratings; use one like top3 or quantile4")

    @property
    def m(self) -> int:
        """Number of items."""
        return len(_cached(read_orders, self.path).items)

    @property
    def max_grade(self) -> int:
        """The largest grade of the rule."""
        return parse_rule(self.rule).max_grade

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds, one person each."""
        return self.in_memory().rounds(n, rng)

    def in_memory(self) -> People:
        """The people of the file."""
        orders = _cached(read_orders, self.path)
        return People(parse_rule(self.rule).grades(orders.scores), orders.counts, self.max_grade)


@dataclass(frozen=True)
class Ratings:
    """People who rate the same items, from a CSV file; each comes once per pass, passes in random order.

    Parameters
    ----------
    path
        A table with a row for each person and a column for each item; see `read_ratings`.
    rule
        How ratings become grades: `Top`, `Quantile` (by default, the better half of what each person rated is
        relevant: people use scales differently) or `Above`. Unrated items get grade 0.
    complete
        Keep only the people who rated every item.
    """

    name: ClassVar[str] = "ratings"
    d: ClassVar[int] = 0
    path: Path
    rule: str = "quantile2"
    complete: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        parse_rule(self.rule)

    @property
    def m(self) -> int:
        """Number of items."""
        return len(_cached(read_ratings, self.path).items)

    @property
    def max_grade(self) -> int:
        """The largest grade of the rule."""
        return parse_rule(self.rule).max_grade

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds, one person each."""
        return self.in_memory().rounds(n, rng)

    def in_memory(self) -> People:
        """The people of the file."""
        scores, counts, _ = _cached(read_ratings, self.path)
        if self.complete:
            kept = ~np.isnan(scores).any(axis=1)
            scores, counts = scores[kept], counts[kept]
            if not len(scores):
                raise ValueError(f"{self.path.name}: complete=true leaves nobody, no person rated every item")
        return People(parse_rule(self.rule).grades(scores), counts, self.max_grade)


def read_orders(path: str | PathLike[str]) -> Preferences:
    """Read a PrefLib file of orders: header lines ``# KEY: value``, then lines ``count: 1,{2,3},4``, best first.

    The best group of a person scores 0, the next -1, and so on. The ending tells what is allowed: ``s`` strict,
    ``t`` with ties in braces, ``c`` complete, ``i`` incomplete. What does not fit is a ValueError with its line.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ORDER_FILES:
        raise ValueError(f"{path.name}: orders are read from files that end in {', '.join(ORDER_FILES)}")
    header: dict[str, tuple[int, str]] = {}
    scores, counts, m = array("d"), [], 0
    for line, text in enumerate(map(str.strip, _lines(path)), 1):
        if text.startswith("#"):
            key, _, value = text[1:].partition(":")
            header[key.strip().upper()] = line, value.strip()
        elif text:
            m = m or _declared(path, header, "NUMBER ALTERNATIVES", _MOST_ITEMS)
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
    if people > _MOST_PEOPLE:
        raise ValueError(f"{path.name}: the orders are of {people:,} people, more than {_MOST_PEOPLE:,}")
    voters = _declared(path, header, "NUMBER VOTERS", _MOST_PEOPLE)
    if voters and voters != people:
        line = header["NUMBER VOTERS"][0]
        raise _wrong(path, line, f"NUMBER VOTERS is {voters} but the orders add up to {people}; truncated?")
    table = np.array(scores).reshape(-1, m)
    return Preferences(table, np.array(counts, np.int64), _alternatives(path, header, m))


def read_ratings(path: str | PathLike[str]) -> Preferences:
    """Read a CSV file of ratings: a row for each person, a column for each item, an empty cell where unrated.

    A first row without a single number is taken for the names of the items; otherwise they are numbered from 1.
    What does not fit is a ValueError with its line and column.
    """
    path = Path(path)
    scores = array("d")
    items: tuple[str, ...] = ()
    for line, row in _rows(path):
        if not items:
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
    return Preferences(table, np.ones(len(table), np.int64), items)


def _better(scores: Floats) -> Ints:
    """Count the items that the same person puts strictly above each item; missing ones come last."""
    from scipy.stats import rankdata  # a second, which only files of preferences need

    return rankdata(np.where(np.isnan(scores), np.inf, -scores), method="min", axis=1).astype(np.int64) - 1


def _cached(read: Callable[[Path], Preferences], path: Path) -> Preferences:
    stat = path.stat()
    return _read(read, path.absolute(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(read: Callable[[Path], Preferences], path: Path, *_version: int) -> Preferences:
    """Read a file once for every version of it."""
    return read(path)


def _wrong(path: Path, line: int, what: str) -> ValueError:
    return ValueError(f"{path.name}, line {line}: {what}")


def _check_room(path: Path, line: int, scores: int) -> None:
    if scores > _MOST_SCORES:
        raise _wrong(path, line, f"up to here people times items are {scores:,}, more than {_MOST_SCORES:,}")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None


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
    """Names in a header row; a blank or repeated one hints at row labels, or at a first row of bad numbers."""
    names: dict[str, None] = {}
    for column, name in enumerate(map(str.strip, row), 1):
        if not name or name in names:
            fault = f"repeats the name '{excerpt(name)}'" if name else "has no name"
            raise _wrong(path, line, f"no number here, so these name the items, but column {column} {fault}")
        names[name] = None
    return tuple(names)


def _declared(path: Path, header: dict[str, tuple[int, str]], key: str, most: int) -> int:
    """Read a count from the header; 0 if it is not there."""
    line, value = header.get(key, (0, ""))
    return _count(path, line, key, value, most) if line else 0


def _count(path: Path, line: int, what: str, text: str, most: int) -> int:
    """Read how many of something there are."""
    if not re.fullmatch("[0-9]*[1-9][0-9]*", text):
        raise _wrong(path, line, f"{what} is '{excerpt(text)}', not a whole number, at least 1")
    if _number(text) > most:
        raise _wrong(path, line, f"{what} is {excerpt(text)}, more than {most:,}")
    return int(text)


def _alternatives(path: Path, header: dict[str, tuple[int, str]], m: int) -> tuple[str, ...]:
    keys = [f"ALTERNATIVE NAME {item}" for item in range(1, m + 1)]
    named = {key for key in header if key.startswith("ALTERNATIVE NAME")}
    if not named:
        return tuple(map(str, range(1, m + 1)))
    if named != set(keys):
        odd = min(named.symmetric_difference(keys))
        state = "is there too" if odd in named else "is missing"
        raise _wrong(
            path, header["NUMBER ALTERNATIVES"][0], f"NUMBER ALTERNATIVES is {m} but {excerpt(odd)} {state}"
        )
    return tuple(header[key][1] for key in keys)


def _order(path: Path, line: int, text: str) -> tuple[int, list[list[int]]]:
    """Split ``count: 1,{2,3},4`` into the count and the groups of equally good items."""
    count, _, order = (part.strip() for part in text.partition(":"))
    order = re.sub(r"\s*([,{}])\s*", r"\1", order)
    people = _count(path, line, "the count before ':'", count, _MOST_PEOPLE)
    if not _ORDER.fullmatch(order):
        raise _wrong(path, line, f"'{excerpt(order)}' is not an order like 1,2,{{3,4}},5")
    groups = re.findall(r"\{[0-9,]+\}|[0-9]+", order)
    return people, [[int(item) for item in group.strip("{}").split(",")] for group in groups]


def _levels(path: Path, line: int, groups: list[list[int]], m: int) -> list[float]:
    """Score one order, 0 for the best group, then -1, -2, ...; NaN for what it leaves out."""
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
