"""The compiled scan: one pass over a buffer of events, which fills the columns of a segment (consecutive events as
arrays).

The scan is the only code that touches every event of a binlog. It follows the grammar below. A word in capitals is a
group of event types (:class:`~dumpfilter.binlog.events.Symbol`, explained in docs/events.md) or, such as ``BEGIN`` and
``XA START``, a QUERY event with that text. Words in lower case are defined here. ``x*`` is any number of x, ``[x]``
none or one.

::

    file        := FORMAT_DESCRIPTION ( FORMAT_DESCRIPTION | FILE | START_ENCRYPTION | other | transaction )*
    transaction := opening ( statement | INCIDENT )
                 | MARIADB_GTID part* end
                 | [opening] ( BEGIN | XA START ) part* end
                 | [opening] PAYLOAD
                 | statement                                    (in binlogs without GTIDs)
    opening     := GTID | MARIADB_GTID with FL_STANDALONE
    other       := OTHER | IGNORABLE
    part        := statement | savepoint | FILE | other
    statement   := CONTEXT* ( TABLE_MAP ( TABLE_MAP | ROWS )* ROWS with STMT_END_F | QUERY | LOAD_QUERY )
    savepoint   := SAVEPOINT | ROLLBACK TO | RELEASE SAVEPOINT | XA END
    end         := XID | XA_PREPARE | COMMIT | ROLLBACK

The grammar is a table here (:data:`GRAMMAR`): a row for each *word*, which is a group of event types or a kind of text.
From event to event, :func:`scan` remembers only one of the four states of :class:`Place`. All other data live in numpy
arrays that the caller owns, so that a scan can stop at any event and go on. :class:`Stop` names the reasons to stop.

The module :mod:`tests.index.plain_index` does the same in plain Python. Tests compare both.
"""

from __future__ import annotations

import enum
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.compiler.arrays import (
    Bytes,
    Bytes2,
    Int32s,
    Int64s,
    Int64s2,
    UInt32s,
    UInt64s,
    UInt64s2,
)
from dumpfilter.base.compiler.kernels import inlined, inner, kernel
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    LOG_EVENT_IGNORABLE_F,
    STMT_END_F,
    SYMBOLS,
    EventType,
    Symbol,
)
from dumpfilter.binlog.gap_events import (
    GAP_END_AT,
    GAP_KIND_AT,
    GAP_LENGTH,
    GAP_VERSION_AT,
    KIND_GAP,
    SIGNATURE,
)
from dumpfilter.binlog.gtid import GNO_MAX
from dumpfilter.binlog.gtid_events import FL_COMPLETED_XA, FL_PREPARED_XA, FL_STANDALONE
from dumpfilter.binlog.native import load_u8, load_u16, load_u32, load_u64, prefetch_ahead, read_file
from dumpfilter.binlog.rows_events import FLAGS_LENGTH, TABLE_ID_LENGTH


class Stop(enum.IntEnum):
    """The reasons for which :func:`scan` (the compiled pass over events) returns, such as a full array or a damaged
    event.
    """

    DONE = 0
    """The scan has read all whole events of the buffer."""
    NEW_TABLE = 1
    """The next event is a Table_map event with a name that :class:`Names` lacks. The caller registers the table, and
    the scan goes on.
    """
    GROW_TABLE_IDS = 2
    """The hash table of table ids (:class:`TableIds`) is full. The caller enlarges it, and the scan goes on."""
    FORMAT_DESCRIPTION = 3
    """The next event is a format description event, which may change the layout of later events. The caller reads it.
    """
    BAD_LENGTH = 4
    """The next event's header gives a length that is less than the length of the header itself."""
    BAD_CHECKSUM = 5
    """The next event's checksum is wrong."""
    BAD_EVENT = 6
    """The next event is malformed: it is too short for its type, contradicts itself, or must not stand at this
    position.
    """
    ENCRYPTED = 7
    """The next event announces that the events after it are encrypted, so that the scan cannot read them."""
    OUTPUT_FULL = 8
    """The arrays for the scanned events are full. The caller enlarges them, and the scan goes on."""
    FRAGMENT = 9
    """The next event is a fragment of a rows event (MariaDB's Partial_row_data), which the scan cannot read."""
    LARGE_SEQ_NO = 10
    """The next event is a GTID event whose seq_no does not fit into a column of int64."""


class Place(enum.IntEnum):
    """The states of a scan between two events. The scan is outside of transactions, or inside a transaction of one of
    three types.
    """

    BETWEEN = 0
    """The scan is between two transactions."""
    STATEMENT = 1
    """The scan is inside a transaction that ends with its next statement, such as DDL after its GTID event."""
    TRANSACTION = 2
    """The scan is after BEGIN. Only COMMIT, ROLLBACK, Xid or XA_prepare ends the transaction."""
    XA_TRANSACTION = 3
    """The scan is after XA START. Only COMMIT, ROLLBACK, Xid or XA_prepare ends the transaction."""


