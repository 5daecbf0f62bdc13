"""The texts of single statements of a binlog set, read again from the files."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    STATEMENTS,
    EventHeader,
    EventType,
    Symbol,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.errors import BinlogError
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.statements import decode_statement_event

LONGEST = 1000
"""The most characters of a statement's text to return."""


def statement_text(binlogs: BinlogSet, file: str, position: int, inside: int | None) -> str:
    """Return the beginning of the text of a statement; empty if the binlog has no text of the statement.

    Rows events have a text if the server writes Rows_query or Annotate_rows events. The statement's first event is at
    ``position`` of a file. For a statement of a compressed transaction, ``position`` is that of the
    Transaction_payload event, and ``inside`` the offset of the statement's first event in the uncompressed bytes.
    """
    try:
        with binlogs.file(file) as opened:
            fd = opened.format_description
            events = (
                _events(opened, position, fd) if inside is None else _inside(opened, position, inside, fd)
            )
            for kind, body in events:
                text = _text(kind, body, fd)
                if text is not None:
                    return text[:LONGEST]
    except BinlogError:
        # The scan has read these events without an error. A second format description event in a relay log can give
        # them a layout that is not known here.
        return ""
    return ""


def _text(kind: int, body: bytes | memoryview, fd: FormatDescription) -> str | None:
    """Return the text of an event, empty if no text can follow, and None if later events can have the text."""
    if kind in STATEMENTS:
        return decode_statement_event(EventType(kind), body, fd).text
    if kind == EventType.ROWS_QUERY:
        return decode_rows_query(body).decode("utf-8", "replace")
    if kind == EventType.ANNOTATE_ROWS:
        return decode_annotate_rows(body).decode("utf-8", "replace")
    is_context = kind in set(EventType) and EventType(kind).kind.symbol == Symbol.CONTEXT
    return None if is_context else ""


def _events(
    file: BinlogFile, position: int, fd: FormatDescription
) -> Iterator[tuple[int, bytes | memoryview]]:
    while True:
        header = EventHeader.unpack(file.read(position, HEADER_LENGTH))
        yield header.type, fd.body(file.read(position, header.size))
        position += header.size


def _inside(
    file: BinlogFile, position: int, inside: int, fd: FormatDescription
) -> Iterator[tuple[int, bytes | memoryview]]:
    header = EventHeader.unpack(file.read(position, HEADER_LENGTH))
    payload = decode_transaction_payload(fd.body(file.read(position, header.size)))
    offset = 0
    for inner, event in payload.events():
        if offset >= inside:
            # The events of a compressed transaction have no checksums.
            yield inner.type, event[HEADER_LENGTH:]
        offset += inner.size
