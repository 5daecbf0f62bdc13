"""Stand-ins of dropped transactions: small transactions without changes, which leave the GTIDs with a real replica.

A replica that filters for itself receives every transaction, so every GTID ends in ``gtid_executed`` or
``gtid_slave_pos``. A replica behind a filter that drops transactions must have these GTIDs, too. A stand-in gives the
replica a GTID without the changes:

- MySQL needs the GTID of each dropped transaction. Its stand-in is the transaction's Gtid event as the binlog has it,
  a Query event BEGIN and an Xid event. The Gtid event keeps ``sequence_number`` and ``last_committed``, on which
  parallel appliers rely. Without BEGIN a replica would have the same GTIDs. Its I/O thread would then write two
  warnings for each stand-in into the error log (10445 and 10590, tried with MySQL 9.7).
- MariaDB needs only the last GTID of each domain. Its stand-in is an empty Gtid event and an Xid event. Each run of
  dropped transactions between two sent ones has a stand-in for each of its domains. So the replica's GTID position is
  right at each place, even at one where its applier stops.

A Gtid event is never written without the other events of its stand-in. A real mysqld dies of signal 11 when a Gtid
event stands alone (tried with MySQL 9.7).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gtid_events import FL_ALLOW_PARALLEL, FL_TRANSACTIONAL
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import ChunkPlan, ReadAt, Window
from dumpfilter.dump.stand_ins import XID_LENGTH
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.index.segment import Segment
from dumpfilter.packets import _kernels as K
from dumpfilter.packets.framing import Bytes, as_array

Integers = npt.NDArray[np.int64]

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call."""

_NONE: Integers = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class Empties:
    """The stand-ins of one chunk's dropped transactions, in the order of the stream. Nobody changes the fields.

    The arrays are int64 of shape (n,).
    """

    place: Integers
    """The bytes of the chunk's events that come before each stand-in."""
    end: Integers
    """The position in the binlog file after each dropped transaction."""
    gtid_offset: Integers
    """The offset of each transaction's Gtid event in ``gtids``, or in the binlog file."""
    gtid_size: Integers
    """The length of each transaction's Gtid event, bytes."""
    gtids: Bytes | None = None
    """The Gtid events, if they are synthesized. None if the binlog file has them."""
    family: Family = "mysql"
    """The family of the server that wrote the binlog."""

    def __len__(self) -> int:
        return len(self.place)

    @property
    def reads_gtids(self) -> bool:
        """Whether Gtid events are read from the binlog file."""
        return self.gtids is None and len(self) > 0

    @property
    def gtid_span(self) -> tuple[int, int]:
        """The offset of the first Gtid event, and the end of the last one."""
        return int(self.gtid_offset.min()), int((self.gtid_offset + self.gtid_size).max())

    def size(self, checksum: bool) -> int:
        """Return the number of bytes that the stand-ins add to the chunk's events.

        ``checksum`` tells whether the events of the binlog file end in a CRC32.
        """
        return int(self.gtid_size.sum()) + len(self) * len(_tail(self.family, checksum))


NO_EMPTIES = Empties(_NONE, _NONE, _NONE, _NONE)
"""The stand-ins of a chunk in which the master drops no transaction."""


@functools.cache
def _tail(family: Family, checksum: bool) -> npt.NDArray[np.uint8]:
    """Return the events of a stand-in after its Gtid event."""
    xid = make_event(EventType.XID, bytes(XID_LENGTH - HEADER_LENGTH), checksum=checksum)
    begin = make_event(EventType.QUERY, bytes(14) + b"BEGIN", checksum=checksum)
    return as_array(begin + xid if family == "mysql" else xid)


@functools.cache
def layout(size: int, **fields: tuple[int, str]) -> np.dtype[np.void]:
    """Return the layout of events of ``size`` bytes: the offset and the type of each field that has a name.

    Fields beyond the end of such an event are left out.
    """
    types = {name: (at, np.dtype(kind)) for name, (at, kind) in fields.items()}
    has = {name: (at, kind) for name, (at, kind) in types.items() if at + kind.itemsize <= size}
    offsets, formats = zip(*has.values(), strict=True)
    return np.dtype({"names": list(has), "formats": formats, "offsets": offsets, "itemsize": size})