STATE = np.dtype(
    [
        ("place", np.int64),
        # The number of table ids in the hash table TableIds.
        ("table_ids", np.int64),
        ("checksum", np.int64),
        ("verify", np.int64),
        ("query_header_length", np.int64),
    ]
)
"""The data type of a scan's state. The caller keeps the state between two calls in an array of one record."""


class Buffer(NamedTuple):
    """A part of a binlog file in memory that a call of the scan reads: its bytes, and the byte offset in the file at
    which they begin.
    """

    data: Bytes
    offset: int


class Names(NamedTuple):
    """A hash table that maps the name of a table to the number of the table in the binlog set's register
    (:class:`~dumpfilter.index.subjects.Subjects`). A table gets its number when the scan first meets it.

    A key is a table's name as a Table_map event has it: length and database, NUL, length and table, NUL. The array
    ``heap`` holds all keys, one after the other.
    """

    heap: Bytes
    start: Int64s
    """The offset in ``heap`` at which the key of each subject (table or statement) begins."""
    length: Int64s
    """The length of the key of each subject (table or statement), bytes. The length is negative for a statement, which
    has no key.
    """
    slots: Int64s
    """The slots of the hash table. A slot holds the number of a table, or -1 if it is free.

    The number of slots is a power of two.
    """


class TableIds(NamedTuple):
    """A hash table that maps the table id in a rows event to the number of the table in the binlog set's register
    (:class:`~dumpfilter.index.subjects.Subjects`).

    An earlier Table_map event of the transaction gives the table this id. The number of slots is a power of two.
    """

    ids: UInt64s
    """The table id in each slot of the hash table, plus 1. The value 0 marks a free slot."""
    subjects: Int32s


class EventColumns(NamedTuple):
    """The columns of a segment (consecutive events as arrays) that have one entry for each event.
    :class:`~dumpfilter.index.segment.Segment` describes them.
    """

    offset: Int64s
    size: Int64s
    time: UInt32s
    type: Bytes
    role: Bytes
    subject: Int32s


class TransactionColumns(NamedTuple):
    """The columns of a segment (consecutive events as arrays) that have one entry for each transaction. They are the
    fields ``txn_…`` of :class:`~dumpfilter.index.segment.Segment`.
    """

    event: Int64s
    subject: Int32s
    source: Int32s
    number: Int64s
    server: UInt32s
    set: Int64s


# The column `source` has the number of a transaction's GTID source, or one of these values. A GTID source is a server
# UUID in MySQL, and a domain id with a server id in MariaDB.
NO_GTID = -1
UNREAD_GTID = -2
"""The value in the column ``source`` (index of the GTID source, such as a server UUID) for a transaction whose GTID has
a tag. The scan does not read tags, so its caller decodes such a GTID.
"""
NO_TRANSACTION = -3
"""The value in the column ``source`` (index of the GTID source, such as a server UUID) for an event between two
transactions, such as Rotate. Such an event has its own entry in the columns of transactions.
"""

LARGE = 1 << 16
"""The size of a transaction above which the index keeps no list of its tables and statements, bytes.

The master then decides about each event of the transaction separately.
"""

_LOOK_BACK = 8
"""The number of newest entries of a list that are compared before a table or a GTID source (such as a server UUID) is
appended. An older entry of the list may therefore be listed twice.
"""

_MIN_QUERY_HEADER = 13
_EXTENDED_QUERY_HEADER = 17
_LOAD_QUERY_HEADER = 26
_GNO_AT, _GTID_LENGTH = 17, 25
_MARIADB_GTID_LENGTH = 13
_MARIADB_FLAGS_AT = 12
_FL_XA = FL_PREPARED_XA | FL_COMPLETED_XA
"""The flags of MariaDB's Gtid event that mark the two parts of an XA transaction."""
_GAP_SIGNATURE = int.from_bytes(SIGNATURE, "little")
_DUMMY_TABLE_ID, _ALL_ONES = 0xFFFFFF, 0xFFFFFFFFFFFF
_DUMMY_ROWS_LENGTH = 12
"""The largest length of the body of a dummy rows event, bytes.

A server writes a dummy rows event, which has no table, only to end a statement.
"""
_U = np.uintp


class Word(enum.IntEnum):
    """The words of the binlog's grammar that the scan recognizes by an event's content, where the event's type is not
    enough. Examples are a rows event that ends its statement, and a Query event with the text BEGIN.

    The scan is a state machine. Its input symbols are groups of event types (:class:`~dumpfilter.binlog.events.Symbol`)
    and these words, whose numbers follow those of the symbols.
    """

    MARIADB_STANDALONE = 17
    MARIADB_XA = 18
    ROWS_END = 19
    DUMMY_ROWS = 20
    DUMMY_ROWS_END = 21
    BEGIN = 22
    END = 23
    """The text COMMIT or ROLLBACK, which ends a transaction."""
    SAVEPOINT = 24
    """The text SAVEPOINT, ROLLBACK TO or RELEASE SAVEPOINT."""
    XA_START = 25
    XA_END = 26
    XA_OTHER = 27
    """The text XA PREPARE, XA COMMIT or XA ROLLBACK."""
    GAP = 28
    """A Gap event (a relay log's note about dropped events) without an end position: it has only rule uses (hits), or
    it is the head of a relay log file.
    """
    GAP_OF_TRANSACTIONS = 29
    """A Gap event that stands for transactions that the master dropped."""
    MARIADB_LARGE_SEQ_NO = 30
    """A GTID event of MariaDB with a seq_no of 2**63 or more."""


