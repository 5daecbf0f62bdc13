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

The first 8 MiB are transactions of their own. Later transactions are drawn from these, with other GTIDs and times.

In the shell, ``dumpfilter generate`` writes such a set.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtidSet
from dumpfilter.binlog.gtid_events import GtidList, encode_gtid_list, encode_previous_gtids
from dumpfilter.binlog.workload.transactions import (
    SERVER_ID,
    UUID,
    EventFormat,
    Ints,
    Style,
    Transaction,
    Transactions,
    written,
)
from dumpfilter.binlog.writer import rebase

__all__ = ["SERVER_ID", "START", "UUID", "GeneratedSet", "Span", "Style", "generate", "schema_names"]

START = 1_790_000_000
"""The Unix time of the first event of a generated binlog set, seconds."""

_SECOND = 1_000_000
"""The number of microseconds in a second."""
_DAY = 86_400
"""The length of a day, seconds."""
_DAILY_SWING = 0.7
"""The amplitude of the daily rise and fall of traffic, as a fraction of the mean."""
_QUIET_AT = _DAY / 6
"""The time of day at which traffic is lowest, seconds after midnight UTC."""
_STEP = 60.0
"""The interval at which the traffic of a span is computed, seconds. In between it is interpolated."""
_ENDS_EARLY = 1.02
"""The factor by which commits advance faster than the span requires on average.

The pauses between commits are random. Without the factor, many transactions could pile up at the end of the span.
"""
_PAUSE = (20, 420)
"""The range of the random pauses between two commits if no span is given, microseconds."""
_BLOCK = 8 << 20
"""The size of the pool of transactions that are encoded, and the most that is written at once, bytes."""

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


@dataclass(frozen=True)
class Span:
    """The period over which the commit times of a generated binlog set are spread."""

    start: int
    """The time of the first event, Unix seconds."""
    seconds: int
    daily: bool = False
    """Whether the traffic rises and falls with the time of day."""

    def times(self, done: npt.NDArray[np.float64]) -> Ints:
        """Return the commit times of transactions, microseconds of Unix time.

        ``done`` has for each transaction the fraction (0 to 1) of the set's traffic that is written by the time of its
        commit.
        """
        seconds = np.append(np.arange(0, self.seconds, _STEP), self.seconds)
        traffic = seconds
        if self.daily:
            of_day = 2 * math.pi * (self.start + seconds - _QUIET_AT) / _DAY
            traffic = seconds - _DAILY_SWING * _DAY / (2 * math.pi) * np.sin(of_day)
            traffic -= traffic[0]
        at = np.interp(done * traffic[-1], traffic, seconds)
        times: Ints = self.start * _SECOND + (at * _SECOND).astype(np.int64)
        return times


@dataclass
class GeneratedSet:
    """The description of a generated binlog set: its files, its sizes, and the number of bytes of each schema."""

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
    names, form = schema_names(schemas), EventFormat(style, checksum)
    made = GeneratedSet(directory / f"{base}.index")
    supply = _supply(Transactions(names, tables, statements, form, seed=seed), seed)
    chance = np.random.default_rng(seed)
    now = (START if span is None else span.start) * _SECOND
    done = 0.0
    counts: Counter[int] = Counter()
    while made.bytes < size or not made.files:
        number = len(made.files) + 1
        path = directory / f"{base}.{number:06}"
        stop = min(file_size, size - made.bytes)
        with open(path, "wb") as file:
            before = made.transactions
            at = file.write(file_head(path.name, now // _SECOND, before, form))
            while at < stop:
                block = list(_block(supply, min(stop - at, _BLOCK)))
                for one in block:
                    counts.update(one.schemas)
                if span is None:
                    times = now + np.cumsum(chance.integers(*_PAUSE, size=len(block)))
                else:
                    sizes = np.array([len(one.events) for one in block], np.int64)
                    # The bytes written so far, weighted by the random pauses.
                    written_by = done + np.cumsum(sizes * chance.uniform(0, 2 * _ENDS_EARLY, len(block)))
                    done = float(written_by[-1])
                    times = span.times(np.minimum(written_by / size, 1))
                now = int(times[-1])
                first = made.transactions + 1
                at += file.write(written(block, at, first, first - before, times, form))
                made.transactions += len(block)
            if made.bytes + at < size:
                rotate = encode_rotate(Rotate(f"{base}.{number + 1:06}", 4))
                event = form.event(EventType.ROTATE, rotate, now=now // _SECOND)
                at += file.write(rebase(event, at, checksum=checksum))
        made.files.append(path)
        made.bytes += at
    made.index.write_text("".join(f"./{path.name}\n" for path in made.files))
    made.schemas = {name: counts[number] for number, name in enumerate(names)}
    return made


def _supply(transactions: Transactions, seed: int) -> Iterator[Transaction]:
    """Yield 8 MiB of new transactions, and then transactions drawn at random from these, without end."""
    pool: list[Transaction] = []
    size = 0
    while size < _BLOCK:
        pool.append(next(transactions))
        size += len(pool[-1].events)
        yield pool[-1]
    draw = random.Random(seed)
    while True:
        yield from draw.choices(pool, k=len(pool))


def _block(supply: Iterator[Transaction], size: int) -> Iterator[Transaction]:
    """Take transactions from ``supply`` until they have at least ``size`` bytes, and yield each."""
    while size > 0:
        one = next(supply)
        size -= len(one.events)
        yield one


def file_head(name: str, now: int, last: int, form: EventFormat) -> bytes:
    """Return the beginning of a generated binlog file: the events before the first transaction.

    They are the format description event and the GTIDs of earlier files, and in MariaDB also a Binlog_checkpoint
    event. ``name`` is the file's name, ``now`` the Unix time in seconds, ``last`` the number of transactions in the
    earlier files. ``form`` tells the server family, and whether events have checksums.
    """
    version, lengths = (_MYSQL_VERSION, _MYSQL_LENGTHS)
    if form.is_mariadb:
        version, lengths = (_MARIADB_VERSION, _MARIADB_LENGTHS)
        gtids = encode_gtid_list(GtidList((MariadbGtid(0, SERVER_ID, last),) if last else ()))
        checkpoint = len(name).to_bytes(4, "little") + name.encode()
        others = form.event(EventType.GTID_LIST, gtids, now=now)
        others += form.event(EventType.BINLOG_CHECKPOINT, checkpoint, now=now)
    else:
        before = MysqlGtidSet()
        if last:
            before.add_range((UUID.bytes, ""), 1, last)
        others = form.event(EventType.PREVIOUS_GTIDS, encode_previous_gtids(before), 0x80, now)
    created = now if not last else 0
    description = (
        (4).to_bytes(2, "little") + version.ljust(50, b"\0") + created.to_bytes(4, "little") + b"\x13" + lengths
        + bytes([form.checksum])
    )  # fmt: skip
    # A format description event has a checksum even when the other events have none.
    first = EventFormat(form.style).event(EventType.FORMAT_DESCRIPTION, description, now=now)
    head = MAGIC + rebase(first, len(MAGIC), checksum=True)
    return bytes(head + rebase(others, len(head), checksum=form.checksum))
