"""Stand-ins of dropped transactions: empty transactions that give their GTIDs to a real replica (a MySQL or MariaDB
server).

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

The writer is the server that wrote the binlog of a slave's master. In the slave's relay log a Gap event stands for the
transactions that the master dropped. The Gap event tells their GTIDs and the writer's position after them, and nothing
else. :class:`GtidSynthesis` makes the Gtid events of their stand-ins. A replica that is served from a relay log shall
see the writer's files, positions and GTIDs:

- ``sequence_number`` is the one that the writer gave. A server numbers the transactions of a file without holes, and
  Gap events tell how many transactions they stand for.
- ``last_committed`` is 0, because a transaction without changes waits for no other.
- The times are those of the newest event before the Gap event, so that the lag of a replica stays meaningful.

A tally (a count of bytes by table) counts stand-ins beside the events. A MySQL replica gets a stand-in exactly when the
master drops the transaction. A tally does not know which transactions are neighbours, so it tells only how many
stand-ins MariaDB needs at most (:func:`at_most`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.cursor import encode_varlen
from dumpfilter.binlog.events import CHECKSUM_LENGTH, COMMON_HEADER, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_events import FL_ALLOW_PARALLEL, FL_TRANSACTIONAL
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import ChunkPlan, ReadAt
from dumpfilter.dump.packets import _kernels as K
from dumpfilter.dump.packets.protocol import Bytes, as_array
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.segment import TOLD_TRANSACTION, Segment

Integers = npt.NDArray[np.int64]

XID_LENGTH = HEADER_LENGTH + 8
"""The length of an Xid event without its checksum, bytes."""

BEGIN_LENGTH = HEADER_LENGTH + 13 + len(b"\0BEGIN")
"""The length of a Query event BEGIN without database, status variables and checksum, bytes."""

MARIADB_GTID_LENGTH = HEADER_LENGTH + 19
"""The length of a Gtid event of MariaDB without a commit id, an xid and a checksum, bytes."""

EVENTS: dict[Family, int] = {"mysql": 3, "mariadb": 2}
"""The number of events of a stand-in (an empty transaction in place of a dropped one), by the family of the server."""

PIECE = SEGMENT_SIZE
"""The distance in a MariaDB binlog, in bytes, after which a run of dropped transactions counts as ended and needs new
stand-ins (empty transactions).

