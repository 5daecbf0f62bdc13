"""The execution of a client's SELECT on the console's tables, by SQLite.

The library sqlglot parses the MySQL text into a syntax tree, and writes the tree as SQLite text. In between,
:class:`Rewriting` changes the tree: it replaces table names, variables and functions, and names the result's columns.
It refuses an expression that SQLite would evaluate in another way than MySQL, with error 1235.

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
import inspect
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.generators.sqlite import SQLiteGenerator
from sqlglot.parsers.mysql import MySQLParser

from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import CLOCKS, FUNCTIONS, called, clock
from dumpfilter.console.sql.interruption import turns
from dumpfilter.console.sql.result import Column, ColumnType, Result, as_shown
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
_TIMESTAMP = "MYSQL_TIMESTAMP_TEXT"
_DECLARED = {
    ColumnType.TEXT: "TEXT COLLATE NOCASE",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.DOUBLE: "REAL",
    ColumnType.TIMESTAMP: _TIMESTAMP,
}

MAX_STATEMENT = 16 << 10
"""The length limit of a statement that sqlglot parses, in characters. It bounds the time and memory of parsing."""

_MOST_TOKENS = 1000
"""The limit of the tokens of a statement that sqlglot parses.

Python's garbage collector stops all threads while it frees the statement's tree.
"""

FUNCTION_PREFIX = "my_"
"""The prefix under which MySQL's functions are registered in SQLite.

In a translated SELECT, every call gets this prefix, except for COUNT and similar aggregates and window functions.
Therefore a client can call no other function of SQLite itself.
"""

ZERO_TIMESTAMP = "0000-00-00 00:00:00.000000"
"""The value that a server shows in a TIMESTAMP(6) column for a time that does not exist yet.

For example, the time of the last error has this value before the first error.
"""

INFORMATION_SCHEMA = "information_schema"
_INT64 = 1 << 63
_MOST_DIGITS = len(str(_INT64)) - 1
"""The number of digits with which every number is a signed integer of 64 bits."""
_NATIVE = frozenset(
    {
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD"),
        *("FIRST_VALUE", "LAST_VALUE", "NTILE"),
    }
)
"""The aggregates and window functions that SQLite computes as MySQL does."""

_parsing = threading.Lock()
"""The lock that a thread holds while sqlglot parses or writes SQL.

sqlglot is Python code without waiting. Several threads in it would make the master's other threads wait several times
as long for the interpreter's lock.
"""


@dataclass(frozen=True)
class Environment:
    """The state of a client's session that a SELECT on the console can read: tables, variables and the values of
    functions.
    """

    find_table: Callable[[str, str], Result]
    """The function that returns the table of a schema and a name. It raises SqlError if no such table exists."""
    database: str | None = None
    """The session's current database (set by USE), or None. Table names without a schema belong to it."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """The values of the system variables (``@@x``) by their names in lower case."""
    user_variables: Mapping[str, object] = field(default_factory=dict)
    """The values of the user variables (``@x``) by their names in lower case."""
    functions: Mapping[str, object] = field(default_factory=dict)
    """The values of functions that depend on the session, such as ``version()``, by their names in lower case."""
    waits: Mapping[str, Callable[..., str | int | None]] = field(default_factory=dict)
    """The functions that wait for replication, such as SOURCE_POS_WAIT, by their names in lower case. They may raise
    SqlError.
    """


class _Reader(MySQL):
    """A sqlglot dialect that parses MySQL's SQL and leaves most function calls as they are.

    sqlglot's own MySQL dialect would replace functions by expressions that it knows.
    """

    class Parser(MySQLParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser
            for name, parser in MySQLParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "CONVERT", "GROUP_CONCAT")
        }


def parse(text: str) -> exp.Expr:
    """Parse one statement in MySQL's SQL, and return its syntax tree.

    Raises SqlError for a syntax error, for more than one statement and for a text that is too long.
    """
    words = list(islice(tokens(text), _MOST_TOKENS + 1)) if len(text) <= MAX_STATEMENT else []
    if len(text) > MAX_STATEMENT or len(words) > _MOST_TOKENS:
        raise server_errors.too_long(MAX_STATEMENT)
    bad = next((token.start for token in words if token.kind is TokenKind.BAD), None)
    if bad is not None:
        raise server_errors.syntax_error(text, bad)
    if "/*!" in text:
        # sqlglot would skip the SQL in version comments (/*!50000 … */), which a server executes.
        raise server_errors.ER_NOT_SUPPORTED_YET("/*! in a SELECT")
    try:
        with _parsing:
            trees = [tree for tree in _Reader().parse(text) if tree is not None]
    except SqlglotError as failed:
        raise server_errors.syntax_error(text, len(text)) from failed
    except RecursionError:
        raise server_errors.ER_STACK_OVERRUN_NEED_MORE() from None
    if len(trees) != 1:
        raise server_errors.syntax_error(text, text.find(";") + 1)
    return trees[0]


