"""Binlog sets that grow while masters read them, as a running server's do."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects


def boundaries(binlogs: BinlogSet, name: str) -> list[int]:
    """Return the positions in a file at which transactions end."""
    found = []
    with binlogs.file(name) as file:
        reader = SegmentReader(file, Subjects(), SourceNumbers())
        while (segment := reader.next()) is not None:
            found += segment.offset[segment.txn_event[:-1]].tolist()[int(segment.continues) :]
            if not segment.open:
                found.append(segment.end)
    return sorted(set(found))


class GrowingCopy:
    """A copy of a binlog set that grows by some transactions at a time. The seed decides where writes are cut."""

    def __init__(self, source: Path, directory: Path, seed: int) -> None:
        directory.mkdir()
        self._random = random.Random(seed)
        self._directory = directory
        self.index = directory / "bin.index"
        binlogs = BinlogSet.open(source)
        self._files = [
            (name, binlogs.path(name).read_bytes(), boundaries(binlogs, name)) for name in binlogs.names
        ]
        self.transactions = sum(len(ends) for _, _, ends in self._files)
        self._work = self._grow()
        next(self._work)

    def _grow(self) -> Iterator[None]:
        for name, data, ends in self._files:
            path = self._directory / name
            at = ends[0]
            path.write_bytes(data[:at])
            with self.index.open("a") as index:
                index.write(f"./{name}\n")
            with path.open("ab", buffering=0) as file:
                for end in ends[1:]:
                    # No slave may see the first half of a transaction.
                    half = self._random.randrange(at, end)
                    file.write(data[at:half])
                    file.write(data[half:end])
                    at = end
                    yield
                file.write(data[at:])
        while True:
            yield

    def more(self, transactions: int) -> None:
        """Append transactions. Beyond the end of the source nothing is appended."""
        for _ in range(transactions):
            next(self._work)


class EndlessBinlog:
    """A binlog set of row transactions without end, whose files are rotated. The seed chooses the transactions."""

    def __init__(self, directory: Path, masters: Any, *, file_size: int, seed: int, server: int = 0) -> None:
        directory.mkdir()
        self.directory = directory
        self.file_size = file_size
        self.transactions = 0
        recorded = masters.recorded("mysql-row")
        self._description = recorded[server].format_description
        events = [e for file in recorded for t in file.transactions for e in t.events]
        self._templates = [t for t in _row_transactions(events) if len(t) < 3000]
        self._uuid = self._templates[0][20:36]
        self._random = random.Random(seed)
        self._number = 0
        self._begin_file()

    @property
    def files(self) -> list[Path]:
        return [self.directory / f"bin.{n:06d}" for n in range(1, self._number + 1)]

    def _begin_file(self) -> None:
        self._number += 1
        self._file = self.files[-1].open("wb", buffering=0)
        before = MysqlGtidSet()
        if self.transactions:
            before.add_range((self._uuid, ""), 1, self.transactions)
        previous = make_event(EventType.PREVIOUS_GTIDS, encode_previous_gtids(before), server_id=11)
        self._file.write(b"\xfebin" + rebase(self._description + previous, 4, checksum=True))
        beside = self.directory / "bin.index.tmp"
        beside.write_text("".join(f"./{path.name}\n" for path in self.files))
        beside.rename(self.directory / "bin.index")

    def write(self, count: int, *, torn: bool) -> None:
        """Append transactions, with ``torn`` in two writes each with a pause between them."""
        for _ in range(count):
            self.transactions += 1
            events = bytearray(self._random.choice(self._templates))
            events[36:44] = self.transactions.to_bytes(8, "little")
            data = bytes(rebase(events, self._file.tell(), checksum=True))
            if torn:
                cut = self._random.randrange(1, len(data))
                self._file.write(data[:cut])
                time.sleep(0.0005)
                self._file.write(data[cut:])
            else:
                self._file.write(data)
            if self._file.tell() > self.file_size:
                self._rotate()

    def _rotate(self) -> None:
        body = (4).to_bytes(8, "little") + f"bin.{self._number + 1:06d}".encode()
        self._file.write(
            rebase(make_event(EventType.ROTATE, body, server_id=11), self._file.tell(), checksum=True)
        )
        self._file.close()
        self._begin_file()

    def close(self) -> None:
        self._file.close()


def _row_transactions(events: list[bytes]) -> list[bytes]:
    """Return the row transactions of a MySQL recording, from the GTID event to the Xid event, as bytes."""
    found = []
    begun: list[bytes] | None = None
    for event in events:
        kind = event[4]
        if kind == EventType.GTID:
            begun = [event]
        elif begun is not None:
            begun.append(event)
            if kind == EventType.XID:
                if any(e[4] == EventType.TABLE_MAP for e in begun):
                    found.append(b"".join(begun))
                begun = None
    return found
