"""A binlog set that grows while a master serves it, as a busy server would write it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import MAGIC, EventHeader, EventType
from dumpfilter.binlog.gtid import MysqlGtidSet, encode_previous_gtids
from dumpfilter.binlog.rows import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.workload.generate import SERVER_ID, START, UUID, generate

MARK = b"MARK"
"""The beginning of a mark, the text in the row of each marked transaction. A number of 8 digits follows."""
MARK_LENGTH = len(MARK) + 8

_GNO_AT = 19 + 1 + 16
"""The offset of the transaction number (gno) in a Gtid event, bytes. Two logical timestamps follow 9 bytes later."""
_CLOCK_AT = _GNO_AT + 8 + 1
_FLAGS_AT = len(MAGIC) + 17
"""The offset of the flags of a binlog file's format description event, bytes."""
_CREATED_AT = 19 + 2 + 50
"""The offset of the time of the server's start in a format description event, bytes. It is 0 after a rotation."""
_IN_USE = 1
_STMT_END_F = 1
_BIGINT, _VARCHAR = 8, 15
_PADDING = b"x" * 88
"""The end of a marked row, which makes a marked transaction about as large as a small one of the generated binlog."""


class Mark(NamedTuple):
    """A marked transaction: its number, the table that its row is in, and the place of its first event."""

    number: int
    schema: str
    table: str
    file: str
    position: int


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
        first = self.files[0].read_bytes()
        self._head = MAGIC + _rotated(first[len(MAGIC) :][: EventHeader.unpack(first, len(MAGIC)).size])
        self._pool = list(_transactions(first))
        self._next = 0
        self._sequence = self.transactions
        self._open(self.files[-1])

    @property
    def end(self) -> tuple[str, int]:
        """The place at the end of the set: the last file's name, and its size in bytes."""
        return self.files[-1].name, self._position

    def commit(self, schema: str, table: str, *, others: int = 0) -> Mark:
        """Append ``others`` generated transactions and a marked one in one write. Return the mark."""
        data = bytearray()
        for _ in range(others):
            self._add(data, self._pool[self._next % len(self._pool)])
            self._next += 1
        mark = Mark(len(self.marks), schema, table, self.files[-1].name, self._position + len(data))
        self._add(data, _marked_transaction(mark))
        self.marks.append(mark)
        self._append(data)
        return mark

    def rotate(self) -> None:
        """End the last file with a Rotate event, and begin the next file, in the order in which a server does it."""
        path = self.files[-1].with_name(f"bin.{len(self.files) + 1:06}")
        rotate = make_event(
            EventType.ROTATE, encode_rotate(Rotate(path.name, 4)), timestamp=START, server_id=SERVER_ID
        )
        self._append(rebase(rotate, self._position, checksum=True))
        before = MysqlGtidSet()
        before.add_range((UUID.bytes, ""), 1, self.transactions)
        previous = make_event(
            EventType.PREVIOUS_GTIDS,
            encode_previous_gtids(before),
            timestamp=START,
            server_id=SERVER_ID,
            flags=0x80,
        )
        path.write_bytes(self._head + rebase(previous, len(self._head), checksum=True))
        self._close()
        self.files.append(path)
        self._sequence = 0
        self._open(path)
        with open(self.index, "a") as index:
            index.write(f"./{path.name}\n")

    def close(self) -> None:
        """Close the last file, as a server does that shuts down without a Stop event."""
        self._close()

    def _open(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR)
        self._position = os.fstat(self._handle).st_size
        os.pwrite(self._handle, _IN_USE.to_bytes(2, "little"), _FLAGS_AT)

    def _close(self) -> None:
        os.pwrite(self._handle, bytes(2), _FLAGS_AT)
        os.close(self._handle)

    def _append(self, data: bytes | bytearray) -> None:
        written = os.pwrite(self._handle, data, self._position)
        if written != len(data):
            raise SystemExit(f"{self.files[-1]}: only {written} of {len(data)} bytes could be written")
        self._position += written

    def _add(self, data: bytearray, transaction: bytes) -> None:
        """Add a transaction to ``data`` with the next GTID, and with the positions that it gets in the last file."""
        self.transactions += 1
        self._sequence += 1
        events = bytearray(transaction)
        struct.pack_into("<q", events, _GNO_AT, self.transactions)
        struct.pack_into("<qq", events, _CLOCK_AT, self._sequence - 1, self._sequence)
        data += rebase(events, self._position + len(data), checksum=True)


def _rotated(format_description: bytes) -> bytes:
    """Return the format description event of a file that a rotation began, from the one of the server's first file."""
    event = bytearray(format_description)
    event[_CREATED_AT : _CREATED_AT + 4] = bytes(4)
    return bytes(rebase(event, len(MAGIC), checksum=True))


def _transactions(file: bytes) -> Iterator[bytes]:
    """Yield the bytes of each transaction of a generated binlog file."""
    at, begin = len(MAGIC), None
    while at < len(file):
        header = EventHeader.unpack(file, at)
        ends = header.type in (EventType.GTID, EventType.ROTATE)
        if ends and begin is not None:
            yield file[begin:at]
        if ends:
            begin = at if header.type == EventType.GTID else None
        at += header.size
    if begin is not None:
        yield file[begin:]


def _marked_transaction(mark: Mark) -> bytes:
    """Return a transaction that inserts one row with the text of the mark. :meth:`GrowingSet._add` sets its GTID."""
    table_id = 9_000 + mark.number % 1_000
    text = MARK + b"%08d" % mark.number + _PADDING
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
    gtid = b"\x01" + UUID.bytes + bytes(8) + b"\x02" + bytes(16)
    events = (
        (EventType.GTID, gtid),
        (EventType.QUERY, _begin(mark.schema)),
        (EventType.TABLE_MAP, encode_table_map(table)),
        (EventType.WRITE_ROWS, rows),
        (EventType.XID, mark.number.to_bytes(8, "little")),
    )
    return b"".join(make_event(kind, body, timestamp=START, server_id=SERVER_ID) for kind, body in events)


def _begin(schema: str) -> bytes:
    name = schema.encode()
    return struct.pack("<IIBHH", 8, 0, len(name), 0, 0) + name + b"\0BEGIN"
