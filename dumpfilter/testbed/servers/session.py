"""SQL on a real server: connections, statements, and the state of its binlog."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pymysql

from dumpfilter.base.errors import ConnectionLost, StatementRefused
from dumpfilter.binlog.format import Family
from dumpfilter.testbed.servers.dialect import DIALECTS, Dialect
from dumpfilter.testbed.values import Place

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
_LONGEST_STATEMENT = 200


@dataclass(frozen=True)
class Account:
    """A user of a server, with the password."""

    user: str
    password: str


class SqlServer:
    """A server to which SQL statements can be sent over TCP."""

    wants_tls = False
    """Whether connections use TLS if the server offers it. For TLS, PyMySQL loads all CA certificates of the system."""

    def __init__(self, name: str, family: Family, host: str, port: int, account: Account) -> None:
        self.name = name
        self.family = family
        self.host = host
        self.port = port
        self.account = account
        """The account of :meth:`connect`."""

    @property
    def dialect(self) -> Dialect:
        """The options and statements of the server's family."""
        return DIALECTS[self.family]

    @property
    def url(self) -> str:
        """The address for SQL clients, ``mysql://USER[:PASSWORD]@HOST:PORT/``."""
        password = f":{quote(self.account.password, safe='')}" if self.account.password else ""
        return f"mysql://{quote(self.account.user, safe='')}{password}@{self.host}:{self.port}/"

    def connect(self, **more: Any) -> pymysql.Connection[Any]:
        """Return a connection. ``more`` has further arguments of ``pymysql.connect``. Raises ConnectionLost."""
        arguments: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.account.user,
            "password": self.account.password,
            "charset": "utf8mb4",
            "autocommit": True,
            "ssl_disabled": not self.wants_tls,
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": READ_TIMEOUT,
        }
        try:
            return pymysql.connect(**{**arguments, **more})
        except (pymysql.Error, OSError) as error:
            raise ConnectionLost(f"{self.name}: no connection to {self.host}:{self.port}: {error}") from None

    def sql(
        self, *statements: str, arguments: Any = None, database: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run statements on a new connection, and return the rows of the last one.

        ``arguments`` are the parameters for PyMySQL's ``Cursor.execute``. ``database`` is the default database. Raises
        ConnectionLost and StatementRefused.
        """
        return self._run(statements, arguments, database=database)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run one statement, and return its rows by column. Raises ConnectionLost and StatementRefused."""
        return self._run([statement], cursorclass=pymysql.cursors.DictCursor)

    def _run(self, statements: Sequence[str], arguments: Any = None, **more: Any) -> list[Any]:
        """Run statements over a new connection. ``more`` has further arguments of ``pymysql.connect``."""
        rows: list[Any] = []
        with contextlib.closing(self.connect(**more)) as connection:
            for statement in statements:
                try:
                    with connection.cursor() as cursor:
                        cursor.execute(statement, arguments)
                        rows = list(cursor.fetchall())
                except pymysql.Error as error:
                    number, text = error.args if len(error.args) > 1 else (0, error)
                    shown = statement[:_LONGEST_STATEMENT] + "…" * (len(statement) > _LONGEST_STATEMENT)
                    refused = StatementRefused(f"{self.name}: error {number}: {text}: {shown}")
                    refused.number = number
                    raise refused from None
        return rows

    def value(self, expression: str) -> str:
        """Return the value of an SQL expression as text; an empty text for NULL."""
        ((found,),) = self.sql(f"SELECT {expression}")
        return "" if found is None else str(found).replace("\n", "")

    def binlog_end(self) -> Place:
        """Return the end of the newest binlog file. Raises StatementRefused for a server without a binlog."""
        rows = self.sql(self.dialect.binlog_status)
        if not rows:
            raise StatementRefused(f"{self.name}: has no binlog: start the server with --log-bin")
        return Place(str(rows[0][0]), int(rows[0][1]))

    def binlog_gtids(self) -> str:
        """Return the GTID set of all transactions in the server's binlog."""
        return self.value(self.dialect.binlog_gtids)

    def applied_gtids(self) -> str:
        """Return the GTID set that the server has applied as a replica."""
        return self.value(self.dialect.applied_gtids)


class RunningServer(SqlServer):
    """A server that is already running, and that is neither started nor stopped here."""

    wants_tls = True

    def __init__(self, name: str, host: str, port: int, account: Account) -> None:
        super().__init__(name, "mysql", host, port, account)
        if "MariaDB" in self.value("VERSION()"):
            self.family = "mariadb"
