"""One tally gives for every filter the numbers that a dump with this filter gives."""

from __future__ import annotations

import functools
import itertools
import pickle
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from dumpfilter.analyse.traffic._group import NO_SUBJECT
from dumpfilter.analyse.traffic.facts import Conditions, Facts, flags_of, merge, side_by_side
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog.compression import NONE, ZSTD
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import WHOLE_SEGMENT, Counts
from dumpfilter.dump.packets.stand_ins import StandIns, find_dropped, with_stand_ins
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogFile, SegmentReader
from dumpfilter.index.segment import NONE_PREPARED, Segment
from dumpfilter.index.subjects import Subjects, TableSubject
from tests.strategies import (
    DIALECTS,
    T,
    _Builder,
    query_body,
    rows_body,
    table_map_body,
)
from tests.support import MemoryFile

SlaveFilter = tuple[ReplicationFilter, OriginFilter | None]


NO_STAND_INS = StandIns(0, 0)


@dataclass
class Figures:
    """The bytes, events, transactions and undecided events that the master sends to one slave."""

    bytes: int = 0
    events: int = 0
    transactions: int = 0
    undecided: int = 0
    stand_ins: StandIns | None = NO_STAND_INS
    """The stand-ins of a real replica. They are left out for a slave that ignores origins, as no real replica does.

    None: the dump thread does not tell them, because its binlog is a relay log with Gap events.
    """

    @classmethod
    def of_counts(cls, counts: Counts, stand_ins: StandIns | None = NO_STAND_INS) -> Figures:
        kept = counts.transactions_read - counts.transactions_dropped
        return cls(counts.bytes_sent, counts.events_sent, kept, counts.events_undecided, stand_ins)

    @classmethod
    def of_tally(
        cls, found: Facts, flags: TableFlags, origin: OriginFilter | None, number: int | None
    ) -> Figures:
        own = flags_of(flags.filter, found.subjects)
        sent = found.sent(own, origin, number)
        return cls(
            int(found.bytes[sent].sum()),
            int(found.events[sent].sum()),
            int(found.transactions[sent].sum()),
            int(found.undecided[sent & found.unsure(own)].sum()),
            found.stand_ins_for(own, number) if origin is None else NO_STAND_INS,
        )


def check_sums(got: Sequence[Figures], expected: Sequence[Figures], found: Facts) -> None:
    """Check the sums of a tally.

    MariaDB's stand-ins may be fewer than the tally tells, if a transaction is sent. They may be shorter, if some
    binlogs have checksums and others do not.
    """
    number, size = int(found.stand_ins.sum()), int(found.stand_in_bytes.sum())
    have_one_size = size in (number * (38 + 27), number * (42 + 31))
    assert [replace(one, stand_ins=NO_STAND_INS) for one in got] == [
        replace(one, stand_ins=NO_STAND_INS) for one in expected
    ]
    for one, true in zip(got, expected, strict=True):
        if true.stand_ins is None:
            continue
        assert one.stand_ins is not None
        if not found.stretches.domains or (have_one_size and not true.transactions):
            assert one.stand_ins == true.stand_ins
        else:
            assert one.stand_ins.nbytes >= true.stand_ins.nbytes
            assert one.stand_ins.number >= true.stand_ins.number
            assert true.transactions or one.stand_ins.number == true.stand_ins.number


