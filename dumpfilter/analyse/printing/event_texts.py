"""The text of sequences of events: Table_map and rows events, and the BEGIN, COMMIT and similar events around them.

The text of many consecutive events is written as one batch, by one compiled function. As in ``mysqlbinlog``, the text
of a statement has three sections: lines about its events, a BINLOG statement with its events, and its rows as
comments. If a batch ends inside a statement, the last two sections are buffered until the statement's end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.printing.literals import quoted_name
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
from dumpfilter.binlog.reader import Event
from dumpfilter.binlog.row_walk import FoundRows, RowsError, find_rows
from dumpfilter.binlog.rows.events import RowsEventsFinder
from dumpfilter.binlog.rows.texts import CellError, CellTexts, Form, Style
from dumpfilter.binlog.rows_events import (
    ROWS_HEADER_LENGTH_V0,
    TableMap,
    decode_rows_header,
    decode_table_map,
    encode_table_map,
    is_pre_ga,
)
from dumpfilter.binlog.writer import with_body
from dumpfilter.dump.set_pass import KeptEvents

T = EventType
Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]

DELIMITER = b"/*!*/;"
"""The delimiter after each printed statement, as set by a DELIMITER command. It is an SQL comment, which does no
harm in a client that does not know DELIMITER.
"""

TYPE_AT = 4
"""The byte offset of the type code in an event's header."""
_PIECE = 1 << 20
"""The size of the pieces in which text is written, bytes."""
_SPOOLED = 16 << 20
"""The size up to which the buffered sections of an unfinished statement stay in memory, bytes. Larger ones go to a
temporary file.
"""
_MOST_TEXT = 1 << 18
"""The size of the cached texts at which the cache is cleared, bytes."""

_IN_STATEMENT = frozenset({T.TABLE_MAP, T.ROWS_QUERY, T.ANNOTATE_ROWS, *ROWS})
"""The event types that may precede the end of a statement logged as rows."""
IS_ROWS: npt.NDArray[np.bool_] = np.isin(np.arange(256), [*ROWS])
_CLOSES: npt.NDArray[np.bool_] = ~np.isin(np.arange(256), [*_IN_STATEMENT])
_IS_PRE_GA: npt.NDArray[np.bool_] = np.array([is_pre_ga(kind) for kind in range(256)])
_COMPRESSED = frozenset(kind for kind in ROWS if kind.kind.compressed)
_FROM_PRE_GA = b"### rows of a server before MySQL 5.1.18, which cannot be told apart\n"

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
"""The styles of the cell columns that precede those of rows. Base64 cells have four styles, with and without the
text that begins or ends a BINLOG statement.
"""
_HEAD_CELLS, _TAIL_CELLS = 4, 9
_HEAD, _ENCODED, _ROWS = range(3)
_SECTIONS = 3
"""The number of sections in a statement's text: lines about the events, BINLOG statement, and rows."""


class Shape(NamedTuple):
    """A template for the text of an event after its time, server id and end position. Its variable parts are numbers in
    the event's bytes.

    One number stands between each two consecutive ``texts``. ``places`` has the byte offset in the event and the length
    of each number.
    """

    texts: Sequence[bytes]
    places: Sequence[tuple[int, int]] = ()


def shape(
    kind: int, text: str | bytes = b"", after: bytes = b"", places: Sequence[tuple[int, int]] = ()
) -> Shape:
    """Return a template for the text of an event of the type ``kind``, after the event's time, server id and end
    position.

    ``text`` is the rest of the event's first line, and ``after`` are the further lines. In both, each zero byte is a
    placeholder for a number that is read from the event. ``places`` has the byte offset in the event and the length of
    each number, in the order of the placeholders.
    """
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if not places:
        raw = raw.replace(b"\0", b" ")
    # A line end in the text would end the comment, and the client would run the rest as a statement.
    raw = raw.replace(b"\r", b" ").replace(b"\n", b" ")
    line = b" \t" + event_name(kind).encode() + (b"\t" + raw if raw else b"") + b"\n" + after
    return Shape(line.split(b"\0") if places else [line], places)


