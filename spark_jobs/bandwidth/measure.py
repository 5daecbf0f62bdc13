"""The tasks of the bandwidth job. Each measures a part of the binlogs, for all slaves in one pass."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import zstandard

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import DumpThread, render
from dumpfilter.dump.tallied import SubjectFlags, Tallied, side_by_side
from dumpfilter.dump.tally import Tally
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile, open_file
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Block, Range, blocks_of
from dumpfilter.spark_jobs.split.assign import RUN_SIZE, Assigner, Share, share_as_chunk
from dumpfilter.spark_jobs.split.ownership import Owners, SchemaOwners

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]

LEVEL = 3
"""The compression level of zstd, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The number of bytes compressed together in a sample. It equals the size of a chunk, which the dump compresses."""
_SAMPLES = 1 << 20
"""The most bytes of one range (a part of a binlog file) to compress as samples, because compression is slow."""
_WHOLE = ""
"""The dictionary key of samples of the whole binlog stream. Other keys are names of schemas."""
MOST_UNITS = 4_000_000
"""The most units (entries of the tally) of all tasks together that the driver holds. A unit takes 72 bytes."""
_TIMED = 2
"""The number of slaves whose dump is timed in one range. Timing all slaves would take too long."""
_TIMED_RANGES = 8
"""The first ranges time the dumps of all slaves. Of the later ranges one in so many times the dumps of some."""

_FIRST_SCAN = 1 << 16
"""The bytes of a thread's first scan, which is not measured."""


