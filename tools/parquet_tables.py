"""``python tools/parquet_tables.py``: write the tables of columns of Parquet files into the documentation.

The text of the pages between the tables is written by hand. A test compares the pages with this script's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dumpfilter.report.parquet import ParquetTable
from dumpfilter.simulation import tables as simulation
from dumpfilter.spark_jobs.bandwidth import tables as bandwidth

DOCS = Path(__file__).parent.parent / "docs"

PAGES: Mapping[str, Mapping[str, ParquetTable]] = {
    "bandwidth.md": bandwidth.FORMS,
    "simulation.md": simulation.FORMS,
}
"""The forms of the Parquet files that each page describes."""

_BEGIN, _END = "<!-- begin parquet -->\n", "<!-- end parquet -->"


def with_tables(page: str, forms: Mapping[str, ParquetTable]) -> str:
    """Return the page with the tables of columns as the code has them."""
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return before + _BEGIN + "\n".join(_section(name, form) for name, form in forms.items()) + _END + after


def _section(name: str, form: ParquetTable) -> str:
    order = ", ".join(f"`{one}`" for one in form.order)
    sentence = f"`{name}.parquet` has a row for {form.row}." + (f" Rows ascend by {order}." if order else "")
    rows = [f"| `{one.name}` | {_type(str(one.type))} | {one.meaning} |" for one in form.columns]
    return "\n".join([sentence, "", "| column | type | meaning |", "|---|---|---|", *rows]) + "\n"


def _type(arrow: str) -> str:
    return {"timestamp[us, tz=UTC]": "timestamp, UTC", "list<element: string>": "list of string"}.get(
        arrow, arrow.replace("list<item: string>", "list of string")
    )


if __name__ == "__main__":
    for name, forms in PAGES.items():
        path = DOCS / name
        path.write_text(with_tables(path.read_text(encoding="utf-8"), forms), encoding="utf-8")
