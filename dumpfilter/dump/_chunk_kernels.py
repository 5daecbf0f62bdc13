# mypy: ignore-errors
"""Compiled loops that collect the GTIDs, rule hits and bytes of chunks (the messages of the stream to a slave)."""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import copy_bytes
from dumpfilter.dump.decide import FLAG_SEND, RANGE_OFFSET, RANGE_SIZE, kernel
from dumpfilter.filter.flags import FILTER_HIT_F

_FLAG_HIT = np.uint32(FILTER_HIT_F)

# The columns of a run of consecutive GTIDs: the number of the GTID source (such as a server UUID), the first and the
# last transaction number.
RUN_SOURCE = 0
RUN_FIRST = 1
RUN_LAST = 2


@njit(cache=True, nogil=True)
def gtid_runs(sources, numbers, is_kept, only_dropped, out):
    """Join the GTIDs of transactions into runs of consecutive numbers, for example 5 to 9 of one server UUID.

    Write the runs into ``out``, in the transactions' order, and return the number of runs. ``sources``, ``numbers``
    and ``is_kept`` have one entry for each transaction. A transaction without a GTID has a negative source. With
    ``only_dropped``, leave out the transactions that ``is_kept`` marks. ``out`` needs one row for each transaction.
    """
    n = np.int64(0)
    for t in range(sources.size):
        if sources[t] < 0 or (only_dropped and is_kept[t]):
            continue
        if n and out[n - 1, RUN_SOURCE] == sources[t] and out[n - 1, RUN_LAST] + 1 == numbers[t]:
            out[n - 1, RUN_LAST] = numbers[t]
        else:
            out[n, RUN_SOURCE] = sources[t]
            out[n, RUN_FIRST] = numbers[t]
            out[n, RUN_LAST] = numbers[t]
            n += 1
    return n


@njit(cache=True, nogil=True)
def summarize_chunks(chunks, first, sources, numbers, is_kept, completed, empty):
    """Collect the GTIDs and count the transactions of each chunk, from transaction ``first`` on.

    Write the GTIDs of all transactions into ``completed``, and the GTIDs of transactions that the master drops whole
    into ``empty``. Both receive runs of consecutive GTIDs (:func:`gtid_runs`). Set the last four fields of each chunk,
    which :func:`~dumpfilter.dump.decide.decide` leaves undefined.
    """
    n_completed = np.int64(0)
    n_empty = np.int64(0)
    begin = np.int64(first)
    for c in range(chunks.size):
        end = chunks[c].transactions
        n_read = np.int64(0)
        n_dropped = np.int64(0)
        for t in range(begin, end):
            if sources[t] != R.KEPT:
                n_read += 1
                if not is_kept[t]:
                    n_dropped += 1
        n_completed += gtid_runs(
            sources[begin:end], numbers[begin:end], is_kept[begin:end], False, completed[n_completed:]
        )
        n_empty += gtid_runs(
            sources[begin:end], numbers[begin:end], is_kept[begin:end], True, empty[n_empty:]
        )
        chunks[c].completed = n_completed
        chunks[c].empty = n_empty
        chunks[c].transactions_read = n_read
        chunks[c].transactions_dropped = n_dropped
        begin = end


@kernel
def count_hits(
    roles, subjects, offsets, transactions, txn_subject, first, flags, hits, drops_hits, ranges, chunks, out
):
    """Count the uses of filter rules (hits) by the table maps and statements that the master drops.

    The slave never sees these events, so only the master can count their hits. Add the hits of a transaction to the
    row of ``out`` for the chunk that completes the transaction. The last row is for the transaction that goes on after
    the segment. Return whether any hit was counted.

    Parameters:
        roles, subjects, offsets: columns of the segment's events.
        transactions: the transactions that :func:`~dumpfilter.dump.decide.decide` was called with.
        txn_subject: each transaction's subject, the table or statement that the filter decides about. The numbers are
            those before :func:`~dumpfilter.dump.decide.collapse_uniform` changed them.
        first: the number of the first transaction.
        flags: the filter's verdict about each subject. The bit ``FILTER_HIT_F`` marks subjects that use a rule.
        hits: for each subject with hits, the columns of ``out`` to increment, then -1.
        drops_hits: whether the filter drops any subject with hits. If not, transactions that are dropped whole are
            skipped, which saves time.
        ranges: the byte ranges that are sent, then the byte ranges still buffered at the segment's end. Their offsets
            ascend.
    """
    first_events, decided_subjects = transactions.event, transactions.subject
    c = 0
    r = 0
    found = False
    for t in range(first, decided_subjects.size):
        while c < chunks.size and t >= chunks[c].transactions:
            c += 1
        s = decided_subjects[t]
        if s == R.SKIP or s == R.KEPT:
            continue
        is_walked = s == R.MIXED
        if not is_walked:
            if not drops_hits:
                continue
            if s >= 0:
                if flags[s] & (FLAG_SEND | _FLAG_HIT) != _FLAG_HIT:
                    continue
            elif txn_subject[t] != R.MIXED:
                continue
        for i in range(first_events[t], first_events[t + 1]):
            role = roles[i] & ~R.ENDS
            if role != R.TABLE_MAP and role != R.STATEMENT:
                continue
            subject = subjects[i]
            if subject < 0 or flags[subject] & _FLAG_HIT == 0:
                continue
            if is_walked:
                offset = offsets[i]
                while r < ranges.shape[0] and ranges[r, RANGE_OFFSET] + ranges[r, RANGE_SIZE] <= offset:
                    r += 1
                if r < ranges.shape[0] and ranges[r, RANGE_OFFSET] <= offset:
                    continue
            found = True
            for k in range(hits.shape[1]):
                if hits[subject, k] < 0:
                    break
                out[c, hits[subject, k]] += 1
    return found


@njit(cache=True, nogil=True)
def gather(ranges, data, data_offset, out):
    """Copy byte ranges of a binlog file into ``out``, one after the other.

    ``data`` holds a part of the file, which begins at offset ``data_offset``. Return the number of ranges outside of
    ``data``. Their places in ``out`` stay unfilled, so that the caller can read them from the file. Return -1 if
    ``out`` is too small.
    """
    source = np.uintp(data.ctypes.data)
    target = np.uintp(out.ctypes.data)
    outside = np.int64(0)
    at = np.int64(0)
    for k in range(ranges.shape[0]):
        start = ranges[k, RANGE_OFFSET] - data_offset
        size = ranges[k, RANGE_SIZE]
        if at + size > out.size:
            return np.int64(-1)
        if start >= 0 and start + size <= data.size:
            copy_bytes(target + np.uintp(at), source + np.uintp(start), np.uintp(size))
        else:
            outside += 1
        at += size
    return outside
