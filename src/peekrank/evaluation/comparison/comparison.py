"""`Comparison`: an experiment on live lists that decides which of two rankers is better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.text import shown as text_of
from peekrank.evaluation.comparison import saved
from peekrank.evaluation.comparison.designs import draw_list, fill_design, fill_difference, make_space
from peekrank.evaluation.comparison.evidence import (
    CHECK_SCALE,
    CHECK_SUM,
    CHECKS,
    COUNT,
    MOST,
    RANGE,
    SCALE,
    SQUARES,
    SUM,
    fill_spread,
    make_evidence,
    make_work,
    observe_list,
    observe_positions,
    observe_value,
)
from peekrank.evaluation.comparison.forecast import SUMS, Forecast, add_orders, forecast, forecast_from_sums
from peekrank.evaluation.comparison.saved import Open, Saved
from peekrank.evaluation.comparison.settings import Mode, Regression, Settings
from peekrank.evaluation.comparison.verdict import Check, Verdict, remaining_lists
from peekrank.kernels.confidence import interval_of_mean
from peekrank.kernels.philox import fill_uniforms
from peekrank.types import Decision, Floats, Ints, Measure

Item = int | str


class Shown(NamedTuple):
    """A list to show."""

    event: int  # number of the list, from 1
    items: tuple[Item, ...]  # the best first
    propensities: Floats  # of `items`: probability to be among the first k, given the orders and the past
    decision: Decision  # for `LogWriter`, with the items by their rank in a


class Comparison:
    """Compare two rankers: show one list for each pair of orders, collect answers, and report who is better.

    Parameters
    ----------
    measure
        A sum over items of discount(rank) x gain(relevance). It ends at position k unless `outside` is positive.
    k
        Number of items, from the top, that people answer about.
    mode
        ``union`` mixes items from the first k of both orders, ``coin`` shows one order as it is.
    outside
        Largest expected number, among the first k positions, of items that neither order has there.
    examination
        For clicks, the probability that each of the k positions is looked at.
    max_feedback
        The largest grade.
    partial
        Whether lists count whose answers are incomplete. This is right only if an answer goes missing
        independently of its item, position and value.
    regression
        Predict answers by the mean of the item, or by the mean of all, which needs no memory for items.
    alpha
        Error probability of the interval.
    seed
        Random seed.
    max_open
        Number of lists that may wait for answers. Beyond it, the oldest is closed.

    >>> from peekrank import DCG, Comparison
    >>> comparison, rng = Comparison(DCG(3), k=3), np.random.default_rng(1)
    >>> liked = {"tea": 0.9, "milk": 0.6, "rice": 0.5, "soup": 0.2}
    >>> for visit in range(200):
    ...     shown = comparison.rank(["tea", "milk", "rice", "soup"], ["soup", "milk", "rice", "tea"])
    ...     counts = comparison.update(shown.event, [rng.random() < liked[item] for item in shown.items[:3]])
    >>> comparison.verdict().better
    'a'
    """

    def __init__(
        self,
        measure: Measure,
        *,
        k: int,
        mode: Mode = "union",
        outside: float = 0.0,
        examination: Sequence[float] = (),
        max_feedback: int = 1,
        partial: bool = False,
        regression: Regression = "items",
        alpha: float = 0.05,
        seed: int = 0,
        max_open: int = 10_000,
    ) -> None:
        settings = Settings(
            measure, k, mode, outside, tuple(examination), max_feedback, partial, regression, alpha, seed, max_open
        )
        self._begin(settings)

    @classmethod
    def from_settings(cls, settings: Settings) -> Comparison:
        """Begin a comparison with these settings."""
        comparison = cls.__new__(cls)
        comparison._begin(settings)
        return comparison

    def _begin(self, settings: Settings) -> None:
        self.settings, self._gains = settings, settings.gains()
        self._key = int(np.random.SeedSequence(settings.seed, spawn_key=(2,)).generate_state(1, np.uint64)[0] >> 1)
        self._subjects: dict[Item, int] = {}
        self._open: dict[int, Open] = {}
        self._shown = self._settled = 0
        self._evidence, self._planned = make_evidence(1, float(self._gains.max())), np.zeros(SUMS)
        self._weights, self._theta = cache(settings.weights), cache(settings.theta)
        self._space, self._work = cache(make_space), cache(make_work)

    def rank(self, a: Sequence[Item], b: Sequence[Item]) -> Shown:
        """Return a list to show.

        Parameters
        ----------
        a, b
            All items in the order of each ranker, the best first. Items are numbers or texts.
        """
        drawn, included = self.draw(a, b)
        self._open[self._shown] = drawn
        while len(self._open) > self.settings.max_open:
            self.update(next(iter(self._open)), None)
        n, ranking = len(a), drawn.ranking
        features = -np.column_stack([np.arange(n), drawn.ranks]).astype(np.float32)
        decision = Decision(features, ranking, np.zeros(1), included, round=self._shown)
        return Shown(self._shown, tuple(a[row] for row in ranking.tolist()), included[ranking], decision)

    def draw(self, a: Sequence[Item], b: Sequence[Item]) -> tuple[Open, Floats]:
        """Draw a list, and return it with its propensities, by rows in the order of a.

        The caller keeps the list until its answers are final and passes it to `observe`, as a service does that
        has a log.
        """
        ranks = _ranks(a, b)
        n, settings = len(a), self.settings
        weights, theta, space = self._weights(n), self._theta(n), self._space(n)
        subject = self.subjects(a)
        difference, spread, exposure, uniforms = np.empty(n), np.empty(n), np.empty(n), np.empty(n + 1)
        included, ranking = np.empty(n), np.empty(n, np.int64)
        add_orders(settings.design, weights, theta, ranks, space, np.empty((3, n)), self._planned)
        fill_difference(weights, ranks, difference)
        fill_spread(self._evidence, subject, float(self._gains.max()), spread)
        fill_design(settings.design, difference, ranks, theta, spread, space, exposure)
        fill_uniforms(self._key, self._shown, uniforms)
        arm = draw_list(settings.design, difference, ranks, theta, uniforms, space, exposure, ranking, included)
        self._shown += 1
        return Open(subject, ranks, exposure, ranking, int(arm), None), included

    def update(self, event: int, feedback: ArrayLike | None) -> bool:
        """Add the answers about a list, once. Return whether they count: they do not if the list is closed.

        Evidence is added in the order of the lists, so it waits for older lists that are open.

        Parameters
        ----------
        event
            Number of the list.
        feedback
            Grades of the first k items in the order shown, NaN where there is no answer; clicks as 0 and 1. None
            closes the list without answers.
        """
        if event not in self._open:
            if 0 < event <= self._shown:
                return False
            raise ValueError(f"event = {text_of(event)}: no list has this number")
        waiting = self._open[event]
        if waiting.answers is not None:
            return False
        n = min(self.settings.k, len(waiting.ranks))
        answers = np.full(n, np.nan) if feedback is None else self._check_answers(feedback, n)
        self._open[event] = waiting._replace(answers=answers)
        while self._open and (first := self._open[next(iter(self._open))]).answers is not None:
            self.observe(first)
            del self._open[next(iter(self._open))]
        return True

    def close(self, before: int) -> None:
        """Close all open lists with a smaller number, whose answers are no longer expected."""
        for event in [event for event in self._open if event < before]:
            if event in self._open:
                self.update(event, None)

    def observe(self, list_: Open) -> bool:
        """Add a list of `draw` whose answers are final to the evidence, and return whether it counts.

        Lists come in the order of their draws.
        """
        self._settled += 1
        answers, settings = list_.answers, self.settings
        n, seen = len(list_.ranks), min(settings.k, len(list_.ranks))
        given = np.zeros(seen, bool) if answers is None else ~np.isnan(answers)
        if not (given.any() if settings.partial else given.all()) or answers is None:
            return False
        gain, top, position = np.full(n, np.nan), float(self._gains.max()), np.empty(n, np.int64)
        position[list_.ranking] = np.arange(n)
        values = np.interp(answers[given], np.arange(len(self._gains)), self._gains)
        gain[list_.ranking[:seen][given]] = values
        weights, theta, clicks = self._weights(n), self._theta(n), bool(settings.examination)
        difference, work, answered = np.empty(n), self._work(n), int(given.sum())
        fill_difference(weights, list_.ranks, difference)
        observe_list(
            self._evidence, list_.subject, difference, list_.exposure, gain,
            theta[position] if clicks else np.empty(0), answered, seen, top, float(weights.sum()), work,
        )  # fmt: skip
        if settings.mode == "coin":
            worth = weights[:seen][given] / theta[:seen][given] * seen / answered
            observe_value(self._evidence, float(worth @ values), list_.arm, 0.0, top * float(worth.sum()))
        elif not clicks:
            observe_positions(
                self._evidence, position, list_.ranks, gain, list_.arm, seen, top, work.predicted
            )  # fmt: skip
        return True

    def verdict(self) -> Verdict:
        """Return the difference of a and b so far, with its interval and a check of the assumptions."""
        totals, settings = self._evidence.totals, self.settings
        n, measure = int(totals[COUNT]), settings.linear
        named = (str(measure), measure.higher_is_better, self._settled, n)
        if n == 0:
            none = float("nan")
            return Verdict(*named, none, -np.inf, np.inf, settings.alpha, none, None, None)
        mean, most = totals[SUM] / n, totals[MOST]
        variance = max(totals[SQUARES] / n - mean**2, 0.0)
        ends = np.array(interval_of_mean(self._evidence.difference, settings.alpha)) * totals[SCALE]
        low, high = ends.clip(-most, most) if totals[SCALE] > 0 else (0.0, 0.0)
        needed = remaining_lists(n, mean, float(variance**0.5), totals[RANGE] / n) if low <= 0 <= high else None
        error = float((variance / n) ** 0.5)
        check = self._check(float(low), float(high))
        return Verdict(*named, float(mean), float(low), float(high), settings.alpha, error, needed, check)

    def forecast(self, orders: Iterable[tuple[Sequence[Item], Sequence[Item]]] | None = None) -> Forecast:
        """Forecast from the orders alone how much shorter than an A/B test this comparison can be.

        Parameters
        ----------
        orders
            Pairs of orders, such as those of last week. None: all pairs so far.

        >>> from peekrank import DCG, Comparison
        >>> pairs = [(list("abcdefgh"), list("dbcaefgh"))]
        >>> print(Comparison(DCG(3), k=3).forecast(pairs))
        Needs about 0.3 of the lists of an A/B test (0.61 with mode = 'coin'). a and b differ in 100% of the lists.
        """
        if orders is None:
            return forecast_from_sums(self._planned)
        return forecast(self.settings, (_ranks(a, b) for a, b in orders))

    def set_alpha(self, alpha: float) -> None:
        """Change the error probability of the interval, on which neither lists nor evidence depend."""
        self.settings = replace(self.settings, alpha=alpha)

    def dump(self) -> bytes:
        """Serialise the comparison. `load` resumes bit for bit."""
        items = list(self._subjects)
        return saved.dump(
            Saved(self.settings, self._shown, self._settled, items, self._open, self._evidence, self._planned)
        )

    @classmethod
    def load(cls, blob: bytes) -> Comparison:
        """Resume a comparison. Raises ValueError, with the reason, for foreign, damaged or forged bytes."""
        state = saved.load(blob)
        comparison = cls.from_settings(state.settings)
        comparison._shown, comparison._settled = state.shown, state.settled
        comparison._subjects = {item: i for i, item in enumerate(state.items)}
        comparison._open, comparison._evidence, comparison._planned = state.open, state.evidence, state.planned
        return comparison

    def __repr__(self) -> str:
        """Return the settings and the number of lists."""
        return f"<Comparison of {self.settings.name}: {self._shown} lists, {self._settled} closed>"

    @property
    def shown(self) -> int:
        """Number of lists so far."""
        return self._shown

    def count_items(self, items: Sequence[Item]) -> int:
        """Return for how many items statistics are kept if a list has these. It is 0 with regression = 'mean'."""
        if self.settings.regression == "mean":
            return 0
        return len(self._subjects) + sum(item not in self._subjects for item in items)

    def subjects(self, items: Sequence[Item]) -> Ints:
        """Return whose answers predict those about each item, and make room for new items."""
        if self.settings.regression == "mean":
            return np.zeros(len(items), np.int64)
        numbers = self._subjects
        subject = np.array([numbers.setdefault(item, len(numbers)) for item in items], np.int64)
        e = self._evidence
        if len(numbers) > len(e.sums):
            room = np.zeros(len(numbers))
            sums, counts, squares = (np.append(part, room) for part in (e.sums, e.counts, e.squares))
            self._evidence = e._replace(sums=sums, counts=counts, squares=squares)
        return subject

    def _check_answers(self, feedback: ArrayLike, n: int) -> Floats:
        """Return the answers as an array. Raises ValueError if they are invalid."""
        answers, most = np.asarray(feedback, np.float64), self.settings.max_feedback
        if answers.shape != (n,):
            raise ValueError(f"feedback of shape {answers.shape}: must be {n} numbers, one per item seen")
        given = answers[~np.isnan(answers)]
        if ((given < 0) | (given > most)).any() or (most > 1 and (given % 1).any()):
            kind = "numbers from 0 to 1" if most == 1 else f"whole numbers from 0 to {most}"
            raise ValueError(f"feedback = {text_of(answers.tolist())}: must be {kind}, or NaN")
        return answers

    def _check(self, low: float, high: float) -> Check | None:
        """Return the check of the assumptions, if there are observations."""
        totals = self._evidence.totals
        if totals[CHECKS] == 0 or totals[CHECK_SCALE] == 0:
            return None
        ends = np.array(interval_of_mean(self._evidence.check, self.settings.alpha)) * totals[CHECK_SCALE]
        least, most = float(ends[0]), float(ends[1])
        estimate = float(totals[CHECK_SUM] / totals[CHECKS])
        if self.settings.mode == "coin":
            return Check("A/B", estimate, least, most, least <= high and low <= most)
        return Check("positions", estimate, least, most, least <= 0 <= most)


def _ranks(a: Sequence[Item], b: Sequence[Item]) -> Ints:
    """Return the rank in b of each item of a. Raises ValueError unless both hold the same items, each once."""
    found = {item: rank for rank, item in enumerate(b)}
    if any(type(item) not in (int, str) for item in (*a, *b)):
        raise ValueError("items must be numbers or texts")
    if not len(a) == len(b) == len(found) or found.keys() != set(a) or not found:
        raise ValueError(f"a = {text_of(list(a))} and b = {text_of(list(b))}: must hold the same items, each once")
    return np.array([found[item] for item in a], np.int64)
