"""The tasks of the bandwidth job. Each measures a part of the binlogs, for all slaves in one pass."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import render
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.ranges.ranges import Block, Range
from dumpfilter.spark_jobs.ranges.tasks import ReadRanges, state_of_thread
from dumpfilter.spark_jobs.samples import CHUNK, MOST, WHOLE, Samples, compressed_size
from dumpfilter.spark_jobs.split.assign import RUN_SIZE, Assigner, Share, share_as_chunk
from dumpfilter.spark_jobs.split.ownership import Owners, SchemaOwners
from dumpfilter.traffic.facts import Facts, SubjectFlags, side_by_side
from dumpfilter.traffic.tally import Tally

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]

_PAYLOAD_OVERHEAD = 100
"""About the bytes of a compressed transaction's Gtid event, and of the head of its Transaction_payload event."""
_ALONE = "/"
"""The name of samples of transactions that are compressed each alone. No schema has the name, since the names of
schemas are those of files."""
MOST_UNITS = 4_000_000
"""The most units (entries of the tally) of all tasks together that the driver holds. A unit takes 72 bytes."""


@dataclass
class Measured:
    """The measurements of a part of the binlogs: counted traffic and compressed samples."""

    tallied: Facts
    schema_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes of events that a split by schema would write for each schema, by the schema's encoded name."""
    samples: Samples = field(default_factory=Samples)

    def ratio(self, schema: str = WHOLE) -> float:
        """Return the compressed size divided by the original size, as measured in samples of a schema's events.

        If the schema has no samples, return the ratio of the unsplit stream.
        """
        sizes = self.samples.sizes
        raw, compressed = sizes.get(schema) or sizes.get(WHOLE) or (0, 0)
        return min(compressed / raw, 1.0) if raw else 1.0

    @property
    def transactions(self) -> tuple[int, int]:
        """The bytes of sampled transactions before and after compression, each transaction alone."""
        return self.samples.sizes.get(_ALONE, (0, 0))

    @property
    def transaction_factor(self) -> float:
        """How many times larger transactions are that are compressed each alone, compared with blocks of a chunk."""
        raw, compressed = self.transactions
        return max(compressed / raw / self.ratio(), 1.0) if raw else 1.0


def merged(parts: Sequence[Measured]) -> Measured:
    """Add up the measurements of all parts of the binlogs."""
    found = Measured(side_by_side([part.tallied for part in parts]))
    schema_bytes: Counter[str] = Counter()
    for part in parts:
        schema_bytes.update(part.schema_bytes)
        found.samples.add(part.samples)
    found.schema_bytes = dict(schema_bytes)
    return found


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
            samples, schema_bytes = Samples(), Counter[str]()
            with self.open(number) as file:
                for wanted in some:
                    self._measure(file, wanted, state, schema_bytes, samples)
            # The driver adds up equal units, of which the part of a file has few.
            tallied = state.tally.take(add_up=False)
            by_file[number] = Measured(tallied, dict(schema_bytes), samples)
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

    def _measure(
        self,
        file: BinlogFile,
        wanted: Range,
        state: _ThreadState,
        schema_bytes: Counter[str],
        samples: Samples,
    ) -> None:
        assigner = Assigner(state.owners)
        for number, block in enumerate(self.blocks(file, wanted, state.subjects, state.sources)):
            state.tally.add(block.segment, file.read)
            shares = assigner.assign(block.segment, file.read)
            for share in shares:
                schema_bytes[state.owners.names[share.output]] += share.size
            if not number:
                _compress(file, block, shares, state.owners, wanted.number, samples)


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
    file: BinlogFile, block: Block, shares: Sequence[Share], owners: Owners, turn: int, samples: Samples
) -> None:
    """Compress samples of a block of events, for each schema separately, to estimate compression ratios.

    A schema's samples are taken from the events that a split by schema would write for this schema. Each range begins
    with another schema, so that every schema has samples.
    """
    segment = block.segment
    whole = block.data[: min(CHUNK, segment.end - segment.start)].tobytes()
    samples.take(WHOLE, whole)
    ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end) - segment.start
    begin = 0
    for end in ends[ends <= len(whole)].tolist() or [len(whole)]:
        one = block.data[begin:end].tobytes()
        samples.count(_ALONE, len(one), min(len(one), compressed_size(one) + _PAYLOAD_OVERHEAD))
        begin = end
    left = MOST
    # The numbers of the outputs depend on what this thread has read before, but the samples must not.
    shares = sorted(shares, key=lambda share: owners.names[share.output])
    start = turn % max(len(shares), 1)
    for share in [*shares[start:], *shares[:start]]:
        if left <= 0:
            return
        data = _beginning(share, block, file)
        samples.take(owners.names[share.output], data)
        left -= len(data)


def _beginning(share: Share, block: Block, file: BinlogFile) -> bytes:
    sizes: npt.NDArray[np.int64] = np.cumsum(share.runs[:, RUN_SIZE])
    n = int(np.searchsorted(sizes, CHUNK)) + 1
    part = share_as_chunk(file.name, share.runs[:n], share.replaced)
    fd = block.segment.format_description
    data = render(part, block.data, block.segment.start, file.read, fd)
    return data[: 2 * CHUNK]
