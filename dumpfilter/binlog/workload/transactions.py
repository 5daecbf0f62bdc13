"""The random transactions of a generated binlog set. Each is encoded once and written many times with other GTIDs and
times.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
import uuid as uuids
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.cursor import packed_integer
from dumpfilter.binlog.events import HEADER_LENGTH, EventType
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event, rebase

Style = Literal["mysql", "mariadb"]
Ints = npt.NDArray[np.int64]

UUID = uuids.UUID("5e1ec7ed-b109-11f1-a980-0002fc000000")
"""The server_uuid in the GTIDs of generated binlog sets of the style ``mysql``."""
SERVER_ID = 1


class EventFormat(NamedTuple):
    """The format of the events in a generated binlog set: the server family that writes such events, and whether each
    event ends in a CRC32.
    """

    style: Style = "mysql"
    checksum: bool = True

    @property
    def is_mariadb(self) -> bool:
        """Whether the events of the generated binlog set are those of MariaDB, not of MySQL."""
        return self.style == "mariadb"

    def event(self, kind: int, body: bytes, flags: int = 0, now: int = 0) -> bytes:
        """Return the bytes of an event in this format. The end position in its header is a placeholder.

        ``kind`` is the event's type, ``body`` its bytes after the header, ``flags`` the header's flags, and ``now`` the
        Unix time, seconds.
        """
        return make_event(kind, body, timestamp=now, server_id=SERVER_ID, flags=flags, checksum=self.checksum)


_LONGLONG, _LONG, _DOUBLE, _TINY, _TIMESTAMP2, _NEWDECIMAL, _VARCHAR, _BLOB = 8, 3, 5, 1, 17, 246, 15, 252
_NUMERIC = (_LONGLONG, _LONG, _TINY, _DOUBLE, _NEWDECIMAL)
_FIRST_COLUMNS = bytes([_LONGLONG, _LONG, _TIMESTAMP2])
_FIRST_VALUES = struct.Struct("<QI4s")
"""The values of a row's columns BIGINT, INT and TIMESTAMP."""

_FOREIGN, _TRIGGERED, _BULK = 1 / 20, 1 / 50, 2 / 1000
"""The fractions of statements that change another schema, change a second table, or have several rows events."""
_INSERTS, _UPDATES, _DELETES = 0.55, 0.35, 0.1
_LARGE = 8100
"""The size of the rows events of a large statement, bytes."""
_SMALLEST, _MEDIAN, _LARGEST, _SPREAD = 60, 250, 8192, 0.9
"""The parameters of the log-normal distribution of the sizes of rows events, bytes. The spread is the standard
deviation of the logarithm.
"""

_BEGIN_STATUS = bytes.fromhex("0000000000010000000000000000060373746404ff00ff00ff0012ff00")
_SUPPRESS_USE = 8
"""The header flag LOG_EVENT_SUPPRESS_USE_F, which servers set for BEGIN and for MariaDB's GTID events."""
_MYSQL_GTID = struct.Struct("<B16sQBQQ7s")
_MARIADB_GTID = struct.Struct("<QIB6x")
_MARIADB_FLAGS = 0x0C
"""MariaDB's flags FL_TRANSACTIONAL and FL_ALLOW_PARALLEL."""
_SERVER_VERSION = 90704
_GNO_AT = HEADER_LENGTH + 17
"""The offset of the transaction number (gno) in MySQL's GTID event, bytes. MariaDB's seq_no follows the header."""
_SEQUENCE_AT = _GNO_AT + 9
"""The offset of last_committed in MySQL's GTID event, bytes. sequence_number and the commit time follow."""


@dataclass(frozen=True)
class _Kind:
    """A type of table in a generated binlog set, such as orders or documents.

    Every table begins with the columns BIGINT, INT and TIMESTAMP. The fields describe the columns that follow: first
    the columns of fixed length, then the columns of variable length.
    """

    fixed: bytes
    """The bytes of a row's columns of fixed length after TIMESTAMP. All rows have the same bytes."""
    variable: int
    """The number of columns of variable length, such as VARCHAR."""
    prefix: int
    """The size of the length field before each value of variable length, bytes."""
    longest: int
    """The size of the longest value of variable length, bytes."""
    row: int
    """The size of a usual row, bytes."""
    types: bytes
    metadata: bytes

    @property
    def bitmap(self) -> int:
        """The size of a bitmap with a bit for each column, bytes."""
        return (len(_FIRST_COLUMNS) + len(self.types) + 7) // 8


