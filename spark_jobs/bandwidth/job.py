"""The bandwidth job: what slaves would be sent, with their filters on the master and without.

One pass over the binlogs serves any number of slaves (:mod:`dumpfilter.dump.tally`). The driver indexes the files and
divides them into ranges, as the split does. A task measures each range (:mod:`~dumpfilter.spark_jobs.bandwidth.tasks`).
The driver merges the measurements and computes each slave's figures
(:mod:`~dumpfilter.spark_jobs.bandwidth.figures`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.spark_jobs.bandwidth.figures import Evaluate, FlagsOf, ask, master_cost
from dumpfilter.spark_jobs.bandwidth.results import Results, Series, SkippedFile, SourceFigures
from dumpfilter.spark_jobs.bandwidth.slaves import SlaveDefinition
from dumpfilter.spark_jobs.bandwidth.tasks import Measured, MeasureRanges, merged
from dumpfilter.spark_jobs.ranges.indexing import IndexedSet, ReadOptions, index_set
from dumpfilter.spark_jobs.ranges.ranges import Range
from dumpfilter.spark_jobs.spark.jobs import Runner
from dumpfilter.spark_jobs.split.ownership import schemas_among

_MOST_BUCKETS = 3000
"""Of time, where their length is not told: more than a picture shows, and little to keep."""

_LENGTHS = (60, 300, 900, 3600, 6 * 3600, 86_400)
"""Seconds of a bucket that people think in."""

_GROUPS = 512
"""Into so many tasks ranges are put at most: each task's findings come back to the driver."""


_SLICES = 16
"""Into so many tasks the filters are put at most."""


@dataclass(frozen=True)
class BandwidthOptions(ReadOptions):
    """How to measure. ``bucket_seconds``: None: a minute, or more where the binlogs are long."""

    bucket_seconds: int | None = None
    fold_above: int = 4 << 30
    """Bytes of binlog above which tasks give back less, at the cost of asking every filter in every process."""


def bandwidth(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
) -> Results:
    """Measure a binlog set for these slaves. Raises BinlogError with file and position, and OptionError."""
    options = options or BandwidthOptions()
    if not slaves:
        raise OptionError("no slave is given")
    indexed = index_set(source, run, options)
    seconds = options.bucket_seconds or _bucket_seconds(indexed)
    asked, filters = ask(slaves, indexed.names)
    everywhere = schemas_among(indexed.subjects)
    measure = MeasureRanges(
        uuid.uuid4().hex,
        indexed.files,
        tuple(filters),
        len(asked),
        seconds,
        everywhere,
        indexed.nbytes > options.fold_above,
        options.verify_ranges,
        options.block_size,
    )
    groups = _groups(indexed.ranges, options.range_size)
    measured = merged(run(measure, groups, "measuring") or [measure([])])
    flags = run(
        FlagsOf(measured.tallied.subjects), filters, "asking filters", slices=min(len(filters), _SLICES)
    )
    evaluate = Evaluate(measured, flags)
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


def _groups(ranges: Sequence[Range], range_size: int) -> list[tuple[Range, ...]]:
    """Consecutive ranges, each group about as large as a range should be, or larger where there would be too many."""
    total = sum(one.end - one.start for one in ranges)
    size = max(range_size, -(-total // _GROUPS))
    found: list[list[Range]] = []
    filled = size
    for one in ranges:
        if filled >= size:
            found.append([])
            filled = 0
        found[-1].append(one)
        filled += one.end - one.start
    return [tuple(group) for group in found]


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
