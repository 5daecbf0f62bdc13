# mypy: ignore-errors
"""The grammar of a binlog, and the compiled pass that cuts a transaction into atoms.

Each event has a role (:mod:`dumpfilter.binlog.roles`). In terms of roles, a legal binlog has the following grammar:

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

The last rows event of a statement carries STMT_END_F. If the master drops the event with this flag, the last rows event
that is sent gets the flag.

An *atom* is a run of neighbouring events with one fate under every filter. :func:`atoms_of` walks a transaction
backward, so that the events that decide about an event are known before the event is met. An atom names a list of
subjects and one more subject. A filter sends the atom if the filter sends any subject of the list, and the one subject.
Lists share their tails, since a later event of a statement belongs to the lists of all events before.

The verdicts of 64 filters about a subject are one word of 64 bits. :func:`weigh` makes a word for each atom, and words
for each transaction: the filters that are sent the whole, and those that are sent a part. Only a transaction of which
some filter is sent a part is cut into atoms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int32s, Int64s, Int64s2, UInt64s, UInt64s2
from dumpfilter.base.compiler.kernels import inlined, inner
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import load_u32, prefetch
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_HIT_F, FILTER_UNDECIDED_F
from dumpfilter.index.segment import DroppedRuns

FILTERS = 64
"""The most filters that one call decides for, the bits of a word."""

A_FIRST, A_STOP, A_START, A_SIZE, A_LIST, A_SUBJECT, A_LATER, A_DOUBTS = range(8)
"""The columns of an atom.

- A_FIRST, A_STOP: the number of its first event, and the number after its last event.
- A_START, A_SIZE: the file offset of its first event, and its bytes.
- A_LIST: the list of subjects of which one must be sent; or DROPPED or FRAMING.
- A_SUBJECT: the subject that must be sent, too; NO_SUBJECT for none.
- A_LATER: the list of the statement's later subjects, if a rows event may need STMT_END_F; else NO_LIST.
- A_DOUBTS: the number of events about which a filter may be unable to decide.
"""
ATOM_COLUMNS = 8

DROPPED, FRAMING, NO_LIST = -1, -2, -3
"""The lists of an atom that no filter is sent, and of one that is sent with any other event of its transaction."""

NO_SUBJECT = -1
UNMAPPED = -5
"""The subject of rows events without a table map. A filter sends them unless an imposed filter drops them."""

NEVER, EVER, OPEN, BEFORE = range(4)
"""The lists with which all others end.

- NEVER: the empty list.
- EVER: the list of which one subject is always sent.
- OPEN: the unknown list of the events that follow the segment, in the same statement.
- BEFORE: the list of the rows before the segment, in the same statement.
"""
ROOTS = 4

L_SUBJECT, L_TAIL, L_ONLY, L_OPEN = range(4)
"""The columns of a list.

- L_SUBJECT, L_TAIL: the first subject, and the list of the other subjects.
- L_ONLY: the subject, if the list has no other one; else NO_SUBJECT.
- L_OPEN: 1 for a list that ends with OPEN.
"""
LIST_COLUMNS = 4

MOST_LISTS = 3
"""The most lists that one event can add. A rows event can be in two lists for events before, and in one for dummy
rows."""

F_FLAGS, F_HITS, F_IS_OFF, F_UNMAPPED, F_FIRST, F_CHUNK_SIZE, F_POSITION, F_RESUME = range(8)
"""The columns of a filter's row of input.

- F_FLAGS: the address of the filter's flags, one uint32 for each subject.
- F_HITS: the address of the rules that each subject matches, MOST_HITS int8 for each subject.
- F_IS_OFF: 1 for a filter without rules.
- F_UNMAPPED: 1 if rows without a table map are sent.
- F_FIRST: the number of the first transaction to decide.
- F_POSITION, F_RESUME: the file offset where the slave's last chunk ended, and the last boundary at or before it.
"""

W_SEND, W_UNDECIDED, W_HIT = range(3)
"""The columns of a subject's words, each with a bit for each filter."""
SUBJECT_WORDS = 3

