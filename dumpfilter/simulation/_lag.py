"""A compiled loop that computes a statistic of the lags of transactions. All times are microseconds."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Int64s
from dumpfilter.base.compiler.kernels import kernel


@kernel
def time_above(committed: Int64s, received: Int64s, limit: int):
    """Return the time during which a node's lag is above ``limit``.

    ``committed`` and ``received`` have the times of one transaction at least, in the order of receipt. The node's lag
    is the age of the oldest transaction that is missing. The lag grows from one receipt to the next.
    """
    total = 0
    oldest = committed[-1]
    for i in range(len(received) - 1, -1, -1):
        oldest = min(oldest, committed[i])
        above = received[i] - oldest - limit
        total += max(min(above, received[i] - received[i - 1]) if i else above, 0)
    return total
