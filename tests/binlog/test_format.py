"""Tests of the format description event and of the magic number."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated, BinlogUnsupported
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription, check_magic
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.fileset import BinlogSet
from tests.strategies import DIALECTS, Dialect, with_checksum
from tests.support import RECORDED, recording_id


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: f"{d.name}-{d.gtids}-{d.checksum}")
def test_dialects(dialect: Dialect) -> None:
    event = dialect.format_description()
    fd = FormatDescription.parse(event)
    assert fd.server_version == dialect.version
    assert fd.checksum == dialect.checksum
    assert fd.checksum_length == (4 if dialect.checksum else 0)
    assert fd.family == dialect.family
    assert list(fd.post_header_lengths) == dialect.lengths
    assert fd.raw == event
    assert fd.ends_in_checksum == (not dialect.version.startswith("5."))
    assert fd.header.type == EventType.FORMAT_DESCRIPTION
    assert fd.post_header_length(EventType.QUERY) == 13
    assert fd.post_header_length(0) == fd.post_header_length(250) == 0
    assert FormatDescription.parse(dialect.format_description(in_use=True)) == fd


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
def test_recordings(path: Path) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[13:17], "little")
    fd = FormatDescription.parse(data[4 : 4 + size])
    name = path.parent.name
    assert fd.family == name.partition("-")[0].rstrip("0123456789")
    # MySQL 5.5 has no checksums, and the mixed recordings were made with binlog_checksum=NONE.
    without = name.startswith("mysql55-") or re.fullmatch(r"(mysql|mariadb)\d*-mixed", name)
    assert fd.checksum == (not without)
    assert fd.post_header_length(EventType.TABLE_MAP) == 8


@pytest.mark.parametrize(
    ("version", "checksum"),
    [
        ("5.6.0-m4", False),
        ("5.6.1-m5", True),
        ("5.7.44-log", True),
        ("8.0.mysql_aurora.3.04", True),
        ("5.2.14-MariaDB", False),
        ("5.3.0-MariaDB", True),
        ("11.8.1-MariaDB-ubu", True),
    ],
)
def test_who_knows_checksums(version: str, checksum: bool) -> None:
    dialect = Dialect("x", version, DIALECTS[-1].lengths, "none", False)
    event = dialect.format_description()
    if event[-4:] == b"\0" * 4 or checksum:
        # A server that knows checksums ends this event with the algorithm and a checksum.
        body_end = 19 + 57 + len(dialect.lengths)
        event = bytearray(event[:body_end] + b"\1" + bytes(4))
        event[9:13] = len(event).to_bytes(4, "little")
        event = with_checksum(bytes(event))
    fd = FormatDescription.parse(event)
    assert fd.checksum == fd.ends_in_checksum == checksum
    assert list(fd.post_header_lengths)[:27] == dialect.lengths


def test_a_version_is_printable_text_before_the_first_zero_byte() -> None:
    event = Dialect("x", "9.7\n\x1b[2J\0more", DIALECTS[0].lengths, "mysql", True).format_description()
    assert FormatDescription.parse(event).server_version == r"9.7\n\x1b[2J"


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.checksum], ids=lambda d: f"{d.name}-{d.gtids}")
def test_every_flipped_bit(dialect: Dialect) -> None:
    """Every flipped bit is an error with file and position, except the in-use flag, which servers change."""
    event = dialect.format_description()
    for position in range(len(event)):
        for bit in range(8):
            damaged = bytearray(event)
            damaged[position] ^= 1 << bit
            if (position, bit) == (17, 0):
                assert FormatDescription.parse(bytes(damaged)).raw == event
                continue
            with pytest.raises(BinlogError) as raised:
                FormatDescription.parse(bytes(damaged), file="bin.000001", position=4)
            assert (raised.value.file, raised.value.position) == ("bin.000001", 4)


def test_errors() -> None:
    event = bytearray(DIALECTS[0].format_description())
    with pytest.raises(BinlogCorrupt, match="only 40 bytes"):
        FormatDescription.parse(bytes(event[:40]))
    for offset, value, error in (
        (4, EventType.START_V3, BinlogUnsupported),
        (4, EventType.QUERY, BinlogCorrupt),
        (19, 3, BinlogUnsupported),
        (75, 18, BinlogCorrupt),
    ):
        changed = event.copy()
        changed[offset] = value
        with pytest.raises(error):
            FormatDescription.parse(with_checksum(bytes(changed)))
    changed = event.copy()
    changed[-5] = 7
    with pytest.raises(BinlogCorrupt, match="algorithm 7"):
        FormatDescription.parse(with_checksum(bytes(changed)))


@pytest.mark.parametrize(("version", "server", "header"), [(1, b"3.23.58-log", 13), (3, b"4.1.22-log", 19)])
def test_a_binlog_before_v4_is_refused(version: int, server: bytes, header: int, tmp_path: Path) -> None:
    """A file of an old format begins with a Start_v3 event, here as old servers wrote it."""
    rest = struct.pack("<H50sI", version, server, 1_100_000_000)
    start = struct.pack("<IBII", 1_100_000_000, EventType.START_V3, 1, header + len(rest))
    if header == 19:
        start += struct.pack("<IH", 4 + header + len(rest), 0)
    path = tmp_path / "bin.000001"
    path.write_bytes(b"\xfebin" + start + rest)
    with pytest.raises(BinlogUnsupported, match=r"bin.000001.*MySQL 4.1 or older.*replicate it through"):
        BinlogSet.open([path]).file("bin.000001")


@pytest.mark.parametrize("version", ["5.1.0-alpha", "5.1.3-beta", "5.1.17-log"])
def test_the_first_servers_with_rows_events_are_refused(version: str) -> None:
    body = struct.pack("<H50sIB", 4, version.encode(), 0, 19) + bytes(27)
    event = make_event(EventType.FORMAT_DESCRIPTION, body, checksum=False)
    with pytest.raises(BinlogUnsupported, match=rf"{version}, before 5.1.18, is not read; replicate it"):
        FormatDescription.parse(event)
    later = make_event(
        EventType.FORMAT_DESCRIPTION,
        body.replace(version.encode(), b"5.1.18".ljust(len(version), b"\0")),
        checksum=False,
    )
    assert FormatDescription.parse(later).version == (5, 1, 18)


def test_magic() -> None:
    check_magic(b"\xfebin")
    for head, error in (
        (b"", BinlogTruncated),
        (b"\xfeb", BinlogTruncated),
        (b"\xfdbin", BinlogUnsupported),
        (b"PK\3\4", BinlogCorrupt),
    ):
        with pytest.raises(error) as raised:
            check_magic(head)
        assert raised.value.position == 0


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: f"{d.name}-{d.gtids}-{d.checksum}")
def test_other_post_header_lengths(dialect: Dialect) -> None:
    fd = FormatDescription.parse(dialect.format_description())
    changed = fd.with_post_header_lengths({EventType.QUERY: 17, EventType.INTVAR: 9, 250: 1})
    assert FormatDescription.parse(changed.raw) == changed
    differs = [n + 1 for n, (a, b) in enumerate(zip(fd.raw, changed.raw, strict=True)) if a != b]
    first = 19 + 57  # the common header, then version, server version, creation time, header length
    end = first + len(dialect.lengths)
    assert [n - first for n in differs if n <= end] == [EventType.QUERY, EventType.INTVAR]
    assert all(n > len(fd.raw) - 4 for n in differs if n > end)
    back = changed.with_post_header_lengths(
        {EventType.QUERY: 13, EventType.INTVAR: fd.post_header_length(EventType.INTVAR)}
    )
    assert back == fd
