"""The output functions of all commands: :func:`table` for people, :func:`print_json` for programs, and :func:`warn`.

Names of schemas, tables and files may contain control characters, which could control a terminal. A cell or warning
given as ``str`` is therefore escaped here, and never parsed as Rich markup. A cell with a style is given as
:class:`rich.text.Text`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dumpfilter.base.printable import visible

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Rich takes longer to import than JSON takes to print.
Cell: TypeAlias = "str | Text"


def table(
    heads: Iterable[Cell],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
    framed: bool = True,
) -> Table:
    """Return a table for :meth:`rich.console.Console.print`.

    Columns whose head is in ``numbers`` are right-aligned and never wrapped. Columns whose head is in ``whole`` are
    never wrapped either. Other cells are wrapped if the table is wider than the terminal. Line breaks in a cell are
    kept. Without ``framed`` the table has no lines around it.
    """
    from rich.table import Table

    form: dict[str, Any] = {} if framed else {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    made = Table(
        title=text(title) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        **form,
    )
    for head in heads:
        is_number = str(head) in numbers
        made.add_column(
            text(head),
            justify="right" if is_number else "left",
            no_wrap=is_number or str(head) in whole,
            overflow="ignore" if str(head) in whole else "fold",
        )
    for row in rows:
        made.add_row(*map(text, row))
    return made


def text(cell: Cell) -> Text:
    """Return a table cell as a Rich text. Invisible characters of a plain ``str`` are escaped."""
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text("\n".join(map(visible, cell.split("\n"))))


_WIDE = 10_000
"""The line width for output to a pipe, characters. No line of a table is as long, so that none is wrapped."""


def output_console() -> Console:
    """Return a console on standard output. In a pipe no cell is wrapped, so that programs can search each row."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def warn(console: Console, warning: str) -> None:
    """Print a warning. On a terminal it is wrapped. In a pipe it is one line, so that programs can search it."""
    from rich.text import Text

    said = Text.assemble(("warning:", "yellow"), " ", visible(warning))
    console.print(said, soft_wrap=not console.is_terminal)


def print_json(value: BaseModel | dict[str, Any], *, indent: int | None = 1) -> None:
    """Print a result to standard output as a JSON document. ``indent`` None: the document is one line."""
    if isinstance(value, dict):
        print(json.dumps(value, indent=indent))
    else:
        print(value.model_dump_json(indent=indent))
    sys.stdout.flush()
