"""The filtering inside compressed transactions (Transaction_payload events).

The master uncompresses a compressed transaction, drops a part of its events and compresses the rest again.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogUnsupported, UndecidedEvent
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import (
    decode_transaction_payload,
    encode_transaction_payload,
)
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import with_body
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.boundary import withhold
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, holds, no_file, render
from dumpfilter.dump.decision import Asked, columns_of, decide, hit_rows
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import COLUMN, Hits
from dumpfilter.index.segment import Segment

_LARGEST_EVENT = 0xFFFFFFFF
"""The size of the largest event that a header can announce, bytes."""

_LARGE = 16 << 20
"""The uncompressed size above which a compressed transaction counts as large, bytes. Only two threads at a time
uncompress such a transaction and compress the part to send.
"""

_turns = threading.BoundedSemaphore(2)
"""The semaphore that lets two threads at a time uncompress large transactions and compress the parts to send. Thus the
memory for these transactions does not grow with the number of dumps.
"""


@dataclass(frozen=True, slots=True)
class KeptPayload:
    """The part of a compressed transaction (Transaction_payload event) that one filter sends. The object also has
    the counts of rule hits (matches of filter rules) and of inner events about which the filters cannot decide.
    """

    size: int
    """The size of the Transaction_payload event to send, bytes; 0 if the filter drops all its events."""
    undecided: int = 0
    """The number of events inside the compressed transaction that the filters could not decide."""
    replaced: bytes | None = None
    """The new Transaction_payload event that holds only the inner events to send. None if the original event is sent
    unchanged or dropped."""
    hits: Hits = field(default_factory=Counter)
    """For each kind of rule, the number of times that the dropped events inside the compressed transaction would have
    used a rule, as the server counts in ``replication_applier_filters.COUNTER``.
    """


def filter_payloads(
    flags: TableFlags, segment: Segment, columns: Columns, first: int, read: ReadAt
) -> tuple[Columns, dict[int, bytes], list[tuple[int, int]]]:
    """Decide the compressed transactions of a segment (a part of a binlog file) with a filter that has rules, from
    transaction number ``first`` on.

    Return the segment's columns with these decisions, and the new bytes of the Transaction_payload events that are sent
    in part, by the file offset of the original event. Also return the file offset of each compressed transaction with
    undecided inner events, and the number of these events.

    ``flags`` are the filter's decisions about each table and statement. ``columns`` are the segment's columns, in which
    events that an imposed filter (set by the master's operator) forbids are already marked. A transaction that
    ``columns`` mark as ``SKIP`` is not opened, because the slave does not need it. ``read`` reads the segment's file.

    Raises BinlogCorrupt for a compressed transaction that cannot be opened, and UndecidedEvent where an imposed filter
    stops the dump. Raises BinlogUnsupported if the part to send does not fit into one event.
    """
    role, size, carried = columns.role.copy(), columns.size.copy(), columns.carried
    replaced: dict[int, bytes] = {}
    undecided: list[tuple[int, int]] = []
    hits: list[tuple[int, int, int]] = []
    for number in sorted(segment.payloads):
        txn = segment.transaction_of(number)
        if txn < first or columns.txn_subject[txn] == R.SKIP:
            continue
        kept = filter_payload(flags, segment, number, read)
        offset, event = int(segment.offset[number]), carried + number
        ends = role[event] & R.ENDS
        hits += [(txn, COLUMN[kind], count) for kind, count in kept.hits.items()]
        if kept.undecided:
            undecided.append((offset, kept.undecided))
        if not kept.size:
            # The filter drops every inner event. With the role FRAME the event is sent only with other events of its
            # transaction, and there are none.
            role[event] = R.FRAME | ends
        elif kept.replaced is not None:
            replaced[offset] = kept.replaced
            size[event] = kept.size
            role[event] = R.REPLACED | ends
    all_hits = np.concatenate([columns.hits, hit_rows(hits)])
    return columns.with_roles(role)._replace(size=size, hits=all_hits), replaced, undecided


def filter_payload(flags: TableFlags, segment: Segment, number: int, read: ReadAt) -> KeptPayload:
    """Decide one compressed transaction of a segment (a part of a binlog file) with a filter that has rules, and return
    the part to send.

    ``flags`` are the filter's decisions about each table and statement. ``number`` is the number of the
    Transaction_payload event in the segment, a key of ``segment.payloads``. ``read`` reads the segment's file.

    Raises BinlogCorrupt for an event that cannot be opened, and UndecidedEvent where an imposed filter (set by the
    master's operator) stops the dump. Raises BinlogUnsupported if the part to send does not fit into one event.
    """
    inner = segment.payloads[number]
    size = int(segment.size[number])
    fd = segment.format_description

    @cache
    def source() -> bytes:
        return read(int(segment.offset[number]), size)

    @cache
    def opened() -> bytes:
        return open_payload(source(), fd)

    columns, withheld = columns_of(inner), list[int]()
    if flags.boundary:
        try:
            columns, withheld = withhold(
                flags, inner, columns, 0, lambda at, n: opened()[at : at + n], inside=True
            )
        except UndecidedEvent as error:
            outside = UndecidedEvent(error.what, file=segment.file, position=int(segment.offset[number]))
            outside.transaction = segment.transaction_of(number)
            raise outside from None
        # Each inner event is decided for itself, so that the filters' verdicts about undecided statements count.
        columns = columns._replace(txn_subject=np.full_like(inner.txn_subject, R.MIXED))
    plan = _plan(flags, inner, columns)
    undecided = plan.counts.events_undecided + len(withheld)
    if not plan.size:
        return KeptPayload(0, undecided, hits=plan.hits)
    if plan.size == inner.end:
        return KeptPayload(size, undecided, hits=plan.hits)
    with _turns if inner.end > _LARGE else nullcontext():
        kept = render(plan, opened(), 0, no_file, inner.format_description)
        closed = close_payload(kept, source(), fd)
    return KeptPayload(len(closed), undecided, closed, plan.hits)


def sent_inside(flags: TableFlags, segment: Segment, number: int) -> npt.NDArray[np.bool_]:
    """Return for each event inside a compressed transaction whether a filter sends the event, bool. The transaction
    must be one of which the filter sends a part.

    ``flags`` are the filter's decisions about each table and statement, without imposed filters (filters that the
    master's operator sets for a slave). ``number`` is the number of the Transaction_payload event in the segment (a
    part of a binlog file).
    """
    assert not flags.boundary
    inner = segment.payloads[number]
    return holds(_plan(flags, inner, columns_of(inner)).ranges, inner.offset)


def _plan(flags: TableFlags, inner: Segment, columns: Columns) -> ChunkPlan:
    """Return the plan (the byte ranges to send) for the events inside a compressed transaction. ``inner`` are these
    events, scanned into arrays. ``columns`` are the arrays of ``inner``, in which events that an imposed filter (set by
    the master's operator) forbids are already marked. ``flags`` are the filter's decisions about tables and statements.
    """
    (decided,) = decide(inner.file, columns, [Asked(flags, 0, WHOLE_SEGMENT, inner.start, 0)])
    (plan,) = decided.plans
    return plan


def open_payload(event: bytes, fd: FormatDescription) -> bytes:
    """Return the uncompressed events that a Transaction_payload event holds.

    ``event`` is the whole event with its header, and ``fd`` the format description event of its file. Raises
    BinlogCorrupt if the event cannot be decoded or decompressed.
    """
    return decode_transaction_payload(fd.body(event)).open()


def close_payload(events: bytes, source: bytes, fd: FormatDescription) -> bytes:
    """Return a new Transaction_payload event that holds ``events``, a part of the events in the original event
    ``source``. ``fd`` is the file's format description event.

    The new event takes the header and end_log_pos of ``source``. Callers send the new event even if it is longer than
    ``source``, because not every reader filters the events inside ``source`` itself. Examples are a slave behind a
    slave, and a slave with ``FILTER_ON = 'MASTER'``.

    Raises BinlogUnsupported if the new event would be larger than any event may be.
    """
    compression = decode_transaction_payload(fd.body(source)).compression
    body = encode_transaction_payload(events, compression=compression)
    if HEADER_LENGTH + len(body) + fd.checksum_length > _LARGEST_EVENT:
        raise BinlogUnsupported("the part of a compressed transaction to send does not fit into one event")
    return with_body(EventHeader.unpack(source), body, checksum=fd.checksum)
