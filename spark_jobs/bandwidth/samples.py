"""Compressed samples of binlogs, from which the sizes of events after zstd compression are estimated."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import zstandard

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.index.opened import OpenedEvents

_PAYLOAD_OVERHEAD = 100
"""The approximate size of a compressed transaction's Gtid event and of its Transaction_payload event's header, bytes.
"""
ALONE = "/"
"""The key under which :attr:`Samples.sizes` has samples of separately compressed transactions. No schema has this key,
because schema names are encoded as file names.
"""

LEVEL = 3
"""The zstd compression level of samples, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The maximum number of bytes that are compressed together in a sample, which is the size of a compressed chunk in a
dump.
"""
MOST = 1 << 20
"""The maximum number of bytes to compress as samples in one range (a part of a binlog file). Compression is slow."""
WHOLE = ""
"""The key under which :attr:`Samples.sizes` has samples of the whole binlog stream, compressed in chunks. All other
keys except :data:`ALONE` are schema names.
"""


@dataclass
class Samples:
    """The total sizes of samples of binlog events before and after zstd compression. Compression ratios are estimated
    from them.

    Each schema has totals under its name, encoded as a file name. The whole stream has two: under :data:`WHOLE`,
    compressed in chunks, and under :data:`ALONE`, with each transaction compressed separately.
    """

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def count(self, name: str, raw: int, compressed: int) -> None:
        """Add a sample's size before (``raw``) and after compression, bytes, to the totals that :attr:`sizes` has under
        ``name``. An empty sample is ignored. ``name`` is a schema, or :data:`WHOLE` or :data:`ALONE` for the whole
        stream.
        """
        if raw:
            before = self.sizes.get(name, (0, 0))
            self.sizes[name] = before[0] + raw, before[1] + compressed

    def add(self, other: Samples) -> None:
        """Add the sizes in ``other``, the samples that another task took, to these total sizes before and after
        compression.
        """
        for name, sizes in other.sizes.items():
            self.count(name, *sizes)

    def take_of_block(self, block: OpenedEvents, streams: Mapping[str, Ints], turn: int) -> None:
        """Compress samples of the events in ``block``, and add their sizes to the totals.

        One sample is of the whole stream: the first bytes of the block, up to :data:`CHUNK`. This sample is compressed
        together, and each of its transactions also alone. The other samples are of schemas, of which about :data:`MOST`
        bytes in all are compressed.

        Parameters:
            block: consecutive events of a file, with their bytes.
            streams: for each schema, an array with a row for each piece of the file that a split would write to the
                schema's binlog. The first two columns are the piece's offset in the file and its size, bytes.
            turn: a number that differs between calls. It selects the first schema to sample, so that eventually every
                schema has samples.
        """
        segment, data = block.segment, block.data
        length = min(CHUNK, segment.end - segment.start)
        self.count(WHOLE, length, compressed_size(data[:length].tobytes()))
        ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end) - segment.start
        for begin, end in itertools.pairwise([0, *(ends[ends <= length].tolist() or [length])]):
            alone = compressed_size(data[begin:end].tobytes()) + _PAYLOAD_OVERHEAD
            self.count(ALONE, end - begin, min(end - begin, alone))
        names, left = sorted(streams), MOST
        for k in range(len(names)):
            if left > 0:
                name = names[(turn + k) % len(names)]
                pieces = streams[name]
                count = int(np.searchsorted(np.cumsum(pieces[:, 1]), CHUNK)) + 1
                begins = zip(
                    (pieces[:count, 0] - segment.start).tolist(), pieces[:count, 1].tolist(), strict=True
                )
                sample = b"".join([data[at : at + min(size, CHUNK)].data for at, size in begins])[:CHUNK]
                self.count(name, len(sample), compressed_size(sample))
                left -= len(sample)


_compressors = threading.local()
"""A zstd compressor per thread. Creating one costs more than compressing a small transaction."""


def compressed_size(data: bytes) -> int:
    """Return the size of ``data`` after zstd compression at level 3 (MySQL's default), bytes."""
    if not hasattr(_compressors, "zstd"):
        _compressors.zstd = zstandard.ZstdCompressor(level=LEVEL)
    return len(_compressors.zstd.compress(data))
