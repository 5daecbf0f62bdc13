"""The compiled pass of :mod:`dumpfilter.dump.tally`: the condition under which each event of a segment is sent.

:func:`dumpfilter.dump.decide.decide` asks one filter whether it sends a subject. This pass asks no filter. It notes the
subjects that the walk would ask about. Both passes rely on the same grammar, which stands at the head of
:mod:`dumpfilter.dump.decide`. Where the walk buffers an event, this pass buffers the event's size and the place in its
statement. The buffers survive from one segment to the next.

Each condition is stored once, with a number (:func:`intern`). A unit counts the events of one condition, from one
origin, in one bucket of time. Conditions and units are found through open hash tables in arrays that the caller owns
and grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dumpfilter.binlog import roles as R
from dumpfilter.dump.decide import inlined, kernel

# The kinds of conditions.
ALWAYS = 0
"""Sent whatever a filter says."""
ONE = 1
"""Sent if the member, a subject, is sent."""
ANY = 2
"""Sent if one of the members is sent and, where the condition has one, the required subject is sent, too."""
EXACTLY = 3
"""Sent to the filters whose numbers are the members."""

# The numbers of conditions that every table begins with.
C_ALWAYS = 0
C_NEVER = 1  # ANY without members: only a filter without rules sends the events

STATE = np.dtype(
    [
        ("is_open", np.int64),  # a transaction is open
        ("origin", np.int64),  # the number of the open transaction's origin
        ("is_always", np.int64),  # the open transaction has an event that is always sent
        ("frame_bytes", np.int64),  # GTID and FRAME events of the open transaction
        ("frame_events", np.int64),
        ("serial", np.int64),  # the open transaction's number among those that were walked
        ("deciding", np.int64),  # the number of subjects that decide about the open transaction
        ("rows", np.int64),  # rows events with a subject so far, in all transactions
        ("statement", np.int64),  # the value of `rows` where the open statement of rows began
        ("tables", np.int64),  # the number of subjects with rows in the open statement
        ("is_unmapped", np.int64),  # the open statement has rows without a table map
        ("buffered", np.int64),  # the number of entries in `buffered`
        ("time", np.int64),  # the last timestamp that is not 0, Unix seconds
    ]
)
"""The state of the pass, between two calls."""

BUFFERED = np.dtype(
    [
        ("subject", np.int64),  # the table map's subject, -1 for context events
        ("since", np.int64),  # the state's `rows` at that place: rows events with higher numbers follow
        ("bytes", np.int64),
        ("events", np.int64),
    ]
)
"""Buffered context events or table maps. Neighbours of the same kind share an entry."""

# The columns of a unit.
U_CONDITION = 0
U_ORIGIN = 1
U_BUCKET = 2
U_BYTES = 3
U_EVENTS = 4
U_TRANSACTIONS = 5
U_UNDECIDED = 6
UNIT_COLUMNS = 7

# The columns of a condition.
Q_KIND = 0
Q_REQUIRED = 1  # a subject, or -1
Q_START = 2  # the condition's first member
Q_END = 3  # the entry after its last member
Q_LATEST = 4  # the unit that the condition was counted in last, -1 without one
CONDITION_COLUMNS = 5

# The columns of a subject.
S_MARK = 0  # the serial number of the last transaction that the subject decided about
S_LAST = 1  # the number of the subject's last rows event
S_SINGLE = 2  # the condition that the subject is sent, 0 before there is one
SUBJECT_COLUMNS = 3

# The codes that a call of `tally` returns.
DONE = 0
FULL = 1
"""An array is full. The caller makes the arrays larger and calls again."""
PAYLOAD = 2
"""The next event is a compressed transaction of which filters send different parts. The caller finishes the transaction
and calls again for the event after it."""

# The fate of the buffered context events and table maps after an event.
KEEP_BUFFERED = 0
SEND_WITH_STATEMENT = 1
"""They are sent with the rows that follow them in their statement, and with this event."""
SEND_BUFFERED = 2
"""They are sent whatever a filter says."""


class Columns(NamedTuple):
    """The columns of a segment."""

    size: npt.NDArray[np.int64]
    time: npt.NDArray[np.uint32]
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]
    txn_event: npt.NDArray[np.int64]
    txn_subject: npt.NDArray[np.int32]
    txn_source: npt.NDArray[np.int32]
    txn_origin: npt.NDArray[np.int64]
    """The number of each transaction's origin."""
    is_open: bool
    """Whether the last transaction goes on in the next segment."""
    bucket_seconds: int


class Payloads(NamedTuple):
    """The compressed transactions of a segment."""

    event: npt.NDArray[np.int64]
    """The numbers of their events, ascending."""
    start: npt.NDArray[np.int64]
    """The first entry in ``member`` of each, and the length of ``member``."""
    member: npt.NDArray[np.int32]
    """The subjects of which a filter must send one to send the whole transaction."""
    undecided: npt.NDArray[np.int64]
    """The number of inner events that count as undecided; -1 if the caller must decide the transaction."""


