# mypy: ignore-errors
"""Compiled loops over a slave's relay log: the writer's positions, and the transactions that Gap events tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.gap_events import (
    GAP_END_AT,
    GAP_HIT_LENGTH,
    GAP_HITS_AT,
    GAP_KIND_AT,
    GAP_LENGTH,
    GAP_NUMBERS_LENGTH,
    GAP_RUNS_AT,
    KIND_GAP,
    SIGNATURE,
)
from dumpfilter.binlog.native import copy_bytes, load_u8, load_u16, load_u32, load_u64, store_u32, store_u64
from dumpfilter.compiler.kernels import njit

_U = np.uintp
_HEADER = HEADER_LENGTH
_CHECKSUM = CHECKSUM_LENGTH
_GTID = int(EventType.GTID)
_GTID_TAGGED = int(EventType.GTID_TAGGED)
_IGNORABLE = int(EventType.IGNORABLE)
_ROTATE = int(EventType.ROTATE)
_SIGNATURE = int.from_bytes(SIGNATURE, "little")

# The offsets of the common header's fields.
_TYPE_AT = 4
_SIZE_AT = 9
_END_LOG_POS_AT = 13
_FLAGS_AT = 17

# The offsets of a Gtid event's fields from the event's begin.
_TIMES_CODE_AT = _HEADER + 25
_LAST_COMMITTED_AT = _HEADER + 26
_SEQUENCE_AT = _HEADER + 34
_GNO_AT = _HEADER + 17
_COMMIT_TIME_AT = _HEADER + 42
_TIMES_CODE = 2
_GTID_LENGTH_57 = _HEADER + 42
"""The length of a Gtid event of MySQL 5.7 without its checksum. Later versions append fields."""

# The ids of a GTID_TAGGED event's fields.
_FIELD_UUID = 1
_FIELD_TAG = 3
_FIELD_SEQUENCE = 5

LOOKED_AT = 4096
"""The bytes of an event that a walk looks at, if the event is no Gap event. An event may have a gigabyte."""

_OWN = -1
"""The value in place of a number for a transaction that has events in the relay log."""


class Point(NamedTuple):
    """The state of a walk through a relay log file, each an array of one int64 that the walk changes."""

    offset: np.ndarray
    """The offset in the relay log file up to which the walk has come."""
    sequence: np.ndarray
    """The sequence_number of the newest transaction, with the transactions that Gap events tell."""
    end: np.ndarray
    """The position in the writer's binlog file."""
    time: np.ndarray
    """The time of the newest event of a server, Unix seconds."""


class Places(NamedTuple):
    """The facts that are known at the begin and at the end of each transaction of a segment, int64 of shape (n,)."""

    sequence: np.ndarray
    before: np.ndarray
    end: np.ndarray
    time: np.ndarray


@njit(cache=True, nogil=True, inline="always")
def _varlen(base, at, end):
    """Return an unsigned integer of ``mysql::serialization`` and the offset after it; -1 for the offset at the end."""
    if at >= end:
        return np.uint64(0), np.int64(-1)
    first = np.uint64(load_u8(base + _U(at)))
    extra = np.int64(0)
    while extra < 8 and first & (np.uint64(1) << np.uint64(extra)):
        extra += 1
    if at + 1 + extra > end:
        return np.uint64(0), np.int64(-1)
    value = np.uint64(0)
    for k in range(extra):
        value |= np.uint64(load_u8(base + _U(at + 1 + k))) << np.uint64(8 * k)
    if extra < 8:
        # The first byte has the lowest bits of the value above its 1 bits and the 0 bit after them.
        value = (value << np.uint64(7 - extra)) | (first >> np.uint64(extra + 1))
    return value, np.int64(at + 1 + extra)


@njit(cache=True, nogil=True)
def _tagged_sequence(base, at, end):
    """Return the sequence_number of a GTID_TAGGED event whose body lies from ``at`` to ``end``; 0 without one."""
    for _ in range(3):
        _, at = _varlen(base, at, end)
        if at < 0:
            return np.int64(0)
    while at < end:
        field, at = _varlen(base, at, end)
        if at < 0 or field > np.uint64(_FIELD_SEQUENCE):
            return np.int64(0)
        if field == np.uint64(_FIELD_UUID):
            for _ in range(16):
                _, at = _varlen(base, at, end)
                if at < 0:
                    return np.int64(0)
            continue
        value, at = _varlen(base, at, end)
        if at < 0:
            return np.int64(0)
        if field == np.uint64(_FIELD_TAG):
            at += np.int64(value)
        elif field == np.uint64(_FIELD_SEQUENCE):
            return np.int64(value >> np.uint64(1))
    return np.int64(0)


