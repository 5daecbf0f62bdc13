"""The execution of a client's SELECT on the console's tables, by SQLite.

:mod:`dumpfilter.sql.rewriting` translates the statement from MySQL's SQL to SQLite's. An SQLite database in memory is
made for the one statement. The tables that the statement names are copied into this database, and SQLite runs the
statement there. Texts compare without case and accents, and errors have a MySQL server's numbers and texts.

A SELECT ends when it is interrupted or has run too long. Its memory and the size of its result are limited. SQLite
never receives any other kind of statement from a client.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from dumpfilter.sql import server_errors
from dumpfilter.sql.functions import FUNCTIONS, GroupConcat, sort_key
from dumpfilter.sql.result import Column, ColumnType, Result, Table, as_shown
from dumpfilter.sql.rewriting import (
    FUNCTION_PREFIX,
    TEXT_COLLATION,
    Environment,
    Rewriting,
    no_such_table,
    parse,
)
from dumpfilter.sql.server_errors import SqlError

__all__ = ["DEFAULT_SECONDS", "ZERO_TIMESTAMP", "Environment", "no_such_table", "select"]

DEFAULT_SECONDS = 60.0
"""The time limit of a SELECT in a session that has not set ``max_execution_time``, seconds."""

MAX_ROWS = 1_000_000
MAX_RESULT_SIZE = 16 << 20
"""The limit of the total length of all texts in a result, characters."""

ZERO_TIMESTAMP = "0000-00-00 00:00:00.000000"
"""The value that a server shows in a TIMESTAMP(6) column for a time that does not exist yet.

