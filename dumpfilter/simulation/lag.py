"""Measures of a node's lag, computed from the times at which transactions were committed and received.

The lag of a transaction is the time from its commit to its arrival at the node. The lag of a node at a moment is the
age of the oldest transaction that the node has not received. The lag is 0 if the node has received all transactions.

All times are microseconds in whole numbers. Simulated and measured times are evaluated by the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic.facts import Ints, sums
from dumpfilter.simulation import _lag
from dumpfilter.simulation.results import LagFigures

CAUGHT_UP_SHARE = 99
"""The percentile of the lag before an outage at or below which a node counts as caught up after the outage."""
LEAST_CAUGHT_UP = 100_000
"""The lag at or below which a node always counts as caught up, microseconds."""

_SAMPLED = 128
"""One of 128 lags is in the sample by which a percentile is estimated."""


@dataclass(frozen=True)
class Window:
    """The intervals of time into which a run is divided for plots: ``count`` intervals of ``width`` microseconds
    each.

    The first interval begins at the start of the run.
    """

    width: int
    count: int


SHARES = (50, 95, 99)
"""The percentiles of the lag in the statistics."""


def percentiles_of(lags: npt.NDArray[Any], shares: Sequence[int] = SHARES) -> list[list[int]]:
    """Return percentiles of the numbers in each row of ``lags`` by the nearest-rank method. ``shares`` has the wanted
    percentages (0 to 100, ascending), and the result one number for each.

    >>> percentiles_of(np.array([[4, 1, 3, 2]]), (50, 99))
    [[2, 4]]
    """
    n = lags.shape[1]
    ranks = np.array([max(-(-n * share // 100) - 1, 0) for share in shares])
    if lags.dtype == np.int32:
        found = np.empty((len(lags), len(ranks)), np.int64)
        _lag.select(np.ascontiguousarray(lags), np.sort(lags[:, ::_SAMPLED]), ranks, found)
    else:
        found = np.partition(lags, ranks)[:, ranks]
    return found.tolist()


def measure(
    committed: Ints, lags: Ints, delays: Sequence[int], limit: int, percentiles: Sequence[int] | None = None
) -> list[LagFigures]:
    """Compute statistics of the lag of transactions from their times of commit and their lags, microseconds. Both
    arrays are in the order of receipt.

    ``delays`` are further delays of all receipts, microseconds. Return one entry of statistics for each delay, as if
    everything had arrived later by this delay. ``limit`` is a lag in microseconds. The result includes the time during
    which the lag is above this limit. ``percentiles`` has four numbers that are known already: the percentiles of
    ``lags`` for :data:`SHARES` (50, 95, 99), and the greatest lag (None: they are computed). Without transactions all
    figures are 0.
    """
    if not len(committed):
        return [LagFigures(p50=0, p95=0, p99=0, worst=0, above=0) for _ in delays]
    p50, p95, p99, worst = percentiles or (*percentiles_of(lags[np.newaxis])[0], int(lags.max()))
    times = [0] * len(delays)
    if worst + max(delays) > limit:
        oldest, received = _oldest_missing(committed), lags.astype(np.int64)
        # An addition of arrays of different types takes longer.
        received += committed
        times = [_lag.time_above(oldest, received, limit - delay) for delay in delays]
    return [
        LagFigures(p50=p50 + delay, p95=p95 + delay, p99=p99 + delay, worst=worst + delay, above=time)
        for delay, time in zip(delays, times, strict=True)
    ]


def _oldest_missing(committed: Ints) -> Ints:
    """Return for each transaction the commit time of the oldest transaction that is missing just before the transaction
    arrives. The age of that oldest one is then the node's lag.

    ``committed`` has the commit times in the order of receipt, as has the result. This order differs from the order of
    commits if a node has several sources.
    """
    if (committed[1:] >= committed[:-1]).all():
        return committed
    return np.ascontiguousarray(np.minimum.accumulate(committed[::-1])[::-1])


def series(committed: Ints, received: Ints, window: Window) -> Ints:
    """Return the greatest lag of a node in each of the intervals of time into which ``window`` divides a run,
    microseconds.

    ``committed`` and ``received`` have the times of the same transactions. ``received`` must ascend, and no time may
    lie after the last interval.
    """
    found = np.zeros(window.count, np.int64)
    committed = _oldest_missing(committed)
    late = received > committed
    # A transaction that arrives exactly at the end of a span is in that span, and not in the next one.
    np.maximum.at(found, (received[late] - 1) // window.width, (received - committed)[late])
    ends = window.width * np.arange(1, window.count)
    missing = np.searchsorted(received, ends, "right")
    waits = np.flatnonzero(missing < len(received))
    ages = ends[waits] - committed[missing[waits]]
    np.maximum.at(found, waits, ages)
    return found


def carried(departed: Ints, sizes: Ints, needed: Ints, window: Window) -> Ints:
    """Return the bytes that a link's sender sent in each of the intervals of time into which ``window`` divides a run,
    for a plot.

    ``departed`` has the time at which each transaction's last byte left, and ``needed`` the duration of sending it. A
    transaction's bytes are spread evenly over this duration. All times are microseconds.
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
    # The product of gigabytes and the microseconds of hours does not fit into 64 bits.
    shares = sizes[order][at].astype(object) * part // np.maximum(lengths[at], 1)
    left[under_way] += shares.astype(np.int64)
    return np.diff(np.concatenate([[0], left, sums[-1:]]))


def offered(committed: Ints, sizes: Ints, window: Window) -> Ints:
    """Return the bytes of the transactions that became ready to be sent over a link, in each of the intervals of time
    into which ``window`` divides a run.

    ``committed`` has the time at which the link's sender had each transaction (microseconds), and ``sizes`` the bytes
    of the same transactions.
    """
    return sums(np.clip(committed // window.width, 0, window.count - 1), sizes, window.count)


def catch_up(committed: Ints, received: Ints, start: int, end: int) -> int:
    """Return the time from the end of an outage until the node has caught up, microseconds; 0 if nothing arrives after
    the outage. ``start`` and ``end`` are the outage's times.

    ``committed`` and ``received`` have the times of the same transactions, in the order of receipt. A node has caught
    up when a transaction arrives whose lag is no greater than the usual lag before the outage. The usual lag is the
    99th percentile of the transactions received before the outage, but at least 100 ms. A node that has received
    everything has also caught up.
    """
    lags = received - committed
    first = int(np.searchsorted(received, start))
    usual = percentiles_of(lags[np.newaxis, :first], [CAUGHT_UP_SHARE])[0][0] if first else 0
    after = int(np.searchsorted(received, end))
    back = np.flatnonzero(lags[after:] <= max(usual, LEAST_CAUGHT_UP))
    if after == len(received):
        return 0
    return int(received[after + back[0] if len(back) else -1]) - end
