"""How people click on a list: models that turn the relevance of what is shown, position by position, into clicks.

All of them are one way of going through a list (`fill_clicks`) with other habits. A model is known by its name, as
learners and streams are: ``position:if_relevant=1+0.5``, ``cascade``, ``dependent:continuation=0.5+0.25,skip=0.1``.
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
    """How people click."""

    @property
    def positions(self) -> int | None:
        """How many positions it describes; None: any number."""
        ...

    def habits(self, positions: int) -> ClickProbabilities:
        """What people do at each of the first positions."""
        ...


@kernel
def fill_clicks(habits: ClickProbabilities, relevance: Floats, uniforms: Floats, out: Floats) -> None:
    """Let somebody go through a list from the top: 1 where there is a click, 0 where there is none.

    Parameters
    ----------
    habits
        What people do at each position.
    relevance
        Relevance of the item at each position, from 0 to 1.
    uniforms
        Two for each position.
    out
        Filled; may be `relevance`.

    >>> out = np.empty(3)
    >>> fill_clicks(Cascade().habits(3), np.array([0.0, 1.0, 1.0]), np.full(6, 0.5), out)
    >>> out
    array([0., 1., 0.])
    """
    here = True
    for p in range(len(out)):
        a, b = habits.if_relevant[p], habits.if_irrelevant[p]
        click = here and uniforms[2 * p] < b + (a - b) * relevance[p]
        if click and uniforms[2 * p + 1] >= habits.continuation[p]:
            here = False
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
    given = np.asarray(relevance, dtype=np.float64)
    if given.ndim == 0 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError(
            "relevance must be from 0 to 1, position by position: what a click on a seen item depends on"
        )
    lists = given.reshape(-1, given.shape[-1])
    out = np.empty(lists.shape)
    _fill_lists(model.habits(lists.shape[1]), lists, rng.random((len(lists), 2 * lists.shape[1])), out)
    return np.asarray(out.reshape(given.shape) > 0)


@dataclass(frozen=True)
class PositionBased:
    """Each position is looked at, and clicked, by itself: P(click at position p) = b_p + (a_p - b_p) R, R in [0, 1].

    With examination theta_p and trust, ``a_p = theta_p eps+_p`` and ``b_p = theta_p eps-_p``: people click on what
    is relevant with probability eps+_p once they have looked at it, and on what is not with probability eps-_p.

    >>> model = PositionBased(if_relevant=(0.9, 0.5), if_irrelevant=(0.1, 0.0))
    >>> draw_clicks(model, [[1, 0]] * 1000, np.random.default_rng(0)).mean(axis=0).round(1)
    array([0.9, 0. ])

    Parameters
    ----------
    relevant
        a_p, for each position from the top: the probability of a click on a relevant item.
    irrelevant
        b_p, likewise, on an item that is not relevant; below a_p. Empty: none is ever clicked.

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
            raise ValueError("relevant = (): must hold a probability for each position, one at least")
        if not self.if_irrelevant:
            object.__setattr__(self, "if_irrelevant", (0.0,) * len(self.if_relevant))
        if len(self.if_irrelevant) != len(self.if_relevant):
            raise ValueError(
                f"irrelevant has {len(self.if_irrelevant)} positions: must have as many as relevant, "
                f"{len(self.if_relevant)}"
            )
        for position, (a, b) in enumerate(zip(self.if_relevant, self.if_irrelevant, strict=True), start=1):
            if not 0 <= b < a <= 1:
                raise ValueError(
                    f"position {position}: a click has probability {a} if relevant and {b} if not; must be from 0 to 1, "
                    "and larger if relevant: clicks that do not depend on relevance tell nothing about it"
                )

    @property
    def positions(self) -> int:
        """How many positions it describes."""
        return len(self.if_relevant)

    def habits(self, positions: int) -> ClickProbabilities:
        """Nobody leaves after a click."""
        if positions > self.positions:
            raise ValueError(f"a list of {positions} positions: the curve describes the first {self.positions}")
        return ClickProbabilities(
            np.array(self.if_relevant[:positions]), np.array(self.if_irrelevant[:positions]), np.ones(positions)
        )


@dataclass(frozen=True)
class Cascade:
    """People look from the top down until the first click, and leave; P(click | looked at) is the relevance.

    >>> Cascade(skip=0.25).habits(2)
    ClickProbabilities(if_relevant=array([0.75, 0.75]), if_irrelevant=array([0., 0.]), continuation=array([0., 0.]))

    Parameters
    ----------
    skip
        Probability of passing over a position without looking at it, whatever stands there.

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
        """Everybody leaves after a click."""
        return _scanning((), self.skip, positions)


@dataclass(frozen=True)
class DependentClick:
    """People look from the top down, and after a click at position p they go on with probability ``continuation[p]``.

    >>> draw_clicks(DependentClick(continuation=(1.0, 0.0, 0.0)), [[1, 1, 1]], np.random.default_rng(0))
    array([[ True,  True, False]])

    Parameters
    ----------
    continuation
        The probability for each position; 0 for the positions after the last of them.
    skip
        Probability of passing over a position without looking at it, whatever stands there.

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
        """Some leave after a click."""
        return _scanning(self.continuation, self.skip, positions)


def click_model(text: str) -> ClickModel:
    """The model that a specification names.

    >>> click_model("dependent:continuation=0.5+0.25")
    DependentClick(continuation=(0.5, 0.25), skip=0.0)
    """
    known: dict[str, type[ClickModel]] = {cls.name: cls for cls in (PositionBased, Cascade, DependentClick)}
    return parse("click model", known, text)


def _scanning(continuation: Sequence[float], skip: float, positions: int) -> ClickProbabilities:
    """ClickProbabilities of those who look from the top down."""
    stays = np.zeros(positions)
    stays[: len(continuation)] = continuation[:positions]
    return ClickProbabilities(np.full(positions, 1 - skip), np.zeros(positions), stays)


def _probabilities(name: str, values: Sequence[float]) -> None:
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"{name} = {value!r}: must be a probability, from 0 to 1")
