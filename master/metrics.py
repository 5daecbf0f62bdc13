"""The metrics of a master: their definitions, and the collector that reads their values at a scrape.

docs/metrics.md has the table of the definitions. ``python tools/metrics_table.py`` writes the table.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.dump import Counts
from dumpfilter.errors import BinlogError
from dumpfilter.master.drain import Drains
from dumpfilter.master.known_slaves import KnownSlave, KnownSlaves, Presence
from dumpfilter.master.lag import BinlogEnd, modified
from dumpfilter.master.limits import Kind as CallKind
from dumpfilter.master.limits import Places, ServerLimits
from dumpfilter.master.measurements import (
    ENCODE,
    MEASURED,
    PLAN,
    SEND_DELAY,
    CacheState,
    Measurements,
)
from dumpfilter.master.store import BinlogStore
from dumpfilter.metrics.definition import Definition, Reading, counter, gauge
from dumpfilter.metrics.latency import family_of

MOST_IDLE_SHOWN = 1000
"""The most slaves without a dump that the metrics show. The slaves that ended last are shown."""

LONGEST_LABEL = 64
"""The length at which label values are cut, characters. MySQL's channel and user names are not longer."""

SLAVE_LABELS = ("slave", "server_id", "channel", "user")


@dataclass(frozen=True)
class SlaveView:
    """A slave as one scrape sees it."""

    slave: KnownSlave
    lag_bytes: int | None
    lag_seconds: float | None


def _count(name: str, help: str, read: Callable[[Counts], float]) -> Reading[SlaveView]:
    definition = counter(f"dumpfilter_master_{name}_total", help, SLAVE_LABELS)
    return Reading(definition, lambda view: read(view.slave.counts))


PER_SLAVE: tuple[Reading[SlaveView], ...] = (
    Reading(
        gauge(
            "dumpfilter_master_slave_dumping", "1 while a dump to the slave runs, otherwise 0.", SLAVE_LABELS
        ),
        lambda view: float(view.slave.presence is Presence.CONNECTED),
    ),
    Reading(
        gauge(
            "dumpfilter_master_slave_gone",
            "1 if no dump runs for a slave that the master has served within --keep-slaves or that a [[replica]] "
            "names, otherwise 0. It is 0 for a slave that asked for the end of the binlog and got it.",
            SLAVE_LABELS,
        ),
        lambda view: float(view.slave.presence.is_missing),
    ),
    Reading(
        gauge(
            "dumpfilter_master_slave_drained",
            "1 while the operator has drained the slave, otherwise 0.",
            SLAVE_LABELS,
        ),
        lambda view: float(view.slave.is_drained),
    ),
    Reading(
        gauge(
            "dumpfilter_master_slave_lag_bytes",
            "Bytes of the binlog, later files included, that the dump to the slave has not reached.",
            SLAVE_LABELS,
        ),
        lambda view: view.lag_bytes,
    ),
    Reading(
        gauge(
            "dumpfilter_master_slave_lag_seconds",
            "Time since the server wrote the first event that the dump to the slave has not reached. It is 0 for a "
            "slave that has everything.",
            SLAVE_LABELS,
        ),
        lambda view: view.lag_seconds,
    ),
    Reading(
        gauge(
            "dumpfilter_master_slave_last_seen_timestamp_seconds",
            "Unix time of the newest chunk, heartbeat or end of a dump for the slave.",
            SLAVE_LABELS,
        ),
        lambda view: view.slave.last_seen_at,
    ),
    _count("bytes_read", "Bytes of events read for the slave.", lambda one: one.bytes_read),
    _count("bytes_sent", "Bytes of events sent to the slave.", lambda one: one.bytes_sent),
    _count(
        "bytes_dropped",
        "Bytes of events that the filter dropped.",
        lambda one: max(one.bytes_dropped, 0),
    ),
    _count(
        "bytes_gtid",
        "Bytes of the events that a real replica got in place of dropped transactions, so that it has their GTIDs.",
        lambda one: one.bytes_gtid,
    ),
    _count("events_read", "Events read for the slave.", lambda one: one.events_read),
    _count("events_sent", "Events sent to the slave.", lambda one: one.events_sent),
    _count("events_dropped", "Events that the filter dropped.", lambda one: one.events_dropped),
    _count(
        "events_undecided",
        "Events sent because the master could not decide about them. The slave decides about these events.",
        lambda one: one.events_undecided,
    ),
    _count("transactions_read", "Transactions read for the slave.", lambda one: one.transactions_read),
    _count(
        "transactions_dropped",
        "Transactions of which the slave got no event.",
        lambda one: one.transactions_dropped,
    ),
)
"""The metrics that each slave has."""

