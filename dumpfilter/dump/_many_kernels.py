# mypy: ignore-errors
"""The compiled decision of one segment for up to 64 slaves. :mod:`dumpfilter.dump.many` describes the method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import array_at, load_u8, load_u32, trailing_zeros
from dumpfilter.dump.decide import (
    AS_IT_IS,
    FLAG_SEND,
    RANGE_COLUMNS,
    RANGE_OFFSET,
    RANGE_SIZE,
    Events,
    Output,
    Transactions,
    Verdicts,
    add_range,
    begin_chunk,
    end_chunk,
    inlined,
    kernel,
    walk_transaction,
)
from dumpfilter.filter.flags import FILTER_HIT_F, FILTER_UNDECIDED_F

SLAVES = 64
"""The most slaves that one call decides for, the bits of a word."""

_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_HIT = np.uint32(FILTER_HIT_F)
_NO_SLAVE = np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_WORD_SHIFT = 6
_WORD_MASK = 63

OF_NEXT = 0
"""The value of :data:`dumpfilter.dump.gaps.OF_NEXT`, which that module explains."""

# The columns of a slave's row of input.
S_FLAGS = 0  # the address of the filter's flags, one uint32 for each subject
S_HITS = 1  # the address of the rules that each subject matches, _MOST_HITS int8 for each subject
S_SENDS_ALL = 2  # 1 for a filter without rules
S_FIRST = 3  # the number of the first transaction to decide
S_CHUNK_SIZE = 4
S_POSITION = 5  # the file offset where the slave's last chunk ended
S_RESUME = 6  # the last boundary at or before S_POSITION
SLAVE_COLUMNS = 7

_HIT_COLUMNS = 4
"""The bytes of a subject's row of rules, the value of ``_MOST_HITS`` in :mod:`dumpfilter.filter.flags`."""

# The columns of a slave's row of results.
D_FIRST_CHUNK = 0
D_CHUNKS = 1  # the index after the slave's last chunk
D_FIRST = 2
D_UNTIL = 3  # the index in ``data`` after the slave's last chunk
D_POSITION = 4
D_RESUME = 5
DONE_COLUMNS = 6

# The integers at the head of each chunk in ``data``. The arrays follow in the order of their lengths.
H_END = 0
H_RESUME = 1
H_RESUME_BYTES = 2
H_COUNTS = 3  # from here on the fields of ``chunk.Counts`` without ``bytes_gtid``, in their order
H_RANGES = 12  # the number of byte ranges, of 3 integers each
H_COMPLETED = 13  # the number of runs of GTIDs, of 3 integers each
H_GAPS = 14  # the number of gaps, with one integer in each of four arrays
H_RUNS = 15  # the number of the gaps' runs of GTIDs, of 3 integers each
H_HITS = 16  # the number of the gaps' rows of hits, of 2 integers each
HEAD = 17


# The columns of the array ``place``, the begin of the chunk that is being decided.
P_AT = 0  # the index in ``data`` of the chunk
P_CHUNKS = 1  # the number of the chunk
P_BEGIN = 2  # the first transaction that ends in the chunk or later
P_EVENT = 3  # the first event that is read for the chunk
P_POSITION = 4
P_RESUME = 5
P_BUFFERED_EVENTS = 6
P_BUFFERED_BYTES = 7
P_LOW = 8  # the first transaction that any slave decides
PLACE_COLUMNS = 9

# The columns of ``Shared.statements``.
PART_START = 0  # the file offset of the statement's first event
PART_END = 1
PART_SUBJECT = 2
PART_EVENTS = 3  # the number of events
PART_IS_STATEMENT = 4  # 1 for a statement's text, 0 for rows
PART_COLUMNS = 5

# The columns of ``Streams.used``.
U_GAPS = 0
U_RUNS = 1
U_HITS = 2
U_COUNTED = 3
USED = 4


class Columns(NamedTuple):
    """A segment's columns."""

    events: Events
    transactions: Transactions
    source: np.ndarray
    number: np.ndarray
    sets: np.ndarray
    set_subject: np.ndarray
    hit_role: np.ndarray
    """The events' roles, with XA COMMIT and XA ROLLBACK treated like COMMIT, because they use no rule."""


