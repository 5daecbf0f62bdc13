# mypy: ignore-errors
"""The compiled loops of a split by which an output (a binlog set that the split writes) gets its events.

:func:`set_owners` finds for each event the number of the combination of outputs that receive the event (the owner
number). :func:`count_received` counts the bytes and events that each output receives of each transaction.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int32s, Int64s, Int64s2
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog import roles as R

NO_OUTPUT = 0
"""The owner number of an event that no output (binlog set of a split) owns by itself. GTID, BEGIN and context events
(such as Intvar) have it, because they follow their transaction or statement.
"""

R_OUTPUT, R_TRANSACTION, R_END, R_EVENTS, R_BYTES, RECEIVED_COLUMNS = range(6)
"""The columns of the counts, and their number. A row is a transaction of which one output receives an event.

- R_OUTPUT, R_TRANSACTION: the output, and the index of the transaction.
- R_END, R_EVENTS: running totals of the bytes and events that the output receives, up to the transaction's end.
- R_BYTES: the bytes that the output receives of this transaction.
"""


@kernel
def set_owners(
    role: Bytes,
    kind: Bytes,
    subject: Int32s,
    known: Int32s,
    fixed: Int32s,
    is_of_file: Bools,
    txn_event: Int64s,
    undecided: int,
    default: int,
    split_role: Bytes,
    owner: Int32s,
    txn_owner: Int32s,
):
    """Fill ``owner`` with the owner number of each event, and ``split_role`` with the role by which the split decides
    about the event. Fill ``txn_owner`` with the owner number of each transaction, or MIXED if the split decides about
    its events one by one.

    Parameters:
        role, kind, subject: the role of each event, its type, and the number of its table or statement.
        known: the owner number of each table and statement.
        fixed: the owner numbers of events that the caller knows; -1 for all others.
        is_of_file: for each event type, whether such events belong to the file, such as Rotate.
        txn_event: the index of each transaction's first event, and the number of all events.
        undecided: the owner number of events about which no filter can decide.
        default: the owner number of transactions without any owned event.
    """
    for t in range(txn_owner.size):
        lowest, highest = np.int32(1 << 30), np.int32(-1)
        has_owner = has_stray = False
        for i in range(txn_event[t], txn_event[t + 1]):
            of_event = role[i] & np.uint8(R.ROLE_MASK)
            decides = R.TABLE_MAP <= of_event <= R.STATEMENT
            found = fixed[i]
            if found < 0:
                found = np.int32(NO_OUTPUT)
                # Rows events without a table map, incidents, and events of unknown types have no table or statement.
                if of_event == R.KEEP or (decides and subject[i] < 0):
                    found = np.int32(undecided)
                elif decides:
                    found = known[subject[i]]
            if of_event == R.GAP or (of_event == R.KEEP and is_of_file[kind[i]]):
                # No output receives a file event inside a transaction, such as Rotate. Neither does an output receive a
                # Gap event, a relay log's note about dropped transactions.
                has_stray, found, new = True, np.int32(NO_OUTPUT), R.HIDDEN
            else:
                # The owner decides about events such as incidents, too.
                new = R.STATEMENT if of_event >= R.KEEP else np.int64(of_event)
            if decides or of_event >= R.KEEP:
                lowest, highest = min(lowest, found), max(highest, found)
                # A table map without rows events changes no table. Therefore a transaction in which outputs own only
                # table maps belongs to no output.
                has_owner |= of_event != R.TABLE_MAP and found != NO_OUTPUT
            owner[i] = found
            split_role[i] = np.uint8(new) | (role[i] & np.uint8(R.ENDS))
        txn_owner[t] = R.MIXED
        if not has_owner:
            txn_owner[t] = default
        elif lowest == highest and not has_stray:
            txn_owner[t] = lowest


@kernel
def count_received(pieces: Int64s2, replaced: int, ends: Int64s, events: Int64s, out: Int64s2):
    """Fill ``out`` with a row for each pair of an output and a transaction of which the output receives an event, in
    the order of the pieces. Return the number of these rows. If ``out`` is too small, only the first rows are in it.

    Parameters:
        pieces: the pieces of the source file that outputs receive, sorted by output. The columns are the output, the
            block, and offset, size and change of the piece.
        replaced: the change of a piece that is one event with other bytes than in the source.
        ends: the offset at which each transaction ends.
        events: the offset of each event.
    """
    n = nbytes = count = np.int64(0)
    output = newest = np.int64(-1)
    for p in range(pieces.shape[0]):
        if pieces[p, 0] != output:
            output, newest = pieces[p, 0], np.int64(-1)
            nbytes = count = np.int64(0)
        start = pieces[p, 2]
        stop = start + pieces[p, 3]
        t = np.searchsorted(ends, start + 1)
        is_last = False
        while not is_last:
            size = pieces[p, 3]
            is_last = pieces[p, 4] == replaced or stop <= ends[t]
            if pieces[p, 4] == replaced:
                count += 1
            else:
                size = min(stop, ends[t]) - start
                count += np.searchsorted(events, start + size) - np.searchsorted(events, start)
            nbytes += size
            if t != newest:
                newest = t
                n += 1
                if n <= out.shape[0]:
                    out[n - 1, R_OUTPUT] = output
                    out[n - 1, R_TRANSACTION] = t
                    out[n - 1, R_BYTES] = 0
            if n <= out.shape[0]:
                out[n - 1, R_END] = nbytes
                out[n - 1, R_EVENTS] = count
                out[n - 1, R_BYTES] += size
            start = ends[t]
            t += not is_last
    return n
