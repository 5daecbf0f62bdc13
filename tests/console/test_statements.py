"""Passwords do not leave the console in statements, and comments alone are a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.console.prepared import literal
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.statements import SECRET, without_passwords


@pytest.mark.parametrize(
    "statement",
    [
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='h', SOURCE_PASSWORD='hush'",
        "CHANGE MASTER TO MASTER_PASSWORD = 'hush', MASTER_HOST='h'",
        "CHANGE MASTER TO MASTER_PASSWORD = hush",
        "CHANGE MASTER TO MASTER_PASSWORD = 'hush",
        'START SLAVE USER="u" PASSWORD="hush"',
        "START REPLICA PASSWORD = 'a' 'hush' FOR CHANNEL 'c'",
        "START REPLICA PASSWORD /* hush */ = 'hush'",
        "/* 'hush' */ START REPLICA PASSWORD = 'x'",
        "SET PASSWORD FOR u = 'hush'",
        "START REPLICA PASSWORD = ',' 'hush'",
        "SET @x = 'the password is hush', PASSWORD = 'hush'",
        "CREATE USER u IDENTIFIED BY 'hush'",
        "START REPLICA `PASSWORD` = 'hush'",
        "/*!99999 PASSWORD = 'hush' */",
    ],
)
def test_no_password_is_left(statement: str) -> None:
    masked = without_passwords(statement, 1000)
    assert "hush" not in masked.replace("the password is hush", "")


def test_the_rest_is_left() -> None:
    statement = "CHANGE MASTER TO MASTER_PASSWORD = 'hush', MASTER_HOST = 'h', MASTER_PORT = 3307"
    assert without_passwords(statement, 1000) == (
        f"CHANGE MASTER TO MASTER_PASSWORD {SECRET} , MASTER_HOST = 'h' , MASTER_PORT = 3307"
    )
    assert without_passwords("STOP  REPLICA -- 'x'", 1000) == "STOP  REPLICA -- 'x'"
    assert without_passwords("STOP REPLICA", 4) == "STOP"


def test_a_comment_hides_nothing_from_the_audit_log() -> None:
    purge = f"PURGE /* {'x' * 2000} */ BINARY LOGS # {'y' * 2000}\n TO 'bin.000003'"
    assert without_passwords(purge, 1000) == "PURGE BINARY LOGS TO 'bin.000003'"
    assert without_passwords("/* why */ STOP REPLICA", 1000) == "/* why */ STOP REPLICA"
    long = without_passwords(
        f"CHANGE MASTER TO MASTER_PASSWORD = 'hush' /* {'x' * 2000} */, MASTER_HOST = 'h'", 1000
    )
    assert long == f"CHANGE MASTER TO MASTER_PASSWORD {SECRET} , MASTER_HOST = 'h'"
    assert len(without_passwords(f"CHANGE BINLOG 'b' TO DO = '{'x' * 2000}'", 1000)) == 1000


@given(st.text().map(lambda text: f"hush{text}hush"), st.sampled_from(["'", '"']))
def test_any_password(password: str, quote: str) -> None:
    doubled = password.replace("\\", "\\\\").replace(quote, quote * 2)
    written = literal(password) if quote == "'" else f'"{doubled}"'
    masked = without_passwords(f"CHANGE MASTER TO MASTER_PASSWORD = {written}, MASTER_HOST = 'h'", 10_000)
    assert "hush" not in masked
    assert "'h'" in masked


@pytest.mark.parametrize("text", ["/* c */", "-- c", "# c\n/* d */;", "/*!99999 c */"])
def test_comments_alone_are_accepted_as_on_a_server(text: str) -> None:
    assert parse_statement(text).values == {}


def test_a_comment_without_end_is_a_syntax_error() -> None:
    with pytest.raises(SqlError, match=r"near '/\* c'"):
        parse_statement("/* c")
