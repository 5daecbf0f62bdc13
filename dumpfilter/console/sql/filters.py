"""The parser of filter rules inside statements.

MySQL writes rules as ``REPLICATE_DO_DB = (a, b)`` in CHANGE REPLICATION FILTER. In CHANGE MASTER and CHANGE BINLOG,
rules are options such as ``REPLICATE-DO-DB='a'`` (proposed by WL#2387) and ``DO='db1.%'`` (WL#2516).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import (
    ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN,
    ER_TOO_LONG_IDENT,
    ER_WRONG_DB_NAME,
    ER_WRONG_TABLE_NAME,
    ER_WRONG_VALUE,
)
from dumpfilter.filter.rules import (
    SLAVE_RULE_KINDS,
    BaseRuleKind,
    FilterClause,
    Rule,
    RuleKind,
    ValueForm,
    make_rule,
)

NAME_CHARS = 64
"""The length limit of a database's or table's name, in characters (the server's NAME_CHAR_LEN)."""
_CLASSIC = {kind.sql_name: kind for kind in RuleKind}
_ALL = {kind.sql_name: kind for kind in SLAVE_RULE_KINDS}
_OPTION_NAME = re.compile(r"[\w-]+", re.ASCII)
# The outer group of this pattern is not possessive, because Python before 3.11.5 matches such groups wrongly
# (gh-106052).
_BARE = re.compile(r"""(?: (?!->) [^\s,;()'"`] )+ (?: \s*+->\s*+ [^\s,;()'"`]++ )?""", re.VERBOSE)
"""The pattern of an option's value without quotes, such as ``mydb``, ``127.0.0.1`` or ``db1.%->db2.%``."""


def filter_clauses(cursor: Cursor) -> tuple[FilterClause, ...]:
    """Consume the filter rules of a CHANGE REPLICATION FILTER statement, and return them. Raises SqlError.

    Each clause, such as ``REPLICATE_DO_DB = (a, b)``, is one element of the result. The server's grammar calls the list
    ``filter_defs``.
    """
    return tuple(cursor.separated(lambda: _filter_clause(cursor)))


def _filter_clause(cursor: Cursor) -> FilterClause:
    kind = _CLASSIC[cursor.expect(*_CLASSIC)]
    cursor.expect("=")
    return FilterClause(kind, _filter_list(cursor, kind))


def _filter_list(cursor: Cursor, kind: RuleKind) -> tuple[Rule, ...]:
    read = _READERS[kind.form]
    return tuple(cursor.parenthesized(lambda: read(cursor, kind)))


def _database(cursor: Cursor, kind: RuleKind) -> Rule:
    name = cursor.identifier()
    try:
        return make_rule(kind, name)
    except OptionError:
        # A server accepts an empty database name in a filter rule. Here it is refused, because a command-line option
        # cannot express it.
        raise ER_WRONG_DB_NAME(name) from None


def _table(cursor: Cursor, kind: RuleKind) -> Rule:
    database = cursor.identifier()
    cursor.expect(".")
    table = cursor.identifier()
    # For a filter rule, the server (Table_ident) checks the database's name but not the table's.
    if len(database) > NAME_CHARS:
        raise ER_TOO_LONG_IDENT(database)
    if not database or database.endswith(" "):
        raise ER_WRONG_DB_NAME(database)
    try:
        return make_rule(kind, f"{database}.{table}")
    except OptionError:
        raise ER_WRONG_TABLE_NAME(table) from None


def _wild(cursor: Cursor, kind: RuleKind) -> Rule:
    pattern = cursor.line_ahead()
    try:
        rule = make_rule(kind, pattern)
    except OptionError:
        # The server checks the pattern before it reads the next token. Its error is therefore about the pattern even
        # if a syntax error follows.
        raise ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN() from None
    cursor.advance()
    return rule


def _pair(cursor: Cursor, kind: RuleKind) -> Rule:
    # The rule is stored in the form of the option --replicate-rewrite-db, "from->to". That form cannot hold names
    # with an arrow or with spaces at the ends, so such names are refused.
    cursor.expect("(")
    source = cursor.identifier()
    cursor.expect(",")
    target = cursor.identifier()
    cursor.expect(")")
    try:
        rule = make_rule(kind, f"{source}->{target}")
    except OptionError:
        raise ER_WRONG_DB_NAME(target if source.strip() else source) from None
    for given, kept in zip((source, target), rule.pair, strict=True):
        if given != kept:
            raise ER_WRONG_DB_NAME(given)
    return rule


_READERS: dict[ValueForm, Callable[[Cursor, RuleKind], Rule]] = {
    ValueForm.DATABASE: _database,
    ValueForm.TABLE: _table,
    ValueForm.WILD_TABLE: _wild,
    ValueForm.DATABASE_PAIR: _pair,
}


class RuleOptions:
    """The filter rules among the options of a CHANGE MASTER or CHANGE BINLOG statement, collected while parsing.

    All rules of the same kind (such as REPLICATE-DO-DB) form one clause. The clauses are in the order in which the
    statement first names their kinds.
    """

    def __init__(self) -> None:
        self._rules: dict[BaseRuleKind, list[Rule]] = {}

    @property
    def clauses(self) -> tuple[FilterClause, ...]:
        """The rules that the parser has read so far: one clause for each kind of rule, such as REPLICATE-DO-DB."""
        return tuple(FilterClause(kind, tuple(rules)) for kind, rules in self._rules.items())

    def read(self, cursor: Cursor, *, classic: bool = True) -> bool:
        """Consume the next option of the statement if it is a filter rule, and tell whether it is one. Raises SqlError.

        Examples of rules are ``REPLICATE-DO-DB='mydb'``, ``REWRITE=db1.%->db2.%`` and ``IGNORE=()``. An empty string or
        list removes all rules of the kind. If ``classic`` is false, only the rules proposed by WL#2516, such as DO and
        IGNORE, count. The servers' rules (REPLICATE-…) are then not consumed.
        """
        if cursor.token.kind is not TokenKind.WORD:
            return False
        name = cursor.peek(_OPTION_NAME).upper().replace("-", "_")
        kind = _ALL.get(name)
        if kind is None or (isinstance(kind, RuleKind) and not classic):
            return False
        cursor.take(_OPTION_NAME)
        cursor.expect("=")
        rules = self._rules.setdefault(kind, [])
        if cursor.sees("("):
            if isinstance(kind, RuleKind):
                rules[:] = _filter_list(cursor, kind)
            else:
                rules[:] = [_rule(kind, value) for value in cursor.parenthesized(cursor.line)]
        elif value := bare_or_quoted(cursor):
            rules.append(_rule(kind, value))
        else:
            rules.clear()
        return True


def bare_or_quoted(cursor: Cursor) -> str:
    """Consume the value of an option in a client's statement, with or without quotes, and return it. Raises SqlError
    for any other token.
    """
    return cursor.line() if cursor.at_string() else cursor.take(_BARE).value


def _rule(kind: BaseRuleKind, value: str) -> Rule:
    try:
        return make_rule(kind, value)
    except OptionError:
        raise ER_WRONG_VALUE(kind.option.upper(), value) from None
