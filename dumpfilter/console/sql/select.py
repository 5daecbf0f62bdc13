"""The execution of a client's SELECT on the tables of the console (a port for MySQL clients), by SQLite.

The library sqlglot parses the MySQL text into a syntax tree, and writes the tree as SQLite text. In between,
:class:`_Rewriting` replaces table names, variables and functions in the tree, and names the result's columns. The class
refuses an expression that SQLite would evaluate in another way than MySQL, with error 1235.

An SQLite database in memory is made for the one statement. The tables that the statement names are copied into this
database, and SQLite runs the statement there. Texts compare without the case of ASCII letters.

A SELECT ends when it is interrupted or has run too long. The memory of all SELECTs of the process and the size of a
result are limited. SQLite never receives any other kind of statement from a client.

SQLite runs without the interpreter's lock. Each function that needs the lock is short, and lets other threads run from
time to time, so that a SELECT does not delay them.
"""

from __future__ import annotations

import datetime
import functools
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.mysql import MySQLParser

from dumpfilter.binlog.statement.tokens import tokens
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import CLOCKS, FUNCTIONS, called, clock, number_of
from dumpfilter.console.sql.interruption import Interrupt, turns
from dumpfilter.console.sql.result import (
    ZERO_TIMESTAMP,
    Column,
    ColumnType,
    Result,
    as_shown,
    size_of_row,
)
from dumpfilter.console.sql.server_errors import SqlError

MAX_RESULT_SIZE = 16 << 20
"""The limit of the memory of a result, bytes."""
_MAX_ROW_SIZE = 2 << 20
"""The limit of the memory of one row, bytes. A row becomes one packet, for which the loop of the port stops."""

MAX_HEAP = 128 << 20
"""The limit of SQLite's memory for all SELECTs of the process together, bytes."""
_MAX_LENGTH = 1 << 20
_MAX_COLUMNS = 256
"""The limit of the columns of a table or result. Python's sqlite3 reads a whole row in one step."""
_MAX_LIKE_PATTERN = 128
"""The limit of the length of a LIKE pattern, bytes. The time of LIKE grows with the product of text and pattern."""
_INSTRUCTIONS_BETWEEN_CHECKS = 100
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", re.ASCII)

MAX_STATEMENT = 16 << 10
"""The length limit of a statement that sqlglot parses, in characters. The limit bounds the memory of parsing.
"""

_MOST_TOKENS = 1000
"""The limit of the tokens of a statement that sqlglot parses.

Python's garbage collector stops all threads while it frees a statement's tree, and a longer statement has a larger
tree.
"""

_MOST_STEPS = 5000
"""The limit of the steps in which sqlglot parses a statement. An ordinary statement takes about one step for each
token. Each further JOIN without ON, and each further parenthesis after words such as DATE, doubles the number of steps.
"""

FUNCTION_PREFIX = "my_"
"""The prefix under which MySQL's functions are registered in SQLite.

In a translated SELECT, every call gets this prefix, except for COUNT and similar aggregates and window functions.
Therefore a client can call no other function of SQLite itself.
"""

INFORMATION_SCHEMA = "information_schema"
_INT64 = 1 << 63
_MOST_DIGITS = len(str(_INT64)) - 1
"""The largest number of decimal digits with which every number fits into a signed integer of 64 bits."""
_NATIVE = """
    COUNT SUM AVG MIN MAX ROW_NUMBER RANK DENSE_RANK LAG LEAD FIRST_VALUE LAST_VALUE NTILE
    ABS COALESCE IFNULL NULLIF REPLACE TRIM LTRIM RTRIM
"""
"""The SQL functions that a SELECT leaves to SQLite, which computes them as MySQL does."""

# sqlglot would log each statement that it does not understand.
logging.getLogger("sqlglot").setLevel(logging.ERROR)
_parsing = threading.Lock()
"""The lock that a thread holds while sqlglot parses or writes SQL.

sqlglot is Python code without waiting. Several threads in it would make the master's other threads wait several times
as long for the interpreter's lock.
"""