class ConditionRows(NamedTuple):
    """The conditions."""

    counts: npt.NDArray[np.int64]
    """The number of conditions and the number of members."""
    rows: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    """The hash table: numbers of conditions, or -1."""


class UnitRows(NamedTuple):
    """The units."""

    count: npt.NDArray[np.int64]
    """The number of units, one entry."""
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    """The hash table: numbers of units, or -1."""


class Memory(NamedTuple):
    """The arrays that survive from one segment to the next. Except for ``buffered`` each has room for all subjects."""

    state: npt.NDArray[np.void]
    """One entry of dtype :data:`STATE`."""
    subjects: npt.NDArray[np.int64]
    deciding: npt.NDArray[np.int32]
    """The subjects that decide about the open transaction."""
    tables: npt.NDArray[np.int32]
    """The subjects with rows in the open statement."""
    buffered: npt.NDArray[np.void]
    """dtype :data:`BUFFERED`, with room for all events of a segment."""
    extra: npt.NDArray[np.int32]
    """The subjects of the current event, if its buffered context goes with this event."""
    scratch: npt.NDArray[np.int32]


@kernel
def _unit_slot(units, condition, origin, bucket):
    """Return the hash table's slot of a unit, or the free slot for it."""
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
    """Return the number of a unit, a new number at first. There must be room for one more unit."""
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
    """Add bytes, events and transactions to a unit. There must be room for one more unit."""
    unit = conditions.rows[condition, Q_LATEST]
    if unit < 0 or units.rows[unit, U_ORIGIN] != origin or units.rows[unit, U_BUCKET] != bucket:
        unit = _unit_of(units, conditions, condition, origin, bucket)
    units.rows[unit, U_BYTES] += size
    units.rows[unit, U_EVENTS] += events
    units.rows[unit, U_TRANSACTIONS] += transactions
    units.rows[unit, U_UNDECIDED] += undecided


@kernel
def add_unit(units, conditions, condition, origin, bucket, size, events, transactions, undecided):
    """Add bytes, events and transactions to a unit, for callers that are not compiled."""
    _count(units, conditions, condition, origin, bucket, size, events, transactions, undecided)


@kernel
def rehash_units(units):
    """Fill the empty hash table of the units."""
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
    """Return the number of a condition, a new number at first. There must be room for one more condition.

    The members are the first ``n`` entries of ``wanted``, which ascend without duplicates.
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
    """Fill the empty hash table of the conditions."""
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
    """Sort the first ``n`` values in place. A sort of numpy's would cost more for the usual few values."""
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
    """Sort the first ``n`` values, drop duplicates, and return how many values are left."""
    _sort(values, n)
    m = np.int64(0)
    for k in range(n):
        if k == 0 or values[k] != values[m - 1]:
            values[m] = values[k]
            m += 1
    return m


@kernel
def _following(m, since, n_extra):
    """Write into ``scratch`` the subjects with rows after a place of the open statement, and the extra subjects.

    ``since`` is the value of ``rows`` at that place. Return the number of subjects. They ascend without duplicates.
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
    """Return the condition that one subject is sent, and remember it as the subject's."""
    # the member stands where `intern` puts it, so no array has to be made for it
    used = conditions.counts[1]
    conditions.members[used] = subject
    m.subjects[subject, S_SINGLE] = intern(
        conditions, ONE, np.int64(-1), conditions.members[used:], np.int64(1)
    )
    return m.subjects[subject, S_SINGLE]


@inlined
def _only(m, conditions, subject):
    """Return the condition that one subject is sent."""
    c = m.subjects[subject, S_SINGLE]
    if c == 0:
        c = _intern_single(m, conditions, subject)
    return c


@kernel
def _one_of(m, conditions, wanted, n):
    """Return the condition that one of the first ``n`` of ``wanted`` is sent, which ascend without duplicates."""
    if n == 1:
        return _only(m, conditions, wanted[0])
    return intern(conditions, ANY, np.int64(-1), wanted, n)


@inlined
def _buffer(m, subject, size):
    """Buffer a context event (subject -1) or a table map."""
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
    """Note that a subject decides about the open transaction."""
    state = m.state[0]
    if m.subjects[subject, S_MARK] != state.serial:
        m.subjects[subject, S_MARK] = state.serial
        m.deciding[state.deciding] = subject
        state.deciding += 1


