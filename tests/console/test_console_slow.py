"""The console's port: what a client library and a hostile client meet."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.constants import CLIENT, COMMAND

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.base.security.passwords import Sha2Crypt, StoredPassword, native_hash
from dumpfilter.binlog.statement.tokens import Lexer, TokenKind
from dumpfilter.console import auth
from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.port import RESERVED_CONNECTIONS
from dumpfilter.console.prepared import Prepared, literal
from tests.console.scrambles import native_scramble, sha2_scramble
from tests.console.small_executor import SmallExecutor

USERS = {"root": "secret", "öl": "pässword", "empty": ""}


@pytest.fixture
def executor() -> Iterator[SmallExecutor]:
    executor = SmallExecutor()
    yield executor
    executor.release.set()


@pytest.fixture
def console(executor: SmallExecutor) -> Iterator[ConsoleServer]:
    with ConsoleServer(executor, users=USERS, max_connections=8, denial_seconds=0).running() as server:
        yield server


def connect(console: ConsoleServer, **options: object) -> pymysql.Connection:
    settings = {"user": "root", "password": "secret", "autocommit": None} | options
    return pymysql.connect(host="127.0.0.1", port=console.port, **settings)


def answer(connection: pymysql.Connection, statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def failure(connection: pymysql.Connection, statement: str) -> tuple[int, str, str]:
    with pytest.raises(pymysql.err.Error) as caught:
        answer(connection, statement)
    return caught.value.args[0], caught.value.sqlstate, caught.value.args[1]


# Logging in


@pytest.mark.parametrize("plugin", [auth.NATIVE, auth.CACHING_SHA2])
@pytest.mark.parametrize(("user", "password"), list(USERS.items()))
def test_login(console: ConsoleServer, user: str, password: str, plugin: str) -> None:
    with Raw(console) as client:
        client.login(user, password, plugin=plugin)
        assert client.query("SELECT 1") == "rows"


@pytest.mark.parametrize(
    ("user", "password", "using"),
    [
        ("root", "wrong", "YES"),
        ("root", "", "NO"),
        ("nobody", "secret", "YES"),
        ("nobody", "", "NO"),
        ("empty", "x", "YES"),
        ("", "", "NO"),
    ],
)
@pytest.mark.parametrize("plugin", [auth.NATIVE, auth.CACHING_SHA2, "mysql_clear_password"])
def test_refused_and_closed(
    console: ConsoleServer, user: str, password: str, using: str, plugin: str
) -> None:
    with Raw(console) as client:
        client.greet()
        reply = client.respond(user, password, plugin)
        if reply[:1] == b"\xfe":
            nonce = reply.split(b"\0", 1)[1][:20]
            client.send(native_scramble(password, nonce))
            reply = client.receive()
        expected = f"Access denied for user '{user}'@'localhost' (using password: {using})"
        assert reply == b"\xff" + struct.pack("<H", 1045) + b"#28000" + expected.encode()
        # the bypass: a refused client that goes on as though it had been let in
        with contextlib.suppress(ConnectionError):
            client.sequence = 0
            client.send(b"\x03SELECT 1")
        assert client.receive() == b""


def test_plugin_that_is_not_known_is_switched(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.greet()
        reply = client.respond("root", "secret", "client_ed25519")
        assert reply.startswith(b"\xfe" + auth.NATIVE.encode() + b"\0")
        client.send(native_scramble("secret", client.nonce))
        assert client.receive()[:1] == b"\0"


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_client_without_the_greetings_plugin(console: ConsoleServer, password: str) -> None:
    """MySQL 9's begin with nothing and their own plugin, whatever the greeting names."""
    with Raw(console) as client:
        client.greet()
        reply = client.respond("root", "", auth.CACHING_SHA2)
        assert reply == b"\xfe" + auth.CACHING_SHA2.encode() + b"\0" + client.nonce + b"\0"
        client.send(sha2_scramble(password, client.nonce))
        if password == "wrong":
            assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1045)
        else:
            assert client.receive() == b"\x01" + auth.FAST_AUTH_SUCCESS
            assert client.receive()[:1] == b"\0"
            assert client.query("SELECT 1") == "rows"


