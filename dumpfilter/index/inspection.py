"""The figures about a binlog set that ``dumpfilter inspect`` prints: bytes and events by type, schema and table."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from dumpfilter.binlog.events import event_name
from dumpfilter.binlog.gtid_sources import SourceNumbers, add_numbers, add_run, empty_set
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.previous_gtids import previous_gtids
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects, TableSubject

STATEMENTS = "(statements)"
"""The text that stands in place of a table's name in the figures about the statements of a schema."""

FRAMING = "(framing)"
"""The text that stands in place of a schema's name in the figures about events without a schema.

Such events are GTIDs, BEGIN and Xid, and the events that belong to a file as a whole, such as Rotate.
"""


@dataclass
class Inspection:
    """The figures about a binlog set: bytes and events by type, schema and table, with times and GTIDs.

    Sizes are in bytes of whole events, and times in Unix seconds.
    """

    server_version: str
    family: str
    files: list[tuple[str, int]] = field(default_factory=list)
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number and the bytes of the events of each type, by the type's name."""
    tables: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The number and the bytes of the events of each table, by schema and table.

    The bytes of a Table_map or rows event are counted for its table. The bytes of a statement are counted for its
    schema, under :data:`STATEMENTS` in place of a table.
    """
    transactions: int = 0
    gtids: str = ""
    purged_gtids: str = ""
    dropped_gtids: str = ""
    """The GTIDs of transactions that a relay log's master dropped, as the Gap events tell."""
    first_time: int | None = None
    last_time: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary, for output as JSON."""
        return {
            "server_version": self.server_version,
            "family": self.family,
            "files": [{"name": name, "bytes": size} for name, size in self.files],
            "events": {kind: {"events": n, "bytes": size} for kind, (n, size) in self.events.items()},
            "schemas": {name: {"events": n, "bytes": size} for name, (n, size) in self.schemas().items()},
            "tables": [
                {"schema": schema, "table": table, "events": n, "bytes": size}
                for (schema, table), (n, size) in self.tables.items()
            ],
            "transactions": self.transactions,
            "gtids": self.gtids,
            "gtids_before": self.purged_gtids,
            "gtids_dropped": self.dropped_gtids,
            "first_time": self.first_time,
            "last_time": self.last_time,
        }

    def schemas(self) -> dict[str, tuple[int, int]]:
        """Return the number and the bytes of the events of each schema, with the largest schema first."""
        sums: dict[str, tuple[int, int]] = {}
        for (schema, _), (n, size) in self.tables.items():
            before = sums.get(schema, (0, 0))
            sums[schema] = (before[0] + n, before[1] + size)
        return dict(sorted(sums.items(), key=lambda item: -item[1][1]))


class _Sums:
    def __init__(self) -> None:
        self.by_type: npt.NDArray[np.int64] = np.zeros((2, 256), np.int64)
        self.by_subject: npt.NDArray[np.int64] = np.zeros((2, 0), np.int64)

    def add(self, segment: Segment, subjects: int) -> None:
        self.by_type[0] += np.bincount(segment.type, minlength=256)
        self.by_type[1] += np.bincount(segment.type, weights=segment.size, minlength=256).astype(np.int64)
        if self.by_subject.shape[1] < subjects:
            wider = np.zeros((2, 2 * subjects), np.int64)
            wider[:, : self.by_subject.shape[1]] = self.by_subject
            self.by_subject = wider
        owned = segment.subject >= 0
        owner, size = segment.subject[owned], segment.size[owned]
        width = self.by_subject.shape[1]
        self.by_subject[0] += np.bincount(owner, minlength=width)
        self.by_subject[1] += np.bincount(owner, weights=size, minlength=width).astype(np.int64)


def inspect_set(binlogs: BinlogSet, *, verify: bool = True, progress: Console | None = None) -> Inspection:
    """Return the figures of a binlog set, from a scan of all its files. Raises BinlogError for a damaged file.

    Without ``verify`` the checksums are not checked. ``progress`` is a terminal on which a bar shows the progress.
    """
    subjects, sources, sums = Subjects(), SourceNumbers(), _Sums()
    names = binlogs.names
    with binlogs.file(names[0]) as first:
        fd = first.format_description
        before = previous_gtids(first)
    found = Inspection(fd.server_version, fd.family)
    found.files = [(name, binlogs.size(name)) for name in names]
    gtids, dropped = empty_set(fd.family), empty_set(fd.family)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=progress,
        transient=True,
        disable=progress is None or not progress.is_terminal,
    )
    with bar:
        task = bar.add_task("scanning", total=sum(size for _, size in found.files))
        for _, segment in binlogs.segments(subjects, sources, verify=verify):
            sums.add(segment, len(subjects))
            found.transactions += int(np.count_nonzero((segment.txn_source != -3)[segment.continues :]))
            for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
                ours = segment.txn_source == number
                add_numbers(gtids, sources.key(number, fd.family), segment.txn_number[ours])
            for number, first, last in segment.dropped.runs.tolist():
                add_run(dropped, sources.key(number, fd.family), first, last)
            times = segment.time[segment.time > 0]
            if len(times):
                found.first_time = min(int(times.min()), found.first_time or int(times.min()))
                found.last_time = max(int(times.max()), found.last_time or 0)
            bar.advance(task, segment.end - segment.start)
    found.gtids, found.dropped_gtids = str(gtids), str(dropped)
    found.purged_gtids = "" if before is None else str(before)
    found.events = {
        event_name(kind): (int(sums.by_type[0, kind]), int(sums.by_type[1, kind]))
        for kind in sorted(np.flatnonzero(sums.by_type[0]).tolist(), key=lambda k: -int(sums.by_type[1, k]))
    }
    found.tables = _tables(subjects, sums)
    owned = np.array(list(found.tables.values()), np.int64).reshape(-1, 2).sum(axis=0)
    framing = sums.by_type.sum(axis=1) - owned
    if framing[0]:
        found.tables[FRAMING, ""] = (int(framing[0]), int(framing[1]))
    return found


def _tables(subjects: Subjects, sums: _Sums) -> dict[tuple[str, str], tuple[int, int]]:
    merged: dict[tuple[str, str], tuple[int, int]] = {}
    for number in range(len(subjects)):
        if subjects.members(number) is not None or not sums.by_subject[0, number]:
            # This number stands for a set of tables, such as those of an XA COMMIT, whose bytes are counted for no
            # single table. Or it stands for a table that occurs only inside compressed transactions, so that no bytes
            # are counted for it.
            continue
        subject = subjects[number]
        if isinstance(subject, TableSubject):
            key = (subject.database, subject.table)
        else:
            key = (subject.database or subject.current_database or "(no database)", STATEMENTS)
        n, size = merged.get(key, (0, 0))
        merged[key] = (n + int(sums.by_subject[0, number]), size + int(sums.by_subject[1, number]))
    return dict(sorted(merged.items(), key=lambda item: -item[1][1]))


def render_inspection(found: Inspection, console: Console, *, top: int = 20) -> None:
    """Print the figures of a binlog set as tables on a terminal. ``top`` is the most tables to list."""
    total = sum(size for _, size in found.files)
    console.print(
        f"[bold]{len(found.files)} binlog files[/], {found.files[0][0]} to {found.files[-1][0]}, {total:,} bytes, "
        f"written by {found.server_version}"
    )
    if found.first_time is not None and found.last_time is not None:
        console.print(f"time: {_time(found.first_time)} to {_time(found.last_time)}")
    console.print(f"transactions: {found.transactions:,}")
    console.print(f"GTIDs: {_short(found.gtids) or 'none'}", soft_wrap=True)
    if found.purged_gtids:
        console.print(f"before them: {_short(found.purged_gtids)}", soft_wrap=True)
    if found.dropped_gtids:
        console.print(f"dropped by the master: {_short(found.dropped_gtids)}", soft_wrap=True)
    _figures(console, "Events by type", ["type"], [([k], v) for k, v in found.events.items()], total)
    _figures(console, "Bytes by schema", ["schema"], [([k], v) for k, v in found.schemas().items()], total)
    tables = list(found.tables.items())
    shown = [(list(key), figures) for key, figures in tables[:top]]
    _figures(console, "Bytes by table", ["schema", "table"], shown, total)
    if len(tables) > top:
        console.print(f"… and {len(tables) - top} more tables (--top {len(tables)} shows all)")


def _figures(
    console: Console, title: str, names: list[str], rows: list[tuple[list[str], tuple[int, int]]], total: int
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for name in ("events", "bytes", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for keys, (n, size) in rows:
        table.add_row(*keys, f"{n:,}", f"{size:,}", f"{100 * size / max(total, 1):.1f} %")
    console.print(table)


def _time(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _short(gtids: str) -> str:
    return gtids if len(gtids) <= 2000 else f"{gtids[:2000]}… ({len(gtids):,} characters; --json has all)"
