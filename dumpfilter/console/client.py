r"""A client that logs in to a console (a port for MySQL clients), runs a script of statements, and returns their result
sets.

A script is divided as the ``mysql`` client does: ``;``, ``\g`` or ``\G`` ends a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import FIELD_TYPE

from dumpfilter.base.errors import ConnectionLost
from dumpfilter.base.security.client_tls import CA_OPTION, ClientTls, TlsMode
from dumpfilter.base.security.guarded_client import (
    CLIENT_ERRORS,
    MALFORMED,
    GuardedConnection,
    Login,
    speaks_no_mysql,
)
from dumpfilter.base.security.listening import is_loopback


class ScriptStatement(NamedTuple):
    r"""One statement of an SQL script, with its line number and the output format that its terminator asks for."""

    text: str
    line: int
    """The number of the script's line on which the statement begins, counted from 1, for error messages."""
    vertical: bool = False
    r"""Whether the statement ended with ``\G``. The rows of the result are then printed with one line for each column.
    """


def script_statements(script: str) -> Iterator[ScriptStatement]:
    r"""Yield the statements of a script, without empty statements.

    A statement ends at ``;``, ``\g`` or ``\G`` outside quotes and comments.

    >>> [(s.text, s.line, s.vertical) for s in script_statements("SELECT ';'; -- a;\nSHOW REPLICA STATUS\\G")]
    [("SELECT ';'", 1, False), ('SHOW REPLICA STATUS', 2, True)]
    """
    # numpy takes 0.1 s to import, and dumpfilter status divides no script.
    from dumpfilter.binlog.statement.tokens import Lexer, TokenKind

    lexer, begin, first, line, counted = Lexer(script), 0, -1, 1, 0
    while True:
        token = lexer.next()
        command = script[token.end : token.end + 1] if token.value == "\\" else ""
        ends = token.kind is TokenKind.SYMBOL and (token.value == ";" or command in ("g", "G"))
        if ends or token.kind in (TokenKind.END, TokenKind.BAD):
            # A quote that is never closed takes the rest of the script into the statement, which the server refuses.
            end = len(script) if token.kind is TokenKind.BAD else token.start
            if first < 0 and token.kind is TokenKind.BAD:
                first = token.start
            if first >= 0:
                line += script.count("\n", counted, first)
                counted = first
                yield ScriptStatement(script[first:end].strip(), line, command == "G")
            if not ends:
                return
            begin, first = token.end + len(command), -1
            if command:
                lexer = Lexer(script, begin)
        elif first < 0:
            # A version comment (/*! … */) before the first word is part of the statement, since servers execute it.
            conditional = script.find("/*!", begin, token.start)
            first = conditional if conditional >= 0 else token.start


_CONNECT_SECONDS = 10

_MOST_BYTES = 1 << 30
"""The limit of the bytes that a console may send for one script."""

_SERVER_GONE = 2013
_NUMBERS: dict[int, type[int | float]] = {
    **dict.fromkeys((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG), int),
    **dict.fromkeys((FIELD_TYPE.DOUBLE, FIELD_TYPE.FLOAT), float),
}
"""The types of columns whose values become Python's numbers. Times and texts stay as the server wrote them."""


def console_login(host: str, port: int, user: str, password: str, ca: Path | None = None) -> Login:
    """Return the settings of a login at a console (the port of a master or slave for MySQL clients).

    ``ca`` is a file of CAs, one of which must have signed the console's certificate. With ``ca`` None the client uses
    TLS if the console offers TLS, and does not check the certificate. A console on this machine may then also get the
    password without TLS, encrypted with a key that the console sends.
    """
    tls = ClientTls(TlsMode.PREFERRED) if ca is None else ClientTls(ca=ca, ca_option=CA_OPTION)
    # A console on another machine that offers no TLS is none of dumpfilter's, and does not get the password.
    return Login(host, port, user, password, tls, asks_for_key=ca is None and is_loopback(host))


class ResultSet(NamedTuple):
    """The rows that one statement of a script returned, with the name of each column.

    ``is_numeric`` has one value for each column. Numeric columns are aligned to the right when they are printed.
    """

    statement: ScriptStatement
    names: Sequence[str]
    is_numeric: Sequence[bool]
    rows: Sequence[Sequence[Any]]


class StatementFailed(Exception):
    """The error for a statement that the console (a port for MySQL clients) refused. The text of the error is the one
    that the ``mysql`` client would print.
    """


def run_statements(
    login: Login, statements: Sequence[ScriptStatement], *, seconds: float | None = None
) -> Iterator[ResultSet]:
    """Log in to a console (a port for MySQL clients), and run the statements in order. Yield the result of each
    statement that returns rows.

    ``seconds`` is the time after which a console that does not answer a statement counts as lost; None: no limit.

    Raises StatementFailed at the first statement that the console refuses, and also for a refused login. Raises
    ConnectionLost if the console cannot be reached or closes the connection, and OptionError for an unusable CA file.
    """
    line = 0
    try:
        with GuardedConnection(
            login, most_bytes=_MOST_BYTES, seconds=_CONNECT_SECONDS, read_timeout=seconds, conv=_NUMBERS
        ) as connection:
            connection.connect()
            for statement in statements:
                line = statement.line
                with connection.cursor() as cursor:
                    cursor.execute(statement.text)
                    if (columns := cursor.description) is not None:
                        names = [column[0] for column in columns]
                        numeric = [column[1] in _NUMBERS for column in columns]
                        yield ResultSet(statement, names, numeric, cursor.fetchall())
    except pymysql.err.Error as error:
        if speaks_no_mysql(error):
            raise ConnectionLost(
                f"{login.address}: no console answers here, but another protocol, as at a master's port for "
                "slaves: name the port of --console-port"
            ) from None
        number, message = (*error.args, "")[:2] if error.args else (_SERVER_GONE, "")
        if not isinstance(number, int) or number in CLIENT_ERRORS or not number:
            raise ConnectionLost(f"{login.address}: {message or error}") from error
        where = f" at line {line}" if line else ""
        raise StatementFailed(f"ERROR {number} ({error.sqlstate or 'HY000'}){where}: {message}") from None
    except MALFORMED as error:
        raise ConnectionLost(
            f"{login.address}: no console answers here ({error}); name the address of --console-port"
        ) from error
