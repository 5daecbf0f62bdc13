"""The statements and commands that a receiver sends to a source (a running server) before the dump, like a replica."""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass

from dumpfilter.base.errors import SourceRefused
from dumpfilter.binlog.format import Family
from dumpfilter.receiver.login import SourceConnection
from dumpfilter.receiver.store import StoredSource

_REGISTER_REPLICA = 0x15
"""The number of the command COM_REGISTER_SLAVE. It makes the receiver visible in SHOW REPLICAS."""

_NON_BLOCKING = 1
"""The flag of COM_BINLOG_DUMP with which the dump ends at the end of the newest file."""

_ANNOTATE_ROWS = 2
"""The flag of COM_BINLOG_DUMP without which MariaDB leaves out Annotate_rows events."""

_CAPABILITY = 4
"""The capability level with which MariaDB sends its GTID events unchanged (``MARIA_SLAVE_CAPABILITY_GTID``)."""

MOST_POSITION = 0xFFFFFFFF
"""The highest position at which a dump can begin, since COM_BINLOG_DUMP has 4 bytes for it."""

_SILENT_HEARTBEATS = 3
"""The number of missing heartbeats after which the connection counts as lost."""

_LEAST_SILENCE = 5.0
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_SIZE = re.compile(r"[0-9]{1,20}")
"""The pattern of a file's size. Python's int() refuses other digits, and numbers of thousands of digits."""


@dataclass(frozen=True)
class SourceFacts:
    """The properties of a source (a running server) that do not change while the server runs, and the list of its
    binlog files.
    """

    family: Family
    version: str
    server_uuid: str
    logs: list[tuple[str, int]] | None
    """The names and sizes of the source's binlog files in bytes, oldest first. None if the user may not list them."""


def ask_facts(connection: SourceConnection) -> SourceFacts:
    """Query a server's version, UUID and binlog files. Raises SourceRefused for a server that writes no binlog.

    The UUID is empty for MariaDB.
    """
    variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'server_uuid', 'log_bin')"
    found = {str(row[0]): str(row[1] or "") for row in connection.ask(variables) if len(row) > 1}
    version = found.get("version") or ""
    if found.get("log_bin") == "OFF":
        raise SourceRefused(
            f"{connection.url}: the server writes no binlog; start it with --log-bin (and a --server-id)"
        )
    is_mariadb = connection.is_mariadb or "mariadb" in version.lower()
    rows = connection.try_to_ask("SHOW BINARY LOGS")
    logs = None
    if rows is not None:
        logs = [(str(row[0]), int(row[1])) for row in rows if len(row) > 1 and _SIZE.fullmatch(str(row[1]))]
    server_uuid = found.get("server_uuid") or ""
    if is_mariadb or not _UUID.fullmatch(server_uuid):
        server_uuid = ""
    return SourceFacts("mariadb" if is_mariadb else "mysql", version, server_uuid, logs)


def begin_stream(
    connection: SourceConnection,
    family: Family,
    replica: StoredSource,
    place: tuple[str, int],
    *,
    blocking: bool,
) -> socket.socket:
    """Register the receiver as a replica of the server, and begin the dump. Return the socket from which the dump's
    packets are read.

    ``place`` is the file and position at which the dump begins. An empty file name stands for the source's oldest file.
    With ``blocking`` the dump waits for new events at the end. The socket raises TimeoutError when even heartbeats fail
    to come. Raises the errors of SourceConnection.
    """
    url = connection.url
    nanoseconds = int(url.heartbeat * 1e9)
    # CRC32 also for a source that writes no checksums now. With NONE, servers remove the checksums of older files.
    connection.ask("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
    connection.ask(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
    server_id = url.server_id or replica.replica_id
    if family == "mariadb":
        connection.ask(f"SET @mariadb_slave_capability = {_CAPABILITY}")
    else:
        connection.ask(
            f"SET @slave_uuid = '{replica.replica_uuid}', @replica_uuid = '{replica.replica_uuid}'"
        )
    nothing = b"\0\0\0"  # no report-host, no user, no password
    connection.command(
        _REGISTER_REPLICA, struct.pack("<I", server_id) + nothing + struct.pack("<HII", 0, 0, 0)
    )
    name, position = place
    flags = (0 if blocking else _NON_BLOCKING) | (_ANNOTATE_ROWS if family == "mariadb" else 0)
    payload = struct.pack("<IHI", position, flags, server_id) + name.encode("utf-8", "surrogateescape")
    return connection.begin_dump(payload, max(_LEAST_SILENCE, _SILENT_HEARTBEATS * url.heartbeat))