class Words(NamedTuple):
    """Words with a bit for each slave."""

    stamp: np.ndarray
    """For each subject, the number of the call that has filled the subject's words, int64."""
    send: np.ndarray
    """For each subject, the slaves whose filters send it, uint64."""
    undecided: np.ndarray
    hit: np.ndarray
    sent: np.ndarray
    """For each transaction, the slaves that are sent it whole, uint64."""
    walked: np.ndarray
    """For each transaction, the slaves for which each event is decided separately."""
    counted: np.ndarray
    """For each transaction, the slaves that are sent it whole because their filters cannot decide."""
    hits: np.ndarray
    """For each transaction, the slaves for which dropped events may have used rules."""
    block: np.ndarray
    """Room for 64 words."""
    special_block: np.ndarray
    """Room for 64 words."""
    rows: np.ndarray
    """For each slave, words with a bit for each transaction that needs work, uint64 of shape (64, n)."""
    special: np.ndarray
    """For each slave, words with a bit for each transaction that needs more work than to be sent whole."""


class Shared(NamedTuple):
    """Facts about a segment's transactions that all slaves share."""

    start: np.ndarray
    """For each transaction, the file offset where it begins."""
    end: np.ndarray
    """For each transaction, the file offset where it ends."""

    statements: np.ndarray
    """The statements of the transactions of which some slaves are sent a part, with the columns PART_..., int64."""
    statements_from: np.ndarray
    """For each such transaction, the index of its first statement."""
    statement_events: np.ndarray
    """For each such transaction, the number of events of all its statements."""
    statements_until: np.ndarray
    """For each such transaction, the index after its last statement. No statements: each event is decided."""
    runs: np.ndarray
    """Runs of consecutive GTIDs."""
    is_one_run: np.ndarray
    """One entry: whether all transactions have GTIDs, in one run. Then GTIDs can be counted instead of looked up."""
    run: np.ndarray
    """For each transaction with a GTID, the number of its run."""
    following: np.ndarray
    """For each transaction, the first transaction at or after it that has a GTID."""
    before: np.ndarray
    """For each transaction, the last transaction before it that has a GTID."""
    read: np.ndarray
    """For each transaction, the number of transactions before it, without events of the file."""


class Streams(NamedTuple):
    """The parts of the chunk that is being decided."""

    ranges: np.ndarray
    is_kept: np.ndarray
    chunk: np.ndarray
    gap_offset: np.ndarray
    gap_end: np.ndarray
    gap_runs_until: np.ndarray
    gap_hits_until: np.ndarray
    gap_runs: np.ndarray
    gap_hits: np.ndarray
    hits: np.ndarray
    """The hits of the open gap, by kind of rule."""
    place: np.ndarray
    """The place at which the chunk begins, with the columns P_AT to P_LOW."""
    used: np.ndarray
    """The numbers of gaps, of their runs, of their rows of hits, and whether ``hits`` has any."""


class Done(NamedTuple):
    """The results of a call."""

    slaves: np.ndarray
    starts: np.ndarray
    """The index in ``data`` of each chunk."""
    data: np.ndarray


@inlined
def _fill_subject(subject, slaves, n_slaves, words, call):
    if words.stamp[subject] != call:
        words.stamp[subject] = call
        send = _NO_SLAVE
        undecided = _NO_SLAVE
        hit = _NO_SLAVE
        for j in range(n_slaves):
            flags = load_u32(np.uintp(slaves[j, S_FLAGS]) + np.uintp(4) * np.uintp(subject))
            bit = _ONE << np.uint64(j)
            if flags & FLAG_SEND:
                send |= bit
            if flags & _UNDECIDED:
                undecided |= bit
            if flags & _HIT:
                hit |= bit
        words.send[subject] = send
        words.undecided[subject] = undecided
        words.hit[subject] = hit


@inlined
def _transpose(block):
    """Transpose 64 words of 64 bits."""
    width = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while width:
        shift = np.uint64(width)
        k = 0
        while k < SLAVES:
            swap = ((block[k] >> shift) ^ block[k + width]) & mask
            block[k] ^= swap << shift
            block[k + width] ^= swap
            k = (k + width + 1) & ~width
        width >>= 1
        mask ^= mask << np.uint64(width)


