"""Hostile clients of the replication port: malformed packets, lies about lengths, floods, silence, slow readers."""

from __future__ import annotations

import gc
import random
import socket
import struct
import zlib
from collections.abc import Callable, Iterator

import pymysql
import pytest
from pymysql._auth import scramble_native_password

from dumpfilter.console import wire
from dumpfilter.console.connection import LARGE_STATEMENT
from dumpfilter.console.port import MAX_UNAUTHENTICATED, MOST_LARGE_STATEMENTS
from dumpfilter.console.wire import MAX_COMPRESSED_COMMAND
from dumpfilter.master.replicas.connection import MAX_GTID_REQUEST, MAX_STATEMENT
from tests.master.replicas.serving import (
    COM_BINLOG_DUMP,
    COM_BINLOG_DUMP_GTID,
    COM_REGISTER_SLAVE,
    MYSQL,
    PASSWORD,
    UUID,
    Replica,
    Serving,
    serving,
)

WaitFor = Callable[[Callable[[], object]], None]


@pytest.fixture(scope="module")
def mysql() -> Iterator[Serving]:
    with serving(MYSQL) as served:
        yield served


def number_of(replica: Replica) -> int:
    with pytest.raises(pymysql.err.MySQLError) as caught:
        replica.read()
    return int(caught.value.args[0])


@pytest.mark.parametrize(
    ("command", "data", "number"),
    [
        (COM_REGISTER_SLAVE, b"", 1835),
        (COM_REGISTER_SLAVE, b"\1\0\0\0\xff", 1835),
        (COM_BINLOG_DUMP, b"\4\0\0", 1835),
        (COM_BINLOG_DUMP, struct.pack("<IHI", 4, 0, 1) + b"x" * 4096, 1835),
        (COM_BINLOG_DUMP_GTID, b"\0" * 9, 1835),
        (COM_BINLOG_DUMP_GTID, struct.pack("<HII", 0, 1, 0xFFFFFFFF), 1835),
        (COM_BINLOG_DUMP_GTID, struct.pack("<HIIQI", 0, 1, 0, 4, 0xFFFFFFFF), 1835),
        (COM_BINLOG_DUMP_GTID, struct.pack("<HIIQIQ", 0, 1, 0, 4, 8, 1 << 48), 1773),
        (0x7F, b"", 1047),
    ],
)
def test_a_malformed_request_is_an_error_and_the_connection_stays(
    mysql: Serving, command: int, data: bytes, number: int
) -> None:
    with mysql.connect().greet() as replica:
        replica.command(command, data)
        assert number_of(replica) == number
        assert replica.ask("SELECT @@server_id")


def test_random_requests_never_break_the_port(mysql: Serving) -> None:
    chance = random.Random(15)
    replica = mysql.connect().greet()
    for _ in range(300):
        command = chance.choice([COM_REGISTER_SLAVE, COM_BINLOG_DUMP_GTID])
        try:
            replica.command(command, chance.randbytes(chance.randrange(60)))
            replica.read()
        except pymysql.err.MySQLError:
            continue
    with replica:
        assert replica.ask("SELECT @@server_id")


@pytest.mark.parametrize(("command", "most"), [(COM_BINLOG_DUMP_GTID, MAX_GTID_REQUEST), (3, MAX_STATEMENT)])
def test_a_long_command_is_refused_before_it_arrives(mysql: Serving, command: int, most: int) -> None:
    with mysql.connect() as replica:
        replica.connection._write_bytes(  # type: ignore[attr-defined]
            (most + 1).to_bytes(3, "little") + b"\0" + bytes([command])
        )
        replica.connection._next_seq_id = 1  # type: ignore[attr-defined]
        assert number_of(replica) == 1153


def _running(serving: Serving) -> int:
    """Return the number of clients whose statement is running."""
    return sum(client.running is not None for client in serving.replicas.clients.copy().values())


def test_statements_of_one_user_leave_threads_to_others(mysql: Serving, wait_for: WaitFor) -> None:
    large = mysql.replicas.large
    while large.acquire(blocking=False):
        pass
    slow = "SET @a = " + "1+" * LARGE_STATEMENT + "1"
    greedy = [mysql.connect() for _ in range(14)]
    try:
        for replica in greedy:
            replica.command(3, slow.encode())
        wait_for(lambda: _running(mysql) >= 4)
        with mysql.connect("shop") as other:
            assert other.ask("SELECT @@server_id")
            assert other.ask("SELECT 1") == [(1,)]
    finally:
        for replica in greedy:
            replica.connection._force_close()  # type: ignore[no-untyped-call]
        for _ in range(MOST_LARGE_STATEMENTS):
            large.release()


