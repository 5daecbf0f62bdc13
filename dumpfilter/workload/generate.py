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

In the shell, ``dumpfilter generate`` writes such a set.
"""

from __future__ import annotations

import math
import uuid as uuids
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.gtid import (
    GtidList,
    MariadbGtid,
    MysqlGtidSet,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.rows import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event
from dumpfilter.workload import _stamp as G

Style = Literal["mysql", "mariadb"]

UUID = uuids.UUID("5e1ec7ed-b109-11f1-a980-0002fc000000")
"""The server_uuid in the GTIDs of generated binlog sets of the style ``mysql``."""
SERVER_ID = 1
START = 1_790_000_000
"""The Unix time of the first event of a generated binlog set, seconds."""

_DAY = 86_400
"""The length of a day, seconds."""
_ENDS_EARLY = 1.02
"""The factor by which the traffic of a span is faster than its bytes need.

The pauses are random. Without the factor, many transactions could pile up at the end of the span.
"""
_BUFFER = 8 << 20
_TEXT = 1 << 16

_MYSQL_VERSION = b"9.7.4"
_MYSQL_LENGTHS = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)
_MARIADB_VERSION = b"10.11.19-MariaDB-log"
_MARIADB_LENGTHS = (
    bytes.fromhex("380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a")
    + bytes(119)
    + bytes.fromhex("041304000d0808080a0a0a")
)
_BEGIN_STATUS = bytes.fromhex("0000000000010000000000000000060373746404ff00ff00ff0012ff00")

_LONGLONG, _LONG, _DOUBLE, _TINY, _TIMESTAMP2, _NEWDECIMAL, _VARCHAR, _BLOB = 8, 3, 5, 1, 17, 246, 15, 252


@dataclass(frozen=True)
class _Kind:
    """A kind of table in a generated binlog set, with its columns.

    Every table begins with the columns BIGINT, INT and TIMESTAMP. The fields describe the columns that follow: first
    the columns of fixed length, then the columns of variable length.
    """

    fixed: bytes
    """The bytes of a row's columns of fixed length after TIMESTAMP. All rows have the same bytes."""
    variable: int
    """The number of columns of variable length, such as VARCHAR, in a table of the kind."""
    prefix: int
    """The size of the length that stands before each value of variable length, bytes."""
    most: int
    """The size of the longest value in the table's columns of variable length, bytes."""
    row: int
    """The size of a usual row of the table, bytes."""
    types: bytes
    metadata: bytes


_KINDS = (
    # The generated tables of the first kind, as for measurements, have a DOUBLE column.
    _Kind(np.float64(20.5).tobytes(), 0, 0, 0, 25, bytes([_DOUBLE]), b"\x08"),
    # The generated tables of the second kind, as for orders, have a DECIMAL(10,2) with the value 199.95, and a
    # VARCHAR(250).
    _Kind(bytes.fromhex("800000c75f"), 1, 1, 250, 70, bytes([_NEWDECIMAL, _VARCHAR]), bytes([10, 2, 250, 0])),
    # The generated tables of the third kind, as for customers, have a TINYINT and three VARCHARs.
    _Kind(b"\x01", 3, 1, 240, 150, bytes([_TINY] + 3 * [_VARCHAR]), 3 * bytes([240, 0])),
    # The generated tables of the fourth kind, as for documents, have a TEXT column.
    _Kind(b"", 1, 2, 8000, 400, bytes([_BLOB]), b"\x02"),
)


@dataclass(frozen=True)
class Span:
    """The time over which the commits of a generated set are spread."""

    start: int
    """The time of the first event, Unix seconds."""
    seconds: int
    daily: bool = False
    """Whether the traffic rises and falls with the time of day."""

    def seconds_at_mean_pace(self) -> float:
        """Return the seconds in which traffic at its mean pace would have the bytes of the span."""
        if not self.daily:
            return self.seconds

        def swing(at: float) -> float:
            return G.DAILY_SWING * _DAY / (2 * math.pi) * math.sin(2 * math.pi * (at / _DAY - G.QUIET_AT))

        return self.seconds - swing(self.start + self.seconds) + swing(self.start)


@dataclass
class GeneratedSet:
    """A generated binlog set: its files, and the bytes of each schema."""

    index: Path
    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    """The size of all binlog files, bytes."""
    transactions: int = 0
    schemas: dict[str, int] = field(default_factory=dict)
    """The size of the events of each schema, bytes, by the schema's name.

    The GTID event, BEGIN and Xid of a transaction count with the transaction's first schema.
    """


def schema_names(number: int) -> list[str]:
    """Return the names of the first ``number`` schemas: ``shop_00``, ``shop_01`` and so on."""
    return [f"shop_{k:02}" for k in range(number)]


