"""The traffic of each transaction of a binlog set, counted in one pass for any number of filters.

Threads of this process and Spark run the same job, so both engines give equal counts.

1. The driver indexes the files and divides them into ranges of complete transactions.
2. Each task (:class:`CountRanges`) counts the transactions of a group of ranges, and compresses samples, from which
the compressed sizes of transactions are estimated.
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
    MILLION,
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
from dumpfilter.dump.packets.stand_ins import EVENTS
from dumpfilter.index.fileset import open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.simulation.plan import FilterKey
from dumpfilter.simulation.traffic import Clock, SetTraffic
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import TrafficOptions
from dumpfilter.spark_jobs.ranges import Range, ReadRanges, amount_of, grouped, index_set, state_of_thread
from dumpfilter.spark_jobs.samples import WHOLE, Samples
from dumpfilter.spark_jobs.split.ownership import REST, encoded_schemas

_SECOND = int(MICROSECONDS)

_KEPT = 8
"""The number of filters whose traffic is cached. Slaves with equal filters are computed one after the other."""
_REST = frozenset({REST})


Senders = frozenset[tuple[int, frozenset[str]]]
"""For each table and statement, the filters that send it as bits, and its schemas. Equal entries occur once."""


@dataclass(frozen=True, kw_only=True)
class CountRanges(ReadRanges):
    """A picklable task that counts the bytes and events of each transaction in some ranges (parts of binlog files),
    under all filters.
    """

    options: TrafficOptions
    filters: tuple[GivenFilter, ...]

    def __call__(self, ranges: Iterable[Range]) -> tuple[TransactionTraffic, Samples, Senders]:
        """Read consecutive ranges. Return their traffic, samples, and the tables and statements that are new to the
        thread. Raises BinlogError with file and position.
        """
        subjects, sources, tally = state_of_thread(self.job, self._state)
        samples = Samples()
        parts = []
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for number, block in enumerate(self.blocks(file, wanted, subjects, sources)):
                    tally.add(block.segment, block.data, block.segment.start, file.read)
                    if self.options.compressed and not number:
                        samples.take_of_block(block, subjects, wanted.number)
            parts.append(tally.take(wanted.file))
        senders = tally.new_subjects() if self.options.split else frozenset()
        return join(parts or [tally.take()]), samples, senders

    def _state(self) -> tuple[Subjects, SourceNumbers, TransactionTally]:
        subjects, sources, options = Subjects(), SourceNumbers(), self.options
        tally = TransactionTally(
            subjects,
            sources,
            filters=self.filters,
            verdicts=_verdicts.setdefault(self.job, Verdicts([one for one, _ in self.filters])),
            schemas_of=encoded_schemas if options.compressed or options.split else None,
        )
        return subjects, sources, tally


_verdicts: WeakValueDictionary[str, Verdicts] = WeakValueDictionary()
"""The cached verdicts of the filters of each job, by the job's id. All threads of this process share them."""


def read_traffic(
    source: str | Path | Sequence[str | Path],
    filters: Sequence[FilterKey],
    run: Runner,
    options: TrafficOptions | None = None,
) -> SetTraffic:
    """Count the bytes and events of each transaction of a binlog set that each filter passes.

    ``source`` names a binlog set or several files, and ``run`` runs the tasks. A filter has the same index in
    ``filters`` and in the result. Raises BinlogError with file and position for a damaged binlog.
    """
    options = options or TrafficOptions()
    indexed = index_set(source, run, options)
    given = tuple((one.filter(indexed.newest.names), one.origin) for one in filters)
    count = CountRanges(options=options, filters=given)
    groups = grouped(indexed.ranges, options.range_size)
    counted = run(count, groups, "counting transactions", amount=amount_of(indexed.ranges)) or [count([])]
    traffic = join([one for one, _, _ in counted])
    samples = Samples()
    for _, one, _ in counted:
        samples.add(one)
    by_schema = {
        name: min(compressed * MILLION // raw, MILLION) for name, (raw, compressed) in samples.sizes.items()
    }
    whole = by_schema.pop(WHOLE, MILLION)
    ratio = traffic.ratios(encoded_schemas, by_schema, whole) if options.compressed else None
    everything = traffic.weighted(traffic.facts.sent(None))
    everything = everything._replace(compressed=everything.bytes * whole // MILLION)
    senders = Senders().union(*(one for *_, one in counted))
    of_condition = traffic.schemas(encoded_schemas) if options.split else []

    @functools.lru_cache(_KEPT)
    def sent(number: int | None, of_split: bool) -> Sent:
        if number is None:
            return everything
        if not of_split:
            return traffic.of_filter(given[number], number, ratio)
        needed = frozenset[str]().union(
            *(schemas or _REST for numbers, schemas in senders if numbers >> number & 1)
        )
        binlogs = np.array([len(needed & (schemas or _REST)) for schemas in of_condition], np.int64)
        return traffic.weighted(binlogs[traffic.facts.condition], ratio)

    time, clock = times_of(traffic)
    return SetTraffic(
        time=time,
        clock=clock,
        end=traffic.end,
        file=traffic.file.astype(np.int64),
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        sent=sent,
        stand_in_bytes=traffic.stand_in.astype(np.int64),
        stand_in_events=EVENTS[indexed.newest.family],
        stand_ins_joined=indexed.newest.family == "mariadb",
        warnings=tuple(indexed.warnings("sent to every slave")),
        server_version=indexed.newest.server_version,
        family=indexed.newest.family,
        nbytes=sum(one.size for one in indexed.files),
    )


def times_of(traffic: TransactionTraffic) -> tuple[Ints, Clock]:
    """Return the commit times of all transactions (Unix microseconds, never decreasing), and their source.

    If any commit time is known only to the second, all are treated so, and the transactions of a second are spread
    evenly over it.
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
