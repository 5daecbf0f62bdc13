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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gtid_events import FL_ALLOW_PARALLEL, FL_TRANSACTIONAL
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import ChunkPlan, ReadAt, Window
from dumpfilter.dump.gaps import Gaps
from dumpfilter.dump.stand_ins import XID_LENGTH
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.index.segment import Segment
from dumpfilter.packets import _kernels as K
from dumpfilter.packets.framing import Bytes, as_array

Integers = npt.NDArray[np.int64]

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call."""

_FEW = 32
"""The number of stand-ins up to which a loop is faster than arrays."""

_NONE: Integers = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class Empties:
    """The stand-ins of one chunk's dropped transactions, in the order of the stream. Nobody changes the fields.

    All fields are arrays, int64 of shape (n,). Those of the other family have no entries.
    """

    place: Integers
    """The bytes of the chunk's events that come before each stand-in."""
    end: Integers
    """The position in the binlog file after each dropped transaction."""
    gtid_offset: Integers = field(default_factory=lambda: _NONE)
    """The offset of each transaction's Gtid event in the binlog file (MySQL)."""
    gtid_size: Integers = field(default_factory=lambda: _NONE)
    """The length of each transaction's Gtid event, bytes (MySQL)."""
    domain: Integers = field(default_factory=lambda: _NONE)
    """The domain id of each GTID (MariaDB)."""
    server: Integers = field(default_factory=lambda: _NONE)
    """The server id of each GTID (MariaDB)."""
    number: Integers = field(default_factory=lambda: _NONE)
    """The seq_no of each GTID (MariaDB)."""
    timestamp: Integers = field(default_factory=lambda: _NONE)
    """The time in the header of each transaction's Gtid event, Unix seconds (MariaDB)."""

    def __len__(self) -> int:
        return len(self.place)

    @property
    def family(self) -> Family:
        """The family of the server that wrote the binlog."""
        return "mariadb" if len(self.domain) else "mysql"

    @property
    def gtid_span(self) -> tuple[int, int]:
        """The offset of the first Gtid event in the binlog file, and the end of the last one (MySQL)."""
        if len(self.gtid_offset) == 1:
            offset = int(self.gtid_offset[0])
            return offset, offset + int(self.gtid_size[0])
        return int(self.gtid_offset.min()), int((self.gtid_offset + self.gtid_size).max())

    def size(self, checksum: bool) -> int:
        """Return the number of bytes that the stand-ins add to the chunk's events.

        ``checksum`` tells whether the events of the binlog file end in a CRC32.
        """
        gtids = int(self.gtid_size.sum())
        if self.family == "mariadb":
            gtids = len(self) * len(_mariadb_gtid(checksum))
        return gtids + len(self) * len(_tail(self.family, checksum))


NO_EMPTIES = Empties(_NONE, _NONE)
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
    """Consecutive GTIDs of one source, which a chunk's gaps name, and the place where they were found."""

    place: int
    """The bytes of the chunk's events that come before."""
    entry: int
    """The number of the transaction, or of the run of a Gap event, that has the GTIDs."""
    first: int
    last: int


def find_dropped(
    gaps: Gaps, until: Integers, sources: list[int], firsts: list[int], lasts: list[int]
) -> Iterator[Dropped]:
    """Yield the entries that have the GTIDs of a chunk's gaps, from the last one to the first.

    The search goes backwards from the end that each gap tells, because a binlog may have the same GTID twice. Raises
    LookupError if the entries lack a GTID.

    Parameters:
        gaps: the chunk's gaps.
        until: the number of the entry after the last one that each gap may name.
        sources, firsts, lasts: the GTIDs of the entries, ascending in the binlog.
    """
    runs, runs_until = gaps.runs.tolist(), gaps.runs_until.tolist()
    columns = zip(gaps.offset.tolist(), until.tolist(), [0, *runs_until], runs_until, strict=False)
    for place, end, begin_run, end_run in reversed(list(columns)):
        entry = end - 1
        for source, first, last in reversed(runs[begin_run:end_run]):
            wanted = last
            while wanted >= first:
                while entry >= 0 and (
                    sources[entry] != source or not firsts[entry] <= wanted <= lasts[entry]
                ):
                    entry -= 1
                if entry < 0:
                    raise LookupError
                low = max(first, firsts[entry])
                yield Dropped(place, entry, low, wanted)
                entry -= low == firsts[entry]
                wanted = low - 1


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
    make = _mariadb if segment.format_description.family == "mariadb" else _mysql
    return [make(plan.gaps, found, gtid_source) if len(plan.gaps.runs) else NO_EMPTIES for plan in plans]


