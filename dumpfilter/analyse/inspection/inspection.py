"""The statistics of a binlog set that ``dumpfilter inspect`` prints.

They are the events and bytes by type, schema and table, the largest transactions and statements, and rates over
time. Compressed transactions are opened. The memory does not depend on the size of the set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console

from dumpfilter.analyse.inspection.by_heading import (
    NOTHING,
    ByHeading,
    HeadingSums,
    OverTimeOptions,
    Rates,
    Volume,
    over_time,
    rates,
)
from dumpfilter.analyse.inspection.flat_events import FlatEvents, flat_events
from dumpfilter.analyse.inspection.largest import Large, Largest, statement_text
from dumpfilter.analyse.report.headings import NO_TABLE
from dumpfilter.analyse.report.periods import OverTime
from dumpfilter.analyse.report.text import share
from dumpfilter.analyse.traffic.facts import sums
from dumpfilter.base.byte_bar import byte_bar
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import EventType, by_number, event_name
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogSet, SegmentReader, gtids_before
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

NOT_OPENED = "(not opened)"
"""The name under which compressed transactions count that are damaged or too large to open. It takes a schema's
place.
"""

TOP = 10
"""The default of ``--top``: the number of tables, transactions and statements to list."""


@dataclass
class Compression:
    """The compressed transactions and events of a binlog set: numbers, and bytes with and without compression."""

    transactions: int = 0
    """The number of transactions that MySQL compressed as a whole (Transaction_payload events)."""
    events: int = 0
    """The number of events whose rows or statement MariaDB compressed."""
    bytes: int = 0
    """The bytes of all these compressed transactions and events in the files."""
    bytes_uncompressed: int = 0
    """The bytes that these transactions and events take without compression."""
    transactions_not_opened: int = 0
    """The number of compressed transactions that are damaged or too large to open, so that their tables are unknown."""

    @property
    def ratio(self) -> float | None:
        """The size without compression, divided by the size with compression; None without a compressed event."""
        return share(self.bytes_uncompressed, self.bytes)


@dataclass
class Inspection:
    """The statistics of a binlog set. Sizes are in bytes of whole events, and times in Unix seconds."""

    server_version: str
    family: str
    files: list[tuple[str, int]] = field(default_factory=list)
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number and the bytes of the events of each type, by the type's name."""
    events_inside_compressed_transactions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each event type by name, the number and the uncompressed bytes of the events inside compressed
    transactions.
    """
    tables: dict[tuple[str, str], Volume] = field(default_factory=dict)
    """The traffic of each table, by schema and table, including events inside compressed transactions.

    :mod:`dumpfilter.analyse.report.headings` defines which events count for which table.
    """
    over_time: OverTime | None = None
    """The bytes of each schema or table in each period. None if they were not requested."""
    compression: Compression = field(default_factory=Compression)
    transactions: int = 0
    largest_transactions: list[Large] = field(default_factory=list)
    largest_statements: list[Large] = field(default_factory=list)
    rates: Rates = field(default_factory=Rates)
    gtids: str = ""
    gtids_before: str = ""
    gtids_dropped: str = ""
    """The GTIDs of transactions that the master dropped, read from the Gap events of a slave's relay log."""
    first_time: int | None = None
    last_time: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics as a dictionary for JSON."""
        found = {
            **vars(self),
            "files": [{"name": name, "bytes": size} for name, size in self.files],
            "events": {kind: {"events": n, "bytes": size} for kind, (n, size) in self.events.items()},
            "events_inside_compressed_transactions": {
                kind: {"events": n, "bytes_uncompressed": size}
                for kind, (n, size) in self.events_inside_compressed_transactions.items()
            },
            "schemas": {name: volume._asdict() for name, volume in self.schemas().items()},
            "tables": [
                {"schema": schema, "table": table, **volume._asdict()}
                for (schema, table), volume in self.tables.items()
            ],
            "compression": {**vars(self.compression), "ratio": self.compression.ratio},
            "largest_transactions": [one.as_dict() for one in self.largest_transactions],
            "largest_statements": [one.as_dict() for one in self.largest_statements],
            "rates": {**self.rates._asdict(), "buckets": [one._asdict() for one in self.rates.buckets]},
        }
        del found["over_time"]
        if self.over_time is not None:
            found["over_time"] = self.over_time.model_dump(mode="json", exclude={"names"})
            for period in found["over_time"]["periods"]:
                period["start"] = period["start"] or None
        return found

    def schemas(self) -> dict[str, Volume]:
        """Return the traffic of each schema, in descending order of bytes."""
        sums: dict[str, Volume] = {}
        for (schema, _), volume in self.tables.items():
            sums[schema] = sums.get(schema, NOTHING).plus(volume)
        return _by_bytes(sums)


Key = TypeVar("Key", str, tuple[str, str])


def _by_bytes(volumes: Mapping[Key, Volume]) -> dict[Key, Volume]:
    return dict(sorted(volumes.items(), key=lambda item: (-item[1].bytes, item[0])))


def inspect_set(
    binlogs: BinlogSet,
    *,
    verify: bool = True,
    progress: Console | None = None,
    top: int = TOP,
    over_time: OverTimeOptions | None = None,
) -> Inspection:
    """Scan all files of a binlog set and return the statistics. Raises BinlogError for a damaged file.

    ``verify`` tells whether event checksums are verified. ``progress`` is the console for a progress bar (None: no
    bar). ``top`` is the number of transactions, and of statements, to list. ``over_time`` has the options for bytes
    over time (None: do not compute them).
    """
    names = binlogs.names
    with binlogs.file(names[0]) as first:
        fd = first.format_description
        before = gtids_before(first).all
    found = Inspection(fd.server_version, fd.family)
    found.files = [(name, binlogs.size(name)) for name in names]
    found.gtids_before = "" if before is None else str(before)
    bar = byte_bar(progress or Console(stderr=True), shown=progress is not None)
    work = Inspector(found, top, over_time)
    with bar:
        task = bar.add_task("scanning", total=sum(size for _, size in found.files))
        for reader, segment in binlogs.segments(work.subjects, work.sources, verify=verify):
            work.add(reader, segment)
            bar.advance(task, segment.end - segment.start)
    work.finish(binlogs)
    return found


class Inspector:
    """Computes the statistics of a binlog set and writes them into the :class:`Inspection` ``found``.

    The caller adds the set's segments (consecutive events of one file, at most 4 MiB). ``top`` is the number of largest
    transactions, and of statements, to find. ``over_time`` has the options for bytes over time (None: do not compute
    them).
    """

    def __init__(self, found: Inspection, top: int = TOP, over_time: OverTimeOptions | None = None) -> None:
        self.subjects, self.sources = Subjects(), SourceNumbers()
        self._found = found
        self._by_type, self._inside = np.zeros((2, 2, 256), np.int64)
        self._over_time = over_time
        self._by_heading = ByHeading(
            self.subjects, self.sources, None if over_time is None else over_time.period
        )
        self._all, self._not_opened = NOTHING, NOTHING
        self._largest = Largest(top, self.sources)
        self._gtids, self._dropped = empty_set(found.family), empty_set(found.family)

    def add(self, reader: SegmentReader, segment: Segment) -> None:
        """Count the events of the next segment (consecutive events of one file). ``reader`` must have just read this
        segment, and still hold its bytes.
        """
        found = self._found
        flat = flat_events(segment, reader.data, reader.data_offset)
        self._add_types(segment, flat)
        self._by_heading.add(segment, flat, reader.file.read)
        self._largest.add(segment, flat)
        self._add_times(segment)
        self._add_compression(reader, segment, flat)
        for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
            ours = segment.txn_source == number
            self._gtids.add_many(self.sources.key(number, found.family), segment.txn_number[ours])
        for _, number, first, last, _, _ in segment.dropped.tolist():
            self._dropped.add_range(self.sources.key(number, found.family), first, last)

    def _add_types(self, segment: Segment, flat: FlatEvents) -> None:
        self._by_type += _counted(segment.type, segment.size)
        if segment.payloads:
            inside = (segment.role[flat.event] & R.ROLE_MASK == R.PAYLOAD) & (flat.role != R.PAYLOAD)
            self._inside += _counted(flat.type[inside], flat.size[inside])
        not_opened = (flat.type == EventType.TRANSACTION_PAYLOAD) & (flat.subject < 0)
        self._all = self._all.plus(_volume(flat, np.ones(len(flat.event), np.bool_)))
        self._not_opened = self._not_opened.plus(_volume(flat, not_opened))

    def _add_times(self, segment: Segment) -> None:
        found = self._found
        found.transactions += int(np.count_nonzero((segment.txn_source != R.KEPT)[segment.continues :]))
        times = segment.time[segment.time > 0]
        if len(times):
            found.first_time = min(int(times.min()), found.first_time or _NO_TIME)
            found.last_time = max(int(times.max()), found.last_time or 0)

    def _add_compression(self, reader: SegmentReader, segment: Segment, flat: FlatEvents) -> None:
        compression = self._found.compression
        is_payload = segment.type == EventType.TRANSACTION_PAYLOAD
        not_opened = np.flatnonzero(is_payload & (segment.role & R.ROLE_MASK != R.PAYLOAD)).tolist()
        compression.transactions += int(np.count_nonzero(is_payload))
        compression.transactions_not_opened += len(not_opened)
        packed = _IS_PACKED[flat.type]
        compression.events += int(np.count_nonzero(packed))
        compression.bytes += int(segment.size[is_payload].sum()) + int(flat.stored[packed].sum())
        compression.bytes_uncompressed += int(flat.size[packed].sum())
        for event in not_opened:
            compression.bytes_uncompressed += _announced_size(reader, segment, event)
        for inner in segment.payloads.values():
            compression.bytes_uncompressed += int(inner.size.sum())

    def finish(self, binlogs: BinlogSet | None = None) -> None:
        """Write the final sums into the :class:`Inspection` (the statistics of the set) that was given to the
        constructor.

        The texts of large statements are read from ``binlogs``, the set whose segments were added. With None these
        texts stay empty.
        """
        found, sums = self._found, self._by_heading.sums()
        found.gtids, found.gtids_dropped = str(self._gtids), str(self._dropped)
        found.events = _by_name(self._by_type)
        found.events_inside_compressed_transactions = _by_name(self._inside)
        found.tables = self._tables(sums)
        found.over_time = None if self._over_time is None else over_time(sums, self._over_time)
        found.rates = rates(sums)
        found.largest_transactions = self._largest.transactions.largest
        found.largest_statements = self._largest.statements.largest
        for one in (*found.largest_transactions, *found.largest_statements):
            one.name_tables(self.subjects)
        if binlogs is not None:
            for one in found.largest_statements:
                one.text = statement_text(binlogs, one)

    def _tables(self, sums: HeadingSums) -> dict[tuple[str, str], Volume]:
        volumes = {heading.labels: volume for heading, volume in sums.by_heading().items()}
        volumes.pop((NO_TABLE, ""), None)
        # The tally leaves out the Gap events of a relay log, which belong to no table.
        known = reduce(Volume.plus, volumes.values(), self._not_opened)
        volumes |= {(NO_TABLE, ""): self._all.minus(known), (NOT_OPENED, ""): self._not_opened}
        return _by_bytes({key: volume for key, volume in volumes.items() if volume.events})


_NO_TIME = 1 << 32
"""A number of Unix seconds that is larger than every timestamp of an event."""

_IS_PACKED = by_number(lambda kind: kind.compressed) > 0
_IS_PACKED[EventType.TRANSACTION_PAYLOAD] = False
"""For each event type by number, whether MariaDB compressed the event's rows or statement."""


def _announced_size(reader: SegmentReader, segment: Segment, event: int) -> int:
    size = int(segment.size[event])
    start = int(segment.offset[event]) - reader.data_offset
    body = segment.format_description.body(reader.data[start : start + size].tobytes())
    try:
        return decode_transaction_payload(body).uncompressed_size
    except BinlogCorrupt:
        return size


def _by_name(sums: npt.NDArray[np.int64]) -> dict[str, tuple[int, int]]:
    """Return the number and bytes of each event type that occurs, by type name, in descending order of bytes."""
    return {
        event_name(kind): (int(sums[0, kind]), int(sums[1, kind]))
        for kind in sorted(np.flatnonzero(sums[0]).tolist(), key=lambda k: -int(sums[1, k]))
    }


def _counted(types: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number and bytes of events for each type number, as an array of shape (2, 256)."""
    return np.stack([np.bincount(types, minlength=256), sums(types.astype(np.int64), sizes, 256)])


def _volume(flat: FlatEvents, which: npt.NDArray[np.bool_]) -> Volume:
    return Volume(int(which.sum()), int(flat.stored[which].sum()), int(flat.size[which].sum()))
