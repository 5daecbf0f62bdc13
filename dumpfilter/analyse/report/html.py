"""The frame of a report's HTML page: the template engine, the style, and the scripts with their digests.

Jinja escapes every value, because table names may contain HTML. Invisible characters in names are shown as escapes.
A content security policy allows only the page's own scripts, identified by digests, and no network requests.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from dumpfilter.analyse.report.figures import Chart
from dumpfilter.analyse.report.text import (
    human_bytes,
    human_duration,
    human_number,
    human_percent,
    human_rate,
    human_seconds,
    share,
    utc,
)
from dumpfilter.base.printable import visible

_TEMPLATES = "template"


@functools.cache
def environment(package: str) -> jinja2.Environment:
    """Return the Jinja environment of a report. Its templates are in the folder ``template`` of ``package`` and of
    this package.
    """
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package, _TEMPLATES), jinja2.PackageLoader(__package__, _TEMPLATES)]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Jinja applies this function to every value in the page, so that invisible characters are shown in every name.
        # Markup objects are left alone, because they are dumpfilter's own HTML.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    found.filters |= {
        "bytes": human_bytes,
        "exactly": human_number,
        "rate": human_rate,
        "percent": human_percent,
        "seconds": human_seconds,
        "duration": human_duration,
        "utc": utc,
    }
    found.globals["share"] = share
    return found


def page_parts(charts: Mapping[str, Chart | None]) -> dict[str, Any]:
    """Return the variables that every page's template needs, by name.

    ``charts`` has the line charts by name; None stands for a chart that the page does not have.
    """
    drawn = {name: chart for name, chart in charts.items() if chart is not None}
    scripts = [_asset("page.js")] + ([_asset("charts.js")] if drawn else [])
    return {
        "data": {"charts": {name: chart.data for name, chart in drawn.items()}},
        "charts": charts,
        "css": Markup(_asset("page.css")),
        "scripts": [Markup(text) for text in scripts],
        "script_digests": [_digest(text) for text in scripts],
    }


@functools.cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(_TEMPLATES, name).read_text("utf-8")


@functools.cache
def _digest(script: str) -> str:
    """Return the SHA-256 digest of a script in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
