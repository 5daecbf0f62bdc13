"""A client that logs in to a console, sends statements, and returns their results."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import FIELD_TYPE

from dumpfilter.console.script import ScriptStatement
from dumpfilter.errors import ConnectionLost
from dumpfilter.packets.other_protocols import speaks_no_mysql

_CONNECT_SECONDS = 10

_CLIENT_ERRORS = range(2000, 3000)
"""The numbers of the errors that the client library itself reports (``errmsg.h`` of MySQL).

They mean that the server could not be reached or that the connection broke. A server never sends them.
"""

_SERVER_GONE = 2013
_INTEGERS = (FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG)
_FLOATS = (FIELD_TYPE.DOUBLE, FIELD_TYPE.FLOAT)
_RIGHT_ALIGNED = (FIELD_TYPE.LONGLONG, FIELD_TYPE.LONG, FIELD_TYPE.DOUBLE)


@dataclass(frozen=True)
class ConsoleLogin:
    """The address of a console, with the user name and password to log in with."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None
    """The settings of TLS. With None the client uses TLS if the console offers it, without checking the certificate."""


class ResultSet(NamedTuple):
    """The rows that one statement of a script returned, with the name of each column.

    ``is_numeric`` has one value for each column. Numeric columns are aligned to the right when they are printed.
    """

    statement: ScriptStatement
    names: Sequence[str]
    is_numeric: Sequence[bool]
    rows: Sequence[Sequence[Any]]


class StatementFailed(Exception):
    """The error of a statement that the console refused, with the text that the ``mysql`` client would print."""


def run_statements(login: ConsoleLogin, statements: Sequence[ScriptStatement]) -> Iterator[ResultSet]:
    """Log in to a console, run the statements in order, and yield the result of each statement that returns rows.

    Raises StatementFailed at the first statement that the console refuses. Raises ConnectionLost if the console cannot
    be reached or closes the connection.
    """
    line = 0
    try:
        with pymysql.connect(
            host=login.host,
            port=login.port,
            user=login.user,
            password=login.password,
            charset="utf8mb4",
            autocommit=None,
            connect_timeout=_CONNECT_SECONDS,
            # Only numbers are converted to Python's types. Times and texts stay as the server wrote them.
            conv={**dict.fromkeys(_INTEGERS, int), **dict.fromkeys(_FLOATS, float)},
            ssl=login.tls,
        ) as connection:
            for statement in statements:
                line = statement.line
                with connection.cursor() as cursor:
                    cursor.execute(statement.text)
                    if cursor.description is not None:
                        yield _result(statement, cursor)
    except pymysql.err.Error as error:
        if speaks_no_mysql(error):
            raise ConnectionLost(
                f"{login.host}:{login.port}: no console answers here, but another protocol, as at a master's port for "
                "slaves: name the port of --console-port"
            ) from None
        number, message = (*error.args, "")[:2] if error.args else (_SERVER_GONE, "")
        if not isinstance(number, int) or number in _CLIENT_ERRORS or not number:
            raise ConnectionLost(f"{login.host}:{login.port}: {message or error}") from error
        where = f" at line {line}" if line else ""
        raise StatementFailed(f"ERROR {number} ({error.sqlstate or 'HY000'}){where}: {message}") from None


def _result(statement: ScriptStatement, cursor: Any) -> ResultSet:
    columns = cursor.description
    return ResultSet(
        statement,
        [column[0] for column in columns],
        [column[1] in _RIGHT_ALIGNED for column in columns],
        cursor.fetchall(),
    )
