"""Synthetic relevance of items that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from peekrank._util.validate import check_choice, check_int
from peekrank.streams.fixed import row_chunks
from peekrank.types import Floats, Grades, Ints, Rounds

Rule = Literal["random", "blocks", "rare", "churn", "joining", "replaced"]
_LOW, _HIGH = 0.05, 0.9  # probabilities of the worst and the best item


@dataclass(frozen=True)
class Available:
    """Independent Bernoulli relevance of m items, of which n are available in each round.

    The items are relevant with probabilities evenly spaced from 0.05 to 0.9, assigned at random. The rule decides
    which items are available:

    - ``random``: n items drawn for each round.
    - ``blocks``: n items drawn for each of 100 equal parts of the rounds.
    - ``rare``: n items drawn for each round, the better ones more rarely: with weights 1 - probability.
    - ``churn``: n items at first; at equal intervals, until all m have been available, a new item replaces one of
      them, drawn at random, for good.
    - ``joining``: n items at first; after half of the rounds all others join them, including the best of all.
    - ``replaced``: n items at first; after half of the rounds m - n of them, drawn at random, are replaced.

    >>> Available(m=4, n=2, rule="churn").rounds(3, np.random.default_rng(0)).items.reshape(3, 2)
    array([[0, 1],
           [1, 2],
           [2, 3]])

    Parameters
    ----------
    m
        Number of items that are ever available, at least 2.
    n
        Number of items available in a round, for ``joining`` in the first half; from 1 to m.
    rule
        Which items are available when.
    grade
        Grade of a relevant item, from 1 to 255.
    """

    name: ClassVar[str] = "available"
    d: ClassVar[int] = 0
    m: int = 50
    n: int = 10
    rule: Rule = "random"
    grade: int = 1

    def __post_init__(self) -> None:
        check_int("m", self.m, 2)
        check_int("n", self.n, 1, self.m)
        check_choice("rule", self.rule, Rule)
        check_int("grade", self.grade, 1, 255)
        if self.rule == "replaced" and self.m > 2 * self.n:
            raise ValueError(
                f"m = {self.m}: must be at most 2 n = {2 * self.n}, because each item can be replaced once"
            )

    @property
    def max_grade(self) -> int:
        """Return the grade of a relevant item."""
        return self.grade

    def means(self, rng: Generator) -> Floats:
        """Draw the probability of each item to be relevant, as `rounds` does first."""
        means = rng.permutation(np.linspace(_HIGH, _LOW, self.m))
        if self.rule == "joining" and self.n < self.m:
            best = int(means.argmax())
            means[[best, -1]] = means[[-1, best]]
        return means

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        check_int("n", n, 1)
        means = self.means(rng)
        if self.rule == "joining":
            late = n // 2
            items = np.append(np.tile(np.arange(self.n), n - late), np.tile(np.arange(self.m), late))
            lengths = np.repeat([self.n, self.m], [n - late, late])
        else:
            items, lengths = self._lists(n, means, rng).reshape(-1), np.full(n, self.n)
        offsets = np.append(0, np.cumsum(lengths))
        features, grades = np.empty((len(items), 0), np.float32), self._grades(items, means, rng)
        return Rounds(features, grades, offsets, items, tails=lambda _: (means,) * self.grade)

    def _lists(self, n: int, means: Floats, rng: Generator) -> Ints:
        """Draw the items of each round, a row of n ascending numbers."""
        t = np.arange(n)
        if self.rule == "churn":
            return self._turns(self.m - self.n, rng)[t * (self.m - self.n + 1) // n]
        if self.rule == "replaced":
            return self._turns(self.m - self.n, rng)[[0, -1]][(t >= n - n // 2).astype(np.int64)]
        if self.rule == "blocks":
            return self._draw(min(n, 100), np.ones(self.m), rng)[t * min(n, 100) // n]
        return self._draw(n, 1 - means if self.rule == "rare" else np.ones(self.m), rng)

    def _turns(self, count: int, rng: Generator) -> Ints:
        """Draw the items at first and after each of `count` replacements; `replaced` never replaces a new item."""
        present, turns = np.arange(self.n), [np.arange(self.n)]
        for item in range(self.n, self.n + count):
            old = present < self.n if self.rule == "replaced" else np.ones(self.n, dtype=np.bool_)
            present = np.sort(np.append(np.delete(present, rng.choice(np.flatnonzero(old))), item))
            turns.append(present)
        return np.array(turns)

    def _draw(self, count: int, weights: Floats, rng: Generator) -> Ints:
        """Draw n items without replacement `count` times: those whose exponential clocks ring first."""
        lists = np.empty((count, self.n), dtype=np.int64)
        for rows in row_chunks(count, self.m):
            clocks = rng.standard_exponential((rows.stop - rows.start, self.m)) / weights
            lists[rows] = np.sort(np.argpartition(clocks, self.n - 1, axis=1)[:, : self.n], axis=1)
        return lists

    def _grades(self, items: Ints, means: Floats, rng: Generator) -> Grades:
        grades = np.empty(len(items), np.uint8)
        for rows in row_chunks(len(items), 1):
            relevant = rng.random(rows.stop - rows.start) < means[items[rows]]
            grades[rows] = relevant * np.uint8(self.grade)
        return grades
