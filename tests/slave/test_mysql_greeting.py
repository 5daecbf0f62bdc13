"""The test whether a MySQL server answers where a slave expects a master."""

from __future__ import annotations

import contextlib
import socket
import threading

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import ConnectionLost, NotAMaster
from dumpfilter.console.client import ScriptStatement, console_login, run_statements
from dumpfilter.slave.connection import explain_failure, mysql_version, version_in
from tests.slave.once import source_of


def packet(body: bytes, number: int = 0) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


@pytest.mark.parametrize(
    ("greeting", "version"),
    [
        (packet(b"\x0a8.4.3\0" + bytes(60)), "8.4.3"),
        (packet(b"\x0a5.5.5-10.11.6-MariaDB\0" + bytes(60)), "10.11.6-MariaDB"),
        (packet(b"\xff\x69\x04Host 'x' is blocked"), "of unknown version"),
        (packet(b"\x0a8.4.3\0" + bytes(60), number=1), None),
        (packet(b"\x098.4.3\0" + bytes(60)), None),
        (packet(b"\x0a8.4.3"), None),
        # The settings frame with which a server of HTTP/2 begins.
        (b"\x00\x00\x24\x04\x00\x00\x00\x00\x00" + bytes(36), None),
        (b"", None),
    ],
)
def test_first_packets(greeting: bytes, version: str | None) -> None:
    assert version_in(greeting) == version


@given(st.binary(max_size=200))
def test_any_bytes_are_told_apart(data: bytes) -> None:
    version = version_in(data)
    assert version is None or (data[3] == 0 and data[4] in (0x0A, 0xFF))


@given(st.binary(min_size=1, max_size=60).filter(lambda name: b"\0" not in name))
def test_a_greeting_may_come_in_pieces(name: bytes) -> None:
    whole = packet(b"\x0a" + name + b"\0" + bytes(40))
    answers = {version_in(whole[:n]) for n in range(len(whole) + 1)}
    assert answers == {None, version_in(whole)}


def test_a_server_that_says_nothing_and_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        assert mysql_version("127.0.0.1", server.getsockname()[1]) is None
        thread.join()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert mysql_version("127.0.0.1", port) is None


def test_a_console_client_at_a_masters_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def settings() -> None:
            connection, _ = server.accept()
            with connection:
                # The frame with which a server of HTTP/2 begins.
                connection.sendall(b"\0\0\x24\x04\0\0\0\0\0" + bytes(36))

        thread = threading.Thread(target=settings)
        thread.start()
        login = console_login("127.0.0.1", server.getsockname()[1], "root", "")
        with pytest.raises(ConnectionLost, match="no console answers here, but another protocol"):
            list(run_statements(login, [ScriptStatement("SELECT 1", 1)]))
        thread.join()


class Failed(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "Failed parsing HTTP/2"


def test_a_slave_at_a_mysql_server_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(packet(b"\x0a8.4.3\0" + bytes(60)))

        thread = threading.Thread(target=greet)
        thread.start()
        source = source_of("127.0.0.1", server.getsockname()[1], uuid="u")
        address = source.info.address
        with pytest.raises(
            NotAMaster, match=rf"{address}: this is a MySQL server \(8\.4\.3\), or a console"
        ) as told:
            explain_failure(source, Failed(), lambda: False)
        assert "`dumpfilter master --port` or `dumpfilter slave --serve-port`" in str(told.value)
        thread.join()


def test_a_server_that_waits_for_the_client_is_known_by_its_greeting() -> None:
    greeting = packet(b"\x0a8.4.3\0" + bytes(60))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as connection:
                connection.sendall(greeting)
                connection.settimeout(60)
                connection.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        assert mysql_version("127.0.0.1", server.getsockname()[1]) == "8.4.3"
        thread.join()


def test_a_server_that_sends_byte_by_byte_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"\x4a")
                connection.settimeout(60)
                with contextlib.suppress(ConnectionError):
                    connection.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        assert mysql_version("127.0.0.1", server.getsockname()[1]) is None
        thread.join()