T_BUSY, T_WHOLE, T_PART, T_HITS = range(4)
"""The rows of the transactions' words.

- T_BUSY: the filters for which the transaction is more than a dropped one without hits.
- T_WHOLE, T_PART: the filters that are sent the whole, and those that are sent a part.
- T_HITS: the filters for which dropped events may have used rules.
"""
TRANSACTION_WORDS = 4

UNMAPPED_SENT, ROWS_KEPT = range(2)
"""The columns of the words of a call.

The filters of the first column send rows without a table map. Those of the second were sent rows of the statement that
continues after the segment.
"""
CALL_WORDS = 2

ATOM_SENT, ATOM_ENDS = range(2)
"""The columns of an atom's words: the filters that are sent the atom, and those for which its rows event gets
STMT_END_F."""
ATOM_WORDS = 2

_EVENTS_AHEAD = 64
"""The most events of a transaction that :func:`weigh` fetches into the processor's cache ahead. The processor itself
fetches what follows."""

_NONE = np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_HIT = np.uint32(FILTER_HIT_F)


class Columns(NamedTuple):
    """A segment's columns. One filter may have columns of its own, which begin with carried events."""

    offset: Int64s
    size: Int64s
    role: Bytes
    subject: Int32s
    txn_event: Int64s
    txn_subject: Int32s
    """Each transaction's only subject, or ``MIXED``, ``KEPT`` (sent whole) or ``SKIP`` (dropped whole)."""
    txn_source: Int32s
    txn_number: Int64s
    txn_set: Int64s
    set_subject: Int32s
    dropped: DroppedRuns
    """The GTIDs that Gap events tell (:class:`~dumpfilter.index.segment.DroppedRuns`)."""
    end: int
    """The file offset where the segment ends."""
    is_open: bool
    """Whether the segment ends inside its last transaction."""
    has_gaps: bool
    """Whether Gap events stand inside transactions. Even a filter without rules drops them."""
    hit_role: Bytes
    """The events' roles, with XA COMMIT and XA ROLLBACK as FRAME, because an applier asks no rule about them."""
    has: Bools
    """For each transaction whether the slave has it, so that it does not count as read. Without entries: none."""
    carried: int
    """The number of events before the segment with which the columns begin."""
    is_kept: bool
    """Whether an event of the transaction that goes on here was sent before the segment."""
    rows_kept: bool
    """Whether rows of the statement that goes on here were sent before the segment."""
    hits: Int64s2
    """Hits that are known already, int64 of shape (n, 3), in the order of their transactions: the transaction's number,
    the column of :data:`~dumpfilter.filter.hits.KINDS`, and the count. These are hits before the segment of a
    transaction that goes on here, and hits inside compressed transactions."""

    def with_subjects(self, transactions: list[int] | np.ndarray, subject: int) -> Columns:
        """Return a copy in which some transactions have another subject, such as ``SKIP``."""
        txn_subject = self.txn_subject.copy()
        txn_subject[transactions] = subject
        return self._replace(txn_subject=txn_subject)

    def with_roles(self, role: np.ndarray) -> Columns:
        """Return a copy with other roles, so that the events of mixed transactions are decided one by one."""
        return self._replace(role=role, txn_set=np.zeros_like(self.txn_set))


class Weighed(NamedTuple):
    """The results of :func:`weigh`: which filters send which atoms and transactions of a segment."""

    stamp: Int64s
    """For each subject, the number of the call that has filled the subject's words, int64."""
    subject: UInt64s2
    """The subjects' words, uint64 of shape (n, SUBJECT_WORDS)."""
    transaction: UInt64s2
    """The transactions' words, uint64 of shape (TRANSACTION_WORDS, n)."""
    candidate: Int64s
    """The numbers of the transactions that are cut into atoms, ascending."""
    busy: Int64s
    """The numbers of the transactions that are busy for one filter, ascending."""
    atom_first: Int64s
    """For each of these transactions, by its number, the index of its first atom."""
    atom_until: Int64s
    """For each of these transactions, by its number, the index after its last atom."""
    atoms: Int64s2
    """The atoms, int64 of shape (n, ATOM_COLUMNS). Those of one transaction stand together, the last one first."""
    atom: UInt64s2
    """The atoms' words, uint64 of shape (n, ATOM_WORDS)."""
    lists: Int64s2
    """The lists of subjects, int64 of shape (n, LIST_COLUMNS). A list's tail stands before the list."""
    list_word: UInt64s
    """The filters that send any subject of each list, uint64."""
    call: UInt64s
    """The words of the call."""


