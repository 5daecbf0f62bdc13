"""Samples of a binlog as zstd, from which the compressed sizes of transactions are estimated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dumpfilter.analyse.traffic.transactions import MILLION, SchemasOf
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.ranges import Block
from dumpfilter.spark_jobs.samples import CHUNK, MOST, WHOLE, Samples


def take_samples(
    samples: Samples, block: Block, subjects: Subjects, schemas_of: SchemasOf, turn: int
) -> None:
    """Compress samples of a block.

    A schema's sample consists of transactions that change only this schema. Each ``turn`` begins with another schema,
    so that every schema has samples in the end.
    """
    segment, data = block.segment, block.data
    samples.take(WHOLE, data[: min(CHUNK, segment.end - segment.start)].tobytes())
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
    left = MOST
    for name in names[turn % max(len(names), 1) :] + names[: turn % max(len(names), 1)]:
        if left <= 0:
            return
        sample = b"".join(data[begin:end].tobytes() for begin, end in _first(pieces[name]))
        samples.take(name, sample)
        left -= len(sample)


def measured_ratios(samples: Samples) -> tuple[dict[str, int], int]:
    """Return the compression ratio of each schema and of the whole binlog, in millionths."""
    ratios = {name: _ratio(*sizes) for name, sizes in samples.sizes.items()}
    return ratios, ratios.pop(WHOLE, MILLION)


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


def _ratio(raw: int, compressed: int) -> int:
    return min(compressed * MILLION // raw, MILLION) if raw else MILLION
