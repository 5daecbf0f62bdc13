"""Compiled loops over the times at which transactions were committed and received, microseconds."""

from __future__ import annotations

from numba import njit

_NONE = -(1 << 62)
"""A time before every other."""


@njit(cache=True, nogil=True)
def above(committed, received, limit):
    """Return the time during which the oldest transaction that has not been received is older than ``limit``."""
    total = 0
    before = _NONE
    for i in range(len(committed)):
        since = max(before, committed[i] + limit)
        if received[i] > since:
            total += received[i] - since
        before = max(before, received[i])
    return total


@njit(cache=True, nogil=True)
def series(committed, received, start, width, found):
    """Write the greatest lag in each span of time."""
    before = _NONE
    last = len(found) - 1
    for i in range(len(committed)):
        end = received[i]
        begin = max(before, committed[i])
        before = max(before, end)
        if end <= begin:
            continue
        first = min(max((begin - start) // width, 0), last)
        # A transaction that arrives exactly at the end of a span is in that span, and not in the next one.
        stop = min(max((end - start - 1) // width, 0), last)
        for k in range(first, stop + 1):
            edge = end if k == stop else start + (k + 1) * width
            lag = edge - committed[i]
            if lag > found[k]:
                found[k] = lag


@njit(cache=True, nogil=True)
def carried(departed, sizes, needed, start, width, found):
    """Write the bytes that left the sender in each span of time."""
    last = len(found) - 1
    for i in range(len(departed)):
        end = departed[i]
        begin = end - needed[i]
        first = min(max((begin - start) // width, 0), last)
        stop = min(max((end - start) // width, 0), last)
        left = sizes[i]
        for k in range(first, stop):
            edge = start + (k + 1) * width
            # All bytes up to the edge, less those of the spans before it.
            part = sizes[i] - sizes[i] * (end - edge) // needed[i] - (sizes[i] - left)
            found[k] += part
            left -= part
        found[stop] += left
