# mypy: ignore-errors
"""Compiled loops that find dropped transactions in a segment, and write their stand-ins between a chunk's events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.binlog.gtid_events import FL_ALLOW_PARALLEL, FL_TRANSACTIONAL
from dumpfilter.binlog.native import copy_bytes, load_u8, load_u32, store_u8, store_u16, store_u32, store_u64
from dumpfilter.compiler.kernels import njit

_U = np.uintp
_HEADER = HEADER_LENGTH
_CHECKSUM = CHECKSUM_LENGTH
_GTID = int(EventType.GTID)
_GTID_TAGGED = int(EventType.GTID_TAGGED)
_MARIADB_GTID = int(EventType.MARIADB_GTID)
_XID = int(EventType.XID)
_QUERY = int(EventType.QUERY)
_EMPTY_FLAGS = FL_TRANSACTIONAL | FL_ALLOW_PARALLEL

XID_LENGTH = HEADER_LENGTH + 8
"""The length of an Xid event without its checksum, bytes."""

BEGIN_LENGTH = HEADER_LENGTH + 13 + len(b"\0BEGIN")
"""The length of a Query event BEGIN without database, status variables and checksum, bytes."""

MARIADB_GTID_LENGTH = HEADER_LENGTH + 19
"""The length of a Gtid event of MariaDB without a commit id, an xid and a checksum, bytes."""

# The offsets of the common header's fields.
_TYPE_AT = 4
_SERVER_ID_AT = 5
_SIZE_AT = 9
_END_LOG_POS_AT = 13
_FLAGS_AT = 17

# The columns of a run of consecutive GTIDs, as in ``ChunkPlan.completed``.
_RUN_SOURCE = 0
_RUN_FIRST = 1
_RUN_LAST = 2

PLACE_WRONG = -1
"""The result of a kernel for a stand-in that does not lie in the chunk, or before the stand-in before."""

GTID_WRONG = -2
"""The result of a kernel when the bytes of a Gtid event are none."""


class GapColumns(NamedTuple):
    """The gaps of one chunk that tell where which transactions were dropped (:class:`~dumpfilter.dump.gaps.Gaps`)."""

    offset: np.ndarray
    end: np.ndarray
    runs_until: np.ndarray
    runs: np.ndarray


@njit(cache=True, nogil=True)
def find_dropped(gaps, start, sources, numbers, transaction, place):
    """Find the transactions of a segment that the gaps of one chunk name.

    A gap tells the position after its last transaction. The search goes backwards from there, because a binlog may have
    the same GTID twice. ``start`` has the position of each transaction of the segment, ``sources`` and ``numbers`` its
    GTID. Write each dropped transaction's number into ``transaction`` and the gap's offset into ``place``, in the
    stream's order. Return the number of dropped transactions that the segment lacks, which is 0 if all is well.
    """
    k = transaction.size
    for g in range(gaps.offset.size - 1, -1, -1):
        first_run = gaps.runs_until[g - 1] if g else np.int64(0)
        if first_run == gaps.runs_until[g]:
            continue
        t = np.int64(np.searchsorted(start, gaps.end[g])) - 1
        for r in range(gaps.runs_until[g] - 1, first_run - 1, -1):
            source = gaps.runs[r, _RUN_SOURCE]
            for number in range(gaps.runs[r, _RUN_LAST], gaps.runs[r, _RUN_FIRST] - 1, -1):
                while t >= 0 and not (sources[t] == source and numbers[t] == number):
                    t -= 1
                if t < 0:
                    return k
                k -= 1
                transaction[k] = t
                place[k] = gaps.offset[g]
                t -= 1
    return k


@njit(cache=True, nogil=True)
def last_of_domains(transaction, place, sources, domain_of, is_last):
    """Mark the dropped transactions that no other dropped one of their domain follows at the same place of the chunk.

    ``transaction`` has the numbers of the dropped transactions, ascending, and ``place`` their places among the events.
    ``domain_of`` has the domain of each GTID source.
    """
    domains = np.empty(16, np.int64)
    n_domains = np.int64(0)
    for k in range(transaction.size - 1, -1, -1):
        if k + 1 < transaction.size and place[k] != place[k + 1]:
            n_domains = np.int64(0)
        domain = domain_of[sources[transaction[k]]]
        is_known = False
        for d in range(n_domains):
            is_known = is_known or domains[d] == domain
        if not is_known:
            if n_domains == domains.size:
                domains = np.concatenate((domains, domains))
            domains[n_domains] = domain
            n_domains += 1
            is_last[k] = True


@njit(cache=True, nogil=True, inline="always")
def _put_header(at, timestamp, kind, server_id, size, end_log_pos):
    """Write a common header without flags at an address."""
    store_u32(at, np.uint32(timestamp))
    store_u8(at + _U(_TYPE_AT), np.uint8(kind))
    store_u32(at + _U(_SERVER_ID_AT), np.uint32(server_id))
    store_u32(at + _U(_SIZE_AT), np.uint32(size))
    store_u32(at + _U(_END_LOG_POS_AT), np.uint32(np.uint64(end_log_pos) & np.uint64(0xFFFFFFFF)))
    store_u16(at + _U(_FLAGS_AT), np.uint16(0))


@njit(cache=True, nogil=True, inline="always")
def _put_xid(at, timestamp, server_id, end, checksum):
    """Write the Xid event that ends a stand-in at an address, and return the address after the event."""
    size = XID_LENGTH + (_CHECKSUM if checksum else 0)
    _put_header(at, timestamp, _XID, server_id, size, end)
    store_u64(at + _U(_HEADER), np.uint64(0))
    if checksum:
        store_u32(at + _U(XID_LENGTH), crc32(at, _U(XID_LENGTH)))
    return at + _U(size)


_BEGIN_AT = BEGIN_LENGTH - len(b"BEGIN")
_BEGI = int.from_bytes(b"BEGI", "little")


@njit(cache=True, nogil=True, inline="always")
def _put_begin(at, timestamp, server_id, end, checksum):
    """Write a Query event BEGIN at an address, and return the address after the event."""
    size = BEGIN_LENGTH + (_CHECKSUM if checksum else 0)
    _put_header(at, timestamp, _QUERY, server_id, size, end)
    # The thread, the time, the lengths of database and status variables, the error code and the database are 0.
    store_u64(at + _U(_HEADER), np.uint64(0))
    store_u64(at + _U(_BEGIN_AT - 8), np.uint64(0))
    store_u32(at + _U(_BEGIN_AT), np.uint32(_BEGI))
    store_u8(at + _U(_BEGIN_AT + 4), np.uint8(ord("N")))
    if checksum:
        store_u32(at + _U(BEGIN_LENGTH), crc32(at, _U(BEGIN_LENGTH)))
    return at + _U(size)


class MysqlEmpties(NamedTuple):
    """The stand-ins of one chunk, with the bytes of their Gtid events."""

    place: np.ndarray
    end: np.ndarray
    gtids: np.ndarray
    """Bytes that contain the Gtid events."""
    gtid_at: np.ndarray
    """The offset of each Gtid event in ``gtids``."""
    gtid_size: np.ndarray


@njit(cache=True, nogil=True)
def write_mysql(events, empties, checksum, out):
    """Copy ``events`` to ``out`` with a Gtid event, a BEGIN and an Xid event at each place.

    ``out`` has room for all. Return the number of bytes, or PLACE_WRONG or GTID_WRONG. The events of a stand-in are
    written together or not at all, because a replica crashes at a Gtid event that nothing follows.
    """
    source = _U(events.ctypes.data)
    gtids = _U(empties.gtids.ctypes.data)
    target = _U(out.ctypes.data)
    at = target
    done = np.int64(0)
    xid_size = XID_LENGTH + (_CHECKSUM if checksum else 0)
    for k in range(empties.place.size):
        size = empties.place[k] - done
        if size < 0 or empties.place[k] > events.size:
            return np.int64(PLACE_WRONG)
        if size:
            copy_bytes(at, source + _U(done), _U(size))
            at += _U(size)
            done += size
        gtid_size = empties.gtid_size[k]
        first = empties.gtid_at[k]
        if gtid_size < _HEADER or first < 0 or first + gtid_size > empties.gtids.size:
            return np.int64(GTID_WRONG)
        gtid = gtids + _U(first)
        kind = load_u8(gtid + _U(_TYPE_AT))
        if (kind != _GTID and kind != _GTID_TAGGED) or np.int64(load_u32(gtid + _U(_SIZE_AT))) != gtid_size:
            return np.int64(GTID_WRONG)
        copy_bytes(at, gtid, _U(gtid_size))
        timestamp, server, end = load_u32(gtid), load_u32(gtid + _U(_SERVER_ID_AT)), empties.end[k]
        at = _put_begin(at + _U(gtid_size), timestamp, server, end - xid_size, checksum)
        at = _put_xid(at, timestamp, server, end, checksum)
    copy_bytes(at, source + _U(done), _U(events.size - done))
    return np.int64(at - target) + events.size - done


class MariadbEmpties(NamedTuple):
    """The stand-ins of one chunk, as :class:`~dumpfilter.packets.empties.Empties` describes them."""

    place: np.ndarray
    end: np.ndarray
    domain: np.ndarray
    server: np.ndarray
    number: np.ndarray
    timestamp: np.ndarray


@njit(cache=True, nogil=True)
def write_mariadb(events, empties, checksum, out):
    """Copy ``events`` to ``out`` with an empty Gtid event and an Xid event at each place.

    ``out`` has room for all. Return the number of bytes, or PLACE_WRONG.
    """
    source = _U(events.ctypes.data)
    target = _U(out.ctypes.data)
    at = target
    done = np.int64(0)
    extra = _CHECKSUM if checksum else 0
    for k in range(empties.place.size):
        size = empties.place[k] - done
        if size < 0 or empties.place[k] > events.size:
            return np.int64(PLACE_WRONG)
        if size:
            copy_bytes(at, source + _U(done), _U(size))
            at += _U(size)
            done += size
        timestamp, server, end = empties.timestamp[k], empties.server[k], empties.end[k]
        _put_header(
            at,
            timestamp,
            _MARIADB_GTID,
            server,
            MARIADB_GTID_LENGTH + extra,
            end - XID_LENGTH - extra,
        )
        body = at + _U(_HEADER)
        store_u64(body, np.uint64(empties.number[k]))
        store_u32(body + _U(8), np.uint32(empties.domain[k]))
        store_u8(body + _U(12), np.uint8(_EMPTY_FLAGS))
        store_u32(body + _U(13), np.uint32(0))
        store_u16(body + _U(17), np.uint16(0))
        if checksum:
            store_u32(at + _U(MARIADB_GTID_LENGTH), crc32(at, _U(MARIADB_GTID_LENGTH)))
        at = _put_xid(at + _U(MARIADB_GTID_LENGTH + extra), timestamp, server, end, checksum)
    copy_bytes(at, source + _U(done), _U(events.size - done))
    return np.int64(at - target) + events.size - done
