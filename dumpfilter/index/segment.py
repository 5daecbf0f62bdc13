"""A segment: consecutive events of one binlog file, scanned into numpy arrays, with the XA transactions that are
prepared at its end.

A prepared transaction is a transaction that ends in an XA_prepare event. The XA COMMIT or XA ROLLBACK of a prepared
transaction comes later, with another GTID, and names only the xid. A slave needs this end exactly when the slave
received the prepared transaction. The index therefore remembers the subjects (tables and statements) of each prepared
transaction until the end.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.compiler.arrays import Int64s2
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.index._scan import EventColumns, TransactionColumns

ALWAYS = R.KEPT
"""The value in :data:`Prepared` for a prepared XA transaction that has events for every slave. Every slave then needs
its XA COMMIT or XA ROLLBACK, too.
"""

Prepared = Mapping[Xid, int]
"""The XA transactions that are prepared at one position of the stream, by xid in canonical form (:func:`canonical`).

The value is the number of the set of tables and statements that the transaction changes (:meth:`Subjects.any_of`). The
value is :data:`ALWAYS` when the master sends some of the transaction's events to every slave.
"""

NONE_PREPARED: Prepared = MappingProxyType({})

_END = re.compile(
    rb"XA\s+(?:COMMIT|ROLLBACK)\s+X'((?:[0-9a-f]{2})*)'\s*,\s*X'((?:[0-9a-f]{2})*)'\s*,\s*(-?\d{1,20})\s*",
    re.IGNORECASE,
)


def ended_xid(text: bytes) -> Xid | None:
    """Return the xid that an XA COMMIT or XA ROLLBACK statement names, or None for any other text.

    The xid is read in the form that servers write (``serialize_xid``), and returned in canonical form.

    >>> str(ended_xid(b"XA COMMIT X'67',X'62',7"))
    "X'67',X'62',7"
    """
    found = _END.fullmatch(text)
    if found is None:
        return None
    gtrid, bqual, format_id = found.groups()
    return canonical(Xid(int(format_id), bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode())))


def canonical(xid: Xid) -> Xid:
    """Return an equal xid whose format id is an unsigned number of 32 bits, so that xids can be compared.

    The format id in the text of XA COMMIT and in the XA_prepare event may differ in the sign.
    """
    return replace(xid, format_id=xid.format_id & 0xFFFFFFFF)


_SEGMENT_OVERHEAD = 2 << 10
"""The memory that a segment (scanned events) takes besides its arrays, bytes. This memory is counted because each
compressed transaction is a small segment, and a binlog may have very many.
"""


TOLD_TRANSACTION, TOLD_SOURCE, TOLD_FIRST, TOLD_LAST, TOLD_SEQUENCE, TOLD_TIME = range(6)
"""The columns of :attr:`Segment.dropped`. Each row is a run of consecutive GTIDs of transactions that the master
dropped, as a Gap event in a slave's relay log lists them.

