"""The reading of a real replica's own filter over a connection from the master to the replica.

MySQL and MariaDB show the rules of one kind in one text, with commas between them and without quotes. A rule may
contain commas itself: ``--replicate-ignore-db=a,b`` is one rule for a database with the name ``a,b``. So a text with a
comma can be parsed in several ways. The master drops an event only if the replica drops it under each of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor, DictCursor

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.options.small_file import read_small_file
from dumpfilter.base.printable import printable
from dumpfilter.base.security.client_tls import TlsFileError
from dumpfilter.base.security.guarded_client import MALFORMED, GuardedConnection, Login, PasswordKept
from dumpfilter.binlog.format import Family, NameRules, name_collation_of
from dumpfilter.filter import Filter, Rule, RuleKind, make_rule
from dumpfilter.master.config import ConnectBack
from dumpfilter.master.limits import MAX_NAME, MAX_RULES, MAX_RULES_TEXT
from dumpfilter.master.who import Peer

MOST_BYTES = 4 << 20
"""The largest number of bytes that the master reads from a replica on one connection. A filter of 10,000 rules takes
less.
"""

_LONGEST_REASON = 300

MOST_PIECES = 40
"""The largest number of parts between commas in rules such as do-db, if commas may belong to names.

Each sequence of neighbouring parts then becomes a rule, which makes 820 rules for 40 parts.
"""

_MYSQL_PAIRS = re.compile(r"\(([^(),]+),([^(),]+)\)(?:,(?=\()|$)")
_MARIADB_PAIR = re.compile(r"(.+?)->(.+)", re.DOTALL)
_KEEPS = frozenset({RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE})


@dataclass(frozen=True)
class OwnFilter:
    """The replication filter that a replica itself applies, as the master reads it from the replica. A comma in the
    replica's answer may separate two rules or belong to a name; therefore the filter may be uncertain.
    """

    sure: Filter
    """A filter that drops only events that the replica surely drops, in whatever way its texts are read."""
    likely: Filter
    """The filter if every comma in the replica's texts separates two rules."""
    doubts: tuple[str, ...] = ()
    """The texts that can be read in several ways, such as ``REPLICATE_IGNORE_DB=a,b``. Without any, ``sure`` and
    ``likely`` are equal.
    """
    not_dropped: tuple[str, ...] = ()
    """The ambiguous texts whose rules drop nothing in ``sure``."""


class FilterUnreadable(DumpfilterError):
    """The error for a replica whose own filter the master cannot read. The text says what to do."""

    def __init__(self, text: str, *, momentary: bool) -> None:
        super().__init__(text)
        self.momentary = momentary
        """Whether a later attempt may succeed, for example after a lost connection."""


def read_own_filter(connect: ConnectBack, peer: Peer) -> OwnFilter:
    """Connect to a replica and return the filter of its replication channel from this master.

    Each step of the connection takes at most ``connect.timeout`` seconds. Raises FilterUnreadable.
    """
    host = connect.host or (str(peer.address) if peer.address is not None else "")
    port = connect.port or peer.port
    if not host or not port:
        raise FilterUnreadable(
            "the replica registers without a port: give it report_port, or give connect.port in the [[replica]]",
            momentary=False,
        )
    where = f"the replica at {printable(host)}:{port}"
    try:
        with _connection(connect, host, port) as connection, connection.cursor(DictCursor) as cursor:
            return _read(cursor, connect, peer, where)
    except (pymysql.err.Error, *_MOMENTARY, *MALFORMED) as error:
        raise FilterUnreadable(
            f"cannot read the filter of {where}: {_reason(error)}: {_cure(error, connect)}",
            momentary=isinstance(error, _MOMENTARY)
            and not isinstance(error, PasswordKept)
            and not _is_denied(error),
        ) from None
    except OptionError as error:
        raise FilterUnreadable(f"cannot use the filter of {where}: {error}", momentary=False) from None


_MOMENTARY = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, TlsFileError)


def _connection(connect: ConnectBack, host: str, port: int) -> GuardedConnection:
    login = Login(host, port, connect.user, _password(connect), connect.client_tls)
    connection = GuardedConnection(login, most_bytes=MOST_BYTES, seconds=connect.timeout)
    connection.connect()
    return connection


