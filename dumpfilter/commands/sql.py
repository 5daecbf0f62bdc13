"""The command ``dumpfilter sql``, which runs SQL statements on the console of a master or a slave."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.option_groups.asked import ConsoleLogin
from dumpfilter.console.rendering import Format

if TYPE_CHECKING:
    from dumpfilter.base.security.guarded_client import Login


class SqlSettings(Settings):
    """The SQL statements that ``dumpfilter sql`` runs, and the format of their results."""

    script: str = setting("-", metavar="[FILE]", is_argument=True)
    """A file of statements; '-' or nothing is the standard input."""
    execute: str | None = setting(None, "--execute", "-e", metavar="SQL")
    """Statements instead of a file."""
    form: Format | None = setting(None, "--format")
    """How results are written. Without it: table, and vertical on a terminal that is too narrow."""


def sql_command(asked: ConsoleLogin, given: SqlSettings) -> None:
    r"""Run statements on the console of a slave or a master, and print what they answer.

    The script ends at the first error, as in the mysql client.

    A statement that ends with \G prints its result with one line for each column.

    With --format json each result is one line: an array with an object for each row.

    Example:

        dumpfilter sql --slave 127.0.0.1:3308 -e 'SHOW REPLICA STATUS\G'
    """
    login = asked.login()
    if login is None or (asked.slave and asked.console):
        raise OptionError("give one of --slave=HOST:PORT and --console=HOST:PORT")
    script = given.execute
    if script is None:
        script = sys.stdin.read() if given.script == "-" else _script(Path(given.script))
    print_results(login, script, given.form)


def print_results(login: Login, script: str, format_: Format | None, name: str = "") -> None:
    """Run a script of SQL statements on the console of a master or slave, and print their results.

    ``login`` has the console's address and user. With ``format_`` None, results are tables, or vertical if too wide for
    the terminal. ``name`` is the server's name in errors. Raises typer.Exit at the first statement that the server
    refuses.
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
