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

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.dump.chunk import ChunkPlan, ReadAt, Window
from dumpfilter.dump.gaps import Gaps
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.index.segment import Segment
from dumpfilter.packets import _empties_kernels as K
from dumpfilter.packets.framing import Bytes, as_array

Integers = npt.NDArray[np.int64]

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call."""

_NONE: Integers = np.empty(0, np.int64)


class Empties:
    """The stand-ins of one chunk's dropped transactions, in the order of the stream. Nobody changes the fields.

    All fields are arrays, int64 of shape (n,). Those of the other family have no entries.
    """

    __slots__ = (
        "domain",
        "end",
        "gtid_offset",
        "gtid_size",
        "number",
        "place",
        "server",
        "timestamp",
    )

    def __init__(
        self,
        place: Integers,
        end: Integers,
        *,
        gtid_offset: Integers = _NONE,
        gtid_size: Integers = _NONE,
        domain: Integers = _NONE,
        server: Integers = _NONE,
        number: Integers = _NONE,
        timestamp: Integers = _NONE,
    ) -> None:
        self.place = place
        """The bytes of the chunk's events that come before each stand-in."""
        self.end = end
        """The position in the binlog file after each dropped transaction."""
        self.gtid_offset = gtid_offset
        """The offset of each transaction's Gtid event in the binlog file (MySQL)."""
        self.gtid_size = gtid_size
        """The length of each transaction's Gtid event, bytes (MySQL)."""
        self.domain = domain
        """The domain id of each GTID (MariaDB)."""
        self.server = server
        """The server id of each GTID (MariaDB)."""
        self.number = number
        """The seq_no of each GTID (MariaDB)."""
        self.timestamp = timestamp
        """The time in the header of each transaction's Gtid event, Unix seconds (MariaDB)."""

    def __len__(self) -> int:
        return len(self.place)

    @property
    def gtid_span(self) -> tuple[int, int]:
        """The offset of the first Gtid event in the binlog file, and the end of the last one (MySQL)."""
        return int(self.gtid_offset.min()), int((self.gtid_offset + self.gtid_size).max())

    def size(self, checksum: bool) -> int:
        """Return the number of bytes that the stand-ins add to the chunk's events.

        ``checksum`` tells whether the events of the binlog file end in a CRC32.
        """
        if not len(self):
            return 0
        extra = CHECKSUM_LENGTH if checksum else 0
        xids = len(self) * (K.XID_LENGTH + extra)
        if len(self.domain):
            return xids + len(self) * (K.MARIADB_GTID_LENGTH + extra)
        return xids + len(self) * (K.BEGIN_LENGTH + extra) + int(self.gtid_size.sum())


NO_EMPTIES = Empties(_NONE, _NONE)
"""The stand-ins of a chunk in which the master drops no transaction."""


def find_empties(
    plans: Sequence[ChunkPlan],
    segment: Segment,
    position: int,
    resume: int,
    read: ReadAt,
    gtid_source: Callable[[int], SourceKey],
) -> list[Empties]:
    """Return the stand-ins of each chunk's dropped transactions, for the plans of one segment.

    Parameters:
        plans: the plans as a dump thread made them from this segment, before any plan absorbed another one.
        position: the position in the binlog file at which planning began in the segment.
        resume: the last boundary at or before ``position``. A transaction that is open there begins at this boundary,
            so its Gtid event lies there and not in the segment.
        read: a function that reads the binlog file.
        gtid_source: a function that returns the GTID source with a number.

    Raises BinlogCorrupt if a plan names a transaction that the segment does not have.
    """
    if not any(len(plan.gaps) for plan in plans):
        return [NO_EMPTIES] * len(plans)
    found = _Transactions(segment, resume, read)
    of_mariadb = segment.format_description.family == "mariadb"
    out = []
    for plan in plans:
        if not len(plan.gaps.runs):
            out.append(NO_EMPTIES)
        elif of_mariadb:
            out.append(_mariadb(plan.gaps, segment, found, gtid_source))
        else:
            out.append(_mysql(plan.gaps, found))
    return out


