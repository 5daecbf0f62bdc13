"""The gRPC connection from a slave to its master. tests/slave/test_tls_trial_slow.py has those with TLS."""

from __future__ import annotations

import grpc
import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.connection import Source, Unreachable, open_channel
from tests.slave.once import source_of


def to(host: str, **options: object) -> Source:
    return source_of(host, 1, uuid="u", user="u", **options)


def test_a_password_does_not_travel_in_the_clear() -> None:
    with pytest.raises(OptionError, match=r"master 192\.0\.2\.1:1: the password of user 'u' .* SOURCE_SSL=1"):
        open_channel(to("192.0.2.1", password="secret"), lambda: False)


@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("127.0.0.1", {"password": "secret"}),
        ("localhost", {"password": "secret"}),
        ("192.0.2.1", {"password": "secret", "plain_password": True}),
        ("192.0.2.1", {"password": ""}),
    ],
)
def test_a_password_that_may_travel(host: str, options: dict[str, object]) -> None:
    with open_channel(to(host, **options), lambda: False) as channel:
        assert isinstance(channel, grpc.Channel)


@pytest.mark.parametrize("host", ["dns", "unix", "ipv4", "xds"])
def test_a_host_that_has_the_name_of_a_scheme(host: str) -> None:
    """The slave looked up the host 1, or opened a socket file of this name in the working directory."""
    with open_channel(to(host), lambda: False) as channel, pytest.raises(grpc.RpcError) as failed:
        channel.unary_unary("/a/b")(b"", timeout=60)
    assert f"address lookup failed for {host}:1" in failed.value.details()


@pytest.mark.parametrize("ssl", [False, True])
def test_a_port_that_does_not_exist(ssl: bool) -> None:
    """The slave connected to port 4464, the lowest 16 bits."""
    with pytest.raises(Unreachable, match=r"no port 70000: SOURCE_PORT is at most 65535"):
        open_channel(source_of("127.0.0.1", 70_000, ssl=ssl), lambda: False)