class Environment(NamedTuple):
    """The state of a client's session that a SELECT on the console (a port for MySQL clients) can read: tables,
    variables and functions.
    """

    find_table: Callable[[str, str], Result]
    """The function that returns the table of a schema and a name. The function raises SqlError if no such table exists.
    """
    database: str | None = None
    """The session's current database (set by USE), or None. Table names without a schema belong to it."""
    variables: Mapping[str, object] = {}
    """The values of the system variables (``@@x``) by their names in lower case."""
    user_variables: Mapping[str, object] = {}
    """The values of the user variables (``@x``) by their names in lower case."""
    functions: Mapping[str, Callable[..., Any]] = {}
    """The functions that depend on the session, such as ``version()`` and SOURCE_POS_WAIT, by their names in lower
    case. These functions may wait, and may raise SqlError.
    """


def schema_of(name: str | None, database: str | None) -> str:
    """Return the schema that a client's statement means: ``name``, or the current database ``database`` if ``name`` is
    None. Raises SqlError 1046 if both are None.
    """
    schema = database if name is None else name
    if schema is None:
        raise server_errors.ER_NO_DB_ERROR()
    return INFORMATION_SCHEMA if schema.lower() == INFORMATION_SCHEMA else schema


class _Reader(MySQL):
    """A sqlglot dialect that parses MySQL's SQL and leaves most function calls as they are.

    sqlglot's own MySQL dialect would replace functions by expressions that it knows.
    """

    class Parser(MySQLParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: MySQLParser.FUNCTION_PARSERS[name] for name in ("CAST", "CONVERT", "GROUP_CONCAT")
        }
        _steps = 0

        def _advance(self, times: int = 1) -> None:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise server_errors.too_long(MAX_STATEMENT)
            super()._advance(times)


def parse(text: str, longest: int = MAX_STATEMENT) -> exp.Expr:
    """Parse one statement in MySQL's SQL, a SELECT or SET, and return its syntax tree.

    Raises SqlError for a syntax error, for more than one statement, and for a version comment (``/*! … */``). Raises
    SqlError also for a text of more than ``longest`` characters, for too many words, and for a text that takes too long
    to parse.
    """
    if len(text) > longest or next(islice(tokens(text), _MOST_TOKENS, None), None) is not None:
        raise server_errors.too_long(MAX_STATEMENT)
    if "/*!" in text:
        # sqlglot would skip the SQL in version comments (/*!50000 … */), which a server executes.
        raise server_errors.ER_NOT_SUPPORTED_YET("/*! in a SELECT")
    try:
        with _parsing:
            trees = [tree for tree in _Reader().parse(text) if tree is not None]
    except SqlglotError as failed:
        raise server_errors.syntax_error(text, len(text)) from failed
    if len(trees) != 1:
        raise server_errors.syntax_error(text, text.find(";") + 1)
    return trees[0]


def mysql_text(tree: exp.Expr) -> str:
    """Return the text of a syntax tree in MySQL's SQL."""
    with _parsing:
        return tree.sql(_Reader)


_CASTS = {"CHAR": "TEXT", "DOUBLE": "DOUBLE", "FLOAT": "DOUBLE"}
"""The types that CAST can convert to, beside integers, with SQLite's types."""
_REFUSED = (
    *(exp.Collate, exp.Dot, exp.Glob, exp.Interval, exp.Into, exp.JSONExtract, exp.JSONExtractScalar),
    *(exp.MatchAgainst, exp.RegexpLike, exp.Xor),
)
"""The expressions that a console refuses. SQLite lacks them, or gives the same spelling another meaning."""
_COMPUTED = exp.Anonymous, exp.Case, exp.Literal, exp.Window
"""The expressions to which the translation from MySQL's to SQLite's SQL adds COLLATE NOCASE. Without that, SQLite would
compare their texts with case.
"""
_CLOCK_WORDS = tuple(MySQLParser.NO_PAREN_FUNCTIONS.values())


class _Writer(SQLite):
    """A sqlglot dialect that writes SQLite's SQL with names in backticks.

    SQLite takes an unknown name in double quotes for a text instead of reporting an error.
    """

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


