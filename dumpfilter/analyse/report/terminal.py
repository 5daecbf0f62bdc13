"""The output of commands: :func:`table` for people, :func:`print_json` for programs, and :func:`warn`.

All commands print their tables and their JSON with these functions. Names of schemas, tables and files may have control
characters, which could command a terminal. A cell or a warning that is a plain text is therefore escaped here, and is
never read as Rich's markup. A cell with a style is a :class:`rich.text.Text`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dumpfilter.base.printable import visible

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

Cell = str | Text


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

    Columns whose head is in ``numbers`` are right-aligned and never broken. Those in ``whole`` are never broken either.
    The cells of other columns are folded if the table is wider than the terminal. Line breaks in a cell are kept.
    Without ``framed`` the table has no lines around it.
    """
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
    """Return a table cell for rich. Invisible characters of a plain ``str`` are escaped."""
    return cell if isinstance(cell, Text) else Text("\n".join(map(visible, cell.split("\n"))))


def warn(console: Console, warning: str) -> None:
    """Print a warning. On a terminal the text is wrapped. In a pipe it is one line, in which other programs can
    search.
    """
    said = Text.assemble(("warning:", "yellow"), " ", visible(warning))
    console.print(said, soft_wrap=not console.is_terminal)


def print_json(value: BaseModel | dict[str, Any], *, indent: int | None = 1) -> None:
    """Print a result as a JSON document to standard output. Without ``indent`` the document is one line."""
    if isinstance(value, dict):
        print(json.dumps(value, indent=indent))
    else:
        print(value.model_dump_json(indent=indent))
    sys.stdout.flush()
