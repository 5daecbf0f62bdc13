"""Table_map and rows events: their headers, without a look at any row.

What is decoded here is the *body* of an event: everything between the common header (19 bytes) and the
checksum. Where one row ends and the next begins is :mod:`dumpfilter.binlog.row_image`'s to tell.

Sources: ``Table_map_event`` and ``Rows_event`` in MySQL's ``libs/mysql/binlog/event/rows_event.cpp``,
``Old_rows_log_event`` in ``sql/log_event_old.cc`` (MySQL 5.1 to 5.7, MariaDB), MariaDB's
``sql/log_event.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.events import ROWS, ROWS_V2, STMT_END_F, EventType, RowsKind, event_name
from dumpfilter.errors import BinlogCorrupt

ROWS_HEADER_LENGTH_V0 = 6
"""Post-header of an intermediate 5.1: the table id has 4 bytes there."""
ROWS_HEADER_LENGTH_V1 = 8
"""``ROWS_HEADER_LEN_V1``: table id and flags."""
ROWS_HEADER_LENGTH_V2 = 10
"""``ROWS_HEADER_LEN_V2``: table id, flags and the length of the extra data."""

MAX_NAME_BYTES = 64 * 3
"""``NAME_LEN``: bytes of the longest database or table name (64 characters)."""
MAX_COLUMNS = 4096
"""``MAX_FIELDS``: no table has more columns."""

# What servers put where the table id of an event without a table goes: all ones, in the width of the day.
_DUMMY_IDS = frozenset({0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF})


class Cursor:
    """Reads little-endian and packed integers off a body and says what is missing where it is too short.

    >>> Cursor(b"\\xfc\\x00\\x01!", "Table_map").packed("a length")
    256
    >>> Cursor(b"\\xfc\\x00", "Table_map").packed("a length")
    Traceback (most recent call last):
    dumpfilter.errors.BinlogCorrupt: Table_map event ends inside a length
    """

    __slots__ = ("at", "body", "end", "what")

    def __init__(self, body: bytes | memoryview, what: str) -> None:
        self.body = body
        self.what = what
        self.at = 0
        self.end = len(body)

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.at

    def take(self, length: int, field: str) -> bytes:
        """The next ``length`` bytes. Raises BinlogCorrupt when there are fewer."""
        if length > self.end - self.at:
            raise BinlogCorrupt(f"{self.what} event ends inside {field}")
        start = self.at
        self.at += length
        return bytes(self.body[start : self.at])

    def integer(self, width: int, field: str) -> int:
        """An unsigned little-endian integer of ``width`` bytes."""
        return int.from_bytes(self.take(width, field), "little")

    def packed(self, field: str) -> int:
        """A packed integer (``net_field_length_ll``). Raises BinlogCorrupt for 251 (NULL) and 255 too."""
        first = self.integer(1, field)
        if first < 251:
            return first
        width = {252: 2, 253: 3, 254: 8}.get(first)
        if width is None:
            raise BinlogCorrupt(f"{self.what} event: {field} is not a packed integer")
        return self.integer(width, field)


def packed_integer(value: int) -> bytes:
    """``value`` as the servers pack integers (``net_store_length``).

    >>> packed_integer(250).hex(), packed_integer(251).hex(), packed_integer(1 << 16).hex()
    ('fa', 'fcfb00', 'fd000001')
    """
    if value < 251:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


@dataclass(frozen=True, slots=True)
class TableMap:
    """A Table_map event: what the rows events with ``table_id`` after it are about.

    ``column_types`` has one byte for each column (``MYSQL_TYPE_*``), ``metadata`` the columns' metadata end
    to end, ``null_bitmap`` one bit for each column (least significant first; 1: may be NULL), ``optional``
    the optional metadata (names, signedness …) as it stands. Names are UTF-8; bytes that are not are kept
    as surrogates (``surrogateescape``).
    """

    table_id: int
    flags: int
    database: str
    table: str
    column_types: bytes
    metadata: bytes
    null_bitmap: bytes
    optional: bytes = b""

    @property
    def column_count(self) -> int:
        """Number of columns."""
        return len(self.column_types)


def decode_table_map(body: bytes | memoryview, post_header_length: int = ROWS_HEADER_LENGTH_V1) -> TableMap:
    """The table map whose body is ``body``. Raises BinlogCorrupt when it is short or impossible.

    ``post_header_length`` is the format description's for Table_map: 6 means a table id of 4 bytes.
    """
    reader = Cursor(body, "Table_map")
    table_id = reader.integer(4 if post_header_length == ROWS_HEADER_LENGTH_V0 else 6, "the table id")
    flags = reader.integer(2, "the flags")
    names = []
    for field in ("the database's name", "the table's name"):
        length = reader.packed(field)
        if length > MAX_NAME_BYTES:
            raise BinlogCorrupt(f"Table_map event: {field} has {length} bytes")
        name = reader.take(length + 1, field)
        if name[-1] != 0:
            raise BinlogCorrupt(f"Table_map event: {field} does not end with a zero byte")
        names.append(name[:-1].decode("utf-8", "surrogateescape"))
    columns = reader.packed("the number of columns")
    if columns > MAX_COLUMNS:
        raise BinlogCorrupt(f"Table_map event: {columns} columns")
    types = reader.take(columns, "the column types")
    metadata, null_bitmap = b"", b"\xff" * ((columns + 7) // 8)
    if reader.left:  # the first servers with row events wrote no metadata
        length = reader.packed("the length of the metadata")
        if length > 4 * columns:
            raise BinlogCorrupt(f"Table_map event: {length} bytes of metadata for {columns} columns")
        metadata = reader.take(length, "the metadata")
        null_bitmap = reader.take((columns + 7) // 8, "the null bitmap")
    return TableMap(
        table_id, flags, names[0], names[1], types, metadata, null_bitmap, reader.take(reader.left, "")
    )


def encode_table_map(table: TableMap, post_header_length: int = ROWS_HEADER_LENGTH_V1) -> bytes:
    """The body of ``table``: :func:`decode_table_map` reversed.

    >>> t = TableMap(7, 1, "db", "t", bytes([3, 15]), b"\\x50\\x00", b"\\x02")
    >>> decode_table_map(encode_table_map(t)) == t
    True
    """
    database = table.database.encode("utf-8", "surrogateescape")
    name = table.table.encode("utf-8", "surrogateescape")
    return b"".join(
        (
            table.table_id.to_bytes(4 if post_header_length == ROWS_HEADER_LENGTH_V0 else 6, "little"),
            table.flags.to_bytes(2, "little"),
            packed_integer(len(database)) + database + b"\0",
            packed_integer(len(name)) + name + b"\0",
            packed_integer(len(table.column_types)) + table.column_types,
            packed_integer(len(table.metadata)) + table.metadata,
            table.null_bitmap,
            table.optional,
        )
    )


@dataclass(frozen=True, slots=True)
class RowsHeader:
    """What a rows event says before its rows.

    ``type`` is the event's type; ``extra`` the extra data of v2 (NDB's, partition ids) without its length;
    ``columns_before`` and ``columns_after`` one bit for each column of the table (1: in the image). An
    insert's only bitmap is ``columns_before``, as in the servers (``m_cols``); ``columns_after`` is None but
    for updates. ``rows_offset`` is where the rows start in the body; ``compressed`` says that they are
    MariaDB's compressed ones (:func:`dumpfilter.binlog.compression.rows_data` opens them).
    """

    table_id: int
    flags: int
    extra: bytes
    column_count: int
    columns_before: bytes
    columns_after: bytes | None
    rows_offset: int
    kind: RowsKind
    compressed: bool
    type: int
    is_dummy: bool = False
    """The event has neither table nor rows: it only ends a statement."""

    @property
    def statement_ends(self) -> bool:
        """Whether this is the last rows event of its statement (``STMT_END_F``)."""
        return bool(self.flags & STMT_END_F)


def rows_kind(type: int) -> RowsKind:
    """Return the change that rows events of this type make. Raises ValueError for a type that is not a rows event's.

    >>> rows_kind(30), rows_kind(39), rows_kind(168)
    ('insert', 'update', 'delete')
    """
    if type not in ROWS:
        raise ValueError(f"{event_name(type)} is not a rows event")
    change = EventType(type).kind.change
    assert change is not None
    return change


def decode_rows_header(
    type: int, body: bytes | memoryview, post_header_length: int | None = None
) -> RowsHeader:
    """The header of the rows event of ``type`` whose body is ``body``.

    ``post_header_length`` is the format description's for this type: 6 (table id of 4 bytes), 8 (v1) or 10
    (v2, with extra data); None stands for what every released server says. Raises BinlogCorrupt when the
    body is short or impossible and ValueError when ``type`` is not a rows event's.

    >>> h = decode_rows_header(30, bytes.fromhex("0700000000000100020001" "01" "00" "05000000"))
    >>> h.table_id, h.kind, h.column_count, h.columns_before, h.rows_offset, h.statement_ends
    (7, 'insert', 1, b'\\x01', 12, True)
    """
    kind = rows_kind(type)
    if post_header_length is None:
        post_header_length = ROWS_HEADER_LENGTH_V2 if type in ROWS_V2 else ROWS_HEADER_LENGTH_V1
    reader = Cursor(body, event_name(type))
    id_width = 4 if post_header_length == ROWS_HEADER_LENGTH_V0 else 6
    table_id = reader.integer(id_width, "the table id")
    flags = reader.integer(2, "the flags")
    extra = b""
    # The server goes by the post-header's length, not by the type.
    if post_header_length == ROWS_HEADER_LENGTH_V2:
        length = reader.integer(2, "the length of the extra data")
        if length < 2:  # the length counts itself
            raise BinlogCorrupt(f"{reader.what} event: extra data of {length} bytes")
        extra = reader.take(length - 2, "the extra data")
    no_table = table_id in _DUMMY_IDS
    columns, before, after = 0, b"", None
    if reader.left or not no_table:
        columns = reader.packed("the number of columns")
        if columns > MAX_COLUMNS or (columns == 0 and not no_table):
            raise BinlogCorrupt(f"{reader.what} event: {columns} columns")
        before = reader.take((columns + 7) // 8, "the columns bitmap")
    if kind == "update":
        # Before 5.1.18 an update had one bitmap for both of its images.
        shared = is_pre_ga(type) or columns == 0
        after = before if shared else reader.take((columns + 7) // 8, "the columns bitmap (after)")
    return RowsHeader(
        table_id=table_id,
        flags=flags,
        extra=extra,
        column_count=columns,
        columns_before=before,
        columns_after=after,
        rows_offset=reader.at,
        kind=kind,
        compressed=EventType(type).kind.compressed,
        type=int(type),
        is_dummy=no_table and reader.left == 0,
    )


def is_pre_ga(type: int) -> bool:
    """Tell whether a rows event of this type has the layout that servers wrote before 5.1.18."""
    return type in ROWS and EventType(type).kind.version == 0
