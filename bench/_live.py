"""Child processes beside a live source: one that commits, and one that only reads, as replicas do."""

from __future__ import annotations

import random
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import pymysql
from pymysql.constants import CLIENT

from bench._child import serve
from bench._common import steadily
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_wire import encode_previous_gtids
from dumpfilter.testbed.servers import Account, Family
from tests.master.replicas.serving import Replica

_HEARTBEAT = 10**11
"""The time between two heartbeats, nanoseconds."""
_FIRST_SERVER_ID = 5000
_BUFFER = 1 << 16

_CONNECTIONS = 4
_SHARES = {"shop": 20, "logs": 55, "hr": 10, "crm": 15}
"""The share of each database in the transactions, percent."""

BEAT = b"\5beats\0"
"""The name of the beats' database in the Table_map event of each beat."""


def _begin(family: Family, port: int, gtids: str, account: Account, server_id: int) -> Replica:
    """Begin the dump of one replica, and return its connection, which closes when nothing refers to it."""
    tls = {"check_hostname": False, "verify_mode": False}
    replica = Replica(port, account.user, account.password, ssl=tls)
    replica.ask(f"SET @master_heartbeat_period={_HEARTBEAT}, @source_heartbeat_period={_HEARTBEAT}")
    if family == "mysql":
        replica.greet(uuid=str(uuid.UUID(int=server_id)))
        replica.register(server_id)
        replica.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(gtids)), flags=0, server_id=server_id)
    else:
        replica.greet(family=family).ask(f"SET @slave_connect_state='{gtids}'")
        replica.register(server_id)
        replica.dump(flags=2, server_id=server_id)
    return replica


def reading(pipe: Connection, family: Family, port: int, gtids: str, accounts: Sequence[Account]) -> None:
    """Read live commits over TLS as a replica with each account, which has the transactions of ``gtids``.

    Answer each request with the times (``time.monotonic``) of the beats that arrived until now, by replica, seconds.
    """
    replicas = [
        _begin(family, port, gtids, account, _FIRST_SERVER_ID + number)
        for number, account in enumerate(accounts)
    ]
    pipe.send("reading")
    beats: list[list[float]] = [[] for _ in replicas]
    for replica, its in zip(replicas, beats, strict=True):
        threading.Thread(target=_read, args=(replica, its), daemon=True).start()
    serve(pipe, lambda: beats)


def _read(replica: Replica, beats: list[float]) -> None:
    connection = replica.connection._sock
    assert isinstance(connection, socket.socket)
    rest = b""
    with suppress(OSError):
        while data := connection.recv(_BUFFER):
            now, data = time.monotonic(), rest + data
            beats += [now] * data.count(BEAT)
            rest = data[1 - len(BEAT) :]


def committing(pipe: Connection, port: int, account: Account, rate: int) -> None:
    """Commit on a source at a steady rate, until the pipe closes."""
    for number in range(_CONNECTIONS):
        threading.Thread(
            target=_commit, args=(port, account, rate / _CONNECTIONS, number), daemon=True
        ).start()
    pipe.send("committing")
    serve(pipe, lambda: None)


def _commit(port: int, account: Account, rate: float, number: int) -> None:
    connection = pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=account.user,
        password=account.password,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )
    chance = random.Random(number)
    with connection.cursor() as cursor:
        for count in steadily(rate):
            (database,) = chance.choices(list(_SHARES), list(_SHARES.values()))
            insert = f"INSERT INTO {database}.t (a, body) VALUES ({count}, REPEAT('x', {chance.randint(80, 780)}));"
            cursor.execute(f"BEGIN; {insert} {insert} COMMIT")
            while cursor.nextset():
                pass
