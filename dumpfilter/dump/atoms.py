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

An *atom* is a run of neighbouring events that every filter sends or drops together. :func:`atoms_of` walks a
transaction backward, so that the events that decide about an event are known before the event is met. An atom names a
list of subjects (tables and statements) and one more subject. A filter sends the atom if it sends the one subject and
any subject of the list. Lists share their tails, since a later event of a statement belongs to the lists of all events
before.

The verdicts of 64 filters about a subject are one word of 64 bits, with one bit for each filter. :func:`weigh`
makes a word for each atom, and words for each transaction. The words of a transaction name the filters that send the
whole transaction, and the filters that send a part. Only a transaction of which some filter sends a part is cut into
atoms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int32s, Int64s, Int64s2, UInt64s, UInt64s2
from dumpfilter.base.compiler.kernels import inlined, inner
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.native import array_at, prefetch
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_HIT_F, FILTER_UNDECIDED_F

FILTERS = 64
"""The largest number of filters whose decisions one call of the compiled code computes. Each filter is one bit of a
64-bit word.
"""

A_FIRST, A_STOP, A_START, A_SIZE, A_LIST, A_SUBJECT, A_LATER, A_DOUBTS = range(8)
"""The columns of an atom's row (neighbouring events that every filter sends or drops together).

- A_FIRST, A_STOP: the number of its first event, and the number after its last event.
- A_START, A_SIZE: the file offset of its first event, and its bytes.
- A_LIST: the number of a list of subjects (tables and statements); or DROPPED or FRAMING. A filter sends the atom only
  if it sends any subject of the list.
- A_SUBJECT: one more subject that the filter must send; NO_SUBJECT for none.
- A_LATER: the list of the statement's later subjects, if a rows event may need STMT_END_F; else NO_LIST.
- A_DOUBTS: the number of events about which a filter may be unable to decide.
"""
ATOM_COLUMNS = 8

DROPPED, FRAMING, NO_LIST = -1, -2, -3
"""Values of A_LIST and A_LATER in place of the number of a list of subjects.

An atom is a run of events that a filter sends or drops together. No filter sends an atom with DROPPED. An atom with
FRAMING (GTID, BEGIN and the like) is sent with any other event of its transaction. NO_LIST means that the column names
no list of subjects (tables and statements).
"""

NO_SUBJECT = -1
UNMAPPED = -5
"""The subject number of rows events without a table map. A filter sends such events unless an imposed filter (one that
the master's operator sets) drops them.
"""

NEVER, EVER, OPEN, BEFORE = range(4)
"""The numbers of the four predefined lists of subjects (tables and statements), with which all other lists end. A
filter sends a list if the filter sends any subject of the list.

- NEVER: the empty list, which no filter sends.
- EVER: the list that every filter sends.
- OPEN: the list for the statement's events after the segment (a part of a binlog file), whose subjects are not known
  yet.
- BEFORE: the list for the statement's rows events before the segment.
"""
ROOTS = 4

L_SUBJECT, L_TAIL, L_ONLY, L_OPEN = range(4)
"""The columns of the array of linked lists of subjects (tables and statements). A list is a row of the array.

- L_SUBJECT, L_TAIL: the first subject, and the row of the list that has the other subjects.
- L_ONLY: the subject, if the list has only one; else NO_SUBJECT.
- L_OPEN: 1 for a list that ends with OPEN, the unknown subjects after the segment (a part of a binlog file).
"""
LIST_COLUMNS = 4

MOST_LISTS = 3
"""The largest number of lists of subjects (tables and statements) that one event can add. A rows event can be in two
lists for the events before it, and in one for dummy rows. Dummy rows are a rows event without a table, which only ends
a statement.
"""