A master ends a chunk (a message) after so many bytes when the filter drops most of them. A chunk that ends earlier,
because the binlog ends there for now, also has its own stand-ins.
"""

# The versions of MySQL from which on a Gtid event has more fields.
_WITH_SEQUENCE = (5, 7)
_WITH_COMMIT_TIME = (8, 0, 2)
_WITH_SERVER_VERSION = (8, 0, 14)

_LARGEST_SHORT_LENGTH = 250
"""The largest number that a length-encoded integer of one byte can hold."""

_MICROSECONDS = 1_000_000

_SERIALIZATION_VERSION = 1
"""The version of ``mysql::serialization``, in which a GTID_TAGGED event is written."""


def _events(
    template: bytes, count: int, checksum: bool, *fields: tuple[int, str, Integers | int]
) -> npt.NDArray[np.uint8]:
    """Return the bytes of ``count`` events that differ from the event ``template`` only in ``fields``, and in their
    checksums if events have them.

    A field has its byte offset in the event, its numpy type, and its value for each event, or for all of them.
    """
    made = np.frombuffer(bytearray(template * count), np.uint8)
    for at, kind, values in fields:
        np.ndarray(count, kind, made.data, at, len(template))[:] = values
    if checksum:
        K.seal(made)
    return made


class GtidSynthesis:
    """A maker of Gtid events for stand-ins (empty transactions in place of dropped ones) whose original Gtid event is
    not in the file. The events have the form of the server version that ``fd``, a format description event, names.
    """

    def __init__(self, fd: FormatDescription) -> None:
        self._fd = fd
        major, minor, patch = fd.version
        self._version = major * 10_000 + minor * 100 + patch

    @property
    def size(self) -> int:
        """The length of a stand-in (empty transaction) whose GTID has no tag, bytes."""
        checksums = 2 * self._fd.checksum_length
        return len(self._template(bytes(16), 0)) + BEGIN_LENGTH + XID_LENGTH + checksums

    def gtids(
        self, key: SourceKey, first: int, count: int, sequence: int, time: int, end_log_pos: int
    ) -> tuple[bytes | memoryview, int | Integers]:
        """Return the bytes of ``count`` Gtid events with the GTID source ``key`` (a server UUID, with a tag or none)
        and the transaction numbers from ``first`` on. Also return the length of each event: one number, or an array if
        the lengths differ.

        ``sequence`` is the ``sequence_number`` of the first event. All events have the same ``time`` (Unix seconds) and
        ``end_log_pos``.
        """
        uuid, tag = key
        assert isinstance(uuid, bytes)
        if tag:
            events = [
                self._tagged(uuid, str(tag), first + n, sequence + n, time, end_log_pos) for n in range(count)
            ]
            return b"".join(events), np.array([len(event) for event in events], np.int64)
        template = self._template(uuid, end_log_pos)
        numbers = np.arange(first, first + count)
        fields: list[tuple[int, str, Integers | int]] = [
            (0, "<u4", time),
            (HEADER_LENGTH + 17, "<u8", numbers),
        ]
        if self._fd.version >= _WITH_SEQUENCE:
            fields.append((HEADER_LENGTH + 34, "<u8", numbers + (sequence - first)))
        if self._fd.version >= _WITH_COMMIT_TIME:
            # The time has 7 bytes. The byte after it belongs to the template.
            at = HEADER_LENGTH + 42
            fields.append((at, "<u8", time * _MICROSECONDS | template[at + 7] << 56))
        return _events(template, count, self._fd.checksum, *fields).data, len(template)

    def _event(self, kind: EventType, body: bytes, time: int, end_log_pos: int) -> bytes:
        return make_event(
            kind,
            body,
            timestamp=time,
            server_id=self._fd.header.server_id,
            end_log_pos=end_log_pos & 0xFFFFFFFF,
            checksum=self._fd.checksum,
        )

    def _transaction_length(self, body: int) -> int:
        """Return the length of a stand-in (an empty transaction) in bytes, given that of its Gtid event's body."""
        return HEADER_LENGTH + body + BEGIN_LENGTH + XID_LENGTH + 3 * self._fd.checksum_length

    def _template(self, uuid: bytes, end_log_pos: int) -> bytes:
        body = bytes(1) + uuid + bytes(8)
        server = self._version.to_bytes(4, "little") if self._fd.version >= _WITH_SERVER_VERSION else b""
        if self._fd.version >= _WITH_SEQUENCE:
            body += b"\x02" + bytes(16)
        if self._fd.version >= _WITH_COMMIT_TIME:
            length = self._transaction_length(len(body) + 7 + 1 + len(server))
            assert length <= _LARGEST_SHORT_LENGTH
            body += bytes(7) + bytes([length]) + server
        return self._event(EventType.GTID, body, 0, end_log_pos)

    def _tagged(
        self, uuid: bytes, tag: str, number: int, sequence: int, time: int, end_log_pos: int
    ) -> bytes:
        """Return a GTID_TAGGED event with the GTID ``uuid:tag:number`` and the sequence_number ``sequence``. ``time``
        is in Unix seconds.

        :func:`~dumpfilter.binlog.gtid_events.decode_gtid_tagged` has the layout of the event.
        """

        def body(length: int) -> bytes:
            numbers = [0, 0, 1, *uuid, 2, number << 1, 3, len(tag)]
            times = [4, 0, 5, sequence << 1, 6, time * _MICROSECONDS, 8, length, 9, self._version]
            content = _varlens([0, *numbers]) + tag.encode() + _varlens(times)
            size = len(_varlens([_SERIALIZATION_VERSION])) + len(content)
            # The size counts itself.
            size += len(_varlens([size + 1]))
            return _varlens([_SERIALIZATION_VERSION, size]) + content

        length = 0
        while (found := self._transaction_length(len(body(length)))) != length:
            length = found
        return self._event(EventType.GTID_TAGGED, body(length), time, end_log_pos)


def _varlens(numbers: list[int]) -> bytes:
    return b"".join(map(encode_varlen, numbers))


KeyOf = Callable[[int], SourceKey]
"""A function that returns the GTID source with a number. A source is a server UUID with a tag, or MariaDB's domain and
server id.
"""

_MARIADB_ID = 12
"""The length of the number and the domain at the begin of the body of MariaDB's Gtid event, bytes."""

_NONE: Integers = np.empty(0, np.int64)