@inlined
def _find_statements(columns, t, shared, n):
    """Add the statements of transaction ``t`` to ``shared.statements``, which has ``n`` rows. Return their new number.

    The result is ``n`` if the transaction has anything but a head, statements of one subject each, and one last event.
    The master sends such a transaction's statements whole or not at all, with the head and the last event.
    """
    offsets, sizes, roles, subjects = columns.events
    statements = shared.statements
    used = n
    i = columns.transactions.event[t]
    last = columns.transactions.event[t + 1] - 1
    while i < last and (roles[i] == R.GTID or roles[i] == R.FRAME):
        i += 1
    while i < last:
        begin = i
        while i < last and roles[i] == R.CONTEXT:
            i += 1
        # The last event has the bit ENDS, so that its role is none of these.
        subject = subjects[i]
        is_statement = roles[i] == R.STATEMENT
        if not is_statement:
            maps = i
            while i < last and roles[i] == R.TABLE_MAP and subjects[i] == subject:
                i += 1
            if i == maps:
                return n
            while i < last and roles[i] == R.ROWS and subjects[i] == subject:
                i += 1
            if roles[i] != R.ROWS_END or subjects[i] != subject:
                return n
        statements[used, PART_START] = offsets[begin]
        statements[used, PART_END] = offsets[i] + sizes[i]
        statements[used, PART_SUBJECT] = subject
        statements[used, PART_EVENTS] = i + 1 - begin
        statements[used, PART_IS_STATEMENT] = is_statement
        used += 1
        i += 1
    return used if roles[last] == R.FRAME | R.ENDS else n


@kernel
def fill_words(columns, slaves, n_slaves, low, words, shared, call):
    """Find for each transaction from number ``low`` on the slaves that are sent it whole, and those that need a
    decision event by event."""
    block, special = words.block, words.special_block
    sources = columns.source
    subject, sets, set_subject = columns.transactions.subject, columns.sets, columns.set_subject
    n = subject.size
    unfiltered = _NO_SLAVE
    for j in range(n_slaves):
        if slaves[j, S_SENDS_ALL]:
            unfiltered |= _ONE << np.uint64(j)
    n_statements = np.int64(0)
    live = _ALL >> np.uint64(SLAVES - n_slaves)
    filtered = live & ~unfiltered
    for word in range(low >> _WORD_SHIFT, (n + _WORD_MASK) >> _WORD_SHIFT):
        some_active = _NO_SLAVE
        some_special = _NO_SLAVE
        for k in range(SLAVES):
            t = (word << _WORD_SHIFT) + k
            block[k] = _NO_SLAVE
            special[k] = _NO_SLAVE
            if t < low or t >= n:
                continue
            s = subject[t]
            sent = _NO_SLAVE
            walked = _NO_SLAVE
            counted = _NO_SLAVE
            hits = _NO_SLAVE
            if s >= 0:
                _fill_subject(s, slaves, n_slaves, words, call)
                sent = words.send[s]
                counted = words.undecided[s] & sent
                hits = words.hit[s] & ~sent
            elif s == R.MIXED and sets[t] < sets[t + 1]:
                every = _ALL
                some = _NO_SLAVE
                undecided = _NO_SLAVE
                used = _NO_SLAVE
                for m in range(sets[t], sets[t + 1]):
                    one = set_subject[m]
                    _fill_subject(one, slaves, n_slaves, words, call)
                    every &= words.send[one]
                    some |= words.send[one]
                    undecided |= words.undecided[one]
                    used |= words.hit[one]
                    hits |= words.hit[one] & ~words.send[one]
                sent = every & ~undecided
                walked = some & ~sent
                if walked & filtered:
                    first_statement = n_statements
                    n_statements = _find_statements(columns, t, shared, n_statements)
                    shared.statements_from[t] = first_statement
                    shared.statements_until[t] = n_statements
                    n_events = np.int64(0)
                    for m in range(first_statement, n_statements):
                        n_events += shared.statements[m, PART_EVENTS]
                    shared.statement_events[t] = n_events
                    if n_statements == first_statement:
                        # A filter that sends a table drops its table map if no rows follow.
                        hits |= used & walked
                hits &= ~sent
            elif s == R.MIXED:
                walked = _ALL
                hits = _ALL
                shared.statements_from[t] = shared.statements_until[t] = 0
            elif s == R.KEPT:
                sent = _ALL
            sent &= filtered
            if s != R.SKIP:
                sent |= unfiltered
            walked &= filtered
            words.sent[t] = sent
            words.walked[t] = walked
            words.counted[t] = counted & filtered
            words.hits[t] = hits & filtered
            block[k] = sent | walked | words.hits[t]
            special[k] = walked | words.hits[t] | words.counted[t]
            if sources[t] == R.KEPT:
                special[k] = _ALL
            some_active |= block[k]
            some_special |= special[k]
        if some_active:
            _transpose(block)
        if some_special:
            _transpose(special)
        for j in range(n_slaves):
            words.rows[j, word] = block[j]
            words.special[j, word] = special[j]


