"""Forms of feedback: what people do with a list becomes a grade, an estimate of one, or nothing, for each place.

A form is a value that is parsed from a line of text, ``RULES; EXAMINATION``:

    grades                                                      people tell grades
    click = 1; seen                                             clicks, and which places were looked at
    purchase = 4, dwell > 30s = 2, click = 1; cascade           the largest grade that holds; looked at down to it
    click = 1; curve 0.9/0.1 0.6/0.05                           P(click) if relevant / if not, for each place

Silence is an answer only where somebody looked. So there is no form without a word on examination: to take silence
for 0 teaches places, not items.
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
from peekrank.spec import nearest
from peekrank.streams.clicks import PositionBased
from peekrank.types import Decision, Floats, Ints

Examination = Literal["told", "seen", "cascade", "curve"]
Report = Mapping[str, float]  # signals of one item: {"click": 1, "dwell": 42.0}; seconds where a time is meant
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_RULE = re.compile(
    r"(?P<signal>[A-Za-z][\w-]*)\s*(?:(?P<sign>>=?)\s*(?P<bound>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*))?"
)
_SILENCE = (
    "{!r} does not say who looked at what: an item without a click was either disliked or never seen, and silence "
    "taken for 0 teaches places instead of items. Add '; seen' (the app tells which items were looked at), "
    "'; cascade' (all down to the last click were, and none below is known) or '; curve 1 0.6 0.4' (how likely "
    "each place is looked at; `peekrank positions` estimates it)"
)


class Rule(NamedTuple):
    """A signal that stands for a grade: at all, or above a bound."""

    signal: str
    grade: int
    bound: float = 0.0
    reached: bool = False  # whether the bound itself is enough

    def holds(self, report: Report) -> bool:
        """Whether the signals of an item fulfil it."""
        value = float(report.get(self.signal, 0.0))
        return value > self.bound or (self.reached and value == self.bound)

    def __str__(self) -> str:
        bound = np.format_float_positional(self.bound, trim="-")
        sign = f" {'>=' if self.reached else '>'} {bound}" if self.bound or self.reached else ""
        return f"{self.signal}{sign} = {self.grade}"


class Told(NamedTuple):
    """What a list taught: items, an estimate of each one's relevance, and the chance that it was seen at all."""

    items: Ints
    estimates: Floats
    chances: Floats | None  # None: the learner cannot say


