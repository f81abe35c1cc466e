"""Settings of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from peekrank._util.text import shown
from peekrank._util.validate import check_choice, check_int, check_open_unit
from peekrank.evaluation.comparison.designs import Design
from peekrank.evaluation.evaluation import DESIGNED
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Floats, LinearMeasure, Measure

Mode = Literal["union", "coin"]
Regression = Literal["items", "mean"]
_LONGEST = 2**24
MAX_GRADE = 30


@dataclass(frozen=True)
class Settings:
    """Settings of a `Comparison`, whose parameters they are."""

    measure: Measure
    k: int
    mode: Mode = "union"
    outside: float = 0.0
    examination: tuple[float, ...] = ()
    max_feedback: int = 1
    partial: bool = False
    regression: Regression = "items"
    alpha: float = 0.05
    seed: int = 0
    max_open: int = 10_000

    def __post_init__(self) -> None:
        check_int("max_feedback", self.max_feedback, 1, MAX_GRADE)
        learnable(self.measure, self.max_feedback)
        check_int("k", self.k, 1, _LONGEST)
        check_choice("mode", self.mode, Mode)
        check_choice("regression", self.regression, Regression)
        check_open_unit("alpha", self.alpha)
        check_int("seed", self.seed, 0, 2**63 - 1)
        check_int("max_open", self.max_open, 1, _LONGEST)
        if not (type(self.outside) in (int, float) and 0 <= self.outside < self.k):
            raise ValueError(f"outside = {shown(self.outside)}: must be a number of positions from 0 to below k")
        if self.outside > 0 and (self.mode == "coin" or self.examination):
            raise ValueError("outside: only lists of mode = 'union' with answers can show items from outside")
        if not isinstance(self.partial, bool):
            raise ValueError(f"partial = {shown(self.partial)}: must be True or False")
        self._check_examination()

    def _check_examination(self) -> None:
        curve = self.examination
        if not curve:
            return
        numbers = all(type(part) in (int, float) and 0 < part <= 1 for part in curve)
        if not numbers or len(curve) != self.k or any(np.diff(curve) > 0):
            raise ValueError(
                f"examination = {shown(curve)}: must be k = {self.k} probabilities above 0 that do not increase, "
                "as in (1.0, 0.5, 0.33)"
            )
        if self.max_feedback > 1 or self.partial:
            raise ValueError("examination is for clicks: max_feedback must be 1, and partial False")

    @property
    def design(self) -> Design:
        """Return the configuration of the kernels."""
        return Design(self.k, self.mode == "union", bool(self.examination), float(self.outside))

    @property
    def linear(self) -> LinearMeasure:
        """Return the measure."""
        return learnable(self.measure, self.max_feedback)

    @property
    def name(self) -> str:
        """Return the settings as the column `learner` of a log has them."""
        more = f",outside={self.outside:g}" if self.outside else ""
        more += ",clicks" if self.examination else ""
        return f"{DESIGNED}measure={self.measure},k={self.k},mode={self.mode}{more}"

    def gains(self) -> Floats:
        """Return the gain of each grade, from 0."""
        gains = self.linear.gain(np.arange(self.max_feedback + 1.0))
        return np.asarray(gains - gains.min(), np.float64)

    def weights(self, n: int) -> Floats:
        """Return the weight of each position of a list of n items. Raises ValueError if answers cannot decide.

        >>> from peekrank import DCG
        >>> Settings(DCG(2), k=2).weights(3).round(2)
        array([1.  , 0.63, 0.  ])
        >>> Settings(DCG(), k=2).weights(4)
        Traceback (most recent call last):
        ValueError: dcg distinguishes positions below k = 2, ... use dcg@2, or outside > 0
        """
        weights = np.asarray(self.linear.discount(n), np.float64)
        below = weights[self.k :]
        if self.outside == 0 and (below != below[:1]).any():
            raise ValueError(
                f"{self.measure} distinguishes positions below k = {self.k}, about which nobody answers; use "
                f"{self.measure.name}@{self.k}, or outside > 0"
            )
        return weights

    def theta(self, n: int) -> Floats:
        """Return the probability that each position of a list of n items is looked at."""
        theta = np.zeros(n)
        theta[: self.k] = self.examination[:n] if self.examination else 1.0
        return theta

    def as_json(self) -> dict[str, Any]:
        """Return the settings in types that JSON has."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"measure": str(self.measure), "examination": list(self.examination)}

    @classmethod
    def from_json(cls, values: object) -> Settings:
        """Return settings from untrusted JSON. Raises ValueError if they are invalid."""
        if not isinstance(values, dict) or values.keys() != {field.name for field in fields(cls)}:
            raise ValueError("its settings are not those of a comparison")
        text, curve = values["measure"], values["examination"]
        if not isinstance(text, str) or not isinstance(curve, list):
            raise ValueError("its measure must be a text, and its examination a list")
        return cls(**{**values, "measure": measure_named(text), "examination": tuple(curve)})
