"""Compiled code for the share of one output: the events of a segment's transactions that one of several readers gets.

A split and the bandwidth job give each event an owner number, which says which outputs get the event. The dump thread's
:func:`~dumpfilter.dump.decide.decide` then chooses the events of one output at a time.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.compiler.kernels import njit
from dumpfilter.dump.decide import REPLACED

_ENDS = R.ENDS
_KEEP = R.KEEP
_ROWS = R.ROWS
_MIXED = R.MIXED
_ROLE = R.ROLE_MASK


@njit(cache=True, nogil=True)
def _belongs(owner, output, members):
    """Tell whether an owner number stands for ``output``, alone or with others.

    ``members`` tells for each combination of outputs whether the output is in it. The numbers of combinations begin at
    -2 and fall.
    """
    return owner == output or (owner < -1 and members[-2 - owner])


@njit(cache=True, nogil=True)
def gather(
    columns, txn_event, uniform, unowned, txns, output, members, takes_unowned, to, to_event, to_subject
):
    """Copy the events of some transactions for the decision of one output.

    Parameters:
        columns: the offset, size, role and owner number of each event.
        txn_event: the number of each transaction's first event.
        uniform: the owner number that all events of a transaction have.
        unowned: the transactions of which no output owns an event.
        txns: the transactions to copy.
        output, members: the output, and the combinations of outputs that it is in (:func:`_belongs`).
        takes_unowned: whether the output gets the ``unowned`` transactions.
        to: the arrays for the copies: offset, size, role, subject. The subject is 1 for the output's own events.
        to_event, to_subject: the arrays for the first events of the copied transactions, and for their subjects.
    """
    offset, size, role, owner = columns
    to_offset, to_size, to_role, to_own = to
    n = 0
    for i in range(len(txns)):
        txn = txns[i]
        to_event[i] = n
        is_whole = _belongs(uniform[txn], output, members) or (takes_unowned and unowned[txn])
        to_subject[i] = 1 if is_whole else _MIXED
        for event in range(txn_event[txn], txn_event[txn + 1]):
            own = _belongs(owner[event], output, members)
            to_offset[n] = offset[event]
            to_size[n] = size[event]
            # Events of other outputs look like rows of tables that this output does not get.
            is_other = (role[event] & _ROLE) >= _KEEP and not own
            to_role[n] = (_ROWS | (role[event] & _ENDS)) if is_other else role[event]
            to_own[n] = own
            n += 1
    to_event[len(txns)] = n


@njit(cache=True, nogil=True)
def ends_of(runs, offset, size, txn_event, txns, kept, ends):
    """Write the bytes and events that an output gets up to the end of each transaction of which it gets an event.

    Parameters:
        runs: the pieces of the file that the output gets, with the columns offset, length in the output, length in the
            file, kind.
        offset, size: the offset and size of each event in the file.
        txn_event: the number of each transaction's first event.
        txns: the transactions that were decided, and ``kept`` whether the output gets an event of each.
        ends: the array for the results, with a row for each kept transaction.

    Return the number of events of these transactions that the output gets. The bytes count from the first run. The
    events count from the first transaction.
    """
    at = -1
    before = np.int64(0)
    events = np.int64(0)
    n = 0
    for i in range(len(txns)):
        first, last = txn_event[txns[i]], txn_event[txns[i] + 1]
        for event in range(first, last):
            while at + 1 < len(runs) and runs[at + 1, 0] <= offset[event]:
                if at >= 0:
                    before += runs[at, 1]
                at += 1
            if at >= 0 and offset[event] < runs[at, 0] + runs[at, 2]:
                events += 1
        if kept[i]:
            # The last run that began before the end of the transaction's last event is the run of that event, or an
            # earlier one.
            end = offset[last - 1] + size[last - 1]
            length = runs[at, 1] if at >= 0 else 0
            if at >= 0 and runs[at, 3] != REPLACED:
                length = min(end - runs[at, 0], length)
            ends[n, 0] = before + length
            ends[n, 1] = events
            n += 1
    return events
