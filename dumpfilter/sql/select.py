"""SELECT on the console's tables, with MySQL's meaning.

sqlglot reads the text as MySQL's SQL and writes it as SQLite's; SQLite runs it over copies of just the tables it
names, in memory and for this one statement. What differs between the two is put right in between: texts compare
without case and accents, functions are MySQL's (:mod:`dumpfilter.sql.functions`), result columns have the names a
server gives them, and errors are the server's.

Bounded: a SELECT ends when it is told to stop or has run too long, and gives a bounded result. Nothing but reading
can reach SQLite.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parsers.mysql import MySQLParser

from dumpfilter.sql import server_errors
from dumpfilter.sql.functions import FUNCTIONS, GroupConcat, full_moment, like, sort_key
from dumpfilter.sql.result import Column, ColumnType, Result, Table, as_shown
from dumpfilter.sql.server_errors import SqlError
from dumpfilter.statement.tokens import Token, TokenKind, tokens

DEFAULT_SECONDS = 60.0
"""How long a SELECT may run (``max_execution_time``)."""

MAX_TEXT = 256 << 10
"""Characters of a statement."""

MAX_ROWS = 1_000_000
MAX_RESULT_SIZE = 64 << 20
"""Characters of all texts of a result."""

ZERO_TIMESTAMP = "0000-00-00 00:00:00.000000"
"""What a server shows in a TIMESTAMP(6) column for a time that has not been."""

_MAX_HEAP = 256 << 20
_INSTRUCTIONS_BETWEEN_CHECKS = 2000
_COLLATION = "MYSQL"
_TIMESTAMP = "MYSQL_TIMESTAMP_TEXT"

_DECLARED = {
    ColumnType.TEXT: f"TEXT COLLATE {_COLLATION}",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.DOUBLE: "REAL",
    ColumnType.TIMESTAMP: _TIMESTAMP,
}
_AGGREGATES = {
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "TOTAL", "GROUP_CONCAT"),
    *("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTILE"),
}


@dataclass(frozen=True)
class Environment:
    """What a SELECT may ask of the session it runs in."""

    find_table: Callable[[str, str], Table | None]
    """By schema and name."""
    schemas: Collection[str]
    database: str | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    """System variables, by names in lower case."""
    user_variables: Mapping[str, object] = field(default_factory=dict)
    """``@x``, by names in lower case."""
    functions: Mapping[str, object] = field(default_factory=dict)
    """What functions of the session give, by names in lower case: ``version``, ``user`` …"""


def select(
    text: str,
    environment: Environment,
    *,
    stop: threading.Event | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Result:
    """Run one SELECT (also WITH, UNION, VALUES, TABLE, in parentheses).

    ``stop`` ends it from another thread with error 1317; after ``seconds`` it ends with 3024.
    Raises SqlError with the server's number and wording.
    """
    stop = stop or threading.Event()
    try:
        tree = _parse(text)
        query = _Query(tree, environment)
        query.prepare(text)
        return query.run(stop, seconds)
    except RecursionError:
        raise SqlError(1436, "HY000", "Thread stack overrun: the statement is nested too deeply") from None


# Reading the text


class _Reader(MySQL):
    """MySQL's SQL in which a function is just its name: sqlglot shall not make another dialect's of it."""

    class Parser(MySQLParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser
            for name, parser in MySQLParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "CONVERT", "EXTRACT", "GROUP_CONCAT", "TRIM", "POSITION")
        }


class _Writer(SQLite):
    """SQLite's SQL with names in backticks: it takes an unknown name in double quotes for a text."""

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


