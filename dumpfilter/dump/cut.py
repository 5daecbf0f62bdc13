# mypy: ignore-errors
"""The compiled cut of a segment into chunks, from the words that :mod:`dumpfilter.dump.atoms` makes.

For each filter :func:`cut` goes through the transactions of a segment. The words say of each transaction whether the
filter is sent the whole, a part or nothing. So a chunk's byte ranges, gaps, hits, GTIDs and counts come from one loop.
The chunks are written packed, one after the other, into one array of integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import array_at, copy_bytes, load_u8
from dumpfilter.compiler.kernels import inlined, kernel, njit
from dumpfilter.dump import atoms as A
from dumpfilter.dump.atoms import weigh
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_HIT_F, FILTER_UNDECIDED_F, MOST_HITS

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_HIT = np.uint32(FILTER_HIT_F)

# The columns of a byte range of the binlog file. RANGE_PATCH says how the master changes the bytes.
RANGE_OFFSET = 0
RANGE_SIZE = 1
RANGE_PATCH = 2
RANGE_COLUMNS = 3

AS_IT_IS = 0
"""A byte range of one or more events that is sent unchanged."""
ADD_STATEMENT_END = 1
"""A byte range of one rows event, which is sent with STMT_END_F set because its statement's last event is dropped."""
REPLACED = 2
"""A byte range of one compressed transaction that is sent in part. The range's size is the size of the new event."""

# The columns of a run of consecutive GTIDs: the number of the GTID source (such as a server UUID), the first and the
# last transaction number.
RUN_SOURCE = 0
RUN_FIRST = 1
RUN_LAST = 2
RUN_COLUMNS = 3

OF_NEXT = 0
"""The value in place of a gap's end which says that the gap only has hits of the transaction that follows."""

# The columns of a filter's row of results.
D_FIRST_CHUNK = 0
D_CHUNKS = 1  # the index after the filter's last chunk
D_FIRST = 2
D_CARRY = (
    3  # the index in ``data`` after the filter's last chunk, where the carry of an open transaction begins
)
D_ENDS = 4  # the index in ``data`` after the carry, where the ends of transactions begin
D_UNTIL = 5  # the index in ``data`` after the ends
D_POSITION = 6
D_RESUME = 7
D_IS_KEPT = 8  # 1 if an event of the open transaction has been sent
D_ROWS_KEPT = 9  # 1 if rows of the open statement have been sent
DONE_COLUMNS = 10

# The integers at the head of each chunk in ``data``. The arrays follow in the order of their lengths.
H_END = 0
H_RESUME = 1
H_RESUME_BYTES = 2
H_COUNTS = 3  # from here on the fields of ``chunk.Counts`` without ``bytes_gtid``, in their order
H_UNDECIDED = 9
H_RANGES = 12  # the number of byte ranges, of 3 integers each
H_COMPLETED = 13  # the number of runs of GTIDs, of 3 integers each
H_GAPS = 14  # the number of gaps, with one integer in each of four arrays
H_RUNS = 15  # the number of the gaps' runs of GTIDs, of 3 integers each
H_HITS = 16  # the number of the gaps' rows of hits, of 2 integers each
HEAD = 17

# The columns of a carried event: one that the segment leaves undecided.
C_OFFSET = 0
C_SIZE = 1
C_ROLE = 2
C_SUBJECT = 3
CARRY_COLUMNS = 4

# The columns of the hits of a transaction that are known before the segment is decided.
HIT_TRANSACTION = 0
HIT_KIND = 1
HIT_COUNT = 2
HIT_COLUMNS = 3

# The columns of the end of a transaction of which something is sent.
END_TRANSACTION = 0
END_BYTES = 1  # the bytes of the chunk up to the end
END_EVENTS = 2
END_COLUMNS = 3

# The columns of a gap.
G_OFFSET = 0
G_END = 1
G_RUNS_UNTIL = 2
G_HITS_UNTIL = 3
GAP_COLUMNS = 4

