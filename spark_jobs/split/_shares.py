"""The compiled loop that finds how much of each transaction each output of a split receives. A split divides one binlog
set, the source, into several binlog sets, the outputs.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inner, kernel
from dumpfilter.dump.cut import REPLACED

P_OUTPUT, P_BLOCK, P_OFFSET, P_SIZE, P_PATCH = range(5)
"""The columns of a piece, which is a sequence of consecutive bytes of a source file that an output (binlog set of the
split) receives.

- P_OUTPUT: the number of the output.
- P_BLOCK: the number of the block, the part of the file that is read at a time.
- P_OFFSET, P_SIZE: the offset and size of the piece in the source file, bytes.
- P_PATCH: how the bytes are changed, as in :attr:`~dumpfilter.dump.chunk.ChunkPlan.ranges` (0: unchanged).
"""

SHARE_OUTPUT, SHARE_TRANSACTION, SHARE_SIZE, SHARE_END, SHARE_EVENTS = range(5)
"""The columns of a share, the events of one transaction that one output (binlog set of the split) receives.

- SHARE_OUTPUT, SHARE_TRANSACTION: the numbers of the output and of the transaction.
- SHARE_SIZE: the bytes that the output receives of the transaction.
- SHARE_END, SHARE_EVENTS: running totals of the bytes and events that the output receives, up to the transaction's end.
"""


@kernel
def list_shares(pieces: Int64s2, bounds: Int64s, first_event: Int64s, shares: Int64s2) -> int:
    """Write a row to ``shares`` for each pair of an output and a transaction of which the output receives an event, and
    return the number of such pairs. Rows that have no room in ``shares`` are counted only.

    ``pieces`` are sorted by output, and then by offset. A piece has whole events. ``bounds`` has the offset of each
    event and of the last one's end. ``first_event`` has the index of each transaction's first event, and the number of
    all events.
    """
    n = np.int64(0)
    output = np.int64(-1)
    for p in range(pieces.shape[0]):
        start = pieces[p, P_OFFSET]
        if pieces[p, P_OUTPUT] != output:
            output = pieces[p, P_OUTPUT]
            latest = np.int64(-1)
            event = end = events = np.int64(0)
        t = _transaction_at(bounds, first_event, max(latest, 0), start)
        event = max(event, first_event[t])
        while bounds[event] < start:
            event += 1
        stop = start + pieces[p, P_SIZE]
        is_replaced = pieces[p, P_PATCH] == REPLACED
        if is_replaced:
            stop = bounds[event + 1]
        while bounds[event] < stop:
            begin = event
            while event < first_event[t + 1] and bounds[event] < stop:
                event += 1
            size = pieces[p, P_SIZE] if is_replaced else bounds[event] - bounds[begin]
            end += size
            events += event - begin
            # A transaction may have several pieces.
            if t != latest:
                latest = t
                n += 1
                if n <= shares.shape[0]:
                    shares[n - 1, SHARE_SIZE] = 0
            if n <= shares.shape[0]:
                row = shares[n - 1]
                row[SHARE_OUTPUT] = output
                row[SHARE_TRANSACTION] = t
                row[SHARE_SIZE] += size
                row[SHARE_END] = end
                row[SHARE_EVENTS] = events
            t += 1
    return n


@inner
def _transaction_at(bounds, first_event, low, offset):
    """Return the index of the last transaction from ``low`` on that begins at or before the file offset ``offset``. The
    other arguments are those of :func:`list_shares`.
    """
    last = first_event.size - 2
    step = 1
    while low + step <= last and bounds[first_event[low + step]] <= offset:
        low += step
        step *= 2
    high = min(low + step, last + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if bounds[first_event[middle]] <= offset:
            low = middle
        else:
            high = middle
    return low
