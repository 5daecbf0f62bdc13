"""The content of relay logs, in a form that does not depend on the chunks in which the events came.

The events of a relay log depend on the master's binlog and the filter alone. Chunks decide only whether one Gap event
or several neighbouring ones tell what the master dropped, and where in a transaction the hits of its events stand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dumpfilter.binlog.gap_events import Gap, is_gap_event, parse_gap_event
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import iter_events


def content(path: Path) -> tuple[list[Any], Counter[int]]:
    """Return the events of a relay log file, with neighbouring gaps merged, and the hits of all gaps together."""
    found: list[Any] = []
    hits: Counter[int] = Counter()
    with path.open("rb") as file:
        for event in iter_events(file, file=str(path)):
            if not is_gap_event(event.type, event.body):
                found.append(event.raw)
                continue
            gap = parse_gap_event(event.body)
            if not isinstance(gap, Gap):
                continue
            hits.update(gap.hits)
            if not gap.runs:
                continue
            if not found or isinstance(found[-1], bytes):
                found.append([])
            found[-1].extend(gap.runs)
    return [part if isinstance(part, bytes) else _as_text(part) for part in found], hits


def contents(directory: Path) -> dict[str, Any]:
    """Return the content of each relay log file in a directory, and the text of the index file."""
    files: dict[str, Any] = {path.name: content(path) for path in directory.glob("relay-bin.0*")}
    return files | {path.name: path.read_text() for path in directory.glob("relay-bin.index")}


def raw_events(path: Path) -> bytes:
    """Return the bytes of a relay log file without its Gap events and without its head event."""
    return b"".join(part for part in content(path)[0] if isinstance(part, bytes))


def _as_text(runs: list[tuple[bytes, int, int]]) -> str:
    gtids = parse_gtid_set("", "mariadb" if len(runs[0][0]) == 8 else "mysql")
    Gap(runs=tuple(runs)).add_to(gtids)
    return f"{gtids} {sorted(gtids)}"
