"""The grant tables that an account statement opens, in the server's order.

A replica's table rules are put to them as to any updated table (MySQL: ``open_grant_tables``, the order of
``enum ACL_TABLES``; MariaDB: ``Grant_tables::open_and_lock``, which opens only what the statement needs).
Recorded in tests/oracle/data/recordings/{mysql,mariadb}-forms{,2}.
"""

from __future__ import annotations

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName

_MYSQL = (
    *("user", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "role_edges"),
    *("default_roles", "global_grants", "password_history"),
)
_MARIADB = ("db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "roles_mapping", "global_priv")


def grant_tables(family: Family, *opened: str) -> tuple[TableName, ...]:
    """What is opened; ``opened`` names MariaDB's tables besides global_priv (none: only that one; "*": all)."""
    if family == "mysql":
        names: tuple[str, ...] = _MYSQL
    elif "*" in opened:
        names = _MARIADB
    else:
        names = tuple(name for name in _MARIADB if name in opened or name == "global_priv")
    return tuple(TableName("mysql", name) for name in names)
