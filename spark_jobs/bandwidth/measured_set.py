"""The measurements of a binlog set, file by file, from which the traffic of any slave can be computed.

A later run reuses the measurements of unchanged files, and reads only the others. Tasks measure parts of the binlogs
for all slaves in one pass. A file is recognized by its version: size, modification time, and a digest of its first
and last bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from dumpfilter.analyse.report.audience import Audience
from dumpfilter.analyse.report.periods import PERIODS
from dumpfilter.analyse.traffic.facts import DECIDING, Facts, SubjectFlags, flags_of, side_by_side
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.analyse.traffic.transactions import GivenFilter
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs.engines.runner import Amount, Runner, cores_of
from dumpfilter.spark_jobs.ranges.range_index import (
    FileIndex,
    IndexedSet,
    ReadOptions,
    ReadRanges,
    index_paths,
    state_of_thread,
)
from dumpfilter.spark_jobs.ranges.ranges import Block, Range, amount_of, grouped
from dumpfilter.spark_jobs.samples import CHUNK, WHOLE, Samples, compressed_size
from dumpfilter.spark_jobs.split.assign import Assigner
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, Owners, schemas_among
from dumpfilter.topology.slaves_file import SlaveDefinition

PROBE = 16 << 10
"""The number of bytes at each end of a file that go into its digest. The beginning contains the file's creation
time, and the end its last transactions.
"""


@dataclass(frozen=True)
class FileVersion:
    """The path, size, modification time and digest of a file, which change when the file is written. Equal versions
    mean equal content.
    """

    path: str
    size: int
    modified: int
    """The time of the last modification, nanoseconds since 1970; 0 if the file system does not record it."""
    digest: str
    """A digest of the file's first and last bytes."""


def versions_of(paths: Sequence[str]) -> tuple[FileVersion | None, ...]:
    """Return the version of each of ``paths`` (paths or URIs), by which a later run recognizes unchanged files.

    The version of a file that cannot be opened is None.
    """
    return tuple(map(_version, paths))


def _version(path: str) -> FileVersion | None:
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


_PAYLOAD_OVERHEAD = 100
"""The approximate size of a compressed transaction's Gtid event and of its Transaction_payload event's header, bytes.
"""
ALONE = "/"
"""The key of samples in which each transaction is compressed separately. No schema has this key, because schema
names are encoded as file names.
"""
MOST_UNITS = 4_000_000
"""The maximum number of units (rows of the tally) from all tasks that the driver holds. A unit takes 72 bytes."""


@dataclass(frozen=True)
class Asked:
    """A slave of the slaves file, with the index of its filter, and for each rule the index of the filter without this
    rule.

    The difference between these filters shows how many bytes each rule saves. The indexes refer to the list of all
    measured filters.
    """

    definition: SlaveDefinition
    number: int
    """The index of the slave's filter in the list of all measured filters."""
    without: tuple[int, ...]
    """For each rule of the slave, the index of the filter that has all rules but this one."""


