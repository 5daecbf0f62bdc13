"""The compiled parts of :mod:`dumpfilter.dump.by_transaction`: commit times, verdict words, and sums by transaction.

A verdict word has one bit for each of 64 filters. A row of words has the bits of all filters.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.compiler.kernels import kernel
from dumpfilter.dump import _tally as K

WORD = 64
"""The number of filters whose bits share a word."""

# The layout of MySQL's GTID events, without the events' headers.
_CLOCK_TYPE_AT = 1 + 16 + 8
"""The offset of the byte that says whether logical timestamps follow, which stand before the commit time."""
_HAS_TIMES = 2
_COMMIT_TIME_AT = _CLOCK_TYPE_AT + 1 + 8 + 8
_COMMIT_TIME_LENGTH = 7
_HAS_ORIGINAL_TIME = 1 << 55

_GTID = int(EventType.GTID)
_ANONYMOUS_GTID = int(EventType.ANONYMOUS_GTID)
_GTID_TAGGED = int(EventType.GTID_TAGGED)

NO_TIME = 0
"""The time of a transaction whose events tell no time."""
DECODE = -1
"""The time of a transaction whose GTID event compiled code cannot read. The caller decodes the event."""


@kernel
def commit_times(data, data_offset, offset, size, types, txn_event, checksum, out):
    """Write into ``out`` the commit time of each transaction of a segment, as its GTID event tells it.

    The times are microseconds. ``data`` has the bytes of the file from ``data_offset`` on. An entry without a GTID
    event, or with one that tells no time, becomes :data:`NO_TIME`.
    """
    for t in range(txn_event.size - 1):
        out[t] = NO_TIME
        i = txn_event[t]
        kind = types[i]
        if kind == _GTID_TAGGED:
            out[t] = DECODE
        elif kind in (_GTID, _ANONYMOUS_GTID):
            body = offset[i] - data_offset + HEADER_LENGTH
            end = offset[i] - data_offset + size[i]
            if checksum:
                end -= CHECKSUM_LENGTH
            at = body + _COMMIT_TIME_AT
            if at + _COMMIT_TIME_LENGTH <= end and data[body + _CLOCK_TYPE_AT] == _HAS_TIMES:
                value = np.int64(0)
                for k in range(_COMMIT_TIME_LENGTH):
                    value |= np.int64(data[at + k]) << np.int64(8 * k)
                out[t] = value & np.int64(_HAS_ORIGINAL_TIME - 1)


@kernel
def last_times(time, txn_event, out):
    """Write into ``out`` the timestamp of each transaction's last event that has one, Unix seconds; otherwise 0."""
    for t in range(txn_event.size - 1):
        k = txn_event[t + 1] - 1
        while k > txn_event[t] and time[k] == 0:
            k -= 1
        out[t] = time[k]


