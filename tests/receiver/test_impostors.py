"""A server in the source's place, which wants the password: it gets a proof of it, or nothing."""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError, SourceRefused, TlsError
from dumpfilter.console.auth import RsaExchange
from dumpfilter.receiver.login import find_credentials
from dumpfilter.receiver.reception import Follower
from dumpfilter.receiver.store import BinlogDirectory
from dumpfilter.receiver.url import parse_source_url
from tests.receiver.fake_source import FakeSource, greeting, packet, read_packet, small_set

PASSWORD = "Xq7secret"
NONCE = b"saltsaltsaltsaltsalt"
FULL = b"\x01\x04"
"""The message with which caching_sha2_password asks for the password itself (``perform_full_authentication``)."""
ASKS_FOR_KEY = (b"\x01", b"\x02")
"""The requests for a public key, of sha256_password and of caching_sha2_password."""


class Impostor:
    """The login of a server that offers its own key, and writes down what it hears."""

    def __init__(self, plugin: str, *, switches: bool, offers_unasked: bool = False) -> None:
        self.rsa = RsaExchange()
        self._plugin = plugin
        self._switches = switches
        self._offers_unasked = offers_unasked
        self.heard: list[bytes] = []
        self.ended = threading.Event()

    def __call__(self, connection: socket.socket) -> None:
        """Play the login."""
        try:
            first = "mysql_native_password" if self._switches else self._plugin
            connection.sendall(packet(greeting("9.7.0", first), 0))
            number = 2 + 2 * self._switches
            self.heard.append(read_packet(connection))
            if self._switches:
                connection.sendall(packet(b"\xfe" + self._plugin.encode() + b"\0" + NONCE + b"\0", 2))
                self.heard.append(read_packet(connection))
            if self._plugin == "caching_sha2_password":
                connection.sendall(packet(FULL, number))
                self.heard.append(read_packet(connection))
                number += 2
            # In its first message, PyMySQL always asks for the key of sha256_password.
            asks = self.heard[-1] in ASKS_FOR_KEY or b"\x01\x01sha256_password" in self.heard[-1]
            if self._offers_unasked or asks:
                connection.sendall(packet(b"\x01" + self.rsa.public_key(), number))
                self.heard.append(read_packet(connection))
        except EOFError:
            pass
        finally:
            self.ended.set()

    @property
    def password(self) -> bytes | None:
        """The password, if the impostor can decrypt the last message."""
        return self.rsa.decrypt(self.heard[-1], NONCE).rstrip(b"\0") or None


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSource]:
    monkeypatch.setenv("DUMPFILTER_SOURCE_PASSWORD", PASSWORD)
    made = FakeSource(small_set())
    yield made
    made.close()


def receive(source: FakeSource, directory: Path, options: str = "") -> None:
    store = BinlogDirectory(directory / "store")
    try:
        Follower(parse_source_url(source.url + options), store).run()
    finally:
        store.close()


KEYS = pytest.mark.parametrize(
    ("plugin", "switches", "unasked"),
    [
        ("caching_sha2_password", False, False),
        ("caching_sha2_password", True, True),
        ("sha256_password", False, True),
        ("sha256_password", True, False),
    ],
)


@KEYS
def test_nobody_gets_the_password_for_a_key(
    source: FakeSource, tmp_path: Path, plugin: str, switches: bool, unasked: bool
) -> None:
    source.login = impostor = Impostor(plugin, switches=switches, offers_unasked=unasked)
    with pytest.raises(
        TlsError, match=rf"'{plugin}' .*requires secure connection.*get-source-public-key=yes"
    ) as refused:
        receive(source, tmp_path, "?tls=disabled")
    assert impostor.ended.wait(240)
    assert impostor.password is None
    assert not any(PASSWORD.encode() in each for each in impostor.heard)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("plugin", "switches"), [("caching_sha2_password", False), ("sha256_password", True)]
)
def test_a_key_is_used_if_the_address_says_so(
    source: FakeSource, tmp_path: Path, plugin: str, switches: bool
) -> None:
    source.login = impostor = Impostor(plugin, switches=switches)
    with pytest.raises(Exception):  # noqa: B017  # the impostor ends the connection in its own way
        receive(source, tmp_path, "?tls=disabled&get-source-public-key=yes")
    assert impostor.password == PASSWORD.encode()