def ask(
    definitions: Sequence[SlaveDefinition],
    names: NameRules,
) -> tuple[list[Asked], list[GivenFilter]]:
    """Return the slaves with the indexes of their filters, and the list of all filters to measure, with their filters
    of server ids.

    The list begins with the slaves' filters, in the slaves' order. For each rule, a filter without this rule is added,
    to show how many bytes the rule saves. ``names`` has the server's settings for comparing schema and table names.
    """
    filters: list[GivenFilter] = [(one.filter(names), one.origin) for one in definitions]
    asked = []
    known: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(definitions):
        without = []
        for k in range(len(one.rules)):
            rules = tuple(rule for j, rule in enumerate(one.rules) if j != k)
            key = (rules, one.semantics, one.lower_case_table_names, one.origin)
            if key not in known:
                known[key] = len(filters)
                filters.append((one.filter(names, without=k), one.origin))
            without.append(known[key])
        asked.append(Asked(one, number, tuple(without)))
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
        """Return the compressed size divided by the original size, as measured in samples of a schema's events.

        If the schema has no samples, return the ratio of the whole binlog stream. Without any sample return 1.0.
        """
        sizes = self.samples.sizes
        raw, compressed = sizes.get(schema) or sizes.get(WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0

    @property
    def transaction_factor(self) -> float:
        """The ratio of two compressed sizes of the same transactions: each compressed separately, and compressed
        together in chunks of 256 KiB. The value is at least 1, or 1 without samples.
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


@dataclass(frozen=True)
class BandwidthOptions(ReadOptions):
    """The options of a bandwidth job.

    ``bucket_seconds`` is the length of the time buckets in which traffic is counted. None: a minute, but less for short
    binlogs, and more for long ones.
    """

    bucket_seconds: int | None = None
    price_per_gb: float | None = None
    """The price of a gigabyte (10^9 bytes) of traffic. None: no prices are computed."""
    audience: Audience | None = None
    """The readers for whom the report is. None: real replicas, if the binlogs can be filtered for them."""
    most_units: int = MOST_UNITS
    """The number of units (rows of the tally) above which tasks merge counts that all filters treat alike.

    This keeps the results that are sent to the driver small, but every process must then evaluate every filter. Such
    measurements are valid only for filters with equal verdicts.
    """

    @property
    def key(self) -> tuple[object, ...]:
        """The values of the options that change measurements, except for the length of time buckets. Measurements of an
        earlier run can be reused only if its key is equal.
        """
        return self.on_corrupt, self.verify, self.range_size, self.block_size


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A picklable task that measures some ranges (parts of binlog files) for all filters. Calling it with ranges
    returns the measurements of each file.
    """

    options: BandwidthOptions = BandwidthOptions()
    job: str
    filters: tuple[GivenFilter, ...]
    bucket_seconds: int
    unknown_xa_schemas: tuple[str, ...] = ()
    nbytes: int = 0
    """The total bytes of all ranges. A task may use a share of ``options.most_units`` that is proportional to the
    bytes of its own ranges.
    """

    def __call__(self, ranges: Iterable[Range]) -> dict[int, Measured]:
        """Read the ranges, and return the measurements of each file, by the file's index. Raises BinlogError with
        file and position.
        """
        state = state_of_thread(self.job, self._state)
        state.tally.take()
        ranges = tuple(ranges)
        nbytes = sum(one.end - one.start for one in ranges)
        by_file: dict[int, Measured] = {}
        for (number, path), some in itertools.groupby(ranges, lambda one: (one.file, one.path)):
            samples, schema_bytes = Samples(), Counter[str]()
            with open_file(path) as file:
                for wanted in some:
                    assigner = Assigner(state.owners)
                    for k, block in enumerate(self.blocks(file, wanted, state.subjects, state.sources)):
                        state.tally.add(block.segment, file.read)
                        for share in assigner.assign(block.segment, file.read):
                            schema_bytes[state.owners.names[share.output]] += share.size
                        if not k:
                            _compress(block, state.subjects, wanted.number, samples)
            # The driver adds up equal units, of which the part of a file has few.
            tallied = state.tally.take(add_up=False)
            by_file[number] = Measured(tallied, dict(schema_bytes), samples)
        units = sum(len(found.tallied.condition) for found in by_file.values())
        if units * max(self.nbytes, nbytes) > self.options.most_units * nbytes:
            for found in by_file.values():
                found.tallied = found.tallied.folded(state.flags_of(found.tallied))
        return by_file

    def nothing(self) -> Measured:
        """Return empty measurements, for a file without transactions."""
        return Measured(
            Tally(Subjects(), SourceNumbers(), filters=(), bucket_seconds=self.bucket_seconds).take()
        )

    def _state(self) -> _ThreadState:
        subjects, sources = Subjects(), SourceNumbers()
        given = tuple((TableFlags(one, subjects), origin) for one, origin in self.filters)
        tally = Tally(subjects, sources, filters=given, bucket_seconds=self.bucket_seconds, any_origin=True)
        owners = BY_SCHEMA.owners(subjects, DEFAULT_NAMES, self.unknown_xa_schemas)
        return _ThreadState(subjects, sources, tally, given, owners)


@dataclass(frozen=True)
class _ThreadState:
    """The objects that all tasks of one thread share, so that each filter is evaluated only once per table."""

    subjects: Subjects
    sources: SourceNumbers
    tally: Tally
    given: tuple[tuple[TableFlags, OriginFilter | None], ...]
    """For each filter its verdicts, and the filter of server ids and domain ids (None: none). The slaves' filters
    come first.
    """
    owners: Owners
    numbers: dict[Subject, int] = field(default_factory=dict)

    def flags_of(self, tallied: Facts) -> list[SubjectFlags | None]:
        """Return for each filter its verdicts about the subjects of ``tallied``, as bits. None: a filter without
        rules.
        """
        for number in range(len(self.subjects)):
            if self.subjects.members(number) is None:
                self.numbers.setdefault(self.subjects[number], number)
        places = np.array([self.numbers[subject] for subject in tallied.subjects], np.int64)
        return [flags.array()[places] if flags.is_on else None for flags, _ in self.given]


def _compress(block: Block, subjects: Subjects, turn: int, samples: Samples) -> None:
    """Compress samples of a block, and add their sizes to ``samples``.

    Some transactions are also compressed one by one. ``turn`` is a number that determines with which schema to begin.
    """
    samples.take_of_block(block, subjects, turn)
    segment = block.segment
    length = min(CHUNK, segment.end - segment.start)
    ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end) - segment.start
    begin = 0
    for end in ends[ends <= length].tolist() or [length]:
        one = block.data[begin:end].tobytes()
        samples.count(ALONE, len(one), min(len(one), compressed_size(one) + _PAYLOAD_OVERHEAD))
        begin = end


