"""The execution of a client's SELECT on the console's tables, by SQLite.

:mod:`dumpfilter.console.sql.rewriting` translates the statement from MySQL's SQL to SQLite's. An SQLite database in
memory is made for the one statement. The tables that the statement names are copied into this database, and SQLite
runs the statement there. Texts compare without the case of ASCII letters.

A SELECT ends when it is interrupted or has run too long. The memory of all SELECTs of the process and the size of a
result are limited. SQLite never receives any other kind of statement from a client.

SQLite runs without the interpreter's lock. Each function that needs the lock is short, and lets other threads run from
time to time, so that a SELECT does not delay them.
"""

from __future__ import annotations

import datetime
import functools
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import FUNCTIONS, called
from dumpfilter.console.sql.interruption import turns
from dumpfilter.console.sql.result import Column, ColumnType, Result, as_shown
from dumpfilter.console.sql.rewriting import FUNCTION_PREFIX, ZERO_TIMESTAMP, Environment, Rewriting
from dumpfilter.console.sql.server_errors import SqlError

DEFAULT_SECONDS = 60.0
"""The time limit of a SELECT in a session that has not set ``max_execution_time``, seconds."""
MOST_SECONDS = 600.0
"""The longest time limit of a SELECT that a session can set by ``max_execution_time``, seconds."""

MAX_RESULT_SIZE = 16 << 20
"""The limit of the memory of a result, bytes."""

