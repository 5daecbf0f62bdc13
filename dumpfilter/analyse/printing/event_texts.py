"""The text of sequences of events: Table_map and rows events, and the BEGIN, COMMIT and similar events around them.

As in ``mysqlbinlog``, the text of a statement has three sections: lines about its events, a BINLOG statement with its
events, and its rows as comments. The rows of many consecutive events become text at once, by compiled functions. If
such a batch ends inside a statement, the last two sections are buffered until the statement's end.

A *cell* is the smallest piece of text: a range of bytes, and a style that tells how they become text.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.printing.literals import quoted_name
from dumpfilter.analyse.printing.options import TextOptions
from dumpfilter.analyse.printing.row_text import row_layouts
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    ROWS,
    STMT_END_F,
    EventHeader,
    EventType,
    event_name,
)
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_walk import RowsError, find_rows
from dumpfilter.binlog.rows.events import RowsEventsFinder
from dumpfilter.binlog.rows.texts import CellError, CellTexts, Form, Style
from dumpfilter.binlog.rows_events import (
    TABLE_ID_LENGTH,
    TableMap,
    decode_rows_header,
    decode_table_map,
    encode_table_map,
)
from dumpfilter.binlog.writer import with_body
from dumpfilter.dump.set_pass import KeptEvents

T = EventType
Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]

DELIMITER = b"/*!*/;"
"""The delimiter after each printed statement, as set by a ``delimiter`` command. It is an SQL comment, which does no
harm in a client that does not know the command. MySQL's client knows only the lower case after ``\\C binary``.
"""

TYPE_AT = 4
"""The byte offset of the type code in an event's header."""
_PIECE = 1 << 20
"""The size of the pieces in which text is written, bytes."""
_SPOOLED = 16 << 20
"""The size up to which the buffered sections of an unfinished statement stay in memory, bytes. Larger ones go to a
temporary file.
"""
_MOST_TABLES = 1 << 12
"""The number of cached tables at which the cache is cleared."""

_IN_STATEMENT = frozenset({T.TABLE_MAP, T.ROWS_QUERY, T.ANNOTATE_ROWS, *ROWS})
"""The event types that may precede the end of a statement logged as rows."""
_NAMES = [event_name(kind).encode() for kind in range(256)]
_CLOSES: npt.NDArray[np.bool_] = ~np.isin(np.arange(256), [*_IN_STATEMENT])
_COMPRESSED = frozenset(kind for kind in ROWS if kind.kind.compressed)

_BEGIN, _END = b"BINLOG '\n", b"'" + DELIMITER + b"\n"
_COPY, _OFFSET, _NUMBER, _BEFORE_CHECKSUM, _CHECKSUM, _BASE64 = range(6)
_STYLES = [
    Style(Form.COPY),
    Style(Form.UNSIGNED, around=(b"# at ", b"\n#", b"")),
    Style(Form.UNSIGNED),
    Style(Form.UNSIGNED, around=(b"", b" CRC32 0x", b"")),
    Style(Form.CHECKSUM),
    *(Style(Form.BASE64, around=(begin, end, b"")) for end in (b"", _END) for begin in (b"", _BEGIN)),
]
"""The styles of all text except that of rows, by style number. A style tells how the bytes of a cell (a piece of text)
become text. The numbers of the rows' styles follow.

Base64 cells have four styles, with and without the text that begins or ends a BINLOG statement.
"""
_HEAD, _ENCODED, _ROWS = range(3)
_SECTIONS = 3
"""The number of sections in a statement's text: lines about the events, BINLOG statement, and rows."""


def event_line(kind: int, text: str | bytes = b"", after: bytes = b"") -> bytes:
    """Return the second part of an event's text, which begins with the name of the type ``kind``. The caller prints the
    event's time, server id and end position before this part.

    ``text`` is the rest of the event's first line after the type's name, and ``after`` are the further lines.
    """
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    # A line end in the text would end the comment, and the client would run the rest as a statement.
    raw = raw.replace(b"\0", b" ").replace(b"\r", b" ").replace(b"\n", b" ")
    return b" \t%s%s\n%s" % (_NAMES[kind], b"\t" + raw if raw else b"", after)


