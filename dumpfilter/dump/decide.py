"""The compiled decision: which byte ranges of a segment one slave gets.

The stream's legal patterns, which the walk below relies on (inside a transaction, between boundaries):

    [GTID] [BEGIN]  ( statement | rows statement | SAVEPOINT … )*  (Xid | COMMIT | ROLLBACK | XA_prepare)
    statement       CONTEXT* STATEMENT
    rows statement  CONTEXT* TABLE_MAP+ ROWS* ( ROWS_END | DUMMY_ROWS )

A transaction with one subject is decided by one look-up. Others are walked event by event: what may turn
out not to be needed (the transaction's head, a statement's context and table maps) is put aside as a
byte range and sent when the first event that needs it is kept; the last kept rows event is put aside too, since
it gets STMT_END_F when the one that carries it is dropped. What is put aside survives from one segment to the
next, so a transaction of any size is walked in constant memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import copy_bytes

SEND = np.uint32(1)  # FILTER_BINLOG_SEND_F

# The walk's state (int64 array).
W_OPEN = 0  # a transaction is open
W_KEPT = 1  # its head has been sent
W_HEAD = 2  # ranges put aside: the head's
W_CONTEXT = 3  # ranges put aside: the statement's
W_PENDING = 4  # 1 when a rows event is put aside
W_PENDING_OFFSET = 5
W_PENDING_SIZE = 6
W_STATEMENT_KEPT = 7  # rows of the open statement have been sent or are pending
W_SKIP = 8  # the open transaction is one the slave has already
WALK_SIZE = 16

# A range's columns.
C_OFFSET = 0
C_SIZE = 1
C_PATCH = 2  # 1: a rows event that gets STMT_END_F; 2: an event sent in another form, of this size

# A chunk's columns.
H_RANGES = 0  # ranges up to its end
H_END = 1  # file offset where it ends
H_RESUME = 2  # file offset of the last boundary up to there, -1 when there is none in it
H_RESUME_BYTES = 3  # of its bytes, those before the boundary
H_TXNS = 4  # transactions completed up to its last boundary (number in the segment)
H_BYTES = 5  # bytes sent
H_EVENTS = 6  # events sent
H_EVENTS_READ = 7
H_UNDECIDED = 8  # events sent because nothing could be said about them
H_ASIDE_EVENTS = 9  # events put aside at its end: neither sent nor dropped yet
H_ASIDE_BYTES = 10
CHUNK_COLUMNS = 11

# Why it came back.
DONE = 0
FULL = 1  # an output array is full: grow it and call again with a fresh copy of the state


@njit(cache=True, nogil=True)
def _cut(
    chunk,
    n_ranges,
    end,
    resume,
    resume_bytes,
    resume_txns,
    sent,
    sent_events,
    read_events,
    undecided,
    walk,
    head,
    context,
):
    chunk[H_RANGES] = n_ranges
    chunk[H_END] = end
    chunk[H_RESUME] = resume
    chunk[H_RESUME_BYTES] = resume_bytes
    chunk[H_TXNS] = resume_txns
    chunk[H_BYTES] = sent
    chunk[H_EVENTS] = sent_events
    chunk[H_EVENTS_READ] = read_events
    chunk[H_UNDECIDED] = undecided
    chunk[H_ASIDE_EVENTS] = walk[W_HEAD] + walk[W_CONTEXT] + walk[W_PENDING]
    aside = walk[W_PENDING_SIZE] if walk[W_PENDING] else np.int64(0)
    for k in range(walk[W_HEAD]):
        aside += head[k, 1]
    for k in range(walk[W_CONTEXT]):
        aside += context[k, 1]
    chunk[H_ASIDE_BYTES] = aside


@njit(cache=True, nogil=True)
def decide(
    offsets,
    sizes,
    roles,
    subjects,
    txn_event,
    txn_subject,
    first_txn,
    segment_end,
    still_open,
    flags,
    undecided_bit,
    keep_all,
    target,
    walk,
    head,
    context,
    ranges,
    chunks,
    txn_kept,
):
    """Fill ``ranges``, ``chunks`` and ``txn_kept`` for the transactions from ``first_txn`` on.

    ``flags`` is the slave's uint32 a subject; ``keep_all`` sends everything as it is (no rules). ``target``
    is the size of a chunk, bytes. Returns ``(code, ranges, chunks)``.
    """
    n_ranges = np.int64(0)
    n_chunks = np.int64(0)
    n_txn = txn_subject.size
    # of the chunk being filled
    sent = np.int64(0)
    sent_events = np.int64(0)
    read_events = np.int64(0)
    undecided = np.int64(0)
    resume = np.int64(-1)
    resume_bytes = np.int64(0)
    resume_txns = np.int64(first_txn)
    closed_ranges = np.int64(0)  # ranges before this one belong to chunks already cut

    for t in range(first_txn, n_txn):
        a = txn_event[t]
        b = txn_event[t + 1]
        last = t == n_txn - 1
        s = txn_subject[t]
        start = offsets[a]
        end = offsets[b - 1] + sizes[b - 1]
        fast = (s >= 0 or s == R.KEPT or s == R.NOTHING or s == R.SKIP or keep_all) and walk[W_OPEN] == 0
        if fast and not (last and still_open):
            kept = (keep_all and s != R.SKIP) or s == R.KEPT or (s >= 0 and (flags[s] & SEND) != 0)
            read_events += b - a
            if kept:
                length = end - start
                if (
                    n_ranges > closed_ranges
                    and ranges[n_ranges - 1, C_OFFSET] + ranges[n_ranges - 1, C_SIZE] == start
                    and ranges[n_ranges - 1, C_PATCH] == 0
                ):
                    ranges[n_ranges - 1, C_SIZE] += length
                else:
                    if n_ranges >= ranges.shape[0]:
                        return FULL, n_ranges, n_chunks
                    ranges[n_ranges, C_OFFSET] = start
                    ranges[n_ranges, C_SIZE] = length
                    ranges[n_ranges, C_PATCH] = 0
                    n_ranges += 1
                sent += length
                sent_events += b - a
                if s >= 0 and not keep_all and (flags[s] & undecided_bit) != 0:
                    for i in range(a, b):
                        if subjects[i] == s:
                            undecided += 1
            txn_kept[t] = kept
            resume = end
            resume_bytes = sent
            resume_txns = t + 1
        else:
            for i in range(a, b):
                # room for all that this event can bring: what is put aside, and itself
                if n_ranges + walk[W_HEAD] + walk[W_CONTEXT] + 4 > ranges.shape[0]:
                    return FULL, n_ranges, n_chunks
                if walk[W_HEAD] >= head.shape[0] or walk[W_CONTEXT] >= context.shape[0]:
                    return FULL, n_ranges, n_chunks
                role = roles[i] & 0x7F
                ends = (roles[i] & R.ENDS) != 0
                offset = offsets[i]
                size = sizes[i]
                read_events += 1
                if walk[W_OPEN] == 0:
                    walk[W_OPEN] = 1
                    walk[W_SKIP] = 1 if s == R.SKIP else 0
                subject = subjects[i]
                # 0 drop, 1 send, 2 put aside with the head, 3 put aside with the statement, 4 rows put aside
                verdict = 0
                flush_context = False
                if role == R.FILE or (keep_all and not walk[W_SKIP]):
                    verdict = 1
                elif walk[W_SKIP]:
                    verdict = 0
                elif role >= R.KEEP:  # and XA, PAYLOAD, REPLACED
                    verdict = 1
                    flush_context = True
                    if role == R.KEEP:
                        undecided += 1
                elif role == R.GTID or (role == R.FRAME and not ends):
                    verdict = 1 if walk[W_KEPT] else 2
                elif role == R.FRAME:
                    verdict = 1 if walk[W_KEPT] else 0
                elif role == R.CONTEXT:
                    verdict = 3
                elif role == R.TABLE_MAP:
                    verdict = 3 if (flags[subject] & SEND) != 0 else 0
                elif role == R.STATEMENT:
                    if (flags[subject] & SEND) != 0:
                        verdict = 1
                        flush_context = True
                        if (flags[subject] & undecided_bit) != 0:
                            undecided += 1
                    else:
                        walk[W_CONTEXT] = 0
                elif role == R.DUMMY_ROWS:
                    if walk[W_STATEMENT_KEPT]:
                        verdict = 1
                    # table maps that no rows came for
                    walk[W_CONTEXT] = 0
                    walk[W_STATEMENT_KEPT] = 0
                else:  # ROWS, ROWS_END
                    rows_kept = subject < 0 or (flags[subject] & SEND) != 0
                    if rows_kept:
                        verdict = 1 if role == R.ROWS_END else 4
                        flush_context = True
                        if subject < 0:
                            undecided += 1
                        walk[W_STATEMENT_KEPT] = 1 if role == R.ROWS else 0
                    elif role == R.ROWS_END:
                        if walk[W_PENDING]:
                            # the statement now ends with the rows event put aside
                            ranges[n_ranges, C_OFFSET] = walk[W_PENDING_OFFSET]
                            ranges[n_ranges, C_SIZE] = walk[W_PENDING_SIZE]
                            ranges[n_ranges, C_PATCH] = 1
                            n_ranges += 1
                            sent += walk[W_PENDING_SIZE]
                            sent_events += 1
                            walk[W_PENDING] = 0
                        walk[W_CONTEXT] = 0
                        walk[W_STATEMENT_KEPT] = 0

                if verdict == 2:
                    head[walk[W_HEAD], 0] = offset
                    head[walk[W_HEAD], 1] = size
                    walk[W_HEAD] += 1
                elif verdict == 3:
                    context[walk[W_CONTEXT], 0] = offset
                    context[walk[W_CONTEXT], 1] = size
                    walk[W_CONTEXT] += 1
                elif verdict != 0:
                    # in the stream's order: the head, the rows put aside, the context, the event
                    n_out = walk[W_HEAD] + walk[W_PENDING] + (walk[W_CONTEXT] if flush_context else 0) + 1
                    for k in range(n_out):
                        patch = 0
                        if k < walk[W_HEAD]:
                            o = head[k, 0]
                            z = head[k, 1]
                        elif k < walk[W_HEAD] + walk[W_PENDING]:
                            o = walk[W_PENDING_OFFSET]
                            z = walk[W_PENDING_SIZE]
                        elif k < n_out - 1:
                            o = context[k - walk[W_HEAD] - walk[W_PENDING], 0]
                            z = context[k - walk[W_HEAD] - walk[W_PENDING], 1]
                        else:
                            if verdict == 4:
                                break
                            o = offset
                            z = size
                            patch = 2 if role == R.REPLACED else 0
                        if (
                            patch == 0
                            and n_ranges > closed_ranges
                            and ranges[n_ranges - 1, C_OFFSET] + ranges[n_ranges - 1, C_SIZE] == o
                            and ranges[n_ranges - 1, C_PATCH] == 0
                        ):
                            ranges[n_ranges - 1, C_SIZE] += z
                        else:
                            ranges[n_ranges, C_OFFSET] = o
                            ranges[n_ranges, C_SIZE] = z
                            ranges[n_ranges, C_PATCH] = patch
                            n_ranges += 1
                        sent += z
                        sent_events += 1
                    walk[W_HEAD] = 0
                    walk[W_PENDING] = 0
                    walk[W_KEPT] = 1
                    if flush_context:
                        walk[W_CONTEXT] = 0
                    if verdict == 4:
                        walk[W_PENDING] = 1
                        walk[W_PENDING_OFFSET] = offset
                        walk[W_PENDING_SIZE] = size
                if ends:
                    if walk[W_PENDING]:
                        # no event closed the statement: the rows put aside do
                        ranges[n_ranges, C_OFFSET] = walk[W_PENDING_OFFSET]
                        ranges[n_ranges, C_SIZE] = walk[W_PENDING_SIZE]
                        ranges[n_ranges, C_PATCH] = 1
                        n_ranges += 1
                        sent += walk[W_PENDING_SIZE]
                        sent_events += 1
                    txn_kept[t] = walk[W_KEPT] != 0
                    walk[:] = 0
                    if role == R.REPLACED:
                        # its size is not the one it has in the file
                        end = offsets[i + 1] if i + 1 < offsets.size else np.int64(segment_end)
                    resume = end
                    resume_bytes = sent
                    resume_txns = t + 1
                elif sent >= target:
                    if n_chunks >= chunks.shape[0]:
                        return FULL, n_ranges, n_chunks
                    _cut(
                        chunks[n_chunks],
                        n_ranges,
                        offset + size,
                        resume,
                        resume_bytes,
                        resume_txns,
                        sent,
                        sent_events,
                        read_events,
                        undecided,
                        walk,
                        head,
                        context,
                    )
                    n_chunks += 1
                    closed_ranges = n_ranges
                    sent = 0
                    sent_events = 0
                    read_events = 0
                    undecided = 0
                    resume = -1
                    resume_bytes = 0
        if sent >= target or last:
            if n_chunks >= chunks.shape[0]:
                return FULL, n_ranges, n_chunks
            _cut(
                chunks[n_chunks],
                n_ranges,
                segment_end if last else end,
                resume,
                resume_bytes,
                resume_txns,
                sent,
                sent_events,
                read_events,
                undecided,
                walk,
                head,
                context,
            )
            n_chunks += 1
            closed_ranges = n_ranges
            sent = 0
            sent_events = 0
            read_events = 0
            undecided = 0
            resume = -1
            resume_bytes = 0
    return DONE, n_ranges, n_chunks


@njit(cache=True, nogil=True)
def settle(txn_subject, txn_set, set_subject, flags, undecided_bit, out):
    """``txn_subject`` for one slave: a transaction of several subjects that all meet the same answer is told
    as one that is sent whole or has nothing for it, so that :func:`decide` need not walk it."""
    for t in range(txn_subject.size):
        s = txn_subject[t]
        out[t] = s
        if s == R.MIXED:
            first = txn_set[t]
            last = txn_set[t + 1]
            if first < last:
                every = np.uint32(0xFFFFFFFF)
                some = np.uint32(0)
                for k in range(first, last):
                    bits = flags[set_subject[k]]
                    every &= bits
                    some |= bits
                if some & SEND == 0:
                    out[t] = R.NOTHING
                elif every & SEND and some & undecided_bit == 0:
                    out[t] = R.KEPT


@njit(cache=True, nogil=True)
def count_hits(
    offsets,
    roles,
    subjects,
    txn_event,
    txn_subject,
    decided,
    first,
    flags,
    hit_bit,
    hits,
    whole,
    ranges,
    chunks,
    out,
):
    """Add up the hits of the table maps and statements that are not sent, by the chunk that completes their
    transaction: ``out[chunk]``, and in the last row for the transaction that goes on after the segment. Returns whether
    there were any.

    ``hits``: for each subject with ``hit_bit`` among its flags, the columns of ``out`` that go up, then -1. ``decided``
    is what :func:`decide` was given, ``txn_subject`` the same before :func:`settle`. ``ranges`` ascend: what is sent,
    then what is put aside at the end. Without ``whole`` no subject that is not sent has hits, and transactions that are
    dropped as a whole are passed over.
    """
    c = 0
    r = 0
    found = False
    for t in range(first, decided.size):
        while c < chunks.shape[0] and t >= chunks[c, H_TXNS]:
            c += 1
        s = decided[t]
        if s == R.SKIP or s == R.KEPT:
            continue
        walked = s == R.MIXED
        if not walked:
            if not whole:
                continue
            if s >= 0:
                if flags[s] & (SEND | hit_bit) != hit_bit:
                    continue
            elif txn_subject[t] != R.MIXED:
                continue
        for i in range(txn_event[t], txn_event[t + 1]):
            role = roles[i] & 0x7F
            if role != R.TABLE_MAP and role != R.STATEMENT:
                continue
            subject = subjects[i]
            if subject < 0 or flags[subject] & hit_bit == 0:
                continue
            if walked:
                offset = offsets[i]
                while r < ranges.shape[0] and ranges[r, C_OFFSET] + ranges[r, C_SIZE] <= offset:
                    r += 1
                if r < ranges.shape[0] and ranges[r, C_OFFSET] <= offset:
                    continue
            found = True
            for k in range(hits.shape[1]):
                if hits[subject, k] < 0:
                    break
                out[c, hits[subject, k]] += 1
    return found


@njit(cache=True, nogil=True)
def gtid_runs(sources, numbers, kept, want_empty, out):
    """Runs of consecutive GTIDs of transactions: ``out[k] = source, first, last``; their number.

    With ``want_empty`` only transactions that are not ``kept``. In the order of the transactions; out needs a row
    a transaction.
    """
    n = np.int64(0)
    for t in range(sources.size):
        if sources[t] < 0 or (want_empty and kept[t]):
            continue
        if n and out[n - 1, 0] == sources[t] and out[n - 1, 2] + 1 == numbers[t]:
            out[n - 1, 2] = numbers[t]
        else:
            out[n, 0] = sources[t]
            out[n, 1] = numbers[t]
            out[n, 2] = numbers[t]
            n += 1
    return n


@njit(cache=True, nogil=True)
def tell(chunks, n_chunks, first, sources, numbers, kept, completed, empty, told):
    """The GTIDs of each chunk's transactions: runs of all in ``completed``, of those not kept in ``empty`` (rows as
    :func:`gtid_runs` has them, a row a transaction to spare), and in ``told[chunk]`` where its runs end in each,
    how many transactions it completes and how many of them are not kept."""
    n_completed = np.int64(0)
    n_empty = np.int64(0)
    begin = np.int64(first)
    for c in range(n_chunks):
        end = chunks[c, H_TXNS]
        n_read = np.int64(0)
        n_dropped = np.int64(0)
        for t in range(begin, end):
            if sources[t] != -3:
                n_read += 1
                if not kept[t]:
                    n_dropped += 1
        n_completed += gtid_runs(
            sources[begin:end], numbers[begin:end], kept[begin:end], False, completed[n_completed:]
        )
        n_empty += gtid_runs(sources[begin:end], numbers[begin:end], kept[begin:end], True, empty[n_empty:])
        told[c, 0] = n_completed
        told[c, 1] = n_empty
        told[c, 2] = n_read
        told[c, 3] = n_dropped
        begin = end


@njit(cache=True, nogil=True)
def gather(ranges, data, data_offset, out):
    """Copy the ranges' bytes into ``out``, one after the other, from ``data``, which stands at file offset
    ``data_offset``; what lies outside of it is left open. Returns how many ranges that were."""
    source = np.uintp(data.ctypes.data)
    target = np.uintp(out.ctypes.data)
    outside = np.int64(0)
    at = np.int64(0)
    for k in range(ranges.shape[0]):
        start = ranges[k, C_OFFSET] - data_offset
        size = ranges[k, C_SIZE]
        if at + size > out.size:
            return np.int64(-1)
        if start >= 0 and start + size <= data.size:
            copy_bytes(target + np.uintp(at), source + np.uintp(start), np.uintp(size))
        else:
            outside += 1
        at += size
    return outside