def _password(connect: ConnectBack) -> str:
    """Return the password of the connection, from the password file or the environment. The file is read at each call,
    so that the password can change.
    """
    if connect.password_file is not None:
        return read_small_file(connect.password_file).decode().rstrip("\r\n")
    return os.environ[connect.password_env or ""]


def _read(cursor: Cursor, connect: ConnectBack, peer: Peer, where: str) -> OwnFilter:
    cursor.execute("SELECT @@version AS version, @@lower_case_table_names AS lower_case")
    facts = _row(cursor)
    version = str(facts["version"])
    family: Family = "mariadb" if "mariadb" in version.lower() else "mysql"
    if family == "mysql":
        texts = _of_mysql(cursor, peer.channel)
    else:
        texts = _of_mariadb(cursor, peer, where)
    names = NameRules(family, name_collation_of(family, version), int(facts["lower_case"]))
    return read_rules(texts, commas_separate=connect.commas_separate, names=names)


def _of_mysql(cursor: Cursor, channel: str) -> dict[RuleKind, str]:
    # The table has the rules that a channel obeys. They include those of the global filter, which a new channel copies.
    cursor.execute("SELECT @@performance_schema AS on_")
    if int(_row(cursor)["on_"]):
        cursor.execute(
            "SELECT filter_name AS kind, filter_rule AS rules FROM performance_schema.replication_applier_filters "
            "WHERE channel_name = %s",
            (channel,),
        )
        shown = {str(row["kind"]): row["rules"] for row in cursor.fetchall()}
        unknown = set(shown) - {kind.sql_name for kind in RuleKind}
        if unknown:
            raise OptionError(f"it has rules of an unknown kind: {printable(', '.join(sorted(unknown)))}")
        return {kind: str(shown.get(kind.sql_name) or "") for kind in RuleKind}
    # With performance_schema=OFF the table is empty, whatever rules there are.
    cursor.execute("SHOW REPLICA STATUS FOR CHANNEL %s", (channel,))
    status = _row(cursor)
    return {kind: str(status[kind.status_column] or "") for kind in RuleKind}


def _of_mariadb(cursor: Cursor, peer: Peer, where: str) -> dict[RuleKind, str]:
    cursor.execute("SHOW ALL SLAVES STATUS")
    rows = [row for row in cursor.fetchall() if row["Master_User"] == peer.user]
    # A MariaDB replica does not tell a source which of its connections it is.
    if len(rows) > 1:
        rows = [row for row in rows if str(row["Connection_name"]).lower() == peer.channel]
    if len(rows) != 1:
        raise OptionError(
            f"{where} has {'several connections' if rows else 'no connection'} with MASTER_USER {peer.user!r}, so "
            "that its filter cannot be told: give each connection a user of its own"
        )
    (row,) = rows
    texts = {kind: str(row[kind.status_column] or "") for kind in RuleKind if kind.status_column in row}
    if RuleKind.REWRITE_DB not in texts:
        raise OptionError(
            f"{where} is too old to show its rewrite rules (MariaDB 10.11 shows them): write the rules into the "
            "[[replica]], with rules ="
        )
    return texts


def _row(cursor: Cursor) -> dict[str, Any]:
    row = cursor.fetchone()
    if not isinstance(row, dict):
        raise OptionError("it has no channel that reads from this master")
    return row


def _reason(error: BaseException) -> str:
    text = error.args[1] if isinstance(error, pymysql.err.Error) and len(error.args) > 1 else error
    return printable(str(text) or type(error).__name__)[:_LONGEST_REASON]


_DENIED = frozenset(
    {
        ER.ACCESS_DENIED_ERROR,
        ER.DBACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        ER.HOST_NOT_PRIVILEGED,
    }
)


def _is_denied(error: BaseException) -> bool:
    return isinstance(error, pymysql.err.Error) and bool(error.args) and error.args[0] in _DENIED


