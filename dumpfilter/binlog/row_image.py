"""The search for the row images in a rows event: the bytes of each row before and after the change.

A row image is a null bitmap over the columns that are *present*, and the values of those columns that are not NULL. A
value either has a fixed number of bytes, or begins with its length in 1 to 4 bytes. The column's type and metadata
tell which of these two forms the value has. A :class:`ColumnPlan` keeps this fact for each column.

Sources: ``calc_field_size`` in ``libs/mysql/binlog/event/binary_log_funcs.cpp``, ``read_field_metadata`` in
``sql/rpl_utility.cc``, MariaDB's ``sql/rpl_utility.cc``.

Known limit: the binlog does not tell the precision of MariaDB's old temporal types with fractions of a second
(``mysql56_temporal_format=OFF``). Row images with such values are split wrongly, as in ``mariadb-binlog``. The same
types without fractions are split correctly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _row_kernels as K
from dumpfilter.binlog.decimals import decimal_binary_size
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.rows import RowsHeader, TableMap, is_pre_ga
from dumpfilter.errors import BinlogCorrupt, BinlogUnsupported

PARTIAL_JSON_UPDATES = K.PARTIAL_JSON_UPDATES
"""The only known bit of value_options in the after-image of a partial update: the bitmap ``partial_bits`` follows."""

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

# The types of columns, with the names and numbers of enum_field_types (include/field_types.h). Only MariaDB has the
# types 140 and 141.
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
# The size of a value of each temporal type with fractions, without the fraction of a second, bytes.
_TEMPORAL2 = {TIME2: 3, TIMESTAMP2: 4, DATETIME2: 5}
_BLOBS = frozenset({TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR})
_VARCHARS = frozenset({VARCHAR, VARCHAR_COMPRESSED})
_STRINGS = frozenset({STRING, ENUM, SET})


def _bad(column: int, kind: int, why: str) -> BinlogCorrupt:
    return BinlogCorrupt(f"Table_map event: column {column} of type {kind} {why}")


def metadata_width(kind: int, following: bytes = b"") -> int:
    """Return the number of bytes that a type has in a table map's metadata.

    ``following`` is the first of these bytes, which matters for typed arrays only.
    """
    if kind == TYPED_ARRAY:
        # The metadata of a typed array (MYSQL_TYPE_TYPED_ARRAY) are the type of its elements and the metadata of that
        # type, which has 3 bytes for VARCHAR.
        element = following[0] if following else 0
        return 1 + (3 if element == VARCHAR else metadata_width(element) if element != TYPED_ARRAY else 0)
    if kind in _BLOBS or kind in _TEMPORAL2 or kind in (FLOAT, DOUBLE):
        return 1
    if kind in _VARCHARS or kind in _STRINGS or kind in (BIT, NEWDECIMAL):
        return 2
    return 0


def _value_size(column: int, kind: int, metadata: bytes) -> int:
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
        # The server stores bits 8 and 9 of a CHAR's length inverted in bits 4 and 5 of the real type.
        return -2 if ((real << 4 & 0x300) ^ 0x300) + length > 255 else -1
    raise _bad(column, kind, "cannot be in a rows event")


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The sizes of the values in a table's columns, with which the ends of its rows are found.

    A caller makes one plan for each table map and keeps the plan, because the plan caches its results by column
    bitmap.
    """

    sizes: Int32
    """The size of the values of each column, bytes (int32).

    The entry ``-n`` says that each value begins with its length in n bytes.
    """
    json_columns: int
    """The number of the table's JSON columns.

    In a partial update of JSON values, the bitmap ``partial_bits`` has one bit for each of these columns.
    """
    _present: dict[bytes, Int32] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_table_map(cls, table: TableMap) -> ColumnPlan:
        r"""Return the sizes of the columns that a table map describes.

        Raises BinlogCorrupt when the table map's column types and metadata do not fit together.

        >>> table = TableMap(1, 0, "d", "t", bytes([LONG, VARCHAR]), b"\xc8\0", b"")
        >>> ColumnPlan.from_table_map(table).sizes
        array([ 4, -1], dtype=int32)
        """
        metadata, at = table.metadata, 0
        sizes = np.empty(len(table.column_types), dtype=np.int32)
        for column, kind in enumerate(table.column_types):
            if kind == TYPED_ARRAY:
                if at >= len(metadata):
                    raise _bad(column, kind, "has no metadata")
                at += metadata_width(kind, metadata[at : at + 1])
                # The server stores the values like JSON values.
                sizes[column] = -4
            else:
                width = metadata_width(kind)
                if at + width > len(metadata):
                    raise _bad(column, kind, "has no metadata")
                sizes[column] = _value_size(column, kind, metadata[at : at + width])
                at += width
        if at != len(metadata):
            raise BinlogCorrupt(
                f"Table_map event: {len(metadata)} bytes of metadata, of which the columns use {at}"
            )
        return cls(sizes, table.column_types.count(JSON))

    def present(self, bitmap: bytes) -> Int32:
        """Return the sizes of the columns that a row image has, in the table's order (int32).

        ``bitmap`` is the column bitmap of the rows event: the bits of the columns in the image are set.
        """
        sizes = self._present.get(bitmap)
        if sizes is None:
            if len(bitmap) != (self.sizes.size + 7) // 8:
                raise BinlogCorrupt(
                    f"rows event: its bitmap has {len(bitmap)} bytes for {self.sizes.size} columns"
                )
            bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=self.sizes.size, bitorder="little")
            sizes = self.sizes[bits.astype(np.bool_)]
            # With binlog_row_image=MINIMAL, a table has many column bitmaps, but few are frequent. A full cache is
            # therefore emptied.
            if len(self._present) >= 64:
                self._present.clear()
            self._present[bitmap] = sizes
        return sizes


