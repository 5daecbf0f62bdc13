"""The heat map of the bytes that each slave receives of each database table, a table with coloured cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dumpfilter.report.figures import exact_bytes, head_and_rest, label
from dumpfilter.report.text import human_bytes
from dumpfilter.spark_jobs.bandwidth.report.groups import by_traffic, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures, TableFigures

MOST_COLUMNS = 24
"""The largest number of slaves, or of groups of equal slaves, with a column of their own."""
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

    bytes: float
    colour: int | None
    """The number of the colour, from 0 for few bytes; None for no bytes."""
    tip: str


@dataclass(frozen=True)
class Column:
    """The head of a column: a slave, a group of equal slaves, or all other slaves."""

    name: str
    count: int


@dataclass(frozen=True)
class HeatMap:
    """The cells, line by line, with the names of lines and columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    limits: tuple[float, ...]
    """The bytes up to which each colour goes."""


def heat_map(results: Results) -> HeatMap | None:
    """Return the heat map of tables by slaves, with the filters on the master.

    Each colour stands for a factor of bytes, since tables differ by orders of magnitude. Return None if no slave
    receives any event of a table.
    """
    groups, others = head_and_rest(by_traffic(groups_of(results)), MOST_COLUMNS)
    tables, other_tables = head_and_rest(results.tables, MOST_ROWS)
    columns = [(Column(group.name, group.count), [group.figures]) for group in groups]
    if others:
        slaves = [member for group in others for member in group.members]
        columns.append((Column(f"mean of {len(slaves)} others", 1), slaves))
    rows: list[tuple[str, Sequence[TableFigures]]] = [(table.name, [table]) for table in tables]
    if other_tables:
        rows.append((f"{len(other_tables)} others", other_tables))
    of_slave = {slave.name: {part.table: part.bytes for part in slave.tables} for slave in results.slaves}
    sizes = [[_mean(of_slave, slaves, some) for _, slaves in columns] for _, some in rows]
    positive = [size for line in sizes for size in line if size]
    if not positive:
        return None
    low, high = math.log(min(positive)), math.log(max(positive))
    step = min((high - low) / COLOURS or 1.0, math.log(_MOST_FACTOR))
    low = high - step * COLOURS

    def cell(row: str, column: Column, size: float) -> Cell:
        if not size:
            return Cell(0, None, f"{label(row)}\nnot sent to {label(column.name)}")
        colour = min(max(int((math.log(size) - low) / step), 0), COLOURS - 1)
        return Cell(size, colour, f"{label(row)}\nto {label(column.name)}\n{exact_bytes(size)}")

    return HeatMap(
        tuple(column for column, _ in columns),
        tuple(
            (name, tuple(cell(name, column, size) for (column, _), size in zip(columns, line, strict=True)))
            for (name, _), line in zip(rows, sizes, strict=True)
        ),
        tuple(math.exp(low + step * (n + 1)) for n in range(COLOURS)),
    )


def limit_texts(heat: HeatMap) -> list[str]:
    """Return the legend's text for each colour."""
    return [f"≤ {human_bytes(round(limit))}" for limit in heat.limits]


def _mean(
    of_slave: Mapping[str, Mapping[str, int]], slaves: Iterable[SlaveFigures], tables: Sequence[TableFigures]
) -> float:
    sums = [sum(of_slave[slave.name].get(table.name, 0) for table in tables) for slave in slaves]
    return sum(sums) / len(sums)
