"""The compiled pass of :mod:`dumpfilter.dump.tally`, which finds the condition under which each event is sent.

:mod:`dumpfilter.dump.decision` asks filters about tables and statements. This pass asks no filter. It records
the tables and statements that the decision would depend on, so that any filter can be applied later. Both passes rely
on the grammar at the head of :mod:`dumpfilter.dump.atoms`. If later events decide whether an event is sent, the pass
buffers the event's size and its place in the statement. The buffers are kept from one segment (at most 4 MiB of events)
to the next. Each condition is stored once, with a number (:func:`intern`). A unit is a counter for the events with one
condition, from one origin (server and domain), in one span of time. Conditions and units are found through open hash
tables in arrays that the caller owns and enlarges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.compiler.kernels import inlined, kernel, njit

# A condition is the answer to the question which filters send an event. A condition has one of these kinds.
ALWAYS = 0
"""The kind of a condition that every filter meets. Events counted under such a condition are always sent."""
ONE = 1
"""The kind of a condition that a filter meets if the filter sends one given table or statement."""
ANY = 2
"""The kind of a condition that a filter meets if the filter sends at least one of several tables or statements.

If the condition has a required table, the filter must send the required table, too.
"""
EXACTLY = 3
"""The kind of a condition that lists the filters that send an event, each by its number."""

# Every table of conditions begins with the condition "always sent" and the condition "sent only without a filter", so
# the numbers of these two conditions are fixed.
C_ALWAYS = 0
C_NEVER = 1
"""The number of the condition for events that only a filter without rules sends: kind ANY without any table."""

STATE = np.dtype(
    [
        # 1 while a transaction is open, 0 between two transactions.
        ("is_open", np.int64),
        # The number of the server and domain that the open transaction comes from.
        ("origin", np.int64),
        # 1 if the open transaction has an event that every filter sends.
        ("is_always", np.int64),
        # The bytes of the open transaction's GTID, BEGIN, COMMIT and similar events.
        ("frame_bytes", np.int64),
        # The number of the open transaction's GTID, BEGIN, COMMIT and similar events.
        ("frame_events", np.int64),
        # The number of transactions so far that were counted event by event.
        ("serial", np.int64),
        # The number of different tables and statements in the open transaction.
        ("deciding", np.int64),
        # The number of rows events with a table map so far, in all transactions.
        ("rows", np.int64),
        # The value of the field `rows` where the open rows statement began.
        ("statement", np.int64),
        # The number of tables with rows events in the open statement.
        ("tables", np.int64),
        # 1 if the open statement has a rows event without a table map.
        ("is_unmapped", np.int64),
        # The number of entries for buffered context events and table maps.
        ("buffered", np.int64),
        # The last event timestamp that is not 0, Unix seconds.
        ("time", np.int64),
    ]
)
"""The state of the pass that counts events by condition. The pass keeps the state from one segment (at most 4 MiB of
events) to the next, because a transaction may continue there."""

BUFFERED = np.dtype(
    [
        # The number of the table that a buffered table map describes; -1 for context events (Intvar, Rand, User_var).
        ("subject", np.int64),
        # The number of rows events that the counting pass had read when this event was buffered.
        ("since", np.int64),
        ("bytes", np.int64),
        ("events", np.int64),
    ]
)
"""An entry for buffered events: consecutive context events (Intvar, Rand, User_var), or table maps of one table.

