"""The events that the compiled scan leaves to Python code: statements, XA transactions and compressed transactions.

The scan marks such events as :data:`~dumpfilter.binlog.roles.PENDING`. A :class:`Resolver` gives each of them a role
(how the event travels in a filtered stream) and a subject (the table or statement that a filter decides about). It
works in the order of the stream, since the end of an XA transaction depends on the prepared transactions before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.index._scan import EventColumns
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import read_statement
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import ALWAYS, NONE_PREPARED, Prepared, canonical, ended_xid

ScanInside = Callable[[bytes, Prepared], Segment | None]
"""A function that scans the events of a compressed transaction, given the XA transactions that are prepared before it.

The function returns None when the events are not exactly one transaction. Raises BinlogError.
"""


@dataclass
class Resolved:
    """The XA transactions and compressed transactions that a :class:`Resolver` has found in one segment (up to 4 MiB of
    consecutive events). The keys of each dictionary are numbers of events in the segment.

    :class:`~dumpfilter.index.segment.Segment` has fields with these names and describes them.
    """

    payloads: dict[int, Segment] = field(default_factory=dict)
    earlier_ends: dict[int, Xid] = field(default_factory=dict)
    unknown_ends: dict[int, Xid] = field(default_factory=dict)
    xa_ends: dict[int, Xid] = field(default_factory=dict)
    xa_prepares: dict[int, Xid] = field(default_factory=dict)


def _held_by(columns: EventColumns, first: int, end: int) -> set[int]:
    """Return the numbers of the tables and statements that the events from ``first`` up to, but without, ``end``
    change. The set has ALWAYS if the master sends any of the events to every slave.
    """
    role = columns.role[first:end] & R.ROLE_MASK
    found = np.unique(columns.subject[first:end][(role >= R.ROWS) & (role <= R.STATEMENT)])
    has_more = bool((found < 0).any() or ((role >= R.KEEP) & (role != R.GAP)).any())
    return {*found[found >= 0].tolist(), *((ALWAYS,) if has_more else ())}


class Resolver:
    """A resolver, which assigns roles and subjects to the events that the compiled scan leaves to Python code. Such
    events are statements, ends of XA transactions, and compressed transactions.

    A role is the way in which an event travels in a filtered stream. A subject is the table or statement that a filter
    decides about. The resolver remembers XA transactions from segment to segment.

    Parameters:
        subjects: the subjects of the binlog set.
        prepared: the XA transactions that are prepared before the scan.
        scan_inside: the function that scans a compressed transaction. It is None for the resolver of such a
            transaction's own events, because compressed transactions are not nested.
        max_opened: the uncompressed size up to which compressed transactions are opened, bytes.
    """

    def __init__(
        self,
        subjects: Subjects,
        prepared: Prepared,
        scan_inside: ScanInside | None = None,
        max_opened: int = 0,
    ) -> None:
        self._subjects = subjects
        self.prepared = prepared
        """The XA transactions that are prepared at the end of the last resolved segment."""
        self._scan_inside = scan_inside
        self._max_opened = max_opened
        self._held: set[int] = set()
        """The tables and statements found so far in the XA transaction that continues in the next segment, as
        :func:`_held_by` returns them.
        """

    def resolve(
        self,
        columns: EventColumns,
        data: npt.NDArray[np.uint8],
        offset: int,
        fd: FormatDescription,
        *,
        open_xa: bool,
    ) -> Resolved:
        """Write to ``columns`` the role and the subject of each event whose subject the compiled scan left PENDING. A
        role is the way in which an event travels in a filtered stream. A subject is the table or statement that a
        filter decides about. Return the XA transactions and compressed transactions among these events.

        ``data`` has the bytes of the segment's events, from the byte offset ``offset`` in the file on. ``fd`` is the
        format description event in force. ``open_xa`` tells whether an XA transaction continues after the segment.

        Raises BinlogError, with the position, for an unreadable event in a file without checksums, because the file may
        be damaged. With a right checksum, the server itself wrote the event in this form, and the master sends it to
        all slaves.
        """
        made = Resolved()
        earlier, prepared = set(self.prepared), dict(self.prepared)
        ends = np.flatnonzero(columns.role & R.ENDS)
        for i in np.flatnonzero(columns.subject <= R.PENDING).tolist():
            start = int(columns.offset[i]) - offset
            event = data[start : start + int(columns.size[i])].tobytes()
            role, subject = R.KEEP, R.NOTHING
            try:
                if columns.type[i] == EventType.XA_PREPARE:
                    before = int(np.searchsorted(ends, i))
                    first = int(ends[before - 1]) + 1 if before else 0
                    held, self._held = self._held if first == 0 else set(), set()
                    found = decode_xa_prepare(fd.body(event))
                    role = R.FRAME
                    if not found.one_phase:
                        made.xa_prepares[i] = found.xid
                        held |= _held_by(columns, first, i)
                        holds = ALWAYS if ALWAYS in held else self._subjects.any_of(held)
                        prepared[canonical(found.xid)] = holds
                elif columns.type[i] == EventType.TRANSACTION_PAYLOAD:
                    if (segment := self._opened(event, fd, dict(prepared))) is not None:
                        role = R.PAYLOAD
                        made.payloads[i] = segment
                        prepared = dict(segment.prepared)
                        made.xa_prepares.update((i, xid) for xid in segment.xa_prepares.values())
                else:
                    role, subject = self._statement(event, fd, is_xa=columns.subject[i] == R.PENDING_XA)
                if role == R.XA:
                    text = bytes(decode_statement_event(EventType(event[4]), fd.body(event), fd).raw)
                    role = R.FRAME if text[:6].upper() == b"XA END" else R.KEEP
                    xid = ended_xid(text) if role == R.KEEP and columns.role[i] & R.ENDS else None
                    if xid is not None:
                        is_known = xid in prepared
                        holds = prepared.pop(xid, ALWAYS)
                        (made.xa_ends if is_known else made.unknown_ends)[i] = xid
                        if not is_known or xid in earlier:
                            earlier.discard(xid)
                            made.earlier_ends[i] = xid
                        if holds != ALWAYS:
                            role, subject = R.STATEMENT, holds
            except BinlogError as error:
                if not fd.checksum and self._scan_inside is not None:
                    raise type(error)(error.what, position=offset + start) from None
                role, subject = R.KEEP, R.NOTHING
            columns.role[i] = role | (columns.role[i] & R.ENDS)
            columns.subject[i] = subject
        if len(ends) or not open_xa:
            self._held = set()
        if open_xa:
            self._held |= _held_by(columns, int(ends[-1]) + 1 if len(ends) else 0, len(columns.role))
        if prepared != self.prepared:
            self.prepared = MappingProxyType(prepared) if prepared else NONE_PREPARED
        return made

    def _statement(self, event: bytes, fd: FormatDescription, *, is_xa: bool) -> tuple[int, int]:
        """Return the role and the subject of a statement. An XA statement has the role XA and no subject."""
        if is_xa:
            return R.XA, R.NOTHING
        statement, frame = read_statement(event, fd)
        # MariaDB compressed the text of an event with a frame, so that a keyword such as COMMIT shows only after the
        # text is uncompressed.
        return (frame, R.NOTHING) if frame is not None else (R.STATEMENT, self._subjects.statement(statement))

    def _opened(self, event: bytes, fd: FormatDescription, prepared: Prepared) -> Segment | None:
        """Return the segment inside a compressed transaction, before which the XA transactions ``prepared`` are
        prepared.

        None if the transaction is too large, or not exactly one transaction. The master then sends it whole, and counts
        it as undecided.
        """
        if self._scan_inside is None:
            return None
        try:
            payload = decode_transaction_payload(fd.body(event))
            if payload.uncompressed_size > self._max_opened:
                return None
            return self._scan_inside(payload.open(check_events=True), prepared)
        except BinlogError as error:
            raise type(error)(f"in a compressed transaction: {error.what}") from None
