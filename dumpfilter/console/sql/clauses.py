"""The functions that parse the larger clauses of replication statements.

- The filter rules. MySQL writes them as ``REPLICATE_DO_DB = (a, b)`` in CHANGE REPLICATION FILTER. In CHANGE MASTER and
  CHANGE BINLOG, rules are options such as ``REPLICATE-DO-DB='a'`` (proposed by WL#2387) and ``DO='db1.%'`` (WL#2516).
- The options of CHANGE REPLICATION SOURCE TO: all options of MySQL 9.7 and MariaDB 10.11, and the product's own.
- The datetime of PURGE BINARY LOGS BEFORE: a literal or a function such as NOW(), and intervals such as
  INTERVAL 3 DAY.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import CLOCKS, clock
from dumpfilter.console.sql.grammar import Cursor
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import Message
from dumpfilter.filter.rules import (
    SLAVE_RULE_KINDS,
    BaseRuleKind,
    FilterClause,
    Rule,
    RuleKind,
    ValueForm,
    make_rule,
)

Value = datetime | None
"""The type of a datetime expression's value. None stands for NULL."""


_CLOCKS = {name.upper() for name in CLOCKS} - {"CURTIME", "CURRENT_TIME"}
"""The SQL functions that return the current date, or date and time, in upper case. Functions of the time alone are left
out.
"""
_WITH_PARENTHESES = frozenset({"NOW", "SYSDATE", "CURDATE"})
"""The functions of the current date or time that a server does not know without parentheses."""

_LONG_AGO = datetime(1970, 1, 1)
"""The time that stands for NULL in PURGE BINARY LOGS BEFORE NULL. No binlog file is older, so that no file is purged.
"""
_MAX_PRECISION = 6
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SPANS = ("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
"""The units of MySQL's INTERVAL that have a fixed length. :data:`_MONTHS` has the other units, with their numbers of
months.
"""
_LITERAL = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?", re.ASCII)

NAME_CHARS = 64
"""The length limit of a database's or table's name, in characters (the server's NAME_CHAR_LEN)."""
_CLASSIC = {kind.sql_name: kind for kind in RuleKind}
_EFFECTIVE = {kind.sql_name: kind for kind in SLAVE_RULE_KINDS if not isinstance(kind, RuleKind)}
_ALL = {kind.sql_name: kind for kind in SLAVE_RULE_KINDS}
_OPTION_NAME = re.compile(r"[\w-]+", re.ASCII)
# The outer group of this pattern is not possessive, because Python before 3.11.5 matches such groups wrongly
# (gh-106052).
_BARE = re.compile(r"""(?: (?!->) [^\s,;()'"`] )+ (?: \s*+->\s*+ [^\s,;()'"`]++ )?""", re.VERBOSE)
"""The pattern of an option's value without quotes, such as ``mydb``, ``127.0.0.1`` or ``db1.%->db2.%``."""

MAX_HEARTBEAT_PERIOD = 4294967
"""The largest heartbeat period that a statement can set, seconds (the server's SLAVE_MAX_HEARTBEAT_PERIOD)."""
MAX_DELAY = 2**31 - 1
"""The largest SOURCE_DELAY that a statement can set, seconds (the server's MASTER_DELAY_MAX)."""
MAX_PASSWORD_BYTES = 32
_FILTER_ON = {"MASTER": "MASTER", "SOURCE": "MASTER", "SLAVE": "SLAVE", "REPLICA": "SLAVE", "BOTH": "BOTH"}


def moment(cursor: Cursor) -> Mapping[str, Any]:
    """Consume a datetime expression of PURGE BINARY LOGS BEFORE, such as ``NOW() - INTERVAL 3 DAY``.

    Return a mapping with the datetime as ``before``, and a tuple of the expression's warnings as ``warnings``. The
    datetime is a local time without a time zone, unless a literal names a zone. A text that is no datetime, or a result
    out of range, becomes a time before all binlog files, with a warning. Raises SqlError for text that is not such an
    expression.
    """
    warnings: list[Note] = []
    value = _operand(cursor, warnings)
    while sign := cursor.accept("-", "+"):
        cursor.expect("INTERVAL")
        count = cursor.integer() * (1 if sign == "+" else -1)
        unit = cursor.expect(*_SPANS, *_MONTHS)
        try:
            value = value and _shifted(value, count, unit)
        except (OverflowError, ValueError):
            warnings.append(server_errors.ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime"))
            value = None
    return {"before": value or _LONG_AGO, "warnings": tuple(warnings)}


def parse_datetime(text: str) -> Value:
    """Return the datetime of a text in ISO 8601's form, or None for a text of another form.

    >>> parse_datetime("2026-11-21 15:30:00")
    datetime.datetime(2026, 11, 21, 15, 30)
    """
    try:
        return datetime.fromisoformat(text) if _LITERAL.fullmatch(text) else None
    except ValueError:
        return None


def _operand(cursor: Cursor, warnings: list[Note]) -> Value:
    token = cursor.token
    if token.kind in (TokenKind.STRING, TokenKind.INTEGER, TokenKind.DECIMAL):
        value = parse_datetime(cursor.advance().value)
        if value is None:
            warnings.append(server_errors.ER_WRONG_DATETIME_VALUE.warning(token.value))
        return value
    if not token.is_name:
        cursor.fail()
    cursor.advance()
    if token.word == "NULL":
        return None
    if token.word in ("TIMESTAMP", "DATE") and cursor.at_string():
        value = parse_datetime(text := cursor.string())
        if value is None:
            raise server_errors.ER_WRONG_VALUE("DATETIME" if token.word == "TIMESTAMP" else "DATE", text)
        return value
    has_arguments = cursor.accept("(")
    if not has_arguments and token.word not in _CLOCKS - _WITH_PARENTHESES:
        raise server_errors.ER_BAD_FIELD_ERROR(token.value, "field list")
    if token.word not in _CLOCKS:
        raise server_errors.ER_NOT_SUPPORTED_YET(f"PURGE BINARY LOGS BEFORE {token.value}()")
    if has_arguments and not cursor.accept(")"):
        # Fractions of seconds make no difference to a file's time, so NOW(6) means the same as NOW().
        digits = cursor.integer()
        if digits > _MAX_PRECISION:
            raise server_errors.ER_TOO_BIG_PRECISION(digits, token.value, _MAX_PRECISION)
        cursor.expect(")")
    return datetime.fromisoformat(clock(token.word.lower(), datetime.now(), _MAX_PRECISION))


def _shifted(value: datetime, count: int, unit: str) -> datetime:
    """Return ``value`` plus ``count`` units. ``unit`` is a unit of MySQL's INTERVAL, such as MONTH. Raises
    OverflowError or ValueError for a result out of range.
    """
    if unit in _SPANS:
        return value + timedelta(**{f"{unit.lower()}s": count})
    year, month = divmod(value.year * 12 + value.month - 1 + count * _MONTHS[unit], 12)
    return value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))