class _Rewriting:
    """The translation of one SELECT from MySQL's SQL to the SQL of SQLite, in which the console runs the SELECT.

    WITH, UNION and TABLE are accepted, too, also in parentheses. The constructor raises SqlError for every
    error that can be found without running the statement, such as an unknown table or function.
    """

    def __init__(self, text: str, environment: Environment, functions: Mapping[str, object]) -> None:
        self.tables: dict[tuple[str, str], Result] = {}
        """The tables that the statement reads, by schema and name."""
        self.types: dict[str, ColumnType] = {}
        """The type of each column of the tables that the statement reads, by the column's name in lower case."""
        self._environment = environment
        self._functions = functions
        tree = parse(text)
        while isinstance(tree, exp.Subquery) and tree.this and not (tree.alias or tree.args.get("limit")):
            tree = tree.this
        if not isinstance(tree, exp.Query):
            raise server_errors.syntax_error(text, 0)
        refused = tree.find(*_REFUSED)
        if refused is not None:
            raise server_errors.ER_NOT_SUPPORTED_YET(refused.key.upper())
        for part in list(tree.find_all(exp.Select)):
            _prepare_columns(part)
        self._aliases: set[tuple[int, str]] = set()
        self._common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        nodes = list(tree.bfs())
        for node in reversed(nodes):
            new = self._translated(node)
            if new is not node:
                node.replace(new)
            is_before_over = isinstance(new.parent, exp.Window) and new.arg_key == "this"
            if isinstance(new, _COMPUTED) and not (new.is_number or is_before_over):
                # In SQLite, only columns of the copied tables ignore the case of texts by themselves.
                new.replace(collated := exp.Paren(this=exp.Collate(expression=exp.Var(this="NOCASE"))))
                collated.this.set("this", new)
        with _parsing:
            self.sqlite_text = tree.sql(
                dialect=_Writer, identify=True, unsupported_level=ErrorLevel.IGNORE, copy=False
            )
            """The translated statement, as a text in SQLite's SQL."""
        # Without the links to their parents, the trees of many statements are freed one by one. The garbage collector
        # would free them together, and stop all threads meanwhile.
        for node in [*nodes, *tree.bfs()]:
            node.parent = None

    def _translated(self, node: exp.Expr) -> exp.Expr:
        """Return the replacement of a node in the MySQL statement's syntax tree, so that SQLite computes MySQL's
        result.

        The replacement is the same node, changed or not, or a new node. Raises SqlError for an unknown table, variable
        or function, and for an expression that SQLite cannot evaluate as MySQL does.
        """
        match node:
            case exp.Table():
                self._find_table(node)
            case exp.Limit() | exp.Offset():
                _check_limit(node.expression)
            case exp.SetOperation():
                # SQLite allows no parentheses around the parts of a UNION, so each such part becomes a subquery.
                for side in ("this", "expression"):
                    if isinstance(inner := node.args[side], exp.Subquery):
                        inner.set("alias", exp.TableAlias(this=exp.to_identifier("side")))
                        node.set(side, exp.select("*").from_(inner, copy=False))
            case exp.Like() if not isinstance(node.parent, exp.Escape):
                # LIKE without ESCAPE uses the backslash as escape character in MySQL, and none in SQLite.
                return exp.Escape(this=exp.Like(**node.args), expression=exp.Literal.string("\\"))
            case exp.Cast():
                return self._cast(node)
            case exp.Mod():
                # SQLite cuts the fractions of both numbers off.
                return _call("mod", node.this, node.expression)
            case exp.GroupConcat():
                return _group_concat(node)
            case exp.SessionParameter():
                if (name := node.name.lower()) not in self._environment.variables:
                    raise server_errors.ER_UNKNOWN_SYSTEM_VARIABLE(node.name)
                return exp.convert(_stored(self._environment.variables[name]))
            case exp.Parameter():
                return exp.convert(self._environment.user_variables.get(node.name.lower()))
            case exp.Anonymous() if node.name.upper() not in _NATIVE.split():
                return self._function(node.name, *node.expressions)
            case exp.Func() if isinstance(node, _CLOCK_WORDS):
                return self._function(node.sql_name(), *[node.this] if node.this else [])
        return node

    def _find_table(self, node: exp.Table) -> None:
        if not isinstance(node.this, exp.Identifier):
            raise server_errors.ER_NOT_SUPPORTED_YET("table functions")
        if not node.db and node.name.lower() in self._common:
            return
        if not node.db and node.name.upper() == "DUAL" and isinstance(node.parent, exp.From):
            node.parent.pop()
            return
        schema = schema_of(node.db or None, self._environment.database)
        named = id(node.find_ancestor(exp.Select)), node.alias_or_name
        if named in self._aliases:
            raise server_errors.ER_NONUNIQ_TABLE(node.alias_or_name)
        self._aliases.add(named)
        table = self.tables[schema, node.name.lower()] = self._environment.find_table(schema, node.name)
        self.types |= {column.name.lower(): column.type for column in table.columns}
        node.set("db", exp.to_identifier(schema))

    def _function(self, name: str, *arguments: exp.Expr) -> exp.Expr:
        if name.lower() not in self._functions:
            schema = schema_of(None, self._environment.database)
            raise server_errors.ER_SP_DOES_NOT_EXIST("FUNCTION", f"{schema}.{name}")
        return _call(name, *arguments)

    def _cast(self, node: exp.Cast) -> exp.Expr:
        kind = node.args["to"]
        name = kind.this.name if isinstance(kind.this, exp.DataType.Type) else kind.name.upper()
        if name in ("BIGINT", "UBIGINT"):
            # MySQL's CAST to an integer rounds, and SQLite's CAST cuts the fraction off.
            return _call("round", node.this)
        if name not in _CASTS:
            raise server_errors.ER_NOT_SUPPORTED_YET(f"CAST AS {name}")
        cast = exp.Cast(this=node.this, to=exp.DataType.build(_CASTS[name]))
        return _call("left", cast, *kind.expressions) if kind.expressions else cast


