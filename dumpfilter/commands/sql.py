"""``dumpfilter sql``: statements for a master's or a slave's console."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumpfilter.commands.passwords import read_password
from dumpfilter.console.rendering import Format
from dumpfilter.errors import ConnectionLost, OptionError

if TYPE_CHECKING:
    import ssl

    from dumpfilter.console.script import ScriptStatement

PASSWORD_VARIABLE = "DUMPFILTER_PASSWORD"
_CONNECT_SECONDS = 10

_CLIENT_ERRORS = range(2000, 3000)
"""Numbers of errors that no server sent: it cannot be reached, or went away (``errmsg.h``)."""


def sql_command(
    script: Annotated[
        str,
        typer.Argument(metavar="[FILE]", help="A file of statements; '-' or nothing is the standard input."),
    ] = "-",
    slave: Annotated[str, typer.Option(help="The console of a slave.", metavar="HOST:PORT")] = "",
    master: Annotated[str, typer.Option(help="The console of a master.", metavar="HOST:PORT")] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="The user.")] = "root",
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            "-p",
            help=f"A file whose first line is the password. Else {PASSWORD_VARIABLE} of the environment.",
        ),
    ] = None,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", help="Statements instead of a file.", metavar="SQL")
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            help="Demand TLS, with a certificate that this CA has signed or that is in this file, and that names the "
            "host. Without it TLS is used unverified.",
            metavar="FILE",
        ),
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How results are written.")] = Format.TABLE,
) -> None:
    """Run statements on the console of a slave or a master, and print what they answer.

    Ends with the first error, as the mysql client does. A statement that ends with \\G is printed one line a
    column. With --format json each result is one line: an array with an object a row.

    Example:

        dumpfilter sql --slave 127.0.0.1:3308 -e 'SHOW REPLICA STATUS\\G'
    """
    import sys

    from dumpfilter.console.script import script_statements

    host, port = _address(slave, master)
    password = read_password(password_file, PASSWORD_VARIABLE)
    if execute is not None:
        text = execute
    elif script == "-":
        text = sys.stdin.read()
    else:
        text = Path(script).read_text("utf-8")
    statements = list(script_statements(text))
    context = None
    if tls_ca is not None:
        from dumpfilter.security.tls import client_context

        context = client_context(tls_ca)
    if not _run(host, port, user, password, context, statements, format_):
        raise typer.Exit(1)


def _run(
    host: str,
    port: int,
    user: str,
    password: str,
    context: ssl.SSLContext | None,
    statements: Sequence[ScriptStatement],
    format_: Format,
) -> bool:
    """Whether all went well; the first error is printed as the mysql client prints it."""
    import pymysql

    line = 0
    try:
        with pymysql.connect(
            host=host,
            port=port,
            user=user,
            password=password,
            charset="utf8mb4",
            autocommit=None,
            connect_timeout=_CONNECT_SECONDS,
            conv=_decoders(),
            ssl=context,  # None: TLS if the console has it
        ) as connection:
            for statement in statements:
                line = statement.line
                with connection.cursor() as cursor:
                    cursor.execute(statement.text)
                    _print(
                        cursor,
                        Format.VERTICAL if statement.vertical and format_ is not Format.JSON else format_,
                    )
    except pymysql.err.Error as error:
        number, message = (*error.args, "")[:2] if error.args else (2013, "")
        if not isinstance(number, int) or number in _CLIENT_ERRORS or not number:
            raise ConnectionLost(f"{host}:{port}: {message or error}") from error
        where = f" at line {line}" if line else ""
        typer.echo(f"ERROR {number} ({error.sqlstate or 'HY000'}){where}: {message}", err=True)
        return False
    return True


def _print(cursor: Any, format_: Format) -> None:
    from pymysql.constants import FIELD_TYPE

    from dumpfilter.console.rendering import render

    if cursor.description is None:
        return
    names = [entry[0] for entry in cursor.description]
    numeric = [
        entry[1] in (FIELD_TYPE.LONGLONG, FIELD_TYPE.LONG, FIELD_TYPE.DOUBLE) for entry in cursor.description
    ]
    typer.echo(render(format_, names, numeric, cursor.fetchall()), nl=False)


def _decoders() -> dict[int, type]:
    """Numbers are numbers; everything else is shown as the server wrote it."""
    from pymysql.constants import FIELD_TYPE

    integers = dict.fromkeys((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG), int)
    return {**integers, FIELD_TYPE.DOUBLE: float, FIELD_TYPE.FLOAT: float}


def _address(slave: str, master: str) -> tuple[str, int]:
    given = [("--slave", slave), ("--master", master)]
    named = [(option, value) for option, value in given if value]
    if len(named) != 1:
        raise OptionError("give one of --slave=HOST:PORT and --master=HOST:PORT")
    option, value = named[0]
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise OptionError(f"{option}={value}: it is HOST:PORT")
    return host.strip("[]"), int(port)
