"""The vocabulary: array aliases, the records that travel, and what a learner, a measure and a stream are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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


class ClickProbabilities(NamedTuple):
    """What people who go through a list from the top do at each position.

    They click with a probability that rises with relevance, and after a click they go on with another.
    """

    if_relevant: Floats  # probability of a click on what is relevant
    if_irrelevant: Floats  # and on what is not
    continuation: Floats


class ClickFeedback(NamedTuple):
    """Those who see lists and click, instead of telling grades, and what a learner is told of it: 0, 1 or nothing.

    The round with number n draws its luck from `key` and n alone, whoever ranks.
    """

    habits: ClickProbabilities
    max_feedback: float  # the grade of what is fully relevant
    p_one_without_click: Floats  # probability that a position without a click is told as 1
    p_one_with_click: Floats  # and that one with a click is
    cascade: bool  # whether nothing is told of the positions below the last click
    key: int


class Rounds(NamedTuple):
    """What happens, round by round: round t is rows ``offsets[t]:offsets[t + 1]`` of features and relevance.

    Where items come and go, `items` tells which item each row is, ascending within a round. Where there are
    `visitors`, learners are told what is made of their clicks; else the relevance itself.
    """

    features: Features
    relevance: Grades
    offsets: Ints
    items: Ints | None = None
    visitors: ClickFeedback | None = None


class Decision(NamedTuple):
    """A ranking that was shown, with all its learner needs to use the answer, whenever that comes.

    ``propensities[i]`` is the probability that item i came to be among the first k in this round, given the past
    (not given this round's draw): what estimates from logged answers are divided by. None where the learner cannot
    say.

    Where only some items were available, `items` holds these in ascending order, the ranking is one of them, and
    ``propensities[i]`` is that of ``items[i]``. `round` counts the rankings of the agent that made it, from 1.
    """

    features: Features
    ranking: Ints
    token: Floats
    propensities: Floats | None = None
    items: Ints | None = None
    round: int = 0

    @property
    def explored(self) -> bool:
        """Whether the round was spent on exploration."""
        return bool(self.token[0] > 0)


class Trace(NamedTuple):
    """What a run came to after each of the round counts ``checkpoints``: summed value and number of rounds explored."""

    checkpoints: Ints
    value: Floats
    explored: Ints


class Kernels(NamedTuple):
    """The compiled functions of a learner; ``rank`` fills ranking and token, ``update`` sees k numbers.

    The randomness of a round is ``uniforms``: a fixed number of draws from [0, 1), which makes kernels pure
    functions. In ``feedback`` NaN means "not answered". By convention ``token[0]`` is 1 in a round spent on
    exploration and 0 otherwise; all of a token is finite.

    ``propensities(state, X, ranking, token, out)`` is for learners that know how likely each item was to be seen.
    It is called directly after ``rank``, leaves the state as it is, and fills ``out`` with the probability of each
    item to be among the first k given the past, or with NaN where that cannot be said at present.

    ``set_items(state, items)`` is for learners that know items one by one, and so can rank any of them. It is called
    before ``rank`` and before ``update`` with the item that each row of the list is, ascending. The other kernels
    deal in rows, as ever. Such a learner's tokens have the same size for every m, a list of n items takes
    ``n_uniforms`` of n, and the arrays of its memory have more entries, and the same first ones, for a larger m: items
    can be added.

    ``off_policy(state, X, ranking, propensities, token)`` is for learners that can learn from what somebody else
    showed. It is called after ``rank`` of the same list, and turns the token of that call into the one that
    ``update`` needs for another ranking, given the probability of each item to have been among its first k. A
    learner's own ranking with its own propensities leaves the token as it is, or as one from which as much is
    learned in expectation.

    ``exploit(state, X, ranking, token)`` and ``explore(state, X, uniforms, ranking, token)`` are the two halves of
    ``rank``, for learners that can be one of several (see champion): the first fills the order that is best by
    what is believed now, which is no matter of chance, and the second turns it into what is shown. A learner that
    is not in charge of a round gets no further than ``exploit``.

    `counts_rounds` tells that ``rank`` changes what is remembered, if only a count of rounds: such a learner cannot be
    rebuilt from answers alone.
    """

    rank: Callable[[State, Features, Floats, Ints, Floats], None]
    update: Callable[[State, Features, Ints, Floats, Floats], None]
    propensities: Callable[[State, Features, Ints, Floats, Floats], None] | None = None
    set_items: Callable[[State, Ints], None] | None = None
    counts_rounds: bool = False
    off_policy: Callable[[State, Features, Ints, Floats, Floats], None] | None = None
    exploit: Callable[[State, Features, Ints, Floats], None] | None = None
    explore: Callable[[State, Features, Floats, Ints, Floats], None] | None = None


@runtime_checkable
class Learner(Protocol):
    """A frozen dataclass of hyper-parameters with two kernels."""

    name: ClassVar[str]

    @property
    def contextual(self) -> bool:
        """Whether it uses features of items."""
        ...

    @property
    def variable_length(self) -> bool:
        """Whether lists may differ in length: it keeps nothing about single items."""
        ...

    @property
    def persistent(self) -> tuple[str, ...]:
        """Arrays of the state that are saved, as in "scores" or "space.order"."""
        ...

    @property
    def kernels(self) -> Kernels:
        """The compiled functions: always the same ones for equal learners."""
        ...

    @property
    def full_information(self) -> bool:
        """Whether it sees all positions, whatever k is."""
        ...

    @property
    def min_k(self) -> int:
        """The smallest k it can learn from."""
        ...

    @property
    def max_grade(self) -> int:
        """The largest grade it can be told; 255 is the largest there is."""
        ...

    @property
    def horizon(self) -> int | None:
        """Rounds it is tuned for; None if it needs no such number."""
        ...

    @property
    def measure(self) -> Any:
        """The measure or game it is tuned for; None if it does not depend on one."""
        ...

    def init(self, shape: Shape) -> State:
        """Make the state before the first round; raise ValueError if this learner does not fit the shape."""
        ...

    def validate_state(self, state: State) -> None:
        """Raise ValueError if the kernels cannot work on a state read from a file.

        The arrays of `persistent` may hold any numbers; `init` made everything else.
        """
        ...

    def scores(self, state: State, X: Features) -> Floats:
        """What is believed of each item now, the larger the better; zeros if nothing is."""
        ...

    def token_size(self, shape: Shape) -> int:
        """How many numbers a decision carries until its feedback comes; at least one."""
        ...

    def n_uniforms(self, shape: Shape) -> int:
        """How many uniforms a round takes."""
        ...

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """What the learner makes of revealed relevance, element by element; NaN stays NaN."""
        ...

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Bound on the expected regret, tuned for and measured after `horizon` rounds; None: none is known."""
        ...


def missing_members(learner: object) -> list[str]:
    """What a value lacks to be a learner, in the order of `Learner`.

    >>> missing_members("rtop1f")[:3]
    ['name', 'contextual', 'variable_length']
    """
    members = [*Learner.__annotations__, *vars(Learner)]
    return [name for name in members if not name.startswith("_") and not hasattr(learner, name)]


@runtime_checkable
class StochasticBound(Protocol):
    """A learner with a theorem for stable relevance: drawn in each round from the same distribution."""

    def stochastic_bound(self, shape: Shape, horizon: int) -> float | None:
        """Bound on the expected regret where relevance is stable; None where the theorem does not apply."""
        ...


@runtime_checkable
class CanFail(Protocol):
    """A learner whose state can become one that nothing is learned from."""

    def failure(self, state: State) -> str:
        """Why the learner has stopped learning; empty while it is healthy."""
        ...


@runtime_checkable
class LinearScorer(Protocol):
    """A learner that scores an item by a weighted sum of its features."""

    def weights(self, state: State) -> Features:
        """The weight of each feature."""
        ...


@runtime_checkable
class ExpandsFeatures(Protocol):
    """A learner that can add columns to the features; its weights are then of all columns, features first."""

    @property
    def expand(self) -> int:
        """How many it adds at most."""
        ...


class HasAgent(Protocol):
    """Something that holds a trained agent, such as a model."""

    @property
    def agent(self) -> bytes:
        """What `Agent.dump` gave; empty if there is none."""
        ...


def linear_in_features(learner: object) -> bool:
    """Whether a learner's weights, one for each feature, say all about its scores."""
    return isinstance(learner, LinearScorer) and not (isinstance(learner, ExpandsFeatures) and learner.expand > 0)


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
class Cutoff(Protocol):
    """A measure that can be told to look at the first n positions only."""

    @property
    def cutoff(self) -> int | None:
        """How many positions count; None: all."""
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


@runtime_checkable
class FileBacked(Protocol):
    """A stream whose rounds are read from a file."""

    @property
    def path(self) -> Path:
        """Where the file is."""
        ...
