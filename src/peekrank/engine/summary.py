"""What an agent believes, as a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank.types import Floats, Ints


class Summary(NamedTuple):
    """What is believed of each item, or each feature's weight, and from how many answers."""

    label: str  # "item" or "feature"
    estimate: Floats  # scores of the items, the larger the better, or weights of the features
    n_feedback: Ints  # about each item, or in all

    def __str__(self) -> str:
        """A line for each item, the best first, or for each feature."""
        positions = np.arange(len(self.estimate))
        ordered = np.argsort(-self.estimate, kind="stable") if self.label == "item" else positions
        lines = [f"{self.label:>8} {'estimate':>12} {'feedback':>10}"]
        lines += [f"{i:>8} {self.estimate[i]:>12.5g} {self.n_feedback[i]:>10,}" for i in ordered]
        return "\n".join(lines)
