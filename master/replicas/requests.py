"""The requests by which a replica asks for a dump of the binlog, parsed from packets of the client protocol.

A replica registers (COM_REGISTER_SLAVE), and then asks for a dump: MySQL by COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID,
MariaDB always by COM_BINLOG_DUMP. MariaDB's replicas put the GTIDs that they have into session variables before.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dumpfilter.base.errors import BinlogCorrupt, GtidError
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet
from dumpfilter.binlog.gtid_events import decode_previous_gtids, previous_gtids_count
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.wire import Fields, MalformedPacket

MAX_FILE_NAME = 512
"""The longest name of a binlog file that a request may have, bytes (``FN_REFLEN`` in the servers' source)."""

MAX_GTID_SOURCES = 4096
"""The largest number of UUIDs (or UUID and tag) in the GTID set of a request. Each takes memory as long as the dump
runs.
"""

_SHORTEST_SOURCE = 24
"""The smallest number of bytes of a UUID with its intervals in an encoded GTID set."""
FATAL = 1236
"""The number of the error at which a replica stops."""


class MysqlFlag(enum.IntFlag):
    """The flags that a MySQL replica sets in COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID."""

    NON_BLOCK = 1
    """The dump ends at the end of the binlog (``BINLOG_DUMP_NON_BLOCK``)."""
    HEARTBEAT_V2 = 2
    """The replica knows heartbeats of version 2 (``USE_HEARTBEAT_EVENT_V2``)."""


class MariadbFlag(enum.IntFlag):
    """The flags that a MariaDB replica sets in COM_BINLOG_DUMP."""

    NON_BLOCK = 1
    """The dump ends at the end of the binlog (``BINLOG_DUMP_NON_BLOCK``)."""
    ANNOTATE_ROWS = 2
    """The replica wants Annotate_rows events (``BINLOG_SEND_ANNOTATE_ROWS_EVENT``)."""


@dataclass(frozen=True)
class Registration:
    """The content of COM_REGISTER_SLAVE: the server id, host and port that a replica states for SHOW REPLICAS."""

    server_id: int
    host: str
    """The replica's option ``report_host``, usually empty."""
    port: int


@dataclass(frozen=True)
class DumpRequest:
    """The content of COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID: server id, flags, and the position or the GTIDs at which
    the dump begins.
    """

    server_id: int
    flags: int
    """Flags of :class:`MysqlFlag` or :class:`MariadbFlag`. The families give the same bits different meanings."""
    file: str
    """The binlog file. Empty for the first one, and for a start by GTID."""
    position: int
    gtid_set: GtidSet | None = None
    """The GTIDs that the replica has, or None if the dump begins at a file and position."""


def fatal(text: str) -> SqlError:
    """Return error 1236 for a dump. A replica that receives it stops, and shows the text in its status."""
    return SqlError(FATAL, "HY000", text)


def parse_register_replica(data: bytes) -> Registration:
    """Parse the command COM_REGISTER_SLAVE, by which a replica names itself. ``data`` is the packet after the command
    byte. Raises MalformedPacket.
    """
    fields = Fields(data)
    server_id = fields.uint(4)
    host = _short_text(fields)
    # The options report_user and report_password say how clients could log in to the replica. Nobody needs them here.
    _short_text(fields)
    _short_text(fields)
    port = fields.uint(2)
    # The replication rank and the source's server id have had no meaning since MySQL 4.
    fields.take(8)
    return Registration(server_id, host, port)


def parse_binlog_dump(data: bytes) -> DumpRequest:
    """Parse the command COM_BINLOG_DUMP, by which a replica asks for events from a file and position. ``data`` is the
    packet after the command byte. Raises MalformedPacket.
    """
    fields = Fields(data)
    position = fields.uint(4)
    flags = fields.uint(2)
    server_id = fields.uint(4)
    return DumpRequest(server_id, flags, _file_name(fields.rest()), position)


def parse_binlog_dump_gtid(data: bytes) -> DumpRequest:
    """Parse the content of the command COM_BINLOG_DUMP_GTID, which only MySQL's clients send.

    Raises MalformedPacket, SqlError 1236 for a GTID set of too many servers, and SqlError 1773 for a GTID set that
    cannot be parsed.
    """
    fields = Fields(data)
    flags = fields.uint(2)
    server_id = fields.uint(4)
    file = _file_name(fields.take(fields.uint(4)))
    position = fields.uint(8)
    encoded = fields.take(fields.uint(4))
    number = previous_gtids_count(encoded)
    # A number that the bytes cannot hold is an error of the encoding.
    if MAX_GTID_SOURCES < number <= len(encoded) // _SHORTEST_SOURCE:
        raise fatal(
            f"The replica's GTID set names {number} servers; the master serves sets of at most {MAX_GTID_SOURCES}"
        )
    try:
        gtid_set = decode_previous_gtids(encoded)
    except BinlogCorrupt as error:
        raise SqlError(1773, "HY000", f"Malformed GTID set encoding. {error}") from None
    return DumpRequest(server_id, flags, file, position, gtid_set)


def parse_connect_state(text: str) -> MariadbGtidSet:
    """Parse the GTIDs that a MariaDB replica has, as its variable ``@slave_connect_state`` names them.

    Raises SqlError 1236 with MariaDB's text.
    """
    try:
        return MariadbGtidSet.parse(text)
    except GtidError as error:
        raise fatal(
            f"Out of memory or malformed slave request when obtaining start position from GTID state ({error})"
        ) from None


def _short_text(fields: Fields) -> str:
    return fields.take(fields.uint(1)).decode("utf-8", "replace")


def _file_name(data: bytes) -> str:
    """Return the name of a binlog file in a request, without a NUL at its end. Raises MalformedPacket for a name that
    is too long.
    """
    if len(data) > MAX_FILE_NAME:
        raise MalformedPacket
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
