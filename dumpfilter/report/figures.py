"""The parts of plots that all reports share: axes, rows of bars, names, and the look.

A figure has the arguments of ``Plotly.newPlot`` (``data`` and ``layout``), and ``narrow``, the changes of the layout
for a narrow screen. Colours are CSS custom properties (``var(--…)``). The page resolves these properties when it draws,
so a plot follows the page's colour scheme. Names pass through :func:`label`, because plotly reads HTML tags in texts.
Axes of names are numeric with texts at their ticks, because plotly would take a table named ``2024-01-01`` for a date.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dumpfilter.printable import visible
from dumpfilter.report.text import human_bytes, human_number, human_seconds, shorten

Json = dict[str, Any]
_Item = TypeVar("_Item")

DATES = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S\n%Y-%m-%d"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M\n%Y-%m-%d"},
    {"dtickrange": [86_400_000, "M1"], "value": "%m-%d\n%Y"},
    {"dtickrange": ["M1", None], "value": "%Y-%m"},
]
"""The formats of times at the time axis, which plotly chooses by the distance between two ticks."""
WIDE, NARROW = 32, 15
"""The largest number of characters of a name beside a plot, on a wide and on a narrow screen."""


@dataclass(frozen=True)
class Plot:
    """A figure for plotly.js, with its height and its least and greatest width in pixels. On a narrower screen the plot
    scrolls."""

    figure: Json
    height: int
    min_width: int = 0
    max_width: int | None = None


def label(name: str, most: int) -> str:
    """Return a slave's or table's name as a text that plotly shows literally, shortened to ``most`` characters.

    HTML in the name is escaped, because plotly would interpret tags.
    """
    return html.escape(shorten(visible(name), most), quote=False)


def byte_ticks(top: float, most: int = 6) -> list[int]:
    """Return the positions of an axis's ticks, from 0 up to at most ``top`` bytes.

    The distance between ticks is a power of two. At most ``most`` ticks follow the tick at 0.

    >>> byte_ticks(1_400_000), byte_ticks(0)
    ([0, 262144, 524288, 786432, 1048576, 1310720], [0])
    """
    step = 1
    while top / step >= most + 1:
        step *= 2
    return list(range(0, int(top) + 1, step))


def head_and_rest(items: Sequence[_Item], most: int) -> tuple[list[_Item], list[_Item]]:
    """Divide a list into its first ``most`` items and the rest, which a plot shows as one sum.

    A rest of only one item joins the first items, because a sum of one item would hide its name.
    """
    at = most if len(items) > most + 1 else most + 1
    return list(items[:at]), list(items[at:])


def exact_bytes(size: float) -> str:
    """Format a number of bytes for people, with the exact number."""
    return (
        f"{human_bytes(size)} ({human_number(round(size))} bytes)"
        if size >= 1024
        else human_bytes(round(size))
    )


def side_of_mark(place: float) -> str:
    """Return plotly's name for the side of a mark where its text fits into the plot.

    ``place`` is the mark's horizontal position, 0 at the left edge and 1 at the right edge.
    """
    return "top right" if place < 0.25 else "top left" if place > 0.75 else "top center"


def layout_of_plot() -> Json:
    """Return the look that all plots share."""
    clear = "rgba(0,0,0,0)"
    family = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
    return {
        "autosize": True,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": {
            "family": family,
            "size": 13,
            "color": "var(--text)",
        },
        "hoverlabel": {
            "align": "left",
            "bgcolor": "var(--card)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--text)"},
        },
        "hovermode": "closest",
        "dragmode": False,
        "showlegend": False,
        "barmode": "overlay",
    }


def plain_axis() -> Json:
    """Return the look that all axes share."""
    look = {"gridcolor": "var(--line)", "tickfont": {"color": "var(--muted)", "size": 12}}
    return {
        **look,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        "ticks": "",
        "ticklabelstandoff": 4,
    }


def bytes_axis(top: float, suffix: str = "", most: int = 6) -> Json:
    """Return an axis of bytes from 0 to a little more than ``top``, so that a mark at ``top`` is not cut off."""
    ticks = byte_ticks(top, most)
    texts = [human_bytes(tick) + suffix if tick else "0" for tick in ticks]
    return {**plain_axis(), "range": [0, (top or 1) * 1.04], "tickvals": ticks, "ticktext": texts}


def seconds_axis(top: float, most: int) -> Json:
    """Return an axis of seconds from 0 to a little more than ``top``, with at most ``most`` ticks after 0."""
    unit = 1 if top < 100 else 60 if top < 7200 else 3600
    scale = unit * 10.0 ** math.floor(math.log10(top / unit or 1))
    step = next(scale * part for part in (0.1, 0.2, 0.5, 1, 2, 5) if top / (scale * part) < most + 1)
    ticks = [step * n for n in range(int(top / step) + 1)]
    limits = {"range": [0, (top or 1) * 1.02], "tickvals": ticks}
    return {**plain_axis(), **limits, "ticktext": [human_seconds(tick) for tick in ticks]}


def name_axis(names: Sequence[str], most: int) -> Json:
    """Return an axis with a row for each name. Names are shortened to ``most`` characters."""
    places = list(range(len(names)))
    texts = {"tickvals": places, "ticktext": [label(name, most) for name in names]}
    return {**plain_axis(), **texts, "range": [len(names) - 0.5, -0.5], "showgrid": False}


def hover_texts(texts: Sequence[str]) -> Json:
    """Return the part of a trace that shows a text beside the pointer for each mark."""
    return {"hovertext": list(texts), "hoverinfo": "text"}


def bars_of_rows(
    rows: list[int],
    values: list[float],
    thickness: float,
    colour: str | list[str],
    hover: list[str],
    **more: Any,
) -> Json:
    """Return horizontal bars, one in each row, ``thickness`` of a row high."""
    shape = {"type": "bar", "orientation": "h", "x": values, "y": rows, "width": thickness}
    return {**shape, "marker": {"color": colour, "line": {"width": 0}}, **hover_texts(hover), **more}


def rows_plot(
    data: list[Json], texts: tuple[list[str], list[str], list[str]], axes: tuple[Json, Json], room: int
) -> Plot:
    """Return a plot with one row for each name. A row is ``room`` pixels high.

    ``texts`` has the names at the left, the texts at the right, and shorter texts for the right of a narrow screen.
    ``axes`` has the axis of values for a wide screen, and the axis of values for a narrow screen.
    """
    names, right, narrow_right = texts
    layout = layout_of_plot()
    right_axis = {**name_axis(right, WIDE), "side": "right", "overlaying": "y"}
    right_axis["tickfont"] = {"color": "var(--text)", "size": 12}
    layout["margin"] = {"l": 8, "r": 8, "t": 8, "b": 32}
    layout |= {
        "xaxis": {**axes[0], "automargin": False},
        "yaxis": name_axis(names, WIDE),
        "yaxis2": right_axis,
    }
    small = {"tickfont": {"size": 11}}
    narrow = {
        "xaxis": {"tickvals": axes[1]["tickvals"], "ticktext": axes[1]["ticktext"], **small},
        "yaxis": {"ticktext": [label(name, NARROW) for name in names], **small},
        "yaxis2": {"ticktext": [label(text, NARROW) for text in narrow_right], **small},
    }
    return Plot({"data": data, "layout": layout, "narrow": narrow}, height=room * len(names) + 40)
