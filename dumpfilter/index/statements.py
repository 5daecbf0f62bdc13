"""The decoding of Query and Execute_load_query events into statements, with the kind, databases and tables that
filters decide by.
"""

from __future__ import annotations

import functools

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.query import QueryEvent, decode_statement_event
from dumpfilter.binlog.statement import Statement, TableName, make_statement, parse_statement, statement_shape
from dumpfilter.binlog.statement.facts import LONGEST_REMEMBERED

_FRAMES = (b"ROLLBACK", b"SAVEPOINT ", b"RELEASE SAVEPOINT ")


def read_statement(event: bytes, fd: FormatDescription) -> tuple[Statement, int | None]:
    """Return the statement of a Query or Execute_load_query event, and its role if the compiled scan could not find it.

    The role (:mod:`dumpfilter.binlog.roles`) says when a filtered stream has the event, for example with any other
    event of its transaction. The scan cannot read a Query_compressed event with text such as XA END. For all other
    events the second result is None. ``fd`` is the format description event in force. Raises BinlogCorrupt (without
    file and position) when the event is malformed.
    """
    kind = EventType(event[4])
    query = decode_statement_event(kind, fd.body(event), fd)
    frame: int | None = None
    if kind == EventType.QUERY_COMPRESSED:
        head = query.raw[:20].upper()
        if head.startswith(b"XA "):
            frame = R.XA
        elif head.startswith(_FRAMES):
            frame = R.FRAME
    return statement_of(query, fd), frame


def statement_of(query: QueryEvent, fd: FormatDescription) -> Statement:
    """Return the statement of a decoded Query event, with the tables and databases by which filters decide whether to
    send the event.

    ``fd`` is the format description event in force.
    """
    status = query.status
    shape = statement_shape(query.text, family=fd.family, sql_mode=status.sql_mode or 0)
    read = _subject if len(shape) <= LONGEST_REMEMBERED else _subject.__wrapped__
    return read(
        shape, fd.family, query.db or None, query.updated_dbs, status.table_map_for_update, query.tables_info
    )


@functools.lru_cache(8192)
def _subject(
    shape: str,
    family: Family,
    current_database: str | None,
    updated_databases: tuple[str, ...] | None,
    table_map_for_update: int | None,
    tables_info: tuple[TableName, ...] | None,
) -> Statement:
    return make_statement(
        parse_statement(shape, family),
        current_database=current_database,
        updated_databases=updated_databases,
        table_map_for_update=table_map_for_update,
        tables_info=tables_info,
    )
