"""Prometheus metrics: calls are counted as they end, all else is read from the service when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from peekrank.service.core.protocol import ServiceProtocol

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_COUNTS = {  # field of a slot: metric and what it counts
    "ranked": ("rankings", "Rankings returned"),
    "answered": ("feedback_events", "Events with feedback in time"),
    "expired": ("expired_events", "Events that closed without feedback"),
    "late": ("late_feedback", "Grades that arrived after the event was closed"),
    "explored": ("explorations", "Rankings that explored"),
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
    """What a service says of itself."""

    def __init__(self, service: ServiceProtocol) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Read everything, in a moment."""
        ready = not self._service.unready_reason()
        yield GaugeMetricFamily("peekrank_ready", "Whether calls are answered", float(ready))
        slots = self._service.slots()
        if not slots:  # the log is still read
            return
        for field, (name, text) in _COUNTS.items():
            counter = CounterMetricFamily(f"peekrank_{name}", text, labels=["slot"])
            for slot in slots:
                counter.add_metric([slot.name], getattr(slot, field))
            yield counter
        waiting = GaugeMetricFamily("peekrank_open_events", "Events that are not closed", labels=["slot"])
        alarms = GaugeMetricFamily("peekrank_active_alarms", "Alarms that are on", labels=["slot"])
        for slot in slots:
            waiting.add_metric([slot.name], slot.open)
            alarms.add_metric([slot.name], len(slot.alarms))
        yield from (waiting, alarms)
        stats = self._service.stats()
        for field, (name, text) in _STATS.items():
            yield GaugeMetricFamily(f"peekrank_{name}", text, getattr(stats, field))


class Metrics:
    """The metrics of one service, in a registry of its own.

    Parameters
    ----------
    service
        Whose metrics these are.
    """

    def __init__(self, service: ServiceProtocol) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_FromService(service))
        self._calls = Counter(
            "peekrank_http_requests", "Calls by status", ["call", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "peekrank_http_request_duration_seconds",
            "How long calls take",
            ["call"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}  # looking up labels is slow

    def observe(self, call: str, status: int, seconds: float) -> None:
        """Count a call that has ended."""
        known = self._known.get((call, status))
        if known is None:
            known = (self._calls.labels(call, str(status)), self._seconds.labels(call))
            self._known[call, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def page(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)
