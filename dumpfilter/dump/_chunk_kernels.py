# mypy: ignore-errors
"""Compiled loops that collect the GTIDs, rule hits and bytes of chunks (the messages of the stream to a slave)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import copy_bytes
from dumpfilter.compiler.kernels import njit
from dumpfilter.dump.decide import FLAG_SEND, RANGE_OFFSET, RANGE_PATCH, RANGE_SIZE, REPLACED, kernel
from dumpfilter.filter.flags import FILTER_HIT_F

_FLAG_HIT = np.uint32(FILTER_HIT_F)

# The columns of a run of consecutive GTIDs: the number of the GTID source (such as a server UUID), the first and the
# last transaction number.
RUN_SOURCE = 0
RUN_FIRST = 1
RUN_LAST = 2


@njit(cache=True, nogil=True)
def gtid_runs(sources, numbers, out):
    """Join the GTIDs of transactions into runs of consecutive numbers, for example 5 to 9 of one server UUID.

    Write the runs into ``out``, in the transactions' order, and return the number of runs. ``sources`` and ``numbers``
    have one entry for each transaction. A transaction without a GTID has a negative source. ``out`` needs one row for
    each transaction.
    """
    n = np.int64(0)
    for t in range(sources.size):
        if sources[t] >= 0:
            n = _add_run(out, n, np.int64(0), sources[t], numbers[t], numbers[t])
    return n


@njit(cache=True, nogil=True)
def _add_run(out, n, begin, source, first, last):
    """Add a run of GTIDs to the ``n`` rows of ``out``, and return the number of rows.

    The run joins the last row if their numbers follow one another, and if this row is not before number ``begin``.
    """
    if n > begin and out[n - 1, RUN_SOURCE] == source and out[n - 1, RUN_LAST] + 1 == first:
        out[n - 1, RUN_LAST] = last
        return n
    out[n, RUN_SOURCE] = source
    out[n, RUN_FIRST] = first
    out[n, RUN_LAST] = last
    return n + 1


@njit(cache=True, nogil=True)
def joined_runs(runs):
    """Return runs of GTIDs with each run joined to the run before it, if their numbers follow one another."""
    out = np.empty_like(runs)
    n = np.int64(0)
    for k in range(runs.shape[0]):
        source = runs[k, RUN_SOURCE]
        if n and out[n - 1, RUN_SOURCE] == source and out[n - 1, RUN_LAST] + 1 == runs[k, RUN_FIRST]:
            out[n - 1, RUN_LAST] = runs[k, RUN_LAST]
        else:
            out[n] = runs[k]
            n += 1
    return out[:n]


@njit(cache=True, nogil=True)
def summarize_chunks(chunks, first, sources, numbers, is_kept, dropped, completed):
    """Collect the GTIDs and count the transactions of each chunk, from transaction ``first`` on.

    Write the GTIDs of all transactions into ``completed`` as runs of consecutive GTIDs (:func:`gtid_runs`). Set the
    last three fields of each chunk, which :func:`~dumpfilter.dump.decide.decide` leaves undefined. ``dropped`` has the
    GTIDs that the Gap events of a relay log tell (:class:`~dumpfilter.index.segment.DroppedRuns`).
    """
    gap_transactions, gap_until, gap_runs = dropped
    g = np.searchsorted(gap_transactions, first)
    n_completed = np.int64(0)
    begin = np.int64(first)
    for c in range(chunks.size):
        end = chunks[c].transactions
        n_read = np.int64(0)
        n_dropped = np.int64(0)
        first_of_chunk = n_completed
        for t in range(begin, end):
            if sources[t] != R.KEPT:
                n_read += 1
                if not is_kept[t]:
                    n_dropped += 1
            if sources[t] >= 0:
                n_completed = _add_run(
                    completed, n_completed, first_of_chunk, sources[t], numbers[t], numbers[t]
                )
            elif g < gap_transactions.size and gap_transactions[g] == t:
                for k in range(gap_until[g - 1] if g else np.int64(0), gap_until[g]):
                    n_completed = _add_run(
                        completed,
                        n_completed,
                        first_of_chunk,
                        gap_runs[k, RUN_SOURCE],
                        gap_runs[k, RUN_FIRST],
                        gap_runs[k, RUN_LAST],
                    )
                g += 1
        chunks[c].completed = n_completed
        chunks[c].transactions_read = n_read
        chunks[c].transactions_dropped = n_dropped
        begin = end


@njit(cache=True, nogil=True)
def sent_before(chunks, ranges, first, start, out):
    """Write the bytes of its chunk that come before each transaction to ``out``, from transaction ``first`` on.

    ``start`` is the file offset of each transaction's first event in the segment. ``ranges`` lists the byte ranges that
    all chunks send. Their offsets ascend in each chunk.
    """
    begin = np.int64(first)
    for c in range(chunks.size):
        end = chunks[c].transactions
        r = chunks[c].first_range
        sent = np.int64(0)
        for t in range(begin, end):
            while r < chunks[c].ranges:
                offset = ranges[r, RANGE_OFFSET]
                is_before = offset + ranges[r, RANGE_SIZE] <= start[t]
                # The size of a replaced event is not the event's size in the file.
                if not (is_before or (ranges[r, RANGE_PATCH] == REPLACED and offset < start[t])):
                    break
                sent += ranges[r, RANGE_SIZE]
                r += 1
            out[t] = sent
            if r < chunks[c].ranges and ranges[r, RANGE_OFFSET] < start[t]:
                out[t] += start[t] - ranges[r, RANGE_OFFSET]
        begin = end


@njit(cache=True, nogil=True)
def _add_gap(places, n, offset, end, n_runs, n_hits, acc, hits_out):
    """Add a gap to ``places``, with the hits that ``acc`` has counted, and set ``acc`` to zero."""
    for kind in range(acc.size):
        if acc[kind]:
            hits_out[n_hits, 0] = kind
            hits_out[n_hits, 1] = acc[kind]
            n_hits += 1
            acc[kind] = 0
    places[n, 0] = offset
    places[n, 1] = end
    places[n, 2] = n_runs
    places[n, 3] = n_hits
    return n_hits


class ChunkTails(NamedTuple):
    """The ends of consecutive chunks. :func:`dumpfilter.dump.gaps.find_gaps` describes the arrays."""

    until: np.ndarray
    offset: np.ndarray
    end: np.ndarray


class GapTransactions(NamedTuple):
    """The transactions of consecutive chunks. :func:`dumpfilter.dump.gaps.find_gaps` describes the arrays."""

    start: np.ndarray
    sent_before: np.ndarray
    source: np.ndarray
    number: np.ndarray
    is_kept: np.ndarray


class GapOutput(NamedTuple):
    """The arrays that :func:`find_gaps` fills."""

    places: np.ndarray
    runs: np.ndarray
    hits: np.ndarray
    chunk_gaps: np.ndarray


@njit(cache=True, nogil=True)
def find_gaps(tails, first, transactions, dropped, hits, n_kinds, out):
    """Find the gaps of chunks. :func:`dumpfilter.dump.gaps.find_gaps` describes the parameters.

    Write each gap's offset, end, and the indexes after its last run and its last hits into ``out.places``. Write GTIDs
    into ``out.runs`` and hits into ``out.hits``. Return the numbers of gaps, runs and rows of hits.
    """
    gap_transactions, gap_until, gap_runs = dropped
    g = np.searchsorted(gap_transactions, first)
    until, is_kept, start, sent = (
        tails.until,
        transactions.is_kept,
        transactions.start,
        transactions.sent_before,
    )
    sources, numbers = transactions.source, transactions.number
    places, runs, hits_out = out.places, out.runs, out.hits
    acc = np.zeros(n_kinds, np.int64)
    n = np.int64(0)
    n_runs = np.int64(0)
    n_hits = np.int64(0)
    h = np.int64(0)
    begin = np.int64(first)
    for c in range(until.size):
        is_in_gap = False
        # A gap between two transactions that are sent is of use only with a GTID or with hits.
        has_more = False
        first_run = n_runs
        for t in range(begin, until[c]):
            if is_kept[t]:
                if is_in_gap and has_more:
                    n_hits = _add_gap(places, n, sent[t], start[t], n_runs, n_hits, acc, hits_out)
                    n += 1
                is_in_gap = has_more = False
                has_hits = False
                while h < hits.shape[0] and hits[h, 0] <= t:
                    acc[hits[h, 1]] += hits[h, 2]
                    has_hits = True
                    h += 1
                if has_hits:
                    n_hits = _add_gap(places, n, sent[t], np.int64(0), n_runs, n_hits, acc, hits_out)
                    n += 1
                continue
            if not is_in_gap:
                is_in_gap = True
                first_run = n_runs
            while h < hits.shape[0] and hits[h, 0] <= t:
                acc[hits[h, 1]] += hits[h, 2]
                has_more = True
                h += 1
            if sources[t] >= 0:
                has_more = True
                n_runs = _add_run(runs, n_runs, first_run, sources[t], numbers[t], numbers[t])
            elif g < gap_transactions.size and gap_transactions[g] == t:
                for k in range(gap_until[g - 1] if g else np.int64(0), gap_until[g]):
                    has_more = True
                    n_runs = _add_run(
                        runs,
                        n_runs,
                        first_run,
                        gap_runs[k, RUN_SOURCE],
                        gap_runs[k, RUN_FIRST],
                        gap_runs[k, RUN_LAST],
                    )
                g += 1
        if is_in_gap:
            n_hits = _add_gap(places, n, tails.offset[c], tails.end[c], n_runs, n_hits, acc, hits_out)
            n += 1
        out.chunk_gaps[c] = n
        begin = until[c]
    return n, n_runs, n_hits


@kernel
def list_hits(
    roles, subjects, offsets, transactions, txn_subject, first, flags, hits, drops_hits, ranges, out
):
    """List the uses of filter rules (hits) by the table maps and statements that the master drops.

    The slave never sees these events, so only the master can count their hits. Write one row of ``out`` for each hit:
    the transaction's number, the column of the rule's kind, and 1. Return the number of hits, which may be larger than
    ``out``; the caller then calls again with a larger array.

    Parameters:
        roles, subjects, offsets: columns of the segment's events.
        transactions: the transactions that :func:`~dumpfilter.dump.decide.decide` was called with.
        txn_subject: each transaction's subject, the table or statement that the filter decides about. The numbers are
            those before :func:`~dumpfilter.dump.decide.collapse_uniform` changed them.
        first: the number of the first transaction.
        flags: the filter's verdict about each subject. The bit ``FILTER_HIT_F`` marks subjects that use a rule.
        hits: for each subject with hits, the columns of its rules' kinds, then -1.
        drops_hits: whether the filter drops any subject with hits. If not, transactions that are dropped whole are
            skipped, which saves time.
        ranges: the byte ranges that are sent, then the byte ranges still buffered at the segment's end. Their offsets
            ascend.
    """
    first_events, decided_subjects = transactions.event, transactions.subject
    r = 0
    n = 0
    for t in range(first, decided_subjects.size):
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
            for k in range(hits.shape[1]):
                if hits[subject, k] < 0:
                    break
                if n < out.shape[0]:
                    out[n, 0] = t
                    out[n, 1] = hits[subject, k]
                    out[n, 2] = 1
                n += 1
    return n


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
