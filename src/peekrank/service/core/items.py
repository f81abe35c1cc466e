"""The items of a slot: their names, which are the caller's, and their numbers, which the learner knows them by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from peekrank.types import Features, Ints

_RECENT = 100  # answers that the recent mean looks back on


class Item(Struct, array_like=True):
    """An item, and what became of it. It keeps its number for ever: should it come back, it is known."""

    name: str
    present: bool = True
    features: bytes = b""  # float32
    shown: int = 0  # lists with it among the first k
    answers: int = 0
    total: int = 0  # of the grades
    recent: float = 0.0  # mean grade of the last hundred answers or so


class Items:
    """All items that a slot has known, in order of their numbers.

    Parameters
    ----------
    known
        The items to begin with.

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
        """The number of an item; None if it was never known."""
        return self._numbers.get(name)

    def is_present(self, name: str) -> bool:
        """Whether an item is known and has not retired."""
        number = self._numbers.get(name)
        return number is not None and self.known[number].present

    def names(self, numbers: Sequence[int]) -> list[str]:
        """The names of numbers."""
        known = self.known
        return [known[number].name for number in numbers]

    def put(self, name: str, features: bytes = b"") -> int:
        """Make an item known, or have it back; its number."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.known)
            self.known.append(Item(name))
        item = self.known[number]
        item.present = True
        item.features = features or item.features
        self._present = None
        return number

    def retire(self, name: str) -> None:
        """Leave an item out from now on."""
        self.known[self._numbers[name]].present = False
        self._present = None

    @property
    def present(self) -> Ints:
        """Numbers of the items that have not retired, ascending; not to be written to."""
        if self._present is None:
            self._present = np.array([n for n, item in enumerate(self.known) if item.present], dtype=np.int64)
        return self._present

    def features(self, numbers: Ints, d: int) -> Features:
        """The features of some items, a row for each."""
        rows = b"".join([self.known[number].features for number in numbers.tolist()])
        return np.frombuffer(rows, dtype="<f4").reshape(len(numbers), d)

    def note_shown(self, numbers: Iterable[int]) -> None:
        """Count items that people are asked about."""
        for number in numbers:
            self.known[number].shown += 1

    def note_answer(self, number: int, grade: int) -> None:
        """Count an answer about an item."""
        item = self.known[number]
        item.answers += 1
        item.total += grade
        item.recent += (grade - item.recent) / min(item.answers, _RECENT)
