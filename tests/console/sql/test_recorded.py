"""The answers of a real MySQL 9.7's parser to the statements of ``data/statements.sql`` (see record.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dumpfilter.console.statements  # noqa: F401 — the console's own statements
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError

ANSWERS = json.loads((Path(__file__).parent / "data" / "answers.json").read_text(encoding="utf-8"))

CHANGE = "change replication filter replicate_"
SYNTAX = (
    "ERROR 1064 (42000): You have an error in your SQL syntax; check the manual that corresponds to your MySQL server "
    "version for the right syntax to use near "
)

DIFFERENCES: dict[str, str | None] = {
    # a quoted text is cut to a number of characters, which a server takes for bytes
    f"{CHANGE}ignore_table=({'é' * 65}.b)": f"ERROR 1059 (42000): Identifier name '{'é' * 65}' is too long",
    f"{CHANGE}do_db=(é “é” {'é' * 62})": f"{SYNTAX}'“é” {'é' * 62})' at line 1",
    **{
        f"{CHANGE}do_db=(a {begin}{'“' * 47}": f"{SYNTAX}'{begin}{'“' * 47}' at line 1"
        for begin in ("", "a", "aa")
    },
    # a rule is an option's value, for master and slave alike: it cannot be empty, and a rewrite has one arrow
    "change replication filter replicate_do_db=(``)": "ERROR 1102 (42000): Incorrect database name ''",
    "change replication filter replicate_rewrite_db=((a,``))": "ERROR 1102 (42000): Incorrect database name ''",
    "change replication filter replicate_rewrite_db=((`a->b`,c))": (
        "ERROR 1102 (42000): Incorrect database name 'a->b'"
    ),
    # exotic times of PURGE are syntax errors: other functions, literals with a type, and intervals of several units
    **{
        f"purge binary logs before {time}": f"{SYNTAX}'{time}' at line 1"
        for time in (
            "foo",
            "date_sub(now(3), interval '360' month) - interval -1 day",
            "date_sub(now(), interval 30 year",
            "date_sub(now(), 30)",
            "timestamp'2020-01-01 10:10:10'",
            "timestamp '2020-13-01 10:10:10'",
        )
    },
    # a name in LIMIT is a syntax error
    "show binlog events limit a": f"{SYNTAX}'a' at line 1",
    # a slave has no delay, and no limit of a password's length
    **dict.fromkeys(
        f"change replication source to source_{option} for channel 'c1'"
        for option in (
            "delay=2147483648",
            "delay=99999999999999999999999",
            "password='123456789012345678901234567890123'",
            "password='é2345678901234567890123456789012'",
        )
    ),
    # a slave refuses a login for the SQL thread when it carries out the statement
    **dict.fromkeys(f"start replica sql_thread user='{user}' for channel 'z'" for user in ("a", "")),
    "start replica until sql_after_mts_gaps=1": (
        "ERROR 1235 (42000): This version of MySQL doesn't yet support 'START REPLICA UNTIL SQL_AFTER_MTS_GAPS'"
    ),
    # NOW without parentheses, or with any number of digits, is NOW()
    **dict.fromkeys(("purge binary logs before now", "purge binary logs before now(7)")),
    "purge binary logs before now() - interval '30 1' year_month": (f"{SYNTAX}''30 1' year_month' at line 1"),
    # the marks of version comments are skipped, as in a binlog, whether or not they belong together
    "change replication filter replicate_do_db=(a) */": None,
    "change replication filter replicate_do_db=(a) /*! for channel ''": None,
    **{
        f"change replication filter replicate_do_db=(a) /*!99999 /* x */ {rest}": f"{SYNTAX}'{rest}' at line 1"
        for rest in ("foo", "foo */")
    },
}


def answer(statement: str) -> str | None:
    try:
        parse_statement(statement)
    except SqlError as error:
        return str(error)
    return None


@pytest.mark.parametrize("statement", [statement for statement in ANSWERS if statement not in DIFFERENCES])
def test_the_parser_says_what_the_server_says(statement: str) -> None:
    recorded = ANSWERS[statement]
    expected = recorded and f"ERROR {recorded['number']} ({recorded['sqlstate']}): {recorded['message']}"
    assert answer(statement) == expected


@pytest.mark.parametrize(("statement", "expected"), DIFFERENCES.items())
def test_where_it_differs_it_does_so_on_purpose(statement: str, expected: str | None) -> None:
    assert statement in ANSWERS
    assert answer(statement) == expected


def test_enough_was_recorded() -> None:
    assert sum(recorded is not None for recorded in ANSWERS.values()) > 200
    assert sum(recorded is None for recorded in ANSWERS.values()) > 80
