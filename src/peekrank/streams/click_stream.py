"""Streams with click feedback instead of grades."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from peekrank._jit import kernel
from peekrank.kernels.philox import fill_uniforms
from peekrank.streams.clicks import Cascade, ClickModel, PositionBased, click_model, fill_clicks
from peekrank.streams.feedback_rules import FeedbackRules, Rule, correct, parse_rules
from peekrank.types import ClickFeedback, Floats, Grades, Ints, Rounds, Stream

_CLICK = Rule("click", 1)
COINS = 3  # uniforms for each position: two for the click model, one to turn an estimate into a grade


def _stream(text: str) -> Stream:
    from peekrank.streams import stream  # not at the top, because the package imports this module

    return stream(text)


@dataclass(frozen=True)
class Clicks:
    """A stream with click feedback: simulated users click by a model, and feedback rules turn clicks into grades.

    The learner observes only these grades; regret is computed from the true relevance. The click model uses the
    grade divided by the stream's largest grade. Estimates corrected by a curve become grades 0 and 1 by
    `FeedbackRules.as_grades`.

    >>> clicks = Clicks(_stream("ct15:m=4"), PositionBased((1.0, 0.5)))
    >>> str(clicks.rules)
    'click = 1; curve 1.0 0.5'
    >>> rounds = clicks.rounds(3, np.random.default_rng(0))
    >>> rounds.visitors.habits.if_relevant
    array([1. , 0.5])

    Parameters
    ----------
    stream
        The stream that draws the relevance.
    model
        The click model.
    feedback
        The feedback rules, "click = 1; curve 1 0.5" or "click = 1; cascade". None means the rules that are correct
        for the model: its own curve if it is position-based, else cascade. "click = 1; curve 1 1" counts every
        position without a click as 0.
    """

    stream: Stream = field(metadata={"read": _stream})
    model: ClickModel = field(default=Cascade(), metadata={"read": click_model})
    feedback: FeedbackRules | None = field(default=None, metadata={"read": parse_rules})
    name: ClassVar[str] = "clicks"

    def __post_init__(self) -> None:
        if self.rules.rules != (_CLICK,) or self.rules.examination == "seen":
            raise ValueError(
                f"feedback = '{self.feedback}': simulated users give clicks only, neither grades nor positions "
                "that they examined; use 'click = 1; cascade' or 'click = 1; curve ...'"
            )

    @property
    def rules(self) -> FeedbackRules:
        """Return the feedback rules: `feedback`, or those that are correct for the model."""
        if self.feedback is not None:
            return self.feedback
        curve = self.model if isinstance(self.model, PositionBased) else None
        return FeedbackRules((_CLICK,), "curve" if curve else "cascade", curve)

    @property
    def m(self) -> int:
        """Return the number of items in the longest list."""
        return self.stream.m

    @property
    def d(self) -> int:
        """Return the number of features of an item."""
        return self.stream.d

    @property
    def max_grade(self) -> int:
        """Return the largest grade that can occur."""
        return self.stream.max_grade

    @property
    def path(self) -> Path:
        """Return the path of the stream's file, if the stream is `FileBacked`."""
        path: Path = self.stream.path  # type: ignore[attr-defined]
        return path

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds and the key of the click model's random numbers."""
        rounds = self.stream.rounds(n, rng)
        return rounds._replace(visitors=self._visitors(int(rng.integers(2**62))))

    def _visitors(self, key: int) -> ClickFeedback:
        curve = self.rules.curve
        positions = min(self.m, self.model.positions or self.m, self.m if curve is None else curve.positions)
        without, with_click = np.zeros(positions), np.ones(positions)
        if curve is not None:
            without, with_click = (self.rules.odds(correct(clicks, curve)) for clicks in (without, with_click))
        return ClickFeedback(
            self.model.habits(positions), float(self.max_grade), without, with_click, curve is None, key
        )


@kernel
def fill_feedback(
    visitors: ClickFeedback,
    number: int,
    relevance: Grades,
    ranking: Ints,
    uniforms: Floats,
    out: Floats,
) -> int:
    """Fill in the feedback from clicks on the first positions, and return how many positions have feedback.

    Parameters
    ----------
    visitors
        The click model and feedback rules.
    number
        Number of the round; it determines the random numbers.
    relevance
        Grade of each item of the list.
    ranking
        The ranking shown.
    uniforms
        Working memory, three numbers for each position.
    out
        Filled with 0 or 1 for each position that is seen; NaN if there is no feedback.
    """
    fill_uniforms(visitors.key, number, uniforms)
    positions, n_observed = len(out), 0
    for p in range(positions):
        out[p] = relevance[ranking[p]] / visitors.max_feedback
    fill_clicks(visitors.habits, out, uniforms, out)
    for p in range(positions):
        click = out[p] > 0
        out[p] = uniforms[2 * positions + p] < (
            visitors.p_one_with_click[p] if click else visitors.p_one_without_click[p]
        )
        n_observed = p + 1 if click else n_observed
    if n_observed == 0 or not visitors.cascade:
        return positions
    out[n_observed:] = np.nan
    return n_observed
