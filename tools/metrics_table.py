"""``python tools/metrics_table.py``: write the tables of ``docs/metrics.md`` from the definitions of the metrics.

The text of the page between the tables is written by hand. A test compares the page with this script's output.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dumpfilter.master import metrics as master
from dumpfilter.master import source_metrics as source
from dumpfilter.metrics import process
from dumpfilter.metrics.definition import Definition
from dumpfilter.slave import metrics as slave

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_TABLES = {
    "common": process.METRICS,
    "master": master.METRICS,
    "source": source.METRICS,
    "slave": slave.METRICS,
}


def with_tables(page: str) -> str:
    """Return the page with all tables replaced by the tables as the code has them."""
    for name, metrics in _TABLES.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = before + begin + "\n".join(_table(metrics)) + "\n" + end + after
    return page


def _table(metrics: Iterable[Definition]) -> list[str]:
    return ["| metric | kind | labels | meaning |", "|---|---|---|---|", *map(_row, metrics)]


def _row(metric: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
