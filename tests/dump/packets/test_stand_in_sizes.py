"""The sizes of stand-ins, compared with a plain walk over the events of recorded binlogs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from dumpfilter.analyse.traffic.facts import flags_of
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.gap_events import Gap, make_gap
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.packets import stand_ins
from dumpfilter.dump.packets.stand_ins import StandIns, StandInSizes, Stretches, at_most
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from tests.dump.packets.streamed import dropped_of
from tests.dump.plans import ScannedFile, scanned
from tests.strategies import DIALECTS, T, _Builder, query_body
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
@pytest.mark.parametrize("segment_size", [1, 1000, 1 << 22])
def test_each_gtid_of_mariadb_may_need_one(path: Path, segment_size: int) -> None:
    data = path.read_bytes()
    file = scanned(data, segment_size)
    gtids = [header for _, header in events(data) if header.type == EventType.MARIADB_GTID]
    size = 42 + 31 if file.file.format_description.checksum else 38 + 27
    assert sizes(file) == [size] * len(gtids)


def test_a_set_of_both_families() -> None:
    """A server that was MySQL before goes on with the same index."""
    set_of_both = BinlogSet.open(
        [DATA / "oracle" / "mysql-row" / "bin.000001", DATA / "oracle" / "mariadb-row" / "bin.000002"]
    )
    sources = SourceNumbers()
    told = StandInSizes(sources)
    for _, segment in set_of_both.segments(Subjects(), sources):
        told.of(segment)
    alone = scanned((DATA / "oracle" / "mariadb-row" / "bin.000002").read_bytes(), 1 << 22)
    of_one = StandInSizes(alone.sources)
    for segment in alone.segments:
        of_one.of(segment)
    assert told.take_stretches() == of_one.take_stretches()


@pytest.mark.parametrize("path", files(*MARIADB), ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.parametrize("piece", [1, 600, 1 << 22])
@pytest.mark.parametrize("segment_size", [1, 1000, 1 << 22])
def test_stretches_end_at_pieces_and_events_of_the_file(
    path: Path, segment_size: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "PIECE", piece)
    data = path.read_bytes()
    file = scanned(data, segment_size)
    of_file = (EventType.ROTATE, EventType.STOP, EventType.BINLOG_CHECKPOINT)
    domains: dict[tuple[int, int, int], set[int]] = {}
    found = events(data)
    starts = [at for at, header in found if header.type == EventType.MARIADB_GTID]
    breaks = [at for at, header in found if header.type in of_file]
    for at in starts:
        domain = int.from_bytes(data[at + 27 : at + 31], "little")
        end = min((one for one in starts + breaks if one > at), default=len(data))
        segment = next(k for k, one in enumerate(file.segments) if end <= one.end)
        key = segment, (end - 1 - file.segments[segment].start) // piece, sum(one < at for one in breaks)
        domains.setdefault(key, set()).add(domain)
    told = StandInSizes(file.sources)
    for one in file.segments:
        told.of(one)
    each = [len(one) for one in domains.values()]
    assert told.take_stretches() == Stretches(sum(each), max(each, default=0))
    assert told.take_stretches() == Stretches()


def test_a_gap_event_of_a_relay_log_ends_no_stretch() -> None:
    head, made = binlog_of([]), binlog_of([1])
    fd = scanned(head, 1 << 22).file.format_description
    gap = make_gap(Gap(5000, runs=((struct.pack("<II", 1, 2), 2, 3),)), server_id=1, checksum=fd.checksum)
    file = scanned(made + gap + made[len(head) :], 1 << 22)
    told = StandInSizes(file.sources)
    for segment in file.segments:
        told.of(segment)
    assert told.take_stretches() == Stretches(1, 1)


@pytest.mark.parametrize(
    ("dropped", "sent", "stretches", "number"),
    [
        (0, 0, Stretches(), 0),
        (0, 9, Stretches(3, 2), 0),
        (9, 0, Stretches(3, 2), 3),
        (9, 2, Stretches(3, 2), 7),
        (9, 3, Stretches(3, 2), 9),
        (9, 4, Stretches(3, 1), 7),
    ],
    ids=str,
)
def test_a_run_has_a_stand_in_for_each_domain_at_most(
    dropped: int, sent: int, stretches: Stretches, number: int
) -> None:
    for size in (65, 73):
        told = at_most(StandIns(dropped, dropped * size), sent, stretches)
        assert told == StandIns(number, number * size)


def test_the_longest_stand_ins_may_be_those_that_are_sent() -> None:
    assert at_most(StandIns(5, 3 * 65 + 2 * 73), 0, Stretches(3, 1)) == StandIns(3, 65 + 2 * 73)


ALTERNATING = [domain for _ in range(20) for domain in (None, 0, 1, 0, 1)]


def binlog_of(domains: Sequence[int | None]) -> bytes:
    """Return a binlog of MariaDB with a small transaction for each entry: of a domain, or of domain 0 and to send."""
    builder = _Builder(next(one for one in DIALECTS if one.family == "mariadb"))
    for number, domain in enumerate(domains, 1):
        builder.add(T.MARIADB_GTID, struct.pack("<QIB6x", number, domain or 0, 2))
        builder.add(T.QUERY, query_body(b"BEGIN"))
        database = "shop" if domain is None else "logs"
        builder.add(T.QUERY, query_body(b"INSERT INTO t VALUES (1)", database))
        builder.add(T.XID, bytes(8))
        builder.boundary()
    return bytes(builder.data)


def figures(data: bytes, rules: Filter, segment_size: int, chunk_size: int) -> tuple[int, StandIns]:
    """Return the number of stand-ins that a dump sends, and the stand-ins that a tally tells."""
    file = scanned(data, segment_size)
    flags = TableFlags(rules, file.subjects)
    tally = Tally(file.subjects, file.sources, filters=[flags])
    thread = file.thread(flags, chunk_size=chunk_size)
    number = 0
    for segment in file.segments:
        tally.add(segment, file.file.read)
        position, resume = thread.position, thread.resume
        assert position is not None
        plans = thread.plan(segment)
        number += sum(len(dropped.place) for dropped in dropped_of(plans, segment, resume, file))
    tallied = tally.take()
    return number, tallied.stand_ins_for(flags_of(flags.filter, tallied.subjects), 0)


FILTERS = (
    [],
    ["--replicate-do-db=none"],
    ["--replicate-do-db=shop"],
    ["--replicate-ignore-db=shop"],
    ["--replicate-wild-do-table=%.%s"],
)


@pytest.mark.parametrize("segment_size", [300, 1 << 22])
@pytest.mark.parametrize("chunk_size", [1, 3000, 1 << 18])
def test_a_dump_never_has_more_than_told(segment_size: int, chunk_size: int) -> None:
    of_alternating = binlog_of(ALTERNATING)
    for data in [of_alternating, *(path.read_bytes() for path in files(*MARIADB))]:
        for options in FILTERS:
            number, told = figures(data, Filter.from_options(options), segment_size, chunk_size)
            assert number <= told.number
            if options in FILTERS[:2]:
                assert number == told.number


def test_domains_that_alternate_reach_the_bound() -> None:
    """20 runs with two domains each have 40 stand-ins, more than 20 sent transactions and 2 domains."""
    number, told = figures(
        binlog_of(ALTERNATING), Filter.from_options(["--replicate-do-db=shop"]), 1 << 22, 1 << 18
    )
    assert number == 40
    assert told.number == 20 * 2 + 2
