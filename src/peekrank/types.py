"""Shared types: array aliases, records such as `Rounds` and `Decision`, and the protocols that classes implement.

Start with `Rounds`, `Decision`, `Learner`, `Measure` and `Stream`. The other protocols, such as `Cutoff` or
`LinearScorer`, are optional capabilities that the package looks up with ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Grades = NDArray[np.uint8]
Features = NDArray[np.float32]
Tails = Callable[[Ints], Iterable[Floats]]  # of the relevance in given rounds, see `Rounds.tails`
LARGEST_FEATURE = 1e15  # squares of products of two such features fit in float64, their squares in float32
LARGEST_VERSION = 2**40  # of a score
RegretKind = Literal["static", "pseudo", "dynamic", "none"]  # what regret compares with, see `best_values`
State = Any  # the state of a learner: a NamedTuple of constants (scalars) and of arrays that kernels update


class Shape(NamedTuple):
    """Size of a ranking problem."""

    m: int  # items in the longest list
    d: int  # features of an item; 0 without context
    k: int  # positions, from the top, whose relevance is revealed


class ClickProbabilities(NamedTuple):
    """Click model: the behaviour, at each position, of a user who reads a list from the top.

    The probability of a click is linear in the relevance, between the two ends given here.
    """

    if_relevant: Floats  # probability of a click on a fully relevant item
    if_irrelevant: Floats  # probability of a click on an irrelevant item
    continuation: Floats  # probability of reading on after a click


class ClickFeedback(NamedTuple):
    """Simulated users who click, and the rule that turns clicks into feedback: 0, 1 or NaN instead of a grade.

    Round n draws its random numbers from `key` and n alone, so they do not depend on the ranking.
    """

    habits: ClickProbabilities
    max_feedback: float  # grade of a fully relevant item
    p_one_without_click: Floats  # probability that the feedback is 1 at a position without a click
    p_one_with_click: Floats  # probability that the feedback is 1 at a position with a click
    cascade: bool  # whether positions below the last click give no feedback
    key: int


class Rounds(NamedTuple):
    """Features and relevance of a sequence of rounds: round t has rows ``offsets[t]:offsets[t + 1]`` of both.

    If items come and go, `items` holds the item number of each row, ascending within a round. With `visitors`,
    learners get feedback derived from clicks; without, they get the relevance itself. `scores` holds the app's
    score of each row, NaN if it is missing, and `keys` the key of each round, -1 for none; learners without
    `Kernels.set_scores` or `Kernels.set_key` ignore them. If the stream knows the distribution of the relevance,
    ``tails(t)`` yields P(R_t >= g) for g = 1, 2, ... in turn, with a column for each item and, if it changes, a
    row for each of the rounds t.
    """

    features: Features
    relevance: Grades
    offsets: Ints
    items: Ints | None = None
    visitors: ClickFeedback | None = None
    scores: Floats | None = None
    keys: Ints | None = None
    tails: Tails | None = None


class Applied(NamedTuple):
    """Effects of `peekrank.engine.rules` on a list."""

    pins: tuple[tuple[int, int], ...]  # position (from 1) and item, of the pins that had an effect
    groups: Ints | None  # of the items, in the order of the app's list
    relaxed: int  # positions at which a limit could not be met
    followed: float  # share of the learner's order that the leash allowed


class Decision(NamedTuple):
    """A ranking to show, with everything the learner needs to use the feedback, however late it arrives.

    ``propensities[i]`` is the probability that item i is among the first k of this round, given the past but not
    this round's random draw. Off-policy estimates divide by it. It is None if the learner cannot compute it.

    If only some items were available, `items` holds them in ascending order, `ranking` permutes them, and
    ``propensities[i]`` belongs to ``items[i]``. `round` is the agent's number of rankings so far, from 1. `key` is
    the key of the list, and `listed` holds the rows in the order in which the app gave them, with `scores` in the
    same order, if there were scores. `applied` says what rules did, if there were rules. `version` is that of the
    scores.
    """

    features: Features
    ranking: Ints
    token: Floats
    propensities: Floats | None = None
    items: Ints | None = None
    round: int = 0
    key: int | None = None
    scores: Floats | None = None
    listed: Ints | None = None
    applied: Applied | None = None
    version: int | None = None

    @property
    def explored(self) -> bool:
        """Return whether the learner explored in this round."""
        return bool(self.token[0] > 0)


class Trace(NamedTuple):
    """Cumulative result of a run after each number of rounds in `checkpoints`."""

    checkpoints: Ints
    value: Floats  # sum of the measure so far
    explored: Ints  # number of exploration rounds so far


class Kernels(NamedTuple):
    """The compiled functions of a learner. Only `rank` and `update` are required.

    ``rank(state, X, uniforms, ranking, token)`` fills the ranking to show and the token that the decision carries
    until its feedback arrives. All randomness comes from `uniforms`, a fixed number of draws from [0, 1). All
    entries of a token are finite; by convention ``token[0]`` is 1 if the learner explores in this round, else 0.

    ``update(state, X, ranking, token, feedback)`` learns from the feedback on the first k items of the ranking.
    NaN means that there was no feedback on an item.

    ``propensities(state, X, ranking, token, out)`` fills `out` with the probability of each item to be among the
    first k given the past, or with NaN if the learner cannot compute it at present. It is called directly after
    ``rank`` and must not change the state.

    ``set_items(state, items)`` is for learners that store statistics per item and so can rank any subset of them.
    It is called before ``rank`` and before ``update`` with the item number of each row of the list, ascending. The
    other kernels work on rows. The token size of such a learner does not depend on m, and a list of n items needs
    as many uniforms as ``n_uniforms`` gives for n. A larger m only appends entries to its persistent arrays, which
    allows adding items.

    ``set_key(state, key)`` is for learners that learn per key, such as a query, a tenant or a segment. It is
    called before ``rank`` and before ``update`` with a number from 0, or -1 if the list has no key.

    ``set_scores(state, scores, listed)`` is for learners that start from a score. It is called before ``rank``
    with the score of each row, NaN if it is missing, and with the rows in the order of the app's
    list. Without scores, the array is empty. Scores are float64 and may be infinite, unlike features.

    ``renew_score(state, version)`` is for such learners too. It is called before ``set_scores`` if the app says
    which version of its score a list has. A version above all earlier ones means that the score's scale and worth
    are not known any more.

    ``off_policy(state, X, ranking, propensities, token)`` is for learners that can learn from a ranking chosen by
    another policy. It is called after ``rank`` of the same list and replaces the token of that call by the one
    that ``update`` needs for the other ranking, given the propensities of that policy. If ranking and propensities
    are the learner's own, the new token must lead to the same update in expectation.

    ``exploit(state, X, ranking, token)`` and ``explore(state, X, uniforms, ranking, token)`` are the two halves of
    ``rank``, for learners that can be members of a champion. The first fills the best order by the current
    estimates and is deterministic; the second turns it into the ranking to show. Members that are not the champion
    of a round call only ``exploit``.

    ``mixture(state, X, first, target, probs)`` and ``component(state, position, upto, ranking)`` are for learners
    that show the best list or, with some probability, a list that explores one item. `peekrank.engine.rules` needs
    them, and ``off_policy``. The first is called after ``rank`` and fills in the probability of exploring the item
    at each position from `first` on, priced for moving it up to position `target` (from 0, below `first`), and 0
    before. For k and k - 1 these are the probabilities of ``rank``. The second fills in the list that explores the
    item at `position`, which it puts at position k - 1, or the best list for -1; at least its first `upto`
    positions. It returns True if each list is the best one with this item moved up and all others in their order.

    `counts_rounds` says that ``rank`` changes the persistent state, if only by counting rounds. Such a learner
    cannot be rebuilt from feedback alone.

    `inline` says that loops over many rounds inline all kernels. This saves up to a third of the time of a short
    round. With a hundred kernels it saves a tenth, and compiling takes twice as long.
    """

    rank: Callable[[State, Features, Floats, Ints, Floats], None]
    update: Callable[[State, Features, Ints, Floats, Floats], None]
    propensities: Callable[[State, Features, Ints, Floats, Floats], None] | None = None
    set_items: Callable[[State, Ints], None] | None = None
    counts_rounds: bool = False
    off_policy: Callable[[State, Features, Ints, Floats, Floats], None] | None = None
    exploit: Callable[[State, Features, Ints, Floats], None] | None = None
    explore: Callable[[State, Features, Floats, Ints, Floats], None] | None = None
    set_key: Callable[[State, int], None] | None = None
    set_scores: Callable[[State, Floats, Ints], None] | None = None
    mixture: Callable[[State, Features, int, int, Floats], None] | None = None
    component: Callable[[State, int, int, Ints], bool] | None = None
    renew_score: Callable[[State, int], None] | None = None
    inline: bool = True


@runtime_checkable
class Learner(Protocol):
    """A learning algorithm: a frozen dataclass of hyper-parameters, with kernels that rank and update."""

    name: ClassVar[str]

    @property
    def contextual(self) -> bool:
        """Return whether the learner uses features of items."""
        ...

    @property
    def variable_length(self) -> bool:
        """Return whether lists may differ in length, because the learner stores nothing about single items."""
        ...

    @property
    def persistent(self) -> tuple[str, ...]:
        """Return the names of the state's arrays to save, such as "scores" or "space.order"."""
        ...

    @property
    def kernels(self) -> Kernels:
        """Return the compiled functions, the same ones for equal learners."""
        ...

    @property
    def full_information(self) -> bool:
        """Return whether the learner observes all positions, regardless of k."""
        ...

    @property
    def min_k(self) -> int:
        """Return the smallest k that the learner can learn from."""
        ...

    @property
    def max_grade(self) -> int:
        """Return the largest grade that the learner accepts, at most 255."""
        ...

    @property
    def horizon(self) -> int | None:
        """Return the number of rounds that the learner is tuned for, or None if it needs no horizon."""
        ...

    @property
    def measure(self) -> Any:
        """Return the measure or game that the learner is tuned for, or None if it does not depend on one."""
        ...

    def init(self, shape: Shape) -> State:
        """Return the state before the first round. Raises ValueError if the learner does not support the shape."""
        ...

    def validate_state(self, state: State) -> None:
        """Raise ValueError if the kernels cannot work on a state read from a file.

        The arrays of `persistent` may hold any numbers; `init` made everything else.
        """
        ...

    def scores(self, state: State, X: Features) -> Floats:
        """Return the learner's current estimate for each item, larger is better; zeros if it has none."""
        ...

    def token_size(self, shape: Shape) -> int:
        """Return the length of a decision's token, at least 1."""
        ...

    def n_uniforms(self, shape: Shape) -> int:
        """Return the number of uniforms that a round needs."""
        ...

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Map revealed grades to the numbers that ``update`` gets, element by element. NaN stays NaN."""
        ...

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return a bound on the expected regret when tuned for `horizon` rounds, or None if none is known."""
        ...


