"""The filtering inside compressed transactions (Transaction_payload events).

The master opens a compressed transaction, drops a part of its events and compresses the rest again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
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
from dumpfilter.filter.hits import KINDS, Hits
from dumpfilter.index.segment import Segment

_LEVELS = (3, 19)
"""The zstd levels for compressing a filtered transaction again. Level 3 is the server's default. Level 19 is tried if
the result of level 3 is not smaller than the original event."""

_LARGE = 16 << 20
"""The uncompressed size above which a transaction counts as large, bytes."""

_turns = threading.BoundedSemaphore(2)
"""The turns to open large transactions. Thus their memory does not grow with the number of dumps."""


@dataclass(frozen=True, slots=True)
class KeptPayload:
    """The part of a compressed transaction that one filter sends."""

    size: int
    """The size of the Transaction_payload event to send, bytes; 0 if the filter drops all its events."""
    undecided: int = 0
    """The number of inner events that are sent because the master cannot decide about them."""
    replaced: bytes | None = None
    """The new Transaction_payload event that holds only the inner events to send. None if the original event is sent
    unchanged or dropped."""
    hits: Hits = field(default_factory=Counter)
    """The number of times that the dropped inner events would have used each rule of the filter."""


@dataclass(slots=True)
class FilteredPayloads:
    """The changes to a segment's columns after a filter has decided the segment's compressed transactions."""

    role: npt.NDArray[np.uint8]
    size: npt.NDArray[np.int64]
    replaced: dict[int, bytes] = field(default_factory=dict)
    """The new bytes of Transaction_payload events that are sent in part, by the file offset of the original event."""
    undecided: list[tuple[int, int]] = field(default_factory=list)
    """For each compressed transaction that is sent with undecided inner events: its file offset, and their number."""
    hits: dict[int, Hits] = field(default_factory=dict)
    """The number of times that dropped inner events would have used each filter rule, by the number of the
    Transaction_payload event."""


class PayloadFilter:
    """Decides with one filter which events inside of compressed transactions are sent. The filter must have rules."""

    def __init__(self, flags: TableFlags) -> None:
        self.flags = flags
        self._walker = SegmentWalker(WHOLE_SEGMENT)
        self._hits = HitCounter()

    def apply(
        self, segment: Segment, txn_subject: npt.NDArray[np.int32], first: int, read: ReadAt
    ) -> FilteredPayloads:
        """Decide the compressed transactions of a segment, from transaction ``first`` on.

        Transactions that are marked ``SKIP`` in ``txn_subject`` are not opened, because the slave does not need them.
        ``read`` reads the segment's file. Raises BinlogCorrupt for a compressed transaction that cannot be opened.
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
                # The filter drops every inner event. With the role FRAME the event is sent only with other events of
                # its transaction, and there are none.
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
        """Return the part that the filter sends of one compressed transaction.

        ``number`` is the number of the Transaction_payload event in the segment, a key of ``segment.payloads``.
        ``read`` reads the segment's file. Raises BinlogCorrupt for an event that cannot be opened.
        """
        inner = segment.payloads[number]
        txn_subject = collapse(inner, inner.txn_subject, self.flags)
        decided = self._walker.decide(inner, txn_subject, self.flags)
        (chunk,) = decided.chunks
        undecided = int(chunk["undecided"])
        hits: Hits = Counter()
        if self.flags.has_hits:
            for _, kind, count in self._hits.find(
                inner, inner.txn_subject, decided, self._walker, self.flags, {}
            ).tolist():
                hits[KINDS[kind]] += count
        size = int(segment.size[number])
        if not chunk["bytes"]:
            return KeptPayload(0, hits=hits)
        if chunk["bytes"] == inner.end:
            return KeptPayload(size, undecided, hits=hits)
        event = read(int(segment.offset[number]), size)
        fd = segment.format_description
        no_runs = np.empty((0, 3), np.int64)
        plan = ChunkPlan(segment.file, decided.ranges, inner.end, 0, 0, no_runs)
        with _turn(inner.end):
            kept = render(plan, open_payload(event, fd), 0, _no_file, inner.format_description)
            closed = close_payload(kept, event, fd)
        if closed is None:
            # No smaller form of the event was found. The slave gets the whole transaction, so no event is dropped.
            return KeptPayload(size, undecided)
        return KeptPayload(len(closed), undecided, closed, hits)


def _turn(size: int) -> AbstractContextManager[object]:
    """Return a context manager that waits for a turn to open a transaction of ``size`` uncompressed bytes."""
    return _turns if size > _LARGE else nullcontext()


def _no_file(offset: int, length: int) -> bytes:
    raise AssertionError("an opened compressed transaction is in memory")


def open_payload(event: bytes, fd: FormatDescription) -> bytes:
    """Return the uncompressed events that a Transaction_payload event holds.

    ``event`` is the whole event with its header. Raises BinlogCorrupt if the event cannot be decoded or decompressed.
    """
    return _decoded(event, fd).open()


def close_payload(events: bytes, source: bytes, fd: FormatDescription) -> bytes | None:
    """Return a new Transaction_payload event that holds ``events``, which are a part of the original event's events.

    The new event takes the header and end_log_pos of ``source``, the original event. Return None if the new event is
    not shorter than ``source`` with any compression.
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