F_FLAGS, F_HITS, F_IS_OFF, F_UNMAPPED, F_FIRST, F_CHUNK_SIZE, F_POSITION, F_RESUME = range(8)
"""The columns of the input row that the caller fills for each filter.

- F_FLAGS: the memory address of the filter's flags (its verdict as bits), one uint32 for each subject (table or
  statement).
- F_HITS: the memory address of an array with MOST_HITS int8 for each subject: the kinds of rules that match it.
- F_IS_OFF: 1 for a filter without rules.
- F_UNMAPPED: 1 if the filter sends rows without a table map.
- F_FIRST: the number of the first transaction to decide.
- F_CHUNK_SIZE: the bytes of events after which a chunk (a message to a slave) ends.
- F_POSITION, F_RESUME: the file offset where the slave's last chunk ended, and the last transaction boundary at or
  before it.
"""

W_SEND, W_UNDECIDED, W_HIT = range(3)
"""The row indexes of :attr:`Weighed.subject`, which has a column for each subject (a table or statement). An entry is a
64-bit word, and its bit j is about filter j.

- W_SEND: set if the filter sends the subject's events.
- W_UNDECIDED: set if the filter cannot decide about the subject's events.
- W_HIT: set if rules of the filter match the subject's events, and the master must count these rule hits.
"""
SUBJECT_WORDS = 3

T_BUSY, T_WHOLE, T_PART, T_HITS = range(4)
"""The row indexes of :attr:`Weighed.transaction`, which has a column for each transaction. An entry is a 64-bit word,
and its bit j is about filter j.

- T_BUSY: set unless the filter simply drops the transaction. The filter may send some of it, or the master may have to
  count hits (matches) of the filter's rules. The bit is also set if the transaction continues after the segment.
- T_WHOLE, T_PART: set if the filter sends the whole transaction; set if the filter sends only some of its events.
- T_HITS: set if rules of the filter may match events that the filter drops, so that the master must count the hits.
"""
TRANSACTION_WORDS = 4

UNMAPPED_SENT, ROWS_KEPT = range(2)
"""The indexes of the two 64-bit words in :attr:`Weighed.call`. Bit j of a word is about filter j.

- UNMAPPED_SENT: set if the filter sends rows events without a table map.
- ROWS_KEPT: set if the filter has sent rows of the statement that continues after the segment (a part of a binlog
  file).
"""
CALL_WORDS = 2

ATOM_SENT, ATOM_ENDS = range(2)
"""The column indexes of :attr:`Weighed.atom`, which has a row for each atom (a run of events that a filter sends or
drops together). An entry is a 64-bit word, and its bit j is about filter j.

- ATOM_SENT: set if the filter sends the atom.
- ATOM_ENDS: set if the filter sends the atom's rows event with STMT_END_F set, because it drops all later rows of the
  statement.
"""
ATOM_WORDS = 2

_EVENTS_AHEAD = 64
"""The number of events of a transaction that :func:`weigh` prefetches into the processor's cache. The processor itself
prefetches later events.
"""

_NONE = np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_HIT = np.uint32(FILTER_HIT_F)