The rows events that follow in the same statement decide under which condition the entry is counted.
"""

# A unit is a counter for the events with one condition, from one origin (server and domain), in one span of time. A
# unit has these columns.
U_CONDITION = 0
U_ORIGIN = 1
U_BUCKET = 2
U_BYTES = 3
U_EVENTS = 4
U_TRANSACTIONS = 5
U_UNDECIDED = 6
U_STAND_INS = 7
U_STAND_IN_BYTES = 8
UNIT_COLUMNS = 9

# The columns of a stored condition, for example the condition "the filter sends one of these tables".
Q_KIND = 0
"""The column of a condition's kind (ALWAYS, ONE, ANY or EXACTLY)."""
Q_REQUIRED = 1
"""The column for the number of the table that a filter must send for the condition to hold; -1 if there is none."""
Q_START = 2
"""The column for the index of the condition's first member (table, statement or filter) in the array of members."""
Q_END = 3
"""The column for the index after the condition's last member (table, statement or filter) in the array of members."""
Q_LATEST = 4
"""The column for the counter (unit) that used this condition last, which saves a look-up in a hash table; or -1."""
CONDITION_COLUMNS = 5

# The columns of what the pass remembers about each subject (a table or statement that a filter decides about).
S_MARK = 0
"""The column for the serial number of the last transaction with events of this table or statement."""
S_LAST = 1
"""The column for the number of the table's last rows event."""
S_SINGLE = 2
"""The column for the number of the condition "this table is sent"; 0 before the condition exists."""
SUBJECT_COLUMNS = 3

# The codes that the function `tally` returns.
DONE = 0
FULL = 1
"""The code that the function ``tally`` returns when an array is full. The caller enlarges the arrays and calls
again."""
PAYLOAD = 2
"""The code that the function ``tally`` returns at a compressed transaction of which filters send different parts.
Compiled code cannot count such a transaction. The caller counts the transaction and calls again for the next event."""

# After each event, the pass does one of these things with the buffered context events and table maps: it keeps them
# buffered, or it counts them under a condition.
KEEP_BUFFERED = 0
SEND_WITH_STATEMENT = 1
"""Count the buffered events under the condition that any later rows of their statement, or the current event, are
sent."""
SEND_BUFFERED = 2
"""Count the buffered events as sent with every filter."""


class Columns(NamedTuple):
    """The events and transactions of a segment (at most 4 MiB of one binlog file), as columns."""

    size: npt.NDArray[np.int64]
    time: npt.NDArray[np.uint32]
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]
    txn_event: npt.NDArray[np.int64]
    txn_subject: npt.NDArray[np.int32]
    txn_source: npt.NDArray[np.int32]
    txn_origin: npt.NDArray[np.int64]
    """For each transaction, the number of the server and domain that it comes from."""
    txn_stand_in: npt.NDArray[np.int64]
    """For each transaction, the bytes that a real replica gets if the transaction is dropped; 0 for none."""
    is_open: bool
    """Whether the segment ends inside its last transaction."""
    bucket_seconds: int
    txn_key: npt.NDArray[np.int64]
    """For each transaction, the number that units have in the column :data:`U_BUCKET`, in place of a time bucket. Empty
    if units are counted by time."""


class Payloads(NamedTuple):
    """The compressed transactions of a segment."""

    event: npt.NDArray[np.int64]
    """The numbers of the Transaction_payload events in the segment, ascending."""
    start: npt.NDArray[np.int64]
    """For each compressed transaction, the index in ``member`` of the first number of its tables. One more entry at the
    end is the length of ``member``."""
    member: npt.NDArray[np.int32]
    """The numbers of the tables and statements in all compressed transactions, one transaction after the other. A
    filter that sends at least one table or statement of a compressed transaction sends the transaction."""
    undecided: npt.NDArray[np.int64]
    """For each compressed transaction, the number of inner events about which a filter may be unable to decide. The
    value -1 means that filters send different parts, so the caller must decide."""


class ConditionRows(NamedTuple):
    """The conditions under which events are sent, as arrays that compiled code fills. Equal conditions are stored
    once."""

    counts: npt.NDArray[np.int64]
    """An array of two numbers: how many conditions are stored, and how many members (tables, statements or filters) all
    conditions have together."""
    rows: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    """The hash table by which the number of a stored condition is found. Free slots hold -1."""


