"""Child processes beside a live source: one that commits, and one that only reads, as replicas do."""

from __future__ import annotations

import itertools
import random
import socket
import struct
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from bench._child import serve
from bench._servers import PASSWORD
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_wire import encode_previous_gtids
from dumpfilter.testbed.servers import Family

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_HEARTBEAT_NANOSECONDS = 10**11
_FIRST_SERVER_ID = 5000
_FIRST_EVENT = 4
_BUFFER = 1 << 16

_CONNECTIONS = 4
_SHARES = {"shop": 20, "logs": 55, "hr": 10, "crm": 15}
"""The share of each database in the transactions, percent."""

BEAT = b"\5beats\0"
"""The name of the beats' database in the Table_map event of each beat."""


def _begin(family: Family, port: int, gtids: str, user: str, server_id: int) -> pymysql.Connection[Cursor]:
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
    replica._execute_command(_REGISTER, struct.pack("<I", server_id) + nobody)
    replica._read_packet()
    if family == "mysql":
        have = encode_previous_gtids(MysqlGtidSet.parse(gtids))
        place = struct.pack("<HIIQI", 0, server_id, 0, _FIRST_EVENT, len(have)) + have
        replica._execute_command(_DUMP_GTID, place)
    else:
        replica._execute_command(_DUMP, struct.pack("<IHI", _FIRST_EVENT, 2, server_id))
    return replica


def reading(pipe: Connection, family: Family, port: int, gtids: str, users: Sequence[str]) -> None:
    """Read live commits over TLS as a replica of each user, which has the transactions of ``gtids``.

    Answer each request with the times (``time.monotonic``) of the beats that arrived until now, by replica, seconds.
    """
    replicas = [
        _begin(family, port, gtids, user, _FIRST_SERVER_ID + number) for number, user in enumerate(users)
    ]
    pipe.send("reading")
    beats: list[list[float]] = [[] for _ in replicas]
    for replica, its in zip(replicas, beats, strict=True):
        threading.Thread(target=_read, args=(replica, its), daemon=True).start()
    serve(pipe, lambda: beats)


def _read(replica: pymysql.Connection[Cursor], beats: list[float]) -> None:
    connection = replica._sock
    assert isinstance(connection, socket.socket)
    rest = b""
    with suppress(OSError):
        while data := connection.recv(_BUFFER):
            now, data = time.monotonic(), rest + data
            beats += [now] * data.count(BEAT)
            rest = data[1 - len(BEAT) :]


def committing(pipe: Connection, port: int, rate: int) -> None:
    """Commit on a source at a steady rate, until the pipe closes."""
    for number in range(_CONNECTIONS):
        threading.Thread(target=_commit, args=(port, rate / _CONNECTIONS, number), daemon=True).start()
    serve(pipe, lambda: None)


def _commit(port: int, rate: float, number: int) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="loader", password="loader", client_flag=CLIENT.MULTI_STATEMENTS
    )
    chance, start = random.Random(number), time.perf_counter()
    with connection.cursor() as cursor:
        for count in itertools.count(1):
            (database,) = chance.choices(list(_SHARES), list(_SHARES.values()))
            insert = f"INSERT INTO {database}.t (a, body) VALUES ({count}, REPEAT('x', {chance.randint(80, 780)}));"
            cursor.execute(f"BEGIN; {insert} {insert} COMMIT")
            while cursor.nextset():
                pass
            time.sleep(max(0.0, start + count / rate - time.perf_counter()))
