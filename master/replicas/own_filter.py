"""The reading of a real replica's own filter over a connection back to the replica."""

from __future__ import annotations

import os
import struct
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor, DictCursor

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.options.small_file import read_small_file
from dumpfilter.base.printable import printable
from dumpfilter.base.security.client_tls import TlsFileError
from dumpfilter.base.security.guarded_client import GuardedConnection, Login, PasswordKept
from dumpfilter.binlog.format import Family, NameRules, name_collation_of
from dumpfilter.filter import RuleKind
from dumpfilter.master.replica_entry import ConnectBack, ReplicaPeer
from dumpfilter.master.replicas.shown_rules import OwnFilter, read_rules

MOST_BYTES = 4 << 20
"""The most bytes that the master reads from a replica on one connection. A filter of 10,000 rules takes less."""

_LONGEST_REASON = 300


class FilterUnreadable(DumpfilterError):
    """The error for a replica whose own filter the master cannot read. The text names the cure."""

    def __init__(self, text: str, *, momentary: bool) -> None:
        super().__init__(text)
        self.momentary = momentary
        """Whether a later attempt may succeed, for example because the replica could not be reached."""


def read_own_filter(connect: ConnectBack, peer: ReplicaPeer) -> OwnFilter:
    """Connect to a replica and return the filter of the channel that reads from this master.

    The call takes at most about ``connect.timeout`` for each step. Raises FilterUnreadable.
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
    except (pymysql.err.Error, *_MOMENTARY, *_MALFORMED) as error:
        raise FilterUnreadable(
            f"cannot read the filter of {where}: {_reason(error)}: {_cure(error, connect)}",
            momentary=isinstance(error, _MOMENTARY)
            and not isinstance(error, PasswordKept)
            and not _is_denied(error),
        ) from None
    except OptionError as error:
        raise FilterUnreadable(f"cannot use the filter of {where}: {error}", momentary=False) from None


_MOMENTARY = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, TlsFileError)
_MALFORMED = (ValueError, LookupError, AssertionError, TypeError, AttributeError, struct.error)
"""The errors that PyMySQL raises when a server's packets are malformed."""


def _connection(connect: ConnectBack, host: str, port: int) -> GuardedConnection:
    login = Login(host, port, connect.user, _password(connect), connect.client_tls)
    connection = GuardedConnection(login, most_bytes=MOST_BYTES, seconds=connect.timeout)
    connection.connect()
    return connection


def _password(connect: ConnectBack) -> str:
    """Return the password. The file is read at each connection, so that its password can change."""
    if connect.password_file is not None:
        return read_small_file(connect.password_file).decode().rstrip("\r\n")
    return os.environ[connect.password_env or ""]


def _read(cursor: Cursor, connect: ConnectBack, peer: ReplicaPeer, where: str) -> OwnFilter:
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


def _of_mariadb(cursor: Cursor, peer: ReplicaPeer, where: str) -> dict[RuleKind, str]:
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
