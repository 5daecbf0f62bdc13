"""The collector that reads a master's metrics at a scrape. :mod:`dumpfilter.master.facts` declares the metrics."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.errors import BinlogError
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.master import facts
from dumpfilter.master.drain import Drains
from dumpfilter.master.facts import Counted, Master, SlaveView
from dumpfilter.master.known_slaves import KnownSlaves, Presence
from dumpfilter.master.limits import Kind as CallKind
from dumpfilter.master.limits import Places, ServerLimits
from dumpfilter.master.measurements import MEASURED, CacheState, Measurements
from dumpfilter.master.store import BinlogStore

if TYPE_CHECKING:
    from dumpfilter.master.source import SourceThread

MOST_IDLE_SHOWN = 1000
"""The most slaves without a dump that the metrics show. The slaves that ended last are shown."""


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
        source: SourceThread | None = None,
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
        self._source = source
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the master."""
        modified_at = self._modified()
        end = BinlogEnd(self._store.binlogs.paths, time.time())
        slaves = self._slaves.all()
        states = Counter(slave.presence for slave in slaves)
        failed = self._measured.failed_calls.counts()
        yield from facts.MASTER.families(
            [
                Master(
                    self._serving(),
                    modified_at,
                    end,
                    len(self._drains.all()),
                    *self._store.scanned,
                    self._measured,
                )
            ]
        )
        yield from facts.STATES.families([Counted(state.value, states[state]) for state in Presence])
        yield from facts.CALLS.families(list(self._calls()))
        yield from facts.FAILED_CALLS.families([Counted(*pair) for pair in failed.items()])
        yield from facts.SLAVES.families(shown(SlaveView(slave, end) for slave in slaves))
        yield from facts.CACHES.families([("segments", self._store.cache_state()), *self._caches().items()])
        if self._source is not None:
            yield from facts.SOURCE.families([self._source])

    def _modified(self) -> float | None:
        """Return the time of the newest binlog's last write, or None if the binlog set cannot be read."""
        try:
            # The check also notices that the server has begun another file.
            self._store.check_readable()
            return self._store.open_file(self._store.binlogs.names[-1]).file.modified / 1e9
        except BinlogError:
            return None

    def _calls(self) -> Iterator[Counted]:
        limits = self._limits
        for kind, limit in (
            (CallKind.CALL, limits.max_calls),
            (CallKind.DUMP, limits.max_dumps),
            (CallKind.WATCH, limits.max_watches),
        ):
            yield Counted(kind.name.lower(), self._places.used(kind), limit)
        if (replicas := self._replicas()) is not None:
            yield Counted("replica_connection", *replicas)


def shown(views: Iterable[SlaveView]) -> list[SlaveView]:
    """Return the slaves that the metrics show. No two of them have equal labels.

    The metrics do not show slaves that have only registered, which a stranger could do for any number of names.
    """
    served = [view for view in views if view.slave.presence is not Presence.REGISTERED]
    connected = [view for view in served if view.slave.presence is Presence.CONNECTED]
    idle = [view for view in served if view.slave.presence is not Presence.CONNECTED]
    # Slaves that a [[replica]] names and that were never seen come last, so that the limit spares them.
    idle.sort(key=lambda view: view.slave.last_seen_at or math.inf)
    labels = facts.SLAVES.labels.values()
    found = {tuple(of(view) for of in labels): view for view in [*idle[-MOST_IDLE_SHOWN:], *connected]}
    return list(found.values())
