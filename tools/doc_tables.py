"""``python tools/doc_tables.py``: write the tables of the documentation that come from the code.

The text of the pages between the tables is written by hand. Tests compare the pages with this script's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dumpfilter.analyse.report.parquet import ParquetTable
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import KINDS, EventKind, Symbol
from dumpfilter.console.metrics import process
from dumpfilter.console.metrics.facts import Facts
from dumpfilter.console.roles import COMMANDS, STATEMENTS, Role
from dumpfilter.master import metrics as master
from dumpfilter.master.facts import SOURCE
from dumpfilter.simulation import tables as simulation
from dumpfilter.slave import facts as slave
from dumpfilter.spark_jobs.bandwidth import output as bandwidth

DOCS = Path(__file__).parent.parent / "docs"

_WRITERS = {"both": "both", "mysql": "MySQL", "mariadb": "MariaDB"}
_ARROW = {"timestamp[us, tz=UTC]": "timestamp, UTC", "list<element: string>": "list of string"}


def page_with_tables(name: str) -> tuple[str, str]:
    """Return the text of a page in ``docs``, and the text with the tables as the code has them."""
    text = page = (DOCS / name).read_text("utf-8")
    for marker, lines in PAGES[name].items():
        begin, end = f"<!-- begin {marker} -->\n", f"<!-- end {marker} -->"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return text, page


def _table(heads: str, rows: Iterable[Iterable[object]], rule: str = "") -> list[str]:
    """Return the lines of a table in Markdown. ``heads`` are separated by bars."""
    ruled = rule or "|".join("---" for _ in heads.split("|"))
    return [f"| {heads} |", f"|{ruled}|", *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def _event(kind: EventKind) -> Iterator[object]:
    decoder = f"`{kind.decoder}`" if kind.decoder else ""
    yield from (kind.number, kind.name, kind.shown or kind.name, _WRITERS[kind.writers])
    yield from (kind.symbol.name, decoder)


def _metrics(*groups: Facts[Any]) -> list[str]:
    rows = [
        (f"`{one.metric}`", one.kind, ", ".join(f"`{label}`" for label in facts.labels), one.help)
        for facts in groups
        for one in facts.metrics
    ]
    return _table("metric | kind | labels | meaning", rows)


def _role(role: Role) -> Iterator[str]:
    yield f"`{role}`"
    needs = [need for need in (*STATEMENTS.values(), *COMMANDS.values()) if need.role is role]
    for changes in (False, True):
        yield ", ".join(f"`{need.statement}`" for need in needs if need.changes is changes)


def _parquet(forms: Mapping[str, ParquetTable]) -> Iterator[str]:
    for name, form in forms.items():
        order = ", ".join(f"`{one}`" for one in form.order)
        yield f"`{name}.parquet` has a row for {form.row}." + (f" Rows ascend by {order}." if order else "")
        rows = [(f"`{one.name}`", _type(str(one.type)), one.meaning) for one in form.columns]
        yield from ("", *_table("column | type | meaning", rows), "")


def _type(arrow: str) -> str:
    return _ARROW.get(arrow, arrow.replace("list<item: string>", "list of string"))


PAGES: Mapping[str, Mapping[str, Iterable[str]]] = {
    "events.md": {
        "symbols": _table(
            "symbol | role at first | effect on the transaction",
            [(symbol.name, R.NAMES[symbol.role], symbol.effect) for symbol in Symbol],
        ),
        "events": _table(
            "number | name | SHOW BINLOG EVENTS | written by | symbol | decoder",
            map(_event, KINDS),
            "---:|---|---|---|---|---",
        ),
    },
    "metrics.md": {
        "common": _metrics(process.FACTS),
        "master": _metrics(*master.METRICS),
        "source": _metrics(SOURCE),
        "slave": _metrics(*slave.METRICS),
    },
    "console.md": {
        "roles": _table(
            "role | statements that change nothing | statements in the audit log", map(_role, Role)
        )
    },
    "bandwidth.md": {"parquet": list(_parquet(bandwidth.FORMS))[:-1]},
    "simulation.md": {"parquet": list(_parquet(simulation.FORMS))[:-1]},
}
"""The tables of each page by the names in their markers, such as ``<!-- begin symbols -->``."""


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page_with_tables(name)[1], "utf-8")
