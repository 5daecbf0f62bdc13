"""The tasks of the bandwidth job: what ranges hold for whom, found in one pass for all slaves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import zstandard

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import DumpThread, render
from dumpfilter.dump.tallied import SubjectFlags, Tallied, merge
from dumpfilter.dump.tally import Tally
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Block, Range, blocks_of
from dumpfilter.spark_jobs.split.assign import RUN_SIZE, Share, Sharer, share_plan
from dumpfilter.spark_jobs.split.ownership import Owners, SchemaOwners

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]

LEVEL = 3
"""Of zstd: MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""Bytes that are compressed together: the dump's chunks."""
_SAMPLES = 1 << 20
"""Bytes of a range that are compressed to see how well that goes."""
_WHOLE = ""
"""The name of the whole stream among samples."""
_TIMED = 2
"""Slaves whose dump is timed in each range."""


@dataclass
class Timing:
    """CPU seconds (one core's), and what they were for."""

    scan_seconds: float = 0.0
    scan_bytes: int = 0
    decide_seconds: float = 0.0
    decide_events: int = 0
    plain_seconds: float = 0.0
    """Of deciding without a filter."""
    plain_events: int = 0
    render_seconds: float = 0.0
    render_bytes: int = 0

    def add(self, other: Timing) -> None:
        """Add another's."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Measured:
    """What was found in some ranges."""

    tallied: Tallied
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """What a split by schema has of it: by encoded name, bytes of events."""
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By schema, and :data:`_WHOLE`: bytes that were compressed, and what came out."""
    timing: Timing = field(default_factory=Timing)

    def ratio(self, schema: str = _WHOLE) -> float:
        """What compression leaves of a schema's events; of all of them where there is no sample of it."""
        raw, compressed = self.samples.get(schema) or self.samples.get(_WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0


def merged(parts: Sequence[Measured]) -> Measured:
    """All of them as one."""
    found = Measured(merge([part.tallied for part in parts]))
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
    """Measures some ranges, the filters those of all slaves (of which ``slaves`` are the first) and of what is asked
    besides."""

    job: str
    files: tuple[FileIndex, ...]
    filters: tuple[GivenFilter, ...]
    slaves: int
    bucket_seconds: int
    everywhere: tuple[str, ...] = ()
    fold: bool = False
    """Give back no more than these filters tell apart. For long binlogs: every process then asks about every table."""
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, ranges: Iterable[Range]) -> Measured:
        """Raises BinlogError with file and position."""
        known = _known(self)
        found = Measured(known.tally.take())
        for wanted in ranges:
            with open_file(self.files[wanted.file].path) as file:
                self._measure(file, wanted, known, found)
        found.tallied = known.tally.take()
        if self.fold:
            found.tallied = found.tallied.folded(known.flags_of(found.tallied))
        return found

    def _measure(self, file: BinlogFile, wanted: Range, known: _Known, found: Measured) -> None:
        blocks = blocks_of(
            file, wanted, known.subjects, known.sources, verify=self.verify, block_size=self.block_size
        )
        sharer = Sharer(known.owners)
        first = True
        while True:
            begin = time.thread_time()
            block = next(blocks, None)
            if block is None:
                return
            found.timing.scan_seconds += time.thread_time() - begin
            found.timing.scan_bytes += block.segment.end - block.segment.start
            known.tally.add(block.segment, file.read)
            shares = sharer.share(block.segment, file.read)
            for share in shares:
                name = known.owners.names[share.output]
                found.schema_bytes[name] = found.schema_bytes.get(name, 0) + share.size
            if first:
                first = False
                _compress(file, block, shares, known.owners, wanted.number, found)
                _time(file, block, known, wanted.number, found.timing)


