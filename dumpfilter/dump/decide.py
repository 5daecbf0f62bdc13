"""The compiled decision which events one slave is sent, as byte ranges of a binlog file.

Each event has a role (:mod:`dumpfilter.binlog.roles`). GTID and FRAME events travel with their transaction. CONTEXT
events travel with the statement that follows. ROWS and STATEMENT events travel by a verdict about their own table or
statement. In terms of roles, a legal binlog has the following grammar, which the dump thread, the split and the tally
rely on:

    stream          ( transaction | FILE )*
    transaction     head ( statement | rows statement | frame | always )* end
    head            [GTID] [FRAME]                          FRAME is BEGIN or XA START
    statement       CONTEXT* STATEMENT
    rows statement  CONTEXT* TABLE_MAP+ ROWS* ( ROWS_END | DUMMY_ROWS )
    frame           FRAME                                   SAVEPOINT, ROLLBACK TO, XA END
    always          KEEP | XA | PAYLOAD | REPLACED
    end             the first event with the bit ENDS: Xid, COMMIT, XA_prepare, or a statement without BEGIN

The master sends an event under these conditions:

    | FILE            always
    | GTID, FRAME     with any other event of the transaction
    | CONTEXT         with any event of the statement that follows
    | STATEMENT       if the filter sends the statement
    | TABLE_MAP       if the filter sends the table, with any later rows of the same statement
    | ROWS, ROWS_END  if the filter sends the table; rows without a table map unless an imposed filter drops them
    | DUMMY_ROWS      with any rows of the statement
    | always          always
    | HIDDEN, GAP     never
    | WITHHELD        never, nor the CONTEXT before the event

A transaction whose events all belong to one table or statement needs one look-up. :func:`decide` walks other
transactions event by event. Later events decide whether the master sends a GTID event, BEGIN, a context event (Intvar,
Rand, User_var) or a table map. The walk buffers the byte ranges of these events until then. The last rows event to be
sent is buffered, too. If the master drops the rows event that carries STMT_END_F, the buffered event gets the flag.
The buffers survive from one segment (at most 4 MiB of events) to the next. A transaction of any size is walked in
memory that does not grow with its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.compiler.kernels import njit

FLAG_SEND = np.uint32(1)
"""The bit of a table's or statement's flags that says that the filter sends its events (``FILTER_BINLOG_SEND_F``)."""

# The columns of a byte range of the binlog file. The column RANGE_PATCH says how the master changes the bytes before it
# sends them.
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

# A buffered event is stored as its offset and size in the binlog file.
BUFFERED_OFFSET = 0
BUFFERED_SIZE = 1

# The possible decisions about one event, in a transaction that the master decides event by event.
DROP = 0
SEND = 1
"""The decision to send the event. The transaction's buffered GTID event and BEGIN, and the buffered rows event, are
sent before it."""
HOLD_HEAD = 2
"""The decision to buffer a GTID event or BEGIN until an event of the same transaction is sent."""
HOLD_STATEMENT = 3
"""The decision to buffer a context event (Intvar, Rand, User_var) or table map until an event of the same statement is
sent."""
HOLD_ROWS = 4
"""Buffer a rows event that is sure to be sent, because it needs STMT_END_F if the later rows of its statement are
dropped. Before it, send the transaction's buffered GTID event and BEGIN, and the previous buffered rows event."""

WALK_STATE = np.dtype(
    [
        # 1 while a transaction is open, 0 between two transactions.
        ("is_open", np.int64),
        # 1 if the slave already has the open transaction, or ignores the server that the transaction comes from.
        ("is_skipped", np.int64),
        # 1 if an event of the open transaction has been sent, or a rows event is buffered.
        ("is_kept", np.int64),
        # The number of buffered GTID and BEGIN events.
        ("heads", np.int64),
        # The number of buffered context events and table maps of the open statement.
        ("contexts", np.int64),
        # 1 if a rows event is buffered.
        ("has_rows", np.int64),
        ("rows_offset", np.int64),
        ("rows_size", np.int64),
        # 1 if a rows event of the open statement has been sent or buffered.
        ("is_statement_kept", np.int64),
    ]
)
"""The state of a decision inside a transaction whose events are decided one by one. Between two transactions all fields
are 0."""