class Place(NamedTuple):
    """One event in a buffer of several events. In the buffer ``raw`` it begins at ``at`` and ends at ``end``, and
    its checksum begins at ``body_end``.
    """

    kind: int
    raw: bytes
    at: int
    body_end: int
    end: int
    offset: int
    """The event's byte offset in its file."""

    def event(self, fd: FormatDescription) -> Event:
        """Return the event as an :class:`Event`. ``fd`` is the format description event of its file."""
        return Event(self.offset, EventHeader.unpack(self.raw, self.at), self.raw[self.at : self.end], fd)


TextOf = Callable[[Place], bytes | tuple[object, Callable[[], Shape]]]
"""A function that returns the text of an event after its header.

It may instead return a cache key and a function that makes the event's :class:`Shape` (text template).
"""


class _Table(NamedTuple):
    """The table of a Table_map event, with the database's name on the target."""

    map: TableMap
    is_renamed: bool
    shape: int


class EventTexts:
    """A printer of events that collects a batch of events and then makes their text at once.

    A client can run the text on another server, the target.

    Parameters:
        write: receives the text.
        verbosity: how much of the rows is printed as comments: 0 nothing, 1 the rows, 2 the rows with column types.
        row_events: whether BINLOG statements, which carry the row events, are printed.
        as_they_are: whether BINLOG statements contain the events' original bytes. False: checksums may be wrong, and
            are computed again.
        rewrite_db: returns a database's name on the target.
        refusal: returns a comment on why the rows of a table cannot run on the target, or an empty text if they can.
            Its arguments are database and table as named on the target.
        before_rows: returns the text between the line about a rows event and the BINLOG statement.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        verbosity: int,
        row_events: bool,
        as_they_are: bool,
        rewrite_db: Callable[[str], str],
        refusal: Callable[[str, str], bytes],
        before_rows: Callable[[], bytes],
    ) -> None:
        self._write = write
        self._rows_shown = verbosity > 0
        self._row_events = row_events
        self._rewrite_db = rewrite_db
        self._refusal = refusal
        self._before_rows = before_rows
        self._finder = RowsEventsFinder(partial(row_layouts, verbosity, rewrite_db, _STYLES))
        self._batch: _Batch | None = None
        self._format: tuple[Family, bytes] | None = None
        self._forget()
        self.checksum = False
        """Whether the events in BINLOG statements have checksums, as the printed format description event declares."""
        self._as_they_are = as_they_are
        self.refused = 0
        """The number of rows events printed as comments because the target lacks their table."""
        self._reason = b""
        """The comment on why the rows of the current statement cannot run. Empty if they can."""
        self._waiting: dict[int, SpooledTemporaryFile[bytes]] = {}
        """The buffered sections of an unfinished statement, by section number."""

    def add(self, kept: KeptEvents, text_of: TextOf) -> None:
        """Add the consecutive events ``kept`` to the batch of events that are printed together. A full batch is printed
        at once.

        ``text_of`` returns the text of an event. Raises BinlogError with file and position for a malformed event, after
        printing the events before it.
        """
        batch = self._batch
        if batch is None or batch.fd is not kept.fd or batch.file != kept.file or batch.size > _PIECE:
            self.print()
            form = kept.fd.family, kept.fd.post_header_lengths
            if self._format != form or len(self._texts.raw) > _MOST_TEXT:
                self._forget()
                self._format = form
            batch = self._batch = _Batch(kept.file, kept.fd, is_new=not self._waiting)
        raw = kept.data.tobytes()
        batch.take(kept)
        columns = kept.data[kept.start + TYPE_AT], kept.start, kept.size, kept.offset
        checksum = kept.fd.checksum_length
        for kind, at, size, offset in zip(*(column.tolist() for column in columns), strict=True):
            try:
                self._add(batch, Place(kind, raw, at, at + size - checksum, at + size, offset), text_of)
            except BinlogError as error:
                self.print()
                raise error.located(kept.file, offset) from error

    def _add(self, batch: _Batch, place: Place, text_of: TextOf) -> None:
        kind, raw, at, body_end, end, _ = place
        body = at + HEADER_LENGTH
        id_end = body + batch.id_length
        k = len(batch.shape)
        if kind == T.TABLE_MAP:
            content = raw[id_end:body_end]
            table = self._tables.get(content) or self._table(batch, content, raw[body:body_end])
            if not self._reason:
                self._reason = self._refusal(table.map.database, table.map.table)
                if self._reason:
                    # A server opens all tables that a statement maps before it runs the statement's first rows.
                    batch.leave_out()
            if not self._reason and self._row_events:
                self._encode(batch, k, kind, table, raw[at:end])
            batch.shape.append(table.shape)
        elif kind in ROWS:
            ends = raw[id_end] & STMT_END_F if id_end < body_end else 0
            rows_key = kind, ends, self._reason
            number = self._shapes.get(rows_key)
            if number is None:
                decode_rows_header(kind, raw[body:body_end], batch.fd.post_header_length(kind) or None)
                text = b"table id \0" + (b" flags: STMT_END_F" if ends else b"")
                one = shape(kind, text, self._reason, [(HEADER_LENGTH, batch.id_length)])
                number = self._shapes[rows_key] = self._texts.add(one)
            if self._reason:
                self.refused += 1
            else:
                before = self._before_rows()
                if before:
                    batch.behind[k] = before
                if self._row_events:
                    self._encode(batch, k, kind, None, raw[at:end])
            batch.shape.append(number)
            if ends:
                self._reason = b""
                batch.close()
        else:
            if kind not in _IN_STATEMENT:
                self._reason = b""
                batch.close()
            known = text_of(place)
            if isinstance(known, bytes):
                number, batch.behind[k] = self._no_shape, known
            else:
                key, made = known
                number = self._shapes.get(key)
                if number is None:
                    number = self._shapes[key] = self._texts.add(made())
            batch.shape.append(number)

    def _forget(self) -> None:
        self._shapes: dict[object, int] = {}
        self._tables: dict[bytes, _Table] = {}
        self._texts = _Texts()
        self._no_shape = self._texts.add(Shape([b""]))

    def _table(self, batch: _Batch, content: bytes, body: bytes) -> _Table:
        table = decode_table_map(body, batch.fd.post_header_length(T.TABLE_MAP))
        name = quoted_name(table.database) + b"." + quoted_name(table.table)
        text = name.replace(b"\0", b" ") + b" mapped to number \0"
        number = self._texts.add(shape(T.TABLE_MAP, text, places=[(HEADER_LENGTH, batch.id_length)]))
        database = self._rewrite_db(table.database)
        found = _Table(replace(table, database=database), database != table.database, number)
        self._tables[content] = found
        return found

    def _encode(self, batch: _Batch, k: int, kind: int, table: _Table | None, raw: bytes) -> None:
        """Add an event to the BINLOG statement, uncompressed and with the database's name on the target."""
        fd = batch.fd
        is_changed = kind in _COMPRESSED if table is None else table.is_renamed
        if is_changed or fd.checksum != self.checksum or not self._as_they_are:
            header, body = EventHeader.unpack(raw), raw[HEADER_LENGTH : len(raw) - fd.checksum_length]
            length = fd.post_header_length(kind)
            if is_changed and table is not None:
                one = replace(decode_table_map(body, length), database=table.map.database)
                body = encode_table_map(one, length)
            elif is_changed:
                rows = decode_rows_header(kind, body, length or None)
                body = body[: rows.rows_offset] + bytes(rows_data(rows, body))
                header = header._replace(type=T(kind).opened)
            batch.changed[k] = with_body(header, body, checksum=self.checksum)
        batch.encoded.append(k)

    def print(self) -> None:
        """Print the events that :meth:`add` has collected so far. Raises BinlogError for a malformed event, after
        printing the events before it.
        """
        batch, self._batch = self._batch, None
        if batch is None or not batch.shape:
            return
        wrong: BinlogError | None = None
        maps = self._finder.maps_in_force
        while True:
            try:
                cells, data = self._cells(batch)
                try:
                    pieces = CellTexts(data, *cells.places, self._finder.layouts.styled())
                except CellError as error:
                    raise _EventError(cells.event_of(error.cell), error.error) from error
                break
            except _EventError as error:
                self._finder.restore_maps(maps)
                wrong = error.error.located(batch.file, int(batch.offsets()[error.event]))
                batch.cut(error.event)
                if not batch.shape:
                    raise wrong from error
        self._write_cells(batch, cells, pieces)
        if wrong is not None:
            raise wrong

    def finish(self) -> None:
        """Print all collected events, and also the buffered rows of a last statement whose final event is missing."""
        self.print()
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
                self._write(before)
                while piece := waiting.read(_PIECE):
                    self._write(piece)
                self._write(after)

    def _write_cells(self, batch: _Batch, cells: _Cells, pieces: CellTexts) -> None:
        count = cells.groups
        first, end = 0, min(len(batch.closed), count)
        if batch.drops_waiting and (waiting := self._waiting.pop(_ENCODED, None)):
            waiting.close()
        if self._waiting:
            self._wait(pieces, cells, 0)
            first = 1
            if end:
                self._release()
        if first < end:
            for piece in pieces.pieces(cells.first(first), cells.first(end), _PIECE):
                self._write(piece)
        if max(first, end) < count:
            self._wait(pieces, cells, count - 1)

    def _wait(self, pieces: CellTexts, cells: _Cells, group: int) -> None:
        for section in range(_SECTIONS):
            for piece in pieces.pieces(cells.first(group, section), cells.first(group, section + 1), _PIECE):
                if section == _HEAD:
                    self._write(piece)
                    continue
                if section not in self._waiting:
                    self._waiting[section] = SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 (closed later)
                self._waiting[section].write(piece)

    def _cells(self, batch: _Batch) -> tuple[_Cells, Bytes]:
        """Return the cells (pieces) of a batch's text, and the bytes to which the cells' offsets refer."""
        data, start, size = batch.events()
        offset = batch.offsets()
        kind = data[start + TYPE_AT]
        count = start.size
        row_count = np.zeros(count, np.int64)
        rows = None
        events = data
        if self._rows_shown:
            data, rows, row_count = self._rows(batch, data, start, size, kind, offset)
        own = [*batch.changed.values(), *batch.behind.values(), _FROM_PRE_GA]
        own_at = data.size + np.cumsum([0, *map(len, own)])
        head, head_count = self._heads(batch, events, start, size, own_at)
        texts = np.frombuffer(bytes(self._texts.raw), np.uint8)
        encoded = np.array(batch.encoded, np.int64)
        at, length = start[encoded], size[encoded]
        where = np.searchsorted(encoded, np.array([*batch.changed], np.int64))
        changes = len(batch.changed)
        at[where], length[where] = own_at[:changes], np.diff(own_at[: changes + 1])
        sections = [
            (*head, head_count),
            (at, length, batch.columns(), np.bincount(encoded, minlength=count)),
        ]
        if rows is not None:
            pre_ga = np.flatnonzero(_IS_PRE_GA[kind] & IS_ROWS[kind])
            before = row_count.cumsum()[pre_ga]
            row_count[pre_ga] = 1
            lines = own_at[-2], len(_FROM_PRE_GA), _COPY
            at, length, column = (
                np.insert(one, before, value) if pre_ga.size else one
                for one, value in zip((rows.start, rows.length, rows.column), lines, strict=True)
            )
            sections.append((at, length, column, row_count))
        own_data = np.frombuffer(b"".join(own), np.uint8)
        data = np.concatenate((data, own_data, offset.astype("<i8").view(np.uint8), texts))
        return _arranged(batch.groups(), sections), data

    def _rows(
        self, batch: _Batch, data: Bytes, start: Int64, size: Int64, kind: Bytes, offset: Int64
    ) -> tuple[Bytes, FoundRows, Int64]:
        """Return three values: ``data`` with decompressed rows appended, the cells of the rows' text, and the number
        of cells of each event.
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
                wanted=~_IS_PRE_GA[kind],
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
        return found.data, rows, count

    def _heads(
        self, batch: _Batch, data: Bytes, start: Int64, size: Int64, own_at: Int64
    ) -> tuple[tuple[Int64, Int64, Int64], Int64]:
        """Return the cells of the lines about the events, and the number of cells of each event.

        In the bytes to which cells refer, the events' file offsets begin at the last entry of ``own_at``, and the
        template texts follow.
        """
        count = start.size
        offsets_at = int(own_at[-1])
        texts_at = offsets_at + 8 * count
        # A number for each pair of timestamp and server id.
        when = data[start[:, None] + np.array([5, 6, 7, 8, 0, 1, 2, 3])].view("<u8").ravel()
        moments, which = np.unique(when, return_inverse=True)
        line = "%y%m%d %k:%M:%S server id {}  end_log_pos "
        places = [
            self._texts.place(
                time.strftime(line.format(moment & 0xFFFFFFFF), time.localtime(moment >> 32)).encode()
            )
            for moment in moments.tolist()
        ]
        when_at = np.array(places, np.int64)[which]
        shapes = self._texts.shapes()[np.array(batch.shape)].reshape(count, _TAIL_CELLS, 2)
        width = _HEAD_CELLS + _TAIL_CELLS + 1
        at, length = np.empty((count, width), np.int64), np.zeros((count, width), np.int64)
        column = np.full((count, width), _COPY)
        at[:, 0], length[:, 0], column[:, 0] = offsets_at + 8 * np.arange(count), 8, _OFFSET
        at[:, 1], length[:, 1] = when_at[:, 0] + texts_at, when_at[:, 1]
        at[:, 2], length[:, 2] = start + 13, 4
        is_format = data[start + TYPE_AT] == T.FORMAT_DESCRIPTION
        has_checksum = np.where(is_format, batch.fd.ends_in_checksum, batch.fd.checksum)
        column[:, 2] = np.where(has_checksum, _BEFORE_CHECKSUM, _NUMBER)
        at[:, 3], length[:, 3], column[:, 3] = start + size - 4, 4 * has_checksum, _CHECKSUM
        at[:, _HEAD_CELLS:-1], length[:, _HEAD_CELLS:-1] = shapes[:, :, 0], shapes[:, :, 1]
        at[:, _HEAD_CELLS:-1:2] += texts_at
        at[:, _HEAD_CELLS + 1 : -1 : 2] += start[:, None]
        column[:, _HEAD_CELLS + 1 : -1 : 2] = _NUMBER
        behind, changes = [*batch.behind], len(batch.changed)
        at[behind, -1] = own_at[changes : changes + len(behind)]
        length[behind, -1] = [*map(len, batch.behind.values())]
        there = length > 0
        return (at[there], length[there], column[there]), there.sum(axis=1)


class _Texts:
    """A pool of distinct texts in one byte array."""

    def __init__(self) -> None:
        self.raw = bytearray()
        self._places: dict[bytes, tuple[int, int]] = {}
        self._shapes: list[list[int]] = []
        self._arrays: Int64 = np.empty((0, 0), np.int64)

    def place(self, text: bytes) -> tuple[int, int]:
        """Return offset and length of ``text`` in the pool, which stores it if it is new."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.raw), len(text)
            self.raw += text
        return place

    def add(self, one: Shape) -> int:
        """Store a text template, and return its number."""
        cells = [*self.place(one.texts[0])]
        for text, place in zip(one.texts[1:], one.places, strict=True):
            cells += (*place, *self.place(text))
        self._shapes.append(cells + [0] * (2 * _TAIL_CELLS - len(cells)))
        return len(self._shapes) - 1

    def shapes(self) -> Int64:
        """Return the cells of all text templates, one row each. Texts and numbers alternate, each with offset and
        length, or zeros for none.
        """
        if len(self._arrays) < len(self._shapes):
            self._arrays = np.array(self._shapes, np.int64)
        return self._arrays