class Columns(NamedTuple):
    """The arrays of a segment (a part of a binlog file), from which :mod:`dumpfilter.dump.cut` decides for each filter
    which events are sent.

    ``offset``, ``size``, ``role`` and ``subject`` have an entry for each event: the byte offset in the file, the size
    in bytes, the role, and the index of the event's table or statement in the binlog set's list of them. A role
    (:mod:`dumpfilter.binlog.roles`) says with which other events the master sends the event. The arrays ``txn_...``
    have an entry for each transaction, as :class:`~dumpfilter.index.segment.Segment` describes them. ``txn_event`` is
    the index of a transaction's first event. ``txn_source`` (the index of the GTID source) and ``txn_number`` are the
    transaction's GTID. ``txn_set`` is the start of the transaction's entries in ``set_subject``, a list of tables. If a
    transaction has such entries, equal verdicts about all of them decide the whole transaction.

    Columns that are made for one filter may begin with carried events. A carried event lies before the segment, in the
    transaction that continues in the segment. Later events of this transaction decide whether the carried event is
    sent.
    """

    offset: Int64s
    size: Int64s
    role: Bytes
    subject: Int32s
    txn_event: Int64s
    txn_subject: Int32s
    """For each transaction, the number of its only subject (table or statement), int32; or a negative constant:
    ``MIXED`` for several subjects, ``KEPT`` (sent whole) or ``SKIP`` (dropped whole).
    """
    txn_source: Int32s
    txn_number: Int64s
    txn_set: Int64s
    set_subject: Int32s
    dropped: Int64s2
    """The runs of consecutive GTIDs that Gap events name, one in each row. The columns are those of
    :attr:`Segment.dropped <dumpfilter.index.segment.Segment.dropped>`, such as TOLD_FIRST and TOLD_LAST.

    A Gap event of a relay log stands for transactions that an earlier master dropped.
    """
    end: int
    """The byte offset in the binlog file at which the segment (a part of a binlog file) ends."""
    is_open: bool
    """Whether the last transaction of the segment (a part of a binlog file) continues in the next one."""
    has_gaps: bool
    """Whether Gap events (a relay log's notes about dropped events) stand inside transactions. Even a filter without
    rules drops a Gap event.
    """
    hit_role: Bytes
    """For each event, its role (how the event travels in a filtered stream) for counting rule hits, the matches of
    filter rules. Unlike in ``role``, XA COMMIT and XA ROLLBACK have the role FRAME, because an applier evaluates no
    rule for them.
    """
    has: Bools
    """For each transaction, whether the slave already has it, bool. Such a transaction does not count as read. An
    empty array means that the slave has none.
    """
    carried: int
    """The number of carried events with which the columns begin. A carried event lies before the segment (a part of a
    binlog file), and belongs to a transaction that continues in the segment. The transaction's events in the segment
    decide whether the carried event is sent.
    """
    is_kept: bool
    """Whether the slave has received an event of the first transaction with an earlier segment (part of a binlog file).
    False if the first transaction begins in this segment.
    """
    rows_kept: bool
    """Whether the slave has received rows of the first statement with an earlier segment (part of a binlog file). False
    if the first statement begins in this segment.
    """
    hits: Int64s2
    """The rule hits (matches of filter rules with dropped events) that are known before the segment is decided, int64
    of shape (n, 3). The columns are the transaction's number, the index of the kind of rule in
    :data:`~dumpfilter.filter.rules.SLAVE_RULE_KINDS`, and the count. The rows are in the order of the transactions.

    These hits were counted in the earlier part of a continued transaction, or inside compressed transactions.
    """

    def with_subjects(self, transactions: list[int] | np.ndarray, subject: int) -> Columns:
        """Return a copy of the columns with ``subject`` as the entry of ``txn_subject`` for each transaction in
        ``transactions``.

        ``subject`` is usually the constant ``SKIP``, with which every filter drops the transaction, or ``MIXED``, with
        which a filter decides each of the transaction's events separately. The index of a table or statement is
        possible, too. ``transactions`` has indexes of transactions, or is a boolean mask over all transactions.
        """
        txn_subject = self.txn_subject.copy()
        txn_subject[transactions] = subject
        return self._replace(txn_subject=txn_subject)

    def with_roles(self, role: np.ndarray) -> Columns:
        """Return a copy of the columns with ``role`` as the events' roles, uint8. A role says with which other events
        the master sends an event, for example only with the rest of its transaction.

        In the copy ``txn_set`` is all 0, so that no transaction has a list of its tables. With such a list, the
        verdicts about the tables decide the whole transaction, and the new roles would have no effect. Without a list,
        a transaction with several tables is decided event by event. The entries of ``txn_subject`` stay.
        """
        return self._replace(role=role, txn_set=np.zeros_like(self.txn_set))


