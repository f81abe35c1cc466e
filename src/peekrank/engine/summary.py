"""What an agent believes, as a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank.types import Floats, Ints


class Summary(NamedTuple):
    """What is believed of each item, or each feature's weight, and from how many answers."""

    what: str  # "item" or "feature"
    believed: Floats  # scores of the items, the larger the better, or weights of the features
    answers: Ints  # about each item, or in all

    def __str__(self) -> str:
        """A line for each item, the best first, or for each feature."""
        positions = np.arange(len(self.believed))
        ordered = np.argsort(-self.believed, kind="stable") if self.what == "item" else positions
        lines = [f"{self.what:>8} {'believed':>12} {'answers':>10}"]
        lines += [f"{i:>8} {self.believed[i]:>12.5g} {self.answers[i]:>10,}" for i in ordered]
        return "\n".join(lines)
