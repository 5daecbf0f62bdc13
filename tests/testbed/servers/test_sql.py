"""The comparison of the data of two servers."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

import pytest

from dumpfilter.testbed.errors import NodeIsDown
from dumpfilter.testbed.servers import sql
from dumpfilter.testbed.servers.sql import Account, SqlServer, differences, identifier, read_data


class Tables(SqlServer):
    """A server that has the given numbers of rows by database and table."""

    def __init__(self, name: str, rows: Mapping[tuple[str, str], int]) -> None:
        super().__init__(name, "mariadb", "127.0.0.1", 1, Account("root", ""))
        self._rows = rows
        self._names = {
            f"{identifier(database)}.{identifier(table)}": number
            for (database, table), number in rows.items()
        }

    def sql(self, *statements: str, arguments: Any = None, **more: Any) -> list[Any]:
        (statement,) = statements
        if statement == "SHOW DATABASES":
            return [(name,) for name in sorted({database for database, _ in self._rows})]
        if "information_schema.tables" in statement:
            return sorted(self._rows)
        if statement.startswith("CHECKSUM TABLE "):
            return [
                (name, 1000 + self._names[name])
                for name in statement.removeprefix("CHECKSUM TABLE ").split(", ")
            ]
        if statement.startswith("SELECT COUNT(*) FROM "):
            return [(self._names[statement.removeprefix("SELECT COUNT(*) FROM ")],)]
        return [("", "CREATE TABLE …")] if statement.startswith("SHOW CREATE TABLE ") else []


def test_names_with_dots_are_kept_apart() -> None:
    """The tables c of database a.b, and b.c of database a, have one name in an error."""
    replica = Tables("web", {("a.b", "c"): 1, ("a", "b.c"): 2})
    reference = Tables("reference", {("a.b", "c"): 1, ("a", "b.c"): 3})
    assert differences(replica, read_data(replica), reference, read_data(reference)) == [
        "web: table a.b.c: found 2 rows with checksum 1002, expected 3 rows with checksum 1003"
    ]


def test_a_server_that_hangs_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system accepts its connections. The long time limit is that of a statement."""
    monkeypatch.setattr(sql, "CONNECT_TIMEOUT", 0.1)
    monkeypatch.setattr(sql, "READ_TIMEOUT", 20.0)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        server = SqlServer("db", "mysql", *hanging.getsockname(), Account("root", ""))
        begun = time.monotonic()
        with pytest.raises(NodeIsDown, match=r"db: no connection to 127\.0\.0\.1:.*timed out"):
            server.sql("SELECT 1")
    assert time.monotonic() - begun < 5
