# mypy: ignore-errors
"""The compiled loop that counts a segment's events by the condition under which a filter sends them.

An atom is a maximal run of consecutive events of a transaction that every filter sends or drops together
(:mod:`dumpfilter.dump.atoms`). A condition describes the filters that send an atom, for example "one of these tables
is sent". Each condition is stored once, under a number. A *unit* is one row of counts: the atoms with one condition,
from one origin (server and domain), in one time bucket. The caller owns all arrays, enlarges them, and merges equal
units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int32s, Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inlined, inner, kernel
from dumpfilter.binlog import roles as R
from dumpfilter.dump import atoms as A

# A condition holds for a filter if one of its members does. A subject number (a table or statement) is a member that
# holds for filters that send the subject. If the condition also has a required subject, the filter must send this
# subject, too. The other members are negative.
ALWAYS = -1
"""A member that every filter meets. A condition is a list of members, and a filter that meets any of them sends the
events that the condition is about.
"""
NO_SUBJECT = -2
"""A member that only a slave without a filter meets. A condition with this member alone is about no table and no
statement.

The member that only the filter with the number ``k`` meets is ``NO_SUBJECT - 1 - k``. A member from 0 on is the number
of a table or statement, and a filter meets it by sending the events of this table or statement.
"""

C_ALWAYS = 0
"""The number of the condition that every filter meets. A filter sends the events of a condition that it meets. The
condition's only member is ALWAYS.
"""
C_NEVER = 1
"""The number of the condition that only a slave without a filter meets. A filter sends the events of a condition that
it meets. The condition's only member is NO_SUBJECT.
"""
DROPPED = -1
"""The value that stands in place of a condition's number for an atom (a run of events) that is sent to no slave. A
condition says which filters send an atom.
"""
FRAME = -2
"""The value that stands in place of a condition's number for an atom (a run of events) that is sent with any other
event of its transaction, such as BEGIN. A condition says which filters send an atom.
"""
NO_ROOM = -3
"""The value that is returned in place of a condition's number if the arrays have no room for a new condition. A
condition says which filters send an event.
"""

Q_REQUIRED, Q_START, Q_END, Q_LATEST, CONDITION_COLUMNS = range(5)
"""The column indexes of :attr:`Memory.conditions`, which has a row for each condition (such as "table 5 is sent"), and
their number.

- Q_REQUIRED: the number of the table or statement that a filter must send in any case, or -1.
- Q_START, Q_END: the index of the condition's first member in :attr:`Memory.members`, and the index after its last one.
- Q_LATEST: the index of the unit (row of counts) that was last added with the condition, or -1.
"""

U_CONDITION, U_ORIGIN, U_BUCKET, U_BYTES, U_EVENTS, U_TRANSACTIONS, U_UNDECIDED = range(7)
U_STAND_INS, U_STAND_IN_BYTES, UNIT_COLUMNS = range(7, 10)
"""The column indexes of :attr:`Memory.units`, and their number. The array has a row for each unit: the counts under one
condition, from one origin (server and domain), in one time bucket. The order is that of
:data:`~dumpfilter.analyse.traffic.facts.COLUMNS`.
"""

S_MARK, S_TRANSACTION, S_CONDITION, SUBJECT_COLUMNS = range(4)
"""The column indexes of :attr:`Memory.subjects`, which has a row for each subject (table or statement), and their
number.

- S_MARK, S_TRANSACTION: the serial numbers of the last condition, and of the last transaction, that had the subject.
- S_CONDITION: the number of the condition "this subject is sent", or 0 if it is not stored.
"""

N_CONDITIONS, N_MEMBERS, N_UNITS, SERIAL, ATOMS, HELD = range(6)
IS_OPEN, TRANSACTION, ORIGIN, IS_ALWAYS, DECIDING, FRAME_BYTES, FRAME_EVENTS, STATE = range(6, 14)
"""The indexes of the entries of :attr:`Memory.state`, and their number. From IS_OPEN on, the entries are about the
transaction that continues in the next segment.

- N_CONDITIONS, N_MEMBERS, N_UNITS: the used lengths of arrays.
- SERIAL: a number that grows with each condition and each transaction.
- ATOMS: the number of atoms (runs of events that every filter sends or drops together) of the transaction that was
  decided last.
