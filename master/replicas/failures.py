"""The translation of dumpfilter's errors into the errors that a source sends to a replica.

A replica stops at error 1236, and shows the text in its status. After most other errors it tries again. So 1236 is for
errors that an operator must solve.
"""

from __future__ import annotations

import enum

from dumpfilter.base.errors import BinlogMissing, DumpfilterError
from dumpfilter.binlog.format import Family
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.master.ahead import ReplicaAhead
from dumpfilter.master.replicas.requests import fatal
from dumpfilter.master.who import Drained

MOST_TEXT = 480
"""The longest error text, bytes. Replicas store 512 bytes (``MYSQL_ERRMSG_SIZE``)."""

_LONGEST_OF_SERVERS = 511
"""The length to which servers cut the texts of their own errors, bytes."""

_ER_CON_COUNT_ERROR = 1040
_ER_SERVER_SHUTDOWN = 1053
_ER_UNKNOWN_ERROR = 1105

_MOMENTARY = {
    "UNAVAILABLE": _ER_UNKNOWN_ERROR,
    "RESOURCE_EXHAUSTED": _ER_CON_COUNT_ERROR,
    **dict.fromkeys(("ALREADY_EXISTS", "NOT_FOUND", "ABORTED"), _ER_UNKNOWN_ERROR),
}
"""The gRPC status codes of errors after which a replica shall try again, each with the MySQL error number for it."""


class Said(enum.Enum):
    """The texts of the replication errors (number 1236) that a source sends to a replica, each as MySQL and as MariaDB
    word it.
    """

    SAME_REPLICA = (
        "A replica with the same server_uuid/server_id as this replica has connected to the source",
        "A slave with the same server_uuid/server_id as this slave has connected to the master",
    )
    NO_CHECKSUMS = (
        "Replica can not handle replication events with the checksum that source is configured to log",
        "Slave can not handle replication events with the checksum that master is configured to log",
    )
    BEYOND_END = (
        "Client requested source to start replication from position > file size",
        "Client requested master to start replication from impossible position",
    )
    BEFORE_BEGIN = (
        "Client requested source to start replication from position < 4",
        "Client requested master to start replication from impossible position",
    )
    PURGED = (
        "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from "
        "elsewhere, or provision a new replica from backup. Consider increasing the source's binary log expiration "
        "period.",
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and "
        "required binlog files have been purged.",
    )

    def error(self, family: Family, details: str = "") -> SqlError:
        """Return error 1236 with the text that a server of ``family`` (MySQL or MariaDB) sends. ``details`` are added
        if the whole text is short enough for a replica's status.
        """
        text = self.value[family == "mariadb"]
        return fatal(text + (details if len(text) + len(details) <= MOST_TEXT else ""))


def failure(error: DumpfilterError) -> SqlError:
    """Return the server error that a replica gets when its dump, or its request for one, fails with ``error``."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, ReplicaAhead):
        return fatal(error.told[:_LONGEST_OF_SERVERS])
    text = _shortened(str(error))
    if isinstance(error, BinlogMissing):
        return fatal(f"Could not find first log file name in binary log index file ({text})")
    number = _ER_SERVER_SHUTDOWN if isinstance(error, Drained) else _MOMENTARY.get(error.grpc_code)
    return fatal(text) if number is None else SqlError(number, "08S01", text)


def shutting_down() -> SqlError:
    """Return the error for a dump that ends because the master shuts down."""
    return SqlError(_ER_SERVER_SHUTDOWN, "08S01", "Server shutdown in progress")


def needs_gtids() -> SqlError:
    """Return the error for a MySQL replica that has a filter on the master and asks for a file and a position instead
    of GTIDs.
    """
    return fatal(
        "the source filters for this replica, and a filtered stream has other positions than the binlog: say CHANGE "
        "REPLICATION SOURCE TO SOURCE_AUTO_POSITION=1"
    )


def no_such_part(file: str, position: int) -> SqlError:
    """Return error 1236 for a replica that lost its connection inside a transaction and asks for the rest, which the
    master cannot send. The master would send other events of that transaction now, for example after a change of the
    filter.

    ``file`` and ``position`` say up to where the replica has the transaction.
    """
    return fatal(
        f"the slave has a part of a transaction, up to {position} of {file}, and the source now sends other events of "
        "this transaction, for example because of another filter. To receive the transaction anew, say STOP SLAVE, "
        "CHANGE MASTER TO MASTER_USE_GTID=slave_pos, START SLAVE"
    )


def no_until() -> SqlError:
    """Return the error for a MariaDB replica with START SLAVE UNTIL and a GTID. The master does not support this."""
    return fatal(
        "dumpfilter does not stop at a GTID for a slave: say START SLAVE UNTIL with master_log_file and "
        "master_log_pos, or without UNTIL"
    )


def no_gtid_events() -> SqlError:
    """Return the error for a client that asks for a MariaDB binlog but does not know MariaDB's GTID events."""
    return fatal(
        "the binlog has events that this client does not know: use a client that says SET @mariadb_slave_capability=4, "
        "as those of MariaDB 10.0 and later do"
    )


def _shortened(text: str) -> str:
    return text.encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore")
