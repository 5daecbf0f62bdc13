"""The compiled loop that finds the end of the last complete event in a buffer."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.events import HEADER_LENGTH, MAX_EVENT

_SIZE_AT = 9
"""The offset of the event's length in its header."""

IMPOSSIBLE = -1
"""The result of :func:`whole_events` for an event with an impossible length."""
UNLIMITED = 1 << 62
"""The value of the argument ``end`` of :func:`whole_events` when the end of the events is not known."""


@kernel
def whole_events(data: Bytes, at: int, smallest: int, end: int):
    """Return the offset after the last complete event in ``data``, a buffer to which more bytes may be appended later.

    The first event begins at offset ``at`` of ``data``. ``smallest`` is the least size of an event, bytes. ``end`` is
    the offset after the last of all events, also of events that are not in the buffer yet. The result is the constant
    IMPOSSIBLE when an event is shorter than ``smallest``, longer than MAX_EVENT, or extends beyond ``end``.
    """
    while data.size - at >= HEADER_LENGTH:
        place = at + _SIZE_AT
        size = data[place] | data[place + 1] << 8 | data[place + 2] << 16 | data[place + 3] << 24
        if size < smallest or size > min(end - at, MAX_EVENT):
            return IMPOSSIBLE
        if size > data.size - at:
            break
        at += size
    return at
