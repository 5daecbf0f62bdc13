"""The compiled writer of synthetic transactions, which :mod:`dumpfilter.workload.generate` uses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import HEADER_LENGTH, EventType
from dumpfilter.binlog.native import copy_bytes, store_u8, store_u16, store_u32, store_u64
from dumpfilter.compiler.kernels import njit

_U = np.uintp

# An int64 array holds the settings of a generated binlog set. The constants P_* are the indexes of the settings.
P_MARIADB = 0  # The setting P_MARIADB is 1 for a binlog of MariaDB and 0 for a binlog of MySQL.
P_CHECKSUM = 1  # The size of each event's checksum, bytes: 4 or 0.
P_SERVER_ID = 2
P_SCHEMAS = 3
P_TABLES = 4
P_STATEMENTS = 5
P_FOREIGN = 6  # The number of statements in 256 that change another schema than the transaction's first.
P_TRIGGERS = 7  # The number of statements in 256 that change a second table, as with a trigger.
P_BULK = 8  # The number of statements in 1024 that have several rows events.
P_BYTES_A_DAY = 9  # The bytes that the server writes in a day on average. 0: a transaction in each 0.2 ms.
P_DAILY = 10  # The setting P_DAILY is 1 for traffic that rises and falls with the time of day.
P_LATEST = 11  # The latest Unix time of a transaction, microseconds.
SETTINGS = 16

# An int64 array holds the counters that advance with each generated transaction. The constants G_* are the indexes of
# the counters.
G_GNO = 0
G_XID = 1
G_TIME = 2  # The Unix time of the next generated transaction, microseconds.
G_ROW = 3
G_SEQUENCE = 4  # The sequence_number of MySQL's GTID events, which begins with 1 in each file.
STATE = 8

DAY = 86_400_000_000
"""The length of a day, microseconds."""
DAILY_SWING = 0.7
"""The part of the mean traffic by which traffic of a day rises and falls."""
QUIET_AT = 1 / 6
"""The part of a day, UTC, after which its traffic is lowest."""

# The array `kinds` has one row for each kind of table. The constants K_* are the numbers of its columns.
K_COLUMNS = 0
# The size of the columns of fixed length after the BIGINT, INT and TIMESTAMP with which every table begins, bytes.
K_TAIL = 1
K_VARIABLE = 2  # The number of columns of variable length, which are the last columns of the table.
K_PREFIX = 3  # The size of the length that stands before each value of variable length, bytes: 1 or 2.
K_MOST = 4  # The size of the longest value of variable length, bytes.
K_ROW = 5  # The size of a usual row in a table of the kind, bytes.
KIND_COLUMNS = 6

# The array `plan` has one row for each event of the transaction to be written. The constants E_* are the numbers of
# its columns.
E_TABLE = 0
E_MAP = 1  # The column E_MAP is 1 for a Table_map event.
E_TYPE = 2
E_ROWS = 3
E_LENGTH = 4  # The size of each value of variable length in the event's rows, bytes.
E_SIZE = 5
E_END = 6  # The column E_END is 1 for a rows event with the flag STMT_END_F.
E_NOTE = 7  # The column E_NOTE is 1 for an Annotate_rows event of MariaDB.
PLAN_COLUMNS = 8


class World(NamedTuple):
    """The templates from which the generator writes the transactions of a binlog set: table layouts, event bodies,
    random choices.
    """

    sizes: npt.NDArray[np.int64]
    """Sizes of rows events in their random distribution, bytes. The generator draws one of them for each rows event."""
    pick_schema: npt.NDArray[np.int32]
    """Numbers of schemas, among which popular schemas are frequent.

    The generator draws one of them for each transaction.
    """
    pick_table: npt.NDArray[np.int32]
    """Numbers of tables within a schema, among which popular tables are frequent.

    The generator draws one of them for each statement.
    """
    kinds: npt.NDArray[np.int64]
    """The kinds of tables, one row for each.

    The constants ``K_*`` name the columns, such as the number of a table's columns.
    """
    table_kind: npt.NDArray[np.int64]
    """The index in ``kinds`` for each table."""
    maps: npt.NDArray[np.int64]
    """The start and the length of the body of each table's Table_map event in ``map_bytes``."""
    map_bytes: npt.NDArray[np.uint8]
    """The bodies of the Table_map events of all tables, one after the other."""
    tails: npt.NDArray[np.uint8]
    """The bytes that a generated row has in the columns of fixed length after BIGINT, INT and TIMESTAMP, for each
    kind of table.

    All rows have the same bytes.
    """
    text: npt.NDArray[np.uint8]
    """A long text of which the generator copies pieces as values of variable length."""
    uuid: npt.NDArray[np.uint8]
    """The UUID of the server in the GTIDs of a generated MySQL binlog."""
    begin: npt.NDArray[np.uint8]
    """The bodies of the BEGIN events (Query events), one for each schema, one after the other."""
    begin_start: npt.NDArray[np.int64]
    """The offset in ``begin`` at which the BEGIN body of each schema starts.

    The last entry is the end of the last body.
    """


