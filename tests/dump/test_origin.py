"""The law with origins: the master drops by origin the transactions that the slave itself would ignore by origin."""

from __future__ import annotations

import struct

from hypothesis import assume, given
from hypothesis import strategies as st

from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import Counts, render
from dumpfilter.dump.thread import DumpThread, Exclusion
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from tests.dump import reference
from tests.dump.test_law import meaning, of_rules, plain
from tests.strategies import DIALECTS, MadeBinlog, T, _Builder, binlogs, query_body, rules, with_checksum
from tests.support import MemoryFile

SERVERS = [10, 11, 12, 13]


@st.composite
def from_servers(draw: st.DrawFn) -> MadeBinlog:
    """Draw a binlog with transactions of several servers. The GTIDs of MariaDB already name the server."""
    made = draw(binlogs(odd=False))
    if made.dialect.family == "mariadb":
        return made
    data = bytearray(made.data)
    for begin, end in zip(made.boundaries, [*made.boundaries[1:], len(data)], strict=True):
        server = draw(st.sampled_from(SERVERS))
        while begin < end:
            length = int.from_bytes(data[begin + 9 : begin + 13], "little")
            data[begin + 5 : begin + 9] = struct.pack("<I", server)
            if made.dialect.checksum:
                data[begin : begin + length] = with_checksum(bytes(data[begin : begin + length]))
            begin += length
    return MadeBinlog(made.dialect, bytes(data), made.boundaries, made.gtids)


@st.composite
def origins(draw: st.DrawFn) -> OriginFilter:
    servers = draw(st.frozensets(st.sampled_from(SERVERS), max_size=2))
    domains = draw(st.frozensets(st.sampled_from([0, 1, 2]), max_size=2))
    own = draw(st.sampled_from([0, *SERVERS]))
    if draw(st.booleans()):
        return OriginFilter(servers, do_domain_ids=domains, own_server_id=own)
    return OriginFilter(servers, ignore_domain_ids=domains, own_server_id=own)


class Dumped:
    def __init__(
        self,
        data: bytes,
        given_rules: list[Rule],
        origin: OriginFilter | None,
        *,
        segment_size: int = 1 << 16,
        chunk_size: int = 1 << 18,
        family: Family = "mysql",
    ) -> None:
        file = MemoryFile(data)
        fd = file.format_description
        subjects, sources = Subjects(), SourceNumbers()
        flags = TableFlags(of_rules(given_rules, family), subjects)
        thread = DumpThread(flags, sources, chunk_size=chunk_size, origin=origin)
        thread.start_file(file.first_event, file.read)
        reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
        self.stream = b""
        self.counts = Counts()
        self.completed: list[object] = []
        self.empty: list[object] = []
        self.hits = 0
        while (segment := reader.next()) is not None:
            for plan in thread.plan(segment):
                self.stream += render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
                self.counts.add(plan.counts)
                self.hits += plan.hits.total()
                for runs, gtids in ((plan.completed, self.completed), (plan.gaps.runs, self.empty)):
                    for source, first, last in runs:
                        gtids += [(sources.key(source), n) for n in range(first, last + 1)]


def wanted_part(made: MadeBinlog, origin: OriginFilter) -> tuple[list[bool], bytes]:
    """Tell for each transaction, and each event of the file, whether an unfiltered slave accepts it by origin.

    Return these answers and the bytes that the slave accepts.
    """
    fd = made.fd
    takes, taken = [], b""
    for group in reference.transactions_of(reference.events_of(fd, made.data[made.first_event :])):
        gtid = reference.gtid_of(group[0])
        domain = gtid[0][0] if fd.family == "mariadb" and gtid is not None else None
        of_file = reference.kind_of(group[0]) == "file"
        takes.append(of_file or origin.wants(group[0].header.server_id, domain, writer=fd.header.server_id))
        if takes[-1]:
            taken += b"".join(event.raw for event in group)
    return takes, taken


def _xa_transactions_are_of_one_server(made: MadeBinlog, takes: list[bool]) -> bool:
    """Tell whether both parts of each XA transaction come from wanted servers, or both from unwanted servers.

    A slave that gets one part only has an error, whether the slave or the master filters.
    """
    prepared: dict[str, bool] = {}
    groups = reference.transactions_of(reference.events_of(made.fd, made.data[made.first_event :]))
    for group, take in zip(groups, takes, strict=True):
        for event in reference._plain_events(group, reference.Effects(None)):
            kind = reference.kind_of(event)
            if kind == "xa prepare":
                prepared[str(decode_xa_prepare(event.body).xid).upper()] = take
            elif kind == "xa finish":
                xid = reference._frame_text(event).split(b" ", 2)[2].decode()
                if prepared.pop(xid, take) != take:
                    return False
    return True


