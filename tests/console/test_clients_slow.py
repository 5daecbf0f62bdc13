"""Programs that people use: the ``mariadb`` command-line client and ``dumpfilter sql``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.console.connection import ConsoleServer
from tests.console.programs import Terminal, dumpfilter_sql, mariadb, mariadb_arguments
from tests.console.small_executor import SmallExecutor


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleServer]:
    executor = SmallExecutor()
    executor.release.set()
    with ConsoleServer(executor, users={"root": "secret"}).running() as server:
        yield server


SCRIPT = """\
START REPLICA;
STOP REPLICA SQL_THREAD FOR CHANNEL '';
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a);
SHOW WARNINGS;
SHOW REPLICA STATUS\\G
-- a comment; with a semicolon
SELECT CHANNEL_NAME, COUNTER FROM performance_schema.replication_applier_filters
  WHERE FILTER_RULE <> ';' ORDER BY COUNTER DESC LIMIT 1;
"""


def test_script_by_standard_input(console: ConsoleServer) -> None:
    done = mariadb(console, script=SCRIPT)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "Level\tCode\tMessage",
        "Warning\t1\tone",
        "Note\t2\ttwo",
        "*************************** 1. row ***************************",
        "Replica_IO_State: ",
        "     Source_Port: 3306",
        "CHANNEL_NAME\tCOUNTER",
        "Ch1\t7",
    ]


def test_several_statements_and_the_first_error(console: ConsoleServer) -> None:
    done = mariadb(
        console, "-e", "SELECT 1; SELECT nope FROM performance_schema.replication_applier_status; SELECT 2"
    )
    assert done.returncode == 1
    assert done.stdout == "1\n1\n"
    assert done.stderr.splitlines()[-1] == (
        "ERROR 1054 (42S22) at line 1: Unknown column 'nope' in 'field list'"
    )


def test_a_query_has_one_statement(console: ConsoleServer) -> None:
    # with another delimiter the client sends all of it as one query
    done = mariadb(console, "--delimiter=//", "-t", "-e", "SELECT 1; START REPLICA//")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERROR 1064 (42000)" in done.stderr


def test_table_and_warnings_after_each_statement(console: ConsoleServer) -> None:
    done = mariadb(console, "-t", "--show-warnings", "-vvv", "-e", "START REPLICA; SHOW DATABASES")
    assert "Query OK, 0 rows affected, 1 warning" in done.stdout
    assert "Note (Code 3083): Replication thread(s) for channel '' are already runnning." in done.stdout
    assert "| performance_schema |" in done.stdout
    assert "2 rows in set" in done.stdout


@pytest.mark.parametrize(("password", "using"), [("wrong", "YES"), ("", "NO")])
def test_wrong_password(console: ConsoleServer, password: str, using: str) -> None:
    done = mariadb(console, "-e", "SELECT 1", password=password)
    assert done.returncode == 1
    assert done.stdout == ""
    # a client that verifies certificates says first that it cannot without a password
    assert done.stderr.splitlines()[-1].removeprefix("Enter password: ") == (
        f"ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: {using})"
    )


@pytest.mark.parametrize("plugin", ["mysql_native_password", "caching_sha2_password"])
def test_either_plugin(console: ConsoleServer, plugin: str) -> None:
    done = mariadb(console, f"--default-auth={plugin}", "-e", "SELECT USER() AS u")
    assert done.stdout == "u\nroot@localhost\n"


def test_control_c_ends_the_statement_and_not_the_session(console: ConsoleServer) -> None:
    terminal = Terminal(mariadb_arguments(console, "performance_schema"))
    terminal.until("[performance_schema]>")
    terminal.type("SELECT SLEEP(3600);\n")
    # the interrupt has somebody to reach only when the statement runs
    while "SLEEP(3600)" not in mariadb(console, "-e", "SHOW PROCESSLIST").stdout:
        pass
    terminal.type("\x03")
    terminal.until("ERROR 1317 (70100): Query execution was interrupted")
    terminal.until("[performance_schema]>")
    terminal.type("SELECT 40 + 2 AS answer;\n")
    assert "42" in terminal.until("1 row in set")
    terminal.type("exit\n")
    terminal.until("Bye")
    assert terminal.close() == 0


def test_sql_table_is_the_one_of_the_mysql_client(console: ConsoleServer) -> None:
    table = "performance_schema.replication_applier_filters"
    statement = f"SELECT CHANNEL_NAME, FILTER_RULE, ACTIVE_SINCE, COUNTER, NULL FROM {table}"
    ours = dumpfilter_sql(console, "-e", statement)
    theirs = mariadb(console, "-t", "--default-character-set=utf8mb4", "-e", statement)
    assert ours.stdout == theirs.stdout
    assert ours.stderr == ""


def test_sql_script(console: ConsoleServer) -> None:
    done = dumpfilter_sql(console, "--format=tsv", script=SCRIPT)
    assert done.returncode == 0
    assert done.stdout == mariadb(console, script=SCRIPT).stdout


def test_sql_json(console: ConsoleServer) -> None:
    done = dumpfilter_sql(
        console, "--format", "json", "-e", "START REPLICA; SELECT 1 a, 'é' b, NULL c, 0.5 d; SHOW WARNINGS\\G"
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [{"a": 1, "b": "é", "c": None, "d": 0.5}],
        [],
    ]


def test_sql_stops_at_the_first_error(console: ConsoleServer) -> None:
    script = "SELECT 1;\n\nCHANGE REPLICATION FILTER REPLICATE_DO_DB = ()\n  FOR CHANNEL 'x';\nSELECT 2;"
    done = dumpfilter_sql(console, "--format=tsv", script=script)
    assert (done.returncode, done.stdout) == (1, "1\n1\n")
    assert done.stderr == "ERROR 3074 (HY000) at line 3: Replica channel 'x' does not exist.\n"


def test_sql_password(console: ConsoleServer, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\n", "utf-8")
    assert dumpfilter_sql(console, "-p", str(path), "-e", "SELECT 1", password="").returncode == 0
    done = dumpfilter_sql(console, "-e", "SELECT 1", password="wrong")
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR 1045 (28000): Access denied for user 'root'@'localhost'")


def test_sql_where_nobody_listens() -> None:
    done = dumpfilter_sql(1, "-e", "SELECT 1")
    assert done.returncode == 3
    assert done.stderr.startswith("dumpfilter: 127.0.0.1:1: ")
    assert done.stderr.count("\n") == 1