def _parse(text: str) -> exp.Expr:
    if len(text) > MAX_TEXT:
        raise SqlError(
            3170,
            "HY000",
            f"Memory capacity of {MAX_TEXT} bytes for 'parser_max_mem_size' exceeded. "
            "Parser bailed out for this query.",
        )
    text, bad = _without_conditionals(text)
    if bad is not None:
        raise server_errors.syntax_error(text, bad)
    try:
        trees = _Reader().parse(text)
    except ParseError as failed:
        raise server_errors.syntax_error(text, _position(text, failed)) from failed
    except SqlglotError as failed:
        raise server_errors.syntax_error(text, 0) from failed
    trees = [tree for tree in trees if tree is not None]
    if not trees:
        raise server_errors.ER_EMPTY_QUERY()
    if len(trees) > 1:
        following = list(tokens(text))
        semicolon = next(at for at, token in enumerate(following) if token.value == ";")
        raise server_errors.syntax_error(text, following[semicolon + 1].start)
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and tree.this and not (tree.alias or tree.args.get("limit")):
        tree = tree.this
    if not isinstance(tree, exp.Query | exp.Values):
        raise server_errors.syntax_error(text, 0)
    return tree


def _without_conditionals(text: str) -> tuple[str, int | None]:
    """The text with what is in ``/*! … */`` as though it stood there without; and where it cannot be read."""
    if "/*!" not in text:
        bad = next((token.start for token in tokens(text) if token.kind is TokenKind.BAD), None)
        return text, bad
    kept = [text[token.start : token.end] for token in tokens(text)]
    return " ".join(kept), None


def _position(text: str, failed: ParseError) -> int:
    """Where in the text the token stands that could not be read."""
    error = failed.errors[0] if failed.errors else {}
    lines = text.splitlines(keepends=True)
    line, column = int(error.get("line") or 1), int(error.get("col") or 0)
    highlight = str(error.get("highlight") or "")
    if "Unexpected token" not in str(error.get("description")) and text.rstrip().endswith(highlight):
        # something is missing behind the last token
        return len(text)
    return max(0, min(len(text), sum(map(len, lines[: line - 1])) + column - len(highlight)))


def _position_of_limit(text: str) -> int:
    """Where in a LIMIT something stands that is no number."""
    behind = False
    for token in tokens(text):
        if behind and token.kind is not TokenKind.INTEGER and token.value != ",":
            return token.start
        behind = token.word in ("LIMIT", "OFFSET") or (behind and token.word != "LIMIT")
    return len(text)


def _position_of_nothing(text: str) -> int:
    """Where something to select should stand and does not."""
    before = ""
    for token in tokens(text):
        if before == "SELECT" and token.word in _AFTER_ITEMS:
            return token.start
        before = token.word
    return len(text)


_AFTER_ITEMS = {
    *("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT"),
    *("FOR", "INTO", "WINDOW", "LOCK"),
}
_MODIFIERS = {"ALL", "DISTINCT", "DISTINCTROW", "STRAIGHT_JOIN", "HIGH_PRIORITY"}


def _item_texts(text: str) -> list[str]:
    """What is selected by the first SELECT, item by item as it is written: the server names columns by it."""
    depth = base = 0
    begun = False
    items: list[list[Token]] = [[]]
    opening = True
    for token in tokens(text):
        symbol = token.value if token.kind is TokenKind.SYMBOL else ""
        if opening and symbol != "(":
            opening, base = False, depth
        depth += (symbol == "(") - (symbol == ")")
        if not begun:
            begun = token.word == "SELECT" and depth == base
        elif depth < base or (depth == base and (token.word in _AFTER_ITEMS or symbol == ";")):
            break
        elif depth == base and symbol == ",":
            items.append([])
        elif items[-1] or not (token.word in _MODIFIERS or token.word.startswith("SQL_")):
            items[-1].append(token)
    return [text[item[0].start : item[-1].end] for item in items if item]


# Putting right what differs


