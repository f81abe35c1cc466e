"""Synthetic relevance over a fixed set of items: stationary, graded, switching and drifting.

Every stream here except `Joint` has a table of probabilities and the same way of drawing from it: with u uniform
on [0, 1), R = sum_g 1[u < P(R >= g)] has the required distribution and needs one draw per item.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, isfinite, sqrt
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from peekrank._util.extras import extra
from peekrank._util.validate import check_int, check_positive
from peekrank.streams.fixed import fixed_items, row_chunks
from peekrank.types import Floats, Ints, Rounds, Tails

_LOW, _HIGH = 0.1, 0.9  # range of probabilities in the graded and drifting streams: no item is ever certain
_ROUNDING = 1e-9  # largest deviation of a sum of probabilities from 1


@dataclass(frozen=True)
class CT15:
    """The simulation of CT15: users mostly agree on which half of the items is relevant.

    R(i) = 1[true(i) + N(0, noise^2) > 1/2], independently; each grade is wrong with probability
    Phi(-1 / (2 noise)). For odd m the relevant "half" is the smaller one, m // 2 items. The generator draws these
    items first: in a fixed order, a learner that breaks ties by index would have an undeserved advantage.

    >>> rng = np.random.default_rng(0)
    >>> float(CT15(m=10, noise=0.25).rounds(1000, rng).relevance.mean())
    0.4995

    Parameters
    ----------
    m
        Number of items, at least 2.
    noise
        Standard deviation of the noise, at least 0.

    References
    ----------
    Chaudhuri and Tewari, Online Ranking with Top-1 Feedback, AISTATS 2015, section 10. Erratum: the paper gives
    neither the level of its "small Gaussian noise" nor how the noisy vector becomes binary. The threshold 1/2 and
    the default 0.25 (2.3% of the grades flipped) are choices made here.
    """

    name: ClassVar[str] = "ct15"
    d: ClassVar[int] = 0
    max_grade: ClassVar[int] = 1
    m: int = 10
    noise: float = 0.25

    def __post_init__(self) -> None:
        check_int("m", self.m, 2)
        _noise(self.noise)

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        means = _noisy_halves(1, self.m, self.noise, rng)
        return _draw(n, self.m, rng, lambda _: means)


@dataclass(frozen=True)
class Bernoulli:
    """Independent Bernoulli relevance: in every round item i has the grade with probability means[i], otherwise 0.

    >>> rng = np.random.default_rng(0)
    >>> Bernoulli(means=(0.75, 0.5, 0.0)).rounds(1000, rng).relevance.reshape(-1, 3).mean(axis=0)
    array([0.741, 0.509, 0.   ])

    Parameters
    ----------
    means
        Probability of each item, at least two; written ``bernoulli:means=0.9+0.5+0.1``.
    grade
        Grade of a relevant item, from 1 to 255.
    """

    name: ClassVar[str] = "bernoulli"
    d: ClassVar[int] = 0
    means: tuple[float, ...] = (0.9, 0.7, 0.5, 0.3, 0.1)
    grade: int = 1

    def __post_init__(self) -> None:
        check_int("grade", self.grade, 1, 255)
        object.__setattr__(self, "means", tuple(map(float, self.means)))
        if len(self.means) < 2:
            raise ValueError(f"means = {self.means}: must be two probabilities or more, one for each item")
        for item, mean in enumerate(self.means):
            if not 0 <= mean <= 1:
                raise ValueError(f"means[{item}] = {mean}: must be a probability, from 0 to 1")

    @property
    def m(self) -> int:
        """Return the number of items."""
        return len(self.means)

    @property
    def max_grade(self) -> int:
        """Return the grade of a relevant item."""
        return self.grade

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        means = np.array(self.means)
        return _draw(n, self.m, rng, lambda _: (means,) * self.grade)


@dataclass(frozen=True)
class Joint:
    """Whole lists of grades, each drawn with its probability: any joint distribution of the items' relevance.

    >>> rng = np.random.default_rng(0)
    >>> rounds = Joint(lists=("110", "001"), probabilities=(0.75, 0.25)).rounds(1000, rng)
    >>> rounds.relevance.reshape(-1, 3).mean(axis=0)
    array([0.733, 0.733, 0.267])

    Parameters
    ----------
    lists
        Grades of all items, a digit from 0 to 9 each; written ``joint:lists=110+001,probabilities=0.75+0.25``.
    probabilities
        Probability of each list; they add up to 1.
    """

    name: ClassVar[str] = "joint"
    d: ClassVar[int] = 0
    lists: tuple[str, ...] = ("10", "01")
    probabilities: tuple[float, ...] = (0.75, 0.25)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lists", tuple(map(str, self.lists)))
        object.__setattr__(self, "probabilities", tuple(map(float, self.probabilities)))
        for position, digits in enumerate(self.lists):
            if not (digits.isascii() and digits.isdigit()) or not 2 <= len(digits) == len(self.lists[0]):
                raise ValueError(
                    f"lists[{position}] = '{digits}': must be a digit for each item, two or more, in every list"
                )
        if len(self.probabilities) != len(self.lists) or not self.lists:
            raise ValueError(
                f"{len(self.probabilities)} probabilities for {len(self.lists)} lists: must be one for each list, "
                "and at least one list"
            )
        if not min(self.probabilities) >= 0 or not abs(sum(self.probabilities) - 1) <= _ROUNDING:
            raise ValueError(f"probabilities = {self.probabilities}: must be probabilities that add up to 1")

    @property
    def m(self) -> int:
        """Return the number of items."""
        return len(self.lists[0])

    @property
    def max_grade(self) -> int:
        """Return the largest digit, at least 1."""
        return max(1, *(int(digit) for digits in self.lists for digit in digits))

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        check_int("n", n, 1)
        grades = np.array([[int(digit) for digit in digits] for digits in self.lists], dtype=np.uint8)
        probabilities = np.array(self.probabilities)
        shares = probabilities / probabilities.sum()
        tails = [shares @ (grades >= grade) for grade in range(1, self.max_grade + 1)]
        return fixed_items(grades[rng.choice(len(grades), size=n, p=shares)])._replace(tails=lambda _: tails)


@dataclass(frozen=True)
class Binomial:
    """Graded relevance: R(i) ~ Binomial(max_grade, p_i), independently.

    The p_i are evenly spaced from 0.1 to 0.9 and assigned to the items at random.

    >>> rng = np.random.default_rng(0)
    >>> np.bincount(Binomial(m=10, max_grade=3).rounds(1000, rng).relevance)
    array([2218, 2788, 2760, 2234])

    Parameters
    ----------
    m
        Number of items, at least 2.
    max_grade
        The largest grade, from 1 to 255.
    """

    name: ClassVar[str] = "binomial"
    d: ClassVar[int] = 0
    m: int = 10
    max_grade: int = 4

    def __post_init__(self) -> None:
        check_int("m", self.m, 2)
        check_int("max_grade", self.max_grade, 1, 255)

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        with extra("cli"):
            from scipy.special import bdtrc

        probability = rng.permutation(np.linspace(_LOW, _HIGH, self.m))
        tails = bdtrc(np.arange(float(self.max_grade))[:, None], self.max_grade, probability)
        return _draw(n, self.m, rng, lambda _: tails)


@dataclass(frozen=True)
class Switching:
    """Abrupt change: in each of several equal segments another random half of the items is relevant.

    Inside a segment this is `CT15`; round t of n lies in segment floor(t segments / n).

    >>> rng = np.random.default_rng(0)
    >>> Switching(m=4, noise=0, segments=2).rounds(4, rng).relevance.reshape(4, 4)
    array([[0, 1, 1, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1],
           [0, 0, 1, 1]], dtype=uint8)

    Parameters
    ----------
    m, noise
        As for `CT15`.
    segments
        Number of segments, at least 1.
    """

    name: ClassVar[str] = "switching"
    d: ClassVar[int] = 0
    max_grade: ClassVar[int] = 1
    m: int = 10
    noise: float = 0.25
    segments: int = 5

    def __post_init__(self) -> None:
        check_int("m", self.m, 2)
        _noise(self.noise)
        check_int("segments", self.segments, 1)

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        means = _noisy_halves(self.segments, self.m, self.noise, rng)
        return _draw(n, self.m, rng, lambda t: (means[t * self.segments // n],))


@dataclass(frozen=True)
class Drifting:
    """Smooth change: Bernoulli means that swing between 0.1 and 0.9, each item with its own random phase.

    P(R_t(i) = 1) = 0.5 + 0.4 sin(2 pi (periods t / n + phase_i)). Over whole periods every item is relevant half
    of the time. No fixed ranking is then better than another, and only a learner that follows the drift does
    better.

    >>> rng = np.random.default_rng(0)
    >>> halves = Drifting(m=3, periods=1).rounds(1000, rng).relevance.reshape(2, 500, 3)
    >>> halves.mean(axis=1)
    array([[0.31 , 0.464, 0.75 ],
           [0.668, 0.558, 0.238]])

    Parameters
    ----------
    m
        Number of items, at least 2.
    periods
        Number of full swings during the n rounds, above 0.
    """

    name: ClassVar[str] = "drifting"
    d: ClassVar[int] = 0
    max_grade: ClassVar[int] = 1
    m: int = 10
    periods: float = 1.0

    def __post_init__(self) -> None:
        check_int("m", self.m, 2)
        check_positive("periods", self.periods)

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        phase = rng.random(self.m)
        middle, swing = (_HIGH + _LOW) / 2, (_HIGH - _LOW) / 2

        def means(t: Ints) -> tuple[Floats]:
            return (middle + swing * np.sin(2 * np.pi * (self.periods / n * t[:, None] + phase)),)

        return _draw(n, self.m, rng, means)


def _draw(n: int, m: int, rng: Generator, tails: Tails) -> Rounds:
    """Draw n rows of m independent grades."""
    check_int("n", n, 1)
    relevance = np.zeros((n, m), np.uint8)
    for rows in row_chunks(n, m):
        grades = relevance[rows]
        uniforms = rng.random(grades.shape)
        for tail in tails(np.arange(rows.start, rows.stop)):
            grades += uniforms < tail
    return fixed_items(relevance)._replace(tails=tails)


def _noisy_halves(count: int, m: int, noise: float, rng: Generator) -> Floats:
    """Draw the relevant half of m items `count` times; return P(R(i) = 1) under thresholded Gaussian noise."""
    flip = erfc(0.5 / noise / sqrt(2)) / 2 if noise else 0.0  # P(standard Gaussian < -0.5 / noise)
    means = np.where(np.arange(m) < m // 2, 1 - flip, flip)
    return rng.permuted(np.tile(means, (count, 1)), axis=1)


def _noise(noise: float) -> None:
    if not noise >= 0 or not isfinite(noise):
        raise ValueError(f"noise = {noise}: must be a finite standard deviation, at least 0")