@dataclass
class Timing:
    """Measured CPU seconds on one core, with the numbers of events and bytes that were processed in this time."""

    scan_seconds: float = 0.0
    scan_bytes: int = 0
    decide_seconds: float = 0.0
    decide_events: int = 0
    plain_seconds: float = 0.0
    """Seconds that the dump thread needs to decide events without a filter."""
    plain_events: int = 0
    render_seconds: float = 0.0
    render_bytes: int = 0

    def add(self, other: Timing) -> None:
        """Add the CPU times and the numbers of events and bytes of another measurement."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class _Samples:
    """The measurements of a task but for its tally."""

    schema_bytes: dict[str, int] = field(default_factory=dict)
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)


@dataclass
class Measured:
    """The measurements of a part of the binlogs: counted traffic, compressed samples, and CPU times."""

    tallied: Tallied
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes of events that a split by schema would write for each schema, by the schema's encoded name."""
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each schema (by encoded name), the bytes of its samples before and after compression. The empty name stands
    for the unsplit stream."""
    timing: Timing = field(default_factory=Timing)

    def ratio(self, schema: str = _WHOLE) -> float:
        """Return the compressed size divided by the original size, as measured in samples of a schema's events.

        If the schema has no samples, return the ratio of the unsplit stream.
        """
        raw, compressed = self.samples.get(schema) or self.samples.get(_WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0


def merged(parts: Sequence[Measured]) -> Measured:
    """Add up the measurements of all parts of the binlogs."""
    found = Measured(side_by_side([part.tallied for part in parts]))
    for part in parts:
        for name, nbytes in part.schema_bytes.items():
            found.schema_bytes[name] = found.schema_bytes.get(name, 0) + nbytes
        for name, (raw, compressed) in part.samples.items():
            before = found.samples.get(name, (0, 0))
            found.samples[name] = (before[0] + raw, before[1] + compressed)
        found.timing.add(part.timing)
    return found


@dataclass(frozen=True)
class MeasureRanges:
    """A picklable task that measures some ranges (parts of binlog files) for all filters.

    ``filters`` begins with the slaves' own filters, whose number is ``slaves``. Filters without a single rule follow.
    """

    job: str
    files: tuple[FileIndex, ...]
    filters: tuple[GivenFilter, ...]
    slaves: int
    bucket_seconds: int
    unknown_xa_schemas: tuple[str, ...] = ()
    nbytes: int = 0
    """The number of bytes of all ranges, of which each task reads a part."""
    most_units: int = MOST_UNITS
    """The number of units (entries of the tally) of all tasks together above which a task adds up counts that all
    filters treat alike. A task has the share of its bytes.

    The results that travel to the driver stay small. But they hold for these filters only, and every thread must ask
    every filter."""
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, ranges: Iterable[Range]) -> dict[int, Measured]:
        """Read the ranges, and return the measurements of each file by its number. Raises BinlogError with file and
        position."""
        state = _thread_state(self)
        state.tally.take()
        ranges = tuple(ranges)
        nbytes = sum(one.end - one.start for one in ranges)
        by_file: dict[int, Measured] = {}
        for number, some in itertools.groupby(ranges, lambda one: one.file):
            samples = _Samples()
            with open_file(self.files[number].path) as file:
                for wanted in some:
                    self._measure(file, wanted, state, samples)
            by_file[number] = Measured(
                state.tally.take(), samples.schema_bytes, samples.samples, samples.timing
            )
        units = sum(len(found.tallied.condition) for found in by_file.values())
        if units * max(self.nbytes, nbytes) > self.most_units * nbytes:
            for found in by_file.values():
                found.tallied = found.tallied.folded(state.flags_of(found.tallied))
        return by_file

    def nothing(self) -> Measured:
        """Return the measurements of a file without transactions."""
        return Measured(
            Tally(Subjects(), SourceNumbers(), filters=(), bucket_seconds=self.bucket_seconds).take()
        )

    def _measure(self, file: BinlogFile, wanted: Range, state: _ThreadState, found: _Samples) -> None:
        blocks = blocks_of(
            file, wanted, state.subjects, state.sources, verify=self.verify, block_size=self.block_size
        )
        if not _kept.has_scanned:
            # A thread's first scan may compile or load code, which a master does before it listens.
            unmeasured = Subjects(), SourceNumbers()
            next(blocks_of(file, wanted, *unmeasured, verify=self.verify, block_size=_FIRST_SCAN), None)
            _kept.has_scanned = True
        assigner = Assigner(state.owners)
        first = True
        while True:
            begin = time.thread_time()
            block = next(blocks, None)
            if block is None:
                return
            found.timing.scan_seconds += time.thread_time() - begin
            found.timing.scan_bytes += block.segment.end - block.segment.start
            state.tally.add(block.segment, file.read)
            shares = assigner.assign(block.segment, file.read)
            for share in shares:
                name = state.owners.names[share.output]
                found.schema_bytes[name] = found.schema_bytes.get(name, 0) + share.size
            if first:
                first = False
                _compress(file, block, shares, state.owners, wanted.number, found)
                if wanted.number < state.slaves or wanted.number % _TIMED_RANGES == 0:
                    _time(file, block, state, wanted.number, found.timing)


@dataclass(frozen=True)
class _ThreadState:
    """Objects that all tasks of one thread share, so that a filter is asked only once about each table."""

    job: str
    subjects: Subjects
    sources: SourceNumbers
    tally: Tally
    given: tuple[tuple[TableFlags, OriginFilter | None], ...]
    """The verdicts of every filter about tables, and the origins that its slave wants. The slaves' filters come
    first."""
    slaves: int
    without_rules: TableFlags
    owners: Owners
    numbers: dict[Subject, int] = field(default_factory=dict)

    def flags_of(self, tallied: Tallied) -> list[SubjectFlags | None]:
        """Return the verdicts of every filter about the tally's tables and statements, as bits."""
        for number in range(len(self.subjects)):
            if self.subjects.members(number) is None:
                self.numbers.setdefault(self.subjects[number], number)
        places = np.array([self.numbers[subject] for subject in tallied.subjects], np.int64)
        return [flags.array()[places] if flags.is_on else None for flags, _ in self.given]


class _Kept(threading.local):
    state: _ThreadState | None = None
    has_scanned: bool = False
    """Whether the thread has scanned events before."""
    has_dumped: bool = False
    """Whether the thread has measured a dump before."""


_kept = _Kept()


