"""The binlog format v4: the table of event types, the common header of events, and its flags.

:class:`EventType` is the only table of events in this project. The compiled scan, the applier's grouping, printing, the
Spark columns and ``docs/events.md`` are made from it. A new event type needs one row here and, when its content
matters, a decoder and its text in :mod:`dumpfilter.analyse.printing`.

Sources: ``libs/mysql/binlog/event/binlog_event.h`` (MySQL) and ``sql/log_event.h`` (MariaDB).
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

MAGIC = b"\xfebin"
"""The first four bytes of a binlog or relay log (``BINLOG_MAGIC``)."""

ENCRYPTED_MAGIC = b"\xfdbin"
"""The first four bytes of a binlog that MySQL has encrypted."""

GTID_INDEX_MAGIC = b"\xfe\xfe\x0c\x01"
"""The first four bytes of a GTID index, which MariaDB 11.4 and later keep beside a binlog."""

HEADER_LENGTH = 19
"""The length of the common header, bytes (``LOG_EVENT_HEADER_LEN``)."""

MAX_EVENT = 0x7FFFFFFF
"""The largest length that an event can have, bytes. Servers write events of at most 1 GiB."""

CHECKSUM_LENGTH = 4
"""The length of the CRC32 that ends every event when checksums are on, bytes."""

SOUND = 0x2144DF1C
"""The CRC32 of any bytes together with their own CRC32 in little-endian order, which is always this constant."""

COMMON_HEADER = struct.Struct("<IBIIIH")
"""The common header of an event, with the fields of :class:`EventHeader`."""


class Symbol(enum.IntEnum):
    """The groups of event types that have the same effect on transactions. All rows events are one group, for example.

    The scan of a binlog finds transaction boundaries by a grammar over these groups, so that a group is called a
    symbol. ``docs/events.md`` has the event types of each group.
    """

    OTHER = 0
    FORMAT_DESCRIPTION = 1
    FILE = 2
    START_ENCRYPTION = 3
    GTID = 4
    MARIADB_GTID = 5
    CONTEXT = 6
    TABLE_MAP = 7
    ROWS = 8
    QUERY = 9
    LOAD_QUERY = 10
    XID = 11
    XA_PREPARE = 12
    PAYLOAD = 13
    INCIDENT = 14
    ROWS_FRAGMENT = 15
    IGNORABLE = 16


Writers = Literal["both", "mysql", "mariadb"]
"""The servers that write events of a type: MySQL, MariaDB, or both."""

RowsKind = Literal["insert", "update", "delete"]
"""The change that a rows event makes to its rows: insert, update or delete."""


class EventKind(NamedTuple):
    """The properties of one event type: number, names, the servers that write the type, and the decoder of
    its content.
    """

    number: int
    """The number that stands for the event type in an event's header (``LOG_EVENT_TYPE``)."""
    name: str
    """The event type's name in this project's texts, tables and errors."""
    writers: Writers
    symbol: Symbol = Symbol.OTHER
    decoder: str = ""
    """The name of the function that decodes the event's body: a module of :mod:`dumpfilter.binlog` and a function in
    that module.

    The module :mod:`dumpfilter.binlog.reader` calls the function.
    """
    shown: str = ""
    """The event type's name in the Event_type column of SHOW BINLOG EVENTS, if it differs from ``name``."""
    change: RowsKind | None = None
    """The change that events of this type make to their rows; None for types other than rows events."""
    version: int = 0
    """The version of a rows event's layout.

    The post-header of version 1 ends with the flags, and version 2 adds extra data.
    """
    compressed: bool = False
    """Whether events of this type have compressed content."""


_BOTH: Writers = "both"
_MYSQL: Writers = "mysql"
_MARIADB: Writers = "mariadb"
_S = Symbol


def _rows(number: int, name: str, writers: Writers, change: RowsKind, version: int, **more: Any) -> EventKind:
    decoder = "rows_events.decode_rows_header"
    return EventKind(number, name, writers, Symbol.ROWS, decoder, change=change, version=version, **more)


