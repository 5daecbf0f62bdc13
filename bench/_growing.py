"""A binlog set that grows while simulated slaves follow it, their fifty filters, and the check of what they received.

The check compares a slave's result with a plain pass over the finished set. It also compares the marked transactions of
this pass with rules of this module's own, which tell without the product's filter what a filter sends.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bench._processes import Master, master
from dumpfilter.binlog import workload
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F, STMT_END_F, EventType
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.workload import START, GeneratedSet, file_head, generate, schema_names
from dumpfilter.binlog.writer import rebase
from dumpfilter.dump.set_pass import KeptEvents, kept_pieces
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.v1 import dumpfilter_pb2 as pb

MARKS = re.compile(rb"MARK(\d{8})")
"""A mark, the text in the row of each marked transaction, with the number of the mark."""

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
        self._others = workload.Transactions(schema_names(20), 50, "mysql", seed=2)
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
        block = [self._others.new() for _ in range(others)]
        at = position + sum(len(one.data) for one in block)
        mark = Mark(len(self.marks), schema, table, file, at)
        self.marks.append(mark)
        block.append(_marked_transaction(mark))
        times = np.full(len(block), START * 1_000_000, np.int64)
        self._append(workload.written(block, position, last + 1, last + 1 - self._before, times, "mysql"))
        self.made.transactions += len(block)
        return now

    def rotate(self) -> None:
        """End the last file with a Rotate event, and begin the next file, in the order in which a server does it."""
        made = self.made
        path = made.files[-1].with_name(f"bin.{len(made.files) + 1:06}")
        rotate = workload.generated_event(EventType.ROTATE, encode_rotate(Rotate(path.name, 4)), now=START)
        self._append(rebase(rotate, self._file.tell(), checksum=True))
        head = bytearray(file_head(path.name, START, made.transactions, "mysql"))
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


def _marked_transaction(mark: Mark) -> workload.Transaction:
    """Return a transaction that inserts one row with the text of the mark."""
    table_id = 9_000 + mark.number % 1_000
    text = b"MARK%08d" % mark.number + _PADDING
    table = TableMap(
        table_id, 1, mark.schema, mark.table, bytes([_BIGINT, _VARCHAR]), bytes([250, 0]), b"\x02", b""
    )
    head = table_id.to_bytes(6, "little") + struct.pack("<HH", STMT_END_F, 2) + b"\x02\x03\x00"
    rows = head + struct.pack("<QB", mark.number, len(text)) + text
    changes = [
        workload.generated_event(EventType.TABLE_MAP, encode_table_map(table)),
        workload.generated_event(EventType.WRITE_ROWS, rows),
    ]
    return workload.transaction(changes, mark.schema, "mysql")


@contextmanager
def growing_master(
    directory: Path, slaves: int, *, history: int = 1 << 20
) -> Iterator[tuple[GrowingSet, Master]]:
    """Run a master for this many slaves on a new growing set.

    The set is closed at the end. :func:`bench._growing.check` reads it afterwards.
    """
    shutil.rmtree(directory, ignore_errors=True)
    growing = GrowingSet(directory, history=history)
    with master(growing.made.index, "--max-dumps", str(slaves)) as found:
        yield growing, found
    growing.close()


FILTERS = 50
"""The number of different filters. A fifth of them have no rule about ``marker.t``, or rules that keep it out."""

_SCHEMAS = 20
_TYPE_AT = 4
"""The offset of an event's type in its header."""


def rules_of(number: int) -> tuple[str, list[str]]:
    """Return the kind of a filter's rules, as ``dumpfilter.proto`` names it, and the values of the rules."""
    step = number // 5 % 10
    return [
        ("REPLICATE_IGNORE_DB", [f"scratch_{step}"] if step else []),
        ("REPLICATE_DO_DB", [f"shop_{(2 * step + k) % _SCHEMAS:02}" for k in (0, 1)]),
        ("REPLICATE_IGNORE_DB", [f"shop_{(step + 3 * k) % _SCHEMAS:02}" for k in range(5)]),
        ("REPLICATE_WILD_DO_TABLE", [f"shop_{step:02}.table_0{step % 5}%"]),
        ("REPLICATE_WILD_IGNORE_TABLE", [f"shop_%.table_0{step}%"]),
    ][number % 5]