@kernel
def fill_shared(columns, low, shared):
    """Find the places and the runs of GTIDs of the transactions from number ``low`` on."""
    source, number, event = columns.source, columns.number, columns.transactions.event
    offset, size = columns.events.offset, columns.events.size
    n = source.size
    run = np.int64(-1)
    last = np.int64(-1)
    read = np.int64(0)
    runs = shared.runs
    for t in range(low, n):
        shared.start[t] = offset[event[t]]
        shared.end[t] = offset[event[t + 1] - 1] + size[event[t + 1] - 1]
        shared.read[t] = read
        shared.before[t] = last
        if source[t] != R.KEPT:
            read += 1
        if source[t] >= 0:
            if run >= 0 and runs[run, 0] == source[t] and runs[run, 2] + 1 == number[t]:
                runs[run, 2] = number[t]
            else:
                run += 1
                runs[run, 0] = source[t]
                runs[run, 1] = number[t]
                runs[run, 2] = number[t]
            shared.run[t] = run
            last = t
    shared.read[n] = read
    shared.before[n] = last
    shared.is_one_run[0] = run == 0 and runs[0, 2] - runs[0, 1] + 1 == n - low
    following = np.int64(n)
    shared.following[n] = n
    for t in range(n - 1, low - 1, -1):
        if source[t] >= 0:
            following = t
        shared.following[t] = following


@inlined
def _gtids_between(shared, low, number, first, until, out, at):
    """Write the runs of the GTIDs of some transactions to ``out``, a flat array. Return the index after them.

    ``low`` is the number of the first transaction that any slave decides.
    """
    runs = shared.runs
    if shared.is_one_run[0]:
        if first < until:
            out[at] = runs[0, 0]
            out[at + 1] = runs[0, 1] + first - low
            out[at + 2] = runs[0, 1] + until - 1 - low
            at += 3
        return at
    begin = shared.following[first]
    if begin < until:
        end = shared.before[until]
        k = shared.run[begin]
        last = shared.run[end]
        out[at] = runs[k, 0]
        out[at + 1] = number[begin]
        while k < last:
            out[at + 2] = runs[k, 2]
            at += 3
            k += 1
            out[at] = runs[k, 0]
            out[at + 1] = runs[k, 1]
        out[at + 2] = number[end]
        at += 3
    return at


@inlined
def _add_gap(streams, offset, end):
    used = streams.used
    n = used[U_GAPS]
    if used[U_COUNTED]:
        n_hits = used[U_HITS]
        for kind in range(streams.hits.size):
            if streams.hits[kind]:
                streams.gap_hits[n_hits] = kind
                streams.gap_hits[n_hits + 1] = streams.hits[kind]
                streams.hits[kind] = 0
                n_hits += 2
        used[U_HITS] = n_hits
        used[U_COUNTED] = 0
    streams.gap_offset[n] = offset
    streams.gap_end[n] = end
    streams.gap_runs_until[n] = used[U_RUNS] // 3
    streams.gap_hits_until[n] = used[U_HITS] // 2
    used[U_GAPS] = n + 1


@inlined
def _end_gap(streams, shared, number, first, until, offset, end, is_last):
    """Add the gap of the dropped transactions from ``first`` up to, but without, ``until``.

    A gap between two transactions that are sent is of use only with a GTID or with hits.
    """
    used = streams.used
    before = used[U_RUNS]
    used[U_RUNS] = _gtids_between(
        shared, streams.place[P_LOW], number, first, until, streams.gap_runs, before
    )
    if is_last or used[U_RUNS] > before or used[U_COUNTED]:
        _add_gap(streams, offset, end)