def _prepare_columns(select: exp.Select) -> None:
    """Name each column of a SELECT's result by the column's MySQL text, before its translation to SQLite's SQL changes
    that text. Remove optimizer hints.
    """
    for hints in ("hint", "operation_modifiers"):
        select.set(hints, None)
    for item in select.expressions:
        if not (isinstance(item, exp.Alias) or item.is_star):
            is_named = isinstance(item, exp.Column | exp.Literal)
            name = item.name if is_named else item.sql(_Reader, normalize_functions=False, comments=False)
            item.replace(alias := exp.Alias(alias=exp.to_identifier(name, quoted=True)))
            alias.set("this", item)


def _check_limit(limit: exp.Expr) -> None:
    if not isinstance(limit, exp.Literal) or limit.is_string:
        raise server_errors.syntax_error("", 0)
    if len(limit.name) > _MOST_DIGITS:
        # The largest number of rows in MySQL, 2**64 - 1, stands for no limit. SQLite refuses such a number.
        limit.set("this", str(_INT64 - 1))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=FUNCTION_PREFIX + name, expressions=list(arguments))


def _group_concat(node: exp.GroupConcat) -> exp.Expr:
    value, order = node.this, []
    if isinstance(value, exp.Order):
        value, order = value.this, value.expressions
    if isinstance(value, exp.Distinct):
        raise server_errors.ER_NOT_SUPPORTED_YET("GROUP_CONCAT(DISTINCT …)")
    keys = [value.copy() if isinstance(one.this, exp.Literal) else one.this for one in order]
    row = exp.Anonymous(this="json_array", expressions=[value, *keys])
    return _call(
        "group_concat",
        exp.Anonymous(this="json_group_array", expressions=[row]),
        node.args.get("separator") or exp.Literal.string(","),
        exp.Literal.string("".join("d" if one.args.get("desc") else "a" for one in order)),
    )


def select(text: str, environment: Environment, interrupt: Interrupt | None = None) -> Result:
    """Run a client's SELECT, written in MySQL's SQL, and return its result.

    WITH, UNION and TABLE are accepted, too, also in parentheses. ``environment`` gives the tables, variables
    and functions that the statement can use. Raises SqlError with a MySQL server's number and text, also when
    ``interrupt`` ends the statement.
    """
    interrupt = interrupt or Interrupt()
    # In MySQL, every NOW() of one statement has the same value.
    now = datetime.datetime.now(datetime.UTC)
    functions: dict[str, Callable[..., Any]] = {
        **{name: functools.partial(called, name) for name in FUNCTIONS},
        **{name: functools.partial(clock, name, now) for name in CLOCKS},
        "sleep": functools.partial(_sleep, interrupt),
        **environment.functions,
    }
    refused: SqlError | None = None

    def call(name: str, *arguments: Any) -> Any:
        # SQLite reports an error of a function without its number and text.
        nonlocal refused
        turns.pause()
        try:
            return _stored(functions[name](*arguments))
        except SqlError as failed:
            refused = failed
            raise
        except TypeError:
            refused = server_errors.ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT(name.upper())
            raise

    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        rewriting = _Rewriting(text, environment, functions)
        for name in functions:
            connection.create_function(FUNCTION_PREFIX + name, -1, functools.partial(call, name))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_LENGTH)
        connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_LIKE_PATTERN)
        connection.execute(f"PRAGMA hard_heap_limit = {MAX_HEAP}")
        connection.execute("PRAGMA temp_store = MEMORY")
        _load(connection, rewriting.tables)
        connection.execute("PRAGMA query_only = ON")
        connection.set_progress_handler(lambda: interrupt.ended() is not None, _INSTRUCTIONS_BETWEEN_CHECKS)
        cursor = connection.execute(rewriting.sqlite_text)
        rows = _bounded(cursor)
        names = [str(entry[0]) for entry in cursor.description or ()]
    except (sqlite3.Error, MemoryError, OverflowError, RecursionError, ValueError) as failed:
        raise refused or interrupt.ended() or _translated(failed) from failed
    finally:
        connection.close()
    if ended := interrupt.ended():
        raise ended
    return Result([_column(name, at, rows, rewriting.types) for at, name in enumerate(names)], rows)