@inlined
def _count_buffered(m, conditions, units, n_extra, always, bucket):
    """Count the buffered events under their conditions, and forget them.

    They are sent with the rows that follow them and with the extra subjects, or whatever a filter says if ``always``.
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
    """Set the state that the pass has between two transactions."""
    state = m.state[0]
    state.is_open = 0
    state.buffered = 0
    state.tables = 0


@inlined
def _open(m, origin):
    """Set the state at the first event of a transaction."""
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
    """Return the bucket of time of a transaction: that of its last event with a timestamp, or else the one before."""
    state = m.state[0]
    k = columns.txn_event[t + 1] - 1
    while k > columns.txn_event[t] and columns.time[k] == 0:
        k -= 1
    if columns.time[k] != 0:
        state.time = columns.time[k]
    return state.time // columns.bucket_seconds


@inlined
def _has_room(m, conditions, units, n_members):
    """Tell whether the tables have room for all that one event can bring, ``n_members`` subjects of payloads
    included."""
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
    """Count the transaction ``t`` from event ``i`` on, which one look-up decides."""
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


@inlined
def _whole_statement(columns, i, stop):
    """Return the event after a statement of one subject that begins at event ``i``; ``i`` if it has several
    subjects."""
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
    """Count the events from ``i`` to ``stop``, a whole statement of one subject."""
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
def _count_end(m, conditions, units, bucket, transactions):
    """Count the frame of the open transaction, which goes with any of its events, and close the transaction."""
    state = m.state[0]
    if state.is_always:
        c = np.int64(C_ALWAYS)
    elif state.deciding == 0:
        c = np.int64(C_NEVER)
    else:
        _sort(m.deciding, state.deciding)
        c = _one_of(m, conditions, m.deciding, state.deciding)
    _count(units, conditions, c, state.origin, bucket, state.frame_bytes, state.frame_events, transactions, 0)
    close(m)


@inlined
def _count_event(columns, m, conditions, units, payloads, p, i, bucket):
    """Count event ``i``, in the order of the grammar. ``p`` is the number of its payload, if it is one."""
    state = m.state[0]
    ends = (columns.role[i] & R.ENDS) != 0
    role = columns.role[i] & ~R.ENDS
    size = columns.size[i]
    s = np.int64(columns.subject[i])
    fate = SEND_WITH_STATEMENT if ends else KEEP_BUFFERED
    c = np.int64(-1)  # the event's own condition, -1 if the event is counted later
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
    else:  # rows without a table map, and events that are always sent
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
    """Count the events of a segment from number ``i`` on, which belongs to transaction ``t``.

    Return ``(code, t, i)``: ``DONE``, ``FULL`` or ``PAYLOAD``, and the next event.
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
        is_uniform = s >= 0 or s == R.KEPT or s == R.NOTHING
        if is_uniform and not state.is_open and not goes_on:
            if not _has_room(m, conditions, units, payloads.member.size):
                return FULL, t, i
            _count_uniform(columns, m, conditions, units, t, i, bucket)
            i = stop
        while i < stop:
            if not _has_room(m, conditions, units, payloads.member.size):
                return FULL, t, i
            if not state.is_open:
                _open(m, columns.txn_origin[t])
            if not (state.buffered or state.tables or state.is_unmapped):
                # most statements have one subject, and none of their events need be buffered
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
                _count_end(m, conditions, units, bucket, np.int64(columns.txn_source[t] != R.KEPT))
            i += 1
        t += 1
    return DONE, t, i


@kernel
def passing(kinds, required_of, start, members, sent, out):
    """Write into ``out`` (bool) whether each condition on subjects holds. ``sent`` (bool) says which subjects are
    sent."""
    for c in range(kinds.size):
        out[c] = False
        if (kinds[c] == ONE or kinds[c] == ANY) and (required_of[c] < 0 or sent[required_of[c]]):
            for k in range(start[c], start[c + 1]):
                if sent[members[k]]:
                    out[c] = True
                    break


@kernel
def among(kinds, start, members, number, out):
    """Write into ``out`` (bool) whether each condition on filters has the filter ``number``."""
    for c in range(kinds.size):
        out[c] = False
        if kinds[c] == EXACTLY:
            for k in range(start[c], start[c + 1]):
                if members[k] == number:
                    out[c] = True
                    break


@njit(cache=True, nogil=True)
def room(kinds, start, members, wanted, subject_start):
    """Return the number of members that :func:`renumber` gives the ``wanted`` conditions at most."""
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
    """Intern the ``wanted`` conditions into the table of another tally. Write their numbers there into ``out``.

    ``subject[subject_start[s] : subject_start[s + 1]]`` take the place of subject ``s``. A required subject has
    exactly one successor. In a condition about several subjects, ``stand_in[t]`` takes the place of such a ``t``. The
    table must have room for all conditions.
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
                kind = np.uint8(ANY)  # a set of subjects has taken its place
            if kind == ANY:
                for k in range(n):
                    scratch[k] = stand_in[scratch[k]]
                n = _sort_unique(scratch, n)
        out[w] = intern(table, kind, required, scratch, n)


@njit(cache=True, nogil=True)
def meet(kinds, required_of, start, members, wanted, met):
    """Mark the subjects of these conditions in ``met`` (bool, a subject each)."""
    for c in wanted:
        if required_of[c] >= 0:
            met[required_of[c]] = True
        if kinds[c] != EXACTLY:
            for k in range(start[c], start[c + 1]):
                met[members[k]] = True
