"""The metrics of a master, and the collector that reads them when Prometheus asks for them.

:mod:`dumpfilter.master.facts` declares the metrics that are also columns of the console's tables.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.base.errors import BinlogError
from dumpfilter.console.facts import Facts, Latency, metric
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.master.facts import PREFIX, Slaves, SlaveView, Source
from dumpfilter.master.indexed_file import CacheState
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import Presence
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore

MOST_IDLE_SHOWN = 1000
"""The largest number of slaves without a dump that the metrics show, those whose dumps ended last."""


class MasterView(NamedTuple):
    """The objects of a running master from which its metrics are read when Prometheus asks for them."""

    server: MasterServer
    end: BinlogEnd
    modified_at: float | None
    """The Unix time of the last write to the newest binlog file. None if the binlog set cannot be read."""


class Master(Facts[MasterView], prefix=PREFIX):
    """The metrics of a master as a whole, such as the size of its binlog and the delay of sending."""

    serving = metric(lambda master: master.server.loop.is_running and not master.server.service.stopping)
    """1 while the gRPC server accepts calls."""
    binlog_readable = metric(lambda master: master.modified_at is not None)
    """1 if the scrape could read the newest binlog."""
    binlog_files = metric("end.files")
    """Files in the binlog set."""
    binlog_bytes = metric("end.bytes")
    """Size of all files in the binlog set."""
    binlog_modified_timestamp_seconds = metric("modified_at")
    """Unix time of the last write to the newest binlog."""
    drains = metric(lambda master: len(master.server.service.drains.all()))
    """Drains (the operator's orders to send slaves away) in force."""
    send_delay_seconds = metric(lambda _: MEASURED.send_delay, Latency)
    """Time from the commit of the first transaction in a message until a dump hands the message to the
    connection of a slave or real replica."""
    plan_seconds = metric(lambda _: MEASURED.plan, Latency)
    """Time to decide which events of a segment (a scanned part of a binlog) are sent, for all dumps together."""
    encode_seconds = metric(lambda _: MEASURED.encode, Latency)
    """Time to read a chunk (events that are sent together) and make its messages, once for all slaves."""
    scanned_bytes_total = metric(lambda _: MEASURED.scanned_bytes)
    """Bytes of the binlog that the master has scanned. All slaves share a scan."""
    scanned_events_total = metric(lambda _: MEASURED.scanned_events)
    """Events that the master has scanned."""


class States(Facts[tuple[str, int]], prefix=PREFIX, labels={"state": itemgetter(0)}):
    """The metric that counts the slaves that the master knows, by their state (such as connected or drained)."""

    slaves = metric(itemgetter(1))
    """Slaves that the master knows, by state, as in the table dumpfilter.slaves."""


class Calls(Facts[tuple[str, int, int]], prefix=PREFIX, labels={"kind": itemgetter(0)}):
    """The metrics of the gRPC calls and replica connections in progress, by kind of call, with their limits."""

    calls = metric(itemgetter(1))
    """Calls under way, by kind: dump, short (health checks, Alive), call, replica_connection."""
    calls_limit = metric(itemgetter(2))
    """The most calls of a kind that may be under way."""


class FailedCalls(Facts[tuple[str, int]], prefix=PREFIX, labels={"reason": itemgetter(0)}):
    """The metric that counts refused calls and failed dumps, by reason (the name of the error's class)."""

    failed_calls_total = metric(itemgetter(1))
    """Refused calls, and dumps that ended with an error, by the error's class."""


class Caches(Facts[tuple[str, CacheState]], prefix=PREFIX, labels={"cache": itemgetter(0)}):
    """The metrics of the master's caches, by the cache's name: size, limit, entries, hits and misses."""

    cache_bytes = metric(lambda cache: cache[1].bytes)
    """Memory of a cache's entries: scanned events (segments), choices of events to send (steps), or messages
    (chunks)."""
    cache_limit_bytes = metric(lambda cache: cache[1].limit_bytes)
    """The most memory that a cache's entries may take."""
    cache_entries = metric(lambda cache: cache[1].entries)
    """Entries in a cache."""
    cache_hits_total = metric(lambda cache: cache[1].hits)
    """Look-ups that found their entry in the cache."""
    cache_misses_total = metric(lambda cache: cache[1].misses)
    """Look-ups that did not find their entry in the cache."""


METRICS: tuple[type[Facts[Any]], ...] = (Master, States, Calls, FailedCalls, Slaves, Caches)
"""The groups of metrics that every master has, in the order of docs/metrics.md."""


class MasterCollector(Collector):
    """A Prometheus collector that reads a master's metrics at each scrape.

    Locks are held only while lists of slaves are copied. The counters of a slave are read without a lock. Some of them
    may already include a chunk (message to the slave) that others do not include yet.
    """

    def __init__(self, server: MasterServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the master."""
        server, store = self._server, self._server.service.store
        # The check also notices that the server has begun another file, so that it comes first.
        modified_at = _modified(store)
        end = BinlogEnd(store.binlogs.paths, time.time())
        slaves = server.service.known_slaves.all()
        states = Counter(slave.presence for slave in slaves)
        yield from Master.families([MasterView(server, end, modified_at)])
        yield from States.families((state.value, states[state]) for state in Presence)
        yield from Calls.families(_calls(server))
        yield from FailedCalls.families(MEASURED.failures().items())
        yield from Slaves.families(shown(SlaveView(slave, end) for slave in slaves))
        yield from Caches.families([("segments", store.cache_state()), *server.reader.caches().items()])
        if server.source is not None:
            yield from Source.families([server.source])


def _modified(store: BinlogStore) -> float | None:
    """Return the Unix time of the last write to the newest binlog file, or None if the binlog set cannot be read."""
    try:
        store.check_readable()
        return store.open_file(store.binlogs.names[-1]).file.modified / 1e9
    except BinlogError:
        return None


def _calls(server: MasterServer) -> Iterator[tuple[str, int, int]]:
    """Yield for each kind of call its name, the number of calls in progress, and the limit of this number."""
    places = server.places
    for kind, (limit, _) in places.most.items():
        yield kind.name.lower(), places.used(kind), limit
    if server.count_replicas is not None:
        yield "replica_connection", *server.count_replicas()


def shown(views: Iterable[SlaveView]) -> list[SlaveView]:
    """Return the slaves that the metrics show: all connected ones, and up to MOST_IDLE_SHOWN others. Of the others,
    slaves that only the configuration names and that were never seen are preferred, and then those that were seen most
    recently. Of slaves with equal labels only one is shown.

    Slaves that have only registered, and never asked for a dump, are left out, because a stranger could register any
    number of names.
    """
    served = [view for view in views if view.slave.presence is not Presence.REGISTERED]
    connected = [view for view in served if view.slave.presence is Presence.CONNECTED]
    idle = [view for view in served if view.slave.presence is not Presence.CONNECTED]
    # Slaves that a [[replica]] names and that were never seen come last, so that the limit spares them.
    idle.sort(key=lambda view: view.slave.last_seen_at or math.inf)
    labels = Slaves.labels.values()
    found = {tuple(of(view) for of in labels): view for view in [*idle[-MOST_IDLE_SHOWN:], *connected]}
    return list(found.values())
