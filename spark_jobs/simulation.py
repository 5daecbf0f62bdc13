"""The traffic of each transaction of a binlog set, counted in one pass for any number of filters.

Threads of this process and Spark run the same job, so both engines give equal counts.

1. The driver divides the files into ranges of complete transactions.
2. Each task (:class:`CountRanges`) counts the bytes and events of the transactions in a group of ranges.
3. The driver joins the counts in binlog order.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import (
    GivenFilter,
    Sent,
    TransactionTally,
    TransactionTraffic,
    Verdicts,
    join,
)
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.gtid_events import MICROSECONDS
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.packets.stand_ins import EVENTS, GtidSynthesis
from dumpfilter.index.fileset import open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.simulation.plan import Clock, FilterKey, SetTraffic
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import IndexedSet, Range, ReadRanges, parts_of, read_set, state_of_thread

_SECOND = int(MICROSECONDS)

_KEPT = 8
"""The number of filters whose traffic is cached, which suffices because slaves with equal filters are computed one
after the other.
"""


@dataclass(frozen=True, kw_only=True)
class CountRanges(ReadRanges):
    """A picklable task for threads or Spark, which counts for each transaction the bytes and events that each of
    ``filters`` passes.

    The task reads some ranges. A range is a part of a binlog file with complete transactions.
    """

    options: ReadOptions
    filters: tuple[GivenFilter, ...]

    def __call__(self, ranges: Iterable[Range]) -> TransactionTraffic:
        """Read consecutive ranges (parts of binlog files). Return, for each transaction in these ranges and each
        filter, the bytes and events that the filter passes. Raises BinlogError with file and position for a damaged
        file.
        """
        subjects, sources, tally = state_of_thread(self.job, self._state)
        parts = []
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    tally.add(block, file.read)
            parts.append(tally.take(wanted.file))
        return join(parts or [tally.take()])

    def _state(self) -> tuple[Subjects, SourceNumbers, TransactionTally]:
        subjects, sources = Subjects(), SourceNumbers()
        verdicts = _verdicts.setdefault(self.job, Verdicts([one for one, _ in self.filters]))
        tally = TransactionTally(subjects, sources, filters=self.filters, verdicts=verdicts)
        return subjects, sources, tally


_verdicts: WeakValueDictionary[str, Verdicts] = WeakValueDictionary()
"""The cached verdicts (which filters send which table or statement) of each job, by the job's id. All threads of this
process share them.
"""


def read_traffic(
    source: str | Path | Sequence[str | Path],
    filters: Sequence[FilterKey],
    run: Runner,
    options: ReadOptions | None = None,
) -> SetTraffic:
    """Count the bytes and events of each transaction of a binlog set that each filter passes.

    ``source`` names a binlog set or several files. ``run`` is a function that calls the tasks, in threads or on Spark.
    ``options`` say how the files are read; None: the defaults. A filter has the same index in ``filters`` and in the
    result. Raises BinlogError with file and position for a damaged binlog.
    """
    options = options or ReadOptions()

    def task_of(indexed: IndexedSet) -> CountRanges:
        given = tuple((one.filter(indexed.newest.names), one.origin) for one in filters)
        return CountRanges(options=options, filters=given)

    indexed, counted = read_set(parts_of(source), run, options, task_of, "counting transactions")
    given = task_of(indexed).filters
    traffic = join(counted)
    everything = traffic.of_rows(traffic.facts.sent(None))

    @functools.lru_cache(_KEPT)
    def sent(number: int | None) -> Sent:
        return everything if number is None else traffic.of_filter(given[number], number)

    time, clock = times_of(traffic)
    return SetTraffic(
        time=time,
        clock=clock,
        end=traffic.end,
        file=traffic.file.astype(np.int64),
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        sent=sent,
        first_equal=dict(enumerate(traffic.first_equal(given))),
        stand_in_bytes=traffic.stand_in.astype(np.int64),
        gap_stand_in_bytes=GtidSynthesis(indexed.newest).size if indexed.newest.family == "mysql" else 0,
        stand_in_events=EVENTS[indexed.newest.family],
        stand_ins_joined=indexed.newest.family == "mariadb",
        warnings=tuple(indexed.warnings("sent to every slave")),
        server_version=indexed.newest.server_version,
        family=indexed.newest.family,
        nbytes=sum(one.size for one in indexed.files),
    )


def times_of(traffic: TransactionTraffic) -> tuple[Ints, Clock]:
    """Return two values: the commit times of all transactions, and the kind of clock from which they come. The times
    are Unix microseconds and never decrease. A transaction without a known time gets the time of the transaction before
    it.

    If all times are known to the microsecond, the clock is ``Clock.MICROSECONDS``. Otherwise the clock is
    ``Clock.SECONDS``. All times are then reduced to seconds, and the transactions of a second are spread evenly over
    it.
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
