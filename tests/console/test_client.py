"""The client of a console: how it protects the password on its way, and where it divides a script."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dumpfilter.base.errors import ConnectionLost, OptionError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.base.security.passwords import Sha2Crypt, StoredPassword
from dumpfilter.console.client import ScriptStatement, console_login, run_statements, script_statements
from dumpfilter.console.connection import ConsoleServer
from tests.console.small_executor import SmallExecutor
from tests.receiver.fake_source import FakeSource, greeting, packet, result, small_set
from tests.receiver.test_impostors import Impostor

PASSWORD = "Xq7secret"
ONE = ScriptStatement("SELECT 1", 1)


def test_an_impostor_with_a_key_gets_the_password_of_no_other_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = FakeSource(small_set())
    port = int(source.url.rpartition(":")[2].strip("/"))
    try:
        source.login = impostor = Impostor("caching_sha2_password", switches=True)
        monkeypatch.setattr("dumpfilter.console.client.is_loopback", lambda host: False)
        login = console_login("127.0.0.1", port, "root", PASSWORD)
        with pytest.raises(ConnectionLost, match="requires secure connection"):
            list(run_statements(login, [ScriptStatement("SELECT 1", 1)]))
        assert impostor.ended.wait(240)
        assert impostor.password is None
    finally:
        source.close()


def test_a_console_on_this_machine_gets_the_password() -> None:
    users = {"root": StoredPassword(crypt=Sha2Crypt.of(PASSWORD))}
    executor = SmallExecutor()
    with ConsoleServer(executor, users=users).running() as server:
        login = console_login("127.0.0.1", server.port, "root", PASSWORD)
        (found,) = run_statements(login, [ScriptStatement("SELECT 1", 1)])
        assert list(found.rows) == [(1,)]


def test_an_ipv6_address_has_brackets_in_errors() -> None:
    with pytest.raises(ConnectionLost, match=r"^\[::1\]:1: "):
        list(run_statements(console_login("::1", 1, "root", PASSWORD), [ONE]))


def test_the_option_of_a_ca_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    login = console_login("127.0.0.1", 1, "root", PASSWORD, tmp_path / "none.pem")
    assert login.tls.mode is TlsMode.VERIFY_IDENTITY
    with pytest.raises(OptionError, match=r"--tls-ca=.*none\.pem: cannot be read"):
        list(run_statements(login, [ScriptStatement("SELECT 1", 1)]))


def test_a_statement_may_take_longer_than_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dumpfilter.console.client._CONNECT_SECONDS", 0.3)
    source = FakeSource(small_set())

    def slow() -> Iterator[bytes]:
        answer = result(["waited"], [("0",)])
        for piece in (answer[:10], answer[10:]):
            time.sleep(1)
            yield piece

    source.answers["SELECT WAIT"] = slow
    try:
        login = console_login("127.0.0.1", source.port, "root", PASSWORD)
        (found,) = run_statements(login, [ScriptStatement("SELECT WAIT", 1)])
        assert [tuple(map(str, row)) for row in found.rows] == [("0",)]
    finally:
        source.close()


def silence(connection: socket.socket) -> None:
    connection.recv(1)


def silence_after_greeting(connection: socket.socket) -> None:
    connection.sendall(packet(greeting("8.0.0"), 0))
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("login", [silence, silence_after_greeting])
def test_a_console_that_does_not_answer_the_login_is_lost(
    login: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dumpfilter.console.client._CONNECT_SECONDS", 0.3)
    source = FakeSource(small_set())
    source.login = login
    try:
        with pytest.raises(ConnectionLost, match="timed out"):
            list(run_statements(console_login("127.0.0.1", source.port, "root", ""), [ONE]))
    finally:
        source.close()


def test_a_console_that_does_not_answer_a_statement_in_time_is_lost() -> None:
    executor = SmallExecutor()
    with ConsoleServer(executor, users={"root": PASSWORD}).running() as server:
        login = console_login("127.0.0.1", server.port, "root", PASSWORD)
        with pytest.raises(ConnectionLost, match="timed out"):
            list(run_statements(login, [ScriptStatement("STOP REPLICA", 1)], seconds=1))
        executor.release.set()
        assert list(run_statements(login, [ONE], seconds=30))


@pytest.mark.parametrize("payload", [b"", b"\x0a", b"\x0asome\0", b"\x0a8.0.0\0" + bytes(9)])
def test_malformed_packets_are_no_console(payload: bytes) -> None:
    source = FakeSource(small_set())
    source.login = lambda connection: connection.sendall(packet(payload, 0))
    try:
        with pytest.raises(ConnectionLost):
            list(run_statements(console_login("127.0.0.1", source.port, "root", ""), [ONE]))
    finally:
        source.close()


def test_statements_of_a_script() -> None:
    script = "/*!40000 A */ x;;\n#c;\nselect '\\';', `a;``b`\\gB\\G c /* ; */ d\n;'unclosed;"
    assert [(s.text, s.line, s.vertical) for s in script_statements(script)] == [
        ("/*!40000 A */ x", 1, False),
        ("select '\\';', `a;``b`", 3, False),
        ("B", 3, True),
        ("c /* ; */ d", 3, False),
        ("'unclosed;", 4, False),
    ]


def test_the_lines_of_a_long_script_are_counted_once() -> None:
    searched = []

    class Script(str):
        def count(self, part: str, *bounds: int) -> int:  # type: ignore[override]
            begin, end = bounds
            searched.append(end - begin)
            return super().count(part, begin, end)

    script = Script("SELECT 1;\n" * 100)
    assert [statement.line for statement in script_statements(script)] == list(range(1, 101))
    assert sum(searched) <= len(script)
