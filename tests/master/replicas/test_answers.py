"""The answers to the queries before a dump."""

from __future__ import annotations

import pytest

from dumpfilter.master.replicas.answers import MAX_VARIABLES, Handshake, Source
from dumpfilter.sql.result import OK
from dumpfilter.sql.server_errors import SqlError

MYSQL = Source(
    "mysql", "9.7.4", 11, "6ccd", lambda: True, lambda: "FULL", lambda: "ON", lambda file, position: None
)
MARIADB = Source(
    "mariadb",
    "10.11.6-MariaDB",
    12,
    "",
    lambda: False,
    lambda: "MINIMAL",
    lambda: "",
    lambda file, position: f"{file}/{position}",
)

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
    ("SHOW VARIABLES LIKE 'SERVER_ID'", "12"),
    ("SET @master_heartbeat_period=30000001024", OK),
    ("SET @master_binlog_checksum= @@global.binlog_checksum", OK),
    ("SELECT @master_binlog_checksum", "NONE"),
    ("SET @mariadb_slave_capability=4", OK),
    ("SELECT @@GLOBAL.gtid_domain_id", 0),
    ("SET @slave_connect_state='0-11-5,1-11-7'", OK),
    ("SET @slave_gtid_strict_mode=1", OK),
    ("SET @slave_gtid_ignore_duplicates=0", OK),
    ("SELECT binlog_gtid_pos('bin.000001',4)", "bin.000001/4"),
]
PROGRAMS = [
    ("SELECT VERSION()", "9.7.4"),
    ("SHOW VARIABLES LIKE 'BINLOG_ROW_METADATA';", "FULL"),
    ("SHOW GLOBAL VARIABLES LIKE 'BINLOG_CHECKSUM'", "CRC32"),
    ("SELECT @@GLOBAL.binlog_checksum as checksum", "CRC32"),
    ("select @@version;", "9.7.4"),
    ("set @master_binlog_checksum:='NONE'", OK),
]


@pytest.mark.parametrize(
    ("source", "talk"),
    [(MYSQL, MYSQL_REPLICA), (MARIADB, MARIADB_REPLICA), (MYSQL, PROGRAMS)],
    ids=["mysql", "mariadb", "programs"],
)
def test_every_query_before_a_dump_is_answered(source: Source, talk: list[tuple[str, object]]) -> None:
    handshake = Handshake(source)
    for statement, expected in talk:
        found = handshake.answer(statement)
        assert found is not None, statement
        if expected is OK:
            assert found == OK
        elif expected is None:
            assert found.rows[0][0] > 0
        else:
            assert found.rows[0][-1] == expected, statement


def test_the_variables_say_who_the_replica_is() -> None:
    handshake = Handshake(MYSQL)
    assert handshake.state == (None, None, "", 0, None, None, False, False)
    for statement, _ in MYSQL_REPLICA:
        handshake.answer(statement)
    state = handshake.state
    assert state.heartbeat_seconds == pytest.approx(30, abs=0.1)
    assert (state.checksum, state.uuid) == ("CRC32", "abc")
    handshake = Handshake(MARIADB)
    for statement, _ in MARIADB_REPLICA:
        handshake.answer(statement)
    state = handshake.state
    assert (state.checksum, state.uuid, state.capability) == ("NONE", "", 4)
    assert (state.connect_state, state.until) == ("0-11-5,1-11-7", None)


@pytest.mark.parametrize("name", ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"])
def test_semi_sync_is_declined(name: str) -> None:
    handshake = Handshake(MYSQL)
    with pytest.raises(SqlError) as caught:
        handshake.answer(f"SELECT @@global.{name}")
    assert caught.value.number == 1193
    found = handshake.answer(f"SHOW VARIABLES LIKE '{name}'")
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
    handshake = Handshake(MYSQL)
    assert handshake.answer(statement) is None
    assert not handshake.variables


def test_quotes_in_a_value() -> None:
    handshake = Handshake(MYSQL)
    assert handshake.answer(r"""SET @a='it''s', @b="a\"b", @c='a\\b', @d=NULL, @e=-7""") == OK
    assert handshake.variables == {"a": "it's", "b": 'a"b', "c": "a\\b", "d": None, "e": -7}


def test_a_replica_cannot_fill_the_memory() -> None:
    handshake = Handshake(MYSQL)
    for number in range(MAX_VARIABLES):
        handshake.answer(f"SET @v{number}=1")
    for statement in ("SET @more=1", f"SET @v1='{'x' * (1 << 20)}'"):
        with pytest.raises(SqlError) as caught:
            handshake.answer(statement)
        assert caught.value.number == 1041
    assert handshake.answer("SELECT @v1") is not None


def test_an_unknown_variable_in_a_value_is_error_1193() -> None:
    with pytest.raises(SqlError) as caught:
        Handshake(MYSQL).answer("SET @a=@@global.nothing")
    assert caught.value.number == 1193