class Both:
    """A tally for several filters, and for comparison a dump thread for each filter."""

    def __init__(self, filters: Sequence[SlaveFilter], *, bucket_seconds: int = 60) -> None:
        self.subjects, self.sources = Subjects(), SourceNumbers()
        self.filters = [(TableFlags(rules, self.subjects), origin) for rules, origin in filters]
        flags = [flags for flags, _ in self.filters]
        self.tally = Tally(self.subjects, self.sources, filters=flags, bucket_seconds=bucket_seconds)
        self.threads = [
            DumpThread(flags, self.sources, chunk_size=WHOLE_SEGMENT, origin=origin)
            for flags, origin in self.filters
        ]
        self.counts = [Counts() for _ in filters]
        self.stand_ins: list[StandIns | None] = [NO_STAND_INS for _ in filters]
        self.found: list[Facts] = []

    def file(
        self,
        file: BinlogFile,
        *,
        segment_size: int = 1 << 16,
        prepared: object = NONE_PREPARED,
        take: int = 1 << 20,
    ) -> SegmentReader:
        """Read a file with the tally and the dump threads. Take the tally's result every ``take`` segments."""
        for thread in self.threads:
            thread.start_file(file.first_event, file.read)
        reader = SegmentReader(
            file, self.subjects, self.sources, segment_size=segment_size, prepared=prepared
        )
        for number in itertools.count(1):
            segment = reader.next()
            if segment is None:
                break
            self.tally.add(segment, file.read)
            for number_of_thread, thread in enumerate(self.threads):
                self._dump(number_of_thread, thread, segment, file)
            if number % take == 0:
                self.found.append(self.tally.take())
        return reader

    def _dump(self, number: int, thread: DumpThread, segment: Segment, file: BinlogFile) -> None:
        position, resume = thread.position, thread.resume
        assert position is not None
        plans = thread.plan(segment)
        for plan in plans:
            self.counts[number].add(plan.counts)
        if self.filters[number][1] is not None:
            return
        known = self.stand_ins[number]
        if known is None or len(segment.dropped):
            self.stand_ins[number] = None
            return
        fd = segment.format_description

        def key_of(source: int) -> SourceKey:
            return self.sources.key(source)

        count, size = known
        for plan in plans:
            dropped = find_dropped(plan, segment, resume, file.read, key_of)
            count += int(dropped.length.sum())
            dropped = dropped._replace(place=np.zeros_like(dropped.place))
            size += len(with_stand_ins(b"", dropped, fd, key_of, file.read))
        self.stand_ins[number] = StandIns(count, size)

    def check(self) -> Facts:
        """Check that the tally's sums are those of the dump threads, and return the merged result."""
        parts = [*self.found, self.tally.take()]
        found = merge(parts)
        together = side_by_side(parts)
        check_equal(merge([together]), found)
        check_equal(pickle.loads(pickle.dumps(found)), found)
        expected = list(map(Figures.of_counts, self.counts, self.stand_ins))
        check_sums(self.sums(found), expected, found)
        check_sums(self.sums(together), expected, together)
        folded = found.folded([flags_of(flags.filter, found.subjects) for flags, _ in self.filters])
        check_sums(self.sums(folded), expected, folded)
        if not found.given_only:
            own = [Figures.of_tally(found, flags, origin, None) for flags, origin in self.filters]
            check_sums(own, expected, found)
        return found

    def sums(self, found: Facts) -> list[Figures]:
        return [
            Figures.of_tally(found, flags, origin, number)
            for number, (flags, origin) in enumerate(self.filters)
        ]


def check(
    data: bytes, filters: Sequence[SlaveFilter], *, segment_size: int = 1 << 16, take: int = 1 << 20
) -> Facts:
    both = Both(filters)
    both.file(MemoryFile(data), segment_size=segment_size, take=take)
    return both.check()


ROWS = functools.partial(rows_body, DIALECTS[0], T.WRITE_ROWS)
SHOP = Filter.from_options(["--replicate-do-db=shop"])
LOGS = Filter.from_options(["--replicate-do-db=logs"])
SMALL_AND_LARGE = pytest.mark.parametrize("segment_size", [1, 1 << 16])


def _begin(builder: _Builder) -> None:
    builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16))
    builder.add(T.QUERY, query_body(b"BEGIN"))


def _insert(builder: _Builder, number: int, database: str, *, ends: bool = True, rows: bytes = b"") -> None:
    builder.add(T.TABLE_MAP, table_map_body(number, database, "t"))
    builder.add(T.WRITE_ROWS, ROWS(number, ends=ends, rows=rows))


def _end(builder: _Builder) -> None:
    builder.add(T.XID, bytes(8))
    builder.boundary()


