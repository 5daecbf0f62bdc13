"""The bandwidth job: the traffic that slaves would receive, with their filters on the master and without filters.

One pass over the binlogs serves any number of slaves (:mod:`dumpfilter.dump.tally`).

1. The driver indexes the files and divides them into ranges of whole transactions.
2. Each Spark task measures a group of ranges (:mod:`~dumpfilter.spark_jobs.bandwidth.measure`).
3. The driver merges the measurements and computes each slave's figures
   (:mod:`~dumpfilter.spark_jobs.bandwidth.evaluate`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.spark_jobs.bandwidth.evaluate import Evaluate, FlagsOf, ask, master_cost
from dumpfilter.spark_jobs.bandwidth.measure import Measured, MeasureRanges, merged
from dumpfilter.spark_jobs.bandwidth.results import Results, Series, SkippedFile, SourceFigures
from dumpfilter.spark_jobs.engines.runner import Amount, Runner
from dumpfilter.spark_jobs.ranges.indexing import IndexedSet, ReadOptions, index_set
from dumpfilter.spark_jobs.ranges.ranges import amount_of, grouped
from dumpfilter.spark_jobs.split.ownership import schemas_among
from dumpfilter.topology.slaves_file import SlaveDefinition

_MOST_BUCKETS = 3000
"""The largest number of time buckets. Longer binlogs get longer buckets, unless the user sets their length."""

_LENGTHS = (60, 300, 900, 3600, 6 * 3600, 86_400)
"""The default lengths of a time bucket, seconds. The job takes the shortest length that does not make too many
buckets."""

_SLICES = 16
"""The largest number of Spark tasks that ask filters about tables, because each task costs time to start."""


@dataclass(frozen=True)
class BandwidthOptions(ReadOptions):
    """The options of a bandwidth job. Without ``bucket_seconds`` a bucket is a minute, or longer for long binlogs."""

    bucket_seconds: int | None = None
    fold_above: int = 4 << 30
    """The size of the binlogs, bytes, above which tasks add up counts that all filters treat alike.

    The results that travel to the driver stay small, but every process must then ask every filter.
    """


def bandwidth(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
) -> Results:
    """Compute the traffic that each slave would receive from these binlogs, with and without its filter.

    ``source`` names a binlog set or several files, and ``run`` runs the tasks. Raises BinlogError with file and
    position for a damaged binlog, and OptionError for an unusable option.
    """
    options = options or BandwidthOptions()
    if not slaves:
        raise OptionError("no slave is given: name at least one slave in the slaves file")
    indexed = index_set(source, run, options)
    seconds = options.bucket_seconds or _bucket_seconds(indexed)
    asked, filters = ask(slaves, indexed.names)
    unknown_xa_schemas = schemas_among(indexed.subjects)
    measure = MeasureRanges(
        uuid.uuid4().hex,
        indexed.files,
        tuple(filters),
        len(asked),
        seconds,
        unknown_xa_schemas,
        indexed.nbytes > options.fold_above,
        options.verify_ranges,
        options.block_size,
    )
    groups = grouped(indexed.ranges, options.range_size)
    measured = merged(run(measure, groups, "measuring", amount=amount_of(indexed.ranges)) or [measure([])])
    flags = run(
        FlagsOf(measured.tallied.subjects),
        filters,
        "asking filters",
        slices=min(len(filters), _SLICES),
        amount=Amount("filters"),
    )
    evaluate = Evaluate(measured, flags, indexed.family)
    everything = evaluate.everything
    found = [evaluate(one) for one in asked]
    figures = tuple(one for one, _ in found)
    return Results(
        source=_source(indexed, measured),
        bucket_seconds=seconds,
        bucket_starts=tuple((evaluate.buckets * seconds).tolist()),
        slaves=figures,
        tables=evaluate.tables.figures(evaluate.tallied, everything),
        series=Series(
            no_filter=tuple(evaluate.series(everything).tolist()),
            slaves={one.name: series for one, series in found},
        ),
        cost=master_cost(measured.timing, figures),
        skipped=tuple(
            SkippedFile(
                file=replace_invalid_utf8(one.damage.file),
                position=one.damage.position,
                reason=one.damage.reason,
            )
            for one in indexed.files
            if one.damage is not None
        ),
        warnings=tuple(indexed.told_of_xa("sent to every slave")),
    )


def _bucket_seconds(indexed: IndexedSet) -> int:
    span = (indexed.last_time or 0) - (indexed.first_time or 0)
    return next((length for length in _LENGTHS if span <= length * _MOST_BUCKETS), _LENGTHS[-1])


def _source(indexed: IndexedSet, measured: Measured) -> SourceFigures:
    everything = measured.tallied.sent(None)
    return SourceFigures(
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        bytes=sum(one.size for one in indexed.files),
        events=int(measured.tallied.events[everything].sum()),
        transactions=int(measured.tallied.transactions[everything].sum()),
        family=indexed.family,
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        first_time=indexed.first_time,
        last_time=indexed.last_time,
    )