@inlined
def _count_hits(columns, t, slave, flags, streams, first_range, until_range):
    """Count the uses of rules by the dropped table maps and statements of transaction ``t``.

    The byte ranges from ``first_range`` up to, but without, ``until_range`` hold what is sent of the transaction.
    """
    subjects, offsets, ranges = columns.events.subject, columns.events.offset, streams.ranges
    event = columns.transactions.event
    r = first_range
    for i in range(event[t], event[t + 1]):
        role = columns.hit_role[i] & ~R.ENDS
        if role != R.TABLE_MAP and role != R.STATEMENT:
            continue
        subject = subjects[i]
        if subject < 0 or flags[subject] & _HIT == 0:
            continue
        while r < until_range and ranges[r, RANGE_OFFSET] + ranges[r, RANGE_SIZE] <= offsets[i]:
            r += 1
        if r < until_range and ranges[r, RANGE_OFFSET] <= offsets[i]:
            continue
        rules = np.uintp(slave[S_HITS]) + np.uintp(_HIT_COLUMNS) * np.uintp(subject)
        for k in range(_HIT_COLUMNS):
            kind = np.int64(np.int8(load_u8(rules + np.uintp(k))))
            if kind < 0:
                break
            streams.hits[kind] += 1
            streams.used[U_COUNTED] = 1


@inlined
def _copy(data, at, source, n):
    for k in range(n):
        data[at + k] = source[k]
    return at + n


@inlined
def _pack(data, at, chunk, streams, shared, low, number, begin, until):
    """Write the arrays of a chunk after its head, which begins at index ``at``. Return the index after them."""
    head = at
    at += HEAD
    ranges = streams.ranges
    for r in range(chunk.first_range, chunk.ranges):
        for k in range(RANGE_COLUMNS):
            data[at] = ranges[r, k]
            at += 1
    data[head + H_RANGES] = chunk.ranges - chunk.first_range
    completed = at
    at = _gtids_between(shared, low, number, begin, until, data, at)
    data[head + H_COMPLETED] = (at - completed) // 3
    used = streams.used
    n = used[U_GAPS]
    data[head + H_GAPS] = n
    data[head + H_RUNS] = used[U_RUNS] // 3
    data[head + H_HITS] = used[U_HITS] // 2
    at = _copy(data, at, streams.gap_offset, n)
    at = _copy(data, at, streams.gap_end, n)
    at = _copy(data, at, streams.gap_runs_until, n)
    at = _copy(data, at, streams.gap_hits_until, n)
    at = _copy(data, at, streams.gap_runs, used[U_RUNS])
    at = _copy(data, at, streams.gap_hits, used[U_HITS])
    used[:] = 0
    return at


@kernel
def _finish_chunk(columns, walk, shared, streams, done, gap, kept, until, event, end, resume_bytes):
    """Write a chunk to ``done.data``, and begin the next one.

    ``gap`` is the first transaction of the gap that is open, or -1. The chunk has ``kept`` transactions of which
    something is sent, without events of the file.

    The chunk ends before event number ``event``, at file offset ``end``. Transaction ``until`` is the first that does
    not end in the chunk or before. ``resume_bytes`` are the bytes that the chunk sends before that transaction.
    """
    place = streams.place
    chunk = streams.chunk[0]
    chunk_number = place[P_CHUNKS]
    at = place[P_AT]
    done.starts[chunk_number] = at
    begin = place[P_BEGIN]
    resume = place[P_RESUME]
    if until > begin:
        resume = shared.end[until - 1]
        if gap >= 0:
            _end_gap(streams, shared, columns.number, gap, until, resume_bytes, resume, True)
    else:
        resume_bytes = 0
    end_chunk(chunk, walk, end)
    data = done.data
    data[at + H_END] = end
    data[at + H_RESUME] = resume
    data[at + H_RESUME_BYTES] = resume_bytes
    counts = at + H_COUNTS
    events_read = event - place[P_EVENT]
    bytes_read = end - place[P_POSITION]
    data[counts] = events_read
    data[counts + 1] = chunk.events
    data[counts + 2] = events_read - chunk.events - (chunk.buffered_events - place[P_BUFFERED_EVENTS])
    data[counts + 3] = bytes_read
    data[counts + 4] = chunk.bytes
    data[counts + 5] = bytes_read - chunk.bytes - (chunk.buffered_bytes - place[P_BUFFERED_BYTES])
    data[counts + 6] = chunk.undecided
    transactions_read = shared.read[until] - shared.read[begin]
    data[counts + 7] = transactions_read
    data[counts + 8] = transactions_read - kept
    place[P_AT] = _pack(data, at, chunk, streams, shared, place[P_LOW], columns.number, begin, until)
    place[P_CHUNKS] = chunk_number + 1
    place[P_BEGIN] = until
    place[P_EVENT] = event
    place[P_POSITION] = end
    place[P_RESUME] = resume
    place[P_BUFFERED_EVENTS] = chunk.buffered_events
    place[P_BUFFERED_BYTES] = chunk.buffered_bytes
    begin_chunk(chunk, chunk.ranges, until)