# The columns of ``Chunk.now``: the chunk that is being made.
N_AT = 0  # the index in ``data`` of the chunk
N_CHUNKS = 1  # the number of the chunk
N_BEGIN = 2  # the first transaction that ends in the chunk or later
N_EVENT = 3  # the first event that is read for the chunk
N_POSITION = 4
N_RESUME = 5
N_RANGES = 6  # the index in ``data`` after the last byte range
N_COUNTED = 7  # 1 if ``hits`` has any
N_BYTES = 8  # the bytes of events that are sent
N_EVENTS = 9
N_UNDECIDED = 10
N_KEPT = 11  # the transactions of which something is sent, without events of the file
N_GAPS = 12
N_RUNS = 13  # three for each run
N_HITS = 14  # two for each row of hits
N_OTHER_EVENTS = 15  # the events that were carried to the chunk, less those that the segment leaves undecided
N_OTHER_BYTES = 16
N_HAS_EVENTS = 17  # the events of transactions that the slave has
N_HAS_BYTES = 18
N_HAS = 19  # the transactions that the slave has
N_ENDS = 20  # the ends of transactions
NOW = 21


class Transactions(NamedTuple):
    """The places and the GTIDs of a segment's transactions. The GTIDs are runs, of which one may follow another in its
    numbers."""

    until: np.ndarray
    """For each transaction, the index of its first run. One entry more holds the number of runs."""
    run: np.ndarray
    """The runs, int64 of shape (n, 3)."""
    break_: np.ndarray
    """For each run, the index of the first later run that does not follow the run before."""
    start: np.ndarray
    """For each transaction, the file offset at which the transaction begins. One entry more holds the segment's end."""
    read: np.ndarray
    """For each transaction, the number of transactions before it, without events of the file."""


class Chunk(NamedTuple):
    """The parts of the chunk that is being made."""

    now: np.ndarray
    gap: np.ndarray
    gap_runs: np.ndarray
    gap_hits: np.ndarray
    hits: np.ndarray
    """The hits of the open gap, by kind of rule."""
    ends: np.ndarray
    """The ends of transactions, int64 of shape (n, END_COLUMNS)."""


class Done(NamedTuple):
    """The results of a call."""

    filters: np.ndarray
    starts: np.ndarray
    """The index in ``data`` of each chunk."""
    data: np.ndarray


@kernel
def _list_transactions(c, low, g):
    """List the places and the GTIDs of the transactions from number ``low`` on."""
    gap_transaction, gap_until, gap_runs = c.dropped
    gap = np.int64(0)
    n = np.int64(0)
    read = np.int64(0)
    n_txn = c.txn_source.size
    for t in range(low, n_txn):
        g.until[t] = n
        g.start[t] = c.offset[c.txn_event[t]]
        g.read[t] = read
        source = c.txn_source[t]
        read += source != R.KEPT
        if source >= 0:
            g.run[n, RUN_SOURCE] = source
            g.run[n, RUN_FIRST] = c.txn_number[t]
            g.run[n, RUN_LAST] = c.txn_number[t]
            n += 1
            continue
        while gap < gap_transaction.size and gap_transaction[gap] < t:
            gap += 1
        if gap < gap_transaction.size and gap_transaction[gap] == t:
            for k in range(gap_until[gap - 1] if gap else np.int64(0), gap_until[gap]):
                for column in range(RUN_COLUMNS):
                    g.run[n, column] = gap_runs[k, column]
                n += 1
    g.until[n_txn] = n
    g.start[n_txn] = c.end
    g.read[n_txn] = read
    following = n
    for k in range(n - 1, -1, -1):
        g.break_[k] = following
        if k and (
            g.run[k - 1, RUN_SOURCE] != g.run[k, RUN_SOURCE]
            or g.run[k - 1, RUN_LAST] + 1 != g.run[k, RUN_FIRST]
        ):
            following = k


@inlined
def _runs_between(g, first, until, out, at):
    """Write the GTIDs of some transactions to ``out``, a flat array, with neighbours joined. Return the index after."""
    k = g.until[first]
    stop = g.until[until]
    while k < stop:
        last = min(g.break_[k], stop)
        out[at + RUN_SOURCE] = g.run[k, RUN_SOURCE]
        out[at + RUN_FIRST] = g.run[k, RUN_FIRST]
        out[at + RUN_LAST] = g.run[last - 1, RUN_LAST]
        at += RUN_COLUMNS
        k = last
    return at


