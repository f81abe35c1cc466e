"""Preferences of people, orders or ratings from files, turned into grades by a rule.

Both become scores for each person and item: larger is better, NaN is missing. Every rule gives a missing item
grade 0, because a person who did not rate or list it cannot reveal it as relevant.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from peekrank._util.validate import check_int
from peekrank.streams.fixed import fixed_items
from peekrank.streams.preference_files import Preferences, read_orders, read_ratings
from peekrank.types import Floats, Grades, Ints, Rounds

_MANY, _PEOPLE = 0.5, 20  # a larger share of 0s, in a table of this many people, suggests that 0 means unrated


@dataclass(frozen=True)
class Top:
    """``top3``: grade 1 for the t best items of each person.

    R(i) = 1[fewer than t items are strictly better than i]. All items tied with the t-th get grade 1.

    >>> Top(2).grades(np.array([[5.0, 1.0, 4.0, 4.0], [np.nan, 2.0, np.nan, np.nan]]))
    array([[1, 0, 1, 1],
           [0, 1, 0, 0]], dtype=uint8)
    """

    t: int
    max_grade: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_int("rule top: t", self.t, 1)

    def grades(self, scores: Floats) -> Grades:
        """Grade every person's items."""
        return ((_better(scores) < self.t) & ~np.isnan(scores)).astype(np.uint8)


@dataclass(frozen=True)
class Quantile:
    """``quantile4``: grades 0..q-1 by the quantile of an item among those that the same person listed or rated.

    R(i) = q - 1 - floor(q b / s) with b of the person's s items strictly better than i. Tied items all get the
    best grade that any of them would get.

    >>> Quantile(4).grades(np.array([[8.0, 7, 6, 5, 4, 3, 2, 1], [9.0, 9, 9, 9, 1, 1, np.nan, np.nan]]))
    array([[3, 3, 2, 2, 1, 1, 0, 0],
           [3, 3, 3, 3, 1, 1, 0, 0]], dtype=uint8)
    """

    q: int

    def __post_init__(self) -> None:
        check_int("rule quantile: q", self.q, 2, 256)

    @property
    def max_grade(self) -> int:
        """Return the largest grade."""
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
    """Parse a rule.

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
    """People with graded items, in memory: the source of a stream of preferences.

    Parameters
    ----------
    grades
        A row for each distinct person.
    counts
        Number of people with each row.
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
        """Return the number of items."""
        return int(self.grades.shape[1])

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds: each pass has every person once, in random order."""
        check_int("n", n, 1)
        people = np.repeat(np.arange(len(self.counts)), self.counts)
        passes = np.tile(people, (-(-n // len(people)), 1))
        return fixed_items(self.grades[rng.permuted(passes, axis=1).ravel()[:n]])


@dataclass(frozen=True)
class Orders:
    """Orders of the same items by many people, from a PrefLib file; a pass has every person once, in random order.

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
        """Return the number of items."""
        return len(_cached(read_orders, self.path).items)

    @property
    def max_grade(self) -> int:
        """Return the largest grade of the rule."""
        return parse_rule(self.rule).max_grade

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds, one person each."""
        return self.in_memory().rounds(n, rng)

    def in_memory(self) -> People:
        """Return the people of the file."""
        orders = _cached(read_orders, self.path)
        return People(parse_rule(self.rule).grades(orders.scores), orders.counts, self.max_grade)


@dataclass(frozen=True)
class Ratings:
    """Ratings of the same items by many people, from a CSV file; a pass has every person once, in random order.

    Parameters
    ----------
    path
        A table with a row for each person and a column for each item, or of user, item and rating; see
        `read_ratings`.
    rule
        How ratings become grades: `Top`, `Quantile` or `Above`. By default the better half of each person's
        ratings is relevant, because people use scales differently. Unrated items get grade 0.
    complete
        Keep only the people who rated every item.
    unrated
        A number that means "not rated", such as 0. None means that only empty cells are unrated.
    """

    name: ClassVar[str] = "ratings"
    d: ClassVar[int] = 0
    path: Path
    rule: str = "quantile2"
    complete: bool = False
    unrated: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        parse_rule(self.rule)
        if self.unrated is not None and not isfinite(self.unrated):
            raise ValueError(f"unrated = {self.unrated}: must be a number, such as 0")

    @property
    def m(self) -> int:
        """Return the number of items."""
        return len(_cached(read_ratings, self.path).items)

    @property
    def max_grade(self) -> int:
        """Return the largest grade of the rule."""
        return parse_rule(self.rule).max_grade

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds, one person each."""
        return self.in_memory().rounds(n, rng)

    def in_memory(self) -> People:
        """Return the people of the file."""
        scores, counts, _ = _cached(read_ratings, self.path)
        if self.unrated is not None:
            scores = np.where(scores == self.unrated, np.nan, scores)
        elif len(scores) >= _PEOPLE and np.mean(scores == 0) > _MANY:
            warnings.warn(
                f"{self.path.name}: {np.mean(scores == 0):.0%} of all cells are 0; if 0 means unrated, use "
                f"ratings:path={self.path.name},unrated=0",
                stacklevel=2,
            )
        if self.complete:
            is_complete = ~np.isnan(scores).any(axis=1)
            scores, counts = scores[is_complete], counts[is_complete]
            if not len(scores):
                raise ValueError(f"{self.path.name}: with complete=true no people are left: none rated every item")
        return People(parse_rule(self.rule).grades(scores), counts, self.max_grade)


def _better(scores: Floats) -> Ints:
    """Count the items that the same person puts strictly above each item; missing ones come last."""
    losses = np.where(np.isnan(scores), np.inf, -scores)
    order = np.argsort(losses, axis=1, kind="stable")
    ordered = np.take_along_axis(losses, order, axis=1)
    above = np.broadcast_to(np.arange(scores.shape[1]), scores.shape).copy()
    above[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0  # items that tie have as many above them as their first
    counts = np.empty_like(above)
    np.put_along_axis(counts, order, np.maximum.accumulate(above, axis=1), axis=1)
    return counts


def _cached(read: Callable[[Path], Preferences], path: Path) -> Preferences:
    stat = path.stat()
    return _read(read, path.absolute(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(read: Callable[[Path], Preferences], path: Path, *_version: int) -> Preferences:
    """Read a file once for every version of it."""
    return read(path)