@functools.cache
def _mariadb_gtid(checksum: bool) -> bytes:
    """Return an empty Gtid event of MariaDB."""
    body = bytes(12) + bytes([FL_TRANSACTIONAL | FL_ALLOW_PARALLEL]) + bytes(6)
    return make_event(EventType.MARIADB_GTID, body, checksum=checksum)


class Dropped(NamedTuple):
    """The GTIDs of a chunk's dropped transactions, in the order of the stream. All fields are arrays, int64 of shape
    (n,)."""

    place: Integers
    """The bytes of the chunk's events that come before."""
    transaction: Integers
    """The number of the transaction in the segment, or of the Gap event."""
    source: Integers
    """The number of the GTID source."""
    first: Integers
    last: Integers
    ordinal: Integers
    """The number of GTIDs that the same Gap event tells before; OWN for a transaction that the segment has."""


OWN = -1
"""The ordinal of a transaction that the segment has."""


def find_dropped(plan: ChunkPlan, segment: Segment) -> Dropped:
    """Return the GTIDs of the transactions in a plan's gaps, for a plan as a dump thread made it from a segment."""
    source, told = plan.reported
    (own,) = np.nonzero(source >= 0)
    number = segment.txn_number[own]
    entries = np.stack((own, source[own], number, number, np.full(len(own), OWN)))
    if len(told.runs):
        of_run = np.repeat(told.transaction, np.diff(told.until, prepend=0))
        entries = np.concatenate((entries, (of_run, *told.runs.T, told.ordinal)), axis=1)
        entries = entries[:, np.argsort(entries[0], kind="stable")]
    gaps = plan.gaps
    first = np.searchsorted(entries[0], gaps.first)
    count = np.searchsorted(entries[0], np.searchsorted(segment.txn_start, gaps.end)) - first
    found = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Dropped(np.repeat(gaps.offset, count), *entries.take(found, axis=1))


def find_empties(
    plans: Sequence[ChunkPlan],
    segment: Segment,
    resume: int,
    read: ReadAt,
    gtid_source: Callable[[int], SourceKey],
) -> list[Empties]:
    """Return the stand-ins of each chunk's dropped transactions, for the plans of one segment.

    Parameters:
        plans: the plans as a dump thread made them from this segment, before any plan absorbed another one.
        resume: the last boundary at or before the position at which planning began. A transaction that is open there
            begins at this boundary, so its Gtid event lies there and not in the segment.
        read: a function that reads the binlog file.
        gtid_source: a function that returns the GTID source with a number.
    """
    fd = segment.format_description

    def head(dropped: Dropped) -> EventHeader | None:
        """Return the header of the first transaction's Gtid event, if the transaction began in an earlier segment."""
        if not segment.continues or dropped.transaction[0] != 0:
            return None
        found = EventHeader.unpack(read(resume, HEADER_LENGTH))
        if found.type not in (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID):
            raise _not_a_gtid(segment.file, resume)
        return found

    def empties(plan: ChunkPlan) -> Empties:
        if not len(plan.gaps.runs):
            return NO_EMPTIES
        dropped = find_dropped(plan, segment)
        event = segment.txn_event[dropped.transaction]
        end = np.append(segment.txn_start, segment.end)[dropped.transaction + 1]
        began = head(dropped)
        if fd.family == "mysql":
            offset, size = segment.offset[event], segment.size[event]
            if began is not None:
                offset[0], size[0] = resume, began.size
            return Empties(dropped.place, end, offset, size)
        timestamp = segment.time[event].astype(np.int64)
        if began is not None:
            timestamp[0] = began.timestamp
        sources, of_source = np.unique(dropped.source, return_inverse=True)
        keys = np.array([gtid_source(number) for number in sources.tolist()], np.int64)[of_source]
        last = last_of_domains(dropped.place, keys[:, 0])
        columns = (dropped.place, end, keys, dropped.last, timestamp)
        return mariadb_empties(*(column[last] for column in columns), checksum=fd.checksum)

    return [empties(plan) for plan in plans]


