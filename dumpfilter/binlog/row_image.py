"""Where every row image of a rows event starts and ends.

A row image is a null bitmap over the columns *present* and the values of those that are not NULL, one after
the other; how long a value is follows from the column's type and metadata (``calc_field_size`` in
``libs/mysql/binlog/event/binary_log_funcs.cpp``, ``Table_map_event``'s metadata as ``read_field_metadata``
in ``sql/rpl_utility.cc`` reads it; MariaDB's ``sql/rpl_utility.cc``). On the wire there are only two kinds
of value: so many bytes, or a length of 1 to 4 bytes and that many bytes. That is all a :class:`ColumnPlan`
keeps.

Known limit, which it shares with ``mariadb-binlog``: MariaDB's old temporal types *with* fractions of a
second (``mysql56_temporal_format=OFF``) do not tell their precision in the binlog. Without fractions they are
fine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _row_kernels as K
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.rows import RowsHeader, TableMap, is_pre_ga
from dumpfilter.errors import BinlogCorrupt, BinlogUnsupported

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

# enum_field_types (include/field_types.h); 140 and 141 are MariaDB's.
DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = range(10)
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2, TYPED_ARRAY = range(10, 21)
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, INVALID, BOOL, JSON, NEWDECIMAL, ENUM, SET = range(242, 249)
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = range(249, 256)

_FIXED = {
    TINY: 1,
    YEAR: 1,
    SHORT: 2,
    INT24: 3,
    LONG: 4,
    LONGLONG: 8,
    NULL: 0,
    DATE: 3,
    NEWDATE: 3,
    TIME: 3,
    TIMESTAMP: 4,
    DATETIME: 8,
}
_TEMPORAL2 = {TIME2: 3, TIMESTAMP2: 4, DATETIME2: 5}  # bytes without the fraction
_BLOBS = frozenset({TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR})
_VARCHARS = frozenset({VARCHAR, VARCHAR_COMPRESSED})
_STRINGS = frozenset({STRING, ENUM, SET})
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes of 0 to 9 decimal digits


def decimal_binary_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL(precision, scale) (``decimal_binary_size``): 4 for each 9 digits on either side.

    >>> decimal_binary_size(10, 2), decimal_binary_size(65, 30), decimal_binary_size(9, 9)
    (5, 30, 4)
    """
    whole = precision - scale
    return 4 * (whole // 9) + _DIGIT_BYTES[whole % 9] + 4 * (scale // 9) + _DIGIT_BYTES[scale % 9]


def _bad(column: int, kind: int, why: str) -> BinlogCorrupt:
    return BinlogCorrupt(f"Table_map event: column {column} of type {kind} {why}")


def _metadata_width(kind: int) -> int:
    """Bytes of metadata that a column of this type has in a table map."""
    if kind in _BLOBS or kind in _TEMPORAL2 or kind in (FLOAT, DOUBLE):
        return 1
    if kind in _VARCHARS or kind in _STRINGS or kind in (BIT, NEWDECIMAL):
        return 2
    return 0


def _value_size(column: int, kind: int, metadata: bytes) -> int:
    """The size of a value as a plan keeps it: ``n`` bytes, or ``-n`` for a length of n bytes before it."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    if kind in _BLOBS:
        if not 1 <= metadata[0] <= 4:
            raise _bad(column, kind, f"has a length of {metadata[0]} bytes")
        return -metadata[0]
    if kind in _VARCHARS:
        return -2 if int.from_bytes(metadata, "little") > 255 else -1
    if kind in (FLOAT, DOUBLE):
        if metadata[0] not in (4, 8):
            raise _bad(column, kind, f"has {metadata[0]} bytes")
        return metadata[0]
    if kind in _TEMPORAL2:
        if metadata[0] > 6:
            raise _bad(column, kind, f"has {metadata[0]} decimals")
        return _TEMPORAL2[kind] + (metadata[0] + 1) // 2
    if kind == NEWDECIMAL:
        precision, scale = metadata
        if not (0 < precision <= 65 and scale <= min(precision, 38)):
            raise _bad(column, kind, f"has precision {precision} and scale {scale}")
        return decimal_binary_size(precision, scale)
    if kind == BIT:
        bits, whole = metadata
        if bits > 7 or 8 * whole + bits > 64:
            raise _bad(column, kind, f"has {8 * whole + bits} bits")
        return whole + (bits > 0)
    if kind in _STRINGS:
        real, length = metadata
        if real in (ENUM, SET):
            if not 1 <= length <= 8:
                raise _bad(column, kind, f"has {length} bytes")
            return length
        # Bits 8 and 9 of a CHAR's length stand inverted in bits 4 and 5 of its real type.
        return -2 if ((real << 4 & 0x300) ^ 0x300) + length > 255 else -1
    raise _bad(column, kind, "is not one that servers write rows of")


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How long the values of a table's columns are.

    ``sizes``: int32, one for each column: ``n >= 0`` for values of n bytes, ``-n`` for values with a length
    of n bytes before them. ``json_columns``: how many columns are JSON, so have a bit in ``partial_bits``.
    Make one for each table map and keep it: it remembers what it worked out for the bitmaps it has met.
    """

    sizes: Int32
    json_columns: int
    _present: dict[bytes, Int32] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_table_map(cls, table: TableMap) -> ColumnPlan:
        """The plan of ``table``. Raises BinlogCorrupt when types and metadata do not fit together.

        >>> table = TableMap(1, 0, "d", "t", bytes([LONG, VARCHAR]), b"\\xc8\\0", b"")
        >>> ColumnPlan.from_table_map(table).sizes
        array([ 4, -1], dtype=int32)
        """
        metadata, at = table.metadata, 0
        sizes = np.empty(len(table.column_types), dtype=np.int32)
        for column, kind in enumerate(table.column_types):
            if kind == TYPED_ARRAY:
                # The element's type and its metadata (a VARCHAR's in 3 bytes); values are stored as JSON is.
                if at >= len(metadata):
                    raise _bad(column, kind, "has no metadata")
                element = metadata[at]
                at += 1 + (3 if element == VARCHAR else _metadata_width(element))
                sizes[column] = -4
            else:
                width = _metadata_width(kind)
                if at + width > len(metadata):
                    raise _bad(column, kind, "has no metadata")
                sizes[column] = _value_size(column, kind, metadata[at : at + width])
                at += width
        if at != len(metadata):
            raise BinlogCorrupt(f"Table_map event: {len(metadata)} bytes of metadata, {at} used")
        return cls(sizes, table.column_types.count(JSON))

    def present(self, bitmap: bytes) -> Int32:
        """The sizes of the columns whose bit is set in ``bitmap``, in the table's order (int32)."""
        sizes = self._present.get(bitmap)
        if sizes is None:
            if len(bitmap) != (self.sizes.size + 7) // 8:
                raise BinlogCorrupt(f"rows event: bitmap of {len(bitmap)} bytes, {self.sizes.size} columns")
            bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=self.sizes.size, bitorder="little")
            sizes = self.sizes[bits.astype(np.bool_)]
            if len(self._present) >= 64:  # minimal images make many bitmaps; a few of them make most events
                self._present.clear()
            self._present[bitmap] = sizes
        return sizes