def generate(
    directory: Path,
    size: int,
    *,
    style: Style = "mysql",
    checksum: bool = True,
    schemas: int = 20,
    tables: int = 50,
    statements: int = 16,
    file_size: int = 256 << 20,
    base: str = "bin",
    seed: int = 1,
    span: Span | None = None,
) -> GeneratedSet:
    """Write a binlog set of about ``size`` bytes into ``directory``: ``<base>.000001`` … and ``<base>.index``.

    Parameters:
        style: the server that would write such a set. ``mysql`` is MySQL 9.7 (Gtid, Query BEGIN, rows events of version
            2), and ``mariadb`` is MariaDB 10.11 (Gtid, Annotate_rows, rows events of version 1).
        checksum: whether events have checksums, as with ``binlog_checksum=CRC32``.
        schemas, tables: the number of schemas, and the number of tables in each schema (at least 2).
        statements: the most statements of one transaction.
        file_size: the size after which the next transaction begins a new file (``max_binlog_size``), bytes.
        base: the files' name without number.
        seed: a number from which all random choices follow. Two calls with equal arguments write equal files.
        span: the time over which the commits are spread. None: a transaction in each 0.2 ms from :data:`START` on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = GeneratedSet(directory / f"{base}.index")
    mariadb = style == "mariadb"
    settings = np.zeros(G.SETTINGS, np.int64)
    settings[G.P_MARIADB] = mariadb
    settings[G.P_CHECKSUM] = 4 if checksum else 0
    settings[G.P_SERVER_ID] = SERVER_ID
    settings[G.P_SCHEMAS] = schemas
    settings[G.P_TABLES] = tables
    settings[G.P_STATEMENTS] = statements
    settings[G.P_FOREIGN] = 13
    settings[G.P_TRIGGERS] = 5
    settings[G.P_BULK] = 2
    settings[G.P_LATEST] = np.iinfo(np.int64).max
    if span is not None:
        settings[G.P_BYTES_A_DAY] = max(1, round(_ENDS_EARLY * size * _DAY / span.seconds_at_mean_pace()))
        settings[G.P_DAILY] = span.daily
        settings[G.P_LATEST] = (span.start + span.seconds) * 1_000_000
    state = np.zeros(G.STATE, np.int64)
    state[G.G_TIME] = (START if span is None else span.start) * 1_000_000
    state[G.G_XID] = 1000
    rng = np.array([seed * 0x9E3779B97F4A7C15 & (2**64 - 1) or 1], np.uint64)
    world = _world(schemas, tables, mariadb=mariadb, seed=seed)
    counts = np.zeros(schemas, np.int64)
    buffer = np.empty(_BUFFER, np.uint8)
    plan = np.zeros((64 * (statements + 1), G.PLAN_COLUMNS), np.int64)
    number = 0
    while made.bytes < size or not number:
        number += 1
        name = f"{base}.{number:06}"
        path = directory / name
        stop = min(file_size, size - made.bytes)
        with open(path, "wb") as file:
            at = file.write(_file_head(name, state, mariadb=mariadb, checksum=checksum))
            state[G.G_SEQUENCE] = 0
            while at < stop:
                used = G.stamp(buffer, at, stop, rng, state, settings, world, plan, counts)
                file.write(buffer[:used].data)
                at += used
            if made.bytes + at < size:
                at += file.write(
                    make_event(
                        EventType.ROTATE,
                        (4).to_bytes(8, "little") + f"{base}.{number + 1:06}".encode(),
                        timestamp=_seconds(state),
                        server_id=SERVER_ID,
                        end_log_pos=at + 19 + 8 + len(name) + settings[G.P_CHECKSUM].item(),
                        checksum=checksum,
                    )
                )
        made.files.append(path)
        made.bytes += at
    made.index.write_text("".join(f"./{path.name}\n" for path in made.files))
    made.transactions = int(state[G.G_GNO])
    made.schemas = dict(zip(schema_names(schemas), counts.tolist(), strict=True))
    return made


def _world(schemas: int, tables: int, *, mariadb: bool, seed: int) -> G.World:
    """Return the templates from which the transactions of a binlog set are written.

    ``tables`` is the number of tables in each schema.
    """
    random = np.random.default_rng(seed)
    normal = NormalDist()
    quantiles = (np.arange(4096) + 0.5) / 4096
    log_sizes = np.log(250) + 0.9 * np.array([normal.inv_cdf(q) for q in quantiles])
    sizes = np.clip(np.exp(log_sizes), 60, 8192).astype(np.int64)
    pick_schema = _zipf(schemas)
    pick_table = _zipf(tables)
    kinds = np.array(
        [(3 + len(k.types), len(k.fixed), k.variable, k.prefix, k.most, k.row) for k in _KINDS],
        np.int64,
    )
    tails = np.zeros((len(_KINDS), 16), np.uint8)
    for number, kind in enumerate(_KINDS):
        tails[number, : len(kind.fixed)] = np.frombuffer(kind.fixed, np.uint8)
    table_kind = random.permuted(np.resize(np.arange(len(_KINDS)), schemas * tables))
    names = schema_names(schemas)
    bodies = [
        _table_map(
            100 + s * tables + t,
            names[s],
            f"table_{t:03}",
            _KINDS[table_kind[s * tables + t]],
            mariadb,
        )
        for s in range(schemas)
        for t in range(tables)
    ]
    maps = np.array(list(zip(_starts(bodies), map(len, bodies), strict=False)), np.int64)
    map_bytes = np.frombuffer(b"".join(bodies), np.uint8)
    begins = [_begin(name) for name in names]
    begin_start = np.array(_starts(begins), np.int64)
    begin = np.frombuffer(b"".join(begins), np.uint8)
    words = random.choice([b"lorem", b"ipsum", b"dolor", b"sit", b"amet", b"42", b"2026", b"ok"], _TEXT // 3)
    text = np.frombuffer(b" ".join(words.tolist())[:_TEXT], np.uint8)
    uuid = np.frombuffer(UUID.bytes, np.uint8)
    return G.World(
        sizes=sizes,
        pick_schema=pick_schema,
        pick_table=pick_table,
        kinds=kinds,
        table_kind=table_kind,
        maps=maps,
        map_bytes=map_bytes,
        tails=tails,
        text=text,
        uuid=uuid,
        begin=begin,
        begin_start=begin_start,
    )


def _zipf(number: int) -> npt.NDArray[np.int32]:
    """Return 65,536 numbers below ``number`` by Zipf's law: number k has a frequency proportional to 1 / (k + 1)."""
    weights = 1 / np.arange(1, number + 1)
    ends = np.cumsum(weights) / weights.sum()
    return np.searchsorted(ends, (np.arange(65536) + 0.5) / 65536).astype(np.int32)


