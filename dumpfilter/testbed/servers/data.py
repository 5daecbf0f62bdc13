"""The comparable data of a server: GTID set, tables with checksums, and definitions of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.testbed.servers.dialect import identifier, quoted
from dumpfilter.testbed.servers.session import SqlServer

_OWN = "'mysql', 'sys', 'information_schema', 'performance_schema'"
"""The databases of the servers themselves."""

_ABSENT = "absent"
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


@dataclass(frozen=True)
class Difference:
    """A difference between a node and its reference (a node that read the unfiltered source)."""

    node: str
    what: str
    """The object that differs, such as ``table shop.orders`` or ``GTID set``."""
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.node}: {self.what}: found {self.found}, expected {self.expected}"


@dataclass(frozen=True)
class ServerData:
    """The data of a server at one moment."""

    gtids: str
    """The GTID set that the server has applied as a replica."""
    databases: frozenset[str]
    tables: Mapping[str, str]
    """The checksum of each table, by database and name."""
    definitions: Mapping[str, str]
    """The definition of each table, view, trigger, routine and event, by kind, database and name."""


def read_data(server: SqlServer) -> ServerData:
    """Return the data of a server outside the system databases. Raises ConnectionLost and StatementRefused."""
    databases = frozenset(
        str(name)
        for (name,) in server.sql(
            f"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ({_OWN})"
        )
    )
    if not databases:
        return ServerData(server.applied_gtids(), databases, {}, {})
    # Named databases are looked up. Without their names a server would open every view of its own databases.
    where = f"IN ({', '.join(map(quoted, sorted(databases)))})"
    names = [
        (str(database), str(table))
        for database, table in server.sql(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            f"AND table_schema {where} ORDER BY 1, 2"
        )
    ]
    definitions = {}
    for database, table in names:
        shown = server.sql(f"SHOW CREATE TABLE {identifier(database)}.{identifier(table)}")[0][1]
        definitions[f"definition of table {database}.{table}"] = _NEXT_NUMBER.sub("", str(shown))
    for kind, select in _OBJECTS.items():
        for database, name, body in server.sql(f"{select} {where}"):
            definitions[f"{kind} {database}.{name}"] = str(body)
    return ServerData(server.applied_gtids(), databases, _checksums(server, names), definitions)


def _checksums(server: SqlServer, names: list[tuple[str, str]]) -> dict[str, str]:
    if not names:
        return {}
    listed = ", ".join(f"{identifier(database)}.{identifier(table)}" for database, table in names)
    rows = server.sql(f"CHECKSUM TABLE {listed}")
    return {f"{database}.{table}": str(row[1]) for (database, table), row in zip(names, rows, strict=True)}


def equal_gtids(one: str, other: str) -> bool:
    """Tell whether two texts denote the same GTID set."""
    try:
        return parse_gtid_set(one) == parse_gtid_set(other)
    except GtidError:
        return one == other


def differences(
    node: str, server: SqlServer, found: ServerData, reference: SqlServer, expected: ServerData
) -> tuple[Difference, ...]:
    """Return the differences between a node's data (``found``) and its reference's data (``expected``).

    A reference is a server that read the unfiltered source and filters for itself. Both servers are asked for the
    number of rows of each table that differs.
    """
    told = []
    if not equal_gtids(found.gtids, expected.gtids):
        told.append(Difference(node, "GTID set", found.gtids or "none", expected.gtids or "none"))
    told += [
        Difference(node, f"database {name}", *_presence(name in found.databases))
        for name in sorted(found.databases ^ expected.databases)
    ]
    for name in sorted(found.tables.keys() | expected.tables.keys()):
        if found.tables.get(name) != expected.tables.get(name):
            told.append(
                Difference(
                    node, f"table {name}", _shown(server, found, name), _shown(reference, expected, name)
                )
            )
    for name in sorted(found.definitions.keys() & expected.definitions.keys()):
        if found.definitions[name] != expected.definitions[name]:
            told.append(Difference(node, name, found.definitions[name], expected.definitions[name]))
    for name in sorted(found.definitions.keys() ^ expected.definitions.keys()):
        # A table that only one side has is told by its rows.
        if not name.startswith("definition"):
            told.append(Difference(node, name, *_presence(name in found.definitions)))
    return tuple(told)


def _presence(is_found: bool) -> tuple[str, str]:
    return ("present", _ABSENT) if is_found else (_ABSENT, "present")


def _shown(server: SqlServer, data: ServerData, name: str) -> str:
    if name not in data.tables:
        return _ABSENT
    database, _, table = name.partition(".")
    ((rows,),) = server.sql(f"SELECT COUNT(*) FROM {identifier(database)}.{identifier(table)}")
    return f"{rows} rows with checksum {data.tables[name]}"