class UnitRows(NamedTuple):
    """The arrays of the counters (units), one for each condition, origin and time bucket with events."""

    count: npt.NDArray[np.int64]
    """The number of units (counters), as an array of one entry so that compiled code can change the number."""
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    """The hash table by which the number of a unit (a counter) is found. Free slots hold -1."""


class Memory(NamedTuple):
    """The arrays that the counting pass keeps from one segment to the next.

    Except for ``state`` and ``buffered``, each array has room for all tables and statements of the binlog set.
    """

    state: npt.NDArray[np.void]
    """The state of the counting pass, an array with one entry of dtype :data:`STATE`."""
    subjects: npt.NDArray[np.int64]
    deciding: npt.NDArray[np.int32]
    """The numbers of the tables and statements of the open transaction. A filter that sends at least one of these
    tables or statements also sends the transaction's GTID event, BEGIN and COMMIT."""
    tables: npt.NDArray[np.int32]
    """The numbers of the tables with rows events in the open statement."""
    buffered: npt.NDArray[np.void]
    """The buffered context events and table maps, of dtype :data:`BUFFERED`, with room for all events of a segment."""
    extra: npt.NDArray[np.int32]
    """The numbers of the statement or tables that the buffered context events belong to: one statement, or all tables
    of a compressed transaction."""
    scratch: npt.NDArray[np.int32]


@kernel
def _unit_slot(units, condition, origin, bucket):
    mask = np.uint64(units.slots.size - 1)
    h = (np.uint64(condition) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(bucket) * np.uint64(0xD6E8FEB86659FD93)
    )
    h = (h ^ np.uint64(origin)) * np.uint64(0x9E3779B97F4A7C15)
    slot = (h >> np.uint64(29)) & mask
    while units.slots[slot] >= 0:
        row = units.rows[units.slots[slot]]
        if row[U_CONDITION] == condition and row[U_ORIGIN] == origin and row[U_BUCKET] == bucket:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _unit_of(units, conditions, condition, origin, bucket):
    slot = _unit_slot(units, condition, origin, bucket)
    unit = units.slots[slot]
    if unit < 0:
        unit = units.count[0]
        units.count[0] += 1
        units.slots[slot] = unit
        units.rows[unit, :] = 0
        units.rows[unit, U_CONDITION] = condition
        units.rows[unit, U_ORIGIN] = origin
        units.rows[unit, U_BUCKET] = bucket
    conditions.rows[condition, Q_LATEST] = unit
    return unit


@inlined
def _count(units, conditions, condition, origin, bucket, size, events, transactions, undecided):
    unit = conditions.rows[condition, Q_LATEST]
    if unit < 0 or units.rows[unit, U_ORIGIN] != origin or units.rows[unit, U_BUCKET] != bucket:
        unit = _unit_of(units, conditions, condition, origin, bucket)
    units.rows[unit, U_BYTES] += size
    units.rows[unit, U_EVENTS] += events
    units.rows[unit, U_TRANSACTIONS] += transactions
    units.rows[unit, U_UNDECIDED] += undecided


@inlined
def _count_stand_in(units, conditions, condition, size):
    """Count the stand-in of the transaction that was just counted under the same condition."""
    if size > 0:
        unit = conditions.rows[condition, Q_LATEST]
        units.rows[unit, U_STAND_INS] += 1
        units.rows[unit, U_STAND_IN_BYTES] += size


@kernel
def add_unit(units, conditions, condition, origin, bucket, size, events, transactions, undecided, stand_in):
    """Add bytes, events and transactions to the counter for a condition, an origin and a time bucket.

    ``stand_in`` has the bytes that a real replica gets in place of the transactions, or 0.
    Python code that is not compiled calls this function. The arrays must have room for one more counter (unit).
    """
    _count(units, conditions, condition, origin, bucket, size, events, transactions, undecided)
    _count_stand_in(units, conditions, condition, stand_in)


