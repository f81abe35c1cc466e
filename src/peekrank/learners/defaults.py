"""Members that a learner of your own need not write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peekrank.types import Features, Floats, Shape


class LearnerDefaults:
    """Members of a learner of a fixed set of items, without features, bound or horizon.

    A subclass needs `name`, `kernels`, `persistent` and `init`, and replaces whatever else does not fit.

    - `scores` is the state's array ``scores``, or zeros if it has none.
    - `token_size` is 1, for the explored mark, and `n_uniforms` is m: one to decide and m - 1 to shuffle.
    - `transform_feedback` returns the grades, and `bound` None.
    - `validate_state` accepts saved arrays that are finite, and not negative if they are integers. Check more if
      kernels use saved numbers as indices.
    """

    contextual: bool = False  # uses no features of items ...
    variable_length: bool = False  # ... and keeps something for each of a fixed set of them
    full_information: bool = False
    min_k: int = 1
    max_grade: int = 255  # accepts all grades
    horizon: int | None = None  # is not tuned to a number of rounds ...
    measure: Any = None  # ... or to a measure
    persistent: tuple[str, ...] = ()

    def validate_state(self, state: Any) -> None:
        """Raise ValueError if a saved array holds NaN, an infinity or a negative integer."""
        for name in self.persistent:
            array: Any = state
            for part in name.split("."):
                array = getattr(array, part)
            if not np.isfinite(array).all() or (array.dtype.kind == "i" and array.min(initial=0) < 0):
                raise ValueError(f"its {name} must be finite, and not negative if they are integers")

    def scores(self, state: Any, X: Features) -> Floats:
        """Return the state's scores, or zeros."""
        found: Floats | None = getattr(state, "scores", None)
        return np.zeros(len(X)) if found is None else found

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return the number of items."""
        return shape.m

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the grades unchanged."""
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return None: no bound is known."""
        return None
