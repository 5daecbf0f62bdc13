"""The times at which transactions were committed, as far as the events of a binlog tell them."""

from __future__ import annotations

from collections.abc import Callable

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.gtid_events import decode_any_mysql_gtid

MICROSECONDS = 1e6
"""The microseconds of a second, in which GTID events tell the time of the commit."""

_MOST_EVENTS = 100
"""The most events without a time that are passed over. Events that a master or slave made have no time."""

_FRAME_OF_A_FILE = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.ROTATE,
        EventType.STOP,
    }
)
"""The events that a server writes at the ends of a file. Nobody waits for them."""


FIXED_TIME = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID})
"""The GTID events of MySQL whose commit time has a fixed offset."""

WITH_TIME = FIXED_TIME | {EventType.GTID_TAGGED}
"""The events that tell the commit time of their transaction."""


def commit_time(events: bytes | memoryview, *, checksum: bool) -> float | None:
    """Return the Unix time at which the first transaction in ``events`` was committed, seconds.

    ``events`` begins with a whole event. MySQL 8.0.1 and later tell microseconds. For other servers the result is the
    event's time in whole seconds. Return None if there is no transaction, or no time.

    ``checksum`` tells whether events end in a CRC32.
    """
    at = 0
    for _ in range(_MOST_EVENTS):
        if len(events) < at + HEADER_LENGTH:
            return None
        header = EventHeader.unpack(events, at)
        if header.type not in _FRAME_OF_A_FILE or header.size < HEADER_LENGTH:
            break
        at += header.size
    body = memoryview(events)[at + HEADER_LENGTH : at + header.size - (CHECKSUM_LENGTH if checksum else 0)]
    return _commit_time(header, body)


def _commit_time(header: EventHeader, body: memoryview) -> float | None:
    microseconds = told_time(header.type, body) if header.type in WITH_TIME else None
    if microseconds:
        return microseconds / MICROSECONDS
    if header.type in _FRAME_OF_A_FILE:
        return None
    return float(header.timestamp) or None


def told_time(kind: int, body: bytes | memoryview) -> int | None:
    """Return the commit time that an event of :data:`WITH_TIME` tells, microseconds of Unix time; None without one.

    ``body`` is the event without header and checksum.
    """
    try:
        return decode_any_mysql_gtid(kind, body).immediate_commit_timestamp
    except BinlogError:
        # The dump and the applier report a malformed event. A measurement must not.
        return None


def first_time(read_up_to: Callable[[int, int], bytes], position: int, end: int) -> int | None:
    """Return the Unix time of the first event between two positions that belongs to a transaction, seconds.

    ``read_up_to`` reads bytes of a binlog file from an offset on, with fewer bytes at the end. Return None if no such
    event has a time.
    """
    for _ in range(_MOST_EVENTS):
        if position >= end:
            return None
        head = read_up_to(position, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            return None
        header = EventHeader.unpack(head)
        if header.timestamp and header.type not in _FRAME_OF_A_FILE:
            return header.timestamp
        if header.size < HEADER_LENGTH:
            return None
        position += header.size
    return None
