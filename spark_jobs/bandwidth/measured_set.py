"""The measurements of a binlog set, file by file, from which the traffic of any slave can be computed.

A later run reuses the measurements of unchanged files, and reads only the others. Tasks measure parts of the binlogs
for all slaves in one pass. A file is recognized by its version: size, modification time, and a digest of its first
and last bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from dumpfilter.analyse.report.measures import PERIODS
from dumpfilter.analyse.traffic.facts import Facts, side_by_side, sums
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs.bandwidth.samples import ALONE, WHOLE, Samples
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.spark_jobs.ranges import (
    FileIndex,
    IndexedSet,
    Range,
    ReadRanges,
    amount_of,
    grouped,
    index_paths,
    state_of_thread,
)
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, Assigner, Owners, schemas_among, schemas_or_rest
from dumpfilter.topology.slaves_file import SlaveDefinition

PROBE = 16 << 10
"""The number of bytes at each end of a file that go into its digest. The beginning contains the file's creation
time, and the end its last transactions.
"""


@dataclass(frozen=True)
class FileVersion:
    """The data by which a later run recognizes an unchanged file: its path, size, modification time and digest. Files
    with equal versions are taken to have equal content.
    """

    path: str
    size: int
    modified: int
    """The time of the last modification, nanoseconds since 1970; 0 if the file system does not record it."""
    digest: str
    """A digest of the file's first and last bytes."""