class _Transactions:
    """The transactions of a segment, with the places of their first events."""

    def __init__(self, segment: Segment, resume: int, read: ReadAt) -> None:
        self.segment = segment
        self.first_event = segment.txn_event[: len(segment.txn_source)]
        self.start: Integers = segment.offset[self.first_event]
        self.end: Integers = np.append(self.start[1:], segment.end)
        self.resume = resume
        self._read = read

    def dropped(self, gaps: Gaps) -> tuple[Integers, Integers]:
        """Return the numbers of the transactions that a chunk's gaps name, and the gap's offset for each."""
        segment = self.segment
        n = sum(last - first + 1 for _, first, last in gaps.runs.tolist())
        if n > len(segment.txn_source):
            raise self._lacking(n - len(segment.txn_source))
        until = np.searchsorted(self.start, gaps.end)
        if n > _FEW and (both := self._directly_before(gaps, until)) is not None:
            return both
        numbers = segment.txn_number.tolist()
        found: list[Dropped] = []
        try:
            found.extend(find_dropped(gaps, until, segment.txn_source.tolist(), numbers, numbers))
        except LookupError:
            raise self._lacking(n - len(found)) from None
        found.reverse()
        return np.array([one.entry for one in found]), np.array([one.place for one in found])

    def _directly_before(self, gaps: Gaps, until: Integers) -> tuple[Integers, Integers] | None:
        """Return the transactions directly before the end of each gap, if these are the ones that the gap names.

        Others lie between them where the replica has some of the transactions already. ``until`` is the number of the
        transaction after each gap.
        """
        segment = self.segment
        source, number, last = gaps.runs.T
        count = last - number + 1
        told = np.append(0, np.cumsum(count))
        of_gap = np.diff(told[gaps.runs_until], prepend=0)
        (with_gtid,) = np.nonzero(segment.txn_source >= 0)
        following = np.searchsorted(with_gtid, until) - told[gaps.runs_until]
        at = np.repeat(following, of_gap) + np.arange(told[-1])
        if int(at.min()) < 0:
            return None
        transaction: Integers = with_gtid[at]
        numbers = np.repeat(number - told[:-1], count) + np.arange(told[-1])
        is_same = segment.txn_source[transaction] == np.repeat(source, count)
        if not (is_same & (segment.txn_number[transaction] == numbers)).all():
            return None
        return transaction, np.repeat(gaps.offset, of_gap)

    def _lacking(self, n: int) -> BinlogCorrupt:
        return BinlogCorrupt(
            f"the events up to {self.segment.end} lack {n} transactions whose GTIDs a replica needs; read them from "
            "the binlog of the server that wrote these transactions",
            file=self.segment.file,
            position=self.segment.start,
        )

    def head(self, transaction: Integers) -> EventHeader | None:
        """Return the header of the first transaction's Gtid event, if the transaction began in an earlier segment."""
        if not self.segment.continues or int(transaction[0]) != 0:
            return None
        head = EventHeader.unpack(self._read(self.resume, HEADER_LENGTH))
        if head.type not in (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID):
            raise _not_a_gtid(self.segment.file, self.resume)
        return head


def _not_a_gtid(file: str | None, position: int) -> BinlogCorrupt:
    """Return the error for a Gtid event that is not where the index has seen it."""
    return BinlogCorrupt(
        "the Gtid event of a dropped transaction is not here; the file was changed, copy it again from the server",
        file=file,
        position=position,
    )


def _mysql(gaps: Gaps, found: _Transactions, gtid_source: Callable[[int], SourceKey]) -> Empties:
    transaction, place = found.dropped(gaps)
    event = found.first_event[transaction]
    offset, size = found.segment.offset[event], found.segment.size[event]
    if (head := found.head(transaction)) is not None:
        offset[0], size[0] = found.resume, head.size
    return Empties(place, found.end[transaction], gtid_offset=offset, gtid_size=size)


def _mariadb(gaps: Gaps, found: _Transactions, gtid_source: Callable[[int], SourceKey]) -> Empties:
    transaction, place = found.dropped(gaps)
    head = found.head(transaction)
    sources, of_transaction = np.unique(found.segment.txn_source[transaction], return_inverse=True)
    keys = np.array([gtid_source(number) for number in sources.tolist()], np.int64)[of_transaction]
    last = last_of_domains(place, keys[:, 0])
    timestamp = found.segment.time[found.first_event[transaction]].astype(np.int64)
    if head is not None:
        timestamp[0] = head.timestamp
    return Empties(
        place[last],
        found.end[transaction[last]],
        domain=keys[last, 0],
        server=keys[last, 1],
        number=found.segment.txn_number[transaction[last]],
        timestamp=timestamp[last],
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
    if empties.family == "mariadb":
        gtids, at, size = _mariadb_gtids(empties, fd.checksum, len(tail))
    else:
        gtids, at = _gtids_in(empties, window) or _read_gtids(empties, read)
        size = empties.gtid_size
    out = np.empty(len(data) + empties.size(fd.checksum), np.uint8)
    result = K.weave(data, empties.place, empties.end, gtids, at, size, tail, fd.checksum, out)
    if result == K.GTID_WRONG:
        raise _not_a_gtid(None, int(empties.gtid_offset[0]))
    if result == K.PLACE_WRONG:
        raise BinlogCorrupt("a chunk is shorter than the places of its dropped transactions")
    return out.data


def _mariadb_gtids(
    empties: Empties, checksum: bool, tail: int
) -> tuple[npt.NDArray[np.uint8], Integers, Integers]:
    """Return the bytes of the Gtid events of a MariaDB replica's stand-ins, and the offset and length of each event.

    ``tail`` is the length of a stand-in's events after the Gtid event.
    """
    event, n = _mariadb_gtid(checksum), len(empties)
    header = {"timestamp": (0, "<u4"), "server": (5, "<u4"), "end": (13, "<u4")}
    body = {"number": (HEADER_LENGTH, "<u8"), "domain": (HEADER_LENGTH + 8, "<u4")}
    made = np.frombuffer(bytearray(event * n), layout(len(event), **header, **body))
    made["timestamp"], made["server"] = empties.timestamp, empties.server
    made["number"], made["domain"] = empties.number, empties.domain
    made["end"] = (empties.end - tail) & 0xFFFFFFFF
    gtids = made.view(np.uint8)
    if checksum:
        K.seal(gtids)
    gtids.flags.writeable = False
    return gtids, np.arange(n) * len(event), np.full(n, len(event))


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
