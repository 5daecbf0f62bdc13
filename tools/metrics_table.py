"""``python tools/metrics_table.py``: write the tables of ``docs/metrics.md`` from the definitions of the metrics.

The text of the page between the tables is written by hand. A test compares the page with this script's output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dumpfilter.master import metrics as master
from dumpfilter.master.facts import SOURCE
from dumpfilter.metrics import process
from dumpfilter.metrics.facts import Facts
from dumpfilter.slave import facts as slave

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_TABLES: dict[str, tuple[Facts[Any], ...]] = {
    "common": (process.FACTS,),
    "master": master.METRICS,
    "source": (SOURCE,),
    "slave": slave.METRICS,
}


def with_tables(page: str) -> str:
    """Return the page with all tables replaced by the tables as the code has them."""
    for name, groups in _TABLES.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
        for facts in groups:
            labels = ", ".join(f"`{label}`" for label in facts.labels)
            rows += (f"| `{one.metric}` | {one.kind} | {labels} | {one.help} |" for one in facts.metrics)
        page = before + begin + "\n".join(rows) + "\n" + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