@dataclass(frozen=True, slots=True)
class RowImages:
    """The offsets of the row images in the rows data of one rows event.

    Each array has one int64 for each row. Inserts have no before-images and deletes have no after-images, so that the
    arrays of these images are empty. An image begins with its null bitmap. The after-image of a partial update begins
    with its value_options instead. The images follow one another without gaps and fill the data.
    """

    before_start: Int64
    before_end: Int64
    after_start: Int64
    after_end: Int64

    def __len__(self) -> int:
        """Return the number of rows."""
        return max(self.before_start.size, self.after_start.size)


_NONE: Int64 = np.empty(0, dtype=np.int64)
_NO_SIZES: Int32 = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class _Walk:
    before: Int32 | None
    after: Int32 | None
    partial_bytes: int


def _prepare(plan: ColumnPlan, rows: RowsHeader) -> _Walk:
    if is_pre_ga(rows.type):
        # In rows events before MySQL 5.1.18, the null bits are laid out as in the table's record. The binlog does not
        # tell this layout.
        raise BinlogUnsupported("rows events of servers before 5.1.18 cannot be split into rows")
    if rows.column_count != plan.sizes.size:
        raise BinlogCorrupt(
            f"rows event: it has {rows.column_count} columns, and its Table_map event has {plan.sizes.size}"
        )
    image = plan.present(rows.columns_before)
    partial = (plan.json_columns + 7) // 8 if rows.type == EventType.PARTIAL_UPDATE_ROWS else -1
    if rows.kind == "insert":
        return _Walk(None, image, -1)
    if rows.kind == "delete":
        return _Walk(image, None, -1)
    return _Walk(image, plan.present(rows.columns_after or b""), partial)


_PROBLEMS = {
    K.CUT: "the rows data end inside a row",
    K.EMPTY_ROW: "there are rows data for rows without columns",
    K.BAD_VALUE_OPTIONS: "an update has unknown value_options",
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
    """Return the offsets of the row images in the rows data of a rows event.

    Parameters:
        table: the table map of the event, or its plan, which saves time when several events have the same table map.
        rows: the decoded header of the event.
        data: the uncompressed rows data (:func:`dumpfilter.binlog.compression.rows_data`).

    Raises BinlogCorrupt when the data do not consist of whole rows, and BinlogUnsupported for rows events of servers
    before 5.1.18.
    """
    if rows.is_dummy:
        return RowImages(_NONE, _NONE, _NONE, _NONE)
    plan = table if isinstance(table, ColumnPlan) else ColumnPlan.from_table_map(table)
    walk = _prepare(plan, rows)
    view = np.frombuffer(data, dtype=np.uint8)
    # numba compiles separate versions of a function for read-only and writable buffers. A view that is always
    # read-only saves the second version.
    view.flags.writeable = False
    before = walk.before if walk.before is not None else _NO_SIZES
    after = walk.after if walk.after is not None else _NO_SIZES
    # The size of the rows is guessed, to allocate the array of their offsets. The array is doubled when the rows are
    # smaller than the guess.
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
    """Return the result of :func:`row_images`, computed in plain Python, for tests.

    Results and errors are equal. The code is slow and easy to check.
    """
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