_KINDS = (
    # Measurements: a DOUBLE.
    _Kind(struct.pack("<d", 20.5), 0, 0, 0, 25, bytes([_DOUBLE]), b"\x08"),
    # Orders: a DECIMAL(10,2) with the value 199.95, and a VARCHAR(250).
    _Kind(bytes.fromhex("800000c75f"), 1, 1, 250, 70, bytes([_NEWDECIMAL, _VARCHAR]), bytes([10, 2, 250, 0])),
    # Customers: a TINYINT and three VARCHARs.
    _Kind(b"\x01", 3, 1, 240, 150, bytes([_TINY] + 3 * [_VARCHAR]), 3 * bytes([240, 0])),
    # Documents: a TEXT column.
    _Kind(b"", 1, 2, 8000, 400, bytes([_BLOB]), b"\x02"),
)


@dataclass(frozen=True)
class _Table:
    """A table of the set: its number, its schema's index, its type, and the body of its Table_map event."""

    number: int
    schema: int
    kind: _Kind
    map_body: bytes


@dataclass(frozen=True)
class Transaction:
    """An encoded transaction of a generated binlog set. Its GTID, times, Xid, end_log_pos and checksums are
    placeholders, which :func:`written` fills in.
    """

    events: bytes
    offsets: Ints
    """The offset of each event in ``events``, bytes."""
    schemas: dict[int, int]
    """The size of the events of each schema, bytes, by the schema's number.

    The GTID event, BEGIN and Xid count with the transaction's first schema.
    """