@kernel
def rehash_units(units):
    """Enter all units (counters) into their hash table, which the caller has replaced by a larger, empty table."""
    for unit in range(units.count[0]):
        row = units.rows[unit]
        units.slots[_unit_slot(units, row[U_CONDITION], row[U_ORIGIN], row[U_BUCKET])] = unit


@inlined
def _hash_start(kind, required):
    return np.uint64(kind) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(required)


@inlined
def _hash_member(h, member):
    h = (h ^ np.uint64(member)) * np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@kernel
def intern(table, kind, required, wanted, n):
    """Return the number of a condition such as "one of these tables is sent". Store the condition if it is new.

    The members of the condition (tables, statements or filters, by number) are the first ``n`` entries of ``wanted``,
    which ascend without duplicates. The arrays must have room for one more condition.
    """
    mask = np.uint64(table.slots.size - 1)
    h = _hash_start(kind, required)
    for k in range(n):
        h = _hash_member(h, wanted[k])
    slot = h & mask
    while table.slots[slot] >= 0:
        c = table.slots[slot]
        row = table.rows[c]
        first = row[Q_START]
        if row[Q_KIND] == kind and row[Q_REQUIRED] == required and row[Q_END] - first == n:
            is_same = True
            for k in range(n):
                if table.members[first + k] != wanted[k]:
                    is_same = False
                    break
            if is_same:
                return np.int64(c)
        slot = (slot + np.uint64(1)) & mask
    c = table.counts[0]
    used = table.counts[1]
    for k in range(n):
        table.members[used + k] = wanted[k]
    row = table.rows[c]
    row[Q_KIND] = kind
    row[Q_REQUIRED] = required
    row[Q_START] = used
    row[Q_END] = used + n
    row[Q_LATEST] = -1
    table.slots[slot] = c
    table.counts[0] = c + 1
    table.counts[1] = used + n
    return np.int64(c)


@kernel
def rehash_conditions(table):
    """Enter all conditions into their hash table, which the caller has replaced by a larger, empty table."""
    mask = np.uint64(table.slots.size - 1)
    for c in range(table.counts[0]):
        row = table.rows[c]
        h = _hash_start(row[Q_KIND], row[Q_REQUIRED])
        for k in range(row[Q_START], row[Q_END]):
            h = _hash_member(h, table.members[k])
        slot = h & mask
        while table.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table.slots[slot] = c


@kernel
def _sort(values, n):
    """Sort the first ``n`` values in place with a shell sort. For few values it is faster than numpy's sort."""
    gap = np.int64(1)
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, n):
            value = values[k]
            j = k
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@kernel
def _sort_unique(values, n):
    _sort(values, n)
    m = np.int64(0)
    for k in range(n):
        if k == 0 or values[k] != values[m - 1]:
            values[m] = values[k]
            m += 1
    return m


@kernel
def _following(m, since, n_extra):
    """Find the tables on which a buffered event depends, and write their numbers into ``m.scratch``. A filter sends the
    buffered event if the filter sends rows of any of these tables. These are the tables with rows events in the open
    statement after the buffered event, and the first ``n_extra`` entries of ``m.extra``. ``since`` is the number of
    rows events before the buffered event. Return the number of tables. Their numbers ascend without duplicates.
    """
    n = np.int64(0)
    for k in range(m.state[0].tables):
        if m.subjects[m.tables[k], S_LAST] > since:
            m.scratch[n] = m.tables[k]
            n += 1
    for k in range(n_extra):
        m.scratch[n] = m.extra[k]
        n += 1
    return _sort_unique(m.scratch, n)


@kernel
def _intern_single(m, conditions, subject):
    """Return the number of the condition "this table is sent", and store the number for later events of the table."""
    # The number of the table is written where the function `intern` would store it, so that no temporary array is
    # needed.
    used = conditions.counts[1]
    conditions.members[used] = subject
    m.subjects[subject, S_SINGLE] = intern(
        conditions, ONE, np.int64(-1), conditions.members[used:], np.int64(1)
    )
    return m.subjects[subject, S_SINGLE]


