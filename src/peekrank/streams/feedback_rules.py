"""Feedback rules: they turn users' signals into a grade, an estimate of one, or nothing, for each position.

Rules are parsed from a line of text, ``RULES; EXAMINATION``:

    grades                                                      users give grades
    click = 1; seen                                             clicks; the app reports the examined positions
    purchase = 4, dwell > 30s = 2, click = 1; cascade           the largest grade; examined down to the last one
    click = 1; curve 0.9/0.1 0.6/0.05                           P(click) if relevant / if not, for each position

A missing signal counts as 0 only if the user examined the item. Rules must therefore state which positions were
examined: counting every missing signal as 0 would teach the learner positions, not items.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.text import excerpt
from peekrank.spec import suggest
from peekrank.streams.clicks import PositionBased
from peekrank.types import Decision, Floats, Ints

Examination = Literal["explicit", "seen", "cascade", "curve"]
Report = Mapping[str, float]  # signals of one item: {"click": 1, "dwell": 42.0}; durations are in seconds
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_RULE = re.compile(
    r"(?P<signal>[A-Za-z][\w-]*)\s*(?:(?P<sign>>=?)\s*(?P<bound>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*))?"
)
_NO_EXAMINATION = (
    "{!r} does not say which positions were examined: an item without a click was either disliked or never seen, "
    "and counting it as 0 teaches positions instead of items. Add '; seen' (the app reports the examined items), "
    "'; cascade' (all items down to the last click were examined, those below are unknown) or '; curve 1 0.6 0.4' "
    "(the probability that each position is examined; `peekrank position-bias` estimates it)"
)


class Rule(NamedTuple):
    """A rule that maps a signal to a grade, optionally only above a bound."""

    signal: str
    grade: int
    bound: float = 0.0
    reached: bool = False  # whether the rule includes the bound itself

    def holds(self, report: Report) -> bool:
        """Return whether the signals of an item satisfy the rule."""
        value = float(report.get(self.signal, 0.0))
        return value > self.bound or (self.reached and value == self.bound)

    def __str__(self) -> str:
        bound = np.format_float_positional(self.bound, trim="-")
        sign = f" {'>=' if self.reached else '>'} {bound}" if self.bound or self.reached else ""
        return f"{self.signal}{sign} = {self.grade}"


class FeedbackEstimates(NamedTuple):
    """Items of a list with feedback, an estimate of each one's relevance, and its propensity."""

    items: Ints
    estimates: Floats
    propensities: Floats | None  # None if the learner cannot compute them


