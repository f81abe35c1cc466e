"""Alarms with a bounded rate of false alarms: without a fault, expect at most alpha per decision.

    monitor = Monitor(alpha=1e-6)
    for each decision, once its feedback is final:
        monitor.observe(Outcome(items, propensities, positions, feedback, k))
    monitor.raised()

docs/monitoring.md says what each alarm assumes, and docs/theory/monitoring.md proves the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.text import excerpt, pluralize
from peekrank._util.validate import check_open_unit
from peekrank.monitoring.state import new_monitor_state, observe_many, observe_stray, with_room
from peekrank.types import Floats, Ints

T = TypeVar("T")

OVERALL = (
    "unexpected-order", "no-exploration", "fewer-answers", "lower-grades", "no-feedback", "orphan-feedback",
    "equal-answers",
)  # fmt: skip
PER_ITEM = (
    "item-hidden", "item-overexposed",
    "item-fewer-answers", "item-more-answers", "item-lower-grades", "item-higher-grades",
)  # fmt: skip
_MAX_ALARMS = 1000
FACTS = ("low-propensity", "learner-failed", "overflow")
NAMES = (*OVERALL, *PER_ITEM, *FACTS)
_ACTIONS = {
    "unexpected-order": "The app probably sorts, filters or caches lists after ranking. Show them unchanged, or "
    "report what was shown; evaluations of this time are biased.",
    "no-exploration": "The app probably shows an old list again, or moves explored items down. Show each list "
    "once, unchanged; until then the learner learns little.",
    "item-hidden": "The app probably leaves the item out: sold out, blocked, or too slow to load. Do not offer it "
    "for ranking while it cannot be shown, or retire it.",
    "item-overexposed": "The app probably pins or promotes the item. Rank without it, and report what was shown.",
    "fewer-answers": "Feedback is probably lost, late, or the page has changed. Check the feedback requests "
    "since then.",
    "lower-grades": "Probable causes: another audience, a changed page, or worse items. If it lasts, use a "
    "`decay`, or restart the learner.",
    "no-feedback": "No feedback reaches the learner, so it does not learn. Check the feedback requests and the "
    "time allowed for feedback.",
    "orphan-feedback": "Probable causes: retries after decisions were closed, another environment, or ids that "
    "the app invents. Compare the ids.",
    "equal-answers": "The app probably copies one answer for the whole list to its first k items, which says "
    "nothing about which item earned it. Send it for the items that it is about, and none for the others.",
    "item-fewer-answers": "People probably cannot give feedback on the item. Look at it on the page.",
    "item-more-answers": "The item is probably shown differently, or its feedback is sent twice. Look at it.",
    "item-lower-grades": "The item itself probably changed: price, picture, stock. If it is a different item "
    "now, give it a new name; if tastes change often, use a `decay`.",
    "item-higher-grades": "The item itself probably changed, or someone sends feedback in bulk. Check who sends "
    "it.",
    "low-propensity": "Candidates get less than the minimum propensity and cannot be evaluated. Check the "
    "learner's exploration, and lists with more candidates than it was configured for.",
    "learner-failed": "The learner has stopped learning. Load the last good state, or restart with scaled "
    "features.",
    "overflow": "Rankings are now arbitrary. Load the last good state, and scale features.",
}


class Outcome(NamedTuple):
    """A decision with its final feedback: it has arrived, or the time for it is over."""

    items: Ints  # numbers of the candidates
    propensities: Floats  # probability of each to be among the first k; NaN: unknown
    positions: Ints  # where the app showed each, from 0; -1: not shown
    answers: Floats  # NaN: none
    k: int


class Alarm(NamedTuple):
    """A fault that a person should look at. Repeated alarms of the same name and item count as one."""

    name: str
    item: int | None
    since: int  # number of decisions observed when it was first raised
    latest: int  # and when it was last raised
    times: int
    cause: str  # observation when it was last raised, with numbers
    action: str  # probable cause, and what to do

    def as_dict(self) -> dict[str, Any]:
        """Return the alarm as the JSON output has it."""
        return self._asdict()


class Monitor:
    """Monitor of decisions and feedback that raises alarms.

    Parameters
    ----------
    alpha
        Largest expected number of false alarms per decision. The first false alarm is expected after at least
        1 / alpha decisions.
    grades
        Smallest and largest possible feedback.
    min_propensity
        Smallest propensity that each candidate should have; 0 for no minimum.
    min_feedback_rate
        Smallest share of decisions with feedback, without a fault.
    max_orphan_rate
        Largest share of feedback on unknown decisions, without a fault.
    tolerance
        Largest share by which a rate or mean of feedback may fall, without a fault: where it varies by day and
        night, the lowest is at least 1 - tolerance times the highest.
    name_of
        Returns the name of an item, by its number.

    >>> monitor, rng = Monitor(alpha=1e-4), np.random.default_rng(0)
    >>> for t in range(2000):
    ...     first = int(rng.random() < 0.1)  # item 0 is on top with probability 0.9 ...
    ...     if t >= 1500:
    ...         first = 1  # ... until the app hides it
    ...     monitor.observe(Outcome([0, 1], [0.9, 0.1], [first, 1 - first], [1 - first or np.nan, np.nan], k=1))
    >>> [(alarm.name, 1500 < alarm.since < 1510) for alarm in monitor.raised() if alarm.item == 0]
    [('item-hidden', True)]
    """

    def __init__(
        self,
        alpha: float = 1e-6,
        *,
        grades: tuple[float, float] = (0.0, 1.0),
        min_propensity: float = 0.0,
        min_feedback_rate: float = 0.001,
        max_orphan_rate: float = 0.01,
        tolerance: float = 0.2,
        name_of: Callable[[int], str] = str,
    ) -> None:
        for name, value in (
            ("alpha", alpha),
            ("min_feedback_rate", min_feedback_rate),
            ("max_orphan_rate", max_orphan_rate),
        ):
            check_open_unit(name, value)
        low, high = map(float, grades)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"grades = {grades}: must be the smallest and the largest possible feedback, in this order"
            )
        for name, value in (("min_propensity", min_propensity), ("tolerance", tolerance)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} = {value!r}: must be from 0 to below 1")
        self.min_propensity, self.name_of = float(min_propensity), name_of
        self._state = new_monitor_state(alpha, (low, high), min_feedback_rate, max_orphan_rate, float(tolerance))
        self._alarms: dict[tuple[str, int | None], Alarm] = {}
        self._totals = dict.fromkeys(NAMES, 0)
        self._holds = dict.fromkeys(FACTS, False)  # facts are raised when they begin to hold

    @property
    def alpha(self) -> float:
        """Largest expected number of false alarms per decision."""
        return self._state.alpha

    @property
    def rounds(self) -> int:
        """Number of decisions observed so far."""
        return int(self._state.rounds[0])

    def observe(self, outcome: Outcome) -> None:
        """Observe a decision, once, when its feedback is final."""
        items, k = _array(outcome.items, np.int64, "items"), int(outcome.k)
        n = len(items)
        propensities, answers = (
            _array(outcome.propensities, np.float64, "propensities", n),
            _array(outcome.answers, np.float64, "feedback", n),
        )
        positions = _array(outcome.positions, np.int64, "positions", n)
        self.observe_many(np.array([0, n]), items, propensities, positions, answers, np.array([k]))

    def observe_many(
        self, offsets: Ints, items: Ints, propensities: Floats, positions: Ints, answers: Floats, ks: Ints
    ) -> None:
        """Observe many decisions: decision t has the rows ``offsets[t]:offsets[t + 1]``, as in a `Log`."""
        if len(ks) == 0:
            return
        offsets, items, positions, ks = (
            _array(part, np.int64, "column") for part in (offsets, items, positions, ks)
        )
        propensities, answers = (
            _array(propensities, np.float64, "propensities"),
            _array(answers, np.float64, "feedback"),
        )
        lengths = np.diff(offsets)
        rows = {len(items), len(propensities), len(positions), len(answers), int(offsets[-1])}
        if len(offsets) != len(ks) + 1 or offsets[0] != 0 or lengths.min() < 1 or len(rows) > 1:
            raise ValueError(
                "columns do not match: they need one row per candidate, and each decision at least one candidate"
            )
        if items.min() < 0 or ks.min() < 1:
            raise ValueError("items must be numbers from 0, and k at least 1")
        self._make_room(lengths, items, positions, ks)
        first, before = 0, self.rounds
        while first < len(ks):
            first = observe_many(self._state, offsets, items, propensities, positions, answers, ks, first)
            self._collect()
        self._check_propensities(before, offsets, items, propensities)

    def stray(self, count: int = 1) -> None:
        """Observe feedback on unknown decisions."""
        for _ in range(count):
            observe_stray(self._state)
            self._collect()

    def health(self, failure: str = "", scores: ArrayLike = ()) -> None:
        """Observe the state of the learner; call it from time to time.

        Parameters
        ----------
        failure
            Why the learner has stopped learning (`Agent.failure`); empty while it is healthy.
        scores
            Its scores of items; optional.
        """
        self._fact("learner-failed", f"The learner reports: {excerpt(failure, 200)}.", holds=bool(failure))
        bad = np.flatnonzero(~np.isfinite(np.asarray(scores, dtype=np.float64)))
        self._fact("overflow", f"{pluralize(bad.size, 'score')} of items not finite.", holds=bad.size > 0)

    def raised(self) -> tuple[Alarm, ...]:
        """Return the alarms in the order in which they were first raised, at most the last thousand."""
        return tuple(self._alarms.values())

    def metrics(self) -> dict[str, float]:
        """Return metrics: the number of decisions observed, and of alarms by name."""
        totals = {f'peekrank_alarms_total{{alarm="{name}"}}': float(count) for name, count in self._totals.items()}
        return {"peekrank_watched_decisions_total": float(self.rounds), **totals}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the state, from which `restore` resumes. It does not contain the alarms raised so far."""
        s = self._state
        s = s._replace(references=s.references[: s.used[0]])
        return {name: part.copy() for name, part in s._asdict().items() if isinstance(part, np.ndarray)}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Resume from a state. Raises ValueError if it is invalid."""
        fresh = self._state._asdict()
        restored: dict[str, Any] = {}
        for name, part in fresh.items():
            if isinstance(part, np.ndarray):
                saved = np.asarray(arrays.get(name))
                wrong = saved.shape[1:] != part.shape[1:] and name != "cells"
                if saved.dtype != part.dtype or wrong or saved.ndim != part.ndim:
                    raise ValueError(f"'{name}' is missing or does not fit the state of a monitor")
                if part.dtype == np.float64 and not np.isfinite(saved).all():
                    raise ValueError(f"'{name}' must contain only finite numbers")
                restored[name] = np.ascontiguousarray(saved).copy()
        sizes = {len(restored[name]) for name in ("items", "cells", "recent")}
        fixed = all(
            len(restored[name]) == len(fresh[name])
            for name in ("overall", "reference", "used", "shown", "rounds", "number", "raised")
        )
        if len(sizes) != 1 or not fixed:
            raise ValueError("the arrays of a monitor do not match each other")
        cells, used = restored["cells"], len(restored["references"])
        if restored["used"][0] != used or cells.min(initial=0) < -1 or cells.max(initial=-1) >= used:
            raise ValueError("'cells' must name rows of 'references', all of which are in use")
        restored["number"][:] = 0
        self._state = self._state._replace(**restored)

    def _make_room(self, lengths: Ints, items: Ints, positions: Ints, ks: Ints) -> None:
        s, longest = self._state, int(lengths.max())
        known, places = s.cells.shape
        size = int(items.max()) + 1
        size = known if size <= known else max(2 * known, size)
        places = max(places, min(longest, int(ks.max())))
        seen = (positions >= 0) & (positions < np.repeat(ks, lengths))
        rows, new = len(s.references), int(seen.sum())
        if int(s.used[0]) + new > rows:
            at = items[seen] * longest + np.minimum(positions[seen], longest - 1)
            rows = max(int(s.used[0]) + len(np.unique(at)), min(2 * rows, size * places))
        self._state = with_room(s, size, places, rows, int(ks[ks < lengths].max(initial=0)))

    def _collect(self) -> None:
        """Turn the raised rows into alarms."""
        s = self._state
        for kind, number, *numbers in s.raised[: s.number[0]].tolist():
            item = int(number) if number >= 0 else None
            name = OVERALL[int(kind)] if item is None else PER_ITEM[int(kind)]
            self._raise(name, item, _cause(name, "" if item is None else self.name_of(item), *numbers))
        s.number[0] = 0

    def _check_propensities(self, before: int, offsets: Ints, items: Ints, propensities: Floats) -> None:
        if self.min_propensity > 0:
            low = propensities < self.min_propensity * (1 - 1e-9)
            row = int(np.argmax(low))
            t = before + int(np.searchsorted(offsets, row, side="right"))
            item = excerpt(self.name_of(int(items[row])))
            value = f"propensity {propensities[row]:.3g} in decision {t}"
            cause = f"Item '{item}' had {value}; the minimum is {self.min_propensity:g}."
            self._fact("low-propensity", cause, holds=bool(low.any()))

    def _fact(self, name: str, cause: str, *, holds: bool) -> None:
        if holds and not self._holds[name]:
            self._raise(name, None, cause)
        self._holds[name] = holds

    def _raise(self, name: str, item: int | None, cause: str) -> None:
        now, key = self.rounds, (name, item)
        first = self._alarms.get(key, Alarm(name, item, now, now, 0, "", _ACTIONS[name]))
        self._alarms[key] = first._replace(latest=now, times=first.times + 1, cause=cause)
        self._totals[name] += 1
        if len(self._alarms) > _MAX_ALARMS:
            del self._alarms[next(iter(self._alarms))]


_CAUSES = {
    "unexpected-order": "The lists shown agree less with the rankings than chance allows: the propensities of the "
    "items shown recently add up to {now:.3g}, where {low:.3g} is expected.",
    "no-exploration": "The lists shown agree more with the rankings than chance allows: the propensities of the "
    "items shown recently add up to {now:.3g}, where {low:.3g} is expected.",
    "fewer-answers": "The share of items with feedback was above {low:.3g} and is now {now:.3g}.",
    "lower-grades": "The mean grade, on a scale from 0 to 1, was above {low:.3g} and is now {now:.3g}.",
    "no-feedback": "The share of decisions with feedback is below {low:.3g}.",
    "orphan-feedback": "The share of feedback on unknown decisions is above {high:.3g}.",
    "equal-answers": "The answers of a list are nearly always equal: in more than a share of {high:.3g} of the "
    "lists with two answers or more, not all of them the lowest.",
    "item-hidden": "Item '{item}' was recently seen in a share of {now:.3g} of its decisions; {low:.3g} is "
    "expected.",
    "item-overexposed": "Item '{item}' was recently seen in a share of {now:.3g} of its decisions; {low:.3g} is "
    "expected.",
}
_CHANGED = "The {what} of item '{item}' at position {at} was from {low:.3g} to {high:.3g} and is now {now:.3g}."


def _cause(name: str, item: str, position: float, low: float, high: float, now: float) -> str:
    """Describe the observation behind an alarm, with its numbers."""
    what = "mean grade, on a scale from 0 to 1," if name.endswith("grades") else "share of feedback"
    return _CAUSES.get(name, _CHANGED).format(
        what=what, item=excerpt(item), at=int(position) + 1, low=low, high=high, now=now
    )


def _array(values: ArrayLike, dtype: type[Any], name: str, n: int | None = None) -> Any:
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.ndim != 1 or (n is not None and len(array) != n):
        raise ValueError(f"{name} of shape {array.shape}: must be a list with one number per candidate")
    return array
