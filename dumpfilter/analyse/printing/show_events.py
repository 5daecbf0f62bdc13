"""The statements SHOW BINLOG EVENTS and SHOW RELAYLOG EVENTS for one binlog or relay log file."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from dumpfilter.analyse.printing.event_info import event_info, shown_events
from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, shown_name
from dumpfilter.binlog.file_reads import open_regular
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.reader import Event, iter_events
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

    ``count`` None means no LIMIT. At most :data:`MOST_ROWS` events are shown, with a warning if there are more. The
    answer ends before an incomplete event at the end of the file. Raises SqlError (ER_ERROR_WHEN_EXECUTING_COMMAND)
    for a damaged file, or if no event begins at the position.
    """
    if count == 0:
        # For SHOW BINLOG EVENTS … LIMIT 0, MySQL 9.7 shows all events, and MariaDB 10.11 shows one event.
        count = None if family == "mysql" else 1
    wanted = MOST_ROWS if count is None else min(count, MOST_ROWS)
    events = _events(path, family, position)
    rows: list[list[Any]] = []
    info = 0
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
    """Return the error with which servers answer a SHOW BINLOG EVENTS that they cannot execute
    (ER_ERROR_WHEN_EXECUTING_COMMAND).

    Like the servers, it cuts a long ``reason``.
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


def _events(path: Path, family: Family, position: int) -> Iterator[Event]:
    try:
        source = BufferedReader(open_regular(path))  # type: ignore[type-var]  # a FileIO
    except BinlogError:
        raise no_events("Could not find target log") from None
    with source:
        size = source.seek(0, 2)
        if position > size and family == "mariadb":
            raise no_events(
                f"Invalid pos specified. Requested from pos:{position} is greater than actual file size:{size}"
            )
        first = True
        try:
            if 4 < position < size:
                source.seek(0)
                _check_place(source.read(4 + HEADER_LENGTH), position, family)
            for event in iter_events(source, file=path.name, start=max(position, 4)):
                check_interrupted()
                if first and 4 < event.offset == position and not _believable(event):
                    raise BinlogCorrupt("no event stands here")
                first = False
                yield from shown_events(event)
        except BinlogTruncated as error:
            if first:
                truncated = "binlog truncated in the middle of event; consider out of disk space"
                raise _wrong(family, position, truncated) from error
        except BinlogError as error:
            at = position if first or error.position is None else error.position
            text = (
                "Event too big" if first else "Event crc check failed! Most likely there is event corruption."
            )
            raise _wrong(family, at, text) from error


def _check_place(head: bytes, position: int, family: Family) -> None:
    # MariaDB refuses a position inside the format description event. MySQL goes on with the next event.
    end = 4 + EventHeader.unpack(head, 4).size if len(head) == 4 + HEADER_LENGTH else 0
    if family == "mariadb" and position < end:
        raise _wrong(family, position, "")


def _believable(event: Event) -> bool:
    # A user may give a position inside an event. The bytes there count as an event if the type is known, and if the
    # event has a checksum or an end_log_pos that is its end or 0. In a relay log end_log_pos is a position in the
    # master's binlog, but most relay logs have checksums.
    known = not shown_name(event.type).startswith("Unknown")
    return known and (event.fd.checksum or event.header.end_log_pos in (0, event.offset + event.header.size))


def _wrong(family: Family, position: int, reason: str) -> SqlError:
    if family == "mariadb":
        return no_events("Wrong offset or I/O error")
    return no_events(f"Error reading Log_event at position {position}: Failed decoding event: {reason}")
