"""The parser of the options of CHANGE MASTER TO and CHANGE REPLICATION SOURCE TO.

The parser knows all options of MySQL 9.7 and MariaDB 10.11, and the product's own options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.filters import RuleOptions, bare_or_quoted
from dumpfilter.console.sql.server_errors import (
    ER_CHANGE_SOURCE_PASSWORD_LENGTH,
    ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE,
    ER_SOURCE_DELAY_VALUE_OUT_OF_RANGE,
    ER_WRONG_VALUE,
)
from dumpfilter.filter.rules import FilterClause

OptionValue = str | int | float | tuple[int, ...] | None

MAX_HEARTBEAT_PERIOD = 4294967
"""The largest heartbeat period that a statement can set, seconds (the server's SLAVE_MAX_HEARTBEAT_PERIOD)."""
MAX_DELAY = 2**31 - 1
"""The largest SOURCE_DELAY that a statement can set, seconds (the server's MASTER_DELAY_MAX)."""
MAX_PASSWORD_BYTES = 32

_FILTER_ON = {"MASTER": "MASTER", "SOURCE": "MASTER", "SLAVE": "SLAVE", "REPLICA": "SLAVE", "BOTH": "BOTH"}


def _password(cursor: Cursor) -> str:
    value = cursor.line()
    if len(value.encode("utf-8", "surrogatepass")) > MAX_PASSWORD_BYTES:
        raise ER_CHANGE_SOURCE_PASSWORD_LENGTH()
    return value


def _heartbeat(cursor: Cursor) -> float:
    seconds = cursor.real()
    # The server compares 32-bit floats, which are half a second apart near the maximum. A value up to a quarter of a
    # second above the maximum is therefore rounded down to the maximum.
    if seconds > MAX_HEARTBEAT_PERIOD + 0.25:
        raise ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE(MAX_HEARTBEAT_PERIOD)
    return seconds


def _delay(cursor: Cursor) -> int:
    digits = cursor.token.value
    seconds = cursor.unsigned()
    if seconds > MAX_DELAY:
        raise ER_SOURCE_DELAY_VALUE_OUT_OF_RANGE(digits, MAX_DELAY)
    return seconds


def _ids(cursor: Cursor) -> tuple[int, ...]:
    return tuple(cursor.parenthesized(cursor.unsigned))


def _line_or_null(cursor: Cursor) -> str | None:
    return None if cursor.accept("NULL") else cursor.line()


def _account(cursor: Cursor) -> str | None:
    if cursor.accept("NULL"):
        return None
    user = cursor.line() if cursor.at_string() else cursor.identifier()
    if not cursor.accept("@"):
        return f"{user}@%"
    host = cursor.line() if cursor.at_string() else cursor.identifier()
    return f"{user}@{host}"


def _one_of(*words: str) -> Callable[[Cursor], OptionValue]:
    return lambda cursor: cursor.expect(*words)


def _anonymous_gtids(cursor: Cursor) -> str:
    return cursor.line() if cursor.at_string() else cursor.expect("OFF", "LOCAL")


def _filter_on(cursor: Cursor) -> str:
    written = bare_or_quoted(cursor)
    try:
        return _FILTER_ON[written.upper()]
    except KeyError:
        raise ER_WRONG_VALUE("FILTER_ON", written) from None


_Reader = Callable[[Cursor], OptionValue]


def _options(readers: Mapping[_Reader, str]) -> Mapping[str, tuple[str, _Reader]]:
    found: dict[str, tuple[str, _Reader]] = {}
    for read, names in readers.items():
        for written in names.split():
            spelling, _, name = written.partition("=")
            found[spelling] = name or spelling.removeprefix("SOURCE_"), read
            if spelling.startswith("SOURCE_"):
                found[spelling.replace("SOURCE", "MASTER", 1)] = found[spelling]
    return found


_OPTIONS = _options(
    {
        Cursor.line: """
            SOURCE_BIND SOURCE_HOST SOURCE_USER SOURCE_LOG_FILE SOURCE_COMPRESSION_ALGORITHMS SOURCE_PUBLIC_KEY_PATH
            SOURCE_TLS_VERSION SOURCE_SSL_CA SOURCE_SSL_CAPATH SOURCE_SSL_CERT SOURCE_SSL_CIPHER SOURCE_SSL_CRL
            SOURCE_SSL_CRLPATH SOURCE_SSL_KEY RELAY_LOG_FILE NETWORK_NAMESPACE
        """,
        Cursor.unsigned: """
            SOURCE_PORT SOURCE_CONNECT_RETRY SOURCE_RETRY_COUNT SOURCE_AUTO_POSITION SOURCE_CONNECTION_AUTO_FAILOVER
            SOURCE_ZSTD_COMPRESSION_LEVEL SOURCE_SSL SOURCE_SSL_VERIFY_SERVER_CERT
            GET_SOURCE_PUBLIC_KEY GET_MASTER_PUBLIC_KEY=GET_SOURCE_PUBLIC_KEY
            RELAY_LOG_POS GTID_ONLY REQUIRE_ROW_FORMAT
            MASTER_DEMOTE_TO_SLAVE=DEMOTE_TO_SLAVE MASTER_DEMOTE_TO_REPLICA=DEMOTE_TO_SLAVE
        """,
        Cursor.position: "SOURCE_LOG_POS",
        _password: "SOURCE_PASSWORD",
        _heartbeat: "SOURCE_HEARTBEAT_PERIOD",
        _delay: "SOURCE_DELAY",
        _line_or_null: "SOURCE_TLS_CIPHERSUITES",
        _one_of("STREAM", "ON", "OFF", "GENERATE"): "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
        _account: "PRIVILEGE_CHECKS_USER",
        _anonymous_gtids: "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS",
        # DO_DOMAIN_IDS, IGNORE_DOMAIN_IDS, MASTER_USE_GTID and MASTER_DEMOTE_TO_SLAVE exist in MariaDB only.
        _ids: "IGNORE_SERVER_IDS DO_DOMAIN_IDS IGNORE_DOMAIN_IDS",
        _one_of("CURRENT_POS", "SLAVE_POS", "REPLICA_POS", "NO"): "MASTER_USE_GTID=USE_GTID",
        # FILTER_ON is an option of this product. It chooses whether the master, the slave or both filter.
        _filter_on: "FILTER_ON",
    }
)
"""The options by their names in a statement.

Each entry has the option's name in :class:`~dumpfilter.console.sql.commands.ChangeSource`, and the function that parses
its value. An option SOURCE_… has the older name MASTER_…, too.
"""


def source_options(
    cursor: Cursor,
) -> tuple[tuple[tuple[str, OptionValue], ...], tuple[FilterClause, ...]]:
    """Consume the comma-separated options of CHANGE MASTER TO or CHANGE REPLICATION SOURCE TO.

    Returns the options as pairs of name and value, and the filter rules among them as clauses (one for each kind of
    rule). Raises SqlError.
    """
    rules = RuleOptions()
    options = cursor.separated(lambda: None if rules.read(cursor) else _option(cursor))
    return tuple(option for option in options if option is not None), rules.clauses


def _option(cursor: Cursor) -> tuple[str, OptionValue]:
    written = cursor.expect(*_OPTIONS)
    cursor.expect("=")
    if written == "MASTER_HOST" and cursor.token.kind is not TokenKind.STRING:
        # The examples of WL#2387 write the value of MASTER_HOST without quotes.
        return "HOST", bare_or_quoted(cursor)
    name, read = _OPTIONS[written]
    return name, read(cursor)
