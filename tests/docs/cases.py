"""The page docs/cases.md: SQL in, events kept. ``python -m tests.docs.cases`` writes the page.

The page shows what dumpfilter sends of recordings of real servers. The tests in ``tests/oracle`` compare the same
streams with what the recorded replicas applied.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

import dumpfilter
from dumpfilter.analyse.printing.show_events import event_info
from dumpfilter.binlog.events import GTIDS, EventType, Symbol, types_of
from dumpfilter.binlog.reader import Event, iter_events
from tests.oracle.dumping import dump
from tests.oracle.recordings import DATA, Recording, filter_of

PAGE = Path(dumpfilter.__file__).parents[1] / "docs" / "cases.md"

RECORDINGS = ("recordings/mysql57-mixed", "oracle/mariadb-mixed")
"""The recordings on the page, by their folders below ``tests/oracle/data``."""

WIDTH = 80
"""The longest line of an event."""

_OF_FILES = types_of(Symbol.FORMAT_DESCRIPTION, Symbol.FILE)
"""The types of events that frame a file, and belong to no transaction."""

HEAD = """\
# Recorded cases: SQL in, events kept

For the DBA who compares filters: what each filter keeps of real binlogs. A block is a transaction, a line an event. A
filter's letter before the event means *sent to a slave with this filter*, and a dot means *dropped*. A capital letter
means *sent with STMT_END_F*, because the last event of the statement is dropped. Of a transaction with dots alone a
slave gets only the GTID. The page shows the first transaction of each set of marks, so MariaDB's part has only what
differs from MySQL's. `tests/oracle` compares the same streams with what real replicas with these filters applied. The
command `python -m tests.docs.cases` writes this page.
"""


def page() -> str:
    """Return the text of the page. The recordings have the same filters, which one table lists."""
    recordings = [Recording(DATA / folder) for folder in RECORDINGS]
    first, *others = (
        {name: case["options"] for name, case in one.oracle["cases"].items()} for one in recordings
    )
    assert all(filters == first for filters in others)
    lines = ["\n| | filter of the slave |\n|---|---|\n"]
    for letter, options in zip(ascii_lowercase, first.values(), strict=False):
        words = " ".join(options)
        lines.append(f"| {letter} | {f'`{words}`' if words else 'none'} |\n")
    shown: set[frozenset[str]] = set()
    return "".join([HEAD, *lines, *(_recording(recording, shown) for recording in recordings)])


def _recording(recording: Recording, shown: set[frozenset[str]]) -> str:
    """Return a recording's transactions whose set of marks is not in ``shown``, and add these sets to it."""
    cases = list(recording.oracle["cases"])
    letters = ascii_lowercase[: len(cases)]
    sent = []
    for case in cases:
        stream = dump(recording.files, filter_of(recording, case))
        sent.append({key: raw for name, data in stream.files.items() for key, raw in _events(data, name)})
    version = recording.oracle["server"].split("-")[0]
    name = {"mariadb": "MariaDB", "mysql": "MySQL"}[recording.family]
    lines = [f"\n## {name} {version}, `binlog_format={recording.oracle['binlog_format']}`\n\n"]
    lines.append("```")
    for transaction in _transactions(recording):
        marks = []
        for key, event in transaction:
            each = zip(letters, sent, strict=True)
            marks.append("".join(_mark(letter, event.raw, events.get(key)) for letter, events in each))
        if frozenset(marks) in shown:
            continue
        lines.append("\n")
        shown.add(frozenset(marks))
        width = WIDTH - len(letters) - 2
        lines += [
            f"{mark}  {_text(event, width)}\n" for mark, (_, event) in zip(marks, transaction, strict=True)
        ]
    return "".join([*lines, "```\n"])


def _transactions(recording: Recording) -> Iterator[list[tuple[tuple[str, int], Event]]]:
    """Yield the events of each transaction after its GTID, with their places (file and end position)."""
    transaction: list[tuple[tuple[str, int], Event]] = []
    for path in recording.files:
        with path.open("rb") as file:
            for event in iter_events(file, file=path.name):
                if event.type in GTIDS:
                    if transaction:
                        yield transaction
                    transaction = []
                elif event.type not in _OF_FILES:
                    transaction.append(((path.name, event.header.end_log_pos), event))
    if transaction:
        yield transaction


def _mark(letter: str, raw: bytes, sent: bytes | None) -> str:
    """Return a filter's mark for an event. ``sent`` are the bytes that the master sends; None for a dropped event."""
    if sent is None:
        return "."
    return letter if sent == raw else letter.upper()


def _events(data: bytes, name: str) -> Iterator[tuple[tuple[str, int], bytes]]:
    """Yield the place (file and end position) and the bytes of each event of a binlog."""
    for event in iter_events(io.BytesIO(data), file=name):
        yield (name, event.header.end_log_pos), event.raw


def _text(event: Event, width: int) -> str:
    """Return an event as a person reads it: a statement's SQL, else the type and its info."""
    info = re.sub(r" /\* xid=\d+ \*/$", "", " ".join(event_info(event).split()))
    text = info if event.type == EventType.QUERY else f"{EventType(event.type).name.lower()} {info}"
    return textwrap.shorten(text, width, placeholder=" …")


if __name__ == "__main__":
    PAGE.write_text(page())