_Gtids = tuple[Bytes, Integers, Integers]
"""Bytes that contain the Gtid events of stand-ins (empty transactions for dropped ones), and the byte offset and the
length of each Gtid event in them.
"""


class Dropped(NamedTuple):
    """The dropped transactions for which a replica gets stand-ins (empty transactions), in the order of the stream.

    All fields are arrays, int64 of shape (n,), which have the GTIDs, times and positions of the stand-ins. A row stands
    for one dropped transaction of the file, or for consecutive GTIDs of one server UUID or MariaDB domain and server
    that a Gap event names. A Gap event is a relay log's note about transactions that an earlier master dropped.
    """

    place: Integers
    """For each row, the number of bytes of the chunk's events that come before its stand-in (empty transaction). A
    chunk is a message of the stream.
    """
    transaction: Integers
    """For each row, the index of the dropped transaction among those of the segment (a part of the binlog file). For a
    row from a relay log's Gap event, it is the Gap event's index there.
    """
    source: Integers
    """For each row, the number of the GTID source (server UUID, or MariaDB domain and server)."""
    first: Integers
    last: Integers
    begin: Integers
    """For each row that comes from a relay log's Gap event, the position before the Gap event in the binlog file of the
    server that wrote the events. The entries of other rows are not used.
    """
    end: Integers
    """For each row, the position at which its last stand-in (empty transaction) ends, in the binlog file of the server
    that wrote the events.
    """
    time: Integers
    """For each row, the time of the dropped transaction, Unix seconds. For a row from a relay log's Gap event, it is
    the time of the newest event before the Gap event.
    """
    sequence: Integers
    """For each row that comes from a Gap event (a relay log's note about dropped transactions), the ``sequence_number``
    of its first transaction; 0 for other rows.
    """
    offset: Integers
    """For each row, the byte offset of the dropped transaction's Gtid event in the file. The entries of rows that come
    from a Gap event (a relay log's note about dropped transactions) are not used.
    """
    size: Integers
    """For each row, the length of the dropped transaction's Gtid event, bytes. The entries of rows that come from a Gap
    event (a relay log's note about dropped transactions) are not used.
    """

    @property
    def length(self) -> Integers:
        """For each row (a dropped transaction, or a run of GTIDs), the number of GTIDs that it stands for."""
        return self.last - self.first + 1

    def take(self, rows: Integers | npt.NDArray[np.bool_]) -> Dropped:
        """Return a copy with only some rows (dropped transactions). ``rows`` are their indexes, or a boolean mask."""
        return Dropped(*(column[rows] for column in self))

    def pages(self, most: int) -> Iterator[Dropped]:
        """Yield the rows (dropped transactions, or runs of their GTIDs) in parts with at most ``most`` GTIDs each, so
        that the stand-ins (empty transactions) of one part fit into memory. A row with more GTIDs is divided.

        A Gap event (a relay log's note about dropped transactions) of a few bytes may name millions of GTIDs.
        """
        stops = np.cumsum(self.length)
        if not len(stops) or stops[-1] <= most:
            yield self
            return
        for low in range(0, int(stops[-1]), most):
            has = (stops - self.length < low + most) & (stops > low)
            page, stop = self.take(has), stops[has]
            skipped = np.maximum(low - (stop - page.length), 0)
            cut = np.maximum(stop - (low + most), 0)
            yield page._replace(
                first=page.first + skipped,
                last=page.last - cut,
                end=np.where(cut > 0, page.begin, page.end),
                sequence=page.sequence + skipped,
            )


NOTHING_DROPPED = Dropped(*[_NONE] * len(Dropped._fields))
"""The dropped transactions of a chunk (a message) in which the master drops none."""


_XID = bytes(XID_LENGTH - HEADER_LENGTH)
_BEGIN = bytes(14) + b"BEGIN"
_MARIADB_REST = bytes([FL_TRANSACTIONAL | FL_ALLOW_PARALLEL]) + bytes(6)
"""The end of the body of the Gtid event of a MariaDB stand-in (empty transaction for a dropped one), after the
transaction number and the domain.
"""


