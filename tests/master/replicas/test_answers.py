"""The answers to the queries before a dump."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.limits import CLIENT_MEMORY
from dumpfilter.console.session import Session
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.result import OK, Result
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.statements import execute_statement
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.replicas.answers import Source, gtid_position, session_state
from dumpfilter.master.replicas.connection import ReplicaStatements
from dumpfilter.master.store import BinlogStore
from tests.master.replicas import serving

MYSQL = BinlogStore(serving.MYSQL)
MARIADB = BinlogStore(serving.MARIADB)

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
    ("SET skip_replication=1", OK),
    ("SELECT binlog_gtid_pos('bin.000002',4)", gtid_position(MARIADB, "bin.000002", 4)),
]
PROGRAMS = [
    ("SELECT VERSION()", "9.7.4-2"),
    ("SHOW VARIABLES LIKE 'BINLOG_ROW_METADATA';", "FULL"),
    ("SHOW GLOBAL VARIABLES LIKE 'BINLOG_CHECKSUM'", "CRC32"),
    ("SELECT @@GLOBAL.binlog_checksum as checksum", "CRC32"),
    ("select @@version;", "9.7.4-2"),
    ("set @master_binlog_checksum:='NONE'", OK),
]


class Port(ConsoleServer):
    """A port whose statements are executed as those of replicas."""

    def __init__(self, store: BinlogStore) -> None:
        console = MasterConsole(Mock(store=store, master_uuid="6ccd"))
        self._own = ReplicaStatements(console, Source(store))
        super().__init__(console)

    def executor_of(self, user: str) -> Executor:
        return self._own


def session(store: BinlogStore = MYSQL) -> Session:
    return Session(Port(store), 1, "all", "localhost")


def answer(statement: str, session: Session) -> Result:
    return execute_statement(session, statement)


@pytest.mark.parametrize(
    ("store", "talk"),
    [(MYSQL, MYSQL_REPLICA), (MARIADB, MARIADB_REPLICA), (MYSQL, PROGRAMS)],
    ids=["mysql", "mariadb", "programs"],
)
def test_every_query_before_a_dump_is_answered(store: BinlogStore, talk: list[tuple[str, object]]) -> None:
    state = session(store)
    for statement, expected in talk:
        found = answer(statement, state)
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
        answer(statement, mysql)
    state = session_state(mysql.user_variables)
    assert state.heartbeat_seconds == pytest.approx(30, abs=0.1)
    assert (state.checksum, state.uuid) == ("CRC32", "abc")
    mariadb = session(MARIADB)
    for statement, _ in MARIADB_REPLICA:
        answer(statement, mariadb)
    state = session_state(mariadb.user_variables)
    assert (state.checksum, state.uuid, state.capability) == ("CRC32", "", 4)
    assert (state.connect_state, state.until) == ("0-11-5,1-11-7", None)


@pytest.mark.parametrize("name", ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"])
def test_semi_sync_is_declined(name: str) -> None:
    state = session()
    with pytest.raises(SqlError) as caught:
        answer(f"SELECT @@global.{name}", state)
    assert caught.value.number == 1193
    found = answer(f"SHOW VARIABLES LIKE '{name}'", state)
    assert found.columns
    assert not found.rows


def test_a_source_of_the_other_family_has_no_such_function() -> None:
    with pytest.raises(SqlError):
        answer("SELECT binlog_gtid_pos('bin.000001',4)", session(MYSQL))


def test_quotes_in_a_value() -> None:
    state = session()
    assert answer(r"""SET @a='it''s', @b="a\"b", @c='a\\b', @d=NULL, @e=-7""", state) == OK
    assert state.user_variables == {"a": "it's", "b": 'a"b', "c": "a\\b", "d": None, "e": -7}


def test_a_replica_cannot_fill_the_memory() -> None:
    state = session()
    value = "x" * 60_000
    for number in range(CLIENT_MEMORY // len(value)):
        assert answer(f"SET @v{number}='{value}'", state) == OK
    with pytest.raises(SqlError) as caught:
        answer(f"SET @last='{value}'", state)
    assert caught.value.number == 1041


def test_plain_selects_of_a_replica_are_answered() -> None:
    state = session()
    answer("SET @a = 'x', @b = -7", state)
    found = answer("SELECT 1, @a, @b AS b, @@autocommit LIMIT 1", state)
    assert [column.name for column in found.columns] == ["1", "@a", "b", "@@autocommit"]
    assert found.rows == [(1, "x", -7, 1)]


def test_an_unknown_variable_in_a_value_is_error_1193() -> None:
    with pytest.raises(SqlError) as caught:
        answer("SET @a=@@global.nothing", session())
    assert caught.value.number == 1193
