"""The grant tables that an account statement such as GRANT or CREATE USER opens, in the server's order.

A replica applies its table rules to the grant tables as to any updated table. The order is that of ``enum ACL_TABLES``
in MySQL (``open_grant_tables``) and of ``Grant_tables::open_and_lock`` in MariaDB, which opens only the tables that
the statement needs. Recorded in tests/oracle/data/recordings/{mysql,mariadb}-forms{,2}.
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
    """Return the grant tables that an account statement opens, in the server's order.

    MySQL opens all grant tables. MariaDB opens global_priv and the tables whose names are in ``opened``. The name
    ``"*"`` stands for all grant tables.
    """
    if family == "mysql":
        names: tuple[str, ...] = _MYSQL
    elif "*" in opened:
        names = _MARIADB
    else:
        names = tuple(name for name in _MARIADB if name in opened or name == "global_priv")
    return tuple(TableName("mysql", name) for name in names)
