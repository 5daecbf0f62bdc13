"""The compiled decision: the byte ranges of a segment that one slave is sent.

The grammar of a legal binlog, in the roles of :mod:`dumpfilter.binlog.roles`. The dump thread, the split and the tally
rely on this grammar, and on nothing else that they know about events:

    stream          ( transaction | FILE )*
    transaction     head ( statement | rows statement | frame | always )* end
    head            [GTID] [FRAME]                          FRAME is BEGIN or XA START
    statement       CONTEXT* STATEMENT
    rows statement  CONTEXT* TABLE_MAP+ ROWS* ( ROWS_END | DUMMY_ROWS )
    frame           FRAME                                   SAVEPOINT, ROLLBACK TO, XA END
    always          KEEP | XA | PAYLOAD | REPLACED
    end             the first event with the bit ENDS: Xid, COMMIT, XA_prepare, or a statement without BEGIN

The master sends an event of a transaction under these conditions, in the same order:

    | FILE            always
    | GTID, FRAME     with any other event of the transaction
    | CONTEXT         with any event of the statement that follows
    | STATEMENT       if the filter sends the statement
    | TABLE_MAP       if the filter sends the table, with any later rows of the same statement
    | ROWS, ROWS_END  if the filter sends the table; rows without a table map always
    | DUMMY_ROWS      with any rows of the statement
    | always          always

A transaction whose events share one subject needs one look-up. :func:`decide` walks other transactions event by event.
Whether a head, a context event or a table map is sent follows from later events. The walk therefore buffers them as
byte ranges until a later event decides. The last kept rows event is buffered, too, because it gets STMT_END_F if
the master drops the rows event that carries this flag. The buffers survive from one segment to the next. A
transaction of any size is walked in memory that does not grow with its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dumpfilter.binlog import roles as R

FLAG_SEND = np.uint32(1)
"""The bit ``FILTER_BINLOG_SEND_F`` of a subject's flags."""

# The columns of a byte range.
RANGE_OFFSET = 0
RANGE_SIZE = 1
RANGE_PATCH = 2
RANGE_COLUMNS = 3

# The values of RANGE_PATCH.
AS_IT_IS = 0
"""The range is sent as it stands in the file. It may hold several events."""
ADD_STATEMENT_END = 1
"""The range is one rows event, which is sent with STMT_END_F set."""
REPLACED = 2
"""The range is one event that is sent in another form, of this size."""

# The columns of a buffered event.
BUFFERED_OFFSET = 0
BUFFERED_SIZE = 1

# The actions of the walk on one event.
DROP = 0
SEND = 1
"""Send the event, and before it the buffered head and the buffered rows event."""
HOLD_HEAD = 2
"""Buffer the event until the transaction has an event that is sent."""
HOLD_STATEMENT = 3
"""Buffer the event until the open statement has an event that is sent."""
HOLD_ROWS = 4
"""Buffer a rows event that is sent later, with STMT_END_F if it becomes the statement's last one. Send the buffered
head and the rows event that is buffered already."""

WALK_STATE = np.dtype(
    [
        ("is_open", np.int64),  # a transaction is open
        ("is_skipped", np.int64),  # the slave has the open transaction already, or does not want its origin
        ("is_kept", np.int64),  # an event of the open transaction has been sent, or is buffered as rows
        ("heads", np.int64),  # buffered events of the head
        ("contexts", np.int64),  # buffered events of the open statement
        ("has_rows", np.int64),  # a rows event is buffered
        ("rows_offset", np.int64),
        ("rows_size", np.int64),
        ("is_statement_kept", np.int64),  # rows of the open statement are sent or buffered
    ]
)
"""The state of a walk inside a transaction. Outside of a transaction all fields are 0."""

