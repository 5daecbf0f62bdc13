"""An unfiltered stream that is made of these parts is, event for event, the stream of a real server."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

import pytest

from dumpfilter.binlog.events import CHECKSUM_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, empty_set, parse_gtid_set
from dumpfilter.dump.packets import protocol
from dumpfilter.index.fileset import BinlogSet
from tests.dump.packets.streams import RecordedStream, recorded_streams, split_events
from tests.dump.plans import ScannedFile, scanned


class _Source:
    """A source that sends a binlog set in the plainest way, transaction by transaction."""

    def __init__(self, asked: RecordedStream) -> None:
        self.asked = asked
        binlogs = BinlogSet.open(asked.directory / "bin.index")
        self.files = {name: scanned((asked.directory / name).read_bytes(), 1 << 24) for name in binlogs.names}
        self.gtids: GtidSet | None = None
        if asked.gtids is not None:
            self.gtids = parse_gtid_set(asked.gtids, family=asked.family)
        self.has_checksums = asked.checksum == "CRC32"
        """Whether the replica expects a checksum in an artificial Rotate."""

    def events(self) -> Iterator[bytes]:
        position, keeps = self.asked.position, False
        for number, name in enumerate(self.names()):
            file = self.files[name]
            fd = file.file.format_description
            if not number:
                keeps = self.gtids is not None and self.has_first(file)
            yield protocol.rotate(name, position, 11, self.has_checksums)
            self.has_checksums = fd.checksum
            yield protocol.format_description(fd, is_whole_file=position == 4, keeps_temporary_tables=keeps)
            yield from self.of_file(name, file, position)
            position = 4
            keeps &= self.asked.family == "mysql"

    def names(self) -> list[str]:
        names = list(self.files)
        if self.asked.file:
            return names[names.index(self.asked.file) :]
        if self.gtids is None:
            return names
        before = empty_set(self.asked.family)
        start = 0
        for number, name in enumerate(names):
            if not self.gtids.issuperset(before):
                break
            start = number
            for key, n in self.transactions(self.files[name]):
                before.add_range(key, n, n)
        return names[start:]

    def transactions(self, file: ScannedFile) -> list[tuple]:
        (segment,) = file.segments
        return [
            (file.sources.key(source), number)
            for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True)
            if source >= 0
        ]

    def has(self, key: tuple, number: int) -> bool:
        one = empty_set(self.asked.family)
        one.add_range(key, number, number)
        return self.gtids is not None and self.gtids.issuperset(one)

    def has_first(self, file: ScannedFile) -> bool:
        return any(self.has(key, number) for key, number in self.transactions(file)[:1])

    def of_file(self, name: str, file: ScannedFile, position: int) -> Iterator[bytes]:
        (segment,) = file.segments
        fd = file.file.format_description
        starts = [*segment.offset[segment.txn_event[:-1]].tolist(), segment.end]
        passed: MariadbGtid | None = None
        told = True
        for k, (begin, end) in enumerate(pairwise(starts)):
            if begin < position:
                continue
            source, number = int(segment.txn_source[k]), int(segment.txn_number[k])
            if source >= 0:
                key = file.sources.key(source)
                if self.has(key, number):
                    passed, told = (
                        MariadbGtid(*key, number) if self.asked.family == "mariadb" else None,
                        False,
                    )
                    continue
            if not told:
                yield self.position_after_gap(name, begin, fd, passed)
                told = True
            for event in split_events(file.file.read(begin, end - begin)):
                if event[4] != EventType.ANNOTATE_ROWS or self.asked.flags & 2:
                    yield event

    def position_after_gap(
        self, name: str, position: int, fd: FormatDescription, passed: MariadbGtid | None
    ) -> bytes:
        if passed is not None:
            return protocol.gtid_list(position, 11, fd.checksum, [passed])
        return protocol.heartbeat(name, position, 11, fd.checksum, v2=bool(self.asked.flags & 2))


def _without_stale_checksum(event: bytes, fd: FormatDescription) -> bytes:
    """Return a format description event without the checksum that a real server leaves wrong."""
    is_stale = event[4] == EventType.FORMAT_DESCRIPTION and not fd.checksum
    return event[:-CHECKSUM_LENGTH] if is_stale else event


@pytest.mark.parametrize("recorded", recorded_streams(), ids=str)
def test_an_unfiltered_stream_is_that_of_a_real_server(recorded: RecordedStream) -> None:
    source = _Source(recorded)
    fd = next(iter(source.files.values())).file.format_description
    sent = [_without_stale_checksum(event, fd) for event in source.events()]
    assert sent == [_without_stale_checksum(event, fd) for event in recorded.events]


def test_the_recordings_show_all_that_the_docstring_says() -> None:
    """Heartbeats, artificial Gtid lists, changed format descriptions, and Rotates with and without checksums."""
    kinds = set()
    for recorded in recorded_streams():
        for event in recorded.events:
            header = EventHeader.unpack(event)
            kinds.add((recorded.family, header.type, header.flags & 0x20, not header.timestamp))
    assert ("mysql", EventType.HEARTBEAT_V2, 0, True) in kinds
    assert ("mariadb", EventType.GTID_LIST, 0x20, True) in kinds
    assert {(family, EventType.ROTATE, 0x20, True) for family in ("mysql", "mariadb")} <= kinds


@pytest.mark.parametrize("position", [4, 250, 251, 65535, 65536, (1 << 32) - 1, 1 << 32, 5 << 30])
def test_heartbeats(position: int) -> None:
    """A replica of MySQL 9.7 took the position 5 GiB from a heartbeat of version 2."""
    event = protocol.heartbeat("bin.000004", position, 11, True, v2=True)
    header = EventHeader.unpack(event)
    assert (header.type, header.timestamp, header.flags, header.end_log_pos) == (
        41,
        0,
        0,
        position & 0xFFFFFFFF,
    )
    body = event[19:-4]
    assert body[:12] == b"\x01\nbin.000004"
    assert body[12] == 2
    assert body[13] == len(body) - 15
    number = body[14:-1]
    width = {252: 2, 253: 3, 254: 8}.get(number[0])
    assert position == (int.from_bytes(number[1:], "little") if width else number[0])
    assert len(number) == 1 + (width or 0)
    assert body[-1] == 0
    first = protocol.heartbeat("bin.000004", position, 11, True)
    assert EventHeader.unpack(first)[1:] == (27, 11, len(first), position & 0xFFFFFFFF, 0)
    assert first[19:-4] == b"bin.000004"


def test_recorded_heartbeats() -> None:
    """MySQL 9.7.4 and MariaDB 10.11.19 sent these events at the end of their binlogs."""
    assert protocol.heartbeat("bin.000004", 198, 11, True, v2=True)[19:-4].hex() == (
        "010a62696e2e3030303030340201c600"
    )
    assert protocol.heartbeat("bin.000004", 336, 11, True)[:-4] == (
        struct.pack("<IBIIIH", 0, 27, 11, 33, 336, 0) + b"bin.000004"
    )