SLAVES = gauge(
    "dumpfilter_master_slaves",
    "Slaves that the master knows, by state, as in the table dumpfilter.slaves of the console.",
    ("state",),
)
CALLS = gauge(
    "dumpfilter_master_calls",
    "Calls under way, by kind. Dumps have the kind dump, watches of gRPC's health service the kind watch. Connections "
    "of the replication port, also those that dump, have the kind replica_connection.",
    ("kind",),
)
CALLS_LIMIT = gauge(
    "dumpfilter_master_calls_limit", "The most calls of a kind that may be under way.", ("kind",)
)
DRAINS = gauge("dumpfilter_master_drains", "Drains in force. A drain can concern any number of slaves.")
FAILED_CALLS = counter(
    "dumpfilter_master_failed_calls_total",
    "Calls that the master refused, and dumps that ended with an error, by the error's class.",
    ("reason",),
)
SERVING = gauge("dumpfilter_master_serving", "1 while the gRPC server accepts calls, otherwise 0.")
READABLE = gauge(
    "dumpfilter_master_binlog_readable",
    "1 if the scrape could open the newest binlog and read from it, otherwise 0.",
)
FILES = gauge("dumpfilter_master_binlog_files", "Files in the binlog set.")
BYTES = gauge("dumpfilter_master_binlog_bytes", "Size of all files in the binlog set.")
MODIFIED = gauge(
    "dumpfilter_master_binlog_modified_timestamp_seconds", "Unix time of the last write to the newest binlog."
)
SCANNED_BYTES = counter(
    "dumpfilter_master_scanned_bytes_total",
    "Bytes of the binlog that the master has scanned. All slaves share a scan.",
)
SCANNED_EVENTS = counter("dumpfilter_master_scanned_events_total", "Events that the master has scanned.")

_CACHE = ("cache",)
CACHES: tuple[Reading[CacheState], ...] = (
    Reading(
        gauge(
            "dumpfilter_master_cache_bytes",
            "Memory of a cache's entries. The cache segments holds scanned parts of binlogs, and the cache chunks has "
            "messages that slaves share. The cache steps, with decisions, is bounded by its number of entries.",
            _CACHE,
        ),
        lambda cache: cache.bytes,
    ),
    Reading(
        gauge(
            "dumpfilter_master_cache_limit_bytes", "The most memory that a cache's entries may take.", _CACHE
        ),
        lambda cache: cache.limit_bytes,
    ),
    Reading(
        gauge("dumpfilter_master_cache_entries", "Entries in a cache.", _CACHE), lambda cache: cache.entries
    ),
    Reading(
        counter(
            "dumpfilter_master_cache_hits_total", "Look-ups that found their entry in the cache.", _CACHE
        ),
        lambda cache: cache.hits,
    ),
    Reading(
        counter(
            "dumpfilter_master_cache_misses_total",
            "Look-ups that did not find their entry in the cache, so that the master made the entry anew.",
            _CACHE,
        ),
        lambda cache: cache.misses,
    ),
)
"""The metrics that each cache has."""

METRICS: tuple[Definition, ...] = (
    SERVING,
    READABLE,
    FILES,
    BYTES,
    MODIFIED,
    SLAVES,
    DRAINS,
    CALLS,
    CALLS_LIMIT,
    FAILED_CALLS,
    *(each.definition for each in PER_SLAVE),
    SEND_DELAY,
    PLAN,
    ENCODE,
    *(each.definition for each in CACHES),
    SCANNED_BYTES,
    SCANNED_EVENTS,
)
"""The definitions of all metrics of a master, in the order of the documentation."""


