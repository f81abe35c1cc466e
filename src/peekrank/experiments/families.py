"""Families of streams on which learners can fail in different ways."""

from __future__ import annotations

from functools import lru_cache
from math import factorial
from typing import NamedTuple

import numpy as np

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.certificate import adversaries
from peekrank.games.observability import signals
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.measures import measure as measure_named
from peekrank.streams import CT15, Bernoulli, Binomial, Joint, Switching
from peekrank.types import Cutoff, Floats, Stream

GAPS = (2, 4, 8, 16, 32, 64, 128)  # means differ by one over these
_CLEARLY = 0.4  # distance from 1/2 of the mean of a clearly good or bad item
_MAX_LOSSES = 4_000  # of a game that can be analysed quickly


class Source(NamedTuple):
    """A member of a family of streams, with its label."""

    label: str
    stream: Stream


def family(measure: str, m: int, k: int, horizon: int, grades: int = 2) -> list[Source]:
    """Make streams on which learners can fail in different ways. Only the last pair depends on the horizon.

    The best items always have the highest indices, so that breaking ties by index does not help.

    - *halves*, for each gap: the n items that count (half of them for measures without n) have the mean
      1/2 + gap/2, the others 1/2 - gap/2.
    - *ladder*: means evenly spaced from 1/2 - gap/2 to 1/2 + gap/2.
    - *last two*: the items of the last position that counts and of the next one have means 1/2 + gap/2 and
      1/2 - gap/2, those above 0.9 and those below 0.1. Where these two positions are not seen, only exploration
      can tell the two items apart.
    - *ct15*, and *switching*, which permutes its means five times. For more than two grades, *graded* instead.
    - *pair*, for small games: two distributions from the proof of the game's lower bound (`lower_bound_pair`).

    Parameters
    ----------
    measure, m, k, grades
        The game.
    horizon
        Number of rounds.

    >>> [source.label for source in family("p@2+sum", m=5, k=1, horizon=1000)][-5:]
    ['last two 1/128', 'ct15', 'switching', 'pair p', 'pair q']
    >>> family("p@2+sum", m=5, k=1, horizon=1000)[14].stream.means
    (0.1, 0.1, 0.25, 0.75, 0.9)
    """
    target = measure_named(measure)
    cutoff = target.cutoff if isinstance(target, Cutoff) else None
    counted = min(cutoff or m - 1, m - 1)
    good = counted if cutoff else m // 2
    above, below = np.full(counted - 1, 0.5 + _CLEARLY), np.full(m - counted - 1, 0.5 - _CLEARLY)
    sources = []
    for name in ("halves", "ladder", "last two"):
        for parts in GAPS:
            low, high = 0.5 - 0.5 / parts, 0.5 + 0.5 / parts
            means = {
                "halves": np.repeat([low, high], [m - good, good]),
                "ladder": np.linspace(low, high, m),
                "last two": np.r_[below, low, high, above],
            }[name]
            sources.append(Source(f"{name} 1/{parts}", Bernoulli(tuple(means.round(9).tolist()), grades - 1)))
    if grades == 2:
        sources += [Source("ct15", CT15(m)), Source("switching", Switching(m))]
    else:
        sources.append(Source("graded", Binomial(m, grades - 1)))
    pair = lower_bound_pair(str(target), m, k, horizon, grades)
    return sources + [Source(f"pair {side}", stream) for side, stream in zip("pq", pair, strict=False)]


@lru_cache(maxsize=64)
def lower_bound_pair(measure: str, m: int, k: int, horizon: int, grades: int = 2) -> tuple[Joint, ...]:
    """Make two distributions of relevance that are hard to tell apart and have different best rankings.

    P is a point on the border of two neighbouring cells, and D is the loss difference of their rankings. The
    distributions are ``P (1 + eps h)`` and ``P (1 - eps h)``.

    - Rate sqrt(T): h = D, and eps = 1 / (sd of h under P) / sqrt(T), so that T rounds barely tell them apart.
    - Rate T^(2/3): h is the unobserved part of D, the residual of its projection in L2(P) on the feedback of the
      rankings that are optimal at P. A learner has to show a worse ranking to tell the two apart, and
      eps = 1 / (sd of h) / T^(1/3).
    - Rate T: the two adversaries of the game's certificate, which no feedback tells apart.

    Returns an empty tuple if the game has more than 4,000 losses, is undecided, or has nothing to learn.

    >>> p, q = lower_bound_pair("p@1+sum", m=2, k=1, horizon=10_000)
    >>> p.lists, [round(a - b, 4) for a, b in zip(p.probabilities, q.probabilities)]
    (('00', '10', '01', '11'), [0.0, -0.0071, 0.0071, 0.0])
    """
    if factorial(m) * grades**m > _MAX_LOSSES or grades > 10:
        return ()
    analysis = _analysis(measure, m, k, grades)
    outcomes = tuple(name.replace(" ", "")[::-1] for name in analysis.game.outcomes)  # best item last
    if analysis.cells is None or not analysis.cells.borders or analysis.rate is None:
        return ()
    if analysis.rate is Rate.LINEAR:
        sides = _adversaries(measure, m, k, grades)
    else:
        border = analysis.unobservable_pair or analysis.cells.borders[0]
        P = np.array([float(x) for x in border.point])
        P /= P.sum()
        h = analysis.game.loss[border.j] - analysis.game.loss[border.i]
        if analysis.rate is Rate.TWO_THIRDS:
            h = _residual(h, signals(analysis.game, border.neighborhood).rows.astype(np.float64), P)
        size = min(horizon ** (analysis.rate.exponent - 1) / np.sqrt(P @ h**2), 1 / np.abs(h).max())
        sides = [P * (1 + sign * size * h) for sign in (1, -1)]
    return tuple(Joint(outcomes, tuple((side / side.sum()).tolist())) for side in sides)


@lru_cache(maxsize=16)
def _analysis(measure: str, m: int, k: int, grades: int) -> Analysis:
    return analyse(ranking_game(measure, m, k, grades))


@lru_cache(maxsize=16)
def _adversaries(measure: str, m: int, k: int, grades: int) -> list[Floats]:
    pair = adversaries(_analysis(measure, m, k, grades))
    return [np.array([float(x) for x in side]) for side in (pair.p, pair.q)]


def _residual(h: Floats, seen: Floats, P: Floats) -> Floats:
    """Return the residual of h after its projection in L2(P) on the span of the rows of `seen`."""
    root = np.sqrt(P)
    coefficients = np.linalg.lstsq((seen * root).T, h * root, rcond=None)[0]
    left: Floats = h - coefficients @ seen
    return left
