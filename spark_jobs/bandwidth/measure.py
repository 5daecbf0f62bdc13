"""The tasks of the bandwidth job. Each measures a part of the binlogs, for all slaves in one pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import zstandard

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import render
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.ranges.ranges import Block, Range
from dumpfilter.spark_jobs.ranges.tasks import ReadRanges, state_of_thread
from dumpfilter.spark_jobs.split.assign import RUN_SIZE, Assigner, Share, share_as_chunk
from dumpfilter.spark_jobs.split.ownership import Owners, SchemaOwners
from dumpfilter.traffic.facts import Facts, SubjectFlags, side_by_side
from dumpfilter.traffic.tally import Tally

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]

LEVEL = 3
"""The compression level of zstd, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The number of bytes compressed together in a sample. It equals the size of a chunk, which the dump compresses."""
_SAMPLES = 1 << 20
"""The most bytes of one range (a part of a binlog file) to compress as samples, because compression is slow."""
_PAYLOAD_OVERHEAD = 100
"""About the bytes of a compressed transaction's Gtid event, and of the head of its Transaction_payload event."""
_WHOLE = ""
"""The dictionary key of samples of the whole binlog stream. Other keys are names of schemas."""
MOST_UNITS = 4_000_000
"""The most units (entries of the tally) of all tasks together that the driver holds. A unit takes 72 bytes."""

Sizes = tuple[int, int]
"""The bytes of samples before and after compression."""


@dataclass
class _Samples:
    """The measurements of a task but for its tally."""

    schema_bytes: dict[str, int] = field(default_factory=dict)
    samples: dict[str, Sizes] = field(default_factory=dict)
    transactions: Sizes = (0, 0)


@dataclass
class Measured:
    """The measurements of a part of the binlogs: counted traffic and compressed samples."""

    tallied: Facts
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes of events that a split by schema would write for each schema, by the schema's encoded name."""
    samples: dict[str, Sizes] = field(default_factory=dict)
    """For each schema (by encoded name), the bytes of its samples before and after compression. The empty name stands
    for the unsplit stream."""
    transactions: Sizes = (0, 0)
    """The bytes of sampled transactions before and after compression, each transaction alone."""

    def ratio(self, schema: str = _WHOLE) -> float:
        """Return the compressed size divided by the original size, as measured in samples of a schema's events.

        If the schema has no samples, return the ratio of the unsplit stream.
        """
        raw, compressed = self.samples.get(schema) or self.samples.get(_WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0

    @property
    def transaction_factor(self) -> float:
        """How many times larger transactions are that are compressed each alone, compared with blocks of a chunk."""
        raw, compressed = self.transactions
        return max(compressed / raw / self.ratio(), 1.0) if raw else 1.0


def merged(parts: Sequence[Measured]) -> Measured:
    """Add up the measurements of all parts of the binlogs."""
    found = Measured(side_by_side([part.tallied for part in parts]))
    for part in parts:
        for name, nbytes in part.schema_bytes.items():
            found.schema_bytes[name] = found.schema_bytes.get(name, 0) + nbytes
        for name, (raw, compressed) in part.samples.items():
            found.samples[name] = _plus(found.samples.get(name, (0, 0)), raw, compressed)
        found.transactions = _plus(found.transactions, *part.transactions)
    return found


def _plus(sizes: Sizes, raw: int, compressed: int) -> Sizes:
    return sizes[0] + raw, sizes[1] + compressed


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A picklable task that measures some ranges (parts of binlog files) for all filters."""

    job: str
    filters: tuple[GivenFilter, ...]
    bucket_seconds: int
    unknown_xa_schemas: tuple[str, ...] = ()
    nbytes: int = 0
    """The number of bytes of all ranges, of which each task reads a part."""
    most_units: int = MOST_UNITS
    """The number of units (entries of the tally) of all tasks together above which a task adds up counts that all
    filters treat alike. A task has the share of its bytes.

    The results that travel to the driver stay small. But they hold for these filters only, and every thread must ask
    every filter."""

    def __call__(self, ranges: Iterable[Range]) -> dict[int, Measured]:
        """Read the ranges, and return the measurements of each file by its number. Raises BinlogError with file and
        position."""
        state = state_of_thread(self.job, self._state)
        state.tally.take()
        ranges = tuple(ranges)
        nbytes = sum(one.end - one.start for one in ranges)
        by_file: dict[int, Measured] = {}
        for number, some in itertools.groupby(ranges, lambda one: one.file):
            samples = _Samples()
            with self.open(number) as file:
                for wanted in some:
                    self._measure(file, wanted, state, samples)
            by_file[number] = Measured(
                state.tally.take(), samples.schema_bytes, samples.samples, samples.transactions
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

    def _state(self) -> _ThreadState:
        subjects, sources = Subjects(), SourceNumbers()
        given = tuple((TableFlags(one, subjects), origin) for one, origin in self.filters)
        tally = Tally(subjects, sources, filters=given, bucket_seconds=self.bucket_seconds, any_origin=True)
        return _ThreadState(subjects, sources, tally, given, SchemaOwners(subjects, self.unknown_xa_schemas))

    def _measure(self, file: BinlogFile, wanted: Range, state: _ThreadState, found: _Samples) -> None:
        assigner = Assigner(state.owners)
        for number, block in enumerate(self.blocks(file, wanted, state.subjects, state.sources)):
            state.tally.add(block.segment, file.read)
            shares = assigner.assign(block.segment, file.read)
            for share in shares:
                name = state.owners.names[share.output]
                found.schema_bytes[name] = found.schema_bytes.get(name, 0) + share.size
            if not number:
                _compress(file, block, shares, state.owners, wanted.number, found)


@dataclass(frozen=True)
class _ThreadState:
    """Objects that all tasks of one thread share, so that a filter is asked only once about each table."""

    subjects: Subjects
    sources: SourceNumbers
    tally: Tally
    given: tuple[tuple[TableFlags, OriginFilter | None], ...]
    """The verdicts of every filter about tables, and the origins that its slave wants. The slaves' filters come
    first."""
    owners: Owners
    numbers: dict[Subject, int] = field(default_factory=dict)

    def flags_of(self, tallied: Facts) -> list[SubjectFlags | None]:
        """Return the verdicts of every filter about the tally's tables and statements, as bits."""
        for number in range(len(self.subjects)):
            if self.subjects.members(number) is None:
                self.numbers.setdefault(self.subjects[number], number)
        places = np.array([self.numbers[subject] for subject in tallied.subjects], np.int64)
        return [flags.array()[places] if flags.is_on else None for flags, _ in self.given]


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
            before = found.samples.get(name, (0, 0))
            found.samples[name] = _plus(before, len(data), len(compressor.compress(data)))

    segment = block.segment
    whole = block.data[: min(CHUNK, segment.end - segment.start)].tobytes()
    sample(_WHOLE, whole)
    ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end) - segment.start
    begin = 0
    for end in ends[ends <= len(whole)].tolist() or [len(whole)]:
        one = block.data[begin:end].tobytes()
        packed = min(len(one), len(compressor.compress(one)) + _PAYLOAD_OVERHEAD)
        found.transactions = _plus(found.transactions, len(one), packed)
        begin = end
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