class MasterCollector(Collector):
    """A collector that reads a master's metrics at a scrape.

    The locks of the slaves' lists are held only while the lists are copied. Counters are read without a lock, so that
    the counters of one slave may differ by one chunk. ``replicas`` returns the connections of the replication port and
    the most that the port accepts, or None without such a port.
    """

    def __init__(
        self,
        store: BinlogStore,
        slaves: KnownSlaves,
        places: Places,
        limits: ServerLimits,
        drains: Drains,
        caches: Callable[[], Mapping[str, CacheState]],
        *,
        serving: Callable[[], bool],
        replicas: Callable[[], tuple[int, int] | None] = lambda: None,
        measured: Measurements = MEASURED,
    ) -> None:
        self._store = store
        self._slaves = slaves
        self._places = places
        self._limits = limits
        self._drains = drains
        self._caches = caches
        self._serving = serving
        self._replicas = replicas
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the master."""
        yield SERVING.family([({}, float(self._serving()))])
        now = time.time()
        modified_at = self._modified()
        yield READABLE.family([({}, float(modified_at is not None))])
        yield MODIFIED.family([({}, modified_at)])
        end = BinlogEnd(self._store.binlogs, now)
        yield FILES.family([({}, end.files)])
        yield BYTES.family([({}, end.bytes)])
        yield from self._of_calls()
        yield from self._of_slaves(end)
        for latency in (self._measured.send_delay, self._measured.plan, self._measured.encode):
            yield family_of(latency.definition, [({}, latency)])
        yield from self._of_caches()
        scanned_bytes, scanned_events = self._store.scanned
        yield SCANNED_BYTES.family([({}, scanned_bytes)])
        yield SCANNED_EVENTS.family([({}, scanned_events)])

    def _modified(self) -> float | None:
        """Return the time of the newest binlog's last write, or None if the binlog set cannot be read."""
        try:
            # The check also notices that the server has begun another file.
            self._store.check_readable()
            return modified(self._store.binlogs)
        except BinlogError:
            return None

    def _of_calls(self) -> Iterator[Metric]:
        limits = self._limits
        most = {
            CallKind.CALL: limits.max_calls,
            CallKind.DUMP: limits.max_dumps,
            CallKind.WATCH: limits.max_watches,
        }
        calls = {kind.name.lower(): (self._places.used(kind), limit) for kind, limit in most.items()}
        if (replicas := self._replicas()) is not None:
            calls["replica_connection"] = replicas
        yield CALLS.family(({"kind": kind}, used) for kind, (used, _) in calls.items())
        yield CALLS_LIMIT.family(({"kind": kind}, limit) for kind, (_, limit) in calls.items())
        failed = self._measured.failed_calls.counts()
        yield FAILED_CALLS.family(({"reason": reason}, count) for reason, count in failed.items())

    def _of_slaves(self, end: BinlogEnd) -> Iterator[Metric]:
        slaves = self._slaves.all()
        states = Counter(slave.presence for slave in slaves)
        yield SLAVES.family([({"state": state.value}, states[state]) for state in Presence])
        yield DRAINS.family([({}, len(self._drains.all()))])
        views = [(labels, self._view(slave, end)) for labels, slave in shown(slaves)]
        for reading in PER_SLAVE:
            yield reading.family(views)

    def _view(self, slave: KnownSlave, end: BinlogEnd) -> SlaveView:
        if not slave.file:
            return SlaveView(slave, None, None)
        return SlaveView(slave, end.lag_bytes(slave.place), end.lag_seconds(slave.place))

    def _of_caches(self) -> Iterator[Metric]:
        found = {"segments": self._store.cache_state(), **self._caches()}
        caches = [({"cache": name}, state) for name, state in found.items()]
        for reading in CACHES:
            yield reading.family(caches)


def shown(slaves: Iterable[KnownSlave]) -> list[tuple[Mapping[str, str], KnownSlave]]:
    """Return the slaves that the metrics show, each with its labels. No two of them have equal labels.

    The metrics do not show slaves that have only registered, which a stranger could do for any number of names.
    """
    served = [slave for slave in slaves if slave.presence is not Presence.REGISTERED]
    connected = [slave for slave in served if slave.presence is Presence.CONNECTED]
    idle = [slave for slave in served if slave.presence is not Presence.CONNECTED]
    # Slaves that a [[replica]] names and that were never seen come last, so that the limit spares them.
    idle.sort(key=lambda slave: math.inf if slave.last_seen_at is None else slave.last_seen_at)
    found = {_label_values(slave): slave for slave in [*idle[-MOST_IDLE_SHOWN:], *connected]}
    return [(dict(zip(SLAVE_LABELS, values, strict=True)), slave) for values, slave in found.items()]


def _label_values(slave: KnownSlave) -> tuple[str, ...]:
    return (
        slave.uuid or slave.entry,
        str(slave.server_id),
        slave.channel[:LONGEST_LABEL],
        slave.user[:LONGEST_LABEL],
    )
