"""The roles of a console's accounts, and the least role that each statement needs.

A role contains the roles before it: ``read`` < ``replicate-admin`` < ``all``. ``python tools/role_table.py`` writes the
table of docs/console.md from this module.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from dumpfilter.sql import commands
from dumpfilter.sql.server_errors import ER_SPECIFIC_ACCESS_DENIED_ERROR


class Role(enum.StrEnum):
    """The rights of an account on a console, from the least to the most."""

    READ = "read"
    """Statements that show the state of replication, and change nothing."""
    REPLICATE_ADMIN = "replicate-admin"
    """Everything that starts, stops and configures replication, and shows the contents of binlogs."""
    ALL = "all"
    """Everything: also what deletes binlogs, what concerns all slaves, and what concerns other users."""

    def includes(self, other: Role) -> bool:
        """Tell whether this role may do what ``other`` may do.

        >>> Role.REPLICATE_ADMIN.includes(Role.READ), Role.REPLICATE_ADMIN.includes(Role.ALL)
        (True, False)
        """
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Need:
    """The right that one kind of statement needs, and whether the statement changes anything."""

    statement: str
    """The statement's form, for the documentation."""
    role: Role
    changes: bool = False
    """Whether the statement changes the state of the master, the slave or the console. The audit log records it."""


COMMANDS: Mapping[type[commands.Command], Need] = {
    commands.ShowReplicaStatus: Need("SHOW REPLICA STATUS", Role.READ),
    commands.ShowReplicas: Need("SHOW REPLICAS", Role.READ),
    commands.ShowBinaryLogStatus: Need("SHOW BINARY LOG STATUS", Role.READ),
    commands.ShowBinaryLogs: Need("SHOW BINARY LOGS", Role.READ),
    commands.ShowBinlogEvents: Need("SHOW BINLOG EVENTS, SHOW RELAYLOG EVENTS", Role.REPLICATE_ADMIN),
    commands.StartReplica: Need("START REPLICA", Role.REPLICATE_ADMIN, changes=True),
    commands.StopReplica: Need("STOP REPLICA", Role.REPLICATE_ADMIN, changes=True),
    commands.ResetReplica: Need("RESET REPLICA", Role.REPLICATE_ADMIN, changes=True),
    commands.ChangeSource: Need("CHANGE REPLICATION SOURCE TO", Role.REPLICATE_ADMIN, changes=True),
    commands.ChangeReplicationFilter: Need("CHANGE REPLICATION FILTER", Role.REPLICATE_ADMIN, changes=True),
    commands.ChangeReplicaFilter: Need("CHANGE REPLICATION FILTER … FOR REPLICA", Role.ALL, changes=True),
    commands.UnregisterReplica: Need("UNREGISTER REPLICA", Role.ALL, changes=True),
    commands.DrainReplicas: Need("DRAIN", Role.ALL, changes=True),
    commands.UndrainReplicas: Need("UNDRAIN", Role.ALL, changes=True),
    commands.FlushPrivileges: Need("FLUSH PRIVILEGES", Role.ALL, changes=True),
    commands.ChangeBinlog: Need("CHANGE BINLOG", Role.ALL, changes=True),
    commands.PurgeBinaryLogs: Need("PURGE BINARY LOGS", Role.ALL, changes=True),
}
"""The need of each replication command."""

STATEMENTS: Mapping[str, Need] = {
    **{word: Need(word, Role.READ) for word in ("SELECT", "WITH", "VALUES", "TABLE")},
    "(": Need("(SELECT …)", Role.READ),
    "SHOW": Need("SHOW …", Role.READ),
    **{word: Need(word, Role.READ) for word in ("DESCRIBE", "DESC", "EXPLAIN", "USE", "DO", "SET")},
    "BEGIN": Need("BEGIN", Role.READ),
    "START": Need("START TRANSACTION", Role.READ),
    **{word: Need(word, Role.READ) for word in ("COMMIT", "ROLLBACK")},
    "UNLOCK": Need("UNLOCK TABLES", Role.READ),
    "KILL": Need("KILL", Role.READ, changes=True),
}
"""The need of each other statement that the console carries out, by the statement's first word.

KILL needs the role ``all`` for the connections of other users, which :func:`may_see_user` decides.
"""


def check_role(role: Role, need: Need) -> None:
    """Raise SqlError 1227, which names the missing role, if an account with ``role`` may not use a statement."""
    if not role.includes(need.role):
        raise ER_SPECIFIC_ACCESS_DENIED_ERROR(need.role.value)


def may_see_user(role: Role, user: str, other: str | None) -> bool:
    """Tell whether an account may see and end the connections of the user ``other``.

    ``user`` and ``role`` are the account's own. Every account may see and end its own connections.
    """
    return user == other or role.includes(Role.ALL)


def grants(role: Role, user: str, host: str) -> list[str]:
    r"""Return the rows of SHOW GRANTS: the privileges of a server that come closest to the role, and the role.

    >>> print(*grants(Role.READ, "monitor", "localhost"), sep="\n")
    GRANT SELECT, REPLICATION CLIENT ON *.* TO `monitor`@`localhost`
    GRANT `read`@`%` TO `monitor`@`localhost`
    """
    account = f"`{user}`@`{host}`"
    static = "SELECT, REPLICATION CLIENT"
    dynamic = []
    if role.includes(Role.REPLICATE_ADMIN):
        static = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
        dynamic = [f"GRANT REPLICATION_SLAVE_ADMIN ON *.* TO {account}"]
    if role.includes(Role.ALL):
        static = "SELECT, PROCESS, SUPER, REPLICATION SLAVE, REPLICATION CLIENT"
        dynamic = [f"GRANT BINLOG_ADMIN,CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN ON *.* TO {account}"]
    return [f"GRANT {static} ON *.* TO {account}", *dynamic, f"GRANT `{role}`@`%` TO {account}"]
