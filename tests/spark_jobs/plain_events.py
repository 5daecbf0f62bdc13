"""The data source's rows, computed event by event with the project's decoders. The tests compare Spark's rows with
these."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import Any

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload, rows_data
from dumpfilter.binlog.events import ROWS, EventHeader, EventType, event_name
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MysqlGtid
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.rows_events import decode_rows_header, decode_table_map, rows_kind
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.index.subjects import TableSubject
from tests.binlog.plain_rows import plain_row_images
from tests.index.plain_index import ReferenceIndex, Transaction, index_events

T = EventType
QUERIES = (T.QUERY, T.QUERY_COMPRESSED)


class RowCount:
    """Counts the rows of one event after the other."""

    def __init__(self) -> None:
        self._tables: dict[int, Any] = {}

    def of(self, kind: int, body: bytes, fd: FormatDescription, role: int) -> int | None:
        found = None
        if kind == T.TABLE_MAP:
            width = 4 if fd.post_header_length(kind) == 6 else 6
            try:
                table = decode_table_map(body)
            except BinlogError:
                table = None
            self._tables[int.from_bytes(body[:width], "little")] = table
        elif kind in ROWS:
            found = 0 if role & 0x7F == R.DUMMY_ROWS else self._count(kind, body, fd)
            if role & 0x7F in (R.ROWS_END, R.DUMMY_ROWS):
                self._tables.clear()
        if role & R.ENDS:
            self._tables.clear()
        return found

    def _count(self, kind: int, body: bytes, fd: FormatDescription) -> int | None:
        try:
            header = decode_rows_header(kind, body)
            table = self._tables.get(header.table_id)
            return None if table is None else len(plain_row_images(table, header, rows_data(header, body)))
        except BinlogError:
            return None


def events_of(file: bytes, name: str) -> list[dict[str, Any]]:
    """Return a row for each event of a file."""
    events = list(iter_events(BytesIO(file), file=name))
    index = index_events(events)
    fd = events[0].fd
    first = _row(name, events[0].header, 4, len(events[0].raw))
    return [first, *chain.from_iterable(_rows(name, events[1:], index, fd))]


def _rows(
    name: str, events: list[Event], index: ReferenceIndex, fd: FormatDescription
) -> Iterator[list[dict[str, Any]]]:
    firsts = {transaction.first_event: transaction for transaction in index.transactions}
    counter = RowCount()
    transaction = Transaction(0)
    for number, event in enumerate(events):
        transaction = firsts.get(number, transaction)
        known: dict[str, Any] = {}
        if transaction.source != -3:
            known["transaction"] = events[transaction.first_event].offset
            known["gtid"] = _gtid(transaction)
        row = _row(name, event.header, event.offset, len(event.raw), **known)
        row["compressed"] = event.type == T.TRANSACTION_PAYLOAD or T.QUERY_COMPRESSED <= event.type <= 171
        row.update(_subject(index, number, event.type, bytes(event.body), event.fd))
        row["rows"] = counter.of(event.type, bytes(event.body), event.fd, index.role[number])
        yield [row, *_inside(name, event, index.payloads.get(number), known)]


def _inside(
    name: str, event: Event, index: ReferenceIndex | None, known: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    if index is None:
        return
    data = decode_transaction_payload(event.body).open()
    counter = RowCount()
    for inner, at in enumerate(index.offset):
        header = EventHeader.unpack(data, at)
        body = data[at + 19 : at + header.size]
        row = _row(name, header, event.offset, header.size, **known, inner=inner, compressed=True)
        row.update(_subject(index, inner, header.type, body, event.fd))
        row["rows"] = counter.of(header.type, body, event.fd, index.role[inner])
        yield row


def _row(name: str, header: EventHeader, position: int, size: int, **known: Any) -> dict[str, Any]:
    return {
        "file": name,
        "position": position,
        "end_log_pos": header.end_log_pos,
        "size": size,
        "type": event_name(header.type),
        "timestamp": datetime.datetime.fromtimestamp(header.timestamp, datetime.UTC),
        "server_id": header.server_id,
        "gtid": None,
        "transaction": None,
        "database": None,
        "table": None,
        "statement_kind": None,
        "rows": None,
        "compressed": False,
        "inner": None,
        **known,
    }


def _gtid(transaction: Transaction) -> str | None:
    source = transaction.source
    if isinstance(source, int):
        return None
    first, second = source
    if isinstance(first, bytes):
        return str(MysqlGtid(first, transaction.number, str(second)))
    return f"{first}-{second}-{transaction.number}"


def _subject(
    index: ReferenceIndex, number: int, kind: int, body: bytes, fd: FormatDescription
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    subject = index.subject[number]
    if kind in ROWS:
        found["statement_kind"] = rows_kind(kind).upper()
    if not isinstance(subject, TableSubject | Statement):
        return found
    if kind in QUERIES and index.role[number] & 0x7F == R.STATEMENT:
        text = bytes(decode_statement_event(T(kind), body, fd).raw)
        if text.upper().startswith(b"XA "):
            return found  # the event names a prepared transaction
        assert isinstance(subject, Statement)
    found["database"], found["table"] = (
        None if word is None else word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        for word in subject.schema_and_table()
    )
    if isinstance(subject, Statement):
        found["statement_kind"] = subject.kind.value
    return found