def missing_members(learner: object) -> list[str]:
    """Return the members of `Learner` that a value lacks, in their order.

    >>> missing_members("rtop1f")[:3]
    ['name', 'contextual', 'variable_length']
    """
    members = [*Learner.__annotations__, *vars(Learner)]
    return [name for name in members if not name.startswith("_") and not hasattr(learner, name)]


@runtime_checkable
class StochasticBound(Protocol):
    """A learner with a regret bound for stochastic relevance, drawn each round from the same distribution."""

    def stochastic_bound(self, shape: Shape, horizon: int) -> float | None:
        """Return a regret bound for stochastic relevance, or None if the theorem does not apply."""
        ...


@runtime_checkable
class RealAnswers(Protocol):
    """A learner whose answers may be any numbers of a range, not only whole grades."""

    @property
    def answer_range(self) -> tuple[float, float]:
        """Return the least and the largest answer."""
        ...


@runtime_checkable
class CanFail(Protocol):
    """A learner that can reach a state in which it stops learning."""

    def failure(self, state: State) -> str:
        """Return why the learner has stopped learning, or an empty text if it has not."""
        ...


class Explanation(NamedTuple):
    """Why items stand where they stand, an entry for each item.

    `means` are the expected gains. `answers` is how many answers to the item there were; it is a fraction if old
    ones fade. `parts` are named: those that add up to the means, or the width of their uncertainty.
    """

    means: Floats
    answers: Floats
    parts: dict[str, Floats]