- HELD: the index of the first event for which later events of the statement that continues tell which filters send it.
- IS_OPEN: 1 inside a transaction that continues in the next segment.
- TRANSACTION, ORIGIN: the open transaction's serial number, and its origin (server and domain).
- IS_ALWAYS: 1 if every filter sends the open transaction.
- DECIDING: the number of the open transaction's subjects.
- FRAME_BYTES, FRAME_EVENTS: the bytes and the number of the open transaction's GTID, BEGIN, COMMIT and similar events.
"""

COUNTED = -1
"""The value in the column ``offset`` for an event that has been counted already. No event ends at this offset, so the
event is never joined with others into one atom (a run of events that every filter sends or drops together).
"""


class Columns(NamedTuple):
    """The events and transactions of a segment (consecutive events of one file) as columns, for :func:`group`, the
    compiled loop that counts events.

    Columns whose names begin with ``txn_`` have one entry for each transaction, and the others one for each event. If a
    statement began in the previous segment, its earlier events come first in the columns.
    """

    offset: Int64s
    """The byte offset of each event in its file, or COUNTED."""
    size: Int64s
    role: Bytes
    subject: Int32s
    txn_event: Int64s
    txn_subject: Int32s
    txn_source: Int32s
    txn_origin: Int64s
    txn_bucket: Int64s
    txn_stand_in: Int64s
    """For each transaction, the size of its stand-in in bytes; 0 for none.

    A stand-in is an empty transaction that a real replica gets in place of a dropped one.
    """
    is_open: bool


class Memory(NamedTuple):
    """The arrays in which :func:`group` collects conditions (such as "table 5 is sent") and counts, and the function's
    state between two segments (parts of a binlog file).

    Constants name the entries of ``state`` (such as :data:`IS_OPEN`), and the columns of ``subjects`` (such as
    :data:`S_MARK`), ``conditions`` (:data:`Q_REQUIRED`) and ``units`` (:data:`U_STAND_INS`). ``scratch``, ``atoms`` and
    ``lists`` are used within one call.
    """

    state: Int64s
    subjects: Int64s2
    deciding: Int32s
    """The numbers of the tables and statements about which filters decide, in the transaction that continues in the
    next segment.
    """
    scratch: Int32s
    conditions: Int64s2
    members: Int32s
    """The members of all conditions (such as "table 5 or table 7 is sent"), one condition after the other. A member is
    a table, a statement or a single filter.
    """
    slots: Int64s
    """The slots of the hash table that finds a condition about several tables or statements (such as "table 5 or table
    7 is sent"). A slot has the condition's number; -1 marks a free slot.
    """
    units: Int64s2
    atoms: Int64s2
    lists: Int64s2


@inlined
def _mixed(value):
    h = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(31))) * np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@inlined
def _hash(required, members, n):
    """Return a hash (uint64) of a condition, for the hash table that finds stored conditions.

    A condition is, for example, "table 5 or table 7 is sent". The condition has the subject ``required`` (-1: none) and
    the first ``n`` of ``members`` as members, in any order. A subject is the number of a table or statement. The
    condition holds for a filter that sends the required subject and at least one member.
    """
    h = np.uint64(3) * _mixed(required + np.int64(1))
    for k in range(n):
        h += _mixed(members[k])
    return h


@kernel
def rehash(m: Memory):
    """Insert all conditions about several tables or statements (such as "table 5 or table 7 is sent") into the hash
    table ``m.slots``, which the caller has emptied.
    """
    mask = np.uint64(m.slots.size - 1)
    for c in range(C_NEVER + 1, m.state[N_CONDITIONS]):
        start = m.conditions[c, Q_START]
        n = m.conditions[c, Q_END] - start
        if m.members[start] >= 0 and (n > 1 or m.conditions[c, Q_REQUIRED] >= 0):
            slot = _hash(m.conditions[c, Q_REQUIRED], m.members[start:], n) & mask
            while m.slots[slot] >= 0:
                slot = (slot + np.uint64(1)) & mask
            m.slots[slot] = c


@inner
def _intern(m, required, wanted, n):
    """Return the number of a condition, which is its row index in ``m.conditions``. Store the condition if it is new.
    Return NO_ROOM if the arrays in ``m`` are full.

    The condition holds for a filter that sends the subject ``required`` (-1: none) and at least one of the first ``n``
    subjects of ``wanted``. A subject is the number of a table or statement. The subjects must be distinct.

    The caller first marks each subject in ``wanted`` with the current serial number, in the column S_MARK of
    ``m.subjects``. A stored condition with ``n`` members is equal if all its members are marked. No equal condition is
    searched for a single subject, because callers have already looked for one in the column S_CONDITION.
    """
    is_single = n == 1 and required < 0
    mask = np.uint64(m.slots.size - 1)
    slot = _hash(required, wanted, n) & mask
    while not is_single and m.slots[slot] >= 0:
        c = np.int64(m.slots[slot])
        start = m.conditions[c, Q_START]
        is_same = m.conditions[c, Q_REQUIRED] == required and m.conditions[c, Q_END] - start == n
        k = 0
        while is_same and k < n:
            is_same = m.subjects[m.members[start + k], S_MARK] == m.state[SERIAL]
            k += 1
        if is_same:
            return c
        slot = (slot + np.uint64(1)) & mask
    c = m.state[N_CONDITIONS]
    used = m.state[N_MEMBERS]
    if c >= m.conditions.shape[0] or used + n > m.members.size:
        return np.int64(NO_ROOM)
    for k in range(n):
        m.members[used + k] = wanted[k]
    m.conditions[c, Q_REQUIRED] = required
    m.conditions[c, Q_START] = used
    m.conditions[c, Q_END] = used + n
    m.conditions[c, Q_LATEST] = -1
    if not is_single:
        m.slots[slot] = c
    m.state[N_CONDITIONS] = c + 1
    m.state[N_MEMBERS] = used + n
    return c


@inner
def _only(m, subject):
    """Return the number of the condition "``subject`` is sent", which holds for the filters that send ``subject``, the
    number of a table or statement. Store the condition if it is new.

    The condition's number is its row index in ``m.conditions``. Return NO_ROOM if the arrays in ``m`` are full.
    """
    c = m.subjects[subject, S_CONDITION]
    if c == 0:
        m.scratch[0] = subject
        c = _intern(m, np.int64(-1), m.scratch, 1)
        if c >= 0:
            m.subjects[subject, S_CONDITION] = c
    return c


@inner
def _condition(m, one_of, also):
    """Return the number of an atom's condition, which is its row index in ``m.conditions``. Store the condition if it
    is new.

    An atom is a run of events that every filter sends or drops together. An atom's condition says which filters send
    the atom, for example "table 5 or table 7 is sent". ``m`` holds the compiled loop's arrays.

    ``one_of`` is the index in ``m.lists`` of a list of subjects (numbers of tables and statements). The atom is sent by
    the filters that send at least one subject of the list, and also the subject ``also`` (-1: none).

    ``one_of`` can also be FRAMING (BEGIN and the like, sent with any other event of the transaction) or DROPPED (sent
    to no slave). Such an atom has no condition, and the result is FRAME or DROPPED. The result is NO_ROOM if the arrays
    in ``m`` are full.
    """
    if one_of == A.FRAMING:
        return np.int64(FRAME)
    if one_of == A.DROPPED:
        return np.int64(DROPPED)
    if one_of == A.EVER:
        return _only(m, also) if also >= 0 else np.int64(C_ALWAYS)
    m.state[SERIAL] += 1
    n = 0
    at = one_of
    while at >= A.ROOTS:
        member = m.lists[at, A.L_SUBJECT]
        if member < 0:
            return _only(m, also) if also >= 0 else np.int64(C_ALWAYS)
        if m.subjects[member, S_MARK] != m.state[SERIAL]:
            m.subjects[member, S_MARK] = m.state[SERIAL]
            m.scratch[n] = member
            n += 1
        at = m.lists[at, A.L_TAIL]
    if n == 0:
        return np.int64(C_NEVER)
    if also >= 0 and m.subjects[also, S_MARK] == m.state[SERIAL]:
        return _only(m, also)
    if also < 0 and n == 1:
        return _only(m, np.int64(m.scratch[0]))
    return _intern(m, also, m.scratch, n)


@inlined
def _count(m, condition, bucket, size, events, transactions, undecided):
    unit = m.conditions[condition, Q_LATEST]
    origin = m.state[ORIGIN]
    if unit < 0 or m.units[unit, U_ORIGIN] != origin or m.units[unit, U_BUCKET] != bucket:
        unit = m.state[N_UNITS]
        m.state[N_UNITS] = unit + 1
        m.conditions[condition, Q_LATEST] = unit
        m.units[unit, :] = 0
        m.units[unit, U_CONDITION] = condition
        m.units[unit, U_ORIGIN] = origin
        m.units[unit, U_BUCKET] = bucket
    m.units[unit, U_BYTES] += size
    m.units[unit, U_EVENTS] += events
    m.units[unit, U_TRANSACTIONS] += transactions
    m.units[unit, U_UNDECIDED] += undecided


@inlined
def _count_stand_in(m, condition, size):
    """Add a stand-in (an empty transaction for a dropped one) of ``size`` bytes to a unit (row of counts) in ``m``.
    Size 0 adds no stand-in.

    ``condition`` is the number of the condition under which a filter sends the dropped transaction. The unit is the one
    to which an event was last added under this condition.
    """
    if size > 0:
        unit = m.conditions[condition, Q_LATEST]
        m.units[unit, U_STAND_INS] += 1
        m.units[unit, U_STAND_IN_BYTES] += size


@kernel
def add(m: Memory, condition: int, bucket: int, size: int, events: int, undecided: int):
    """Add ``size`` bytes and ``events`` events to one row of counts in ``m``. ``undecided`` is the number of these
    events about which a filter may be unable to decide.

    A row counts the traffic under one condition (such as "table 5 is sent"), from one origin (server and domain), in
    one time bucket. ``condition`` is the condition's number, ``bucket`` is the time bucket, and the origin is that of
    the open transaction. The array of rows must have room for another row. Python code that is not compiled calls this
    function.
    """
    _count(m, condition, bucket, size, events, np.int64(0), undecided)


@inlined
def _decides(m, subject):
    if m.subjects[subject, S_TRANSACTION] != m.state[TRANSACTION]:
        m.subjects[subject, S_TRANSACTION] = m.state[TRANSACTION]
        m.deciding[m.state[DECIDING]] = subject
        m.state[DECIDING] += 1


@inner
def _held_from(role, first, stop):
    """Return the index of the first event whose condition depends on events of the next segment, or ``stop`` if there
    is none. An event's condition says which filters send the event.

    The events from ``first`` up to ``stop`` (excluded) are the part of an unfinished transaction in this segment.
    ``role`` tells for each event how it travels in a filtered stream, for example with the next statement.
    """
    held = stop
    while held > first and role[held - 1] != R.ROWS_END and role[held - 1] != R.DUMMY_ROWS:
        held -= 1
    i = held
    while i < stop and role[i] != R.ROWS:
        if role[i] not in (R.GTID, R.FRAME, R.CONTEXT, R.TABLE_MAP, R.GAP):
            held = i + 1
        i += 1
    return held


@inner
def _whole(c, m, t):
    """Count a transaction of which each filter sends all events or none, and add the counts to the arrays in ``m``.
    ``t`` is the transaction's index in the columns ``c``. Return False if the arrays are full.
    """
    s = np.int64(c.txn_subject[t])
    size = np.int64(0)
    undecided = np.int64(0)
    for k in range(c.txn_event[t], c.txn_event[t + 1]):
        size += c.size[k]
        undecided += c.subject[k] == s
    if s < 0:
        condition = np.int64(C_ALWAYS if s == R.KEPT else C_NEVER)
        undecided = np.int64(0)
    else:
        condition = _only(m, s)
        if condition < 0:
            return False
    m.state[ORIGIN] = c.txn_origin[t]
    events = c.txn_event[t + 1] - c.txn_event[t]
    transactions = np.int64(c.txn_source[t] != R.KEPT)
    _count(m, condition, c.txn_bucket[t], size, events, transactions, undecided)
    _count_stand_in(m, condition, c.txn_stand_in[t])
    return True


@inner
def _decide(c, m, first, stop, held):
    """Cut the open transaction into atoms in ``m.atoms``, and find the condition of each atom. An atom is a run of
    events that every filter sends or drops together. Its condition says which filters send the atom.

    ``m`` (:class:`Memory`) has the arrays to fill. The column A_LATER of an atom's row gets the number of the
    condition, in place of the value that the dump keeps there.

    The atoms have the events of ``c`` from index ``first`` up to ``held`` (excluded). The events from ``held`` up to
    ``stop`` (excluded) get no atoms yet, because their conditions depend on the next segment. The tables of their rows
    events are recorded, because a filter that sends one also sends the transaction's frame (GTID event, BEGIN and
    COMMIT).

    Return False if the arrays in ``m`` are full.
    """
    n, _ = A.atoms_of(
        c.offset, c.size, c.role, c.subject, first, held, False, m.atoms, 0, m.lists, np.int64(A.ROOTS)
    )
    m.state[ATOMS] = n
    for a in range(n):
        one_of = m.atoms[a, A.A_LIST]
        also = m.atoms[a, A.A_SUBJECT]
        condition = _condition(m, one_of, also)
        if condition == NO_ROOM:
            return False
        if one_of == A.EVER and also >= 0:
            _decides(m, also)
        if condition == C_ALWAYS:
            m.state[IS_ALWAYS] = 1
        m.atoms[a, A.A_LATER] = condition
    for k in range(held, stop):
        if c.role[k] == R.ROWS:
            if c.subject[k] < 0:
                m.state[IS_ALWAYS] = 1
            else:
                _decides(m, np.int64(c.subject[k]))
                if _only(m, np.int64(c.subject[k])) < 0:
                    return False
    return True


@inner
def _count_atoms(c, m, stop, held, bucket):
    """Count the atoms in ``m`` that have a condition, in the time bucket ``bucket``. An atom is a run of events that
    every filter sends or drops together. Atoms of the transaction's frame (GTID event, BEGIN and COMMIT) are only added
    up in ``m.state``, because their condition is known at the transaction's end.

    Also count the rows events of ``c`` from index ``held`` up to ``stop`` (excluded), whose statement continues in the
    next segment.
    """
    for a in range(m.state[ATOMS]):
        condition = m.atoms[a, A.A_LATER]
        size = m.atoms[a, A.A_SIZE]
        if m.atoms[a, A.A_START] == COUNTED:
            continue
        events = m.atoms[a, A.A_STOP] - m.atoms[a, A.A_FIRST]
        if condition == FRAME:
            m.state[FRAME_BYTES] += size
            m.state[FRAME_EVENTS] += events
        elif condition >= 0:
            _count(m, condition, bucket, size, events, 0, m.atoms[a, A.A_DOUBTS])
    for k in range(held, stop):
        if c.role[k] == R.ROWS and c.offset[k] != COUNTED:
            is_unmapped = c.subject[k] < 0
            condition = np.int64(C_ALWAYS) if is_unmapped else m.subjects[c.subject[k], S_CONDITION]
            _count(m, condition, bucket, c.size[k], 1, 0, np.int64(is_unmapped))


@inner
def _frame_condition(m):
    """Return the number of the condition under which a filter sends the open transaction's frame (GTID event, BEGIN and
    COMMIT). Return NO_ROOM if the arrays in ``m`` are full.

    A filter sends the frame if it sends any other event of the transaction. The number is the condition's row index in
    ``m.conditions``. A new condition is stored there.
    """
    n = m.state[DECIDING]
    if m.state[IS_ALWAYS]:
        return np.int64(C_ALWAYS)
    if n == 0:
        return np.int64(C_NEVER)
    if n == 1:
        return _only(m, np.int64(m.deciding[0]))
    m.state[SERIAL] += 1
    for k in range(n):
        m.subjects[m.deciding[k], S_MARK] = m.state[SERIAL]
    return _intern(m, np.int64(-1), m.deciding, n)


@kernel
def group(c: Columns, m: Memory, t: int, until: int):
    """Count the events of the segment ``c`` (consecutive events of one file), from the transaction with index ``t`` to
    the one before ``until``. The counts are added to the arrays in ``m``.

    Return the index of the first transaction that was not counted: ``until``, or less if the arrays are full. The
    caller must then enlarge the arrays and continue with this index.
    """
    while t < until:
        first = c.txn_event[t]
        stop = c.txn_event[t + 1]
        if m.state[N_UNITS] + stop - first + 2 > m.units.shape[0]:
            return t
        s = c.txn_subject[t]
        goes_on = c.is_open and t == c.txn_subject.size - 1
        if not m.state[IS_OPEN] and not goes_on and (s >= 0 or s in (R.KEPT, R.NOTHING, R.SKIP)):
            # No filter sends the Gap events of a relay log, so they are not counted.
            if s != R.SKIP and not _whole(c, m, t):
                return t
            t += 1
            continue
        if not m.state[IS_OPEN]:
            m.state[IS_OPEN] = 1
            m.state[SERIAL] += 1
            m.state[TRANSACTION] = m.state[SERIAL]
            m.state[ORIGIN] = c.txn_origin[t]
            m.state[IS_ALWAYS : FRAME_EVENTS + 1] = 0
        held = _held_from(c.role, first, stop) if goes_on else stop
        if not _decide(c, m, first, stop, held):
            return t
        condition = np.int64(C_NEVER) if goes_on else _frame_condition(m)
        if condition < 0:
            return t
        bucket = c.txn_bucket[t]
        _count_atoms(c, m, stop, held, bucket)
        m.state[HELD] = held
        if not goes_on:
            transactions = np.int64(c.txn_source[t] != R.KEPT)
            _count(
                m, condition, bucket, m.state[FRAME_BYTES], m.state[FRAME_EVENTS], transactions, np.int64(0)
            )
            _count_stand_in(m, condition, c.txn_stand_in[t])
            m.state[IS_OPEN] = 0
        t += 1
    return t
