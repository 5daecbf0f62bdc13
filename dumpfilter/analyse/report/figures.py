"""Bars and line charts, which all reports share.

Rows of bars (:class:`Bars`) are plain HTML, which needs no script. Charts (:class:`Chart`) are data for the script
``charts.js``, which draws them to fit the page's width. Colours are names of CSS custom properties.
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
"""The maximum length of a name in a tooltip, characters. Longer names are shortened."""


@dataclass(frozen=True)
class Bar:
    """A bar in a row. ``start`` and ``end`` are fractions of the row's width."""

    start: float
    end: float
    colour: str
    height: int
    """The height of the bar as a percentage of the row's height."""


@dataclass(frozen=True)
class Row:
    """One row of bars, with a name on the left and a text on the right."""

    name: str
    text: str
    tip: str
    """The tooltip. It may have several lines."""
    bars: tuple[Bar, ...]
    count: int = 1
    """The number of items with equal values that this row represents."""
    warning: str = ""
    """The warnings about the item, one per line. A row with warnings has a mark that shows them as its tooltip."""


@dataclass(frozen=True)
class Tick:
    """A label of the axis under rows of bars. ``place`` is its position as a fraction of the width."""

    place: float
    text: str


@dataclass(frozen=True)
class Bars:
    """Rows of horizontal bars with a common axis."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A line chart. ``data`` is the input of ``charts.js``; the comment at the start of that script describes its
    format.
    """

    data: Json
    height: int
    names: tuple[str, ...] = ()
    """The names of the alternative data sets that the page's reader can choose. Empty if there is only one."""


def label(name: str) -> str:
    """Return a schema's or table's name for a chart's tooltip, shortened and with invisible characters escaped."""
    return shorten(visible(name), LONGEST_LABEL)


def byte_ticks(top: float, most: int = 6) -> list[int]:
    """Return the positions of an axis's ticks in bytes, from 0 to at most ``top``.

    The distance between ticks is a power of two. At most ``most`` ticks follow the tick at 0.

    >>> byte_ticks(1_400_000), byte_ticks(0)
    ([0, 262144, 524288, 786432, 1048576, 1310720], [0])
    """
    step = 1
    while top / step >= most + 1:
        step *= 2
    return list(range(0, int(top) + 1, step))


def byte_axis(top: float) -> tuple[Tick, ...]:
    """Return the axis ticks for rows of bars whose full width represents ``top`` bytes."""
    return tuple(
        Tick(tick / (top or 1), human_bytes(tick) if tick else "0") for tick in byte_ticks(top, most=4)
    )


def head_and_rest(items: Sequence[_Item], most: int) -> tuple[list[_Item], list[_Item]]:
    """Divide ``items`` into the first ``most`` items and the rest, which a chart shows as one sum.

    A rest of one item joins the first items, because a sum of one item would only hide its name.
    """
    at = most if len(items) > most + 1 else most + 1
    return list(items[:at]), list(items[at:])


def exact_bytes(size: float) -> str:
    """Format a number of bytes in a rounded unit, followed by the exact number in parentheses."""
    return (
        f"{human_bytes(size)} ({human_number(round(size))} bytes)"
        if size >= 1024
        else human_bytes(round(size))
    )
