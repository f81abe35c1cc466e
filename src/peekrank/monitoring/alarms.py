"""Alarms with a stated rate of false ones: at most alpha per decision are expected while all is well.

    watch = Watch(alpha=1e-6)
    for each decision, once its answers are final: watch.observe(Outcome(items, chances, places, answers, k))
    watch.raised()

docs/evidence/alarms.md has the theorem, its proof, and what each alarm assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from peekrank.evidence.accounts import no_accounts, observe_many, observe_stray

from peekrank._util.text import counted, excerpt
from peekrank._util.validate import fraction
from peekrank.types import Floats, Ints

T = TypeVar("T")

OVERALL = ("unexpected-order", "no-exploration", "fewer-answers", "lower-grades", "silence", "stray-answers")
PER_ITEM = (
    "item-hidden", "item-pushed",
    "item-fewer-answers", "item-more-answers", "item-lower-grades", "item-higher-grades",
)  # fmt: skip
_MOST_KEPT = 1000  # alarms
FACTS = ("starved", "trouble", "overflow")
NAMES = (*OVERALL, *PER_ITEM, *FACTS)
_ACTIONS = {
    "unexpected-order": "Likely the app sorts, filters or caches lists after they were ranked. Show them as they "
    "are, or report what was shown; evaluations of this time are biased.",
    "no-exploration": "Likely the app shows an old list again, or undoes what was moved up to be asked about. "
    "Show each list once, as it is; until then little is learned.",
    "item-hidden": "Likely the app leaves the item out: sold out, blocked, or too slow to load. Do not offer it "
    "for ranking while it cannot be shown, or retire it.",
    "item-pushed": "Likely the app pins or promotes the item. Rank without it, and report what was shown.",
    "fewer-answers": "Likely answers are lost on their way, come too late, or the page has changed. Look at the "
    "calls that bring feedback since then.",
    "lower-grades": "Likely another audience, a change of the page, or items that got worse. If it lasts, let "
    "the learner forget (`forget`), or start again.",
    "silence": "No feedback reaches the learner, which stays as it is. Look at the calls that bring it, and at "
    "the time that answers may take.",
    "stray-answers": "Likely retries after decisions were closed, another environment, or ids that the app makes "
    "up. Compare the ids.",
    "item-fewer-answers": "Likely the item is shown in a way that people cannot answer. Look at it on the page.",
    "item-more-answers": "Likely the item is shown differently, or answers about it are sent twice. Look at it.",
    "item-lower-grades": "Likely the item itself changed: price, picture, stock. If it is another thing now, give "
    "it a new name; if tastes change often, let the learner forget.",
    "item-higher-grades": "Likely the item itself changed, or somebody answers in bulk. Look at who answers.",
    "starved": "Candidates get less than the promised chance, and cannot be evaluated. Look at the learner's "
    "exploration, and at lists with more candidates than it was set up for.",
    "trouble": "The learner has stopped learning. Load the last good state, or start again with scaled features.",
    "overflow": "Rankings are arbitrary now. Load the last good state, and scale features.",
}


class Outcome(NamedTuple):
    """A decision, once its answers are final: they have come, or the time for them is over."""

    items: Ints  # numbers of the candidates
    chances: Floats  # of each to be among the first k; NaN: not known
    places: Ints  # where each was shown, from 0, as far as the app says; -1: not at all
    answers: Floats  # NaN: none
    k: int


class Alarm(NamedTuple):
    """Something a person should look at; what is raised again and again is one alarm."""

    name: str
    item: int | None
    since: int  # how many decisions had been observed when it was raised first
    latest: int  # and last
    times: int
    cause: str  # what was seen when it was raised last, with its numbers
    action: str  # what is likely, and what to do

    def as_dict(self) -> dict[str, Any]:
        """JSON of it."""
        return self._asdict()


class Watch:
    """Watches decisions and answers, and raises alarms.

    Parameters
    ----------
    alpha
        False alarms that are expected per decision, at most; 1 / alpha decisions before the first, at least.
    grades
        The least and the largest answer there can be.
    promised
        The chance that each candidate is promised to have; 0: none is.
    least_rate
        The share of decisions that are answered at all, at least, while all is well.
    stray_rate
        The share of answers to unknown decisions, at most, while all is well.
    name_of
        What an alarm calls an item.

    >>> watch, rng = Watch(alpha=1e-4), np.random.default_rng(0)
    >>> for t in range(2000):
    ...     first = int(rng.random() < 0.1)  # item 0 is to be seen with chance 0.9, and so it is ...
    ...     if t >= 1500:
    ...         first = 1  # ... until the app hides it
    ...     watch.observe(Outcome([0, 1], [0.9, 0.1], [first, 1 - first], [1 - first or np.nan, np.nan], k=1))
    >>> [(alarm.name, 1500 < alarm.since < 1510) for alarm in watch.raised() if alarm.item == 0]
    [('item-hidden', True)]
    """

    def __init__(
        self,
        alpha: float = 1e-6,
        *,
        grades: tuple[float, float] = (0.0, 1.0),
        promised: float = 0.0,
        least_rate: float = 0.001,
        stray_rate: float = 0.01,
        name_of: Callable[[int], str] = str,
    ) -> None:
        for name, value in (("alpha", alpha), ("least_rate", least_rate), ("stray_rate", stray_rate)):
            fraction(name, value)
        low, high = map(float, grades)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"grades = {grades}: must be the least and the largest answer, the least first")
        if not 0 <= promised < 1:
            raise ValueError(f"promised = {promised!r}: must be a probability from 0 to 1")
        self.promised, self.name_of = float(promised), name_of
        self._accounts = no_accounts(1, alpha, (low, high), least_rate, stray_rate)
        self._alarms: dict[tuple[str, int | None], Alarm] = {}
        self._totals = dict.fromkeys(NAMES, 0)
        self._holds = dict.fromkeys(FACTS, False)  # facts are raised when they begin to hold

    @property
    def alpha(self) -> float:
        """False alarms that are expected per decision, at most."""
        return self._accounts.alpha

    @property
    def rounds(self) -> int:
        """Decisions observed so far."""
        return int(self._accounts.rounds[0])

    def observe(self, outcome: Outcome) -> None:
        """Take in a decision; once, when its answers are final."""
        items, k = _array(outcome.items, np.int64, "items"), int(outcome.k)
        n = len(items)
        chances, answers = (
            _array(outcome.chances, np.float64, "chances", n),
            _array(outcome.answers, np.float64, "answers", n),
        )
        places = _array(outcome.places, np.int64, "places", n)
        self.observe_many(np.array([0, n]), items, chances, places, answers, np.array([k]))

    def observe_many(
        self, offsets: Ints, items: Ints, chances: Floats, places: Ints, answers: Floats, ks: Ints
    ) -> None:
        """Take in many decisions: decision t is rows ``offsets[t]:offsets[t + 1]``, as in a `Log`."""
        if len(ks) == 0:
            return
        offsets, items, places, ks = (_array(part, np.int64, "column") for part in (offsets, items, places, ks))
        chances, answers = _array(chances, np.float64, "chances"), _array(answers, np.float64, "answers")
        lengths = np.diff(offsets)
        rows = {len(items), len(chances), len(places), len(answers), int(offsets[-1])}
        if len(offsets) != len(ks) + 1 or offsets[0] != 0 or lengths.min() < 1 or len(rows) > 1:
            raise ValueError("columns do not fit each other: one row per candidate, and one candidate at least")
        if items.min() < 0 or ks.min() < 1:
            raise ValueError("items must be numbers from 0, and k 1 at least")
        self._make_room(int(items.max()) + 1, int(ks[ks < lengths].max(initial=0)))
        first, before = 0, self.rounds
        while first < len(ks):
            first = observe_many(self._accounts, offsets, items, chances, places, answers, ks, first)
            self._collect()
        self._look_for_starved(before, offsets, items, chances)

    def stray(self, count: int = 1) -> None:
        """Take in answers to decisions that nobody knows of."""
        for _ in range(count):
            observe_stray(self._accounts)
            self._collect()

    def health(self, trouble: str = "", scores: ArrayLike = ()) -> None:
        """Take in what the learner says of itself, now and then.

        Parameters
        ----------
        trouble
            Why it has stopped learning (`Agent.trouble`); empty while it is healthy.
        scores
            What it believes of items; none need be given.
        """
        self._fact("trouble", f"The learner says: {excerpt(trouble, 200)}.", holds=bool(trouble))
        bad = np.flatnonzero(~np.isfinite(np.asarray(scores, dtype=np.float64)))
        self._fact("overflow", f"{counted(bad.size, 'score')} of items: no finite numbers.", holds=bad.size > 0)

    def raised(self) -> tuple[Alarm, ...]:
        """The alarms so far, in the order they were first raised; of very many, the last thousand."""
        return tuple(self._alarms.values())

    def metrics(self) -> dict[str, float]:
        """Numbers for a monitoring system: decisions observed, and alarms by name."""
        totals = {f'peekrank_alarms_total{{alarm="{name}"}}': float(count) for name, count in self._totals.items()}
        return {"peekrank_watched_decisions_total": float(self.rounds), **totals}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The memory: `restore` goes on from it. Alarms that were raised are not part of it."""
        return {
            name: part.copy() for name, part in self._accounts._asdict().items() if isinstance(part, np.ndarray)
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a memory; a ValueError if it cannot be one."""
        fresh = self._accounts._asdict()
        found: dict[str, Any] = {}
        for name, part in fresh.items():
            if isinstance(part, np.ndarray):
                given = np.asarray(arrays.get(name))
                if given.dtype != part.dtype or given.shape[1:] != part.shape[1:] or given.ndim != part.ndim:
                    raise ValueError(f"'{name}' is no part of the memory of a watch")
                if part.dtype == np.float64 and not np.isfinite(given).all():
                    raise ValueError(f"'{name}' holds something else than finite numbers")
                found[name] = np.ascontiguousarray(given).copy()
        sizes = {len(found[name]) for name in ("items", "item_pasts", "recent")}
        fixed = all(
            len(found[name]) == len(fresh[name]) for name in ("overall", "past", "shown", "rounds", "raised")
        )
        if len(sizes) != 1 or not fixed:
            raise ValueError("the arrays of a watch do not fit each other")
        found["number"][:] = 0
        self._accounts = self._accounts._replace(**found)

    def _make_room(self, items: int, k: int) -> None:
        there = len(self._accounts.items)
        if items > there:
            room = max(2 * there, items)
            s = self._accounts
            fresh = no_accounts(room, s.alpha, (s.lowest, s.highest), s.least_rate, s.stray_rate)
            for name in ("items", "item_pasts", "recent"):
                getattr(fresh, name)[:there] = getattr(s, name)
            self._accounts = s._replace(items=fresh.items, item_pasts=fresh.item_pasts, recent=fresh.recent)
        if k > len(self._accounts.top):
            self._accounts = self._accounts._replace(top=np.zeros(k))

    def _collect(self) -> None:
        """Put what the accounts raised into words."""
        s = self._accounts
        for kind, number, *numbers in s.raised[: s.number[0]].tolist():
            item = int(number) if number >= 0 else None
            name = OVERALL[int(kind)] if item is None else PER_ITEM[int(kind)]
            self._raise(name, item, _cause(name, "" if item is None else self.name_of(item), *numbers))
        s.number[0] = 0

    def _look_for_starved(self, before: int, offsets: Ints, items: Ints, chances: Floats) -> None:
        if self.promised > 0:
            low = chances < self.promised * (1 - 1e-9)
            row = int(np.argmax(low))
            t = before + int(np.searchsorted(offsets, row, side="right"))
            item = excerpt(self.name_of(int(items[row])))
            cause = (
                f"Item '{item}' had the chance {chances[row]:.3g} in decision {t}; {self.promised:g} is promised."
            )
            self._fact("starved", cause, holds=bool(low.any()))

    def _fact(self, name: str, cause: str, *, holds: bool) -> None:
        if holds and not self._holds[name]:
            self._raise(name, None, cause)
        self._holds[name] = holds

    def _raise(self, name: str, item: int | None, cause: str) -> None:
        now, key = self.rounds, (name, item)
        first = self._alarms.get(key, Alarm(name, item, now, now, 0, "", _ACTIONS[name]))
        self._alarms[key] = first._replace(latest=now, times=first.times + 1, cause=cause)
        self._totals[name] += 1
        if len(self._alarms) > _MOST_KEPT:
            del self._alarms[next(iter(self._alarms))]


def order_shown(shown: Sequence[T], ranked: Sequence[T], k: int) -> list[T]:
    """The items that an app did show, from the top, then the others as they were ranked.

    >>> order_shown(["tea", "rice"], ["milk", "rice", "tea", "soup"], k=2)
    ['tea', 'rice', 'milk', 'soup']
    """
    first, least = set(shown), min(k, len(ranked))
    if len(first) < len(shown) or not first <= set(ranked) or len(shown) < least:
        text = excerpt(str(list(shown)))
        raise ValueError(f"shown = {text}: must be items of the decision, each once, {least} of them at least")
    return [*shown, *(item for item in ranked if item not in first)]


_CAUSES = {
    "unexpected-order": "What is shown agrees less with the ranking than chance allows: chances of what was seen "
    "add up to {now:.3g} lately, where {low:.3g} is expected.",
    "no-exploration": "What is shown agrees more with the ranking than chance allows: chances of what was seen "
    "add up to {now:.3g} lately, where {low:.3g} is expected.",
    "fewer-answers": "The share of answers was above {low:.3g}, and is {now:.3g} lately.",
    "lower-grades": "The mean grade, on a scale from 0 to 1, was above {low:.3g}, and is {now:.3g} lately.",
    "silence": "Less than a share of {low:.3g} of all decisions is answered.",
    "stray-answers": "More than a share of {high:.3g} of all answers is to decisions that are not known.",
    "item-hidden": "Item '{item}' was seen in {now:.3g} of its decisions lately, and ranked to be in {low:.3g}.",
    "item-pushed": "Item '{item}' was seen in {now:.3g} of its decisions lately, and ranked to be in {low:.3g}.",
}
_CHANGED = "The {what} of item '{item}' was from {low:.3g} to {high:.3g}, and is {now:.3g} lately."


def _cause(name: str, item: str, low: float, high: float, now: float) -> str:
    """What was seen, in a sentence with its numbers."""
    what = "mean grade, on a scale from 0 to 1," if name.endswith("grades") else "share of answers"
    return _CAUSES.get(name, _CHANGED).format(what=what, item=excerpt(item), low=low, high=high, now=now)


def _array(values: ArrayLike, dtype: type[Any], name: str, n: int | None = None) -> Any:
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.ndim != 1 or (n is not None and len(array) != n):
        raise ValueError(f"{name} of shape {array.shape}: must be a list with one number per candidate")
    return array
