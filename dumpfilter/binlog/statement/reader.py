"""The cursor over the tokens of a binlogged statement, and the parser of the tables in a FROM or UPDATE clause.

The parser returns the tables in the order of the server's global table list, in which the server checks filter rules.
The server's parser adds tables in the order of the text, and a derived table (subquery) after the tables inside it.
Then the first table that stands directly in the statement moves to the front (``LEX::first_lists_tables_same``). The
bits of Q_TABLE_MAP_FOR_UPDATE are numbers in this list (``mysql_execute_command`` of the replica).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Change, Names
from dumpfilter.binlog.statement.tokens import BINLOG, TokenKind, TokenReader

MOST_TOKENS = 100_000
"""The limit of tokens of one statement that the parser of binlogged statements reads, to bound its time."""

MOST_NESTED = 100
"""The limit of nesting levels that a parser follows, because each level takes a part of Python's small stack."""


class StatementReader(TokenReader):
    """The cursor over the tokens of a binlogged statement, which the parsers of statements share.

    The parsers report table names to the methods ``note_…``, which do nothing in this class. A subclass can override
    them to collect the names.
    """

    most_nested = MOST_NESTED

    def __init__(self, text: str, family: Family) -> None:
        super().__init__(text, dialect=BINLOG[family], most=MOST_TOKENS)
        self.family: Family = family
        self.ctes: list[dict[str, set[str]]] = [{}]
        """The names of the common table expressions that are visible at the cursor, by their lower-case form. One
        dictionary stands for each level of parentheses. MySQL compares these names like names of tables, MariaDB
        without regard to case.
        """
        self._defined: set[str] = set()
        """The lower-case names of all common table expressions so far. Most statements have none, at any level."""
        self._nested = 0

    def name(self) -> TableName | None:
        self.accept(".")  # For MariaDB, .t is the table t of the default database.
        return super().name()

    def nest(self) -> bool:
        """Enter one more level of nesting (parentheses or subqueries). Return False if the limit of levels is reached,
        so that deep nesting cannot overflow Python's stack.

        The caller must call :meth:`unnest` at the end of the level.
        """
        if self._nested == self.most_nested:
            return False
        self._nested += 1
        return True

    def unnest(self) -> None:
        """Leave the level of nesting (parentheses or subquery) that the last successful call of :meth:`nest`
        entered.
        """
        self._nested -= 1

    def note_table(self, name: TableName) -> None:
        """Receive a table name of a FROM or UPDATE clause from the parser. The name may also belong to a common table
        expression (WITH). This class ignores the call; a subclass can collect the name.
        """

    def read_cte(self, name: str, *, is_recursive: bool) -> None:
        """Consume the query of the common table expression (WITH) ``name``. From then on, ``name`` means this
        expression and hides a table of the same name.

        The cursor stands after the query's opening parenthesis. ``is_recursive`` tells whether the query can refer to
        itself. Only subclasses use ``is_recursive``.
        """
        self.skip_parentheses()
        self.define_cte(name)

    def define_cte(self, name: str, level: int = -1) -> None:
        """Make the common table expression (WITH) ``name`` visible inside the parentheses with the index ``level`` in
        ``ctes``.
        """
        self.ctes[level].setdefault(name.lower(), set()).add(name)
        self._defined.add(name.lower())

    def is_cte(self, name: str) -> bool:
        """Tell whether a name without a database means a common table expression (WITH) at this point of the statement.
        Otherwise the name means a table.
        """
        if self.family == "mariadb":
            return self.may_be_cte(name)
        return self.may_be_cte(name) and any(name in level.get(name.lower(), ()) for level in self.ctes)

    def may_be_cte(self, name: str) -> bool:
        """Tell whether a name without a database equals the name of a visible common table expression (WITH), apart
        from case. Some servers compare such names without regard to case.
        """
        wanted = name.lower()
        return wanted in self._defined and any(wanted in level for level in self.ctes)

    def note_writes(self, names: Iterable[TableName], *changes: Change) -> None:
        """Receive from the parser the tables whose rows the statement may change, and the kinds of changes. This class
        ignores the call; a subclass can collect the names.
        """

    def note_update(self, tables: Sequence[tuple[TableName, str]]) -> None:
        """Receive from the parser the tables of an UPDATE with their aliases. The cursor is after the word SET. This
        class ignores the call; a subclass can collect the names.
        """


DERIVED = TableName("", "*")
"""The name under which a derived table (a subquery in a FROM clause) is listed.

The server uses this name, too, and not the derived table's alias.
"""