@kernel
def words_of(conditions, first, last, verdicts, rules, every, out, is_everything):
    """Write the words of the conditions ``first`` to ``last``, which tell the filters that meet each condition.

    Parameters:
        conditions: the rows of conditions (:class:`~dumpfilter.dump._tally.ConditionRows`).
        verdicts: the words of the subjects.
        rules: a word row with the bits of the filters that have rules.
        every: a word row with the bits of all filters.
        out: the words, from the row 0 on.
        is_everything: whether a slave without a filter is sent the events, from the entry 0 on.
    """
    for c in range(first, last):
        row = conditions.rows[c]
        kind = row[K.Q_KIND]
        everything = kind != K.EXACTLY
        for w in range(every.size):
            out[c - first, w] = every[w] if kind == K.ALWAYS else np.uint64(0)
        for k in range(row[K.Q_START], row[K.Q_END]):
            member = conditions.members[k]
            if kind == K.EXACTLY:
                if member < 0:
                    everything = True
                else:
                    out[c - first, member // WORD] |= np.uint64(1) << np.uint64(member % WORD)
            else:
                for w in range(every.size):
                    out[c - first, w] |= verdicts[member, w]
        if row[K.Q_REQUIRED] >= 0:
            for w in range(every.size):
                out[c - first, w] &= verdicts[row[K.Q_REQUIRED], w]
        if everything:
            for w in range(every.size):
                out[c - first, w] |= every[w] & ~rules[w]
        is_everything[c - first] = everything


@kernel
def only_set(conditions, wanted, set_of, out):
    """Write for each wanted condition the set that all its subjects have, or 0 if they have different ones.

    ``set_of`` has the number of a set for each subject.
    """
    for w in range(wanted.size):
        row = conditions.rows[wanted[w]]
        out[w] = 0
        if row[K.Q_KIND] == K.EXACTLY or row[K.Q_START] == row[K.Q_END]:
            continue
        found = set_of[conditions.members[row[K.Q_START]]]
        if row[K.Q_REQUIRED] >= 0:
            found = set_of[row[K.Q_REQUIRED]]
        else:
            for k in range(row[K.Q_START] + 1, row[K.Q_END]):
                if set_of[conditions.members[k]] != found:
                    found = 0
        out[w] = found


@kernel
def add_units(units, pattern_of, is_everything, first, dense, sparse, latest):
    """Add the units of a segment to the sums by transaction, and return the number of rows in ``sparse`` afterwards.

    Parameters:
        units: the rows of :meth:`~dumpfilter.dump.tally.Tally.take_units`.
        pattern_of: for each origin and condition, the number of the pattern; -1: no filter is sent the events.
        is_everything: for each condition, whether a slave without a filter is sent the events.
        first: the key of the first row of ``dense``.
        dense: for each transaction, the bytes, events and bytes of stand-ins of a slave without a filter.
        sparse: rows with the key, the pattern, the bytes, the events and the number of transactions.
        latest: for each pattern, the last row of ``sparse`` that has it, or -1.
    """
    n = np.int64(0)
    for u in range(units.shape[0]):
        unit = units[u]
        key = unit[K.U_BUCKET]
        c = unit[K.U_CONDITION]
        if is_everything[c]:
            dense[key - first, D_BYTES] += unit[K.U_BYTES]
            dense[key - first, D_EVENTS] += unit[K.U_EVENTS]
        dense[key - first, D_STAND_IN] += unit[K.U_STAND_IN_BYTES]
        p = pattern_of[unit[K.U_ORIGIN], c]
        if p < 0:
            continue
        row = latest[p]
        if row < 0 or row >= n or sparse[row, S_KEY] != key or sparse[row, S_PATTERN] != p:
            row = n
            n += 1
            latest[p] = row
            sparse[row, :] = 0
            sparse[row, S_KEY] = key
            sparse[row, S_PATTERN] = p
        sparse[row, S_BYTES] += unit[K.U_BYTES]
        sparse[row, S_EVENTS] += unit[K.U_EVENTS]
        sparse[row, S_TRANSACTIONS] += unit[K.U_TRANSACTIONS]
    return n


# The columns of the sums of a slave without a filter, by transaction.
D_BYTES = 0
D_EVENTS = 1
D_STAND_IN = 2
DENSE_COLUMNS = 3

# The columns of the sums by transaction and pattern.
S_KEY = 0
S_PATTERN = 1
S_BYTES = 2
S_EVENTS = 3
S_TRANSACTIONS = 4
SPARSE_COLUMNS = 5


@kernel
def sent_of(transaction, pattern, nbytes, events, is_frame, weight, ratio, out):
    """Write what one filter is sent, transaction by transaction, into ``out``, and return the number of transactions.

    Bytes between transactions count with the sent transaction before them, and those before the first sent transaction
    with that one. If nothing but such bytes is sent, the result is empty.

    Parameters:
        weight: for each pattern, how many times the slave gets its events: 0 or 1, or more from a split's binlogs.
        ratio: for each pattern, the size of its events as zstd, in millionths.
        out: rows with the transaction, the bytes, the events and the compressed bytes, with room for all entries.
    """
    n = np.int64(0)
    current = np.int64(-1)
    is_sent = False
    size = np.int64(0)
    count = np.int64(0)
    compressed = np.int64(0)
    for k in range(transaction.size + 1):
        if k == transaction.size or transaction[k] != current:
            if is_sent:
                out[n, 0] = current
                out[n, 1] = size
                out[n, 2] = count
                out[n, 3] = compressed // MILLION
                n += 1
                size = np.int64(0)
                count = np.int64(0)
                compressed = np.int64(0)
            elif n and count:
                out[n - 1, 1] += size
                out[n - 1, 2] += count
                out[n - 1, 3] += compressed // MILLION
                size = np.int64(0)
                count = np.int64(0)
                compressed = np.int64(0)
            is_sent = False
            if k == transaction.size:
                break
            current = transaction[k]
        times = weight[pattern[k]]
        if times:
            size += times * nbytes[k]
            count += times * events[k]
            compressed += times * nbytes[k] * ratio[pattern[k]]
            is_sent = is_sent or is_frame[k]
    return n


MILLION = 1_000_000
"""The unit of compression ratios, which are integers so that each engine rounds alike."""
