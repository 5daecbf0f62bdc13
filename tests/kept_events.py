"""The events that a slave with a given filter would be sent, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Unpack

from dumpfilter.binlog.format import FormatDescription
from dumpfilter.dump.event_stream import kept_pieces
from dumpfilter.dump.set_pass import PassOptions
from dumpfilter.filter import ReplicationFilter
from dumpfilter.index.fileset import BinlogSet


class KeptEvent(NamedTuple):
    """One event with the bytes that a slave would be sent. ``offset`` is that of the original event."""

    file: str
    fd: FormatDescription
    offset: int
    event: bytes


def kept_events(
    binlogs: BinlogSet, rules: ReplicationFilter, **options: Unpack[PassOptions]
) -> Iterator[KeptEvent]:
    """Yield the events of :func:`kept_pieces` one by one."""
    for kept in kept_pieces(binlogs, rules, **options):
        data = kept.data.tobytes()
        for at, size, offset in zip(
            kept.start.tolist(), kept.size.tolist(), kept.offset.tolist(), strict=True
        ):
            yield KeptEvent(kept.file, kept.fd, offset, data[at : at + size])