def _cure(error: BaseException, connect: ConnectBack) -> str:
    if _is_denied(error):
        return (
            f"let user {connect.user!r} log in from this master, with SELECT on "
            "performance_schema.replication_applier_filters (MySQL), REPLICATION CLIENT on *.* (MySQL with "
            "performance_schema=OFF) or REPLICA MONITOR on *.* (MariaDB)"
        )
    return (
        "see connect in the [[replica]]: host, port, TLS and password, and whether the replica listens there"
    )


def read_rules(texts: Mapping[RuleKind, str], *, commas_separate: bool, names: NameRules) -> OwnFilter:
    """Parse the filter rules of a replica, and return the filter. ``texts`` has the replica's answer for each kind of
    rule.

    With ``commas_separate`` every comma separates two rules; otherwise a comma may also belong to a name. ``names``
    says how the replica compares names. Raises OptionError for a text that cannot be parsed, or that has too many
    possible meanings.
    """
    _check_size(texts)
    sure: list[Rule] = []
    likely: list[Rule] = []
    doubts: list[str] = []
    not_dropped: list[str] = []
    for kind in RuleKind:
        text = texts.get(kind, "")
        if not text:
            continue
        if kind is RuleKind.REWRITE_DB:
            # A wrong reading of a rewrite rule gives other names to all other rules, so it must be sure.
            pairs = [make_rule(kind, f"{source}->{target}") for source, target in _pairs(text)]
            sure += pairs
            likely += pairs
            continue
        pieces = text.split(",")
        separate = list(_rules(kind, pieces))
        likely += separate
        if len(pieces) == 1 or commas_separate:
            sure += separate
            continue
        doubts.append(f"{kind.sql_name}={text}")
        if kind in _KEEPS:
            if len(pieces) > MOST_PIECES:
                raise OptionError(
                    f"{kind.sql_name} has {len(pieces)} texts between commas, and commas may belong to names: if no "
                    "name has a comma, say so with commas_separate = true"
                )
            sure += _rules(kind, _neighbours(pieces))
            continue
        not_dropped.append(doubts[-1])
        if kind is RuleKind.IGNORE_DB:
            # MySQL asks wild rules about CREATE DATABASE only without any database rule. No name ends with a space.
            sure.append(make_rule(kind, f"{text} "))
    return OwnFilter(
        Filter(sure, names=names), Filter(likely, names=names), tuple(doubts), tuple(not_dropped)
    )


def _check_size(texts: Mapping[RuleKind, str]) -> None:
    """Raise OptionError if the texts have more or longer rules than a filter may have, because the replica may be
    hostile.
    """
    if sum(map(len, texts.values())) > MAX_RULES_TEXT:
        raise OptionError(f"its rules have more than {MAX_RULES_TEXT} characters together: use wild rules")
    if sum(text.count(",") + 1 for text in texts.values()) > MAX_RULES:
        raise OptionError(f"it has more than {MAX_RULES} rules: use wild rules")
    if any(len(piece) > MAX_NAME for text in texts.values() for piece in text.split(",")):
        raise OptionError(f"it has a rule of more than {MAX_NAME} characters")


def _rules(kind: RuleKind, values: list[str]) -> Iterator[Rule]:
    for value in values:
        try:
            yield make_rule(kind, value)
        except OptionError:
            # No server accepts the value, so the commas around it belong to a longer name.
            continue


def _neighbours(pieces: list[str]) -> list[str]:
    """Return every sequence of consecutive pieces, joined by commas."""
    count = len(pieces)
    return [",".join(pieces[start:end]) for start in range(count) for end in range(start + 1, count + 1)]


def _pairs(text: str) -> list[tuple[str, str]]:
    if text.startswith("("):
        found = list(_MYSQL_PAIRS.finditer(text))
        if sum(len(one[0]) for one in found) == len(text):
            return [(one[1], one[2]) for one in found]
    else:
        pairs = [_MARIADB_PAIR.fullmatch(piece) for piece in text.split(",")]
        if all(pair is not None and "->" not in pair[2] for pair in pairs):
            return [(pair[1], pair[2]) for pair in pairs if pair is not None]
    raise OptionError(
        f"REPLICATE_REWRITE_DB={text!r} can be read in several ways: write the rules into the [[replica]], with rules ="
    )