_HEAD = 16
"""The size of the columns BIGINT, INT and TIMESTAMP, with which every generated row begins, bytes."""


@njit(cache=True, nogil=True, inline="always")
def _random(rng):
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@njit(cache=True, nogil=True, inline="always")
def _below(rng, bound):
    return np.int64((_random(rng) >> np.uint64(33)) % np.uint64(bound))


@njit(cache=True, nogil=True)
def _packed_size(value):
    return 1 if value < 251 else 3 if value < 65536 else 4


@njit(cache=True, nogil=True)
def _header(at, seconds, kind, settings, size, end, flags):
    store_u32(at, np.uint32(seconds))
    store_u8(at + _U(4), np.uint8(kind))
    store_u32(at + _U(5), np.uint32(settings[P_SERVER_ID]))
    store_u32(at + _U(9), np.uint32(size))
    store_u32(at + _U(13), np.uint32(end))
    store_u16(at + _U(17), np.uint16(flags))


@njit(cache=True, nogil=True)
def _seal(at, size, settings):
    if settings[P_CHECKSUM]:
        store_u32(at + _U(size - 4), crc32(at, _U(size - 4)))


@njit(cache=True, nogil=True)
def _rows_event(plan, row, target, table, kind, event_type, end, images, kinds, settings):
    header = 8 if settings[P_MARIADB] else 10
    bitmap = (kinds[kind, K_COLUMNS] + 7) >> 3
    base = 19 + header + 1 + bitmap * images + settings[P_CHECKSUM]
    fixed = bitmap + _HEAD + kinds[kind, K_TAIL] + kinds[kind, K_VARIABLE] * kinds[kind, K_PREFIX]
    room = max(target - base, fixed * images)
    n_rows = max(np.int64(1), room // (kinds[kind, K_ROW] * images))
    length = np.int64(0)
    if kinds[kind, K_VARIABLE]:
        length = (room // (n_rows * images) - fixed) // kinds[kind, K_VARIABLE]
        length = min(max(length, np.int64(0)), kinds[kind, K_MOST])
    plan[row, E_TABLE] = table
    plan[row, E_MAP] = 0
    plan[row, E_TYPE] = event_type
    plan[row, E_ROWS] = n_rows
    plan[row, E_LENGTH] = length
    plan[row, E_SIZE] = base + n_rows * images * (fixed + length * kinds[kind, K_VARIABLE])
    plan[row, E_END] = end
    plan[row, E_NOTE] = 0


@njit(cache=True, nogil=True)
def _plan_transaction(plan, rng, settings, world, counts):
    sizes, pick_schema, pick_table, kinds, table_kind, maps = world[:6]
    statements = np.int64(1)
    while statements < settings[P_STATEMENTS] and _random(rng) & np.uint64(3):
        # The number of statements in a transaction has a geometric distribution with a mean of 4, cut off at the
        # setting P_STATEMENTS.
        statements += 1
    home = np.int64(pick_schema[_below(rng, pick_schema.size)])
    n = np.int64(0)
    total = np.int64(0)
    for _ in range(statements):
        dice = _random(rng)
        schema = home
        if np.int64(dice & np.uint64(0xFF)) < settings[P_FOREIGN]:
            schema = np.int64(pick_schema[_below(rng, pick_schema.size)])
        table = schema * settings[P_TABLES] + np.int64(pick_table[_below(rng, pick_table.size)])
        n_tables = 1
        if np.int64((dice >> np.uint64(8)) & np.uint64(0xFF)) < settings[P_TRIGGERS]:
            n_tables = 2
        n_events = np.int64(1)
        if np.int64((dice >> np.uint64(40)) & np.uint64(0x3FF)) < settings[P_BULK]:
            n_events = np.int64(2) + np.int64((dice >> np.uint64(24)) & np.uint64(7))
        what = np.int64((dice >> np.uint64(32)) & np.uint64(0xFF))
        # The values 0, 1 and 2 of `change` stand for insert, update and delete.
        change = 0 if what < 140 else 1 if what < 230 else 2
        event_type = change + (23 if settings[P_MARIADB] else 30)
        images = 2 if change == 1 else 1
        second = (
            schema * settings[P_TABLES] + (table - schema * settings[P_TABLES] + 1) % settings[P_TABLES]
            if n_tables == 2
            else table
        )
        begun = total
        if settings[P_MARIADB]:
            plan[n, E_TABLE] = table
            plan[n, E_NOTE] = 1
            plan[n, E_MAP] = 0
            plan[n, E_TYPE] = 160
            plan[n, E_LENGTH] = 40 + _below(rng, 160)
            plan[n, E_SIZE] = 19 + plan[n, E_LENGTH] + settings[P_CHECKSUM]
            total += plan[n, E_SIZE]
            n += 1
        for k in range(n_tables):
            it = table if k == 0 else second
            plan[n, E_TABLE] = it
            plan[n, E_NOTE] = 0
            plan[n, E_MAP] = 1
            plan[n, E_TYPE] = 19
            plan[n, E_SIZE] = 19 + maps[it, 1] + settings[P_CHECKSUM]
            total += plan[n, E_SIZE]
            n += 1
        for k in range(n_events):
            last = k == n_events - 1
            target = np.int64(sizes[_below(rng, sizes.size)]) if last else np.int64(8100)
            _rows_event(
                plan,
                n,
                target,
                table,
                table_kind[table],
                event_type,
                last and n_tables == 1,
                images,
                kinds,
                settings,
            )
            total += plan[n, E_SIZE]
            n += 1
        if n_tables == 2:
            target = np.int64(sizes[_below(rng, sizes.size)])
            _rows_event(
                plan, n, target, second, table_kind[second], event_type - change, True, 1, kinds, settings
            )
            total += plan[n, E_SIZE]
            n += 1
        counts[schema] += total - begun
    return n, total, home


@njit(cache=True, nogil=True)
def _write_rows(at, plan, row, seconds, rng, state, settings, world):
    kinds, tails, text = world.kinds, world.tails, world.text
    table = plan[row, E_TABLE]
    kind = world.table_kind[table]
    columns = kinds[kind, K_COLUMNS]
    bitmap = (columns + 7) >> 3
    store_u64(at, np.uint64(100 + table))
    store_u16(at + _U(6), np.uint16(plan[row, E_END]))
    at += _U(8)
    if settings[P_MARIADB] == 0:
        store_u16(at, np.uint16(2))
        at += _U(2)
    store_u8(at, np.uint8(columns))
    at += _U(1)
    change = plan[row, E_TYPE] - (23 if settings[P_MARIADB] else 30)
    images = 2 if change == 1 else 1
    for _ in range(images):
        for k in range(bitmap):
            store_u8(at + _U(k), np.uint8(0xFF))
        at += _U(bitmap)
    tail = kinds[kind, K_TAIL]
    length = plan[row, E_LENGTH]
    # In a row's null bitmap, MariaDB sets the bits after the last column, and MySQL clears them.
    spare = np.uint8((0xFF << (columns & 7)) & 0xFF) if columns & 7 and settings[P_MARIADB] else np.uint8(0)
    for _ in range(plan[row, E_ROWS]):
        state[G_ROW] += 1
        dice = _random(rng)
        for image in range(images):
            for k in range(bitmap):
                store_u8(at + _U(k), spare if k == bitmap - 1 else np.uint8(0))
            at += _U(bitmap)
            store_u64(at, np.uint64(state[G_ROW]))
            store_u32(at + _U(8), np.uint32((dice >> np.uint64(32)) + np.uint64(image)))
            for k in range(4):  # A TIMESTAMP in a row is big-endian.
                store_u8(at + _U(12 + k), np.uint8((seconds >> (24 - 8 * k)) & 0xFF))
            at += _U(_HEAD)
            for k in range(tail):
                store_u8(at + _U(k), tails[kind, k])
            at += _U(tail)
            for k in range(kinds[kind, K_VARIABLE]):
                if kinds[kind, K_PREFIX] == 1:
                    store_u8(at, np.uint8(length))
                    at += _U(1)
                else:
                    store_u16(at, np.uint16(length))
                    at += _U(2)
                start = np.int64((dice >> np.uint64(8 * k)) & np.uint64(0x7FFF))
                copy_bytes(at, _U(text.ctypes.data) + _U(start), _U(length))
                at += _U(length)


@njit(cache=True, nogil=True)
def _pause(rng, size, state, settings):
    """Return the microseconds between the commit before and that of a transaction of ``size`` bytes."""
    if not settings[P_BYTES_A_DAY]:
        return 20 + _below(rng, 400)
    pace = 1.0
    if settings[P_DAILY]:
        of_day = (state[G_TIME] % DAY) / DAY
        pace -= DAILY_SWING * math.cos(2 * math.pi * (of_day - QUIET_AT))
    mean = size * DAY / (settings[P_BYTES_A_DAY] * pace)
    return np.int64(mean * _below(rng, 2001) / 1000)


@njit(cache=True, nogil=True)
def stamp(out, offset, stop, rng, state, settings, world, plan, counts):
    """Write generated transactions into the buffer ``out`` and return the number of bytes written.

    The first byte of ``out`` stands at file offset ``offset``. Writing ends when the file has reached ``stop``, or
    when the buffer has no room for the next transaction. ``counts`` adds up the bytes of each schema. The GTID event,
    BEGIN and Xid of a transaction count with the transaction's first schema.
    """
    base = _U(out.ctypes.data)
    used = np.int64(0)
    mariadb = settings[P_MARIADB] != 0
    checksum = settings[P_CHECKSUM]
    xid_size = HEADER_LENGTH + 8 + checksum
    while offset + used < stop:
        before = rng[0]
        n, inner, home = _plan_transaction(plan, rng, settings, world, counts)
        begin_size = np.int64(0)
        if mariadb:
            gtid_size = HEADER_LENGTH + 19 + checksum
        else:
            begin_size = HEADER_LENGTH + world.begin_start[home + 1] - world.begin_start[home] + checksum
            gtid_size = HEADER_LENGTH + 1 + 16 + 8 + 17 + 7 + 4 + checksum
            gtid_size += _packed_size(gtid_size + begin_size + inner + xid_size + 4)
        total = gtid_size + begin_size + inner + xid_size
        if used + total > out.size:
            # The buffer has no room for this transaction. Its bytes are taken off the counts, and the same random
            # numbers make it again for the next buffer.
            for k in range(n):
                counts[plan[k, E_TABLE] // settings[P_TABLES]] -= plan[k, E_SIZE]
            rng[0] = before
            break
        counts[home] += total - inner
        state[G_GNO] += 1
        state[G_XID] += 1
        state[G_SEQUENCE] += 1
        state[G_TIME] = min(state[G_TIME] + _pause(rng, total, state, settings), settings[P_LATEST])
        seconds = state[G_TIME] // 1000000
        at = base + _U(used)
        position = offset + used + gtid_size
        if mariadb:
            _write_mariadb_gtid(at, seconds, gtid_size, position, state, settings)
        else:
            _write_mysql_gtid(at, seconds, gtid_size, position, total, state, settings, world.uuid)
        at += _U(gtid_size)
        if not mariadb:
            position += begin_size
            _header(at, seconds, EventType.QUERY, settings, begin_size, position, 8)
            start, end = world.begin_start[home], world.begin_start[home + 1]
            copy_bytes(at + _U(HEADER_LENGTH), _U(world.begin.ctypes.data) + _U(start), _U(end - start))
            _seal(at, begin_size, settings)
            at += _U(begin_size)
        for k in range(n):
            size = plan[k, E_SIZE]
            position += size
            _header(at, seconds, plan[k, E_TYPE], settings, size, position, 0)
            body = at + _U(HEADER_LENGTH)
            if plan[k, E_NOTE]:
                start = _below(rng, 32768)
                copy_bytes(body, _U(world.text.ctypes.data) + _U(start), _U(plan[k, E_LENGTH]))
            elif plan[k, E_MAP]:
                start, length = world.maps[plan[k, E_TABLE], 0], world.maps[plan[k, E_TABLE], 1]
                copy_bytes(body, _U(world.map_bytes.ctypes.data) + _U(start), _U(length))
            else:
                _write_rows(body, plan, k, seconds, rng, state, settings, world)
            _seal(at, size, settings)
            at += _U(size)
        position += xid_size
        _header(at, seconds, EventType.XID, settings, xid_size, position, 0)
        store_u64(at + _U(HEADER_LENGTH), np.uint64(state[G_XID]))
        _seal(at, xid_size, settings)
        used += total
    return used


@njit(cache=True, nogil=True)
def _write_mariadb_gtid(at, seconds, size, position, state, settings):
    _header(at, seconds, EventType.MARIADB_GTID, settings, size, position, 8)
    store_u64(at + _U(19), np.uint64(state[G_GNO]))
    store_u32(at + _U(27), np.uint32(0))
    store_u8(at + _U(31), np.uint8(0x0C))
    store_u32(at + _U(32), np.uint32(0))
    store_u16(at + _U(36), np.uint16(0))
    _seal(at, size, settings)


@njit(cache=True, nogil=True)
def _write_mysql_gtid(at, seconds, size, position, total, state, settings, uuid):
    _header(at, seconds, EventType.GTID, settings, size, position, 0)
    store_u8(at + _U(19), np.uint8(0))
    copy_bytes(at + _U(20), _U(uuid.ctypes.data), _U(16))
    store_u64(at + _U(36), np.uint64(state[G_GNO]))
    store_u8(at + _U(44), np.uint8(2))
    store_u64(at + _U(45), np.uint64(state[G_SEQUENCE] - 1))
    store_u64(at + _U(53), np.uint64(state[G_SEQUENCE]))
    # The field immediate_commit_timestamp of a GTID event has 7 bytes. Its top bit is clear when the original
    # timestamp is equal.
    store_u64(at + _U(61), np.uint64(state[G_TIME]))
    place = at + _U(68)
    width = _packed_size(total)
    if width == 1:
        store_u8(place, np.uint8(total))
    elif width == 3:
        store_u8(place, np.uint8(252))
        store_u16(place + _U(1), np.uint16(total))
    else:
        store_u8(place, np.uint8(253))
        store_u16(place + _U(1), np.uint16(total))
        store_u8(place + _U(3), np.uint8(total >> 16))
    store_u32(place + _U(width), np.uint32(90704))
    _seal(at, size, settings)