class _Query:
    """One statement on its way from MySQL's SQL to SQLite's."""

    def __init__(self, tree: exp.Expr, environment: Environment) -> None:
        self._tree = tree
        self._environment = environment
        self._tables: dict[str, Table] = {}
        self._types: dict[str, ColumnType] = {}
        self._times: dict[str, object] = {}

    def prepare(self, text: str) -> None:
        """Make SQLite's statement of it. Raises SqlError for whatever can be told without running it."""
        self._refuse_what_is_not_read(text)
        self._name_columns(_item_texts(text))
        self._find_tables()
        self._name_table_columns()
        self._refuse_ungrouped_columns()
        self._rewrite_all()

    def _refuse_what_is_not_read(self, text: str) -> None:
        for limit in self._tree.find_all(exp.Limit, exp.Offset):
            if isinstance(limit.expression, exp.Column):
                raise server_errors.ER_SP_UNDECLARED_VAR(limit.expression.name)
            if not isinstance(limit.expression, exp.Literal) or limit.expression.is_string:
                raise server_errors.syntax_error(text, _position_of_limit(text))
        for node in self._tree.find_all(exp.Select):
            if not node.expressions:
                raise server_errors.syntax_error(text, _position_of_nothing(text))
            if node.args.get("into"):
                raise server_errors.ER_NOT_SUPPORTED_YET("SELECT ... INTO")
            for unneeded in ("locks", "hint", "operation_modifiers", "kind"):
                node.set(unneeded, None)
            source = node.args.get("from_") or node.args.get("from")
            if source and isinstance(source.this, exp.Table) and _is_dual(source.this):
                source.pop()
                source = None
            if source is None and node.find(exp.Star) and any(e.is_star for e in node.expressions):
                raise SqlError(1096, "HY000", "No tables used")
            where = node.args.get("where")
            if where and any(
                call.name.upper() in _AGGREGATES
                for call in where.find_all(exp.Anonymous)
                if call.find_ancestor(exp.Select) is node
            ):
                raise SqlError(1111, "HY000", "Invalid use of group function")

    def _name_columns(self, texts: Sequence[str]) -> None:
        first = self._tree
        while not isinstance(first, exp.Select) and isinstance(first.this, exp.Expr):
            first = first.this
        for node in self._tree.find_all(exp.Select):
            items = node.expressions
            given = texts if node is first and len(texts) == len(items) else None
            named = [
                item
                if isinstance(item, exp.Alias | exp.Column | exp.Star) or item.is_star
                else exp.alias_(
                    item, _display_name(item, given[at] if given else item.sql("mysql")), quoted=True
                )
                for at, item in enumerate(items)
            ]
            node.set("expressions", named)

    def _find_tables(self) -> None:
        common = {cte.alias.lower() for cte in self._tree.find_all(exp.CTE)}
        taken: set[tuple[int, str]] = set()
        for node in list(self._tree.find_all(exp.Table)):
            if not isinstance(node.this, exp.Identifier):
                raise server_errors.ER_NOT_SUPPORTED_YET("table functions")
            if not node.db and node.name.lower() in common:
                continue
            schema = node.db or self._environment.database
            if not schema:
                raise server_errors.ER_NO_DB_ERROR()
            if schema.lower() == "information_schema":
                schema = "information_schema"
            table = self._environment.find_table(schema, node.name)
            if table is None:
                raise no_such_table(schema, node.name, self._environment.schemas)
            name = f"{schema}.{node.name.lower()}"
            self._tables[name] = table
            self._types |= {column.name.lower(): column.type for column in table.columns}
            alias = node.alias or node.name
            select = id(node.find_ancestor(exp.Select))
            if (select, alias) in taken:
                raise SqlError(1066, "42000", f"Not unique table/alias: '{alias}'")
            taken.add((select, alias))
            node.set("hints", None)
            node.set("db", None)
            node.set("catalog", None)
            node.set("this", exp.to_identifier(name, quoted=True))
            node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))

    def _name_table_columns(self) -> None:
        """A column is shown as it is written, one of information_schema (whose tables are views) as it is declared."""
        declared = {
            column.name.lower(): column.name
            for name, table in self._tables.items()
            for column in table.columns
            if name.startswith("information_schema.")
        }
        for node in self._tree.find_all(exp.Select):
            for item in node.expressions:
                if isinstance(item, exp.Column) and not item.is_star:
                    name = declared.get(item.name.lower(), item.name)
                    item.replace(exp.alias_(item.copy(), name, quoted=True))

    def _refuse_ungrouped_columns(self) -> None:
        """ONLY_FULL_GROUP_BY, where there is no GROUP BY: one row is asked for and a column of many."""
        for node in self._tree.find_all(exp.Select):
            if node.args.get("group") or not any(map(_has_aggregate, node.expressions)):
                continue
            for number, item in enumerate(node.expressions, 1):
                if column := _column_outside_aggregates(item, node):
                    raise SqlError(
                        1140,
                        "42000",
                        f"In aggregated query without GROUP BY, expression #{number} of SELECT list contains "
                        f"nonaggregated column '{self._qualified(column, node)}'; this is incompatible with "
                        "sql_mode=only_full_group_by",
                    )

    def _qualified(self, column: exp.Column, select: exp.Expr) -> str:
        for table in select.find_all(exp.Table):
            found = self._tables.get(table.name)
            spelled = found and next(
                (c.name for c in found.columns if c.name.lower() == column.name.lower()), None
            )
            if spelled and column.table in ("", table.alias):
                return f"{table.name.partition('.')[0]}.{table.alias}.{spelled}"
        return column.name

    def _rewrite_all(self) -> None:
        # from the leaves up: what a rewrite puts in place is not looked at again
        for node in reversed(list(self._tree.bfs())):
            for kind, rewrite in _REWRITES.items():
                if isinstance(node, kind):
                    new = rewrite(self, node)
                    if new is not node:
                        node.replace(new)
                    break

    def _column(self, node: exp.Expr) -> exp.Expr:
        node.set("db", None)
        node.set("catalog", None)
        return node

    def _compare(self, node: exp.Expr) -> exp.Expr:
        """Texts compare by MySQL's collation; a text beside a TIMESTAMP is a TIMESTAMP."""
        sides = [node.this, *[s for k in ("expression", "low", "high") if (s := node.args.get(k))]]
        if isinstance(node, exp.In):
            sides += node.expressions
        if any(
            self._types.get(side.name.lower()) is ColumnType.TIMESTAMP for side in sides if _is_column(side)
        ):
            for side in sides:
                if isinstance(side, exp.Literal) and side.is_string and (full := full_moment(side.name)):
                    side.set("this", full)
        if not any(isinstance(side, exp.Collate | exp.Tuple) for side in sides):
            node.set("this", _collated(node.this))
        return node

    def _sorted(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node.this, exp.Collate):
            node.set("this", _collated(node.this))
        node.set("nulls_first", None)
        return node

    def _grouped(self, node: exp.Expr) -> exp.Expr:
        node.set(
            "expressions",
            [e if isinstance(e, exp.Literal | exp.Collate) else _collated(e) for e in node.expressions],
        )
        return node

    def _collate(self, node: exp.Expr) -> exp.Expr:
        name = node.expression.name.lower()
        binary = name == "binary" or name.endswith("_bin")
        node.set("expression", exp.Var(this="BINARY" if binary else _COLLATION))
        return node

    def _call(self, node: exp.Expr) -> exp.Expr:
        name = node.name.lower()
        arguments = node.expressions
        if name.upper() in _AGGREGATES or isinstance(node.parent, exp.Dot):
            return node
        if name in ("date_add", "date_sub", "adddate", "subdate") and len(arguments) == 2:
            return _add_interval(arguments[0], arguments[1], minus=name in ("date_sub", "subdate"))
        if name == "timestampdiff" and len(arguments) == 3:
            arguments = [exp.Literal.string(arguments[0].name), *arguments[1:]]
        if name in _CLOCK_FUNCTIONS and len(arguments) <= 1:
            return self._time_of_statement(name, arguments)
        if name in self._environment.functions and not arguments:
            return _value(self._environment.functions[name])
        if name == "sleep" and len(arguments) == 1:
            return _called("sleep", *arguments)
        function = FUNCTIONS.get(name)
        if function is None:
            if self._environment.database is None:
                raise server_errors.ER_NO_DB_ERROR()
            raise SqlError(1305, "42000", f"FUNCTION {self._environment.database}.{node.name} does not exist")
        if len(arguments) < function.least or (function.most is not None and len(arguments) > function.most):
            raise _wrong_count(node.name)
        return _called(name, *arguments)

    def _qualified_call(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node.expression, exp.Anonymous | exp.Func):
            raise SqlError(1305, "42000", f"FUNCTION {node.this.name}.{node.expression.name} does not exist")
        return node

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
        sizes = [part.this for part in kind.expressions]
        if name in ("BINARY", "VARBINARY"):
            return exp.Collate(this=_called("cast_char", node.this), expression=exp.Var(this="BINARY"))
        for pattern, function in _CASTS.items():
            if re.fullmatch(pattern, name):
                return _called(
                    function, node.this, *(sizes if function in ("cast_char", "cast_decimal") else [])
                )
        raise server_errors.ER_NOT_SUPPORTED_YET(f"CAST AS {name}")

    def _extract(self, node: exp.Expr) -> exp.Expr:
        unit = node.name.lower()
        if unit not in FUNCTIONS:
            raise server_errors.ER_NOT_SUPPORTED_YET(f"EXTRACT({unit.upper()})")
        return _called(unit, node.expression)

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
        keys = [value.copy() if isinstance(key.this, exp.Literal) else key for key in keys]
        separator = node.args.get("separator") or exp.Literal.string(",")
        given = (exp.Literal.number(distinct), exp.Literal.string(directions))
        return _called("group_concat", separator, *given, value, *keys)

    def _trim(self, node: exp.Expr) -> exp.Expr:
        if node.expression:
            raise server_errors.ER_NOT_SUPPORTED_YET("TRIM(... FROM ...)")
        return _called("trim", node.this)

    def _position_of(self, node: exp.Expr) -> exp.Expr:
        return _called("locate", node.args["substr"], node.this)

    def _regexp(self, node: exp.Expr) -> exp.Expr:
        return _called("regexp_like", node.this, node.expression)

    def _clock(self, node: exp.Expr) -> exp.Expr:
        digits = [node.this] if isinstance(node.this, exp.Expr) else []
        return self._time_of_statement(_CLOCKS[type(node)], digits)

    def _time_of_statement(self, name: str, digits: Sequence[exp.Expr]) -> exp.Expr:
        """NOW() and its kin: one time for the whole statement."""
        given = [int(digit.name) for digit in digits if digit.name.isdigit()]
        if name not in self._times:
            self._times[name] = FUNCTIONS[name].call(*([6] if FUNCTIONS[name].most else []))
        whole = str(self._times[name])
        fraction = given[0] if given and given[0] <= 6 else 0
        return exp.Literal.string(
            whole[: len(whole) - 7 + (fraction and fraction + 1)] if "." in whole else whole
        )

    def _account(self, node: exp.Expr) -> exp.Expr:
        return _value(self._environment.functions.get("current_user"))

    def _either(self, node: exp.Expr) -> exp.Expr:
        one, other = (
            exp.paren(exp.NEQ(this=side, expression=exp.Literal.number(0)))
            for side in node.iter_expressions()
        )
        return exp.paren(exp.NEQ(this=one, expression=other))

    def _text(self, node: exp.Expr) -> exp.Expr:
        # SQLite's text must not have a NUL in it
        if isinstance(node, exp.Literal) and node.is_string and "\0" in node.name:
            return _called("unhex", exp.Literal.string(node.name.encode().hex()))
        return node

    def _union(self, node: exp.Expr) -> exp.Expr:
        """SQLite has no parentheses around the sides."""
        for side in ("this", "expression"):
            inner = node.args.get(side)
            if isinstance(inner, exp.Subquery):
                inner.set("alias", exp.TableAlias(this=exp.to_identifier("side", quoted=True)))
                node.set(side, exp.select("*").from_(inner))
        return node

    def _sum(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node.this, exp.Interval) and isinstance(node, exp.Add):
            return _add_interval(node.expression, node.this, minus=False)
        if isinstance(node.expression, exp.Interval):
            return _add_interval(node.this, node.expression, minus=isinstance(node, exp.Sub))
        return node

    # Running

    def run(self, stop: threading.Event, seconds: float) -> Result:
        sql = self._tree.sql(dialect=_Writer, identify=True, unsupported_level=ErrorLevel.IGNORE)
        connection = sqlite3.connect(
            ":memory:",
            detect_types=sqlite3.PARSE_DECLTYPES,
            isolation_level=None,
            check_same_thread=False,
        )
        deadline = time.monotonic() + seconds
        try:
            _equip(connection, stop, deadline)
            for name, table in self._tables.items():
                _load(connection, name, table)
            connection.execute("PRAGMA query_only = ON")
            connection.set_progress_handler(
                lambda: stop.is_set() or time.monotonic() > deadline, _INSTRUCTIONS_BETWEEN_CHECKS
            )
            cursor = connection.execute(sql)
            rows = _bounded(cursor)
            names = [str(entry[0]) for entry in cursor.description or ()]
        except (sqlite3.Error, MemoryError, OverflowError, ValueError) as failed:
            raise self._translated(failed, stop) from failed
        finally:
            connection.close()
        if stop.is_set():
            raise query_interrupted()
        if time.monotonic() > deadline:
            raise _ran_too_long()
        return Result([self._typed(name, at, rows) for at, name in enumerate(names)], rows)

    def _typed(self, name: str, at: int, rows: Sequence[Sequence[Any]]) -> Column:
        first = next((row[at] for row in rows if row[at] is not None), None)
        if first is None:
            return Column(name, self._types.get(name.lower(), ColumnType.TEXT))
        if isinstance(first, datetime.datetime) or first == ZERO_TIMESTAMP:
            return Column(name, ColumnType.TIMESTAMP)
        kinds = {type(row[at]) for row in rows if row[at] is not None}
        if kinds == {int}:
            return Column(name, ColumnType.INTEGER)
        return Column(name, ColumnType.DOUBLE if kinds <= {int, float} else ColumnType.TEXT)

    def _translated(self, failed: Exception, stop: threading.Event) -> SqlError:
        text = str(failed)
        if text == "interrupted":
            return query_interrupted() if stop.is_set() else _ran_too_long()
        too_much = ("too big", "memory", "is full", "'step' method")
        if isinstance(failed, MemoryError) or any(words in text for words in too_much):
            return SqlError(
                1041, "HY000", "Out of memory; the statement needs more than a console's SELECT may have"
            )
        for pattern, answer in _TRANSLATIONS.items():
            if found := re.match(pattern, text):
                return answer(self, found)
        return server_errors.ER_NOT_SUPPORTED_YET(text)

    def _unknown_column(self, found: re.Match[str]) -> SqlError:
        name = found[1]
        return server_errors.ER_BAD_FIELD_ERROR(name, self._clause_of(name))

    def _no_such_position(self, found: re.Match[str]) -> SqlError:
        """ORDER BY 9 where there are fewer columns."""
        kind, clause = (exp.Order, "order clause") if found[2] == "ORDER" else (exp.Group, "group statement")
        for node in self._tree.find_all(kind):
            terms = node.expressions[int(found[1]) - 1 : int(found[1])]
            number = terms[0].find(exp.Literal) if terms and not terms[0].find(exp.Column) else None
            if number is not None:
                return server_errors.ER_BAD_FIELD_ERROR(number.name, clause)
        return server_errors.ER_BAD_FIELD_ERROR(found[1], clause)

    def _ambiguous(self, found: re.Match[str]) -> SqlError:
        return server_errors.ER_NON_UNIQ_ERROR(found[1], self._clause_of(found[1]))

    def _clause_of(self, name: str) -> str:
        """What the server calls the part of the statement in which this column stands."""
        column = name.rpartition(".")[2].lower()
        for node in self._tree.find_all(exp.Column):
            if node.name.lower() == column:
                clause = node.find_ancestor(exp.Where, exp.Group, exp.Having, exp.Order, exp.Join, exp.Select)
                if clause:
                    return _CLAUSES.get(type(clause), "field list")
        return "field list"


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.NullSafeEQ)
_CLOCKS: dict[type, str] = {
    exp.CurrentTimestamp: "now",
    exp.CurrentDatetime: "now",
    exp.Localtime: "now",
    exp.Localtimestamp: "now",
    exp.CurrentDate: "curdate",
    exp.CurrentTime: "curtime",
}
_CLOCK_FUNCTIONS = {
    *("now", "current_timestamp", "localtime", "localtimestamp", "sysdate", "utc_timestamp"),
    *("curdate", "current_date", "curtime", "current_time"),
}
_CASTS = {
    "(N|VAR|NVAR)?CHAR|.*TEXT": "cast_char",
    "U?(BIG|SMALL|TINY|MEDIUM)?INT|SIGNED|UNSIGNED": "cast_signed",
    "DOUBLE|FLOAT|REAL": "cast_double",
    "DECIMAL|DEC|NUMERIC": "cast_decimal",
    "DATE": "date",
    "TIME": "time",
    "DATETIME|TIMESTAMP.*": "cast_char",
}
_REWRITES: dict[Any, Callable[[_Query, exp.Expr], exp.Expr]] = {
    exp.Column: _Query._column,
    _COMPARISONS: _Query._compare,
    exp.Ordered: _Query._sorted,
    exp.Group: _Query._grouped,
    exp.Collate: _Query._collate,
    exp.Anonymous: _Query._call,
    exp.Dot: _Query._qualified_call,
    exp.SessionParameter: _Query._system_variable,
    exp.Parameter: _Query._user_variable,
    exp.Cast: _Query._cast,
    exp.Extract: _Query._extract,
    exp.Trim: _Query._trim,
    exp.GroupConcat: _Query._group_concat,
    exp.StrPosition: _Query._position_of,
    exp.RegexpLike: _Query._regexp,
    tuple(_CLOCKS): _Query._clock,
    exp.CurrentUser: _Query._account,
    exp.Xor: _Query._either,
    (exp.Add, exp.Sub): _Query._sum,
    exp.SetOperation: _Query._union,
    exp.Literal: _Query._text,
}
_CLAUSES: dict[type, str] = {
    exp.Where: "where clause",
    exp.Group: "group statement",
    exp.Having: "having clause",
    exp.Order: "order clause",
    exp.Join: "on clause",
}