@dataclass(frozen=True)
class FeedbackRules:
    """Rules that turn signals into grades, and the assumption about which positions users examined.

    Parameters
    ----------
    rules
        Grades of the signals; empty if users give grades.
    examination
        "explicit": users give grades. "seen": the app reports the examined positions. "cascade": users examined
        all positions down to the last with a grade above 0, or all positions if there is none. "curve": each
        position is examined with a known probability.
    curve
        The probabilities, for "curve".

    >>> clicks = parse_rules("click = 1; curve 0.9/0.1 0.5/0.1")
    >>> clicks.estimates([{}, {"click": 1}])
    array([-0.125,  2.25 ])
    >>> parse_rules("click = 1; cascade").estimates([{}, {"click": 1}, {}])
    array([ 0.,  1., nan])
    """

    rules: tuple[Rule, ...] = ()
    examination: Examination = "explicit"
    curve: PositionBased | None = None

    def __post_init__(self) -> None:
        if self.examination not in get_args(Examination):
            raise ValueError(
                f"examination {self.examination!r}: {suggest(self.examination, get_args(Examination))}"
            )
        if bool(self.rules) == (self.examination == "explicit"):
            raise ValueError(
                _NO_EXAMINATION.format(str(self)) if self.rules else "explicit grades need no examination"
            )
        if (self.curve is None) == (self.examination == "curve"):
            raise ValueError("a curve is required with examination 'curve', and not allowed with any other")
        if self.curve is not None and any(self.curve.if_irrelevant) and self.max_grade > 1:
            raise ValueError(
                f"'{self}': clicks on irrelevant items can be corrected only if 1 is the only grade; with more "
                "grades, give examination probabilities alone, as in 'curve 1 0.6 0.4'"
            )

    @property
    def max_grade(self) -> int:
        """Return the largest grade of the rules, or 255, the largest possible grade, for explicit grades."""
        return max((rule.grade for rule in self.rules), default=255)

    @property
    def whole(self) -> bool:
        """Return whether the estimates are whole grades, which every learner accepts; if not, use `as_grades`."""
        return self.curve is None

    @property
    def unbiased(self) -> bool:
        """Return whether an estimate divided by the item's propensity is an unbiased estimate of relevance.

        It is for explicit grades, and for a curve that is correct. With "seen" and "cascade", the examined
        positions depend on the user: the grades of examined items are right, but the probability of feedback does
        not follow from the propensities alone.
        """
        return self.examination in ("explicit", "curve")

    @property
    def spread(self) -> tuple[float, float]:
        """Return the smallest and the largest possible estimate."""
        if self.curve is None:
            return 0.0, float(self.max_grade)
        ends = correct(
            np.array([[0.0] * self.curve.positions, [self.max_grade] * self.curve.positions]), self.curve
        )
        return float(ends.min()), float(ends.max())

    def grade(self, report: Report) -> int:
        """Return the largest grade whose rule holds, or 0 if none does.

        >>> parse_rules("purchase = 4, dwell > 30s = 2, click = 1; seen").grade({"click": 1, "dwell": 31})
        2
        """
        known = {rule.signal for rule in self.rules}
        for signal, value in report.items():
            if signal not in known:
                raise ValueError(f"no rule for the signal '{excerpt(signal)}': {suggest(signal, known)}")
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{signal} = {value!r}: must be a finite number, at least 0")
        return max((rule.grade for rule in self.rules if rule.holds(report)), default=0)

    def estimates(self, reports: Sequence[Report | float | None], seen: Sequence[bool] | None = None) -> Floats:
        """Return an estimate of the relevance at each shown position, from the top; NaN if there is no feedback.

        Parameters
        ----------
        reports
            Signals of each item; for explicit grades, the grade or None.
        seen
            Which of these positions were examined, for examination "seen".
        """
        if (seen is None) == (self.examination == "seen"):
            raise ValueError(
                f"'{self}': `seen` is required with examination 'seen', and not allowed with any other"
            )
        if not self.rules:
            return np.array([_explicit_grade(report) for report in reports], dtype=np.float64)
        grades = np.array([self.grade(_signals(report)) for report in reports], dtype=np.float64)
        if self.curve is not None:
            return correct(grades, self.curve)
        if self.examination == "cascade":
            return cascade_prefix(grades)
        examined = np.asarray(seen, dtype=np.bool_)
        if examined.shape != grades.shape:
            raise ValueError(
                f"seen covers {examined.size} positions: must cover each of the {grades.size} reported"
            )
        if (unseen := np.flatnonzero(~examined & (grades > 0))).size:
            raise ValueError(f"position {unseen[0] + 1} has the grade {grades[unseen[0]]:g} but was not examined")
        return np.where(examined, grades, np.nan)

    def item_estimates(
        self, decision: Decision, reports: Sequence[Report | float | None], seen: Sequence[bool] | None = None
    ) -> FeedbackEstimates:
        """Return the estimates for the first items of a decision, without items that have no feedback.

        >>> from peekrank import DCG, Agent, Greedy
        >>> decision = Agent(Greedy(DCG(), epsilon=0.5), m=3, k=2).rank()
        >>> parse_rules("click = 1; curve 1 0.5").item_estimates(decision, [{}, {"click": 1}])
        FeedbackEstimates(items=array([0, 1]), estimates=array([0., 2.]), propensities=array([1.        ,
        0.83333333]))
        """
        estimates = self.estimates(reports, seen)
        known = ~np.isnan(estimates)
        items = decision.ranking[: len(estimates)][known]
        propensities = decision.propensities
        if propensities is not None:
            propensities = propensities[
                items if decision.items is None else np.searchsorted(decision.items, items)
            ]
        return FeedbackEstimates(items, estimates[known], propensities)

    def as_grades(self, estimates: ArrayLike, uniforms: ArrayLike) -> Floats:
        """Turn fractional estimates into random grades 0 and 1, because learners accept only whole grades.

        With [low, high] the `spread` of the rules, an estimate e becomes 1 with probability
        (e - low) / (high - low). The expected grade is then (R - low) / (high - low) at *every* position, so
        ordering items by mean grade orders them by relevance. A learner's regret in units of relevance is at most
        high - low times its bound for grades.

        >>> parse_rules("click = 1; curve 1 0.5").as_grades([2.0, 0.0, 1.0], [0.9, 0.9, 0.4])
        array([1., 0., 1.])
        """
        values = np.asarray(estimates, dtype=np.float64)
        if self.whole:
            return values
        return np.where(np.isnan(values), np.nan, np.asarray(uniforms) < self.odds(values))

    def odds(self, estimates: ArrayLike) -> Floats:
        """Return the probability that `as_grades` turns an estimate into 1.

        >>> parse_rules("click = 1; curve 1 0.5").odds([2.0, 0.0, 1.0])
        array([1. , 0. , 0.5])
        """
        low, high = self.spread
        return np.asarray((np.asarray(estimates, dtype=np.float64) - low) / (high - low))

    def __str__(self) -> str:
        rules = ", ".join(map(str, self.rules)) or "grades"
        if self.curve is not None:
            pairs = zip(self.curve.if_relevant, self.curve.if_irrelevant, strict=True)
            return f"{rules}; curve {' '.join(f'{a!r}/{b!r}' if b else repr(a) for a, b in pairs)}"
        return rules if self.examination == "explicit" else f"{rules}; {self.examination}"


