"""A compiled loop that computes a statistic of the lags of transactions. All times are microseconds."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Int64s
from dumpfilter.base.compiler.kernels import kernel


@kernel
def time_above(received: Int64s, since: Int64s, limit: int):
    """Return the time during which a node's lag is above ``limit``.

    ``received`` has the time at which each transaction arrives, ascending. ``since`` has for each transaction the
    commit time of the oldest one that is missing just before the transaction arrives. The node's lag grows from one
    arrival to the next.
    """
    total = 0
    last = -(1 << 62)
    for i in range(len(received)):
        total += max(min(received[i] - since[i] - limit, received[i] - last), 0)
        last = received[i]
    return total
