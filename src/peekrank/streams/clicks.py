"""How people click on a list: models that turn the relevance of what is shown, place by place, into clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from peekrank.types import Floats

Clicks = NDArray[np.bool_]


@dataclass(frozen=True)
class PositionBased:
    """Each place is looked at, and clicked, by itself: P(click at place p) = b_p + (a_p - b_p) R, R in [0, 1].

    With examination theta_p and trust, ``a_p = theta_p eps+_p`` and ``b_p = theta_p eps-_p``: people click on what
    is relevant with probability eps+_p once they have looked at it, and on what is not with probability eps-_p.

    >>> model = PositionBased(relevant=(0.9, 0.5), irrelevant=(0.1, 0.0))
    >>> model.draw([[1, 0]] * 1000, np.random.default_rng(0)).mean(axis=0)
    array([0.899, 0.   ])
    >>> model.chances([1.0, 0.5])
    array([0.9 , 0.25])

    Parameters
    ----------
    relevant
        a_p, for each place from the top: the probability of a click on a relevant item.
    irrelevant
        b_p, likewise, on an item that is not relevant; below a_p. Empty: none is ever clicked.

    References
    ----------
    Vardasbi, Oosterhuis and de Rijke, When Inverse Propensity Scoring does not Work: Affine Corrections for
    Unbiased Learning to Rank, CIKM 2020.
    """

    relevant: tuple[float, ...]
    irrelevant: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.relevant:
            raise ValueError("relevant = (): must hold a probability for each place, one at least")
        if not self.irrelevant:
            object.__setattr__(self, "irrelevant", (0.0,) * len(self.relevant))
        if len(self.irrelevant) != len(self.relevant):
            raise ValueError(
                f"irrelevant has {len(self.irrelevant)} places: must have as many as relevant, "
                f"{len(self.relevant)}"
            )
        for place, (a, b) in enumerate(zip(self.relevant, self.irrelevant, strict=True), start=1):
            if not 0 <= b < a <= 1:
                raise ValueError(
                    f"place {place}: a click has probability {a} if relevant and {b} if not; must be from 0 to 1, "
                    "and larger if relevant: clicks that do not depend on relevance tell nothing about it"
                )

    @property
    def places(self) -> int:
        """How many places it describes."""
        return len(self.relevant)

    def chances(self, relevance: ArrayLike) -> Floats:
        """Probability of a click at each of the first places; the last axis of the relevance runs over places."""
        relevance = _relevance(relevance)
        shown = relevance.shape[-1]
        if shown > self.places:
            raise ValueError(f"a list of {shown} places: the curve describes the first {self.places}")
        a, b = np.array(self.relevant[:shown]), np.array(self.irrelevant[:shown])
        return np.asarray(b + (a - b) * relevance)

    def draw(self, relevance: ArrayLike, rng: Generator) -> Clicks:
        """Draw clicks on lists, one per row."""
        chances = self.chances(relevance)
        return np.asarray(rng.random(chances.shape) < chances)


@dataclass(frozen=True)
class Cascade:
    """People look from the top down until the first click, and leave; P(click | looked at) is the relevance.

    >>> Cascade().draw([[0, 1, 1]] * 2, np.random.default_rng(0))
    array([[False,  True, False],
           [False,  True, False]])

    Parameters
    ----------
    skip
        Probability of passing over a place without looking at it, whatever stands there.

    References
    ----------
    Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click position-bias models, WSDM 2008.
    """

    skip: float = 0.0

    def __post_init__(self) -> None:
        _probabilities("skip", (self.skip,))

    def draw(self, relevance: ArrayLike, rng: Generator) -> Clicks:
        """Draw clicks on lists, one per row."""
        return _scan(_relevance(relevance), (), self.skip, rng)


@dataclass(frozen=True)
class DependentClick:
    """People look from the top down, and after a click at place p they go on with probability ``go_on[p]``.

    >>> DependentClick(go_on=(1.0, 0.0, 0.0)).draw([[1, 1, 1]], np.random.default_rng(0))
    array([[ True,  True, False]])

    Parameters
    ----------
    go_on
        The probability for each place; 0 for the places after the last of them.
    skip
        Probability of passing over a place without looking at it, whatever stands there.

    References
    ----------
    Guo, Liu and Wang, Efficient multiple-click models in web search, WSDM 2009.
    """

    go_on: tuple[float, ...]
    skip: float = 0.0

    def __post_init__(self) -> None:
        _probabilities("go_on", self.go_on)
        _probabilities("skip", (self.skip,))

    def draw(self, relevance: ArrayLike, rng: Generator) -> Clicks:
        """Draw clicks on lists, one per row."""
        return _scan(_relevance(relevance), self.go_on, self.skip, rng)


def _scan(relevance: Floats, go_on: Sequence[float], skip: float, rng: Generator) -> Clicks:
    """Let people look from the top down, all lists at a time."""
    clicks = np.zeros(relevance.shape, dtype=np.bool_)
    here = np.ones(relevance.shape[:-1], dtype=np.bool_)  # who has not left
    for place in range(relevance.shape[-1]):
        looked, liked, stays = rng.random((3, *here.shape))
        clicks[..., place] = here & (looked >= skip) & (liked < relevance[..., place])
        more = go_on[place] if place < len(go_on) else 0.0
        here &= ~clicks[..., place] | (stays < more)
    return clicks


def _relevance(relevance: ArrayLike) -> Floats:
    given = np.asarray(relevance, dtype=np.float64)
    if given.ndim == 0 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError("relevance must be from 0 to 1, place by place: what a click on a seen item depends on")
    return given


def _probabilities(name: str, values: Sequence[float]) -> None:
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"{name} = {value!r}: must be a probability, from 0 to 1")
