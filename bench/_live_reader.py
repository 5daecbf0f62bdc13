"""``python -m bench._live_reader FAMILY PORT GTIDS TIMED USER…``: replicas that read live commits over TLS.

Each user is one replica, which has the transactions of ``GTIDS``. The process prints a line when all dumps have begun,
and reads until it is ended. With ``timed`` for TIMED it prints a line for each beat that arrives: the number of the
replica and the time (``time.monotonic``), seconds.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
import uuid
from contextlib import suppress

import pymysql
from pymysql.cursors import Cursor

from bench._servers import PASSWORD
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_wire import encode_previous_gtids

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_HEARTBEAT_NANOSECONDS = 10**11
_FIRST_SERVER_ID = 5000
_FIRST_EVENT = 4
_BUFFER = 1 << 16

TIMED = "timed"
UNTIMED = "untimed"
BEAT = b"\5beats\0"
"""The name of the beats' database in the Table_map event of each beat."""


def _begin(family: str, port: int, gtids: str, user: str, server_id: int) -> pymysql.Connection[Cursor]:
    """Begin the dump of one replica, and return its connection, which PyMySQL closes when nothing refers to it."""
    tls = {"check_hostname": False, "verify_mode": False}
    replica = pymysql.connect(host="127.0.0.1", port=port, user=user, password=PASSWORD, ssl=tls)
    number = uuid.UUID(int=server_id)
    period = f"@master_heartbeat_period={_HEARTBEAT_NANOSECONDS}"
    with replica.cursor() as cursor:
        cursor.execute(f"SET {period}, @source_heartbeat_period={_HEARTBEAT_NANOSECONDS}")
        cursor.execute("SET @master_binlog_checksum='CRC32', @source_binlog_checksum='CRC32'")
        if family == "mysql":
            cursor.execute(f"SET @slave_uuid='{number}', @replica_uuid='{number}'")
        else:
            cursor.execute("SET @mariadb_slave_capability=4")
            cursor.execute(f"SET @slave_connect_state='{gtids}'")
    nobody = bytes(3) + struct.pack("<HII", 0, 0, 0)
    replica._execute_command(_REGISTER, struct.pack("<I", server_id) + nobody)  # type: ignore[attr-defined]
    replica._read_packet()  # type: ignore[attr-defined]
    if family == "mysql":
        have = encode_previous_gtids(MysqlGtidSet.parse(gtids))
        place = struct.pack("<HIIQI", 0, server_id, 0, _FIRST_EVENT, len(have)) + have
        replica._execute_command(_DUMP_GTID, place)  # type: ignore[attr-defined]
    else:
        replica._execute_command(_DUMP, struct.pack("<IHI", _FIRST_EVENT, 2, server_id))  # type: ignore[attr-defined]
    return replica


def _read(replica: pymysql.Connection[Cursor], number: int, is_timed: bool) -> None:
    connection = replica._sock  # type: ignore[attr-defined]
    assert isinstance(connection, socket.socket)
    rest = b""
    with suppress(OSError):
        while data := connection.recv(_BUFFER):
            if is_timed:
                now, data = time.monotonic(), rest + data
                for _ in range(data.count(BEAT)):
                    # A thread writes its line in one piece.
                    print(f"{number} {now}\n", end="", flush=True)
                rest = data[1 - len(BEAT) :]


def main() -> None:
    family, port, gtids, timed, *users = sys.argv[1:]
    replicas = [
        _begin(family, int(port), gtids, user, _FIRST_SERVER_ID + number) for number, user in enumerate(users)
    ]
    print("reading", flush=True)
    for number, replica in enumerate(replicas):
        threading.Thread(target=_read, args=[replica, number, timed == TIMED]).start()


if __name__ == "__main__":
    main()