_JOINS = frozenset({"JOIN", "INNER", "CROSS", "STRAIGHT_JOIN", "LEFT", "RIGHT", "OUTER", "NATURAL"})
AFTER_NAME = (
    _JOINS
    | {"ON", "USING", "USE", "FORCE", "IGNORE", "SET", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION"}
    | {"EXCEPT", "INTERSECT", "FOR", "LOCK", "PARTITION", "WINDOW", "PROCEDURE", "INTO", "RETURNING"}
    | {"TABLESAMPLE", "QUALIFY", "WITH"}
)
"""The keywords that can follow a table's name in a FROM or UPDATE clause and are not the table's alias."""

NOT_ALWAYS_RESERVED = ("WINDOW", "EXCEPT", "INTERSECT", "RETURNING", "QUALIFY")
"""Keywords that can follow a table's name on some servers, and are an ordinary alias of the table on others."""

AFTER_LIST = (
    *(")", "}", ";", "ON", "SET", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "FOR", "LOCK"),
    *("PROCEDURE", "INTO", "WITH", *NOT_ALWAYS_RESERVED),
)
"""The symbols and keywords that can follow a FROM clause. ON is from ON DUPLICATE KEY UPDATE, and WITH from WITH CHECK
OPTION of a view.
"""

_ALSO_ALIASES = {"mysql": ("RETURNING",), "mariadb": ("TABLESAMPLE", "QUALIFY")}
"""By server family, the keywords of :data:`AFTER_NAME` that nevertheless can be a table's alias on servers of this
family.
"""

_SYSTEM_TIME = re.compile(r"FOR\s+SYSTEM_TIME\b", re.IGNORECASE)
_AFTER_EXPRESSION = frozenset(
    {",", ")", "}", ";", "SET", "WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "RETURNING"}
    | {"UNION", "FOR", "LOCK", "INTO", "UPDATE"}
)
"""The symbols and reserved words that end the condition of a join. UPDATE stands in ON DUPLICATE KEY UPDATE."""

_SYMBOL = TokenKind.SYMBOL
QUERY = ("SELECT", "WITH", "VALUES", "TABLE")
"""The keywords with which a query (subquery) begins."""


@dataclass
class References:
    """The tables that a FROM or UPDATE clause of a statement names, as far as the parser has read the clause."""

    top: list[tuple[TableName, str]] = field(default_factory=list)
    """The tables that stand directly in the clause and not in a subquery, each with its alias.

    The name DERIVED stands for a subquery, whose tables are left out.
    """
    listed: list[TableName] = field(default_factory=list)
    """All tables of the clause in the order of the text, including the tables inside derived tables (subqueries)."""
    first: int | None = None
    """The index in ``listed`` of the first table that stands directly in the clause. None without such a table."""
    whole: bool = True
    """Whether ``listed`` has all tables of the clause. If False, it has only the first few of them, in the right
    order.
    """
    is_read: bool = False
    """Whether the parser has understood the clause to its end. If False, the lists end where the parser stopped."""

    @property
    def in_order(self) -> Names:
        """The tables of a FROM or UPDATE clause, in the order in which the server checks filter rules. This is the
        order of the server's global table list.
        """
        if not self.first:
            return tuple(self.listed)
        return (self.listed[self.first], *self.listed[: self.first], *self.listed[self.first + 1 :])


def read_references(reader: StatementReader, *until: str, or_end: bool = False) -> References:
    """Consume the table references of a FROM or UPDATE clause. Return the tables. The result's ``is_read`` is False if
    the parser did not understand the clause to its end.

    The references end at one of the keywords ``until``, which is consumed, too. With ``or_end`` they may also end with
    the statement.
    """
    found = References()
    if _list(reader, found):
        found.is_read = bool(reader.accept(*until)) or (or_end and (reader.at_end or reader.sees(";")))
    return found


def _list(reader: StatementReader, found: References) -> bool:
    if not reader.nest():
        return False
    whole = _joined(reader, found)
    reader.unnest()
    return whole


def _joined(reader: StatementReader, found: References) -> bool:
    while True:
        if not _factor(reader, found):
            return False
        while reader.token.word in ("ON", "USING") or reader.token.word in _JOINS or reader.sees(","):
            if reader.accept("ON"):
                if _expression(reader, found):
                    reader.accept_all(*_JOINS)
                    break
            elif reader.accept("USING"):
                if not reader.accept_parentheses():
                    return False
            else:
                reader.accept(",")
                reader.accept_all(*_JOINS)
                break
        else:
            return True


def _factor(reader: StatementReader, found: References) -> bool:
    if reader.accept("{"):  # The ODBC syntax for an outer join is {OJ a LEFT OUTER JOIN b ON …}.
        reader.advance()
        return _list(reader, found) and bool(reader.accept("}"))
    word = reader.token.word
    name = reader.name()
    # Without a parenthesis, MariaDB reads LATERAL and JSON_TABLE as names.
    if name is not None and not (word in ("LATERAL", "JSON_TABLE") and reader.sees("(")):
        reader.note_table(name)
        if reader.accept("PARTITION") and not reader.accept_parentheses():
            return False
        return _add(reader, found, name)
    if word == "JSON_TABLE":
        if not reader.accept_parentheses():
            return False
        # MariaDB lists the tables of a subquery in the parentheses, too, and not DERIVED but another name.
        found.whole &= reader.family == "mysql"
        return _add(reader, found, DERIVED)
    if not reader.accept("("):
        return False
    if reader.sees(*QUERY):
        _subquery(reader, found)
        return _add(reader, found, DERIVED)
    # An opening parenthesis without a query begins a join in parentheses, or a query in two pairs of parentheses.
    return _list(reader, found) and bool(reader.accept(")"))


def _add(reader: StatementReader, found: References, name: TableName) -> bool:
    alias = name.table
    if reader.sees("FOR") and _SYSTEM_TIME.match(reader.text, reader.token.start):
        # The text does not tell where the time ends and an alias begins.
        reader.advance()
        _expression(reader, found)
    elif reader.accept("AS", "=") or sees_alias(reader):
        alias = reader.advance().value
    if reader.accept("TABLESAMPLE"):  # TABLESAMPLE SYSTEM (10)
        reader.advance()
        if not reader.accept_parentheses():
            return False
    # The alias of a derived table may be followed by the names of its columns.
    if name is DERIVED:
        reader.accept_parentheses()
    while reader.accept("USE", "FORCE", "IGNORE"):
        if not reader.accept("INDEX", "KEY"):
            return False
        if reader.accept("FOR"):
            reader.accept("JOIN") or (reader.accept("ORDER", "GROUP") and reader.accept("BY"))
        if not reader.accept_parentheses():
            return False
    if name.database is None and reader.may_be_cte(name.table):
        # The server also lists the tables inside a common table expression, but the order of its list cannot be told
        # from the text.
        found.whole = False
        name = DERIVED if reader.is_cte(name.table) else name
    if found.first is None:
        found.first = len(found.listed)
    if found.whole or not found.listed:
        found.listed.append(name)
    found.top.append((name, alias))
    return True


def sees_alias(reader: StatementReader) -> bool:
    """Tell whether the next token is an alias, without AS, of the table or subquery before it. The token is not
    consumed.
    """
    word = reader.token.word
    return reader.token.is_name and (word not in AFTER_NAME or word in _ALSO_ALIASES[reader.family])


def _expression(reader: StatementReader, found: References) -> bool:
    depth = 0
    while not reader.at_end:
        token = reader.token
        word = token.value if token.kind is _SYMBOL else token.word
        if word in ("@", "."):
            reader.advance()
            reader.advance()  # Such a name need not be quoted if it is a reserved word: @for, b.lock.
            continue
        if depth == 0:
            if word == "{":  # The ODBC syntax for a date is {d '2026-11-29'}.
                reader.skip_to("}")
                continue
            if word in ("LEFT", "RIGHT"):
                reader.advance()
                if not reader.sees("("):
                    return True
                continue
            if word in _AFTER_EXPRESSION or word in _JOINS:
                return False
        if word in ("SELECT", "TABLE"):
            found.whole = False
        depth += reader.skip()
    return False


def _subquery(reader: StatementReader, found: References) -> None:
    tables: list[TableName] = []
    begin = reader.accept("SELECT", "VALUES", "TABLE")
    plain = begin != ""
    depth = 1
    while depth and not reader.at_end:
        if reader.sees("SELECT", "WITH", "TABLE", "UNION", "EXCEPT", "INTERSECT", "JSON_TABLE"):
            plain = False
        if plain and depth == 1 and (begin == "TABLE" or reader.accept("FROM")):
            begin = ""
            inner = References()
            plain = _list(reader, inner) and inner.whole
            tables += [] if inner.listed == [TableName(None, "DUAL")] else inner.listed
            continue
        depth += reader.skip()
    if not plain:
        found.whole = False
    elif found.whole:
        found.listed += tables
