"""The recordings of row images in ``tests/data/rows``, and their events."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows.arrow import ChangedRows, RowImageReader

DIRECTORY = Path(__file__).parents[2] / "data" / "rows"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.000001"))


class RecordedEvent(NamedTuple):
    """One event, also one from inside a compressed transaction."""

    raw: bytes
    type: int
    position: int
    fd: FormatDescription


def path_of(name: str) -> Path:
    """Return the path of a recording's binlog."""
    return DIRECTORY / f"{name}.000001"


def events(name: str) -> Iterator[RecordedEvent]:
    """Yield the events of a recording, with those inside of compressed transactions."""
    with path_of(name).open("rb") as source:
        for event in iter_events(source, file=name):
            if event.type == EventType.TRANSACTION_PAYLOAD:
                inner = replace(event.fd, checksum=False)
                for header, raw in decode_transaction_payload(event.body).events():
                    yield RecordedEvent(raw, header.type, event.offset, inner)
            else:
                yield RecordedEvent(event.raw, event.type, event.offset, event.fd)


def printed_lines(name: str) -> bytes:
    """Return the lines that the server's program printed for the rows of a recording."""
    return gzip.decompress((DIRECTORY / f"{name}.txt.gz").read_bytes())


def read(reader: RowImageReader, found: Sequence[RecordedEvent]) -> ChangedRows:
    """Read the rows of events, which have all checksums or none."""
    sizes = np.array([len(event.raw) for event in found], np.int64)
    return reader.read(
        np.frombuffer(b"".join(event.raw for event in found), np.uint8),
        np.cumsum(sizes) - sizes,
        sizes,
        np.array([event.type for event in found], np.uint8),
        np.array([event.position for event in found], np.int64),
        found[0].fd,
    )


Pair = tuple[dict[str, str | None] | None, dict[str, str | None] | None]


def pairs(changed: ChangedRows) -> list[Pair]:
    """Return the rows before and after, as dicts."""
    changed.before.validate(full=True)
    changed.after.validate(full=True)
    before = changed.before.to_pylist(maps_as_pydicts="strict")
    after = changed.after.to_pylist(maps_as_pydicts="strict")
    return list(zip(before, after, strict=True))


def all_pairs(name: str) -> list[Pair]:
    """Return all rows of a recording, read event by event of equal format."""
    reader, found = RowImageReader(), list(events(name))
    rows: list[Pair] = []
    for checksum in (True, False):
        some = [event for event in found if event.fd.checksum == checksum]
        if some:
            rows += pairs(read(reader, some))
    return rows
