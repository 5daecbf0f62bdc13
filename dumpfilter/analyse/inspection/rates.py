"""Counters of bytes and transactions over time, in bounded memory for any timestamps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MOST_BUCKETS = 2048
"""The maximum number of buckets with traffic. Beyond this limit, the buckets become twice as wide."""

_MAIN_SHARE = 0.95
"""The minimum fraction of the transactions in the main span (the time range that charts show)."""
_NEAR = 0.05
"""The maximum gap between a bucket and the main span for the bucket to join the span, as a fraction of the span's
length.
"""
_MUCH = 2
"""The factor by which the whole span must exceed the main span before the buckets outside are left out as stray."""


class Bucket(NamedTuple):
    """The transactions that were committed in one time bucket."""

    start: int
    """The beginning of the bucket, Unix seconds."""
    bytes: int
    """The bytes of these transactions in the binlog."""
    transactions: int


class Rates:
    """Counts bytes and transactions in time buckets, whose width doubles when there are too many.

    Only buckets with traffic take memory. A single wrong timestamp, years off, therefore costs one bucket and no
    precision.
    """

    def __init__(self) -> None:
        self.seconds = 1
        """The width of a bucket, seconds."""
        self.backward = 0
        """The number of transactions whose timestamp is lower than that of the previous transaction."""
        self.largest_step_back = 0
        """The largest decrease between the timestamps of two consecutive transactions, seconds."""
        self._buckets: dict[int, tuple[int, int]] = {}
        self._last: int | None = None

    def add(self, times: Ints, sizes: Ints) -> None:
        """Count transactions in binlog order. ``times`` are Unix seconds and ``sizes`` are bytes.

        A time of 0 means no timestamp. Such a transaction counts at the time of the previous transaction.
        """
        if not len(times):
            return
        times = _filled(times, self._last)
        before = times[:1] if self._last is None else np.array([self._last])
        steps = np.diff(np.concatenate([before, times]))
        self.backward += int(np.count_nonzero(steps < 0))
        self.largest_step_back = max(self.largest_step_back, -int(steps.min()))
        self._last = int(times[-1])
        numbers, which = np.unique(times // self.seconds, return_inverse=True)
        # The function bincount adds floats, which represent every byte count up to 2**53 exactly.
        nbytes = np.bincount(which, weights=sizes).astype(np.int64).tolist()
        counts = np.bincount(which).tolist()
        for number, size, count in zip(numbers.tolist(), nbytes, counts, strict=True):
            self._put(number, size, count)
        while len(self._buckets) > MOST_BUCKETS:
            self._widen()

    def buckets(self) -> list[Bucket]:
        """Return the buckets with traffic in ascending order of time."""
        return [Bucket(number * self.seconds, *self._buckets[number]) for number in sorted(self._buckets)]

    def _put(self, number: int, size: int, count: int) -> None:
        before = self._buckets.get(number, (0, 0))
        self._buckets[number] = (before[0] + size, before[1] + count)

    def _widen(self) -> None:
        old = self._buckets
        self._buckets = {}
        self.seconds *= 2
        for number, (size, count) in old.items():
            self._put(number // 2, size, count)


def _filled(times: Ints, last: int | None) -> Ints:
    known = times > 0
    if known.all():
        return times
    latest = np.maximum.accumulate(np.where(known, np.arange(len(times)), -1))
    return np.where(latest >= 0, times[latest], 0 if last is None else last)


def main_span(buckets: list[Bucket]) -> tuple[int, int]:
    """Return the range of buckets that a chart should show: the first index, and the index after the last.

    A few transactions can have timestamps far from all others, for example after ``SET timestamp``. A chart of the
    whole span would then show two thin lines. The range excludes such stray buckets; without them it includes all
    buckets.

    >>> main_span([Bucket(0, 9, 1), *(Bucket(10**9 + k, 9, 50) for k in range(60))])
    (1, 61)
    """
    if not buckets:
        return 0, 0
    counts = np.cumsum([0, *(one.transactions for one in buckets)])
    starts = [one.start for one in buckets]
    wanted = _MAIN_SHARE * counts[-1]
    best = (starts[-1] - starts[0], 0, len(buckets))
    for first in range(len(buckets)):
        end = int(np.searchsorted(counts, counts[first] + wanted))
        if end > len(buckets):
            break
        best = min(best, (starts[end - 1] - starts[first], first, end))
    span, first, end = best
    while first and starts[first] - starts[first - 1] <= max(1, _NEAR * span):
        first -= 1
    while end < len(buckets) and starts[end] - starts[end - 1] <= max(1, _NEAR * span):
        end += 1
    whole = starts[-1] - starts[0]
    return (first, end) if whole > _MUCH * max(1, starts[end - 1] - starts[first]) else (0, len(buckets))