_BAD = (-Stop.BAD_EVENT,) * 3
"""The effect of an event that must not appear inside a transaction: the scan stops with BAD_EVENT."""


class _Effect(enum.Enum):
    """The kinds of effects that an event has on the state of the scan. The value of each kind lists the next state
    (:class:`Place`) for each state before the event, in the order of Place.

    A negative number in place of a next state means that the scan ends at the event. The number is a negated
    :class:`Stop`, the reason for the end.
    """

    NONE = (Place.BETWEEN, Place.STATEMENT, Place.TRANSACTION, Place.XA_TRANSACTION)
    BETWEEN_ONLY = (Place.BETWEEN, *_BAD)
    OPENS = (Place.STATEMENT, Place.STATEMENT, Place.TRANSACTION, Place.XA_TRANSACTION)
    ENDS_STATEMENT = (Place.BETWEEN, Place.BETWEEN, Place.TRANSACTION, Place.XA_TRANSACTION)
    ENDS = (Place.BETWEEN,) * 4
    BEGINS = (Place.TRANSACTION,) * 4
    BEGINS_XA = (Place.XA_TRANSACTION,) * 4
    GTID = (Place.STATEMENT, *_BAD)
    GTID_BEGINS = (Place.TRANSACTION, *_BAD)
    GTID_BEGINS_XA = (Place.XA_TRANSACTION, *_BAD)
    ENCRYPTED = (-Stop.ENCRYPTED,) * 4
    FRAGMENT = (-Stop.FRAGMENT,) * 4
    LARGE_SEQ_NO = (-Stop.LARGE_SEQ_NO,) * 4


class _Rule(NamedTuple):
    """A rule of the binlog's grammar for a group of events (a :class:`Symbol` or a :class:`Word`): their role, their
    subject, and their effect on the scan's state.

    The role says on what condition the master sends the event. The subject is the table or statement that a filter
    decides about. Here it is only a constant: the event has none, or its statement is not numbered yet.
    """

    role: int
    effect: _Effect = _Effect.NONE
    subject: int = R.NOTHING


_RULES = {
    Symbol.OTHER: _Rule(R.KEEP),
    Symbol.FORMAT_DESCRIPTION: _Rule(R.FILE, _Effect.BETWEEN_ONLY),
    Symbol.FILE: _Rule(R.FILE),
    Symbol.START_ENCRYPTION: _Rule(R.FILE, _Effect.ENCRYPTED),
    Symbol.GTID: _Rule(R.GTID, _Effect.GTID),
    Symbol.MARIADB_GTID: _Rule(R.GTID, _Effect.GTID_BEGINS),
    Word.MARIADB_STANDALONE: _Rule(R.GTID, _Effect.GTID),
    Word.MARIADB_XA: _Rule(R.GTID, _Effect.GTID_BEGINS_XA),
    Word.MARIADB_LARGE_SEQ_NO: _Rule(R.GTID, _Effect.LARGE_SEQ_NO),
    Symbol.CONTEXT: _Rule(R.CONTEXT, _Effect.OPENS),
    Symbol.TABLE_MAP: _Rule(R.TABLE_MAP, _Effect.OPENS),
    Symbol.ROWS: _Rule(R.ROWS, _Effect.OPENS),
    Word.ROWS_END: _Rule(R.ROWS_END, _Effect.ENDS_STATEMENT),
    Word.DUMMY_ROWS: _Rule(R.DUMMY_ROWS, _Effect.OPENS),
    Word.DUMMY_ROWS_END: _Rule(R.DUMMY_ROWS, _Effect.ENDS_STATEMENT),
    Symbol.QUERY: _Rule(R.STATEMENT, _Effect.ENDS_STATEMENT, R.PENDING),
    Word.BEGIN: _Rule(R.FRAME, _Effect.BEGINS),
    Word.END: _Rule(R.FRAME, _Effect.ENDS),
    Word.SAVEPOINT: _Rule(R.FRAME, _Effect.ENDS_STATEMENT),
    Word.XA_START: _Rule(R.FRAME, _Effect.BEGINS_XA),
    Word.XA_END: _Rule(R.FRAME, _Effect.ENDS_STATEMENT),
    Word.XA_OTHER: _Rule(R.STATEMENT, _Effect.ENDS_STATEMENT, R.PENDING_XA),
    Symbol.LOAD_QUERY: _Rule(R.STATEMENT, _Effect.ENDS_STATEMENT, R.PENDING),
    Symbol.XID: _Rule(R.FRAME, _Effect.ENDS),
    Symbol.XA_PREPARE: _Rule(R.FRAME, _Effect.ENDS, R.PENDING),
    Symbol.PAYLOAD: _Rule(R.KEEP, _Effect.ENDS, R.PENDING),
    Symbol.INCIDENT: _Rule(R.KEEP, _Effect.ENDS_STATEMENT),
    Symbol.ROWS_FRAGMENT: _Rule(R.KEEP, _Effect.FRAGMENT),
    Symbol.IGNORABLE: _Rule(R.KEEP),
    Word.GAP: _Rule(R.GAP),
    Word.GAP_OF_TRANSACTIONS: _Rule(R.GAP, _Effect.BETWEEN_ONLY),
}
"""The rules of the grammar, by word (a group of events). Inside a transaction, an event of the group FILE has the role
KEEP instead (the master sends the event with the transaction).
"""

