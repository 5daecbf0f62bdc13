"""A summary for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Column, Table

DIGEST_SHOWN = 12
"""Hex digits of a digest that people get to see."""


def as_json(summary: Mapping[str, Any]) -> str:
    """``SummaryTarget.state()`` as JSON text, indented, names sorted; whole digests.

    >>> print(as_json({"tables": {}, "databases": {}}))
    {
      "databases": {},
      "tables": {}
    }
    """
    return json.dumps(summary, indent=2, sort_keys=True, ensure_ascii=False)


def as_table(summary: Mapping[str, Any]) -> Group:
    """``SummaryTarget.state()`` for a Rich console: tables and their rows, then databases and statements."""
    tables = Table("table", *(_right(name) for name in ("inserted", "updated", "deleted")), "digest")
    for name, counts in sorted(summary["tables"].items()):
        numbers = (f"{counts[key]:,}" for key in ("inserted", "updated", "deleted"))
        tables.add_row(escape(name), *numbers, counts["digest"][:DIGEST_SHOWN])
    databases = Table("database", _right("statements"), "digest")
    for name, counts in sorted(summary["databases"].items()):
        shown = escape(name) if name else "(none)"
        databases.add_row(shown, f"{counts['statements']:,}", counts["digest"][:DIGEST_SHOWN])
    return Group(*(table for table in (tables, databases) if table.row_count))


def as_text(summary: Mapping[str, Any], width: int = 110) -> str:
    """:func:`as_table` as plain text of at most ``width`` columns; "nothing was applied" when that is so."""
    if not summary["tables"] and not summary["databases"]:
        return "nothing was applied"
    out = StringIO()
    Console(file=out, width=width, color_system=None, force_terminal=False).print(as_table(summary))
    return out.getvalue().rstrip("\n")


def _right(name: str) -> Column:
    return Column(name, justify="right")
