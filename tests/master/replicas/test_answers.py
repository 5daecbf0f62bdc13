"""The answers to the queries before a dump."""

from __future__ import annotations

import resource

import pytest

from dumpfilter.console.limits import CLIENT_MEMORY, Memory
from dumpfilter.console.server import ConsoleServer
from dumpfilter.console.session import Session
from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import OK
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.statements import execute_statement
from dumpfilter.master.replicas.answers import Source, answer, gtid_position, session_state
from dumpfilter.master.store import BinlogStore
from tests.console.small_executor import SmallExecutor
from tests.master.replicas import serving

MYSQL = Source(BinlogStore(serving.MYSQL), "6ccd")
MARIADB = Source(BinlogStore(serving.MARIADB), "")

MYSQL_REPLICA = [
    ("SELECT UNIX_TIMESTAMP()", None),
    ("SELECT @@GLOBAL.SERVER_ID", 11),
    ("SET @master_heartbeat_period= 30000001024, @source_heartbeat_period= 30000001024", OK),
    (
        "SET @master_binlog_checksum= @@global.binlog_checksum, @source_binlog_checksum= @@global.binlog_checksum",
        OK,
    ),
    ("SELECT @source_binlog_checksum", "CRC32"),
    ("SELECT @@GLOBAL.GTID_MODE", "ON"),
    ("SELECT @@GLOBAL.SERVER_UUID", "6ccd"),
    ("SET @slave_uuid= 'ABC', @replica_uuid= 'ABC'", OK),
    ("SET NAMES utf8mb4", OK),
]
MARIADB_REPLICA = [
    ("SET NAMES latin1", OK),
    ("SELECT UNIX_TIMESTAMP()", None),
    ("SHOW VARIABLES LIKE 'SERVER_ID'", "11"),
    ("SET @master_heartbeat_period=30000001024", OK),
    ("SET @master_binlog_checksum= @@global.binlog_checksum", OK),
    ("SELECT @master_binlog_checksum", "CRC32"),
    ("SET @mariadb_slave_capability=4", OK),
    ("SELECT @@GLOBAL.gtid_domain_id", 0),
    ("SET @slave_connect_state='0-11-5,1-11-7'", OK),
    ("SET @slave_gtid_strict_mode=1", OK),
    ("SET @slave_gtid_ignore_duplicates=0", OK),
    ("SELECT binlog_gtid_pos('bin.000002',4)", gtid_position(MARIADB.store, "bin.000002", 4)),
]
PROGRAMS = [
    ("SELECT VERSION()", "9.7.4-2"),
    ("SHOW VARIABLES LIKE 'BINLOG_ROW_METADATA';", "FULL"),
    ("SHOW GLOBAL VARIABLES LIKE 'BINLOG_CHECKSUM'", "CRC32"),
    ("SELECT @@GLOBAL.binlog_checksum as checksum", "CRC32"),
    ("select @@version;", "9.7.4-2"),
    ("set @master_binlog_checksum:='NONE'", OK),
]


def session() -> Session:
    port = ConsoleServer(SmallExecutor())
    return Session(port, Memory(CLIENT_MEMORY, "variables"), 1, "all", "localhost")


@pytest.mark.parametrize(
    ("source", "talk"),
    [(MYSQL, MYSQL_REPLICA), (MARIADB, MARIADB_REPLICA), (MYSQL, PROGRAMS)],
    ids=["mysql", "mariadb", "programs"],
)
def test_every_query_before_a_dump_is_answered(source: Source, talk: list[tuple[str, object]]) -> None:
    state = session()
    for statement, expected in talk:
        found = answer(statement, source, state) or execute_statement(state, statement, Interrupt())
        if expected is OK:
            assert found == OK
        elif expected is None:
            assert found.rows[0][0] > 0
        else:
            assert found.rows[0][-1] == expected, statement


def test_the_variables_say_who_the_replica_is() -> None:
    mysql = session()
    assert session_state(mysql.user_variables) == (None, None, "", 0, None, None, False, False)
    for statement, _ in MYSQL_REPLICA:
        answer(statement, MYSQL, mysql)
    state = session_state(mysql.user_variables)
    assert state.heartbeat_seconds == pytest.approx(30, abs=0.1)
    assert (state.checksum, state.uuid) == ("CRC32", "abc")
    mariadb = session()
    for statement, _ in MARIADB_REPLICA:
        answer(statement, MARIADB, mariadb)
    state = session_state(mariadb.user_variables)
    assert (state.checksum, state.uuid, state.capability) == ("CRC32", "", 4)
    assert (state.connect_state, state.until) == ("0-11-5,1-11-7", None)


@pytest.mark.parametrize("name", ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"])
def test_semi_sync_is_declined(name: str) -> None:
    state = session()
    with pytest.raises(SqlError) as caught:
        answer(f"SELECT @@global.{name}", MYSQL, state)
    assert caught.value.number == 1193
    found = answer(f"SHOW VARIABLES LIKE '{name}'", MYSQL, state)
    assert found is not None
    assert found.columns
    assert not found.rows


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "SELECT @@max_allowed_packet",
        "SELECT @unknown",
        "SET autocommit=1",
        "SET @a=1, autocommit=1",
        "SET @a=1,",
        "SET @a=1 @b=2",
        "SET @a=(SELECT 1)",
        "SHOW BINARY LOGS",
        "SHOW VARIABLES LIKE 'autocommit'",
        "SELECT binlog_gtid_pos('bin.000001',4)",
        "",
    ],
)
def test_other_statements_go_to_the_console(statement: str) -> None:
    state = session()
    assert answer(statement, MYSQL, state) is None
    assert not state.user_variables


def test_quotes_in_a_value() -> None:
    state = session()
    assert answer(r"""SET @a='it''s', @b="a\"b", @c='a\\b', @d=NULL, @e=-7""", MYSQL, state) == OK
    assert state.user_variables == {"a": "it's", "b": 'a"b', "c": "a\\b", "d": None, "e": -7}


def test_a_replica_cannot_fill_the_memory() -> None:
    state = session()
    value = "x" * (1 << 20)
    for number in range(CLIENT_MEMORY // len(value) - 1):
        assert answer(f"SET @v{number}='{value}'", MYSQL, state) == OK
    with pytest.raises(SqlError) as caught:
        answer(f"SET @last='{value}'", MYSQL, state)
    assert caught.value.number == 1041


@pytest.mark.parametrize("value", ["\\\\x" * 30_000, "''" * 30_000, "x" * 60_000])
def test_a_long_value_takes_little_memory(value: str) -> None:
    """A regular expression with a group for each character took 680 MB for 4 MB of text."""
    state = session()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert answer(f"SET @a='{value * 30}'", MYSQL, state) == OK
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_plain_selects_of_a_replica_are_answered() -> None:
    state = session()
    execute_statement(state, "SET @a = 'x', @b = -7", Interrupt())
    found = execute_statement(state, "SELECT 1, @a, @b AS b, @@autocommit LIMIT 1", Interrupt())
    assert [column.name for column in found.columns] == ["1", "@a", "b", "@@autocommit"]
    assert found.rows == [(1, "x", -7, 1)]


def test_an_unknown_variable_in_a_value_is_error_1193() -> None:
    with pytest.raises(SqlError) as caught:
        answer("SET @a=@@global.nothing", MYSQL, session())
    assert caught.value.number == 1193
