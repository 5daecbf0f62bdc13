"""Compressed samples of binlogs, from which the sizes of events after zstd compression are estimated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import zstandard

LEVEL = 3
"""The zstd compression level of samples, MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The maximum number of bytes that are compressed together in a sample, which is the size of a compressed chunk in a
dump.
"""
MOST = 1 << 20
"""The maximum number of bytes to compress as samples in one range (a part of a binlog file). Compression is slow."""
WHOLE = ""
"""The key of samples of the whole binlog stream. Other keys are schema names."""


@dataclass
class Samples:
    """The total sizes of samples before and after compression, by encoded schema name or :data:`WHOLE`."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, name: str, data: bytes) -> None:
        """Compress a sample, and add its sizes under ``name`` (an encoded schema name, or WHOLE)."""
        self.count(name, len(data), compressed_size(data))

    def count(self, name: str, raw: int, compressed: int) -> None:
        """Add the sizes of a sample before (``raw``) and after compression, bytes. An empty sample is ignored."""
        if raw:
            before = self.sizes.get(name, (0, 0))
            self.sizes[name] = before[0] + raw, before[1] + compressed

    def take_in_turn(self, data: Mapping[str, Callable[[], bytes]], turn: int) -> None:
        """Compress samples of schemas until about :data:`MOST` bytes. ``data`` has a function for each schema that
        returns the sample.

        Each ``turn`` (a number) starts with another schema, so that eventually every schema has samples.
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
        """Add the sizes of another part's samples."""
        for name, sizes in other.sizes.items():
            self.count(name, *sizes)


class _Compressor(threading.local):
    """A zstd compressor per thread. Creating one costs more than compressing a small transaction."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdCompressor(level=LEVEL)


_compressor = _Compressor()


def compressed_size(data: bytes) -> int:
    """Return the number of bytes after compression by zstd."""
    return len(_compressor.zstd.compress(data))
