"""The limits of what clients can make a console hold, do and wait for, over the console's port."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest
import structlog

from dumpfilter.base.logs import Seldom
from dumpfilter.console import connection as connections
from dumpfilter.console import limits, wire
from dumpfilter.console import session as sessions
from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.limits import CLIENT_MEMORY, MOST_SELECTS
from dumpfilter.console.port import (
    MAX_UNAUTHENTICATED,
    MOST_LARGE_STATEMENTS,
    RESERVED_CONNECTIONS,
)
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.sql.result import Column, Result, size_of_row
from dumpfilter.console.sql.server_errors import SqlError
from tests.console.small_executor import SmallExecutor
from tests.console.test_console_slow import Raw

LONG = "REPEAT('x', 60000)"
USERS = {"root": "secret", "reader": "r"}
ROLES = {"root": Role.ALL, "reader": Role.READ}


@pytest.fixture
def console() -> Iterator[ConsoleServer]:
    executor = SmallExecutor()
    executor.release.set()
    with ConsoleServer(
        executor, users=USERS, roles=ROLES, max_connections=4, denial_seconds=0
    ).running() as server:
        yield server


def connect(console: ConsoleServer, user: str = "root", **options: object) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=console.port, user=user, password=USERS[user], autocommit=None, **options
    )


def answer(connection: pymysql.Connection, statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def failure(connection: pymysql.Connection, statement: str) -> tuple[int, str]:
    with pytest.raises(pymysql.err.Error) as caught:
        answer(connection, statement)
    return caught.value.args[0], caught.value.args[1]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def closed(client: socket.socket) -> bool:
    """Tell whether the console has closed the connection."""
    client.setblocking(False)
    try:
        while client.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


# Connections


def test_silent_connections_lock_nobody_out(console: ConsoleServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", console.port)) for _ in range(151)]
    try:
        with connect(console) as admin:
            assert answer(admin, "SELECT 1") == ((1,),)
        # The console has closed the oldest ones. One more has gone for the administrator's login.
        wait_until(lambda: sum(map(closed, silent)) == 151 - MAX_UNAUTHENTICATED + 1)
        assert all(closed(client) for client in silent[: 151 - MAX_UNAUTHENTICATED])
        assert not closed(silent[-1])
    finally:
        for client in silent:
            client.close()


def test_reserved_connections(console: ConsoleServer) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(4):
            held.enter_context(connect(console, "reader"))
        with pytest.raises(pymysql.err.OperationalError, match="1040"):
            connect(console, "reader")
        for _ in range(RESERVED_CONNECTIONS):
            admin = held.enter_context(connect(console))
        with pytest.raises(pymysql.err.OperationalError, match="1040"):
            connect(console)
        assert answer(admin, "SELECT 1") == ((1,),)


def test_a_wrong_password_costs_time() -> None:
    with (
        ConsoleServer(SmallExecutor(), users=USERS, denial_seconds=0.3).running() as console,
        structlog.testing.capture_logs() as logged,
    ):
        begun = time.monotonic()
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            pymysql.connect(host="127.0.0.1", port=console.port, user="root", password="guess")
        assert time.monotonic() - begun >= 0.3
    assert [entry["what"] for entry in logged if entry["event"] == "audit"] == ["login"]
    assert "guess" not in str(logged)


def test_refused_logins_do_not_fill_the_audit_log(console: ConsoleServer) -> None:
    console.refusals = Seldom(most=2)
    with structlog.testing.capture_logs() as logged:
        for _ in range(4):
            with pytest.raises(pymysql.err.OperationalError, match="1045"):
                pymysql.connect(host="127.0.0.1", port=console.port, user="root", password="guess")
    assert len([entry for entry in logged if entry["event"] == "audit"]) == 2


def test_idle_client(console: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    with Raw(console) as client:
        client.login("root", "secret")
        assert client.receive() == b""


def test_half_a_packet(console: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        monkeypatch.setattr(wire, "NET_READ_SECONDS", 0.1)
        client.bytes(struct.pack("<I", 1000) + b"\x03half")
        assert client.receive() == b""


def test_no_file_descriptors(console: ConsoleServer) -> None:
    """The console says so once, and goes on when there are descriptors again."""
    with structlog.testing.capture_logs() as logged:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno(), hard))
        try:
            client.connect(("127.0.0.1", console.port))
            wait_until(lambda: any(entry["event"] == "console.not_accepted" for entry in logged))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            client.close()
    (entry,) = [entry for entry in logged if entry["event"] == "console.not_accepted"]
    assert "ulimit -n" in entry["hint"]
    assert "Traceback" not in str(logged)
    with connect(console) as again:
        assert answer(again, "SELECT 1") == ((1,),)


def test_an_unforeseen_error_closes_the_port_to_nobody(
    console: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(listener: socket.socket) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError("made")

    monkeypatch.setattr(socket.socket, "accept", fail)
    address = "127.0.0.1", console.port
    with (
        structlog.testing.capture_logs() as logged,
        socket.create_connection(address),
        connect(console) as again,
    ):
        assert answer(again, "SELECT 1") == ((1,),)
    (entry,) = [entry for entry in logged if entry["event"] == "console.not_accepted"]
    assert entry["reason"] == "ZeroDivisionError('made')"


def test_an_unforeseen_error_of_a_connection_closes_the_port_to_nobody(
    console: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(port: ConsoleServer) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError("made")

    monkeypatch.setattr(ConsoleServer, "_make_room", fail)
    with socket.create_connection(("127.0.0.1", console.port)) as lost:
        assert lost.recv(1) == b""
    with connect(console) as again:
        assert answer(again, "SELECT 1") == ((1,),)


# Memory


def prepare(client: Raw, statement: str) -> int:
    client.command(b"\x16" + statement.encode())
    first = client.receive()
    if first[:1] == b"\xff":
        raise SqlError(struct.unpack("<H", first[1:3])[0], "", first[9:].decode())
    number, _, parameters = struct.unpack("<IHH", first[1:9])
    for _ in range(parameters + 1 if parameters else 0):
        client.receive()
    return int(number)


def test_many_prepared_statements(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        statement = "SELECT " + ", ".join("?" * 500)
        numbers: list[int] = []

        def prepare_until_refused() -> None:
            while True:
                numbers.append(prepare(client, statement))

        with pytest.raises(SqlError, match="close statements, or reconnect") as caught:
            prepare_until_refused()
        assert caught.value.number == 1041
        assert len(numbers) > 3
        client.command(struct.pack("<BI", 0x19, numbers[0]))
        prepare(client, statement)
        client.command(b"\x1f")
        assert client.receive()[:1] == b"\0"
        for _ in numbers:
            prepare(client, statement)


def test_user_variables(console: ConsoleServer) -> None:
    with connect(console) as connection:
        answer(connection, f"SET @a0 = {LONG}, @a0 = {LONG}")
        for number in range(CLIENT_MEMORY // 60_000):
            answer(connection, f"SET @a{number} = {LONG}")
        error, text = failure(connection, f"SET @b = {LONG}")
        assert (error, text[:13]) == (1041, "Out of memory")
        answer(connection, "SET @a0 = NULL")
        answer(connection, f"SET @b = {LONG}")
        assert failure(connection, f"SET sql_mode = {LONG}")[0] == 1231
        assert failure(connection, f"SET sql_mode = 'ANSI', @c = {LONG}")[0] == 1041
        assert answer(connection, "SELECT @@sql_mode") == (("",),)


def test_variables_and_prepared_statements_have_one_limit(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        statement = f"SELECT '{'x' * 60_000}'"
        for _ in range(CLIENT_MEMORY // 60_000):
            prepare(client, statement)
        assert client.query(f"SET @a = {LONG}") == 1041


def test_all_connections_have_one_limit(console: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CONSOLE_MEMORY", 150_000)
    with connect(console) as second:
        with connect(console) as first:
            answer(first, f"SET @a = {LONG}")
            answer(second, f"SET @a = {LONG}")
            number, text = failure(second, f"SET @b = {LONG}")
            assert number == 1041
            assert "prepared statements and variables of all connections may have" in text
            answer(second, "SET @c = 1")
        wait_until(lambda: len(console.kept) == 1)
        answer(second, f"SET @b = {LONG}")
    wait_until(lambda: not console.kept)


BIG_RESULT = " UNION ALL ".join(["SELECT " + ", ".join([LONG] * 28)] * 5)


def ask_and_do_not_read(console: ConsoleServer, user: str = "root") -> Raw:
    client = Raw(console)
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.login(user, USERS[user])
    client.command(b"\x03" + BIG_RESULT.encode())
    return client


def test_results_that_nobody_reads(console: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESULT_MEMORY", 28 << 20)
    monkeypatch.setattr(limits, "RESULT_MEMORY_OF_USER", 21 << 20)
    with ask_and_do_not_read(console), ask_and_do_not_read(console):
        wait_until(lambda: console.unread.total() > 16_700_000)
        with connect(console) as third:
            number, text = failure(third, BIG_RESULT)
            assert (number, text) == (
                1041,
                "Out of memory; results of a user that clients have not read yet may have 21 MiB; read them, or try "
                "with less",
            )
            assert answer(third, "SELECT 1") == ((1,),)
        with connect(console, "reader") as other, ask_and_do_not_read(console, "reader"):
            # One user leaves room for the results of others.
            wait_until(lambda: console.unread.total() > 25_000_000)
            assert "results that clients have not read yet may have 28 MiB" in failure(other, BIG_RESULT)[1]
    wait_until(lambda: console.unread.total() == 0)
    with connect(console) as third:
        assert len(answer(third, BIG_RESULT)) == 5  # type: ignore[arg-type]


def test_a_client_that_does_not_read_is_disconnected(
    console: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "NET_WRITE_SECONDS", 0.3)
    with ask_and_do_not_read(console):
        wait_until(lambda: console.unread.total() > 0)
        wait_until(lambda: console.unread.total() == 0)
        wait_until(lambda: not console.clients)


def test_kill_ends_a_client_that_does_not_read(console: ConsoleServer) -> None:
    with Raw(console) as client, connect(console) as admin:
        client.login("root", "secret")
        client.command(b"\x03" + BIG_RESULT.encode())
        wait_until(lambda: console.unread.total() > 0)
        (number,) = {row[0] for row in answer(admin, "SHOW PROCESSLIST")} - {admin.thread_id()}  # type: ignore[attr-defined]
        answer(admin, f"KILL {number}")
        wait_until(lambda: console.unread.total() == 0)
        wait_until(lambda: len(console.clients) == 1)


def test_sizes() -> None:
    result = Result([Column("a")], [("x" * 1000,), (None,), (5,), ("é" * 1000,)])
    assert 2000 < sum(map(size_of_row, result.rows)) < 2000 + 4 * 200


# Time


def test_selects_of_one_user_wait_for_each_other(console: ConsoleServer) -> None:
    with contextlib.ExitStack() as held, connect(console) as admin:
        sleeping = [held.enter_context(connect(console, "reader")) for _ in range(MOST_SELECTS)]
        failures: list[int] = []
        sleep = "SELECT SLEEP(200) FROM information_schema.engines"
        threads = [
            threading.Thread(target=lambda one=one: failures.append(failure(one, sleep)[0]))
            for one in sleeping
        ]
        for thread in threads:
            thread.start()
        wait_until(
            lambda: sum(one.running == sleep for one in console.clients.copy().values()) == MOST_SELECTS
        )
        another = held.enter_context(connect(console, "reader"))
        answer(another, "SET max_execution_time = 300")
        wait_until(lambda: not console.limits["reader"].selects._value)  # type: ignore[attr-defined]
        assert failure(another, "SELECT COUNT(*) FROM information_schema.tables")[0] == 3024
        # Variables, which clients ask for when they connect, and other users need not wait.
        assert answer(another, "SELECT @@max_execution_time") == ((300,),)
        assert answer(admin, "SELECT COUNT(*) FROM information_schema.engines") == ((1,),)
        for one in sleeping:
            answer(admin, f"KILL QUERY {one.thread_id()}")
        for thread in threads:
            thread.join()
        assert failures == [1317] * MOST_SELECTS
        answer(another, "SET max_execution_time = 0")
        assert answer(another, "SELECT COUNT(*) FROM information_schema.engines") == ((1,),)


def test_large_statements_wait_for_each_other(console: ConsoleServer) -> None:
    large = "SET @a = " + "1+" * connections.LARGE_STATEMENT + "1"
    slots = console.large
    while slots.acquire(blocking=False):
        pass
    with connect(console) as waiting, connect(console) as admin:
        failures: list[int] = []
        thread = threading.Thread(target=lambda: failures.append(failure(waiting, large)[0]))
        thread.start()
        wait_until(lambda: any(one.running == large for one in console.clients.copy().values()))
        assert answer(admin, "SELECT 1") == ((1,),)
        answer(admin, f"KILL QUERY {waiting.thread_id()}")
        thread.join()
        assert failures == [1317]
    for _ in range(MOST_LARGE_STATEMENTS):
        slots.release()


def test_a_long_statement_that_is_no_select(console: ConsoleServer) -> None:
    with connect(console) as connection:
        assert failure(connection, "SET @a = '" + "x" * 300_000 + "'")[0] == 3170
        number, _ = failure(
            connection, "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (" + "a," * 100_000 + ")"
        )
        assert number == 3170


def test_a_statement_that_calculates_keeps_the_interpreter_for_less_than_a_millisecond() -> None:
    executor = SmallExecutor()
    executor.release.set()
    done = threading.Event()

    def calculate() -> None:
        while not done.is_set():
            sum(range(100))

    def seconds_of_handovers() -> float:
        begun = time.monotonic()
        for _ in range(100):
            time.sleep(1e-5)
        return time.monotonic() - begun

    with ConsoleServer(executor).running():
        threading.Thread(target=calculate, daemon=True).start()
        try:
            # With Python's interval of 5 ms, a hundred handovers take half a second. On a busy machine many tries do.
            assert any(seconds_of_handovers() < 0.25 for _ in range(50))
        finally:
            done.set()
