"""Compiled loops over the times at which transactions were committed and received, microseconds."""

from __future__ import annotations

import numpy as np

from dumpfilter.compiler.kernels import njit

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
def microseconds(times):
    """Return times since the begin of a run, in nanoseconds, as microseconds, rounded up."""
    found = np.empty(times.size, np.int64)
    for i in range(times.size):
        # Times are not negative. Unsigned numbers are divided by a constant without a division.
        found[i] = np.int64((np.uint64(times[i]) + np.uint64(999)) // np.uint64(1000))
    return found


@njit(cache=True, nogil=True)
def above_many(committed, received, limits):
    """Return for each of several ascending limits the time during which the lag is above the limit.

    ``received`` ascends. Each transaction adds ``max(x - limit, 0)``, where x is the lag at which it arrived. It
    subtracts the same expression for the lag that it had when the transaction before it arrived.
    """
    n = limits.size
    count = np.zeros(n + 1, np.int64)
    total = np.zeros(n + 1, np.int64)
    for i in range(len(committed)):
        lag = received[i] - committed[i]
        if lag > limits[0]:
            k = np.searchsorted(limits, lag)
            count[k] += 1
            total[k] += lag
        if i:
            lag = received[i - 1] - committed[i]
            if lag > limits[0]:
                k = np.searchsorted(limits, lag)
                count[k] -= 1
                total[k] -= lag
    # The entry k has the lags above k limits. Those above more limits are above these limits, too.
    for k in range(n - 1, -1, -1):
        count[k] += count[k + 1]
        total[k] += total[k + 1]
    found = np.empty(n, np.int64)
    for k in range(n):
        found[k] = total[k + 1] - count[k + 1] * limits[k]
    return found


_BUCKETS = 1024
_FEW = 24
"""The number of values that are sorted rather than counted."""


@njit(cache=True, nogil=True)
def select(values, places):
    """Return the values that would stand at ``places`` if the values were sorted, and the largest value.

    The values are counted in buckets. Only those of the bucket that holds a place are looked at again.
    """
    low, high = values[0], values[0]
    for value in values:
        low = min(low, value)
        high = max(high, value)
    counts = np.empty(_BUCKETS, np.int64)
    shift = _count(values, values.size, low, high, counts)
    scratch = np.empty(values.size, np.int64)
    inner = np.empty(_BUCKETS, np.int64)
    found = np.empty(places.size + 1, np.int64)
    for p in range(places.size):
        bucket, before = _bucket_of(counts, places[p])
        start = low + (np.int64(bucket) << shift)
        n = 0
        if shift:
            for value in values:
                if value - start >= 0 and (value - start) >> shift == 0:
                    scratch[n] = value
                    n += 1
        found[p] = _narrow(scratch, n, start, shift, places[p] - before, inner)
    found[places.size] = high
    return found


@njit(cache=True, nogil=True)
def _narrow(values, n, low, shift, place, counts):
    """Return the value at a place among values from ``low`` to ``low + 2 ** shift``. The values are overwritten."""
    while shift:
        if n <= _FEW:
            for k in range(1, n):
                value = values[k]
                j = k
                while j > 0 and values[j - 1] > value:
                    values[j] = values[j - 1]
                    j -= 1
                values[j] = value
            return values[place]
        shift = _count(values, n, low, low + (np.int64(1) << shift) - 1, counts)
        bucket, before = _bucket_of(counts, place)
        place -= before
        low += np.int64(bucket) << shift
        if shift:
            kept = 0
            for k in range(n):
                value = values[k]
                if value - low >= 0 and (value - low) >> shift == 0:
                    values[kept] = value
                    kept += 1
            n = kept
    return low


@njit(cache=True, nogil=True)
def _count(values, n, low, high, counts):
    shift = 0
    while (high - low) >> shift >= _BUCKETS:
        shift += 1
    counts[:] = 0
    for k in range(n):
        counts[(values[k] - low) >> shift] += 1
    return shift


@njit(cache=True, nogil=True)
def _bucket_of(counts, place):
    before = 0
    bucket = 0
    while before + counts[bucket] <= place:
        before += counts[bucket]
        bucket += 1
    return bucket, before


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
