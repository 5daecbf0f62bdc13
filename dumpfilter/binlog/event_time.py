"""The commit times of transactions, read from the events of a binlog."""

from __future__ import annotations

from collections.abc import Callable

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.gtid_events import (
    CLOCK_TYPE_AT,
    COMMIT_TIME_AT,
    COMMIT_TIME_LENGTH,
    LOGICAL_TIMESTAMP_TYPECODE,
    ORIGINAL_TIME_FOLLOWS,
    decode_gtid_tagged,
)

MICROSECONDS = 1e6
"""The number of microseconds in a second. GTID events have the commit time in microseconds."""

_MOST_EVENTS = 100
"""The number of events without a time that are searched before the search gives up. Events that a master or slave made
have no time.
"""

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
"""The events that a server writes at the beginning and end of a file. They do not count when a delay is measured."""


FIXED_TIME = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID})
"""The GTID events of MySQL in whose body the commit time has a fixed offset."""

WITH_TIME = FIXED_TIME | {EventType.GTID_TAGGED}
"""The types of MySQL's GTID events, which may carry the commit time of their transaction in the body."""


def commit_time(events: bytes | memoryview, *, checksum: bool) -> float | None:
    """Return the Unix time at which the first transaction in ``events`` was committed, seconds.

    ``events`` begins with a whole event, and ``checksum`` tells whether events end in a CRC32. MySQL 8.0.1 and later
    give microseconds. For other servers the result is the timestamp of the event's header, whole seconds. Return None
    if there is no transaction, or no time.
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
    """Return the commit time that a GTID event of MySQL carries, microseconds of Unix time. None for an event without
    a time, and for a malformed event.

    ``kind`` is the event's type, one of :data:`WITH_TIME`. ``body`` is the event without header and checksum.
    """
    if kind in FIXED_TIME:
        time = body[COMMIT_TIME_AT : COMMIT_TIME_AT + COMMIT_TIME_LENGTH]
        if len(time) < COMMIT_TIME_LENGTH or body[CLOCK_TYPE_AT] != LOGICAL_TIMESTAMP_TYPECODE:
            return None
        return int.from_bytes(time, "little") & (ORIGINAL_TIME_FOLLOWS - 1)
    try:
        return decode_gtid_tagged(body).immediate_commit_timestamp
    except BinlogError:
        # The dump and the applier report a malformed event. A measurement must not.
        return None


def first_time(read_up_to: Callable[[int, int], bytes], position: int, end: int) -> int | None:
    """Return the timestamp of the first event between two byte offsets of a binlog file, Unix seconds.

    Events that only begin or end a file, such as Format_desc, are skipped. ``read_up_to`` takes an offset and a length,
    and returns bytes of the binlog file, or fewer at the file's end. ``position`` is the offset of an event, and
    ``end`` the offset after the last event. The result is None if none of the first hundred events has a timestamp.
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
