"""The translation of a client's SELECT from MySQL's SQL to SQLite's SQL.

The library sqlglot parses the MySQL text into a syntax tree, and writes the tree as SQLite text. In between, this
module changes the tree: it replaces table names, variables and functions, and names the result's columns. It refuses
an expression that SQLite would evaluate in another way than MySQL, with error 1235.
"""

from __future__ import annotations

import datetime
import inspect
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.mysql import MySQLParser

from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import CLOCKS, FUNCTIONS, clock
from dumpfilter.console.sql.result import ColumnType, Table
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.sql.waits import WAITS, Wait

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

_INFORMATION_SCHEMA = "information_schema"
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
    """The state of a client's session that a SELECT can read: tables, variables and the values of functions."""

    find_table: Callable[[str, str], Table | None]
    """The function that returns the table of a schema and a name, or None if no such table exists."""
    schemas: Collection[str]
    database: str | None = None
    """The session's current database (set by USE), or None. Table names without a schema belong to it."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """The values of the system variables (``@@x``) by their names in lower case."""
    user_variables: Mapping[str, object] = field(default_factory=dict)
    """The values of the user variables (``@x``) by their names in lower case."""
    functions: Mapping[str, object] = field(default_factory=dict)
    """The values of functions that depend on the session, such as ``version()``, by their names in lower case."""
    wait: Callable[[Wait], int | None] | None = None
    """The function that carries out a wait for replication, such as SOURCE_POS_WAIT, and returns the wait's value.

    It may raise SqlError. None: this console knows no waits.
    """


def no_such_table(schema: str, name: str, schemas: Collection[str]) -> SqlError:
    """Return the server's error for a table that does not exist.

    The error is 1109 in information_schema, 1049 if the schema is not in ``schemas`` either, and 1146 otherwise.
    """
    if schema == _INFORMATION_SCHEMA:
        return server_errors.ER_UNKNOWN_TABLE(name.upper(), schema)
    if schema not in schemas:
        return server_errors.ER_BAD_DB_ERROR(schema)
    return server_errors.ER_NO_SUCH_TABLE(schema, name)


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


class _Writer(SQLite):
    """A sqlglot dialect that writes SQLite's SQL with names in backticks.

    SQLite takes an unknown name in double quotes for a text instead of reporting an error.
    """

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


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


class Rewriting:
    """The translation of one SELECT from MySQL's SQL to the SQL of SQLite, in which the console runs the SELECT.

    WITH, UNION, VALUES and TABLE are accepted, too, also in parentheses. The constructor raises SqlError for every
    error that can be found without running the statement, such as an unknown table or function.
    """

    def __init__(self, text: str, environment: Environment) -> None:
        self.tables: dict[tuple[str, str], Table] = {}
        """The tables that the statement reads, by schema and name."""
        self.types: dict[str, ColumnType] = {}
        """The type of each column of the tables that the statement reads, by the column's name in lower case."""
        self._environment = environment
        self._now = datetime.datetime.now(datetime.UTC)
        self._tree = parse(text)
        while (
            isinstance(self._tree, exp.Subquery)
            and self._tree.this
            and not (self._tree.alias or self._tree.args.get("limit"))
        ):
            self._tree = self._tree.this
        if not isinstance(self._tree, exp.Query | exp.Values):
            raise server_errors.syntax_error(text, 0)
        self._check_clauses(text)
        schemas = self._find_tables()
        self._name_columns()
        for table, schema in schemas:
            table.set("db", exp.to_identifier(schema, quoted=True))
        # The loop visits the syntax tree from the leaves to the root, so that the new nodes are not translated a
        # second time.
        nodes = list(self._tree.bfs())
        for node in reversed(nodes):
            rewrite = next((how for kind, how in _REWRITES.items() if isinstance(node, kind)), None)
            if rewrite is not None and (new := rewrite(self, node)) is not node:
                node.replace(new)
        with _parsing:
            self.sqlite_text = self._tree.sql(
                dialect=_Writer, identify=True, unsupported_level=ErrorLevel.IGNORE
            )
            """The translated statement, as a text in SQLite's SQL."""
        # Without the links to their parents, the trees of many statements are freed one by one. The garbage collector
        # would free them together, and stop all threads meanwhile.
        for node in (*nodes, *self._tree.bfs()):
            node.parent = None

    def _check_clauses(self, text: str) -> None:
        for limit in self._tree.find_all(exp.Limit, exp.Offset):
            if not isinstance(limit.expression, exp.Literal) or limit.expression.is_string:
                raise server_errors.syntax_error(text, len(text))
            if limit.expression.name.isdigit() and len(limit.expression.name) > _MOST_DIGITS:
                # The largest number of rows in MySQL, 2**64 - 1, stands for no limit. SQLite refuses such a number.
                limit.set("expression", exp.Literal.number(_INT64 - 1))
        for node in self._tree.find_all(exp.Select):
            if not node.expressions:
                raise server_errors.syntax_error(text, len(text))
            if node.args.get("into"):
                raise server_errors.ER_NOT_SUPPORTED_YET("SELECT ... INTO")
            for unneeded in ("locks", "hint", "operation_modifiers", "kind"):
                node.set(unneeded, None)

    def _find_tables(self) -> list[tuple[exp.Table, str]]:
        """Return the syntax nodes of the tables that the statement reads, each with its schema."""
        found: list[tuple[exp.Table, str]] = []
        taken: set[tuple[int, str]] = set()
        common = {cte.alias.lower() for cte in self._tree.find_all(exp.CTE)}
        for node in list(self._tree.find_all(exp.Table)):
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
            if schema.lower() == _INFORMATION_SCHEMA:
                schema = _INFORMATION_SCHEMA
            table = self._environment.find_table(schema, node.name)
            if table is None:
                raise no_such_table(schema, node.name, self._environment.schemas)
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

    def _name_columns(self) -> None:
        # A server spells a result's column as the statement does. Columns of information_schema keep the spelling of
        # their definition, because these tables are views.
        declared = {
            column.name.lower(): column.name
            for (schema, _), table in self.tables.items()
            for column in table.columns
            if schema == _INFORMATION_SCHEMA
        }
        for node in self._tree.find_all(exp.Select):
            for item in node.expressions:
                if isinstance(item, exp.Alias) or item.is_star:
                    continue
                if isinstance(item, exp.Column):
                    name = declared.get(item.name.lower(), item.name)
                elif isinstance(item, exp.Literal) and item.is_string:
                    name = item.name.replace("\0", "")
                else:
                    name = item.sql(dialect=_Reader, normalize_functions=False, comments=False)
                item.replace(exp.alias_(item.copy(), name, quoted=True))

    def _like(self, node: exp.Expr) -> exp.Expr:
        # LIKE without ESCAPE uses the backslash as escape character in MySQL, and none in SQLite.
        if isinstance(node.parent, exp.Escape):
            return node
        return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))

    def _compare(self, node: exp.Expr) -> exp.Expr:
        sides = [node.this, *(side for name in _OTHER_SIDES for side in _listed(node.args.get(name)))]
        if not any(self._is_timestamp(side) for side in sides):
            node.set("this", _collated(node.this))
            return node
        for side in sides:
            # A TIMESTAMP column has texts with six digits of the fraction of a second.
            if isinstance(side, exp.Literal) and side.is_string:
                side.set("this", side.name + ZERO_TIMESTAMP[len(side.name) :])
        return node

    def _is_timestamp(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and self.types.get(node.name.lower()) is ColumnType.TIMESTAMP

    def _ordered(self, node: exp.Expr) -> exp.Expr:
        node.set("this", _collated(node.this))
        return node

    def _grouped(self, node: exp.Expr) -> exp.Expr:
        node.set("expressions", [_collated(expression) for expression in node.expressions])
        return node

    def _call(self, node: exp.Expr) -> exp.Expr:
        name = node.name.lower()
        arguments = node.expressions
        if name.upper() in _NATIVE:
            return node
        if name in CLOCKS and len(arguments) <= 1:
            return self._clock(name, *arguments)
        if name in self._environment.functions and not arguments:
            return _value(self._environment.functions[name])
        if self._environment.wait is not None and name in WAITS:
            fits = len(arguments) in WAITS[name]
        elif name in FUNCTIONS:
            fits = _takes(FUNCTIONS[name], arguments)
        elif self._environment.database is None:
            raise server_errors.ER_NO_DB_ERROR()
        else:
            raise server_errors.ER_SP_DOES_NOT_EXIST("FUNCTION", f"{self._environment.database}.{node.name}")
        if not fits:
            raise server_errors.ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT(node.name)
        return _called(name, *arguments)

    def _system_variable(self, node: exp.Expr) -> exp.Expr:
        name = node.name.lower()
        if name not in self._environment.variables:
            raise server_errors.ER_UNKNOWN_SYSTEM_VARIABLE(node.name)
        return _value(self._environment.variables[name])

    def _user_variable(self, node: exp.Expr) -> exp.Expr:
        return _value(self._environment.user_variables.get(node.name.lower()))

    def _cast(self, node: exp.Expr) -> exp.Expr:
        kind = node.args["to"]
        name = kind.this.name if isinstance(kind.this, exp.DataType.Type) else kind.name.upper()
        for pattern, sqlite_type in _CASTS.items():
            if re.fullmatch(pattern, name):
                if sqlite_type == "INT":
                    # MySQL's CAST to an integer rounds, and SQLite's CAST cuts the fraction off.
                    return _called("round", node.this)
                cast = exp.Cast(this=node.this, to=exp.DataType.build(sqlite_type))
                length = [size.this for size in kind.expressions]
                return _called("left", cast, *length) if length and sqlite_type == "TEXT" else cast
        raise server_errors.ER_NOT_SUPPORTED_YET(f"CAST AS {name}")

    def _group_concat(self, node: exp.Expr) -> exp.Expr:
        value, keys, directions, distinct = node.this, [], "", 0
        if isinstance(value, exp.Order):
            keys = [ordered.this for ordered in value.expressions]
            directions = "".join("d" if ordered.args.get("desc") else "a" for ordered in value.expressions)
            value = value.this
        if isinstance(value, exp.Distinct):
            distinct = 1
            parts = value.expressions
            value = parts[0] if len(parts) == 1 else _called("concat", *parts)
        keys = [value.copy() if isinstance(key, exp.Literal) else key for key in keys]
        row = exp.Anonymous(this="json_array", expressions=[value, *keys])
        group = exp.Anonymous(this="json_group_array", expressions=[row])
        separator = node.args.get("separator") or exp.Literal.string(",")
        options = (exp.Literal.number(distinct), exp.Literal.string(directions))
        return _called("group_concat", group, separator, *options)

    def _clock_word(self, node: exp.Expr) -> exp.Expr:
        return self._clock(_CLOCK_WORDS[type(node)], *[node.this] if isinstance(node.this, exp.Expr) else [])

    def _clock(self, name: str, *digits: exp.Expr) -> exp.Expr:
        # In MySQL, every NOW() of one statement has the same value.
        given = digits[0].name if digits else ""
        return exp.Literal.string(clock(name, self._now, int(given) if given.isdigit() else 0))

    def _account(self, node: exp.Expr) -> exp.Expr:
        return _value(self._environment.functions.get("current_user"))

    def _union(self, node: exp.Expr) -> exp.Expr:
        # SQLite allows no parentheses around the parts of a UNION, so each such part becomes a subquery.
        for side in ("this", "expression"):
            inner = node.args.get(side)
            if isinstance(inner, exp.Subquery):
                inner.set("alias", exp.TableAlias(this=exp.to_identifier("side", quoted=True)))
                node.set(side, exp.select("*").from_(inner))
        return node

    def _refuse(self, node: exp.Expr) -> exp.Expr:
        raise server_errors.ER_NOT_SUPPORTED_YET(node.key.upper())


_CLOCK_WORDS: dict[type, str] = {
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
    "DOUBLE|FLOAT|REAL": "DOUBLE",
}
_REFUSED = (
    *(
        exp.Collate,
        exp.Dot,
        exp.Glob,
        exp.Interval,
        exp.JSONExtract,
        exp.JSONExtractScalar,
    ),
    *(exp.MatchAgainst, exp.RegexpLike, exp.Xor),
)
"""The expressions that a console refuses. SQLite lacks them, or gives the same spelling another meaning."""
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.In, exp.Between, exp.NullSafeEQ),
)
_REWRITES: dict[Any, Callable[[Rewriting, Any], exp.Expr]] = {
    _REFUSED: Rewriting._refuse,
    exp.Like: Rewriting._like,
    _COMPARISONS: Rewriting._compare,
    exp.Ordered: Rewriting._ordered,
    exp.Group: Rewriting._grouped,
    exp.Anonymous: Rewriting._call,
    exp.SessionParameter: Rewriting._system_variable,
    exp.Parameter: Rewriting._user_variable,
    exp.Cast: Rewriting._cast,
    exp.GroupConcat: Rewriting._group_concat,
    tuple(_CLOCK_WORDS): Rewriting._clock_word,
    exp.CurrentUser: Rewriting._account,
    exp.SetOperation: Rewriting._union,
}


_OTHER_SIDES = ("expression", "expressions", "low", "high")
"""The arguments of a comparison's syntax node, besides ``this``, that hold compared values."""


def _takes(function: Callable[..., Any], arguments: Sequence[exp.Expr]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    return True


def _listed(value: Any) -> list[exp.Expr]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _collated(node: exp.Expr) -> exp.Expr:
    """Return an expression whose texts compare without case. In SQLite only a table's columns do so by themselves.

    A number in ORDER BY and GROUP BY is a position in the select list, which stays.
    """
    if isinstance(node, exp.Literal | exp.Tuple | exp.Neg) and not node.is_string:
        return node
    return exp.Collate(this=exp.paren(node), expression=exp.Var(this="NOCASE"))


def _called(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=FUNCTION_PREFIX + name, expressions=list(arguments))


def _value(value: object) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Literal.number(int(value))
    if isinstance(value, int | float) and abs(value) < _INT64:
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    return exp.null() if value is None else exp.Literal.string(str(value))
