"""`Summary`: an agent's current estimates as a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank.types import Floats, Ints


class Summary(NamedTuple):
    """Current estimate for each item, or weight of each feature, with the number of answers behind it."""

    label: str  # "item" or "feature"
    estimate: Floats  # scores of the items, larger is better, or weights of the features
    n_feedback: Ints  # answers per item, or in total

    def __str__(self) -> str:
        """Return a line for each item, best first, or for each feature."""
        rows = np.arange(len(self.estimate))
        order = np.argsort(-self.estimate, kind="stable") if self.label == "item" else rows
        lines = [f"{self.label:>8} {'estimate':>12} {'feedback':>10}"]
        lines += [f"{i:>8} {self.estimate[i]:>12.5g} {self.n_feedback[i]:>10,}" for i in order]
        return "\n".join(lines)
