"""The search for tables that a statement reads but does not update, with the SQL parser sqlglot.

A server's filter does not look at these tables. The extended Query event (WL#40) lists them, and the clever filter
needs them for CREATE TABLE … SELECT. An imposed filter must know every table that the text of a row-based statement
names. sqlglot is imported when the first text is parsed.
"""

from __future__ import annotations

import functools
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.parse import parse_statement
from dumpfilter.binlog.statement.shape import read_text, statement_shape
from dumpfilter.binlog.statement.statement import StatementKind

if TYPE_CHECKING:
    from sqlglot import exp

K = StatementKind

# sqlglot logs a warning for each statement that it does not understand. Such statements are usual here, so the log is
# silenced.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_QUERY = re.compile(r"\b(?:SELECT|WITH|FROM|JOIN|USING)\b", re.IGNORECASE)
"""The pattern of keywords that begin or join tables. An INSERT or REPLACE without any of them reads no table."""
_TABLE = re.compile(r"\bTABLE\b", re.IGNORECASE)
"""The word TABLE, which begins a query that the SQL parser does not understand (``INSERT INTO a TABLE b``)."""
_INSERTS = frozenset({K.INSERT, K.REPLACE})
_CHANGES = _INSERTS | {K.UPDATE, K.DELETE}
_LITERAL = "?"
"""The sign for a literal in a statement's shape. In place of a name it means that the name is a literal in this SQL
mode.
"""

_QUERYING = frozenset(
    {K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA, K.CREATE_TABLE_SELECT, K.VIEW, K.SELECT}
)
_VERSION_COMMENTS = re.compile(
    r"(`(?:[^`]|``)*`|\"(?:[^\"\\]|\\.|\"\")*\"|'(?:[^'\\]|\\.|'')*'|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/)|/\*M?!\d*|\*/",
    re.S,
)
_MODIFIERS = re.compile(
    r"^(\s*(?:INSERT|REPLACE|UPDATE|DELETE))((?:\s+(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|QUICK|IGNORE))+)\b",
    re.I,
)
_SET_STATEMENT = re.compile(r"^\s*SET\s+STATEMENT\b.*?\bFOR\b", re.I | re.S)
_OR_REPLACE = re.compile(r"^(\s*CREATE)\s+OR\s+REPLACE\b", re.I)
_REPLACE = re.compile(r"^\s*REPLACE\b", re.I)
_DUPLICATES = re.compile(
    r"\b(?:IGNORE|REPLACE)\s+(?=(?:AS\s+)?(?:\(\s*)*(?:SELECT|WITH|TABLE|VALUES)\b)", re.I
)
_LONGEST = 1 << 16
"""The length limit of a statement that sqlglot parses, characters, to bound its time."""


