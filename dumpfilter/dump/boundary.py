"""The boundary of imposed filters in a dump: the events that rules about tables do not reach.

:class:`BoundaryPass` looks at each segment before the compiled decision. It withholds three sorts of events:

- The text of a row-based statement (Rows_query, Annotate_rows), unless the imposed filters allow every table of the
  statement. Such events are optional, so the stream stays valid without them.
- Events about which nobody can decide: of an unknown type, unreadable, or rows without a table map. The imposed filter
  says whether the dump stops there, drops the event, or sends it.
- Blocks of LOAD DATA (Begin_load_query, Append_block) that no Execute_load_query follows. Their table is unknown.

XA COMMIT and XA ROLLBACK hold nothing but an xid. They pass even when the prepared transaction is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_IGNORABLE_F, EventHeader, EventType, event_name
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.statement_text import allows_text
from dumpfilter.errors import BinlogError, UndecidedEvent
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_STOP_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, TableSubject

_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_STOP = np.uint32(FILTER_STOP_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_TEXTS = (int(EventType.ROWS_QUERY), int(EventType.ANNOTATE_ROWS))
_BLOCKS = (int(EventType.BEGIN_LOAD_QUERY), int(EventType.APPEND_BLOCK))

Flags = npt.NDArray[np.bool_]
Forget = Callable[[int], None]
"""A function that drops a buffered context event from the compiled decision, by the event's file offset."""


class Withheld(NamedTuple):
    """A segment's columns after imposed filters have withheld events."""

    role: npt.NDArray[np.uint8]
    """The roles of the events. Withheld events have the role WITHHELD or HIDDEN."""
    txn_subject: npt.NDArray[np.int32]
    """Each transaction's subject. Transactions with withheld events are MIXED, so that each event is decided."""
    undecided: list[tuple[int, int]]
    """The file offset of each event about which nobody could decide and that the compiled decision does not count, and
    the number 1."""


@dataclass
class _Pending:
    """A context event whose statement goes on in the next segment."""

    offset: int
    text: bytes | None
    """The text of the statement; None for a block of LOAD DATA."""
    tables: list[TableSubject] = field(default_factory=list)
    """The tables of the statement's Table_map events so far."""


class BoundaryPass:
    """Withholds events of one binlog set from one slave, segment by segment in the order of the binlog.

    Parameters:
        flags: the verdicts of the slave's filter and of the imposed filters. At least one filter is imposed.
        inside: whether the segments are the contents of compressed transactions.
    """

    def __init__(self, flags: TableFlags, *, inside: bool = False) -> None:
        self.flags = flags
        self._inside = inside
        self._pending: list[_Pending] = []

    def fork(self) -> BoundaryPass:
        """Return an independent copy."""
        fork = BoundaryPass(self.flags, inside=self._inside)
        fork._pending = [replace(one, tables=one.tables.copy()) for one in self._pending]
        return fork

    def apply(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        first: int,
        read: ReadAt,
        forget: Forget,
    ) -> Withheld:
        """Return the segment's columns without the events that no imposed filter surely allows.

        Only transactions from number ``first`` on are looked at. ``txn_subject`` says which of them are sent or dropped
        whole, and ``read`` reads the segment's file. ``forget`` drops a context event that the compiled decision has
        buffered in an earlier segment.

        Raises UndecidedEvent, with the number of the transaction, if an imposed filter stops the dump.
        """
        seen = _Seen(self, segment, txn_subject, first, read)
        seen.find_statements()
        seen.find_unknown()
        pending = self._pending if segment.continues and first == 0 else []
        pending = seen.find_contexts(pending, forget)
        seen.raise_first()
        self._pending = pending
        mixed = np.isin(seen.role & R.ROLE_MASK, (R.WITHHELD, R.HIDDEN))
        if mixed.any():
            txn_subject = txn_subject.copy()
            number = np.unique(seen.transaction[mixed])
            walked = (txn_subject[number] >= 0) | (txn_subject[number] == R.KEPT)
            txn_subject[number[walked]] = R.MIXED
        return Withheld(seen.role, txn_subject, seen.undecided)