CHUNK = np.dtype(
    [
        # The index of the chunk's first byte range.
        ("first_range", np.int64),
        # The index after the chunk's last byte range.
        ("ranges", np.int64),
        # The file offset where the chunk ends.
        ("end", np.int64),
        # The file offset where the chunk's last complete transaction ends; -1 if no transaction ends in the chunk.
        ("resume", np.int64),
        # The bytes that the chunk sends before the file offset in the field `resume`.
        ("resume_bytes", np.int64),
        # The index of the first transaction that does not end before the chunk's end.
        ("transactions", np.int64),
        # The bytes of events that the chunk sends.
        ("bytes", np.int64),
        # The number of events that the chunk sends.
        ("events", np.int64),
        ("events_read", np.int64),
        # The number of events that the chunk sends because the filter cannot decide about them.
        ("undecided", np.int64),
        # The number of events that are buffered at the chunk's end, neither sent nor dropped.
        ("buffered_events", np.int64),
        ("buffered_bytes", np.int64),
        # The index after the chunk's last run of GTIDs of transactions that end in the chunk. This field and the two
        # fields below are set by the function `summarize_chunks`, after the decision.
        ("completed", np.int64),
        # The number of transactions that end in the chunk.
        ("transactions_read", np.int64),
        # The number of transactions that end in the chunk and that the master drops whole.
        ("transactions_dropped", np.int64),
    ]
)
"""The record of one chunk (a message of the stream): its byte ranges, its end, and its counts of events and bytes.

All fields are int64, because :func:`rows_of` reads the records as a table of integers.
"""

_MOST_RANGES = 4
"""The most byte ranges that the decision about one event can add, besides the ranges of the buffered GTID event, BEGIN,
context events and table maps.

The buffered rows event can add two, and the event one. One more is a reserve.
"""

# The codes that the function `decide` returns.
DONE = 0
FULL = 1
"""The code that :func:`decide` returns when an output array is full. The caller enlarges the array and calls again,
with a copy of the state from before the call."""


kernel = njit(cache=True, nogil=True, _nrt=False)
"""A decorator that compiles a function with numba, without numba's reference counts of arrays.

The option ``_nrt`` is private to numba. It is safe for a function that neither creates nor stores arrays, because the
function's callers hold the arrays. With reference counts, :func:`decide` takes 15 to 30 % longer.
"""

inlined = njit(inline="always")
"""A decorator for a small compiled function, whose code numba inserts into each caller to save the cost of calls."""


class Events(NamedTuple):
    """The events of a segment (at most 4 MiB of one binlog file) as columns, with one entry for each event."""

    offset: npt.NDArray[np.int64]
    """The offset of each event in the binlog file, int64, ascending."""
    size: npt.NDArray[np.int64]
    """The size of each event, bytes, int64."""
    role: npt.NDArray[np.uint8]
    """The role of each event, uint8: how the event travels in a filtered stream (with its transaction, with its
    statement, or by its own table). The bit ``roles.ENDS`` marks the last event of a transaction."""
    subject: npt.NDArray[np.int32]
    """The number of the table or statement that a filter decides about, for each event, int32. Negative for events that
    belong to no table or statement."""


class Transactions(NamedTuple):
    """The transactions of a segment as columns, with one entry for each transaction."""

    event: npt.NDArray[np.int64]
    """The index of each transaction's first event, int64. One more entry at the end is the number of events."""
    subject: npt.NDArray[np.int32]
    """The number of the only table or statement that each transaction changes, int32.

    A negative number of :mod:`dumpfilter.binlog.roles` stands for another case. Examples are ``MIXED`` for several
    tables, and ``SKIP`` for a transaction that the slave already has.
    """
    is_open: bool
    """Whether the segment ends inside its last transaction."""
    end: int
    """The file offset where the segment ends."""
    has_gaps: bool = False
    """Whether some transactions have Gap events of a relay log inside. Their subject is ``MIXED``, and even a filter
    without rules drops these events."""


class Walk(NamedTuple):
    """The state and the buffered events of an event-by-event decision, kept from one segment to the next."""

    state: npt.NDArray[np.void]
    """The state of the decision, an array with one entry of dtype :data:`WALK_STATE`."""
    head: npt.NDArray[np.int64]
    """The buffered GTID, BEGIN and XA START events of the open transaction: file offset and size, int64."""
    context: npt.NDArray[np.int64]
    """The buffered context events and table maps of the open statement: file offset and size, int64."""