@dataclass(frozen=True)
class _Known:
    """What one range has told of the next, of this process."""

    job: str
    subjects: Subjects
    sources: SourceNumbers
    tally: Tally
    given: tuple[tuple[TableFlags, OriginFilter | None], ...]
    """Of all filters, those of the slaves first."""
    slaves: int
    without_rules: TableFlags
    owners: Owners
    numbers: dict[Subject, int] = field(default_factory=dict)

    def flags_of(self, tallied: Tallied) -> list[SubjectFlags | None]:
        """All filters' flags of a tally's subjects, of which each is asked about once in this process."""
        for number in range(len(self.subjects)):
            if self.subjects.members(number) is None:
                self.numbers.setdefault(self.subjects[number], number)
        places = np.array([self.numbers[subject] for subject in tallied.subjects], np.int64)
        return [flags.array()[places] if flags.is_on else None for flags, _ in self.given]


_kept: list[_Known] = []


def _known(job: MeasureRanges) -> _Known:
    if not _kept or _kept[0].job != job.job:
        subjects, sources = Subjects(), SourceNumbers()
        given = [(TableFlags(one, subjects), origin) for one, origin in job.filters]
        none = Filter((), names=NameRules("mysql", lower_case_table_names=0))
        _kept[:] = [
            _Known(
                job.job,
                subjects,
                sources,
                Tally(subjects, sources, filters=given, bucket_seconds=job.bucket_seconds),
                tuple(given),
                job.slaves,
                TableFlags(none, subjects),
                SchemaOwners(subjects, job.everywhere),
            )
        ]
    return _kept[0]


def _compress(
    file: BinlogFile, block: Block, shares: Sequence[Share], owners: Owners, turn: int, found: Measured
) -> None:
    """Compress samples of what schemas have of a block, another one first in each range."""
    compressor = zstandard.ZstdCompressor(level=LEVEL)

    def sample(name: str, data: bytes) -> None:
        if data:
            raw, compressed = found.samples.get(name, (0, 0))
            found.samples[name] = (raw + len(data), compressed + len(compressor.compress(data)))

    sample(_WHOLE, block.data[: min(CHUNK, block.segment.end - block.segment.start)].tobytes())
    left = _SAMPLES
    start = turn % max(len(shares), 1)
    for share in [*shares[start:], *shares[:start]]:
        if left <= 0:
            return
        data = _beginning(share, block, file)
        sample(owners.names[share.output], data)
        left -= len(data)


def _beginning(share: Share, block: Block, file: BinlogFile) -> bytes:
    """The first bytes of a share, about a chunk of them."""
    sizes: npt.NDArray[np.int64] = np.cumsum(share.runs[:, RUN_SIZE])
    n = int(np.searchsorted(sizes, CHUNK)) + 1
    part = Share(share.output, share.runs[:n], 0, share.transactions, share.ends, share.replaced)
    fd = block.segment.format_description
    data = render(share_plan(file.name, part), block.data, block.segment.start, file.read, fd)
    return data[: 2 * CHUNK]


def _time(file: BinlogFile, block: Block, known: _Known, turn: int, timing: Timing) -> None:
    """Time what a dump does with a block: without a filter, and with those of some slaves, others in each range."""

    def dump(flags: TableFlags, origin: OriginFilter | None) -> tuple[float, float, int]:
        thread = DumpThread(flags, known.sources, origin=origin)
        thread.start_file(block.segment.start, file.read)
        begin = time.thread_time()
        plans = thread.plan(block.segment)
        decided = time.thread_time()
        sent = 0
        for plan in plans:
            fd = block.segment.format_description
            sent += len(render(plan, block.data, block.segment.start, file.read, fd))
        return decided - begin, time.thread_time() - decided, sent

    seconds, rendering, sent = dump(known.without_rules, None)
    timing.plain_seconds += seconds
    timing.plain_events += len(block.segment.offset)
    timing.render_seconds += rendering
    timing.render_bytes += sent
    n = known.slaves
    for k in range(min(_TIMED, n)):
        flags, origin = known.given[(turn * _TIMED + k) % n]
        flags.array()  # asking the filter about each table once is not what each segment costs
        seconds, rendering, sent = dump(flags, origin)
        timing.decide_seconds += seconds
        timing.decide_events += len(block.segment.offset)
        timing.render_seconds += rendering
        timing.render_bytes += sent
