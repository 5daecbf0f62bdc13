"""The statements that SQLAlchemy, Connector/J and DBeaver send by themselves, when they connect and list tables."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from dumpfilter.console.connection import ConsoleServer
from tests.console.small_executor import SmallExecutor


@pytest.fixture(scope="module")
def connection() -> Iterator[pymysql.Connection]:
    with (
        ConsoleServer(SmallExecutor(), users={"root": ""}).running() as server,
        pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", autocommit=None, database="performance_schema"
        ) as connection,
    ):
        yield connection


def answer(connection: pymysql.Connection, statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


SQLALCHEMY = [
    ("SELECT VERSION()", [("8.0.0-dumpfilter-0.1.0",)]),
    ("SELECT @@sql_mode", [("",)]),
    ("SELECT @@lower_case_table_names", [(0,)]),
    ("SELECT @@transaction_isolation", [("REPEATABLE-READ",)]),
    ("SELECT DATABASE()", [("performance_schema",)]),
    ("SELECT CAST('test plain returns' AS CHAR(60)) AS anon_1", [("test plain returns",)]),
    ("SHOW VARIABLES LIKE 'sql_mode'", [("sql_mode", "")]),
    ("SHOW VARIABLES LIKE 'character_set_client'", [("character_set_client", "utf8mb4")]),
    ("select 1", [(1,)]),
    (
        "SHOW FULL TABLES FROM `performance_schema`",
        [("replication_applier_filters", "BASE TABLE"), ("replication_applier_status", "BASE TABLE")],
    ),
    (
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema' "
        "AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME LIMIT 1",
        [("replication_applier_filters",)],
    ),
]
SHOW_CREATE = [
    (
        "SHOW CREATE TABLE `replication_applier_status`",
        [
            (
                "replication_applier_status",
                "CREATE TABLE `replication_applier_status` (\n  `CHANNEL_NAME` longtext,\n  `SERVICE_STATE` longtext,\n"
                "  `REMAINING_DELAY` bigint unsigned DEFAULT NULL\n"
                ") ENGINE=PERFORMANCE_SCHEMA DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
            )
        ],
    ),
    (
        "SHOW CREATE DATABASE performance_schema",
        [
            (
                "performance_schema",
                "CREATE DATABASE `performance_schema` "
                "/*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */",
            )
        ],
    ),
]
CONNECTOR_J = [
    (
        "/* mysql-connector-j-8.2.0 */SELECT  @@session.auto_increment_increment AS auto_increment_increment, "
        "@@character_set_client AS character_set_client, @@character_set_results AS character_set_results, "
        "@@collation_server AS collation_server, @@init_connect AS init_connect, "
        "@@interactive_timeout AS interactive_timeout, @@license AS license, "
        "@@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, "
        "@@net_write_timeout AS net_write_timeout, @@performance_schema AS performance_schema, "
        "@@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, "
        "@@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout",
        None,
    ),
    ("SELECT @@session.transaction_read_only", [(0,)]),
    (
        "SELECT COLUMN_NAME, LEAST(CHARACTER_MAXIMUM_LENGTH, 2147483647) AS COLUMN_SIZE "
        "FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'replication_applier_status' AND COLUMN_NAME LIKE 'C%'",
        [("CHANNEL_NAME", None)],
    ),
    (
        "SELECT TABLE_SCHEMA, NULL, TABLE_NAME, COLUMN_NAME, CASE WHEN UPPER(DATA_TYPE) = 'BIGINT' THEN -5 "
        "WHEN UPPER(DATA_TYPE) = 'LONGTEXT' THEN -1 ELSE 1111 END AS DATA_TYPE, "
        "UPPER(CASE WHEN LOCATE('(', COLUMN_TYPE) != 0 THEN SUBSTRING(COLUMN_TYPE, 1, LOCATE('(', COLUMN_TYPE) - 1) "
        "ELSE COLUMN_TYPE END) AS TYPE_NAME FROM INFORMATION_SCHEMA.COLUMNS "
        "WHERE TABLE_SCHEMA LIKE 'performance\\_schema' AND TABLE_NAME LIKE 'replication\\_applier\\_filters' "
        "AND COLUMN_NAME LIKE 'ACTIVE%' ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
        [
            (
                *("performance_schema", None, "replication_applier_filters", "ACTIVE_SINCE", 1111),
                "TIMESTAMP",
            )
        ],
    ),
]
DBEAVER = [
    ("SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server", [("utf8mb4", "utf8mb4_0900_ai_ci")]),
    ("SHOW ENGINES", None),
    ("SHOW CHARSET", None),
    ("SHOW COLLATION", None),
    ("SHOW PLUGINS", []),
    ("SHOW SESSION STATUS LIKE 'Ssl_cipher'", None),
    ("SHOW VARIABLES LIKE 'aurora\\_version'", []),
    ("SHOW VARIABLES LIKE 'lower_case_table_names'", [("lower_case_table_names", "0")]),
    ("SELECT engine, support FROM information_schema.ENGINES", [("PERFORMANCE_SCHEMA", "DEFAULT")]),
    ("SELECT * FROM information_schema.PLUGINS WHERE PLUGIN_TYPE = 'STORAGE ENGINE'", []),
    (
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME <> 'information_schema'",
        [("performance_schema",)],
    ),
    ("SHOW TABLE STATUS FROM `performance_schema` LIKE 'replication_applier_st%'", None),
    ("SHOW FULL COLUMNS FROM `performance_schema`.`replication_applier_status`", None),
    (
        "SELECT cc.CONSTRAINT_NAME, cc.CHECK_CLAUSE, tc.TABLE_NAME FROM (SELECT CONSTRAINT_NAME, CHECK_CLAUSE "
        "FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'performance_schema' "
        "ORDER BY CONSTRAINT_NAME) cc, (SELECT TABLE_NAME, CONSTRAINT_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS "
        "WHERE TABLE_SCHEMA = 'performance_schema') tc WHERE cc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME",
        [],
    ),
    (
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema' "
        "AND TABLE_NAME = 'replication_applier_status' ORDER BY ORDINAL_POSITION",
        [("CHANNEL_NAME",), ("SERVICE_STATE",), ("REMAINING_DELAY",)],
    ),
]


@pytest.mark.parametrize(("statement", "expected"), [*SQLALCHEMY, *SHOW_CREATE, *CONNECTOR_J, *DBEAVER])
def test_a_clients_own_statement_is_answered(
    connection: pymysql.Connection, statement: str, expected: list[tuple[object, ...]] | None
) -> None:
    rows = answer(connection, statement)
    assert expected is None or rows == expected
    assert expected is not None or len(rows) > 0


@pytest.mark.parametrize(
    ("statement", "number", "text"),
    [
        ("EXPLAIN SELECT 1", 1235, "'EXPLAIN'"),
        ("ANALYZE TABLE replication_applier_status", 1235, "'ANALYZE'"),
        ("SHOW ENGINE INNODB STATUS", 1235, "'SHOW ENGINE'"),
        ("SHOW PRIVILEGES", 1235, "'SHOW PRIVILEGES'"),
        ("SHOW CREATE PROCEDURE p", 1235, "'SHOW CREATE PROCEDURE'"),
        ("SHOW CREATE VIEW replication_applier_status", 1235, "'SHOW CREATE VIEW'"),
        ("SHOW CREATE TABLE nosuch", 1146, "'performance_schema.nosuch' doesn't exist"),
        ("SHOW CREATE DATABASE nosuch", 1049, "'nosuch'"),
        ("SELECT * FROM nosuch", 1146, "'performance_schema.nosuch' doesn't exist"),
        ("SELECT * FROM REPLICATION_APPLIER_STATUS", 1146, "'performance_schema.REPLICATION_APPLIER_STATUS'"),
        ("SELECT * FROM nosuch.nosuch", 1049, "Unknown database 'nosuch'"),
        ("SELECT * FROM information_schema.nosuch", 1146, "'information_schema.nosuch' doesn't exist"),
        ("SHOW CREATE", 1064, "near ''"),
        ("SHOW NONSENSE", 1064, "near 'NONSENSE'"),
    ],
)
def test_what_a_server_has_and_a_console_has_not(
    connection: pymysql.Connection, statement: str, number: int, text: str
) -> None:
    with pytest.raises(pymysql.MySQLError, match=text) as failed:
        answer(connection, statement)
    assert failed.value.args[0] == number


def test_sqlalchemy_reflects_the_tables(connection: pymysql.Connection) -> None:
    # Every worker collects this file, and one runs it.
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    engine = sqlalchemy.create_engine("mysql+pymysql://", creator=lambda: connection, poolclass=StaticPool)
    metadata = sqlalchemy.MetaData()
    metadata.reflect(bind=engine)
    assert sorted(metadata.tables) == ["replication_applier_filters", "replication_applier_status"]
    columns = metadata.tables["replication_applier_status"].columns
    assert {name: type(column.type).__name__ for name, column in columns.items()} == {
        "CHANNEL_NAME": "LONGTEXT",
        "SERVICE_STATE": "LONGTEXT",
        "REMAINING_DELAY": "BIGINT",
    }


@pytest.mark.parametrize("function", ["VERSION", "CONNECTION_ID", "DATABASE", "USER"])
def test_a_function_of_the_session_takes_no_argument(connection: pymysql.Connection, function: str) -> None:
    answer(connection, f"SELECT {function}()")
    with pytest.raises(pymysql.err.OperationalError, match="Incorrect parameter count"):
        answer(connection, f"SELECT {function}(5)")
