"""The holdout of a slot: its lists in the order of their rankings, as clusters of visits, until they can count.

The result is a function of the log, so that an audit can compare it. If too many lists wait for feedback on an
older one, or for the end of a visitor's stay, every second cluster counts, then every fourth, and so on. They are
selected by number, which does not depend on their feedback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from msgspec import Struct

from peekrank.engine import Agent
from peekrank.engine.ruled import top_weights
from peekrank.engine.rules import measure_of
from peekrank.evaluation.holdout import (
    MAX_VISITS,
    PLAIN_VISITS,
    VISITS,
    Gains,
    HoldoutEvidence,
    HoldoutVerdict,
    make_gains,
    mix_orders,
)
from peekrank.kernels.confidence import Bound, Interval
from peekrank.service.api import messages
from peekrank.service.config import SlotConfig
from peekrank.service.config.holdout import HoldoutConfig
from peekrank.service.core.clock import SECOND
from peekrank.service.core.open_events import Event
from peekrank.service.event_log.records import Ranked, read_floats, read_numbers
from peekrank.types import Decision, Floats, Ints, LinearMeasure

_MAX_PENDING = 20_000


class Cluster(Struct, array_like=True):
    """Lists of a visitor that have the same order, or one list."""

    number: int  # of the record of the first list
    ends: int  # when no further list can begin
    open: int  # lists that wait for feedback
    share: float
    held: bool
    k: int = 0
    items: bytes = b""  # that have a difference or were seen
    names: list[str] = []  # instead of the items, if lists bring their own
    difference: bytes = b""
    propensities: bytes = b""
    n: int = 0  # items of the list
    visits: list[tuple[list[int | str], list[float]]] = []  # items seen, and gains
    mixture: bool = False


class HoldoutSnapshot(Struct, array_like=True):
    """All parts of the state of a holdout."""

    pending: list[Cluster]
    stride: int
    since: int
    subjects: list[str]
    arrays: list[bytes]


class SlotHoldout:
    """The holdout of a slot.

    Parameters
    ----------
    config
        The configuration.
    name_of
        Returns the name of a registered item.
    """

    def __init__(self, config: SlotConfig, name_of: Callable[[int], str] | None) -> None:
        self._name_of = name_of
        self.since = 0  # when the two intervals first contradicted each other
        self._pending: dict[int, Cluster] = {}
        self._stride = 1
        self.alpha = config.alpha
        self._measure = measure_of(config.learner_object)
        self._gains = _gains(config, self._measure)
        self.evidence = HoldoutEvidence(self._gains.span)

    def began(self, number: int, time: int, body: Ranked, config: SlotConfig) -> None:
        """Add a list that was just ranked."""
        if body.first:
            if cluster := self._pending.get(body.first):
                cluster.open += 1
            return
        if not body.share or number % self._stride:
            return
        ends = time + int(config.sticky * SECOND) if body.visitor else 0
        self._pending[number] = Cluster(number, ends, 1, body.share, body.held, mixture=body.mixture)
        if len(self._pending) > _MAX_PENDING:
            self._stride *= 2
            self._pending = {n: one for n, one in self._pending.items() if n % self._stride == 0}

    def closed(self, event: Event, grades: Floats, *, was_shown: bool) -> None:
        """Add the final feedback on a list."""
        body = event.body
        cluster = self._pending.get(body.first or event.number)
        if cluster is None:
            return
        cluster.open -= 1
        if not body.first:
            self._describe(cluster, body)
        whole = not body.first or body.whole
        if not (was_shown and whole and len(cluster.visits) < MAX_VISITS) or np.isnan(grades).any():
            return
        shown = read_numbers(event.shown or body.ranking)[: len(grades)].tolist()
        seen = dict(zip(read_numbers(body.ranking).tolist(), self._gains.of(grades).tolist(), strict=False))
        if any(item not in seen for item in shown):  # the app showed others
            return
        rows: list[int | str] = [body.names[item] for item in shown] if body.names else shown
        visit = (rows, [seen[item] for item in shown])
        cluster.visits = [*cluster.visits, visit]

    def _describe(self, cluster: Cluster, body: Ranked) -> None:
        """Store the evidence of a list on its items, if it can still count."""
        ranking, own = read_numbers(body.ranking), read_numbers(body.baseline)
        items = np.arange(len(ranking)) if body.names else np.sort(ranking)
        n, k = len(items), min(body.k, len(items))
        weights = top_weights(self._measure, n, k)
        difference = read_floats(body.expected)
        rank = np.empty(n, np.int64)
        rank[np.searchsorted(items, own)] = np.arange(n)
        difference -= np.append(weights, 0.0)[np.minimum(rank, k)]
        matters = difference != 0
        matters[np.searchsorted(items, ranking[:k])] = True
        cluster.k, cluster.n = k, n
        if body.names:
            cluster.names = [body.names[item] for item in items[matters].tolist()]
        else:
            cluster.items = items[matters].astype("<u4").tobytes()
        cluster.difference = difference[matters].tobytes()
        cluster.propensities = read_floats(body.propensities)[matters].tobytes()

    def settle(self, time: int) -> None:
        """Count the clusters that are complete, up to the first that is not."""
        while self._pending:
            cluster = next(iter(self._pending.values()))
            if cluster.open or cluster.ends > time:
                return
            del self._pending[cluster.number]
            if cluster.visits:
                self._observe(cluster)
                if not self.since and not self.verdict().agrees:
                    self.since = time

    def _observe(self, cluster: Cluster) -> None:
        keys: Sequence[int | str] = cluster.names or np.frombuffer(cluster.items, "<u4").tolist()
        names = cluster.names or [self._name(cast("int", number)) for number in keys]
        index = {key: row for row, key in enumerate(keys)}
        visits = [
            (np.array([index[item] for item in seen], np.int64), np.array(gains)) for seen, gains in cluster.visits
        ]
        weights = top_weights(self._measure, cluster.n, cluster.k)
        difference, propensity = read_floats(cluster.difference), read_floats(cluster.propensities)
        self.evidence.observe(
            names, difference, propensity, weights, cluster.share, visits,
            held=cluster.held, mixture=cluster.mixture,
        )  # fmt: skip

    def _name(self, number: int) -> str:
        return str(number) if self._name_of is None else self._name_of(number)

    def verdict(self) -> HoldoutVerdict:
        """Return the result so far."""
        return self.evidence.verdict(self._measure, self.alpha)

    def snapshot(self) -> HoldoutSnapshot | None:
        """Return the state, or None if there has been no holdout."""
        evidence = self.evidence
        if not self._pending and not evidence.totals.any():
            return None
        known = len(evidence.subjects) + 1
        arrays = [evidence.sums[:known], evidence.counts[:known], *_changing(evidence)]
        return HoldoutSnapshot(
            list(self._pending.values()),
            self._stride,
            self.since,
            list(evidence.subjects),
            [array.tobytes() for array in arrays],
        )

    @classmethod
    def restore(
        cls, saved: HoldoutSnapshot | None, config: SlotConfig, name_of: Callable[[int], str] | None
    ) -> SlotHoldout:
        """Restore a holdout from its state."""
        holdout = cls(config, name_of)
        if saved is None:
            return holdout
        holdout._pending = {cluster.number: cluster for cluster in saved.pending}
        holdout._stride, holdout.since = saved.stride, saved.since
        evidence = holdout.evidence
        evidence.subjects = {name: n for n, name in enumerate(saved.subjects, 1)}
        evidence.sums, evidence.counts = (np.frombuffer(one).copy() for one in saved.arrays[:2])
        for part, array in zip(_changing(evidence), saved.arrays[2:], strict=True):
            values = np.frombuffer(array)
            if part is evidence.totals and len(values) == PLAIN_VISITS:  # from before there were mixtures
                values = np.append(values, values[VISITS])
            part[:] = values
        return holdout


def with_holdout(
    agent: Agent, request: Ranked, decision: Decision, own: Ints, expected: Floats, uniform: float, *, held: bool
) -> Decision:
    """Return a list of a slot with a holdout, with the propensities over both kinds of lists.

    Parameters
    ----------
    agent
        The agent, which made a decision about the list.
    request
        The record, which says whether the share mixes both orders.
    decision
        The decision.
    own
        The app's own order.
    expected
        Expected weight of each item in the learner's lists.
    uniform
        A uniform for a mixture.
    held
        Whether the list is of the share of the holdout.
    """
    index: Ints = own if decision.items is None else np.searchsorted(decision.items, own)
    k, propensities = min(request.k, len(own)), (1 - request.share) * np.asarray(decision.propensities)
    if request.mixture:
        weights = top_weights(measure_of(agent.learner), len(own), k)
        index, mixed = mix_orders(expected, index, weights, uniform)
        own = index if decision.items is None else decision.items[index]
        propensities += request.share * mixed
    else:
        propensities[index[:k]] += request.share
    explored = decision.token[0]
    decision = agent.override(decision, own if held else decision.ranking, np.minimum(propensities, 1.0))
    decision.token[0] = 0.0 if held else explored
    return decision


def _gains(config: SlotConfig, measure: object) -> Gains:
    """Return the gains of the slot's grades. A measure without them has no holdout."""
    low, high = config.grade_range
    if not isinstance(measure, LinearMeasure):
        return Gains(lambda grades: grades, high - low)
    return make_gains(measure, low, high, whole=not config.has_real_grades)


def _changing(evidence: HoldoutEvidence) -> list[Floats]:
    def parts(bound: Bound) -> list[Floats]:
        return [bound.sums, bound.squares, bound.observed]

    intervals: tuple[Interval, ...] = (evidence.difference, evidence.plain)
    bounds = [bound for interval in intervals for bound in interval]
    return [evidence.overall, evidence.totals, *(part for bound in bounds for part in parts(bound))]


def holdout_reply(holdout: SlotHoldout, config: HoldoutConfig) -> messages.Holdout | None:
    """Describe a holdout, unless the slot has none and had none."""
    verdict = holdout.verdict()
    if not (config.share or verdict.lists):
        return None
    estimate, plain = (
        messages.Interval(part.estimate, part.low, part.high, lists) if lists else None
        for part, lists in ((verdict.difference, verdict.lists), (verdict.two_samples, verdict.plain))
    )
    return messages.Holdout(
        config.share,
        verdict.lists,
        verdict.held,
        verdict.better,
        str(verdict),
        verdict.alpha,
        estimate,
        plain,
        agrees=verdict.agrees,
        remaining=verdict.remaining,
        mode=config.mode,
    )
