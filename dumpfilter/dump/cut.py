# mypy: ignore-errors
"""The compiled division of a segment (a part of a binlog file) into chunks, the messages to slaves.

For each filter :func:`cut` goes through the transactions of a segment. The 64-bit words that
:mod:`dumpfilter.dump.atoms` has filled say which filters are sent a transaction whole, in part or not at all. One loop
makes a chunk's byte ranges, gaps (dropped transactions), rule hits (matches of filter rules), GTIDs and counts.

The arrays of :class:`Done` hold the chunks of all filters one after the other. Chunk plans are views of copies of these
arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inlined, inner, kernel
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import array_at, copy_bytes, load_u8, prefetch
from dumpfilter.dump import atoms as A
from dumpfilter.dump.atoms import weigh
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_HIT_F, FILTER_UNDECIDED_F, MOST_HITS
from dumpfilter.index.segment import TOLD_FIRST, TOLD_LAST, TOLD_SOURCE, TOLD_TRANSACTION

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_HIT = np.uint32(FILTER_HIT_F)

RANGE_OFFSET, RANGE_SIZE, RANGE_PATCH = range(3)
"""The columns of a byte range of the binlog file: offset and size in bytes, and how the master changes the bytes
(AS_IT_IS, ADD_STATEMENT_END or REPLACED).
"""
RANGE_COLUMNS = 3

AS_IT_IS = 0
"""The value in the column RANGE_PATCH of a byte range for one or more events that are sent unchanged."""
ADD_STATEMENT_END = 1
"""The value in the column RANGE_PATCH of a byte range for one rows event that is sent with STMT_END_F set. The master
does so when it drops the last event of the statement.
"""
REPLACED = 2
"""The value in the column RANGE_PATCH of a byte range for one compressed transaction that is sent in part. RANGE_SIZE
then has the size of the new event.
"""

RUN_SOURCE, RUN_FIRST, RUN_LAST = range(3)
"""The columns of a run of consecutive GTIDs: the number of the GTID source (such as a server UUID), the first and the
last transaction number.
"""
RUN_COLUMNS = 3

OF_NEXT = 0
"""The value of G_END, a gap's end position, for a gap that stands for no transaction. Such a gap only has the rule hits
(matches of filter rules) of events that are dropped inside the next transaction.
"""

G_OFFSET, G_END, G_FIRST, G_RUNS_UNTIL, G_HITS_UNTIL = range(5)
"""The columns of a gap (a run of dropped transactions), as :class:`~dumpfilter.dump.chunk.Gaps` describes them.

- G_OFFSET: the number of bytes that the chunk (message to a slave) sends before the gap.
- G_END: the file offset after the dropped transactions, or OF_NEXT.
- G_FIRST: the number of the first dropped transaction.
- G_RUNS_UNTIL, G_HITS_UNTIL: the index after the gap's last run of GTIDs, and after its last rule hits (matches of
  filter rules), among those of the chunk.
"""
GAP_COLUMNS = 5

H_END, H_RESUME, H_RESUME_BYTES = range(3)
"""The columns of a chunk (a message to a slave) that describe its end (:class:`~dumpfilter.dump.chunk.ChunkPlan`).
The columns are the end, the resume point (a transaction boundary), and the bytes that the chunk sends before the resume
point.
"""
(
    H_EVENTS_READ,
    H_EVENTS_SENT,
    H_EVENTS_DROPPED,
    H_BYTES_READ,
    H_BYTES_SENT,
    H_BYTES_DROPPED,
    H_UNDECIDED,
    H_TRANSACTIONS_READ,
    H_TRANSACTIONS_DROPPED,
) = range(3, 12)
"""The columns of a chunk (a message to a slave) that count events, bytes and transactions. They are the fields of
:class:`~dumpfilter.dump.chunk.Counts`, in their order.
"""
H_RANGES, H_GAPS, H_HITS, H_GAP_RUNS, H_RUNS = range(12, 17)
"""The columns of a chunk (a message to a slave) with the index after the chunk's last row in each array of
:class:`Done`.

In the array of GTID runs, the runs of the chunk's dropped transactions stand before the runs of all transactions that
end in the chunk.
"""
CHUNK_COLUMNS = 17

C_OFFSET, C_SIZE, C_ROLE, C_SUBJECT = range(4)
"""The columns of a carried event: byte offset and size in the file, role, and the number of the event's table or
statement. A role is the condition on which the master sends an event. A carried event belongs to an open transaction,
and events of the next segment (part of the binlog file) decide whether it is sent.
"""
CARRY_COLUMNS = 4

HIT_TRANSACTION, HIT_KIND, HIT_COUNT = range(3)
"""The columns of the rule hits (matches of filter rules with dropped events) that were counted before a segment (a part
of a binlog file) is decided. The columns are the transaction's number, the kind of rule and the count.
"""
HIT_COLUMNS = 3

D_CHUNKS, D_CARRY, D_IS_KEPT, D_ROWS_KEPT, D_POSITION, D_RESUME, D_BEGIN, D_EVENT, D_KINDS = range(9)
"""The columns of the row of results that :func:`cut` fills for each filter.