def definition_of(number: int) -> pb.FilterDefinition:
    """Return a filter as a slave sends it to the master."""
    kind, values = rules_of(number)
    return pb.FilterDefinition(rules=[pb.Rule(kind=kind, value=value) for value in values])


def sends(number: int, schema: str, table: str) -> bool:
    """Tell whether a filter sends the rows of a table. Equals the servers' rules for row-based events."""
    kind, values = rules_of(number)
    if kind.endswith("_DB"):
        is_named = schema in values
    else:
        patterns = (value.replace("_", "?").replace("%", "*") for value in values)
        is_named = any(fnmatchcase(f"{schema}.{table}", pattern) for pattern in patterns)
    return is_named == ("_DO_" in kind)


Life = Literal["steady", "slow", "stuck", "vanishing", "changing"]
"""The ways in which a simulated slave lives."""

Place = tuple[str, int]
"""A binlog file, and the position in it."""

Pieces = tuple[tuple[int, Place], ...]
"""The number of each filter of a slave, and the place up to which this filter chose the events."""


@dataclass
class Result:
    """One slave's result: what it received, and what it reached."""

    number: int
    life: Life
    filter: int
    error: str = ""
    begun: float = 0.0
    ended: float = 0.0
    sizes: list[int] = field(default_factory=list)
    """The sizes of all messages, bytes."""
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """The number of each mark, and the time on the monotonic clock at which it arrived, seconds."""
    lost: int = 0
    """The connections that ended, except the ones that the slave brought about."""
    vanished: int = 0
    pieces: Pieces = ()
    """The pieces of the earlier filters."""
    reached: dict[str, object] = field(default_factory=dict)
    """The slave's place and transactions at the end, and the digest, size and dropped transactions up to there.

    A slave that is not exact has no digest.
    """


def check(
    results: Iterable[Result], made: GeneratedSet, start: Start = BEGINNING, marks: Sequence[Mark] = ()
) -> None:
    """Check that slaves received exactly their events, in order, from ``start`` to the set's end. Raises SystemExit.

    For slaves without a digest, the check compares the place and the transactions alone.
    """
    binlogs = BinlogSet.open([path for path in made.files if path.name >= start.file])
    final = (made.files[-1].name, made.files[-1].stat().st_size)

    @cache
    def kept(number: int) -> list[KeptEvents]:
        """Return the events that a filter sends, without the format descriptions."""
        found = kept_pieces(binlogs, filter_from_proto(definition_of(number)))
        return [run for run in found if run.data[_TYPE_AT] != EventType.FORMAT_DESCRIPTION]

    @cache
    def expected(pieces: Pieces, *, exact: bool) -> dict[str, object]:
        wanted: dict[str, object] = {"place": final, "transactions": made.transactions}
        if not exact:
            return wanted
        digest, size, known = hashlib.sha256(), 0, start.transactions
        found: list[int] = []
        begin = (start.file, start.position)
        for number, end in pieces:
            for run in kept(number):
                first, last = _events_before(run, begin), _events_before(run, end)
                if first < last:
                    part = run.part(first, last)
                    digest.update(part.data.data)
                    size += part.data.size
                    known += int(np.sum(part.data[part.start + _TYPE_AT] == EventType.GTID))
                    found += map(int, MARKS.findall(part.data.data))
            begin = end
        passing = [mark.number for mark in marks if sends(_filter_at(mark, pieces), mark.schema, mark.table)]
        if found != passing:
            raise SystemExit(f"the pass with filters {pieces} keeps the marks {found}, not {passing}")
        return wanted | {"digest": digest.hexdigest(), "size": size, "dropped": made.transactions - known}

    for result in results:
        pieces = (*result.pieces, (result.filter, final))
        for name, value in expected(pieces, exact="digest" in result.reached).items():
            if (found := result.reached[name]) != value:
                raise SystemExit(
                    f"{result.life} slave {result.number}: {name} is {str(found)[:200]}, not {str(value)[:200]} "
                    f"({len(result.pieces)} changes of filter)"
                )


def _filter_at(mark: Mark, pieces: Pieces) -> int:
    """Return the number of the filter that chose the events at a mark."""
    return next(number for number, end in pieces if (mark.file, mark.position) < end)


def _events_before(run: KeptEvents, place: Place) -> int:
    """Return the number of a run's events that are before a place."""
    file, position = place
    if run.file == file:
        return int(np.searchsorted(run.offset, position))
    return run.offset.size if run.file < file else 0
