"""The filtering of events about which rules for tables cannot decide. Only imposed filters (filters that the master's
operator sets for a slave) need this filtering.

:func:`withhold` looks at each segment before the compiled decision. The function withholds three kinds of events.

- The text of a row-based statement (Rows_query, Annotate_rows), unless the imposed filters allow every table of the
  statement. The text quotes the statement's values and names tables that the statement only reads. The rows alone do
  not show these tables. Such events are optional, so the stream stays valid without them.
- Events about which nobody can decide: of an unknown type, unreadable, or rows without a table map. The imposed filter
  says whether the dump stops there, drops the event, or sends it.
- Blocks of LOAD DATA (Begin_load_query, Append_block) that no Execute_load_query follows. Their table is unknown.

XA COMMIT and XA ROLLBACK hold nothing but an xid. Both pass even when the prepared transaction is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from dumpfilter.base.errors import BinlogError, UndecidedEvent
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_IGNORABLE_F, EventHeader, EventType, event_name
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.statement.facts import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    NamedTables,
    statement_shape,
    tables_named,
)
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.filter.base import OnUndecided, ReplicationFilter
from dumpfilter.filter.collation import as_parsed
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
    types, and statement texts that name a table that the imposed filter drops.

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
        """Mark as HIDDEN (dropped alone) the texts of row-based statements that may name a table which an imposed
        filter drops. The texts are in Rows_query and Annotate_rows events.

        A text whose statement continues in the next segment stays, unless the statement already has a forbidden table
        map.
        """
        for event, stop in self._contexts(_TEXTS, (R.CONTEXT, R.TABLE_MAP, R.GAP)):
            if not self._allows(self._text(event), event, stop):
                self._replace(event, R.HIDDEN)

    def find_blocks(self) -> None:
        """Mark as HIDDEN (dropped alone) the blocks of LOAD DATA that no Execute_load_query follows, since their table
        is unknown.
        """
        for event, stop in self._contexts(_BLOCKS, (R.CONTEXT, R.GAP)):
            if self._is_alone(stop):
                self._replace(event, R.HIDDEN)

    def _allows(self, text: bytes, event: int, stop: int) -> bool:
        """Tell whether ``text``, the text of a row-based statement in event number ``event``, may be sent. ``stop`` is
        the number of the statement's first rows event. If the rows lie in the next segment, ``stop`` is the number of
        events in the segment, and only the table maps decide.
        """
        maps = self._subject[event:stop][self._kind[event:stop] == R.TABLE_MAP].tolist()
        tables = [table for table in map(self.flags.subject, maps) if isinstance(table, TableSubject)]
        if stop == len(self._kind) and self._segment.open:
            return all(_passes(self.flags.boundary, table.database, table.table) for table in tables)
        return allows_text(text, tables, self.flags.boundary, self._segment.format_description.family)

    def _contexts(self, types: Sequence[int], between: Sequence[int]) -> list[tuple[int, int]]:
        """Return the context events (events that belong to the statement after them) with an event type in ``types``.
        Pair each with the first later event whose role is not in ``between``, which is an event of the statement
        itself.

        The pairs are (event number, next event number). Without a next event the second number is the number of the
        segment's events. Events of transactions that are dropped anyway are left out.
        """
        held = np.isin(self._type, types) & self._sent & (self._kind == R.CONTEXT)
        events = np.flatnonzero(held)
        stops = np.append(np.flatnonzero(~np.isin(self._kind, between)), len(self._kind))
        return list(zip(events.tolist(), stops[np.searchsorted(stops, events)].tolist(), strict=True))

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

    def _text(self, event: int) -> bytes:
        raw = self._read(int(self._offset[event]), int(self._size[event]))
        body = self._segment.format_description.body(raw)
        if raw[4] == EventType.ANNOTATE_ROWS:
            return decode_annotate_rows(body)
        try:
            return decode_rows_query(body)
        except BinlogError:
            return b""

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


def allows_text(
    text: bytes, tables: Sequence[TableSubject], filters: Iterable[ReplicationFilter], family: Family
) -> bool:
    """Tell whether a statement's text may be sent with the statement's rows (Rows_query or Annotate_rows event). The
    text may be sent if each of ``filters`` sends the rows of every table that the text names.

    ``text`` is the statement, ``tables`` are the tables of its Table_map events, and ``family`` (MySQL or MariaDB)
    tells the syntax. The result is False if the text cannot be parsed with certainty. The event does not tell the
    session's SQL mode, so the text is checked for every possible mode. The event does not tell the client's character
    set either, so a text with a name beyond ASCII is not allowed. A table name without a database gets its
    database from ``tables``.
    """
    filters = list(filters)
    if not tables or not all(_passes(filters, table.database, table.table) for table in tables):
        return False
    decoded = text.decode("utf-8", "surrogateescape")
    quotes = (0, MODE_ANSI_QUOTES) if '"' in decoded else (0,)
    escapes = (0, MODE_NO_BACKSLASH_ESCAPES) if "\\" in decoded else (0,)
    return all(
        statement_shape(decoded, family=family, sql_mode=mode).isascii()
        and _allows(tables_named(decoded, family=family, sql_mode=mode), tables, filters, family)
        for mode in map(sum, product(quotes, escapes))
    )


def _allows(
    named: NamedTables | None,
    tables: Sequence[TableSubject],
    filters: Sequence[ReplicationFilter],
    family: Family,
) -> bool:
    if named is None:
        return False
    current = _current_database(named, tables)
    for name in named.all:
        database = current if name.database is None else as_parsed(name.database, family)
        if database is None or not _passes(filters, database, as_parsed(name.table, family)):
            return False
    return True


def _current_database(named: NamedTables, tables: Sequence[TableSubject]) -> str | None:
    """Return the session's current database (default database), to which table names without a database belong. This is
    the database in the table maps of the tables that the statement writes and names without a database.

    Return None if the table maps do not prove one database.
    """
    wanted = {name.table.casefold() for name in named.written if name.database is None}
    found = {table.database for table in tables if table.table.casefold() in wanted}
    mapped = {table.table.casefold() for table in tables}
    return found.pop() if len(found) == 1 and wanted <= mapped else None


def _passes(filters: Iterable[ReplicationFilter], database: str, table: str) -> bool:
    return all(one.rows_ok(database, table) for one in filters)