_TEXTS = (
    (b"BEGIN", True, Word.BEGIN),
    (b"COMMIT", True, Word.END),
    (b"ROLLBACK", True, Word.END),
    (b"ROLLBACK", False, Word.SAVEPOINT),
    (b"SAVEPOINT ", False, Word.SAVEPOINT),
    (b"RELEASE SAVEPOINT ", False, Word.SAVEPOINT),
    (b"XA START", False, Word.XA_START),
    (b"XA BEGIN", False, Word.XA_START),
    (b"XA END", False, Word.XA_END),
    (b"XA ", False, Word.XA_OTHER),
)
"""The texts of Query events that are words of the grammar, such as BEGIN (``Query_log_event::is_trans_keyword``).

The entries are the text in upper case, whether it is the whole text or its beginning, and the word. The first entry
that matches is used.
"""


class Grammar(NamedTuple):
    """The rules of the scan's state machine (the binlog's grammar) as arrays for compiled code. They tell the state
    after each event, and the event's role (the condition on which the master sends it).

    The scan takes them as an argument, because cached machine code would keep a constant's old value.
    """

    word: Bytes
    """For each event type, the number of its group (:class:`~dumpfilter.binlog.events.Symbol`), uint8. The scan
    replaces the group by a :class:`Word` where an event's content matters, such as the text BEGIN.
    """
    shortest: Int64s
    """The smallest valid length of the body of each event type, bytes."""
    next: Int64s2
    """The state (:class:`Place`) after an event, or the negative :class:`Stop` with which the scan ends.

    The row is the group of the event's type (:class:`~dumpfilter.binlog.events.Symbol`), or for some contents, such as
    the text BEGIN, a more specific :class:`Word`. The column is the state before the event.
    """
    role: Bytes2
    """The role of an event (the condition on which the master sends it), with rows and columns as in :attr:`next`. It
    has the bit ENDS where the state after the event is BETWEEN.
    """
    subject: Int32s
    """The value for an event's entry in the column ``subject``, by the rows of :attr:`next`. A negative constant of
    :mod:`dumpfilter.binlog.roles` says that the event has no table or statement, or that its statement is not numbered
    yet.
    """
    texts: Bytes2
    """A row for each text of a Query event that is a :class:`Word`, such as BEGIN, uint8. It has the text's length,
    whether the whole text must match, the word, and the text's characters.
    """


def _grammar() -> Grammar:
    word = SYMBOLS.copy()
    rules = [_RULES[one] for one in sorted(_RULES)]
    shortest: npt.NDArray[np.int64] = np.zeros(256, np.int64)
    for symbol, length in (
        (Symbol.GTID, _GTID_LENGTH),
        (Symbol.MARIADB_GTID, _MARIADB_GTID_LENGTH),
        (Symbol.LOAD_QUERY, _LOAD_QUERY_HEADER + 1),
        (Symbol.QUERY, _MIN_QUERY_HEADER),
    ):
        shortest[word == symbol] = length
    shortest[EventType.GTID_TAGGED] = 0
    following: npt.NDArray[np.int64] = np.array([rule.effect.value for rule in rules])
    role: npt.NDArray[np.uint8] = np.zeros((len(rules), len(Place)), np.uint8)
    role.T[:] = [rule.role for rule in rules]
    role[Symbol.FILE, Place.STATEMENT :] = R.KEEP
    role |= np.where(following == Place.BETWEEN, R.ENDS, 0).astype(np.uint8)
    return Grammar(
        word,
        shortest,
        following,
        role,
        np.array([rule.subject for rule in rules], np.int32),
        np.array(
            [
                (len(text), is_whole, its_word, *text.ljust(_LONGEST_TEXT))
                for text, is_whole, its_word in _TEXTS
            ],
            np.uint8,
        ),
    )


_SHORTEST_TEXT = len(b"BEGIN")
_LONGEST_TEXT = max(len(text) for text, _, _ in _TEXTS)
GRAMMAR = _grammar()


