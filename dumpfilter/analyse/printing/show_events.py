"""The statements SHOW BINLOG EVENTS and SHOW RELAYLOG EVENTS for one binlog or relay log file.

The column Info has the texts of MySQL and MariaDB (``Log_event::pack_info``). The tests in tests/analyse/printing
compare all rows with those that MySQL 9.7 and MariaDB 10.11 show for recorded binlogs.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from dumpfilter.analyse.printing.literals import gap_text, quoted_name, user_variable, xa_prepare_text
from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated
from dumpfilter.binlog import context_events as C
from dumpfilter.binlog import gtid_events as G
from dumpfilter.binlog.charsets import collation_name
from dumpfilter.binlog.compression import NONE, TransactionPayload, decode_transaction_payload
from dumpfilter.binlog.events import (
    LOG_EVENT_SUPPRESS_USE_F,
    MYSQL_GTIDS,
    ROWS,
    STMT_END_F,
    EventType,
    shown_name,
)
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent
from dumpfilter.binlog.reader import Event, decode_event, iter_events, open_regular
from dumpfilter.binlog.rows_events import RowsHeader
from dumpfilter.console.sql.interruption import check_interrupted
from dumpfilter.console.sql.result import Column, ColumnType, Note, Result
from dumpfilter.console.sql.server_errors import ER_ERROR_WHEN_EXECUTING_COMMAND, SqlError

COLUMNS = (
    Column("Log_name"),
    Column("Pos", ColumnType.INTEGER),
    Column("Event_type"),
    Column("Server_id", ColumnType.INTEGER),
    Column("End_log_pos", ColumnType.INTEGER),
    Column("Info"),
)

MOST_ROWS = 100_000
"""The maximum number of events in one answer. It bounds the memory, because an answer is held in memory."""

MOST_INFO = 16 << 20
"""The maximum total of characters in the column Info of one answer. It bounds the memory."""

_MAX_INFO = 1 << 20
"""The maximum length of the column Info, characters. It bounds the memory, because a statement may have a gigabyte."""


def show_events(
    path: Path, family: Family, *, position: int = 4, offset: int = 0, count: int | None = None
) -> Result:
    """Return the rows of ``SHOW BINLOG EVENTS IN path FROM position LIMIT offset, count``.

    ``count`` None means no LIMIT. With ``count`` 0 the answer has all events for MySQL, and one event for MariaDB, as
    these servers do. At most :data:`MOST_ROWS` events are shown, and fewer if their texts exceed :data:`MOST_INFO`
    characters. The answer has a warning if there are more.

    The answer ends before an incomplete event at the end of the file. Raises SqlError (ER_ERROR_WHEN_EXECUTING_COMMAND)
    if the file is missing or damaged, or if no event begins at the position.
    """
    if count == 0:
        # For SHOW BINLOG EVENTS … LIMIT 0, MySQL 9.7 shows all events, and MariaDB 10.11 shows one event.
        count = None if family == "mysql" else 1
    wanted = MOST_ROWS if count is None else min(count, MOST_ROWS)
    events = _events(path, position)
    rows: list[list[Any]] = []
    info = 0
    # A client may name an offset of 64 bits, which no file reaches and Python does not count to.
    offset = min(offset, sys.maxsize - wanted)
    for event in islice(events, offset, offset + wanted):
        rows.append(_row(path.name, event))
        info += len(rows[-1][-1])
        if info > MOST_INFO:
            break
    notes: tuple[Note, ...] = ()
    cut = info > MOST_INFO or len(rows) == MOST_ROWS
    if cut and (count is None or count > len(rows)) and next(events, None) is not None:
        more = f"only {len(rows)} events are shown; go on with FROM {rows[-1][4]}"
        notes = (Note("Warning", 1105, more),)
    return Result(COLUMNS, rows, notes=notes)


def no_events(reason: str, statement: str = "SHOW BINLOG EVENTS") -> SqlError:
    """Return the error (ER_ERROR_WHEN_EXECUTING_COMMAND) with which servers answer a SHOW BINLOG EVENTS or SHOW
    RELAYLOG EVENTS (``statement``) that they cannot execute.

    The text of the error cuts a long ``reason``, as the servers do.
    """
    return ER_ERROR_WHEN_EXECUTING_COMMAND(statement, reason)


def _row(name: str, event: Event) -> list[Any]:
    header = event.header
    try:
        info = event_info(event)
    except BinlogError as error:
        info = str(error)
    return [
        name,
        event.offset,
        shown_name(event.type),
        header.server_id,
        header.end_log_pos,
        info[:_MAX_INFO],
    ]


def _events(path: Path, position: int) -> Iterator[Event]:
    try:
        source = BufferedReader(open_regular(path))  # type: ignore[type-var]  # a FileIO
    except BinlogError:
        raise no_events("Could not find target log") from None
    first = True
    with source:
        # A client may name a position of 64 bits. File systems refuse to seek that far.
        start = max(min(position, os.fstat(source.fileno()).st_size), 4)
        try:
            for event in iter_events(source, file=path.name, start=start):
                check_interrupted()
                if first and 4 < event.offset == position and not _believable(event):
                    raise BinlogCorrupt("no event stands here")
                first = False
                yield from shown_events(event)
        except BinlogError as error:
            if first or not isinstance(error, BinlogTruncated):
                at = position if first or error.position is None else error.position
                reason = f"Error reading Log_event at position {at}: Failed decoding event: {error.what}"
                raise no_events(reason) from error


def _believable(event: Event) -> bool:
    # A user may give a position inside an event. The bytes there count as an event if the type is known, and if the
    # event has a checksum or an end_log_pos that is its end or 0. In a relay log end_log_pos is a position in the
    # master's binlog, but most relay logs have checksums.
    known = not shown_name(event.type).startswith("Unknown")
    return known and (event.fd.checksum or event.header.end_log_pos in (0, event.offset + event.header.size))


T = EventType

_ROWS_FLAGS = ((STMT_END_F, "STMT_END_F"),)
_MYSQL_ROWS_FLAGS = (
    *_ROWS_FLAGS,
    (1 << 1, "NO_FOREIGN_KEY_CHECKS_F"),
    (1 << 2, "RELAXED_UNIQUE_CHECKS_F"),
    (1 << 3, "COMPLETE_ROWS_F"),
    (1 << 4, "USE_SQL_FOREIGN_KEY_F"),
)


def event_info(event: Event) -> str:
    """Return the text of SHOW BINLOG EVENTS for an event's column Info.

    The text is empty for unknown event types, and for events for which the servers show nothing. Invalid UTF-8
    becomes U+FFFD. Raises BinlogError for a malformed event.
    """
    text_of = _INFO.get(event.type)
    text = "" if text_of is None else text_of(decode_event(event), event)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown_events(event: Event) -> Iterator[Event]:
    """Yield the events that SHOW BINLOG EVENTS shows for one event of a file.

    A Transaction_payload event is followed by the events inside it. As in MySQL, each of these has the end of the
    Transaction_payload event as ``header.end_log_pos`` and ``offset``. Raises BinlogError for a payload that cannot
    be decompressed.
    """
    yield event
    if event.type != T.TRANSACTION_PAYLOAD:
        return
    end = event.header.end_log_pos
    inner = replace(event.fd, checksum=False)
    for header, raw in decode_transaction_payload(event.body).events():
        yield Event(end, header._replace(end_log_pos=end), raw, inner)


def _rows(rows: RowsHeader, event: Event) -> str:
    known = _MYSQL_ROWS_FLAGS if event.fd.family == "mysql" else _ROWS_FLAGS
    flags = "".join(f" {name}" for bit, name in known if rows.flags & bit)
    return f"table_id: {rows.table_id}" + (f" flags:{flags}" if flags else "")


def _query(query: QueryEvent, event: Event) -> str:
    text = query.text
    if query.db and not event.header.flags & LOG_EVENT_SUPPRESS_USE_F:
        text = f"use {quoted_name(query.db).decode('utf-8', 'surrogateescape')}; {text}"
    if event.fd.family == "mysql" and query.status.ddl_xid is not None:
        text += f" /* xid={query.status.ddl_xid} */"
    return text


def _mariadb_gtid(gtid: G.MariadbGtidEvent, event: Event) -> str:
    head = f"XA START {gtid.xid} " if gtid.flags & G.FL_PREPARED_XA else "" if gtid.standalone else "BEGIN "
    text = f"{head}GTID {gtid.gtid}"
    if gtid.flags & G.FL_GROUP_COMMIT_ID:
        text += f" cid={gtid.commit_id}"
    if gtid.flags_extra & G.FL_START_ALTER_E1:
        text += " START ALTER"
    if gtid.flags_extra & G.FL_COMMIT_ALTER_E1:
        text += f" COMMIT ALTER id={gtid.start_alter_seq_no}"
    if gtid.flags_extra & G.FL_ROLLBACK_ALTER_E1:
        text += f" ROLLBACK ALTER id={gtid.start_alter_seq_no}"
    return text


def _user_var(variable: C.UserVar, event: Event) -> str:
    family = event.fd.family
    name = quoted_name(variable.name).decode("utf-8", "surrogateescape")
    if variable.value is None or variable.type != C.STRING_RESULT:
        if variable.type == C.REAL_RESULT and variable.value is not None:
            return f"@{name}={struct.unpack('<d', variable.value)[0]:.14g}"
        value = user_variable(variable, family)
        assert value is not None
        return f"@{name}={value.decode()}"
    collation = collation_name(variable.charset, family)
    if collation is None:
        return f"@{name}=???"
    digits = variable.value.hex().upper()
    text = f"X'{digits}'" if family == "mariadb" else f"0x{digits}"
    return f"@{name}=_{collation.partition('_')[0]} {text} COLLATE {collation}"


def _intvar(intvar: C.Intvar, event: Event) -> str:
    name = "LAST_INSERT_ID" if intvar.type == C.LAST_INSERT_ID_EVENT else "INSERT_ID"
    return f"{name}={intvar.value}"


def _payload(payload: TransactionPayload, event: Event) -> str:
    compression = "NONE" if payload.compression == NONE else "ZSTD"
    return f"compression='{compression}', decompressed_size={payload.uncompressed_size} bytes"


def _load_block(block: C.LoadBlock, event: Event) -> str:
    return f";file_id={block.file_id};block_len={len(block.data)}"


def _incident(incident: C.Incident, event: Event) -> str:
    name = "LOST_EVENTS" if incident.number == C.INCIDENT_LOST_EVENTS else "NOTHING"
    return f"#{incident.number} ({name})" + (f": {incident.message}" if incident.message else "")


def _text(body: bytes | memoryview) -> str:
    return bytes(body).decode("utf-8", "surrogateescape")


_INFO: dict[int, Callable[[Any, Event], str]] = {
    T.FORMAT_DESCRIPTION: lambda fd, event: f"Server ver: {fd.server_version}, Binlog ver: 4",
    T.TABLE_MAP: lambda table, event: f"table_id: {table.table_id} ({table.database}.{table.table})",
    T.QUERY: _query,
    T.QUERY_COMPRESSED: _query,
    T.EXECUTE_LOAD_QUERY: lambda query, event: f"{_query(query, event)} ;file_id={query.file_id}",
    T.MARIADB_GTID: _mariadb_gtid,
    T.PREVIOUS_GTIDS: lambda gtids, event: str(gtids).replace(",", ",\n"),
    T.GTID_LIST: lambda gtids, event: f"[{', '.join(map(str, gtids.gtids))}]",
    T.BINLOG_CHECKPOINT: lambda name, event: name,
    T.XID: lambda xid, event: f"COMMIT /* xid={xid} */",
    T.XA_PREPARE: lambda prepare, event: xa_prepare_text(prepare),
    T.ROTATE: lambda rotate, event: f"{rotate.name};pos={rotate.position}",
    T.INTVAR: _intvar,
    T.RAND: lambda rand, event: f"rand_seed1={rand.seed1},rand_seed2={rand.seed2}",
    T.USER_VAR: _user_var,
    T.ROWS_QUERY: lambda text, event: f"# {_text(text)}",
    T.ANNOTATE_ROWS: lambda text, event: _text(text),
    T.TRANSACTION_PAYLOAD: _payload,
    T.BEGIN_LOAD_QUERY: _load_block,
    T.APPEND_BLOCK: _load_block,
    T.DELETE_FILE: lambda block, event: f";file_id={block.file_id}",
    T.INCIDENT: _incident,
    T.IGNORABLE: lambda content, event: gap_text(content),
    **dict.fromkeys(ROWS, _rows),
    **dict.fromkeys(
        MYSQL_GTIDS, lambda gtid, event: f"SET @@SESSION.GTID_NEXT= '{gtid.gtid or 'ANONYMOUS'}'"
    ),
}
"""The functions that make the Info text, by event type.

Each function takes the decoded event (:func:`decode_event`) and the raw event.
"""