class EventType(enum.IntEnum):
    """Every event type of MySQL 5.0 to 9.x and MariaDB 10.x to 12.x.

    The attribute ``kind`` holds the type's properties, such as its name and its decoder (:class:`EventKind`).
    """

    _value_: int
    kind: EventKind

    def __new__(cls, number: int, *row: object) -> EventType:
        member = int.__new__(cls, number)
        member._value_ = number
        member.kind = EventKind(number, *row)  # type: ignore[arg-type]
        return member

    # fmt: off
    UNKNOWN = EventKind(0, "Unknown", _BOTH)
    START_V3 = EventKind(1, "Start_v3", _BOTH)
    QUERY = EventKind(2, "Query", _BOTH, _S.QUERY, "query.decode_query")
    STOP = EventKind(3, "Stop", _BOTH, _S.FILE, "context_events.decode_stop")
    ROTATE = EventKind(4, "Rotate", _BOTH, _S.FILE, "context_events.decode_rotate")
    INTVAR = EventKind(5, "Intvar", _BOTH, _S.CONTEXT, "context_events.decode_intvar")
    LOAD = EventKind(6, "Load", _BOTH)
    SLAVE = EventKind(7, "Slave", _BOTH)
    CREATE_FILE = EventKind(8, "Create_file", _BOTH)
    APPEND_BLOCK = EventKind(9, "Append_block", _BOTH, _S.CONTEXT, "context_events.decode_load_block")
    EXEC_LOAD = EventKind(10, "Exec_load", _BOTH)
    DELETE_FILE = EventKind(11, "Delete_file", _BOTH, _S.OTHER, "context_events.decode_load_block")
    NEW_LOAD = EventKind(12, "New_load", _BOTH)
    RAND = EventKind(13, "Rand", _BOTH, _S.CONTEXT, "context_events.decode_rand", "RAND")
    USER_VAR = EventKind(14, "User_var", _BOTH, _S.CONTEXT, "context_events.decode_user_var", "User var")
    FORMAT_DESCRIPTION = EventKind(15, "Format_desc", _BOTH, _S.FORMAT_DESCRIPTION, "format.FormatDescription.parse")
    XID = EventKind(16, "Xid", _BOTH, _S.XID, "context_events.decode_xid")
    BEGIN_LOAD_QUERY = EventKind(17, "Begin_load_query", _BOTH, _S.CONTEXT, "context_events.decode_load_block")
    EXECUTE_LOAD_QUERY = EventKind(18, "Execute_load_query", _BOTH, _S.LOAD_QUERY, "query.decode_execute_load_query")
    TABLE_MAP = EventKind(19, "Table_map", _BOTH, _S.TABLE_MAP, "rows_events.decode_table_map")
    WRITE_ROWS_V1 = _rows(23, "Write_rows_v1", _BOTH, "insert", 1)
    UPDATE_ROWS_V1 = _rows(24, "Update_rows_v1", _BOTH, "update", 1)
    DELETE_ROWS_V1 = _rows(25, "Delete_rows_v1", _BOTH, "delete", 1)
    INCIDENT = EventKind(26, "Incident", _BOTH, _S.INCIDENT, "context_events.decode_incident")
    HEARTBEAT = EventKind(27, "Heartbeat", _BOTH, _S.OTHER, "context_events.decode_heartbeat")
    IGNORABLE = EventKind(28, "Ignorable", _MYSQL, _S.IGNORABLE, "gap_events.decode_ignorable")
    ROWS_QUERY = EventKind(29, "Rows_query", _MYSQL, _S.CONTEXT, "context_events.decode_rows_query")
    WRITE_ROWS = _rows(30, "Write_rows", _MYSQL, "insert", 2)
    UPDATE_ROWS = _rows(31, "Update_rows", _MYSQL, "update", 2)
    DELETE_ROWS = _rows(32, "Delete_rows", _MYSQL, "delete", 2)
    GTID = EventKind(33, "Gtid", _MYSQL, _S.GTID, "gtid_events.decode_mysql_gtid")
    ANONYMOUS_GTID = EventKind(34, "Anonymous_gtid", _MYSQL, _S.GTID, "gtid_events.decode_mysql_gtid", "Anonymous_Gtid")
    PREVIOUS_GTIDS = EventKind(35, "Previous_gtids", _MYSQL, _S.FILE, "gtid_events.decode_previous_gtids")
    TRANSACTION_CONTEXT = EventKind(36, "Transaction_context", _MYSQL)
    VIEW_CHANGE = EventKind(37, "View_change", _MYSQL)
    XA_PREPARE = EventKind(38, "XA_prepare", _BOTH, _S.XA_PREPARE, "context_events.decode_xa_prepare")
    PARTIAL_UPDATE_ROWS = _rows(39, "Partial_update_rows", _MYSQL, "update", 2, shown="Update_rows_partial")
    TRANSACTION_PAYLOAD = EventKind(
        40, "Transaction_payload", _MYSQL, _S.PAYLOAD, "compression.decode_transaction_payload", compressed=True)
    HEARTBEAT_V2 = EventKind(41, "Heartbeat_v2", _MYSQL)
    GTID_TAGGED = EventKind(
        42, "Gtid_tagged", _MYSQL, _S.GTID, "gtid_events.decode_gtid_tagged", "Gtid_tagged_log_event")

    ANNOTATE_ROWS = EventKind(160, "Annotate_rows", _MARIADB, _S.CONTEXT, "context_events.decode_annotate_rows")
    BINLOG_CHECKPOINT = EventKind(
        161, "Binlog_checkpoint", _MARIADB, _S.FILE, "context_events.decode_binlog_checkpoint")
    MARIADB_GTID = EventKind(162, "Gtid", _MARIADB, _S.MARIADB_GTID, "gtid_events.decode_mariadb_gtid")
    GTID_LIST = EventKind(163, "Gtid_list", _MARIADB, _S.FILE, "gtid_events.decode_gtid_list")
    START_ENCRYPTION = EventKind(164, "Start_encryption", _MARIADB, _S.START_ENCRYPTION)
    QUERY_COMPRESSED = EventKind(165, "Query_compressed", _MARIADB, _S.QUERY, "query.decode_query", compressed=True)
    WRITE_ROWS_COMPRESSED_V1 = _rows(166, "Write_rows_compressed_v1", _MARIADB, "insert", 1, compressed=True)
    UPDATE_ROWS_COMPRESSED_V1 = _rows(167, "Update_rows_compressed_v1", _MARIADB, "update", 1, compressed=True)
    DELETE_ROWS_COMPRESSED_V1 = _rows(168, "Delete_rows_compressed_v1", _MARIADB, "delete", 1, compressed=True)
    WRITE_ROWS_COMPRESSED = _rows(169, "Write_rows_compressed", _MARIADB, "insert", 2, compressed=True)
    UPDATE_ROWS_COMPRESSED = _rows(170, "Update_rows_compressed", _MARIADB, "update", 2, compressed=True)
    DELETE_ROWS_COMPRESSED = _rows(171, "Delete_rows_compressed", _MARIADB, "delete", 2, compressed=True)
    PARTIAL_ROW_DATA = EventKind(172, "Partial_row_data", _MARIADB, _S.ROWS_FRAGMENT)
    # fmt: on

    @property
    def opened(self) -> EventType:
        """The uncompressed event type for a type of MariaDB's compressed rows events, such as Write_rows for
        Write_rows_compressed.

        Every other event type, also Query_compressed, is returned unchanged.
        """
        if not self.kind.compressed:
            return self
        wanted = self.kind._replace(compressed=False)[3:]
        return next((kind for kind in EventType if kind.kind.change and kind.kind[3:] == wanted), self)


