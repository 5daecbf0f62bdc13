"""The measurements of a binlog set, from which the traffic of any slave can be computed.

Tasks measure parts of the binlogs for all slaves in one pass. A later run over unchanged files reuses the measurements.
A file is recognized by its version: path, size, modification time, and a digest of its first and last bytes.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dumpfilter.analyse.report.measures import PERIODS
from dumpfilter.analyse.traffic.facts import Facts, side_by_side, sums
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import open_file
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs.bandwidth.samples import ALONE, WHOLE, Samples
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.spark_jobs.ranges import (
    FileVersion,
    IndexedSet,
    Range,
    ReadRanges,
    parts_of,
    read_set,
    state_of_thread,
    version_of,
)
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, Assigner, Owners, schemas_among, schemas_or_rest
from dumpfilter.topology.slaves_file import SlaveDefinition


@dataclass(frozen=True)
class Asked:
    """A slave of the slaves file, with the index of its filter, and for each rule the index of the filter without this
    rule.

    The difference between these filters shows how many bytes each rule saves. The indexes refer to the list of all
    distinct filters.
    """

    definition: SlaveDefinition
    number: int
    """The index of the slave's filter in the list of all distinct filters."""
    without: tuple[int, ...]
    """For each rule of the slave, the index of the filter that has all rules but this one."""


def ask(
    definitions: Sequence[SlaveDefinition], names: NameRules
) -> tuple[list[Asked], list[ReplicationFilter]]:
    """Return two values: the slaves with the indexes of their filters, and all distinct filters to measure.

    The filters are those of the slaves and, for each rule of a slave, the slave's filter without this rule. The filters
    without a rule show how many bytes the rule saves. ``names`` has the server's settings for comparing schema and
    table names.
    """
    filters: list[ReplicationFilter] = []
    numbers: dict[object, int] = {}

    def number_of(one: ReplicationFilter) -> int:
        number = numbers.setdefault((type(one), one.rules, one.names), len(filters))
        if number == len(filters):
            filters.append(one)
        return number

    asked = [
        Asked(
            one,
            number_of(one.filter(names)),
            tuple(number_of(one.filter(names, without=k)) for k in range(len(one.rules))),
        )
        for one in definitions
    ]
    return asked, filters


_SAMPLED_BLOCKS = 4
"""The factor by which the blocks (the bytes that a task reads at a time) are larger in a range from which samples are
taken. A rare schema has few bytes in a small block, and few bytes compress worse.
"""


