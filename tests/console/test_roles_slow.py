"""Roles: which statements an account may use, over the console's port."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.sql.grammar import FORMS, NEEDS, Role
from tests.console.small_executor import SmallExecutor
from tests.console.sql.parsed import METHODS

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
    with ConsoleServer(executor, users=USERS, roles=ROLES, denial_seconds=0).running() as server:
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
    of_console, kill, *of_replication = NEEDS
    assert len(of_replication) == len(METHODS)
    first_words = {name.split()[0] for name in of_console.statement.replace("(", "( ").split(", ")}
    assert first_words | {kill.statement} <= FORMS.keys()
