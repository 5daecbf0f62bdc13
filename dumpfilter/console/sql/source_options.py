"""The parser of the options of CHANGE MASTER TO and CHANGE REPLICATION SOURCE TO.

The parser knows all options of MySQL 9.7 and MariaDB 10.11, and the product's own options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

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


def _prefixed(reader: Callable[[Cursor], OptionValue], *names: str) -> dict[str, _Option]:
    return {f"{prefix}_{name}": (name, reader) for name in names for prefix in ("SOURCE", "MASTER")}


def _named(reader: Callable[[Cursor], OptionValue], *names: str) -> dict[str, _Option]:
    return {name: (name, reader) for name in names}


_Option = tuple[str, Callable[[Cursor], OptionValue]]

_OPTIONS: Mapping[str, _Option] = MappingProxyType(
    {
        **_prefixed(
            Cursor.line,
            *("BIND", "HOST", "USER", "LOG_FILE", "COMPRESSION_ALGORITHMS", "PUBLIC_KEY_PATH", "TLS_VERSION"),
            *("SSL_CA", "SSL_CAPATH", "SSL_CERT", "SSL_CIPHER", "SSL_CRL", "SSL_CRLPATH", "SSL_KEY"),
        ),
        **_prefixed(
            Cursor.unsigned,
            *("PORT", "CONNECT_RETRY", "RETRY_COUNT", "AUTO_POSITION", "CONNECTION_AUTO_FAILOVER"),
            *("ZSTD_COMPRESSION_LEVEL", "SSL", "SSL_VERIFY_SERVER_CERT"),
        ),
        **_prefixed(Cursor.position, "LOG_POS"),
        **_prefixed(_password, "PASSWORD"),
        **_prefixed(_heartbeat, "HEARTBEAT_PERIOD"),
        **_prefixed(_delay, "DELAY"),
        **_prefixed(_line_or_null, "TLS_CIPHERSUITES"),
        "GET_SOURCE_PUBLIC_KEY": ("GET_SOURCE_PUBLIC_KEY", Cursor.unsigned),
        "GET_MASTER_PUBLIC_KEY": ("GET_SOURCE_PUBLIC_KEY", Cursor.unsigned),
        **_named(Cursor.line, "RELAY_LOG_FILE", "NETWORK_NAMESPACE"),
        **_named(Cursor.unsigned, "RELAY_LOG_POS", "GTID_ONLY", "REQUIRE_ROW_FORMAT"),
        **_named(_one_of("STREAM", "ON", "OFF", "GENERATE"), "REQUIRE_TABLE_PRIMARY_KEY_CHECK"),
        **_named(_account, "PRIVILEGE_CHECKS_USER"),
        **_named(_anonymous_gtids, "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS"),
        **_named(_ids, "IGNORE_SERVER_IDS"),
        # The following five options exist in MariaDB only.
        **_named(_ids, "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS"),
        "MASTER_USE_GTID": ("USE_GTID", _one_of("CURRENT_POS", "SLAVE_POS", "REPLICA_POS", "NO")),
        "MASTER_DEMOTE_TO_SLAVE": ("DEMOTE_TO_SLAVE", Cursor.unsigned),
        "MASTER_DEMOTE_TO_REPLICA": ("DEMOTE_TO_SLAVE", Cursor.unsigned),
        # FILTER_ON is an option of this product. It chooses whether the master, the slave or both filter.
        **_named(_filter_on, "FILTER_ON"),
    }
)
"""The options by their names in a statement.

Each entry has the option's name in :class:`~dumpfilter.console.sql.commands.ChangeSource`, and the function that parses
its value.
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