@inlined
def _list(lists, n, subject, tail):
    """Return the list of a subject and another list, and the number of lists."""
    found = np.int64(EVER)
    if tail != EVER:
        lists[n, L_SUBJECT] = subject
        lists[n, L_TAIL] = tail
        is_only = tail == NEVER or (tail >= ROOTS and lists[tail, L_ONLY] == subject)
        lists[n, L_ONLY] = subject if is_only else NO_SUBJECT
        lists[n, L_OPEN] = lists[tail, L_OPEN]
        found = n
        n += 1
    return found, n


@inner
def _rows_before(roles, subjects, first, event, lists, n):
    """Return the list of the subjects of the open statement's rows before an event, and the number of lists."""
    found = np.int64(NEVER)
    i = event - 1
    while i >= first:
        role = roles[i] & ~R.ENDS
        if role == R.ROWS_END or role == R.DUMMY_ROWS:
            return found, n
        if role == R.ROWS and (found == NEVER or lists[found, L_SUBJECT] != subjects[i]):
            found, n = _list(lists, n, subjects[i] if subjects[i] >= 0 else UNMAPPED, found)
        i -= 1
    # The statement may have begun before the segment. The list of its last subject ends with the rows there.
    if found == NEVER:
        return np.int64(BEFORE), n
    last = found
    while lists[last, L_TAIL] >= ROOTS:
        last = lists[last, L_TAIL]
    lists[last, L_TAIL] = BEFORE
    return found, n


@inlined
def atoms_of(offsets, sizes, roles, subjects, first, stop, is_open, atoms, n, lists, m):
    """Add the atoms of the events from ``first`` up to, but without, ``stop`` to ``atoms``, the last one first.

    The events are those of one transaction. ``is_open`` says that the transaction goes on after the events. ``atoms``
    has ``n`` rows, and ``lists`` has ``m``. Return the new numbers.
    """
    begin = n
    # The list that decides about the events before, which go with the statement.
    statement = np.int64(OPEN if is_open else NEVER)
    # The list of which any subject, if it is sent, makes STMT_END_F needless for the rows before.
    later = statement
    for i in range(stop - 1, first - 1, -1):
        role = roles[i] & ~R.ENDS
        subject = np.int64(subjects[i])
        one_of = np.int64(EVER)
        also = np.int64(NO_SUBJECT)
        behind = np.int64(NO_LIST)
        doubts = np.int64(0)
        if role == R.GTID or role == R.FRAME:
            one_of = FRAMING
            later = EVER
        elif role == R.CONTEXT:
            also = lists[statement, L_ONLY]
            if also == NO_SUBJECT:
                one_of = statement
        elif role == R.TABLE_MAP:
            also = subject
            if lists[statement, L_ONLY] != subject:
                one_of = statement
        elif role == R.ROWS or role == R.ROWS_END or role == R.STATEMENT:
            if subject < 0:
                subject = UNMAPPED
            also = subject
            doubts = np.int64(role == R.STATEMENT or subject == UNMAPPED)
            if role == R.ROWS_END:
                statement, m = _list(lists, m, subject, NEVER)
                later = statement
            elif role == R.STATEMENT:
                statement, m = _list(lists, m, subject, NEVER)
                later, m = _list(lists, m, subject, later)
            elif statement != later or statement < ROOTS or lists[statement, L_SUBJECT] != subject:
                is_one = statement == later
                if later != EVER:
                    behind = later
                statement, m = _list(lists, m, subject, statement)
                if is_one:
                    later = statement
                else:
                    later, m = _list(lists, m, subject, later)
        elif role == R.DUMMY_ROWS:
            one_of, m = _rows_before(roles, subjects, first, i, lists, m)
            statement = NEVER
            later = EVER
        elif role == R.HIDDEN or role == R.GAP:
            one_of = DROPPED
        elif role == R.WITHHELD:
            one_of = DROPPED
            statement = NEVER
        else:
            doubts = np.int64(role == R.KEEP)
            statement = EVER
            later = EVER
        last = n - 1
        if (
            last >= begin
            and atoms[last, A_LIST] == one_of
            and atoms[last, A_SUBJECT] == also
            and behind == NO_LIST
            and atoms[last, A_LATER] == NO_LIST
            and offsets[i] + sizes[i] == atoms[last, A_START]
            and role != R.REPLACED
            and (roles[i + 1] & ~R.ENDS) != R.REPLACED
        ):
            atoms[last, A_FIRST] = i
            atoms[last, A_START] = offsets[i]
            atoms[last, A_SIZE] += sizes[i]
            atoms[last, A_DOUBTS] += doubts
        else:
            atoms[n, A_FIRST] = i
            atoms[n, A_STOP] = i + 1
            atoms[n, A_START] = offsets[i]
            atoms[n, A_SIZE] = sizes[i]
            atoms[n, A_LIST] = one_of
            atoms[n, A_SUBJECT] = also
            atoms[n, A_LATER] = behind
            atoms[n, A_DOUBTS] = doubts
            n += 1
    return n, m