@njit(cache=True, nogil=True, inline="always")
def _is_signed(base, at, body_end):
    """Tell whether an Ignorable event is a Gap event or a head event of a relay log."""
    body = at + _HEADER
    return body_end - body > GAP_KIND_AT and load_u64(base + _U(body)) == np.uint64(_SIGNATURE)


@njit(cache=True, nogil=True, inline="always")
def _told(base, at, body_end):
    """Return the number of GTIDs that a Gap event tells, or -1 for a malformed event."""
    body = at + _HEADER
    n_hits = np.int64(load_u16(base + _U(body + GAP_HITS_AT)))
    n_runs = np.int64(load_u32(base + _U(body + GAP_RUNS_AT)))
    place = body + GAP_LENGTH + n_hits * GAP_HIT_LENGTH
    told = np.int64(0)
    for _ in range(n_runs):
        if place + 1 > body_end:
            return np.int64(-1)
        place += 1 + np.int64(load_u8(base + _U(place)))
        if place + GAP_NUMBERS_LENGTH > body_end:
            return np.int64(-1)
        first = np.int64(load_u64(base + _U(place)))
        last = np.int64(load_u64(base + _U(place + 8)))
        if first < 1 or last < first:
            return np.int64(-1)
        told += last - first + 1
        place += GAP_NUMBERS_LENGTH
    return told


@njit(cache=True, nogil=True)
def walk(data, length, checksum, point, starts, places):
    """Walk through events of a relay log file, from ``point`` on, and note the places of transactions.

    ``data`` (uint8) has the first bytes of the ``length`` bytes that follow ``point``. Of an event that is no Gap event
    the walk needs only the first bytes (``LOOKED_AT``). ``starts`` has the offsets in the file at which transactions
    begin, ascending. At each of them the walk notes the state before in ``places``, and the position after the
    transaction when the next one begins or the walk ends. The walk ends before an event that lies beyond ``length``, or
    of which ``data`` does not have enough. Return -1, or the offset of an event with an impossible length or a
    malformed Gap event.
    """
    base = _U(data.ctypes.data)
    first = point.offset[0]
    sequence, end, time = point.sequence[0], point.end[0], point.time[0]
    tail = _CHECKSUM if checksum else 0
    at = np.int64(0)
    k = np.int64(0)
    wrong = np.int64(-1)
    while k < starts.size and starts[k] < first:
        k += 1
    while at + _HEADER <= data.size:
        size = np.int64(load_u32(base + _U(at + _SIZE_AT)))
        if size < _HEADER + tail or size > 0x7FFFFFFF:
            wrong = first + at
            break
        kind = load_u8(base + _U(at + _TYPE_AT))
        looked_at = size if kind == _IGNORABLE else min(size, np.int64(LOOKED_AT))
        if at + size > length or at + looked_at > data.size:
            break
        if k < starts.size and starts[k] == first + at:
            if k > 0:
                places.end[k - 1] = end
            places.sequence[k], places.before[k], places.time[k] = sequence, end, time
            k += 1
        body_end = at + size - tail
        if kind == _IGNORABLE and _is_signed(base, at, body_end):
            is_gap = load_u8(base + _U(at + _HEADER + GAP_KIND_AT)) == KIND_GAP
            if is_gap and body_end - at < _HEADER + GAP_LENGTH:
                wrong = first + at
                break
            after = load_u64(base + _U(at + _HEADER + GAP_END_AT)) if is_gap else np.uint64(0)
            if after:
                told = _told(base, at, body_end)
                if told < 0:
                    wrong = first + at
                    break
                end = np.int64(after)
                sequence += told
        elif kind == _ROTATE and load_u16(base + _U(at + _FLAGS_AT)) & LOG_EVENT_ARTIFICIAL_F:
            end = np.int64(load_u64(base + _U(at + _HEADER)))
        else:
            number = np.int64(0)
            if kind == _GTID and size >= _GTID_LENGTH_57 + tail:
                if load_u8(base + _U(at + _TIMES_CODE_AT)) == _TIMES_CODE:
                    number = np.int64(load_u64(base + _U(at + _SEQUENCE_AT)))
            elif kind == _GTID_TAGGED:
                number = _tagged_sequence(base, at + _HEADER, min(body_end, at + looked_at))
            sequence = number if number > 0 else sequence
            seconds = np.int64(load_u32(base + _U(at)))
            time = seconds if seconds else time
            low = np.int64(load_u32(base + _U(at + _END_LOG_POS_AT)))
            # MariaDB 11.8 writes 0 for events inside a transaction. A replica then adds the length.
            end += (low - end) & np.int64(0xFFFFFFFF) if low else size
        at += size
    if k > 0:
        places.end[k - 1] = end
    point.offset[0], point.sequence[0], point.end[0], point.time[0] = first + at, sequence, end, time
    return wrong