CHUNK = np.dtype(
    [
        ("first_range", np.int64),  # the number of the chunk's first range
        ("ranges", np.int64),  # the number of the range after the chunk's last one
        ("end", np.int64),  # the file offset where the chunk ends
        ("resume", np.int64),  # the file offset of the chunk's last boundary, -1 without one
        ("resume_bytes", np.int64),  # the chunk's bytes before that boundary
        ("transactions", np.int64),  # the number of the transaction after the chunk's last boundary
        ("bytes", np.int64),  # bytes sent
        ("events", np.int64),  # events sent
        ("events_read", np.int64),
        ("undecided", np.int64),  # events sent because the filter cannot decide them
        ("buffered_events", np.int64),  # events neither sent nor dropped at the chunk's end
        ("buffered_bytes", np.int64),
        # the fields that `summarize_chunks` sets
        ("completed", np.int64),  # the number of the run after the chunk's last run of completed GTIDs
        ("empty", np.int64),  # the number of the run after the chunk's last run of dropped GTIDs
        ("transactions_read", np.int64),  # transactions that the chunk completes
        ("transactions_dropped", np.int64),  # transactions among them of which nothing is sent
    ]
)
"""A chunk, with the counters of what it holds. All fields are int64, which :func:`rows_of` relies on."""

_MOST_RANGES = 4
"""The ranges that one event can bring, besides the buffered events: a buffered rows event twice, the event, one to
spare."""

# The codes that a call of `decide` returns.
DONE = 0
FULL = 1
"""An output array is full. The caller makes it larger and calls again with a fresh copy of the walk."""


kernel = njit(cache=True, nogil=True, _nrt=False)
"""Compile a function that neither makes nor keeps arrays, without counting references to arrays.

The function's callers hold the arrays. Numba would count references around every access to a field of a named tuple.
Without this option of numba's, which is private, :func:`decide` takes 15 to 30 % longer.
"""

inlined = njit(inline="always")
"""Compile a function as a part of each compiled function that calls it."""


class Events(NamedTuple):
    """The events of a segment: columns of one length."""

    offset: npt.NDArray[np.int64]
    """File offsets, int64. They ascend."""
    size: npt.NDArray[np.int64]
    """Bytes, int64."""
    role: npt.NDArray[np.uint8]
    """uint8, with the bit ``roles.ENDS``."""
    subject: npt.NDArray[np.int32]
    """int32, negative where an event has none."""


class Transactions(NamedTuple):
    """The transactions of a segment."""

    event: npt.NDArray[np.int64]
    """The number of each transaction's first event, int64. One entry more than there are transactions."""
    subject: npt.NDArray[np.int32]
    """The only subject of each transaction, int32, or one of the negative numbers of ``roles``."""
    is_open: bool
    """Whether the last transaction goes on in the next segment."""
    end: int
    """The file offset where the segment ends."""


class Walk(NamedTuple):
    """The memory of a walk, which survives from one segment to the next."""

    state: npt.NDArray[np.void]
    """One entry of dtype :data:`WALK_STATE`."""
    head: npt.NDArray[np.int64]
    """The buffered events of the transaction's head: int64, ``BUFFERED_OFFSET`` and ``BUFFERED_SIZE``."""
    context: npt.NDArray[np.int64]
    """The buffered context events and table maps of the open statement, in the same columns."""


class Verdicts(NamedTuple):
    """A filter's verdicts about the subjects."""

    flags: npt.NDArray[np.uint32]
    """The table flags of each subject, uint32."""
    undecided: np.uint32
    """The bit of the flags that marks undecided subjects."""
    sends_all: bool
    """Whether the filter has no rules, so that everything is sent as it is."""


class Output(NamedTuple):
    """The arrays that :func:`decide` fills."""

    ranges: npt.NDArray[np.int64]
    """The byte ranges of all chunks, int64 with ``RANGE_COLUMNS`` columns."""
    chunks: npt.NDArray[np.void]
    """dtype :data:`CHUNK`."""
    is_kept: npt.NDArray[np.bool_]
    """For each transaction, bool: whether anything of it is sent."""


def new_walk() -> Walk:
    """Return the walk at a transaction boundary."""
    return Walk(np.zeros(1, WALK_STATE), np.zeros((64, 2), np.int64), np.zeros((64, 2), np.int64))


def copy_of(walk: Walk) -> Walk:
    """Return a walk that a kernel can change while the given walk stays."""
    return Walk(walk.state.copy(), walk.head.copy(), walk.context.copy())


def enlarged(walk: Walk) -> Walk:
    """Return a copy of a walk with twice the room for buffered events."""
    return Walk(
        walk.state.copy(),
        np.concatenate([walk.head, np.zeros_like(walk.head)]),
        np.concatenate([walk.context, np.zeros_like(walk.context)]),
    )


