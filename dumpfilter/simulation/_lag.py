"""A compiled loop that computes a statistic of the lags of transactions. All times are microseconds."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Int64s
from dumpfilter.base.compiler.kernels import kernel


@kernel
def time_above(committed: Int64s, since: Int64s, lags: Int64s, limit: int):
    """Return the time during which a node's lag is above ``limit``.

    The transactions are in the order of receipt. ``since`` has for each transaction the commit time of the oldest one
    that is missing just before the transaction arrives. Each arrival adds the part above the limit of the node's lag
    just before it, and subtracts that of the lag just after it.
    """
    n = len(lags)
    total = 0
    for i in range(n):
        total += max(committed[i] + lags[i] - since[i] - limit, 0)
    for i in range(n - 1):
        total -= max(committed[i] + lags[i] - since[i + 1] - limit, 0)
    return total