def _wrong_count(name: str) -> SqlError:
    return SqlError(1582, "42000", f"Incorrect parameter count in the call to native function '{name}'")


_TRANSLATIONS: dict[str, Callable[[_Query, re.Match[str]], SqlError]] = {
    r"no such column: (.*)": _Query._unknown_column,
    r"ambiguous column name: (.*)": _Query._ambiguous,
    r"(\d+)\w+ (ORDER|GROUP) BY term out of range": _Query._no_such_position,
    r"\d+\w+ ORDER BY term does not match": lambda q, _: SqlError(
        1054, "42S22", "Unknown column in 'order clause'"
    ),
    r"SELECTs to the left and right": lambda *_: SqlError(
        1222, "21000", "The used SELECT statements have a different number of columns"
    ),
    r"sub-select returns|row value misused": lambda *_: SqlError(
        1241, "21000", "Operand should contain 1 column(s)"
    ),
    r"misuse of (aggregate|window)": lambda *_: SqlError(1111, "HY000", "Invalid use of group function"),
    r"no such table: (.*)": lambda _, found: SqlError(1109, "42S02", f"Unknown table '{found[1]}'"),
    r"wrong number of arguments to function (?:my_)?(\w+)": lambda _, found: _wrong_count(found[1]),
}


def no_such_table(schema: str, name: str, schemas: Collection[str]) -> SqlError:
    """What a server says about a table that is not there."""
    if schema == "information_schema":
        return server_errors.ER_UNKNOWN_TABLE(name.upper(), schema)
    if schema not in schemas:
        return server_errors.ER_BAD_DB_ERROR(schema)
    return server_errors.ER_NO_SUCH_TABLE(schema, name)