@inner
def _fill_subject(stamp, words, filters, n_filters, subject, call):
    """Fill a subject's words."""
    stamp[subject] = call
    send = _NONE
    undecided = _NONE
    hit = _NONE
    for j in range(n_filters):
        flags = load_u32(np.uintp(filters[j, F_FLAGS]) + np.uintp(4) * np.uintp(subject))
        bit = _ONE << np.uint64(j)
        if flags & _SEND:
            send |= bit
        if flags & _UNDECIDED:
            undecided |= bit
        if flags & _HIT:
            hit |= bit
    words[subject, W_SEND] = send
    words[subject, W_UNDECIDED] = undecided
    words[subject, W_HIT] = hit


@inlined
def _word(w, filters, n_filters, subject, call):
    """Return the filters that send a subject."""
    found = w.call[UNMAPPED_SENT]
    if subject >= 0:
        if w.stamp[subject] != call:
            _fill_subject(w.stamp, w.subject, filters, n_filters, subject, call)
        found = w.subject[subject, W_SEND]
    return found


@inlined
def _weigh_atoms(w, filters, n_filters, call, n, end, lists_end, sends_all, kept):
    """Make the words of a transaction's atoms from ``n`` to ``end``. Return the filters that are sent any of them.

    The transaction's lists end before ``lists_end``. ``sends_all`` are the filters that are sent all events, and
    ``kept`` those that were sent an event of the transaction before.
    """
    for k in range(ROOTS, lists_end):
        w.list_word[k] = (
            _word(w, filters, n_filters, w.lists[k, L_SUBJECT], call) | w.list_word[w.lists[k, L_TAIL]]
        )
    kept |= sends_all
    for a in range(n, end):
        one_of = w.atoms[a, A_LIST]
        w.atom[a, ATOM_ENDS] = _NONE
        sent = _NONE
        if one_of >= 0:
            sent = w.list_word[one_of]
            also = w.atoms[a, A_SUBJECT]
            if also != NO_SUBJECT:
                sent &= _word(w, filters, n_filters, also, call)
            if w.atoms[a, A_LATER] != NO_LIST:
                w.atom[a, ATOM_ENDS] = sent & ~w.list_word[w.atoms[a, A_LATER]] & ~sends_all
            sent |= sends_all
            kept |= sent
        w.atom[a, ATOM_SENT] = sent
    for a in range(n, end):
        if w.atoms[a, A_LIST] == FRAMING:
            w.atom[a, ATOM_SENT] = kept
    return kept


@inlined
def _fetch_events(c, first, stop):
    """Fetch the events of a transaction into the processor's cache. Each cache line holds eight offsets."""
    for event in range(first, min(stop, first + _EVENTS_AHEAD), 8):
        prefetch(c.offset, event)
        prefetch(c.size, event)
        prefetch(c.subject, event)
        prefetch(c.role, event)