class _Table(NamedTuple):
    """The table of a Table_map event. In ``map``, the event's decoded body, the database has its name on the target,
    the server on which a client runs the printed text.
    """

    map: TableMap
    is_renamed: bool
    line: bytes
    """The printed text of the Table_map event up to the table's number. The text has the database's name on the source.
    """


class EventTexts(abc.ABC):
    """A printer of binlog events as SQL text, which collects consecutive events in a batch and makes the text of a
    whole batch at once.

    A client can run the text on another server, the target. This class prints the changes of rows. A subclass makes the
    text of all other events.

    Parameters:
        write: receives the text.
        options: the form of the text.
        rewrite_db: returns a database's name on the target.
    """

    def __init__(
        self, write: Callable[[bytes], object], options: TextOptions, rewrite_db: Callable[[str], str]
    ) -> None:
        self._print = write
        self._rows_shown = options.verbose > 0
        self._row_events = options.row_events
        self._rewrite_db = rewrite_db
        self._finder = RowsEventsFinder(partial(row_layouts, options.verbose, rewrite_db, _STYLES))
        self._batch: _Batch | None = None
        self._format: tuple[Family, bytes] | None = None
        self._tables: dict[bytes, _Table] = {}
        self._rows_lines: dict[tuple[int, int], bytes] = {}
        self.checksum = False
        """Whether the events in BINLOG statements have checksums, as the printed format description event declares."""
        self.refused = 0
        """The number of rows events printed as comments because the target (the server that runs the text) lacks their
        table.
        """
        self._reason = b""
        """The comment on why the rows of the current statement cannot run. Empty if they can."""
        self._waiting: dict[int, SpooledTemporaryFile[bytes]] = {}
        """The buffered sections of an unfinished statement's text, by section number: 1 for the BINLOG statement, 2 for
        the rows as comments.
        """

    @abc.abstractmethod
    def text_of(self, raw: bytes, offset: int) -> bytes:
        """Return the part of an event's text that begins with the type's name and follows time, server id and end
        position. ``raw`` has the event's bytes, and ``offset`` is its offset in the file.
        """

    @abc.abstractmethod
    def refusal(self, database: str, table: str) -> bytes:
        """Return a comment that says that the target (the server that runs the printed text) lacks a table, so that the
        table's rows cannot run there. The comment is empty if the rows can run.

        ``database`` and ``table`` are the names on the target.
        """

    @abc.abstractmethod
    def before_rows(self) -> bytes:
        """Return the statements to print between the line about a rows event and the event's BINLOG statement, such as
        a delayed XA START.
        """

    def add(self, kept: KeptEvents) -> None:
        """Add the consecutive events ``kept`` to the batch (the events that are printed together). If the batch is
        full, or its events are from another file, first print it and begin a new one.

        Raises BinlogError with file and position for a malformed event, after printing the events before it.
        """
        batch = self._batch
        if batch is None or batch.fd is not kept.fd or batch.file != kept.file or batch.size > _PIECE:
            self.flush()
            form = kept.fd.family, kept.fd.post_header_lengths
            if self._format != form or len(self._tables) > _MOST_TABLES:
                self._tables, self._rows_lines = {}, {}
                self._format = form
            batch = self._batch = _Batch(kept.file, kept.fd, is_new=not self._waiting)
        batch.take(kept)
        raw = kept.data.tobytes()
        kinds = kept.data[kept.start + TYPE_AT].tolist()
        for kind, at, size, offset in zip(
            kinds, kept.start.tolist(), kept.size.tolist(), kept.offset.tolist(), strict=True
        ):
            try:
                self._add(batch, kind, raw[at : at + size], offset)
            except BinlogError as error:
                self.flush()
                raise error.located(kept.file, offset) from error

    def _add(self, batch: _Batch, kind: int, raw: bytes, offset: int) -> None:
        if kind == T.TABLE_MAP:
            batch.is_open = True
            batch.texts.append(self._table_map(batch, raw))
        elif kind in ROWS:
            batch.is_open = True
            at = HEADER_LENGTH + TABLE_ID_LENGTH
            ends = raw[at] & STMT_END_F if at < len(raw) - batch.fd.checksum_length else 0
            batch.texts.append(self._rows_event(batch, kind, raw, ends))
            if ends:
                self._reason = b""
                batch.close()
        else:
            if kind not in _IN_STATEMENT:
                self._reason = b""
                batch.close()
            batch.texts.append(self.text_of(raw, offset))

    def _table_map(self, batch: _Batch, raw: bytes) -> bytes:
        """Return the part of a Table_map event's text that begins with the type's name, and follows time, server id and
        end position. If BINLOG statements are printed, add the event to the BINLOG statement that repeats the present
        statement's changes.

        If the target (the server that runs the text) cannot run the rows of this table, the BINLOG statement is left
        out. The statement's earlier Table_map events are then removed, and nothing is added until the statement ends.
        ``batch`` has the events that are printed together, and ``raw`` the event's bytes.
        """
        body = raw[HEADER_LENGTH : len(raw) - batch.fd.checksum_length]
        content = body[TABLE_ID_LENGTH:]
        table = self._tables.get(content)
        if table is None:
            found = decode_table_map(body)
            database = self._rewrite_db(found.database)
            name = quoted_name(found.database) + b"." + quoted_name(found.table)
            line = event_line(T.TABLE_MAP, name + b" mapped to number ").rstrip(b"\n")
            table = _Table(replace(found, database=database), database != found.database, line)
            self._tables[content] = table
        if not self._reason:
            self._reason = self.refusal(table.map.database, table.map.table)
            if self._reason:
                # A server opens all tables that a statement maps before it runs the statement's first rows.
                batch.leave_out()
        if not self._reason and self._row_events:
            self._encode(batch, T.TABLE_MAP, table, raw)
        return b"%s%d\n" % (table.line, int.from_bytes(body[:TABLE_ID_LENGTH], "little"))

    def _rows_event(self, batch: _Batch, kind: int, raw: bytes, ends: int) -> bytes:
        """Return the part of a rows event's text that begins with the type's name, and follows time, server id and end
        position. If BINLOG statements are printed, add the event to the one that repeats the present statement's
        changes. An event that the target (the server that runs the text) cannot run is not added.

        ``batch`` has the events that are printed together. ``kind`` is the event's type, and ``raw`` its bytes.
        ``ends`` is nonzero if the event ends its statement.
        """
        line = self._rows_lines.get((kind, ends))
        if line is None:
            decode_rows_header(kind, batch.fd.body(raw))
            line = event_line(kind, "table id %d" + (" flags: STMT_END_F" if ends else ""))
            self._rows_lines[kind, ends] = line
        text = line % int.from_bytes(raw[HEADER_LENGTH : HEADER_LENGTH + TABLE_ID_LENGTH], "little")
        if self._reason:
            self.refused += 1
            return text + self._reason
        text += self.before_rows()
        if self._row_events:
            self._encode(batch, kind, None, raw)
        return text

    def _encode(self, batch: _Batch, kind: int, table: _Table | None, raw: bytes) -> None:
        """Add an event to the BINLOG statement that is being collected in ``batch``, the events that are printed
        together. The event is added without compression, and with the database's name on the target, the server that
        runs the text.

        ``kind`` is the event's type, and ``raw`` its bytes. ``table`` is the table of a Table_map event, and None for a
        rows event.
        """
        fd = batch.fd
        is_changed = kind in _COMPRESSED if table is None else table.is_renamed
        if is_changed or fd.checksum != self.checksum:
            header, body = EventHeader.unpack(raw), raw[HEADER_LENGTH : len(raw) - fd.checksum_length]
            if is_changed and table is not None:
                body = encode_table_map(replace(decode_table_map(body), database=table.map.database))
            elif is_changed:
                rows = decode_rows_header(kind, body)
                body = body[: rows.rows_offset] + bytes(rows_data(rows, body))
                header = header._replace(type=T(kind).opened)
            batch.changed[len(batch.texts)] = with_body(header, body, checksum=self.checksum)
        batch.encoded.append(len(batch.texts))

    def flush(self) -> None:
        """Print the events that :meth:`add` has collected so far, except the rows of a statement that has not ended.

        Raises BinlogError with file and position for a malformed event, after printing the events before it.
        """
        batch, self._batch = self._batch, None
        if batch is None or not batch.texts:
            return
        finder = copy(self._finder)
        try:
            cells, data = self._cells(batch)
            try:
                pieces = CellTexts(data, *cells.places, self._finder.layouts.styled())
            except CellError as error:
                raise _EventError(int(cells.event[error.cell]), error.error) from error
        except _EventError as error:
            offset = int(batch.offsets()[error.event])
            batch.cut(error.event)
            self._finder, self._batch = finder, batch
            self.flush()
            raise error.error.located(batch.file, offset) from error
        self._write_cells(batch, cells, pieces)

    def finish(self) -> None:
        """Print all collected events, and also the buffered rows of a last statement whose final event is missing."""
        self.flush()
        self._reason = b""
        self._finder.forget_maps()
        self._release()

    def _release(self) -> None:
        for section, (before, after) in ((_ENCODED, (_BEGIN, _END)), (_ROWS, (b"", b""))):
            waiting = self._waiting.pop(section, None)
            if waiting is None:
                continue
            with waiting:
                waiting.seek(0)
                self._print(before)
                while piece := waiting.read(_PIECE):
                    self._print(piece)
                self._print(after)

    def _write_cells(self, batch: _Batch, cells: _Cells, pieces: CellTexts) -> None:
        first, end = 0, len(batch.closed)
        if batch.drops_waiting and (waiting := self._waiting.pop(_ENCODED, None)):
            waiting.close()
        if not batch.is_new:
            self._wait(pieces, cells, 0)
            first = 1
            if end:
                self._release()
        if first < end:
            for piece in pieces.pieces(cells.first(first), cells.first(end), _PIECE):
                self._print(piece)
        if max(first, end) < cells.statements:
            self._wait(pieces, cells, cells.statements - 1)

    def _wait(self, pieces: CellTexts, cells: _Cells, statement: int) -> None:
        """Print the lines about the events of a statement that begins before a batch or ends after it. A batch is a
        number of events that are printed together. Buffer the statement's other two sections (BINLOG statement and
        rows), which are printed when the statement has ended.

        ``statement`` is the statement's index in the batch, ``cells`` has the batch's cells (pieces of text), and
        ``pieces`` makes their text.
        """
        for section in range(_SECTIONS):
            places = cells.first(statement, section), cells.first(statement, section + 1)
            for piece in pieces.pieces(*places, _PIECE):
                if section == _HEAD:
                    self._print(piece)
                    continue
                if section not in self._waiting:
                    self._waiting[section] = SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 (closed later)
                self._waiting[section].write(piece)

    def _cells(self, batch: _Batch) -> tuple[_Cells, Bytes]:
        """Return the cells of the text of ``batch``, the events that are printed together. Also return the bytes to
        which the cells' offsets refer. A cell is a range of these bytes, with a style that tells how they become text.
        """
        data, start, size = batch.events()
        offset, kind, count = batch.offsets(), data[start + TYPE_AT], len(batch.texts)
        events, rows = data, None
        if self._rows_shown:
            data, rows, rows_count = self._rows(batch, data, start, size, kind, offset)
        # A number for each pair of timestamp and server id.
        when = events[start[:, None] + np.array([5, 6, 7, 8, 0, 1, 2, 3])].view("<u8").ravel()
        moments, which = np.unique(when, return_inverse=True)
        whens = [_when(moment >> 32, moment & 0xFFFFFFFF) for moment in moments.tolist()]
        own = [offset.astype("<i8").tobytes(), *whens, *batch.texts, *batch.changed.values()]
        own_size = np.array([*map(len, own)])
        own_at = data.size + np.cumsum(own_size) - own_size
        texts = 1 + len(whens)

        is_format = kind == T.FORMAT_DESCRIPTION
        has_checksum = np.where(is_format, batch.fd.ends_in_checksum, batch.fd.checksum)
        head = (
            (own_at[0] + 8 * np.arange(count), 8, _OFFSET),
            (own_at[1:texts][which], own_size[1:texts][which], _COPY),
            (start + 13, 4, np.where(has_checksum, _BEFORE_CHECKSUM, _NUMBER)),
            (start + size - 4, 4 * has_checksum, _CHECKSUM),
            (own_at[texts : texts + count], own_size[texts : texts + count], _COPY),
        )
        lines = np.empty((3, count, len(head)), np.int64)
        for number, places in enumerate(head):
            for column, place in zip(lines, places, strict=True):
                column[:, number] = place
        encoded = np.array(batch.encoded, np.int64)
        at, length = start[encoded], size[encoded]
        changed = np.searchsorted(encoded, np.array([*batch.changed], np.int64))
        at[changed], length[changed] = own_at[texts + count :], own_size[texts + count :]
        sections = [
            (*lines.reshape(3, -1), np.full(count, len(head))),
            (at, length, batch.columns(), np.bincount(encoded, minlength=count)),
        ]
        if rows is not None:
            sections.append((*rows, rows_count))
        data = np.concatenate((data, np.frombuffer(b"".join(own), np.uint8)))
        return _arranged(batch.statements(), sections), data

    def _rows(
        self, batch: _Batch, data: Bytes, start: Int64, size: Int64, kind: Bytes, offset: Int64
    ) -> tuple[Bytes, tuple[Int64, Int64, Int64], Int64]:
        """Make the cells of the rows' text for the events of ``batch``. A cell is a piece of text: a range of bytes,
        and a style that tells how the bytes become text.

        ``data`` has the bytes of all events. For each event, ``start`` is its offset in ``data``, ``size`` its size,
        ``kind`` its type and ``offset`` its offset in the file.

        Return three values: ``data`` with decompressed rows appended, the cells, and the number of cells of each event.
        The cells are three arrays: start in the returned bytes, length, and style number.
        """
        count = np.zeros(start.size, np.int64)
        try:
            found = self._finder.find(
                data,
                start,
                size,
                kind,
                batch.fd,
                closes=_CLOSES[kind],
                position=offset,
            )
            layouts = self._finder.layouts.arrays()
            rows = find_rows(found.data, found.start, found.end, found.layout, layouts)
        except BinlogError as error:
            raise _EventError(int(np.flatnonzero(offset == error.position)[0]), error) from error
        except RowsError as error:
            raise _EventError(int(found.event[error.event]), error.error) from error
        bounds = rows.cell[np.searchsorted(rows.event, np.arange(found.event.size + 1))]
        count[found.event] = np.diff(bounds)
        return found.data, (rows.start, rows.length, rows.column), count