@inlined
def _add_gap(chunk, offset, end):
    now = chunk.now
    if now[N_COUNTED]:
        n = now[N_HITS]
        for kind in range(chunk.hits.size):
            if chunk.hits[kind]:
                chunk.gap_hits[n] = kind
                chunk.gap_hits[n + 1] = chunk.hits[kind]
                chunk.hits[kind] = 0
                n += 2
        now[N_HITS] = n
        now[N_COUNTED] = 0
    gap = now[N_GAPS]
    chunk.gap[gap, G_OFFSET] = offset
    chunk.gap[gap, G_END] = end
    chunk.gap[gap, G_RUNS_UNTIL] = now[N_RUNS] // RUN_COLUMNS
    chunk.gap[gap, G_HITS_UNTIL] = now[N_HITS] // 2
    now[N_GAPS] = gap + 1


@inlined
def _end_gap(chunk, g, first, until, offset, end, is_last):
    """Add the gap of the dropped transactions from ``first`` up to, but without, ``until``.

    A gap between two transactions that are sent is of use only with a GTID or with hits.
    """
    runs = chunk.now[N_RUNS]
    chunk.now[N_RUNS] = _runs_between(g, first, until, chunk.gap_runs, runs)
    if is_last or chunk.now[N_RUNS] > runs or chunk.now[N_COUNTED]:
        _add_gap(chunk, offset, end)


@kernel
def _begin_chunk(now, at):
    now[N_AT] = at
    now[N_RANGES] = at + HEAD
    now[N_BYTES:N_ENDS] = 0


@inlined
def _send(now, data, offset, size, patch, events):
    """Add a byte range to a chunk, or enlarge the chunk's last byte range if the two are neighbours."""
    at = now[N_RANGES]
    now[N_BYTES] += size
    now[N_EVENTS] += events
    if (
        patch == AS_IT_IS
        and at > now[N_AT] + HEAD
        and data[at - 1] == AS_IT_IS
        and data[at - RANGE_COLUMNS] + data[at - RANGE_COLUMNS + 1] == offset
    ):
        data[at - RANGE_COLUMNS + RANGE_SIZE] += size
    else:
        data[at + RANGE_OFFSET] = offset
        data[at + RANGE_SIZE] = size
        data[at + RANGE_PATCH] = patch
        now[N_RANGES] = at + RANGE_COLUMNS


@kernel
def _finish_chunk(g, chunk, done, gap, until, event, end, resume_bytes):
    """Write a chunk's head and arrays to ``done.data``, and begin the next one.

    ``gap`` is the first transaction of the gap that is open, or -1. The chunk ends before event number ``event``, at
    file offset ``end``. Transaction ``until`` is the first that does not end in the chunk or before. ``resume_bytes``
    are the bytes that the chunk sends before that transaction.
    """
    now, data = chunk.now, done.data
    begin = now[N_BEGIN]
    resume = now[N_RESUME]
    if until > begin:
        resume = g.start[until]
        if gap >= 0:
            _end_gap(chunk, g, gap, until, resume_bytes, resume, True)
    else:
        resume_bytes = 0
    at = now[N_AT]
    done.starts[now[N_CHUNKS]] = at
    data[at + H_END] = end
    data[at + H_RESUME] = resume
    data[at + H_RESUME_BYTES] = resume_bytes
    events_read = event - now[N_EVENT] - now[N_HAS_EVENTS]
    bytes_read = end - now[N_POSITION] - now[N_HAS_BYTES]
    transactions_read = g.read[until] - g.read[begin] - now[N_HAS]
    counts = at + H_COUNTS
    data[counts] = events_read
    data[counts + 1] = now[N_EVENTS]
    data[counts + 2] = events_read + now[N_OTHER_EVENTS] - now[N_EVENTS]
    data[counts + 3] = bytes_read
    data[counts + 4] = now[N_BYTES]
    data[counts + 5] = bytes_read + now[N_OTHER_BYTES] - now[N_BYTES]
    data[counts + 6] = now[N_UNDECIDED]
    data[counts + 7] = transactions_read
    data[counts + 8] = transactions_read - now[N_KEPT]
    completed = now[N_RANGES]
    data[at + H_RANGES] = (completed - at - HEAD) // RANGE_COLUMNS
    to = _runs_between(g, begin, until, data, completed)
    data[at + H_COMPLETED] = (to - completed) // RUN_COLUMNS
    gaps = now[N_GAPS]
    data[at + H_GAPS] = gaps
    data[at + H_RUNS] = now[N_RUNS] // RUN_COLUMNS
    data[at + H_HITS] = now[N_HITS] // 2
    for column in range(GAP_COLUMNS):
        for k in range(gaps):
            data[to + k] = chunk.gap[k, column]
        to += gaps
    for k in range(now[N_RUNS]):
        data[to + k] = chunk.gap_runs[k]
    to += now[N_RUNS]
    for k in range(now[N_HITS]):
        data[to + k] = chunk.gap_hits[k]
    to += now[N_HITS]
    now[N_CHUNKS] += 1
    now[N_BEGIN] = until
    now[N_EVENT] = event
    now[N_POSITION] = end
    now[N_RESUME] = resume
    _begin_chunk(now, to)


