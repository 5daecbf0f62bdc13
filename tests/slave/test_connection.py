"""The gRPC connection from a slave to its master. tests/slave/test_tls_trial_slow.py has those with TLS."""

from __future__ import annotations

import grpc
import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.connection import Source, open_channel
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
