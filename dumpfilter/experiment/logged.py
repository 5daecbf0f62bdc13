"""The transactions in a log: their identities, their bytes, and the offsets at which they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F, EventType
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_events import decode_gtid_tagged, decode_mariadb_gtid, decode_mysql_gtid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.errors import BinlogTruncated
from dumpfilter.experiment.growth import Growth
from dumpfilter.simulation.traffic import Ints

Key = tuple[str, int] | str
"""The identity of a transaction: its GTID, or the origin's file and the position after the transaction."""

_GTIDS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID)
_OWN = (
    EventType.FORMAT_DESCRIPTION,
    EventType.PREVIOUS_GTIDS,
    EventType.GTID_LIST,
    EventType.STOP,
    EventType.BINLOG_CHECKPOINT,
    EventType.HEARTBEAT,
    EventType.HEARTBEAT_V2,
)
"""Types of events that belong to a file, and that stand between transactions."""


class Logged(NamedTuple):
    """One transaction of a log."""

    key: Key
    path: Path
    end: int
    """The offset in the file after the transaction."""
    bytes: int
    events: int


@dataclass
class Log:
    """The content of a log."""

    transactions: list[Logged]
    bytes: int = 0
    """The bytes of all events that came from the source."""
    events: int = 0

    def keys(self) -> dict[Key, int]:
        """Return the number of each transaction. A transaction that came twice has the number of the first one."""
        found: dict[Key, int] = {}
        for number, transaction in enumerate(self.transactions):
            found.setdefault(transaction.key, number)
        return found

    def reached(self, growth: Mapping[Path, Growth]) -> Ints:
        """Return the time at which each transaction was complete in its file. -1: it never was."""
        found = np.full(len(self.transactions), -1, np.int64)
        ends = np.array([one.end for one in self.transactions], np.int64)
        paths = [one.path for one in self.transactions]
        for path in dict.fromkeys(paths):
            if path in growth:
                numbers = np.array([number for number, one in enumerate(paths) if one == path], np.int64)
                found[numbers] = growth[path].reached(ends[numbers])
        return found


def read_log(paths: Iterable[Path]) -> Log:
    """Read the transactions of consecutive files of a binlog or relay log."""
    log = Log([])
    for path in paths:
        for transaction in _file(path, log):
            log.transactions.append(transaction)
    return log


def _file(path: Path, log: Log) -> Iterator[Logged]:
    """Yield the transactions of a file, and count the bytes of its events in ``log``."""
    source_file = path.name
    key: Key | None = None
    is_open = False
    size = events = end = last = 0
    with path.open("rb") as file:
        for event in _whole_events(file, path):
            kind = event.type
            length = len(event.raw)
            if kind == EventType.ROTATE:
                # The Rotate event at the head of a relay log file, or between two files of the source, names the file.
                if event.header.flags & LOG_EVENT_ARTIFICIAL_F:
                    source_file = decode_rotate(event.body).name
                    continue
            elif is_gap_event(kind, event.body) or kind == EventType.FORMAT_DESCRIPTION:
                continue
            if event.header.flags & LOG_EVENT_RELAY_LOG_F and kind in _OWN:
                continue
            log.bytes += length
            log.events += 1
            if kind == EventType.ROTATE or kind in _OWN:
                continue
            if kind in _GTIDS:
                if is_open:
                    yield Logged(key or (source_file, last), path, end, size, events)
                key, size, events = _gtid(event), 0, 0
                is_open = True
            if is_open:
                size += length
                events += 1
                end = event.offset + length
                last = event.header.end_log_pos
        if is_open:
            yield Logged(key or (source_file, last), path, end, size, events)


def _whole_events(file: object, path: Path) -> Iterator[Event]:
    """Yield the events of a file up to the first one that is not complete."""
    try:
        yield from iter_events(file, file=str(path), verify=False)  # type: ignore[arg-type]
    except BinlogTruncated:
        return


def _gtid(event: Event) -> str | None:
    match event.type:
        case EventType.MARIADB_GTID:
            return str(decode_mariadb_gtid(event.body, event.header.server_id).gtid)
        case EventType.GTID_TAGGED:
            found = decode_gtid_tagged(event.body).gtid
        case _:
            found = decode_mysql_gtid(event.body, anonymous=event.type == EventType.ANONYMOUS_GTID).gtid
    return None if found is None else str(found)