def rows_of(chunks: npt.NDArray[np.void]) -> list[list[int]]:
    """Return the fields of each chunk, in the order of :data:`CHUNK`."""
    # numpy lists plain integers in half the time of structs
    rows: list[list[int]] = chunks.view(np.int64).reshape(-1, len(CHUNK)).tolist()
    return rows


@kernel
def _begin_chunk(chunk, first_range, transactions):
    """Clear the counters of a chunk that begins with range ``first_range`` and transaction ``transactions``."""
    chunk.first_range = first_range
    chunk.ranges = first_range
    chunk.resume = -1
    chunk.resume_bytes = 0
    chunk.transactions = transactions
    chunk.bytes = 0
    chunk.events = 0
    chunk.events_read = 0
    chunk.undecided = 0


@kernel
def _end_chunk(chunk, walk, end):
    """Set the end of a chunk, and count the events that are buffered there."""
    state = walk.state[0]
    chunk.end = end
    chunk.buffered_events = state.heads + state.contexts + state.has_rows
    chunk.buffered_bytes = state.rows_size if state.has_rows else 0
    for k in range(state.heads):
        chunk.buffered_bytes += walk.head[k, BUFFERED_SIZE]
    for k in range(state.contexts):
        chunk.buffered_bytes += walk.context[k, BUFFERED_SIZE]


@inlined
def _mark_boundary(chunk, end, transaction):
    """Note that a stream can be cut at file offset ``end``, after a transaction."""
    chunk.resume = end
    chunk.resume_bytes = chunk.bytes
    chunk.transactions = transaction + 1


@inlined
def _add_range(ranges, chunk, offset, size, patch):
    """Add a range to a chunk, or lengthen the chunk's last range if the new one follows on it in the file."""
    last = chunk.ranges - 1
    if (
        patch == AS_IT_IS
        and last >= chunk.first_range
        and ranges[last, RANGE_PATCH] == AS_IT_IS
        and ranges[last, RANGE_OFFSET] + ranges[last, RANGE_SIZE] == offset
    ):
        ranges[last, RANGE_SIZE] += size
    else:
        ranges[last + 1, RANGE_OFFSET] = offset
        ranges[last + 1, RANGE_SIZE] = size
        ranges[last + 1, RANGE_PATCH] = patch
        chunk.ranges = last + 2


@inlined
def _send(ranges, chunk, offset, size, patch):
    """Add one event to a chunk."""
    _add_range(ranges, chunk, offset, size, patch)
    chunk.bytes += size
    chunk.events += 1


@inlined
def _end_with_buffered_rows(ranges, chunk, state):
    """Send the buffered rows event as the last one of its statement."""
    if state.has_rows:
        _send(ranges, chunk, state.rows_offset, state.rows_size, ADD_STATEMENT_END)
        state.has_rows = 0


@inlined
def _send_buffered(ranges, chunk, state, head, context, with_context):
    """Send the buffered events in the order of the file: the head, the rows event, then the statement's context."""
    for k in range(state.heads):
        _send(ranges, chunk, head[k, BUFFERED_OFFSET], head[k, BUFFERED_SIZE], AS_IT_IS)
    state.heads = 0
    if state.has_rows:
        _send(ranges, chunk, state.rows_offset, state.rows_size, AS_IT_IS)
        state.has_rows = 0
    if with_context:
        for k in range(state.contexts):
            _send(ranges, chunk, context[k, BUFFERED_OFFSET], context[k, BUFFERED_SIZE], AS_IT_IS)
        state.contexts = 0


@inlined
def _close(state):
    """Set the state that a walk has between two transactions."""
    state.is_open = 0
    state.is_skipped = 0
    state.is_kept = 0
    state.heads = 0
    state.contexts = 0
    state.has_rows = 0
    state.rows_offset = 0
    state.rows_size = 0
    state.is_statement_kept = 0