class GapColumns(NamedTuple):
    """The gaps of one chunk that tell where which transactions were dropped (:class:`~dumpfilter.dump.gaps.Gaps`)."""

    offset: np.ndarray
    runs_until: np.ndarray
    runs: np.ndarray


class Transactions(NamedTuple):
    """The transactions of a segment of a relay log, with the runs of GTIDs that its Gap events tell."""

    source: np.ndarray
    number: np.ndarray
    gap: np.ndarray
    """The numbers of the transactions that stand for Gap events, ascending."""
    runs_until: np.ndarray
    runs: np.ndarray


class Records(NamedTuple):
    """Runs of dropped transactions, in the order of the stream, int64 of shape (n,)."""

    place: np.ndarray
    source: np.ndarray
    first: np.ndarray
    last: np.ndarray
    transaction: np.ndarray
    """The number of the transaction, or of the one that stands for the Gap event."""
    before: np.ndarray
    """The number of GTIDs of the Gap event before the run; -1 for a transaction with events in the relay log."""


@njit(cache=True, nogil=True)
def match(gaps, found, first, until, out):
    """Find the transactions and the Gap events that tell the GTIDs of a chunk's gaps.

    The chunk has the transactions from number ``first`` up to, but without, ``until``. Return the number of records, or
    -1 when these transactions lack a GTID.
    """
    t = np.int64(first)
    d = np.int64(np.searchsorted(found.gap, t))
    r = found.runs_until[d - 1] if d else np.int64(0)
    passed = np.int64(0)
    n = np.int64(0)
    run = np.int64(0)
    for g in range(gaps.offset.size):
        while run < gaps.runs_until[g]:
            source, number, last = gaps.runs[run, 0], gaps.runs[run, 1], gaps.runs[run, 2]
            run += 1
            while number <= last:
                if t >= until:
                    return np.int64(-1)
                if d < found.gap.size and found.gap[d] == t:
                    if r >= found.runs_until[d]:
                        t, d, passed = t + 1, d + 1, np.int64(0)
                        continue
                    low, high = found.runs[r, 1], found.runs[r, 2]
                    if found.runs[r, 0] != source or number < low or number > high:
                        passed += high - low + 1
                        r += 1
                        continue
                    end = min(last, high)
                    out.place[n], out.source[n], out.first[n], out.last[n] = (
                        gaps.offset[g],
                        source,
                        number,
                        end,
                    )
                    out.transaction[n], out.before[n] = t, passed + number - low
                    n += 1
                    number = end + 1
                    continue
                if found.source[t] == source and found.number[t] == number:
                    out.place[n], out.source[n], out.first[n], out.last[n] = (
                        gaps.offset[g],
                        source,
                        number,
                        number,
                    )
                    out.transaction[n], out.before[n] = t, _OWN
                    n += 1
                    number += 1
                t += 1
    return n


@njit(cache=True, nogil=True)
def write_gtids(template, has_times, has_commit_time, checksum, first, count, sequence, time, out, at):
    """Write ``count`` Gtid events with consecutive numbers into ``out`` from offset ``at`` on. Return the offset after.

    ``template`` is one such event. Its last_committed is 0, since a transaction without changes waits for no other.
    ``sequence`` is the sequence_number of the first event.
    """
    source = _U(template.ctypes.data)
    target = _U(out.ctypes.data)
    size = template.size
    for k in range(count):
        event = target + _U(at)
        copy_bytes(event, source, _U(size))
        store_u32(event, np.uint32(time))
        store_u64(event + _U(_GNO_AT), np.uint64(first + k))
        if has_times:
            store_u64(event + _U(_SEQUENCE_AT), np.uint64(sequence + k))
        if has_commit_time:
            # The time has 7 bytes. The byte after it belongs to the template.
            after = load_u8(source + _U(_COMMIT_TIME_AT + 7))
            word = np.uint64(time) * np.uint64(1_000_000) | np.uint64(after) << np.uint64(56)
            store_u64(event + _U(_COMMIT_TIME_AT), word)
        if checksum:
            store_u32(event + _U(size - _CHECKSUM), crc32(event, _U(size - _CHECKSUM)))
        at += size
    return at
