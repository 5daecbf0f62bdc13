"""The sizes of stand-ins, compared with a plain walk over the events of recorded binlogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.dump import stand_ins
from dumpfilter.dump.stand_ins import StandInSizes
from tests.dump.plans import ScannedFile, scanned
from tests.support import DATA, binlogs_in

MYSQL = (
    "oracle/mysql-row",
    "recordings/mysql-tagged",
    "recordings/mysql97-gtid-modes",
    "recordings/mysql-payloads",
)
MARIADB = ("recordings/mariadb118-current", "oracle/mariadb-mixed")


def files(*names: str) -> list[Path]:
    return [file for name in names for file in binlogs_in(DATA / name)]


def sizes(file: ScannedFile) -> list[int]:
    """Return the bytes of the stand-ins of a file's whole transactions, in their order."""
    told = StandInSizes(file.sources)
    found = []
    for segment in file.segments:
        found += told.of(segment).tolist()[: len(segment.txn_source) - segment.open]
    return [size for size in found if size]


def events(data: bytes) -> list[tuple[int, EventHeader]]:
    found, at = [], 4
    while at < len(data):
        found.append((at, EventHeader.unpack(data, at)))
        at += found[-1][1].size
    return found


@pytest.mark.parametrize("path", files(*MYSQL), ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.parametrize("segment_size", [1, 500, 1 << 22])
def test_mysql_needs_each_gtid(path: Path, segment_size: int) -> None:
    data = path.read_bytes()
    file = scanned(data, segment_size)
    begin_and_xid = 42 + 31 if file.file.format_description.checksum else 38 + 27
    gtids = [header for _, header in events(data) if header.type in (EventType.GTID, EventType.GTID_TAGGED)]
    assert sizes(file) == [header.size + begin_and_xid for header in gtids]


def test_a_binlog_of_mysql_without_gtids_needs_none() -> None:
    for path in files("recordings/mysql57-no-gtid"):
        assert sizes(scanned(path.read_bytes(), 5000)) == []


@pytest.mark.parametrize("path", files(*MARIADB), ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.parametrize("piece", [1, 600, 1 << 22])
@pytest.mark.parametrize("segment_size", [1, 1000, 1 << 22])
def test_mariadb_needs_the_last_of_each_domain(
    path: Path, segment_size: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "PIECE", piece)
    data = path.read_bytes()
    file = scanned(data, segment_size)
    last: dict[tuple[int, int, int], int] = {}
    starts = [(at, header) for at, header in events(data) if header.type == EventType.MARIADB_GTID]
    # Events of the file, such as a Rotate event, end the transaction before them.
    ends = [
        at
        for at, header in events(data)
        if header.type in (EventType.MARIADB_GTID, EventType.ROTATE, EventType.STOP)
    ]
    for number, (at, _) in enumerate(starts):
        domain = int.from_bytes(data[at + 27 : at + 31], "little")
        end = min((end for end in ends if end > at), default=len(data))
        segment = next(k for k, one in enumerate(file.segments) if end <= one.end)
        last[segment, (end - 1 - file.segments[segment].start) // piece, domain] = number
    size = 42 + 31 if file.file.format_description.checksum else 38 + 27
    assert sizes(file) == [size] * len(last)
    if piece == segment_size == 1 << 22:
        assert len(last) == len({domain for _, _, domain in last}) <= 3