@dataclass(frozen=True, slots=True)
class RowImages:
    """The row images of one rows event: int64 offsets into its rows data, one entry for each row.

    An image is its null bitmap and values. Inserts have no before-images and deletes no after-images: their
    arrays are empty. The after-image of a partial update starts with its value_options. The images
    follow one another without gaps and fill the data.
    """

    before_start: Int64
    before_end: Int64
    after_start: Int64
    after_end: Int64

    def __len__(self) -> int:
        """Number of rows."""
        return max(self.before_start.size, self.after_start.size)


_NONE: Int64 = np.empty(0, dtype=np.int64)
_NO_SIZES: Int32 = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class _Walk:
    """What a walk needs to know of an event: the present columns' sizes, and -1 or partial_bits' bytes."""

    before: Int32 | None
    after: Int32 | None
    partial_bytes: int


def _prepare(plan: ColumnPlan, rows: RowsHeader) -> _Walk:
    if is_pre_ga(rows.type):
        # Their null bits are those of the table's record, whose layout the binlog does not tell.
        raise BinlogUnsupported("rows events of servers before 5.1.18 cannot be taken apart")
    if rows.column_count != plan.sizes.size:
        raise BinlogCorrupt(f"rows event of {rows.column_count} columns, Table_map of {plan.sizes.size}")
    image = plan.present(rows.columns_before)
    partial = (plan.json_columns + 7) // 8 if rows.type == EventType.PARTIAL_UPDATE_ROWS else -1
    if rows.kind == "insert":
        return _Walk(None, image, -1)
    if rows.kind == "delete":
        return _Walk(image, None, -1)
    return _Walk(image, plan.present(rows.columns_after or b""), partial)