def mariadb_empties(
    place: Integers, end: Integers, keys: Integers, number: Integers, time: Integers, *, checksum: bool
) -> Empties:
    """Return stand-ins for a replica of MariaDB, with synthesized Gtid events.

    Parameters:
        keys: the domain id and the server id of each GTID, of shape (n, 2).
        number: the seq_no of each GTID.
        time: the time in each header, Unix seconds.
    """
    event, n = _mariadb_gtid(checksum), len(place)
    header = {"timestamp": (0, "<u4"), "server": (5, "<u4"), "end": (13, "<u4")}
    body = {"number": (HEADER_LENGTH, "<u8"), "domain": (HEADER_LENGTH + 8, "<u4")}
    made = np.frombuffer(bytearray(event * n), layout(len(event), **header, **body))
    made["timestamp"], made["number"] = time, number
    made["domain"], made["server"] = keys.T
    made["end"] = (end - len(_tail("mariadb", checksum))) & 0xFFFFFFFF
    gtids = made.view(np.uint8)
    if checksum:
        K.seal(gtids)
    return Empties(place, end, np.arange(n) * len(event), np.full(n, len(event)), gtids, "mariadb")


def _not_a_gtid(file: str | None, position: int) -> BinlogCorrupt:
    """Return the error for a Gtid event that is not where the index has seen it."""
    return BinlogCorrupt(
        "the Gtid event of a dropped transaction is not here; the file was changed, copy it again from the server",
        file=file,
        position=position,
    )


def last_of_domains(place: Integers, domain: Integers) -> Integers:
    """Return the numbers of the dropped transactions that no other one of their domain follows at the same place."""
    order = np.lexsort((domain, place))
    places, domains = place[order], domain[order]
    is_last = np.append((places[1:] != places[:-1]) | (domains[1:] != domains[:-1]), True)
    return np.sort(order[is_last])


def with_empties(
    events: Bytes,
    empties: Empties,
    read: ReadAt,
    fd: FormatDescription,
    window: Window | None = None,
) -> Bytes:
    """Return a chunk's events with the stand-ins of dropped transactions at their places.

    Parameters:
        events: the bytes of the chunk's events. They are returned as they are if there are no stand-ins.
        read: a function that reads the binlog file.
        fd: the file's format description event.
        window: bytes of the file. If they contain all Gtid events, nothing is read.

    Raises BinlogCorrupt if the Gtid events are not in the file any more.
    """
    if not len(empties):
        return events
    data = as_array(events)
    tail = _tail(empties.family, fd.checksum)
    if empties.gtids is not None:
        gtids, at = as_array(empties.gtids), empties.gtid_offset
    else:
        gtids, at = _gtids_in(empties, window) or _read_gtids(empties, read)
    out = np.empty(len(data) + empties.size(fd.checksum), np.uint8)
    columns = (empties.place, empties.end, gtids, at, empties.gtid_size)
    result = K.weave(data, *columns, tail, fd.checksum, out)
    if result == K.GTID_WRONG:
        raise _not_a_gtid(None, int(empties.gtid_offset[0]))
    if result == K.PLACE_WRONG:
        raise BinlogCorrupt("a chunk is shorter than the places of its dropped transactions")
    return out.data


def _gtids_in(empties: Empties, window: Window | None) -> tuple[npt.NDArray[np.uint8], Integers] | None:
    """Return a window's bytes and the offset of each Gtid event in them, or None if an event is not in the window."""
    if window is None:
        return None
    low, high = empties.gtid_span
    if low < window.offset or high > window.offset + window.data.size:
        return None
    return as_array(window.data), empties.gtid_offset - window.offset


def _read_gtids(empties: Empties, read: ReadAt) -> tuple[npt.NDArray[np.uint8], Integers]:
    """Return bytes that contain the Gtid events, and the offset of each event in them.

    Events near one another are read together with the bytes between them.
    """
    offset, end = empties.gtid_offset, empties.gtid_offset + empties.gtid_size
    distance = offset[1:] - end[:-1]
    breaks = np.flatnonzero((distance > _READ_COST) | (distance < 0)) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.append(breaks, len(offset)) - 1
    begins, lengths = offset[firsts], end[lasts] - offset[firsts]
    pieces = [read(begin, length) for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)]
    piece_at = np.cumsum(lengths) - lengths
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    shift = np.repeat(piece_at - begins, lasts - firsts + 1)
    return as_array(data), offset + shift