@inlined
def _only(m, conditions, subject):
    c = m.subjects[subject, S_SINGLE]
    if c == 0:
        c = _intern_single(m, conditions, subject)
    return c


@kernel
def _one_of(m, conditions, wanted, n):
    if n == 1:
        return _only(m, conditions, wanted[0])
    return intern(conditions, ANY, np.int64(-1), wanted, n)


@inlined
def _buffer(m, subject, size):
    state = m.state[0]
    n = state.buffered
    if n and m.buffered[n - 1].subject == subject and m.buffered[n - 1].since == state.rows:
        entry = m.buffered[n - 1]
        entry.bytes += size
        entry.events += 1
        return
    entry = m.buffered[n]
    entry.subject = subject
    entry.since = state.rows
    entry.bytes = size
    entry.events = 1
    state.buffered = n + 1


@inlined
def _decides(m, subject):
    state = m.state[0]
    if m.subjects[subject, S_MARK] != state.serial:
        m.subjects[subject, S_MARK] = state.serial
        m.deciding[state.deciding] = subject
        state.deciding += 1


@inlined
def _count_buffered(m, conditions, units, n_extra, always, bucket):
    """Count the buffered context events and table maps under their conditions, and empty the buffer.

    With ``always``, context events count as sent with every filter, and each table map as sent with its table. Without
    ``always``, buffered events count as sent if a filter sends any later rows of their statement, or one of the first
    ``n_extra`` tables or statements of ``m.extra``.
    """
    state = m.state[0]
    since = np.int64(-1)
    n = np.int64(0)
    for w in range(state.buffered):
        entry = m.buffered[w]
        subject = entry.subject
        if not always and entry.since != since:
            since = entry.since
            n = _following(m, since, n_extra)
        is_alone = always
        for k in range(n):
            is_alone = is_alone or m.scratch[k] == subject
        if subject >= 0 and is_alone:
            c = _only(m, conditions, subject)
        elif always:
            c = np.int64(C_ALWAYS)
        elif subject < 0 or n == 0:
            c = _one_of(m, conditions, m.scratch, n)
        else:
            c = intern(conditions, ANY, subject, m.scratch, n)
        _count(units, conditions, c, state.origin, bucket, entry.bytes, entry.events, 0, 0)
    state.buffered = 0


@kernel
def close(m):
    """Reset the state of the counting pass at the end of a transaction."""
    state = m.state[0]
    state.is_open = 0
    state.buffered = 0
    state.tables = 0


@inlined
def _open(m, origin):
    state = m.state[0]
    state.is_open = 1
    state.origin = origin
    state.is_always = 0
    state.frame_bytes = 0
    state.frame_events = 0
    state.serial += 1
    state.deciding = 0
    state.statement = state.rows
    state.is_unmapped = 0


@inlined
def _bucket_of(columns, m, t):
    """Return the time bucket in which a transaction is counted, by the timestamp of its last event that has one.

    A transaction without any timestamp is counted in the bucket of the previous transaction. If the caller gives keys,
    return the transaction's key instead.
    """
    if columns.txn_key.size:
        return columns.txn_key[t]
    state = m.state[0]
    k = columns.txn_event[t + 1] - 1
    while k > columns.txn_event[t] and columns.time[k] == 0:
        k -= 1
    if columns.time[k] != 0:
        state.time = columns.time[k]
    return state.time // columns.bucket_seconds


@inlined
def _has_room(m, conditions, units, n_members):
    """Tell whether the arrays have room for all counters (units) and conditions that one more event can add.

    ``n_members`` is the number of tables in the event if it is a compressed transaction.
    """
    state = m.state[0]
    entries = state.buffered + 1
    members = (entries + 1) * (state.tables + n_members + 2) + state.deciding
    return (
        units.count[0] + entries + 2 <= units.rows.shape[0]
        and conditions.counts[0] + entries + 3 <= conditions.rows.shape[0]
        and conditions.counts[1] + members <= conditions.members.size
    )


