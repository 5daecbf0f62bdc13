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
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench._child import Master, master
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F, STMT_END_F, EventType
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.workload.generate import START, file_head, generate, schema_names
from dumpfilter.binlog.workload.transactions import (
    EventFormat,
    Transaction,
    Transactions,
    transaction,
    written,
)
from dumpfilter.binlog.writer import rebase

MARKS = re.compile(rb"MARK(\d{8})")
"""A mark, the text in the row of each marked transaction, with the number of the mark."""

_FORM = EventFormat()
_BIGINT, _VARCHAR = 8, 15
_PADDING = b"x" * 88
"""The end of a marked row, which makes a marked transaction about as large as a small one of the generated binlog."""


class Start(NamedTuple):
    """The place at which a slave's first stream begins, and the number of the last transaction before it."""

    file: str = ""
    position: int = 4
    transactions: int = 0


BEGINNING = Start()
"""The place at which a set begins."""


class Mark(NamedTuple):
    """A marked transaction: its number, the table that its row is in, and the place of its first event."""

    number: int
    schema: str
    table: str
    file: str
    position: int


class GrowingSet:
    """A binlog set whose last file grows by commits, and which continues in new files.

    The set begins with a generated file of ``history`` bytes. :meth:`commit` appends transactions to later files. Each
    commit ends with a marked transaction, whose row a client can find in the stream.
    """

    def __init__(self, directory: Path, *, history: int = 1 << 20) -> None:
        self.made = generate(directory, history)
        self.marks: list[Mark] = []
        self._others = Transactions(schema_names(20), 50, 16, _FORM, seed=2)
        self._file = open(self.made.files[-1], "r+b")  # noqa: SIM115 - closed by close()
        self._file.seek(0, os.SEEK_END)
        self.rotate()
        self.start = Start(*self.end, self.made.transactions)
        """The end of the generated part."""

    @property
    def end(self) -> tuple[str, int]:
        """The place at the end of the set: the last file's name, and its size in bytes."""
        return self.made.files[-1].name, self._file.tell()

    def commit(self, schema: str, table: str, *, others: int = 0) -> float:
        """Append ``others`` generated transactions and a marked one in one write.

        Return the time on the monotonic clock just before the commit, seconds.
        """
        now = time.monotonic()
        (file, position), last = self.end, self.made.transactions
        block = list(itertools.islice(self._others, others))
        at = position + sum(len(one.events) for one in block)
        mark = Mark(len(self.marks), schema, table, file, at)
        self.marks.append(mark)
        block.append(_marked_transaction(mark))
        times = np.full(len(block), START * 1_000_000, np.int64)
        self._append(written(block, position, last + 1, last + 1 - self._before, times, _FORM))
        self.made.transactions += len(block)
        return now

    def rotate(self) -> None:
        """End the last file with a Rotate event, and begin the next file, in the order in which a server does it."""
        made = self.made
        path = made.files[-1].with_name(f"bin.{len(made.files) + 1:06}")
        rotate = _FORM.event(EventType.ROTATE, encode_rotate(Rotate(path.name, 4)), now=START)
        self._append(rebase(rotate, self._file.tell(), checksum=True))
        head = bytearray(file_head(path.name, START, made.transactions, _FORM))
        head[FLAGS_OFFSET] |= LOG_EVENT_BINLOG_IN_USE_F
        path.write_bytes(head)
        self.close()
        self._file = open(path, "r+b")  # noqa: SIM115 - closed by close()
        self._file.seek(0, os.SEEK_END)
        self._before = made.transactions
        made.files.append(path)
        with open(made.index, "a") as index:
            index.write(f"./{path.name}\n")

    def close(self) -> None:
        """Close the last file, as a server does that shuts down without a Stop event."""
        self._file.seek(FLAGS_OFFSET)
        self._file.write(bytes(1))
        self._file.close()

    def _append(self, data: bytearray) -> None:
        self._file.write(data)
        self._file.flush()


def _marked_transaction(mark: Mark) -> Transaction:
    """Return a transaction that inserts one row with the text of the mark."""
    table_id = 9_000 + mark.number % 1_000
    text = b"MARK%08d" % mark.number + _PADDING
    table = TableMap(
        table_id, 1, mark.schema, mark.table, bytes([_BIGINT, _VARCHAR]), bytes([250, 0]), b"\x02", b""
    )
    head = table_id.to_bytes(6, "little") + struct.pack("<HH", STMT_END_F, 2) + b"\x02\x03\x00"
    rows = head + struct.pack("<QB", mark.number, len(text)) + text
    changes = [
        _FORM.event(EventType.TABLE_MAP, encode_table_map(table)),
        _FORM.event(EventType.WRITE_ROWS, rows),
    ]
    return transaction(changes, mark.schema, _FORM)


@contextmanager
def growing_master(
    directory: Path, slaves: int, *, history: int = 1 << 20
) -> Iterator[tuple[GrowingSet, Master]]:
    """Run a master for this many slaves on a new growing set.

    The set is closed at the end. :func:`bench._check.check` reads it afterwards.
    """
    shutil.rmtree(directory, ignore_errors=True)
    growing = GrowingSet(directory, history=history)
    with master(growing.made.index, "--max-dumps", str(slaves)) as found:
        yield growing, found
    growing.close()