@dataclass
class Measured:
    """The measurements of a part of the binlogs: counts of bytes and events, and the sizes of samples before and after
    compression, for compression ratios.
    """

    tallied: Facts
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes that a split of the binlogs by schema would write for each schema, by the schema's encoded name."""
    samples: Samples = field(default_factory=Samples)

    def ratio(self, schema: str = WHOLE) -> float:
        """Return the compressed size divided by the original size, at most 1.0, as measured in samples of a schema's
        events. ``schema`` is the schema's name, encoded as a file name.

        If the schema has no samples, return the ratio of the whole binlog stream. Without any sample return 1.0.
        """
        sizes = self.samples.sizes
        raw, compressed = sizes.get(schema) or sizes.get(WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0

    @property
    def transaction_factor(self) -> float:
        """The factor by which compressed data grow if each transaction is compressed separately, and not together in
        chunks of 256 KiB. The factor is measured in samples, and is at least 1. Without samples it is 1.

        Real replicas receive separately compressed transactions.
        """
        raw, compressed = self.samples.sizes.get(ALONE, (0, 0))
        return max(compressed / raw / self.ratio(), 1.0) if raw else 1.0


def merged(parts: Sequence[Measured]) -> Measured:
    """Return the sum of the measurements (traffic counts and samples) of several parts of the binlogs."""
    found = Measured(side_by_side([part.tallied for part in parts]))
    schema_bytes: Counter[str] = Counter()
    for part in parts:
        schema_bytes.update(part.schema_bytes)
        found.samples.add(part.samples)
    found.schema_bytes = dict(schema_bytes)
    return found


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A picklable task that counts the traffic of some ranges (parts of binlog files), from which the traffic with each
    filter can be computed.
    """

    options: BandwidthOptions
    filters: tuple[ReplicationFilter, ...]
    bucket_seconds: int
    unknown_xa_schemas: tuple[str, ...] = ()
    nbytes: int = 0
    """The total bytes of the ranges of all tasks. From this number a task computes its limit of rows of counts. The
    limit is the fraction of ``options.most_units`` that its own ranges have of these bytes.
    """

    def __call__(self, ranges: Iterable[Range]) -> Measured:
        """Read the ranges (parts of binlog files), and return their measurements.

        If the counts have more rows than this task's limit (see :attr:`nbytes`), counts of tables about which each of
        ``filters`` decides alike are merged. They are then valid for these filters only. Raises BinlogError with file
        and position for a damaged file.
        """
        subjects, sources, verdicts, tally, owners = state_of_thread(self.job, self._state)
        tally.take()
        nbytes = 0
        # From 1 GiB on, 16 to 32 ranges of the set have samples.
        every = max(1, self.nbytes >> 29)
        samples, schema_bytes = Samples(), Counter[str]()
        parts: list[Facts] = []
        is_plain = True
        for wanted in ranges:
            nbytes += wanted.end - wanted.start
            assigner = Assigner(owners)
            has_samples = not wanted.number % every
            times = _SAMPLED_BLOCKS if has_samples else 1
            with open_file(wanted.path) as file:
                for k, block in enumerate(self.blocks(file, wanted, subjects, sources, times)):
                    was_plain, is_plain = is_plain, _is_plain(block.segment)
                    if is_plain != was_plain:
                        parts.append(_taken(tally, schema_bytes if was_plain else None))
                    tally.add(block.segment, file.read)
                    is_sampled = has_samples and not k
                    if is_plain and not is_sampled:
                        continue
                    shares = assigner.assign(block.segment, file.read)
                    if not is_plain:
                        schema_bytes.update({owners.names[k]: plan.size for k, plan in shares.items()})
                    if is_sampled:
                        streams = {owners.names[k]: plan.ranges for k, plan in shares.items()}
                        samples.take_of_block(block, streams, wanted.number // every)
        parts.append(_taken(tally, schema_bytes if is_plain else None))
        facts = side_by_side(parts)
        if len(facts.condition) * max(self.nbytes, nbytes) > self.options.most_units * nbytes:
            places = [subjects.number_of(subject) for subject in facts.subjects]
            facts = facts.folded([one.array()[places] if one.is_on else None for one in verdicts])
        return Measured(facts, dict(schema_bytes), samples)

    def _state(self) -> tuple[Subjects, SourceNumbers, list[TableFlags], Tally, Owners]:
        subjects, sources = Subjects(), SourceNumbers()
        verdicts = [TableFlags(one, subjects) for one in self.filters]
        tally = Tally(subjects, sources, filters=verdicts, bucket_seconds=self.bucket_seconds)
        owners = BY_SCHEMA.owners(subjects, DEFAULT_NAMES, self.unknown_xa_schemas)
        return subjects, sources, verdicts, tally, owners


def _is_plain(segment: Segment) -> bool:
    """Tell whether the traffic counts of a segment (consecutive events of one file) also give the bytes that a split by
    schema (one binlog set for each schema) writes. The segment then has only whole transactions with rows or statements
    of known tables.
    """
    role = segment.role & R.ROLE_MASK
    changes = (role >= R.ROWS) & (role <= R.STATEMENT)
    return not (
        segment.continues
        or segment.open
        or segment.payloads
        or segment.xa_ends
        or segment.unknown_ends
        or (role >= R.KEEP).any()
        or (changes & (segment.subject < 0)).any()
        or (np.logical_or.reduceat(changes, segment.txn_event[:-1]) == (segment.txn_source == R.KEPT)).any()
    )


def _taken(tally: Tally, schema_bytes: Counter[str] | None) -> Facts:
    """Take the counts of bytes and events from the counter ``tally``, and return them. From these counts compute the
    bytes that a split by schema writes for each schema, and add them to ``schema_bytes``. With None the caller adds
    them, after it has assigned each event to its schemas.

    With ``schema_bytes``, all counted events must come from plain segments (parts of a file for which :func:`_is_plain`
    is true). Only in such segments does a schema's binlog get the same bytes as a slave whose filter sends only this
    schema's tables and statements.
    """
    facts = tally.take()
    if schema_bytes is None:
        return facts
    schemas = [schemas_or_rest(subject) for subject in facts.subjects]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(itertools.chain(*schemas)))}
    conditions, condition = facts.conditions.expanded(
        np.cumsum([0, *map(len, schemas)]),
        np.array([numbers[name] for one in schemas for name in one], np.int32),
    ).folded()
    nbytes = sums(condition[facts.condition], facts.bytes, len(conditions))
    for name, number in numbers.items():
        if size := int(nbytes[conditions.passing(np.arange(len(numbers)) == number)].sum()):
            schema_bytes[name] += size
    return facts


_MOST_BUCKETS = 3000
"""The maximum number of time buckets of a minute or longer. Longer binlogs get longer buckets, unless the user sets
their length.
"""

_SHORT_BUCKETS = 60
"""The maximum number of time buckets shorter than a minute. In binlogs that span less than a quarter of an hour,
buckets of a minute would hide peaks.
"""


@dataclass(frozen=True)
class MeasuredSet:
    """The measurements of a binlog set, from which the traffic of a slave can be computed without reading the binlogs.

    Usually the measurements are valid for every filter. If ``measured.tallied.given_only`` is True, they are valid only
    for the filters that were measured.
    """

    versions: tuple[FileVersion | None, ...]
    """The path, size, modification time and digest of each measured file (None: a file that could not be opened)."""
    indexed: IndexedSet
    """The data about all files, such as damage and times, without the ranges (file parts for tasks)."""
    measured: Measured
    options: tuple[object, ...]
    """The options of the measuring run (:attr:`BandwidthOptions.key`)."""
    filters: str
    """A digest of the measured filters."""
    measured_at: int
    """The time at which the binlogs were measured, Unix seconds."""

    def is_of(self, paths: Iterable[str]) -> bool:
        """Tell whether any of ``paths`` is a file from which these measurements were taken, or a copy of such a
        file.
        """
        known = set[object]().union(*(one.marks for one in self.versions if one))
        return any(not one.marks.isdisjoint(known) for one in map(version_of, paths) if one)


def measure_set(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions,
    kept: MeasuredSet | None = None,
) -> MeasuredSet:
    """Read a binlog set and return its measurements, the counts of traffic from which the bytes that any slave receives
    can be computed.

    Parameters:
        source: the set's index file, a directory with an index file, or a list of binlog files.
        slaves: the slaves for whose filters the measurements must be valid. They are valid for all other filters, too,
            unless the result's ``measured.tallied.given_only`` is True.
        run: executes the tasks, in threads or on Spark.
        kept: the measurements of an earlier run. They are returned if they are of the same files and options, and valid
            for the filters.

    Raises BinlogError with file and position for a damaged binlog, unless ``options.on_corrupt`` is ``skip``. Raises
    OptionError for a bad rule of a slave.
    """
    # The versions are taken before the files are read. A file that somebody changes meanwhile is measured again.
    parts = parts_of(source)
    versions = tuple(version_of(one.path) for one in parts)
    filters_of = functools.cache(lambda names: tuple(ask(slaves, names)[1]))
    is_same = kept is not None and (kept.versions, kept.options) == (versions, options.key)
    if kept is not None and is_same and None not in versions:
        digest = _digest(filters_of(kept.indexed.newest.names))
        if not kept.measured.tallied.given_only or kept.filters == digest:
            return kept
    measured_at = int(time.time())

    def task_of(indexed: IndexedSet) -> MeasureRanges:
        return MeasureRanges(
            options=options,
            filters=filters_of(indexed.newest.names),
            bucket_seconds=options.bucket_seconds or default_bucket_seconds(indexed),
            unknown_xa_schemas=schemas_among(indexed.subjects),
            nbytes=indexed.nbytes,
        )

    indexed, measurements = read_set(parts, run, options, task_of, "measuring")
    files = tuple(replace(one, bounds=()) for one in indexed.files)
    measured = merged(measurements)
    # A guessed time may be wrong, and then the buckets are too long.
    seconds = max(options.bucket_seconds or default_bucket_seconds(indexed), measured.tallied.bucket_seconds)
    return MeasuredSet(
        versions,
        IndexedSet(files, (), indexed.unknown_xa),
        replace(measured, tallied=measured.tallied.in_buckets(seconds)),
        options.key,
        _digest(filters_of(indexed.newest.names)),
        measured_at,
    )


def _digest(filters: Sequence[ReplicationFilter]) -> str:
    text = repr([(type(one).__name__, one.rules, one.names) for one in filters])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def default_bucket_seconds(indexed: IndexedSet) -> int:
    """Return the length of time buckets, seconds, if the user gives none: the shortest length in :data:`PERIODS` that
    does not give too many buckets for the set's time span.
    """
    seconds = active_seconds(indexed.times)
    for length in PERIODS:
        if seconds <= length * (_SHORT_BUCKETS if length < 60 else _MOST_BUCKETS):
            return length
    return PERIODS[-1]
