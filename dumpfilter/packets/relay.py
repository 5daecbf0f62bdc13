"""Stand-ins of the transactions that only the Gap events of a slave's relay log tell.

The writer is the server that wrote the binlog of the slave's master. A relay log has the writer's events with the
writer's ``end_log_pos``. A replica that is served from a relay log shall see the writer's files, positions and GTIDs.
Where the master dropped transactions, the relay log has a Gap event. The Gap event tells their GTIDs and the position
after them, and nothing else.

The Gtid event of such a stand-in (:mod:`dumpfilter.packets.empties`) is synthesized:

- ``sequence_number`` is the one that the writer gave. A server numbers the transactions of a file without holes, and
  Gap events tell how many transactions they stand for.
- ``last_committed`` is 0, because a transaction without changes waits for no other.
- The times are those of the newest event before the Gap event, so that the lag of a replica stays meaningful.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import encode_varlen
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.stand_ins import BEGIN_LENGTH, MARIADB_GTID_LENGTH, XID_LENGTH
from dumpfilter.index.segment import Segment
from dumpfilter.packets import _kernels as K
from dumpfilter.packets.empties import (
    NO_EMPTIES,
    OWN,
    Empties,
    find_dropped,
    last_of_domains,
    layout,
    mariadb_empties,
)

Integers = npt.NDArray[np.int64]

# The versions of MySQL from which on a Gtid event has more fields.
_WITH_SEQUENCE = (5, 7)
_WITH_COMMIT_TIME = (8, 0, 2)
_WITH_SERVER_VERSION = (8, 0, 14)

_LARGEST_SHORT_LENGTH = 250
"""The largest number that a length-encoded integer of one byte can hold."""

_MICROSECONDS = 1_000_000

_FIELDS = {
    "timestamp": (0, "<u4"),
    "number": (HEADER_LENGTH + 17, "<u8"),
    "sequence": (HEADER_LENGTH + 34, "<u8"),
    "commit_time": (HEADER_LENGTH + 42, "<u8"),
}
"""The offset and type of each field in which Gtid events differ. Early versions lack the last two fields."""

_SERIALIZATION_VERSION = 1
"""The version of ``mysql::serialization``, in which a GTID_TAGGED event is written."""


class DroppedRun(NamedTuple):
    """Consecutive GTIDs of one source that a replica needs, although their transactions were dropped."""

    place: int
    """The bytes of the chunk's events that come before."""
    key: SourceKey
    first: int
    last: int
    transaction: int
    """The number of the segment's transaction, or of the Gap event, which tells the GTIDs."""
    begin: int
    """The writer's position before the transaction or Gap event."""
    end: int
    """The writer's position after the transaction or Gap event."""
    time: int
    """The time of the transaction, or of the newest event before the Gap event, Unix seconds."""
    sequence: int
    """The first ``sequence_number`` of a run that a Gap event tells. 0 for a transaction that the relay log has."""

    @property
    def length(self) -> int:
        """The number of the GTIDs."""
        return self.last - self.first + 1

    def after(self, skipped: int) -> DroppedRun:
        """Return the GTIDs after the first ``skipped`` ones. Only a run that a Gap event tells has several."""
        sequence = self.sequence and self.sequence + skipped
        return self._replace(first=self.first + skipped, sequence=sequence)