class _Seen:
    """One segment while a boundary pass looks at its events."""

    def __init__(
        self,
        boundary: BoundaryPass,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        first: int,
        read: ReadAt,
    ) -> None:
        self.flags = boundary.flags
        self._inside = boundary._inside
        self._segment = segment
        self._read = read
        self.role = segment.role.copy()
        self.undecided: list[tuple[int, int]] = []
        self._stops: list[int] = []
        n_txn = len(txn_subject)
        self.transaction = np.repeat(np.arange(n_txn), np.diff(segment.txn_event))
        self._kind = segment.role & R.ROLE_MASK
        self._array = self.flags.array()
        self._wanted = (txn_subject != R.SKIP)[self.transaction] & (self.transaction >= first)
        subject = np.maximum(txn_subject, 0)
        sent = (txn_subject < 0) | (self._array[subject] & _SEND != 0)
        # A transaction of several subjects is dropped if the filters drop all of them.
        members = np.append(0, np.cumsum(self._array[segment.set_subject] & _SEND != 0))
        begins, ends = segment.txn_set[:-1], segment.txn_set[1:]
        sent &= (txn_subject != R.MIXED) | (begins == ends) | (members[ends] > members[begins])
        self._sent = self._wanted & (sent & (txn_subject != R.NOTHING))[self.transaction]

    def find_statements(self) -> None:
        """Find the statements about which an imposed filter cannot decide."""
        found = np.flatnonzero(self._wanted & (self._kind == R.STATEMENT))
        bits = self._array[self._segment.subject[found]]
        self._stops += found[bits & _STOP != 0].tolist()
        # The compiled decision counts undecided events that it sends.
        for event in found[(bits & (_UNDECIDED | _SEND) == _UNDECIDED)].tolist():
            self._count(event)

    def find_unknown(self) -> None:
        """Find the events about which nobody can decide."""
        on_undecided = self.flags.on_undecided
        if on_undecided is OnUndecided.SEND:
            return
        segment = self._segment
        unmapped = ((self._kind == R.ROWS) | (self._kind == R.ROWS_END)) & (segment.subject < 0)
        for event in np.flatnonzero(self._wanted & unmapped).tolist():
            self._count(event)
            if on_undecided is OnUndecided.STOP:
                self._stops.append(event)
        for event in np.flatnonzero(self._wanted & (self._kind == R.KEEP)).tolist():
            self._count(event)
            if event in segment.unknown_ends or event in segment.xa_ends:
                self._replace(event, R.XA)
            elif segment.type[event] == EventType.INCIDENT and on_undecided is OnUndecided.DROP:
                # The text of an incident is the server's own. A slave must hear that the binlog lacks events.
                self._replace(event, R.XA)
            else:
                self._replace(event, R.WITHHELD)
                if on_undecided is OnUndecided.STOP and not self._is_ignorable(event):
                    self._stops.append(event)

    def find_contexts(self, pending: list[_Pending], forget: Forget) -> list[_Pending]:
        """Find the texts of statements and the blocks of LOAD DATA that must not pass.

        ``pending`` are those of the statement that an earlier segment began. Return those of the statement that goes on
        in the next segment.
        """
        open_: list[_Pending] = []
        for one in pending:
            self._settle(one, 0, open_, lambda one: forget(one.offset))
        segment = self._segment
        held = np.isin(segment.type, _TEXTS + _BLOCKS) & self._sent & (self._kind == R.CONTEXT)
        for event in np.flatnonzero(held).tolist():
            text = self._text(event) if segment.type[event] in _TEXTS else None
            self._settle(
                _Pending(int(segment.offset[event]), text),
                event + 1,
                open_,
                lambda _, event=event: self._replace(event, R.HIDDEN),  # type: ignore[misc]
            )
        return open_

    def raise_first(self) -> None:
        """Raise UndecidedEvent for the first event at which an imposed filter stops the dump."""
        if self._stops:
            raise self._error(min(self._stops))

    def _settle(
        self, one: _Pending, event: int, open_: list[_Pending], hide: Callable[[_Pending], None]
    ) -> None:
        """Hide a context event if its statement, which continues at event number ``event``, is not allowed."""
        segment, kinds = self._segment, self._kind
        while event < len(kinds) and kinds[event] in (R.CONTEXT, R.TABLE_MAP, R.GAP):
            if kinds[event] == R.TABLE_MAP and one.text is not None:
                table = self.flags.subject(int(segment.subject[event]))
                assert isinstance(table, TableSubject)
                one.tables.append(table)
            elif kinds[event] == R.TABLE_MAP:
                break
            event += 1
        if event == len(kinds):
            if segment.open:
                open_.append(one)
            return
        if one.text is not None:
            if not allows_text(one.text, one.tables, self.flags.boundary, segment.format_description.family):
                hide(one)
        elif (
            segment.type[event] != EventType.EXECUTE_LOAD_QUERY
            and self.role[event] & R.ROLE_MASK != R.WITHHELD
        ):
            # A withheld event takes the events before it along.
            on_undecided = self.flags.on_undecided
            if on_undecided is OnUndecided.DROP:
                hide(one)
            elif on_undecided is OnUndecided.STOP:
                self._stops.append(event)

    def _text(self, event: int) -> bytes:
        segment = self._segment
        raw = self._read(int(segment.offset[event]), int(segment.size[event]))
        body = segment.format_description.body(raw)
        if segment.type[event] == EventType.ANNOTATE_ROWS:
            return decode_annotate_rows(body)
        try:
            return decode_rows_query(body)
        except BinlogError:
            return b""

    def _is_ignorable(self, event: int) -> bool:
        # Servers pass over an unknown event with this flag, so a slave loses nothing without it.
        header = EventHeader.unpack(self._read(int(self._segment.offset[event]), HEADER_LENGTH))
        return bool(header.flags & LOG_EVENT_IGNORABLE_F)

    def _replace(self, event: int, role: int) -> None:
        self.role[event] = role | (self.role[event] & R.ENDS)

    def _count(self, event: int) -> None:
        self.undecided.append((int(self._segment.offset[event]), 1))

    def _error(self, event: int) -> UndecidedEvent:
        segment = self._segment
        subject: Subject | None = None
        what = event_name(int(segment.type[event])) + " event"
        if self._kind[event] == R.STATEMENT and self._array[segment.subject[event]] & _STOP:
            subject = self.flags.subject(int(segment.subject[event]))
            assert not isinstance(subject, TableSubject)
            what += f" (statement kind {subject.kind.value})"
        if self._inside:
            what += " in a compressed transaction"
        error = UndecidedEvent(
            f"the imposed filter {self.flags.stopping(subject)!r} cannot decide about this {what}, so the dump stops "
            'before its transaction; on_undecided = "drop" or "send" in the master\'s configuration file lets the dump '
            "go on",
            file=segment.file,
            position=int(segment.offset[event]),
        )
        error.transaction = int(self.transaction[event])
        return error
