"""A plain reader of a file's events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dumpfilter.binlog.compression import decode_transaction_payload, rows_data
from dumpfilter.binlog.events import ROWS, EventHeader, EventType
from dumpfilter.binlog.rows_events import RowsHeader, TableMap, decode_rows_header, decode_table_map


def events(path: Path) -> Iterator[tuple[EventHeader, bytes]]:
    """Yield header and body of a file's events, and of the events inside Transaction_payload events."""
    yield from _events(path.read_bytes(), 4, 4)


def _events(data: bytes, position: int, checksum: int) -> Iterator[tuple[EventHeader, bytes]]:
    while position < len(data):
        header = EventHeader.unpack(data, position)
        end = position + header.size
        if header.type == EventType.FORMAT_DESCRIPTION:
            checksum = 4 if data[end - 5] == 1 else 0
        body = data[position + 19 : end - checksum]
        yield header, body
        if header.type == EventType.TRANSACTION_PAYLOAD:
            yield from _events(decode_transaction_payload(body).open(), 0, 0)
        position = end


def rows_events(path: Path) -> Iterator[tuple[TableMap, RowsHeader, bytes | memoryview]]:
    """Yield each rows event of a binlog file: its table map, its post-header, and its rows without compression."""
    tables = {}
    for event, body in events(path):
        kind = event.type
        if kind == EventType.TABLE_MAP:
            table = decode_table_map(body)
            tables[table.table_id] = table
        elif kind in ROWS:
            header = decode_rows_header(kind, body)
            yield tables[header.table_id], header, rows_data(header, body)
