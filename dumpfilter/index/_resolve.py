"""The events that the compiled scan leaves to Python code: statements, XA transactions and compressed transactions.

The scan marks such events as :data:`~dumpfilter.binlog.roles.PENDING`. A :class:`Resolver` gives each of them a role
(how the event travels in a filtered stream) and a subject (the table or statement that a filter decides about). It
works in the order of the stream, since the end of an XA transaction depends on the prepared transactions before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.index._scan import EventColumns
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event, read_statement
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import ALWAYS, NONE_PREPARED, Prepared, XaTransactions, ended_xid

ScanInside = Callable[[bytes, Prepared], Segment | None]
"""A function that scans the events of a compressed transaction, given the XA transactions that are prepared before it.

The function returns None when the events are not exactly one transaction. Raises BinlogError.
"""


@dataclass
class Resolved:
    """The results of a :class:`Resolver` for one segment (up to 4 MiB of consecutive events), by the number of the
    event.

    :class:`~dumpfilter.index.segment.Segment` has fields with these names and describes them.
    """

    payloads: dict[int, Segment] = field(default_factory=dict)
    earlier_ends: dict[int, Xid] = field(default_factory=dict)
    unknown_ends: dict[int, Xid] = field(default_factory=dict)
    xa_ends: dict[int, Xid] = field(default_factory=dict)
    xa_prepares: dict[int, Xid] = field(default_factory=dict)


class _Held:
    def __init__(self) -> None:
        self._subjects: set[int] = set()
        self._always = False

    def add(self, columns: EventColumns, first: int, end: int) -> None:
        role = columns.role[first:end] & R.ROLE_MASK
        found = columns.subject[first:end][(role >= R.ROWS) & (role <= R.STATEMENT)]
        self._subjects.update(np.unique(found[found >= 0]).tolist())
        self._always |= bool((found < 0).any() or ((role >= R.KEEP) & (role != R.GAP)).any())

    def number(self, subjects: Subjects) -> int:
        return ALWAYS if self._always else subjects.any_of(self._subjects)


class Resolver:
    """A resolver, which assigns roles and subjects to the events that the compiled scan leaves to Python code. Such
    events are statements, ends of XA transactions, and compressed transactions.

    A role is the way in which an event travels in a filtered stream. A subject is the table or statement that a filter
    decides about. The resolver remembers XA transactions from segment to segment.

    Parameters:
        subjects: the subjects of the binlog set.
        prepared: the XA transactions that are prepared before the scan. With None, the resolver follows no XA
            transactions and opens no compressed transactions.
        scan_inside: the function that scans a compressed transaction. It is None for the resolver of such a
            transaction's own events, because compressed transactions are not nested.
        max_opened: the uncompressed size up to which compressed transactions are opened, bytes.
    """

    def __init__(
        self,
        subjects: Subjects,
        prepared: Prepared | None,
        scan_inside: ScanInside | None = None,
        max_opened: int = 0,
    ) -> None:
        self._subjects = subjects
        self._xa = None if prepared is None else XaTransactions(prepared)
        self._scan_inside = scan_inside
        self._max_opened = max_opened
        self._held = _Held()
        """The tables and statements found so far in the XA transaction that continues in the next segment."""
        self._earlier: set[Xid] = set()
        """The XA transactions that were prepared before the present segment and have not ended in it so far."""

    @property
    def prepared(self) -> Prepared:
        """The XA transactions that are prepared at the end of the last resolved segment."""
        return NONE_PREPARED if self._xa is None else self._xa.prepared

    def resolve(
        self,
        columns: EventColumns,
        data: npt.NDArray[np.uint8],
        offset: int,
        fd: FormatDescription,
        *,
        open_xa: bool,
    ) -> Resolved:
        """Write the roles and subjects of the events that the compiled scan left pending to ``columns``. Return the XA
        transactions and compressed transactions among these events.

        ``data`` has the bytes of the segment's events, from the byte offset ``offset`` in the file on. ``fd`` is the
        format description event in force. ``open_xa`` tells whether an XA transaction continues after the segment.

        Raises BinlogError, with the position, for an unreadable event in a file without checksums, because the file
        may be damaged. With a right checksum, the server itself wrote the event in this form, and the master sends it
        to all slaves.
        """
        made = Resolved()
        self._earlier = set(self.prepared)
        ends = np.flatnonzero(columns.role & R.ENDS)
        for i in np.flatnonzero(columns.subject <= R.PENDING).tolist():
            start = int(columns.offset[i]) - offset
            event = data[start : start + int(columns.size[i])].tobytes()
            try:
                if columns.type[i] == EventType.XA_PREPARE:
                    before = int(np.searchsorted(ends, i))
                    self._prepare(columns, int(ends[before - 1]) + 1 if before else 0, i, event, fd, made)
                elif columns.type[i] == EventType.TRANSACTION_PAYLOAD:
                    self._open(columns, i, event, fd, made)
                else:
                    self._statement(columns, i, event, fd, made)
            except BinlogError as error:
                if not fd.checksum and self._scan_inside is not None:
                    raise type(error)(error.what, position=offset + start) from None
                _set(columns, i, R.KEEP)
        if open_xa:
            if len(ends):
                self._held = _Held()
            self._held.add(columns, int(ends[-1]) + 1 if len(ends) else 0, len(columns.role))
        else:
            self._held = _Held()
        return made

    def _statement(
        self, columns: EventColumns, i: int, event: bytes, fd: FormatDescription, made: Resolved
    ) -> None:
        if columns.subject[i] != R.PENDING_XA:
            statement, frame = read_statement(event, fd)
            if frame is None:
                _set(columns, i, R.STATEMENT, self._subjects.statement(statement))
                return
            if frame != R.XA or self._xa is None:
                # MariaDB compressed the text of this event, so that a keyword such as COMMIT shows only after the text
                # is uncompressed.
                _set(columns, i, frame)
                return
        self._xa_statement(columns, i, event, fd, made)

    def _xa_statement(
        self, columns: EventColumns, i: int, event: bytes, fd: FormatDescription, made: Resolved
    ) -> None:
        assert self._xa is not None
        text = bytes(decode_statement_event(EventType(event[4]), fd.body(event), fd).raw)
        if text[:6].upper() == b"XA END":
            _set(columns, i, R.FRAME)
            return
        xid = ended_xid(text) if columns.role[i] & R.ENDS else None
        holds = None
        if xid is not None:
            holds = self._xa.end(xid)
            (made.unknown_ends if holds is None else made.xa_ends)[i] = xid
            if holds is None or xid in self._earlier:
                self._earlier.discard(xid)
                made.earlier_ends[i] = xid
        if holds is None or holds == ALWAYS:
            _set(columns, i, R.KEEP)
        else:
            _set(columns, i, R.STATEMENT, holds)

    def _prepare(
        self,
        columns: EventColumns,
        first: int,
        i: int,
        event: bytes,
        fd: FormatDescription,
        made: Resolved,
    ) -> None:
        assert self._xa is not None
        held = self._held if first == 0 else _Held()
        self._held = _Held()
        held.add(columns, first, i)
        _set(columns, i, R.FRAME)
        found = decode_xa_prepare(fd.body(event))
        if not found.one_phase:
            made.xa_prepares[i] = found.xid
            self._xa.prepare(found.xid, held.number(self._subjects))

    def _open(
        self, columns: EventColumns, i: int, event: bytes, fd: FormatDescription, made: Resolved
    ) -> None:
        _set(columns, i, R.KEEP)
        if self._scan_inside is None:
            return
        try:
            payload = decode_transaction_payload(fd.body(event))
            if payload.uncompressed_size > self._max_opened:
                # The master sends the event whole, and counts it as undecided.
                return
            segment = self._scan_inside(payload.open(check_events=True), self.prepared)
        except BinlogError as error:
            raise type(error)(f"in a compressed transaction: {error.what}") from None
        if segment is not None:
            _set(columns, i, R.PAYLOAD)
            made.payloads[i] = segment
            self._xa = XaTransactions(segment.prepared)
            for xid in segment.xa_prepares.values():
                made.xa_prepares[i] = xid


def _set(columns: EventColumns, i: int, role: int, subject: int = R.NOTHING) -> None:
    columns.role[i] = role | (columns.role[i] & R.ENDS)
    columns.subject[i] = subject