def test_change_of_user_and_long_data_are_refused(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        client.command(b"\x11empty\0\0\0\x2d\0" + auth.NATIVE.encode() + b"\0")
        assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1047)
        assert client.query("SELECT 1") == "rows"
        client.command(b"\x16SELECT ?")
        (statement,) = struct.unpack("<I", client.receive()[1:5])
        for _ in range(2):
            client.receive()
        # The protocol has no answer to long data. The execution lacks the value.
        client.command(struct.pack("<BIH", 0x18, statement, 0) + b"long")
        client.command(struct.pack("<BIBI", 0x17, statement, 0, 1) + b"\0\1\xfd\0")
        assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1835)
        assert client.query("SELECT 1") == "rows"


@given(st.text(), st.text(), st.binary(min_size=20, max_size=20))
def test_only_the_password_proves_it(password: str, other: str, nonce: bytes) -> None:
    for plugin, scramble in ((auth.NATIVE, native_scramble), (auth.CACHING_SHA2, sha2_scramble)):
        response = scramble(other, nonce)
        kept = StoredPassword.plain(password)
        assert auth.proves_password(kept, plugin, nonce, response) == (password == other)


HASHES = {
    "native": StoredPassword.parse(native_hash("secret")),
    "sha2": StoredPassword.parse(str(Sha2Crypt.of("secret"))),
    "both": StoredPassword.parse(native_hash("secret"), str(Sha2Crypt.of("secret"))),
}


@pytest.fixture
def hashed(executor: SmallExecutor) -> Iterator[ConsoleServer]:
    with ConsoleServer(executor, users=HASHES).running() as server:
        yield server


@pytest.mark.parametrize("user", HASHES)
def test_login_against_a_hash(hashed: ConsoleServer, user: str) -> None:
    for _ in range(2):
        with connect(hashed, user=user, ssl={"verify_mode": False}) as connection:
            assert answer(connection, "SELECT 1") == ((1,),)
    for password in ("wrong", ""):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connect(hashed, user=user, password=password, ssl={"verify_mode": False})
        assert caught.value.args[0] == 1045


def test_a_client_of_the_other_plugin_is_switched_to_the_one_that_the_hash_has(hashed: ConsoleServer) -> None:
    with Raw(hashed) as client:
        client.greet()
        reply = client.respond("native", "secret", auth.CACHING_SHA2)
        assert reply.startswith(b"\xfe" + auth.NATIVE.encode() + b"\0")
        client.send(native_scramble("secret", client.nonce))
        assert client.receive()[:1] == b"\0"


def test_a_password_is_not_asked_for_without_tls_and_needed_once_only(hashed: ConsoleServer) -> None:
    with Raw(hashed) as client:
        client.greet()
        assert client.respond("sha2", "secret", auth.CACHING_SHA2) == b"\x01\x04"
        client.send(b"secret\0")
        assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1045)
    connect(hashed, user="sha2", ssl={"verify_mode": False}).close()
    with Raw(hashed) as client:
        client.login("sha2", "secret", plugin=auth.CACHING_SHA2)
        assert client.query("SELECT 1") == "rows"
    with Raw(hashed) as client:
        client.greet()
        assert client.respond("sha2", "another", auth.CACHING_SHA2) == b"\x01\x04"


def test_a_password_that_changes_during_the_login(hashed: ConsoleServer) -> None:
    """The client that knows the old password waits with its answer until the user is gone."""
    with Raw(hashed) as client:
        client.greet()
        assert client.respond("native", "secret", auth.CACHING_SHA2).startswith(b"\xfe")
        hashed.change_users({"native": StoredPassword.plain("new")})
        client.send(native_scramble("secret", client.nonce))
        assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1045)


@pytest.mark.parametrize("plugin", [auth.NATIVE, auth.CACHING_SHA2])
def test_an_unknown_user_sees_what_a_known_one_sees(executor: SmallExecutor, plugin: str) -> None:
    for kind in HASHES:
        with ConsoleServer(executor, users={"known": HASHES[kind]}).running() as server:
            replies = []
            for user in ("known", "unknown"):
                with Raw(server) as client:
                    client.greet()
                    reply = client.respond(user, "wrong", plugin)
                    replies.append(reply.replace(client.nonce, b"").replace(user.encode(), b""))
            assert replies[0] == replies[1]