class _Transactions:
    """The transactions of a segment, with the places of their first events."""

    def __init__(self, segment: Segment, resume: int, read: ReadAt) -> None:
        n = len(segment.txn_source)
        self.segment = segment
        self.first_event = segment.txn_event[:n]
        self.start: Integers = segment.offset[self.first_event]
        self.end: Integers = np.append(self.start[1:], segment.end)
        self._resume = resume
        self._read = read
        self._head: EventHeader | None = None

    def dropped(self, gaps: Gaps) -> tuple[Integers, Integers]:
        """Return the numbers of the transactions that a chunk's gaps name, and the gap's offset for each."""
        runs = gaps.runs
        n = int((runs[:, 2] - runs[:, 1] + 1).sum())
        segment = self.segment
        if n > len(segment.txn_source):
            raise self._lacking(n - len(segment.txn_source))
        transaction, place = np.empty(n, np.int64), np.empty(n, np.int64)
        lacking = K.find_dropped(
            K.GapColumns(
                np.ascontiguousarray(gaps.offset),
                np.ascontiguousarray(gaps.end),
                np.ascontiguousarray(gaps.runs_until),
                np.ascontiguousarray(runs),
            ),
            self.start,
            segment.txn_source,
            segment.txn_number,
            transaction,
            place,
        )
        if lacking:
            raise self._lacking(lacking)
        return transaction, place

    def _lacking(self, n: int) -> BinlogCorrupt:
        return BinlogCorrupt(
            f"the events up to {self.segment.end} lack {n} transactions whose GTIDs a replica needs; read them from "
            "the binlog of the server that wrote these transactions",
            file=self.segment.file,
            position=self.segment.start,
        )

    def is_open(self, transaction: Integers) -> bool:
        """Tell whether the first of some transactions began in an earlier segment."""
        return self.segment.continues and int(transaction[0]) == 0

    @property
    def head(self) -> EventHeader:
        """The header of the Gtid event of the transaction that began in an earlier segment."""
        if self._head is None:
            self._head = EventHeader.unpack(self._read(self._resume, HEADER_LENGTH))
            if self._head.type not in (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID):
                raise not_a_gtid(self.segment.file, self._resume)
        return self._head

    @property
    def head_offset(self) -> int:
        """The offset of the Gtid event of the transaction that began in an earlier segment."""
        return self._resume


def not_a_gtid(file: str | None, position: int) -> BinlogCorrupt:
    """Return the error for a Gtid event that is not where the index has seen it."""
    return BinlogCorrupt(
        "the Gtid event of a dropped transaction is not here; the file was changed, copy it again from the server",
        file=file,
        position=position,
    )


def _mysql(gaps: Gaps, found: _Transactions) -> Empties:
    transaction, place = found.dropped(gaps)
    segment = found.segment
    event = found.first_event[transaction]
    offset, size = segment.offset[event], segment.size[event]
    if found.is_open(transaction):
        offset[0], size[0] = found.head_offset, found.head.size
    return Empties(place, found.end[transaction], gtid_offset=offset, gtid_size=size)


def _mariadb(
    gaps: Gaps, segment: Segment, found: _Transactions, gtid_source: Callable[[int], SourceKey]
) -> Empties:
    transaction, place = found.dropped(gaps)
    present = np.unique(segment.txn_source[segment.txn_source >= 0])
    keys = np.zeros((int(present[-1]) + 1, 2), np.int64)
    for number in present.tolist():
        keys[number] = gtid_source(number)
    is_last = np.zeros(len(transaction), np.bool_)
    K.last_of_domains(transaction, place, segment.txn_source, np.ascontiguousarray(keys[:, 0]), is_last)
    is_open = found.is_open(transaction) and bool(is_last[0])
    transaction = transaction[is_last]
    of_source = keys[segment.txn_source[transaction]]
    timestamp = segment.time[found.first_event[transaction]].astype(np.int64)
    if is_open:
        timestamp[0] = found.head.timestamp
    return Empties(
        place[is_last],
        found.end[transaction],
        domain=of_source[:, 0].copy(),
        server=of_source[:, 1].copy(),
        number=segment.txn_number[transaction],
        timestamp=timestamp,
    )


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
    size = len(data) + empties.size(fd.checksum)
    out = np.empty(size, np.uint8)
    if len(empties.domain):
        written = K.write_mariadb(
            data,
            K.MariadbEmpties(
                empties.place,
                empties.end,
                empties.domain,
                empties.server,
                empties.number,
                empties.timestamp,
            ),
            fd.checksum,
            out,
        )
    else:
        gtids, at = _gtids_in(empties, window) or _read_gtids(empties, read)
        written = K.write_mysql(
            data,
            K.MysqlEmpties(empties.place, empties.end, gtids, at, empties.gtid_size),
            fd.checksum,
            out,
        )
    if written == K.GTID_WRONG:
        raise not_a_gtid(None, int(empties.gtid_offset[0]))
    if written != size:
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