def _starts(pieces: Sequence[bytes]) -> list[int]:
    return [0, *np.cumsum([len(piece) for piece in pieces]).tolist()]


def _table_map(table_id: int, schema: str, table: str, kind: _Kind, mariadb: bool) -> bytes:
    types = bytes([_LONGLONG, _LONG, _TIMESTAMP2]) + kind.types
    nullable = ((1 << len(types)) - 2).to_bytes((len(types) + 7) // 8, "little")
    # MySQL's optional metadata of a table has the field SIGNEDNESS, with a zero bit for each signed numeric column.
    numeric = sum(t in (_LONGLONG, _LONG, _TINY, _DOUBLE, _NEWDECIMAL) for t in types)
    optional = b"" if mariadb else b"\x01" + bytes([(numeric + 7) // 8]) + bytes((numeric + 7) // 8)
    return encode_table_map(
        TableMap(table_id, 1, schema, table, types, b"\x00" + kind.metadata, nullable, optional)
    )


def _begin(schema: str) -> bytes:
    head = (8).to_bytes(4, "little") + bytes(4) + bytes([len(schema)]) + bytes(2)
    return head + len(_BEGIN_STATUS).to_bytes(2, "little") + _BEGIN_STATUS + schema.encode() + b"\0BEGIN"


def _seconds(state: npt.NDArray[np.int64]) -> int:
    return int(state[G.G_TIME]) // 1_000_000


def _file_head(name: str, state: npt.NDArray[np.int64], *, mariadb: bool, checksum: bool) -> bytes:
    """Return the beginning of a generated binlog file: the events before the first transaction.

    They are the format description event and the GTIDs of earlier files, and in MariaDB also a Binlog_checkpoint
    event.
    """
    now, last = _seconds(state), int(state[G.G_GNO])
    version, lengths = (_MARIADB_VERSION, _MARIADB_LENGTHS) if mariadb else (_MYSQL_VERSION, _MYSQL_LENGTHS)
    created = now if not last else 0
    body = (
        (4).to_bytes(2, "little") + version.ljust(50, b"\0") + created.to_bytes(4, "little") + b"\x13" + lengths
        + bytes([checksum])
    )  # fmt: skip
    head = bytearray(MAGIC)

    def add(kind: EventType, body: bytes, *, flags: int = 0, checksum: bool = checksum) -> None:
        end = len(head) + 19 + len(body) + (4 if checksum else 0)
        head.extend(
            make_event(
                kind,
                body,
                timestamp=now,
                server_id=SERVER_ID,
                end_log_pos=end,
                flags=flags,
                checksum=checksum,
            )
        )

    # A format description event has a checksum even when the other events have none.
    add(EventType.FORMAT_DESCRIPTION, body, checksum=True)
    if mariadb:
        add(
            EventType.GTID_LIST,
            encode_gtid_list(GtidList((MariadbGtid(0, SERVER_ID, last),) if last else ())),
        )
        add(EventType.BINLOG_CHECKPOINT, len(name).to_bytes(4, "little") + name.encode())
    else:
        before = MysqlGtidSet()
        if last:
            before.add_range((UUID.bytes, ""), 1, last)
        add(EventType.PREVIOUS_GTIDS, encode_previous_gtids(before), flags=0x80)
    return bytes(head)
