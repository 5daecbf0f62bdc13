"""A real replica of a slave's relay log gets what a real replica of the master gets, with the writer's positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet, empty_set
from dumpfilter.binlog.gtid_events import (
    decode_gtid_tagged,
    decode_mariadb_gtid,
    decode_mysql_gtid,
)
from dumpfilter.filter.filter import Filter
from dumpfilter.master import advance
from dumpfilter.master.advance import ReplicaEncoding
from dumpfilter.master.dump import Dump, DumpOptions, Reached
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import Register
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from tests.master.inline import InlineReader, one_by_one
from tests.slave.driven import serving
from tests.slave.once import run_slave
from tests.support import DATA

ORACLE = DATA / "oracle"
RECORDINGS = sorted(path.parent.name for path in ORACLE.glob("*/bin.index"))
BEGIN = bytes(13) + b"\0BEGIN"
"""The body of a stand-in's Query event."""
FILTERS = [["--replicate-do-db=shop"], ["--replicate-do-db=none"], ["--replicate-wild-ignore-table=shop.%"]]


def receive(name: str, directory: Path, options: list[str]) -> None:
    """Fill a relay directory with a recording, filtered."""
    with serving(ORACLE / name) as master:
        run_slave(f"127.0.0.1:{master.port}", directory, options, io_thread_only=True)


class Streamed:
    """The events that a replica gets from a binlog set, and the places that the dump told meanwhile."""

    def __init__(
        self, source: Path, options: list[str], *, by_gtid: bool = True, have: GtidSet | None = None
    ) -> None:
        store = BinlogStore(source)
        register = Register(store.subjects)
        slave = register.add(Peer(server_id=7), Filter.from_options(options))
        file = store.binlogs.names[0]
        gtids = (have or empty_set(store.family)) if by_gtid else None
        start = DumpStart(file, store.first_position(file), gtids)
        encoding = ReplicaEncoding(by_gtid, store.format_description.checksum)
        dump = Dump(InlineReader(store), register, slave, start, DumpOptions(once=True, encoding=encoding))
        self.reached: list[tuple[Reached, int]] = []
        self.events: list[tuple[EventHeader, bytes, FormatDescription]] = []
        fd = store.format_description
        for message in one_by_one(dump.messages()):
            at = 0
            while at < len(message):
                header = EventHeader.unpack(message, at)
                raw = bytes(message[at : at + header.size])
                if header.type == EventType.FORMAT_DESCRIPTION:
                    fd = FormatDescription.parse(raw)
                self.events.append((header, raw, fd))
                at += header.size
            self.reached.append((dump.reached, len(self.events)))
        self.counts = slave.record.counts
        store.close()


class Item:
    """An event, or a stand-in of a dropped transaction."""

    def __init__(self, raw: bytes, gtid: object = None, sequence: int | None = None, end: int = 0) -> None:
        self.raw, self.gtid, self.sequence, self.end = raw, gtid, sequence, end


def items(streamed: Streamed) -> Iterator[Item]:
    """Yield the events in which stand-ins count as one."""
    events = iter(streamed.events)
    for header, raw, fd in events:
        body = fd.body(raw)
        if header.type in (EventType.GTID, EventType.GTID_TAGGED):
            decoded = (
                decode_gtid_tagged(body) if header.type == EventType.GTID_TAGGED else decode_mysql_gtid(body)
            )
            gtid: object = decoded.gtid
            sequence = decoded.sequence_number
        elif header.type == EventType.MARIADB_GTID:
            gtid, sequence = decode_mariadb_gtid(body, header.server_id).gtid, None
        else:
            yield Item(raw)
            continue
        following, after, _ = next(events)
        begin = b""
        if fd.body(after) == BEGIN:
            begin = after
            following, after, _ = next(events)
        if following.type == EventType.XID and fd.body(after)[:8] == bytes(8):
            yield Item(b"", gtid, sequence, following.end_log_pos)
        else:
            yield Item(raw + begin + after, gtid, sequence)


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("options", FILTERS, ids=str)
def test_a_replica_of_the_slave_gets_the_same(tmp_path: Path, name: str, options: list[str]) -> None:
    receive(name, tmp_path, options)
    here, there = Streamed(tmp_path / "relay-bin.index", []), Streamed(ORACLE / name, options)
    mine, theirs = list(items(here)), list(items(there))
    assert [one.raw for one in mine if one.raw] == [one.raw for one in theirs if one.raw]
    assert [one.gtid for one in mine] == [one.gtid for one in theirs]
    assert [one.sequence for one in mine] == [one.sequence for one in theirs]
    # A Gap event tells one position, that after the last of its transactions.
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        is_last = number + 1 == len(mine) or bool(mine[number + 1].raw)
        assert one.end == other.end or (one.end < other.end and not is_last)
    assert here.reached[-1][0] == there.reached[-1][0]
    # Both have told the same places after the same events.
    places = {count: place for place, count in there.reached}
    assert all(places[count].file == place.file for place, count in here.reached if count in places)
    assert here.counts.bytes_gtid > 0 or there.counts.bytes_gtid == 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_stand_ins_of_one_gap_event_in_several_messages_are_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Gap event may tell more GTIDs than one message holds."""
    receive(name, tmp_path, FILTERS[0])
    whole = Streamed(tmp_path / "relay-bin.index", [])
    monkeypatch.setattr(advance, "_MOST_STAND_INS", 3)
    parts = Streamed(tmp_path / "relay-bin.index", [])
    assert parts.events == whole.events
    assert parts.counts == whole.counts
    stand_ins = [item for item in items(whole) if not item.raw]
    assert len(parts.reached) > len(whole.reached) or len(stand_ins) <= 3
    assert parts.reached[-1] == whole.reached[-1]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_slave_names_the_files_of_the_origin(tmp_path: Path, name: str) -> None:
    receive(name, tmp_path, ["--replicate-do-db=none"])
    here, there = Streamed(tmp_path / "relay-bin.index", []), Streamed(ORACLE / name, [])

    def beginnings(streamed: Streamed) -> list[bytes]:
        return [
            raw
            for header, raw, _ in streamed.events
            if header.flags & LOG_EVENT_ARTIFICIAL_F or header.type == EventType.FORMAT_DESCRIPTION
        ]

    assert beginnings(here) == beginnings(there)


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.startswith("mariadb")])
def test_without_gtids_positions_are_those_of_the_origin(tmp_path: Path, name: str) -> None:
    options = FILTERS[0]
    receive(name, tmp_path, options)
    here = Streamed(tmp_path / "relay-bin.index", [], by_gtid=False)
    there = Streamed(ORACLE / name, options, by_gtid=False)
    assert [raw for _, raw, _ in here.events] == [raw for _, raw, _ in there.events]
    assert here.reached[-1][0] == there.reached[-1][0]
