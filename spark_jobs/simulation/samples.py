"""Samples of a binlog as zstd, from which the compressed sizes of transactions are estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import zstandard

from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.ranges import Block
from dumpfilter.traffic.transactions import MILLION, SchemasOf

LEVEL = 3
"""The compression level of zstd, which is MySQL's default of zstd_compression_level."""
CHUNK = 256 << 10
"""The most bytes of a schema that are compressed together. A chunk of the dump has so many bytes."""
_MOST = 1 << 20
"""The most bytes of one block that are compressed, because compression is slow."""


@dataclass
class Samples:
    """The bytes of samples before and after compression, for each schema and for the whole binlog."""

    schemas: dict[str, tuple[int, int]] = field(default_factory=dict)
    whole: tuple[int, int] = (0, 0)

    def take(self, block: Block, subjects: Subjects, schemas_of: SchemasOf, turn: int) -> None:
        """Compress samples of a block.

        A schema's sample consists of transactions that change only this schema. Each ``turn`` begins with another
        schema, so that every schema has samples in the end.
        """
        compressor = zstandard.ZstdCompressor(level=LEVEL)
        segment, data = block.segment, block.data
        start = data[: min(CHUNK, segment.end - segment.start)].tobytes()
        self.whole = _plus(self.whole, start, compressor)
        pieces: dict[str, list[tuple[int, int]]] = {}
        ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end).tolist()
        begins = segment.offset[segment.txn_event[:-1]].tolist()
        of_subject: dict[int, str | None] = {}
        for subject, begin, end in zip(segment.txn_subject.tolist(), begins, ends, strict=True):
            if subject < 0:
                continue
            if subject not in of_subject:
                of_subject[subject] = _only_schema(subjects, subject, schemas_of)
            name = of_subject[subject]
            if name is not None:
                pieces.setdefault(name, []).append((begin - segment.start, end - segment.start))
        names = sorted(pieces)
        left = _MOST
        for name in names[turn % max(len(names), 1) :] + names[: turn % max(len(names), 1)]:
            if left <= 0:
                return
            sample = b"".join(data[begin:end].tobytes() for begin, end in _first(pieces[name]))
            self.schemas[name] = _plus(self.schemas.get(name, (0, 0)), sample, compressor)
            left -= len(sample)

    def add(self, other: Samples) -> None:
        """Add the samples of another part of the binlogs."""
        self.whole = (self.whole[0] + other.whole[0], self.whole[1] + other.whole[1])
        for name, (raw, compressed) in other.schemas.items():
            known = self.schemas.get(name, (0, 0))
            self.schemas[name] = (known[0] + raw, known[1] + compressed)

    def ratios(self) -> tuple[dict[str, int], int]:
        """Return the compression ratio of each schema and of the whole binlog, in millionths."""
        return {name: _ratio(*sizes) for name, sizes in self.schemas.items()}, _ratio(*self.whole)


def _only_schema(subjects: Subjects, number: int, schemas_of: SchemasOf) -> str | None:
    if subjects.members(number) is not None:
        return None
    found = schemas_of(subjects[number])
    return found[0] if len(found) == 1 else None


def _first(pieces: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    total = 0
    for n, (begin, end) in enumerate(pieces):
        total += end - begin
        if total >= CHUNK:
            return pieces[: n + 1]
    return pieces


def _plus(sizes: tuple[int, int], data: bytes, compressor: zstandard.ZstdCompressor) -> tuple[int, int]:
    return sizes[0] + len(data), sizes[1] + (len(compressor.compress(data)) if data else 0)


def _ratio(raw: int, compressed: int) -> int:
    return min(compressed * MILLION // raw, MILLION) if raw else MILLION
