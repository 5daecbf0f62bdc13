"""The roles of a console's accounts, and the lowest role that each statement needs.

A role contains the roles before it: ``read`` < ``replicate-admin`` < ``all``. ``python tools/doc_tables.py`` writes the
table of docs/console.md from this module.
"""

from __future__ import annotations

from collections.abc import Mapping

from dumpfilter.console.sql.commands import GRAMMAR, Command
from dumpfilter.console.sql.grammar import Need as Need
from dumpfilter.console.sql.grammar import Role as Role
from dumpfilter.console.sql.server_errors import ER_SPECIFIC_ACCESS_DENIED_ERROR

COMMANDS: Mapping[type[Command], Need] = GRAMMAR.needs
"""The required role of each replication command, and whether the command changes anything."""

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
"""The required role of each other statement that the console carries out, by the statement's first word.

KILL needs the role ``all`` for the connections of other users, which :func:`may_see_user` decides.
"""


def check_role(role: Role, need: Need) -> None:
    """Raise SqlError 1227, which names the missing role, if an account may not run a statement.

    ``role`` is the account's role, and ``need`` says which role the statement needs.
    """
    if not role.includes(need.role):
        raise ER_SPECIFIC_ACCESS_DENIED_ERROR(need.role.value)


def may_see_user(role: Role, user: str, other: str | None) -> bool:
    """Tell whether the account ``user`` with ``role`` may list and end connections of the user ``other``.

    Every account may list and end its own connections. ``other`` is None for a connection without a login.
    """
    return user == other or role.includes(Role.ALL)


def grants(role: Role, user: str, host: str) -> list[str]:
    r"""Return the rows of SHOW GRANTS for an account. A role of dumpfilter is shown as the privileges of a server that
    come closest to it.

    The last row names the role itself.

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