def query_interrupted() -> SqlError:
    """``ER_QUERY_INTERRUPTED``."""
    return SqlError(1317, "70100", "Query execution was interrupted")


def _ran_too_long() -> SqlError:
    return SqlError(
        3024, "HY000", "Query execution was interrupted, maximum statement execution time exceeded"
    )


def _is_dual(table: exp.Table) -> bool:
    return not table.db and table.name.upper() == "DUAL"


def _is_column(node: object) -> bool:
    return isinstance(node, exp.Column)


def _is_aggregate(node: exp.Expr) -> bool:
    called = isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES | {"ANY_VALUE"}
    return (called or isinstance(node, exp.GroupConcat)) and not isinstance(node.parent, exp.Window)


def _has_aggregate(item: exp.Expr) -> bool:
    select = item.find_ancestor(exp.Select)
    return any(_is_aggregate(node) and node.find_ancestor(exp.Select) is select for node in item.walk())


def _column_outside_aggregates(item: exp.Expr, select: exp.Expr) -> exp.Column | None:
    for column in item.find_all(exp.Column):
        if column.is_star or column.find_ancestor(exp.Select) is not select:
            continue
        above: exp.Expr | None = column
        while above is not None and above is not item.parent and not _is_aggregate(above):
            above = above.parent
        if above is item.parent:
            return column
    return None