@functools.cache
def _tail(family: Family, checksum: bool) -> npt.NDArray[np.uint8]:
    """Return the events of a stand-in (an empty transaction for a dropped one) that follow its Gtid event: BEGIN and
    Xid for MySQL, Xid for MariaDB. ``checksum`` says whether the events end in a checksum.
    """
    xid = make_event(EventType.XID, _XID, checksum=checksum)
    begin = make_event(EventType.QUERY, _BEGIN, checksum=checksum)
    return as_array(begin + xid if family == "mysql" else xid)


@functools.cache
def _mariadb_gtid(checksum: bool) -> bytes:
    """Return a template for the Gtid events of MariaDB stand-ins (empty transactions): a Gtid event whose GTID, server
    id and time are 0. ``checksum`` says whether the event ends in a checksum.
    """
    return make_event(EventType.MARIADB_GTID, bytes(_MARIADB_ID) + _MARIADB_REST, checksum=checksum)


def stand_in_of(gtid: bytes, end: int, *, checksum: bool) -> bytes:
    """Return the events of the stand-in (empty transaction) for one dropped transaction.

    :func:`with_stand_ins` makes the stand-ins of many transactions at once.

    Parameters:
        gtid: the transaction's Gtid event.
        end: the position in the binlog file after the transaction, bytes.
        checksum: whether the events of the file end in a checksum.
    """
    timestamp, kind, server_id, *_ = COMMON_HEADER.unpack_from(gtid)
    made = partial(make_event, timestamp=timestamp, server_id=server_id, checksum=checksum)
    xid = made(EventType.XID, _XID, end_log_pos=end & 0xFFFFFFFF)
    before = (end - len(xid)) & 0xFFFFFFFF
    if kind != EventType.MARIADB_GTID:
        return gtid + made(EventType.QUERY, _BEGIN, end_log_pos=before) + xid
    number_and_domain = gtid[HEADER_LENGTH : HEADER_LENGTH + _MARIADB_ID]
    return made(EventType.MARIADB_GTID, number_and_domain + _MARIADB_REST, end_log_pos=before) + xid


def find_dropped(plan: ChunkPlan, segment: Segment, resume: int, read: ReadAt, key_of: KeyOf) -> Dropped:
    """Return the dropped transactions of a chunk (one message) for which a replica gets stand-ins (empty transactions).

    A MySQL replica needs a stand-in for each dropped transaction. A MariaDB replica needs one for the last dropped
    transaction of each replication domain before each sent transaction. Raises BinlogCorrupt if the Gtid event of a
    transaction that began in an earlier segment is not at ``resume``.

    Parameters:
        plan: the description of the chunk, as a dump thread made it from this segment. The plan must not be joined with
            another plan yet.
        segment: the part of the binlog file to which the plan belongs.
        resume: the byte offset of the last transaction boundary at or before the position at which planning began. If a
            transaction is open at this position, its Gtid event begins at ``resume``, which may lie before the segment.
        read: a function that reads the binlog file.
        key_of: a function that returns the GTID source (server UUID, or domain and server) for a source's number.
    """
    if not len(plan.gaps.runs):
        return NOTHING_DROPPED
    source, told = plan.reported
    (own,) = np.nonzero(source >= 0)
    number, time = segment.txn_number[own], segment.time[segment.txn_event[own]]
    # A Gap event's rows have a sequence_number. A transaction of the file has its own Gtid event.
    entries = np.stack((own, source[own], number, number, np.zeros(len(own), np.int64), time), dtype=np.int64)
    if len(told):
        entries = np.concatenate((entries, told.T), axis=1)
        entries = entries[:, np.argsort(entries[TOLD_TRANSACTION], kind="stable")]
    place, end, of_gap, *_ = plan.gaps.row.T
    begin = np.searchsorted(entries[TOLD_TRANSACTION], of_gap)
    until = np.searchsorted(segment.txn_start, end)
    count = np.searchsorted(entries[TOLD_TRANSACTION], until) - begin
    found = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
    transaction, source, first, last, sequence, time = entries.take(found, axis=1)
    event = segment.txn_event[transaction]
    position = segment.positions_of(np.append(segment.txn_start, segment.end))
    offset, size = segment.offset[event], segment.size[event]
    if segment.continues and transaction[0] == 0:
        # The transaction began in an earlier segment.
        head = EventHeader.unpack(read(resume, HEADER_LENGTH))
        if head.type not in (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID):
            raise BinlogCorrupt(NOT_A_GTID, file=segment.file, position=resume)
        offset[0], size[0], time[0] = resume, head.size, head.timestamp
    dropped = Dropped(
        np.repeat(place, count),
        transaction,
        source,
        first,
        last,
        position[transaction],
        position[transaction + 1],
        time,
        sequence,
        offset,
        size,
    )
    fd = segment.format_description
    if fd.family == "mariadb":
        return _of_mariadb(dropped, fd, key_of)
    return dropped if segment.position is None else _of_mysql(dropped)


