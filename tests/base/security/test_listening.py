"""The addresses on which a server can listen, and the reasons why it cannot on others."""

from __future__ import annotations

import socket

import pytest

from dumpfilter.base.errors import OptionError, PortTaken
from dumpfilter.base.security.listening import PORT_TAKEN, listening_socket


def listen(host: str, port: int) -> None:
    listening_socket("a server cannot listen on", host, port).close()


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortTaken, match=PORT_TAKEN):
        listen("127.0.0.1", other.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "[127.0.0.1]", "localhost", ""])
def test_an_address_that_can_be_used(host: str) -> None:
    listen(host, 0)


def test_a_port_whose_server_has_just_ended_can_be_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""
    listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        # 192.0.2.0/24 is kept for documentation (RFC 5737), so no machine has such an address.
        ("192.0.2.1", 0, "192.0.2.1:0: the address is not this machine's; choose another port or address"),
        ("127.0.0.1", 70_000, "port must be 0-65535"),
        ("no-such-host.invalid", 0, "known; choose"),
    ],
)
def test_an_address_that_cannot_be_used(host: str, port: int, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        listen(host, port)
