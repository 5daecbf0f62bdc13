"""The compiled walk over the events of an uncompressed transaction."""

from __future__ import annotations

from dumpfilter.compiler.kernels import njit

HEADER_LENGTH = 19
_SIZE_AT = 9
"""The offset of the event's length in its header."""

IMPOSSIBLE = -1
"""The result for an event whose length is impossible."""


@njit(cache=True, nogil=True)
def whole_events(data, at, left):
    """Return the offset behind the last whole event in ``data``, from the event at offset ``at`` on.

    ``left`` is how many bytes the transaction has from ``at`` on, some of which may not be in ``data`` yet. The result
    is IMPOSSIBLE when an event is shorter than its header or longer than what is left.
    """
    while data.size - at >= HEADER_LENGTH:
        place = at + _SIZE_AT
        size = data[place] | data[place + 1] << 8 | data[place + 2] << 16 | data[place + 3] << 24
        if size < HEADER_LENGTH or size > left:
            return IMPOSSIBLE
        if size > data.size - at:
            break
        at += size
        left -= size
    return at
