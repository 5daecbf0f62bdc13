"""The conversion of binlogs to the format with tables info (MySQL's worklog WL#40, ``--binlog-with-tables-info``).

Tables info is the list of a statement's tables, stored in the statement's Query event. A filter then need not parse the
statement. The format description event announces the format for the whole file, so whole files are converted.
docs/tables-info.md describes the format. :mod:`dumpfilter.binlog.query` has the layout of the events, and
:mod:`dumpfilter.binlog.statement.facts` has the rules for the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dumpfilter.base.errors import BinlogError, BinlogUnsupported
from dumpfilter.binlog.compression import (
    decode_transaction_payload,
    encode_transaction_payload,
)
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import (
    EXTENDED_QUERY_HEADER_LENGTH,
    QUERY_HEADER_LENGTH,
    QueryEvent,
    TableName,
    decode_statement_event,
    encode_query,
    encode_tables_info,
)
from dumpfilter.binlog.statement.facts import form_tables_info, qualified, read_text, relative, tables_read
from dumpfilter.binlog.statement.statement import StatementKind
from dumpfilter.binlog.writer import with_body
from dumpfilter.index.subjects import statement_of

_QUERIES = (EventType.QUERY, EventType.QUERY_COMPRESSED)
_REWRITTEN = (*_QUERIES, EventType.TRANSACTION_PAYLOAD)
_OF_RELAY_LOGS = (EventType.FORMAT_DESCRIPTION, EventType.ROTATE)
"""The types of events that show, after a file's first event, that the file is a relay log. A server's own binlog has a
Rotate event only at its end, and callers leave out that event.
"""
_FRAME = re.compile(rb"(BEGIN|COMMIT|ROLLBACK)\Z|(ROLLBACK|SAVEPOINT|RELEASE SAVEPOINT|XA) ", re.IGNORECASE)
"""The statements that begin, end or divide a transaction (``Query_log_event::is_trans_keyword``, and XA). Such
statements name no tables."""


@dataclass
class Converted:
    """The counts of Query events to which :func:`~dumpfilter.dump.set_pass.filter_set` added the list of their
    statements' tables (tables info, MySQL's worklog WL#40).
    """

    queries: int = 0
    """The number of Query events that were converted, with or without names of tables."""
    untold: int = 0
    """The number of converted Query events whose list of tables was left empty, although the statement may have tables.
    The text does not tell the tables, or their names do not fit into the list.
    """


def has_tables_info(fd: FormatDescription) -> bool:
    """Tell whether the Query events of a file name their statements' tables (tables info, MySQL's worklog WL#40).

    The format description event says so by a longer post-header of Query events.
    """
    return fd.post_header_length(EventType.QUERY) == EXTENDED_QUERY_HEADER_LENGTH


def announce_tables_info(fd: FormatDescription, extended: bool) -> FormatDescription:
    """Return a copy of a format description event that announces the format of the file's Query events. With
    ``extended`` True, the events name their statements' tables (tables info, MySQL's worklog WL#40). With False, they
    have the usual format.

    The announcement is the length of the post-header of Query events. MariaDB's QUERY_COMPRESSED changes together with
    Query. Execute_load_query keeps its format.
    """
    length = EXTENDED_QUERY_HEADER_LENGTH if extended else QUERY_HEADER_LENGTH
    return fd.with_post_header_lengths(dict.fromkeys(_QUERIES, length))


def encode_query_event(
    event: bytes, old: FormatDescription, new: FormatDescription, tables: Iterable[TableName] = ()
) -> bytes:
    """Convert a Query or QUERY_COMPRESSED event from the format of one file to the format of another file. ``old`` and
    ``new`` are the format description events of the two files.

    If ``new`` announces tables info (Query events that name their statements' tables), the new event names ``tables``.
    The event keeps its end_log_pos and gets a new checksum. Raises BinlogCorrupt for a damaged event, and
    BinlogUnsupported if a file has an unknown format of Query events. Neither error names the file and position, which
    the caller must add.
    """
    header = EventHeader.unpack(event)
    body = encode_query(
        old.body(event),
        post_header_length=old.post_header_length(EventType.QUERY),
        to=new.post_header_length(EventType.QUERY),
        tables=tables,
    )
    return with_body(header, body, checksum=new.checksum)


def query_tables_info(query: QueryEvent, fd: FormatDescription) -> tuple[TableName, ...] | None:
    """Return the tables to name in the Query event of a statement (its tables info). ``fd`` is the format description
    event of the statement's file.

    The tuple is empty for BEGIN, COMMIT and other statements that name no tables. Return None if the statement's text
    does not tell its tables, or if the names do not fit into the format.
    """
    if _FRAME.match(query.raw):
        return ()
    sql_mode = query.status.sql_mode or 0
    tables = form_tables_info(
        replace(
            read_text(query.text, family=fd.family, sql_mode=sql_mode),
            updated=statement_of(query, fd).updated,
        ),
        tables_read(query.text, family=fd.family, sql_mode=sql_mode),
        current_database=query.db or None,
    )
    return tables if tables is not None and encode_tables_info(tables) is not None else None


class QueryConverter:
    """A converter of the Query events of one file to the format with tables info (names of the statements' tables).

    The converter buffers each BEGIN until it knows the next event. The next event may be the CREATE TABLE of a CREATE …
    SELECT in row format. BEGIN and COMMIT then name the new table, too, so that a filter sends or drops the whole
    statement (section 4.1 of MySQL's worklog WL#40).
    """

    def __init__(self, old: FormatDescription, counts: Converted) -> None:
        self._as_it_is = has_tables_info(old)
        self.new = announce_tables_info(old, True)
        self.counts = counts
        self._old = old
        self._begin: bytes | None = None
        self._created: tuple[TableName, ...] = ()
        """The table that CREATE … SELECT creates in the open transaction, with its database; empty for other
        transactions."""

    def events(self, file: str, events: Iterable[tuple[tuple[int, bytes], bool]]) -> bytes:
        """Return the bytes of events of a file with each Query event converted, so that it names its statement's
        tables. An event has its byte offset in the file, its bytes, and True if it ends a transaction.

        Raises BinlogUnsupported for the events of a relay log, and BinlogError for a damaged Query event.
        """
        made: list[bytes] = []
        for (offset, event), is_last in events:
            try:
                if event[4] in _OF_RELAY_LOGS:
                    raise BinlogUnsupported("a relay log; name the binlogs of its source")
                if self._as_it_is or event[4] not in _REWRITTEN:
                    made += self.release(ends=is_last), event
                elif event[4] in _QUERIES:
                    made.append(self.query(event, ends=is_last))
                else:
                    made += self.release(), self._payload(event)
            except BinlogError as error:
                raise error.located(file, offset) from error
        return b"".join(made)

    def query(self, event: bytes, *, ends: bool = False) -> bytes:
        """Convert a Query event. Return the new event, preceded by the buffered BEGIN event if there is one.

        If the event itself is a BEGIN, buffer it and return no bytes for it. ``ends`` says whether a transaction ends
        with the event. The converter then forgets the table that the transaction has created.
        """
        self.counts.queries += 1
        query = self._decode(event)
        keyword = query.raw.upper() if len(query.raw) <= 8 else b""
        if keyword == b"BEGIN":
            before = self.release(ends=True)
            self._begin = event
            return before
        if keyword in (b"COMMIT", b"ROLLBACK"):
            tables = self._named(self._created, query)
        else:
            told = query_tables_info(query, self._old)
            self.counts.untold += told is None
            tables = told or ()
            if self._creates(query):
                self._created = tuple(qualified(name, query.db or None) for name in tables)
        return self.release(ends=ends) + encode_query_event(event, self._old, self.new, tables)

    def release(self, *, ends: bool = False) -> bytes:
        """Return the bytes of the buffered BEGIN event, and empty the buffer. Without a BEGIN, return no bytes.

        ``ends`` says whether the transaction ends with the next event. The converter then forgets the table that the
        transaction has created.
        """
        held, self._begin = self._begin, None
        before = b""
        if held is not None:
            tables = self._named(self._created, self._decode(held))
            before = encode_query_event(held, self._old, self.new, tables)
        if ends:
            self._created = ()
        return before

    def _creates(self, query: QueryEvent) -> bool:
        """Tell whether a statement inside a transaction is the CREATE TABLE of a CREATE … SELECT in row format.

        Any other CREATE TABLE commits implicitly and cannot stand inside a transaction, except for temporary tables.
        """
        sql_mode = query.status.sql_mode or 0
        parsed = read_text(query.text, family=self._old.family, sql_mode=sql_mode)
        return parsed.kind is StatementKind.CREATE_TABLE and not parsed.temporary

    def _named(self, tables: tuple[TableName, ...], query: QueryEvent) -> tuple[TableName, ...]:
        return tuple(relative(name, query.db or None) for name in tables)

    def _decode(self, event: bytes) -> QueryEvent:
        return decode_statement_event(EventType(event[4]), self._old.body(event), self._old)

    def _payload(self, event: bytes) -> bytes:
        header = EventHeader.unpack(event)
        inner = QueryConverter(replace(self._old, checksum=False), self.counts)
        events = [
            inner.query(one) if one[4] in _QUERIES else inner.release() + one
            for _, one in decode_transaction_payload(self._old.body(event)).events()
        ]
        made = encode_transaction_payload(b"".join([*events, inner.release()]))
        return with_body(header, made, checksum=self.new.checksum)
