"""The Event_type and Info columns of SHOW BINLOG EVENTS, as the two servers fill them (``Log_event::pack_info``).

tests/printing compares every row with the rows that MySQL 9.7 and MariaDB 10.11 show for the recordings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

from dumpfilter.binlog import context_events as C
from dumpfilter.binlog.compression import (
    NONE,
    TransactionPayload,
    decode_transaction_payload,
    events_inside,
)
from dumpfilter.binlog.events import (
    LOG_EVENT_SUPPRESS_USE_F,
    ROWS,
    STMT_END_F,
    EventHeader,
    EventType,
    event_name,
)
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import decode_gtid_list, decode_previous_gtids
from dumpfilter.binlog.gtid_events import (
    FL_COMMIT_ALTER_E1,
    FL_GROUP_COMMIT_ID,
    FL_PREPARED_XA,
    FL_ROLLBACK_ALTER_E1,
    FL_START_ALTER_E1,
    decode_gtid_tagged,
    decode_mariadb_gtid,
    decode_mysql_gtid,
)
from dumpfilter.binlog.query import (
    ExecuteLoadQueryEvent,
    QueryEvent,
    decode_execute_load_query,
    decode_name,
    decode_query,
)
from dumpfilter.binlog.reader import Event
from dumpfilter.binlog.rows import decode_rows_header, decode_table_map
from dumpfilter.printing.collations import collation_name
from dumpfilter.printing.literals import quoted_name, user_variable

T = EventType

_NAMES: dict[int, str] = {
    T.RAND: "RAND",
    T.USER_VAR: "User var",
    T.ANONYMOUS_GTID: "Anonymous_Gtid",
    T.GTID_TAGGED: "Gtid_tagged_log_event",
    T.PARTIAL_UPDATE_ROWS: "Update_rows_partial",
}
_ROWS_FLAGS = ((STMT_END_F, "STMT_END_F"),)
_MYSQL_ROWS_FLAGS = (
    *_ROWS_FLAGS,
    (1 << 1, "NO_FOREIGN_KEY_CHECKS_F"),
    (1 << 2, "RELAXED_UNIQUE_CHECKS_F"),
    (1 << 3, "COMPLETE_ROWS_F"),
    (1 << 4, "USE_SQL_FOREIGN_KEY_F"),
)


def event_type(number: int) -> str:
    """Return the Event_type column.

    >>> event_type(14), event_type(19), event_type(99)
    ('User var', 'Table_map', 'Unknown')
    """
    name = _NAMES.get(number) or event_name(number)
    return "Unknown" if name.startswith("Unknown") else name


def event_info(event: Event) -> str:
    """Return the Info column. It is empty for unknown events, and for events for which the servers show nothing.

    Invalid UTF-8 becomes U+FFFD. Raises BinlogError for an event that is malformed.
    """
    return _clean(_info(event))


def shown_events(event: Event) -> Iterator[Event]:
    """Yield the event and, for a compressed transaction, the events in it.

    The inner events have the transaction's ``header.end_log_pos`` and ``offset``, as MySQL shows them. Raises
    BinlogError for a transaction that cannot be uncompressed.
    """
    yield event
    if event.type != T.TRANSACTION_PAYLOAD:
        return
    end = event.header.end_log_pos
    inner = replace(event.fd, checksum=False)
    for header, raw in events_inside(decode_transaction_payload(event.body).open()):
        yield Event(end, header._replace(end_log_pos=end), raw, inner)


def _info(event: Event) -> str:
    kind, body, fd = event.type, event.body, event.fd
    if kind == T.FORMAT_DESCRIPTION:
        return f"Server ver: {fd.server_version}, Binlog ver: 4"
    if kind in ROWS:
        rows = decode_rows_header(kind, body, fd.post_header_length(kind) or None)
        known = _MYSQL_ROWS_FLAGS if fd.family == "mysql" else _ROWS_FLAGS
        flags = "".join(f" {name}" for bit, name in known if rows.flags & bit)
        return f"table_id: {rows.table_id}" + (f" flags:{flags}" if flags else "")
    if kind == T.TABLE_MAP:
        table = decode_table_map(body, fd.post_header_length(kind))
        return f"table_id: {table.table_id} ({table.database}.{table.table})"
    if kind in (T.QUERY, T.QUERY_COMPRESSED):
        query = decode_query(
            body,
            post_header_length=fd.post_header_length(kind),
            compressed=kind == T.QUERY_COMPRESSED,
        )
        return _query(query, event.header, fd.family)
    if kind == T.EXECUTE_LOAD_QUERY:
        load = decode_execute_load_query(body, post_header_length=fd.post_header_length(kind))
        return f"{_query(load, event.header, fd.family)} ;file_id={load.file_id}"
    if kind == T.MARIADB_GTID:
        return _mariadb_gtid(body, event.header.server_id)
    if kind == T.USER_VAR:
        return _user_var(body, fd.family)
    of = _OTHERS.get(kind)
    return "" if of is None else of(body)


def _clean(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _query(query: QueryEvent | ExecuteLoadQueryEvent, header: EventHeader, family: Family) -> str:
    text = query.text
    if query.db and not header.flags & LOG_EVENT_SUPPRESS_USE_F:
        text = f"use {quoted_name(query.db).decode('utf-8', 'surrogateescape')}; {text}"
    if family == "mysql" and query.status.ddl_xid is not None:
        text += f" /* xid={query.status.ddl_xid} */"
    return text


def _mysql_gtid(body: bytes | memoryview) -> str:
    return f"SET @@SESSION.GTID_NEXT= '{decode_mysql_gtid(body).gtid}'"


def _mariadb_gtid(body: bytes | memoryview, server_id: int) -> str:
    gtid = decode_mariadb_gtid(body, server_id)
    head = f"XA START {gtid.xid} " if gtid.flags & FL_PREPARED_XA else "" if gtid.standalone else "BEGIN "
    text = f"{head}GTID {gtid.gtid}"
    if gtid.flags & FL_GROUP_COMMIT_ID:
        text += f" cid={gtid.commit_id}"
    if gtid.flags_extra & FL_START_ALTER_E1:
        text += " START ALTER"
    if gtid.flags_extra & FL_COMMIT_ALTER_E1:
        text += f" COMMIT ALTER id={gtid.start_alter_seq_no}"
    if gtid.flags_extra & FL_ROLLBACK_ALTER_E1:
        text += f" ROLLBACK ALTER id={gtid.start_alter_seq_no}"
    return text


def _user_var(body: bytes | memoryview, family: Family) -> str:
    variable = C.decode_user_var(body)
    name = quoted_name(variable.name).decode("utf-8", "surrogateescape")
    if variable.value is None or variable.type != C.STRING_RESULT:
        if variable.type == C.REAL_RESULT and variable.value is not None:
            return f"@{name}={struct.unpack('<d', variable.value)[0]:.14g}"
        value = user_variable(variable, family)
        assert value is not None  # None means an unknown collation, and only strings have collations
        return f"@{name}={value.decode()}"
    collation = collation_name(variable.charset, family)
    if collation is None:
        return f"@{name}=???"
    digits = variable.value.hex().upper()
    text = f"X'{digits}'" if family == "mariadb" else f"0x{digits}"
    return f"@{name}=_{collation.partition('_')[0]} {text} COLLATE {collation}"


def _intvar(body: bytes | memoryview) -> str:
    intvar = C.decode_intvar(body)
    name = "LAST_INSERT_ID" if intvar.type == C.LAST_INSERT_ID_EVENT else "INSERT_ID"
    return f"{name}={intvar.value}"


def _rand(body: bytes | memoryview) -> str:
    rand = C.decode_rand(body)
    return f"rand_seed1={rand[0]},rand_seed2={rand[1]}"


def _xa_prepare(body: bytes | memoryview) -> str:
    prepare = C.decode_xa_prepare(body)
    return f"XA COMMIT {prepare.xid} ONE PHASE" if prepare.one_phase else f"XA PREPARE {prepare.xid}"


def _rotate(body: bytes | memoryview) -> str:
    rotate = C.decode_rotate(body)
    return f"{rotate.name};pos={rotate.position}"


def _payload(body: bytes | memoryview) -> str:
    payload: TransactionPayload = decode_transaction_payload(body)
    compression = "NONE" if payload.compression == NONE else "ZSTD"
    return f"compression='{compression}', decompressed_size={payload.uncompressed_size} bytes"


def _load_block(block: C.LoadBlock) -> str:
    return f";file_id={block.file_id};block_len={len(block.data)}"


def _incident(body: bytes | memoryview) -> str:
    incident = C.decode_incident(body)
    name = "LOST_EVENTS" if incident.number == C.INCIDENT_LOST_EVENTS else "NOTHING"
    return f"#{incident.number} ({name})" + (f": {incident.message}" if incident.message else "")


def _text(body: bytes | memoryview) -> str:
    return bytes(body).decode("utf-8", "surrogateescape")


_OTHERS: dict[int, Callable[[bytes | memoryview], str]] = {
    T.GTID: _mysql_gtid,
    T.GTID_TAGGED: lambda body: f"SET @@SESSION.GTID_NEXT= '{decode_gtid_tagged(body).gtid}'",
    T.ANONYMOUS_GTID: lambda body: "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'",
    T.PREVIOUS_GTIDS: lambda body: str(decode_previous_gtids(body)).replace(",", ",\n"),
    T.GTID_LIST: lambda body: f"[{', '.join(map(str, decode_gtid_list(body).gtids))}]",
    T.BINLOG_CHECKPOINT: lambda body: decode_name(bytes(body[4:])),
    T.XID: lambda body: f"COMMIT /* xid={C.decode_xid(body)} */",
    T.XA_PREPARE: _xa_prepare,
    T.ROTATE: _rotate,
    T.INTVAR: _intvar,
    T.RAND: _rand,
    T.ROWS_QUERY: lambda body: f"# {_text(C.decode_rows_query(body))}",
    T.ANNOTATE_ROWS: lambda body: _text(C.decode_annotate_rows(body)),
    T.TRANSACTION_PAYLOAD: _payload,
    T.BEGIN_LOAD_QUERY: lambda body: _load_block(C.decode_begin_load_query(body)),
    T.APPEND_BLOCK: lambda body: _load_block(C.decode_append_block(body)),
    T.INCIDENT: _incident,
}
