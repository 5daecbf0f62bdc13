"""The filtering of events about which rules for tables cannot decide. Only imposed filters (filters that the master's
operator sets for a slave) need this filtering.

:func:`withhold` looks at each segment before the compiled decision. The function withholds three kinds of events.

- The text of a row-based statement (Rows_query, Annotate_rows). The text quotes the statement's values and names tables
  that the statement only reads. Such events are optional, so the stream stays valid without them.
- Events about which nobody can decide: of an unknown type, unreadable, or rows without a table map. The imposed filter
  says whether the dump stops there, drops the event, or sends it.
- Blocks of LOAD DATA (Begin_load_query, Append_block) that no Execute_load_query follows. Their table is unknown.

XA COMMIT and XA ROLLBACK hold nothing but an xid. Both pass even when the prepared transaction is unknown.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import UndecidedEvent
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_IGNORABLE_F, EventHeader, EventType, event_name
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_STOP_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, TableSubject

_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_STOP = np.uint32(FILTER_STOP_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_TEXTS = (int(EventType.ROWS_QUERY), int(EventType.ANNOTATE_ROWS))
_BLOCKS = (int(EventType.BEGIN_LOAD_QUERY), int(EventType.APPEND_BLOCK))


def withhold(
    flags: TableFlags,
    segment: Segment,
    columns: Columns,
    first: int,
    read: ReadAt,
    *,
    inside: bool = False,
) -> tuple[Columns, list[int]]:
    """Return a segment's columns in which the events that must not be sent are marked. These are the events that an
    imposed filter (set by the master's operator for a slave) does not clearly allow. Examples are events of unknown
    types, and the texts of row-based statements.

    A marked event gets the role WITHHELD (dropped with the context events before it) or HIDDEN (dropped alone). Its
    transaction becomes MIXED, so that each event is decided for itself.

    Also return the byte offsets in the file of events that no filter could decide, which the caller adds to the chunks'
    counts. Events that the compiled decision counts when it sends them are left out. Raises UndecidedEvent, with the
    number of the transaction, if an imposed filter stops the dump at such an event.

    Parameters:
        flags: the decisions of the slave's filter and of the imposed filters. At least one filter is imposed.
        segment: the part of a binlog file to check, scanned into arrays.
        columns: the segment's columns, which say which transactions are sent or dropped whole. They may begin with
            carried events, such as the context events before the segment of a statement that continues in the segment.
        first: the number of the first transaction to check.
        read: reads the segment's file.
        inside: whether the segment is the content of a compressed transaction.
    """
    seen = _Seen(flags, segment, columns, first, read, inside)
    seen.find_statements()
    seen.find_unknown()
    seen.find_texts()
    seen.find_blocks()
    seen.raise_first()
    mixed = np.unique(seen.transaction[np.isin(seen.role & R.ROLE_MASK, (R.WITHHELD, R.HIDDEN))])
    subject = columns.txn_subject[mixed]
    mixed = mixed[(subject >= 0) | (subject == R.KEPT)]
    return columns.with_roles(seen.role).with_subjects(mixed, R.MIXED), seen.undecided


class _Seen:
    """The search of one segment (a part of a binlog file) for events that an imposed filter must withhold. The master's
    operator sets such a filter for a slave.

    ``role`` is a copy of the events' roles. The methods change a role to WITHHELD (the event is dropped with the
    context events before it) or HIDDEN (the event is dropped alone). ``undecided`` collects the file offsets of events
    that no filter could decide.
    """

    def __init__(
        self, flags: TableFlags, segment: Segment, columns: Columns, first: int, read: ReadAt, inside: bool
    ) -> None:
        self.flags = flags
        self._inside = inside
        self._segment = segment
        self._read = read
        self._carried = columns.carried
        self._offset, self._size, self._subject = columns.offset, columns.size, columns.subject
        carried = [read(offset, HEADER_LENGTH)[4] for offset in columns.offset[: self._carried].tolist()]
        self._type = np.append(np.array(carried, np.uint8), segment.type)
        self.role = columns.role.copy()
        self.undecided: list[int] = []
        self._stops: list[int] = []
        txn_subject = columns.txn_subject
        self.transaction = np.repeat(np.arange(len(txn_subject)), np.diff(columns.txn_event))
        self._kind = columns.role & R.ROLE_MASK
        self._array = self.flags.array()
        self._wanted = (txn_subject != R.SKIP)[self.transaction] & (self.transaction >= first)
        subject = np.maximum(txn_subject, 0)
        sent = (txn_subject < 0) | (self._array[subject] & _SEND != 0)
        # A transaction of several subjects is dropped if the filters drop all of them.
        members = np.append(0, np.cumsum(self._array[segment.set_subject] & _SEND != 0))
        begins, ends = segment.txn_set[:-1], segment.txn_set[1:]
        sent &= (txn_subject != R.MIXED) | (begins == ends) | (members[ends] > members[begins])
        self._sent = self._wanted & (sent & (txn_subject != R.NOTHING))[self.transaction]
        # The carried events were counted with the segment before.
        self._wanted[: self._carried] = False

    def find_statements(self) -> None:
        """Find the statements of the segment (a part of a binlog file) that the imposed filters cannot decide. The
        master's operator sets such filters for a slave.

        Note the statements before which an imposed filter stops the dump; :meth:`raise_first` raises the error. For
        each undecided statement that is dropped, add the statement's file offset to the list ``undecided``, for the
        statistics. The compiled decision counts undecided statements that are sent.
        """
        found = np.flatnonzero(self._wanted & (self._kind == R.STATEMENT))
        bits = self._array[self._subject[found]]
        self._stops += found[bits & _STOP != 0].tolist()
        # The compiled decision counts undecided events that it sends.
        for event in found[(bits & (_UNDECIDED | _SEND) == _UNDECIDED)].tolist():
            self._count(event)

    def find_unknown(self) -> None:
        """Find the events that no filter can decide: rows without a table map, events of an unknown type, and
        unreadable events.

        The setting ``on_undecided`` of the imposed filters (set by the master's operator) says whether such events are
        sent, dropped, or stop the dump. Unless they are sent, mark unknown and unreadable events as WITHHELD, and note
        where the dump must stop. XA COMMIT and XA ROLLBACK stay, and incidents too if undecided events are dropped.
        An event with LOG_EVENT_IGNORABLE_F is dropped and stops no dump.
        """
        on_undecided = self.flags.on_undecided
        if on_undecided is OnUndecided.SEND:
            return
        unmapped = ((self._kind == R.ROWS) | (self._kind == R.ROWS_END)) & (self._subject < 0)
        xa_ends = {*self._segment.unknown_ends, *self._segment.xa_ends}
        for event in np.flatnonzero(self._wanted & unmapped).tolist():
            self._count(event)
            if on_undecided is OnUndecided.STOP:
                self._stops.append(event)
        for event in np.flatnonzero(self._wanted & (self._kind == R.KEEP)).tolist():
            self._count(event)
            if event - self._carried in xa_ends:
                self._replace(event, R.XA)
            elif self._type[event] == EventType.INCIDENT and on_undecided is OnUndecided.DROP:
                # The text of an incident is the server's own. A slave must hear that the binlog lacks events.
                self._replace(event, R.XA)
            else:
                self._replace(event, R.WITHHELD)
                if on_undecided is OnUndecided.STOP and not self._is_ignorable(event):
                    self._stops.append(event)

    def find_texts(self) -> None:
        """Mark as HIDDEN (dropped alone) the texts of row-based statements (Rows_query and Annotate_rows events)."""
        for event in self._contexts(_TEXTS).tolist():
            self._replace(event, R.HIDDEN)

    def find_blocks(self) -> None:
        """Mark as HIDDEN (dropped alone) the blocks of LOAD DATA that no Execute_load_query follows, since their table
        is unknown.
        """
        events = self._contexts(_BLOCKS)
        stops = np.append(np.flatnonzero(~np.isin(self._kind, (R.CONTEXT, R.GAP))), len(self._kind))
        for event, stop in zip(events.tolist(), stops[np.searchsorted(stops, events)].tolist(), strict=True):
            if self._is_alone(stop):
                self._replace(event, R.HIDDEN)

    def _contexts(self, types: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Return the numbers of the context events (events that belong to the statement after them) with an event type
        in ``types``. Events of transactions that are dropped anyway are left out.
        """
        return np.flatnonzero(np.isin(self._type, types) & self._sent & (self._kind == R.CONTEXT))

    def _is_alone(self, event: int) -> bool:
        """Tell whether the LOAD DATA blocks before event number ``event`` must be dropped. The blocks must be dropped
        if ``event`` is no Execute_load_query, and the imposed filters (set by the master's operator) drop undecided
        events. A withheld event takes the blocks along anyway.

        If the imposed filters stop at undecided events, note that the dump must stop there.
        """
        if (
            event == len(self._kind)
            or self._type[event] == EventType.EXECUTE_LOAD_QUERY
            or self.role[event] & R.ROLE_MASK == R.WITHHELD  # This event takes the events before it along.
        ):
            return False
        if self.flags.on_undecided is OnUndecided.STOP:
            self._stops.append(event)
        return self.flags.on_undecided is OnUndecided.DROP

    def raise_first(self) -> None:
        """Raise UndecidedEvent for the first event before which an imposed filter (set by the master's operator) stops
        the dump. Do nothing if the search has noted no such event.
        """
        if self._stops:
            raise self._error(min(self._stops))

    def _is_ignorable(self, event: int) -> bool:
        # Servers pass over an unknown event with this flag, so a slave loses nothing without it.
        header = EventHeader.unpack(self._read(int(self._offset[event]), HEADER_LENGTH))
        return bool(header.flags & LOG_EVENT_IGNORABLE_F)

    def _replace(self, event: int, role: int) -> None:
        self.role[event] = role | (self.role[event] & R.ENDS)

    def _count(self, event: int) -> None:
        self.undecided.append(int(self._offset[event]))

    def _error(self, event: int) -> UndecidedEvent:
        segment = self._segment
        subject: Subject | None = None
        what = event_name(int(self._type[event])) + " event"
        if self._kind[event] == R.STATEMENT and self._array[self._subject[event]] & _STOP:
            subject = self.flags.subject(int(self._subject[event]))
            assert not isinstance(subject, TableSubject)
            what += f" (statement kind {subject.kind.value})"
        if self._inside:
            what += " in a compressed transaction"
        error = UndecidedEvent(
            f"the imposed filter {self.flags.stopping(subject)!r} cannot decide about this {what}, so the dump stops "
            'before its transaction; on_undecided = "drop" or "send" in the master\'s configuration file lets the dump '
            "go on",
            file=segment.file,
            position=int(self._offset[event]),
        )
        error.transaction = int(self.transaction[event])
        return error
