"""The comparable data of a server: databases, tables with checksums, and definitions of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.testbed.servers.dialect import identifier, quoted
from dumpfilter.testbed.servers.session import SqlServer

_OWN = "'mysql', 'sys', 'information_schema', 'performance_schema'"
"""The databases of the servers themselves."""

TABLE = "table "
"""The prefix of a table's name as the name of an object."""

_DEFINITION = f"definition of {TABLE}"

_NEXT_NUMBER = re.compile(r" AUTO_INCREMENT=\d+")
"""The pattern of a table's next AUTO_INCREMENT value, which a server may increase without any change of data."""

_OBJECTS = {
    "view": "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE table_schema",
    "trigger": "SELECT trigger_schema, trigger_name, action_statement FROM information_schema.triggers "
    "WHERE trigger_schema",
    "routine": "SELECT routine_schema, routine_name, routine_definition FROM information_schema.routines "
    "WHERE routine_schema",
    "event": "SELECT event_schema, event_name, event_definition FROM information_schema.events WHERE event_schema",
}


def read_data(server: SqlServer) -> dict[str, str]:
    """Return the data of a server outside the system databases, by object, such as ``table shop.orders``.

    The value is the checksum of a table, ``present`` for a database, and the definition of all other objects. Raises
    ConnectionLost and StatementRefused.
    """
    databases = [
        str(name)
        for (name,) in server.sql(
            f"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ({_OWN})"
        )
    ]
    found = {f"database {name}": "present" for name in databases}
    if not databases:
        return found
    # Named databases are looked up. Without their names a server would open every view of its own databases.
    where = f"IN ({', '.join(map(quoted, sorted(databases)))})"
    tables = server.sql(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
        f"AND table_schema {where} ORDER BY 1, 2"
    )
    listed = [f"{identifier(database)}.{identifier(table)}" for database, table in tables]
    for (database, table), name in zip(tables, listed, strict=True):
        shown = str(server.sql(f"SHOW CREATE TABLE {name}")[0][1])
        found[f"{_DEFINITION}{database}.{table}"] = _NEXT_NUMBER.sub("", shown)
    for kind, select in _OBJECTS.items():
        for database, name, text in server.sql(f"{select} {where}"):
            found[f"{kind} {database}.{name}"] = str(text)
    sums = server.sql(f"CHECKSUM TABLE {', '.join(listed)}") if listed else []
    for (database, table), (_, checksum) in zip(tables, sums, strict=True):
        found[f"{TABLE}{database}.{table}"] = str(checksum)
    return found


def equal_gtids(one: str, other: str) -> bool:
    """Tell whether two texts denote the same GTID set."""
    try:
        return parse_gtid_set(one) == parse_gtid_set(other)
    except GtidError:
        return one == other


def differences(
    server: SqlServer, found: Mapping[str, str], reference: SqlServer, expected: Mapping[str, str]
) -> list[str]:
    """Return the differences between the data of a server and the data of its reference, as sentences.

    A reference is a server that read the unfiltered source and filters for itself. Both servers are asked for the
    number of rows of each table that differs.
    """
    told = []
    for name in sorted(found.keys() | expected.keys()):
        ours, theirs = found.get(name), expected.get(name)
        # A table that only one side has is told by its rows.
        if ours != theirs and not (name.startswith(_DEFINITION) and (ours is None or theirs is None)):
            shown = _shown(server, name, ours, theirs), _shown(reference, name, theirs, ours)
            told.append(f"{server.name}: {name}: found {shown[0]}, expected {shown[1]}")
    return told


def _shown(server: SqlServer, name: str, value: str | None, other: str | None) -> str:
    if value is None:
        return "absent"
    if name.startswith(TABLE):
        database, _, table = name.removeprefix(TABLE).partition(".")
        ((rows,),) = server.sql(f"SELECT COUNT(*) FROM {identifier(database)}.{identifier(table)}")
        return f"{rows} rows with checksum {value}"
    return "present" if other is None else value