def test_changed_users_are_closed_and_others_stay(executor: SmallExecutor) -> None:
    users = {name: StoredPassword.plain(name) for name in ("stays", "goes", "changes")}
    with ConsoleServer(executor, users=users).running() as server:
        clients = {name: connect(server, user=name, password=name) for name in users}
        server.change_users(
            {
                "stays": users["stays"],
                "changes": StoredPassword.plain("new"),
                "comes": StoredPassword.plain("x"),
            }
        )
        assert answer(clients["stays"], "SELECT 1") == ((1,),)
        for name in ("goes", "changes"):
            with pytest.raises(pymysql.err.OperationalError):
                answer(clients[name], "SELECT 1")
            with pytest.raises(pymysql.err.OperationalError):
                connect(server, user=name, password=name)
        connect(server, user="changes", password="new").close()
        connect(server, user="comes", password="x").close()


def test_too_many_connections(console: ConsoleServer) -> None:
    held = [connect(console) for _ in range(8 + RESERVED_CONNECTIONS)]
    with pytest.raises(pymysql.err.OperationalError) as caught:
        connect(console)
    assert (caught.value.args, caught.value.sqlstate) == ((1040, "Too many connections"), "08004")
    held.pop().close()
    while True:
        # the place is free as soon as the server has seen the client leave
        with contextlib.suppress(pymysql.err.OperationalError):
            held.append(connect(console))
            break
    for connection in held:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "x" * 70])
def test_address_that_cannot_be_used(console: ConsoleServer, executor: SmallExecutor, host: str) -> None:
    other = ConsoleServer(executor, Endpoint(host, console.port))
    with pytest.raises(OptionError, match=f"cannot listen on {host}:{console.port}"), other.running():
        pass


# Answers


def test_rows_and_types(console: ConsoleServer) -> None:
    with connect(console) as connection:
        rows = answer(
            connection, "SELECT * FROM performance_schema.replication_applier_filters WHERE counter = 7"
        )
        ((name, _, rule, _, since, counter),) = rows
        assert (name, rule, counter) == ("Ch1", "db1,db2", 7)
        assert since.isoformat() == "2026-11-21T11:00:00.000250"
        assert answer(connection, "SHOW REPLICA STATUS") == (("", 3306),)


def test_affected_rows_and_warnings(console: ConsoleServer) -> None:
    with connect(console) as connection:
        assert (
            connection.query("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a), REPLICATE_IGNORE_DB = (b)")
            == 2
        )
        assert connection.affected_rows() == 2
        assert connection._result.warning_count == 2
        assert answer(connection, "SHOW WARNINGS") == (("Warning", 1, "one"), ("Note", 2, "two"))
        assert answer(connection, "SHOW WARNINGS LIMIT 1, 1") == (("Note", 2, "two"),)
        assert answer(connection, "SHOW ERRORS") == ()
        assert answer(connection, "SELECT 1") == ((1,),)
        assert answer(connection, "SHOW WARNINGS") == ()
        error = failure(connection, "CHANGE REPLICATION FILTER REPLICATE_DO_DB = () FOR CHANNEL 'x'")
        assert answer(connection, "SHOW WARNINGS") == (("Error", error[0], error[2]),)


def test_errors_have_the_number_and_state_they_were_given(console: ConsoleServer) -> None:
    with connect(console) as connection:
        assert failure(connection, "CHANGE REPLICATION FILTER REPLICATE_DO_DB = () FOR CHANNEL 'x'") == (
            3074,
            "HY000",
            "Replica channel 'x' does not exist.",
        )
        assert failure(connection, "START REPLICA FOR")[:2] == (1064, "42000")
        assert failure(connection, "RESET REPLICA") == (1105, "HY000", "127.0.0.1:3307 does not answer")
        assert failure(connection, "") == (1065, "42000", "Query was empty")
        assert failure(connection, "SHOW REPLICAS")[:2] == (1105, "HY000")
        assert answer(connection, "SELECT 1") == ((1,),)


