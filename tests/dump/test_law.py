"""The law: what is dropped on the master, the slave would not have executed; and the stream stays a valid one."""

from __future__ import annotations

import functools
import io
import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, FormatDescription, NameRules
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers, add_run, empty_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump import ChunkPlan, Counts, DumpThread, render
from dumpfilter.errors import PositionError
from dumpfilter.filter import Filter, ReplicationFilter, Rule, make_rule
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import EffectiveRuleKind
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from tests.dump import reference
from tests.dump.reference import Effects
from tests.filter.plain import Names, PlainFilter
from tests.filter.plain_effective import PlainEffectiveFilter
from tests.strategies import (
    DATABASES,
    DIALECTS,
    TABLES,
    Dialect,
    MadeBinlog,
    T,
    _Builder,
    binlogs,
    execute_load_query_body,
    query_body,
    rows_body,
    rules,
    table_map_body,
)
from tests.support import RECORDED, MemoryFile, recording_id

BINLOGS = binlogs(odd=False)
ODD_BINLOGS = binlogs(unreadable=True)


@dataclass
class Dumped:
    """What one run of a dump thread over a file gave."""

    plans: list[ChunkPlan] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    completed: list[tuple[object, int]] = field(default_factory=list)
    empty: list[tuple[object, int]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def stream(self) -> bytes:
        return b"".join(self.chunks)


def dump(
    data: bytes,
    given_rules: list[Rule],
    *,
    chunk_size: int = 1 << 18,
    segment_size: int = 1 << 16,
    start: int | None = None,
    exclude: GtidSet | None = None,
) -> Dumped:
    """Drive a fresh dump thread over a file."""
    file = MemoryFile(data)
    fd = file.format_description
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(of_rules(given_rules, fd.family), subjects)
    thread = DumpThread(flags, sources, chunk_size=chunk_size, exclude=exclude)
    thread.start_file(file.first_event if start is None else start, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    out = Dumped()
    while (segment := reader.next()) is not None:
        if segment.end <= (thread.position or 0):
            continue
        for plan in thread.plan(segment):
            events = render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
            assert len(events) == plan.size
            assert plan.end == thread.position or plan.end < (thread.position or 0)
            out.plans.append(plan)
            out.chunks.append(events)
            out.counts.add(plan.counts)
            for runs, gtids in ((plan.completed, out.completed), (plan.empty, out.empty)):
                for source, first, last in runs:
                    gtids += [(sources.key(source, fd.family), n) for n in range(first, last + 1)]
    reader.check_end(last=True)
    assert thread.position == len(data)
    assert not thread.in_transaction
    return out


def of_rules(given_rules: list[Rule], family: Family) -> ReplicationFilter:
    """The filter whose rules they are."""
    effective = any(isinstance(rule.kind, EffectiveRuleKind) for rule in given_rules)
    return (EffectiveFilter if effective else Filter)(given_rules, names=NameRules(family))


def plain(made: MadeBinlog, given_rules: list[Rule]) -> PlainFilter | PlainEffectiveFilter:
    """The same, plainly."""
    effective = any(isinstance(rule.kind, EffectiveRuleKind) for rule in given_rules)
    return (PlainEffectiveFilter if effective else PlainFilter)(
        given_rules, Names(family=made.dialect.family)
    )


def meaning(effects: list[Effects]) -> list[tuple[object, ...]]:
    """The transactions that leave something behind; the others the slave is told of by GTID."""
    return [(e.gtid, e.items, e.frame) for e in effects if e.items]


@settings(max_examples=250, deadline=None)
@given(made=BINLOGS, given_rules=rules())
def test_the_law(made: MadeBinlog, given_rules: list[Rule]) -> None:
    """A slave that filters for itself executes the same from the filtered stream as from the full one."""
    _check_law(made, given_rules, segment_size=1 << 16)


@settings(max_examples=150, deadline=None)
@given(made=ODD_BINLOGS, given_rules=rules(), segment_size=st.integers(1, 600))
def test_the_law_with_odd_binlogs(made: MadeBinlog, given_rules: list[Rule], segment_size: int) -> None:
    _check_law(made, given_rules, segment_size=segment_size)


_EXPRESSIONS = st.tuples(
    st.sampled_from([*DATABASES, "%", "a%", "s_op", "l%s"]),
    st.sampled_from([*TABLES, "%", "%", "t%", "t\\_1"]),
).map(".".join)
EFFECTIVE_RULES = st.lists(
    st.one_of(
        st.builds(make_rule, st.sampled_from([EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE]), _EXPRESSIONS),
        st.sampled_from(["shop.%->logs.%", "a_b.t_1->shop.orders", "s%.%->x%.%"]).map(
            lambda value: make_rule(EffectiveRuleKind.REWRITE, value)
        ),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(made=BINLOGS, given_rules=EFFECTIVE_RULES)
def test_the_law_of_effective_filters(made: MadeBinlog, given_rules: list[Rule]) -> None:
    _check_law(made, given_rules, segment_size=1 << 16)


def _check_law(made: MadeBinlog, given_rules: list[Rule], *, segment_size: int) -> None:
    fd, own = made.fd, plain(made, given_rules)
    source = made.data[made.first_event :]
    dumped = dump(made.data, given_rules, segment_size=segment_size)
    reference.validate(fd, dumped.stream, source)
    full = reference.execute(fd, source, own)
    filtered = reference.execute(fd, dumped.stream, own)
    assert meaning(filtered) == meaning(full)
    # nothing that surely would be ignored is sent, and no transaction for nothing
    if of_rules(given_rules, fd.family).is_on:
        # but for compressed transactions that would not be smaller for it
        whole = {e.payload for e in full}
        assert sum(e.ignored for e in filtered if e.payload is None or e.payload not in whole) == 0
        assert all(e.items for e in filtered)
        assert dumped.counts.events_undecided == sum(e.undecided for e in full)
    else:
        assert dumped.stream == source
    # GTIDs: all of them, in order; "empty" says of which there is nothing
    assert dumped.completed == made.gtids == [e.gtid for e in full if e.gtid is not None]
    in_stream = [e.gtid for e in filtered if e.gtid is not None]
    assert dumped.empty == [gtid for gtid in made.gtids if gtid not in in_stream]
    counts = dumped.counts
    assert counts.bytes_read == len(source) == counts.bytes_sent + counts.bytes_dropped
    assert counts.bytes_sent == len(dumped.stream)
    assert counts.events_read == len(reference.events_of(fd, source))
    assert counts.events_sent == len(reference.events_of(fd, dumped.stream))
    assert counts.events_read == counts.events_sent + counts.events_dropped
    transactions = [e for e in full if not _of_the_file(e)]
    assert counts.transactions_read == len(transactions)
    assert counts.transactions_dropped == len(transactions) - sum(not _of_the_file(e) for e in filtered)


def _of_the_file(effects: Effects) -> bool:
    """Whether it is one event between transactions that belongs to the file."""
    return len(effects.items) == 1 and effects.items[0][0] in reference._FILE and len(effects.items[0]) == 2


@settings(max_examples=150, deadline=None)
@given(
    made=ODD_BINLOGS,
    given_rules=rules(),
    chunk_size=st.integers(1, 800),
    segment_size=st.integers(1, 1200),
)
def test_the_cut_does_not_matter(
    made: MadeBinlog, given_rules: list[Rule], chunk_size: int, segment_size: int
) -> None:
    """Any chunk size and any segment size give the same bytes, GTIDs and counts."""
    whole = dump(made.data, given_rules)
    cut = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=segment_size)
    assert cut.stream == whole.stream
    assert (cut.completed, cut.empty) == (whole.completed, whole.empty)
    assert cut.counts == whole.counts
    ends = [plan.end for plan in cut.plans]
    assert ends == sorted(ends)
    assert all(plan.resume in made.boundaries for plan in cut.plans)
    for plan in cut.plans:
        assert plan.resume <= plan.end
        assert 0 <= plan.resume_bytes <= plan.size
        at_boundary = [b for b in made.boundaries if b <= plan.end][-1]
        assert plan.resume == at_boundary
    merged: list[ChunkPlan] = []
    for plan in cut.plans:
        if not (merged and merged[-1].absorb(plan)):
            merged.append(plan)
    assert sum(plan.size for plan in merged) == len(cut.stream)
    assert sum(plan.counts.bytes_read for plan in merged) == whole.counts.bytes_read
    assert all(plan.size for plan in merged[:-1])


@settings(max_examples=100, deadline=None)
@given(
    made=ODD_BINLOGS,
    given_rules=rules(),
    chunk_size=st.integers(1, 800),
    sizes=st.tuples(st.integers(1, 1200), st.integers(1, 1200)),
)
def test_resuming(made: MadeBinlog, given_rules: list[Rule], chunk_size: int, sizes: tuple[int, int]) -> None:
    """From any chunk's resume position a fresh dump thread goes on with the same bytes and GTIDs."""
    dumped = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=sizes[0])
    sent = 0
    for plan in dumped.plans:
        again = dump(made.data, given_rules, segment_size=sizes[1], start=plan.resume)
        assert dumped.stream.endswith(again.stream)
        if plan.resume > plan.end - plan.counts.bytes_read:
            # the resume position lies in this chunk, after resume_bytes of it
            assert again.stream == dumped.stream[sent + plan.resume_bytes :]
        else:
            assert plan.resume_bytes == 0
        assert dumped.completed[len(dumped.completed) - len(again.completed) :] == again.completed
        sent += plan.size


@settings(max_examples=60, deadline=None)
@given(made=ODD_BINLOGS, segment_size=st.integers(1, 900), data=st.data())
def test_other_positions_are_refused(made: MadeBinlog, segment_size: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(made.first_event, max(len(made.data) - 1, made.first_event)))
    if position in made.boundaries:
        dump(made.data, [], start=position, segment_size=segment_size)
        return
    with pytest.raises(PositionError) as raised:
        dump(made.data, [], start=position, segment_size=segment_size)
    assert (raised.value.file, raised.value.position) == ("made.000001", position)


@settings(max_examples=120, deadline=None)
@given(
    made=ODD_BINLOGS.filter(lambda m: m.gtids),
    given_rules=rules(),
    chunk_size=st.integers(1, 800),
    segment_size=st.integers(1, 1200),
    data=st.data(),
)
def test_auto_position(
    made: MadeBinlog, given_rules: list[Rule], chunk_size: int, segment_size: int, data: st.DataObject
) -> None:
    """What the slave has already is as if it were not there."""
    had = data.draw(st.lists(st.sampled_from(made.gtids), unique=True))
    # a slave that has one half of an XA transaction has more than the stream tells: see test_xa
    kinds = {event.type for event in iter_events(io.BytesIO(made.data), file="made")}
    assume(not had or EventType.XA_PREPARE not in kinds)
    exclude = empty_set(made.dialect.family)
    for key, number in had:
        add_run(exclude, key, number, number)  # type: ignore[arg-type]
    got = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=segment_size, exclude=exclude)
    # MariaDB's sets know domains, not the servers in them
    missing = [gtid for gtid in made.gtids if not _has(exclude, gtid)]
    fd, own = made.fd, plain(made, given_rules)
    source = made.data[made.first_event :]
    full = reference.execute(fd, source, own)
    wanted = [e for e in full if e.gtid is None or e.gtid in missing]
    assert meaning(reference.execute(fd, got.stream, own)) == meaning(wanted)
    if _is_valid(fd, source):
        reference.validate(fd, got.stream, source)
    assert got.completed == missing
    assert got.counts.events_read == got.counts.events_sent + got.counts.events_dropped
    assert got.counts.bytes_read == got.counts.bytes_sent + got.counts.bytes_dropped == len(source)


def _is_valid(fd: FormatDescription, source: bytes) -> bool:
    """Whether an odd binlog is a valid stream before anything is taken out of it."""
    try:
        reference.validate(fd, source, source)
    except AssertionError:
        return False
    return True


def _has(gtids: GtidSet, gtid: tuple[object, int]) -> bool:
    key, number = gtid
    wanted = key[0] if gtids.family == "mariadb" else key  # type: ignore[index]
    return any(k == wanted and first <= number <= last for k, first, last in gtids)


@settings(max_examples=60, deadline=None)
@given(made=BINLOGS, first=rules(), second=rules(), segment_size=st.integers(1, 1200))
def test_change_of_filter(made: MadeBinlog, first: list[Rule], second: list[Rule], segment_size: int) -> None:
    """A new filter takes over at a transaction's boundary; before it the old one's stream, after it the new one's."""
    file = MemoryFile(made.data)
    fd = file.format_description
    subjects, sources = Subjects(), SourceNumbers()
    make = functools.partial(Filter, names=NameRules(fd.family))
    thread = DumpThread(TableFlags(make(first), subjects), sources)
    thread.start_file(file.first_event, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    stream, switched, asked, prepared = b"", None, False, False
    while (segment := reader.next()) is not None:
        if thread.filter_version == 2 and switched is None:
            raise AssertionError("changed without being at a segment's start")
        if asked and switched is None and not thread.in_transaction:
            switched = thread.position
            if segment.earlier_ends or prepared:
                return  # its end goes where its beginning went: see test_xa
        for plan in thread.plan(segment):
            stream += render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
        assert (thread.filter_version == 2) == (switched is not None)
        if not asked:
            thread.change_filter(TableFlags(make(second), subjects), 2)
            asked = True
        prepared = bool(segment.prepared)
    if switched is None:
        assert stream == dump(made.data, first).stream
        return
    assert switched in made.boundaries
    tail = dump(made.data, second, start=switched).stream
    head = dump(made.data[:switched], first).stream
    assert stream == head + tail


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
def test_recordings(path: object) -> None:
    """Recordings, under rules that split their transactions."""
    data = path.read_bytes()  # type: ignore[attr-defined]
    file = MemoryFile(data)
    fd = file.format_description
    source = data[file.first_event :]
    for options in (
        ["--replicate-do-db=shop"],
        ["--replicate-ignore-table=shop.orders"],
        ["--replicate-wild-do-table=%.%s"],
        ["--replicate-wild-ignore-table=%a%.%", "--replicate-rewrite-db=shop->a"],
    ):
        given_rules = list(Filter.from_options(options).rules)
        own = PlainFilter(given_rules, Names(family=fd.family))
        whole = dump(data, given_rules)
        cut = dump(data, given_rules, chunk_size=300, segment_size=700)
        assert cut.stream == whole.stream
        assert cut.counts == whole.counts
        reference.validate(fd, whole.stream, source)
        filtered = reference.execute(fd, whole.stream, own)
        assert meaning(filtered) == meaning(reference.execute(fd, source, own))
        whole_payloads = {e.payload for e in reference.execute(fd, source, own)}
        assert sum(e.ignored for e in filtered if e.payload not in whole_payloads - {None}) == 0


@pytest.mark.parametrize(
    "dialect", [d for d in DIALECTS if d.checksum and d.gtids in ("mysql", "mariadb")], ids=lambda d: d.name
)
def test_large_transactions(dialect: Dialect) -> None:
    """More ranges, chunks and events put aside than there is room for at first."""
    builder = _Builder(dialect)
    kind = dialect.rows_types[0]
    for number in (1, 2):
        if dialect.gtids == "mariadb":
            builder.add(T.MARIADB_GTID, struct.pack("<QIB", number, 0, 0) + bytes(6))
            builder.gtids.append(((0, 11), number))
        else:
            builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", number) + b"\2" + bytes(16))
            builder.gtids.append(((bytes(16), ""), number))
            builder.add(T.QUERY, query_body(b"BEGIN"))
        for n in range(300):
            builder.add(T.QUERY, query_body(b"SAVEPOINT `a%d`" % n))
        for n in range(600):
            for table in (1, 2):
                name = "shop" if table == 1 + n % 2 else "logs"
                builder.add(T.TABLE_MAP, table_map_body(table, name, "orders"))
            for table in (1, 2, 1, 2)[: 1 + n % 4]:
                builder.add(kind, rows_body(dialect, kind, table, ends=False, rows=b"x" * (n % 100)))
            builder.add(kind, rows_body(dialect, kind, 1, ends=True))
        for database in ("shop", "logs"):
            builder.add(T.BEGIN_LOAD_QUERY, b"\7\0\0\0block")
            for _ in range(300):
                builder.add(T.APPEND_BLOCK, b"\7\0\0\0more")
            text = b"LOAD DATA INFILE 'x' INTO TABLE t"
            builder.add(T.EXECUTE_LOAD_QUERY, execute_load_query_body(text, database, 7))
        builder.add(T.XID, bytes(8))
        builder.boundary()
    made = MadeBinlog(dialect, bytes(builder.data), builder.boundaries, builder.gtids)
    for option, segment_size in (("do-db=shop", 5000), ("do-db=nothing", 1 << 20)):
        given_rules = list(Filter.from_options([f"--replicate-{option}"]).rules)
        _check_law(made, given_rules, segment_size=segment_size)
        whole = dump(made.data, given_rules)
        cut = dump(made.data, given_rules, chunk_size=100, segment_size=30_000)
        assert cut.stream == whole.stream
        assert cut.counts == whole.counts
        assert (cut.completed, cut.empty) == (whole.completed, whole.empty)


def _one_transaction(*events: tuple[int, bytes]) -> MadeBinlog:
    builder = _Builder(DIALECTS[0])
    builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", 1) + b"\2" + bytes(16))
    builder.gtids.append(((bytes(16), ""), 1))
    builder.add(T.QUERY, query_body(b"BEGIN"))
    for kind, body in events:
        builder.add(kind, body)
    builder.add(T.XID, bytes(8))
    builder.boundary()
    return MadeBinlog(DIALECTS[0], bytes(builder.data), builder.boundaries, builder.gtids)


def _rules(*options: str) -> list[Rule]:
    return list(Filter.from_options([f"--replicate-{option}" for option in options]).rules)


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_a_table_map_without_rows_ends_with_its_statement(segment_size: int) -> None:
    """What was put aside for a statement does not come with the next one."""
    rows = functools.partial(rows_body, DIALECTS[0], T.WRITE_ROWS)
    dummy = b"\xff" * 6 + b"\1\0\2\0"
    made = _one_transaction(
        (T.TABLE_MAP, table_map_body(1, "shop", "orders")),
        (T.WRITE_ROWS, rows(1, ends=False)),
        (T.TABLE_MAP, table_map_body(2, "shop", "audit")),
        (T.WRITE_ROWS, dummy),
        (T.QUERY, query_body(b"CREATE TABLE t (i INT)", "shop")),
        (T.TABLE_MAP, table_map_body(3, "logs", "audit")),
        (T.WRITE_ROWS, rows(3, ends=True)),
    )
    _check_law(made, _rules("do-db=shop"), segment_size=segment_size)
    stream = dump(made.data, _rules("do-db=shop"), segment_size=segment_size).stream
    maps = [e for e in reference.events_of(made.fd, stream) if e.type == T.TABLE_MAP]
    assert len(maps) == 1


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_every_undecided_statement_counts(segment_size: int) -> None:
    made = _one_transaction(*[(T.QUERY, query_body(b"FROBNICATE t", "shop"))] * 3)
    _check_law(made, _rules("do-table=shop.t"), segment_size=segment_size)
    counts = dump(made.data, _rules("do-table=shop.t"), segment_size=segment_size).counts
    assert counts.events_undecided == 3
