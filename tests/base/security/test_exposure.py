"""The rule about addresses that other machines can reach."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.security.listening import Endpoint, Exposed, is_loopback

NO_TLS = {"without TLS": "give a certificate"}
NO_USER = {"without a login": "name users"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.9.8.7", "::1", "[::1]", "localhost", "::ffff:127.0.0.1", "127.1"],
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "0.0.0.0", "::", "[::]", "0", "10.0.0.1", "::ffff:10.0.0.1", "no.such.host.invalid"),
        *("ipv4:127.0.0.1", "dns:///localhost", "vsock:1", "127.0.0.1,10.0.0.1", "a\0b", "x" * 300, "*"),
    ],
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("addresses", "local"), [(["127.0.0.1", "::1"], True), (["127.0.0.1", "10.0.0.1"], False)]
)
def test_a_name_is_loopback_if_all_its_addresses_are(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], local: bool
) -> None:
    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert is_loopback("db.example") is local


def test_every_lack_is_named_with_its_cure() -> None:
    with pytest.raises(Exposed) as caught:
        Endpoint("0.0.0.0").check_protection("the master", "--host", NO_TLS | NO_USER)
    assert str(caught.value) == (
        "--host=0.0.0.0: the master would serve other machines without TLS and without a login: give a certificate; "
        "name users; or listen on 127.0.0.1, or accept the danger with --insecure"
    )


def test_insecure_warns() -> None:
    with capture_logs() as logged:
        Endpoint("0.0.0.0", insecure=True).check_protection("the master", "--host", NO_TLS)
    (line,) = logged
    assert line["reason"].startswith("INSECURE: the master listens on 0.0.0.0 without TLS, ")


@pytest.mark.parametrize(("host", "lacks"), [("127.0.0.1", NO_TLS), ("0.0.0.0", {})])
@pytest.mark.parametrize("insecure", [True, False])
def test_nothing_to_say(host: str, lacks: dict[str, str], insecure: bool) -> None:
    with capture_logs() as logged:
        Endpoint(host, insecure=insecure).check_protection("the master", "--host", lacks)
    assert not logged
