"""A compiled loop that computes a statistic of the lags of transactions. All times are microseconds."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Int32s, Int64s
from dumpfilter.base.compiler.kernels import inner, kernel


@kernel
def time_above(committed: Int64s, lags: Int64s, limits: Int64s, found: Int64s):
    """Add to ``found`` the time during which a node's lag is above each of ``limits``, of which there is at least one.

    ``committed`` has the time of each transaction's commit, and ``lags`` the time until its receipt. There is one
    transaction at least, and they are in the order of receipt. The node's lag is the age of the oldest transaction that
    is missing. The lag grows from one receipt to the next.
    """
    add_time_above(committed, lags, limits, found)


@kernel
def time_above_short(committed: Int64s, lags: Int32s, limits: Int64s, found: Int64s):
    """Do the same as :func:`time_above` for 32-bit lags."""
    add_time_above(committed, lags, limits, found)


@inner
def add_time_above(committed, lags, limits, found):
    """Compute the result of :func:`time_above` for lags of any width."""
    least = most = limits[0]
    for limit in limits:
        least = min(least, limit)
        most = max(most, limit)
    above_all = 0
    oldest = committed[-1]
    for i in range(len(lags) - 1, -1, -1):
        oldest = min(oldest, committed[i])
        lag = committed[i] + lags[i] - oldest
        if lag > least:
            # The node's lag just after the receipt before.
            lowest = committed[i - 1] + lags[i - 1] - oldest if i else least
            if lowest >= most:
                above_all += lag - lowest
            else:
                for k in range(len(limits)):
                    found[k] += max(lag - max(lowest, limits[k]), 0)
    for k in range(len(limits)):
        found[k] += above_all
