"""A segment: consecutive events of one binlog file as numpy columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.index._scan import EventColumns, TransactionColumns
from dumpfilter.index.xa import ALWAYS, Prepared

_SEGMENT_OVERHEAD = 2 << 10
"""What a segment takes in memory beside its columns' bytes: nothing to one of megabytes, most of it to one of a small
compressed transaction."""


@dataclass(frozen=True)
class Segment:
    """Consecutive events of one file, ``start`` to ``end`` (file offsets, bytes).

    Event columns, all of one length: ``offset`` int64, ``size`` int64, ``time`` uint32 (Unix seconds), ``type``
    uint8, ``role`` uint8 (:mod:`dumpfilter.binlog.roles`), ``subject`` int32 (a number of the set's
    :class:`Subjects`, or negative). Transaction columns: ``txn_event`` int64 (its first event; one entry
    more than there are transactions, the last is the number of events), ``txn_subject`` int32 (the only
    subject in it, or negative), ``txn_source`` int32 and ``txn_number`` int64 (its GTID, in every segment that
    has a part of it; source -1 without one, -3 for events between transactions), ``txn_server`` uint32 (the server id
    in the header of its first event).

    ``txn_set`` int64 (one entry more than there are transactions): where each transaction's entries in ``set_subject``
    int32 begin, the different subjects of a transaction with several whose events go by them alone; what is
    not so plain has none.

    ``continues``: the first transaction began in an earlier segment. ``open``: the last one goes on in the next.

    ``xa_ends``: the numbers of the events (role STATEMENT) that end an XA transaction of which is known what it holds.

    ``payloads``: by the number of its event (role PAYLOAD), each compressed transaction as a segment of its own,
    whose offsets count in the opened bytes. ``prepared``: the XA transactions that wait for their end where the
    segment ends. ``earlier_ends``: by the number of its event, each end of an XA transaction that was prepared before
    the segment; ``unknown_ends``: those of them (role KEEP) of which the scan has not seen the beginning.

    ``format_description``: the one in force.
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
    payloads: Mapping[int, Segment]
    prepared: Prepared
    earlier_ends: Mapping[int, Xid]
    unknown_ends: Mapping[int, Xid]
    xa_ends: frozenset[int] = frozenset()

    @property
    def nbytes(self) -> int:
        """What the columns take in memory, bytes, with those of the payloads."""
        return sum(
            column.nbytes
            for column in (
                self.offset,
                self.size,
                self.time,
                self.type,
                self.role,
                self.subject,
                self.txn_event,
                self.txn_subject,
                self.txn_source,
                self.txn_number,
                self.txn_server,
                self.txn_set,
                self.set_subject,
            )
        ) + sum(_SEGMENT_OVERHEAD + payload.nbytes for payload in self.payloads.values())

    def with_known_ends(self, holds: Mapping[Xid, int]) -> Segment:
        """The segment with ends of XA transactions known after all: what the transactions hold, as in
        ``prepared``."""
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
            xa_ends=self.xa_ends | known.keys(),
        )

    def transaction_of(self, event: int) -> int:
        """The number of the transaction that an event, by its number, belongs to."""
        return int(np.searchsorted(self.txn_event, event, "right")) - 1

    def transaction_at(self, position: int) -> int | None:
        """The number of the transaction that begins at a file offset, or None when none does.

        ``end`` itself gives the number of transactions when no transaction is open there.
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
    """The arrays that a scan writes into, used again for each segment. See :class:`Segment` for the columns."""

    def __init__(self, capacity: int) -> None:
        self.events = EventColumns(
            offset=np.empty(capacity, np.int64),
            size=np.empty(capacity, np.int64),
            time=np.empty(capacity, np.uint32),
            type=np.empty(capacity, np.uint8),
            role=np.empty(capacity, np.uint8),
            subject=np.empty(capacity, np.int32),
        )
        self.transactions = TransactionColumns(
            event=np.empty(capacity + 1, np.int64),
            subject=np.empty(capacity + 1, np.int32),
            source=np.empty(capacity + 1, np.int32),
            number=np.empty(capacity + 1, np.int64),
            server=np.empty(capacity + 1, np.uint32),
        )
        self.set_start = np.empty(capacity + 1, np.int64)
        self.set_subject = np.empty(capacity, np.int32)

    def grown(self, used: int) -> Columns:
        """Return columns of twice the capacity that hold the first ``used`` events."""
        larger = Columns(2 * len(self.events.offset))
        for name in EventColumns._fields:
            getattr(larger.events, name)[:used] = getattr(self.events, name)[:used]
        return larger