@inner
def _same(a, b, length):
    left = np.uintp(length)
    a = np.uintp(a)
    b = np.uintp(b)
    while left >= _U(8):
        if load_u64(a) != load_u64(b):
            return False
        a += _U(8)
        b += _U(8)
        left -= _U(8)
    while left:
        if load_u8(a) != load_u8(b):
            return False
        a += _U(1)
        b += _U(1)
        left -= _U(1)
    return True


@inner
def _table_id_slot(ids, table_id):
    """Return the index of the slot that holds ``table_id`` in the hash table ``ids``. If no slot holds the id, return
    the index of the free slot in which the caller may insert the id.

    Rows events name their table by such an id. ``ids`` is :attr:`TableIds.ids`.
    """
    mask = np.uint64(ids.size - 1)
    slot = (table_id * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & mask
    while ids[slot] != table_id + np.uint64(1) and ids[slot] != np.uint64(0):
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@kernel
def copy_table_ids(old: TableIds, new: TableIds):
    """Copy the entries of the hash table ``old``, which has become too small, to its empty replacement ``new``, which
    has more slots. Both map the table ids of rows events to the numbers of tables (see :class:`TableIds`).
    """
    for k in range(old.ids.size):
        if old.ids[k] != np.uint64(0):
            slot = _table_id_slot(new.ids, old.ids[k] - np.uint64(1))
            new.ids[slot] = old.ids[k]
            new.subjects[slot] = old.subjects[k]


@inner
def _text_word(at, length, texts):
    """Return the input symbol of the scan's state machine for a Query event: a :class:`Word` for a text such as BEGIN,
    or Symbol.QUERY for any other text.

    The text has ``length`` bytes at the memory address ``at``. ``texts`` (:attr:`Grammar.texts`) has the texts to
    recognize, such as BEGIN.
    """
    if length < _SHORTEST_TEXT:
        return np.int64(Symbol.QUERY)
    for number in range(texts.shape[0]):
        size = np.int64(texts[number, 0])
        if length < size or (texts[number, 1] and length != size):
            continue
        k = 0
        while k < size:
            c = load_u8(_U(at) + _U(k))
            if np.uint8(97) <= c <= np.uint8(122):
                c = np.uint8(c - np.uint8(32))
            if c != texts[number, 3 + k]:
                break
            k += 1
        if k == size:
            return np.int64(texts[number, 2])
    return np.int64(Symbol.QUERY)


@kernel
def scan(
    buffer: Buffer,
    begin: int,
    state: Annotated[np.ndarray, STATE],
    grammar: Grammar,
    names: Names,
    table_ids: TableIds,
    out: EventColumns,
    count: int,
):
    """Scan the events of ``buffer`` (a part of a binlog file) from the offset ``begin`` in ``buffer`` on. Stop where
    the buffer ends, or where the caller has to act. Append each event to the ``count`` events in ``out``, with its role
    (the condition on which the master sends it) and its table. The record ``state`` (:data:`STATE`) passes from one
    call to the next. ``grammar`` is :data:`GRAMMAR`. ``names`` has the numbers of tables by name. New table ids are
    added to ``table_ids``.

    Returns ``(stop, next, count, boundary_next, boundary_count)``. ``stop`` is the reason (:class:`Stop`), ``next`` the
    offset in ``buffer`` of the next event to scan, and ``count`` the new number of events in ``out``. The last two are
    ``next`` and ``count`` at the last transaction boundary. ``boundary_count`` is 0 if this call met none.
    """
    data, file_offset = buffer
    base, size = _U(data.ctypes.data), np.int64(data.size)
    now = state[0]
    place, query_header_length = now.place, now.query_header_length
    checksum = np.int64(CHECKSUM_LENGTH) if now.checksum else np.int64(0)
    verify = now.checksum != 0 and now.verify != 0
    at = boundary = fetched = np.int64(begin)
    stop, boundary_count = np.int64(Stop.DONE), np.int64(0)
    # Local variables hold the arrays, because each use of an array in a tuple costs as much as a small event.
    offsets, sizes, times, types, roles, subjects = out
    words, shortest, following, word_roles, word_subjects, texts = grammar
    ids, id_subjects = table_ids
    heap, key_starts, key_lengths, slots = _U(names.heap.ctypes.data), names.start, names.length, names.slots
    while at + HEADER_LENGTH <= size:
        fetched = prefetch_ahead(data, fetched, at)
        event = base + _U(at)
        length = np.int64(load_u32(event + _U(9)))
        kind = np.int64(load_u8(event + _U(4)))
        word = np.int64(words[kind])
        if length < HEADER_LENGTH + checksum:
            stop = np.int64(Stop.BAD_LENGTH)
            break
        if word == Symbol.FORMAT_DESCRIPTION:
            # Inside a transaction, this event tells that the server stopped before the transaction's end.
            stop = np.int64(Stop.FORMAT_DESCRIPTION if place == Place.BETWEEN else Stop.BAD_EVENT)
            break
        if at + length > size:
            break
        if count >= offsets.size:
            stop = np.int64(Stop.OUTPUT_FULL)
            break
        checked = event + _U(length - CHECKSUM_LENGTH)
        if verify and crc32(event, checked - event) != load_u32(checked):
            stop = np.int64(Stop.BAD_CHECKSUM)
            break
        body = event + _U(HEADER_LENGTH)
        body_length = length - HEADER_LENGTH - checksum
        subject = np.int32(R.NOTHING)
        is_good = body_length >= shortest[kind]
        if word == Symbol.TABLE_MAP or word == Symbol.ROWS:
            is_good = body_length >= TABLE_ID_LENGTH + FLAGS_LENGTH
            key, key_length = body, np.int64(0)
            if word == Symbol.TABLE_MAP:
                key, key_length = _table_key(body, body_length)
                is_good = key_length > 0
            if is_good:
                table_id = np.uint64(load_u32(body)) | np.uint64(load_u16(body + _U(4))) << np.uint64(32)
                slot = _table_id_slot(ids, table_id)
                is_free, known = ids[slot] == np.uint64(0), id_subjects[slot]
                if word == Symbol.ROWS:
                    end = load_u16(body + _U(TABLE_ID_LENGTH)) & np.uint16(STMT_END_F)
                    word = _rows_word(table_id, end, body_length)
                    if word < Word.DUMMY_ROWS:
                        subject = np.int32(R.UNMAPPED) if is_free else known
                elif (
                    not is_free
                    and key_lengths[known] == key_length
                    and _same(key, heap + _U(key_starts[known]), key_length)
                ):
                    subject = known
                else:
                    subject = _find_subject(key, key_length, heap, key_starts, key_lengths, slots)
                    if subject < 0:
                        stop = np.int64(Stop.NEW_TABLE)
                        break
                    if is_free:
                        if 2 * now.table_ids >= ids.size:
                            stop = np.int64(Stop.GROW_TABLE_IDS)
                            break
                        ids[slot] = table_id + np.uint64(1)
                        now.table_ids += 1
                    id_subjects[slot] = subject
        elif is_good:
            word = _refined(word, kind, event, body_length, query_header_length, texts)
            is_good = word >= 0
            subject = word_subjects[word]
        if not is_good or following[word, place] < 0:
            stop = -following[word, place] if is_good else np.int64(Stop.BAD_EVENT)
            break
        role = word_roles[word, place]
        place = following[word, place]
        if place == Place.BETWEEN and 4 * now.table_ids >= ids.size:
            # Each transaction names its tables in Table_map events, so older table ids can be forgotten.
            ids[:] = np.uint64(0)
            now.table_ids = 0
        offsets[count] = file_offset + at
        sizes[count] = length
        times[count] = load_u32(event)
        types[count] = kind
        roles[count] = role
        subjects[count] = subject
        count += 1
        at += length
        if place == Place.BETWEEN:
            boundary, boundary_count = at, count
    now.place = place
    return stop, at, count, boundary, boundary_count


@inlined
def _refined(word, kind, event, body_length, query_header_length, texts):
    """Return the input symbol of the scan's state machine for an event, or -1 for a malformed event. The symbol stands
    for a group of equivalent events. Where the event's content matters, such as the text BEGIN, the symbol is a
    :class:`Word`. Otherwise it is ``word``.

    ``word`` is the symbol for the event's type ``kind``, and ``event`` is the event's memory address. ``body_length``
    is the event's size without header and checksum, and ``query_header_length`` the size of a Query event's fixed part.
    ``texts`` (:attr:`Grammar.texts`) has the texts of Query events to recognize, such as BEGIN.
    """
    body = event + _U(HEADER_LENGTH)
    if word == Symbol.QUERY:
        at = query_header_length + np.int64(load_u16(body + _U(11))) + np.int64(load_u8(body + _U(8)))
        end = np.int64(body_length)
        is_good = query_header_length >= _MIN_QUERY_HEADER and body_length >= query_header_length
        if query_header_length == _EXTENDED_QUERY_HEADER:
            # In a Query event in WL#40's extended format, no NUL follows the database's name, and a list of table names
            # (the tables info) follows the statement's text.
            if is_good:
                end -= np.int64(load_u16(body + _U(15)))
                is_good = np.int64(load_u16(body + _U(13))) == min(end - at, np.int64(0xFFFF))
        else:
            at += 1
        if not is_good or at > end:
            word = np.int64(-1)
        elif kind == EventType.QUERY:
            word = _text_word(body + _U(at), end - at, texts)
    elif word == Symbol.MARIADB_GTID:
        flags = load_u8(body + _U(_MARIADB_FLAGS_AT))
        number = np.int64(load_u64(body))
        if number <= 0:
            word = np.int64(Word.MARIADB_LARGE_SEQ_NO if number else -1)
        elif flags & np.uint8(FL_STANDALONE):
            word = np.int64(Word.MARIADB_STANDALONE)
        elif flags & np.uint8(_FL_XA):
            word = np.int64(Word.MARIADB_XA)
    elif kind == EventType.GTID:
        # The difference of 0 and 1 is the largest unsigned number.
        if load_u64(body + _U(_GNO_AT)) - np.uint64(1) >= np.uint64(GNO_MAX):
            word = np.int64(-1)
    elif word == Symbol.IGNORABLE:
        if body_length >= GAP_VERSION_AT and load_u64(body) == np.uint64(_GAP_SIGNATURE):
            word = np.int64(Word.GAP_OF_TRANSACTIONS if _has_end(body, body_length) else Word.GAP)
    elif word == Symbol.START_ENCRYPTION and load_u16(event + _U(17)) & np.uint16(LOG_EVENT_IGNORABLE_F):
        # A server that sends the events after Start_encryption in clear marks the event as ignorable.
        word = np.int64(Symbol.FILE)
    return word


@inlined
def _has_end(body, body_length):
    """Tell whether a Gap event (a relay log's note about dropped events) has an end position, and therefore stands for
    dropped transactions.

    ``body`` is the memory address of the event's body, and ``body_length`` its length without the checksum.
    """
    if body_length < GAP_LENGTH or load_u8(body + _U(GAP_KIND_AT)) != np.uint8(KIND_GAP):
        return False
    return load_u64(body + _U(GAP_END_AT)) != np.uint64(0)


@inlined
def _rows_word(table_id, end, body_length):
    is_old_dummy = table_id == np.uint64(_DUMMY_TABLE_ID) and end and body_length <= _DUMMY_ROWS_LENGTH
    if table_id == np.uint64(_ALL_ONES) or is_old_dummy:
        return np.int64(Word.DUMMY_ROWS_END if end else Word.DUMMY_ROWS)
    return np.int64(Word.ROWS_END) if end else np.int64(Symbol.ROWS)


@inlined
def _table_key(body, body_length):
    key = body + _U(TABLE_ID_LENGTH + FLAGS_LENGTH)
    room = body_length - TABLE_ID_LENGTH - FLAGS_LENGTH
    if room < 4:
        return key, np.int64(-1)
    db_length = np.int64(load_u8(key))
    if db_length + 3 > room:
        return key, np.int64(-1)
    length = db_length + np.int64(load_u8(key + _U(db_length + 2))) + 4
    return key, length if length <= room else np.int64(-1)


@inner
def _find_subject(key, length, heap, starts, lengths, slots):
    """Return the number of the table with a name, or -1 for an unknown name. The number is the table's index in the
    binlog set's register (:class:`~dumpfilter.index.subjects.Subjects`).

    ``key`` is the memory address of the name as a Table_map event has it, of ``length`` bytes. ``heap`` is the memory
    address of :attr:`Names.heap`. ``starts``, ``lengths`` and ``slots`` are the arrays ``start``, ``length`` and
    ``slots`` of :class:`Names`.
    """
    mask = np.uint64(slots.size - 1)
    slot = np.uint64(crc32(_U(key), _U(length))) & mask
    while slots[slot] >= 0:
        known = slots[slot]
        if lengths[known] == length and _same(key, heap + _U(starts[known]), length):
            return np.int32(known)
        slot = (slot + np.uint64(1)) & mask
    return np.int32(-1)


@kernel
def group_transactions(
    buffer: Buffer,
    events: EventColumns,
    continues: bool,
    still_open: bool,
    out: TransactionColumns,
    source_keys: UInt64s2,
    set_subject: Int32s,
):
    """Group the scanned ``events``, whose bytes are in ``buffer``, into transactions. Write each transaction's first
    event, GTID, and subject to ``out``. The subject is the number of the only table or statement that the transaction
    changes, or a negative constant.

    ``continues`` tells whether the first transaction began before the events, and ``still_open`` whether the last one
    goes on after them. A transaction with a GTID gets as source the index of a row of ``source_keys``, which this
    function fills. A row has two numbers for a GTID source: the halves of a server UUID, or MariaDB's domain id and
    server id. Several rows may have the same source.

    The list of the tables and statements of transaction t is ``set_subject[out.set[t] : out.set[t + 1]]``, if there are
    several. When a filter drops all members of the list, or sends all, the master decides the whole transaction at
    once. The list is empty for a transaction whose events the master must decide separately:

    - A transaction that lies in two segments, or is larger than ``LARGE``.
    - One with events that the master sends in any case.
    - One with an incomplete statement, such as a context event (Intvar, for example) that no statement follows.

    Returns three numbers: of transactions in ``out``, of entries written to ``set_subject``, and of rows written to
    ``source_keys``.
    """
    offsets, sizes, types, roles, subjects = (
        events.offset,
        events.size,
        events.type,
        events.role,
        events.subject,
    )
    first_events, of_transaction, sources, numbers, servers, sets = out
    base = _U(buffer.data.ctypes.data) - _U(buffer.offset)
    n = used = keys = np.int64(0)
    is_first = True
    for i in range(offsets.size):
        kind = np.int64(types[i])
        role = roles[i] & R.ROLE_MASK
        event = base + _U(offsets[i])
        if is_first:
            between = role == R.FILE or role == R.GAP
            first_events[n] = i
            of_transaction[n] = R.NOTHING if not between else R.KEPT if role == R.FILE else R.SKIP
            sources[n] = NO_TRANSACTION if between else NO_GTID
            numbers[n] = 0
            servers[n] = load_u32(event + _U(5))
            sets[n] = used
            n += 1
        t = n - 1
        if kind == EventType.GTID_TAGGED:
            sources[t] = UNREAD_GTID
        elif kind == EventType.GTID or kind == EventType.MARIADB_GTID:
            body = event + _U(HEADER_LENGTH)
            if kind == EventType.GTID:
                high, low = load_u64(body + _U(1)), load_u64(body + _U(9))
                number = load_u64(body + _U(_GNO_AT))
            else:
                high, low = np.uint64(load_u32(body + _U(8))), np.uint64(load_u32(event + _U(5)))
                number = load_u64(body)
            source = keys
            for k in range(max(0, keys - _LOOK_BACK), keys):
                if source_keys[k, 0] == high and source_keys[k, 1] == low:
                    source = k
            if source == keys:
                source_keys[keys, 0], source_keys[keys, 1] = high, low
                keys += 1
            sources[t] = source
            numbers[t] = np.int64(number)
        if role >= R.TABLE_MAP and of_transaction[t] != R.SKIP:
            is_other = of_transaction[t] != R.NOTHING and of_transaction[t] != subjects[i]
            is_mixed = role >= R.DUMMY_ROWS or subjects[i] < 0 or is_other
            of_transaction[t] = R.MIXED if is_mixed else subjects[i]
        is_first = roles[i] & R.ENDS != 0
        if is_first and of_transaction[t] == R.MIXED and not (t == 0 and continues):
            used = _list_subjects(sizes, roles, subjects, first_events[t], i + 1, set_subject, used)
    if continues:
        of_transaction[0] = R.MIXED
    if still_open:
        of_transaction[n - 1] = R.MIXED
    first_events[n] = offsets.size
    sets[n] = used
    return n, used, keys


@inner
def _list_subjects(sizes, roles, subjects, first, stop, set_subject, begin):
    """Write the distinct subjects (numbers of tables and statements) of one transaction to ``set_subject``, from index
    ``begin`` on. Return the index after them. The result is ``begin`` if the master must decide about each event
    separately.

    ``sizes``, ``roles`` and ``subjects`` are arrays with an entry for each scanned event. ``first`` and ``stop`` are
    the indexes of the transaction's first event, and of the event after its last.
    """
    used = np.int64(begin)
    # Whether a statement of the transaction is not complete yet.
    waiting, size = False, np.int64(0)
    for i in range(first, stop):
        size += sizes[i]
        role = roles[i] & R.ROLE_MASK
        if role >= R.TABLE_MAP and role <= R.STATEMENT:
            subject = subjects[i]
            if subject < 0:
                return np.int64(begin)
            waiting = role == R.TABLE_MAP or role == R.ROWS
            if used == begin or subject != set_subject[used - 1]:
                known = False
                for k in range(max(begin, used - _LOOK_BACK), used):
                    known |= set_subject[k] == subject
                if not known:
                    set_subject[used] = subject
                    used += 1
        elif role == R.CONTEXT:
            waiting = True
        elif role > R.STATEMENT or waiting:
            return np.int64(begin)
    return np.int64(begin) if waiting or size > LARGE else used


@kernel
def read_ranges(fd: int, ranges: Int64s2, buffer: Bytes, between: Bytes, parts: Int64s2, flags: int):
    """Read byte ranges of a file into ``buffer``, and return whether all of them were read.

    The columns of ``ranges`` are the offset in the file, the size, and the offset in ``buffer``. A range that begins
    shortly after the range before is read together with it. The bytes between them go to ``between``, whose size is
    the largest such distance. ``fd`` is the file descriptor. ``flags`` are those of ``preadv2``. ``parts`` has rows
    of two entries for the use of this function.
    """
    k = np.int64(0)
    while k < ranges.shape[0]:
        start = ranges[k, 0]
        end = start
        count = np.int64(0)
        while k < ranges.shape[0] and count + 2 <= parts.shape[0]:
            gap = ranges[k, 0] - end
            size = ranges[k, 1]
            if gap < 0 or gap > between.size:
                break
            if ranges[k, 2] < 0 or ranges[k, 2] + size > buffer.size:
                return False
            if gap:
                parts[count, 0] = np.int64(between.ctypes.data)
                parts[count, 1] = gap
                count += 1
            parts[count, 0] = np.int64(buffer.ctypes.data) + ranges[k, 2]
            parts[count, 1] = size
            count += 1
            end += gap + size
            k += 1
        if read_file(fd, np.uintp(parts.ctypes.data), count, start, flags) != end - start:
            return False
    return True
