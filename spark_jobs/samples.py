"""Samples of binlogs compressed by zstd, from which the compressed sizes of events are estimated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import zstandard

LEVEL = 3
"""The compression level of zstd, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The number of bytes compressed together in a sample. It equals the size of a chunk, which the dump compresses."""
MOST = 1 << 20
"""The limit of the bytes of one range (a part of a binlog file) to compress as samples, because compression is slow."""
WHOLE = ""
"""The name of samples of the whole binlog stream. Other names are those of schemas."""


@dataclass
class Samples:
    """The bytes of samples before and after compression, by the encoded name of a schema or :data:`WHOLE`."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, name: str, data: bytes) -> None:
        """Compress a sample, and add its sizes under ``name`` (an encoded schema name, or WHOLE)."""
        self.count(name, len(data), compressed_size(data))

    def count(self, name: str, raw: int, compressed: int) -> None:
        """Add the sizes of a sample before (``raw``) and after compression, bytes. A sample of 0 bytes is left out."""
        if raw:
            before = self.sizes.get(name, (0, 0))
            self.sizes[name] = before[0] + raw, before[1] + compressed

    def take_in_turn(self, data: Mapping[str, Callable[[], bytes]], turn: int) -> None:
        """Compress samples of schemas, of which functions return the bytes, up to about :data:`MOST` bytes.

        Each ``turn`` begins with another schema, so that every schema has samples in the end.
        """
        names = sorted(data)
        first = turn % max(len(names), 1)
        left = MOST
        for name in names[first:] + names[:first]:
            if left <= 0:
                return
            sample = data[name]()
            self.take(name, sample)
            left -= len(sample)

    def add(self, other: Samples) -> None:
        """Add the samples of another part of the binlogs."""
        for name, sizes in other.sizes.items():
            self.count(name, *sizes)


class _Compressor(threading.local):
    """A compressor for each thread. To make one costs more than to compress a small transaction."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdCompressor(level=LEVEL)


_compressor = _Compressor()


def compressed_size(data: bytes) -> int:
    """Return the number of bytes after compression by zstd."""
    return len(_compressor.zstd.compress(data))
