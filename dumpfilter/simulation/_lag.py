"""Compiled loops that compute statistics of the lags of transactions. All times are microseconds."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Int32s, Int64s
from dumpfilter.base.compiler.kernels import inlined, kernel

BINS = 64 << 6
"""The number of intervals of :func:`narrow`."""


@inlined
def _bin(lag):
    """Return the number of the interval that has ``lag``. An interval is 1/64 to 1/128 of its numbers wide, and the
    first one also has all negative lags, since the clocks of a measured run are not exact.
    """
    return (np.float64(max(lag, 0) + 1).view(np.int64) >> 46) - (1023 << 6)


@kernel
def narrow(lags: Int64s, ranks: Int64s, bins: Int32s, kept: Int64s):
    """Copy the few lags that may have one of the given ranks to ``kept``, and change ``ranks`` to their ranks there.
    Return the number of copied lags.

    ``ranks`` are indexes into the sorted lags, ascending. ``bins`` is memory for the calculation. ``kept`` has an entry
    more than ``lags``.
    """
    bins[:] = 0
    for i in range(len(lags)):
        bins[_bin(lags[i])] += 1
    at = 0
    # The numbers of all lags, and of those that are kept, in the intervals before ``at``.
    below = 0
    n = 0
    for k in range(len(ranks)):
        while below + abs(bins[at]) <= ranks[k]:
            below += abs(bins[at])
            n += max(-bins[at], 0)
            at += 1
        # The lags of an interval with a negative number are kept.
        bins[at] = -abs(bins[at])
        ranks[k] += n - below
    n = 0
    for i in range(len(lags)):
        kept[n] = lags[i]
        n += bins[_bin(lags[i])] < 0
    return n


@kernel
def time_above(committed: Int64s, since: Int64s, lags: Int64s, limit: int):
    """Return the time during which a node's lag is above ``limit``.

    The transactions are in the order of receipt. ``since`` has for each transaction the commit time of the oldest one
    that is missing just before the transaction arrives. Each arrival adds the part above the limit of the node's lag
    just before it, and subtracts that of the lag just after it.
    """
    n = len(lags)
    total = np.int64(0)
    for i in range(n):
        total += max(committed[i] + lags[i] - since[i] - limit, 0)
    for i in range(n - 1):
        total -= max(committed[i] + lags[i] - since[i + 1] - limit, 0)
    return total