def test_several_statements_in_a_query_are_an_error(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        assert client.query("SELECT 1; SELECT 2") == 1064


@pytest.mark.parametrize("back", ["NAMES DEFAULT", "character_set_client = DEFAULT", "NAMES 'utf8mb4'"])
def test_the_character_set_of_a_session_can_be_set_back(console: ConsoleServer, back: str) -> None:
    with connect(console) as connection:
        assert not answer(connection, "SET NAMES latin1")
        assert answer(connection, "SELECT CHAR_LENGTH('ф')") == ((2,),)
        assert not answer(connection, f"SET {back}")
        assert answer(connection, "SELECT CHAR_LENGTH('ф')") == ((1,),)


def test_statements_and_results_have_character_sets_of_their_own(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret", collation=8)  # latin1_swedish_ci
        client.command(b"\x03SELECT @@character_set_client")
        assert client.rows()[2] == b"\x06latin1"
        for statement, sent, received in (
            ("SET NAMES utf8mb4", b"\xc3\xa9", b"\x02\xc3\xa9"),
            ("SET character_set_results = latin1", b"\xc3\xa9", b"\x01\xe9"),
            ("SET NAMES utf8mb4, character_set_client = latin1", b"\xe9", b"\x02\xc3\xa9"),
        ):
            assert client.query(statement) == "ok"
            client.command(b"\x03SELECT '" + sent + b"'")
            assert client.rows()[2] == received
        assert client.query("SET NAMES latin1") == "ok"
        # COM_RESET_CONNECTION takes back the character sets of the login, too, as on MySQL.
        client.command(b"\x1f")
        assert client.receive()[:1] == b"\0"
        client.command(b"\x03SELECT '\xc3\xa9'")
        assert client.rows()[2] == b"\x02\xc3\xa9"


@pytest.mark.parametrize(
    "rest", ["no_such_variable = 2", "server_id = 3", "NAMES klingon", "@b = (SELECT a FROM no_such.t)"]
)
def test_a_set_that_fails_changes_nothing(console: ConsoleServer, rest: str) -> None:
    with connect(console) as connection:
        assert failure(connection, f"SET @a = 1, sql_mode = 'ANSI', NAMES latin1, {rest}")
        assert answer(connection, "SELECT @a, @@sql_mode, @@character_set_results") == (
            (None, "", "utf8mb4"),
        )


def test_databases(console: ConsoleServer) -> None:
    with connect(console, database="performance_schema") as connection:
        assert answer(connection, "SELECT DATABASE()") == (("performance_schema",),)
        assert answer(connection, "SELECT COUNT(*) FROM replication_applier_filters") == ((3,),)
        connection.select_db("information_schema")
        assert answer(connection, "SELECT DATABASE()") == (("information_schema",),)
        assert failure(connection, "USE nope") == (1049, "42000", "Unknown database 'nope'")
    with pytest.raises(pymysql.err.OperationalError) as caught:
        connect(console, database="nope")
    assert caught.value.args[0] == 1049


def test_what_clients_ask_when_they_connect(console: ConsoleServer) -> None:
    with connect(console) as connection:
        assert answer(connection, "SELECT @@version_comment LIMIT 1") == (("dumpfilter",),)
        assert answer(connection, "SELECT USER(), @@server_id") == (("root@localhost", 7),)
        assert not answer(connection, "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci")
        assert not answer(connection, "SET @version = 'a variable'")
        assert not answer(connection, "/*!40101 SET NAMES utf8mb4 */")
        assert not answer(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        assert not answer(connection, "SET @b := CONCAT('a\\\\b', 'it''s'), @c = NULL, sql_mode = DEFAULT")
        assert answer(connection, "SELECT @b, @c, @@sql_mode") == (("a\\bit's", None, ""),)
        assert answer(connection, "SELECT VERSION(), @version")[0][0] != "a variable"
        assert not answer(connection, "SET @a = 1 + 1, SESSION sql_mode = 'ANSI', @@autocommit = ON")
        assert answer(connection, "SELECT @a, @@sql_mode, @@session.autocommit") == ((2, "ANSI", 1),)
        assert answer(connection, "SHOW VARIABLES LIKE 'server_%'") == (
            ("server_id", "7"),
            ("server_uuid", "6b8e"),
        )
        assert answer(connection, "SHOW DATABASES") == (("information_schema",), ("performance_schema",))
        assert answer(connection, "SHOW TABLES FROM performance_schema WHERE 0") == ()
        assert answer(connection, "SHOW FULL TABLES FROM performance_schema LIKE '%status'") == (
            ("replication_applier_status", "BASE TABLE"),
        )
        described = answer(connection, "DESCRIBE performance_schema.replication_applier_status")
        assert [row[0] for row in described] == ["CHANNEL_NAME", "SERVICE_STATE", "REMAINING_DELAY"]
        assert (
            answer(connection, "SHOW COLUMNS IN replication_applier_status FROM performance_schema")
            == described
        )
        assert answer(
            connection,
            "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema'",
        ) == ((9,),)
        assert answer(connection, "SHOW STATUS LIKE 'Threads_connected'") == (("Threads_connected", "1"),)
        assert not answer(connection, "BEGIN")
        assert not answer(connection, "COMMIT")
        ((number, user, *_),) = answer(connection, "SHOW PROCESSLIST")
        assert (number, user) == (connection.thread_id(), "root")
        connection.ping(reconnect=False)


@pytest.mark.parametrize(
    ("statement", "number", "state"),
    [
        ("INSERT INTO performance_schema.replication_applier_filters VALUES (1)", 1235, "42000"),
        ("UPDATE performance_schema.replication_applier_filters SET counter = 0", 1235, "42000"),
        ("DELETE FROM performance_schema.nope", 1235, "42000"),
        ("DROP TABLE performance_schema.replication_applier_filters", 1235, "42000"),
        ("CREATE TABLE x (a INT)", 1235, "42000"),
        ("SET nope = 1", 1193, "HY000"),
        ("SET @a = 1,", 1064, "42000"),
        ("SET @a = /* never closed", 1064, "42000"),
        ("SET @a = 'never closed", 1064, "42000"),
        ("SET @a", 1064, "42000"),
        ("SET NAMES", 1064, "42000"),
        ("SET GLOBAL sql_mode = ''", 1227, "42000"),
        ("SET @@session.server_id = 3", 1238, "HY000"),
        ("SET NAMES klingon", 1115, "42000"),
        ("SET NAMES utf16", 1115, "42000"),
        ("KILL 99999", 1094, "HY000"),
        ("KILL 999999999999999999999", 1094, "HY000"),
        ("KILL 1e2", 1064, "42000"),
        ("KILL QUERY -1", 1064, "42000"),
        ("SHOW NOPE", 1064, "42000"),
        ("xyzzy", 1064, "42000"),
    ],
)
def test_refusals(console: ConsoleServer, statement: str, number: int, state: str) -> None:
    with connect(console) as connection:
        assert failure(connection, statement)[:2] == (number, state)


def test_character_sets(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret", collation=8)  # latin1_swedish_ci
        client.command(b"\x03SELECT '\xe9' AS \xe9")
        packets = client.rows()
        assert b"\x01\xe9" in packets[1]
        assert packets[2] == b"\x01\xe9"
        # Real servers answer so, too: their latin1 has the euro sign, and no Cyrillic letters.
        for statement in ("SET NAMES utf8mb4", "SET @name = '€ф'", "SET NAMES latin1"):
            assert client.query(statement) == "ok"
        client.command(b"\x03SELECT CONCAT(@name, '\x80') AS \x80")
        packets = client.rows()
        assert b"\x01\x80" in packets[1]
        assert packets[2] == b"\x03\x80?\x80"
    with Raw(console) as client:
        # A server takes its default for a client of utf16_general_ci, too.
        client.login("root", "secret", collation=54)
        assert client.query("SET @name = 'a'") == "ok"


# Interrupting


def test_kill_query_of_a_select_and_of_a_command(console: ConsoleServer, executor: SmallExecutor) -> None:
    with connect(console) as killed, connect(console) as killer:
        for statement in ("SELECT SLEEP(3600)", "STOP REPLICA"):
            errors: list[tuple[int, str, str]] = []
            thread = threading.Thread(target=lambda s=statement, e=errors: e.append(failure(killed, s)))
            thread.start()
            while not any(row[7] == statement for row in answer(killer, "SHOW PROCESSLIST")):
                pass
            answer(killer, f"KILL /*!50001 QUERY */ {killed.thread_id()}")
            thread.join()
            assert errors == [(1317, "70100", "Query execution was interrupted")]
            assert answer(killed, "SELECT 2") == ((2,),)


def test_kill_query_of_an_idle_connection_does_nothing(console: ConsoleServer) -> None:
    with connect(console) as idle, connect(console) as killer:
        answer(killer, f"KILL QUERY {idle.thread_id()}")
        assert answer(idle, "SELECT 1") == ((1,),)


def test_kill_connection(console: ConsoleServer) -> None:
    with connect(console) as killer:
        killed = connect(console)
        answer(killer, f"KILL {killed.thread_id()}")
        with pytest.raises(pymysql.err.OperationalError):
            answer(killed, "SELECT 1")


def test_client_that_leaves_takes_its_statement_with_it(console: ConsoleServer) -> None:
    with connect(console) as watcher:
        with Raw(console) as client:
            client.login("root", "secret")
            client.command(b"\x03SELECT SLEEP(3600)")
            while len(answer(watcher, "SHOW PROCESSLIST")) < 2:
                pass
        while len(answer(watcher, "SHOW PROCESSLIST")) > 1:
            pass


def test_runaway_select_ends_by_the_limit(console: ConsoleServer) -> None:
    with connect(console) as connection:
        answer(connection, "SET max_execution_time = 50")
        endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT COUNT(*) FROM x"
        assert failure(connection, endless)[:2] == (3024, "HY000")


def test_stop_ends_running_statements(executor: SmallExecutor) -> None:
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as clients:
        server = stack.enter_context(ConsoleServer(executor, users=USERS).running())
        client = clients.enter_context(Raw(server))
        client.login("root", "secret")
        client.command(b"\x03SELECT SLEEP(3600)")
        with connect(server) as watcher:
            while len(answer(watcher, "SHOW PROCESSLIST")) < 2:
                pass
        stack.close()
        assert client.receive() == b""
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port))


# Prepared statements


class Statement:
    """A prepared statement over PyMySQL's connection, which has none of its own."""

    def __init__(self, connection: pymysql.Connection, text: str) -> None:
        self._connection = connection
        connection._execute_command(COMMAND.COM_STMT_PREPARE, text)
        data = connection._read_packet().get_all_data()
        _, self.number, _, self.parameters, _, _ = struct.unpack("<BIHHBH", data[:12])
        if self.parameters:
            while not connection._read_packet().is_eof_packet():
                pass

    def execute(self, payload: bytes) -> list[bytes]:
        self._connection._execute_command(
            COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", self.number, 0, 1) + payload
        )
        count = self._connection._read_packet().get_all_data()[0]
        for _ in range(count + 1):
            self._connection._read_packet()
        rows = []
        while not (packet := self._connection._read_packet()).is_eof_packet():
            rows.append(packet.get_all_data())
        return rows


def test_prepared_statement(console: ConsoleServer) -> None:
    with connect(console) as connection:
        statement = Statement(
            connection,
            "SELECT COUNTER, ACTIVE_SINCE, '?', ? FROM performance_schema.replication_applier_filters "
            "WHERE CHANNEL_NAME = ? -- ?",
        )
        assert statement.parameters == 2
        types = bytes([1, 253, 0, 253, 0])
        since = struct.pack("<BHBBBBBI", 11, 2026, 11, 21, 11, 0, 0, 250)
        row = b"\0\0" + struct.pack("<Q", 7) + since + b"\x01?" + b"\x06a'\\ b?"
        assert statement.execute(b"\0" + types + b"\x06a'\\ b?" + b"\x03CH1") == [row]
        # the types stay bound; a NULL has no value
        row = b"\0\x20" + struct.pack("<Q", 7) + since + b"\x01?"
        assert statement.execute(b"\x01\0\x03ch1") == [row]
        with pytest.raises(pymysql.err.Error, match="a date or a time") as caught:
            statement.execute(b"\0" + bytes([1, 12, 0, 253, 0]) + b"\0" + b"\x03CH1")
        assert caught.value.args[0] == 1235
        connection._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", statement.number))
        with pytest.raises(pymysql.err.Error) as caught:
            statement.execute(b"\x01\0\x03ch1")
        assert (caught.value.args[0], caught.value.sqlstate) == (1243, "HY000")


def test_number_of_prepared_statements_is_bounded(console: ConsoleServer) -> None:
    with connect(console) as connection:
        for _ in range(1024):
            Statement(connection, "SELECT 1")
        with pytest.raises(pymysql.err.Error) as caught:
            Statement(connection, "SELECT 1")
        assert caught.value.args[0] == 1461
        assert answer(connection, "SELECT 1") == ((1,),)


@given(
    st.lists(st.one_of(st.none(), st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
)
def test_values_are_put_in_as_literals(values: list[object]) -> None:
    statement = Prepared.of("f(" + " + ".join("?" * len(values)) + ")")
    assert statement.parameters == len(values)
    lexer = Lexer(statement.with_values(values))
    found = []
    while (token := lexer.next()).kind is not TokenKind.END:
        assert token.kind is not TokenKind.BAD
        found.append(token)
    strings = [token.value for token in found if token.kind is TokenKind.STRING]
    assert strings == [value for value in values if isinstance(value, str)]


@given(st.text())
def test_literal_of_a_text_is_one_token(text: str) -> None:
    token = Lexer(literal(text)).next()
    assert (token.kind, token.value, token.end) == (TokenKind.STRING, text, len(literal(text)))


# Hostile clients


class Raw:
    """A client that sends what it likes."""

    CAPABILITIES = (
        CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION | CLIENT.PLUGIN_AUTH | CLIENT.MULTI_STATEMENTS
    )

    def __init__(self, console: ConsoleServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", console.port), timeout=30)
        self.sequence = 0
        self.nonce = b""

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, payload: bytes) -> None:
        self.bytes(struct.pack("<I", len(payload) | self.sequence << 24) + payload)
        self.sequence += 1

    def command(self, payload: bytes) -> None:
        self.sequence = 0
        self.send(payload)

    def receive(self) -> bytes:
        """Return a packet's payload, or nothing when the server has closed the connection."""
        header = self._exactly(4)
        if len(header) < 4:
            return b""
        self.sequence = header[3] + 1
        return self._exactly(int.from_bytes(header[:3], "little"))

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            try:
                part = self._socket.recv(length - len(data))
            except ConnectionError:
                return b""
            if not part:
                return b""
            data += part
        return data

    def greet(self) -> None:
        greeting = self.receive()
        version_end = greeting.index(b"\0", 1)
        self.nonce = (
            greeting[version_end + 5 : version_end + 13] + greeting[version_end + 32 : version_end + 44]
        )

    def respond(
        self, user: str, password: str, plugin: str, *, capabilities: int = CAPABILITIES, collation: int = 45
    ) -> bytes:
        scramble = sha2_scramble if plugin == auth.CACHING_SHA2 else native_scramble
        response = scramble(password, self.nonce)
        fixed = struct.pack("<IIB23x", capabilities, 1 << 24, collation)
        self.send(fixed + user.encode() + b"\0" + bytes([len(response)]) + response + plugin.encode() + b"\0")
        return self.receive()

    def login(self, user: str, password: str, *, plugin: str = auth.NATIVE, **options: int) -> None:
        self.greet()
        reply = self.respond(user, password, plugin, **options)
        if plugin == auth.CACHING_SHA2 and password:
            assert reply == b"\x01" + auth.FAST_AUTH_SUCCESS
            reply = self.receive()
        elif not password:
            assert reply[:1] == b"\xfe"
            self.send(b"")
            reply = self.receive()
        assert reply[:1] == b"\0"

    def rows(self) -> list[bytes]:
        """Return the packets of a result with one column, without EOF packets."""
        packets = [self.receive(), self.receive()]
        assert self.receive()[:1] == b"\xfe"
        while (packet := self.receive())[:1] != b"\xfe":
            packets.append(packet)
        return packets

    def query(self, statement: str) -> str | int:
        """Send a statement, and return the kind of its answer: rows, ok or an error's number."""
        self.command(b"\x03" + statement.encode())
        first = self.receive()
        if first[:1] == b"\xff":
            return int(struct.unpack("<H", first[1:3])[0])
        if first[:1] == b"\0":
            return "ok"
        for _ in range(2):  # the definitions, the rows
            while self.receive()[:1] != b"\xfe":
                pass
        return "rows"


def alive(console: ConsoleServer) -> bool:
    # without TLS, whose handshake is most of the work
    with connect(console, ssl_disabled=True) as connection:
        return answer(connection, "SELECT 1") == ((1,),)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\xff",
        struct.pack("<IIB23x", Raw.CAPABILITIES, 1 << 24, 45) + b"user that does not end",
        struct.pack("<IIB23x", Raw.CAPABILITIES, 1 << 24, 45) + b"u\0\xffshort",
        struct.pack("<IIB23x", 0, 1 << 24, 45) + b"u\0\0",
        b"\xff" * 60000,
    ],
)
def test_handshake_that_is_none(console: ConsoleServer, response: bytes) -> None:
    with Raw(console) as client:
        client.receive()
        client.send(response)
        assert client.receive()[:9] == b"\xff" + struct.pack("<H", 1043) + b"#08S01"
        assert client.receive() == b""
    assert alive(console)


@given(data=st.binary(max_size=200))
def test_any_bytes_instead_of_a_login(shared_console: ConsoleServer, data: bytes) -> None:
    with Raw(shared_console) as client:
        client.receive()
        with contextlib.suppress(ConnectionError):
            client.send(data)
            client._socket.shutdown(socket.SHUT_WR)
        while client.receive():
            pass
    assert alive(shared_console)


@pytest.fixture(scope="module")
def shared_console() -> Iterator[ConsoleServer]:
    executor = SmallExecutor()
    executor.release.set()
    with ConsoleServer(executor, users=USERS).running() as server:
        yield server


@given(payload=st.binary(max_size=60))
def test_any_command(shared_console: ConsoleServer, payload: bytes) -> None:
    """Whatever comes is answered, or ends this connection and no other."""
    with Raw(shared_console) as client:
        client.login("root", "secret")
        client.command(payload)
        client._socket.shutdown(socket.SHUT_WR)
        while client.receive():
            pass
    assert alive(shared_console)


def test_malformed_command_leaves_the_session(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        for payload, number in [
            (b"", 1835),
            (b"\x17\x01", 1835),
            (b"\x1b", 1047),
            (b"\x63", 1047),
            (b"\x04x", 1047),
        ]:
            client.command(payload)
            assert client.receive()[:3] == b"\xff" + struct.pack("<H", number)
        assert client.query("SELECT 1") == "rows"


def test_statement_that_is_not_in_its_character_set(console: ConsoleServer, executor: SmallExecutor) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        client.command(b"\x03CHANGE REPLICATION FILTER REPLICATE_DO_DB = (`a\xff`)")
        assert client.receive() == (
            b"\xff" + struct.pack("<H", 1300) + b"#HY000Invalid utf8mb4 character string: 'FF6029'"
        )
        assert executor.commands == []
        assert client.query("SELECT 1") == "rows"


def test_huge_packet(console: ConsoleServer) -> None:
    with Raw(console) as client:
        client.login("root", "secret")
        client.bytes(struct.pack("<I", 0xFFFFFF) + b"\x03" * 0xFFFFFF)
        with contextlib.suppress(ConnectionError):
            client.bytes(struct.pack("<I", 0xFFFFFF | 1 << 24))
        assert client.receive()[:9] == b"\xff" + struct.pack("<H", 1153) + b"#08S01"
        assert client.receive() == b""
    assert alive(console)


def test_long_statement_and_long_row(console: ConsoleServer) -> None:
    with connect(console, max_allowed_packet=1 << 25) as connection:
        assert failure(connection, f"SELECT '{'x' * 1_000_000}'")[0] == 3170
        ((text,),) = answer(connection, "SELECT REPEAT('x', 65536)")
        assert len(text) == 65536
        assert answer(connection, "SELECT REPEAT('x', 65537)") == ((None,),)


def test_deep_nesting_is_an_error(console: ConsoleServer) -> None:
    with connect(console) as connection:
        assert failure(connection, "SELECT " + "(" * 490 + "1" + ")" * 490)[0] == 1436
        assert answer(connection, "SELECT 1") == ((1,),)