class Weighed(NamedTuple):
    """The results of :func:`weigh`, which tell for each transaction and atom of a segment (a part of a binlog file) the
    filters that send it. An atom is a run of neighbouring events that a filter sends or drops together.

    The uint64 arrays consist of 64-bit words, and bit j of a word is about filter j.
    """

    subject: UInt64s2
    """For each subject (table or statement), three 64-bit words with a bit for each filter, uint64 of shape
    (SUBJECT_WORDS, n). :data:`W_SEND` says what each row means.
    """
    transaction: UInt64s2
    """For each transaction, four 64-bit words with a bit for each filter, uint64 of shape (TRANSACTION_WORDS, n).
    :data:`T_BUSY` says what each row means.
    """
    candidate: Int64s
    """The numbers of the transactions that are cut into atoms (runs of events that a filter sends or drops together),
    ascending.
    """
    busy: Int64s
    """For one filter, the numbers of the transactions that the filter does not simply drop, ascending. The filter sends
    such a transaction whole or in part, or may need its rule hits (matches) counted. Or the transaction is still open
    at the end of the segment (part of the binlog file).

    The array is filled anew for each filter.
    """
    atom_first: Int64s
    """For each transaction, the index of its first atom (run of events with one decision) in ``atoms``, if the
    transaction is cut into atoms.
    """
    atom_until: Int64s
    """For each transaction, the index after its last atom (run of events with one decision) in ``atoms``, if the
    transaction is cut into atoms.
    """
    atoms: Int64s2
    """The atoms (runs of events that a filter sends or drops together), int64 of shape (n, ATOM_COLUMNS). The atoms of
    one transaction are neighbours, with the last one first.
    """
    atom: UInt64s2
    """For each atom (run of events with one decision), two 64-bit words with a bit for each filter, uint64 of shape (n,
    ATOM_WORDS). :data:`ATOM_SENT` says what each column means.
    """
    lists: Int64s2
    """The lists of subjects (tables and statements), int64 of shape (n, LIST_COLUMNS). The row in a list's column
    L_TAIL, with the list's other subjects, is always an earlier row.
    """
    list_word: UInt64s
    """For each list of subjects (tables and statements), a 64-bit word, uint64. Bit j is set if filter j sends any
    subject of the list.
    """
    call: UInt64s
    """Two 64-bit words about the whole segment (a part of a binlog file), uint64 of shape (CALL_WORDS,).
    :data:`UNMAPPED_SENT` says what each word means.
    """


