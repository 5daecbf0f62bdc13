"""The graphics that all reports share: rows of bars, and line charts.

Rows of bars (:class:`Bars`) are plain HTML, so that a page shows them without scripts. Charts (:class:`Chart`) are data
for the script ``charts.js``, which draws them for the width of the page. Colours are names of CSS custom properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dumpfilter.analyse.report.text import human_bytes, human_number, shorten
from dumpfilter.base.printable import visible

Json = dict[str, Any]
_Item = TypeVar("_Item")

LONGEST_LABEL = 60
"""The length to which names in tooltips are cut, characters."""


@dataclass(frozen=True)
class Bar:
    """A bar in a row, from ``start`` to ``end`` as fractions of the row's width."""

    start: float
    end: float
    colour: str
    height: int
    """The height of the bar as a part of the row's, percent."""


@dataclass(frozen=True)
class Mark:
    """A mark in a row, at the fraction ``place`` of the row's width. ``shape`` is a class of the style sheet."""

    place: float
    shape: str


@dataclass(frozen=True)
class Row:
    """One row of bars, with a name at the left and a text at the right."""

    name: str
    text: str
    tip: str
    """The tooltip, which may have several lines."""
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()
    count: int = 1
    """The number of equal items that the row stands for."""
    warning: str = ""
    """The warnings about the item, one a line. If there are any, the row has a mark with them as tooltip."""


@dataclass(frozen=True)
class Tick:
    """A label under the rows, at the fraction ``place`` of their width."""

    place: float
    text: str


@dataclass(frozen=True)
class Bars:
    """Rows of horizontal bars with a common axis."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A line chart. ``data`` is the input of ``charts.js``, whose head describes it."""

    data: Json
    height: int
    names: tuple[str, ...] = ()
    """The names of the alternatives that a reader of the page can choose. A chart with only one has none."""


def label(name: str) -> str:
    """Return a name for a tooltip: shortened, with invisible characters escaped."""
    return shorten(visible(name), LONGEST_LABEL)


def byte_ticks(top: float, most: int = 6) -> list[int]:
    """Return the positions of an axis's ticks, bytes, from 0 up to at most ``top``.

    The distance between ticks is a power of two. At most ``most`` ticks follow the tick at 0.

    >>> byte_ticks(1_400_000), byte_ticks(0)
    ([0, 262144, 524288, 786432, 1048576, 1310720], [0])
    """
    step = 1
    while top / step >= most + 1:
        step *= 2
    return list(range(0, int(top) + 1, step))


def byte_axis(top: float) -> tuple[Tick, ...]:
    """Return the ticks under rows of bars whose full width is ``top`` bytes."""
    return tuple(
        Tick(tick / (top or 1), human_bytes(tick) if tick else "0") for tick in byte_ticks(top, most=4)
    )


def head_and_rest(items: Sequence[_Item], most: int) -> tuple[list[_Item], list[_Item]]:
    """Divide a list into its first ``most`` items and the rest, which a chart shows as one sum.

    A rest of only one item joins the first items, because a sum of one item would hide its name.
    """
    at = most if len(items) > most + 1 else most + 1
    return list(items[:at]), list(items[at:])


def exact_bytes(size: float) -> str:
    """Format a number of bytes for people in a rounded unit, followed by the exact number."""
    return (
        f"{human_bytes(size)} ({human_number(round(size))} bytes)"
        if size >= 1024
        else human_bytes(round(size))
    )