@given(
    made=from_servers(),
    origin=origins(),
    given_rules=rules(),
    chunk_size=st.integers(1, 800),
    segment_size=st.integers(1, 1200) | st.just(1 << 16),
)
def test_the_law(
    made: MadeBinlog, origin: OriginFilter, given_rules: list[Rule], chunk_size: int, segment_size: int
) -> None:
    family = made.dialect.family
    fd, own = made.fd, plain(made, given_rules)
    source = made.data[made.first_event :]
    got = Dumped(
        made.data, given_rules, origin, chunk_size=chunk_size, segment_size=segment_size, family=family
    )
    takes, _ = wanted_part(made, origin)
    assume(_xa_transactions_are_of_one_server(made, takes))
    full = reference.execute(fd, source, own)
    expected = [effects for effects, take in zip(full, takes, strict=True) if take]
    filtered = reference.execute(fd, got.stream, own)
    assert meaning(filtered) == meaning(expected)
    reference.validate(fd, got.stream, source)
    # A MariaDB slave adds the GTIDs of ignored transactions to its set; a MySQL slave does not.
    noted = full if family == "mariadb" else expected
    in_stream = [e.gtid for e in filtered if e.gtid is not None]
    assert got.completed == [e.gtid for e in noted if e.gtid is not None]
    assert got.empty == [gtid for gtid in got.completed if gtid not in in_stream]
    assert got.counts.bytes_read == len(source) == got.counts.bytes_sent + got.counts.bytes_dropped
    assert got.counts.events_read == got.counts.events_sent + got.counts.events_dropped


@given(made=from_servers().filter(lambda m: m.dialect.gtids != "none"), origin=origins(), given_rules=rules())
def test_transactions_dropped_by_origin_hit_no_rule(
    made: MadeBinlog, origin: OriginFilter, given_rules: list[Rule]
) -> None:
    """The rules are not asked about a transaction that its origin excludes, so no rule is hit."""
    family = made.dialect.family
    takes, taken = wanted_part(made, origin)
    assume(_xa_transactions_are_of_one_server(made, takes))
    # The shorter binlog has wrong values of end_log_pos, which do not matter to hits.
    rest = made.data[: made.first_event] + taken
    without_them = Dumped(rest, given_rules, None, family=family)
    assert Dumped(made.data, given_rules, origin, family=family).hits == without_them.hits


def test_only_its_first_event_says_where_a_transaction_comes_from() -> None:
    """A MariaDB slave can write a transaction whose later events have a server id other than the GTID event's."""
    dialect = next(d for d in DIALECTS if d.family == "mariadb")
    builder = _Builder(dialect)
    for server in (7, 8):
        builder.add(T.MARIADB_GTID, struct.pack("<QIB", server, 0, 0) + bytes(6), server_id=server)
        builder.add(T.QUERY, query_body(b"INSERT INTO t VALUES (1)", "shop"), server_id=7)
        builder.add(T.XID, bytes(8), server_id=7)
        builder.boundary()
    data = bytes(builder.data)
    for segment_size in (1, 1 << 16):
        got = Dumped(data, [], OriginFilter(frozenset({7})), segment_size=segment_size, family="mariadb")
        assert got.stream == data[builder.boundaries[1] :]
        assert got.completed == [((0, 7), 7), ((0, 8), 8)]
        assert got.empty == [((0, 7), 7)]


def test_a_changed_origin_takes_over_with_the_filter() -> None:
    builder = _Builder(DIALECTS[0])
    for server in (7, 8, 7, 8):
        builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16), server_id=server)
        builder.add(T.QUERY, query_body(b"CREATE TABLE t (a INT)", "shop"), server_id=server)
        builder.boundary()
    made = MadeBinlog(DIALECTS[0], bytes(builder.data), builder.boundaries, [])
    file = MemoryFile(made.data)
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(of_rules([], "mysql"), subjects)
    thread = DumpThread(flags, sources, origin=OriginFilter(frozenset({7})))
    thread.start_file(file.first_event, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=1)
    sent = b""
    while (segment := reader.next()) is not None:
        for plan in thread.plan(segment):
            sent += render(plan, memoryview(reader.data), reader.data_offset, file.read, made.fd)
        if thread.position == builder.boundaries[2]:
            thread = thread.fork(exclusion=Exclusion(sources, None, OriginFilter(own_server_id=8)))
    servers = [event.header.server_id for event in reference.events_of(made.fd, sent)]
    assert servers == [8, 8, 7, 7]
