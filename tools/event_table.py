"""``python tools/event_table.py``: write the tables of ``docs/events.md`` from ``EventType`` and ``Symbol``.

The text of the page between the tables is written by hand. A test compares the page with this script's output.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import KINDS, EventKind, Symbol

PAGE = Path(__file__).parent.parent / "docs" / "events.md"

_WRITERS = {"both": "both", "mysql": "MySQL", "mariadb": "MariaDB"}


def with_tables(page: str) -> str:
    """Return the page with both tables replaced by the tables as the code has them."""
    for name, lines in (("symbols", _symbols()), ("events", _events())):
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = before + begin + "\n".join(lines) + "\n" + end + after
    return page


def _symbols() -> list[str]:
    rows = [f"| {symbol.name} | {R.NAMES[symbol.role]} | {symbol.effect} |" for symbol in Symbol]
    return ["| symbol | role at first | effect on the transaction |", "|---|---|---|", *rows]


def _events() -> list[str]:
    head = [
        "| number | name | SHOW BINLOG EVENTS | written by | symbol | decoder |",
        "|---:|---|---|---|---|---|",
    ]
    return [*head, *map(_event, KINDS)]


def _event(kind: EventKind) -> str:
    decoder = f"`{kind.decoder}`" if kind.decoder else ""
    shown = kind.shown or kind.name
    return f"| {kind.number} | {kind.name} | {shown} | {_WRITERS[kind.writers]} | {kind.symbol.name} | {decoder} |"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
