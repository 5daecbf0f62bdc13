"""The traffic of a binlog set by transaction, read in one pass for any number of filters.

The same job runs on threads of this process and on Spark, so both engines count alike.

1. The driver indexes the files and divides them into ranges of whole transactions.
2. Each task counts the transactions of a group of ranges (:class:`CountRanges`).
3. The driver joins the counts in the order of the binlog.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import (
    GivenFilter,
    TransactionTally,
    TransactionTraffic,
    Verdicts,
    join,
)
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.event_time import MICROSECONDS
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.stand_ins import EVENTS
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subjects
from dumpfilter.simulation.traffic import Clock, Sent, SetTraffic
from dumpfilter.spark_jobs.engines.runner import Runner
from dumpfilter.spark_jobs.ranges.range_index import ReadOptions, ReadRanges, index_set, state_of_thread
from dumpfilter.spark_jobs.ranges.ranges import Range, amount_of, grouped

_SECOND = int(MICROSECONDS)

_KEPT = 8
"""The number of filters whose traffic stays in memory after its use. Slaves with one filter are evaluated together."""


class FilterDefinition(Protocol):
    """The definition of a filter, which depends on how the binlog's server compares names."""

    @property
    def origin(self) -> OriginFilter | None:
        """The server ids and domains that the slave wants. None: all."""

    def filter(self, names: NameRules) -> ReplicationFilter:
        """Return the filter. Raises OptionError."""


@dataclass(frozen=True, kw_only=True)
class CountRanges(ReadRanges):
    """A picklable task that counts the transactions of some ranges for all filters."""

    job: str
    filters: tuple[GivenFilter, ...]

    def __call__(self, ranges: Iterable[Range]) -> TransactionTraffic:
        """Read the ranges and return their traffic. Raises BinlogError with file and position."""
        subjects, sources, tally = state_of_thread(self.job, self._state)
        parts = []
        for wanted in ranges:
            with self.open(wanted.file) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    tally.add(block.segment, block.data, block.segment.start, file.read)
            parts.append(tally.take(wanted.file))
        return join(parts or [tally.take()])

    def _state(self) -> tuple[Subjects, SourceNumbers, TransactionTally]:
        with _lock:
            if self.job not in _verdicts:
                _verdicts.clear()
                _verdicts[self.job] = Verdicts([one for one, _ in self.filters])
            verdicts = _verdicts[self.job]
        subjects, sources = Subjects(), SourceNumbers()
        return subjects, sources, TransactionTally(subjects, sources, filters=self.filters, verdicts=verdicts)


_verdicts: dict[str, Verdicts] = {}
"""The verdicts of the filters of the last job, which all threads of the process share."""
_lock = threading.Lock()


def read_traffic(
    source: str | Path | Sequence[str | Path],
    filters: Sequence[FilterDefinition],
    run: Runner,
    options: ReadOptions | None = None,
) -> SetTraffic:
    """Count each transaction of a binlog set for each filter.

    ``source`` names a binlog set or several files, and ``run`` runs the tasks. A filter's index in ``filters`` is its
    number in the result. Raises BinlogError with file and position for a damaged binlog.
    """
    options = options or ReadOptions()
    indexed = index_set(source, run, options)
    count = CountRanges(
        job=uuid.uuid4().hex,
        files=indexed.files,
        filters=tuple((one.filter(indexed.names), one.origin) for one in filters),
        verify=options.verify_ranges,
        block_size=options.block_size,
    )
    groups = grouped(indexed.ranges, options.range_size)
    counted = run(count, groups, "counting transactions", amount=amount_of(indexed.ranges))
    traffic = join(counted or [count([])])
    time, clock = times_of(traffic)
    return SetTraffic(
        time=time,
        clock=clock,
        end=traffic.end,
        file=traffic.file.astype(np.int64),
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        everything=_everything(traffic),
        filtered=functools.lru_cache(_KEPT)(lambda number: Sent(*traffic.of_filter(number))),
        stand_in_bytes=traffic.stand_in.astype(np.int64),
        stand_in_events=EVENTS[indexed.family],
        stand_ins_joined=indexed.family == "mariadb",
        warnings=(*indexed.warnings(), *indexed.told_of_xa("sent to every slave")),
        server_version=indexed.newest.server_version,
        family=indexed.family,
        nbytes=sum(one.size for one in indexed.files),
    )


def times_of(traffic: TransactionTraffic) -> tuple[Ints, Clock]:
    """Return the times of all transactions, microseconds, and the clock that they are from.

    The times never decrease. If any transaction's time is a whole second only, all times count as whole seconds, and
    the transactions of one second are spread evenly over the second.
    """
    time = traffic.time.copy()
    known = np.flatnonzero(time)
    if len(known):
        time[: known[0]] = time[known[0]]
    time = np.maximum.accumulate(time) if len(time) else time
    if traffic.is_exact.all():
        return time, Clock.MICROSECONDS
    second = time // _SECOND
    first = np.flatnonzero(np.diff(second, prepend=second[0] - 1))
    count = np.diff(first, append=len(second))
    within = np.arange(len(second)) - np.repeat(first, count)
    return second * _SECOND + within * _SECOND // np.repeat(count, count), Clock.SECONDS


def _everything(traffic: TransactionTraffic) -> Sent:
    size, events = traffic.bytes.copy(), traffic.events.astype(np.int64)
    if len(size):
        size[0] += traffic.before[0]
        events[0] += traffic.before[1]
    return Sent(np.arange(len(size)), size, events)