_PROBLEMS = {
    K.CUT: "the rows data end inside a row",
    K.EMPTY_ROW: "rows data for rows without columns",
    K.BAD_VALUE_OPTIONS: "unknown value_options",
}


def _fail(code: int, at: int, row: int) -> BinlogCorrupt:
    return BinlogCorrupt(f"rows event: {_PROBLEMS[code]} (row {row}, byte {at} of the rows)")


def _images(out: Int64, has_before: bool, has_after: bool) -> RowImages:
    before = (out[:, 0], out[:, 1]) if has_before else (_NONE, _NONE)
    after = (out[:, 2], out[:, 3]) if has_after else (_NONE, _NONE)
    return RowImages(*before, *after)


def row_images(
    table: TableMap | ColumnPlan, rows: RowsHeader, data: bytes | bytearray | memoryview
) -> RowImages:
    """Where the row images are in ``data``, the rows data of the event (opened, if it was compressed).

    ``table``: the table map the event refers to, or better its plan, made once. Offsets count from the start
    of ``data``. Raises BinlogCorrupt when the data do not consist of whole rows and BinlogUnsupported for
    the pre-GA rows events of 5.1.
    """
    if rows.is_dummy:
        return RowImages(_NONE, _NONE, _NONE, _NONE)
    plan = table if isinstance(table, ColumnPlan) else ColumnPlan.from_table_map(table)
    walk = _prepare(plan, rows)
    view = np.frombuffer(data, dtype=np.uint8)
    view.flags.writeable = False  # one compiled version serves all kinds of buffers
    before = walk.before if walk.before is not None else _NO_SIZES
    after = walk.after if walk.after is not None else _NO_SIZES
    # Room for rows of a middling size; no row takes less than its null bitmaps.
    likely = 1 + sum(int(np.abs(sizes).sum()) // 2 + 1 for sizes in (before, after))
    out: Int64 = np.empty((view.size // likely + 8, 4), dtype=np.int64)
    at = count = 0
    while True:
        code, at, count = K.walk(
            view,
            at,
            before,
            after,
            walk.before is not None,
            walk.after is not None,
            walk.partial_bytes,
            out,
            count,
        )
        if code == K.DONE:
            return _images(out[:count], walk.before is not None, walk.after is not None)
        if code != K.FULL:
            raise _fail(code, at, count)
        out = np.concatenate((out, np.empty_like(out)))


def row_images_reference(
    table: TableMap | ColumnPlan, rows: RowsHeader, data: bytes | bytearray | memoryview
) -> RowImages:
    """:func:`row_images` in plain Python, slow and easy to check: same results, same errors."""
    if rows.is_dummy:
        return RowImages(_NONE, _NONE, _NONE, _NONE)
    plan = table if isinstance(table, ColumnPlan) else ColumnPlan.from_table_map(table)
    walk = _prepare(plan, rows)
    raw = bytes(data)

    def skip(at: int, sizes: Int32) -> int | None:
        nulls = int.from_bytes(raw[at : at + (sizes.size + 7) // 8], "little")
        at += (sizes.size + 7) // 8
        if at > len(raw):
            return None
        for k, size in enumerate(sizes.tolist()):
            if nulls >> k & 1:
                continue
            if size < 0:
                if at - size > len(raw):
                    return None
                size = int.from_bytes(raw[at : at - size], "little") - size
            at += size
            if at > len(raw):
                return None
        return at

    found: list[tuple[int, int, int, int]] = []
    at = 0
    while at < len(raw):
        here: int | None = at
        before = after = (-1, -1)
        if walk.before is not None:
            here = skip(at, walk.before)
            if here is None:
                raise _fail(K.CUT, at, len(found))
            before = (at, here)
        if walk.after is not None:
            assert here is not None
            start = here
            if walk.partial_bytes >= 0:
                if here >= len(raw):
                    raise _fail(K.CUT, at, len(found))
                if raw[here] > K.PARTIAL_JSON_UPDATES:
                    raise _fail(K.BAD_VALUE_OPTIONS, at, len(found))
                here += 1 + (walk.partial_bytes if raw[here] else 0)
            here = skip(here, walk.after)
            if here is None:
                raise _fail(K.CUT, at, len(found))
            after = (start, here)
        assert here is not None
        if here == at:
            raise _fail(K.EMPTY_ROW, at, len(found))
        found.append((*before, *after))
        at = here
    out = np.array(found, dtype=np.int64).reshape(-1, 4)
    return _images(out, walk.before is not None, walk.after is not None)