@inlined
def _count_hits(roles, subjects, first, stop, flags, rules, chunk):
    """Count the uses of rules by the dropped table maps and statements of the events from ``first`` to ``stop``."""
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
            chunk.hits[kind] += 1
            chunk.now[N_COUNTED] = 1


@inlined
def _take_hits(hits, t, h, chunk):
    """Add the hits that are known of transaction ``t`` already. Return the index after the transaction's rows."""
    while h < hits.shape[0] and hits[h, HIT_TRANSACTION] <= t:
        if hits[h, HIT_TRANSACTION] == t:
            chunk.hits[hits[h, HIT_KIND]] += hits[h, HIT_COUNT]
            chunk.now[N_COUNTED] = 1
        h += 1
    return h


@inlined
def _is_sent(w, atom, word, shift):
    return (w.atom[atom, word] >> shift) & _ONE != _NONE


@kernel
def _is_carried(w, atom, is_kept, flags, shift):
    """Tell whether later events decide about an atom of an open transaction."""
    one_of = w.atoms[atom, A.A_LIST]
    if _is_sent(w, atom, A.ATOM_SENT, shift):
        # A rows event that is sent may need STMT_END_F.
        later = w.atoms[atom, A.A_LATER]
        return _is_sent(w, atom, A.ATOM_ENDS, shift) and w.lists[later, A.L_OPEN] != 0
    if one_of == A.FRAMING:
        return not is_kept
    if one_of < 0 or w.lists[one_of, A.L_OPEN] == 0:
        return False
    also = w.atoms[atom, A.A_SUBJECT]
    return also == A.NO_SUBJECT or flags[also] & _SEND != 0


@inlined
def _cut_atoms(c, f, t, first_atom, shift, is_kept, gap, flags, g, w, chunk, done):
    """Send the atoms of transaction ``t`` that a filter is sent.

    Return the gap that is open, and the bytes of the chunk before the transaction.
    """
    now, data = chunk.now, done.data
    before = now[N_BYTES]
    chunk_size = f[A.F_CHUNK_SIZE]
    last = c.txn_event[t + 1]
    is_open = c.is_open and t == c.txn_subject.size - 1
    for a in range(w.atom_until[t] - 1, first_atom - 1, -1):
        event = w.atoms[a, A.A_FIRST]
        events = w.atoms[a, A.A_STOP] - event
        size = w.atoms[a, A.A_SIZE]
        if is_open and _is_carried(w, a, is_kept, flags, shift):
            now[N_OTHER_EVENTS] -= events
            now[N_OTHER_BYTES] -= size
            continue
        if not _is_sent(w, a, A.ATOM_SENT, shift):
            continue
        patch = ADD_STATEMENT_END if _is_sent(w, a, A.ATOM_ENDS, shift) else AS_IT_IS
        if c.role[event] & ~R.ENDS == R.REPLACED:
            patch = REPLACED
        if w.atoms[a, A.A_DOUBTS] and not f[A.F_IS_OFF]:
            also = w.atoms[a, A.A_SUBJECT]
            if also < 0 or flags[also] & _UNDECIDED:
                now[N_UNDECIDED] += w.atoms[a, A.A_DOUBTS]
        offset = w.atoms[a, A.A_START]
        while events:
            n = events
            nbytes = size
            if now[N_BYTES] + size >= chunk_size:
                n = np.int64(1)
                nbytes = c.size[event]
            _send(now, data, offset, nbytes, patch, n)
            event += n
            offset += nbytes
            events -= n
            size -= nbytes
            if now[N_BYTES] >= chunk_size and c.carried < event and event < last:
                _finish_chunk(g, chunk, done, gap, t, event, c.offset[event], before)
                gap = np.int64(-1)
                before = np.int64(0)
    return gap, before