def _of_mysql(dropped: Dropped) -> Dropped:
    """Return a copy of ``dropped`` in which ``end`` has the end positions of the stand-ins (empty transactions) for a
    MySQL replica, which needs one for each GTID.

    A Gap event (a relay log's note about dropped transactions) gives only the position after the last of its
    transactions. The stand-ins of the earlier ones end at the position before the Gap event.
    """
    is_followed = np.append(np.diff(dropped.transaction) == 0, False)
    return dropped._replace(end=np.where(is_followed, dropped.begin, dropped.end))


def _of_mariadb(dropped: Dropped, fd: FormatDescription, key_of: KeyOf) -> Dropped:
    """Return the rows of ``dropped`` for which a MariaDB replica needs a stand-in (empty transaction). At each position
    of the chunk (message) with dropped transactions, a replica needs one for the last GTID of each domain.

    A Gap event (a relay log's note about dropped transactions) names only one position, at which its last stand-in
    ends. A MariaDB replica never moves to an earlier position. Each earlier stand-in therefore ends where the next one
    begins.
    """
    domains = _keys(dropped, key_of)[:, 0]
    order = np.lexsort((domains, dropped.place))
    places, domains = dropped.place[order], domains[order]
    is_last = np.append((places[1:] != places[:-1]) | (domains[1:] != domains[:-1]), True)
    needed = dropped.take(np.sort(order[is_last]))
    row = np.arange(len(needed.place))
    last_of_gap = np.append(np.flatnonzero(np.diff(needed.transaction)), len(row) - 1)
    later = last_of_gap[np.searchsorted(last_of_gap, row)] - row
    size = MARIADB_GTID_LENGTH + XID_LENGTH + 2 * fd.checksum_length
    return needed._replace(first=needed.last, end=needed.end - later * size)


def _keys(dropped: Dropped, key_of: KeyOf) -> Integers:
    """Return the MariaDB domain id and server id of each row of ``dropped`` (dropped transactions), as an array of
    shape (n, 2). ``key_of`` turns the index of a GTID source into both ids.
    """
    count = np.bincount(dropped.source)
    keys = np.zeros((len(count), 2), np.int64)
    for number in np.flatnonzero(count).tolist():
        keys[number] = key_of(number)
    return keys[dropped.source]


def with_stand_ins(
    events: Bytes,
    dropped: Dropped,
    fd: FormatDescription,
    key_of: KeyOf,
    read: ReadAt,
    gtids: Bytes | None = None,
) -> Bytes:
    """Return the events of a chunk (a message) with the stand-ins (empty transactions) for dropped transactions at
    their positions.

    Parameters:
        events: the bytes of the chunk's events.
        dropped: the dropped transactions that need stand-ins, with the stand-ins' positions in ``events``.
        fd: the format description event of the file.
        key_of: a function that returns the GTID source (server UUID, or domain and server) for a source's number.
        read: a function that reads the binlog file.
        gtids: for MySQL, the Gtid events of the dropped transactions, one after another. None: the Gtid events are read
            from the file. Those of transactions that an earlier master dropped are made, because a relay log only
            notes the GTIDs of these transactions. For MariaDB all are made.

    Raises BinlogError if the Gtid events cannot be read, or if a position lies outside of the chunk.
    """
    if not len(dropped.place):
        return events
    place, end = dropped.place, dropped.end
    if fd.family == "mariadb":
        gtids, offset, size = _mariadb_gtids(dropped, fd, key_of)
    elif gtids is not None:
        offset, size = np.cumsum(dropped.size) - dropped.size, dropped.size
    else:
        gtids, offset, size = _mysql_gtids(dropped, fd, key_of, read)
        row = np.repeat(np.arange(len(place)), dropped.length)
        is_last = np.append(np.diff(row) > 0, True)
        place, end = place[row], np.where(is_last, end[row], dropped.begin[row])
    data, tail = as_array(events), _tail(fd.family, fd.checksum)
    out = np.empty(len(data) + int(size.sum()) + len(place) * len(tail), np.uint8)
    result = K.weave(data, place, end, as_array(gtids), offset, size, tail, fd.checksum, out)
    if result == K.GTID_WRONG:
        raise BinlogCorrupt(NOT_A_GTID)
    if result == K.PLACE_WRONG:
        raise BinlogCorrupt("a chunk is shorter than the places of its dropped transactions")
    return out.data