@inlined
def _weigh_transactions(c, filters, n_filters, low, w, call, live, off):
    """Make the words of the transactions from number ``low`` on as far as no atom is needed.

    T_PART gets the filters that may be sent a part. Return the number of transactions with such filters.
    """
    n_txn = c.txn_subject.size
    n = 0
    for t in range(low, n_txn):
        subject = c.txn_subject[t]
        is_open = c.is_open and t == n_txn - 1
        whole = off
        candidates = _NONE
        hits = _NONE
        if subject == R.SKIP:
            whole = _NONE
        elif is_open or (t == 0 and (c.carried or c.is_kept)):
            candidates = live
            hits = live & ~off
            whole = _NONE
        elif subject == R.KEPT:
            whole = live
        elif subject >= 0 or c.txn_set[t] < c.txn_set[t + 1]:
            # The members of the transaction's set, or its only subject, decide about the whole.
            every = _ALL
            some = _NONE
            undecided = _NONE
            used = _NONE
            for k in range(c.txn_set[t], c.txn_set[t + 1] + (subject >= 0)):
                member = subject if subject >= 0 else c.set_subject[k]
                sent = _word(w, filters, n_filters, member, call)
                every &= sent
                some |= sent
                undecided |= w.subject[member, W_UNDECIDED]
                used |= w.subject[member, W_HIT]
                hits |= w.subject[member, W_HIT] & ~sent
            whole |= every & ~undecided
            candidates = some & ~whole
            hits = (hits | (used & some)) & ~whole
        elif subject == R.MIXED:
            candidates = live
            if not c.has_gaps:
                candidates &= ~off
            whole &= ~candidates
            hits = live & ~off
        w.transaction[T_BUSY, t] = live if is_open and subject != R.SKIP else whole | hits
        w.transaction[T_WHOLE, t] = whole
        w.transaction[T_PART, t] = candidates
        w.transaction[T_HITS, t] = hits
        if whole | candidates:
            # The offsets and events lie scattered, and the processor would wait for each cache line.
            prefetch(c.offset, c.txn_event[t])
            prefetch(c.offset, c.txn_event[t + 1])
        if candidates:
            w.candidate[n] = t
            n += 1
            _fetch_events(c, c.txn_event[t], c.txn_event[t + 1])
    for h in range(c.hits.shape[0]):
        t = c.hits[h, 0]
        w.transaction[T_HITS, t] = live & ~off
        w.transaction[T_BUSY, t] |= live & ~off
    return n


@inner
def weigh(c, filters, n_filters, low, w, call):
    """Make the words of the transactions from number ``low`` on, and of their atoms.

    ``call`` is a number that no earlier call with the same arrays had.
    """
    live = _ALL >> np.uint64(FILTERS - n_filters)
    off = _NONE
    unmapped = _NONE
    for j in range(n_filters):
        if filters[j, F_IS_OFF]:
            off |= _ONE << np.uint64(j)
        if filters[j, F_UNMAPPED]:
            unmapped |= _ONE << np.uint64(j)
    w.call[UNMAPPED_SENT] = unmapped
    w.call[ROWS_KEPT] = _NONE
    for k in range(ROOTS):
        w.lists[k, L_ONLY] = NO_SUBJECT
        w.lists[k, L_OPEN] = k == OPEN
        w.list_word[k] = _NONE
    w.list_word[EVER] = _ALL
    if c.rows_kept:
        w.list_word[BEFORE] = _ALL
    candidates = _weigh_transactions(c, filters, n_filters, low, w, call, live, off)
    n = np.int64(0)
    for k in range(candidates):
        t = w.candidate[k]
        first, stop = c.txn_event[t], c.txn_event[t + 1]
        is_open = c.is_open and t == c.txn_subject.size - 1
        begin = n
        n, m = atoms_of(
            c.offset, c.size, c.role, c.subject, first, stop, is_open, w.atoms, n, w.lists, np.int64(ROOTS)
        )
        rows = np.int64(NEVER)
        if is_open:
            rows, m = _rows_before(c.role, c.subject, first, stop, w.lists, m)
        sends_all = live if c.txn_subject[t] == R.KEPT else off
        before = live if t == 0 and c.is_kept else _NONE
        kept = _weigh_atoms(w, filters, n_filters, call, begin, n, m, sends_all, before)
        w.call[ROWS_KEPT] = w.list_word[rows]
        w.atom_first[t] = begin
        w.atom_until[t] = n
        w.transaction[T_PART, t] &= kept
        w.transaction[T_BUSY, t] |= w.transaction[T_PART, t]
