"""The connection back to a replica, with servers that refuse, lie and never end.

Real servers: test_filters_slow.py.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.master.config import ConnectBack
from dumpfilter.master.replica_filters import MOST_BYTES, FilterUnreadable, read_own_filter
from dumpfilter.master.who import Peer
from tests.master.replicas.entries import PEER

PASSWORD = "back-secret"
PLUGINS = b"mysql_native_password\0"


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


CAPABILITIES = 0x000F_F7FF & ~0x800  # without TLS
GREETING = packet(
    0,
    b"\x0a9.7.0\0"
    + bytes(4)
    + b"a" * 8
    + b"\0"
    + (CAPABILITIES & 0xFFFF).to_bytes(2, "little")
    + b"\xff\2\0"
    + (CAPABILITIES >> 16).to_bytes(2, "little")
    + b"\x15"
    + bytes(10)
    + b"b" * 12
    + b"\0"
    + PLUGINS,
)
OK = b"\0\0\0\2\0\0\0"

Serve = Callable[[socket.socket], None]


@contextmanager
def rogue(serve: Serve) -> Iterator[int]:
    """Serve one client, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            client, _ = listener.accept()
            with client:
                try:
                    serve(client)
                except OSError:
                    return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture
def connect(tmp_path: Path) -> ConnectBack:
    (tmp_path / "password").write_text(PASSWORD)
    return ConnectBack(user="d", password_file=tmp_path / "password", tls=TlsMode.DISABLED, timeout=30)


def unreadable(connect: ConnectBack, peer: Peer = PEER) -> FilterUnreadable:
    with pytest.raises(FilterUnreadable) as caught:
        read_own_filter(connect, peer)
    return caught.value


def failure(connect: ConnectBack, serve: Serve) -> FilterUnreadable:
    with rogue(serve) as port:
        return unreadable(connect.model_copy(update={"port": port}))


def test_nobody_listens(connect: ConnectBack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = unreadable(connect, replace(PEER, port=port))
    assert error.momentary
    assert f"127.0.0.1:{port}" in str(error)
    assert "see connect in the [[replica]]" in str(error)


def test_nobody_listens_at_an_ipv6_address(connect: ConnectBack) -> None:
    error = unreadable(connect.model_copy(update={"host": "::1", "port": 1}))
    assert "the replica at [::1]:1: " in str(error)


def test_a_replica_without_a_port_needs_one_in_the_file(connect: ConnectBack) -> None:
    error = unreadable(connect, replace(PEER, port=0))
    assert not error.momentary
    assert "report_port" in str(error)


def test_tls_is_not_given_up(connect: ConnectBack) -> None:
    error = failure(
        connect.model_copy(update={"tls": TlsMode.REQUIRED}),
        lambda client: (client.sendall(GREETING), client.recv(999))[0],
    )
    assert "SSL is required" in str(error)


def test_a_server_that_stays_silent_costs_the_timeout(connect: ConnectBack) -> None:
    begun = time.monotonic()
    error = failure(connect.model_copy(update={"timeout": 0.2}), lambda client: client.recv(1) and None)
    assert error.momentary
    assert time.monotonic() - begun < 30


def test_a_server_that_sends_a_byte_now_and_then_costs_little_more(connect: ConnectBack) -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(GREETING)
        client.recv(9999)
        for byte in packet(2, bytes(600)):
            client.sendall(bytes([byte]))
            time.sleep(0.05)

    begun = time.monotonic()
    error = failure(connect.model_copy(update={"timeout": 0.5}), serve)
    assert error.momentary
    assert "in time" in str(error)
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
def test_the_password_is_never_sent_in_the_clear(connect: ConnectBack, plugin: bytes) -> None:
    received = bytearray()

    def serve(client: socket.socket) -> None:
        client.sendall(GREETING)
        received.extend(client.recv(9999))
        client.sendall(packet(2, b"\xfe" + plugin + b"\0"))
        while data := client.recv(9999):
            received.extend(data)

    error = failure(connect, serve)
    assert "in the clear" in str(error)
    assert PASSWORD.encode() not in received
    assert PASSWORD not in str(error)


def test_an_answer_without_end_is_cut(connect: ConnectBack) -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(GREETING)
        client.recv(9999)
        client.sendall(packet(2, OK))
        while b"SET " in client.recv(9999):
            client.sendall(packet(1, OK))
        column = packet(2, b"\3def\0\0\0\1x\0\x0c\x3f\0\1\0\0\0\xfd\0\0\0\0\0")
        client.sendall(packet(1, b"\1") + column + packet(3, b"\xfe\0\0\2\0"))
        row, number = b"\xfd" + (1 << 20).to_bytes(3, "little") + bytes(1 << 20), 4
        while True:
            client.sendall(packet(number % 256, row))
            number += 1

    assert f"more than {MOST_BYTES} bytes" in str(failure(connect, serve))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        packet(0, b"\x0a"),
        packet(0, bytes(100)),
        bytes(range(256)),
    ],
    ids=["empty", "short", "http", "no version", "zeros", "bytes"],
)
def test_what_is_no_server_is_an_error(connect: ConnectBack, data: bytes) -> None:
    assert "cannot read the filter" in str(failure(connect, lambda client: client.sendall(data)))


def test_a_password_file_that_is_gone_is_an_error(connect: ConnectBack, tmp_path: Path) -> None:
    gone = connect.model_copy(update={"password_file": tmp_path / "gone", "port": 1})
    assert "gone" in str(unreadable(gone)) or "No such file" in str(unreadable(gone))