@runtime_checkable
class ExplainsItems(Protocol):
    """A learner that knows items by name, and can say why they stand where they stand."""

    def explain(self, state: State, scores: Floats, key: int | None) -> Explanation:
        """Explain the order of all items, given the app's scores (NaN: none) and the key of a list, if any."""
        ...


@runtime_checkable
class LinearScorer(Protocol):
    """A learner whose score of an item is a weighted sum of features."""

    def weights(self, state: State) -> Features:
        """Return the weight of each feature."""
        ...


@runtime_checkable
class ExpandsFeatures(Protocol):
    """A learner with a feature map that can append columns; its weights cover the features, then these columns."""

    @property
    def expand(self) -> int:
        """Return the largest number of columns to append."""
        ...


class HasAgent(Protocol):
    """An object with a saved agent, such as a trained model."""

    @property
    def agent(self) -> bytes:
        """Return the bytes from `Agent.dump`, empty if there is no agent."""
        ...


def linear_in_features(learner: object) -> bool:
    """Return whether the learner's scores are linear in the features, one weight each."""
    return isinstance(learner, LinearScorer) and not (isinstance(learner, ExpandsFeatures) and learner.expand > 0)


@runtime_checkable
class Measure(Protocol):
    """A ranking measure: a frozen dataclass whose name round-trips, ``measure(str(x)) == x``."""

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]

    def __hash__(self) -> int: ...

    def values(self, rankings: Ints, relevance: NDArray[Any]) -> Floats:
        """Return the value of each row's ranking for that row's relevance; NaN if the measure skips the list."""
        ...


