"""The answers of a real MySQL 9.7's parser to the statements of ``data/statements.sql`` (see record.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dumpfilter.console.statements  # noqa: F401 — the console's own statements
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError

ANSWERS = json.loads((Path(__file__).parent / "data" / "answers.json").read_text(encoding="utf-8"))

DIFFERENCES: dict[str, str | None] = {
    # a rule is an option's value, for master and slave alike: it cannot be empty, and a rewrite has one arrow
    "change replication filter replicate_do_db=(``)": "ERROR 1102 (42000): Incorrect database name ''",
    "change replication filter replicate_rewrite_db=((a,``))": "ERROR 1102 (42000): Incorrect database name ''",
    "change replication filter replicate_rewrite_db=((`a->b`,c))": (
        "ERROR 1102 (42000): Incorrect database name 'a->b'"
    ),
    # exotic times of PURGE are dropped: DATE_ADD and DATE_SUB, and intervals of several units
    **dict.fromkeys(
        (
            "purge binary logs before date_sub(now(3), interval '360' month) - interval -1 day",
            "purge binary logs before date_sub(now(), interval 30 year",
            "purge binary logs before date_sub(now(), 30)",
        ),
        "ERROR 1235 (42000): This version of MySQL doesn't yet support 'PURGE BINARY LOGS BEFORE date_sub()'",
    ),
    "purge binary logs before now() - interval '30 1' year_month": (
        "ERROR 1064 (42000): You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
        "server version for the right syntax to use near ''30 1' year_month' at line 1"
    ),
    # the marks of version comments are skipped, as in a binlog, whether or not they belong together
    "change replication filter replicate_do_db=(a) */": None,
    "change replication filter replicate_do_db=(a) /*! for channel ''": None,
    **{
        f"change replication filter replicate_do_db=(a) /*!99999 /* x */ {rest}": (
            "ERROR 1064 (42000): You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
            f"server version for the right syntax to use near '{rest}' at line 1"
        )
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