@inlined
def _walk(events, transactions, verdicts, walk, out, chunk, transaction, i, chunk_size):
    """Decide the events of a transaction one by one, from number ``i`` on, in the order of the grammar.

    Return the number of the next event, or -1 if an array is full. The walk pauses inside the transaction when the
    chunk has ``chunk_size`` bytes.
    """
    state = walk.state[0]
    ranges, is_kept = out.ranges, out.is_kept
    offsets, sizes, roles, subjects = events
    flags = verdicts.flags
    head, context = walk.head, walk.context
    sends_all = verdicts.sends_all
    if not state.is_open:
        state.is_open = 1
        state.is_skipped = transactions.subject[transaction] == R.SKIP
    is_skipped = state.is_skipped != 0
    stop = transactions.event[transaction + 1]
    first = i
    while i < stop:
        if (
            chunk.ranges + state.heads + state.contexts + _MOST_RANGES > ranges.shape[0]
            or state.heads >= head.shape[0]
            or state.contexts >= context.shape[0]
        ):
            return -1
        role = roles[i] & ~R.ENDS
        ends = (roles[i] & R.ENDS) != 0
        offset = offsets[i]
        size = sizes[i]
        subject = subjects[i]
        action = DROP
        with_context = False
        if role == R.FILE or (sends_all and not is_skipped):
            action = SEND
        elif is_skipped:
            action = DROP
        elif role == R.GTID or role == R.FRAME:
            if state.is_kept:
                action = SEND
            elif not ends:
                action = HOLD_HEAD
        elif role == R.CONTEXT:
            action = HOLD_STATEMENT
        elif role == R.STATEMENT:
            if flags[subject] & FLAG_SEND:
                action = SEND
                with_context = True
                chunk.undecided += (flags[subject] & verdicts.undecided) != 0
            else:
                state.contexts = 0
        elif role == R.TABLE_MAP:
            if flags[subject] & FLAG_SEND:
                action = HOLD_STATEMENT
        elif role == R.ROWS or role == R.ROWS_END:
            if subject < 0 or flags[subject] & FLAG_SEND:
                action = SEND if role == R.ROWS_END else HOLD_ROWS
                with_context = True
                chunk.undecided += subject < 0
                state.is_statement_kept = role == R.ROWS
            elif role == R.ROWS_END:
                _end_with_buffered_rows(ranges, chunk, state)
                state.contexts = 0
                state.is_statement_kept = 0
        elif role == R.DUMMY_ROWS:
            if state.is_statement_kept:
                action = SEND
            # table maps without rows
            state.contexts = 0
            state.is_statement_kept = 0
        else:
            action = SEND
            with_context = True
            chunk.undecided += role == R.KEEP

        if action == HOLD_HEAD:
            head[state.heads, BUFFERED_OFFSET] = offset
            head[state.heads, BUFFERED_SIZE] = size
            state.heads += 1
        elif action == HOLD_STATEMENT:
            context[state.contexts, BUFFERED_OFFSET] = offset
            context[state.contexts, BUFFERED_SIZE] = size
            state.contexts += 1
        elif action != DROP:
            state.is_kept = 1
            _send_buffered(ranges, chunk, state, head, context, with_context)
            if action == HOLD_ROWS:
                state.has_rows = 1
                state.rows_offset = offset
                state.rows_size = size
            else:
                _send(ranges, chunk, offset, size, REPLACED if role == R.REPLACED else AS_IT_IS)
        i += 1
        if ends:
            # no event has closed the statement, so the buffered rows event does
            _end_with_buffered_rows(ranges, chunk, state)
            is_kept[transaction] = state.is_kept != 0
            _close(state)
            end = offset + size
            if role == R.REPLACED:  # its size is not the size in the file
                end = offsets[i] if i < offsets.size else np.int64(transactions.end)
            _mark_boundary(chunk, end, transaction)
        elif chunk.bytes >= chunk_size:
            break
    chunk.events_read += i - first
    return i


@inlined
def _take_uniform(events, transactions, verdicts, out, chunk, t, stop, chunk_size):
    """Decide transactions from number ``t`` to ``stop`` as long as one look-up decides each and the chunk is not full.

    Return the number of the next transaction. There must be room for one range a transaction.
    """
    offsets, sizes, _, subjects = events
    first_events, txn_subjects = transactions.event, transactions.subject
    flags, ranges, out_is_kept = verdicts.flags, out.ranges, out.is_kept
    first = t
    sent_bytes = chunk.bytes
    sent_events = np.int64(0)
    end = np.int64(0)
    while t < stop and sent_bytes < chunk_size:
        subject = txn_subjects[t]
        if verdicts.sends_all:
            is_kept = subject != R.SKIP
        elif subject >= 0:
            is_kept = (flags[subject] & FLAG_SEND) != 0
        elif subject == R.MIXED:
            break
        else:
            is_kept = subject == R.KEPT
        first_event = first_events[t]
        next_event = first_events[t + 1]
        end = offsets[next_event - 1] + sizes[next_event - 1]
        if is_kept:
            start = offsets[first_event]
            _add_range(ranges, chunk, start, end - start, AS_IT_IS)
            sent_bytes += end - start
            sent_events += next_event - first_event
            if subject >= 0 and not verdicts.sends_all and (flags[subject] & verdicts.undecided) != 0:
                for k in range(first_event, next_event):
                    chunk.undecided += subjects[k] == subject
        out_is_kept[t] = is_kept
        t += 1
    if t > first:
        chunk.bytes = sent_bytes
        chunk.events += sent_events
        chunk.events_read += first_events[t] - first_events[first]
        _mark_boundary(chunk, end, t - 1)
    return t