def correct(observed: ArrayLike, curve: PositionBased) -> Floats:
    """Return unbiased estimates of relevance from clicks at the first positions: (c - b_p) / (a_p - b_p).

    They assume E[c | R] = b_p + (a_p - b_p) R. Without clicks on irrelevant items this is c / a_p, inverse
    propensity weighting.

    >>> correct([[1, 1], [0, 0]], PositionBased(if_relevant=(1.0, 0.5), if_irrelevant=(0.0, 0.25)))
    array([[ 1.,  3.],
           [ 0., -1.]])

    References
    ----------
    Vardasbi, Oosterhuis and de Rijke, When Inverse Propensity Scoring does not Work: Affine Corrections for
    Unbiased Learning to Rank, CIKM 2020.
    """
    clicks = np.asarray(observed, dtype=np.float64)
    n = clicks.shape[-1]
    if n > curve.positions:
        raise ValueError(f"a list of {n} positions: the curve describes the first {curve.positions}")
    a, b = np.array(curve.if_relevant[:n]), np.array(curve.if_irrelevant[:n])
    return np.asarray((clicks - b) / (a - b))


def cascade_prefix(grades: ArrayLike) -> Floats:
    """Keep the grades down to the last above 0 and set the rest to NaN; keep all if none is above 0.

    This is correct if users read from the top without a gap until their first click, or to the end, and like items
    independently of each other. If they skip positions, skipped items count as disliked and relevance is
    underestimated. If they read on after a click and like nothing more, this stays unknown and relevance is
    overestimated.

    >>> cascade_prefix([[0, 1, 0], [0, 0, 0]])
    array([[ 0.,  1., nan],
           [ 0.,  0.,  0.]])
    """
    values = np.array(grades, dtype=np.float64)
    liked = values > 0
    below = ~np.flip(np.maximum.accumulate(np.flip(liked, -1), axis=-1), -1)
    values[below & liked.any(axis=-1, keepdims=True)] = np.nan
    return values