@inlined
def _count_uniform(columns, m, conditions, units, t, i, bucket):
    """Count the transaction ``t`` from event ``i`` on as one piece, because a filter sends or drops it whole."""
    s = columns.txn_subject[t]
    stop = columns.txn_event[t + 1]
    size = np.int64(0)
    undecided = np.int64(0)
    for k in range(i, stop):
        size += columns.size[k]
        undecided += columns.subject[k] == s
    if s == R.KEPT:
        c = np.int64(C_ALWAYS)
        undecided = np.int64(0)
    elif s == R.NOTHING:
        c = np.int64(C_NEVER)
        undecided = np.int64(0)
    else:
        c = _only(m, conditions, s)
    transactions = np.int64(columns.txn_source[t] != R.KEPT)
    _count(units, conditions, c, columns.txn_origin[t], bucket, size, stop - i, transactions, undecided)
    _count_stand_in(units, conditions, c, columns.txn_stand_in[t])


@inlined
def _whole_statement(columns, i, stop):
    """Return the number of the event after the statement that begins at event ``i``, if the statement has only one
    table. Return ``i`` if the statement has several tables or does not end before event ``stop``.
    """
    roles, subjects = columns.role, columns.subject
    j = i
    while j < stop and roles[j] == R.CONTEXT:
        j += 1
    if j < stop and roles[j] == R.STATEMENT:
        return j + 1
    if j < stop and roles[j] == R.TABLE_MAP:
        s = subjects[j]
        j += 1
        while j < stop and roles[j] == R.ROWS and subjects[j] == s:
            j += 1
        if j < stop and roles[j] == R.ROWS_END and subjects[j] == s:
            return j + 1
    return i


@inlined
def _count_statement(columns, m, conditions, units, i, stop, bucket):
    s = columns.subject[stop - 1]
    size = np.int64(0)
    for k in range(i, stop):
        size += columns.size[k]
    undecided = np.int64(columns.role[stop - 1] == R.STATEMENT)
    _count(
        units, conditions, _only(m, conditions, s), m.state[0].origin, bucket, size, stop - i, 0, undecided
    )
    _decides(m, s)


@inlined
def _count_end(m, conditions, units, bucket, transactions, stand_in):
    """Count the GTID event, BEGIN and COMMIT of the open transaction, and close the transaction.

    A filter sends these events if it sends any other event of the transaction.
    """
    state = m.state[0]
    if state.is_always:
        c = np.int64(C_ALWAYS)
    elif state.deciding == 0:
        c = np.int64(C_NEVER)
    else:
        _sort(m.deciding, state.deciding)
        c = _one_of(m, conditions, m.deciding, state.deciding)
    _count(units, conditions, c, state.origin, bucket, state.frame_bytes, state.frame_events, transactions, 0)
    _count_stand_in(units, conditions, c, stand_in)
    close(m)