MAX_HEAP = 128 << 20
"""The limit of SQLite's memory for all SELECTs of the process together, bytes."""
_MAX_LENGTH = 1 << 20
_MAX_COLUMNS = 256
"""The limit of the columns of a table or result. Python's sqlite3 reads a whole row in one step."""
_MAX_LIKE_PATTERN = 128
"""The limit of the length of a LIKE pattern, bytes. The time of LIKE grows with the product of text and pattern."""
_INSTRUCTIONS_BETWEEN_CHECKS = 100
_INT64 = 1 << 63
_TIMESTAMP = "MYSQL_TIMESTAMP_TEXT"
_DECLARED = {
    ColumnType.TEXT: "TEXT COLLATE NOCASE",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.DOUBLE: "REAL",
    ColumnType.TIMESTAMP: _TIMESTAMP,
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
    MySQL server's number and text: 1317 after an interruption, 3024 after the time limit ``seconds``.
    """
    try:
        return _Run(environment, stop or threading.Event(), seconds).select(text)
    except RecursionError:
        raise server_errors.ER_STACK_OVERRUN_NEED_MORE() from None


class _Run:
    """The execution of one SELECT."""

    def __init__(self, environment: Environment, stop: threading.Event, seconds: float) -> None:
        self._environment = environment
        self._stop = stop
        self._deadline = time.monotonic() + min(seconds, MOST_SECONDS)
        self._refused: SqlError | None = None
        """The error of a function that waited. SQLite reports it without its number and text."""

    def select(self, text: str) -> Result:
        rewriting = Rewriting(text, self._environment)
        connection = sqlite3.connect(
            ":memory:", detect_types=sqlite3.PARSE_DECLTYPES, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
            _load(connection, rewriting.tables)
            connection.execute("PRAGMA query_only = ON")
            connection.set_progress_handler(self._is_over, _INSTRUCTIONS_BETWEEN_CHECKS)
            cursor = connection.execute(rewriting.sqlite_text)
            rows = _bounded(cursor)
            names = [str(entry[0]) for entry in cursor.description or ()]
        except (sqlite3.Error, MemoryError, OverflowError, ValueError) as failed:
            raise self._refused or self._ended() or _translated(failed) from failed
        finally:
            connection.close()
        if ended := self._ended():
            raise ended
        return Result([_column(name, at, rows, rewriting.types) for at, name in enumerate(names)], rows)

    def _is_over(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._deadline

    def _ended(self) -> SqlError | None:
        if self._stop.is_set():
            return server_errors.ER_QUERY_INTERRUPTED()
        return server_errors.ER_QUERY_TIMEOUT() if self._is_over() else None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for name in FUNCTIONS:
            connection.create_function(FUNCTION_PREFIX + name, -1, functools.partial(self._call, name))
        connection.create_function(f"{FUNCTION_PREFIX}sleep", -1, self._sleep)
        for name, function in self._environment.waits.items():
            connection.create_function(FUNCTION_PREFIX + name, -1, functools.partial(self._wait, function))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_LENGTH)
        connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_LIKE_PATTERN)
        connection.execute(f"PRAGMA hard_heap_limit = {MAX_HEAP}")
        connection.execute("PRAGMA temp_store = MEMORY")

    def _call(self, name: str, *arguments: Any) -> Any:
        turns.pause()
        return called(name, *arguments)

    def _sleep(self, seconds: Any) -> int:
        if seconds is None or float(seconds) < 0:
            return 0
        return int(self._stop.wait(min(float(seconds), max(0.0, self._deadline - time.monotonic()))))

    def _wait(self, function: Callable[..., int | None], *arguments: Any) -> int | None:
        begun = time.monotonic()
        try:
            return function(*arguments)
        except SqlError as refused:
            self._refused = refused
            raise
        finally:
            # The limit of a SELECT's time is for its calculations. A wait has a time limit in its arguments.
            self._deadline += time.monotonic() - begun


def _load(connection: sqlite3.Connection, tables: Mapping[tuple[str, str], Result]) -> None:
    for schema in {schema for schema, _ in tables}:
        connection.execute(f"ATTACH ':memory:' AS {quoted(schema)}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for (schema, name), table in tables.items():
        target = f"{quoted(schema)}.{quoted(name)}"
        columns = ", ".join(f"{quoted(column.name)} {_DECLARED[column.type]}" for column in table.columns)
        connection.execute(f"CREATE TABLE {target} ({columns})")
        places = ", ".join("?" * len(table.columns))
        connection.executemany(
            f"INSERT INTO {target} VALUES ({places})",
            ([_stored(value) for value in row] for row in table.rows),
        )


def quoted(name: str) -> str:
    """Return an identifier in backticks, with backticks inside doubled."""
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
        size += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if size > MAX_RESULT_SIZE:
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
    if all(isinstance(value, datetime.datetime) or value == ZERO_TIMESTAMP for value in values):
        return Column(name, ColumnType.TIMESTAMP)
    kinds = {type(value) for value in values}
    if kinds == {int}:
        return Column(name, ColumnType.INTEGER)
    return Column(name, ColumnType.DOUBLE if kinds <= {int, float} else ColumnType.TEXT)


def _translated(failed: Exception) -> SqlError:
    text = "memory" if isinstance(failed, MemoryError) else str(failed)
    for pattern, message in _TRANSLATIONS.items():
        if found := re.match(pattern, text):
            return message(*found.groups())
    return server_errors.ER_NOT_SUPPORTED_YET(text)


_TRANSLATIONS: dict[str, Callable[..., SqlError]] = {
    r"no such column: (.*)": lambda name: server_errors.ER_BAD_FIELD_ERROR(name, "field list"),
    r"ambiguous column name: (.*)": lambda name: server_errors.ER_NON_UNIQ_ERROR(name, "field list"),
    r"near \"(.*)\": syntax error": lambda near: server_errors.syntax_error(near, 0),
    r"misuse of (?:aggregate|window)": server_errors.ER_INVALID_GROUP_FUNC_USE,
    r"Expression tree is too large": server_errors.ER_STACK_OVERRUN_NEED_MORE,
    r"LIKE or GLOB pattern too complex": lambda: server_errors.ER_NOT_SUPPORTED_YET(
        f"a LIKE pattern of more than {_MAX_LIKE_PATTERN} bytes"
    ),
    r".*(?:too big|memory|is full|raised exception)": server_errors.ER_OUT_OF_RESOURCES,
}
"""The functions that turn an error of SQLite into a MySQL server's error.

The keys are regular expressions for the beginning of SQLite's message, whose groups the functions get.
"""