def _sleep(interrupt: Interrupt, seconds: Any) -> int:
    left = interrupt.deadline - time.monotonic()
    asked = float(number_of(seconds or 0))
    return int(interrupt.wait(max(0.0, min(asked, left, threading.TIMEOUT_MAX))))


def _load(connection: sqlite3.Connection, tables: Mapping[tuple[str, str], Result]) -> None:
    for schema in {schema for schema, _ in tables}:
        connection.execute(f"ATTACH ':memory:' AS {quoted(schema)}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for (schema, name), table in tables.items():
        target = f"{quoted(schema)}.{quoted(name)}"
        columns = ", ".join(f"{quoted(column.name)} {column.type.declared}" for column in table.columns)
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
    """Return the value that SQLite stores or computes with in place of ``value``. An integer of more than 64 bits
    becomes a text, so that no digit is lost.
    """
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
        more = size_of_row(row)
        size += more
        if more > _MAX_ROW_SIZE or size > MAX_RESULT_SIZE:
            raise MemoryError
    return rows


def _column(name: str, at: int, rows: Sequence[Sequence[Any]], types: dict[str, ColumnType]) -> Column:
    # SQLite does not tell the type of a result's column. It is found from the values or, if all values are NULL, from
    # the table's column of the same name.
    values = [row[at] for row in rows if row[at] is not None]
    if not values:
        return Column(name, types.get(name.lower(), ColumnType.TEXT))
    if all(map(_is_timestamp, values)):
        return Column(name, ColumnType.TIMESTAMP)
    kinds = {type(value) for value in values}
    if kinds == {int}:
        return Column(name, ColumnType.INTEGER)
    return Column(name, ColumnType.DOUBLE if kinds <= {int, float} else ColumnType.TEXT)


def _is_timestamp(value: Any) -> bool:
    with suppress(ValueError):
        if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
            return value == ZERO_TIMESTAMP or bool(datetime.datetime.fromisoformat(value))
    return False


def _translated(failed: Exception) -> SqlError:
    text = "memory" if isinstance(failed, MemoryError) else str(failed)
    for pattern, message in _TRANSLATIONS.items():
        if found := re.match(pattern, text):
            return message(*found.groups())
    return server_errors.ER_NOT_SUPPORTED_YET(text)


_TRANSLATIONS: dict[str, Callable[..., SqlError]] = {
    r"no such column: (.*)": lambda name: server_errors.ER_BAD_FIELD_ERROR(name, "field list"),
    r"ambiguous column name: (.*)": lambda name: server_errors.ER_NON_UNIQ_ERROR(name, "field list"),
    r"near|incomplete input": lambda: server_errors.syntax_error("", 0),
    r"Expression tree is too large|maximum recursion depth": server_errors.ER_STACK_OVERRUN_NEED_MORE,
    r"misuse of (?:aggregate|window)": server_errors.ER_INVALID_GROUP_FUNC_USE,
    r".*(?:too big|memory|is full|raised exception)": server_errors.ER_OUT_OF_RESOURCES,
}
"""The functions that turn an error of SQLite into a MySQL server's error.

The keys are regular expressions for the beginning of SQLite's message, whose groups the functions get.
"""
