"""Prometheus metrics. Requests are counted as they end; a scrape reads everything else from the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from peekrank.service.api.keys import ANYBODY, Key
from peekrank.service.api.messages import SlotReply, StatsReply
from peekrank.service.core.protocol import ServiceProtocol

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_COUNTS = {  # field of a slot: metric and what it counts
    "ranked": ("rankings", "Rankings returned"),
    "answered": ("feedback_events", "Events with feedback in time"),
    "expired": ("expired_events", "Events that closed without feedback"),
    "late": ("late_feedback", "Grades that arrived after the event was closed"),
    "explored": ("explorations", "Rankings that explored"),
    "relaxed": ("relaxed_rankings", "Rankings in which a limit on groups or new items could not be met"),
}
_HOLDOUT: dict[str, tuple[str, Callable[[Any], float]]] = {
    "lists": ("Lists in the analysis of the holdout", lambda one: one.lists),
    "difference": ("Value per list of the learner minus the app's own order", lambda one: one.difference.mean),
    "difference_low": ("Lower end of its interval", lambda one: one.difference.low),
    "difference_high": ("Upper end of its interval", lambda one: one.difference.high),
}
_STATS = {  # field of the statistics: metric and what it is
    "epoch": ("epoch", "How often ownership of the log has changed"),
    "sequence": ("log_sequence", "Number of the latest record in the log"),
    "lag": ("replication_lag_records", "Records in the log that this process has not applied yet"),
    "snapshot": ("snapshot_sequence", "Number of the last record in the latest snapshot"),
    "queued": ("queue_length", "Commands waiting for the writer"),
    "log_bytes": ("log_bytes", "Size of the log in bytes"),
}


class _FromService(Collector):
    """Collector of the service's own counts."""

    def __init__(self, service: ServiceProtocol, key: Key = ANYBODY) -> None:
        self._service, self._key = service, key

    def collect(self) -> Iterator[Metric]:
        """Read all counts that the key may see."""
        ready = not self._service.unready_reason()
        yield GaugeMetricFamily("peekrank_ready", "1 if the service takes calls", float(ready))
        stats, slots = stats_and_slots(self._service)
        if not slots:  # the log is still being read
            return
        stats, slots = visible_stats(stats, slots, self._key), [one for one in slots if self._key.sees(one.name)]
        for field, (name, text) in _COUNTS.items():
            counter = CounterMetricFamily(f"peekrank_{name}", text, labels=["slot"])
            for slot in slots:
                counter.add_metric([slot.name], getattr(slot, field))
            yield counter
        open_events = GaugeMetricFamily("peekrank_open_events", "Events that are not closed yet", labels=["slot"])
        alarms = GaugeMetricFamily("peekrank_active_alarms", "Active alarms", labels=["slot"])
        for slot in slots:
            open_events.add_metric([slot.name], slot.open)
            alarms.add_metric([slot.name], len(slot.alarms))
        yield from (open_events, alarms)
        held = [slot for slot in slots if slot.holdout and slot.holdout.difference]
        for name, (text, value) in _HOLDOUT.items() if held else ():
            gauge = GaugeMetricFamily(f"peekrank_holdout_{name}", text, labels=["slot"])
            for slot in held:
                gauge.add_metric([slot.name], value(slot.holdout))
            yield gauge
        for field, (name, text) in _STATS.items():
            if (value := getattr(stats, field)) is not None:
                yield GaugeMetricFamily(f"peekrank_{name}", text, value)


def stats_and_slots(service: ServiceProtocol) -> tuple[StatsReply, list[SlotReply]]:
    """Return the state of the service and its slots."""
    return service.stats(), service.slots()


def visible_stats(stats: StatsReply, slots: list[SlotReply], key: Key) -> StatsReply:
    """Remove figures about slots that a limited key must not see."""
    if not key.slots:
        return stats
    sequence = sum(slot.sequence for slot in slots if key.sees(slot.name))
    return msgspec.structs.replace(stats, sequence=sequence, lag=None, snapshot=None, queued=None, log_bytes=None)


class Metrics:
    """Metrics of one service, in their own registry.

    Parameters
    ----------
    service
        The service.
    """

    def __init__(self, service: ServiceProtocol) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self._registry.register(_FromService(service))
        self._requests = Counter(
            "peekrank_http_requests", "Requests by call and status", ["call", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "peekrank_http_request_duration_seconds",
            "Duration of requests",
            ["call"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._upstreams = Counter(
            "peekrank_upstream_calls", "Calls of upstreams by result", ["slot", "result"], registry=self._registry
        )
        self._unlearned = Counter(
            "peekrank_unlearned_lists",
            "Rerank calls that met a limit of the slot",
            ["slot"],
            registry=self._registry,
        )
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}  # because looking up labels is slow

    def observe(self, call: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        known = self._known.get((call, status))
        if known is None:
            known = (self._requests.labels(call, str(status)), self._seconds.labels(call))
            self._known[call, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def upstream(self, slot: str, result: str) -> None:
        """Count a call of a slot's upstream: `ok`, or why it failed."""
        self._upstreams.labels(slot, result).inc()

    def unlearned(self, slot: str) -> None:
        """Count a rerank call that has no event."""
        self._unlearned.labels(slot).inc()

    def page(self, key: Key) -> bytes:
        """Return the metrics that a key may see, in the Prometheus text format. Requests are those of all keys."""
        if not key.slots:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        registry.register(_FromService(self._service, key))
        return generate_latest(registry)