@SMALL_AND_LARGE
def test_what_each_is_about(segment_size: int) -> None:
    """A table map is sent with its own table or with later rows of its statement, BEGIN and Xid with any table."""
    builder = _Builder(DIALECTS[0])
    _begin(builder)
    builder.add(T.ROWS_QUERY, b"\x10UPDATE something", flags=0x80)
    builder.add(T.TABLE_MAP, table_map_body(1, "shop", "t"))
    builder.add(T.TABLE_MAP, table_map_body(2, "logs", "t"))
    builder.add(T.WRITE_ROWS, ROWS(2, ends=True))
    builder.add(T.QUERY, query_body(b"CREATE TABLE t (i INT)", "hr"))
    _end(builder)
    filters = [
        Filter.from_options([f"--replicate-do-db={db}" for db in dbs])
        for dbs in (["shop"], ["logs"], ["hr"], ["shop", "logs"], ["shop", "hr"], ["none"])
    ]
    found = check(bytes(builder.data), [(each, None) for each in filters], segment_size=segment_size)
    shop, logs = TableSubject("shop", "t"), TableSubject("logs", "t")
    about = Counter[object]()
    numbers = found.subject_of_condition[found.condition].tolist()
    for number, events in zip(numbers, found.events.tolist(), strict=True):
        about[None if number < 0 else found.subjects[number]] += events
    (statement,) = set(about) - {shop, logs, None}
    assert about == {shop: 1, logs: 3, statement: 1, None: 3}
    assert found.transactions.sum() == 1


@SMALL_AND_LARGE
def test_an_xa_transaction_that_changes_nothing(segment_size: int) -> None:
    """The subject of its XA COMMIT is the empty set. No set of several tables is in the binlog."""
    builder = _Builder(DIALECTS[0])
    gtid = b"\1" + bytes(24) + b"\2" + bytes(16)
    builder.add(T.ANONYMOUS_GTID, gtid)
    builder.add(T.QUERY, query_body(b"XA START X'61',X'',1"))
    builder.add(T.QUERY, query_body(b"XA END X'61',X'',1"))
    builder.add(T.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 0) + b"a")
    builder.boundary()
    builder.add(T.ANONYMOUS_GTID, gtid)
    builder.add(T.QUERY, query_body(b"XA COMMIT X'61',X'',1"))
    builder.boundary()
    check(bytes(builder.data), [(each, None) for each in (SHOP, LOGS, Filter([]))], segment_size=segment_size)


def _add_pieces(builder: _Builder, pieces: Iterable[str]) -> None:
    for piece in pieces:
        if piece == "unknown":
            builder.add(200, b"??")
        elif piece == "unmapped":
            builder.add(T.WRITE_ROWS, ROWS(99, ends=True))
        elif piece == "context":
            builder.add(T.ROWS_QUERY, b"\x10UPDATE something", flags=0x80)
        elif piece.startswith("open "):
            _insert(builder, 1, piece[5:], ends=False)
        elif piece.startswith("map "):
            builder.add(T.TABLE_MAP, table_map_body(2, piece[4:], "t"))
        else:
            _insert(builder, 1, piece)


def _odd_payload(
    compression: int, *before: str, statement: bytes = b"FROBNICATE t", inside: Sequence[str] = ()
) -> bytes:
    """Return a compressed transaction of two schemas, at the end of a transaction with other events. ``inside`` are
    further events in the compressed part.
    """
    builder = _Builder(DIALECTS[0])
    _begin(builder)
    _add_pieces(builder, before)
    builder.begin_payload()
    builder.add(T.QUERY, query_body(b"BEGIN"))
    for number, database in enumerate(["shop", "logs"], 1):
        _insert(builder, number, database, rows=bytes(range(200)))
    _add_pieces(builder, inside)
    builder.add(T.QUERY, query_body(statement, "shop"))
    builder.add(T.XID, bytes(8))
    builder.end_payload(compression)
    builder.boundary()
    return bytes(builder.data)


@SMALL_AND_LARGE
@pytest.mark.parametrize("compression", [ZSTD, NONE])
@pytest.mark.parametrize(
    "before",
    [
        (),
        ("shop",),
        ("hr", "map logs"),
        ("context", "open hr", "map shop", "context"),
        ("unknown", "context"),
        ("map hr", "open shop", "map logs"),
    ],
    ids=" ".join,
)
def test_a_compressed_transaction_that_is_cut(
    before: tuple[str, ...], compression: int, segment_size: int
) -> None:
    filters = [
        Filter.from_options(options)
        for options in (
            [],
            ["--replicate-do-db=shop"],
            ["--replicate-do-db=logs"],
            ["--replicate-do-db=hr"],
            ["--replicate-do-db=hr", "--replicate-do-db=logs"],
            ["--replicate-do-table=shop.t"],
            ["--replicate-ignore-db=none"],
        )
    ]
    found = check(
        _odd_payload(compression, *before), [(each, None) for each in filters], segment_size=segment_size
    )
    assert found.given_only
    conditions = found.conditions
    is_list = np.minimum.reduceat(conditions.member, conditions.start[:-1]) < NO_SUBJECT
    # Two groups of filters are sent parts of different sizes. The others are sent the whole event, or nothing.
    assert len(set(found.bytes[is_list[found.condition]].tolist())) >= 2
    found.sent(None)
    with pytest.raises(ValueError, match="alone"):
        found.sent(np.zeros(len(found.subjects), np.uint32))


