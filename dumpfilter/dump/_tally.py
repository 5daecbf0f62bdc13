"""The compiled pass of :mod:`dumpfilter.dump.tally`: under what condition each event of a segment is sent.

What :func:`dumpfilter.dump.decide.decide` does for one filter's flags, this does for any: where that asks whether a
subject is sent, this notes which subjects it would ask about. The same patterns of a stream are relied on, and what is
put aside survives from one segment to the next in the same way, as sizes instead of ranges.

A condition is interned once (``conditions``, ``members``), a unit is what meets one condition, from one origin, in one
bucket of time (``units``). Both are open hash tables in arrays that the caller owns and grows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog import roles as R

# What a condition is.
ALWAYS = 0  # sent whatever a filter says
ONE = 1  # sent when its member is
ANY = 2  # sent when one of the members is sent, and the required subject (when there is one) too
EXACTLY = 3  # sent to the filters whose numbers are the members

# Conditions that are there from the start.
C_ALWAYS = 0
C_NEVER = 1  # ANY of nothing: only a filter without rules gets it

# The state (int64 array).
T_OPEN = 0  # a transaction is open
T_ORIGIN = 1  # of the open transaction
T_ALWAYS = 2  # the open transaction holds something that is always sent
T_FRAME_BYTES = 3  # of the open transaction
T_FRAME_EVENTS = 4
T_SERIAL = 5  # number of the open transaction, among those walked
T_DECIDING = 6  # how many subjects decide about the open transaction (``deciding``)
T_ROWS = 7  # rows events with a subject so far, of all transactions
T_STATEMENT = 8  # what T_ROWS was where the open statement of rows began
T_TABLES = 9  # how many subjects have rows in the open statement (``tables``)
T_UNMAPPED = 10  # the open statement has rows without a table map
T_PENDING = 11  # how many context events and table maps wait (``pending``)
T_CONDITIONS = 12
T_MEMBERS = 13
T_UNITS = 14
T_TIME = 15  # the last time known, Unix seconds
STATE_SIZE = 16

# The columns of what waits: the same kind of event at the same place of the statement is one row.
P_SUBJECT = 0  # the table map's, -1 for context
P_SINCE = 1  # what T_ROWS was there: rows with a higher number follow it
P_BYTES = 2
P_EVENTS = 3
PENDING_COLUMNS = 4

# A unit's columns.
U_CONDITION = 0
U_ORIGIN = 1
U_BUCKET = 2
U_BYTES = 3
U_EVENTS = 4
U_TRANSACTIONS = 5
U_UNDECIDED = 6
UNIT_COLUMNS = 7

# A condition's columns.
Q_KIND = 0
Q_REQUIRED = 1  # a subject, or -1
Q_START = 2  # where its members begin and end
Q_END = 3
Q_LATEST = 4  # the unit that it was met in last, -1 at first
CONDITION_COLUMNS = 5

# A subject's columns.
S_MARK = 0  # the transaction that it decided about last
S_LAST = 1  # the number of its last rows event
S_SINGLE = 2  # the condition that it is sent, 0 when there is none yet
SUBJECT_COLUMNS = 3

# Why it came back.
DONE = 0
FULL = 1  # an array is full: grow them and call again
PAYLOAD = 2  # a compressed transaction whose answer depends on the filter: finish it and go on after it


@njit(cache=True, nogil=True)
def _unit_slot(units, slots, condition, origin, bucket):
    """Where the hash table has the unit, or room for it."""
    mask = np.uint64(slots.size - 1)
    h = (np.uint64(condition) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(bucket) * np.uint64(0xD6E8FEB86659FD93)
    )
    h = (h ^ np.uint64(origin)) * np.uint64(0x9E3779B97F4A7C15)
    slot = (h >> np.uint64(29)) & mask
    while slots[slot] >= 0:
        row = slots[slot]
        if (
            units[row, U_CONDITION] == condition
            and units[row, U_ORIGIN] == origin
            and units[row, U_BUCKET] == bucket
        ):
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def unit_of(state, units, slots, conditions, condition, origin, bucket):
    """The unit, a new one the first time. There must be room for one more."""
    slot = _unit_slot(units, slots, condition, origin, bucket)
    row = slots[slot]
    if row < 0:
        row = state[T_UNITS]
        state[T_UNITS] += 1
        slots[slot] = row
        units[row, :] = 0
        units[row, U_CONDITION] = condition
        units[row, U_ORIGIN] = origin
        units[row, U_BUCKET] = bucket
    conditions[condition, Q_LATEST] = row
    return row


@njit(cache=True, nogil=True)
def add_unit(
    state, units, slots, conditions, condition, origin, bucket, size, events, transactions, undecided
):
    """Add to a unit (:func:`unit_of`)."""
    row = conditions[condition, Q_LATEST]
    if row < 0 or units[row, U_ORIGIN] != origin or units[row, U_BUCKET] != bucket:
        row = unit_of(state, units, slots, conditions, condition, origin, bucket)
    units[row, U_BYTES] += size
    units[row, U_EVENTS] += events
    units[row, U_TRANSACTIONS] += transactions
    units[row, U_UNDECIDED] += undecided


@njit(cache=True, nogil=True)
def rehash_units(units, count, slots):
    """Fill the empty hash table ``slots`` with the first ``count`` units."""
    for row in range(count):
        slots[
            _unit_slot(units, slots, units[row, U_CONDITION], units[row, U_ORIGIN], units[row, U_BUCKET])
        ] = row


@njit(cache=True, nogil=True)
def intern(state, conditions, members, slots, kind, required, wanted, n):
    """The number of a condition whose ``n`` members are the first of ``wanted``, ascending and different. There must
    be room for one more."""
    mask = np.uint64(slots.size - 1)
    h = np.uint64(kind) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(required)
    for k in range(n):
        h = (h ^ np.uint64(wanted[k])) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    slot = h & mask
    while slots[slot] >= 0:
        c = slots[slot]
        first = conditions[c, Q_START]
        if (
            conditions[c, Q_KIND] == kind
            and conditions[c, Q_REQUIRED] == required
            and conditions[c, Q_END] - first == n
        ):
            same = True
            for k in range(n):
                if members[first + k] != wanted[k]:
                    same = False
                    break
            if same:
                return np.int64(c)
        slot = (slot + np.uint64(1)) & mask
    c = state[T_CONDITIONS]
    used = state[T_MEMBERS]
    for k in range(n):
        members[used + k] = wanted[k]
    conditions[c, Q_KIND] = kind
    conditions[c, Q_REQUIRED] = required
    conditions[c, Q_START] = used
    conditions[c, Q_END] = used + n
    conditions[c, Q_LATEST] = -1
    slots[slot] = c
    state[T_MEMBERS] = used + n
    state[T_CONDITIONS] = c + 1
    return np.int64(c)


@njit(cache=True, nogil=True)
def rehash_conditions(conditions, members, count, slots):
    """Fill the empty hash table ``slots`` with the first ``count`` conditions."""
    mask = np.uint64(slots.size - 1)
    for c in range(count):
        h = np.uint64(conditions[c, Q_KIND]) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(
            conditions[c, Q_REQUIRED]
        )
        for k in range(conditions[c, Q_START], conditions[c, Q_END]):
            h = (h ^ np.uint64(members[k])) * np.uint64(0xD6E8FEB86659FD93)
            h ^= h >> np.uint64(32)
        slot = h & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = c


@njit(cache=True, nogil=True)
def _ascending(values, n):
    """Sort the first ``n``; mostly they are a few."""
    if n > 32:
        values[:n].sort()
        return
    for k in range(1, n):
        value = values[k]
        j = k
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@njit(cache=True, nogil=True)
def _different(values, n):
    """Sort the first ``n`` and leave each once; how many there are."""
    _ascending(values, n)
    m = np.int64(0)
    for k in range(n):
        if k == 0 or values[k] != values[m - 1]:
            values[m] = values[k]
            m += 1
    return m


@njit(cache=True, nogil=True)
def _following(state, tables, subject_rows, since, extra, n_extra, scratch):
    """Into ``scratch``, ascending: the subjects with rows after a place of the open statement, and the first
    ``n_extra`` of ``extra``; their number."""
    n = np.int64(0)
    for k in range(state[T_TABLES]):
        if subject_rows[tables[k], S_LAST] > since:
            scratch[n] = tables[k]
            n += 1
    rows = n
    for k in range(n_extra):
        known = False
        for j in range(rows):
            if scratch[j] == extra[k]:
                known = True
                break
        if not known:
            scratch[n] = extra[k]
            n += 1
    _ascending(scratch, n)
    return n


@njit(cache=True, nogil=True)
def _only(state, conditions, members, slots, subject_rows, subject):
    """The condition that one subject is sent."""
    if subject_rows[subject, S_SINGLE] == 0:
        wanted = np.full(1, subject, np.int32)
        subject_rows[subject, S_SINGLE] = intern(
            state, conditions, members, slots, ONE, np.int64(-1), wanted, np.int64(1)
        )
    return subject_rows[subject, S_SINGLE]


@njit(cache=True, nogil=True)
def _one_of(state, conditions, members, slots, subject_rows, wanted, n):
    """The condition that one of the first ``n`` of ``wanted`` is sent, which are ascending and different."""
    if n == 1:
        return _only(state, conditions, members, slots, subject_rows, wanted[0])
    return intern(state, conditions, members, slots, ANY, np.int64(-1), wanted, n)


@njit(cache=True, nogil=True)
def _wait(state, pending, subject, size):
    """Put a context event or a table map aside."""
    n = state[T_PENDING]
    if n and pending[n - 1, P_SUBJECT] == subject and pending[n - 1, P_SINCE] == state[T_ROWS]:
        pending[n - 1, P_BYTES] += size
        pending[n - 1, P_EVENTS] += 1
        return
    pending[n, P_SUBJECT] = subject
    pending[n, P_SINCE] = state[T_ROWS]
    pending[n, P_BYTES] = size
    pending[n, P_EVENTS] = 1
    state[T_PENDING] = n + 1


@njit(cache=True, nogil=True)
def _decided(state, subject_rows, deciding, subject):
    """A subject that decides about the open transaction."""
    if subject_rows[subject, S_MARK] != state[T_SERIAL]:
        subject_rows[subject, S_MARK] = state[T_SERIAL]
        deciding[state[T_DECIDING]] = subject
        state[T_DECIDING] += 1


@njit(cache=True, nogil=True)
def _release(
    state,
    conditions,
    members,
    condition_slots,
    units,
    unit_slots,
    tables,
    subject_rows,
    pending,
    extra,
    n_extra,
    scratch,
    always,
    bucket,
):
    """Add what waits, which goes with the rows after it and ``extra``; or is sent in any case, where ``always``."""
    since = np.int64(-1)
    n = np.int64(0)
    for w in range(state[T_PENDING]):
        subject = pending[w, P_SUBJECT]
        if not always and pending[w, P_SINCE] != since:
            since = pending[w, P_SINCE]
            n = _following(state, tables, subject_rows, since, extra, n_extra, scratch)
        alone = always
        for k in range(n):
            alone = alone or scratch[k] == subject
        if subject >= 0 and alone:
            c = _only(state, conditions, members, condition_slots, subject_rows, subject)
        elif always:
            c = np.int64(C_ALWAYS)
        elif subject < 0 or n == 0:
            c = _one_of(state, conditions, members, condition_slots, subject_rows, scratch, n)
        else:
            c = intern(state, conditions, members, condition_slots, ANY, subject, scratch, n)
        add_unit(
            state,
            units,
            unit_slots,
            conditions,
            c,
            state[T_ORIGIN],
            bucket,
            pending[w, P_BYTES],
            pending[w, P_EVENTS],
            0,
            0,
        )
    state[T_PENDING] = 0


@njit(cache=True, nogil=True)
def close(state):
    """The open transaction is done with."""
    state[T_OPEN] = 0
    state[T_PENDING] = 0
    state[T_TABLES] = 0


@njit(cache=True, nogil=True)
def tally(
    sizes,
    times,
    roles,
    subjects,
    txn_event,
    txn_subject,
    txn_source,
    txn_origin,
    still_open,
    bucket_seconds,
    payload_event,
    payload_start,
    payload_member,
    payload_undecided,
    t,
    i,
    state,
    subject_rows,
    deciding,
    tables,
    pending,
    conditions,
    members,
    condition_slots,
    units,
    unit_slots,
    extra,
    scratch,
):
    """Add the events from number ``i`` on, of transaction ``t``, to the units.

    ``txn_origin`` is each transaction's number of an origin. ``payload_event``: the compressed transactions,
    ascending; ``payload_member[payload_start[k] : payload_start[k + 1]]``: the subjects of which one must be sent for
    the whole to be; ``payload_undecided``: how many events of it count as undecided then, -1 where the answer is the
    caller's. Returns ``(code, t, i)``: why it came back, and where.

    ``deciding``, ``tables``, ``extra``, ``scratch``: room for all subjects; ``pending``: for what waits and all events.
    """
    c = np.int64(C_ALWAYS)
    p = np.searchsorted(payload_event, i)
    while t < txn_subject.size:
        b = txn_event[t + 1]
        k = b - 1
        while k > txn_event[t] and times[k] == 0:
            k -= 1
        if times[k] != 0:
            state[T_TIME] = times[k]
        bucket = state[T_TIME] // bucket_seconds
        s = txn_subject[t]
        counted = 1 if txn_source[t] != R.KEPT else 0
        fast = (s >= 0 or s == R.KEPT or s == R.NOTHING) and state[T_OPEN] == 0
        if fast and not (t == txn_subject.size - 1 and still_open):
            if (
                state[T_UNITS] + 1 > units.shape[0]
                or state[T_CONDITIONS] + 1 > conditions.shape[0]
                or state[T_MEMBERS] + 1 > members.size
            ):
                return FULL, t, i
            size = np.int64(0)
            undecided = np.int64(0)
            for k in range(i, b):
                size += sizes[k]
                undecided += subjects[k] == s
            if s == R.KEPT:
                c = np.int64(C_ALWAYS)
                undecided = 0
            elif s == R.NOTHING:
                c = np.int64(C_NEVER)
                undecided = 0
            else:
                c = _only(state, conditions, members, condition_slots, subject_rows, s)
            add_unit(
                state,
                units,
                unit_slots,
                conditions,
                c,
                txn_origin[t],
                bucket,
                size,
                b - i,
                counted,
                undecided,
            )
            i = b
            t += 1
            continue
        while i < b:
            waiting = state[T_PENDING] + 1
            if (
                state[T_UNITS] + waiting + 2 > units.shape[0]
                or state[T_CONDITIONS] + waiting + 3 > conditions.shape[0]
                or state[T_MEMBERS]
                + (waiting + 1) * (state[T_TABLES] + payload_member.size + 2)
                + state[T_DECIDING]
                > members.size
            ):
                return FULL, t, i
            role = roles[i] & 0x7F
            size = np.int64(sizes[i])
            s = subjects[i]
            if state[T_OPEN] == 0:
                state[T_OPEN] = 1
                state[T_ORIGIN] = txn_origin[t]
                state[T_ALWAYS] = 0
                state[T_FRAME_BYTES] = 0
                state[T_FRAME_EVENTS] = 0
                state[T_SERIAL] += 1
                state[T_DECIDING] = 0
                state[T_STATEMENT] = state[T_ROWS]
                state[T_UNMAPPED] = 0
            origin = state[T_ORIGIN]
            if state[T_PENDING] == 0 and state[T_TABLES] == 0 and state[T_UNMAPPED] == 0:
                # most of what there is, and nothing of it need wait (this, and the frame's end, call nothing: numba
                # counts references around each call, which costs more than what is called)
                j = i
                while j < b and roles[j] == R.CONTEXT:
                    j += 1
                whole = j < b and roles[j] == R.STATEMENT
                if j < b and roles[j] == R.TABLE_MAP:
                    s = subjects[j]
                    j += 1
                    while j < b and roles[j] == R.ROWS and subjects[j] == s:
                        j += 1
                    whole = j < b and roles[j] == R.ROWS_END and subjects[j] == s
                if whole:
                    j += 1
                    s = subjects[j - 1]
                    for k in range(i, j - 1):
                        size += sizes[k + 1]
                    c = subject_rows[s, S_SINGLE]
                    if c == 0:
                        c = _only(state, conditions, members, condition_slots, subject_rows, s)
                    row = conditions[c, Q_LATEST]
                    if row < 0 or units[row, U_ORIGIN] != origin or units[row, U_BUCKET] != bucket:
                        row = unit_of(state, units, unit_slots, conditions, c, origin, bucket)
                    units[row, U_BYTES] += size
                    units[row, U_EVENTS] += j - i
                    units[row, U_UNDECIDED] += roles[j - 1] == R.STATEMENT
                    if subject_rows[s, S_MARK] != state[T_SERIAL]:
                        subject_rows[s, S_MARK] = state[T_SERIAL]
                        deciding[state[T_DECIDING]] = s
                        state[T_DECIDING] += 1
                    i = j
                    continue
            ends = (roles[i] & R.ENDS) != 0
            if (role == R.GTID or role == R.FRAME) and not ends:
                state[T_FRAME_BYTES] += size
                state[T_FRAME_EVENTS] += 1
                i += 1
                continue
            # what becomes of what waits: 0 it waits on, 1 it goes with what follows it and this, 2 it is sent
            settled = 1 if ends else 0
            n_extra = 0
            # what this event goes with, when that is known already
            always = False
            one = np.int64(-1)  # a subject
            several = np.int64(-1)  # so many, in scratch
            undecided = np.int64(0)
            if role == R.PAYLOAD:
                while p < payload_event.size and payload_event[p] < i:
                    p += 1
                if payload_undecided[p] < 0:
                    return PAYLOAD, t, i
                undecided = payload_undecided[p]
                for k in range(payload_start[p], payload_start[p + 1]):
                    extra[n_extra] = payload_member[k]
                    n_extra += 1
                _ascending(extra, n_extra)
                if n_extra == 0:
                    role = R.FRAME
                else:
                    for k in range(n_extra):
                        _decided(state, subject_rows, deciding, extra[k])
                        scratch[k] = extra[k]
                    several = n_extra
            if role == R.PAYLOAD:
                pass
            elif role == R.GTID or role == R.FRAME:
                state[T_FRAME_BYTES] += size
                state[T_FRAME_EVENTS] += 1
            elif role == R.CONTEXT:
                _wait(state, pending, np.int64(-1), size)
            elif role == R.TABLE_MAP:
                _wait(state, pending, np.int64(s), size)
            elif role == R.STATEMENT:
                extra[0] = s
                n_extra = 1
                settled = 1
                one = np.int64(s)
                undecided = 1
                _decided(state, subject_rows, deciding, s)
            elif role == R.DUMMY_ROWS:
                settled = 1
                always = state[T_UNMAPPED] != 0
                several = _following(state, tables, subject_rows, state[T_STATEMENT], extra, 0, scratch)
            elif (role == R.ROWS or role == R.ROWS_END) and s >= 0:
                state[T_ROWS] += 1
                if subject_rows[s, S_LAST] <= state[T_STATEMENT]:
                    tables[state[T_TABLES]] = s
                    state[T_TABLES] += 1
                subject_rows[s, S_LAST] = state[T_ROWS]
                one = np.int64(s)
                _decided(state, subject_rows, deciding, s)
                if role == R.ROWS_END:
                    settled = 1
            else:  # rows without a table map, and what cannot be decided
                always = True
                state[T_ALWAYS] = 1
                settled = 2
                if role == R.ROWS or role == R.ROWS_END:
                    undecided = 1
                    state[T_UNMAPPED] = 1
                elif role == R.KEEP:
                    undecided = 1
            if always or one >= 0 or several >= 0:
                if always:
                    c = np.int64(C_ALWAYS)
                elif one >= 0:
                    c = _only(state, conditions, members, condition_slots, subject_rows, one)
                else:
                    c = _one_of(state, conditions, members, condition_slots, subject_rows, scratch, several)
                add_unit(state, units, unit_slots, conditions, c, origin, bucket, size, 1, 0, undecided)
            if settled and state[T_PENDING]:
                _release(
                    state,
                    conditions,
                    members,
                    condition_slots,
                    units,
                    unit_slots,
                    tables,
                    subject_rows,
                    pending,
                    extra,
                    n_extra,
                    scratch,
                    settled == 2,
                    bucket,
                )
            if role == R.ROWS_END or role == R.DUMMY_ROWS:
                state[T_STATEMENT] = state[T_ROWS]
                state[T_TABLES] = 0
                state[T_UNMAPPED] = 0
            if ends:
                n = state[T_DECIDING]
                if state[T_ALWAYS]:
                    c = np.int64(C_ALWAYS)
                elif n == 0:
                    c = np.int64(C_NEVER)
                elif n == 1:
                    c = subject_rows[deciding[0], S_SINGLE]
                else:
                    for k in range(1, min(n, 32)):
                        s = np.int64(deciding[k])
                        j = k
                        while j > 0 and deciding[j - 1] > s:
                            deciding[j] = deciding[j - 1]
                            j -= 1
                        deciding[j] = s
                    if n > 32:
                        deciding[:n].sort()
                    c = intern(
                        state,
                        conditions,
                        members,
                        condition_slots,
                        ANY,
                        np.int64(-1),
                        deciding,
                        n,
                    )
                row = conditions[c, Q_LATEST]
                if row < 0 or units[row, U_ORIGIN] != origin or units[row, U_BUCKET] != bucket:
                    row = unit_of(state, units, unit_slots, conditions, c, origin, bucket)
                units[row, U_BYTES] += state[T_FRAME_BYTES]
                units[row, U_EVENTS] += state[T_FRAME_EVENTS]
                units[row, U_TRANSACTIONS] += counted
                state[T_OPEN] = 0
                state[T_PENDING] = 0
                state[T_TABLES] = 0
            i += 1
        t += 1
    return DONE, t, i


@njit(cache=True, nogil=True)
def passing(kinds, required_of, start, members, sent, out):
    """Which conditions on subjects hold when ``sent`` (bool, a subject each) is what is sent: into ``out`` (bool)."""
    for c in range(kinds.size):
        out[c] = False
        if (kinds[c] == ONE or kinds[c] == ANY) and (required_of[c] < 0 or sent[required_of[c]]):
            for k in range(start[c], start[c + 1]):
                if sent[members[k]]:
                    out[c] = True
                    break


@njit(cache=True, nogil=True)
def among(kinds, start, members, number, out):
    """Which conditions on filters have this one: into ``out`` (bool)."""
    for c in range(kinds.size):
        out[c] = False
        if kinds[c] == EXACTLY:
            for k in range(start[c], start[c + 1]):
                if members[k] == number:
                    out[c] = True
                    break


@njit(cache=True, nogil=True)
def room(kinds, start, members, wanted, subject_start):
    """How many members :func:`renumber` gives these conditions at most."""
    n = np.int64(0)
    for c in wanted:
        if kinds[c] == EXACTLY:
            n += start[c + 1] - start[c]
        else:
            for k in range(start[c], start[c + 1]):
                n += subject_start[members[k] + 1] - subject_start[members[k]]
    return n


@njit(cache=True, nogil=True)
def renumber(
    from_kinds,
    from_required,
    from_start,
    from_members,
    wanted,
    subject_start,
    subject,
    stand_in,
    state,
    conditions,
    members,
    slots,
    out,
):
    """Intern conditions, those ``wanted``, into the arrays of another table, their numbers there into ``out``.

    A subject's place is taken by ``subject[subject_start[s] : subject_start[s + 1]]``, of which there is just one for
    one that is required, and that by ``stand_in`` of it where a condition is about several. There must be room for all.
    """
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
            n = _different(scratch, n)
            if kind == ONE and n != 1:
                kind = np.uint8(ANY)  # it was a set of subjects
            if kind == ANY:
                for k in range(n):
                    scratch[k] = stand_in[scratch[k]]
                n = _different(scratch, n)
        out[w] = intern(state, conditions, members, slots, kind, required, scratch, n)


@njit(cache=True, nogil=True)
def meet(kinds, required_of, start, members, wanted, met):
    """Mark the subjects of these conditions in ``met`` (bool, a subject each)."""
    for c in wanted:
        if required_of[c] >= 0:
            met[required_of[c]] = True
        if kinds[c] != EXACTLY:
            for k in range(start[c], start[c + 1]):
                met[members[k]] = True
