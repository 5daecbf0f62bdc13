"""Fixtures for slaves: masters in this process, a launcher of processes, and a master without network or filter.

:class:`FakeMaster` makes the chunks of a stream and cuts them anywhere.
"""

from __future__ import annotations

import shutil
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dumpfilter.binlog.events import MAGIC, EventHeader
from dumpfilter.dump.stream.message import chunk_crc32
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.slave.driven import Master

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
UUID = uuid.UUID("5a8b8d0a-e543-11f1-9c8d-02fc00000001")


def events_of(data: bytes) -> list[bytes]:
    """Split a binlog file into its events."""
    assert data[:4] == MAGIC
    events, at = [], 4
    while at < len(data):
        size = EventHeader.unpack(data, at).size
        events.append(data[at : at + size])
        at += size
    return events


def make_event(kind: int, body: bytes, end_log_pos: int) -> bytes:
    """Return an event with a checksum."""
    event = EventHeader(0, kind, 7, 19 + len(body) + 4, end_log_pos, 0).pack() + body
    return event + struct.pack("<I", zlib.crc32(event))


@dataclass(frozen=True)
class Transaction:
    """A transaction: its events, whether the master keeps it, and the number of its GTID, 0 for none."""

    events: tuple[bytes, ...]
    kept: bool = True
    number: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.events))


@dataclass(frozen=True)
class MasterFile:
    name: str
    format_description: bytes
    transactions: tuple[Transaction, ...]

    @property
    def end(self) -> int:
        return 4 + len(self.format_description) + sum(t.size for t in self.transactions)

    @property
    def bytes(self) -> bytes:
        kept = [e for t in self.transactions if t.kept for e in t.events]
        return MAGIC + self.format_description + b"".join(kept)


@dataclass
class FakeMaster:
    """A master that streams its files. The GTIDs have one server UUID."""

    files: Sequence[MasterFile]
    streams: int = field(default=0)

    def chunks(self, file: str, position: int, cuts: Sequence[int]) -> Iterator[pb.Chunk]:
        """Yield the chunks from a position on. ``cuts`` are the sizes of the chunks, repeated as often as necessary."""
        self.streams += 1
        turn = 0
        names = [f.name for f in self.files]
        first = names.index(file) if file else 0
        for number, f in enumerate(self.files[first:], first):
            start = position if number == first else 4
            kept = bytearray()
            # At each boundary: bytes of the stream, position in the file, completed transactions.
            boundaries: list[tuple[int, int, list[Transaction]]] = [(0, start, [])]
            at = 4 + len(f.format_description)
            for transaction in f.transactions:
                at += transaction.size
                if at <= start:
                    continue
                if transaction.kept:
                    for event in transaction.events:
                        kept += event
                boundaries.append((len(kept), at, [transaction]))
            done, begun, resume, told = 0, False, 0, start
            while not begun or done < len(kept) or resume < len(boundaries) - 1:
                size = cuts[turn % len(cuts)] if cuts else 1 << 18
                turn += 1
                end = min(len(kept), done + size)
                chunk = pb.Chunk(file=f.name, events=bytes(kept[done:end]))
                chunk.begin_position = told
                if not begun:
                    chunk.format_description = f.format_description
                    chunk.start_position = start
                    if number > first:
                        chunk.previous_file = names[number - 1]
                before = resume
                while resume < len(boundaries) - 1 and boundaries[resume + 1][0] <= end:
                    resume += 1
                    for transaction in boundaries[resume][2]:
                        self._note(chunk, transaction, boundaries[resume][0] - done, boundaries[resume][1])
                chunk.resume_position = boundaries[resume][1]
                if resume > before:
                    chunk.resume_bytes = max(0, boundaries[resume][0] - done)
                chunk.end_position = told = max(chunk.resume_position, start)
                chunk.counts.events_sent = 1
                done, begun = end, True
                is_last = done == len(kept) and resume == len(boundaries) - 1
                chunk.end_of_log = number == len(self.files) - 1 and is_last
                chunk.end_of_file = number < len(self.files) - 1 and is_last
                yield sealed(chunk)

    def heartbeat(self) -> pb.Chunk:
        """Return a heartbeat at the end of the last file."""
        file = self.files[-1]
        at = {"begin_position": file.end, "end_position": file.end, "resume_position": file.end}
        return sealed(pb.Chunk(heartbeat=True, file=file.name, **at))

    @staticmethod
    def _note(chunk: pb.Chunk, transaction: Transaction, offset: int, end: int) -> None:
        gaps = chunk.gaps
        if not transaction.kept:
            gaps.offset.append(offset - sum(gaps.offset))
            gaps.end.append(end - sum(gaps.end))
            gaps.runs.append(1 if transaction.number else 0)
            gaps.hits.append(0)
        if not transaction.number:
            return
        if not transaction.kept:
            gaps.source[:] = [UUID.bytes]
            last = sum(gaps.run_first) + sum(length - 1 for length in gaps.run_length)
            gaps.run_source.append(0)
            gaps.run_first.append(transaction.number - last)
            gaps.run_length.append(1)
        if not chunk.completed.members:
            chunk.completed.members.add(uuid=UUID.bytes)
        member = chunk.completed.members[0]
        numbers = list(member.runs)
        last = sum(numbers) - len(numbers) // 2
        member.runs.extend([transaction.number - last, 1])


def sealed(chunk: pb.Chunk) -> pb.Chunk:
    """Return the chunk with the CRC32 that proves it."""
    chunk.crc32 = chunk_crc32(chunk)
    return chunk


def synthetic(shape: Sequence[Sequence[tuple[bool, Sequence[int]]]]) -> list[MasterFile]:
    """Make binlog files from a shape: by file, by transaction, whether the master keeps it, and its events' lengths."""
    description = events_of((DATA / "mysql-row" / "bin.000001").read_bytes())[0]
    files, number = [], 0
    for index, transactions in enumerate(shape, 1):
        at, made = 4 + len(description), []
        for kept, lengths in transactions:
            events = []
            number += 1
            for length in lengths:
                at += 19 + length + 4
                events.append(make_event(2, bytes([length % 251]) * length, at))
            made.append(Transaction(tuple(events), kept, number))
        files.append(MasterFile(f"bin.{index:06d}", description, tuple(made)))
    return files


def recorded(folder: str) -> list[MasterFile]:
    """Return a recording's files, with each event as a transaction of its own."""
    files = []
    for line in (DATA / folder / "bin.index").read_text().split():
        path = DATA / folder / Path(line).name
        description, *events = events_of(path.read_bytes())
        files.append(MasterFile(path.name, description, tuple(Transaction((e,)) for e in events)))
    return files


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def masters() -> type:
    """Return the classes and functions of this module that tests use."""

    class Masters:
        FakeMaster = FakeMaster
        synthetic = staticmethod(synthetic)
        recorded = staticmethod(recorded)
        events_of = staticmethod(events_of)
        sealed = staticmethod(sealed)

    return Masters


@pytest.fixture(scope="session")
def address_of() -> Iterator[Callable[[str], str]]:
    """Return the function that starts a master over a recording, once, and returns its address."""
    started: dict[str, Master] = {}

    def address(folder: str) -> str:
        if folder not in started:
            started[folder] = Master(DATA / folder)
            started[folder].start()
        return f"127.0.0.1:{started[folder].port}"

    yield address
    for master in started.values():
        master.stop()


@pytest.fixture
def binlogs(data: Path, tmp_path: Path) -> Path:
    """Return a copy of a recording. A test may change the copy."""
    return Path(shutil.copytree(data / "mysql-row", tmp_path / "binlogs"))