def test_compressed_transactions_that_nobody_cuts_are_plain() -> None:
    filters = [
        Filter.from_options(options)
        for options in (["--replicate-ignore-db=x"], ["--replicate-do-db=x"], ["--replicate-do-db=logs"])
    ]
    data = _odd_payload(ZSTD, statement=b"CREATE TABLE t (i INT)")
    found = check(data, [(each, None) for each in filters[:2]])
    assert found.conditions.member.min() >= NO_SUBJECT
    assert found.given_only
    found = check(data, [(each, None) for each in filters])
    assert found.conditions.member.min() < NO_SUBJECT


@pytest.mark.parametrize("statement", [b"FROBNICATE t", b"CREATE TABLE t (i INT)"])
@pytest.mark.parametrize("before", [(), ("hr",), ("map hr", "open shop", "map logs")], ids=" ".join)
@pytest.mark.parametrize(
    "inside",
    [("unknown",), ("map hr",), ("map hr", "open shop", "map logs"), ("unmapped",), ("map hr", "unmapped")],
    ids=" ".join,
)
def test_a_compressed_transaction_with_odd_content(
    inside: tuple[str, ...], before: tuple[str, ...], statement: bytes
) -> None:
    filters = [
        Filter.from_options([f"--replicate-do-db={database}"]) for database in ("shop", "logs", "hr", "none")
    ]
    data = _odd_payload(ZSTD, *before, statement=statement, inside=inside)
    check(data, [(each, None) for each in filters])