def _mysql_gtids(dropped: Dropped, fd: FormatDescription, key_of: KeyOf, read: ReadAt) -> _Gtids:
    """Return the Gtid events of the stand-ins (empty transactions) in place of ``dropped`` for a MySQL replica, with
    the offset and length of each. Read the Gtid events of transactions in the file by ``read``. Make those of
    transactions that the file only names in a Gap event, a relay log's note about dropped transactions. ``key_of``
    turns the index of a GTID source into its UUID and tag.
    """
    synthesis = GtidSynthesis(fd)
    parts: list[bytes | memoryview] = []
    sizes = []
    columns = (dropped.source, dropped.first, dropped.length, dropped.sequence, dropped.time, dropped.begin)
    runs = zip(*(column.tolist() for column in columns), strict=True)
    own = zip(dropped.offset.tolist(), dropped.size.tolist(), strict=True)
    for (source, first, length, sequence, time, begin), (offset, size) in zip(runs, own, strict=True):
        if sequence:
            events, lengths = synthesis.gtids(key_of(source), first, length, sequence, time, begin)
        else:
            events, lengths = read(offset, size), size
        parts.append(events)
        sizes.append(np.full(length, lengths))
    each = np.concatenate(sizes)
    return b"".join(parts), np.cumsum(each) - each, each


def _mariadb_gtids(dropped: Dropped, fd: FormatDescription, key_of: KeyOf) -> _Gtids:
    """Make the Gtid events of the stand-ins (empty transactions) in place of ``dropped`` for a MariaDB replica. Return
    them with the offset and length of each. ``key_of`` turns the index of a GTID source into its domain id and server
    id.
    """
    event, n = _mariadb_gtid(fd.checksum), len(dropped.place)
    domain, server = _keys(dropped, key_of).T
    end = dropped.end - len(_tail("mariadb", fd.checksum))
    header = (0, "<u4", dropped.time), (5, "<u4", server), (13, "<u4", end)
    body = (HEADER_LENGTH, "<u8", dropped.last), (HEADER_LENGTH + 8, "<u4", domain)
    return _events(event, n, fd.checksum, *header, *body), np.arange(n) * len(event), np.full(n, len(event))


NOT_A_GTID = (
    "the Gtid event of a dropped transaction is not here; the file was changed, copy it again from the server"
)
"""The text of the error for a Gtid event that is not at the offset at which the index found it."""


class StandIns(NamedTuple):
    """The number and size of stand-ins, empty transactions that give the GTIDs of dropped transactions to a real
    replica.
    """

    number: int
    nbytes: int
    """The bytes of the events of the stand-ins (empty transactions), without the headers of packets."""


class Stretches(NamedTuple):
    """Counts of replication domains in the stretches of a MariaDB binlog, from which :func:`at_most` computes an upper
    limit for stand-ins (empty transactions for dropped ones).

    A stretch is a part of the binlog that no run of dropped transactions crosses, whatever the filter. A stretch ends
    after :data:`PIECE` bytes, and at events between transactions, which the master sends to every slave.
    """

    domains: int = 0
    """The number of MariaDB replication domains in each stretch (part of the binlog), summed over all stretches. 0 for
    MySQL.
    """
    most_domains: int = 0
    """The largest number of MariaDB replication domains in one stretch (part of the binlog). 0 for MySQL."""

    def plus(self, other: Stretches) -> Stretches:
        """Return the counts for two parts of a binlog together, given the counts for each. A stretch is a part that no
        run of dropped transactions crosses. ``domains`` is a sum over all stretches, so both values are added.
        ``most_domains`` is the largest number of domains in one stretch, so the result has the larger value.
        """
        return Stretches(self.domains + other.domains, max(self.most_domains, other.most_domains))


