"""Addresses of servers: what they say, and that no password gets in or out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.receiver.url import is_source_url, parse_source_url


def test_an_address_says_what_it_says() -> None:
    url = parse_source_url(
        "mysql://re%40pl@db1:3307/?tls=verify-ca&ca=/c.pem&server-id=77&heartbeat=2.5&from=b.000002&to=b.000003"
    )
    assert (url.user, url.host, url.port, url.server_id) == ("re@pl", "db1", 3307, 77)
    assert (url.heartbeat, url.first, url.last) == (2.5, "b.000002", "b.000003")
    assert (url.tls, url.ca) == (TlsMode.VERIFY_CA, Path("/c.pem"))


@pytest.mark.parametrize(
    ("text", "host", "port", "local"),
    [
        ("mysql://db1", "db1", 3306, False),
        ("MariaDB://[::1]:1/", "::1", 1, True),
        ("mysql://127.0.0.2/", "127.0.0.2", 3306, True),
        ("mysql:///?socket=/run/s.sock", "localhost", 3306, True),
    ],
)
def test_hosts_and_ports(text: str, host: str, port: int, local: bool) -> None:
    url = parse_source_url(text)
    assert (url.host, url.port, url.is_local) == (host, port, local)
    assert parse_source_url(str(url)).host == host


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mysql://u@/", "host is missing"),
        ("mysql://u@h:0/", "port"),
        ("mysql://u@h:99999/", "port"),
        ("mysql://u@h:x/", "port"),
        ("mysql://u@[::1/", r"no address of a server, such as mysql://repl@\[::1\]:3306/"),
        ("mysql://u@[h]/", "no address of a server"),
        ("mysql://u@h℀/", "no address of a server"),
        ("mysql://u@a..b/", "host is no name"),
        (f"mysql://u@{'a' * 300}/", "host is no name"),
        ("mysql://u@h/?ca=%00", "NUL byte"),
        ("mysql://u%00@h/", "NUL byte"),
        ("mysql://u@h/bin.000001", "from=bin.000001"),
        ("mysql://u@h/?tsl=required", "unknown option 'tsl'"),
        (
            "mysql://u@h/?tls=yes",
            "tls=yes: input should be 'disabled', 'preferred', 'required', 'verify-ca' or",
        ),
        ("mysql://u@h/?ca=a&ca=b", "twice"),
        ("mysql://u@h/?ca=", "needs a value"),
        ("mysql://u@h/?cert=a", "need each other"),
        ("mysql://u@h/?tls=required&ca=a", "has no use"),
        ("mysql://u@h/?tls=disabled&ca=a", "contradicts"),
        ("mysql://u@h/?server-id=-1", "server-id"),
        ("mysql://u@h/?server-id=4294967296", "server-id"),
        ("mysql://u@h/?heartbeat=nan", "heartbeat"),
        ("mysql://u@h/#x", "%23"),
        ("http://u@h/", "begins with mysql://"),
    ],
)
def test_a_wrong_address_is_an_error_with_its_cure(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        parse_source_url(text)


@pytest.mark.parametrize(
    "text",
    ["mysql://u:Xq7secret@h/", "mysql://u@h/?password=Xq7secret", "mysql://u:Xq7secret@h:x/", "mysql://:Xq7secret@h",
     "mysql://u:Xq7@secret@h/?tls=yes", "mysql://u:Xq7[secret@h/"],
)  # fmt: skip
def test_a_password_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_source_url(text)
    assert "Xq7" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "password-file" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("mysql://h", True),
        ("MYSQL://h", True),
        ("s3a://b/k", False),
        ("bin.index", False),
        ("mysql:/x", False),
    ],
)
def test_paths_are_no_addresses(text: str, answer: bool) -> None:
    assert is_source_url(text) is answer
