"""The generator of synthetic binlog sets of any size.

A set looks like the binlog of a busy server with ``binlog_format=ROW``. GTIDs are consecutive, timestamps advance,
each statement has its table maps, and the rows can be decoded.

With the defaults, a transaction has 4 statements on average and 16 at most (a geometric distribution).

- 1 statement in 20 changes another schema than its transaction's first schema.
- 1 statement in 50 changes a second table.
- 2 statements in 1,000 have 2 to 9 rows events of 8 KB.

The sizes of rows events are log-normal between 60 bytes and 8 KB, with a median of 250 and a mean of about 440 bytes.
The mean over all events is about 200 bytes with MySQL and 190 with MariaDB, because the other events are small. The
popularity of schemas, and of the tables in a schema, follows Zipf's law: 1, 1/2, 1/3 …

Without a time span, the commits follow one another by 0.2 ms. Over a span, the pause before a commit is random, and in
proportion to the transaction's bytes.

Only the first 8 MiB of transactions are generated anew. All later transactions are drawn at random from these, with
other GTIDs and times.

In the shell, ``dumpfilter generate`` writes such a set.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import uuid as uuids
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Int64s
from dumpfilter.base.files import writing
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.cursor import packed_integer
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    LOG_EVENT_IGNORABLE_F,
    LOG_EVENT_SUPPRESS_USE_F,
    MAGIC,
    EventType,
)
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtidSet
from dumpfilter.binlog.gtid_events import (
    FL_ALLOW_PARALLEL,
    FL_TRANSACTIONAL,
    GtidList,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event, rebase, rebase_array

UUID = uuids.UUID("5e1ec7ed-b109-11f1-a980-0002fc000000")
"""The server_uuid in the GTIDs of generated binlog sets that imitate MySQL (style ``mysql``)."""
SERVER_ID = 1


def generated_event(kind: int, body: bytes, flags: int = 0, now: int = 0) -> bytes:
    """Return the bytes of an event of a generated binlog set. The end position in its header is 0, a placeholder for
    :func:`rebase`.

    ``kind`` is the event's type, ``body`` its bytes between header and checksum, ``flags`` the header's flags, and
    ``now`` the Unix time, seconds.
    """
    return make_event(kind, body, timestamp=now, server_id=SERVER_ID, flags=flags)


_NUMERIC = (T.LONGLONG, T.LONG, T.TINY, T.DOUBLE, T.NEWDECIMAL)
_FIRST_COLUMNS = bytes([T.LONGLONG, T.LONG, T.TIMESTAMP2])
_FIRST_VALUES = struct.Struct("<QI4s")
"""The values of a row's columns BIGINT, INT and TIMESTAMP."""

_FOREIGN, _TRIGGERED, _BULK = 1 / 20, 1 / 50, 2 / 1000
"""The fractions of statements that change another schema, change a second table, or have several rows events."""
_MOST_STATEMENTS = 16
"""The largest number of statements in a transaction."""
_INSERTS, _UPDATES, _DELETES = 0.55, 0.35, 0.1
_LARGE = 8100
"""The size of the rows events of a large statement, bytes."""
_SMALLEST, _MEDIAN, _LARGEST, _SPREAD = 60, 250, 8192, 0.9
"""The parameters of the log-normal distribution of the sizes of rows events, bytes. The spread is the standard
deviation of the logarithm.
"""

_WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "42", "2026", "ok")
_FIRST_TABLE_ID = 100
_QUERY_HEAD = struct.Struct("<IIBHH")
_THREAD = 8
"""The thread id of the session that runs all transactions."""
_BEGIN_STATUS = bytes.fromhex("0000000000010000000000000000060373746404ff00ff00ff0012ff00")
_MYSQL_GTID = struct.Struct("<B16sQBQQ7x")
_GNO_AT, _TIMES_AT = HEADER_LENGTH + 17, HEADER_LENGTH + 26
"""The offsets of the GTID's number, and of the logical timestamps and the commit time, in MySQL's GTID event, bytes."""
_MARIADB_GTID = struct.Struct("<QIB6x")
_BEFORE_FIRST_XID = 1000
_SERVER_VERSION = (90704).to_bytes(4, "little")


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


def _kind(types: list[str], metadata: str, fixed: str, **sizes: int) -> _Kind:
    codes = bytes(getattr(T, each) for each in types)
    return _Kind(bytes.fromhex(fixed), types=codes, metadata=bytes.fromhex(metadata), **sizes)


_FACTS = json.loads(Path(__file__).with_name("workload.json").read_text("utf-8"))
"""The types of tables, and for each server family the server's version and the lengths of its events' post-headers. All
bytes are in hexadecimal.
"""
_KINDS = [_kind(**each) for each in _FACTS["tables"].values()]


