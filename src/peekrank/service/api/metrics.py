"""Prometheus metrics. Requests are counted as they end; a scrape reads everything else from the service."""

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
    """Collector of the service's own counts."""

    def __init__(self, service: ServiceProtocol) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Read all counts."""
        ready = not self._service.unready_reason()
        yield GaugeMetricFamily("peekrank_ready", "1 if the service takes calls", float(ready))
        slots = self._service.slots()
        if not slots:  # the log is still being read
            return
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
        stats = self._service.stats()
        for field, (name, text) in _STATS.items():
            yield GaugeMetricFamily(f"peekrank_{name}", text, getattr(stats, field))


class Metrics:
    """Metrics of one service, in their own registry.

    Parameters
    ----------
    service
        The service.
    """

    def __init__(self, service: ServiceProtocol) -> None:
        self._registry = CollectorRegistry()
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
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}  # because looking up labels is slow

    def observe(self, call: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        known = self._known.get((call, status))
        if known is None:
            known = (self._requests.labels(call, str(status)), self._seconds.labels(call))
            self._known[call, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def page(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
