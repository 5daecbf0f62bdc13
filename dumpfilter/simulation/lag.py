"""The measures of how far a node is behind, from the times at which transactions were committed and received.

The lag of a transaction is the time from its commit to its arrival at the node. The lag of a node at a moment is the
age of the oldest transaction that the node has not got. It is 0 when the node has all of them.

All times are microseconds in whole numbers. Simulated and measured times go through the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.simulation.traffic import Ints

CAUGHT_UP_SHARE = 99
"""The percentile of the lag before an outage. A node whose lag is no greater than this has caught up again."""
LEAST_CAUGHT_UP = 100_000
"""A lag with which a node always counts as caught up, microseconds."""


@dataclass(frozen=True)
class Window:
    """The intervals of a series: ``count`` intervals of ``width`` microseconds each, from the begin of the run on."""

    width: int
    count: int


@dataclass(frozen=True)
class Lag:
    """The lag of a node's transactions, in microseconds: percentiles (each transaction counts once), maximum, and the
    time above the limit.
    """

    transactions: int
    p50: int
    p95: int
    p99: int
    worst: int
    above: int
    """The time during which the node's lag was above the limit, microseconds."""
    missing: int = 0
    """The number of transactions that never arrived. The other fields leave them out."""


def percentile(ordered: Ints, share: int) -> int:
    """Return a percentile of ascending numbers: the smallest of them that at least ``share`` per cent of the numbers do
    not exceed.

    >>> percentile(np.array([1, 2, 3, 4]), 50), percentile(np.array([1, 2, 3, 4]), 99)
    (2, 4)
    """
    return int(ordered[max(-(-len(ordered) * share // 100) - 1, 0)])


def measure(
    committed: Ints, received: Ints, delays: Sequence[int] = (0,), *, limit: int, missing: int = 0
) -> list[Lag]:
    """Measure the lag of transactions from the times of commit and receipt. Both arrays have the transactions in the
    order of receipt.

    Return the lag for each of ``delays``, microseconds, as if all transactions were received so much later. ``limit``
    is the lag in microseconds; the time above it is counted. ``missing`` is the number of transactions that never
    arrived.
    """
    if not len(committed):
        return [Lag(0, 0, 0, 0, 0, 0, missing) for _ in delays]
    lags = np.sort(received - committed)
    p50, p95, p99 = (percentile(lags, share) for share in (50, 95, 99))
    worst = int(lags[-1])
    limits = np.array([limit - delay for delay in delays], np.int64)
    above = np.zeros(len(limits), np.int64)
    if limits.min() < worst:
        # Each transaction adds max(x - limit, 0), where x is the lag at which it arrived. It subtracts the same
        # expression for the lag that it had when the transaction before it arrived.
        above = _excess(lags, limits) - _excess(np.sort(received[:-1] - committed[1:]), limits)
    return [
        Lag(len(lags), p50 + delay, p95 + delay, p99 + delay, worst + delay, time, missing)
        for delay, time in zip(delays, above.tolist(), strict=True)
    ]


def _excess(ordered: Ints, limits: Ints) -> Ints:
    """Return for each of ``limits`` the sum of ``max(x - limit, 0)`` over the ascending numbers ``ordered``."""
    first = np.searchsorted(ordered, limits, "right")
    sums = np.concatenate([[0], np.cumsum(ordered)])
    found: Ints = sums[-1] - sums[first] - (len(ordered) - first) * limits
    return found


def spans_above(committed: Ints, received: Ints, limit: int) -> npt.NDArray[np.int64]:
    """Return the intervals in which a node's lag is above ``limit``: one row with start and end for each, microseconds.

    The transactions are in the order in which they were received.
    """
    start = committed + limit
    if len(start):
        start[1:] = np.maximum(start[1:], np.maximum.accumulate(received)[:-1])
    found = received > start
    return np.stack([start[found], received[found]], axis=1)


def length_of_union(spans: npt.NDArray[np.int64]) -> int:
    """Return the time that is covered by at least one of the intervals (rows of start and end).

    >>> length_of_union(np.array([[5, 9], [0, 3], [2, 4]]))
    8
    """
    if not len(spans):
        return 0
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(spans[:, 1])
    start = spans[:, 0].copy()
    start[1:] = np.maximum(start[1:], reached[:-1])
    return int(np.maximum(reached - start, 0).sum())


def series(committed: Ints, received: Ints, window: Window) -> Ints:
    """Return the maximum of a node's lag in each interval of a window. ``received`` ascends."""
    found = np.zeros(window.count, np.int64)
    late = received > committed
    # A transaction that arrives exactly at the end of a span is in that span, and not in the next one.
    spans = np.clip((received[late] - 1) // window.width, 0, window.count - 1)
    np.maximum.at(found, spans, (received - committed)[late])
    ends = window.width * np.arange(1, window.count)
    missing = np.searchsorted(received, ends, "right")
    waits = np.flatnonzero(missing < len(received))
    ages = ends[waits] - committed[missing[waits]]
    np.maximum.at(found, waits, ages)
    return found


def microseconds(times: Ints) -> Ints:
    """Convert times from nanoseconds to microseconds, rounded up."""
    return -(-times // 1000)


def carried(departed: Ints, sizes: Ints, needed: Ints, window: Window) -> Ints:
    """Return the bytes that left a sender in each interval of a window.

    ``departed`` has the time at which each transaction's last byte left, and ``needed`` how long its bytes took before.
    They are spread evenly over this time.
    """
    order = np.argsort(departed, kind="stable")
    ends, lengths, sums = departed[order], needed[order], np.concatenate([[0], np.cumsum(sizes[order])])
    edges = window.width * np.arange(1, window.count)
    gone = np.searchsorted(ends, edges)
    left = sums[gone]
    # The transactions that are under way at an edge. On one link there is one, and others follow it at no time.
    under_way = np.flatnonzero(gone < len(ends))
    at = gone[under_way]
    part = np.clip(edges[under_way] - (ends[at] - lengths[at]), 0, lengths[at])
    left[under_way] += sizes[order][at] * part // np.maximum(lengths[at], 1)
    found: Ints = np.diff(np.concatenate([[0], left, sums[-1:]]))
    return found


def offered(committed: Ints, sizes: Ints, window: Window) -> Ints:
    """Return the bytes of the transactions that were committed in each interval of a window."""
    found = np.zeros(window.count, np.int64)
    np.add.at(found, np.clip(committed // window.width, 0, window.count - 1), sizes)
    return found


def catch_up(committed: Ints, received: Ints, start: int, end: int) -> int:
    """Return the time from the end of an outage until the node has caught up, microseconds.

    A node has caught up when a transaction arrives with a lag that was usual before the outage. The usual lag is the
    99th percentile over the transactions that arrived before, or 100 ms if that is more. A node has also caught up when
    it has everything. Return 0 if nothing arrives after the outage.
    """
    lags = received - committed
    first = int(np.searchsorted(received, start))
    usual = percentile(np.sort(lags[:first]), CAUGHT_UP_SHARE) if first else 0
    after = int(np.searchsorted(received, end))
    back = np.flatnonzero(lags[after:] <= max(usual, LEAST_CAUGHT_UP))
    if after == len(received):
        return 0
    return int(received[after + back[0] if len(back) else -1]) - end
