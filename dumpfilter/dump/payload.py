"""Compressed transactions (Transaction_payload events) of which a slave gets a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import (
    NONE,
    TransactionPayload,
    decode_transaction_payload,
    encode_transaction_payload,
)
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import with_body
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.hits import HitCounter
from dumpfilter.dump.walker import SegmentWalker, collapse
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.hits import Hits
from dumpfilter.index.segment import Segment

_LEVELS = (3, 19)
"""The zstd levels that are tried in order: the server's default, and one whose result is nearly the smallest."""


@dataclass(frozen=True, slots=True)
class KeptPayload:
    """The part of a compressed transaction that one filter sends."""

    size: int
    """The size of the event that is sent, bytes; 0 if nothing is sent."""
    undecided: int = 0
    """The number of inner events that are sent because the filter cannot decide them."""
    replaced: bytes | None = None
    """The event with the part that is sent; None if the event is sent whole."""
    hits: Hits = field(default_factory=Counter)
    """The hits of the part that is dropped."""


@dataclass(slots=True)
class FilteredPayloads:
    """A segment's events after the compressed transactions among them have been decided."""

    role: npt.NDArray[np.uint8]
    size: npt.NDArray[np.int64]
    replaced: dict[int, bytes] = field(default_factory=dict)
    """Events that are sent in another form, by offset."""
    undecided: list[tuple[int, int]] = field(default_factory=list)
    """Offset and number of undecided inner events, of each compressed transaction that is sent with such events."""
    hits: dict[int, Hits] = field(default_factory=dict)
    """The hits of the dropped parts, by the number of the compressed transaction's event."""


class PayloadFilter:
    """Decides compressed transactions with one filter, which has rules."""

    def __init__(self, flags: TableFlags) -> None:
        self.flags = flags
        self._walker = SegmentWalker(WHOLE_SEGMENT)
        self._hits = HitCounter()

    def apply(
        self, segment: Segment, txn_subject: npt.NDArray[np.int32], first: int, read: ReadAt
    ) -> FilteredPayloads:
        """Decide the compressed transactions of a segment, from transaction ``first`` on.

        ``txn_subject`` has ``SKIP`` for transactions that are not looked at. ``read`` reads the segment's file. Raises
        BinlogCorrupt for a compressed transaction that cannot be opened.
        """
        found = FilteredPayloads(segment.role.copy(), segment.size.copy())
        for number in segment.payloads:
            if number < segment.txn_event[first] or txn_subject[segment.transaction_of(number)] == R.SKIP:
                continue
            kept = self.decide(segment, number, read)
            offset = int(segment.offset[number])
            ends = found.role[number] & R.ENDS
            if kept.hits:
                found.hits[number] = kept.hits
            if not kept.size:
                # the transaction has nothing left, so its event goes with other events, of which there are none
                found.role[number] = R.FRAME | ends
                continue
            if kept.undecided:
                found.undecided.append((offset, kept.undecided))
            if kept.replaced is not None:
                found.replaced[offset] = kept.replaced
                found.size[number] = kept.size
                found.role[number] = R.REPLACED | ends
        return found

    def decide(self, segment: Segment, number: int, read: ReadAt) -> KeptPayload:
        """Return what the filter sends of the compressed transaction at event ``number``, a key of
        ``segment.payloads``.

        ``read`` reads the segment's file. Raises BinlogCorrupt for an event that cannot be opened.
        """
        inner = segment.payloads[number]
        txn_subject = collapse(inner, inner.txn_subject, self.flags)
        decided = self._walker.decide(inner, txn_subject, self.flags)
        (chunk,) = decided.chunks
        undecided = int(chunk["undecided"])
        hits: Hits = Counter()
        if self.flags.has_hits:
            self._hits.count(inner, inner.txn_subject, decided, self._walker, self.flags, {}, [hits])
        size = int(segment.size[number])
        if not chunk["bytes"]:
            return KeptPayload(0, hits=hits)
        if chunk["bytes"] == inner.end:
            return KeptPayload(size, undecided, hits=hits)
        event = read(int(segment.offset[number]), size)
        fd = segment.format_description
        no_runs = np.empty((0, 3), np.int64)
        plan = ChunkPlan(segment.file, decided.ranges, inner.end, 0, 0, no_runs, no_runs)
        kept = render(plan, open_payload(event, fd), 0, _no_file, inner.format_description)
        closed = close_payload(kept, event, fd)
        if closed is None:
            return KeptPayload(
                size, undecided
            )  # the slave gets the whole transaction, so no event is dropped
        return KeptPayload(len(closed), undecided, closed, hits)


def _no_file(offset: int, length: int) -> bytes:
    raise AssertionError("an opened compressed transaction is in memory")


def open_payload(event: bytes, fd: FormatDescription) -> bytes:
    """Return the events in a whole Transaction_payload event. Raises BinlogCorrupt."""
    return _decoded(event, fd).open()


def close_payload(events: bytes, source: bytes, fd: FormatDescription) -> bytes | None:
    """Return a Transaction_payload event that holds ``events``, with the header and end_log_pos of the event
    ``source``.

    Return None if no form of the event is shorter than ``source``.
    """
    header = EventHeader.unpack(source)
    room = header.size - HEADER_LENGTH - fd.checksum_length
    for body in _forms(events, _decoded(source, fd).compression):
        if len(body) < room:
            return with_body(header, body, checksum=fd.checksum)
    return None


def _forms(events: bytes, compression: int) -> Iterator[bytes]:
    if compression == NONE:
        yield encode_transaction_payload(events, compression=NONE)
        return
    for level in _LEVELS:
        yield encode_transaction_payload(events, level)


def _decoded(event: bytes, fd: FormatDescription) -> TransactionPayload:
    return decode_transaction_payload(fd.body(event))