def _clocked(self: Rewriting, node: exp.Expr) -> str:
    return self.clock(_CLOCK_WORDS[type(node)], *[node.this] if isinstance(node.this, exp.Expr) else [])


_CLOCK_WORDS: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "now",
    exp.CurrentDatetime: "now",
    exp.Localtime: "now",
    exp.Localtimestamp: "now",
    exp.CurrentDate: "curdate",
    exp.CurrentTime: "curtime",
}
_CASTS = {
    "(N|VAR|NVAR)?CHAR|.*TEXT": "TEXT",
    "U?(BIG|SMALL|TINY|MEDIUM)?INT|SIGNED|UNSIGNED": "INT",
    "DOUBLE|FLOAT|REAL": "REAL",
}
_REFUSED = (
    *(exp.Collate, exp.Dot, exp.Glob, exp.Interval, exp.JSONExtract, exp.JSONExtractScalar),
    *(exp.MatchAgainst, exp.RegexpLike, exp.Xor),
)
"""The expressions that a console refuses. SQLite lacks them, or gives the same spelling another meaning."""
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.In, exp.Between, exp.NullSafeEQ),
)
_SIDES = ("this", "expression", "expressions", "low", "high")
"""The arguments of a comparison's syntax node that hold compared values."""


class Rewriting(SQLiteGenerator):
    """The translation of one SELECT from MySQL's SQL to the SQL of SQLite, in which the console runs the SELECT.

    WITH, UNION, VALUES and TABLE are accepted, too, also in parentheses. The constructor raises SqlError for every
    error that can be found without running the statement, such as an unknown table or function.

    The class is a sqlglot generator. Its methods that end with ``_sql`` write the nodes of one kind in the syntax tree.
    """

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **{kind: write for kind, write in SQLiteGenerator.TRANSFORMS.items() if kind not in _REFUSED},
        **dict.fromkeys(_CLOCK_WORDS, _clocked),
        **dict.fromkeys(_COMPARISONS, lambda self, node: self.comparison(node)),
    }

    def __init__(self, text: str, environment: Environment) -> None:
        super().__init__(dialect=_Writer(), identify=True, unsupported_level=ErrorLevel.IGNORE)
        self.tables: dict[tuple[str, str], Result] = {}
        """The tables that the statement reads, by schema and name."""
        self.types: dict[str, ColumnType] = {}
        """The type of each column of the tables that the statement reads, by the column's name in lower case."""
        self._environment = environment
        self._now = datetime.datetime.now(datetime.UTC)
        tree = parse(text)
        while isinstance(tree, exp.Subquery) and tree.this and not (tree.alias or tree.args.get("limit")):
            tree = tree.this
        if not isinstance(tree, exp.Query | exp.Values):
            raise server_errors.syntax_error(text, 0)
        _check_clauses(tree, text)
        schemas = self._find_tables(tree)
        self._name_columns(tree)
        for table, schema in schemas:
            table.set("db", exp.to_identifier(schema, quoted=True))
        refused = tree.find(*_REFUSED)
        if refused is not None:
            raise server_errors.ER_NOT_SUPPORTED_YET(refused.key.upper())
        with _parsing:
            self.sqlite_text = self.generate(tree, copy=False)
            """The translated statement, as a text in SQLite's SQL."""
        # Without the links to their parents, the trees of many statements are freed one by one. The garbage collector
        # would free them together, and stop all threads meanwhile.
        for node in list(tree.bfs()):
            node.parent = None

    def _find_tables(self, tree: exp.Expr) -> list[tuple[exp.Table, str]]:
        """Return the syntax nodes of the tables that the statement reads, each with its schema."""
        found: list[tuple[exp.Table, str]] = []
        taken: set[tuple[int, str]] = set()
        common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for node in list(tree.find_all(exp.Table)):
            if not isinstance(node.this, exp.Identifier):
                raise server_errors.ER_NOT_SUPPORTED_YET("table functions")
            if not node.db and node.name.lower() in common:
                continue
            if not node.db and node.name.upper() == "DUAL" and isinstance(node.parent, exp.From):
                node.parent.pop()
                continue
            schema = node.db or self._environment.database
            if not schema:
                raise server_errors.ER_NO_DB_ERROR()
            if schema.lower() == INFORMATION_SCHEMA:
                schema = INFORMATION_SCHEMA
            table = self._environment.find_table(schema, node.name)
            self.tables[schema, node.name.lower()] = table
            self.types |= {column.name.lower(): column.type for column in table.columns}
            for unneeded in ("hints", "catalog"):
                node.set(unneeded, None)
            found.append((node, schema))
            named = (id(node.find_ancestor(exp.Select)), node.alias_or_name)
            if named in taken:
                raise server_errors.ER_NONUNIQ_TABLE(node.alias_or_name)
            taken.add(named)
        return found

    def _name_columns(self, tree: exp.Expr) -> None:
        # A server spells a result's column as the statement does. Columns of information_schema keep the spelling of
        # their definition, because these tables are views.
        declared = {
            column.name.lower(): column.name
            for (schema, _), table in self.tables.items()
            for column in table.columns
            if schema == INFORMATION_SCHEMA
        }
        for node in tree.find_all(exp.Select):
            for item in node.expressions:
                if isinstance(item, exp.Alias) or item.is_star:
                    continue
                if isinstance(item, exp.Column):
                    name = declared.get(item.name.lower(), item.name)
                elif isinstance(item, exp.Literal) and item.is_string:
                    name = item.name.replace("\0", "")
                else:
                    name = item.sql(dialect=_Reader, normalize_functions=False, comments=False)
                alias = exp.Alias(alias=exp.to_identifier(name, quoted=True))
                item.replace(alias)
                alias.set("this", item)

    def like_sql(self, expression: exp.Like) -> str:
        # LIKE without ESCAPE uses the backslash as escape character in MySQL, and none in SQLite.
        expression.set("this", exp.Var(this=self.sql(expression.this)))
        text = super().like_sql(expression)
        return text if isinstance(expression.parent, exp.Escape) else f"{text} ESCAPE '\\'"

    def comparison(self, node: exp.Expr) -> str:
        """Return the SQLite text of a comparison or a similar operator, whose syntax tree is ``node``. It ignores the
        case of texts, as MySQL does.
        """
        sides = [side for name in _SIDES for side in _listed(node.args.get(name))]
        if any(self._is_timestamp(side) for side in sides):
            for side in sides:
                # A TIMESTAMP column has texts with six digits of the fraction of a second.
                if isinstance(side, exp.Literal) and side.is_string:
                    side.set("this", side.name + ZERO_TIMESTAMP[len(side.name) :])
        else:
            node.set("this", self._collated(node.this))
        text: str = getattr(self, f"{node.key}_sql")(node)
        return text

    def _is_timestamp(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and self.types.get(node.name.lower()) is ColumnType.TIMESTAMP

    def _collated(self, node: exp.Expr) -> exp.Expr:
        """Return an expression whose texts compare without case. In SQLite only a table's columns do so by themselves.

        A number in ORDER BY and GROUP BY is a position in the select list, which stays.
        """
        if isinstance(node, exp.Literal | exp.Tuple | exp.Neg) and not node.is_string:
            return node
        return exp.Var(this=f"({self.sql(node)}) COLLATE NOCASE")

    def ordered_sql(self, expression: exp.Ordered) -> str:
        expression.set("this", self._collated(expression.this))
        return super().ordered_sql(expression)

    def group_sql(self, expression: exp.Group) -> str:
        expression.set("expressions", [self._collated(one) for one in expression.expressions])
        return super().group_sql(expression)

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name, arguments, environment = expression.name.lower(), expression.expressions, self._environment
        if name.upper() in _NATIVE:
            return super().anonymous_sql(expression)
        if name in CLOCKS and len(arguments) <= 1:
            return self.clock(name, *arguments)
        if name in environment.functions and not arguments:
            return _value(environment.functions[name])
        function = environment.waits.get(name) or FUNCTIONS.get(name)
        if function is None and environment.database is None:
            raise server_errors.ER_NO_DB_ERROR()
        if function is None:
            raise server_errors.ER_SP_DOES_NOT_EXIST("FUNCTION", f"{environment.database}.{expression.name}")
        if not _takes(function, arguments):
            raise server_errors.ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT(expression.name)
        return self.func(FUNCTION_PREFIX + name, *arguments)

    def sessionparameter_sql(self, expression: exp.SessionParameter) -> str:
        name = expression.name.lower()
        if name not in self._environment.variables:
            raise server_errors.ER_UNKNOWN_SYSTEM_VARIABLE(expression.name)
        return _value(self._environment.variables[name])

    def parameter_sql(self, expression: exp.Parameter) -> str:
        return _value(self._environment.user_variables.get(expression.name.lower()))

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        kind = expression.args["to"]
        name = kind.this.name if isinstance(kind.this, exp.DataType.Type) else kind.name.upper()
        for pattern, sqlite_type in _CASTS.items():
            if re.fullmatch(pattern, name):
                if sqlite_type == "INT":
                    # MySQL's CAST to an integer rounds, and SQLite's CAST cuts the fraction off.
                    return self.func(f"{FUNCTION_PREFIX}round", expression.this)
                cast = f"CAST({self.sql(expression.this)} AS {sqlite_type})"
                length = [size.this for size in kind.expressions] if sqlite_type == "TEXT" else []
                return self.func(f"{FUNCTION_PREFIX}left", cast, *length) if length else cast
        raise server_errors.ER_NOT_SUPPORTED_YET(f"CAST AS {name}")

    def div_sql(self, expression: exp.Div | exp.IntDiv) -> str:
        return f"CAST({self.sql(expression.this)} AS REAL) / {self.sql(expression.expression)}"

    def intdiv_sql(self, expression: exp.IntDiv) -> str:
        return f"CAST({self.div_sql(expression)} AS INTEGER)"

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        value, keys, directions = expression.this, [], ""
        if isinstance(value, exp.Order):
            keys = [ordered.this for ordered in value.expressions]
            directions = "".join("d" if ordered.args.get("desc") else "a" for ordered in value.expressions)
            value = value.this
        is_distinct = isinstance(value, exp.Distinct)
        if is_distinct:
            parts = value.expressions
            value = parts[0] if len(parts) == 1 else exp.Anonymous(this="concat", expressions=parts)
        keys = [value if isinstance(key, exp.Literal) and not key.is_string else key for key in keys]
        row = self.func("json_array", value, *keys)
        separator = expression.args.get("separator") or exp.Literal.string(",")
        options = separator, exp.Literal.number(int(is_distinct)), exp.Literal.string(directions)
        return self.func(f"{FUNCTION_PREFIX}group_concat", f"json_group_array({row})", *options)

    def clock(self, name: str, *digits: exp.Expr) -> str:
        """Return the value of a function such as NOW(6) as an SQLite literal. ``name`` is the function's name, and
        ``digits`` its argument.

        In MySQL, every NOW() of one statement has the same value.
        """
        given = digits[0].name if digits else ""
        return _value(clock(name, self._now, int(given) if given.isdigit() else 0))

    def currentuser_sql(self, expression: exp.CurrentUser) -> str:
        return _value(self._environment.functions.get("current_user"))

    def set_operations(self, expression: exp.SetOperation) -> str:
        # SQLite allows no parentheses around the parts of a UNION, so each such part becomes a subquery.
        for node in expression.find_all(exp.SetOperation):
            for side in ("this", "expression"):
                inner = node.args.get(side)
                if isinstance(inner, exp.Subquery):
                    inner.set("alias", exp.TableAlias(this=exp.to_identifier("side", quoted=True)))
                    node.set(side, exp.select("*").from_(inner))
        return super().set_operations(expression)


class _Writer(SQLite):
    """A sqlglot dialect that writes SQLite's SQL with names in backticks.

    SQLite takes an unknown name in double quotes for a text instead of reporting an error.
    """

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


def _check_clauses(tree: exp.Expr, text: str) -> None:
    for limit in tree.find_all(exp.Limit, exp.Offset):
        if not isinstance(limit.expression, exp.Literal) or limit.expression.is_string:
            raise server_errors.syntax_error(text, len(text))
        if limit.expression.name.isdigit() and len(limit.expression.name) > _MOST_DIGITS:
            # The largest number of rows in MySQL, 2**64 - 1, stands for no limit. SQLite refuses such a number.
            limit.set("expression", exp.Literal.number(_INT64 - 1))
    for node in tree.find_all(exp.Select):
        if not node.expressions:
            raise server_errors.syntax_error(text, len(text))
        if node.args.get("into"):
            raise server_errors.ER_NOT_SUPPORTED_YET("SELECT ... INTO")
        for unneeded in ("locks", "hint", "operation_modifiers", "kind"):
            node.set(unneeded, None)


def _takes(function: Callable[..., Any], arguments: Sequence[exp.Expr]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    return True


def _listed(value: Any) -> list[exp.Expr]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _value(value: object) -> str:
    """Return a value as a literal of SQLite."""
    if isinstance(value, int | float) and abs(value) < _INT64:
        return repr(int(value) if isinstance(value, bool) else value)
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


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

    def _wait(self, function: Callable[..., str | int | None], *arguments: Any) -> str | int | None:
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
