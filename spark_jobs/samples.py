"""Compressed samples of binlogs, from which the sizes of events after zstd compression are estimated."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import zstandard

from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges import Block
from dumpfilter.spark_jobs.split.ownership import encoded_schemas

LEVEL = 3
"""The zstd compression level of samples, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The maximum number of bytes that are compressed together in a sample, which is the size of a compressed chunk in a
dump.
"""
MOST = 1 << 20
"""The maximum number of bytes to compress as samples in one range (a part of a binlog file). Compression is slow."""
_SEARCHED = 2 * MOST
"""The number of bytes at the beginning of a block from which samples are taken."""
WHOLE = ""
"""The key under which samples of the whole binlog stream are kept. All other keys are schema names."""


@dataclass
class Samples:
    """The sizes of samples of binlog events before and after zstd compression, in total. Compression ratios are
    estimated from them.

    Sizes are kept for each schema, by its name encoded as a file name, and for the whole stream under :data:`WHOLE`.
    """

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, name: str, data: bytes) -> None:
        """Compress ``data`` by zstd, and add the sizes before and after to the total of ``name`` (an encoded schema
        name, or :data:`WHOLE`).
        """
        self.count(name, len(data), compressed_size(data))

    def count(self, name: str, raw: int, compressed: int) -> None:
        """Add the sizes of a sample before (``raw``) and after compression, in bytes, to the total of ``name``. An
        empty sample is ignored.
        """
        if raw:
            before = self.sizes.get(name, (0, 0))
            self.sizes[name] = before[0] + raw, before[1] + compressed

    def take_of_block(self, block: Block, subjects: Subjects, turn: int) -> None:
        """Compress samples of the events in ``block``, and add their sizes to the totals. There is one sample of the
        whole stream, and one of each schema.

        A schema's sample consists of transactions that change only this schema. About :data:`MOST` bytes are
        compressed.

        Parameters:
            block: consecutive events of a file, with their bytes.
            subjects: the tables and statements to which the numbers in the events refer.
            turn: a number that differs between calls. It selects the first schema, so that eventually every schema has
                samples.
        """
        segment, data = block.segment, block.data
        self.take(WHOLE, data[: min(CHUNK, segment.end - segment.start)].tobytes())
        found: dict[str, bytearray] = defaultdict(bytearray)
        bounds = np.append(segment.offset[segment.txn_event[:-1]], segment.end) - segment.start
        count = max(int(np.searchsorted(bounds, _SEARCHED)) - 1, 1)
        bounds = bounds[: count + 1].tolist()
        for number, name in _of_one_schema(segment, subjects, count):
            if len(found[name]) < CHUNK:
                begin, end = bounds[number], bounds[number + 1]
                # The bytes of a large transaction are alike.
                found[name] += data[begin : min(end, begin + CHUNK)].tobytes()
        names = sorted(found)
        left = MOST
        for k in range(len(names)):
            name = names[(turn + k) % len(names)]
            if left > 0:
                self.take(name, bytes(found[name]))
                left -= len(found[name])

    def add(self, other: Samples) -> None:
        """Add the totals of ``other``, samples that another task took."""
        for name, sizes in other.sizes.items():
            self.count(name, *sizes)


def _of_one_schema(segment: Segment, subjects: Subjects, count: int) -> Iterator[tuple[int, str]]:
    """Yield the index and the encoded schema of each of the first ``count`` transactions of a segment that changes one
    schema only.
    """
    first = segment.txn_event[:count]
    subject = segment.subject[: segment.txn_event[count]]
    numbers: dict[frozenset[str], int] = {frozenset(): 0}
    schema_of = np.zeros(int(subject.max(initial=-1)) + 2, np.int64)
    for one in np.flatnonzero(np.bincount(subject[subject >= 0])).tolist():
        found = frozenset(name for each in subjects.single(one) for name in encoded_schemas(subjects[each]))
        schema_of[one] = numbers.setdefault(found, len(numbers))
    schemas = list(numbers)
    # Events without a subject have the last number, 0, which stands for no schema.
    schema = schema_of[np.maximum(subject, -1)]
    highest = np.maximum.reduceat(schema, first)
    lowest = np.minimum.reduceat(np.where(schema > 0, schema, len(schemas)), first)
    for number in np.flatnonzero(lowest == highest).tolist():
        if len(schemas[lowest[number]]) == 1:
            yield number, *schemas[lowest[number]]


_compressors = threading.local()
"""A zstd compressor per thread. Creating one costs more than compressing a small transaction."""


def compressed_size(data: bytes) -> int:
    """Return the size of ``data`` after zstd compression at level 3 (MySQL's default), bytes."""
    if not hasattr(_compressors, "zstd"):
        _compressors.zstd = zstandard.ZstdCompressor(level=LEVEL)
    return len(_compressors.zstd.compress(data))