_MOST_BUCKETS = 3000
"""The maximum number of time buckets of a minute or longer. Longer binlogs get longer buckets, unless the user sets
their length.
"""

_SHORT_BUCKETS = 60
"""The maximum number of time buckets shorter than a minute. In binlogs that span less than a quarter of an hour,
buckets of a minute would hide peaks.
"""

_SLICES = 16
"""The maximum number of Spark tasks that evaluate filters. Starting a task takes time."""


@dataclass(frozen=True)
class MeasuredFile:
    """The measurements of one binlog file: its version, the result of the index pass, and the counted traffic."""

    version: FileVersion | None
    """The version of the file that was measured. None for a file that could not be opened."""
    index: FileIndex
    measured: Measured


@dataclass(frozen=True)
class MeasuredSet:
    """The measurements of a binlog set, from which the traffic of any slave can be computed without reading the
    binlogs.
    """

    files: tuple[MeasuredFile, ...]
    options: tuple[object, ...]
    """The options of the measuring run (:attr:`BandwidthOptions.key`)."""
    unknown_xa: int
    """The number of XA transactions that end in the set but were prepared before it."""
    verdicts: tuple[str | None, ...]
    """For each measured filter, a digest of its verdicts about all tables and statements; None for a filter without
    rules.

    Empty if the measurements are valid for any filter.
    """
    measured_at: int
    """The time of the measurement, Unix seconds."""
    reused: int = 0
    """The number of files whose measurements were reused from an earlier run."""

    def is_of(self, versions: Sequence[FileVersion | None]) -> bool:
        """Tell whether these measurements are of the given files, perhaps of an earlier state or under another path.

        ``versions`` has the present path, size and digest of each file (None: the file cannot be opened). A single file
        with equal path, or with equal name and content, is enough.
        """
        known = {found for one in self.files for found in _marks(one.version)}
        return any(found in known for version in versions for found in _marks(version))

    def has_files_of(self, other: MeasuredSet) -> bool:
        """Tell whether ``other`` has measurements of the same unchanged files, made with equal options."""
        versions = [[one.version for one in each.files] for each in (self, other)]
        return versions[0] == versions[1] and self.options == other.options

    @property
    def indexed(self) -> IndexedSet:
        """The result of the index pass over all files, without the ranges into which they were divided."""
        return IndexedSet(tuple(one.index for one in self.files), (), self.unknown_xa)

    @cached_property
    def measured(self) -> Measured:
        """The merged measurements of all files."""
        return merged([one.measured for one in self.files])

    @property
    def tallied(self) -> Facts:
        """The counts of bytes, events and transactions in all files, by the condition under which filters send them."""
        return self.measured.tallied

    def numbers_of(self, flags: Sequence[SubjectFlags | None]) -> list[int] | None:
        """Return for each filter the index of a measured filter with equal verdicts, or None if the measurements are
        not valid for all of the filters.

        ``flags`` has for each filter its verdicts about all tables and statements of :attr:`tallied`. If
        ``tallied.given_only`` is False, the measurements are valid for every filter, and the result is only 0, 1, 2 and
        so on.
        """
        if not self.tallied.given_only:
            return list(range(len(flags)))
        # A filter without rules needs no number, because it is sent everything.
        known = {verdicts: number for number, verdicts in enumerate(self.verdicts)} | {None: 0}
        numbers = [known.get(_digest(one)) for one in flags]
        found = [number for number in numbers if number is not None]
        return found if len(found) == len(numbers) else None

    def with_buckets(self, bucket_seconds: int) -> MeasuredSet | None:
        """Return the measurements merged into time buckets of ``bucket_seconds``.

        Return None if ``bucket_seconds`` is not a multiple of the measured bucket length.
        """
        if any(bucket_seconds % one.measured.tallied.bucket_seconds for one in self.files):
            return None
        return replace(
            self,
            files=tuple(
                replace(
                    one,
                    measured=replace(one.measured, tallied=one.measured.tallied.in_buckets(bucket_seconds)),
                )
                for one in self.files
            ),
        )


