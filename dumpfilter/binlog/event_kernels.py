"""The compiled loops that copy events to another position of a file, or insert Gap events between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_IGNORABLE_F, EventType
from dumpfilter.binlog.native import copy_bytes, load_u32, store_u8, store_u16, store_u32, store_u64

_U = np.uintp


class GapColumns(NamedTuple):
    """The gaps in one message from the master, in columns. A gap is a note about consecutive transactions that the
    master dropped.

    ``offset`` has the byte offset of each gap in the message, and ``end`` the offset after the dropped transactions in
    the master's binlog file. The ``run_*`` columns have one entry for each interval of dropped GTIDs, and the ``hit_*``
    columns one for each count of rule hits (matches). A gap's entries end before the index in ``runs_until`` and
    ``hits_until``.
    """

    offset: Int64s
    """For each gap, the byte offset in the chunk's events at which its Gap event is inserted."""
    end: Int64s
    """The byte offset in the master's binlog file after each gap. 0 for a gap that stands for no transaction: it only
    has hits (uses of filter rules) of the transaction that continues or follows there.
    """
    runs_until: Int64s
    """For each gap, the index after its last run in the columns of runs. Its first run follows the last run of the gap
    before.
    """
    run_source: Int64s
    """For each run of GTIDs, the index of its GTID source in :class:`Sources`."""
    run_first: Int64s
    run_last: Int64s
    hits_until: Int64s
    """For each gap, the index after its last entry in ``hit_kind`` and ``hit_count``."""
    hit_kind: Int64s
    """For each count of hits (uses of filter rules), the number by which the protocol names the kind of rule."""
    hit_count: Int64s


class Sources(NamedTuple):
    """The GTID sources (server UUID with tag, or domain id and server id) of the dropped transactions in one message
    from the master. Their binary forms lie one after another in one buffer.
    """

    data: Bytes
    """The binary forms of all GTID sources, one after another."""
    offset: Int64s
    """The offset in ``data`` of each GTID source, and at the end the length of ``data``."""


@kernel
def with_gaps(
    events: Bytes,
    sources: Sources,
    gaps: GapColumns,
    prefix: Bytes,
    server_id: np.uint32,
    checksum: bool,
    out: Bytes,
):
    """Copy ``events`` to ``out`` with a Gap event (a note about dropped transactions) inserted at each byte offset in
    ``gaps.offset``. Return the number of bytes written.

    ``prefix`` is the beginning of every Gap event's body: signature, version and kind.
    """
    source, at = _U(events.ctypes.data), _U(out.ctypes.data)
    begin_of_out = at
    names = _U(sources.data.ctypes.data)
    done = run = hit = np.int64(0)
    for g in range(gaps.offset.size):
        size = gaps.offset[g] - done
        copy_bytes(at, source + _U(done), _U(size))
        done = gaps.offset[g]
        event = at + _U(size)
        at = event + _U(HEADER_LENGTH)
        copy_bytes(at, _U(prefix.ctypes.data), _U(prefix.size))
        at += _U(prefix.size)
        store_u64(at, np.uint64(gaps.end[g]))
        store_u16(at + _U(8), np.uint16(gaps.hits_until[g] - hit))
        store_u32(at + _U(10), np.uint32(gaps.runs_until[g] - run))
        at += _U(14)
        while hit < gaps.hits_until[g]:
            store_u8(at, np.uint8(gaps.hit_kind[hit]))
            store_u64(at + _U(1), np.uint64(gaps.hit_count[hit]))
            at += _U(9)
            hit += 1
        while run < gaps.runs_until[g]:
            s = gaps.run_source[run]
            length = _U(sources.offset[s + 1] - sources.offset[s])
            store_u8(at, np.uint8(length))
            copy_bytes(at + _U(1), names + _U(sources.offset[s]), length)
            at += _U(1) + length
            store_u64(at, np.uint64(gaps.run_first[run]))
            store_u64(at + _U(8), np.uint64(gaps.run_last[run]))
            at += _U(16)
            run += 1
        store_u32(event, np.uint32(0))
        store_u8(event + _U(4), np.uint8(EventType.IGNORABLE))
        store_u32(event + _U(5), np.uint32(server_id))
        store_u32(event + _U(9), np.uint32(at - event + _U(4 if checksum else 0)))
        store_u32(event + _U(13), np.uint32(np.uint64(gaps.end[g]) & np.uint64(0xFFFFFFFF)))
        store_u16(event + _U(17), np.uint16(LOG_EVENT_IGNORABLE_F))
        if checksum:
            store_u32(at, crc32(event, at - event))
            at += _U(4)
    copy_bytes(at, source + _U(done), _U(events.size - done))
    return np.int64(at - begin_of_out) + events.size - done


@kernel
def rebase(data: Bytes, position: int, checksum: bool, fill: bool):
    """Rewrite the end_log_pos and the checksums of consecutive events in place, for a file in which they begin at
    ``position``.

    ``data`` (uint8) has the events, and ``checksum`` tells whether they have checksums. Without ``fill``, an
    end_log_pos of 0 stays 0, because MariaDB 11.8 writes 0 for the events inside a transaction. Return -1 when all
    events are whole. Otherwise return the offset of the first event that is incomplete or too short, and leave it
    unchanged.
    """
    base = _U(data.ctypes.data)
    at = np.int64(0)
    while at < data.size:
        if at + 19 > data.size:
            return at
        length = np.int64(load_u32(base + _U(at + 9)))
        if length < 19 + (4 if checksum else 0) or at + length > data.size:
            return at
        if fill or load_u32(base + _U(at + 13)):
            store_u32(base + _U(at + 13), np.uint32(position + at + length))
        if checksum:
            store_u32(base + _U(at + length - 4), crc32(base + _U(at), _U(length - 4)))
        at += length
    return np.int64(-1)