def filter_clauses(cursor: Cursor) -> tuple[FilterClause, ...]:
    """Consume the clauses of a CHANGE REPLICATION FILTER statement, and return them in order. Raises SqlError for text
    that is no such clause, and for an invalid rule.

    A clause, such as ``REPLICATE_DO_DB = (a, b)``, has all rules of one kind. The server's grammar calls the list of
    clauses ``filter_defs``.
    """

    def clause() -> FilterClause:
        kind = _CLASSIC[cursor.expect(*_CLASSIC)]
        cursor.expect("=")
        return FilterClause(kind, tuple(cursor.parenthesized(lambda: _READERS[kind.form](cursor, kind))))

    return tuple(cursor.separated(clause))


def _rule(kind: BaseRuleKind, value: str, refusal: Message, *details: str) -> Rule:
    """Return the filter rule with the kind ``kind`` (such as REPLICATE_DO_DB) and the value ``value``.

    Raise the MySQL error ``refusal`` if the value is not valid. ``details`` are the values for the placeholders (such
    as ``%s``) in this error's text.
    """
    try:
        return make_rule(kind, value)
    except OptionError:
        raise refusal(*details) from None


def _database(cursor: Cursor, kind: RuleKind) -> Rule:
    # A server accepts an empty database name in a filter rule. Here it is refused, because a command-line option
    # cannot express it.
    name = cursor.identifier()
    return _rule(kind, name, server_errors.ER_WRONG_DB_NAME, name)


def _table(cursor: Cursor, kind: RuleKind) -> Rule:
    database = cursor.identifier()
    cursor.expect(".")
    table = cursor.identifier()
    # For a filter rule, the server (Table_ident) checks the database's name but not the table's.
    if len(database) > NAME_CHARS:
        raise server_errors.ER_TOO_LONG_IDENT(database)
    if not database or database.endswith(" "):
        raise server_errors.ER_WRONG_DB_NAME(database)
    return _rule(kind, f"{database}.{table}", server_errors.ER_WRONG_TABLE_NAME, table)


