"""From a Query or Execute_load_query event to the subject a filter decides on."""

from __future__ import annotations

from dumpfilter.binlog import _roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import QueryEvent, decode_execute_load_query, decode_query
from dumpfilter.statement import Statement, database_statement, object_databases

_FRAMES = (b"ROLLBACK", b"SAVEPOINT ", b"RELEASE SAVEPOINT ")


def read_statement(event: bytes, fd: FormatDescription) -> tuple[Statement, int | None]:
    """The statement in a whole event and, when it is a transaction's keyword, the role it has instead.

    Raises BinlogCorrupt (without file and position) when the event is malformed.
    """
    kind = EventType(event[4])
    body = memoryview(event)[HEADER_LENGTH : len(event) - fd.checksum_length]
    length = fd.post_header_length(kind)
    query: QueryEvent
    if kind == EventType.EXECUTE_LOAD_QUERY:
        query = decode_execute_load_query(body, post_header_length=length)
    else:
        # a compressed Query has the post-header of a plain one
        compressed = kind == EventType.QUERY_COMPRESSED
        length = fd.post_header_length(EventType.QUERY)
        query = decode_query(body, post_header_length=length, compressed=compressed)
    text = query.text
    frame: int | None = None
    if kind == EventType.QUERY_COMPRESSED:
        head = query.raw[:20].upper()
        if head.startswith(b"XA "):
            frame = R.XA
        elif head.startswith(_FRAMES):
            frame = R.FRAME
    current = query.db or None
    statement_kind, database = database_statement(text)
    if query.updated_dbs is not None:
        updated: tuple[str, ...] | None = tuple(sorted(query.updated_dbs))
    else:
        updated = object_databases(text, current)
    return Statement(statement_kind, current, database, updated), frame
