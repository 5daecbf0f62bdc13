"""A binlog set that grows while a master serves it, as a busy server would write it."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench._child import master
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.workload.generate import START, file_head, generate, schema_names
from dumpfilter.binlog.workload.transactions import (
    SERVER_ID,
    EventFormat,
    Transaction,
    Transactions,
    transaction,
    written,
)
from dumpfilter.binlog.writer import make_event, rebase

MARK_LENGTH = 12
MARKS = re.compile(rb"MARK(\d{8})")
"""A mark, the text in the row of each marked transaction, with the number of the mark."""

_FLAGS_AT = len(MAGIC) + 17
"""The offset of the flags of a binlog file's format description event, bytes."""
_IN_USE = 1
_STMT_END_F = 1
_BIGINT, _VARCHAR = 8, 15
_PADDING = b"x" * 88
"""The end of a marked row, which makes a marked transaction about as large as a small one of the generated binlog."""


class Start(NamedTuple):
    """The place at which a slave's first stream begins, and the number of the last transaction before it."""

    file: str = ""
    position: int = 4
    transactions: int = 0


class Mark(NamedTuple):
    """A marked transaction: its number, the table that its row is in, and the place of its first event."""

    number: int
    schema: str
    table: str
    file: str
    position: int
    committed: float
    """The time on the monotonic clock just before the commit, seconds."""


class GrowingSet:
    """A binlog set whose last file grows by commits, and which continues in new files.

    The set begins with a generated part of ``history`` bytes. :meth:`commit` appends transactions. Each commit ends
    with a marked transaction, whose row a client can find in the stream.
    """

    def __init__(self, directory: Path, *, history: int = 1 << 20) -> None:
        generated = generate(directory, history)
        self.index = generated.index
        self.files = list(generated.files)
        self.transactions = generated.transactions
        """The number of transactions in the set, which is the number (gno) of the last one."""
        self.marks: list[Mark] = []
        self._others = Transactions(schema_names(20), 50, 16, EventFormat(), seed=2)
        self._sequence = self.transactions
        self._open(self.files[-1])
        self.start = Start(*self.end, self.transactions)
        """The end of the generated part."""

    @property
    def end(self) -> tuple[str, int]:
        """The place at the end of the set: the last file's name, and its size in bytes."""
        return self.files[-1].name, self._position

    def commit(self, schema: str, table: str, *, others: int = 0) -> Mark:
        """Append ``others`` generated transactions and a marked one in one write. Return the mark."""
        now = time.monotonic()
        block = list(itertools.islice(self._others, others))
        at = self._position + sum(len(one.events) for one in block)
        mark = Mark(len(self.marks), schema, table, self.files[-1].name, at, now)
        block.append(_marked_transaction(mark))
        self.marks.append(mark)
        times = np.full(len(block), START * 1_000_000, np.int64)
        gno, number = self.transactions + 1, self._sequence + 1
        self._append(written(block, self._position, gno, number, times, EventFormat()))
        self.transactions += len(block)
        self._sequence += len(block)
        return mark

    def rotate(self) -> None:
        """End the last file with a Rotate event, and begin the next file, in the order in which a server does it."""
        path = self.files[-1].with_name(f"bin.{len(self.files) + 1:06}")
        rotate = make_event(
            EventType.ROTATE, encode_rotate(Rotate(path.name, 4)), timestamp=START, server_id=SERVER_ID
        )
        self._append(rebase(rotate, self._position, checksum=True))
        path.write_bytes(file_head(path.name, START, self.transactions, EventFormat()))
        self.close()
        self.files.append(path)
        self._sequence = 0
        self._open(path)
        with open(self.index, "a") as index:
            index.write(f"./{path.name}\n")

    def _open(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR)
        self._position = os.fstat(self._handle).st_size
        os.pwrite(self._handle, _IN_USE.to_bytes(2, "little"), _FLAGS_AT)

    def close(self) -> None:
        """Close the last file, as a server does that shuts down without a Stop event."""
        os.pwrite(self._handle, bytes(2), _FLAGS_AT)
        os.close(self._handle)

    def _append(self, data: bytes | bytearray) -> None:
        written = os.pwrite(self._handle, data, self._position)
        if written != len(data):
            raise SystemExit(f"{self.files[-1]}: only {written} of {len(data)} bytes could be written")
        self._position += written


def _marked_transaction(mark: Mark) -> Transaction:
    """Return a transaction that inserts one row with the text of the mark."""
    table_id = 9_000 + mark.number % 1_000
    text = b"MARK%08d" % mark.number + _PADDING
    table = TableMap(
        table_id, 1, mark.schema, mark.table, bytes([_BIGINT, _VARCHAR]), bytes([250, 0]), b"\x02", b""
    )
    rows = (
        table_id.to_bytes(6, "little")
        + struct.pack("<HH", _STMT_END_F, 2)
        + b"\x02\x03\x00"
        + struct.pack("<QB", mark.number, len(text))
        + text
    )
    changes = ((EventType.TABLE_MAP, encode_table_map(table)), (EventType.WRITE_ROWS, rows))
    return transaction(
        [make_event(kind, body, server_id=SERVER_ID) for kind, body in changes],
        mark.schema,
        EventFormat(),
    )


@dataclass
class Served:
    """A growing set that a master serves."""

    growing: GrowingSet
    address: str
    pid: int


@contextmanager
def growing_master(directory: Path, slaves: int, *, history: int = 1 << 20) -> Iterator[Served]:
    """Run a master for this many slaves on a new growing set.

    The set is closed at the end. :func:`bench._check.check` reads it afterwards.
    """
    shutil.rmtree(directory, ignore_errors=True)
    growing = GrowingSet(directory, history=history)
    with master(growing.index, "--max-dumps", str(slaves)) as found:
        yield Served(growing, found.address, found.pid)
    growing.close()