def _collated(node: exp.Expr) -> exp.Expr:
    inner = exp.paren(node) if isinstance(node, exp.Binary | exp.Not | exp.Between | exp.In) else node
    return exp.Collate(this=inner, expression=exp.Var(this=_COLLATION))


def _called(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=f"my_{name}", expressions=list(arguments))


def _value(value: object) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Literal.number(int(value))
    if isinstance(value, int | float) and abs(value) < 1 << 63:
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    return exp.null() if value is None else exp.Literal.string(str(value))


def _add_interval(moment: exp.Expr, interval: exp.Expr, *, minus: bool) -> exp.Expr:
    amount: exp.Expr = interval
    unit = "DAY"
    if isinstance(interval, exp.Interval):
        amount, unit = interval.this, interval.text("unit").upper()
    if minus:
        amount = exp.Neg(this=exp.paren(amount))
    return _called("add_interval", moment, amount, exp.Literal.string(unit))


def _display_name(item: exp.Expr, text: str) -> str:
    """The name of a result column that has no alias and is no table's column."""
    if isinstance(item, exp.Literal) and item.is_string:
        text = str(item.this)
    return "NULL" if isinstance(item, exp.Null) else text.replace("\0", "")


# SQLite


def _equip(connection: sqlite3.Connection, stop: threading.Event, deadline: float) -> None:
    """MySQL's collation and functions, and bounds."""

    def sleep(seconds: Any) -> int | None:
        if seconds is None or float(seconds) < 0:
            return 0
        return int(stop.wait(min(float(seconds), max(0.0, deadline - time.monotonic()))))

    connection.create_collation(_COLLATION, _compared)
    connection.create_function("my_sleep", 1, sleep)
    connection.create_aggregate("my_group_concat", -1, GroupConcat)  # type: ignore[arg-type]
    connection.create_function("like", 2, like, deterministic=True)
    connection.create_function("like", 3, like, deterministic=True)
    for name, function in FUNCTIONS.items():
        connection.create_function(f"my_{name}", -1, function.call)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RESULT_SIZE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute(f"PRAGMA hard_heap_limit = {_MAX_HEAP}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _compared(left: str, right: str) -> int:
    one, other = sort_key(left), sort_key(right)
    return (one > other) - (one < other)


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
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    if isinstance(value, str):
        # what cannot be UTF-8 cannot be sent either
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
        # the server's zero, which is no date
        return text


sqlite3.register_converter(_TIMESTAMP, _timestamp)
