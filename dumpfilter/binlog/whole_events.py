"""The compiled walk over the lengths of consecutive events."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel

_HEADER_LENGTH = 19
_SIZE_AT = 9
"""The offset of the event's length in its header."""
_LARGEST = 0x7FFFFFFF

IMPOSSIBLE = -1
"""The result for an event whose length is impossible."""
UNLIMITED = 1 << 62
"""The end of events whose end is not known."""


@kernel
def whole_events(data: Bytes, at: int, smallest: int, end: int):
    """Return the offset behind the last whole event in ``data``, from the event at offset ``at`` on.

    ``end`` is the offset at which the events end, some of which may not be in ``data`` yet. The result is IMPOSSIBLE
    when an event is shorter than ``smallest`` or goes beyond ``end``.
    """
    while data.size - at >= _HEADER_LENGTH:
        place = at + _SIZE_AT
        size = data[place] | data[place + 1] << 8 | data[place + 2] << 16 | data[place + 3] << 24
        if size < smallest or size > min(end - at, _LARGEST):
            return IMPOSSIBLE
        if size > data.size - at:
            break
        at += size
    return at