def version_of(path: str) -> FileVersion | None:
    """Return the version of the file ``path`` (a path or URI), by which a later run recognizes an unchanged file.
    Return None for a file that cannot be opened or read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_file(path) as file:
            modified, size = file.modified, file.size
            digest.update(file.read_up_to(0, min(PROBE, size)))
            digest.update(file.read_up_to(max(0, size - PROBE), min(PROBE, size)))
    except BinlogError:
        # The job opens the file again, and tells the user what is wrong.
        return None
    return FileVersion(path, size, modified, digest.hexdigest())


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
) -> tuple[list[Asked], dict[str, ReplicationFilter]]:
    """Return two values: the slaves with the indexes of their filters, and all distinct filters to measure, by their
    digests in the order of these indexes.

    The filters are those of the slaves and, for each rule of a slave, the slave's filter without this rule. The filters
    without a rule show how many bytes the rule saves. A later run recognizes a filter by its digest, a hash of the
    filter's rules and of ``names``. ``names`` has the server's settings for comparing schema and table names.
    """
    filters: dict[str, ReplicationFilter] = {}
    numbers: dict[str, int] = {}

    def number_of(one: ReplicationFilter) -> int:
        text = repr((type(one).__name__, one.rules, one.names))
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        filters.setdefault(key, one)
        return numbers.setdefault(key, len(numbers))

    asked = [
        Asked(
            one,
            number_of(one.filter(names)),
            tuple(number_of(one.filter(names, without=k)) for k in range(len(one.rules))),
        )
        for one in definitions
    ]
    return asked, filters


@dataclass
class Measured:
    """The measurements of a part of the binlogs: counts of bytes and events, and the sizes of samples before and after
    compression, for compression ratios.
    """

    tallied: Facts
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes that a split by schema would write for each schema, by the schema's encoded name."""
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
    """Return the sum of the measurements of several parts of the binlogs."""
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
    filter can be computed. Calling an object with ranges returns the measurements of each file.
    """

    options: BandwidthOptions
    filters: tuple[ReplicationFilter, ...]
    bucket_seconds: int
    unknown_xa_schemas: tuple[str, ...] = ()
    nbytes: int = 0
    """The total bytes of the ranges of all tasks. From this number a task computes its limit of rows of counts. The
    limit is the fraction of ``options.most_units`` that its own ranges have of these bytes.
    """

    def __call__(self, ranges: Iterable[Range]) -> dict[int, Measured]:
        """Read the ranges (parts of binlog files), and return the measurements of each file, by the file's index in the
        binlog set.

        If the counts have more rows than this task's limit (see ``nbytes``), counts that all ``filters`` treat alike
        are merged. They are then valid for these filters only. Raises BinlogError with file and position for a damaged
        file.
        """
        subjects, sources, verdicts, tally, owners = state_of_thread(self.job, self._state)
        tally.take()
        ranges = tuple(ranges)
        nbytes = sum(one.end - one.start for one in ranges)
        # From 1 GiB on, 16 to 32 ranges of the set have samples.
        every = max(1, self.nbytes >> 29)
        by_file: dict[int, Measured] = {}
        for (number, path), some in itertools.groupby(ranges, lambda one: (one.file, one.path)):
            samples, schema_bytes = Samples(), Counter[str]()
            parts: list[Facts] = []
            is_plain = True
            with open_file(path) as file:
                for wanted in some:
                    assigner = Assigner(owners)
                    for k, block in enumerate(self.blocks(file, wanted, subjects, sources)):
                        was_plain, is_plain = is_plain, _is_plain(block.segment)
                        if is_plain != was_plain:
                            parts.append(_taken(tally, schema_bytes if was_plain else None))
                        tally.add(block.segment, file.read)
                        is_sampled = not k and not wanted.number % every
                        if is_plain and not is_sampled:
                            continue
                        shares = assigner.assign(block.segment, file.read)
                        if not is_plain:
                            schema_bytes.update({owners.names[one.output]: one.size for one in shares})
                        if is_sampled:
                            streams = {owners.names[one.output]: one.plan.ranges for one in shares}
                            samples.take_of_block(block, streams, wanted.number // every)
            parts.append(_taken(tally, schema_bytes if is_plain else None))
            by_file[number] = Measured(side_by_side(parts), dict(schema_bytes), samples)
        units = sum(len(found.tallied.condition) for found in by_file.values())
        if units * max(self.nbytes, nbytes) > self.options.most_units * nbytes:
            for found in by_file.values():
                places = [subjects.number_of(subject) for subject in found.tallied.subjects]
                found.tallied = found.tallied.folded(
                    [one.array()[places] if one.is_on else None for one in verdicts]
                )
        return by_file

    def nothing(self) -> Measured:
        """Return measurements in which all counts are 0, for a file without transactions."""
        return Measured(
            Tally(Subjects(), SourceNumbers(), filters=(), bucket_seconds=self.bucket_seconds).take()
        )

    def _state(self) -> tuple[Subjects, SourceNumbers, list[TableFlags], Tally, Owners]:
        subjects, sources = Subjects(), SourceNumbers()
        verdicts = [TableFlags(one, subjects) for one in self.filters]
        tally = Tally(subjects, sources, filters=verdicts, bucket_seconds=self.bucket_seconds)
        owners = BY_SCHEMA.owners(subjects, DEFAULT_NAMES, self.unknown_xa_schemas)
        return subjects, sources, verdicts, tally, owners


def _is_plain(segment: Segment) -> bool:
    """Tell whether the tally's counts of a segment (consecutive events of one file) also give the bytes that a split by
    schema writes. The segment then has only whole transactions with rows or statements of known tables.
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
    """Take the counts from ``tally``. Add the bytes that a split by schema writes for each schema to ``schema_bytes``
    (None: they were counted otherwise).

    The events must have been in plain segments (:func:`_is_plain`). The binlog of a schema then receives what passes a
    filter that sends the schema's tables and statements.
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
class MeasuredFile:
    """The measurements of one binlog file: its version (size, time and digest), the data that the index pass found, and
    the counted traffic.

    The index pass is the fast scan that divides a file into ranges, the parts that tasks read.
    """

    version: FileVersion | None
    """The version of the file that was measured. None for a file that could not be opened."""
    index: FileIndex
    measured: Measured


@dataclass(frozen=True)
class MeasuredSet:
    """The measurements of a binlog set, from which the traffic of a slave can be computed without reading the binlogs.

    Usually the measurements are valid for every filter. If ``tallied.given_only`` is True, they are valid only for the
    filters in ``filters``, and for filters without rules. :meth:`numbers_of` checks whether they are valid.
    """

    files: tuple[MeasuredFile, ...]
    options: tuple[object, ...]
    """The options of the measuring run (:attr:`BandwidthOptions.key`)."""
    unknown_xa: int
    """The number of XA transactions that end in the set but were prepared before it."""
    filters: tuple[str, ...]
    """The digests of the measured filters (:func:`ask`)."""
    measured_at: int
    """The time at which the binlogs were measured, Unix seconds."""
    reused: int = 0
    """The number of files whose measurements were reused from an earlier run."""

    def is_of(self, versions: Sequence[FileVersion | None]) -> bool:
        """Tell whether a later job may use these measurements, because they are of the same binlogs. The binlogs may
        since have grown or moved.

        ``versions`` has the present path, size and digest of each file (None: the file cannot be opened). The result is
        True if a single file has an equal path, or an equal name, size and digest.
        """
        known = {found for one in self.files for found in _marks(one.version)}
        return any(found in known for version in versions for found in _marks(version))

    @property
    def indexed(self) -> IndexedSet:
        """The data about all files that an earlier index pass found, such as damage and times. The ranges (parts for
        one task each) into which that pass divided the files are left out.
        """
        return IndexedSet(tuple(one.index for one in self.files), (), self.unknown_xa)

    @cached_property
    def measured(self) -> Measured:
        """The merged measurements of all files."""
        return merged([one.measured for one in self.files])

    @property
    def tallied(self) -> Facts:
        """The counts of bytes, events and transactions in all files. Each count is for one condition under which
        filters send the events, such as "this table is sent".
        """
        return self.measured.tallied

    def numbers_of(self, filters: Mapping[str, ReplicationFilter]) -> list[int] | None:
        """Return for each filter the argument ``number`` with which
        :meth:`~dumpfilter.analyse.traffic.facts.Facts.sent` computes the filter's traffic from these measurements.
        Return None if the measurements are not valid for all of the filters.

        ``filters`` maps the filters' digests to the filters. Usually measurements are valid for every filter, and the
        result is 0, 1, 2 and so on. If :attr:`~dumpfilter.analyse.traffic.facts.Facts.given_only` is set, measurements
        are valid only for filters without rules, and for the filters for which they were made. The result then has for
        each filter its index among the latter, and 0 for a filter without rules that is not among them.
        """
        if not self.tallied.given_only:
            return list(range(len(filters)))
        known = {digest: number for number, digest in enumerate(self.filters)}
        # A filter without rules is sent everything, and needs no number.
        numbers = [known.get(digest, -1 if one.is_on else 0) for digest, one in filters.items()]
        return None if -1 in numbers else numbers


def measure_set(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions,
    kept: MeasuredSet | None = None,
) -> MeasuredSet:
    """Read a binlog set and return its measurements.

    Parameters:
        source: the set's index file, a directory with an index file, or a list of binlog files.
        slaves: the slaves for whose filters the measurements must be valid. They are valid for all other filters, too,
            unless the result's ``tallied.given_only`` is True.
        run: executes the tasks, in threads or on Spark.
        kept: the measurements of an earlier run, so that only new and changed files are read. It is ignored if it was
            made with other options or for other filters, or if XA transactions may span files.

    Raises BinlogError with file and position for a damaged binlog, unless ``options.on_corrupt`` is ``skip``. Raises
    OptionError for a bad rule of a slave.
    """
    # The versions are taken before the files are read. A file that somebody changes meanwhile is measured again.
    paths = BinlogSet.open(source).addresses
    versions = [version_of(path) for path in paths]
    known: dict[int, MeasuredFile] = {}
    is_same = False
    if kept is not None and kept.options == options.key:
        known = _known(kept, versions)
        is_same = len(known) == len(versions) == len(kept.files)
        if not is_same and (kept.tallied.given_only or kept.indexed.has_xa):
            known = {}
    if kept is not None and is_same:
        indexed, digests, measured_at = kept.indexed, kept.filters, kept.measured_at
    else:
        indexed = index_paths(paths, run, options, {number: one.index for number, one in known.items()})
        digests, measured_at = (), int(time.time())
    _, filters = ask(slaves, indexed.newest.names)
    seconds = options.bucket_seconds or default_bucket_seconds(indexed)
    if kept is not None and known:
        lengths = {one.measured.tallied.bucket_seconds for one in known.values()}
        if (
            any(seconds % length for length in lengths)
            or (indexed.has_xa and not is_same)
            or kept.numbers_of(filters) is None
        ):
            return measure_set(source, slaves, run, options)
    measure = MeasureRanges(
        options=options,
        filters=tuple(filters.values()),
        bucket_seconds=seconds,
        unknown_xa_schemas=schemas_among(indexed.subjects),
        nbytes=indexed.nbytes,
    )
    parts: dict[int, list[Measured]] = {}
    if indexed.ranges:
        groups = grouped(indexed.ranges, options.range_size, getattr(run, "cores", 1))
        for of_group in run(measure, groups, "measuring", amount=amount_of(indexed.ranges)):
            for number, part in of_group.items():
                parts.setdefault(number, []).append(part)
    files = []
    for number, (index, version) in enumerate(zip(indexed.files, versions, strict=True)):
        if number in known:
            part = known[number].measured
            # The tables and statements of a purged file are no part of the set.
            facts = part.tallied if is_same else part.tallied.used()
            part = replace(part, tallied=facts.in_buckets(seconds))
        else:
            part = merged(parts.get(number) or [measure.nothing()])
        files.append(MeasuredFile(version, replace(index, bounds=()), part))
    return MeasuredSet(
        tuple(files), options.key, indexed.unknown_xa, digests or tuple(filters), measured_at, len(known)
    )


def _known(kept: MeasuredSet, versions: Sequence[FileVersion | None]) -> dict[int, MeasuredFile]:
    """Return the measurements of an earlier run that can be reused, since their files are unchanged. The keys are
    indexes in ``versions``.

    ``versions`` has the present version (path, size, modification time and digest) of each file of the binlog set.
    None: the file cannot be opened.
    """
    by_version = {one.version: one for one in kept.files if one.version is not None}
    newest = kept.files[-1].version
    found: dict[int, MeasuredFile] = {}
    for number, version in enumerate(versions):
        # An unfinished transaction is allowed at the end of the last file only. If the file is no longer the last one,
        # the index pass must look again.
        if version in by_version and (version != newest or number == len(versions) - 1):
            one = by_version[version]
            found[number] = replace(one, index=replace(one.index, number=number))
    return found


def default_bucket_seconds(indexed: IndexedSet) -> int:
    """Return the length of time buckets, seconds, if the user gives none: the shortest length in :data:`PERIODS` that
    does not give too many buckets for the set's time span.
    """
    seconds = active_seconds(indexed.times)
    for length in PERIODS:
        if seconds <= length * (_SHORT_BUCKETS if length < 60 else _MOST_BUCKETS):
            return length
    return PERIODS[-1]


def _marks(version: FileVersion | None) -> Iterator[tuple[object, ...]]:
    if version is not None:
        yield (version.path,)
        yield file_name(version.path), version.size, version.digest