@inlined
def _count_event(columns, m, conditions, units, payloads, p, i, bucket):
    """Count event ``i`` of a segment. If the event is a compressed transaction, ``p`` is its number in ``payloads``."""
    state = m.state[0]
    ends = (columns.role[i] & R.ENDS) != 0
    role = columns.role[i] & ~R.ENDS
    size = columns.size[i]
    s = np.int64(columns.subject[i])
    fate = SEND_WITH_STATEMENT if ends else KEEP_BUFFERED
    c = np.int64(-1)  # The condition under which the event is counted now, or -1 if later events must decide.
    n_extra = np.int64(0)
    undecided = np.int64(0)
    if role == R.PAYLOAD:
        for k in range(payloads.start[p], payloads.start[p + 1]):
            m.extra[n_extra] = payloads.member[k]
            n_extra += 1
        if n_extra == 0:
            role = R.FRAME
    if role == R.GTID or role == R.FRAME:
        state.frame_bytes += size
        state.frame_events += 1
    elif role == R.CONTEXT:
        _buffer(m, np.int64(-1), size)
    elif role == R.GAP:
        fate = KEEP_BUFFERED
    elif role == R.STATEMENT:
        m.extra[0] = s
        n_extra = np.int64(1)
        fate = SEND_WITH_STATEMENT
        undecided = np.int64(1)
        _decides(m, s)
        c = _only(m, conditions, s)
    elif role == R.TABLE_MAP:
        _buffer(m, s, size)
    elif (role == R.ROWS or role == R.ROWS_END) and s >= 0:
        state.rows += 1
        if m.subjects[s, S_LAST] <= state.statement:
            m.tables[state.tables] = s
            state.tables += 1
        m.subjects[s, S_LAST] = state.rows
        _decides(m, s)
        c = _only(m, conditions, s)
        if role == R.ROWS_END:
            fate = SEND_WITH_STATEMENT
    elif role == R.DUMMY_ROWS:
        fate = SEND_WITH_STATEMENT
        if state.is_unmapped:
            c = np.int64(C_ALWAYS)
        else:
            c = _one_of(m, conditions, m.scratch, _following(m, state.statement, 0))
    elif role == R.PAYLOAD:
        n_extra = _sort_unique(m.extra, n_extra)
        undecided = payloads.undecided[p]
        for k in range(n_extra):
            _decides(m, np.int64(m.extra[k]))
        c = _one_of(m, conditions, m.extra, n_extra)
    else:  # Rows without a table map are always sent, because no filter can decide about an unknown table.
        state.is_always = 1
        c = np.int64(C_ALWAYS)
        fate = SEND_BUFFERED
        undecided = np.int64(role == R.ROWS or role == R.ROWS_END or role == R.KEEP)
        if role == R.ROWS or role == R.ROWS_END:
            state.is_unmapped = 1
    if c >= 0:
        _count(units, conditions, c, state.origin, bucket, size, 1, 0, undecided)
    if fate != KEEP_BUFFERED and state.buffered:
        _count_buffered(m, conditions, units, n_extra, fate == SEND_BUFFERED, bucket)
    if role == R.ROWS_END or role == R.DUMMY_ROWS:
        state.statement = state.rows
        state.tables = 0
        state.is_unmapped = 0


@kernel
def tally(columns, payloads, m, conditions, units, t, i):
    """Count the events of a segment, each under the condition that a filter must meet to send the event.

    Begin with event number ``i``, which belongs to transaction number ``t``. Return a code, and the transaction and
    event to continue with. The code is ``DONE``, ``FULL`` if the arrays are too small, or ``PAYLOAD`` if the caller
    must count the next event, a compressed transaction.
    """
    state = m.state[0]
    p = np.int64(0)
    while p < payloads.event.size and payloads.event[p] < i:
        p += 1
    while t < columns.txn_subject.size:
        stop = columns.txn_event[t + 1]
        bucket = _bucket_of(columns, m, t)
        s = columns.txn_subject[t]
        goes_on = t == columns.txn_subject.size - 1 and columns.is_open
        is_uniform = s >= 0 or s == R.KEPT or s == R.NOTHING or s == R.SKIP
        if is_uniform and not state.is_open and not goes_on:
            if not _has_room(m, conditions, units, payloads.member.size):
                return FULL, t, i
            # No filter sends the Gap events of a relay log, so they are not counted.
            if s != R.SKIP:
                _count_uniform(columns, m, conditions, units, t, i, bucket)
            i = stop
        while i < stop:
            if not _has_room(m, conditions, units, payloads.member.size):
                return FULL, t, i
            if not state.is_open:
                _open(m, columns.txn_origin[t])
            if not (state.buffered or state.tables or state.is_unmapped):
                # Most statements change one table. All events of such a statement have the same condition, so no event
                # need be buffered.
                j = _whole_statement(columns, i, stop)
                if j > i:
                    _count_statement(columns, m, conditions, units, i, j, bucket)
                    i = j
                    continue
            if columns.role[i] & ~R.ENDS == R.PAYLOAD:
                while p < payloads.event.size and payloads.event[p] < i:
                    p += 1
                if payloads.undecided[p] < 0:
                    return PAYLOAD, t, i
            _count_event(columns, m, conditions, units, payloads, p, i, bucket)
            if columns.role[i] & R.ENDS:
                transactions = np.int64(columns.txn_source[t] != R.KEPT)
                _count_end(m, conditions, units, bucket, transactions, columns.txn_stand_in[t])
            i += 1
        t += 1
    return DONE, t, i


