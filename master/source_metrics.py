"""The metrics of a master's source, a running server that the master follows."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.master.source import SourceThread
from dumpfilter.metrics.definition import Definition, Reading, counter, gauge

SOURCE: tuple[Reading[SourceThread], ...] = (
    Reading(
        gauge("dumpfilter_master_source_connected", "1 while the source sends its binlog, otherwise 0."),
        lambda source: float(source.is_connected),
    ),
    Reading(
        counter(
            "dumpfilter_master_source_received_bytes_total", "Bytes of events that came from the source."
        ),
        lambda source: source.follower.progress.bytes,
    ),
    Reading(
        counter(
            "dumpfilter_master_source_connections_total",
            "Connections on which the source was asked for events.",
        ),
        lambda source: source.follower.connections,
    ),
    Reading(
        counter(
            "dumpfilter_master_source_failures_total",
            "Attempts to reach the source that failed, and connections that ended with an error.",
        ),
        lambda source: source.follower.failures,
    ),
    Reading(
        gauge(
            "dumpfilter_master_source_last_event_timestamp_seconds",
            "Time at which the last event came from the source.",
        ),
        lambda source: source.follower.progress.events_at or None,
    ),
)
"""The metrics of a followed source."""

METRICS: tuple[Definition, ...] = tuple(each.definition for each in SOURCE)
"""The definitions of the metrics, in the order of the documentation."""


class SourceCollector(Collector):
    """A collector that reads the metrics of a followed source at a scrape."""

    def __init__(self, source: SourceThread) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the source."""
        for reading in SOURCE:
            yield reading.family([({}, self._source)])
