"""The command ``dumpfilter sql``, which runs SQL statements on the console of a master or a slave."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dumpfilter.commands.option_groups.logins import parse_address, read_password
from dumpfilter.console.rendering import Format
from dumpfilter.errors import OptionError
from dumpfilter.options.settings import Settings, setting
from dumpfilter.printable import for_terminal

if TYPE_CHECKING:
    from dumpfilter.security.guarded_client import Login

PASSWORD_VARIABLE = "DUMPFILTER_PASSWORD"


class SqlSettings(Settings):
    """The options of ``dumpfilter sql``."""

    script: str = setting("-", metavar="[FILE]", is_argument=True)
    """A file of statements; '-' or nothing is the standard input."""
    slave: str = setting("", metavar="HOST:PORT")
    """The console of a slave."""
    console: str = setting("", metavar="HOST:PORT")
    """The console of a master."""
    user: str = setting("root", "--user", "-u")
    """The user."""
    password_file: Path | None = setting(None, "--password-file", "-p")
    """A file whose first line is the password. Without it the password is that of the environment variable
    DUMPFILTER_PASSWORD."""
    execute: str | None = setting(None, "--execute", "-e", metavar="SQL")
    """Statements instead of a file."""
    tls_ca: Path | None = setting(None, metavar="FILE")
    """Demand TLS, with a certificate that this CA has signed or that is in this file, and that names the host. Without
    it TLS is used unverified."""
    form: Format | None = setting(None, "--format")
    """How results are written. Without it: table, and vertical on a terminal that is too narrow."""


def sql_command(given: SqlSettings) -> None:
    r"""Run statements on the console of a slave or a master, and print what they answer.

    The script ends at the first error, as in the mysql client.

    A statement that ends with \G prints its result with one line for each column.

    With --format json each result is one line: an array with an object for each row.

    Example:

        dumpfilter sql --slave 127.0.0.1:3308 -e 'SHOW REPLICA STATUS\G'
    """
    from dumpfilter.console.client import console_login

    named = {"--slave": given.slave, "--console": given.console}
    addresses = [(option, address) for option, address in named.items() if address]
    if len(addresses) != 1:
        raise OptionError("give one of --slave=HOST:PORT and --console=HOST:PORT")
    host, port = parse_address(*addresses[0])
    password = read_password(given.password_file, PASSWORD_VARIABLE)
    script = given.execute
    if script is None:
        script = sys.stdin.read() if given.script == "-" else _script(Path(given.script))
    print_results(console_login(host, port, given.user, password, given.tls_ca), script, given.form)


def print_results(login: Login, script: str, format_: Format | None, name: str = "") -> None:
    """Run a script of statements, and print what they answer.

    With a format of None, tables that are too wide for the terminal are printed vertically. ``name`` names the server
    in errors. Raises typer.Exit at the first statement that the server refuses.
    """
    from dumpfilter.console.client import StatementFailed, run_statements
    from dumpfilter.console.rendering import render, render_within
    from dumpfilter.console.script import script_statements

    try:
        for result in run_statements(login, list(script_statements(script))):
            answer = result.names, result.is_numeric, result.rows
            if result.statement.vertical and format_ is not Format.JSON:
                text = render(Format.VERTICAL, *answer)
            elif format_ is None and sys.stdout.isatty():
                text = render_within(shutil.get_terminal_size().columns, *answer)
            else:
                text = render(format_ or Format.TABLE, *answer)
            # Slaves choose their own host names and channels, which a console shows. Programs get them unchanged.
            typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
    except StatementFailed as error:
        typer.echo(for_terminal(f"{name}: {error}" if name else str(error)), err=True)
        raise typer.Exit(1) from None


def _script(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: cannot be read: {error}; save the script as UTF-8") from None