def _when(timestamp: int, server_id: int) -> bytes:
    line = f"%y%m%d %k:%M:%S server id {server_id}  end_log_pos "
    return time.strftime(line, time.localtime(timestamp)).encode()


class _EventError(Exception):
    """An error about a malformed event. ``event`` is the event's index in the batch of events that are printed
    together.
    """

    def __init__(self, event: int, error: BinlogError) -> None:
        self.event, self.error = event, error
        super().__init__(str(error))


class _Cells(NamedTuple):
    """The cells of a batch (the events that are printed together), in the order of the printed text. A cell is a range
    of bytes, with a style that tells how they become text.

    ``places`` has three arrays with one entry for each cell: start, length and style number. ``section`` has the index
    of the first cell of each section, and at the end the number of cells. A statement has three sections: the lines
    about events, the BINLOG statement, and the rows.
    """

    places: tuple[Int64, Int64, Int64]
    section: Int64
    event: Int64
    """For each cell (piece of text), the index of its event in the batch (the events that are printed together)."""

    @property
    def statements(self) -> int:
        """The number of statements, whole or in part, to whose text these cells (pieces of text) belong."""
        return self.section.size // _SECTIONS

    def first(self, statement: int, section: int = 0) -> int:
        """Return the index of the first cell (piece of text) of a section of the statement with index ``statement``.
        ``section`` is 0 for the lines about events, 1 for the BINLOG statement, and 2 for the rows.
        """
        return int(self.section[statement * _SECTIONS + section])