@inlined
def _send_statements(t, shift, words, shared, ranges, chunk, n_events):
    """Send the statements of transaction ``t`` that the filter of slave number ``shift`` sends, with the events around
    them.

    Return whether anything is sent, and the bytes and events that are sent. ``n_events`` are the transaction's events.
    """
    statements = shared.statements
    first = shared.statements_from[t]
    until = shared.statements_until[t]
    is_kept = False
    sent_bytes = np.int64(0)
    sent_events = np.int64(0)
    for k in range(first, until):
        subject = statements[k, PART_SUBJECT]
        if (words.send[subject] >> shift) & _ONE == _NO_SLAVE:
            continue
        if not is_kept:
            is_kept = True
            start = shared.start[t]
            size = statements[first, PART_START] - start
            if size:
                add_range(ranges, chunk, start, size, AS_IT_IS)
                sent_bytes += size
        size = statements[k, PART_END] - statements[k, PART_START]
        add_range(ranges, chunk, statements[k, PART_START], size, AS_IT_IS)
        sent_bytes += size
        sent_events += statements[k, PART_EVENTS]
        if statements[k, PART_IS_STATEMENT] and (words.undecided[subject] >> shift) & _ONE:
            chunk.undecided += 1
    if is_kept:
        end = shared.end[t]
        size = end - statements[until - 1, PART_END]
        add_range(ranges, chunk, end - size, size, AS_IT_IS)
        sent_bytes += size
        sent_events += n_events - shared.statement_events[t]
    return is_kept, sent_bytes, sent_events


@inlined
def _begin_slave(slave, event, streams):
    """Begin the first chunk of a slave."""
    place = streams.place
    first = slave[S_FIRST]
    place[P_BEGIN] = first
    place[P_EVENT] = event
    place[P_POSITION] = slave[S_POSITION]
    place[P_RESUME] = slave[S_RESUME]
    place[P_BUFFERED_EVENTS] = 0
    place[P_BUFFERED_BYTES] = 0
    streams.used[:] = 0
    begin_chunk(streams.chunk[0], 0, first)