@inlined
def _list(lists, n, subject, tail):
    """Add a list to ``lists``, an array of linked lists of tables and statements. The new list has ``subject`` (the
    index of a table or statement), followed by the members of the list in row ``tail``. Return the new list's row
    index, and the new number of rows.

    ``n`` is the number of rows before the call. If ``tail`` is EVER (the list that every filter sends), nothing is
    added, and EVER and ``n`` are returned.
    """
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
    """Add to ``lists`` a list of the tables that have rows events in the same statement before event number ``event``.
    Return the list's row index in ``lists``, and the new number of rows of ``lists``.

    A filter that sends any table of the list has sent rows of the statement. The caller needs this for dummy rows (a
    rows event without a table, which only ends a statement), and at the segment's end.

    ``lists`` is an array of linked lists (see L_SUBJECT and L_TAIL), which has ``n`` rows before the call. Each change
    of table between neighbouring rows events adds one row. ``roles`` and ``subjects`` have each event's role and the
    number of its table.

    The function walks back to the end of the previous rows statement, and then the list ends with NEVER, the empty
    list. If the walk finds no such end before ``first``, the list ends with BEFORE, which stands for the statement's
    rows events before the segment (a part of a binlog file). ``first`` is the transaction's first event in the segment.
    If the transaction begins there, BEFORE counts as empty. Without any rows event the result is NEVER or BEFORE
    itself.
    """
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
    """Cut the events of one transaction into atoms, and append the atoms to ``atoms``, the last atom first. Return the
    new numbers of rows of ``atoms`` and of ``lists``.

    An atom is a run of neighbouring events that a filter sends or drops together.

    Parameters:
        offsets, sizes, subjects: for each event of the segment (a part of a binlog file), its byte offset, its size,
            and the number of its table or statement.
        roles: for each event of the segment, its role, which says with which other events the master sends it.
        first, stop: the transaction's events have the numbers from ``first`` up to, but without, ``stop``.
        is_open: whether the transaction continues in the next segment.
        atoms, n: the array of atoms, which has ``n`` rows before the call.
        lists, m: the array of lists of tables and statements, which has ``m`` rows before the call. A filter sends an
            atom only if the filter sends a member of the atom's list.
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
def _fill_subjects(words, filters, n_filters, first, stop):
    """Fill the columns ``first`` up to, but without, ``stop`` of ``words``, uint64 with three rows and a column for
    each table or statement. Bit j of an entry is about filter j. The row W_SEND says whether the filter sends the
    events of the table or statement. W_UNDECIDED says whether the filter cannot decide about them. W_HIT says whether
    hits (matches) of the filter's rules must be counted.

    The bits come from the filters' flags, whose memory addresses are in the first ``n_filters`` rows of ``filters``.
    """
    words[:, first:stop] = _NONE
    for j in range(n_filters):
        flags = array_at(np.uintp(filters[j, F_FLAGS]), stop)
        # With unsigned indexes the compiler makes vector instructions of this loop.
        for subject in range(np.uintp(first), np.uintp(stop)):
            bits = flags[subject]
            words[W_SEND, subject] |= np.uint64(bits & _SEND != 0) << np.uint64(j)
            words[W_UNDECIDED, subject] |= np.uint64(bits & _UNDECIDED != 0) << np.uint64(j)
            words[W_HIT, subject] |= np.uint64(bits & _HIT != 0) << np.uint64(j)


@inlined
def _word(w, subject):
    """Return a 64-bit word whose bit j is set if filter j sends the events of ``subject``, the index of a table or
    statement.

    A negative ``subject`` means rows without a table map. ``w`` (:class:`Weighed`) has the words.
    """
    return w.subject[W_SEND, np.uintp(subject)] if subject >= 0 else w.call[UNMAPPED_SENT]


@inlined
def _weigh_atoms(w, n, end, lists_end, sends_all, kept):
    """Find out which filters send each atom of one transaction. An atom is a run of neighbouring events that a filter
    sends or drops together.

    A word is a uint64 whose bit j stands for filter j. Row i of ``w.atom`` gets two words about the atom in row i of
    ``w.atoms``. ATOM_SENT has the filters that send the atom. ATOM_ENDS has the filters for which the master must set
    STMT_END_F in the atom's rows event, because it is the last one of its statement that is sent. Return the word of
    the filters that send any of the atoms, or sent an event of the transaction in an earlier segment.

    Parameters:
        w: the arrays of :class:`Weighed`. ``w.subject`` must have the filters' decisions about tables and statements.
        n, end: the transaction's atoms are the rows ``n`` up to, but without, ``end`` of ``w.atoms``.
        lists_end: the number of used rows of ``w.lists``, which has lists of tables and statements. Most atoms name
            such a list, and are sent only if a member of the list is sent.
        sends_all: the word of the filters that send every event of the transaction.
        kept: the word of the filters that sent an event of the transaction in an earlier segment (part of a binlog
            file).
    """
    for k in range(ROOTS, lists_end):
        w.list_word[k] = _word(w, w.lists[k, L_SUBJECT]) | w.list_word[w.lists[k, L_TAIL]]
    kept |= sends_all
    for a in range(n, end):
        one_of = w.atoms[a, A_LIST]
        w.atom[a, ATOM_ENDS] = _NONE
        sent = _NONE
        if one_of >= 0:
            sent = w.list_word[one_of]
            also = w.atoms[a, A_SUBJECT]
            if also != NO_SUBJECT:
                sent &= _word(w, also)
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
    """Prefetch the columns of a transaction's events into the processor's cache. The events have the numbers from
    ``first`` up to, but without, ``stop`` in ``c``, the columns of the segment (a part of a binlog file). Each cache
    line holds eight offsets.
    """
    for event in range(first, min(stop, first + _EVENTS_AHEAD), 8):
        prefetch(c.offset, event)
        prefetch(c.size, event)
        prefetch(c.subject, event)
        prefetch(c.role, event)


@inlined
def _weigh_transactions(c, low, w, live, off):
    """Decide by the filters' verdicts about tables and statements, without a look at single events, which filters send
    each transaction of a segment (a part of a binlog file). The transactions with numbers from ``low`` on are decided.

    A word is a uint64 whose bit j stands for filter j. Column t of ``w.transaction`` gets four words about transaction
    number t:

    - T_WHOLE has the filters that send the whole transaction.
    - T_PART has the filters that may send only some of its events, so that the caller must decide single events.
    - T_HITS has the filters whose rule hits (matches with dropped events) the master must count.
    - T_BUSY has the filters of T_WHOLE and T_HITS, or all filters if the transaction continues after the segment.

    The numbers of transactions with a bit in T_PART are written to the beginning of ``w.candidate``. Return how many
    there are.

    Parameters:
        c: the segment's :class:`Columns`.
        low: the number of the first transaction to decide.
        w: the arrays of :class:`Weighed`. ``w.subject`` must have the filters' decisions about tables and statements.
        live: the word with a bit for each filter of the call, which may have fewer than 64 filters.
        off: the word of the filters without rules, which send everything.
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
                # An unsigned index needs no check for a negative one.
                member = np.uintp(subject if subject >= 0 else c.set_subject[k])
                sent = w.subject[W_SEND, member]
                every &= sent
                some |= sent
                undecided |= w.subject[W_UNDECIDED, member]
                used |= w.subject[W_HIT, member]
                hits |= w.subject[W_HIT, member] & ~sent
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
        # No branch, since no processor predicts which transactions a filter drops.
        w.candidate[n] = t
        n += candidates != _NONE
    for h in range(c.hits.shape[0]):
        t = c.hits[h, 0]
        w.transaction[T_HITS, t] = live & ~off
        w.transaction[T_BUSY, t] |= live & ~off
    return n