def test_a_wrong_sequence_number_ends_the_connection(mysql: Serving) -> None:
    with mysql.connect() as replica:
        replica.connection._write_bytes(b"\1\0\0\7\x0e")  # type: ignore[attr-defined]
        with pytest.raises(pymysql.err.OperationalError):
            replica.read()


def test_a_name_that_never_ends(mysql: Serving) -> None:
    with socket.create_connection(("127.0.0.1", mysql.port)) as client:
        client.recv(4096)
        client.sendall(b"\xff\xff\xff\1" + b"\0" * 100)
        answer = client.recv(4096)
    assert struct.unpack_from("<H", answer, 5)[0] == 1043


def test_false_lengths_of_connection_attributes(mysql: Serving) -> None:
    capabilities = 0x200 | 0x8000 | 0x80000 | 0x100000 | 0x200000
    head = struct.pack("<IIB23x", capabilities, 1 << 24, 45) + b"all\0\0caching_sha2_password\0"
    for attributes in (b"\xfe" + b"\xff" * 8, b"\5\5abcd", b"\xfd", b"\4\3abc"):
        with socket.create_connection(("127.0.0.1", mysql.port)) as client:
            client.recv(4096)
            packet = head + attributes
            client.sendall(len(packet).to_bytes(3, "little") + b"\1" + packet)
            answer = client.recv(4096)
            assert struct.unpack_from("<H", answer, 5)[0] == 1043


def compressed(port: int) -> socket.socket:
    """Log in with zlib compression, and return the connection."""
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    greeting = client.recv(4096)
    at = greeting.index(b"\0", 5) + 5
    nonce = greeting[at : at + 8] + greeting[at + 27 : at + 39]
    proof = scramble_native_password(PASSWORD.encode(), nonce)
    capabilities = 0x20 | 0x200 | 0x8000 | 0x80000
    packet = struct.pack("<IIB23x", capabilities, 1 << 24, 45) + b"all\0" + bytes([len(proof)]) + proof
    packet += b"mysql_native_password\0"
    client.sendall(len(packet).to_bytes(3, "little") + b"\1" + packet)
    assert client.recv(4096)[4] == 0
    return client


def test_a_compressed_command(mysql: Serving) -> None:
    with compressed(mysql.port) as client:
        content = zlib.compress(b"\1\0\0\0\x0e")
        client.sendall(len(content).to_bytes(3, "little") + b"\0" + b"\5\0\0" + content)
        answer = client.recv(4096)
        # A short answer is not compressed.
        assert answer[3:7] == b"\1\0\0\0"
        assert answer[7 + 4] == 0


@pytest.mark.parametrize("claimed", [1 << 20, MAX_COMPRESSED_COMMAND, 0xFFFFFF])
def test_a_bomb_in_a_compressed_packet(mysql: Serving, claimed: int) -> None:
    bomb = zlib.compress(bytes(64 << 20))
    with compressed(mysql.port) as client:
        client.sendall(len(bomb).to_bytes(3, "little") + b"\0" + claimed.to_bytes(3, "little") + bomb)
        answer = client.recv(4096)
        # The connection ends, for a too long packet with error 1153.
        assert not answer or struct.unpack_from("<H", answer, 7 + 5)[0] == 1153


def test_silent_clients_lock_nobody_out(mysql: Serving) -> None:
    silent = [socket.create_connection(("127.0.0.1", mysql.port)) for _ in range(MAX_UNAUTHENTICATED + 20)]
    try:
        with mysql.connect() as replica:
            assert replica.ask("SELECT @@server_id")
    finally:
        for client in silent:
            client.close()


def test_many_dumps_leave_nothing_behind(mysql: Serving, wait_for: WaitFor) -> None:
    connections = mysql.replicas
    for number in range(8):
        replica = mysql.connect().greet()
        replica.dump(flags=0, server_id=number % 3)
        replica.event()
        replica.connection._force_close()  # type: ignore[no-untyped-call]
    wait_for(lambda: not connections.clients)
    gc.collect()
    register = mysql.server.service.register
    assert not [slave for slave in register.all() if slave.dump or not slave.peer.server_id]


def test_a_slow_reader_takes_no_memory_and_is_cut(
    mysql: Serving, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "NET_WRITE_SECONDS", 0.3)
    clients = []
    for number in range(3):
        replica = mysql.connect().greet(uuid=UUID[:-1] + str(number))
        replica.connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # type: ignore[attr-defined]
        # A replica that asks again and again, and reads nothing.
        packed = struct.pack("<IHI", 4, 1, number + 1) + b"bin.000001"
        command = (len(packed) + 1).to_bytes(3, "little") + b"\0" + bytes([COM_BINLOG_DUMP]) + packed
        replica.connection._write_bytes(command * 200)  # type: ignore[attr-defined]
        clients.append(replica)
    wait_for(lambda: not mysql.replicas.clients)
    for replica in clients:
        replica.connection._force_close()  # type: ignore[no-untyped-call]