@SMALL_AND_LARGE
def test_buckets_are_of_the_last_event(segment_size: int) -> None:
    builder = _Builder(DIALECTS[0])
    times = []
    for _ in range(4):
        _begin(builder)
        _insert(builder, 1, "shop")
        _end(builder)
        times.append(builder.time)
    both = Both([(SHOP, None)], bucket_seconds=5)
    both.file(MemoryFile(bytes(builder.data)), segment_size=1 << 16)
    found = both.check()
    expected = Counter(time // 5 for time in times)
    got = Counter(dict(zip(found.bucket.tolist(), found.transactions.tolist(), strict=True)))
    assert got == expected
    both = Both([(SHOP, None)], bucket_seconds=1)
    both.file(MemoryFile(bytes(builder.data)), segment_size=segment_size)
    found = both.check()
    with_transactions = found.bucket[found.transactions > 0]
    assert sorted(with_transactions.tolist()) == times


def test_without_a_timestamp_the_last_known_time_counts() -> None:
    builder = _Builder(DIALECTS[0])
    for time in (70, 0, 130):
        builder.time = time - 1
        for kind, body in (
            (T.ANONYMOUS_GTID, bytes(42)),
            (T.QUERY, query_body(b"CREATE TABLE t (i INT)", "shop")),
        ):
            builder.time = time - 1
            builder.add(kind, body)
        builder.boundary()
    found = check(bytes(builder.data), [(SHOP, None)])
    assert dict(zip(found.bucket.tolist(), found.transactions.tolist(), strict=True)) == {1: 2, 2: 1}


def test_many_tables_at_once() -> None:
    """The tally enlarges its arrays of conditions, members and units in the middle of a transaction."""
    builder = _Builder(DIALECTS[0])
    for first in range(0, 60, 20):
        _begin(builder)
        for number in range(first, first + 40):
            for k in range(3):
                builder.add(T.TABLE_MAP, table_map_body(k + 1, f"d{number * k % 50}", "t"))
            for k in (0, 2):
                builder.add(T.WRITE_ROWS, ROWS(k + 1, ends=k == 2))
        _end(builder)
    filters = [Filter.from_options([f"--replicate-wild-do-table=d%{n}.t"]) for n in range(5)]
    found = check(bytes(builder.data), [(each, None) for each in filters])
    assert np.count_nonzero(found.conditions.lengths > 1) > 40


def test_folded_conditions_are_as_many_as_the_filters_tell_apart() -> None:
    builder = _Builder(DIALECTS[0])
    for number in range(40):
        _begin(builder)
        _insert(builder, 1, f"d{number}")
        _insert(builder, 2, f"d{number + 1}")
        _end(builder)
    filters = [Filter.from_options([f"--replicate-do-db=d{n}"]) for n in (5, 20)]
    found = check(bytes(builder.data), [(each, None) for each in filters])
    folded = found.folded([flags_of(each, found.subjects) for each in filters])
    assert np.count_nonzero(found.conditions.lengths > 1) == 40
    # "d5 or another table", "d20 or another table", "only other tables"
    several = folded.conditions.lengths > 1
    assert np.count_nonzero(several) == 3
    assert folded.subject_of_condition[several].tolist() == [-1] * 3
    assert np.count_nonzero(folded.subject_of_condition >= 0) == 41


def test_an_origin_is_where_and_by_whom() -> None:
    """A slave ignores transactions with its own server id, unless the server with that id wrote the binlog file."""
    data = _from_servers(7, 11)
    both = Both([(SHOP, OriginFilter(own_server_id=7)), (SHOP, OriginFilter(own_server_id=11)), (SHOP, None)])
    both.file(MemoryFile(data))
    found = both.check()
    assert {o and o.server_id for o in found.origins} == {None, 7, 11}
    assert {o.writer for o in found.origins if o} == {11}
    assert [figures.transactions for figures in both.sums(found)] == [1, 2, 2]


def check_equal(one: Facts, other: Facts) -> None:
    """Check that two tallies have the same units, conditions, tables and origins, with the same numbers."""
    for field in fields(Facts):
        found, expected = getattr(one, field.name), getattr(other, field.name)
        pairs = [(found, expected)]
        if field.name == "conditions":
            pairs = [(getattr(found, one.name), getattr(expected, one.name)) for one in fields(Conditions)]
        for column, other_column in pairs:
            if isinstance(column, np.ndarray):
                assert column.dtype == other_column.dtype
                assert np.array_equal(column, other_column)
            else:
                assert column == other_column


def _from_servers(*servers: int) -> bytes:
    builder = _Builder(DIALECTS[0])
    for server in servers:
        builder.add(T.ANONYMOUS_GTID, bytes(42), server_id=server)
        builder.add(T.QUERY, query_body(b"CREATE TABLE t (a INT)", "shop"), server_id=server)
        builder.boundary()
    return bytes(builder.data)


def test_nothing_is_no_tally() -> None:
    tally = Tally(Subjects(), SourceNumbers(), filters=[])
    empty = tally.take()
    assert not len(merge([empty, empty]).bytes)
    assert not empty.sent(None).any()
    for join in (merge, side_by_side):
        with pytest.raises(ValueError, match="one length"):
            join([])
    with pytest.raises(ValueError, match="one length"):
        merge([empty, Tally(Subjects(), SourceNumbers(), filters=[], bucket_seconds=1).take()])


def test_a_statement_of_many_segments_holds_few_events() -> None:
    """The rows of a statement over many segments are counted at once. Only the events before them wait for its end."""
    builder = _Builder(DIALECTS[0])
    _begin(builder)
    for number, database in enumerate(["shop", "logs"], 1):
        builder.add(T.TABLE_MAP, table_map_body(number, database, "t"))
    for number in range(400):
        builder.add(T.WRITE_ROWS, ROWS(number % 2 + 1, ends=number == 399))
    _end(builder)
    both = Both([(SHOP, None), (LOGS, None)])
    reader = SegmentReader(MemoryFile(bytes(builder.data)), both.subjects, both.sources, segment_size=1)
    most = 0
    while (segment := reader.next()) is not None:
        both.tally.add(segment, reader.file.read)
        most = max(most, len(both.tally._held.offset))
    # The head, two table maps, and the last rows of each table.
    assert most == 6
    check(bytes(builder.data), [(SHOP, None), (LOGS, None)], segment_size=1)
