# mypy: ignore-errors
"""Compiled loops over the transactions that the Gap events of a slave's relay log tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH
from dumpfilter.binlog.native import copy_bytes, load_u8, store_u32, store_u64
from dumpfilter.compiler.kernels import njit

_U = np.uintp
_CHECKSUM = CHECKSUM_LENGTH

# The offsets of a Gtid event's fields from the event's begin.
_SEQUENCE_AT = HEADER_LENGTH + 34
_GNO_AT = HEADER_LENGTH + 17
_COMMIT_TIME_AT = HEADER_LENGTH + 42

_OWN = -1
"""The value in place of a number for a transaction that has events in the relay log."""


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