class Transactions:
    """An endless iterator of random transactions as a server with ``binlog_format=ROW`` would write them, for generated
    binlog sets.

    Parameters:
        schemas: the names of the schemas.
        tables: the number of tables in each schema.
        statements: the largest number of statements in a transaction.
        form: the server family that the events are of, and whether they have checksums.
        seed: a number from which all random choices follow.
    """

    def __init__(
        self, schemas: list[str], tables: int, statements: int, form: EventFormat, *, seed: int
    ) -> None:
        self._random = random.Random(seed)
        self._form = form
        self._statements = statements
        self._names = schemas
        self._schema_weights, self._table_weights = _zipf(len(schemas)), _zipf(tables)
        kinds = [_KINDS[k % len(_KINDS)] for k in range(len(schemas) * tables)]
        self._random.shuffle(kinds)
        self._tables = [
            [self._table(s, schema, t, kinds[s * tables + t], tables) for t in range(tables)]
            for s, schema in enumerate(schemas)
        ]
        words = self._random.choices(
            ["lorem", "ipsum", "dolor", "sit", "amet", "42", "2026", "ok"], k=1 << 14
        )
        self._text = " ".join(words).encode()
        self._rows = itertools.count(1)

    def __iter__(self) -> Iterator[Transaction]:
        return self

    def __next__(self) -> Transaction:
        draw = self._random
        statements = 1
        while statements < self._statements and draw.random() < 3 / 4:
            statements += 1
        home = self._schema()
        schemas = {home: 0}
        changes: list[bytes] = []
        for _ in range(statements):
            schema = self._schema() if draw.random() < _FOREIGN else home
            events = list(self._statement(schema))
            schemas[schema] = schemas.get(schema, 0) + sum(map(len, events))
            changes.extend(events)
        made = transaction(changes, self._names[home], self._form)
        schemas[home] += len(made.events) - sum(map(len, changes))
        return Transaction(made.events, made.offsets, schemas)

    def _schema(self) -> int:
        return self._random.choices(range(len(self._names)), cum_weights=self._schema_weights)[0]

    def _table(self, schema: int, name: str, number: int, kind: _Kind, tables: int) -> _Table:
        types = _FIRST_COLUMNS + kind.types
        nullable = ((1 << len(types)) - 2).to_bytes((len(types) + 7) // 8, "little")
        # MySQL's optional metadata of a table has the field SIGNEDNESS, with a zero bit for each signed numeric column.
        numeric = (sum(t in _NUMERIC for t in types) + 7) // 8
        optional = b"" if self._form.is_mariadb else bytes([1, numeric]) + bytes(numeric)
        table_id = 100 + schema * tables + number
        table_map = TableMap(
            table_id, 1, name, f"table_{number:03}", types, b"\x00" + kind.metadata, nullable, optional
        )
        return _Table(table_id, schema, kind, encode_table_map(table_map))

    def _statement(self, schema: int) -> Iterator[bytes]:
        """Yield the events of one random statement that changes tables of a schema. They are table maps and rows
        events, for MariaDB preceded by an Annotate_rows event.
        """
        draw = self._random
        tables = self._tables[schema]
        number = draw.choices(range(len(tables)), cum_weights=self._table_weights)[0]
        table = tables[number]
        triggered = tables[(number + 1) % len(tables)] if draw.random() < _TRIGGERED else None
        large = draw.randrange(1, 9) if draw.random() < _BULK else 0
        change = draw.choices(
            (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS),
            (_INSERTS, _UPDATES, _DELETES),
        )[0]
        if self._form.is_mariadb:
            yield self._form.event(EventType.ANNOTATE_ROWS, self._words(draw.randrange(40, 200)))
        for mapped in (table, triggered):
            if mapped is not None:
                yield self._form.event(EventType.TABLE_MAP, mapped.map_body)
        for _ in range(large):
            yield self._rows_event(table, change, _LARGE, ends=False)
        yield self._rows_event(table, change, self._rows_size(), ends=triggered is None)
        if triggered is not None:
            yield self._rows_event(triggered, EventType.WRITE_ROWS, self._rows_size(), ends=True)

    def _rows_size(self) -> int:
        size = self._random.lognormvariate(math.log(_MEDIAN), _SPREAD)
        return int(min(max(size, _SMALLEST), _LARGEST))

    def _rows_event(self, table: _Table, change: int, size: int, *, ends: bool) -> bytes:
        """Return a rows event of about ``size`` bytes. Its rows have the table's usual size. ``ends`` sets the flag
        STMT_END_F that marks the last rows event of a statement.
        """
        kind = table.kind
        columns, images = len(_FIRST_COLUMNS) + len(kind.types), 2 if change == EventType.UPDATE_ROWS else 1
        head = table.number.to_bytes(6, "little") + int(ends).to_bytes(2, "little")
        if self._form.is_mariadb:
            # MariaDB writes version 1 of the rows events, and MySQL version 2.
            change += EventType.WRITE_ROWS_V1 - EventType.WRITE_ROWS
        else:
            head += b"\x02\x00"
        head += bytes([columns]) + images * kind.bitmap * b"\xff"
        fixed = kind.bitmap + _FIRST_VALUES.size + len(kind.fixed) + kind.variable * kind.prefix
        room = max(size - HEADER_LENGTH - len(head), fixed * images)
        rows = max(1, room // (kind.row * images))
        length = 0
        if kind.variable:
            length = min(max((room // (rows * images) - fixed) // kind.variable, 0), kind.longest)
        # In a row's null bitmap, MariaDB sets the bits after the last column, and MySQL clears them.
        nulls = (0xFF << columns) & ((1 << 8 * kind.bitmap) - 1) if self._form.is_mariadb else 0
        start, end = nulls.to_bytes(kind.bitmap, "little"), kind.fixed
        at = self._random.getrandbits(32).to_bytes(4, "big")
        pieces = [head]
        for row in itertools.islice(self._rows, rows):
            number = self._random.getrandbits(31)
            for image in range(images):
                pieces.append(start + _FIRST_VALUES.pack(row, number + image, at) + end)
                pieces.extend(
                    length.to_bytes(kind.prefix, "little") + self._words(length) for _ in range(kind.variable)
                )
        return self._form.event(change, b"".join(pieces))

    def _words(self, length: int) -> bytes:
        at = self._random.randrange(len(self._text) - length)
        return self._text[at : at + length]


def transaction(changes: list[bytes], schema: str, form: EventFormat) -> Transaction:
    """Return one encoded transaction of a generated binlog set, with placeholders for GTID, times and checksums.

    ``changes`` are its Table_map and rows events, and ``schema`` is the default database. ``form`` tells the server
    family, and whether events have checksums.
    """
    events = [*changes, form.event(EventType.XID, bytes(8))]
    if form.is_mariadb:
        gtid = form.event(EventType.MARIADB_GTID, _MARIADB_GTID.pack(0, 0, _MARIADB_FLAGS), _SUPPRESS_USE)
    else:
        events.insert(0, form.event(EventType.QUERY, _begin(schema), _SUPPRESS_USE))
        body = _MYSQL_GTID.pack(0, UUID.bytes, 0, 2, 0, 0, bytes(7))
        version = _SERVER_VERSION.to_bytes(4, "little")
        size = len(form.event(EventType.GTID, body + version)) + sum(map(len, events))
        # The transaction length counts its own bytes.
        size += len(packed_integer(size + 4))
        gtid = form.event(EventType.GTID, body + packed_integer(size) + version)
    events.insert(0, gtid)
    sizes = np.array([len(event) for event in events], np.int64)
    return Transaction(b"".join(events), np.cumsum(sizes) - sizes, {})


def written(
    transactions: list[Transaction],
    position: int,
    first_gno: int,
    first_sequence: int,
    times: Ints,
    form: EventFormat,
) -> bytearray:
    """Return the bytes of consecutive generated transactions, for a file in which they begin at byte offset
    ``position``.

    The transactions get the GTID numbers (gno or seq_no) from ``first_gno`` on. In MySQL they also get the logical
    timestamps ``sequence_number`` from ``first_sequence`` on. ``times`` are the commit times, microseconds of Unix
    time.
    """
    events = bytearray().join(one.events for one in transactions)
    data = np.frombuffer(events, np.uint8)
    sizes = np.array([len(one.events) for one in transactions], np.int64)
    counts = np.array([one.offsets.size for one in transactions], np.int64)
    begin = np.cumsum(sizes) - sizes
    offsets = np.concatenate([one.offsets for one in transactions]) + np.repeat(begin, counts)
    _put(data, offsets, np.repeat(times // 1_000_000, counts), 4)
    gno = np.arange(first_gno, first_gno + sizes.size)
    if form.is_mariadb:
        _put(data, begin + HEADER_LENGTH, gno, 8)
    else:
        sequence = np.arange(first_sequence, first_sequence + sizes.size)
        _put(data, begin + _GNO_AT, gno, 8)
        _put(data, begin + _SEQUENCE_AT, sequence - 1, 8)
        _put(data, begin + _SEQUENCE_AT + 8, sequence, 8)
        # Bit 55 of the commit time is clear, since the original commit time is equal.
        _put(data, begin + _SEQUENCE_AT + 16, times, 7)
    _put(data, offsets[np.cumsum(counts) - 1] + HEADER_LENGTH, gno + 1000, 8)
    return rebase(events, position, checksum=form.checksum)


def _put(data: npt.NDArray[np.uint8], at: Ints, values: Ints, width: int) -> None:
    """Write little-endian integers of ``width`` bytes at the offsets ``at``."""
    octets = values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    data[at[:, None] + np.arange(width)] = octets


def _zipf(number: int) -> list[float]:
    """Return the cumulative weights of ``number`` choices by Zipf's law: 1, 1/2, 1/3 and so on."""
    return list(itertools.accumulate(1 / k for k in range(1, number + 1)))


def _begin(schema: str) -> bytes:
    head = (8).to_bytes(4, "little") + bytes(4) + bytes([len(schema)]) + bytes(2)
    return head + len(_BEGIN_STATUS).to_bytes(2, "little") + _BEGIN_STATUS + schema.encode() + b"\0BEGIN"