- TOLD_TRANSACTION: the number of the Gap event's entry among the segment's transactions, ascending.
- TOLD_SOURCE: the number of the GTID source (server UUID, or MariaDB's domain id and server id).
- TOLD_FIRST, TOLD_LAST: the first and the last transaction number of the run.
- TOLD_SEQUENCE: the ``sequence_number`` of the run's first transaction in the binlog of the server that wrote it.
- TOLD_TIME: the time of the newest event before the Gap event, Unix seconds.
"""
TOLD_COLUMNS = 6

NONE_TOLD: Int64s2 = np.empty((0, TOLD_COLUMNS), np.int64)
"""The value of :attr:`Segment.dropped` for a segment without Gap events (a relay log's notes about dropped
transactions), as in every server's own binlog.
"""


class WriterPoint(NamedTuple):
    """A position in the binlog of the writer (the server that wrote the events), with the newest sequence_number and
    time before the position.

    A slave keeps such a point for an offset of a relay log file, because offsets in a relay log differ from the
    positions in the writer's binlog.
    """

    position: int
    """The position in the binlog file of the server that wrote the events, bytes."""
    sequence: int = 0
    """The ``sequence_number`` of the newest transaction before the position. Dropped transactions that a relay log's
    Gap event notes count, too.
    """
    time: int = 0
    """The time of the newest event before the position, by the server that wrote the events, Unix seconds."""


_OF_EVENTS = EventColumns._fields
_OF_TRANSACTIONS = ("txn_subject", "txn_source", "txn_number", "txn_server")
"""The names of the arrays of a segment (consecutive events of a file): those with one entry for each event
(``_OF_EVENTS``), and some with one for each transaction (``_OF_TRANSACTIONS``).
"""

BY_EVENT = ("payloads", "unknown_ends", "xa_ends", "xa_prepares")
"""The names of those fields of :class:`Segment` that are mappings whose keys are indexes of events in the segment."""

_EVENT_TYPES = (np.int64, np.int64, np.uint32, np.uint8, np.uint8, np.int32)
_TRANSACTION_TYPES = (np.int64, np.int32, np.int32, np.int64, np.uint32, np.int64)
"""The numpy types of the fields of :class:`EventColumns` (``_EVENT_TYPES``), and of :class:`TransactionColumns`
(``_TRANSACTION_TYPES``), in their order.
"""


def _before(of_events: Mapping[int, Any], stop: int) -> Any:
    """Return a dictionary with the entries of ``of_events`` for the events before the event with the index ``stop``.
    The keys of the mapping ``of_events`` are indexes of events in a segment (consecutive events of a file).
    """
    return {event: value for event, value in of_events.items() if event < stop}


@dataclass(frozen=True)
class Segment:
    """Consecutive events of one binlog file, scanned into arrays: from file offset ``start`` to ``end``, bytes.

    A role is the condition on which the master sends an event, such as with its transaction, or with its table. A
    subject is a table or statement that filters decide about.

    Arrays with one entry for each event:

    - ``offset`` int64 and ``size`` int64, bytes. ``time`` uint32, Unix seconds. ``type`` uint8.
    - ``role`` uint8: a role of :mod:`dumpfilter.binlog.roles`.
    - ``subject`` int32: the number of the event's subject in the binlog set's :class:`Subjects`, or a negative
      constant of :mod:`dumpfilter.binlog.roles`.

    Arrays with one entry for each transaction:

    - ``txn_event`` int64: the index of the transaction's first event. One entry more holds the number of all events.
    - ``txn_subject`` int32: the transaction's only subject, or a negative constant such as ``MIXED``.
    - ``txn_source`` int32 and ``txn_number`` int64: the GTID, in every segment that has a part of the transaction. The
      source is -1 without a GTID and -3 for events between transactions.
    - ``txn_server`` uint32: the server id in the header of the first event.
    - ``txn_set`` int64: the start of the transaction's entries in ``set_subject`` int32. One entry more holds the end
      of the last.

    A transaction has entries in ``set_subject`` when it has several subjects and the same verdict for all of them
    decides the whole transaction. The entries are these subjects.

    Other fields:

    - ``continues``: whether the first transaction began in an earlier segment.
    - ``open``: whether the last transaction goes on in the next segment.
    - ``xa_ends``: a mapping from the index of an event (role STATEMENT) to its xid, for each end of an XA transaction
      whose subjects are known.
    - ``xa_prepares``: the same for each event that prepares an XA transaction, also inside a compressed transaction.
    - ``payloads``: a mapping from the index of a compressed transaction's event (role PAYLOAD) to the events inside, as
      their own segment. Offsets in such a segment count in the uncompressed bytes.
    - ``prepared``: the XA transactions that are prepared at the end of the segment.
    - ``unknown_ends``: the same as ``xa_ends`` for each end of an XA transaction whose preparation the scan has not
      seen. No filter can decide about such an end (role KEEP).
    - ``dropped``: the GTIDs of transactions that the master dropped, from the Gap events (notes about dropped
      transactions) of a slave's relay log. A row is a run of consecutive GTIDs, with the columns ``TOLD_...``. A Gap
      event between two transactions counts as a transaction whose subject is SKIP and whose source is -3.
    - ``has_inner_gaps``: whether any Gap event stands inside a transaction. Such an event only records rule hits
      (matches of filter rules with dropped events).
    - ``format_description``: the format description event by which the events are read.
    - ``position``: in a relay log only, the position of each event in the binlog of the writer, the server that wrote
      the events. One more entry has the position after the last event.
    """

    file: str
    start: int
    end: int
    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    time: npt.NDArray[np.uint32]
    type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]
    txn_event: npt.NDArray[np.int64]
    txn_subject: npt.NDArray[np.int32]
    txn_source: npt.NDArray[np.int32]
    txn_number: npt.NDArray[np.int64]
    txn_server: npt.NDArray[np.uint32]
    txn_set: npt.NDArray[np.int64]
    set_subject: npt.NDArray[np.int32]
    continues: bool
    open: bool
    format_description: FormatDescription
    prepared: Prepared
    payloads: Mapping[int, Segment] = field(default_factory=dict)
    unknown_ends: Mapping[int, Xid] = field(default_factory=dict)
    xa_ends: Mapping[int, Xid] = field(default_factory=dict)
    xa_prepares: Mapping[int, Xid] = field(default_factory=dict)
    dropped: Int64s2 = field(default_factory=lambda: NONE_TOLD)
    has_inner_gaps: bool = False
    position: npt.NDArray[np.int64] | None = None

    def position_of(self, offset: int) -> int:
        """Return the position in the writer's binlog file for the byte offset ``offset`` in this file. The offset is
        that of an event, or the end of the segment (these consecutive events).

        The writer is the server that wrote the events. In a server's own binlog the result is the offset itself. In a
        relay log the two differ.
        """
        return offset if self.position is None else int(self.position[np.searchsorted(self.offset, offset)])

    def positions_of(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the positions in the writer's binlog file for byte offsets in this file. Each offset is that of an
        event, or the end of the segment (these consecutive events).

        The writer is the server that wrote the events. In a server's own binlog the offsets are returned. In a relay
        log the two differ.
        """
        if self.position is None:
            return offsets
        found: npt.NDArray[np.int64] = self.position[np.searchsorted(self.offset, offsets)]
        return found

    @functools.cached_property
    def all_ends(self) -> Mapping[int, Xid]:
        """The xid of each XA COMMIT and XA ROLLBACK. The keys are the indexes of the events in this segment (part of a
        file).
        """
        return {**self.xa_ends, **self.unknown_ends}

    @property
    def txn_start(self) -> npt.NDArray[np.int64]:
        """The byte offset in the file of the first event of each transaction, int64. For a transaction that began in an
        earlier segment (part of the file), the value is the offset of its first event in this segment.
        """
        starts: npt.NDArray[np.int64] = self.offset[self.txn_event[:-1]]
        return starts

    @property
    def ended(self) -> int:
        """The number of transactions that end in the segment (part of a file). Only the last transaction may not."""
        return len(self.txn_subject) - self.open

    @property
    def nbytes(self) -> int:
        """The memory that the segment (the scanned events) takes, bytes, including the events inside compressed
        transactions.
        """
        arrays = sum(column.nbytes for column in vars(self).values() if isinstance(column, np.ndarray))
        return arrays + sum(_SEGMENT_OVERHEAD + payload.nbytes for payload in self.payloads.values())

    def with_known_ends(self, holds: Mapping[Xid, int]) -> Segment:
        """Return a copy in which filters can decide about XA COMMIT and XA ROLLBACK events that were unknown before.

        The events are those in ``unknown_ends``, whose transactions were prepared before the scan began. ``holds`` maps
        the xid of such a transaction to a number from :meth:`Subjects.any_of`, which stands for the tables and
        statements that the transaction changes. The value ALWAYS stands for a transaction of which the master sends
        some events in any case.
        """
        known = {event: holds[xid] for event, xid in self.unknown_ends.items() if xid in holds}
        if not known:
            return self
        role, subject, txn_subject = self.role.copy(), self.subject.copy(), self.txn_subject.copy()
        for event, number in known.items():
            if number != ALWAYS:
                role[event] = R.STATEMENT | (role[event] & R.ENDS)
                subject[event] = txn_subject[self.transaction_of(event)] = number
        unknown = {event: xid for event, xid in self.unknown_ends.items() if event not in known}
        return replace(
            self,
            role=role,
            subject=subject,
            txn_subject=txn_subject,
            unknown_ends=unknown,
            xa_ends={**self.xa_ends, **{event: self.unknown_ends[event] for event in known}},
        )

    def with_gaps_sent(self) -> Segment:
        """Return a copy in which the Gap events between transactions are marked as events that are always sent. A Gap
        event is a relay log's note about transactions that the master dropped.

        Programs that print a relay log use the copy to show what the master dropped.
        """
        is_gap = self.role == (R.GAP | R.ENDS)
        if not is_gap.any():
            return self
        return replace(
            self,
            role=np.where(is_gap, np.uint8(R.FILE | R.ENDS), self.role),
            txn_subject=np.where(is_gap[self.txn_event[:-1]], np.int32(R.KEPT), self.txn_subject),
            dropped=NONE_TOLD,
        )

    def before(self, txn: int) -> Segment:
        """Return the part of this segment (consecutive events of a file) before the transaction with the index ``txn``
        in the segment. The index must not be 0.
        """
        events = int(self.txn_event[txn])
        sets = int(self.txn_set[txn])
        prepared = dict(self.prepared)
        for event, xid in sorted({**self.xa_prepares, **self.xa_ends}.items(), reverse=True):
            if event >= events:
                prepared.pop(xid, None)
                if event in self.xa_ends:
                    prepared[xid] = int(self.txn_subject[self.transaction_of(event)])
        return replace(
            self,
            end=int(self.offset[events]),
            txn_event=self.txn_event[: txn + 1],
            txn_set=self.txn_set[: txn + 1],
            set_subject=self.set_subject[:sets],
            **{name: getattr(self, name)[:events] for name in _OF_EVENTS},
            **{name: getattr(self, name)[:txn] for name in _OF_TRANSACTIONS},
            open=False,
            prepared=prepared,
            **{name: _before(getattr(self, name), events) for name in BY_EVENT},
            dropped=self.dropped[: np.searchsorted(self.dropped[:, TOLD_TRANSACTION], txn)],
            position=None if self.position is None else self.position[: events + 1],
        )

    @property
    def boundaries(self) -> npt.NDArray[np.int64]:
        """The byte offsets in the file, within this segment (part of the file), at which no transaction is open, in
        ascending order. A reader can begin or stop at each of these offsets.
        """
        begins: npt.NDArray[np.int64] = self.offset[self.txn_event[int(self.continues) : -1]]
        return begins if self.open else np.append(begins, self.end)

    def transaction_of(self, event: int) -> int:
        """Return the index of the transaction to which the event with the index ``event`` belongs. Both indexes count
        in this segment (part of a file).
        """
        return int(np.searchsorted(self.txn_event, event, "right")) - 1

    def transaction_at(self, position: int) -> int | None:
        """Return the index in this segment (part of a file) of the transaction that begins at the byte offset
        ``position`` in the file. None if no transaction begins at this offset.

        For the offset at the segment's end, the result is the number of transactions, unless the last one continues in
        the next segment (then None).
        """
        if position == self.end:
            return None if self.open else len(self.txn_subject)
        event = int(np.searchsorted(self.offset, position))
        if event >= len(self.offset) or self.offset[event] != position:
            return None
        txn = int(np.searchsorted(self.txn_event, event))
        if self.txn_event[txn] != event or (txn == 0 and self.continues):
            return None
        return txn


class Columns:
    """The arrays into which a scan writes the events and transactions of a segment (a part of a binlog file). The next
    scan overwrites them.

    :class:`~dumpfilter.index.segment.Segment` describes the columns. ``capacity`` is the number of events for which the
    arrays have room.
    """

    def __init__(self, capacity: int) -> None:
        self.events = EventColumns._make(np.empty(capacity, kind) for kind in _EVENT_TYPES)
        self.transactions = TransactionColumns._make(
            np.empty(capacity + 1, kind) for kind in _TRANSACTION_TYPES
        )
        self.source_keys = np.empty((capacity, 2), np.uint64)
        self.set_subject = np.empty(capacity, np.int32)

    def grown(self, used: int) -> Columns:
        larger = Columns(2 * len(self.events.offset))
        for name in EventColumns._fields:
            getattr(larger.events, name)[:used] = getattr(self.events, name)[:used]
        return larger