def _wild(cursor: Cursor, kind: RuleKind) -> Rule:
    return _rule(kind, cursor.line(), server_errors.ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN)


def _pair(cursor: Cursor, kind: RuleKind) -> Rule:
    # The rule is stored in the form of the option --replicate-rewrite-db, "from->to". That form cannot hold names
    # with an arrow or with spaces at the ends, so such names are refused.
    cursor.expect("(")
    source = cursor.identifier()
    cursor.expect(",")
    target = cursor.identifier()
    cursor.expect(")")
    wrong = target if source.strip() else source
    rule = _rule(kind, f"{source}->{target}", server_errors.ER_WRONG_DB_NAME, wrong)
    for given, kept in zip((source, target), rule.pair, strict=True):
        if given != kept:
            raise server_errors.ER_WRONG_DB_NAME(given)
    return rule


_READERS: dict[ValueForm, Callable[[Cursor, RuleKind], Rule]] = {
    ValueForm.DATABASE: _database,
    ValueForm.TABLE: _table,
    ValueForm.WILD_TABLE: _wild,
    ValueForm.DATABASE_PAIR: _pair,
}

_Rules = dict[BaseRuleKind, list[Rule]]
"""The filter rules among the options of a statement, by kind, in the order in which the statement first names the
kinds.
"""


def effective_rules(cursor: Cursor) -> tuple[FilterClause, ...]:
    """Consume the filter rules DO, IGNORE and REWRITE of a CHANGE BINLOG statement, which WL#2516 proposes. Return one
    clause (a kind of rule, and all its rules) for each kind.

    Raises SqlError, also for a rule of another kind.
    """
    rules: _Rules = {}
    cursor.separated(lambda: _rule_option(cursor, _EFFECTIVE, rules) or cursor.fail())
    return _clauses(rules)


def _clauses(rules: _Rules) -> tuple[FilterClause, ...]:
    return tuple(FilterClause(kind, tuple(of_kind)) for kind, of_kind in rules.items())


def _rule_option(cursor: Cursor, kinds: Mapping[str, BaseRuleKind], rules: _Rules) -> bool:
    """Consume the next option of the statement if it is a filter rule, and add the rule to ``rules``. Tell whether the
    option is a rule.

    ``kinds`` has the kinds of rule that are recognized, by their names in statements. ``rules`` maps each kind to the
    list of its rules so far. Examples of rules are ``REPLICATE-DO-DB='mydb'`` and ``REWRITE=db1.%->db2.%``. An empty
    string removes all rules of the kind. Raises SqlError for an invalid rule.
    """
    written = _OPTION_NAME.match(cursor.text, cursor.token.start)
    kind = kinds.get(written[0].upper().replace("-", "_")) if written else None
    if kind is None:
        return False
    cursor.take(_OPTION_NAME)
    cursor.expect("=")
    value, of_kind = bare_or_quoted(cursor), rules.setdefault(kind, [])
    if value:
        of_kind.append(_rule(kind, value, server_errors.ER_WRONG_VALUE, kind.option.upper(), value))
    else:
        of_kind.clear()
    return True


def bare_or_quoted(cursor: Cursor) -> str:
    """Consume the value of an option in a client's statement, with or without quotes, and return it. Raises SqlError
    for any other token.
    """
    return cursor.line() if cursor.at_string() else cursor.take(_BARE).value


OptionValue = str | int | float | tuple[int, ...] | None


def _password(cursor: Cursor) -> str:
    value = cursor.line()
    if len(value.encode("utf-8", "surrogatepass")) > MAX_PASSWORD_BYTES:
        raise server_errors.ER_CHANGE_SOURCE_PASSWORD_LENGTH()
    return value


def _heartbeat(cursor: Cursor) -> float:
    seconds = cursor.real()
    # The server compares 32-bit floats, which are half a second apart near the maximum. A value up to a quarter of a
    # second above the maximum is therefore rounded down to the maximum.
    if seconds > MAX_HEARTBEAT_PERIOD + 0.25:
        raise server_errors.ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE(MAX_HEARTBEAT_PERIOD)
    return seconds


def _delay(cursor: Cursor) -> int:
    digits = cursor.token.value
    seconds = cursor.unsigned()
    if seconds > MAX_DELAY:
        raise server_errors.ER_SOURCE_DELAY_VALUE_OUT_OF_RANGE(digits, MAX_DELAY)
    return seconds


def _account(cursor: Cursor) -> str | None:
    if cursor.accept("NULL"):
        return None

    def name() -> str:
        return cursor.line() if cursor.at_string() else cursor.identifier()

    return f"{name()}@{name() if cursor.accept('@') else '%'}"


