"""The compiled loops that move events to another position of a file, and that insert Gap events (a relay log's notes
about dropped transactions) between events.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.compiler.kernels import inlined, kernel
from dumpfilter.binlog.crc32 import MOST_ZEROS, crc32, shifted
from dumpfilter.binlog.gap_columns import GapColumns
from dumpfilter.binlog.native import copy_bytes, load_u32, prefetch_ahead, store_u8, store_u32

_U = np.uintp


@kernel
def rebase(data: Bytes, position: int, checksum: bool, is_new: bool):
    """Rewrite the end_log_pos and the checksums of consecutive events in place, for a file in which they begin at
    ``position``.

    ``data`` (uint8) has the events. ``position`` is a byte offset in the file, and ``checksum`` tells whether events
    end in a CRC32. With ``is_new`` each end_log_pos and checksum is computed anew. Otherwise an end_log_pos of 0 stays
    0, because MariaDB 11.8 writes 0 for the events inside a transaction. Then also a wrong checksum stays wrong.

    Return -1 when all events are whole. Otherwise return the offset in ``data`` of the first event that is incomplete
    or too short. This event and those after it stay unchanged.
    """
    base = _U(data.ctypes.data)
    at = np.int64(0)
    fetched = np.int64(0)
    while at < data.size:
        if at + 19 > data.size:
            return at
        fetched = prefetch_ahead(data, fetched, at)
        length = np.int64(load_u32(base + _U(at + 9)))
        if length < 19 + (4 if checksum else 0) or at + length > data.size:
            return at
        before = load_u32(base + _U(at + 13))
        after = np.uint32(position + at + length) if is_new or before else before
        store_u32(base + _U(at + 13), after)
        end = base + _U(at + length - 4)
        if checksum and is_new:
            store_u32(end, crc32(base + _U(at), _U(length - 4)))
        elif checksum:
            # CRC32 is linear: the change of a field changes the checksum, whatever the other bytes are.
            change, zeros = before ^ after, length - 17
            while zeros > MOST_ZEROS:
                change = shifted(change, MOST_ZEROS)
                zeros -= MOST_ZEROS
            store_u32(end, load_u32(end) ^ shifted(change, zeros))
        at += length
    return np.int64(-1)


@inlined
def _put(target, source, length):
    """Copy ``length`` bytes from the address ``source`` to the address ``target``, and return the address after the
    copy.
    """
    copy_bytes(target, source, length)
    return target + length


@kernel
def insert_gaps(
    events: Bytes,
    gaps: GapColumns,
    head: Bytes,
    sources: Bytes,
    source_ends: Int64s,
    checksum: bool,
    out: Bytes,
):
    """Copy ``events`` to ``out`` (both uint8), and insert a Gap event for each of ``gaps``. A Gap event is a note in a
    relay log about transactions that the master dropped. Return the number of bytes written to ``out``.

    ``head`` has the bytes with which each Gap event begins: common header, signature, version and kind. The loop fills
    in the event's length and end_log_pos. ``sources`` has the GTID sources (such as server UUIDs) one after another,
    each after a byte with its length. ``source_ends`` has the offset after each source. ``checksum`` tells whether a
    Gap event ends in a CRC32.
    """
    here, told = _U(events.ctypes.data), _U(sources.ctypes.data)
    first, last = _U(gaps.run_first.ctypes.data), _U(gaps.run_last.ctypes.data)
    end, count = _U(gaps.end.ctypes.data), _U(gaps.hit_count.ctypes.data)
    at = begin = _U(out.ctypes.data)
    done = run = hit = np.int64(0)
    for gap in range(gaps.offset.size):
        event = at = _put(at, here + _U(done), _U(gaps.offset[gap] - done))
        done = gaps.offset[gap]
        at = _put(at, _U(head.ctypes.data), _U(head.size))
        at = _put(at, end + _U(8 * gap), _U(8))
        hits = gaps.hits_until[gap] - hit
        store_u8(at, np.uint8(hits & 0xFF))
        store_u8(at + _U(1), np.uint8(hits >> 8))
        store_u32(at + _U(2), np.uint32(gaps.runs_until[gap] - run))
        at += _U(6)
        while hit < gaps.hits_until[gap]:
            store_u8(at, np.uint8(gaps.hit_kind[hit]))
            at = _put(at + _U(1), count + _U(8 * hit), _U(8))
            hit += 1
        while run < gaps.runs_until[gap]:
            source = gaps.run_source[run]
            source_at = source_ends[source - 1] if source else np.int64(0)
            at = _put(at, told + _U(source_at), _U(source_ends[source] - source_at))
            at = _put(_put(at, first + _U(8 * run), _U(8)), last + _U(8 * run), _U(8))
            run += 1
        store_u32(event + _U(9), np.uint32(at - event + _U(4 if checksum else 0)))
        store_u32(event + _U(13), np.uint32(gaps.end[gap] & 0xFFFFFFFF))
        if checksum:
            store_u32(at, crc32(event, at - event))
            at += _U(4)
    at = _put(at, here + _U(done), _U(events.size - done))
    return np.int64(at - begin)
