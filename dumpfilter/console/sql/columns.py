"""The columns of SHOW REPLICA STATUS and similar statements, and of the tables of a console (a port for MySQL clients)
that a MySQL server has, too.

The file ``columns.toml`` lists them. A table that has no meaning on a master or on a slave has no rows there.
"""

from __future__ import annotations

import tomllib
from importlib import resources

from dumpfilter.console.sql.result import Column, ColumnType


def columns_of(text: str) -> tuple[Column, ...]:
    """Return the columns that ``text`` names, separated by spaces. A name may have a type, as ``Port:integer``.

    >>> columns_of("Host Port:integer")[1].type is ColumnType.INTEGER
    True
    """
    return tuple(
        Column(name, ColumnType[kind.upper() or "TEXT"])
        for name, _, kind in (word.partition(":") for word in text.split())
    )


_TOLD = tomllib.loads(resources.files("dumpfilter.console.sql").joinpath("columns.toml").read_text("utf-8"))
_STATUS = columns_of(_TOLD["replica_status"])
_OLDER = columns_of(
    _TOLD["replica_status"]
    .replace("Replica_", "Slave_")
    .replace("Get_Source", "Get_master")
    .replace("Source", "Master")
)
REPLICA_STATUS = _STATUS, _OLDER
"""The columns of MySQL's SHOW REPLICA STATUS, and of SHOW SLAVE STATUS."""

REPLICAS = columns_of(_TOLD["replicas"]), columns_of(_TOLD["slave_hosts"])
"""The columns of SHOW REPLICAS, and of SHOW SLAVE HOSTS. MariaDB has only the first four."""

BINARY_LOG_STATUS = columns_of(_TOLD["binary_log_status"])
"""The columns of SHOW BINARY LOG STATUS. MariaDB's result lacks the last one."""

BINARY_LOGS = columns_of(_TOLD["binary_logs"])
"""The columns of SHOW BINARY LOGS. MariaDB's result lacks the last one."""

PERFORMANCE_SCHEMA = {name: columns_of(text) for name, text in _TOLD["performance_schema"].items()}
"""The columns of each replication table of the performance_schema, by table name, in the order of MySQL 9.7."""

INFORMATION_SCHEMA = {name: columns_of(text) for name, text in _TOLD["information_schema"].items()}
"""The columns of tables of the information_schema that the library mysql_mimic lacks, by table name."""