@inner
def weigh(c, filters, n_filters, low, known, subjects, w):
    """Write to ``w`` (:class:`Weighed`) which of up to 64 filters send each transaction of a segment (a part of a
    binlog file), from transaction number ``low`` on. The results are 64-bit words, in which bit j stands for filter j.

    A transaction that some filters may send in part is cut into atoms, and each atom has words, too. An atom is a run
    of events that a filter sends or drops together. ``c`` are the segment's columns, and ``filters`` has one row of
    input for each of ``n_filters`` filters, with the columns ``F_...``. There are ``subjects`` tables and statements.
    For the first ``known`` of them, an earlier call for the same filters has filled the words.
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
    _fill_subjects(w.subject, filters, n_filters, known, subjects)
    candidates = _weigh_transactions(c, low, w, live, off)
    n = np.int64(0)
    for k in range(candidates):
        t = w.candidate[k]
        _fetch_events(c, c.txn_event[t], c.txn_event[t + 1])
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
        # The first transaction alone can have rows before the segment.
        w.list_word[BEFORE] = _ALL if t == 0 and c.rows_kept else _NONE
        kept = _weigh_atoms(w, begin, n, m, sends_all, before)
        w.call[ROWS_KEPT] = w.list_word[rows]
        w.atom_first[t] = begin
        w.atom_until[t] = n
        w.transaction[T_PART, t] &= kept
        w.transaction[T_BUSY, t] |= w.transaction[T_PART, t]
