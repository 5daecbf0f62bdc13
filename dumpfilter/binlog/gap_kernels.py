# mypy: ignore-errors
"""The compiled loop that writes Gap events between the events of a chunk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.native import copy_bytes
from dumpfilter.compiler.kernels import njit

_HEADER = 19
_IGNORABLE = 28
_IGNORABLE_FLAG = 0x80


@njit(cache=True, nogil=True, inline="always")
def _put(out, at, value, size):
    """Write the ``size`` low bytes of ``value``, little-endian, at offset ``at``. Return the offset after them."""
    rest = np.uint64(value)
    for k in range(size):
        out[at + k] = np.uint8(rest & np.uint64(0xFF))
        rest >>= np.uint64(8)
    return at + size


class Sources(NamedTuple):
    """The GTID sources of a chunk's gaps."""

    data: np.ndarray
    """The bytes of all sources, one after another."""
    offset: np.ndarray
    """The offset of each source in ``data``, and the length of ``data``."""


class Columns(NamedTuple):
    """The columns of a chunk's gaps, as :class:`~dumpfilter.binlog.gap_events.GapColumns` describes them."""

    offset: np.ndarray
    end: np.ndarray
    runs_until: np.ndarray
    run_source: np.ndarray
    run_first: np.ndarray
    run_last: np.ndarray
    hits_until: np.ndarray
    hit_kind: np.ndarray
    hit_count: np.ndarray


@njit(cache=True, nogil=True)
def with_gaps(events, sources, gaps, prefix, server_id, checksum, out):
    """Copy ``events`` to ``out`` with a Gap event at each place in ``offset``, and return the number of bytes.

    ``sources`` has the GTID sources, and ``gaps`` the columns of the gaps. ``prefix`` is the first part of the body.
    """
    source = np.uintp(events.ctypes.data)
    target = np.uintp(out.ctypes.data)
    at = np.int64(0)
    done = np.int64(0)
    run = np.int64(0)
    hit = np.int64(0)
    for g in range(gaps.offset.size):
        size = gaps.offset[g] - done
        copy_bytes(target + np.uintp(at), source + np.uintp(done), np.uintp(size))
        at += size
        done = gaps.offset[g]
        begin = at
        at = begin + _HEADER
        for k in range(prefix.size):
            out[at + k] = prefix[k]
        at += prefix.size
        at = _put(out, at, gaps.end[g], 8)
        at = _put(out, at, gaps.hits_until[g] - hit, 2)
        at = _put(out, at, gaps.runs_until[g] - run, 4)
        while hit < gaps.hits_until[g]:
            at = _put(out, at, gaps.hit_kind[hit], 1)
            at = _put(out, at, gaps.hit_count[hit], 8)
            hit += 1
        while run < gaps.runs_until[g]:
            s = gaps.run_source[run]
            length = sources.offset[s + 1] - sources.offset[s]
            at = _put(out, at, length, 1)
            for k in range(length):
                out[at + k] = sources.data[sources.offset[s] + k]
            at += length
            at = _put(out, at, gaps.run_first[run], 8)
            at = _put(out, at, gaps.run_last[run], 8)
            run += 1
        total = at - begin + (4 if checksum else 0)
        _put(out, begin, 0, 4)
        _put(out, begin + 4, _IGNORABLE, 1)
        _put(out, begin + 5, server_id, 4)
        _put(out, begin + 9, total, 4)
        _put(out, begin + 13, gaps.end[g], 4)
        _put(out, begin + 17, _IGNORABLE_FLAG, 2)
        if checksum:
            at = _put(out, at, crc32(target + np.uintp(begin), np.uintp(at - begin)), 4)
    size = events.size - done
    copy_bytes(target + np.uintp(at), source + np.uintp(done), np.uintp(size))
    return at + size


@njit(cache=True, nogil=True)
def whole_events(events, begin, smallest):
    """Return the offset after the last whole event, in events that begin at offset ``begin``.

    ``smallest`` is the length of the smallest event. Return -1 - offset of the first event with an impossible length.
    """
    at = np.int64(begin)
    while at + _HEADER <= events.size:
        length = np.int64(0)
        for k in range(4):
            length |= np.int64(events[at + 9 + k]) << np.int64(8 * k)
        if length < smallest or length > 0x7FFFFFFF:
            return np.int64(-1) - at
        if at + length > events.size:
            break
        at += length
    return at