class _EventError(Exception):
    """An error about the event at index ``event`` of a batch."""

    def __init__(self, event: int, error: BinlogError) -> None:
        self.event, self.error = event, error
        super().__init__(str(error))


class _Cells(NamedTuple):
    """The cells of a batch in text order, with the index of each section's first cell."""

    places: tuple[Int64, Int64, Int64]
    section: Int64
    unit: Int64
    """The index of the first cell of each event's part of a section. ``event`` has the event of each part."""
    event: Int64

    @property
    def groups(self) -> int:
        """The number of statements in the batch."""
        return self.section.size // _SECTIONS

    def first(self, group: int, section: int = 0) -> int:
        """Return the index of the first cell of ``section`` in the statement with index ``group``."""
        return int(self.section[group * _SECTIONS + section])

    def event_of(self, cell: int) -> int:
        """Return the index of the event that the cell with index ``cell`` belongs to."""
        return int(self.event[np.searchsorted(self.unit, cell, "right") - 1])


class _Batch:
    """Events whose text is made together, with the text template of each."""

    def __init__(self, file: str, fd: FormatDescription, *, is_new: bool) -> None:
        self.file, self.fd = file, fd
        self.id_length = 4 if fd.post_header_length(T.TABLE_MAP) == ROWS_HEADER_LENGTH_V0 else 6
        self.size = 0
        """The total size of the events, bytes."""
        self._kept: list[KeptEvents] = []
        self.shape: list[int] = []
        self.behind: dict[int, bytes] = {}
        """The texts printed after an event's template, by the event's index."""
        self.encoded: list[int] = []
        """The indexes of the events in BINLOG statements."""
        self.changed: dict[int, bytes] = {}
        """The bytes of events that BINLOG statements contain in a changed form, by the event's index."""
        self.closed: list[int] = []
        """For each finished statement, the number of the batch's events up to its end."""
        self._open = 0
        """The number of entries of :attr:`encoded` that belong to earlier statements."""
        self._is_new = is_new
        """Whether the batch begins with a new statement."""
        self.drops_waiting = False
        """Whether the statement continued from the previous batch cannot run, so that its buffered BINLOG section
        must be discarded.
        """

    def take(self, kept: KeptEvents) -> None:
        """Add the bytes and offsets of events. The caller must add each event's template number to ``shape``."""
        self._kept.append(kept)
        self.size += kept.data.size

    def close(self) -> None:
        """Mark the end of a statement after the last event."""
        here = len(self.shape)
        if here > (self.closed[-1] if self.closed else 0) or (not self.closed and not self._is_new):
            self.closed.append(here)
        self._open = len(self.encoded)

    def leave_out(self) -> None:
        """Remove the Table_map events of the current statement from its BINLOG statement."""
        del self.encoded[self._open :]
        self.drops_waiting = self.drops_waiting or not self.closed

    def cut(self, count: int) -> None:
        """Discard all events after the first ``count``."""
        del self.shape[count:]
        self.encoded = [k for k in self.encoded if k < count]
        self.closed = [end for end in self.closed if end <= count]
        for some in (self.behind, self.changed):
            for k in [k for k in some if k >= count]:
                del some[k]

    def offsets(self) -> Int64:
        """Return the byte offset of each event in its file."""
        return np.concatenate([kept.offset for kept in self._kept])[: len(self.shape)]

    def events(self) -> tuple[Bytes, Int64, Int64]:
        """Return three arrays: the bytes of all events, and each event's offset and size in them."""
        behind = np.cumsum([0, *(kept.data.size for kept in self._kept)]).tolist()
        count = len(self.shape)
        data = (
            self._kept[0].data if len(self._kept) == 1 else np.concatenate([kept.data for kept in self._kept])
        )
        start = np.concatenate([kept.start + at for kept, at in zip(self._kept, behind, strict=False)])
        return data, start[:count], np.concatenate([kept.size for kept in self._kept])[:count]

    def groups(self) -> Int64:
        """Return for each event the index of its statement in the batch."""
        ends = np.array(self.closed, np.int64)
        return np.searchsorted(ends, np.arange(len(self.shape)), "right").astype(np.int64)

    def columns(self) -> Int64:
        """Return the style number of each event in base64. It depends on whether the event begins or ends a BINLOG
        statement.
        """
        of = self.groups()[self.encoded]
        is_whole = (of < len(self.closed)) & ((of > 0) | self._is_new)
        begins, ends = np.diff(of, prepend=-1) != 0, np.diff(of, append=-1) != 0
        column: Int64 = _BASE64 + is_whole * (begins + 2 * ends)
        return column


def _arranged(group: Int64, sections: list[tuple[Int64, Int64, Int64, Int64]]) -> _Cells:
    """Return the cells of all sections in text order. The last array of a section has the number of cells of each
    event.
    """
    groups = int(group[-1]) + 1
    keys = np.concatenate([group * _SECTIONS + section for section in range(len(sections))])
    counts = np.concatenate([section[3] for section in sections])
    order = np.argsort(keys, kind="stable")
    place = np.empty(counts.size, np.int64)
    place[order] = np.cumsum(counts[order]) - counts[order]
    total = int(counts.sum())
    start, length, column = (np.empty(total, np.int64) for _ in range(3))
    for number, (*cells, count) in enumerate(sections):
        own = place[number * group.size :][: group.size]
        target = np.arange(int(count.sum())) + np.repeat(own - (np.cumsum(count) - count), count)
        for whole, some in zip((start, length, column), cells, strict=True):
            whole[target] = some
    first = np.bincount(keys, counts, groups * _SECTIONS).astype(np.int64)
    section = np.concatenate(([0], np.cumsum(first)))
    return _Cells((start, length, column), section, place[order], order % group.size)