@kernel
def plan_slave(columns, slave, bit, walk, words, shared, streams, done):
    """Decide a segment for one slave, whose bit in the words has number ``bit``, and write its chunks to ``done``."""
    events, transactions = columns.events, columns.transactions
    offsets, sizes, _, subjects = events
    first_events, txn_subjects, source = transactions.event, transactions.subject, columns.source
    flags = array_at(np.uintp(slave[S_FLAGS]), words.stamp.size)
    verdicts = Verdicts(flags, _UNDECIDED, slave[S_SENDS_ALL] != 0, True)
    out = Output(streams.ranges, streams.chunk, streams.is_kept)
    state = walk.state[0]
    chunk = streams.chunk[0]
    ranges = streams.ranges
    row = words.rows[bit]
    special = words.special[bit]
    shift = np.uint64(bit)
    chunk_size = slave[S_CHUNK_SIZE]
    n = txn_subjects.size
    t = slave[S_FIRST]
    _begin_slave(slave, first_events[t], streams)
    gap = np.int64(-1)
    sent_bytes = np.int64(0)
    sent_events = np.int64(0)
    kept = np.int64(0)
    word = t >> _WORD_SHIFT
    bits = row[word] & (_ALL << np.uint64(t & _WORD_MASK))
    n_words = (n + _WORD_MASK) >> _WORD_SHIFT
    while True:
        while bits == _NO_SLAVE and word + 1 < n_words:
            word += 1
            bits = row[word]
        if bits == _NO_SLAVE:
            break
        found = (word << _WORD_SHIFT) + trailing_zeros(bits)
        bits &= bits - _ONE
        if gap < 0 and found > t:
            gap = t
        t = found
        first_event = first_events[t]
        next_event = first_events[t + 1]
        start = shared.start[t]
        end = shared.end[t]
        is_special = (special[word] >> np.uint64(t & _WORD_MASK)) & _ONE
        if not is_special or (words.sent[t] >> shift) & _ONE:
            if gap >= 0:
                _end_gap(streams, shared, columns.number, gap, t, sent_bytes, start, False)
                gap = -1
            add_range(ranges, chunk, start, end - start, AS_IT_IS)
            sent_bytes += end - start
            sent_events += next_event - first_event
            kept += 1
            if is_special:
                kept -= source[t] == R.KEPT
                if (words.counted[t] >> shift) & _ONE:
                    for k in range(first_event, next_event):
                        chunk.undecided += subjects[k] == txn_subjects[t]
        elif (words.walked[t] >> shift) & _ONE:
            sent_before = sent_bytes
            first_range = max(chunk.ranges - 1, 0)
            is_kept = False
            i = first_event
            is_plain = shared.statements_from[t] < shared.statements_until[t]
            if is_plain and sent_bytes + end - start < chunk_size:
                # No chunk ends inside this transaction.
                i = next_event
                is_kept, size, events_of_part = _send_statements(
                    t, shift, words, shared, ranges, chunk, next_event - first_event
                )
                sent_bytes += size
                sent_events += events_of_part
            while i < next_event:
                chunk.bytes = sent_bytes
                chunk.events = sent_events
                # The arrays have room for every event of the segment, so the walk always goes on.
                i = walk_transaction(events, transactions, verdicts, walk, out, chunk, t, i, chunk_size)
                sent_bytes = chunk.bytes
                sent_events = chunk.events
                if state.is_open and sent_bytes >= chunk_size:
                    end_of_chunk = offsets[i - 1] + sizes[i - 1]
                    _finish_chunk(
                        columns, walk, shared, streams, done, gap, kept, t, i, end_of_chunk, sent_before
                    )
                    gap = -1
                    kept = sent_before = sent_bytes = sent_events = 0
                is_kept = streams.is_kept[t]
            if is_kept:
                if gap >= 0:
                    _end_gap(streams, shared, columns.number, gap, t, sent_before, start, False)
                    gap = -1
                kept += source[t] != R.KEPT
            elif gap < 0:
                gap = t
            if (words.hits[t] >> shift) & _ONE:
                _count_hits(columns, t, slave, flags, streams, first_range, chunk.ranges)
                if gap < 0 and streams.used[U_COUNTED]:
                    _add_gap(streams, sent_before, OF_NEXT)
        else:
            if gap < 0:
                gap = t
            _count_hits(columns, t, slave, flags, streams, 0, 0)
        t += 1
        if sent_bytes >= chunk_size and t < n:
            chunk.bytes = sent_bytes
            chunk.events = sent_events
            _finish_chunk(columns, walk, shared, streams, done, gap, kept, t, next_event, end, sent_bytes)
            gap = -1
            kept = sent_bytes = sent_events = 0
    if gap < 0 and t < n:
        gap = t
    chunk.bytes = sent_bytes
    chunk.events = sent_events
    _finish_chunk(
        columns, walk, shared, streams, done, gap, kept, n, first_events[n], transactions.end, sent_bytes
    )


@kernel
def plan_slaves(columns, slaves, n_slaves, begin, low, call, room, walk, words, shared, streams, done):
    """Decide a segment for the slaves from number ``begin`` on. Return the number of the next slave.

    The call stops before a slave whose chunks might not fit into ``done``.

    Parameters:
        slaves, n_slaves: one row of input for each of at most 64 slaves.
        low: the smallest number of a transaction at which a slave begins.
        call: a number that no earlier call with the same arrays ``words`` had for other slaves or segments.
        room: the most chunks of one slave, and the most integers of them in ``done.data``.
    """
    if begin == 0:
        fill_words(columns, slaves, n_slaves, low, words, shared, call)
        fill_shared(columns, low, shared)
    place = streams.place
    place[P_AT] = 0
    place[P_CHUNKS] = 0
    place[P_LOW] = low
    for j in range(begin, n_slaves):
        if place[P_CHUNKS] + room[0] > done.starts.size or place[P_AT] + room[1] > done.data.size:
            return j
        row = done.slaves[j]
        row[D_FIRST_CHUNK] = place[P_CHUNKS]
        row[D_FIRST] = place[P_AT]
        plan_slave(columns, slaves[j], j, walk, words, shared, streams, done)
        row[D_CHUNKS] = place[P_CHUNKS]
        row[D_UNTIL] = place[P_AT]
        row[D_POSITION] = place[P_POSITION]
        row[D_RESUME] = place[P_RESUME]
    return n_slaves
