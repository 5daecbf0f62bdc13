"""The XA rule under imposed filters that drop events about which nobody can decide.

The index remembers the tables of each prepared transaction. An event of an unknown type has no table, so the index
notes that every slave is sent a part of the transaction. If an imposed filter drops such events, the note may be wrong.
:class:`DroppedParts` remembers what was really sent.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.payload import open_payload
from dumpfilter.dump.xa import SentParts
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event
from dumpfilter.index.xa import ended_xid

_ALWAYS_SENT = (R.KEEP, R.XA, R.PAYLOAD, R.REPLACED)
_BY_SUBJECT = (R.ROWS, R.ROWS_END, R.STATEMENT)


class DroppedParts:
    """Decides about the XA COMMIT and XA ROLLBACK events whose prepared transaction held an undecidable event."""

    def __init__(self, flags: TableFlags) -> None:
        self.flags = flags
        self._parts = SentParts()
        self._is_sent = False
        """Whether a part of the transaction that goes on in the next segment has been sent."""

    def fork(self) -> DroppedParts:
        """Return an independent copy."""
        fork = DroppedParts(self.flags)
        fork._parts, fork._is_sent = self._parts.fork(), self._is_sent
        return fork

    @property
    def key(self) -> Hashable:
        """A value that is equal for objects that decide alike about all later segments, between two transactions."""
        return self._parts.key

    def decide(
        self,
        segment: Segment,
        role: npt.NDArray[np.uint8],
        txn_subject: npt.NDArray[np.int32],
        first: int,
        read: ReadAt,
    ) -> npt.NDArray[np.int32]:
        """Return ``txn_subject`` with SKIP for each end of an XA transaction of which nothing was sent.

        ``role`` are the events' roles after imposed filters have withheld events.
        """
        if self.flags.on_undecided is not OnUndecided.DROP:
            return txn_subject
        kinds = role & R.ROLE_MASK
        subject = segment.subject
        sent = np.isin(kinds, _ALWAYS_SENT)
        sent |= (
            np.isin(kinds, _BY_SUBJECT)
            & (subject >= 0)
            & (self.flags.array()[np.maximum(subject, 0)] & FILTER_BINLOG_SEND_F != 0)
        )
        carried, self._is_sent = self._is_sent and segment.continues, False
        if segment.open:
            begin = int(segment.txn_event[-2])
            self._is_sent = bool(sent[begin:].any()) or (carried and len(txn_subject) == 1)
        skipped = []
        prepares = np.isin(segment.type, (EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD))
        for event in sorted({*np.flatnonzero(prepares).tolist(), *segment.xa_ends}):
            txn = segment.transaction_of(event)
            if txn < first or txn_subject[txn] == R.SKIP:
                continue
            raw = read(int(segment.offset[event]), int(segment.size[event]))
            if event in segment.xa_ends:
                if self._parts.end(_ended(raw, segment.format_description)) is False:
                    skipped.append(txn)
                continue
            xid = _prepared(raw, segment, event)
            if xid is not None:
                is_sent = bool(sent[segment.txn_event[txn] : event + 1].any())
                self._parts.prepare(xid, is_sent=is_sent or (carried and txn == 0))
        if skipped:
            txn_subject = txn_subject.copy()
            txn_subject[skipped] = R.SKIP
        return txn_subject


def _ended(event: bytes, fd: FormatDescription) -> Xid:
    text = bytes(decode_statement_event(EventType(event[4]), fd.body(event), fd).raw)
    xid = ended_xid(text)
    assert xid is not None
    return xid


def _prepared(event: bytes, segment: Segment, number: int) -> Xid | None:
    """Return the xid that an XA_prepare event, or a compressed transaction that ends with one, prepares."""
    fd = segment.format_description
    inner = segment.payloads.get(number)
    if inner is not None:
        if inner.type[-1] != EventType.XA_PREPARE or inner.role[-1] & R.ROLE_MASK != R.FRAME:
            return None
        event = open_payload(event, fd)[int(inner.offset[-1]) :]
        fd = inner.format_description
    elif segment.type[number] != EventType.XA_PREPARE or segment.role[number] & R.ROLE_MASK != R.FRAME:
        return None
    found = decode_xa_prepare(fd.body(event))
    return None if found.one_phase else found.xid
