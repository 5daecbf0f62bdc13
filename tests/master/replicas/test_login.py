"""The logins of replicas: passwords, TLS, the exchange by RSA, and the greeting of each family."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql._auth import scramble_caching_sha2, scramble_native_password

from dumpfilter.base.security.passwords import CHECKS_AT_ONCE, Sha2Crypt, StoredPassword, native_hash
from dumpfilter.master.config import MasterConfig
from tests.master.replicas.serving import MARIADB, MYSQL, PASSWORD, Replica, Serving, entry, serving

WaitFor = Callable[[Callable[[], object]], None]


@pytest.fixture(scope="module")
def mysql() -> Iterator[Serving]:
    sha2 = StoredPassword.parse(str(Sha2Crypt.of(PASSWORD)))
    native = StoredPassword.parse(native_hash(PASSWORD))
    entries = [entry("all", []), entry("sha2", [], sha2), entry("native", [], native)]
    with serving(MYSQL, entries) as served:
        yield served


def greeting(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        return client.recv(4096)


def number_of(port: int, user: str, password: str) -> int:
    with pytest.raises(pymysql.err.OperationalError) as caught:
        Replica(port, user, password)
    return int(caught.value.args[0])


def test_mysql_is_greeted_with_caching_sha2(mysql: Serving) -> None:
    said = greeting(mysql.port)
    assert said[5:].startswith(b"9.7.")
    assert b"caching_sha2_password" in said


def test_mariadb_is_greeted_with_native_password() -> None:
    with serving(MARIADB) as served:
        said = greeting(served.port)
        assert said[5:].startswith(b"5.5.5-10.")
        assert b"mysql_native_password" in said
        with served.connect() as replica:
            assert "MariaDB" in str(replica.ask("SELECT VERSION()"))


@pytest.mark.parametrize("user", ["all", "native", "sha2"])
@pytest.mark.parametrize("tls", [False, True])
def test_a_right_password(mysql: Serving, user: str, tls: bool) -> None:
    options = {"ssl": {"check_hostname": False}} if tls else {"ssl_disabled": True}
    with mysql.connect(user, **options) as replica:
        assert replica.ask("SELECT @@GLOBAL.SERVER_ID")


def test_a_hash_alone_needs_the_password_once() -> None:
    """Without TLS the password is encrypted with the port's RSA key; later logins need only the digest."""
    entries = [entry("sha2", [], StoredPassword.parse(str(Sha2Crypt.of(PASSWORD))))]
    with serving(MYSQL, entries) as served:
        assert number_of(served.port, "sha2", "wrong") == 1045
        for _ in range(2):
            with served.connect("sha2", ssl_disabled=True) as replica:
                assert replica.ask("SELECT @@server_id")


def test_few_passwords_are_hashed_at_once(mysql: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing holds the interpreter's lock, and a stranger may name another user each time."""
    running, most, lock = 0, 0, threading.Lock()

    def matches(crypt: Sha2Crypt, password: str) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return False

    monkeypatch.setattr(Sha2Crypt, "matches", matches)
    guesses = [threading.Thread(target=number_of, args=(mysql.port, "sha2", "wrong")) for _ in range(2)]
    guesses += [
        threading.Thread(target=number_of, args=(mysql.port, f"nobody{n}", "wrong")) for n in range(30)
    ]
    for guess in guesses:
        guess.start()
    for guess in guesses:
        guess.join()
    assert most == CHECKS_AT_ONCE


@pytest.mark.parametrize(
    ("user", "password"), [("all", "wrong"), ("all", ""), ("nobody", PASSWORD), ("", "")]
)
def test_a_wrong_password_is_error_1045(mysql: Serving, user: str, password: str) -> None:
    assert number_of(mysql.port, user, password) == 1045


def test_a_password_that_changes_during_the_login_ends_the_connection(wait_for: WaitFor) -> None:
    with serving(MYSQL) as served:
        opened = served.replicas.executor_of

        def change_and_open(*arguments: Any) -> Any:
            # The password has been checked, and the client has no session yet.
            served.replicas.executor_of = opened  # type: ignore[method-assign]
            config = MasterConfig().model_copy(
                update={"replicas": (entry("all", [], StoredPassword.plain("new")),)}
            )
            changing = threading.Thread(target=served.replicas.change_users, args=(config.replica_users, {}))
            changing.start()
            changing.join()
            return opened(*arguments)

        served.replicas.executor_of = change_and_open  # type: ignore[method-assign]
        with contextlib.suppress(pymysql.err.OperationalError), served.connect():
            wait_for(lambda: not served.replicas.clients)
        assert served.replicas.executor_of == opened


def test_a_changed_password_ends_the_connection(wait_for: WaitFor) -> None:
    with serving(MYSQL) as served, served.connect() as old, served.connect("shop") as other:
        tables = entry("all", [], StoredPassword.plain("new")), entry("shop", [])
        config = MasterConfig().model_copy(update={"replicas": tables})
        served.server.service.reconfigure(config)
        served.replicas.change_users(config.replica_users, {})
        wait_for(lambda: len(served.replicas.clients) == 1)
        with pytest.raises(pymysql.err.OperationalError):
            old.ask("SELECT @@server_id")
        assert other.ask("SELECT @@server_id")
        assert number_of(served.port, "all", PASSWORD) == 1045
        served.connect("all", password="new")


def test_too_many_connections() -> None:
    with serving(MYSQL, max_connections=2) as served, served.connect(), served.connect():
        assert number_of(served.port, "all", PASSWORD) == 1040


@pytest.mark.parametrize(
    ("scramble", "user"), [(scramble_native_password, "native"), (scramble_caching_sha2, "all")]
)
def test_a_client_that_does_not_name_its_plugin(
    mysql: Serving, scramble: Callable[[bytes, bytes], bytes], user: str
) -> None:
    with socket.create_connection(("127.0.0.1", mysql.port), timeout=30) as client:
        said = client.recv(4096)
        at = said.index(b"\0", 5) + 5
        proof = scramble(PASSWORD.encode(), said[at : at + 8] + said[at + 27 : at + 39])
        packet = struct.pack("<IIB23x", 0x200 | 0x8000, 1 << 24, 45) + user.encode() + b"\0"
        packet += bytes([len(proof)]) + proof
        client.sendall(len(packet).to_bytes(3, "little") + b"\1" + packet)
        assert client.recv(4096)[4] in (0, 1)