class _Batch:
    """A batch of consecutive events of one file, whose text is made together."""

    def __init__(self, file: str, fd: FormatDescription, *, is_new: bool) -> None:
        self.file, self.fd = file, fd
        self.size = 0
        """The total size of this batch's events, bytes."""
        self._kept: list[KeptEvents] = []
        self.texts: list[bytes] = []
        """The printed text of each event from the name of its type on. Time, server id and end position come before it.
        """
        self.encoded: list[int] = []
        """The indexes, in this batch, of the events that BINLOG statements contain."""
        self.changed: dict[int, bytes] = {}
        """The bytes of events that BINLOG statements contain in a changed form, by the event's index."""
        self.closed: list[int] = []
        """For each finished statement, the number of the batch's events up to its end. Events between two statements
        belong to the second one.
        """
        self.is_new = is_new
        """Whether the batch (the events that are printed together) begins with a new statement, not inside one."""
        self.is_open = not is_new
        """Whether a statement has begun that is not finished."""
        self.drops_waiting = False
        """Whether the statement continued from the previous batch cannot run, so that its buffered BINLOG section
        must be discarded.
        """

    def take(self, kept: KeptEvents) -> None:
        """Append the events ``kept`` (their bytes and offsets) to this batch, the events that are printed together.
        Afterwards the caller must append one text for each of these events, in the same order, to the list ``texts``.
        """
        self._kept.append(kept)
        self.size += kept.data.size

    def close(self) -> None:
        """Record that the current statement ends with the last event in ``texts``, so that its BINLOG statement and
        rows can be printed. Do nothing if no Table_map or rows event has begun a statement.
        """
        if self.is_open:
            self.closed.append(len(self.texts))
            self.is_open = False

    def leave_out(self) -> None:
        """Remove the Table_map events of the current statement from its BINLOG statement, because the target (the
        server that runs the printed text) cannot run the statement.
        """
        first = self.closed[-1] if self.closed else 0
        self.encoded = [event for event in self.encoded if event < first]
        self.drops_waiting = self.drops_waiting or not self.closed

    def cut(self, count: int) -> None:
        """Remove all events of this batch but the first ``count``, because the next event is malformed."""
        del self.texts[count:]
        self.closed = [end for end in self.closed if end <= count]
        self.encoded = [event for event in self.encoded if event < count]
        self.changed = {event: raw for event, raw in self.changed.items() if event < count}

    def offsets(self) -> Int64:
        """Return an int64 array with the byte offset of each event of the batch in its binlog file."""
        return np.concatenate([kept.offset for kept in self._kept])[: len(self.texts)]

    def events(self) -> tuple[Bytes, Int64, Int64]:
        """Return three arrays: the bytes of all events one after another, and each event's offset and size in these
        bytes.
        """
        behind = np.cumsum([0, *(kept.data.size for kept in self._kept)]).tolist()
        count = len(self.texts)
        data = np.concatenate([kept.data for kept in self._kept])
        start = np.concatenate([kept.start + at for kept, at in zip(self._kept, behind, strict=False)])
        return data, start[:count], np.concatenate([kept.size for kept in self._kept])[:count]

    def statements(self) -> Int64:
        """Return an int64 array with one entry for each event of the batch: the index of the SQL statement to which the
        event belongs. The batch's first statement has the index 0.
        """
        ends = np.array(self.closed, np.int64)
        return np.searchsorted(ends, np.arange(len(self.texts)), "right").astype(np.int64)

    def columns(self) -> Int64:
        """Return an int64 array with a style number for each event in ``encoded``, the events that BINLOG statements
        contain in base64. A style tells how bytes become text. An event's style depends on whether the event begins or
        ends a BINLOG statement.
        """
        of = self.statements()[self.encoded]
        is_whole = (of < len(self.closed)) & ((of > 0) | self.is_new)
        begins, ends = np.diff(of, prepend=-1) != 0, np.diff(of, append=-1) != 0
        column: Int64 = _BASE64 + is_whole * (begins + 2 * ends)
        return column


def _arranged(statement: Int64, sections: list[tuple[Int64, Int64, Int64, Int64]]) -> _Cells:
    """Return the cells (pieces of text) of all events in the order in which they are printed: by statement, and in a
    statement by section.

    ``statement`` has the index of each event's statement. ``sections`` has an entry for each kind of section: the lines
    about events, the BINLOG statements, and perhaps the rows. An entry has four arrays: the start, length and style
    number of each cell, and then the number of cells of each event. A style tells how a cell's bytes become text.
    """
    each = np.arange(statement.size)
    event = np.concatenate([np.repeat(each, count) for *_, count in sections])
    keys = np.concatenate(
        [np.repeat(statement * _SECTIONS + number, count) for number, (*_, count) in enumerate(sections)]
    )
    order = np.argsort(keys, kind="stable")
    start, length, column = (np.concatenate(cells)[order] for cells in list(zip(*sections, strict=True))[:3])
    section = np.searchsorted(keys[order], np.arange((int(statement[-1]) + 1) * _SECTIONS + 1))
    return _Cells((start, length, column), section, event[order])