def tables_read(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> tuple[TableName, ...] | None:
    """Return the tables that a statement reads but does not update, each once.

    The result is None when the tables cannot be determined.

    >>> tables_read("INSERT INTO t SELECT * FROM a JOIN d2.b USING (i)")
    (TableName(database=None, table='a'), TableName(database='d2', table='b'))
    """
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    return _read(_Text(shape, text), family) if len(shape) <= _LONGEST else None


@dataclass(frozen=True)
class _Text:
    shape: str
    text: str = field(compare=False)


@functools.lru_cache(4096)
def _read(statement: _Text, family: Family) -> tuple[TableName, ...] | None:
    from sqlglot import exp

    parsed = parse_statement(statement.shape, family)
    if parsed.kind is K.CREATE_TABLE_LIKE:
        return parsed.sources
    if parsed.kind is K.UNKNOWN:
        return None
    if parsed.kind not in _QUERYING or parsed.kind is K.LOAD_DATA:
        return ()
    tree = None
    if len(statement.text) <= _LONGEST:
        tree = _parse(statement.text)
    # The shape (the text with question marks for literals) is parsed when the text is too long or not understood. It
    # is short, and names the same tables.
    tree = tree or _parse(statement.shape)
    if tree is None:
        return None
    # The parser in dumpfilter.binlog.statement.parse has found the updated tables. They are left out of the result.
    named = parsed.objects or ()
    updated = {name for tables in parsed.updated or (named,) for name in tables}
    # The targets of a DELETE of several tables may be aliases, which are not tables that the statement reads.
    targets = (
        {id(table) for table in tree.args.get("tables") or ()} if isinstance(tree, exp.Delete) else set()
    )
    found: dict[TableName, None] = {}
    for table in tree.find_all(exp.Table, bfs=False):
        name = TableName(table.db or None, table.name)
        is_dual = name.database is None and name.table.upper() == "DUAL"
        if id(table) not in targets and name.table and not is_dual and not _is_cte(table, family):
            found[name] = None
    return tuple(name for name in found if name not in updated)


def _parse(text: str) -> exp.Expr | None:
    import sqlglot
    from sqlglot import exp

    code = _VERSION_COMMENTS.sub(lambda found: found[1] or " ", text)
    # sqlglot does not know modifiers such as LOW_PRIORITY. They are removed, since they do not change the tables.
    code = _REPLACE.sub("INSERT", _MODIFIERS.sub(r"\1", _SET_STATEMENT.sub("", code)))
    code = _DUPLICATES.sub("", _OR_REPLACE.sub(r"\1", code))
    try:
        tree = sqlglot.parse_one(code, dialect="mysql")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    return None if isinstance(tree, exp.Command) else tree


def _is_cte(table: exp.Table, family: Family) -> bool:
    """Tell whether a table's name in a parsed query means a common table expression that is visible there."""
    from sqlglot import exp

    if table.db:
        return False
    wanted = table.name.lower()
    node: exp.Expr = table
    own: exp.CTE | None = None
    while node.parent is not None:
        node, child = node.parent, node
        if isinstance(node, exp.CTE):
            own = node
        with_ = node if isinstance(node, exp.With) else node.args.get("with_") or node.args.get("with")
        if not isinstance(with_, exp.With) or with_ is child:
            continue
        visible = with_.expressions
        if with_ is node and own is not None:
            # A common table expression sees those before it, and itself with RECURSIVE. In MariaDB, RECURSIVE lets it
            # see those after it, too.
            number = next(number for number, cte in enumerate(visible) if cte is own)
            recursive = bool(with_.args.get("recursive"))
            if not (recursive and family == "mariadb"):
                visible = visible[: number + recursive]
        if any(cte.alias.lower() == wanted for cte in visible):
            return True
    return False


@dataclass(frozen=True)
class NamedTables:
    """The tables that a statement's text names. A name without a database is in the session's default database."""

    written: tuple[TableName, ...]
    """The tables that the statement inserts into, deletes from or may update."""
    read: tuple[TableName, ...]

    @property
    def all(self) -> tuple[TableName, ...]:
        return tuple(dict.fromkeys((*self.written, *self.read)))


def tables_named(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> NamedTables | None:
    """Return all tables that an INSERT, REPLACE, UPDATE or DELETE names. None when they cannot be determined with
    certainty.

    The result is also None for other statements, such as LOAD DATA or a call of a stored function.

    >>> tables_named("INSERT INTO shop.t SELECT pay FROM hr.salaries").all
    (TableName(database='shop', table='t'), TableName(database='hr', table='salaries'))
    >>> tables_named("SELECT f(1)") is None
    True
    """
    parsed = read_text(text, family=family, sql_mode=sql_mode)
    if parsed.kind not in _CHANGES:
        return None
    if parsed.updated is not None:
        written = tuple(name for names in parsed.updated for name in names)
    elif parsed.listed is not None and parsed.listed_whole:
        written = parsed.listed
    else:
        return None
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    if _TABLE.search(shape):
        return None
    read: tuple[TableName, ...] | None = ()
    if parsed.kind not in _INSERTS or _QUERY.search(shape):
        # The shape names the same tables as the text, and the SQL parser reads it much faster.
        read = tables_read(shape, family=family, sql_mode=sql_mode)
    if read is None or any(_LITERAL in name for name in read):
        return None
    # A derived table (a subquery) has an empty database name here. The tables inside it are among those read.
    return NamedTables(tuple(name for name in written if name.database != ""), read)