KINDS: tuple[EventKind, ...] = tuple(member.kind for member in EventType)
"""The properties of all event types, such as names and decoders, in the order of the types' numbers."""

_NAMES = {kind.number: kind.name for kind in KINDS}
_SHOWN_NAMES = {kind.number: kind.shown or kind.name for kind in KINDS}


def is_sound(event: bytes | bytearray | memoryview) -> bool:
    """Tell whether the checksum (CRC32) at the end of an event is right."""
    return zlib.crc32(event) == SOUND


def seal(event: bytearray) -> None:
    """Recompute the checksum at the end of an event whose bytes were changed, in place."""
    event[-CHECKSUM_LENGTH:] = zlib.crc32(memoryview(event)[:-CHECKSUM_LENGTH]).to_bytes(
        CHECKSUM_LENGTH, "little"
    )


def event_name(number: int) -> str:
    """Return the name of an event type by its number; ``Unknown(N)`` for a number that no server uses.

    >>> event_name(19), event_name(163), event_name(15), event_name(99)
    ('Table_map', 'Gtid_list', 'Format_desc', 'Unknown(99)')
    """
    return _NAMES.get(number) or f"Unknown({number})"


def shown_name(number: int) -> str:
    """Return the name that SHOW BINLOG EVENTS shows in its column Event_type for the number of an event type.

    >>> shown_name(14), shown_name(19), shown_name(99)
    ('User var', 'Table_map', 'Unknown')
    """
    return _SHOWN_NAMES.get(number, "Unknown")


