"""Child processes that commit on a live source, read it as replicas do, or receive dumps as a slave's I/O thread."""

from __future__ import annotations

import random
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from bench._common import OUT, steadily
from dumpfilter.base.helper import serve
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.filter.filter import Filter
from dumpfilter.slave.connection import Source
from dumpfilter.slave.io_thread import IoThread
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.state import SourceInfo
from dumpfilter.slave.threads import ChannelCounters, RelayEnd
from dumpfilter.testbed.servers.sql import Account
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


def reading(pipe: Connection, family: Family, port: int, gtids: str, accounts: Sequence[Account]) -> None:
    """Read live commits over TLS as a replica with each account, which has the transactions of ``gtids``.

    Answer each request with the times (``time.monotonic``) of the beats that arrived until now, by replica, seconds.
    """
    beats: list[list[float]] = []
    for server_id, account in enumerate(accounts, _FIRST_SERVER_ID):
        replica = Replica(port, account.user, account.password, ssl={"check_hostname": False})
        replica.ask(f"SET @master_heartbeat_period={_HEARTBEAT}, @source_heartbeat_period={_HEARTBEAT}")
        if family == "mysql":
            replica.greet(uuid=str(uuid.UUID(int=server_id))).register(server_id)
            gtid_set = encode_previous_gtids(MysqlGtidSet.parse(gtids))
            replica.dump_gtid(gtid_set, flags=0, server_id=server_id)
        else:
            replica.greet(family=family).ask(f"SET @slave_connect_state='{gtids}'")
            replica.register(server_id)
            replica.dump(flags=2, server_id=server_id)
        beats.append([])
        threading.Thread(target=_read, args=(replica, beats[-1]), daemon=True).start()
    pipe.send("reading")
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
    """Commit on a source at a steady rate, until the pipe closes. Answer each request with the commits until now."""
    commits = [0] * _CONNECTIONS
    for number in range(_CONNECTIONS):
        share = (port, account, rate / _CONNECTIONS, number, commits)
        threading.Thread(target=_commit, args=share, daemon=True).start()
    serve(pipe, lambda: sum(commits))


def _commit(port: int, account: Account, rate: float, number: int, commits: list[int]) -> None:
    login = {"user": account.user, "password": account.password}
    connection = pymysql.connect(host="127.0.0.1", port=port, client_flag=CLIENT.MULTI_STATEMENTS, **login)
    chance = random.Random(number)
    with connection.cursor() as cursor:
        for value in steadily(rate):
            (database,) = chance.choices(list(_SHARES), list(_SHARES.values()))
            insert = f"INSERT INTO {database}.t (a, body) VALUES ({value}, REPEAT('x', {chance.randint(80, 780)}));"
            cursor.execute(f"BEGIN; {insert} {insert} COMMIT")
            while cursor.nextset():
                pass
            commits[number] += 1


class _TimedRelayLog(RelayLog):
    """A relay log that notes the time of each beat."""

    beats: list[float]

    def append(self, data: bytes | memoryview) -> int:
        end = super().append(data)
        self.beats += [time.monotonic()] * bytes(data).count(BEAT)
        return end


def following(pipe: Connection, address: str, directory: Path, rules: Sequence[str], server_id: int) -> None:
    """Follow a master. Answer each request with the times (``time.monotonic``) of the beats until now, seconds.

    The times are a list in a list, as :func:`reading` answers for several replicas.
    """
    directory.mkdir()
    log = _TimedRelayLog(directory, synced=False)
    log.beats = []
    thread = _io_thread(log, address, rules, server_id=server_id)
    threading.Thread(target=thread.run, daemon=True).start()
    serve(pipe, lambda: [log.beats])


def receive(address: str, rules: Sequence[str], sync: int) -> tuple[float, int]:
    """Receive a dump into a new relay log, and return the seconds and the bytes received."""
    with tempfile.TemporaryDirectory(dir=OUT) as directory:
        log = RelayLog(Path(directory), synced=bool(sync))
        thread = _io_thread(log, address, rules, sync=sync, server_id=901, once=True)
        start = time.perf_counter()
        thread.run()
        return time.perf_counter() - start, thread.counters.received["bytes_received"]


def _io_thread(
    log: RelayLog, address: str, rules: Sequence[str], *, sync: int = 0, **options: Any
) -> IoThread:
    host, _, port = address.rpartition(":")
    source = Source(
        SourceInfo(host=host, port=int(port)),
        SlaveOptions(relay_dir=log.directory, **options),
        str(uuid.uuid4()),
        filter=filter_to_proto(Filter.from_options([f"--{rule}" for rule in rules])),
    )
    owner: Any = SimpleNamespace(
        receiver=Receiver(log, RelayEnd(), sync_every=sync),
        counters=ChannelCounters(log.directory),
        connected=lambda answer: None,
        ended=lambda thread: None,
    )
    return IoThread(owner, source)
