"""A stream with a single relevant item per round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank import Rounds, fixed_items


@dataclass(frozen=True)
class OneHot:
    """One relevant item per round, lower numbers more often."""

    m: int = 5
    name: ClassVar[str] = "one-hot"
    d: ClassVar[int] = 0
    max_grade: ClassVar[int] = 1

    def rounds(self, n: int, rng: np.random.Generator) -> Rounds:
        """Draw n rounds."""
        probabilities = np.arange(self.m, 0, -1) / (self.m * (self.m + 1) / 2)
        return fixed_items(np.eye(self.m, dtype=np.uint8)[rng.choice(self.m, size=n, p=probabilities)])
