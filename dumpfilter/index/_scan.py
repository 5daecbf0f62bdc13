"""The compiled scan: one pass over a buffer of events into columns, and the transactions they form.

The scan is the only code that touches every event of a binlog. Its plain-Python twin is
:mod:`tests.index.plain_index`; tests hold one to the other. All state lives in numpy arrays that
the caller owns, so a scan can stop at any event (more room needed, a format description event to be
read, the end of the buffer) and go on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.native import load_u8, load_u16, load_u32, load_u64

# Why a scan came back.
DONE = 0  # the buffer ends here; what is left of it is not a whole event
GROW_NAMES = 1
GROW_TABLE_IDS = 2
FORMAT_DESCRIPTION = 3  # the next event is one: its reader may change the settings below
BAD_LENGTH = 4
BAD_CHECKSUM = 5
BAD_EVENT = 6  # the event is too short for its type or contradicts itself
ENCRYPTED = 7
OUTPUT_FULL = 8
FRAGMENT = 9  # a piece of a rows event

# The scalars of a scan's state.
S_GROUP = 0  # 0 between transactions, 1 after a GTID, 2 after BEGIN, 3 after XA START
S_TABLE_IDS = 1  # entries in the table id map
S_SUBJECTS = 2  # subjects known
S_NAME_BYTES = 3  # bytes used of the names' heap
S_CHECKSUM = 4  # 1 when events end in a CRC32
S_MAP_ID_LENGTH = 5  # bytes of a table id in Table_map (6, or 4 before MySQL 5.1.4)
S_QUERY_POST = 6  # length of Query's post-header
S_VERIFY = 7  # 1 to verify checksums
S_NAMES_SLOTS = 8  # (the hash table's size, a power of two, is its array's length)
S_RESOLVE = 9  # 1 when the caller follows XA transactions and opens compressed ones
STATE_SIZE = 16

IN_XA = 3  # (of S_GROUP)

_NO_SLOT = np.int64(-1)
_LARGE = 1 << 16  # bytes of a transaction that is better sent in pieces
_U = np.uintp


@njit(cache=True, nogil=True)
def _hash_name(address, length):
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(length)
    at = np.uintp(address)
    left = np.uintp(length)
    while left >= _U(8):
        h = (h ^ load_u64(at)) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
        at += _U(8)
        left -= _U(8)
    while left:
        h = (h ^ np.uint64(load_u8(at))) * np.uint64(0xD6E8FEB86659FD93)
        at += _U(1)
        left -= _U(1)
    return h ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _table_id(body, id_length):
    """The table id at ``body``, which is followed by flags of 2 bytes."""
    low = np.uint64(load_u32(body))
    if id_length == 4:
        return low
    return low | np.uint64(load_u16(body + _U(4))) << np.uint64(32)


@njit(cache=True, nogil=True)
def _table_id_slot(table_ids, table_id):
    mask = np.uint64(table_ids.size - 1)
    slot = (table_id * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & mask
    while table_ids[slot] != table_id + np.uint64(1) and table_ids[slot] != np.uint64(0):
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def _is_prefix(at, length, upper_text, text_length):
    """Whether the text at ``at`` starts with ``upper_text`` (given in upper case), in any case."""
    if length < text_length:
        return False
    for k in range(text_length):
        c = load_u8(_U(at) + _U(k))
        if np.uint8(97) <= c <= np.uint8(122):
            c = np.uint8(c - np.uint8(32))
        if c != upper_text[k]:
            return False
    return True


_BEGIN = np.frombuffer(b"BEGIN", dtype=np.uint8)
_COMMIT = np.frombuffer(b"COMMIT", dtype=np.uint8)
_ROLLBACK = np.frombuffer(b"ROLLBACK", dtype=np.uint8)
_SAVEPOINT = np.frombuffer(b"SAVEPOINT ", dtype=np.uint8)
_RELEASE = np.frombuffer(b"RELEASE SAVEPOINT ", dtype=np.uint8)
_XA = np.frombuffer(b"XA ", dtype=np.uint8)
_XA_START = np.frombuffer(b"XA START", dtype=np.uint8)
_XA_BEGIN = np.frombuffer(b"XA BEGIN", dtype=np.uint8)
_XA_END = np.frombuffer(b"XA END", dtype=np.uint8)

# What a Query's text is, to the transaction's frame.
Q_OTHER = 0
Q_BEGIN = 1
Q_END = 2
Q_SAVEPOINT = 3
Q_XA_START = 4
Q_XA_END = 5
Q_XA_OTHER = 6


@njit(cache=True, nogil=True)
def classify_frame(at, length):
    """Which transaction keyword a statement is (Query_log_event::is_trans_keyword), or Q_OTHER."""
    if length < 5:
        return Q_OTHER
    c = load_u8(_U(at)) & np.uint8(0xDF)
    if c == np.uint8(66):  # B
        if length == 5 and _is_prefix(at, length, _BEGIN, 5):
            return Q_BEGIN
    elif c == np.uint8(67):  # C
        if length == 6 and _is_prefix(at, length, _COMMIT, 6):
            return Q_END
    elif c == np.uint8(82):  # R
        if _is_prefix(at, length, _ROLLBACK, 8):
            return Q_END if length == 8 else Q_SAVEPOINT
        if _is_prefix(at, length, _RELEASE, 18):
            return Q_SAVEPOINT
    elif c == np.uint8(83):  # S
        if _is_prefix(at, length, _SAVEPOINT, 10):
            return Q_SAVEPOINT
    elif c == np.uint8(88) and _is_prefix(at, length, _XA, 3):  # X
        if _is_prefix(at, length, _XA_START, 8) or _is_prefix(at, length, _XA_BEGIN, 8):
            return Q_XA_START
        if _is_prefix(at, length, _XA_END, 6):
            return Q_XA_END
        return Q_XA_OTHER
    return Q_OTHER


@njit(cache=True, nogil=True)
def scan(
    base,
    size,
    begin,
    file_offset,
    state,
    names,
    name_start,
    name_length,
    name_slots,
    table_ids,
    table_subjects,
    out_offset,
    out_size,
    out_time,
    out_type,
    out_role,
    out_subject,
    count,
):
    """Scan events from ``begin`` in the ``size`` bytes at ``base`` until something needs the caller.

    Returns ``(code, next, count, boundary_next, boundary_count)``: why it came back, where the next event
    stands in the buffer, how many events the columns hold, and both at the last transaction boundary
    (``boundary_count`` 0: none yet).
    """
    at = np.int64(begin)
    boundary = np.int64(begin)
    boundary_count = np.int64(0)
    group = state[S_GROUP]
    checksum = np.int64(4) if state[S_CHECKSUM] else np.int64(0)
    verify = state[S_CHECKSUM] != 0 and state[S_VERIFY] != 0
    resolve = state[S_RESOLVE] != 0
    id_length = state[S_MAP_ID_LENGTH]
    query_post = state[S_QUERY_POST]
    id_mask = np.uint64(0xFFFFFFFFFFFF) if id_length == 6 else np.uint64(0xFFFFFFFF)
    code = DONE
    while True:
        if at + 19 > size:
            break
        event = _U(base) + _U(at)
        length = np.int64(load_u32(event + _U(9)))
        kind = np.int64(load_u8(event + _U(4)))
        if length < 19 + checksum:
            code = BAD_LENGTH
            break
        if kind == 15:
            # inside a transaction: the transaction was cut
            code = FORMAT_DESCRIPTION if group == 0 else BAD_EVENT
            break
        if at + length > size:
            break
        if count >= out_offset.size:
            code = OUTPUT_FULL
            break
        if verify and crc32(event, _U(length - 4)) != load_u32(event + _U(length - 4)):
            code = BAD_CHECKSUM
            break
        body = event + _U(19)
        body_length = length - 19 - checksum
        subject = np.int32(R.NOTHING)
        ends = False

        if kind == 19:  # Table_map
            role = R.TABLE_MAP
            if body_length < id_length + 2 + 4:
                code = BAD_EVENT
                break
            table_id = _table_id(body, id_length)
            key = body + _U(id_length + 2)
            key_room = body_length - id_length - 2
            db_length = np.int64(load_u8(key))
            if db_length + 3 > key_room:
                code = BAD_EVENT
                break
            table_length = np.int64(load_u8(key + _U(db_length + 2)))
            key_length = db_length + table_length + 4
            if key_length > key_room:
                code = BAD_EVENT
                break
            slot = _table_id_slot(table_ids, table_id)
            if table_ids[slot] != np.uint64(0):
                known = table_subjects[slot]
                if name_length[known] == key_length and _same(
                    key, _U(names.ctypes.data) + _U(name_start[known]), key_length
                ):
                    subject = known
            if subject < 0:
                mask = np.uint64(name_slots.size - 1)
                where = _hash_name(key, key_length) & mask
                while name_slots[where] >= 0:
                    known = name_slots[where]
                    if name_length[known] == key_length and _same(
                        key, _U(names.ctypes.data) + _U(name_start[known]), key_length
                    ):
                        subject = known
                        break
                    where = (where + np.uint64(1)) & mask
                if subject < 0:
                    new = state[S_SUBJECTS]
                    if (
                        new >= name_start.size
                        or state[S_NAME_BYTES] + key_length > names.size
                        or 2 * new >= name_slots.size
                    ):
                        code = GROW_NAMES
                        break
                    for k in range(key_length):
                        names[state[S_NAME_BYTES] + k] = load_u8(key + _U(k))
                    name_start[new] = state[S_NAME_BYTES]
                    name_length[new] = key_length
                    name_slots[where] = new
                    state[S_NAME_BYTES] += key_length
                    state[S_SUBJECTS] = new + 1
                    subject = np.int32(new)
                if table_ids[slot] == np.uint64(0):
                    if 2 * state[S_TABLE_IDS] >= table_ids.size:
                        code = GROW_TABLE_IDS
                        break
                    table_ids[slot] = table_id + np.uint64(1)
                    state[S_TABLE_IDS] += 1
                table_subjects[slot] = subject
            if group == 0:
                group = 1  # binlogs without GTIDs: the statement begins here
        elif (20 <= kind <= 25) or (30 <= kind <= 32) or kind == 39 or (166 <= kind <= 171):
            if body_length < id_length + 2:
                code = BAD_EVENT
                break
            table_id = _table_id(body, id_length)
            end = load_u16(body + _U(id_length)) & np.uint16(1)
            if table_id == id_mask or (table_id == np.uint64(0xFFFFFF) and end and body_length <= 12):
                role = R.DUMMY_ROWS
            else:
                role = R.ROWS_END if end else R.ROWS
                slot = _table_id_slot(table_ids, table_id)
                subject = table_subjects[slot] if table_ids[slot] != np.uint64(0) else np.int32(R.UNMAPPED)
            if group == 0:
                group = 1
            if end and group < 2:
                ends = True
        elif kind == 2 or kind == 165:  # Query, Query_compressed
            if query_post < 13 or body_length < query_post:
                code = BAD_EVENT
                break
            db_length = np.int64(load_u8(body + _U(8)))
            text_at = query_post + np.int64(load_u16(body + _U(11))) + db_length
            text_end = body_length
            if query_post == 17:  # extended (WL#40): no NUL after the database, tables info after the text
                text_end -= np.int64(load_u16(body + _U(15)))
                contradicts = np.int64(load_u16(body + _U(13))) != min(text_end - text_at, np.int64(0xFFFF))
            else:
                text_at += 1
                contradicts = False
            if text_at > text_end or contradicts:
                code = BAD_EVENT
                break
            frame = Q_OTHER
            if kind == 2:
                frame = classify_frame(body + _U(text_at), text_end - text_at)
            if frame == Q_OTHER:
                role = R.STATEMENT
                subject = np.int32(R.PENDING)
                if group < 2:
                    ends = True
            elif frame == Q_BEGIN:
                role = R.FRAME
                group = 2
            elif frame == Q_END:
                role = R.FRAME
                ends = True
            elif frame == Q_SAVEPOINT:
                role = R.FRAME
                if group < 2:
                    ends = True
            elif frame == Q_XA_START:
                role = R.FRAME if resolve else R.XA
                group = 3
            else:
                role = R.XA
                if resolve:
                    role = R.FRAME if frame == Q_XA_END else R.STATEMENT
                    if frame != Q_XA_END:
                        subject = np.int32(R.PENDING_XA)
                if group < 2:
                    ends = True
        elif kind == 18:  # Execute_load_query
            role = R.STATEMENT
            subject = np.int32(R.PENDING)
            if body_length < 26 + 1:  # its post-header is never extended
                code = BAD_EVENT
                break
            if group < 2:
                ends = True
        elif kind == 33 or kind == 34 or kind == 42:  # Gtid, Anonymous_gtid, Gtid_tagged
            role = R.GTID
            if kind != 42 and body_length < 25:
                code = BAD_EVENT
                break
            if group != 0:
                code = BAD_EVENT  # a transaction inside another: the one before was cut
                break
            group = 1
        elif kind == 162:  # MariaDB's Gtid
            role = R.GTID
            if body_length < 13 or group != 0:
                code = BAD_EVENT
                break
            flags = load_u8(body + _U(12))
            group = 1 if flags & np.uint8(1) else 2
            if flags & np.uint8(0xC0):  # FL_PREPARED_XA, FL_COMPLETED_XA
                if not resolve:
                    role = R.XA
                if group == 2:
                    group = 3
        elif kind == 16:  # Xid
            role = R.FRAME
            ends = True
        elif kind == 38:  # XA_prepare
            role = R.XA
            if resolve:
                role = R.FRAME
                subject = np.int32(R.PENDING)
            ends = True
        elif kind == 5 or kind == 13 or kind == 14 or kind == 29 or kind == 160 or kind == 17 or kind == 9:
            role = R.CONTEXT
            if group == 0:
                group = 1
        elif kind == 35 or kind == 163 or kind == 161 or kind == 4 or kind == 3:
            role = R.FILE if group == 0 else R.KEEP
        elif kind == 164:
            # Start_encryption: a server that sends the events behind it in clear marks it as ignorable
            if not load_u16(event + _U(17)) & np.uint16(0x80):
                code = ENCRYPTED
                break
            role = R.FILE if group == 0 else R.KEEP
        elif kind == 172:
            code = FRAGMENT
            break
        elif kind == 40:  # Transaction_payload: the whole transaction, compressed
            role = R.KEEP
            if resolve:
                subject = np.int32(R.PENDING)
            ends = True
        else:
            # Incident, View_change, events of other servers: nothing a filter could say about them.
            role = R.KEEP
            if kind == 26 and group == 1:
                ends = True
        if ends:
            group = 0
        if group == 0:
            role |= R.ENDS
            if 4 * state[S_TABLE_IDS] >= table_ids.size:
                # ids are new for each opening of a table; outside a statement the old ones are dead
                table_ids[:] = np.uint64(0)
                state[S_TABLE_IDS] = 0

        out_offset[count] = file_offset + at
        out_size[count] = length
        out_time[count] = load_u32(event)
        out_type[count] = kind
        out_role[count] = role
        out_subject[count] = subject
        count += 1
        at += length
        if group == 0:
            boundary = at
            boundary_count = count
    state[S_GROUP] = group
    return code, at, count, boundary, boundary_count


@njit(cache=True, nogil=True)
def group_transactions(
    base,
    file_offset,
    offsets,
    sizes,
    types,
    roles,
    subjects,
    source_keys,
    source_count,
    txn_event,
    txn_subject,
    txn_source,
    txn_number,
    txn_server,
):
    """The transactions of scanned events: ``(transactions, sources known, -1 or the first event in need)``.

    ``txn_event[i]`` is the first event of the i-th one. A transaction's GTID is a dense number of its
    source (``source_keys``: two uint64 each, the uuid's bytes or domain and server id) and a number in
    it; ``txn_source`` is -1 without a GTID, -2 where the GTID event (tagged) is Python's to read, and -3 for
    events between transactions. ``txn_server`` is the server id of its first event. Comes back early, with the event's
    number, when a source is new.
    """
    n = np.int64(0)
    fresh = True
    last_source = np.int64(-1)
    for i in range(offsets.size):
        kind = types[i]
        role = roles[i] & 0x7F
        if fresh:
            txn_event[n] = i
            txn_subject[n] = R.NOTHING
            txn_source[n] = -1
            txn_number[n] = 0
            txn_server[n] = load_u32(_U(base) + _U(offsets[i] - file_offset + 5))
            n += 1
            fresh = False
            if role == R.FILE:
                txn_source[n - 1] = -3
                txn_subject[n - 1] = R.KEPT
        t = n - 1
        if role == R.GTID or kind == 162:
            body = _U(base) + _U(offsets[i] - file_offset + 19)
            if kind == 42:
                txn_source[t] = -2
            elif kind != 34:
                if kind == 33:
                    high = load_u64(body + _U(1))
                    low = load_u64(body + _U(9))
                    txn_number[t] = np.int64(load_u64(body + _U(17)))
                else:
                    high = np.uint64(load_u32(body + _U(8)))
                    low = np.uint64(load_u32(body - _U(14)))
                    txn_number[t] = np.int64(load_u64(body))
                if (
                    last_source < 0
                    or source_keys[last_source, 0] != high
                    or source_keys[last_source, 1] != low
                ):
                    last_source = -1
                    for k in range(source_count):
                        if source_keys[k, 0] == high and source_keys[k, 1] == low:
                            last_source = k
                            break
                    if last_source < 0:
                        if source_count >= source_keys.shape[0]:
                            return n, source_count, np.int64(i)
                        source_keys[source_count, 0] = high
                        source_keys[source_count, 1] = low
                        last_source = source_count
                        source_count += 1
                txn_source[t] = last_source
        if role >= R.DUMMY_ROWS:  # and KEEP, XA, PAYLOAD
            txn_subject[t] = R.MIXED
        elif role >= R.TABLE_MAP and role <= R.STATEMENT:
            s = subjects[i]
            if s < 0:
                txn_subject[t] = R.MIXED
            elif txn_subject[t] == R.NOTHING:
                txn_subject[t] = s
            elif txn_subject[t] != s:
                txn_subject[t] = R.MIXED
        if roles[i] & R.ENDS:
            fresh = True
    return n, source_count, np.int64(-1)


@njit(cache=True, nogil=True)
def subject_sets(sizes, roles, subjects, txn_event, txn_subject, continues, still_open, txn_set, set_subject):
    """The different subjects of each transaction with several: ``set_subject[txn_set[t] : txn_set[t + 1]]``.

    None for a transaction that a filter cannot take or leave as a whole though it has one answer for all of
    them: one that is in two segments or large, has events that are sent in any case, context that nothing
    follows, or a statement without an end. Returns how many entries there are.
    """
    used = np.int64(0)
    last = txn_subject.size - 1
    for t in range(txn_subject.size):
        txn_set[t] = used
        if txn_subject[t] != R.MIXED or (t == 0 and continues) or (t == last and still_open):
            continue
        begin = used
        waiting = False
        plain = True
        size = np.int64(0)
        for i in range(txn_event[t], txn_event[t + 1]):
            size += sizes[i]
            role = roles[i] & 0x7F
            if role >= R.TABLE_MAP and role <= R.STATEMENT:
                subject = subjects[i]
                if subject < 0:
                    plain = False
                    break
                waiting = role == R.TABLE_MAP or role == R.ROWS
                if used == begin or subject != set_subject[used - 1]:
                    known = False
                    for k in range(max(begin, used - 8), used):
                        known |= set_subject[k] == subject
                    if not known:
                        set_subject[used] = subject
                        used += 1
            elif role == R.CONTEXT:
                waiting = True
            elif role > R.STATEMENT or waiting:
                plain = False
                break
        if not plain or waiting or size > _LARGE:
            used = begin
    txn_set[txn_subject.size] = used
    return used


@njit(cache=True, nogil=True)
def rehash_names(slots, names, name_start, name_length, count):
    """Fill the empty hash table ``slots`` with the numbers of all table names."""
    mask = np.uint64(slots.size - 1)
    for number in range(count):
        if name_length[number] < 0:
            continue
        where = _hash_name(_U(names.ctypes.data) + _U(name_start[number]), name_length[number]) & mask
        while slots[where] >= 0:
            where = (where + np.uint64(1)) & mask
        slots[where] = number


@njit(cache=True, nogil=True)
def rehash_table_ids(table_ids, table_subjects, new_ids, new_subjects):
    """Move a table id map into a larger, empty one."""
    for k in range(table_ids.size):
        if table_ids[k] != np.uint64(0):
            slot = _table_id_slot(new_ids, table_ids[k] - np.uint64(1))
            new_ids[slot] = table_ids[k]
            new_subjects[slot] = table_subjects[k]