def parse_rules(text: str) -> FeedbackRules:
    """Parse feedback rules from a line of text. Raises ValueError, with position and reason, if it is invalid.

    >>> parse_rules("purchase = 4, dwell > 1.5 min = 2, click = 1; cascade").rules[1]
    Rule(signal='dwell', grade=2, bound=90.0, reached=False)
    >>> parse_rules("grades").whole
    True
    """
    rules, semicolon, rest = text.partition(";")
    if rules.strip() == "grades":
        if semicolon:
            raise ValueError(f"'{excerpt(text)}': 'grades' takes no examination: people grade what they have seen")
        return FeedbackRules()
    parsed = tuple(_rule(part, number) for number, part in enumerate(rules.split(","), start=1))
    if not semicolon:
        raise ValueError(_NO_EXAMINATION.format(excerpt(text)))
    _check_rules(parsed)
    word, *numbers = rest.split() or [""]
    if word == "curve":
        return FeedbackRules(parsed, "curve", _curve(numbers))
    if word not in ("seen", "cascade") or numbers:
        hint = suggest(word, ("seen", "cascade", "curve")) if not numbers else "it takes no numbers"
        raise ValueError(f"examination '{excerpt(rest.strip())}': {hint}")
    return FeedbackRules(parsed, "seen" if word == "seen" else "cascade")


def _rule(text: str, number: int) -> Rule:
    condition, equals, grade = text.rpartition("=")
    match = _RULE.fullmatch(condition.strip())
    if not equals or match is None or not grade.strip().isdecimal():
        raise ValueError(
            f"rule {number}, '{excerpt(text.strip())}': must be 'signal = grade' or 'signal > bound = grade', as "
            "in 'click = 1' or 'dwell > 30s = 2'"
        )
    if not 1 <= int(grade) <= 255:
        raise ValueError(
            f"rule {number}, '{excerpt(text.strip())}': a grade must be from 1 to 255; items without signals get 0"
        )
    if (unit := match["unit"] or "") not in _SECONDS:
        raise ValueError(f"rule {number}, '{excerpt(text.strip())}': unit '{unit}': {suggest(unit, _SECONDS)}")
    return Rule(match["signal"], int(grade), float(match["bound"] or 0) * _SECONDS[unit], match["sign"] == ">=")


def _check_rules(rules: Sequence[Rule]) -> None:
    conditions = [(rule.signal, rule.bound, rule.reached) for rule in rules]
    for number, rule in enumerate(rules, start=1):
        if conditions.index(conditions[number - 1]) < number - 1:
            raise ValueError(f"rule {number}, '{rule}': another rule has the same condition")


def _curve(numbers: Sequence[str]) -> PositionBased:
    pairs = []
    for position, text in enumerate(numbers, start=1):
        relevant, slash, irrelevant = text.partition("/")
        try:
            pairs.append((float(relevant), float(irrelevant) if slash else 0.0))
        except ValueError:
            raise ValueError(
                f"curve, position {position}: '{excerpt(text)}' must be the probability of a click on a relevant "
                "item, optionally followed by that for an irrelevant item, as in 0.9/0.1"
            ) from None
    relevant_ones, irrelevant_ones = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return PositionBased(relevant_ones, irrelevant_ones)


def _signals(report: Report | float | None) -> Report:
    if report is None:
        return {}
    if not isinstance(report, Mapping):
        raise ValueError(f"{report!r}: must be signals with numbers, as in {{'click': 1}}")
    return report


def _explicit_grade(report: Report | float | None) -> float:
    if isinstance(report, Mapping):
        raise ValueError(f"{dict(report)!r}: must be a grade, or None for no feedback; signals need rules")
    return math.nan if report is None else float(report)
