"""The items of a slot: callers know them by name, the learner by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from peekrank.types import Features, Ints

_RECENT = 100  # grades in the recent mean


class Item(Struct, array_like=True):
    """An item with its counts. It keeps its number forever, also while it is retired."""

    name: str
    present: bool = True
    features: bytes = b""  # float32
    shown: int = 0  # lists that had it among the first k
    n_feedback: int = 0
    total: float = 0.0  # sum of the grades
    recent: float = 0.0  # mean of roughly the last hundred grades
    score: float | None = None  # the app's
    group: str = ""  # empty if it has none


class Items:
    """All items that a slot has ever had, in the order of their numbers.

    Parameters
    ----------
    known
        Initial items.

    >>> items = Items([])
    >>> items.put("tea"), items.put("milk"), items.put("tea")
    (0, 1, 0)
    >>> items.retire("tea")
    >>> items.present
    array([1])
    """

    def __init__(self, known: Iterable[Item]) -> None:
        self.known = list(known)
        self._numbers = {item.name: number for number, item in enumerate(self.known)}
        self._present: Ints | None = None

    def __len__(self) -> int:
        return len(self.known)

    def number(self, name: str) -> int | None:
        """Return the number of an item, or None if it is unknown."""
        return self._numbers.get(name)

    def numbers(self, names: Sequence[str], added: Sequence[str]) -> list[int]:
        """Return the numbers of items, which are known or will be the next ones."""
        if not added:
            return [self._numbers[name] for name in names]
        new = {name: len(self.known) + n for n, name in enumerate(added)}
        return [new[name] if name in new else self._numbers[name] for name in names]

    def is_present(self, name: str) -> bool:
        """Check whether an item is known and not retired."""
        number = self._numbers.get(name)
        return number is not None and self.known[number].present

    def is_retired(self, name: str) -> bool:
        """Check whether an item is known and retired."""
        number = self._numbers.get(name)
        return number is not None and not self.known[number].present

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return the names of items."""
        known = self.known
        return [known[number].name for number in numbers]

    def put(self, name: str, features: bytes = b"", score: float = np.nan, group: str = "") -> int:
        """Add an item, or bring it back, and return its number. It keeps what it has where nothing is given."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.known)
            self.known.append(Item(name))
        item = self.known[number]
        item.present = True
        item.features = features or item.features
        item.score = item.score if np.isnan(score) else score
        item.group = group or item.group
        self._present = None
        return number

    def retire(self, name: str) -> None:
        """Retire an item."""
        self.known[self._numbers[name]].present = False
        self._present = None

    @property
    def present(self) -> Ints:
        """Numbers of the items that are not retired, ascending. Read-only."""
        if self._present is None:
            self._present = np.array([n for n, item in enumerate(self.known) if item.present], dtype=np.int64)
        return self._present

    def score(self, name: str) -> float:
        """Return the registered score of an item, or NaN."""
        number = self._numbers.get(name)
        score = None if number is None else self.known[number].score
        return np.nan if score is None else score

    def groups(self, numbers: Sequence[int]) -> list[str]:
        """Return the registered groups of items, an empty text for those without one and those that are new."""
        known = self.known
        if max(numbers, default=-1) < len(known):
            return [known[number].group for number in numbers]
        return [known[number].group if number < len(known) else "" for number in numbers]

    def features(self, numbers: Ints, d: int) -> Features:
        """Return the features of items, one row each."""
        rows = b"".join([self.known[number].features for number in numbers.tolist()])
        return np.frombuffer(rows, dtype="<f4").reshape(len(numbers), d)

    def count_shown(self, numbers: Iterable[int]) -> None:
        """Count items among the first k of a list."""
        for number in numbers:
            self.known[number].shown += 1

    def count_grade(self, number: int, grade: float) -> None:
        """Count a grade of an item."""
        item = self.known[number]
        item.n_feedback += 1
        item.total += grade
        item.recent += (grade - item.recent) / min(item.n_feedback, _RECENT)