@kernel
def passing(kinds, required_of, start, members, sent, out):
    """Write into ``out`` whether each condition holds for a filter that sends exactly the tables marked in ``sent``.

    ``out`` and ``sent`` are bool arrays. Conditions of the kinds ``ALWAYS`` and ``EXACTLY`` become False.
    """
    for c in range(kinds.size):
        out[c] = False
        if (kinds[c] == ONE or kinds[c] == ANY) and (required_of[c] < 0 or sent[required_of[c]]):
            for k in range(start[c], start[c + 1]):
                if sent[members[k]]:
                    out[c] = True
                    break


@kernel
def among(kinds, start, members, number, out):
    """Write into ``out`` (bool) whether each condition has kind ``EXACTLY`` and lists the filter with this number."""
    for c in range(kinds.size):
        out[c] = False
        if kinds[c] == EXACTLY:
            for k in range(start[c], start[c + 1]):
                if members[k] == number:
                    out[c] = True
                    break


@njit(cache=True, nogil=True)
def room(kinds, start, members, wanted, subject_start):
    """Return an upper limit of the number of members (tables, statements, filters) that the ``wanted`` conditions have
    after :func:`renumber`. A caller reserves memory for so many members before the call of :func:`renumber`.
    """
    n = np.int64(0)
    for c in wanted:
        if kinds[c] == EXACTLY:
            n += start[c + 1] - start[c]
        else:
            for k in range(start[c], start[c + 1]):
                n += subject_start[members[k] + 1] - subject_start[members[k]]
    return n


@njit(cache=True, nogil=True)
def renumber(conditions, wanted, subject_start, subject, stand_in, table, out):
    """Add the ``wanted`` conditions of one tally to the ``table`` of another, where tables have other numbers.

    Write the new numbers of the conditions into ``out``. The numbers
    ``subject[subject_start[s] : subject_start[s + 1]]`` replace the number ``s`` of a table, statement or set of
    tables. For a condition's required table, exactly one number replaces the old number. In a condition about several
    tables, ``stand_in[t]`` then replaces each new number ``t``. ``table`` must have room for all conditions.
    """
    from_kinds, from_required, from_start, from_members = conditions
    scratch = np.empty(16, np.int32)
    for w in range(wanted.size):
        c = wanted[w]
        kind = from_kinds[c]
        required = np.int64(from_required[c])
        a = from_start[c]
        b = from_start[c + 1]
        n = room(from_kinds, from_start, from_members, wanted[w : w + 1], subject_start)
        if n > scratch.size:
            scratch = np.empty(2 * n, np.int32)
        if kind == EXACTLY:
            for k in range(n):
                scratch[k] = from_members[a + k]
        else:
            if required >= 0:
                required = np.int64(subject[subject_start[required]])
            n = np.int64(0)
            for k in range(a, b):
                for j in range(subject_start[from_members[k]], subject_start[from_members[k] + 1]):
                    scratch[n] = subject[j]
                    n += 1
            n = _sort_unique(scratch, n)
            if kind == ONE and n != 1:
                # The condition depended on one set of tables, and several tables have replaced the set.
                kind = np.uint8(ANY)
            if kind == ANY:
                for k in range(n):
                    scratch[k] = stand_in[scratch[k]]
                n = _sort_unique(scratch, n)
        out[w] = intern(table, kind, required, scratch, n)
