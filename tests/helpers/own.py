"""Code as users write it: a measure, and a learner, of their own."""

MEASURE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from peekrank.measures import DCG, LinearMeasureMixin

@dataclass(frozen=True)
class Mine(LinearMeasureMixin):
    "Relevance over rank."
    name: ClassVar[str] = "mine"
    higher_is_better: ClassVar[bool] = True
    power: float = 1.0

    def discount(self, m):
        return np.arange(1.0, m + 1) ** -self.power

    def gain(self, relevance):
        return relevance.astype(np.float64)
"""

LEARNER = """
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from peekrank import kernel
from peekrank.types import Kernels

class State(NamedTuple):
    answers: np.ndarray
    first: int

@kernel
def _rank(s, X, uniforms, ranking, token):
    for i in range(len(ranking)):
        ranking[i] = (i + s.first) % len(ranking)

@kernel
def _update(s, X, ranking, token, feedback):
    s.answers[ranking[0]] += feedback[0]

@dataclass(frozen=True)
class Stubborn:
    "Show the items in one order, whatever the answers."
    first: int = 0
    name: ClassVar[str] = "stubborn"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank, _update)
    persistent: ClassVar[tuple[str, ...]] = ("answers",)

    def init(self, shape):
        return State(np.zeros(shape.m), self.first)

    def validate_state(self, state):
        if not np.isfinite(state.answers).all():
            raise ValueError("its answers must be finite")

    def scores(self, state, X):
        return state.answers

    def token_size(self, shape):
        return 1

    def n_uniforms(self, shape):
        return 0

    def transform_feedback(self, relevance):
        return relevance.astype(np.float64)

    def bound(self, shape, horizon):
        return None
"""
