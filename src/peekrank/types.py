"""The vocabulary: array aliases, the records that travel, and what a learner, a measure and a stream are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Grades = NDArray[np.uint8]
Features = NDArray[np.float32]
State = Any  # a NamedTuple: its scalars are constants, its arrays are memory


class Shape(NamedTuple):
    """Size of a problem: items in the longest list, features of an item (0: no context), revealed positions."""

    m: int
    d: int
    k: int


class Rounds(NamedTuple):
    """What happens, round by round: round t is rows ``offsets[t]:offsets[t + 1]`` of features and relevance."""

    features: Features
    relevance: Grades
    offsets: Ints


class Decision(NamedTuple):
    """A ranking that was shown, with all its learner needs to use the answer, whenever that comes."""

    features: Features
    ranking: Ints
    token: Floats


class Trace(NamedTuple):
    """What a run came to after each of the round counts ``at``: summed value and number of rounds explored."""

    at: Ints
    value: Floats
    explored: Ints


class Kernels(NamedTuple):
    """The two compiled functions of a learner; ``rank`` fills ranking and token, ``update`` sees k numbers.

    The randomness of a round is ``uniforms``: a fixed number of draws from [0, 1), which makes kernels pure
    functions. In ``feedback`` NaN means "not answered". By convention ``token[0]`` is 1 in a round spent on
    exploration and 0 otherwise.
    """

    rank: Callable[[State, Features, Floats, Ints, Floats], None]
    update: Callable[[State, Features, Ints, Floats, Floats], None]


@runtime_checkable
class Learner(Protocol):
    """A frozen dataclass of hyper-parameters with two kernels."""

    name: ClassVar[str]
    contextual: ClassVar[bool]
    kernels: ClassVar[Kernels]

    @property
    def full_information(self) -> bool:
        """Whether it sees all positions, whatever k is."""
        ...

    @property
    def min_k(self) -> int:
        """The smallest k it can learn from."""
        ...

    def init(self, shape: Shape) -> State:
        """Make the state before the first round; raise ValueError if this learner does not fit the shape."""
        ...

    def token_size(self, shape: Shape) -> int:
        """How many numbers a decision carries until its feedback comes; at least one."""
        ...

    def draws(self, shape: Shape) -> int:
        """How many uniforms a round takes."""
        ...

    def perceive(self, relevance: NDArray[Any]) -> Floats:
        """What the learner makes of revealed relevance, element by element; NaN stays NaN."""
        ...

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Bound on the expected regret, tuned for and measured after `horizon` rounds; None: none is known."""
        ...


@runtime_checkable
class Measure(Protocol):
    """A frozen dataclass with a name that round-trips: ``measure(str(x)) == x``."""

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]

    def __hash__(self) -> int: ...

    def values(self, rankings: Ints, relevance: NDArray[Any]) -> Floats:
        """Value of each row's ranking against the same row's relevance; NaN where the measure skips the list."""
        ...


@runtime_checkable
class LinearMeasure(Measure, Protocol):
    """A measure of the form ``offset(R) + discount(m) @ gain(R)[ranking]``."""

    separable: ClassVar[bool]  # gain works item by item: what top-k feedback can estimate

    def linear(self, max_grade: int) -> bool:
        """Whether the form holds for grades 0..max_grade."""
        ...

    def discount(self, m: int) -> Floats:
        """Weight of each position, first position first."""
        ...

    def gain(self, relevance: NDArray[Any]) -> Floats:
        """Weight of each item; the last axis runs over the items of a list."""
        ...

    def offset(self, relevance: NDArray[Any]) -> Floats:
        """What a list adds whatever its order; NaN where the measure skips the list."""
        ...


@runtime_checkable
class Stream(Protocol):
    """A source of rounds over a fixed set of m items or of lists with d features."""

    name: ClassVar[str]

    @property
    def m(self) -> int:
        """Items in the longest list."""
        ...

    @property
    def d(self) -> int:
        """Features of an item; 0 without context."""
        ...

    @property
    def max_grade(self) -> int:
        """The largest relevance grade that can occur."""
        ...

    def rounds(self, n: int, rng: np.random.Generator) -> Rounds:
        """Draw n rounds."""
        ...