For example, the time of the last error has this value before the first error.
"""

_MAX_HEAP = 128 << 20
_MAX_LIKE_PATTERN = 4096
"""The limit of the length of a LIKE pattern, bytes. The time of LIKE grows with the product of text and pattern."""
_INSTRUCTIONS_BETWEEN_CHECKS = 2000
_INT64 = 1 << 63
_TIME_COLLATION = "MYSQL_TIME"
_TIMESTAMP = "MYSQL_TIMESTAMP_TEXT"
_DECLARED = {
    ColumnType.TEXT: f"TEXT COLLATE {TEXT_COLLATION}",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.DOUBLE: "REAL",
    ColumnType.TIMESTAMP: f"{_TIMESTAMP} COLLATE {_TIME_COLLATION}",
}


def select(
    text: str,
    environment: Environment,
    *,
    stop: threading.Event | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Result:
    """Run a client's SELECT, written in MySQL's SQL, and return its result.

    WITH, UNION, VALUES and TABLE are accepted, too, also in parentheses. ``environment`` gives the tables and variables
    that the statement can read. Another thread interrupts the statement by setting ``stop``. Raises SqlError with a
    MySQL server's number and text: 1317 after an interruption, 3024 when ``seconds`` are over.
    """
    try:
        rewriting = Rewriting(parse(text), text, environment)
        return _run(rewriting, stop or threading.Event(), seconds)
    except RecursionError:
        raise server_errors.ER_STACK_OVERRUN_NEED_MORE() from None


def _run(rewriting: Rewriting, stop: threading.Event, seconds: float) -> Result:
    text = rewriting.sqlite_text
    connection = sqlite3.connect(
        ":memory:",
        detect_types=sqlite3.PARSE_DECLTYPES,
        isolation_level=None,
        check_same_thread=False,
    )
    deadline = time.monotonic() + seconds
    try:
        _prepare(connection, stop, deadline)
        for name, table in rewriting.tables.items():
            _load(connection, name, table)
        connection.execute("PRAGMA query_only = ON")
        connection.set_progress_handler(
            lambda: stop.is_set() or time.monotonic() > deadline, _INSTRUCTIONS_BETWEEN_CHECKS
        )
        cursor = connection.execute(text)
        rows = _bounded(cursor)
        names = [str(entry[0]) for entry in cursor.description or ()]
    except (sqlite3.Error, MemoryError, OverflowError, ValueError) as failed:
        raise _translated(failed, rewriting, stop) from failed
    finally:
        connection.close()
    if stop.is_set():
        raise server_errors.ER_QUERY_INTERRUPTED()
    if time.monotonic() > deadline:
        raise server_errors.ER_QUERY_TIMEOUT()
    return Result([_column(name, at, rows, rewriting.types) for at, name in enumerate(names)], rows)


def _prepare(connection: sqlite3.Connection, stop: threading.Event, deadline: float) -> None:
    def sleep(seconds: Any) -> int:
        if seconds is None or float(seconds) < 0:
            return 0
        return int(stop.wait(min(float(seconds), max(0.0, deadline - time.monotonic()))))

    connection.create_collation(TEXT_COLLATION, lambda left, right: _compare(sort_key(left), sort_key(right)))
    connection.create_collation(_TIME_COLLATION, lambda left, right: _compare(_full(left), _full(right)))
    connection.create_function(f"{FUNCTION_PREFIX}sleep", 1, sleep)
    connection.create_aggregate(f"{FUNCTION_PREFIX}group_concat", -1, GroupConcat)  # type: ignore[arg-type]
    for name, function in FUNCTIONS.items():
        connection.create_function(FUNCTION_PREFIX + name, -1, function)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RESULT_SIZE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_LIKE_PATTERN)
    connection.execute(f"PRAGMA hard_heap_limit = {_MAX_HEAP}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _compare(left: str, right: str) -> int:
    return (left > right) - (left < right)


def _full(text: str) -> str:
    return text + ZERO_TIMESTAMP[len(text) :]


def _load(connection: sqlite3.Connection, name: str, table: Table) -> None:
    columns = ", ".join(f"{_quoted(column.name)} {_DECLARED[column.type]}" for column in table.columns)
    connection.execute(f"CREATE TABLE {_quoted(name)} ({columns})")
    places = ", ".join("?" * len(table.columns))
    connection.executemany(
        f"INSERT INTO {_quoted(name)} VALUES ({places})",
        ([_stored(value) for value in row] for row in table.rows),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _stored(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return as_shown(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return str(value)
    if isinstance(value, str):
        # A text may hold a lone surrogate (half of a UTF-16 pair). UTF-8 cannot encode it, so it becomes a question
        # mark.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _bounded(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(rows) > MAX_ROWS or size > MAX_RESULT_SIZE:
            raise MemoryError
    return rows


def _timestamp(stored: bytes) -> datetime.datetime | str:
    text = stored.decode("utf-8", "replace")
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        # The zero timestamp, 0000-00-00, is no date for Python.
        return text


sqlite3.register_converter(_TIMESTAMP, _timestamp)


def _column(name: str, at: int, rows: Sequence[Sequence[Any]], types: dict[str, ColumnType]) -> Column:
    # SQLite does not tell the type of a result's column. It is found from the values or, if all values are NULL, from
    # the table's column of the same name.
    values = [row[at] for row in rows if row[at] is not None]
    if not values:
        return Column(name, types.get(name.lower(), ColumnType.TEXT))
    if isinstance(values[0], datetime.datetime) or values[0] == ZERO_TIMESTAMP:
        return Column(name, ColumnType.TIMESTAMP)
    kinds = {type(value) for value in values}
    if kinds == {int}:
        return Column(name, ColumnType.INTEGER)
    return Column(name, ColumnType.DOUBLE if kinds <= {int, float} else ColumnType.TEXT)


def _translated(failed: Exception, rewriting: Rewriting, stop: threading.Event) -> SqlError:
    text = str(failed)
    if text == "interrupted":
        return server_errors.ER_QUERY_INTERRUPTED() if stop.is_set() else server_errors.ER_QUERY_TIMEOUT()
    too_much = ("too big", "memory", "is full", "'step' method")
    if isinstance(failed, MemoryError) or any(words in text for words in too_much):
        return server_errors.ER_OUT_OF_RESOURCES()
    if text.startswith("Expression tree is too large"):
        return server_errors.ER_STACK_OVERRUN_NEED_MORE()
    if text == "LIKE or GLOB pattern too complex":
        return server_errors.ER_NOT_SUPPORTED_YET(f"a LIKE pattern of more than {_MAX_LIKE_PATTERN} bytes")
    for pattern, answer in _TRANSLATIONS.items():
        if found := re.match(pattern, text):
            return answer(rewriting.tree, found)
    return server_errors.ER_NOT_SUPPORTED_YET(text)


def _unknown_column(tree: exp.Expr, found: re.Match[str]) -> SqlError:
    return server_errors.ER_BAD_FIELD_ERROR(found[1], _clause_of(tree, found[1]))


def _ambiguous(tree: exp.Expr, found: re.Match[str]) -> SqlError:
    return server_errors.ER_NON_UNIQ_ERROR(found[1], _clause_of(tree, found[1]))


def _no_such_position(tree: exp.Expr, found: re.Match[str]) -> SqlError:
    # For ORDER BY 9 in a SELECT of fewer columns, SQLite's message tells which term of ORDER BY is wrong. The server's
    # message names the 9 instead, which is found in the syntax tree.
    kind, clause = (exp.Order, "order clause") if found[2] == "ORDER" else (exp.Group, "group statement")
    term = int(found[1])
    for node in tree.find_all(kind):
        terms = node.expressions[term - 1 : term]
        number = terms[0].find(exp.Literal) if terms and not terms[0].find(exp.Column) else None
        if number is not None:
            return server_errors.ER_BAD_FIELD_ERROR(number.name, clause)
    return server_errors.ER_BAD_FIELD_ERROR(found[1], clause)


def _clause_of(tree: exp.Expr, name: str) -> str:
    column = name.rpartition(".")[2].lower()
    for node in tree.find_all(exp.Column):
        if node.name.lower() == column:
            clause = node.find_ancestor(exp.Where, exp.Group, exp.Having, exp.Order, exp.Join, exp.Select)
            if clause:
                return _CLAUSES.get(type(clause), "field list")
    return "field list"


_CLAUSES: dict[type, str] = {
    exp.Where: "where clause",
    exp.Group: "group statement",
    exp.Having: "having clause",
    exp.Order: "order clause",
    exp.Join: "on clause",
}
_TRANSLATIONS: dict[str, Callable[[exp.Expr, re.Match[str]], SqlError]] = {
    r"no such column: (.*)": _unknown_column,
    r"ambiguous column name: (.*)": _ambiguous,
    r"(\d+)\w+ (ORDER|GROUP) BY term out of range": _no_such_position,
    r"\d+\w+ ORDER BY term does not match": lambda *_: SqlError(
        server_errors.ER_BAD_FIELD_ERROR.number, "42S22", "Unknown column in 'order clause'"
    ),
    r"SELECTs to the left and right": lambda *_: server_errors.ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT(),
    r"sub-select returns|row value misused": lambda *_: server_errors.ER_OPERAND_COLUMNS(1),
    r"misuse of (aggregate|window)": lambda *_: server_errors.ER_INVALID_GROUP_FUNC_USE(),
    r"no such table: (.*)": lambda _, found: SqlError(
        server_errors.ER_UNKNOWN_TABLE.number, "42S02", f"Unknown table '{found[1]}'"
    ),
    r"wrong number of arguments to function (?:my_)?(\w+)": lambda _, found: (
        server_errors.ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT(found[1])
    ),
}
"""The functions that turn an error of SQLite into a MySQL server's error.

The keys are regular expressions for the beginning of SQLite's message.
"""