@runtime_checkable
class Cutoff(Protocol):
    """A measure that can ignore all positions below a cutoff, such as ndcg@10."""

    @property
    def cutoff(self) -> int | None:
        """Return the number of positions that count, or None for all."""
        ...


@runtime_checkable
class LinearMeasure(Measure, Protocol):
    """A measure of the form ``offset(R) + discount(m) @ gain(R)[ranking]``."""

    separable: ClassVar[bool]  # whether an item's gain depends on its own grade alone, as top-k feedback requires

    def linear(self, max_grade: int) -> bool:
        """Return whether the form holds for grades 0 to `max_grade`."""
        ...

    def discount(self, m: int) -> Floats:
        """Return the weight of each position, from the top."""
        ...

    def gain(self, relevance: NDArray[Any]) -> Floats:
        """Return the weight of each item; the last axis runs over the items of a list."""
        ...

    def offset(self, relevance: NDArray[Any]) -> Floats:
        """Return the part of a list's value that no order changes; NaN if the measure skips the list."""
        ...


@runtime_checkable
class Stream(Protocol):
    """A source of rounds, over a fixed set of m items or over lists of items with d features."""

    name: ClassVar[str]

    @property
    def m(self) -> int:
        """Return the number of items in the longest list."""
        ...

    @property
    def d(self) -> int:
        """Return the number of features of an item, 0 without context."""
        ...

    @property
    def max_grade(self) -> int:
        """Return the largest relevance grade that can occur."""
        ...

    def rounds(self, n: int, rng: np.random.Generator) -> Rounds:
        """Draw n rounds."""
        ...


@runtime_checkable
class FileBacked(Protocol):
    """A stream that reads its rounds from a file."""

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        ...
