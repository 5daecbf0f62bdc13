"""The printing of result sets, in the formats of the ``mysql`` client and in JSON for programs."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from dumpfilter.console.sql.result import text_of

Row = Sequence[Any]


class Format(enum.StrEnum):
    r"""The format in which result sets are printed.

    TABLE has frames, as in the ``mysql`` client. VERTICAL has one line for each column (``\G``). TSV separates values
    by tabs.
    """

    TABLE = "table"
    VERTICAL = "vertical"
    TSV = "tsv"
    JSON = "json"


def render(format_: Format, names: Sequence[str], numeric: Sequence[bool], rows: Sequence[Row]) -> str:
    """Return one result set as the text to print.

    ``names`` has the name of each column, and ``numeric`` tells for each column whether to align it to the right. A
    result set without rows gives an empty text, but TSV prints the column names and JSON prints ``[]``.
    """
    match format_:
        case Format.TABLE:
            lines = _table(names, numeric, rows) if rows else iter(())
        case Format.VERTICAL:
            lines = _vertical(names, rows)
        case Format.TSV:
            lines = ("\t".join(map(_escaped, row)) for row in [names, *rows])
        case Format.JSON:
            lines = iter(
                [json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)]
            )
    return "".join(f"{line}\n" for line in lines)


def render_within(width: int, names: Sequence[str], numeric: Sequence[bool], rows: Sequence[Row]) -> str:
    """Return one result set as a table, or with one line for each column if the table is wider than ``width``
    characters.
    """
    table = render(Format.TABLE, names, numeric, rows)
    fits = cell_len(table.partition("\n")[0]) <= width
    return table if fits else render(Format.VERTICAL, names, numeric, rows)


def _text(value: Any) -> str:
    return "NULL" if value is None else text_of(value)


def _table(names: Sequence[str], numeric: Sequence[bool], rows: Sequence[Row]) -> Iterator[str]:
    cells = [[_text(value) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def line(row: Sequence[str], right: Sequence[bool]) -> str:
        padded = (
            " " * (width - cell_len(cell)) + cell if to_right else cell + " " * (width - cell_len(cell))
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    yield rule
    yield line(list(names), [False] * len(names))
    yield rule
    for row in cells:
        yield line(row, numeric)
    yield rule


def _vertical(names: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    indent = max(map(cell_len, names), default=0)
    for number, row in enumerate(rows, 1):
        yield f"{'*' * 27} {number}. row {'*' * 27}"
        for name, value in zip(names, row, strict=True):
            yield f"{' ' * (indent - cell_len(name))}{name}: {_text(value)}"


def _escaped(value: Any) -> str:
    return _text(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\0", "\\0")