def types_of(*symbols: Symbol) -> frozenset[EventType]:
    """Return the event types that belong to any of the given symbols. A symbol is a group of event types, such as all
    rows events.

    >>> sorted(kind.name for kind in types_of(Symbol.QUERY, Symbol.LOAD_QUERY))
    ['EXECUTE_LOAD_QUERY', 'QUERY', 'QUERY_COMPRESSED']
    """
    return frozenset(kind for kind in EventType if kind.kind.symbol in symbols)


def by_number(value: Callable[[EventKind], int]) -> npt.NDArray[np.int16]:
    """Return a lookup table of event types: an int16 array of shape (256,), indexed by the number of an event type.

    The function ``value`` computes each entry from the type's properties. The entry is 0 for numbers that no server
    uses.
    """
    found: npt.NDArray[np.int16] = np.zeros(256, np.int16)
    for kind in KINDS:
        found[kind.number] = value(kind)
    return found


def numbers_at(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Return the unsigned little-endian integers of ``width`` bytes at the byte offsets ``at`` of ``data``, as an int64
    array.

    An integer that reaches beyond the end of ``data`` gets an arbitrary value, so that the caller must check the
    offsets.
    """
    found: npt.NDArray[np.int64] = np.zeros(at.shape, np.int64)
    for k in range(width):
        found |= data[np.minimum(at + k, data.size - 1)].astype(np.int64) << 8 * k
    return found


SYMBOLS: npt.NDArray[np.uint8] = by_number(lambda kind: kind.symbol).astype(np.uint8)
"""The :class:`Symbol` (group of types that the scan treats alike) of each event type by its number, uint8[256]."""

ROWS = types_of(Symbol.ROWS)
"""The types of rows events, of MySQL and MariaDB and of all versions."""

ROWS_V2 = frozenset(kind for kind in ROWS if kind.kind.version == 2)
"""The types of rows events of version 2, whose post-header has extra data after the flags."""

MYSQL_GTIDS = types_of(Symbol.GTID)
"""The events that open a transaction of MySQL: Gtid, Anonymous_gtid and Gtid_tagged."""

GTIDS = types_of(Symbol.GTID, Symbol.MARIADB_GTID)
"""The event types that open a transaction, of MySQL and MariaDB."""

STATEMENTS = types_of(Symbol.QUERY, Symbol.LOAD_QUERY)
"""The event types that hold a statement's text: Query, its compressed form, and Execute_load_query."""

OF_FILES = types_of(Symbol.FORMAT_DESCRIPTION, Symbol.FILE, Symbol.START_ENCRYPTION)
"""The event types that belong to a binlog file and not to a transaction, such as Rotate."""

STMT_END_F = 0x0001
"""The flag in a rows event that marks the last rows event of a statement. A slave closes its tables after such an
event.
"""

LOG_EVENT_BINLOG_IN_USE_F = 0x0001
"""The flag of a format description event whose file is open for writing. The checksum does not cover the flag."""

FLAGS_OFFSET = len(MAGIC) + 17
"""The offset in a file of the flags of its format description event. The lowest byte has LOG_EVENT_BINLOG_IN_USE_F."""

LOG_EVENT_SUPPRESS_USE_F = 0x0008
"""The flag of a Query event whose statement does not depend on the default database."""

LOG_EVENT_ARTIFICIAL_F = 0x0020
"""The flag of an event that the master made for the stream. No file holds such an event."""

LOG_EVENT_RELAY_LOG_F = 0x0040
"""The flag of the format description event of a relay log."""

LOG_EVENT_IGNORABLE_F = 0x0080
"""The flag of an event that a reader may ignore when the reader does not know the event's type."""


class EventHeader(NamedTuple):
    """The common header (19 bytes) with which every event begins. ``timestamp`` is in Unix seconds, ``type`` is the
    number of the event type. ``size`` is the whole event's length in bytes, and ``end_log_pos`` the file offset after
    the event.
    """

    timestamp: int
    type: int
    server_id: int
    size: int
    end_log_pos: int
    flags: int

    @classmethod
    def unpack(cls, data: bytes | memoryview, offset: int = 0) -> EventHeader:
        """Return the event header whose 19 bytes begin at ``offset`` of ``data``. Raises struct.error when there are
        fewer bytes.
        """
        return cls(*COMMON_HEADER.unpack_from(data, offset))

    def pack(self) -> bytes:
        """Return the 19 bytes of the event header.

        >>> EventHeader.unpack(EventHeader(1, 2, 3, 19, 23, 0).pack()).end_log_pos
        23
        """
        return COMMON_HEADER.pack(*self)