class _Table(NamedTuple):
    """A table of a generated binlog set: its table id, its type, and its Table_map event."""

    number: int
    kind: _Kind
    map_event: bytes


class Transaction(NamedTuple):
    """A transaction of a generated binlog set: the bytes of its events, and where each event begins. :func:`written`
    sets its GTID, times, end_log_pos and checksums.
    """

    data: bytes
    """The bytes of all events, with 0 in the fields that :func:`written` sets, such as the GTID, times and checksums.
    """
    offsets: Int64s
    """The byte offset of each event in ``data``."""


class Transactions:
    """Random transactions as a server with ``binlog_format=ROW`` would write them, for generated binlog sets.

    Parameters:
        schemas: the names of the schemas.
        tables: the number of tables in each schema.
        style: the server family that the events are of.
        seed: a number from which all random choices follow.
    """

    def __init__(self, schemas: list[str], tables: int, style: Family, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._draw = random.Random(seed)
        self._style = style
        self._names = schemas
        self._schema_weights, self._table_weights = _zipf(len(schemas)), _zipf(tables)
        kinds = [_KINDS[k % len(_KINDS)] for k in range(len(schemas) * tables)]
        self._random.shuffle(kinds)
        numbered = enumerate(kinds, _FIRST_TABLE_ID)
        self._tables = [[self._table(each, k, *next(numbered)) for k in range(tables)] for each in schemas]
        self._text = " ".join(self._random.choices(_WORDS, k=1 << 14)).encode()
        self._rows = itertools.count(1)

    def __iter__(self) -> Iterator[Transaction]:
        """Yield transactions without end. The first 8 MiB are generated. All later ones are drawn at random from these,
        which saves the time of encoding new ones.
        """
        pool, size = [], 0
        while size < _BLOCK:
            pool.append(self.new())
            size += len(pool[-1].data)
            yield pool[-1]
        while True:
            yield from self._draw.choices(pool, k=_DRAWN_AT_ONCE)

    def new(self) -> Transaction:
        """Return a new transaction with random statements on random tables, as the bytes of its events."""
        draw = self._random
        statements = 1
        while statements < _MOST_STATEMENTS and draw.random() < 3 / 4:
            statements += 1
        home = self._schema()
        changes: list[bytes] = []
        for _ in range(statements):
            changes += self._statement(self._schema() if draw.random() < _FOREIGN else home)
        return transaction(changes, self._names[home], self._style)

    def _schema(self) -> int:
        return self._random.choices(range(len(self._names)), cum_weights=self._schema_weights)[0]

    def _table(self, schema: str, number: int, table_id: int, kind: _Kind) -> _Table:
        types = _FIRST_COLUMNS + kind.types
        nullable = ((1 << len(types)) - 2).to_bytes(kind.bitmap, "little")
        # MySQL's optional metadata of a table has the field SIGNEDNESS, with a zero bit for each signed numeric column.
        numeric = (sum(t in _NUMERIC for t in types) + 7) // 8
        optional = b"" if self._style == "mariadb" else bytes([1, numeric]) + bytes(numeric)
        metadata = b"\x00" + kind.metadata
        table = TableMap(table_id, 1, schema, f"table_{number:03}", types, metadata, nullable, optional)
        return _Table(table_id, kind, generated_event(EventType.TABLE_MAP, encode_table_map(table)))

    def _statement(self, schema: int) -> Iterator[bytes]:
        """Yield the events of one random statement that changes tables of the schema with the index ``schema``.

        The events are table maps and rows events. For MariaDB, an Annotate_rows event precedes them.
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
        if self._style == "mariadb":
            yield generated_event(EventType.ANNOTATE_ROWS, self._words(draw.randrange(40, 200)))
        yield table.map_event
        if triggered is not None:
            yield triggered.map_event
        for _ in range(large):
            yield self._rows_event(table, change, _LARGE, ends=False)
        yield self._rows_event(table, change, self._rows_size(), ends=triggered is None)
        if triggered is not None:
            yield self._rows_event(triggered, EventType.WRITE_ROWS, self._rows_size(), ends=True)

    def _rows_size(self) -> int:
        size = self._random.lognormvariate(math.log(_MEDIAN), _SPREAD)
        return int(min(max(size, _SMALLEST), _LARGEST))

    def _rows_event(self, table: _Table, change: int, size: int, *, ends: bool) -> bytes:
        """Return a rows event of about ``size`` bytes for a table. ``change`` is the event type, such as WRITE_ROWS.

        The event's rows have the table's usual size. ``ends`` sets the flag STMT_END_F that marks the last rows event
        of a statement.
        """
        kind = table.kind
        columns, images = len(_FIRST_COLUMNS) + len(kind.types), 2 if change == EventType.UPDATE_ROWS else 1
        head = table.number.to_bytes(6, "little") + int(ends).to_bytes(2, "little")
        if self._style == "mariadb":
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
        nulls = (0xFF << columns) & ((1 << 8 * kind.bitmap) - 1) if self._style == "mariadb" else 0
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
        return generated_event(change, b"".join(pieces))

    def _words(self, length: int) -> bytes:
        at = self._random.randrange(len(self._text) - length)
        return self._text[at : at + length]


def transaction(changes: Sequence[bytes], schema: str, style: Family) -> Transaction:
    """Return a transaction of a generated binlog set.

    ``changes`` are its encoded Table_map and rows events, and ``schema`` is the default database. ``style`` is the
    server family.
    """
    events = [*changes, generated_event(EventType.XID, bytes(8))]
    if style == "mariadb":
        body = _MARIADB_GTID.pack(0, 0, FL_TRANSACTIONAL | FL_ALLOW_PARALLEL)
        events.insert(0, generated_event(EventType.MARIADB_GTID, body, LOG_EVENT_SUPPRESS_USE_F))
    else:
        begin = _QUERY_HEAD.pack(_THREAD, 0, len(schema), 0, len(_BEGIN_STATUS)) + _BEGIN_STATUS
        begin += schema.encode() + b"\0BEGIN"
        events.insert(0, generated_event(EventType.QUERY, begin, LOG_EVENT_SUPPRESS_USE_F))
        body = _MYSQL_GTID.pack(0, UUID.bytes, 0, 2, 0, 0)
        size = HEADER_LENGTH + len(body + _SERVER_VERSION) + CHECKSUM_LENGTH + sum(map(len, events))
        # The transaction length counts its own bytes.
        body += packed_integer(size + len(packed_integer(size + 4))) + _SERVER_VERSION
        events.insert(0, generated_event(EventType.GTID, body))
    ends = np.cumsum([len(event) for event in events])
    return Transaction(b"".join(events), np.append(0, ends[:-1]))


def written(
    transactions: Sequence[Transaction], position: int, gno: int, sequence: int, times: Int64s, style: Family
) -> bytearray:
    """Return the bytes of consecutive generated transactions, for a file in which they begin at byte offset
    ``position``.

    The transactions get the GTID numbers (gno or seq_no) from ``gno`` on. In MySQL they also get the logical
    timestamps ``sequence_number`` from ``sequence`` on. ``times`` are the commit times, microseconds of Unix
    time.
    """
    data = bytearray().join(one.data for one in transactions)
    array = np.frombuffer(data, np.uint8)

    def put(at: Int64s, *values: Int64s, width: int = 8) -> None:
        array[at[:, None] + np.arange(width)] = np.stack(values, 1).astype("<i8").view(np.uint8)[:, :width]

    ends = np.cumsum([len(one.data) for one in transactions])
    starts = np.append(0, ends[:-1])
    number = np.arange(len(transactions))
    if style == "mariadb":
        put(starts + HEADER_LENGTH, gno + number)
    else:
        put(starts + _GNO_AT, gno + number)
        # Bit 55 of the commit time is clear, since the original commit time is equal.
        put(starts + _TIMES_AT, sequence + number - 1, sequence + number, times, width=23)
    put(ends - CHECKSUM_LENGTH - 8, _BEFORE_FIRST_XID + gno + number)
    events = [len(one.offsets) for one in transactions]
    offsets = np.concatenate([one.offsets for one in transactions])
    put(np.repeat(starts, events) + offsets, np.repeat(times // _SECOND, events), width=4)
    rebase_array(array, position, checksum=True, is_new=True)
    return data


def _zipf(number: int) -> list[float]:
    """Return the cumulative weights of ``number`` choices by Zipf's law, such as 1, 3/2 and 11/6 for 3 choices. The
    weights themselves are 1, 1/2, 1/3 and so on.
    """
    return list(itertools.accumulate(1 / k for k in range(1, number + 1)))


START = 1_790_000_000
"""The Unix time of the first event of a generated binlog set, seconds."""

_SECOND = 1_000_000
"""The number of microseconds in a second."""
_ENDS_EARLY = 1.02
"""The factor by which commits advance faster than the span (the period of all commit times) requires on average.

The pauses between commits are random. Without the factor, many transactions could pile up at the end of the span.
"""
_PACE = 10_000_000
"""The bytes per second by which a generated binlog set grows, if the caller gives no period for the commit times."""
_BLOCK = 8 << 20
"""The size of the pool of transactions that are encoded, and the most that is written at once, bytes."""

_DRAWN_AT_ONCE = 1000

_DESCRIPTION_HEAD = struct.Struct("<H50sIB")
_CRC32 = 1
"""The number of the checksum algorithm CRC32 in a format description event."""


class Span(NamedTuple):
    """The start and the length of the period over which the commit times of a generated binlog set are spread."""

    start: int
    """The time of the first event, Unix seconds."""
    seconds: float


@dataclass
class GeneratedSet:
    """The description of a generated binlog set: its index file, its binlog files, its size and its number of
    transactions.
    """

    index: Path
    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    """The size of all binlog files, bytes."""
    transactions: int = 0


def schema_names(number: int) -> list[str]:
    """Return the names of the first ``number`` schemas of a generated binlog set, such as ``shop_00``."""
    return [f"shop_{k:02}" for k in range(number)]


def generate(
    directory: Path,
    size: int,
    *,
    style: Family = "mysql",
    schemas: int = 20,
    tables: int = 50,
    file_size: int = 256 << 20,
    base: str = "bin",
    seed: int = 1,
    span: Span | None = None,
) -> GeneratedSet:
    """Write a binlog set of about ``size`` bytes into ``directory``: ``<base>.000001`` … and ``<base>.index``. Return
    its description. The directory is made if it does not exist.

    Parameters:
        style: the server that would write such a set. ``mysql`` is MySQL 9.7 (Gtid, Query BEGIN, rows events of version
            2), and ``mariadb`` is MariaDB 10.11 (Gtid, Annotate_rows, rows events of version 1).
        schemas, tables: the number of schemas, and the number of tables in each schema (at least 2).
        file_size: the size after which the next transaction begins a new file (``max_binlog_size``), bytes.
        base: the files' name without number.
        seed: a number from which all random choices follow. Two calls with equal arguments write equal files.
        span: the time over which the commits are spread. None: from :data:`START` on, 10 MB a second.

    Raises OutputError when a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = GeneratedSet(directory / f"{base}.index")
    transactions = iter(Transactions(schema_names(schemas), tables, style, seed=seed))
    chance = np.random.default_rng(seed)
    span = span or Span(START, size / _PACE)
    now = span.start * _SECOND
    done = 0.0
    while made.bytes < size or not made.files:
        number = len(made.files) + 1
        path = directory / f"{base}.{number:06}"
        stop = min(file_size, size - made.bytes)
        with writing(path), open(path, "wb") as file:
            before = made.transactions
            at = file.write(file_head(path.name, now // _SECOND, before, style))
            while at < stop:
                block: list[Transaction] = []
                wanted = min(stop - at, _BLOCK)
                while wanted > 0:
                    block.append(next(transactions))
                    wanted -= len(block[-1].data)
                sizes = [len(one.data) for one in block]
                # The bytes until each commit, weighted by the random pauses.
                written_by = done + np.cumsum(sizes * chance.uniform(0, 2 * _ENDS_EARLY, len(block)))
                done = float(written_by[-1])
                seconds = np.minimum(written_by / size, 1) * span.seconds
                times = span.start * _SECOND + (seconds * _SECOND).astype(np.int64)
                now = int(times[-1])
                first = made.transactions + 1
                at += file.write(written(block, at, first, first - before, times, style))
                made.transactions += len(block)
            if made.bytes + at < size:
                rotate = encode_rotate(Rotate(f"{base}.{number + 1:06}", 4))
                event = generated_event(EventType.ROTATE, rotate, now=now // _SECOND)
                at += file.write(rebase(event, at, checksum=True))
        made.files.append(path)
        made.bytes += at
    with writing(made.index):
        made.index.write_text("".join(f"./{path.name}\n" for path in made.files))
    return made


def file_head(name: str, now: int, last: int, style: Family) -> bytes:
    """Return the beginning of a generated binlog file: the events before the first transaction.

    These events are the format description event and the GTIDs of earlier files, and in MariaDB also a
    Binlog_checkpoint event. ``name`` is the file's name, ``now`` the Unix time in seconds, ``last`` the number of
    transactions in the earlier files. ``style`` is the server family.
    """
    if style == "mariadb":
        gtids = encode_gtid_list(GtidList((MariadbGtid(0, SERVER_ID, last),) if last else ()))
        checkpoint = len(name).to_bytes(4, "little") + name.encode()
        others = generated_event(EventType.GTID_LIST, gtids, now=now)
        others += generated_event(EventType.BINLOG_CHECKPOINT, checkpoint, now=now)
    else:
        before = encode_previous_gtids(MysqlGtidSet.parse(f"{UUID}:1-{last}" if last else ""))
        others = generated_event(EventType.PREVIOUS_GTIDS, before, LOG_EVENT_IGNORABLE_F, now)
    version, lengths = _FACTS["formats"][style].values()
    description = _DESCRIPTION_HEAD.pack(4, version.encode(), 0 if last else now, HEADER_LENGTH)
    description += bytes.fromhex(lengths) + bytes([_CRC32])
    first = generated_event(EventType.FORMAT_DESCRIPTION, description, now=now)
    return MAGIC + bytes(rebase(first + others, len(MAGIC), checksum=True))