def _thread_state(job: MeasureRanges) -> _ThreadState:
    state = _kept.state
    if state is None or state.job != job.job:
        subjects, sources = Subjects(), SourceNumbers()
        given = [(TableFlags(one, subjects), origin) for one, origin in job.filters]
        none = Filter((), names=NameRules("mysql", lower_case_table_names=0))
        state = _kept.state = _ThreadState(
            job.job,
            subjects,
            sources,
            Tally(subjects, sources, filters=given, bucket_seconds=job.bucket_seconds, any_origin=True),
            tuple(given),
            job.slaves,
            TableFlags(none, subjects),
            SchemaOwners(subjects, job.unknown_xa_schemas),
        )
    return state


def _compress(
    file: BinlogFile, block: Block, shares: Sequence[Share], owners: Owners, turn: int, found: _Samples
) -> None:
    """Compress samples of a block of events, for each schema separately, to estimate compression ratios.

    A schema's samples are taken from the events that a split by schema would write for this schema. Each range begins
    with another schema, so that every schema has samples.
    """
    compressor = zstandard.ZstdCompressor(level=LEVEL)

    def sample(name: str, data: bytes) -> None:
        if data:
            raw, compressed = found.samples.get(name, (0, 0))
            found.samples[name] = (raw + len(data), compressed + len(compressor.compress(data)))

    sample(_WHOLE, block.data[: min(CHUNK, block.segment.end - block.segment.start)].tobytes())
    left = _SAMPLES
    # The numbers of the outputs depend on what this thread has read before, but the samples must not.
    shares = sorted(shares, key=lambda share: owners.names[share.output])
    start = turn % max(len(shares), 1)
    for share in [*shares[start:], *shares[:start]]:
        if left <= 0:
            return
        data = _beginning(share, block, file)
        sample(owners.names[share.output], data)
        left -= len(data)


def _beginning(share: Share, block: Block, file: BinlogFile) -> bytes:
    sizes: npt.NDArray[np.int64] = np.cumsum(share.runs[:, RUN_SIZE])
    n = int(np.searchsorted(sizes, CHUNK)) + 1
    part = Share(share.output, share.runs[:n], 0, share.transactions, share.ends, share.replaced)
    fd = block.segment.format_description
    data = render(share_as_chunk(file.name, part), block.data, block.segment.start, file.read, fd)
    return data[: 2 * CHUNK]


def _time(file: BinlogFile, block: Block, state: _ThreadState, turn: int, timing: Timing) -> None:
    """Measure the CPU time to dump a block of events without a filter, and with the filters of a few slaves.

    Each range takes other slaves, so that all slaves have measurements in the end.
    """

    def dump(flags: TableFlags, origin: OriginFilter | None) -> tuple[float, float, int]:
        # A thread's first dumps may compile or load code, which a master does before it listens.
        if not _kept.has_dumped:
            dump_once(flags, origin)
        return dump_once(flags, origin)

    def dump_once(flags: TableFlags, origin: OriginFilter | None) -> tuple[float, float, int]:
        thread = DumpThread(flags, state.sources, origin=origin)
        thread.start_file(block.segment.start, file.read)
        begin = time.thread_time()
        plans = thread.plan(block.segment)
        decided = time.thread_time()
        sent = 0
        for plan in plans:
            fd = block.segment.format_description
            sent += len(render(plan, block.data, block.segment.start, file.read, fd))
        return decided - begin, time.thread_time() - decided, sent

    seconds, rendering, sent = dump(state.without_rules, None)
    timing.plain_seconds += seconds
    timing.plain_events += len(block.segment.offset)
    timing.render_seconds += rendering
    timing.render_bytes += sent
    n = state.slaves
    for k in range(min(_TIMED, n)):
        flags, origin = state.given[(turn * _TIMED + k) % n]
        # A filter is asked once about each table and not in each segment, so the time for it is not measured here.
        flags.array()
        seconds, rendering, sent = dump(flags, origin)
        timing.decide_seconds += seconds
        timing.decide_events += len(block.segment.offset)
        timing.render_seconds += rendering
        timing.render_bytes += sent
    _kept.has_dumped = True