@inlined
def _count_dropped(c, t, first_atom, shift, is_kept, flags, rules, w, chunk):
    """Count the uses of rules by the events of transaction ``t``, of which a filter is sent a part."""
    is_open = c.is_open and t == c.txn_subject.size - 1
    for a in range(w.atom_until[t] - 1, first_atom - 1, -1):
        if _is_sent(w, a, A.ATOM_SENT, shift) or (is_open and _is_carried(w, a, is_kept, flags, shift)):
            continue
        _count_hits(c.hit_role, c.subject, w.atoms[a, A.A_FIRST], w.atoms[a, A.A_STOP], flags, rules, chunk)


@kernel
def _carry(c, t, first_atom, shift, is_kept, flags, w, chunk, data, at):
    """Write the hits of an open transaction, and the events that later events decide about. Return the index after."""
    for kind in range(chunk.hits.size):
        data[at] = chunk.hits[kind]
        chunk.hits[kind] = 0
        at += 1
    chunk.now[N_COUNTED] = 0
    for a in range(w.atom_until[t] - 1, first_atom - 1, -1):
        if not _is_carried(w, a, is_kept, flags, shift):
            continue
        for i in range(w.atoms[a, A.A_FIRST], w.atoms[a, A.A_STOP]):
            data[at + C_OFFSET] = c.offset[i]
            data[at + C_SIZE] = c.size[i]
            data[at + C_ROLE] = c.role[i]
            data[at + C_SUBJECT] = c.subject[i]
            at += CARRY_COLUMNS
    return at


@kernel
def _rows_kept(c, t, flags, sends_unmapped):
    """Tell whether rows of the open statement have been sent."""
    for i in range(c.txn_event[t + 1] - 1, c.txn_event[t] - 1, -1):
        role = c.role[i] & ~R.ENDS
        if role == R.ROWS_END or role == R.DUMMY_ROWS:
            return False
        if role == R.ROWS:
            subject = c.subject[i]
            if sends_unmapped if subject < 0 else flags[subject] & _SEND != 0:
                return True
    return c.rows_kept


