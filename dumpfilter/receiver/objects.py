"""A query for the names of all databases, tables, triggers, routines and events of a running server."""

from __future__ import annotations

from dumpfilter.filter.rules import escaped
from dumpfilter.receiver.login import SourceConnection
from dumpfilter.receiver.url import parse_source_url

_NAMES = {
    "schemata": "schema_name, ''",
    "tables": "table_schema, table_name",
    "triggers": "trigger_schema, trigger_name",
    "routines": "routine_schema, routine_name",
    "events": "event_schema, event_name",
}
"""The columns of information_schema with the names of objects, by table."""


def objects_of(address: str) -> list[str]:
    """Return the objects that a server shows to the account, each as a LIKE pattern for ``db.name``. The pattern of a
    database is ``db.``.

    ``address`` is a mysql:// URL. Raises OptionError for a wrong address, and the errors of SourceConnection.
    """
    connection = SourceConnection(parse_source_url(address))
    try:
        return [
            f"{escaped(database)}.{escaped(name)}"
            for table, columns in _NAMES.items()
            for database, name in connection.ask(f"SELECT {columns} FROM information_schema.{table}")
        ]
    finally:
        connection.close()
