"""``python tools/doc_tables.py``: write the tables of the documentation that come from the code.

The text of the pages between the tables is written by hand. Tests compare the pages with this script's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dumpfilter.console.statements
import dumpfilter.master.console  # noqa: F401 — These modules declare statements.
from dumpfilter.analyse.report.parquet import ParquetTable
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import KINDS, Symbol
from dumpfilter.console.facts import Facts
from dumpfilter.console.metrics import Process
from dumpfilter.console.sql.grammar import NEEDS, Role
from dumpfilter.index._scan import GRAMMAR, Place
from dumpfilter.master import metrics as master
from dumpfilter.master.facts import Source
from dumpfilter.slave import facts as slave
from dumpfilter.spark_jobs.bandwidth import output as bandwidth

DOCS = Path(__file__).parent.parent / "docs"

_WRITERS = {"both": "", "mysql": "MySQL: ", "mariadb": "MariaDB: "}
"""The beginning of a list of event types, by the families whose servers write them."""


def page_with_tables(name: str) -> tuple[str, str]:
    """Return the present text of the page ``name`` in ``docs``, and the page's text with its tables generated anew from
    the code.
    """
    text = page = (DOCS / name).read_text("utf-8")
    for marker, lines in PAGES[name].items():
        begin, end = f"<!-- begin {marker} -->\n", f"<!-- end {marker} -->"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return text, page


def _table(heads: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table in Markdown. ``heads`` has the titles of the columns, separated by bars."""
    ruled = "|".join("---" for _ in heads.split("|"))
    return [f"| {heads} |", f"|{ruled}|", *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def _symbol(symbol: Symbol) -> Iterator[str]:
    role = GRAMMAR.role[symbol, Place.BETWEEN] & R.ROLE_MASK
    yield from (symbol.name, R.NAMES[role])
    lists = {start: ", ".join(_events(symbol, writers)) for writers, start in _WRITERS.items()}
    yield "; ".join(start + events for start, events in lists.items() if events)


def _events(symbol: Symbol, writers: str) -> Iterator[str]:
    for kind in KINDS:
        if (kind.symbol, kind.writers) == (symbol, writers):
            shown = f" ({kind.shown})" if kind.shown not in (None, "", kind.name) else ""
            yield f"{kind.number} {kind.name}{shown}"


def _metrics(*groups: type[Facts[Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown list of all metrics in ``groups``, with a part for each set of labels. The text
    about a histogram says that the metric is one.
    """
    by_labels: dict[str, list[str]] = {}
    for facts in groups:
        labels = ", ".join(f"`{label}`" for label in facts.labels)
        by_labels.setdefault(labels, []).extend(
            f"- `{one.metric}`: {'Histogram. ' if one.kind == 'histogram' else ''}{one.help}"
            for one in facts.metrics
        )
    for labels, lines in by_labels.items():
        yield from ("", f"With {labels}:" if labels else "Without labels:", "", *lines)


def _role(role: Role) -> Iterator[str]:
    yield f"`{role}`"
    needs = [need for need in NEEDS if need.role is role]
    for changes in (False, True):
        yield ", ".join(f"`{need.statement}`" for need in needs if need.changes is changes)


def _parquet(forms: Mapping[str, ParquetTable]) -> Iterator[str]:
    for name, form in forms.items():
        names: dict[str, list[str]] = {}
        for one in form.columns:
            names.setdefault(one.meaning, []).append(f"`{one.name}`")
        yield from (
            f"`{name}.parquet` has a row for {form.row}.",
            "",
            *(f"- {', '.join(same)}: {meaning}" for meaning, same in names.items()),
            "",
        )


PAGES: Mapping[str, Mapping[str, Iterable[str]]] = {
    "events.md": {"symbols": _table("symbol | role at first | event types", map(_symbol, Symbol))},
    "metrics.md": {
        "common": [*_metrics(Process)],
        "master": [*_metrics(*master.METRICS)],
        "source": [*_metrics(Source)],
        "slave": [*_metrics(*slave.METRICS)],
    },
    "console.md": {
        "roles": _table(
            "role | statements that change nothing | statements in the audit log", map(_role, Role)
        )
    },
    "bandwidth.md": {"parquet": [*_parquet(bandwidth.FORMS)][:-1]},
}
"""The tables of each page by the names in their markers, such as ``<!-- begin symbols -->``."""


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page_with_tables(name)[1], "utf-8")