class Verdicts(NamedTuple):
    """A filter's verdicts (send, drop or undecided) about the tables and statements of a binlog set."""

    flags: npt.NDArray[np.uint32]
    """The filter's verdict about each table or statement as bits of a uint32, indexed by its number."""
    undecided: np.uint32
    """The bit in ``flags`` of a subject that the master cannot decide. The master sends and counts its events."""
    sends_all: bool
    """Whether the filter has no rules, so that all events are sent unchanged."""
    sends_unmapped: bool
    """Whether the master sends rows events without a table map, about which no filter can decide. An imposed filter may
    drop them."""


class Output(NamedTuple):
    """The arrays that :func:`decide` fills."""

    ranges: npt.NDArray[np.int64]
    """The byte ranges to send in all chunks, int64. The columns are file offset, size, and how to change the bytes."""
    chunks: npt.NDArray[np.void]
    """One record of dtype :data:`CHUNK` for each chunk."""
    is_kept: npt.NDArray[np.bool_]
    """For each transaction, bool: whether the master sends any event of the transaction."""


def new_walk() -> Walk:
    """Return the state of an event-by-event decision that begins between two transactions, without buffered events."""
    return Walk(np.zeros(1, WALK_STATE), np.zeros((64, 2), np.int64), np.zeros((64, 2), np.int64))


def copy_of(walk: Walk) -> Walk:
    """Return a copy of a walk's state and buffers. If a call of :func:`decide` fails for lack of room, the original is
    still unchanged."""
    return Walk(walk.state.copy(), walk.head.copy(), walk.context.copy())


def trimmed(walk: Walk) -> Walk:
    """Return a copy of a walk whose arrays have no room beyond the buffered events."""
    state = walk.state[0]
    return Walk(
        walk.state.copy(), walk.head[: state["heads"]].copy(), walk.context[: state["contexts"]].copy()
    )


def copy_into(walk: Walk, trimmed_walk: Walk) -> None:
    """Write a result of :func:`trimmed` into a walk that has room for its buffered events."""
    walk.state[:] = trimmed_walk.state
    walk.head[: len(trimmed_walk.head)] = trimmed_walk.head
    walk.context[: len(trimmed_walk.context)] = trimmed_walk.context


def enlarged(walk: Walk) -> Walk:
    """Return a copy of a walk whose arrays have room for twice as many buffered events."""
    return Walk(
        walk.state.copy(),
        np.concatenate([walk.head, np.zeros_like(walk.head)]),
        np.concatenate([walk.context, np.zeros_like(walk.context)]),
    )


def rows_of(chunks: npt.NDArray[np.void]) -> list[list[int]]:
    """Return each chunk record as a list of its fields, in the order of the dtype :data:`CHUNK`."""
    # Numpy converts a table of integers to lists in half the time that it needs for structured records.
    rows: list[list[int]] = chunks.view(np.int64).reshape(-1, len(CHUNK)).tolist()
    return rows


@kernel
def begin_chunk(chunk, first_range, transactions):
    """Set the record of a chunk to that of an empty chunk."""
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
def end_chunk(chunk, walk, end):
    """Set the end of a chunk, and the events that are buffered there."""
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
    chunk.resume = end
    chunk.resume_bytes = chunk.bytes
    chunk.transactions = transaction + 1


@inlined
def add_range(ranges, chunk, offset, size, patch):
    """Add a byte range to a chunk, or enlarge the chunk's last byte range if the two are neighbours."""
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
    add_range(ranges, chunk, offset, size, patch)
    chunk.bytes += size
    chunk.events += 1


@inlined
def _end_with_buffered_rows(ranges, chunk, state):
    if state.has_rows:
        _send(ranges, chunk, state.rows_offset, state.rows_size, ADD_STATEMENT_END)
        state.has_rows = 0


