"""Roles: which statements an account may use, over the console's port."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from dumpfilter.console.auth import stored
from dumpfilter.console.grammar import GRAMMAR
from dumpfilter.console.roles import COMMANDS, QUERIES, STATEMENTS, Role
from dumpfilter.console.server import ConsoleServer
from dumpfilter.sql.commands import Command, Query
from tests.console.small_executor import SmallExecutor
from tools.role_table import PAGE, with_table

USERS = {"reader": "r", "operator": "o", "boss": "b", "stranger": "s"}
ROLES = {"reader": Role.READ, "operator": Role.REPLICATE_ADMIN, "boss": Role.ALL}
EXAMPLES = {
    "SHOW REPLICA STATUS": Role.READ,
    "SHOW REPLICAS": Role.READ,
    "SHOW BINARY LOG STATUS": Role.READ,
    "SHOW BINARY LOGS": Role.READ,
    "SHOW BINLOG EVENTS": Role.REPLICATE_ADMIN,
    "SHOW RELAYLOG EVENTS": Role.REPLICATE_ADMIN,
    "START REPLICA": Role.REPLICATE_ADMIN,
    "START REPLICA UNTIL SOURCE_LOG_FILE = 'a', SOURCE_LOG_POS = 4": Role.REPLICATE_ADMIN,
    "STOP REPLICA": Role.REPLICATE_ADMIN,
    "RESET REPLICA ALL": Role.REPLICATE_ADMIN,
    "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h'": Role.REPLICATE_ADMIN,
    "CHANGE MASTER TO MASTER_HOST = 'h'": Role.REPLICATE_ADMIN,
    "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a)": Role.REPLICATE_ADMIN,
    "CHANGE BINLOG 'bin' TO DO = 'a.%'": Role.ALL,
    "PURGE BINARY LOGS TO 'bin.000003'": Role.ALL,
    "PURGE /* hidden */ MASTER LOGS BEFORE NOW()": Role.ALL,
    "/*!50000 PURGE BINARY LOGS TO 'bin.000003' */": Role.ALL,
    "DRAIN REPLICA 101": Role.ALL,
    "UNDRAIN ALL REPLICAS": Role.ALL,
    "SELECT 1": Role.READ,
    "(SELECT 1)": Role.READ,
    "WITH a AS (SELECT 1) SELECT * FROM a": Role.READ,
    "SHOW PROCESSLIST": Role.READ,
    "SET @a = 1": Role.READ,
    "BEGIN": Role.READ,
}


@pytest.fixture
def executor() -> SmallExecutor:
    executor = SmallExecutor()
    executor.release.set()
    return executor


@pytest.fixture
def console(executor: SmallExecutor) -> Iterator[ConsoleServer]:
    with ConsoleServer(executor, users=USERS, roles=ROLES, denial_seconds=0) as server:
        yield server


def connect(console: ConsoleServer, user: str) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=console.port, user=user, password=USERS[user], autocommit=None
    )


def ask(connection: pymysql.Connection, statement: str) -> tuple[tuple[object, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def refusal(connection: pymysql.Connection, statement: str) -> tuple[int, str]:
    """Return number and text of the error that answers a statement, or (0, "")."""
    try:
        ask(connection, statement)
    except pymysql.err.Error as error:
        return error.args[0], error.args[1]
    return 0, ""


def test_every_command_has_a_role() -> None:
    assert set(COMMANDS) == set(Command.__subclasses__()) - {Query}
    assert set(STATEMENTS) == {*QUERIES, *GRAMMAR.beginnings}


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "run: python tools/role_table.py"


@pytest.mark.parametrize("statement", EXAMPLES)
def test_least_role(console: ConsoleServer, executor: SmallExecutor, statement: str) -> None:
    needed = EXAMPLES[statement]
    for user in USERS:
        role = ROLES.get(user, Role.READ)
        executor.commands.clear()
        with connect(console, user) as connection:
            number, text = refusal(connection, statement)
        if role.includes(needed):
            assert number != 1227
        else:
            assert (number, text) == (
                1227,
                f"Access denied; you need (at least one of) the {needed} privilege(s) for this operation",
            )
            assert not executor.commands


def test_prepared_and_multiple_statements_are_checked(
    console: ConsoleServer, executor: SmallExecutor
) -> None:
    purge = "PURGE BINARY LOGS TO 'bin.000003'"
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=console.port,
            user="reader",
            password="r",
            autocommit=None,
            client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"SELECT 1; {purge}")
        with pytest.raises(pymysql.err.OperationalError, match="1227"):
            cursor.nextset()
    assert not executor.commands


def test_show_grants(console: ConsoleServer) -> None:
    def grants(user: str) -> list[object]:
        with connect(console, user) as connection:
            return [row[0] for row in ask(connection, "SHOW GRANTS")]

    assert grants("reader") == [
        "GRANT SELECT, REPLICATION CLIENT ON *.* TO `reader`@`localhost`",
        "GRANT `read`@`%` TO `reader`@`localhost`",
    ]
    assert grants("operator")[-1] == "GRANT `replicate-admin`@`%` TO `operator`@`localhost`"
    assert grants("boss")[-1] == "GRANT `all`@`%` TO `boss`@`localhost`"


def test_kill_and_processlist(console: ConsoleServer) -> None:
    with (
        connect(console, "reader") as reader,
        connect(console, "reader") as second,
        connect(console, "operator") as operator,
        connect(console, "boss") as boss,
    ):
        ids = {c: c.thread_id() for c in (reader, second, operator, boss)}
        assert {row[1] for row in ask(reader, "SHOW PROCESSLIST")} == {"reader"}
        assert {row[1] for row in ask(boss, "SHOW PROCESSLIST")} == {"reader", "operator", "boss"}
        for other in (operator, boss):
            for kind in ("", "QUERY "):
                assert refusal(reader, f"KILL {kind}{ids[other]}") == (
                    1095,
                    f"You are not owner of thread {ids[other]}",
                )
        assert refusal(operator, f"KILL {ids[reader]}")[0] == 1095
        assert refusal(reader, "KILL 999999")[0] == 1094
        assert refusal(reader, f"KILL {ids[second]}") == (0, "")
        with pytest.raises(pymysql.err.Error):
            ask(second, "SELECT 1")
        assert refusal(boss, f"KILL {ids[operator]}") == (0, "")
        with pytest.raises(pymysql.err.Error):
            ask(operator, "SELECT 1")
        assert ask(reader, "SELECT 1") == ((1,),)


def test_changed_users(console: ConsoleServer) -> None:
    with connect(console, "reader") as reader, connect(console, "operator") as operator:
        assert refusal(reader, "STOP REPLICA")[0] == 1227
        users = stored({"reader": "r", "operator": "another"})
        console.change_users(users, {"reader": Role.ALL, "operator": Role.ALL})
        assert refusal(reader, "STOP REPLICA")[0] == 0
        while not refusal(operator, "SELECT 1")[0]:
            """Wait until the console has closed the connection, whose user has another password now."""
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        connect(console, "boss")