- D_CHUNKS, D_CARRY: the index after the filter's last chunk, and after its last carried event. A chunk is a message to
  a slave. A carried event waits for a decision in the next segment (part of a binlog file).
- D_POSITION, D_RESUME: the file offset where the last chunk ended, and the last transaction boundary at or before it.
- D_IS_KEPT: 1 if an event of the open transaction has been sent.
- D_ROWS_KEPT: 1 if rows of the open statement have been sent.
- D_BEGIN, D_EVENT: the first transaction that ends in the current chunk or later, and the first event that the current
  chunk counts as read.
- D_KINDS: 1 if rule hits (matches of filter rules with dropped events) have been counted since the last gap. Their
  counts follow in the row, by kind of rule.
"""
HITS = D_KINDS + 1


T_GTID, T_RUN, T_READ = range(3)
"""The columns of a transaction's row in :class:`Transactions`.

- T_GTID: the number of GTIDs of all earlier transactions.
- T_RUN: the index in ``run`` of the run of GTIDs that has the last earlier GTID; 0 without an earlier one.
- T_READ: the number of earlier transactions. An event between transactions, such as Rotate, has a row but is not
  counted.
"""
TRANSACTION_COLUMNS = 3


class Transactions(NamedTuple):
    """The GTIDs of the transactions of a segment (a part of a binlog file), compressed into runs. A run has consecutive
    transaction numbers of one GTID source (a server UUID, or a MariaDB domain and server).
    """

    row: Int64s2
    """For each transaction a row of counts, int64 of shape (n + 1, TRANSACTION_COLUMNS), with the columns ``T_...``.
    The additional last row has the totals.
    """
    run: Int64s2
    """The runs of consecutive GTIDs of one source, int64 of shape (n + 1, 3), with the columns ``RUN_...``. The
    additional last row belongs to no run.
    """
    run_gtid: Int64s
    """For each run of consecutive GTIDs (row of ``run``), the number of GTIDs in all earlier runs."""


class Done(NamedTuple):
    """The arrays into which a call of :func:`plan` writes its results.

    A row stands for one filter in ``filters``, one chunk (message to a slave) in ``chunk``, and one byte range to send
    in ``range``. A row of ``gap`` stands for one run of dropped transactions, and a row of ``run`` for one run of
    consecutive GTIDs. A row of ``hit`` has the number of hits (matches) of one kind of rule. A row of ``carry`` stands
    for one event that waits for the next segment (part of a binlog file).

    Each array but ``filters`` has the rows of the first filter, then the rows of the next, and so on. A row of
    ``chunk`` tells where the chunk's rows in the other arrays end. All arrays but ``filters`` and ``chunk`` have room
    for equally many rows.
    """

    filters: Int64s2
    chunk: Int64s2
    """The chunks (messages to slaves) of all filters, int64 of shape (n, CHUNK_COLUMNS). The first row is no chunk and
    holds zeros.
    """
    range: Int64s2
    gap: Int64s2
    run: Int64s2
    hit: Int64s2
    """The rule hits (matches of filter rules with dropped events) that the gaps (runs of dropped transactions) report,
    int64 of shape (n, 2). The columns are the index of the kind of rule in ``SLAVE_RULE_KINDS``, and the count.
    """
    carry: Int64s2


_MOST_GTIDS = np.int64((1 << 63) - 1)
"""The largest number of GTIDs that is counted in a segment (a part of a binlog file). Only a damaged relay log names
more, and further GTIDs are left out.
"""
_BUSY_AHEAD = 8
"""The distance, in transactions, at which :func:`cut` prefetches the offsets of later transactions into the processor's
cache.
"""


@inlined
def _list_run(g, n, gtids, source, first, last):
    """Append a run of consecutive GTIDs as a row of ``g.run``, or extend the last row if the new run follows it. Return
    the new number of rows.

    ``g`` has the arrays to fill (:class:`Transactions`). ``source`` is the index of the run's GTID source (a server
    UUID, or a MariaDB domain and server). ``first`` and ``last`` are the run's transaction numbers. ``n`` is the number
    of rows, and ``gtids`` the number of GTIDs in them, before the call.
    """
    if n and g.run[n - 1, RUN_SOURCE] == source and g.run[n - 1, RUN_LAST] + 1 == first:
        g.run[n - 1, RUN_LAST] = last
    else:
        g.run[n, RUN_SOURCE] = source
        g.run[n, RUN_FIRST] = first
        g.run[n, RUN_LAST] = last
        g.run_gtid[n] = gtids
        n += 1
    return n


@inner
def _list_transactions(c, low, g):
    """Write the GTIDs of the transactions from number ``low`` on to the arrays ``g`` (:class:`Transactions`), from
    which each chunk (message to a slave) gets its GTIDs.

    ``c`` are the columns of the segment (a part of a binlog file). In a relay log, Gap events list the GTIDs of
    transactions that an earlier master dropped. These GTIDs are written, too.
    """
    told = c.dropped
    k = np.int64(0)
    n = np.int64(0)
    gtids = np.int64(0)
    read = np.int64(0)
    n_txn = c.txn_source.size
    for t in range(low, n_txn):
        g.row[t, T_GTID] = gtids
        g.row[t, T_RUN] = max(n - 1, 0)
        g.row[t, T_READ] = read
        source = c.txn_source[t]
        read += source != R.KEPT
        if source >= 0:
            n = _list_run(g, n, gtids, source, c.txn_number[t], c.txn_number[t])
            gtids += min(np.int64(1), _MOST_GTIDS - gtids)
            continue
        while k < told.shape[0] and told[k, TOLD_TRANSACTION] <= t:
            if told[k, TOLD_TRANSACTION] == t:
                first, last = told[k, TOLD_FIRST], told[k, TOLD_LAST]
                n = _list_run(g, n, gtids, told[k, TOLD_SOURCE], first, last)
                gtids += min(last + 1 - first, _MOST_GTIDS - gtids)
            k += 1
    g.row[n_txn, T_GTID] = gtids
    g.row[n_txn, T_READ] = read
    g.run_gtid[n] = gtids


@inlined
def _add_runs(g, first, until, run, at):
    """Write the GTIDs of the transactions from number ``first`` up to, but without, ``until`` as rows of the array
    ``run``, from index ``at`` on. Return the index after the last row.

    A row is a run of consecutive GTIDs of one source, with the columns ``RUN_...``. ``g`` has the GTIDs of all
    transactions.
    """
    gtid = g.row[first, T_GTID]
    stop = g.row[until, T_GTID]
    k = g.row[first, T_RUN]
    while gtid < stop:
        if g.run_gtid[k + 1] <= gtid:
            k += 1
        begin = g.run[k, RUN_FIRST] - g.run_gtid[k]
        run[at, RUN_SOURCE] = g.run[k, RUN_SOURCE]
        run[at, RUN_FIRST] = begin + gtid
        gtid = min(g.run_gtid[k + 1], stop)
        run[at, RUN_LAST] = begin + gtid - 1
        at += 1
    return at


@inlined
def _start(c, t):
    """Return the byte offset in the file at which transaction number ``t`` begins, or the segment's end for the number
    after the last transaction. ``c`` are the columns of the segment (a part of the file).
    """
    event = c.txn_event[t]
    return c.offset[event] if event < c.offset.size else np.int64(c.end)


@inlined
def _add_gap(done, j, k, offset, end, first):
    """Append a gap (a run of dropped transactions) to chunk ``k`` (a message to a slave) in the arrays ``done``. Move
    to the new gap the rule hits (matches with dropped events) that have been counted for filter ``j`` since its last
    gap. The counts stand in the filter's row of ``done.filters``.

    ``offset`` is the number of bytes that the chunk sends before the gap, and ``end`` the file offset after the dropped
    transactions. ``first`` is the number of the first dropped transaction.
    """
    head, before, state = done.chunk[k], done.chunk[k - 1], done.filters[j]
    if state[D_KINDS]:
        n = head[H_HITS]
        for kind in range(state.size - HITS):
            if state[HITS + kind]:
                done.hit[n, 0] = kind
                done.hit[n, 1] = state[HITS + kind]
                state[HITS + kind] = 0
                n += 1
        head[H_HITS] = n
        state[D_KINDS] = 0
    gap = head[H_GAPS]
    done.gap[gap, G_OFFSET] = offset
    done.gap[gap, G_END] = end
    done.gap[gap, G_FIRST] = first
    done.gap[gap, G_RUNS_UNTIL] = head[H_GAP_RUNS] - before[H_RUNS]
    done.gap[gap, G_HITS_UNTIL] = head[H_HITS] - before[H_HITS]
    head[H_GAPS] = gap + 1


@inlined
def _end_gap(done, j, k, g, first, until, offset, end, is_last):
    """Append a gap (a run of dropped transactions) to chunk ``k`` (a message to the slave of filter ``j``) in the
    arrays ``done``. The gap has the GTIDs of the dropped transactions from number ``first`` up to, but without,
    ``until``.

    ``g`` has the GTIDs of the transactions of the segment (a part of a binlog file). ``offset`` is the number of bytes
    that the chunk sends before the gap, and ``end`` the file offset after the dropped transactions. A gap without a
    GTID and without rule hits (matches of filter rules) is left out, unless ``is_last`` is set.
    """
    head = done.chunk[k]
    runs = head[H_GAP_RUNS]
    head[H_GAP_RUNS] = _add_runs(g, first, until, done.run, runs)
    if is_last or head[H_GAP_RUNS] > runs or done.filters[j, D_KINDS]:
        _add_gap(done, j, k, offset, end, first)


@inlined
def _begin_chunk(done, k):
    head, before = done.chunk[k], done.chunk[k - 1]
    for column in range(H_RANGES):
        head[column] = 0
    for column in range(H_RANGES, CHUNK_COLUMNS):
        head[column] = before[column]
    head[H_GAP_RUNS] = before[H_RUNS]


@inlined
def _send(done, k, offset, size, patch, events):
    """Add a byte range of the file to chunk ``k`` (a message to a slave) in the arrays ``done``. If the new range
    begins where the chunk's last range ends, and both are sent unchanged, extend the last range instead.

    The range has ``size`` bytes from the file offset ``offset`` on, and holds ``events`` whole events. ``patch`` says
    how the master changes the bytes (AS_IT_IS, ADD_STATEMENT_END or REPLACED).
    """
    head = done.chunk[k]
    n = head[H_RANGES]
    head[H_BYTES_SENT] += size
    head[H_EVENTS_SENT] += events
    if (
        patch == AS_IT_IS
        and n > done.chunk[k - 1, H_RANGES]
        and done.range[n - 1, RANGE_PATCH] == AS_IT_IS
        and done.range[n - 1, RANGE_OFFSET] + done.range[n - 1, RANGE_SIZE] == offset
    ):
        done.range[n - 1, RANGE_SIZE] += size
    else:
        done.range[n, RANGE_OFFSET] = offset
        done.range[n, RANGE_SIZE] = size
        done.range[n, RANGE_PATCH] = patch
        head[H_RANGES] = n + 1


@inner
def _finish_chunk(c, done, j, k, g, gap, until, event, end, resume_bytes):
    """Fill the row of chunk ``k`` (a message to a slave) of filter ``j`` in the arrays ``done``, and begin the next
    chunk. Return the next chunk's row index.

    The chunk ends before the event with index ``event``, at file offset ``end``. ``until`` is the index of the first
    transaction that does not end in the chunk. If any transaction ends in the chunk, a broken stream can resume where
    transaction ``until`` begins. ``resume_bytes`` are the bytes that the chunk sends before this resume point.

    ``gap`` is the index of the first dropped transaction for which the chunk has no gap (run of dropped transactions)
    yet, or -1 for none. A new gap then has the transactions from ``gap`` up to, but without, ``until``. ``c`` are the
    columns of the segment (a part of a binlog file), and ``g`` has the GTIDs of its transactions.
    """
    head, state = done.chunk[k], done.filters[j]
    begin = state[D_BEGIN]
    if until > begin:
        state[D_RESUME] = _start(c, until)
        if gap >= 0:
            _end_gap(done, j, k, g, gap, until, resume_bytes, state[D_RESUME], True)
    else:
        resume_bytes = 0
    head[H_END] = end
    head[H_RESUME] = state[D_RESUME]
    head[H_RESUME_BYTES] = resume_bytes
    # Events that are carried to the chunk or out of it count as dropped already, and what the slave has as not read.
    head[H_EVENTS_READ] += event - state[D_EVENT]
    head[H_EVENTS_DROPPED] += head[H_EVENTS_READ] - head[H_EVENTS_SENT]
    head[H_BYTES_READ] += end - state[D_POSITION]
    head[H_BYTES_DROPPED] += head[H_BYTES_READ] - head[H_BYTES_SENT]
    head[H_TRANSACTIONS_READ] += g.row[until, T_READ] - g.row[begin, T_READ]
    head[H_TRANSACTIONS_DROPPED] += head[H_TRANSACTIONS_READ]
    head[H_RUNS] = _add_runs(g, begin, until, done.run, head[H_GAP_RUNS])
    state[D_BEGIN] = until
    state[D_EVENT] = event
    state[D_POSITION] = end
    _begin_chunk(done, k + 1)
    return k + 1


@inlined
def _count_hits(roles, subjects, first, stop, flags, rules, state):
    """Count the rule hits of the table maps and statements among the events from number ``first`` up to, but without,
    ``stop``. A rule hit is a match of an event with a rule of the filter. The caller names only events that the filter
    drops, whose hits the slave cannot count itself. Add the counts to ``state``, the filter's row of
    :attr:`Done.filters`, by kind of rule.

    ``roles`` and ``subjects`` have each event's role and the number of its table or statement. ``flags`` has the
    filter's flags (uint32) for each such number. ``rules`` is the memory address of an array with the kinds of rule
    that each table or statement matches, MOST_HITS bytes for each.
    """
    for i in range(first, stop):
        role = roles[i] & ~R.ENDS
        if role != R.TABLE_MAP and role != R.STATEMENT:
            continue
        subject = subjects[i]
        if subject < 0 or flags[subject] & _HIT == 0:
            continue
        row = np.uintp(rules) + np.uintp(MOST_HITS) * np.uintp(subject)
        for k in range(MOST_HITS):
            kind = np.int64(np.int8(load_u8(row + np.uintp(k))))
            if kind < 0:
                break
            state[HITS + kind] += 1
            state[D_KINDS] = 1


@inlined
def _take_hits(hits, t, h, state):
    """Add to ``state``, the row of :attr:`Done.filters` of one filter, the rule hits that ``hits`` has for transaction
    number ``t``. A rule hit is a match of an event that the filter drops with a rule of this filter.

    ``hits`` is :attr:`Columns.hits <dumpfilter.dump.atoms.Columns.hits>`, whose rows are in the order of the
    transactions. These hits are already counted when the segment (a part of a binlog file) is decided. Their events are
    in an earlier segment of the same transaction, or inside compressed transactions.

    ``h`` is the index of the row at which the search begins. Return the index of the first row of a later transaction
    than ``t``. The next call takes this index as ``h``.
    """
    while h < hits.shape[0] and hits[h, HIT_TRANSACTION] <= t:
        if hits[h, HIT_TRANSACTION] == t:
            state[HITS + hits[h, HIT_KIND]] += hits[h, HIT_COUNT]
            state[D_KINDS] = 1
        h += 1
    return h


@inlined
def _has(word, shift):
    return (word >> shift) & _ONE != _NONE


@inner
def _is_carried(w, atom, is_kept, flags, shift):
    """Tell whether a filter must wait for the next segment (part of a binlog file) before it decides about an atom (a
    run of events) of an open transaction. This is necessary if events of the next segment decide whether the atom is
    sent, or whether its rows event needs STMT_END_F.

    ``atom`` is the atom's row in the arrays of ``w`` (:class:`~dumpfilter.dump.atoms.Weighed`), and ``shift`` the
    number of the filter's bit in the words there. ``is_kept`` says whether the filter has sent an event of the
    transaction. ``flags`` has the filter's flags (uint32) by the number of the table or statement.
    """
    one_of = w.atoms[atom, A.A_LIST]
    if _has(w.atom[atom, A.ATOM_SENT], shift):
        # A rows event that is sent may need STMT_END_F.
        later = w.atoms[atom, A.A_LATER]
        return _has(w.atom[atom, A.ATOM_ENDS], shift) and w.lists[later, A.L_OPEN] != 0
    if one_of == A.FRAMING:
        return not is_kept
    if one_of < 0 or w.lists[one_of, A.L_OPEN] == 0:
        return False
    also = w.atoms[atom, A.A_SUBJECT]
    return also == A.NO_SUBJECT or flags[also] & _SEND != 0


@inlined
def _cut_atoms(c, f, j, k, t, is_kept, gap, flags, g, w, done):
    """Add to the chunks (messages to a slave) of filter ``j`` the atoms (runs of events) of transaction ``t`` that the
    filter sends. Begin a new chunk whenever one is full.

    Return three numbers: the new value of ``gap``, the bytes that the current chunk sends before the transaction, and
    the row of the current chunk.

    Parameters:
        c: the columns of the segment (a part of a binlog file).
        f: the filter's row of input, with the columns ``F_...``.
        k: the row of the current chunk in ``done.chunk``.
        is_kept: whether the filter sends an event of the transaction, here or in an earlier segment.
        gap: the number of the first dropped transaction for which no gap (run of dropped transactions) was written yet,
            or -1 for none. A new chunk writes this gap.
        flags: the filter's flags (uint32) by the number of the table or statement.
        g: the GTIDs of the segment's transactions.
        w: the decisions about the atoms, with a bit for each filter.
        done: the arrays that get the chunks.
    """
    shift = np.uint64(j)
    before = done.chunk[k, H_BYTES_SENT]
    chunk_size = f[A.F_CHUNK_SIZE]
    last = c.txn_event[t + 1]
    is_open = c.is_open and t == c.txn_subject.size - 1
    for a in range(w.atom_until[t] - 1, w.atom_first[t] - 1, -1):
        event = w.atoms[a, A.A_FIRST]
        events = w.atoms[a, A.A_STOP] - event
        size = w.atoms[a, A.A_SIZE]
        if is_open and _is_carried(w, a, is_kept, flags, shift):
            done.chunk[k, H_EVENTS_DROPPED] -= events
            done.chunk[k, H_BYTES_DROPPED] -= size
            continue
        if not _has(w.atom[a, A.ATOM_SENT], shift):
            continue
        patch = ADD_STATEMENT_END if _has(w.atom[a, A.ATOM_ENDS], shift) else AS_IT_IS
        if c.role[event] & ~R.ENDS == R.REPLACED:
            patch = REPLACED
        if w.atoms[a, A.A_DOUBTS] and not f[A.F_IS_OFF]:
            also = w.atoms[a, A.A_SUBJECT]
            if also < 0 or flags[also] & _UNDECIDED:
                done.chunk[k, H_UNDECIDED] += w.atoms[a, A.A_DOUBTS]
        offset = w.atoms[a, A.A_START]
        while events:
            n = events
            nbytes = size
            if done.chunk[k, H_BYTES_SENT] + size >= chunk_size:
                n = np.int64(1)
                nbytes = c.size[event]
            _send(done, k, offset, nbytes, patch, n)
            event += n
            offset += nbytes
            events -= n
            size -= nbytes
            if done.chunk[k, H_BYTES_SENT] >= chunk_size and c.carried < event and event < last:
                k = _finish_chunk(c, done, j, k, g, gap, t, event, c.offset[event], before)
                gap = np.int64(-1)
                before = np.int64(0)
    return gap, before, k


@inlined
def _count_dropped(c, t, shift, is_kept, flags, rules, w, state):
    """Count the rule hits (matches of filter rules) of the events of transaction ``t`` that a filter drops. The filter
    sends other events of the transaction. Add the counts to ``state``, the filter's row of :attr:`Done.filters`.

    ``c`` are the columns of the segment (a part of a binlog file). ``shift`` is the number of the filter's bit in the
    words of ``w``. ``flags`` and ``rules`` are the filter's flags, and the memory address of the kinds of rules that
    match, by the number of the table or statement. ``is_kept`` says whether the filter has sent an event of the
    transaction. Events that wait for the next segment are not counted yet.
    """
    is_open = c.is_open and t == c.txn_subject.size - 1
    for a in range(w.atom_until[t] - 1, w.atom_first[t] - 1, -1):
        if _has(w.atom[a, A.ATOM_SENT], shift) or (is_open and _is_carried(w, a, is_kept, flags, shift)):
            continue
        _count_hits(c.hit_role, c.subject, w.atoms[a, A.A_FIRST], w.atoms[a, A.A_STOP], flags, rules, state)


@inner
def _carry(c, t, shift, is_kept, flags, w, carry, at):
    """Find the events of the open transaction ``t`` for which a filter must wait for the next segment (part of a binlog
    file), because events there decide about them. Write them to the array ``carry``, as rows from index ``at`` on, with
    the columns ``C_...``. Return the index after the last row.

    ``c`` are the segment's columns. ``shift`` is the number of the filter's bit in the words of ``w``, and ``flags``
    has its flags (uint32) by the number of the table or statement. ``is_kept`` says whether the filter has sent an
    event of the transaction.
    """
    for a in range(w.atom_until[t] - 1, w.atom_first[t] - 1, -1):
        if not _is_carried(w, a, is_kept, flags, shift):
            continue
        for i in range(w.atoms[a, A.A_FIRST], w.atoms[a, A.A_STOP]):
            carry[at, C_OFFSET] = c.offset[i]
            carry[at, C_SIZE] = c.size[i]
            carry[at, C_ROLE] = c.role[i]
            carry[at, C_SUBJECT] = c.subject[i]
            at += 1
    return at


@inlined
def _list_busy(words, first, shift, busy):
    """Write to ``busy`` the numbers of the transactions that one filter does not drop without further work. Return how
    many there are. The filter sends events of such a transaction, its rule hits (matches of filter rules) must be
    counted, or it continues after the segment (a part of a binlog file).

    ``words`` has a 64-bit word for each transaction, the row T_BUSY of :attr:`Weighed.transaction
    <dumpfilter.dump.atoms.Weighed.transaction>`. Bit number ``shift`` of a word is about this filter. Transactions
    before number ``first`` are left out. The loop has no branch, since no processor predicts which transactions a
    filter drops.
    """
    n = np.int64(0)
    for t in range(first, words.size):
        busy[n] = t
        n += np.int64((words[t] >> shift) & _ONE)
    return n


@inlined
def _leave_out(c, head, first, until):
    """Subtract the transactions that the slave already has from a chunk's counts of read events, bytes and
    transactions. A chunk is a message to a slave, and ``head`` is its row of :attr:`Done.chunk`.

    Only transactions with numbers from ``first`` up to, but without, ``until`` are subtracted. The slave counted them
    in an earlier dump, so that they are neither read nor dropped in this one. ``c`` are the columns of the segment (a
    part of a binlog file), and ``c.has`` tells for each transaction whether the slave has it.
    """
    for t in range(first, until if c.has.size else first):
        if c.has[t]:
            head[H_EVENTS_READ] -= c.txn_event[t + 1] - c.txn_event[t]
            head[H_BYTES_READ] -= _start(c, t + 1) - _start(c, t)
            head[H_TRANSACTIONS_READ] -= not (c.is_open and t == c.has.size - 1)


@inner
def cut(c, f, j, k, g, w, done):
    """Write the chunks (messages to a slave) of filter number ``j`` for a segment (a part of a binlog file) to the
    arrays ``done``, from row ``k`` of ``done.chunk`` on. Return the row after the filter's last chunk.

    ``c`` are the segment's columns, and ``f`` is the filter's row of input with the columns ``F_...``. ``w``
    (:class:`~dumpfilter.dump.atoms.Weighed`) has 64-bit words for each transaction, in which bit ``j`` says whether the
    filter sends the transaction. ``g`` has the transactions' GTIDs.
    """
    shift = np.uint64(j)
    state = done.filters[j]
    flags = array_at(np.uintp(f[A.F_FLAGS]), w.subject.shape[1])
    rules = f[A.F_HITS]
    chunk_size = f[A.F_CHUNK_SIZE]
    n = c.txn_subject.size
    closed = n - c.is_open
    first = f[A.F_FIRST]
    state[D_BEGIN] = first
    state[D_EVENT] = max(c.txn_event[first], c.carried)
    state[D_POSITION] = f[A.F_POSITION]
    state[D_RESUME] = f[A.F_RESUME]
    _begin_chunk(done, k)
    done.chunk[k, H_EVENTS_DROPPED] = c.carried
    for i in range(c.carried):
        done.chunk[k, H_BYTES_DROPPED] += c.size[i]
    h = np.int64(0)
    gap = np.int64(-1)
    before = np.int64(0)
    following = first
    n_busy = _list_busy(w.transaction[A.T_BUSY, :n], first, shift, w.busy)
    for b in range(n_busy):
        # The offsets lie scattered, and the processor would wait for each cache line.
        ahead = w.busy[min(b + _BUSY_AHEAD, n_busy - 1)]
        prefetch(c.offset, c.txn_event[ahead])
        prefetch(c.offset, c.txn_event[ahead + 1])
        t = w.busy[b]
        if following < t:
            if gap < 0:
                gap = following
            _leave_out(c, done.chunk[k], following, t)
        following = t + 1
        next_event = c.txn_event[t + 1]
        if _has(w.transaction[A.T_WHOLE, t], shift):
            start = _start(c, t)
            before = done.chunk[k, H_BYTES_SENT]
            if gap >= 0:
                _end_gap(done, j, k, g, gap, t, before, start, False)
                gap = np.int64(-1)
            _send(done, k, start, _start(c, following) - start, AS_IT_IS, next_event - c.txn_event[t])
        else:
            is_part = _has(w.transaction[A.T_PART, t], shift)
            if is_part or t == closed:
                gap, before, k = _cut_atoms(c, f, j, k, t, is_part, gap, flags, g, w, done)
            if t == closed:
                break
            if not is_part:
                if gap < 0:
                    gap = t
                h = _take_hits(c.hits, t, h, state)
                _count_hits(c.hit_role, c.subject, c.txn_event[t], next_event, flags, rules, state)
                continue
            if gap >= 0:
                _end_gap(done, j, k, g, gap, t, before, _start(c, t), False)
                gap = np.int64(-1)
            if _has(w.transaction[A.T_HITS, t], shift):
                _count_dropped(c, t, shift, True, flags, rules, w, state)
        head = done.chunk[k]
        head[H_TRANSACTIONS_DROPPED] -= c.txn_source[t] != R.KEPT
        h = _take_hits(c.hits, t, h, state)
        if state[D_KINDS]:
            _add_gap(done, j, k, before, OF_NEXT, np.int64(0))
        if head[H_BYTES_SENT] >= chunk_size and following < n:
            end = _start(c, following)
            k = _finish_chunk(c, done, j, k, g, gap, following, next_event, end, head[H_BYTES_SENT])
    if gap < 0 and following < closed:
        gap = following
    _leave_out(c, done.chunk[k], following, n)
    is_held = closed < n and _has(w.transaction[A.T_BUSY, closed], shift)
    resume_bytes = before if is_held else done.chunk[k, H_BYTES_SENT]
    k = _finish_chunk(c, done, j, k, g, gap, closed, c.txn_event[n], c.end, resume_bytes)
    if is_held:
        is_kept = _has(w.transaction[A.T_PART, closed], shift)
        _take_hits(c.hits, closed, h, state)
        if _has(w.transaction[A.T_HITS, closed], shift):
            _count_dropped(c, closed, shift, is_kept, flags, rules, w, state)
        state[D_CARRY] = _carry(c, closed, shift, is_kept, flags, w, done.carry, state[D_CARRY])
        state[D_ROWS_KEPT] = _has(w.call[A.ROWS_KEPT], shift)
        state[D_IS_KEPT] = is_kept
    if closed < n and c.is_kept:
        state[D_IS_KEPT] = 1
    state[D_CHUNKS] = k
    return k


@kernel
def plan(
    c: A.Columns,
    filters: Int64s2,
    n_filters: int,
    begin: int,
    low: int,
    known: int,
    subjects: int,
    room: int,
    w: A.Weighed,
    g: Transactions,
    done: Done,
):
    """Decide which events of a segment (a part of a binlog file) each filter sends, and write the filters' chunks
    (messages to slaves) to ``done``. Return the number of the next filter.

    The call begins with filter number ``begin``, and stops before a filter whose chunks might not fit into ``done``.
    The caller then calls again with the returned number.

    Parameters:
        c: the segment's columns, :class:`~dumpfilter.dump.atoms.Columns`.
        filters, n_filters: one row of input for each of at most 64 filters, with the columns that
            :data:`~dumpfilter.dump.atoms.F_FLAGS` describes.
        low: the lowest number of a transaction that any of the filters has to decide.
        known: the number of tables and statements whose verdicts an earlier call with the same filters has written to
            ``w``.
        subjects: the number of all tables and statements.
        room: the largest number of rows that one filter can add to any array of ``done`` but ``chunk``.
        w: work arrays, which the call with ``begin`` 0 fills and later calls for the same segment reuse.
        g: work arrays for the GTIDs of the transactions, used in the same way.
    """
    if begin == 0:
        weigh(c, filters, n_filters, low, known, subjects, w)
        _list_transactions(c, low, g)
    k = np.int64(1)
    carry = np.int64(0)
    for j in range(begin, n_filters):
        most = carry
        for column in range(H_RANGES, CHUNK_COLUMNS):
            most = max(most, done.chunk[k - 1, column])
        if most + room > done.range.shape[0] or k + c.offset.size + 2 > done.chunk.shape[0]:
            return j
        state = done.filters[j]
        for column in range(state.size):
            state[column] = 0
        state[D_CARRY] = carry
        k = cut(c, filters[j], j, k, g, w, done)
        carry = state[D_CARRY]
    return n_filters


@kernel
def gather(ranges: Int64s2, data: Bytes, data_offset: int, out: Bytes):
    """Copy byte ranges of a binlog file into ``out``. The columns of ``ranges`` are the offset in the file, the size,
    and the offset in ``out``.

    ``data`` holds a part of the file, which begins at offset ``data_offset``. A range that does not lie completely in
    ``data`` leaves its part of ``out`` unfilled, so that the caller can read the range from the file. Return the number
    of such ranges, or -1 if ``out`` is too small.
    """
    source = np.uintp(data.ctypes.data)
    target = np.uintp(out.ctypes.data)
    outside = np.int64(0)
    for k in range(ranges.shape[0]):
        start = ranges[k, 0] - data_offset
        size = ranges[k, 1]
        at = ranges[k, 2]
        if at < 0 or at + size > out.size:
            return np.int64(-1)
        if start >= 0 and start + size <= data.size:
            copy_bytes(target + np.uintp(at), source + np.uintp(start), np.uintp(size))
        else:
            outside += 1
    return outside
