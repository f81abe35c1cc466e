"""Streams whose visitors click, instead of telling grades."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from peekrank._jit import kernel
from peekrank.kernels.philox import fill_uniforms
from peekrank.streams.clicks import Cascade, ClickModel, PositionBased, click_model, fill_clicks
from peekrank.streams.forms import Form, Rule, correct, form
from peekrank.types import Floats, Grades, Ints, Rounds, Stream, Visitors

_CLICK = Rule("click", 1)
COINS = 3  # uniforms for each place: two of who clicks, one of what is made of it


def _stream(text: str) -> Stream:
    from peekrank.streams import stream  # the package is made of its streams

    return stream(text)


@dataclass(frozen=True)
class Clicked:
    """Another stream, whose relevance nobody tells: people click, and a form makes grades of their clicks.

    The learner is told what the form makes of clicks on what it showed; regret is counted on the true relevance.
    Relevance is the grade divided by the largest of the stream. What a curve corrects becomes 0 or 1 by
    `Form.as_grades`.

    >>> clicked = Clicked(_stream("ct15:m=4"), PositionBased((1.0, 0.5)))
    >>> str(clicked.form)
    'click = 1; curve 1.0 0.5'
    >>> rounds = clicked.rounds(3, np.random.default_rng(0))
    >>> rounds.visitors.habits.relevant
    array([1. , 0.5])

    Parameters
    ----------
    of
        Where relevance comes from.
    by
        How people click.
    taken
        The form of feedback, "click = 1; curve 1 0.5" or "click = 1; cascade"; None for the one that is right: the
        curve of those who click by position, cascade for the others. "click = 1; curve 1 1" takes silence for 0.
    """

    of: Stream = field(metadata={"read": _stream})
    by: ClickModel = field(default=Cascade(), metadata={"read": click_model})
    taken: Form | None = field(default=None, metadata={"read": form})
    name: ClassVar[str] = "clicks"

    def __post_init__(self) -> None:
        if self.form.rules != (_CLICK,) or self.form.examination == "seen":
            raise ValueError(
                f"taken = '{self.taken}': people who are simulated click, and tell neither grades nor where they "
                "looked: must be 'click = 1; cascade' or 'click = 1; curve ...'"
            )

    @property
    def form(self) -> Form:
        """What is made of clicks: as `taken` says, or else as is right."""
        if self.taken is not None:
            return self.taken
        curve = self.by if isinstance(self.by, PositionBased) else None
        return Form((_CLICK,), "curve" if curve else "cascade", curve)

    @property
    def m(self) -> int:
        """Items in the longest list."""
        return self.of.m

    @property
    def d(self) -> int:
        """Features of an item."""
        return self.of.d

    @property
    def max_grade(self) -> int:
        """The largest grade that can occur."""
        return self.of.max_grade

    @property
    def path(self) -> Path:
        """Where the file is, if the stream is one `FromFile`."""
        found: Path = self.of.path  # type: ignore[attr-defined]
        return found

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds, and the luck of their visitors."""
        drawn = self.of.rounds(n, rng)
        return drawn._replace(visitors=self._visitors(int(rng.integers(2**62))))

    def _visitors(self, key: int) -> Visitors:
        curve = self.form.curve
        places = min(self.m, self.by.places or self.m, self.m if curve is None else curve.places)
        silent, clicked = np.zeros(places), np.ones(places)
        if curve is not None:
            silent, clicked = (self.form.odds(correct(clicks, curve)) for clicks in (silent, clicked))
        return Visitors(self.by.habits(places), float(self.max_grade), silent, clicked, curve is None, key)


@kernel
def fill_told(
    visitors: Visitors,
    number: int,
    relevance: Grades,
    ranking: Ints,
    uniforms: Floats,
    out: Floats,
) -> int:
    """What is made of clicks on the first places of a ranking; returns for how many, from the top, it is anything.

    Parameters
    ----------
    visitors
        Who sees it.
    number
        Number of the round; it decides the luck of its visitor.
    relevance
        Grade of each item of the list.
    ranking
        What is shown.
    uniforms
        Memory to work in: three for each place.
    out
        Filled, 0 or 1 for each place that is seen; NaN where nothing is told.
    """
    fill_uniforms(visitors.key, number, uniforms)
    places, told = len(out), 0
    for p in range(places):
        out[p] = relevance[ranking[p]] / visitors.highest
    fill_clicks(visitors.habits, out, uniforms, out)
    for p in range(places):
        click = out[p] > 0
        out[p] = uniforms[2 * places + p] < (visitors.clicked[p] if click else visitors.silent[p])
        told = p + 1 if click else told
    if told == 0 or not visitors.cascade:
        return places
    out[told:] = np.nan
    return told