@inlined
def _send_buffered(ranges, chunk, state, head, context, with_context):
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
def walk_transaction(events, transactions, verdicts, walk, out, chunk, transaction, i, chunk_size):
    """Decide the events of one transaction one by one, from event number ``i`` on.

    Return the number of the next event, or -1 if an output array is full. Stop inside the transaction when the chunk
    has ``chunk_size`` bytes, so that a large transaction does not make a large message.
    """
    state = walk.state[0]
    ranges, is_kept = out.ranges, out.is_kept
    offsets, sizes, roles, subjects = events
    flags = verdicts.flags
    head, context = walk.head, walk.context
    sends_all, sends_unmapped = verdicts.sends_all, verdicts.sends_unmapped
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
        if role == R.GAP:
            action = DROP
        elif role == R.FILE or (sends_all and not is_skipped):
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
            if sends_unmapped if subject < 0 else flags[subject] & FLAG_SEND != 0:
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
            # No rows followed these buffered table maps, so the new statement discards them.
            state.contexts = 0
            state.is_statement_kept = 0
        elif role == R.WITHHELD:
            state.contexts = 0
        elif role != R.HIDDEN:
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
            # The transaction ends and no sent event has closed its last statement. The buffered rows event gets
            # STMT_END_F.
            _end_with_buffered_rows(ranges, chunk, state)
            is_kept[transaction] = state.is_kept != 0
            _close(state)
            end = offset + size
            if (
                role == R.REPLACED
            ):  # The size column holds the changed event's size, not the size in the file.
                end = offsets[i] if i < offsets.size else np.int64(transactions.end)
            _mark_boundary(chunk, end, transaction)
        elif chunk.bytes >= chunk_size:
            break
    chunk.events_read += i - first
    return i


@inlined
def _take_uniform(events, transactions, verdicts, out, chunk, t, stop, chunk_size):
    """Decide transactions from number ``t`` to ``stop`` by one look-up each.

    Stop at a transaction that needs an event-by-event decision, or when the chunk is full. Return the number of the
    next transaction. The output arrays must have room for one byte range for each transaction.
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
            if subject == R.MIXED and transactions.has_gaps:
                break
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
            add_range(ranges, chunk, start, end - start, AS_IT_IS)
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
    """Decide which events of a segment one slave is sent, from transaction number ``first`` on.

    Write the byte ranges to send into ``out``, divided into chunks. A chunk ends after ``chunk_size`` bytes of events.
    Return a code and the numbers of ranges and chunks in ``out``. The code is ``DONE``, or ``FULL`` if an array is too
    small.
    """
    state = walk.state[0]
    n_transactions = transactions.subject.size
    n_chunks = 0
    chunk = out.chunks[0]
    begin_chunk(chunk, 0, first)
    t = first
    while t < n_transactions:
        if state.is_open == 0:
            # A transaction that one look-up decides adds at most one byte range, so room is checked once for many.
            room = out.ranges.shape[0] - chunk.ranges
            stop = min(n_transactions - transactions.is_open, t + room)
            t = _take_uniform(events, transactions, verdicts, out, chunk, t, stop, chunk_size)
            if t == stop and t < n_transactions - transactions.is_open:
                return FULL, chunk.ranges, n_chunks
        if t < n_transactions and chunk.bytes < chunk_size:
            i = transactions.event[t]
            while i < transactions.event[t + 1]:
                i = walk_transaction(events, transactions, verdicts, walk, out, chunk, t, i, chunk_size)
                if i < 0:
                    return FULL, chunk.ranges, n_chunks
                if state.is_open and chunk.bytes >= chunk_size:
                    if n_chunks + 1 >= out.chunks.shape[0]:
                        return FULL, chunk.ranges, n_chunks + 1
                    end_chunk(chunk, walk, events.offset[i - 1] + events.size[i - 1])
                    n_chunks += 1
                    chunk = out.chunks[n_chunks]
                    begin_chunk(chunk, out.chunks[n_chunks - 1].ranges, out.chunks[n_chunks - 1].transactions)
            t += 1
        if t == n_transactions:
            end_chunk(chunk, walk, transactions.end)
            n_chunks += 1
        elif chunk.bytes >= chunk_size:
            if n_chunks + 1 >= out.chunks.shape[0]:
                return FULL, chunk.ranges, n_chunks + 1
            end_chunk(chunk, walk, chunk.resume)
            n_chunks += 1
            chunk = out.chunks[n_chunks]
            begin_chunk(chunk, out.chunks[n_chunks - 1].ranges, out.chunks[n_chunks - 1].transactions)
    return DONE, chunk.ranges, n_chunks


@kernel
def collapse_uniform(txn_subject, txn_set, set_subject, flags, undecided, out):
    """Find the transactions of several tables that a filter sends whole or drops whole. Write the result to ``out``.
    The entry of such a transaction becomes ``KEPT`` or ``NOTHING``, so that :func:`decide` need not walk its events one
    by one. Other entries are copied from ``txn_subject``. ``flags`` has the filter's verdict about each table or
    statement. A table with the bit ``undecided`` is not surely sent, so its transactions stay unchanged. The other
    parameters are columns of a ``Segment``.
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
