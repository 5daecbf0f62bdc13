"""The command ``dumpfilter sql``, which runs SQL statements on the console of a master or a slave.

Results are printed in the formats of the ``mysql`` client, and in JSON for programs.
"""

from __future__ import annotations

import enum
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands import option_groups as shared
from dumpfilter.console.sql.result import text_of

if TYPE_CHECKING:
    from dumpfilter.base.security.guarded_client import Login

Row = Sequence[Any]


class Format(enum.StrEnum):
    r"""The formats in which result sets are printed.

    TABLE has frames, as in the ``mysql`` client. VERTICAL has one line for each column (``\G``). TSV separates values
    by tabs. JSON has an array with an object for each row.
    """

    TABLE = "table"
    VERTICAL = "vertical"
    TSV = "tsv"
    JSON = "json"


class SqlSettings(Settings):
    """The SQL statements that ``dumpfilter sql`` runs, and the format of their results."""

    execute: str | None = setting(None, "--execute", "-e", metavar="SQL")
    """Run these statements. Without this option they are read from standard input."""
    form: Format | None = setting(None, "--format")
    """How results are written. Without it: table, and vertical on a terminal that is too narrow."""

    def run(self, login: Login, name: str = "") -> None:
        """Run the statements at ``login``, the console (a port for MySQL clients) of a master or slave, and print their
        results.

        ``name`` is the server's name in errors. Raises typer.Exit at the first statement that the server refuses, and
        OptionError if standard input is not UTF-8.
        """
        from dumpfilter.console.client import StatementFailed, run_statements, script_statements

        try:
            script = sys.stdin.read() if self.execute is None else self.execute
            for result in run_statements(login, list(script_statements(script))):
                is_vertical = result.statement.vertical and self.form is not Format.JSON
                form = Format.VERTICAL if is_vertical else self.form
                text = render(form, result.names, result.is_numeric, result.rows, terminal_width())
                # Slaves choose their own host names and channels, which a console shows. Programs get them unchanged.
                typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
        except UnicodeDecodeError as error:
            raise OptionError(f"standard input: cannot be read: {error}; save the script as UTF-8") from None
        except StatementFailed as error:
            typer.echo(for_terminal(f"{name}: {error}" if name else str(error)), err=True)
            raise typer.Exit(1) from None


def sql_command(asked: shared.ConsoleLogin, given: SqlSettings) -> None:
    r"""Run statements on the console of a slave or a master, and print what they answer.

    The script ends at the first error, as in the mysql client.

    A statement that ends with \G prints its result with one line for each column.

    With --format json each result is one line: an array with an object for each row.

    Examples:

        dumpfilter sql --slave 127.0.0.1:3308 -e 'SHOW REPLICA STATUS\G'

        dumpfilter sql --slave 127.0.0.1:3308 < script.sql
    """
    login = asked.login()
    if login is None or (asked.slave and asked.console):
        raise OptionError("give one of --slave=HOST:PORT and --console=HOST:PORT")
    given.run(login)


def terminal_width() -> float:
    """Return the width of the terminal, columns. A pipe has a width only if COLUMNS is set, as by ``watch``."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if has_width else math.inf


def render(
    format_: Format | None,
    names: Sequence[str],
    numeric: Sequence[bool],
    rows: Sequence[Row],
    width: float = math.inf,
) -> str:
    """Return one result set as the text to print. Without ``format_`` the text is a table, or has one line for each
    column if the table is wider than ``width`` characters.

    ``names`` has the name of each column, and ``numeric`` tells for each column whether to align it to the right. A
    result set without rows gives an empty text, but TSV prints the column names and JSON prints ``[]``.
    """
    match format_:
        case Format.VERTICAL:
            lines = _vertical(names, rows)
        case Format.TSV:
            lines = ("\t".join(map(_escaped, row)) for row in [names, *rows])
        case Format.JSON:
            lines = iter(
                [json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)]
            )
        case _:
            table = _table(names, numeric, rows) if rows else []
            is_too_wide = format_ is None and cell_len("".join(table[:1])) > width
            lines = _vertical(names, rows) if is_too_wide else iter(table)
    return "".join(f"{line}\n" for line in lines)


def _text(value: Any) -> str:
    return "NULL" if value is None else text_of(value)


def _table(names: Sequence[str], numeric: Sequence[bool], rows: Sequence[Row]) -> list[str]:
    cells = [[_text(value) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    head = f"| {' | '.join(map(_padded, names, widths))} |"
    shown = (f"| {' | '.join(map(_padded, row, widths, numeric))} |" for row in cells)
    return [rule, head, rule, *shown, rule]


def _vertical(names: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        yield f"{'*' * 27} {number}. row {'*' * 27}"
        yield from aligned(names, row)


def aligned(names: Sequence[str], row: Row) -> Iterator[str]:
    """Yield one line ``name: value`` for each column of a row. The names are padded, so that all values begin in the
    same column of the terminal.
    """
    width = max(map(cell_len, names), default=0)
    for name, value in zip(names, row, strict=True):
        yield f"{_padded(name, width, True)}: {_text(value)}"


def _padded(text: str, width: int, to_right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return space + text if to_right else text + space


def _escaped(value: Any) -> str:
    return _text(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\0", "\\0")
