"""Compressed samples of binlogs, from which the sizes of events after zstd compression are estimated."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import zstandard

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.spark_jobs.ranges import Block

LEVEL = 3
"""The zstd compression level of samples, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The maximum number of bytes that are compressed together in a sample, which is the size of a compressed chunk in a
dump.
"""
MOST = 1 << 20
"""The maximum number of bytes to compress as samples in one range (a part of a binlog file). Compression is slow."""
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

    def take_of_block(self, block: Block, streams: Mapping[str, Ints], turn: int) -> None:
        """Compress samples of the events in ``block``, and add their sizes to the totals. There is one sample of the
        whole stream, and one of each schema.

        About :data:`MOST` bytes of schemas are compressed.

        Parameters:
            block: consecutive events of a file, with their bytes.
            streams: the offset and size of the pieces of the file that a split by schema writes for each schema.
            turn: a number that differs between calls. It selects the first schema, so that eventually every schema has
                samples.
        """
        start, data = block.segment.start, block.data
        self.take(WHOLE, data[: min(CHUNK, block.segment.end - start)].tobytes())
        names, left = sorted(streams), MOST
        for k in range(len(names)):
            if left > 0:
                name = names[(turn + k) % len(names)]
                pieces = streams[name]
                count = int(np.searchsorted(np.cumsum(pieces[:, 1]), CHUNK)) + 1
                begins = zip((pieces[:count, 0] - start).tolist(), pieces[:count, 1].tolist(), strict=True)
                sample = b"".join([data[at : at + min(size, CHUNK)].data for at, size in begins])[:CHUNK]
                self.take(name, sample)
                left -= len(sample)

    def add(self, other: Samples) -> None:
        """Add the totals of ``other``, samples that another task took."""
        for name, sizes in other.sizes.items():
            self.count(name, *sizes)


_compressors = threading.local()
"""A zstd compressor per thread. Creating one costs more than compressing a small transaction."""


def compressed_size(data: bytes) -> int:
    """Return the size of ``data`` after zstd compression at level 3 (MySQL's default), bytes."""
    if not hasattr(_compressors, "zstd"):
        _compressors.zstd = zstandard.ZstdCompressor(level=LEVEL)
    return len(_compressors.zstd.compress(data))