@kernel
def decide(events, transactions, verdicts, walk, out, first, chunk_size):
    """Fill ``out`` for the transactions from number ``first`` on.

    A chunk is cut after ``chunk_size`` bytes of events. Return ``(code, ranges, chunks)``: ``DONE`` or ``FULL``, and
    the numbers of ranges and chunks in ``out``.
    """
    state = walk.state[0]
    n_transactions = transactions.subject.size
    n_chunks = 0
    chunk = out.chunks[0]
    _begin_chunk(chunk, 0, first)
    t = first
    while t < n_transactions:
        if state.is_open == 0:
            # each of these transactions brings one range at most
            room = out.ranges.shape[0] - chunk.ranges
            stop = min(n_transactions - transactions.is_open, t + room)
            t = _take_uniform(events, transactions, verdicts, out, chunk, t, stop, chunk_size)
            if t == stop and t < n_transactions - transactions.is_open:
                return FULL, chunk.ranges, n_chunks
        if t < n_transactions and chunk.bytes < chunk_size:
            i = transactions.event[t]
            while i < transactions.event[t + 1]:
                i = _walk(events, transactions, verdicts, walk, out, chunk, t, i, chunk_size)
                if i < 0:
                    return FULL, chunk.ranges, n_chunks
                if state.is_open and chunk.bytes >= chunk_size:
                    if n_chunks + 1 >= out.chunks.shape[0]:
                        return FULL, chunk.ranges, n_chunks + 1
                    _end_chunk(chunk, walk, events.offset[i - 1] + events.size[i - 1])
                    n_chunks += 1
                    chunk = out.chunks[n_chunks]
                    _begin_chunk(
                        chunk, out.chunks[n_chunks - 1].ranges, out.chunks[n_chunks - 1].transactions
                    )
            t += 1
        if t == n_transactions:
            _end_chunk(chunk, walk, transactions.end)
            n_chunks += 1
        elif chunk.bytes >= chunk_size:
            if n_chunks + 1 >= out.chunks.shape[0]:
                return FULL, chunk.ranges, n_chunks + 1
            _end_chunk(chunk, walk, chunk.resume)
            n_chunks += 1
            chunk = out.chunks[n_chunks]
            _begin_chunk(chunk, out.chunks[n_chunks - 1].ranges, out.chunks[n_chunks - 1].transactions)
    return DONE, chunk.ranges, n_chunks


@kernel
def collapse_uniform(txn_subject, txn_set, set_subject, flags, undecided, out):
    """Write ``txn_subject`` into ``out`` as one filter sees the transactions.

    A transaction of several subjects becomes ``KEPT`` if the filter surely sends all subjects, and ``NOTHING`` if the
    filter drops all subjects. :func:`decide` need not walk such transactions. ``flags`` are the filter's table flags,
    ``undecided`` is the bit for undecided subjects; the other parameters are columns of a ``Segment``.
    """
    for t in range(txn_subject.size):
        out[t] = txn_subject[t]
        if txn_subject[t] == R.MIXED and txn_set[t] < txn_set[t + 1]:
            every = np.uint32(0xFFFFFFFF)
            some = np.uint32(0)
            for k in range(txn_set[t], txn_set[t + 1]):
                bits = flags[set_subject[k]]
                every &= bits
                some |= bits
            if some & FLAG_SEND == 0:
                out[t] = R.NOTHING
            elif every & FLAG_SEND and some & undecided == 0:
                out[t] = R.KEPT