def ask_filters(
    filters: Sequence[GivenFilter], subjects: tuple[Subject, ...], run: Runner
) -> list[SubjectFlags | None]:
    """Evaluate each filter for each table and statement in ``subjects``.

    Return for each filter its verdicts as bits, one uint32 for each of ``subjects``, or None for a filter without
    rules. ``run`` executes the tasks, because with many slaves this step takes long.
    """
    ask, amount = partial(flags_of, subjects=subjects), Amount("filters", slices=min(len(filters), _SLICES))
    return run(ask, [one for one, _ in filters], "asking filters", amount=amount)


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

    Raises BinlogError with file and position for a damaged binlog.
    """
    # The versions are taken before the files are read. A file that somebody changes meanwhile is measured again.
    paths = BinlogSet.open(source).addresses
    versions = versions_of(paths)
    indexed, known = None, {}
    if kept is not None and kept.options == options.key:
        known = _known(kept, versions)
        again = replace(kept, files=tuple(known.values()), reused=len(known))
        if len(known) == len(versions) == len(kept.files):
            same = again.with_buckets(options.bucket_seconds or default_bucket_seconds(kept.indexed))
            if same is not None:
                return same
        if known and not kept.tallied.given_only and not kept.indexed.has_xa:
            indexed = index_paths(paths, run, options, {number: one.index for number, one in known.items()})
            found = again.with_buckets(options.bucket_seconds or default_bucket_seconds(indexed))
            if found is None or indexed.has_xa:
                indexed = None
            else:
                known = dict(zip(known, found.files, strict=True))
    if indexed is None:
        indexed, known = index_paths(paths, run, options), {}
    measured_at = int(time.time())
    _, filters = ask(slaves, indexed.names)
    groups = grouped(indexed.ranges, options.range_size, cores_of(run)) if indexed.ranges else []
    measure = MeasureRanges(
        options=options,
        job=uuid.uuid4().hex,
        filters=tuple(filters),
        bucket_seconds=options.bucket_seconds or default_bucket_seconds(indexed),
        unknown_xa_schemas=schemas_among(indexed.subjects),
        nbytes=indexed.nbytes,
    )
    parts: dict[int, list[Measured]] = {}
    for of_group in run(measure, groups, "measuring", amount=amount_of(indexed.ranges)):
        for number, part in of_group.items():
            parts.setdefault(number, []).append(part)
    files = tuple(
        known[number]
        if number in known
        else MeasuredFile(
            version, replace(index, bounds=()), merged(parts.get(number) or [measure.nothing()])
        )
        for number, (index, version) in enumerate(zip(indexed.files, versions, strict=True))
    )
    made = MeasuredSet(files, options.key, indexed.unknown_xa, (), measured_at, len(known))
    if not made.tallied.given_only:
        return made
    return replace(made, verdicts=tuple(map(_digest, ask_filters(filters, made.tallied.subjects, run))))


def _known(kept: MeasuredSet, versions: Sequence[FileVersion | None]) -> dict[int, MeasuredFile]:
    """Return the measurements of an earlier run whose file versions are in ``versions``, by the index there."""
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
    """Return the length of time buckets, seconds, if the user gives none. It is the shortest length in :data:`PERIODS`
    that does not give too many buckets for the set's time span.
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


def _digest(verdicts: SubjectFlags | None) -> str | None:
    if verdicts is None:
        return None
    return hashlib.blake2b((verdicts & DECIDING).tobytes(), digest_size=16).hexdigest()
