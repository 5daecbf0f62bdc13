"""The events that a real replica gets from a dump: nothing is missing, and each GTID is there."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    LOG_EVENT_ARTIFICIAL_F,
    EventHeader,
    EventType,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.gtid_events import decode_gtid_tagged, decode_mysql_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.master.advance import GrpcEncoding, PlacedPlan, ReplicaEncoding, Step, place_in, steps_from
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import Register
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from tests.master.inline import InlineReader, one_by_one
from tests.support import DATA

ORACLE = DATA / "oracle"
RECORDINGS = sorted(path.parent.name for path in ORACLE.glob("*/bin.index"))
MYSQL = [name for name in RECORDINGS if name.startswith("mysql")]
ENDS = {EventType.XID, EventType.QUERY, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD}


def streamed(
    source: Path, *options: str, by_gtid: bool = True, counts: Counts | None = None
) -> Iterator[tuple[EventHeader, bytes]]:
    """Yield the events that a replica with a filter gets from the beginning of a recording.

    The master's counts for the replica are added to ``counts``.
    """
    store = BinlogStore(source)
    register = Register(store.subjects)
    rules = Filter.from_options(list(options))
    slave = register.add(Peer(server_id=7), rules)
    file = store.binlogs.names[0]
    checksum = store.format_description.checksum
    start = DumpStart(file, store.first_position(file), empty_set(store.family) if by_gtid else None)
    options_of_dump = DumpOptions(once=True, encoding=ReplicaEncoding(by_gtid, checksum))
    dump = Dump(InlineReader(store), register, slave, start, options_of_dump)
    for message in one_by_one(dump.messages()):
        at = 0
        while at < len(message):
            header = EventHeader.unpack(message[at : at + HEADER_LENGTH])
            event = message[at : at + header.size]
            if checksum:
                assert event[-CHECKSUM_LENGTH:] == zlib.crc32(event[:-CHECKSUM_LENGTH]).to_bytes(4, "little")
            if header.type == EventType.FORMAT_DESCRIPTION:
                checksum = FormatDescription.parse(event).checksum
            yield header, event
            at += header.size
        assert at == len(message)
    if counts is not None:
        counts.add(slave.record.counts)
    store.close()


def events_of(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the events of a recording, with the names of their files."""
    for name in source.joinpath("bin.index").read_text().split():
        with (source / name).open("rb") as file:
            for event in iter_events(file, file=name):
                yield Path(name).name, event.raw


@pytest.mark.parametrize("name", RECORDINGS)
def test_without_a_filter_a_replica_gets_every_event(name: str) -> None:
    """Artificial Rotate events come between the files. Everything else is what the files have."""
    sent = list(streamed(ORACLE / name))
    rotates = [event for header, event in sent if header.flags & LOG_EVENT_ARTIFICIAL_F]
    files = dict.fromkeys(file for file, _ in events_of(ORACLE / name))
    assert [event[HEADER_LENGTH + 8 :].decode("latin-1")[: len("bin.000001")] for event in rotates] == list(
        files
    )
    rest = [event for header, event in sent if not header.flags & LOG_EVENT_ARTIFICIAL_F]
    in_use = HEADER_LENGTH - 2
    for event, (_, raw) in zip(rest, events_of(ORACLE / name), strict=True):
        if event[4] == EventType.FORMAT_DESCRIPTION:
            assert event[:in_use] == raw[:in_use]
        else:
            assert event == raw


def gtid_of(header: EventHeader, event: bytes) -> str | None:
    body = event[HEADER_LENGTH:]
    if header.type == EventType.GTID:
        return str(decode_mysql_gtid(body).gtid)
    if header.type == EventType.GTID_TAGGED:
        return str(decode_gtid_tagged(body).gtid)
    return None


@pytest.mark.parametrize("name", MYSQL)
@pytest.mark.parametrize(
    "option", ["--replicate-do-db=shop", "--replicate-do-db=none", "--replicate-ignore-db=shop"]
)
def test_each_gtid_is_there_and_never_alone(name: str, option: str) -> None:
    whole, filtered = list(streamed(ORACLE / name)), list(streamed(ORACLE / name, option))
    gtids = [gtid for one in whole if (gtid := gtid_of(*one)) is not None]
    kept = [gtid for one in filtered if (gtid := gtid_of(*one)) is not None]
    assert kept == gtids
    assert sum(header.size for header, _ in filtered) <= sum(header.size for header, _ in whole)
    for (header, event), (following, _) in pairwise(filtered):
        if gtid_of(header, event) is not None:
            assert following.type in ENDS | {EventType.INTVAR, EventType.RAND, EventType.USER_VAR}


@pytest.mark.parametrize("name", MYSQL)
def test_without_gtids_dropped_transactions_leave_nothing(name: str) -> None:
    """A replica with file and position gets no stand-ins."""
    filtered = list(streamed(ORACLE / name, "--replicate-do-db=none", by_gtid=False))
    assert sum(header.type == EventType.GTID for header, _ in filtered) < sum(
        header.type == EventType.GTID for header, _ in streamed(ORACLE / name)
    )


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("option", ["--replicate-do-db=shop", "--replicate-do-db=none"])
def test_every_byte_is_counted(name: str, option: str) -> None:
    """Only the events at a file's beginning, which are no part of a chunk, are in no count."""
    counts = Counts()
    sent = [
        header.size
        for header, _ in streamed(ORACLE / name, option, counts=counts)
        if header.type != EventType.FORMAT_DESCRIPTION and not header.flags & LOG_EVENT_ARTIFICIAL_F
    ]
    assert sum(sent) == counts.bytes_sent + counts.bytes_gtid
    assert counts.bytes_gtid > 0


def test_a_slave_that_shares_plans_with_a_replica_has_no_stand_ins() -> None:
    with closing(BinlogStore(ORACLE / "mysql-row")) as store:
        source = store.open_file(store.binlogs.names[0])
        flags = TableFlags(Filter.from_options(["--replicate-do-db=none"]), store.subjects)
        encodings = (GrpcEncoding(), ReplicaEncoding(by_gtid=True, checksum=True), GrpcEncoding())
        places = [place_in(source, DumpThread(flags, store.sources), encoding=each) for each in encodings]
        segment = store.segment_of(source, places[0].position)
        assert segment is not None
        plans = plan_many([place.thread.fork() for place in places], segment)
        assert plans[0] is plans[1] is plans[2]
        steps = [step for step in steps_from(store, places) if isinstance(step, Step)]
        of_all = []
        for step in steps:
            pieces = [piece for piece in step.pieces if isinstance(piece, PlacedPlan)]
            for piece in pieces:
                list(piece.messages(1 << 20))
            of_all.append(sum(piece.counts.bytes_gtid for piece in pieces))
        assert of_all[0] == of_all[2] == 0 < of_all[1]


def test_slaves_with_messages_of_other_sizes_share_no_chunks() -> None:
    """A slave on a slow line would get a large event in one message, which the next outage loses."""
    with closing(BinlogStore(ORACLE / "mysql-row")) as store:
        source = store.open_file(store.binlogs.names[0])
        flags = TableFlags(Filter.from_options([]), store.subjects)
        threads = [DumpThread(flags, store.sources, chunk_size=size) for size in (1 << 20, 1 << 19, 1 << 19)]
        places = [place_in(source, thread, encoding=GrpcEncoding()) for thread in threads]
        pieces = []
        for step in steps_from(store, places):
            assert isinstance(step, Step)
            pieces.append({piece for piece in step.pieces if isinstance(piece, PlacedPlan)})
        assert pieces[0].isdisjoint(pieces[1])
        assert pieces[1] == pieces[2] != set()