def _filter_on(cursor: Cursor) -> str:
    written = bare_or_quoted(cursor)
    try:
        return _FILTER_ON[written.upper()]
    except KeyError:
        raise server_errors.ER_WRONG_VALUE("FILTER_ON", written) from None


_OPTIONS: Mapping[str, Callable[[Cursor], OptionValue]] = {
    spelling: read
    for read, names in {
        Cursor.line: """
            SOURCE_BIND SOURCE_HOST SOURCE_USER SOURCE_LOG_FILE SOURCE_COMPRESSION_ALGORITHMS SOURCE_PUBLIC_KEY_PATH
            SOURCE_TLS_VERSION SOURCE_SSL_CA SOURCE_SSL_CAPATH SOURCE_SSL_CERT SOURCE_SSL_CIPHER SOURCE_SSL_CRL
            SOURCE_SSL_CRLPATH SOURCE_SSL_KEY RELAY_LOG_FILE NETWORK_NAMESPACE
        """,
        Cursor.unsigned: """
            SOURCE_PORT SOURCE_CONNECT_RETRY SOURCE_RETRY_COUNT SOURCE_CONNECTION_AUTO_FAILOVER
            SOURCE_ZSTD_COMPRESSION_LEVEL GET_SOURCE_PUBLIC_KEY RELAY_LOG_POS GTID_ONLY REQUIRE_ROW_FORMAT
            MASTER_DEMOTE_TO_SLAVE MASTER_DEMOTE_TO_REPLICA
        """,
        lambda cursor: bool(cursor.unsigned()): """
            SOURCE_AUTO_POSITION SOURCE_SSL SOURCE_SSL_VERIFY_SERVER_CERT
        """,
        Cursor.position: "SOURCE_LOG_POS",
        _password: "SOURCE_PASSWORD",
        _heartbeat: "SOURCE_HEARTBEAT_PERIOD",
        _delay: "SOURCE_DELAY",
        lambda cursor: None if cursor.accept("NULL") else cursor.line(): "SOURCE_TLS_CIPHERSUITES",
        lambda cursor: cursor.expect("STREAM", "ON", "OFF", "GENERATE"): "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
        _account: "PRIVILEGE_CHECKS_USER",
        lambda cursor: (
            cursor.line() if cursor.at_string() else cursor.expect("OFF", "LOCAL")
        ): "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS",
        # DO_DOMAIN_IDS, IGNORE_DOMAIN_IDS, MASTER_USE_GTID and MASTER_DEMOTE_TO_SLAVE exist in MariaDB only.
        lambda cursor: tuple(
            cursor.parenthesized(cursor.unsigned)
        ): "IGNORE_SERVER_IDS DO_DOMAIN_IDS IGNORE_DOMAIN_IDS",
        lambda cursor: cursor.expect("CURRENT_POS", "SLAVE_POS", "REPLICA_POS", "NO"): "MASTER_USE_GTID",
        # FILTER_ON is an option of this product. It chooses whether the master, the slave or both filter.
        _filter_on: "FILTER_ON",
    }.items()
    for name in names.split()
    for spelling in (name, name.replace("SOURCE", "MASTER"))
}
"""The functions that parse the options' values, by the options' names in a statement. An option SOURCE_… has the older
name MASTER_…, too.
"""


def source(cursor: Cursor) -> Mapping[str, Any]:
    """Consume the comma-separated options of CHANGE MASTER TO or CHANGE REPLICATION SOURCE TO.

    Return a mapping with two items. ``options`` is a tuple of pairs, the name and value of each option that is no
    filter rule. ``clauses`` has the filter rules, one clause for each kind of rule. Raises SqlError for an unknown
    option, and for an invalid value or rule.
    """
    rules: _Rules = {}
    options = cursor.separated(lambda: None if _rule_option(cursor, _ALL, rules) else _option(cursor))
    return {"options": tuple(filter(None, options)), "clauses": _clauses(rules)}


def _option(cursor: Cursor) -> tuple[str, OptionValue]:
    written = cursor.expect(*_OPTIONS)
    cursor.expect("=")
    if written == "MASTER_HOST" and cursor.token.kind is not TokenKind.STRING:
        # The examples of WL#2387 write the value of MASTER_HOST without quotes.
        return "HOST", bare_or_quoted(cursor)
    return written.replace("MASTER", "SOURCE").removeprefix("SOURCE_"), _OPTIONS[written](cursor)
