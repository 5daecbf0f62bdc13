"""The heat map of the bytes that each slave receives of each database table, a table with coloured cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dumpfilter.report.figures import exact_bytes, head_and_rest, label
from dumpfilter.report.text import human_bytes
from dumpfilter.spark_jobs.bandwidth.report.groups import Group, by_traffic, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results, TableFigures

MOST_COLUMNS = 24
"""The largest number of slaves, or of groups of equal slaves, that have a column."""
MOST_ROWS = 30
"""The largest number of database tables with a row of their own."""
COLOURS = 5
"""The number of colours of cells."""
_MOST_FACTOR = 4
"""The largest factor between the limits of two colours. Without it a few cells with hardly any bytes would leave only
the darkest colour for all others."""


@dataclass(frozen=True)
class Cell:
    """The bytes that a slave receives of a table."""

    bytes: int
    colour: int | None
    """The number of the colour, from 0 for few bytes; None for no bytes."""
    tip: str


@dataclass(frozen=True)
class HeatMap:
    """The cells, line by line, with the names of lines and columns."""

    columns: tuple[Group, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    limits: tuple[float, ...]
    """The bytes up to which each colour goes."""


def heat_map(results: Results) -> HeatMap | None:
    """Return the heat map of tables by slaves, with the filters on the master.

    Each colour stands for a factor of bytes, since tables differ by orders of magnitude. Return None if no slave
    receives any event of a table.
    """
    groups = by_traffic(groups_of(results))[:MOST_COLUMNS]
    tables, other_tables = head_and_rest(results.tables, MOST_ROWS)
    rows: list[tuple[str, Sequence[TableFigures]]] = [(table.name, [table]) for table in tables]
    if other_tables:
        rows.append((f"{len(other_tables)} others", other_tables))
    received = [{part.table: part.bytes for part in group.figures.tables} for group in groups]
    sizes = [[sum(one.get(table.name, 0) for table in some) for one in received] for _, some in rows]
    positive = [size for line in sizes for size in line if size]
    if not positive:
        return None
    low, high = math.log(min(positive)), math.log(max(positive))
    step = min((high - low) / COLOURS or 1.0, math.log(_MOST_FACTOR))
    low = high - step * COLOURS

    def cell(row: str, column: Group, size: int) -> Cell:
        if not size:
            return Cell(0, None, f"{label(row)}\nnot sent to {label(column.name)}")
        colour = min(max(int((math.log(size) - low) / step), 0), COLOURS - 1)
        return Cell(size, colour, f"{label(row)}\nto {label(column.name)}\n{exact_bytes(size)}")

    return HeatMap(
        tuple(groups),
        tuple(
            (name, tuple(cell(name, column, size) for column, size in zip(groups, line, strict=True)))
            for (name, _), line in zip(rows, sizes, strict=True)
        ),
        tuple(math.exp(low + step * (n + 1)) for n in range(COLOURS)),
    )


def limit_texts(heat: HeatMap) -> list[str]:
    """Return the legend's text for each colour."""
    return [f"≤ {human_bytes(round(limit))}" for limit in heat.limits]