@KEYS
def test_a_key_file_is_the_only_key(
    source: FakeSource, tmp_path: Path, plugin: str, switches: bool, unasked: bool
) -> None:
    source.login = impostor = Impostor(plugin, switches=switches, offers_unasked=unasked)
    right = RsaExchange()
    (tmp_path / "key.pem").write_bytes(right.public_key())
    with pytest.raises(Exception):  # noqa: B017
        receive(source, tmp_path, f"?tls=disabled&source-public-key={tmp_path / 'key.pem'}")
    assert impostor.ended.wait(240)
    assert impostor.password is None
    sent = [right.decrypt(each, NONCE) for each in impostor.heard]
    assert PASSWORD.encode() + b"\0" in sent


def test_the_proof_of_a_password_is_what_an_impostor_gets(source: FakeSource, tmp_path: Path) -> None:
    source.login = impostor = Impostor("caching_sha2_password", switches=True)
    with pytest.raises(TlsError):
        receive(source, tmp_path, "?tls=disabled")
    once = hashlib.sha256(PASSWORD.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + NONCE).digest()
    assert impostor.heard[1] == bytes(a ^ b for a, b in zip(once, cycle(mask), strict=False))


@pytest.mark.parametrize("plugin", ["parsec", "client_ed25519"])
def test_an_unknown_plugin_is_named(
    source: FakeSource, tmp_path: Path, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    source.login = Impostor(plugin, switches=True)
    with pytest.raises(SourceRefused, match=rf"the account's plugin {plugin} .*mysql_native_password"):
        receive(source, tmp_path)


@pytest.mark.parametrize("content", [None, b"no key"])
def test_a_key_file_that_cannot_be_used_is_named(
    source: FakeSource, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(OptionError, match=r"source-public-key=.*key\.pem: "):
        receive(source, tmp_path, f"?source-public-key={file}")


def test_an_option_file_gives_the_key_as_for_mysqls_programs(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    (tmp_path / "k.pem").write_bytes(RsaExchange().public_key())
    file.write_text(f"[client]\nget-server-public-key\nserver-public-key-path={tmp_path / 'k.pem'}\n")
    tls = find_credentials(parse_source_url(f"mysql://u@h/?defaults-file={file}"))
    assert (tls.asks_for_key, tls.public_key) == (True, (tmp_path / "k.pem").read_bytes())
    file.write_text("[client]\n")
    tls = find_credentials(parse_source_url(f"mysql://u@h/?defaults-file={file}"))
    assert (tls.asks_for_key, tls.public_key) == (False, b"")
    with pytest.raises(OptionError, match="get-source-public-key=maybe: input should be a valid boolean"):
        parse_source_url("mysql://u@h/?get-source-public-key=maybe")


@pytest.mark.parametrize(
    ("options", "gets"),
    [
        ("?tls=disabled", "a proof of the password, from which weak passwords can be guessed"),
        ("?tls=disabled&get-source-public-key=yes", "the password"),
        ("", "the password"),
    ],
)
def test_the_log_says_at_the_start_what_an_impostor_gets(
    source: FakeSource, tmp_path: Path, options: str, gets: str
) -> None:
    with capture_logs() as logs:
        receive(source, tmp_path, options)
    ((reason,),) = [[line["reason"]] for line in logs if line["event"] == "source not verified"]
    assert reason == f"whoever answers in its place gets {gets}, and can send any binlog"


def test_a_verified_source_has_no_warning(source: FakeSource, tmp_path: Path) -> None:
    with capture_logs() as logs, pytest.raises(TlsError):
        receive(source, tmp_path, "?tls=verify-identity")
    assert not any(line["event"] == "source not verified" for line in logs)
