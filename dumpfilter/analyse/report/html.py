"""The frame of a report's HTML page, and the bars and line charts that all reports share.

Jinja escapes every value, because table names may contain HTML. Invisible characters in names are shown as escapes.
A content security policy allows only the page's own scripts, identified by digests, and no network requests.

Rows of bars (:class:`Bars`) are plain HTML, which needs no script. Charts (:class:`Chart`) are data for the script
``charts.js``, which draws them to fit the page's width. Colours are names of CSS custom properties.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jinja2
from markupsafe import Markup

from dumpfilter.analyse.report import text as T
from dumpfilter.base.compiler.extensions import writable
from dumpfilter.base.printable import visible

Json = dict[str, Any]
_Item = TypeVar("_Item")

LONGEST_LABEL = 60
"""The maximum length of a name in a tooltip, characters. Longer names are shortened."""


class Bar(NamedTuple):
    """A bar in a row of horizontal bars. ``start`` and ``end`` are fractions of the row's width."""

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
    """The text of the row's tooltip. It may have several lines."""
    bars: tuple[Bar, ...]
    count: int = 1
    """The number of items with equal values that this row represents."""
    warning: str = ""
    """The warnings about the item, one per line. A row with warnings has a mark that shows them as its tooltip."""


class Tick(NamedTuple):
    """A label of the axis under rows of bars. ``place`` is its position as a fraction of the width."""

    place: float
    text: str


class Bars(NamedTuple):
    """Rows of horizontal bars, and the labels of their common axis."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...] = ()


class Chart(NamedTuple):
    """A line chart. ``data`` is the input of ``charts.js``; the comment at the start of that script describes its
    format.
    """

    data: Json
    height: int
    names: tuple[str, ...] = ()
    """The names of the alternative data sets that the page's reader can choose. Empty if there is only one."""


def label(name: str) -> str:
    """Return a schema's or table's name for a chart's tooltip, shortened and with invisible characters escaped."""
    return T.shorten(visible(name), LONGEST_LABEL)


def byte_axis(top: float) -> tuple[Tick, ...]:
    """Return the axis ticks for rows of bars whose full width represents ``top`` bytes.

    The distance between ticks is a power of two. At most four ticks follow the tick at 0.

    >>> [tick.text for tick in byte_axis(1_400_000)], byte_axis(0)
    (['0', '512 KiB', '1 MiB'], (Tick(place=0.0, text='0'),))
    """
    step = 1
    while top / step >= 5:
        step *= 2
    ticks = range(0, int(top) + 1, step)
    return tuple(Tick(tick / (top or 1), T.human_bytes(tick) if tick else "0") for tick in ticks)


def head_and_rest(items: Sequence[_Item], most: int) -> tuple[list[_Item], list[_Item]]:
    """Divide ``items`` into the first ``most`` items and the rest, which a chart shows as one sum.

    A rest of one item joins the first items, because a sum of one item would only hide its name.
    """
    at = most if len(items) > most + 1 else most + 1
    return list(items[:at]), list(items[at:])


def exact_bytes(size: float) -> str:
    """Format a number of bytes in a rounded unit, followed by the number of bytes in parentheses, such as ``1.18 MiB
    (1,234,567 bytes)``. A size below 1024 bytes has no parentheses.
    """
    rounded = T.human_bytes(size if size >= 1024 else round(size))
    return f"{rounded} ({T.human_number(round(size))} bytes)" if size >= 1024 else rounded


@functools.cache
def _engine(package: str) -> jinja2.Environment:
    """Return the Jinja environment of a package's templates. It compiles each template once, and stores the result
    where Python stores compiled modules, because a compilation takes 0.1 s.
    """
    compiled = None
    with contextlib.suppress(OSError):
        compiled = jinja2.FileSystemBytecodeCache(str(writable(Path(__file__))))
    folders = [jinja2.PackageLoader(one, _TEMPLATES) for one in (package, str(__package__))]
    engine = jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=compiled,
        trim_blocks=True,
        lstrip_blocks=True,
        # Jinja applies this function to every value in the page, so that invisible characters are shown in every name.
        # Markup objects are left alone, because they are dumpfilter's own HTML.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    shown = "bytes rate percent seconds duration"
    engine.filters |= {name: getattr(T, f"human_{name}") for name in shown.split()}
    engine.filters |= {"exactly": T.human_number, "utc": T.utc}
    engine.globals["share"] = T.share
    return engine


def render(
    package: str,
    template: str,
    filters: Mapping[str, Callable[..., str]],
    charts: Mapping[str, Chart | None],
    **values: Any,
) -> str:
    """Return the HTML text of a report's page. ``template`` is the name of a Jinja template, a file in the folder
    ``template`` of the Python package ``package``. The template may import templates of
    :mod:`dumpfilter.analyse.report`.

    ``charts`` has the line charts by name; None stands for a chart that the page does not have. ``filters`` are further
    Jinja filters by name, and ``values`` the variables of the template.
    """
    engine = _engine(package)
    engine.filters |= filters
    drawn = {name: chart.data for name, chart in charts.items() if chart is not None}
    scripts = [_asset("page.js")] + ([_asset("charts.js")] if drawn else [])
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    return engine.get_template(template).render(
        data={"charts": drawn},
        charts=charts,
        css=_asset("page.css"),
        scripts=scripts,
        # The content security policy of the page allows these scripts.
        script_digests=[f"sha256-{base64.b64encode(one).decode()}" for one in digests],
        **values,
    )


_TEMPLATES = "template"


def _asset(name: str) -> Markup:
    return Markup(resources.files(__package__).joinpath(_TEMPLATES, name).read_text("utf-8"))
