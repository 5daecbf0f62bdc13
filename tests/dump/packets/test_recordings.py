"""Streams with stand-ins, of every recording of a real server and several filters."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.gtid_events import (
    MysqlGtidEvent,
    decode_gtid_tagged,
    decode_mariadb_gtid,
    decode_mysql_gtid,
)
from dumpfilter.dump.packets.protocol import frame
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from tests.dump.packets.streamed import Streamed
from tests.dump.packets.streams import split_events
from tests.dump.plans import scanned
from tests.support import DATA, RECORDED, recording_id

FILTERS = [
    *json.loads((DATA / "oracle" / "cases.json").read_text()).values(),
    ["--replicate-do-db=nothing"],
]


@pytest.mark.parametrize(("number", "path"), list(enumerate(RECORDED)), ids=map(recording_id, RECORDED))
@pytest.mark.every_recording
def test_recordings(number: int, path: Path) -> None:
    """A replica ends with the GTIDs that an unfiltered stream gives it.

    Each file has a third of the filters, in turn, and one that drops everything.
    """
    file = scanned(path.read_bytes(), 1 << 16)
    family = file.file.format_description.family
    source = file.file.data[file.file.first_event :]
    gtids = _mysql_gtids if family == "mysql" else _last_of_domains
    unfiltered = gtids(source, checksum=file.file.format_description.checksum)
    for options in (*FILTERS[number % 3 :: 3], ["--replicate-wild-ignore-table=%.%"]):
        flags = TableFlags(Filter.from_options(options), file.subjects)
        for chunk_size in (1 << 18, 1000):
            streamed = Streamed(file, file.thread(flags, chunk_size=chunk_size))
            stream = b"".join(streamed.streams)
            assert gtids(stream, checksum=streamed.fd.checksum) == unfiltered
            frame(stream, 0)


def _bodies(data: bytes, *, checksum: bool) -> list[tuple[EventHeader, bytes]]:
    out = []
    for event in split_events(data):
        if checksum:
            assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
        out.append((EventHeader.unpack(event), event[19:-4] if checksum else event[19:]))
    return out


def _mysql_gtids(data: bytes, *, checksum: bool) -> list[MysqlGtidEvent]:
    """Return the GTIDs in order. An event follows each Gtid event, and sequence_number rises."""
    found = []
    events = _bodies(data, checksum=checksum)
    for number, (header, body) in enumerate(events):
        if header.type not in (EventType.GTID, EventType.GTID_TAGGED):
            continue
        is_tagged = header.type == EventType.GTID_TAGGED
        found.append(decode_gtid_tagged(body) if is_tagged else decode_mysql_gtid(body))
        following = events[number + 1][0]
        assert following.type not in (EventType.GTID, EventType.GTID_TAGGED, EventType.ROTATE, EventType.STOP)
        assert following.server_id == header.server_id
    numbers = [event.sequence_number for event in found if event.sequence_number]
    assert numbers == sorted(set(numbers))
    return found


def _last_of_domains(data: bytes, *, checksum: bool) -> dict[int, tuple[int, ...]]:
    last = {}
    for header, body in _bodies(data, checksum=checksum):
        if header.type == EventType.MARIADB_GTID:
            gtid = decode_mariadb_gtid(body, header.server_id).gtid
            last[gtid.domain_id] = tuple(gtid)
    return last
