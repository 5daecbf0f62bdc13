"""The slow tests beside :mod:`tests.dump.test_law`."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet, empty_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule
from tests.dump import reference
from tests.dump.test_law import BINLOGS, EFFECTIVE_RULES, ODD_BINLOGS, _check_law, dump, meaning, plain
from tests.filter.plain import Names, PlainFilter
from tests.strategies import (
    DIALECTS,
    Dialect,
    MadeBinlog,
    T,
    _Builder,
    execute_load_query_body,
    query_body,
    rows_body,
    rules,
    table_map_body,
)
from tests.support import RECORDED, MemoryFile, recording_id


@given(made=BINLOGS, given_rules=rules())
def test_the_law(made: MadeBinlog, given_rules: list[Rule]) -> None:
    """A slave that filters for itself executes the same transactions from the filtered stream and the full stream."""
    _check_law(made, given_rules, segment_size=1 << 16)


@given(made=ODD_BINLOGS, given_rules=rules(), segment_size=st.integers(1, 600))
def test_the_law_with_odd_binlogs(made: MadeBinlog, given_rules: list[Rule], segment_size: int) -> None:
    _check_law(made, given_rules, segment_size=segment_size)


@given(made=BINLOGS, given_rules=EFFECTIVE_RULES)
def test_the_law_of_effective_filters(made: MadeBinlog, given_rules: list[Rule]) -> None:
    _check_law(made, given_rules, segment_size=1 << 16)


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
    assert sum(plan.size for plan in cut.plans) == len(cut.stream)
    assert sum(plan.counts.bytes_read for plan in cut.plans) == whole.counts.bytes_read


@given(
    made=ODD_BINLOGS,
    given_rules=rules(),
    chunk_size=st.integers(1, 800),
    sizes=st.tuples(st.integers(1, 1200), st.integers(1, 1200)),
)
def test_resuming(made: MadeBinlog, given_rules: list[Rule], chunk_size: int, sizes: tuple[int, int]) -> None:
    """From the boundary of any chunk a new dump thread continues with the same bytes and GTIDs."""
    dumped = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=sizes[0])
    sent = 0
    for plan in dumped.plans:
        again = dump(made.data, given_rules, segment_size=sizes[1], start=plan.resume)
        assert dumped.stream.endswith(again.stream)
        if plan.resume > plan.end - plan.counts.bytes_read:
            # The boundary lies in this chunk, after ``resume_bytes`` bytes.
            assert again.stream == dumped.stream[sent + plan.resume_bytes :]
        else:
            assert plan.resume_bytes == 0
        assert dumped.completed[len(dumped.completed) - len(again.completed) :] == again.completed
        sent += plan.size


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
    """The master treats transactions that the slave already has as if the binlog lacked them."""
    had = data.draw(st.lists(st.sampled_from(made.gtids), unique=True))
    # A slave that has only XA PREPARE of a transaction is left to test_xa.
    kinds = {event.type for event in iter_events(io.BytesIO(made.data), file="made")}
    assume(not had or EventType.XA_PREPARE not in kinds)
    exclude = empty_set(made.dialect.family)
    for key, number in had:
        exclude.add_range(key, number, number)  # type: ignore[arg-type]
    got = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=segment_size, exclude=exclude)
    # GTID sets of MariaDB name domains, but not the servers in a domain.
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
    assert got.counts.bytes_read == got.counts.bytes_sent + got.counts.bytes_dropped
    # Transactions that the slave has are in no sum, so that a new connection does not count them again.
    has_some = len(missing) < len(made.gtids)
    assert got.counts.bytes_read < len(source) if has_some else got.counts.bytes_read == len(source)


def _is_valid(fd: FormatDescription, source: bytes) -> bool:
    """Tell whether an odd binlog is a valid stream even before a filter drops events."""
    try:
        reference.validate(fd, source, source)
    except AssertionError:
        return False
    return True


def _has(gtids: GtidSet, gtid: tuple[object, int]) -> bool:
    key, number = gtid
    wanted = key[0] if gtids.family == "mariadb" else key  # type: ignore[index]
    return any(k == wanted and first <= number <= last for k, first, last in gtids)


@pytest.mark.parametrize(("number", "path"), list(enumerate(RECORDED)), ids=map(recording_id, RECORDED))
def test_recordings(number: int, path: Path) -> None:
    """Recordings obey the law under rules that drop parts of their transactions.

    Each file has one of the filters, in turn. The recordings of other versions have the same transactions.
    """
    data = path.read_bytes()
    file = MemoryFile(data)
    fd = file.format_description
    source = data[file.first_event :]
    filters = (
        ["--replicate-do-db=shop"],
        ["--replicate-ignore-table=shop.orders"],
        ["--replicate-wild-do-table=%.%s"],
        ["--replicate-wild-ignore-table=%a%.%", "--replicate-rewrite-db=shop->a"],
    )
    given_rules = list(Filter.from_options(filters[number % len(filters)]).rules)
    own = PlainFilter(given_rules, Names(family=fd.family))
    whole = dump(data, given_rules)
    cut = dump(data, given_rules, chunk_size=300, segment_size=700)
    assert cut.stream == whole.stream
    assert cut.counts == whole.counts
    reference.validate(fd, whole.stream, source)
    filtered = reference.execute(fd, whole.stream, own)
    full = reference.execute(fd, source, own)
    assert meaning(filtered) == meaning(full)
    whole_payloads = {e.payload for e in full}
    assert sum(e.ignored for e in filtered if e.payload not in whole_payloads - {None}) == 0


@pytest.mark.parametrize(
    "dialect",
    [d for d in DIALECTS if d.checksum and d.gtids in ("mysql", "mariadb") and d.name != "mariadb 10.11"],
    ids=lambda d: d.name,
)
def test_large_transactions(dialect: Dialect) -> None:
    """The dump thread enlarges its arrays of byte ranges, chunks and buffered events when they are full."""
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