@kernel
def cut(c, f, bit, low, g, w, chunk, done, result):
    """Write the chunks of one filter, whose bit in the words has number ``bit``, to ``done``."""
    now, data = chunk.now, done.data
    shift = np.uint64(bit)
    flags = array_at(np.uintp(f[A.F_FLAGS]), w.stamp.size)
    rules = f[A.F_HITS]
    chunk_size = f[A.F_CHUNK_SIZE]
    n = c.txn_subject.size
    closed = n - c.is_open
    first = f[A.F_FIRST]
    now[N_BEGIN] = first
    now[N_EVENT] = max(c.txn_event[first], c.carried)
    now[N_POSITION] = f[A.F_POSITION]
    now[N_RESUME] = f[A.F_RESUME]
    now[N_OTHER_EVENTS] = c.carried
    for i in range(c.carried):
        now[N_OTHER_BYTES] += c.size[i]
    now[N_ENDS] = 0
    h = np.int64(0)
    gap = np.int64(-1)
    before = np.int64(0)
    for t in range(first, n):
        if (w.transaction[A.T_BUSY, t] >> shift) & _ONE == _NONE:
            if gap < 0 and t < closed:
                gap = t
            if c.has.size and c.has[t]:
                now[N_HAS_EVENTS] += c.txn_event[t + 1] - c.txn_event[t]
                now[N_HAS_BYTES] += g.start[t + 1] - g.start[t]
                now[N_HAS] += t < closed
            continue
        next_event = c.txn_event[t + 1]
        if (w.transaction[A.T_WHOLE, t] >> shift) & _ONE:
            start = g.start[t]
            before = now[N_BYTES]
            if gap >= 0:
                _end_gap(chunk, g, gap, t, before, start, False)
                gap = np.int64(-1)
            _send(now, data, start, g.start[t + 1] - start, AS_IT_IS, next_event - c.txn_event[t])
            now[N_KEPT] += c.txn_source[t] != R.KEPT
            if (w.transaction[A.T_DOUBT, t] >> shift) & _ONE:
                for i in range(c.txn_event[t], next_event):
                    now[N_UNDECIDED] += c.subject[i] == c.txn_subject[t]
        else:
            first_atom = w.atom_until[t - 1] if t > low else np.int64(0)
            is_part = (w.transaction[A.T_PART, t] >> shift) & _ONE != _NONE
            if is_part or t == closed:
                gap, before = _cut_atoms(c, f, t, first_atom, shift, is_part, gap, flags, g, w, chunk, done)
            if t == closed:
                break
            if not is_part:
                if gap < 0:
                    gap = t
                h = _take_hits(c.hits, t, h, chunk)
                _count_hits(c.hit_role, c.subject, c.txn_event[t], next_event, flags, rules, chunk)
                continue
            if gap >= 0:
                _end_gap(chunk, g, gap, t, before, g.start[t], False)
                gap = np.int64(-1)
            now[N_KEPT] += c.txn_source[t] != R.KEPT
            if (w.transaction[A.T_HITS, t] >> shift) & _ONE:
                _count_dropped(c, t, first_atom, shift, True, flags, rules, w, chunk)
        if f[A.F_LISTS_ENDS]:
            chunk.ends[now[N_ENDS], END_TRANSACTION] = t
            chunk.ends[now[N_ENDS], END_BYTES] = now[N_BYTES]
            chunk.ends[now[N_ENDS], END_EVENTS] = now[N_EVENTS]
            now[N_ENDS] += 1
        h = _take_hits(c.hits, t, h, chunk)
        if now[N_COUNTED]:
            _add_gap(chunk, before, OF_NEXT)
        if now[N_BYTES] >= chunk_size and t + 1 < n:
            _finish_chunk(g, chunk, done, gap, t + 1, next_event, g.start[t + 1], now[N_BYTES])
    resume_bytes = before if closed < n else now[N_BYTES]
    _finish_chunk(g, chunk, done, gap, closed, c.txn_event[n], c.end, resume_bytes)
    at = now[N_AT]
    result[D_CARRY] = at
    if closed < n:
        first_atom = w.atom_until[closed - 1] if closed > low else np.int64(0)
        is_kept = (w.transaction[A.T_PART, closed] >> shift) & _ONE != _NONE
        if (w.transaction[A.T_BUSY, closed] >> shift) & _ONE:
            _take_hits(c.hits, closed, h, chunk)
            if (w.transaction[A.T_HITS, closed] >> shift) & _ONE:
                _count_dropped(c, closed, first_atom, shift, is_kept, flags, rules, w, chunk)
            result[D_ROWS_KEPT] = _rows_kept(c, closed, flags, f[A.F_UNMAPPED] != 0)
        else:
            first_atom = w.atom_until[closed]
        at = _carry(c, closed, first_atom, shift, is_kept, flags, w, chunk, data, at)
        result[D_IS_KEPT] = is_kept or c.is_kept
    result[D_ENDS] = at
    for k in range(now[N_ENDS]):
        for column in range(END_COLUMNS):
            data[at] = chunk.ends[k, column]
            at += 1
    now[N_AT] = at
    now[N_RANGES] = at + HEAD


@kernel
def plan(c, filters, n_filters, begin, low, call, room, w, g, chunk, done):
    """Decide a segment for the filters from number ``begin`` on. Return the number of the next filter.

    The call stops before a filter whose chunks might not fit into ``done``.

    Parameters:
        c: the segment's columns, :class:`~dumpfilter.dump.atoms.Columns`.
        filters, n_filters: one row of input for each of at most 64 filters.
        low: the smallest number of a transaction at which a filter begins.
        call: a number that no earlier call with the same arrays ``w`` had for other filters or segments.
        room: the most chunks of one filter, and the most integers of them in ``done.data``.
    """
    if begin == 0:
        weigh(c, filters, n_filters, low, w, call)
        _list_transactions(c, low, g)
    now = chunk.now
    now[N_CHUNKS] = 0
    now[N_COUNTED] = 0
    _begin_chunk(now, 0)
    for j in range(begin, n_filters):
        if now[N_CHUNKS] + room[0] > done.starts.size or now[N_AT] + room[1] > done.data.size:
            return j
        result = done.filters[j]
        result[:] = 0
        result[D_FIRST_CHUNK] = now[N_CHUNKS]
        result[D_FIRST] = now[N_AT]
        cut(c, filters[j], j, low, g, w, chunk, done, result)
        result[D_CHUNKS] = now[N_CHUNKS]
        result[D_UNTIL] = now[N_AT]
        result[D_POSITION] = now[N_POSITION]
        result[D_RESUME] = now[N_RESUME]
    return n_filters


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
