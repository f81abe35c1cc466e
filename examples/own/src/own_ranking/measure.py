"""A measure that discounts by the rank itself."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from peekrank.measures import LinearMeasureMixin
from peekrank.types import Floats


@dataclass(frozen=True)
class ReciprocalDiscount(LinearMeasureMixin):
    """Relevance over rank, summed over the list."""

    power: float = 1.0
    name: ClassVar[str] = "rd"
    higher_is_better: ClassVar[bool] = True

    def discount(self, m: int) -> Floats:
        """Return the weight of each position."""
        return np.asarray(np.arange(1.0, m + 1) ** -self.power)

    def gain(self, relevance: np.ndarray[Any, Any]) -> Floats:
        """Return the weight of each item."""
        return relevance.astype(np.float64)
