"""The reasons why a server cannot listen on an address."""

from __future__ import annotations

import errno
import socket

import pytest

from dumpfilter.base.security import listening
from dumpfilter.base.security.listening import PORT_TAKEN, reason_not_to_listen


def why_not(host: str, port: int) -> str | None:
    error = listening.why_not(host, port)
    return None if error is None else reason_not_to_listen(error)


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert why_not("127.0.0.1", other.getsockname()[1]) == PORT_TAKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "[127.0.0.1]", "localhost"])
def test_an_address_that_can_be_used(host: str) -> None:
    assert why_not(host, 0) is None


def test_a_port_whose_server_has_just_ended_can_be_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""
    assert why_not("127.0.0.1", port) is None


def test_another_machines_address() -> None:
    # 192.0.2.0/24 is kept for documentation (RFC 5737), so no machine has such an address.
    assert why_not("192.0.2.1", 0) == "the address is not this machine's"


def test_a_name_of_which_this_machine_has_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name localhost often has the address ::1, also where IPv6 is off. gRPC then listens on 127.0.0.1 alone."""
    resolve = socket.getaddrinfo

    def both(host: str, port: int, **kinds: int) -> list[object]:
        return [found for each in ("192.0.2.1", "127.0.0.1") for found in resolve(each, port, **kinds)]

    with monkeypatch.context() as changed, socket.create_server(("127.0.0.1", 0)) as other:
        changed.setattr(socket, "getaddrinfo", both)
        assert why_not("both", 0) is None
        assert why_not("both", other.getsockname()[1]) == PORT_TAKEN


def test_a_name_without_an_address() -> None:
    assert "ame" in str(why_not("no-such-host.invalid", 0))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EACCES, "Permission denied"), "ports below 1024 need root"),
        (OSError(errno.EADDRINUSE, "bind() of 1.2.3.4 at file.c:83"), PORT_TAKEN),
        (OSError(errno.EMFILE, "Too many open files (while …)"), "Too many open files"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (OSError("no number"), "no number"),
    ],
)
def test_reasons(error: OSError, reason: str) -> None:
    assert reason_not_to_listen(error) == reason
