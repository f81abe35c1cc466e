"""Click models: they turn the relevance at each position into clicks.

All models share one simulation (`fill_clicks`) with different probabilities. Each has a specification, like
learners and streams: ``position:if_relevant=1+0.5``, ``cascade``, ``dependent:continuation=0.5+0.25,skip=0.1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from peekrank._jit import kernel
from peekrank.spec import format_spec, parse
from peekrank.types import ClickProbabilities, Floats

Clicks = NDArray[np.bool_]


class ClickModel(Protocol):
    """A click model."""

    @property
    def positions(self) -> int | None:
        """Return the number of positions that the model describes, or None for any number."""
        ...

    def habits(self, positions: int) -> ClickProbabilities:
        """Return the click probabilities at the first positions."""
        ...


@kernel
def fill_clicks(habits: ClickProbabilities, relevance: Floats, uniforms: Floats, out: Floats) -> None:
    """Simulate a user who reads a list from the top: fill in 1 for a click and 0 for none.

    Parameters
    ----------
    habits
        Click probabilities at each position.
    relevance
        Relevance of the item at each position, from 0 to 1.
    uniforms
        Two random numbers for each position.
    out
        Filled; may be the same array as `relevance`.

    >>> out = np.empty(3)
    >>> fill_clicks(Cascade().habits(3), np.array([0.0, 1.0, 1.0]), np.full(6, 0.5), out)
    >>> out
    array([0., 1., 0.])
    """
    reading = True
    for p in range(len(out)):
        a, b = habits.if_relevant[p], habits.if_irrelevant[p]
        click = reading and uniforms[2 * p] < b + (a - b) * relevance[p]
        if click and uniforms[2 * p + 1] >= habits.continuation[p]:
            reading = False
        out[p] = click


@kernel
def _fill_lists(habits: ClickProbabilities, relevance: Floats, uniforms: Floats, out: Floats) -> None:
    for n in range(len(out)):
        fill_clicks(habits, relevance[n], uniforms[n], out[n])


def draw_clicks(model: ClickModel, relevance: ArrayLike, rng: Generator) -> Clicks:
    """Draw clicks on lists, one per row, with relevance from 0 to 1 at each position.

    >>> draw_clicks(Cascade(), [[0, 1, 1]] * 2, np.random.default_rng(0))
    array([[False,  True, False],
           [False,  True, False]])
    """
    values = np.asarray(relevance, dtype=np.float64)
    if values.ndim == 0 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("relevance must be from 0 to 1 at each position: clicks on seen items depend on it")
    lists = values.reshape(-1, values.shape[-1])
    out = np.empty(lists.shape)
    _fill_lists(model.habits(lists.shape[1]), lists, rng.random((len(lists), 2 * lists.shape[1])), out)
    return np.asarray(out.reshape(values.shape) > 0)


@dataclass(frozen=True)
class PositionBased:
    """Position-based model: P(click at position p) = b_p + (a_p - b_p) R with R in [0, 1], independently.

    With examination theta_p and trust, ``a_p = theta_p eps+_p`` and ``b_p = theta_p eps-_p``: users click on an
    examined item with probability eps+_p if it is relevant, and with probability eps-_p if it is not.

    >>> model = PositionBased(if_relevant=(0.9, 0.5), if_irrelevant=(0.1, 0.0))
    >>> draw_clicks(model, [[1, 0]] * 1000, np.random.default_rng(0)).mean(axis=0).round(1)
    array([0.9, 0. ])

    Parameters
    ----------
    if_relevant
        a_p for each position from the top: the probability of a click on a relevant item.
    if_irrelevant
        b_p for each position: the probability of a click on an irrelevant item, below a_p. Empty means 0.

    References
    ----------
    Vardasbi, Oosterhuis and de Rijke, When Inverse Propensity Scoring does not Work: Affine Corrections for
    Unbiased Learning to Rank, CIKM 2020.
    """

    if_relevant: tuple[float, ...]
    if_irrelevant: tuple[float, ...] = ()
    name: ClassVar[str] = "position"
    __str__ = format_spec

    def __post_init__(self) -> None:
        if not self.if_relevant:
            raise ValueError("if_relevant = (): must hold a probability for each position, at least one")
        if not self.if_irrelevant:
            object.__setattr__(self, "if_irrelevant", (0.0,) * len(self.if_relevant))
        if len(self.if_irrelevant) != len(self.if_relevant):
            raise ValueError(
                f"if_irrelevant has {len(self.if_irrelevant)} positions: must have as many as if_relevant, "
                f"{len(self.if_relevant)}"
            )
        for position, (a, b) in enumerate(zip(self.if_relevant, self.if_irrelevant, strict=True), start=1):
            if not 0 <= b < a <= 1:
                raise ValueError(
                    f"position {position}: a click has probability {a} if relevant and {b} if not; must be from 0 "
                    "to 1, and larger if relevant: otherwise clicks carry no information about relevance"
                )

    @property
    def positions(self) -> int:
        """Return the number of positions that the curve describes."""
        return len(self.if_relevant)

    def habits(self, positions: int) -> ClickProbabilities:
        """Return the click probabilities; users always continue after a click."""
        if positions > self.positions:
            raise ValueError(f"a list of {positions} positions: the curve describes the first {self.positions}")
        return ClickProbabilities(
            np.array(self.if_relevant[:positions]), np.array(self.if_irrelevant[:positions]), np.ones(positions)
        )


@dataclass(frozen=True)
class Cascade:
    """Cascade model: users read from the top and leave after a click; P(click | examined) is the relevance.

    >>> Cascade(skip=0.25).habits(2)
    ClickProbabilities(if_relevant=array([0.75, 0.75]), if_irrelevant=array([0., 0.]), continuation=array([0.,
    0.]))

    Parameters
    ----------
    skip
        Probability of skipping a position without examining it, regardless of its item.

    References
    ----------
    Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click position-bias models, WSDM 2008.
    """

    skip: float = 0.0
    name: ClassVar[str] = "cascade"
    positions: ClassVar[None] = None
    __str__ = format_spec

    def __post_init__(self) -> None:
        _probabilities("skip", (self.skip,))

    def habits(self, positions: int) -> ClickProbabilities:
        """Return the click probabilities; users always leave after a click."""
        return _scanning((), self.skip, positions)


@dataclass(frozen=True)
class DependentClick:
    """Dependent click model: after a click at position p, users read on with probability ``continuation[p]``.

    >>> draw_clicks(DependentClick(continuation=(1.0, 0.0, 0.0)), [[1, 1, 1]], np.random.default_rng(0))
    array([[ True,  True, False]])

    Parameters
    ----------
    continuation
        Probability of reading on after a click at each position; 0 for all further positions.
    skip
        Probability of skipping a position without examining it, regardless of its item.

    References
    ----------
    Guo, Liu and Wang, Efficient multiple-click models in web search, WSDM 2009.
    """

    continuation: tuple[float, ...]
    skip: float = 0.0
    name: ClassVar[str] = "dependent"
    positions: ClassVar[None] = None
    __str__ = format_spec

    def __post_init__(self) -> None:
        _probabilities("continuation", self.continuation)
        _probabilities("skip", (self.skip,))

    def habits(self, positions: int) -> ClickProbabilities:
        """Return the click probabilities; some users leave after a click."""
        return _scanning(self.continuation, self.skip, positions)


def click_model(text: str) -> ClickModel:
    """Return the click model that a specification describes.

    >>> click_model("dependent:continuation=0.5+0.25")
    DependentClick(continuation=(0.5, 0.25), skip=0.0)
    """
    known: dict[str, type[ClickModel]] = {cls.name: cls for cls in (PositionBased, Cascade, DependentClick)}
    return parse("click model", known, text)


def _scanning(continuation: Sequence[float], skip: float, positions: int) -> ClickProbabilities:
    """Return the click probabilities of users who read from the top."""
    stays = np.zeros(positions)
    stays[: len(continuation)] = continuation[:positions]
    return ClickProbabilities(np.full(positions, 1 - skip), np.zeros(positions), stays)


def _probabilities(name: str, values: Sequence[float]) -> None:
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"{name} = {value!r}: must be a probability, from 0 to 1")