@dataclass(frozen=True)
class Form:
    """A form of feedback: rules that make grades of signals, and what is known of who looked where.

    Parameters
    ----------
    rules
        What signals stand for; none where people tell grades.
    examination
        "told": every answer is a grade that somebody gave. "seen": the app tells which places were looked at.
        "cascade": all places down to the last with a grade above 0 were looked at, or all if there is none.
        "curve": each place is looked at with a known probability.
    curve
        The probabilities, for "curve".

    >>> clicks = form("click = 1; curve 0.9/0.1 0.5/0.1")
    >>> clicks.estimates([{}, {"click": 1}])
    array([-0.125,  2.25 ])
    >>> form("click = 1; cascade").estimates([{}, {"click": 1}, {}])
    array([ 0.,  1., nan])
    """

    rules: tuple[Rule, ...] = ()
    examination: Examination = "told"
    curve: PositionBased | None = None

    def __post_init__(self) -> None:
        if self.examination not in get_args(Examination):
            raise ValueError(
                f"examination {self.examination!r}: {nearest(self.examination, get_args(Examination))}"
            )
        if bool(self.rules) == (self.examination == "told"):
            raise ValueError(
                _SILENCE.format(str(self)) if self.rules else "grades that are told need no examination"
            )
        if (self.curve is None) == (self.examination == "curve"):
            raise ValueError("a curve goes with examination 'curve', and with no other")
        if self.curve is not None and any(self.curve.irrelevant) and self.max_grade > 1:
            raise ValueError(
                f"'{self}': clicks on what is not relevant can be corrected for where there is one grade, 1; for "
                "more, give probabilities of being looked at alone, as in 'curve 1 0.6 0.4'"
            )

    @property
    def max_grade(self) -> int:
        """The largest grade that the rules give; 255, the largest there is, where grades are told."""
        return max((rule.grade for rule in self.rules), default=255)

    @property
    def whole(self) -> bool:
        """Whether what comes out are whole grades, which every learner takes; else see `as_grades`."""
        return self.curve is None

    @property
    def unbiased(self) -> bool:
        """Whether what comes out, divided by the chance to be among the first k, estimates relevance without bias.

        So it is for grades told by all, and for a curve that is true. What is seen, or looked at by a cascade,
        depends on the visitor: of the items that *are* answered for the grades are right, but how likely an
        answer is does not follow from the chances alone.
        """
        return self.examination in ("told", "curve")

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the largest value that can come out."""
        if self.curve is None:
            return 0.0, float(self.max_grade)
        ends = correct(np.array([[0.0] * self.curve.places, [self.max_grade] * self.curve.places]), self.curve)
        return float(ends.min()), float(ends.max())

    def grade(self, report: Report) -> int:
        """The largest grade whose rule holds; 0 if none does.

        >>> form("purchase = 4, dwell > 30s = 2, click = 1; seen").grade({"click": 1, "dwell": 31})
        2
        """
        known = {rule.signal for rule in self.rules}
        for signal, value in report.items():
            if signal not in known:
                raise ValueError(f"no rule for the signal '{excerpt(signal)}': {nearest(signal, known)}")
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{signal} = {value!r}: must be a finite number, 0 or more")
        return max((rule.grade for rule in self.rules if rule.holds(report)), default=0)

    def estimates(self, reports: Sequence[Report | float | None], seen: Sequence[bool] | None = None) -> Floats:
        """What is known of the relevance at each place that was shown, from the top; NaN: nothing.

        Parameters
        ----------
        reports
            Signals of each item; where grades are told, the grade or None.
        seen
            Which of these places were looked at, for the form "seen".
        """
        if (seen is None) == (self.examination == "seen"):
            raise ValueError(f"'{self}': `seen` must be given with examination 'seen', and with no other")
        if not self.rules:
            return np.array([_told(report) for report in reports], dtype=np.float64)
        grades = np.array([self.grade(_signals(report)) for report in reports], dtype=np.float64)
        if self.curve is not None:
            return correct(grades, self.curve)
        if self.examination == "cascade":
            return cascade_prefix(grades)
        looked = np.asarray(seen, dtype=np.bool_)
        if looked.shape != grades.shape:
            raise ValueError(
                f"seen tells of {looked.size} places: must tell of each of the {grades.size} reported"
            )
        if (blind := np.flatnonzero(~looked & (grades > 0))).size:
            raise ValueError(f"place {blind[0] + 1} has the grade {grades[blind[0]]:g} and was not looked at")
        return np.where(looked, grades, np.nan)

    def told(
        self, decision: Decision, reports: Sequence[Report | float | None], seen: Sequence[bool] | None = None
    ) -> Told:
        """What is known of the first items of a decision, one by one, without those of which nothing is.

        >>> from peekrank import DCG, Agent, Greedy
        >>> decision = Agent(Greedy(DCG(), epsilon=0.5), m=3, k=2).rank()
        >>> form("click = 1; curve 1 0.5").told(decision, [{}, {"click": 1}])
        Told(items=array([0, 1]), estimates=array([0., 2.]), chances=array([1.        , 0.83333333]))
        """
        estimates = self.estimates(reports, seen)
        known = ~np.isnan(estimates)
        items = decision.ranking[: len(estimates)][known]
        chances = decision.chances
        if chances is not None:
            chances = chances[items if decision.items is None else np.searchsorted(decision.items, items)]
        return Told(items, estimates[known], chances)

    def as_grades(self, estimates: ArrayLike, uniforms: ArrayLike) -> Floats:
        """Grades 0 and 1 for learners, which take whole grades alone, out of estimates that are not whole.

        With [low, high] the `spread` of the form, an estimate e becomes 1 with probability
        (e - low) / (high - low). The expected grade is then (R - low) / (high - low) at *every* place: items
        ordered by their mean grade are ordered by relevance. A learner's regret in units of relevance is
        high - low times what its bound says of grades.

        >>> form("click = 1; curve 1 0.5").as_grades([2.0, 0.0, 1.0], [0.9, 0.9, 0.4])
        array([1., 0., 1.])
        """
        values = np.asarray(estimates, dtype=np.float64)
        if self.whole:
            return values
        return np.where(np.isnan(values), np.nan, np.asarray(uniforms) < self.odds(values))

    def odds(self, estimates: ArrayLike) -> Floats:
        """Probability that `as_grades` makes 1 of an estimate that is not whole.

        >>> form("click = 1; curve 1 0.5").odds([2.0, 0.0, 1.0])
        array([1. , 0. , 0.5])
        """
        low, high = self.spread
        return np.asarray((np.asarray(estimates, dtype=np.float64) - low) / (high - low))

    def __str__(self) -> str:
        rules = ", ".join(map(str, self.rules)) or "grades"
        if self.curve is not None:
            pairs = zip(self.curve.relevant, self.curve.irrelevant, strict=True)
            return f"{rules}; curve {' '.join(f'{a!r}/{b!r}' if b else repr(a) for a, b in pairs)}"
        return rules if self.examination == "told" else f"{rules}; {self.examination}"


def correct(observed: ArrayLike, curve: PositionBased) -> Floats:
    """Unbiased estimates of relevance from clicks at the first places: (c - b_p) / (a_p - b_p).

    For E[c | R] = b_p + (a_p - b_p) R. Without clicks on what is not relevant this is c / a_p: inverse propensity.

    >>> correct([[1, 1], [0, 0]], PositionBased(relevant=(1.0, 0.5), irrelevant=(0.0, 0.25)))
    array([[ 1.,  3.],
           [ 0., -1.]])

    References
    ----------
    Vardasbi, Oosterhuis and de Rijke, When Inverse Propensity Scoring does not Work: Affine Corrections for
    Unbiased Learning to Rank, CIKM 2020.
    """
    clicks = np.asarray(observed, dtype=np.float64)
    shown = clicks.shape[-1]
    if shown > curve.places:
        raise ValueError(f"a list of {shown} places: the curve describes the first {curve.places}")
    a, b = np.array(curve.relevant[:shown]), np.array(curve.irrelevant[:shown])
    return np.asarray((clicks - b) / (a - b))


def cascade_prefix(grades: ArrayLike) -> Floats:
    """Grades down to the last above 0, then NaN; all of them where none is above 0.

    Right if people look from the top down without a gap until their first click, or to the end, and like items
    independently of each other. If they skip places, what they skipped is taken for disliked: relevance is
    underestimated. If they go on after a click and like nothing more, that is not known: it is overestimated.

    >>> cascade_prefix([[0, 1, 0], [0, 0, 0]])
    array([[ 0.,  1., nan],
           [ 0.,  0.,  0.]])
    """
    values = np.array(grades, dtype=np.float64)
    liked = values > 0
    below = ~np.flip(np.maximum.accumulate(np.flip(liked, -1), axis=-1), -1)
    values[below & liked.any(axis=-1, keepdims=True)] = np.nan
    return values


def form(text: str) -> Form:
    """The form of feedback that a line of text describes; a ValueError says what is wrong with it, and where.

    >>> form("purchase = 4, dwell > 1.5 min = 2, click = 1; cascade").rules[1]
    Rule(signal='dwell', grade=2, bound=90.0, reached=False)
    >>> form("grades").whole
    True
    """
    rules, semicolon, rest = text.partition(";")
    if rules.strip() == "grades":
        if semicolon:
            raise ValueError(f"'{excerpt(text)}': grades stand alone; they are answers of somebody who looked")
        return Form()
    parsed = tuple(_rule(part, number) for number, part in enumerate(rules.split(","), start=1))
    if not semicolon:
        raise ValueError(_SILENCE.format(excerpt(text)))
    _check_rules(parsed)
    word, *numbers = rest.split() or [""]
    if word == "curve":
        return Form(parsed, "curve", _curve(numbers))
    if word not in ("seen", "cascade") or numbers:
        meant = nearest(word, ("seen", "cascade", "curve")) if not numbers else "it stands alone"
        raise ValueError(f"examination '{excerpt(rest.strip())}': {meant}")
    return Form(parsed, "seen" if word == "seen" else "cascade")


def _rule(text: str, number: int) -> Rule:
    what, equals, grade = text.rpartition("=")
    found = _RULE.fullmatch(what.strip())
    if not equals or found is None or not grade.strip().isdecimal():
        raise ValueError(
            f"rule {number}, '{excerpt(text.strip())}': must be 'signal = grade' or 'signal > bound = grade', as "
            "in 'click = 1' or 'dwell > 30s = 2'"
        )
    if not 1 <= int(grade) <= 255:
        raise ValueError(f"rule {number}, '{excerpt(text.strip())}': a grade is from 1 to 255; 0 is what is left")
    if (unit := found["unit"] or "") not in _SECONDS:
        raise ValueError(f"rule {number}, '{excerpt(text.strip())}': unit '{unit}': {nearest(unit, _SECONDS)}")
    return Rule(found["signal"], int(grade), float(found["bound"] or 0) * _SECONDS[unit], found["sign"] == ">=")


def _check_rules(rules: Sequence[Rule]) -> None:
    conditions = [(rule.signal, rule.bound, rule.reached) for rule in rules]
    for number, rule in enumerate(rules, start=1):
        if conditions.index(conditions[number - 1]) < number - 1:
            raise ValueError(f"rule {number}, '{rule}': the same condition has a grade already")


def _curve(numbers: Sequence[str]) -> PositionBased:
    pairs = []
    for place, text in enumerate(numbers, start=1):
        relevant, slash, irrelevant = text.partition("/")
        try:
            pairs.append((float(relevant), float(irrelevant) if slash else 0.0))
        except ValueError:
            raise ValueError(
                f"curve, place {place}: '{excerpt(text)}' must be the probability of a click on a relevant item, "
                "or that and the one for an item that is not, as in 0.9/0.1"
            ) from None
    relevant_ones, irrelevant_ones = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return PositionBased(relevant_ones, irrelevant_ones)


def _signals(report: Report | float | None) -> Report:
    if report is None:
        return {}
    if not isinstance(report, Mapping):
        raise ValueError(f"{report!r}: must be signals with their numbers, as in {{'click': 1}}")
    return report


def _told(report: Report | float | None) -> float:
    if isinstance(report, Mapping):
        raise ValueError(f"{dict(report)!r}: must be a grade, or None for no answer; signals need rules")
    return math.nan if report is None else float(report)