def dropped_runs(plan: ChunkPlan, segment: Segment, key_of: Callable[[int], SourceKey]) -> list[DroppedRun]:
    """Return the dropped transactions that a chunk's gaps name, in the order of the stream."""
    found, writer = find_dropped(plan, segment), segment.writer
    assert writer is not None, "the segment is not one of a relay log"
    position = writer.position[segment.txn_event]
    is_told = found.ordinal != OWN
    gap = np.searchsorted(segment.dropped.transaction, found.transaction)
    own_time = segment.time[segment.txn_event[found.transaction]].astype(np.int64)
    time = np.where(is_told, np.append(writer.time, 0)[gap], own_time)
    sequence = np.where(is_told, np.append(writer.sequence, 0)[gap] + found.ordinal + 1, 0)
    keys = {number: key_of(number) for number in np.unique(found.source).tolist()}
    columns = (
        found.place,
        found.source,
        found.first,
        found.last,
        found.transaction,
        position[found.transaction],
        position[found.transaction + 1],
        time,
        sequence,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [DroppedRun(place, keys[source], *others) for place, source, *others in rows]


def pages(runs: list[DroppedRun], most: int) -> Iterator[list[DroppedRun]]:
    """Yield the runs in lists of at most ``most`` GTIDs. A Gap event of a few bytes may tell millions of GTIDs."""
    page: list[DroppedRun] = []
    left = most
    for run in runs:
        rest = run
        while rest.length > left:
            if left:
                page.append(rest._replace(last=rest.first + left - 1, end=rest.begin))
                rest = rest.after(left)
            yield page
            page, left = [], most
        page.append(rest)
        left -= rest.length
    if page:
        yield page


def mysql_stand_ins(
    runs: list[DroppedRun], fd: FormatDescription, gtid_of: Callable[[int], bytes]
) -> Empties:
    """Return the stand-ins of dropped transactions for a MySQL replica, which needs each GTID.

    ``gtid_of`` returns the Gtid event of a transaction that the relay log has, by the transaction's number in the
    segment.
    """
    if not runs:
        return NO_EMPTIES
    synthesis = GtidSynthesis(fd)
    parts: list[bytes | memoryview] = []
    sizes, ends = [], []
    for run, following in zip(runs, [*runs[1:], None], strict=True):
        if not run.sequence:
            events: bytes | memoryview = gtid_of(run.transaction)
            lengths: int | Integers = len(events)
        else:
            events, lengths = synthesis.gtids(
                run.key, run.first, run.length, run.sequence, run.time, run.begin
            )
        parts.append(events)
        sizes.append(np.full(run.length, lengths))
        # Only after the last of its transactions a Gap event tells a position.
        ends.append(np.full(run.length, run.begin))
        if following is None or following.transaction != run.transaction:
            ends[-1][-1] = run.end
    place = np.repeat([run.place for run in runs], [run.length for run in runs])
    size = np.concatenate(sizes)
    return Empties(place, np.concatenate(ends), np.cumsum(size) - size, size, b"".join(parts))


def mariadb_stand_ins(runs: list[DroppedRun], fd: FormatDescription) -> Empties:
    """Return the stand-ins for a MariaDB replica, which needs the last GTID of each domain (:func:`domain_ends`).

    A MariaDB replica moves to the position of an event, but never back. The stand-ins of one Gap event therefore end
    one after another, and the last of them ends at the position that the Gap event tells.
    """
    if not runs:
        return NO_EMPTIES
    stand_in = MARIADB_GTID_LENGTH + XID_LENGTH + 2 * fd.checksum_length
    number = np.arange(len(runs))
    transaction, place, end, last, time = np.array(
        [(run.transaction, run.place, run.end, run.last, run.time) for run in runs]
    ).T
    keys = np.array([run.key for run in runs], np.int64)
    # The number of stand-ins of the same Gap event that follow directly.
    last_of_gap = np.append(np.flatnonzero(np.diff(transaction)), len(runs) - 1)
    later = last_of_gap[np.searchsorted(last_of_gap, number)] - number
    place, end = np.ascontiguousarray(place), end - later * stand_in
    return mariadb_empties(place, end, keys, last, time, checksum=fd.checksum)


def domain_ends(runs: list[DroppedRun]) -> list[DroppedRun]:
    """Return the last GTID of each domain (MariaDB) among the transactions dropped at one place of the chunk."""
    places = np.array([run.place for run in runs], np.int64)
    domains = np.array([run.key[0] for run in runs], np.int64)
    last = last_of_domains(places, domains).tolist() if runs else []
    return [runs[number].after(runs[number].length - 1) for number in last]


class GtidSynthesis:
    """Makes Gtid events of transactions without changes, as the server that a format description names would."""

    def __init__(self, fd: FormatDescription) -> None:
        self._checksum = fd.checksum
        self._tail = CHECKSUM_LENGTH if fd.checksum else 0
        self._server_id = fd.header.server_id
        version = fd.version
        self._version = version[0] * 10_000 + version[1] * 100 + version[2] if len(version) == 3 else 0
        self._has_sequence = version >= _WITH_SEQUENCE
        self._has_commit_time = version >= _WITH_COMMIT_TIME
        self._has_server_version = version >= _WITH_SERVER_VERSION

    def gtids(
        self, key: SourceKey, first: int, count: int, sequence: int, time: int, end_log_pos: int
    ) -> tuple[bytes | memoryview, int | Integers]:
        """Return Gtid events with the numbers from ``first`` on, and their length or lengths.

        ``sequence`` is the ``sequence_number`` of the first one. All have the same ``time`` and ``end_log_pos``.
        """
        uuid, tag = key
        assert isinstance(uuid, bytes)
        if tag:
            events = [
                self._tagged(uuid, str(tag), first + n, sequence + n, time, end_log_pos) for n in range(count)
            ]
            return b"".join(events), np.array([len(event) for event in events], np.int64)
        template = self._template(uuid, end_log_pos)
        out = np.frombuffer(bytearray(template * count), layout(len(template), **_FIELDS))
        out["timestamp"] = time
        out["number"] = np.arange(first, first + count)
        if self._has_sequence:
            out["sequence"] = np.arange(sequence, sequence + count)
        if self._has_commit_time:
            # The time has 7 bytes. The byte after it belongs to the template.
            out["commit_time"] |= time * _MICROSECONDS
        made = out.view(np.uint8)
        if self._checksum:
            K.seal(made)
        return made.data, len(template)

    def _event(self, kind: EventType, body: bytes, time: int, end_log_pos: int) -> bytes:
        return make_event(
            kind,
            body,
            timestamp=time,
            server_id=self._server_id,
            end_log_pos=end_log_pos & 0xFFFFFFFF,
            checksum=self._checksum,
        )

    def _transaction_length(self, gtid_length: int) -> int:
        return gtid_length + BEGIN_LENGTH + XID_LENGTH + 2 * self._tail

    def _template(self, uuid: bytes, end_log_pos: int) -> bytes:
        body = bytes(1) + uuid + bytes(8)
        if self._has_sequence:
            body += b"\x02" + bytes(16)
        if self._has_commit_time:
            rest = 1 + (4 if self._has_server_version else 0)
            length = self._transaction_length(HEADER_LENGTH + len(body) + 7 + rest + self._tail)
            assert length <= _LARGEST_SHORT_LENGTH
            body += bytes(7) + bytes([length])
        if self._has_server_version:
            body += self._version.to_bytes(4, "little")
        return self._event(EventType.GTID, body, 0, end_log_pos)

    def _tagged(
        self, uuid: bytes, tag: str, number: int, sequence: int, time: int, end_log_pos: int
    ) -> bytes:
        """Return a GTID_TAGGED event (:func:`~dumpfilter.binlog.gtid_events.decode_gtid_tagged` has the layout)."""

        def body(length: int) -> bytes:
            numbers = [0, 0, 1, *uuid, 2, number << 1, 3, len(tag)]
            times = [4, 0, 5, sequence << 1, 6, time * _MICROSECONDS, 8, length, 9, self._version]
            fields = _varlens(numbers) + tag.encode() + _varlens(times)
            content = _varlens([0]) + fields
            size = len(_varlens([_SERIALIZATION_VERSION])) + len(content)
            # The size counts itself.
            size += len(_varlens([size + 1]))
            return _varlens([_SERIALIZATION_VERSION, size]) + content

        length = 0
        while (found := self._transaction_length(HEADER_LENGTH + len(body(length)) + self._tail)) != length:
            length = found
        return self._event(EventType.GTID_TAGGED, body(length), time, end_log_pos)


def _varlens(numbers: list[int]) -> bytes:
    return b"".join(map(encode_varlen, numbers))