def at_most(dropped: StandIns, sent: int, stretches: Stretches) -> StandIns:
    """Return the largest possible number and size of the stand-ins (empty transactions) that a MariaDB replica gets in
    place of the dropped transactions.

    Each sent transaction ends a run of dropped ones. A run needs at most one stand-in for each replication domain of
    its stretch, a part of the binlog that no run crosses.

    Parameters:
        dropped: the number and size of the stand-ins if each dropped transaction had one.
        sent: the number of sent transactions.
        stretches: the counts of domains in the stretches.
    """
    number = min(dropped.number, stretches.domains + sent * stretches.most_domains)
    # Stand-ins differ only by their checksums. The most bytes are those with as many checksums as possible.
    shortest = MARIADB_GTID_LENGTH + XID_LENGTH
    checksums = EVENTS["mariadb"] * CHECKSUM_LENGTH
    with_checksums = (dropped.nbytes - dropped.number * shortest) // checksums
    return StandIns(number, number * shortest + min(number, with_checksums) * checksums)


class StandInSizes:
    """The computation of the bytes of the stand-in (empty transaction) that a real replica would get for each
    transaction if the transaction were dropped.

    The segments (parts of binlog files) must be given in the order of the binlog, because a transaction can begin in an
    earlier segment. ``sources`` is the register that gives each GTID source (server UUID, or MariaDB's domain and
    server id) its index in the segments' arrays.
    """

    def __init__(self, sources: SourceNumbers) -> None:
        self._sources = sources
        self._domains = np.empty(0, np.int64)
        self._of_open = 0
        self._stretches = Stretches()

    def of(self, segment: Segment) -> Integers:
        """Return for each transaction of ``segment`` the size of its stand-in in bytes, as an array of int64. A
        stand-in is the empty transaction that a real replica would get if the master dropped the transaction.

        0 means that the transaction has no GTID and needs no stand-in. ``segment`` must be the next part of the binlog
        after that of the last call.
        """
        if segment.format_description.family == "mariadb":
            self._stretches = self._stretches.plus(self._stretches_of(segment))
            size = MARIADB_GTID_LENGTH + XID_LENGTH + 2 * segment.format_description.checksum_length
            return np.where(segment.txn_source >= 0, np.int64(size), 0)
        return self._mysql(segment)

    def take_stretches(self) -> Stretches:
        """Return the counts of replication domains in the stretches since the last call of this method, and begin to
        count anew. A stretch is a part of the binlog that no run of dropped transactions crosses. The counts limit the
        number of stand-ins (empty transactions) of a MariaDB replica.
        """
        found, self._stretches = self._stretches, Stretches()
        return found

    def _mysql(self, segment: Segment) -> Integers:
        n = len(segment.txn_source)
        first = segment.txn_event[:n]
        has_gtid = (segment.txn_source >= 0) & (segment.role[first] & R.ROLE_MASK == R.GTID)
        others = BEGIN_LENGTH + XID_LENGTH + 2 * segment.format_description.checksum_length
        sizes = np.where(has_gtid, segment.size[first] + others, 0)
        if segment.continues and n:
            sizes[0] = self._of_open
        self._of_open = int(sizes[-1]) if segment.open and n else 0
        return sizes

    def _stretches_of(self, segment: Segment) -> Stretches:
        source = segment.txn_source[: segment.ended]
        which = np.flatnonzero(source >= 0)
        if not len(which):
            return Stretches()
        end = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)[which]
        is_sent_to_all = source == R.KEPT
        is_gap = segment.role & R.ROLE_MASK == R.GAP
        if is_gap.any():
            # The master sends no Gap events of a relay log.
            is_sent_to_all &= np.logical_or.reduceat(~is_gap, segment.txn_event[:-1])[: len(source)]
        # Both summands only rise, so each pair of a piece and a number of events between transactions has its own sum.
        stretch = (end - 1 - segment.start) // PIECE + np.cumsum(is_sent_to_all)[which]
        # A domain id has 32 bits.
        keys = np.unique(stretch << 32 | self._domain_of(source[which]))
        _, domains = np.unique(keys >> 32, return_counts=True)
        return Stretches(len(keys), int(domains.max()))

    def _domain_of(self, sources: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        known = len(self._domains)
        if known < self._sources.count:
            keys = [self._sources.key(number)[0] for number in range(known, self._sources.count)]
            # The files of a server that was MySQL before have GTID sources without a domain.
            more = [key if isinstance(key, int) else 0 for key in keys]
            self._domains = np.concatenate([self._domains, np.array(more, np.int64)])
        return self._domains[sources]
