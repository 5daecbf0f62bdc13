"""Event types, header and flags of the binlog format v4 (``libs/mysql/binlog/event/binlog_event.h``,
MariaDB's ``sql/log_event.h``).

The two families share the numbers up to 35; MySQL goes on to 42 and MariaDB starts its own at 160.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

MAGIC = b"\xfebin"
"""The first four bytes of a binlog or relay log (``BINLOG_MAGIC``)."""

ENCRYPTED_MAGIC = b"\xfdbin"
"""The first four bytes of a binlog that MySQL has encrypted."""

GTID_INDEX_MAGIC = b"\xfe\xfe\x0c\x01"
"""The first four bytes of a GTID index, which MariaDB 11.4 and later keep beside a binlog."""

HEADER_LENGTH = 19
"""Length of the common header, bytes (``LOG_EVENT_HEADER_LEN``)."""

CHECKSUM_LENGTH = 4
"""Length of the CRC32 that ends every event when checksums are on."""

_HEADER = struct.Struct("<IBIIIH")


class EventType(enum.IntEnum):
    """Every event type of MySQL 5.0 to 9.x and MariaDB 10.x to 12.x."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    # MariaDB
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171
    PARTIAL_ROW_DATA = 172


_NAMES = {
    EventType.FORMAT_DESCRIPTION: "Format_desc",
    EventType.MARIADB_GTID: "Gtid",
    EventType.XA_PREPARE: "XA_prepare",
    EventType.START_V3: "Start_v3",
}


def event_name(number: int) -> str:
    """The name ``SHOW BINLOG EVENTS`` gives an event type; ``Unknown(N)`` for a number of neither family.

    >>> event_name(19), event_name(163), event_name(15), event_name(99)
    ('Table_map', 'Gtid_list', 'Format_desc', 'Unknown(99)')
    """
    try:
        kind = EventType(number)
    except ValueError:
        return f"Unknown({number})"
    return _NAMES.get(kind) or kind.name.capitalize()


ROWS_V1 = frozenset(
    {
        EventType.PRE_GA_WRITE_ROWS,
        EventType.PRE_GA_UPDATE_ROWS,
        EventType.PRE_GA_DELETE_ROWS,
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
    }
)
"""Rows events whose post-header ends with the flags (v0 and v1)."""

ROWS_V2 = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
        EventType.WRITE_ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED,
    }
)
"""Rows events whose post-header goes on with extra data (v2)."""

ROWS = ROWS_V1 | ROWS_V2

STMT_END_F = 0x0001
"""Flag of a rows event: the last one of its statement."""

LOG_EVENT_BINLOG_IN_USE_F = 0x0001
"""Flag of the format description event of a file that is open for writing. Not covered by the checksum."""

LOG_EVENT_SUPPRESS_USE_F = 0x0008
"""Flag of a Query event: the default database does not matter to it."""

LOG_EVENT_ARTIFICIAL_F = 0x0020
"""Flag of an event that is in the stream but in no file."""

LOG_EVENT_RELAY_LOG_F = 0x0040
"""Flag of the format description event of a relay log."""

LOG_EVENT_IGNORABLE_F = 0x0080
"""Flag of an event that a reader may pass over when it does not know its type."""


class EventHeader(NamedTuple):
    """The common header: ``timestamp`` in seconds, ``size`` and ``end_log_pos`` in bytes."""

    timestamp: int
    type: int
    server_id: int
    size: int
    end_log_pos: int
    flags: int

    @classmethod
    def unpack(cls, data: bytes | memoryview, offset: int = 0) -> EventHeader:
        """Read the 19 bytes at ``offset``. Raises struct.error when there are fewer."""
        return cls(*_HEADER.unpack_from(data, offset))

    def pack(self) -> bytes:
        """The header's 19 bytes.

        >>> EventHeader.unpack(EventHeader(1, 2, 3, 19, 23, 0).pack()).end_log_pos
        23
        """
        return _HEADER.pack(*self)
