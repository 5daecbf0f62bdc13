"""A chain: the relay log of a slave is filtered once more, by a master that serves the relay log to other slaves."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.traffic.facts import flags_of
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.format import FormatDescription, NameRules
from dumpfilter.binlog.gap_events import Gap, is_gap_event, make_gap
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule
from tests.analyse.traffic.test_tally import check
from tests.dump.stream.test_gaps import relayed
from tests.dump.test_law import Dumped, dump, of_rules
from tests.gaps import with_gap_events
from tests.strategies import DIALECTS, EXPENSIVE, MadeBinlog, T, _Builder, binlogs, query_body, rules
from tests.support import segments

SETTINGS = {
    "chunk_size": st.sampled_from([1, 100, 500, 1 << 18]),
    "segment_size": st.integers(1, 1500),
}


def without_gaps(data: bytes, fd: FormatDescription) -> bytes:
    """Return a binlog file without its Gap events."""
    at, parts = len(MAGIC), [data[: len(MAGIC)]]
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if not is_gap_event(data[at + 4], data[at + 19 : at + size]):
            parts.append(data[at : at + size])
        at += size
    return b"".join(parts)


def gtids(dumped: Dumped) -> set[tuple[object, int]]:
    return set(dumped.completed)


@given(made=binlogs(odd=False), first=rules(), second=rules(), **SETTINGS)
def test_a_chain_has_all_gtids(
    made: MadeBinlog,
    first: list[Rule],
    second: list[Rule],
    chunk_size: int,
    segment_size: int,
) -> None:
    """The second slave gets the events that pass both filters, and the GTIDs of all transactions."""
    above = dump(made.data, first, chunk_size=chunk_size)
    relay = relayed(above, made.fd)
    below = dump(relay, second, chunk_size=chunk_size, segment_size=segment_size)
    assert gtids(below) == gtids(above) == set(made.gtids)
    assert len(below.completed) == len(set(below.completed))
    plain = dump(without_gaps(relay, made.fd), second, chunk_size=chunk_size, segment_size=segment_size)
    assert below.stream == plain.stream
    told = {
        (source, number)
        for plan in below.plans
        for source, a, b in plan.gaps.runs.tolist()
        for number in range(a, b + 1)
    }
    assert told == {
        (source, n)
        for plan in below.plans
        for source, a, b in plan.gaps.runs.tolist()
        for n in range(a, b + 1)
    }
    assert set(plain.empty) <= set(below.empty)
    assert below.counts.transactions_read == plain.counts.transactions_read
    assert below.counts.transactions_dropped == plain.counts.transactions_dropped
    assert below.counts.events_undecided == plain.counts.events_undecided
    of_plain: Counter[object] = Counter()
    of_below: Counter[object] = Counter()
    for plan in plain.plans:
        of_plain.update(plan.hits)
    for plan in below.plans:
        of_below.update(plan.hits)
    assert of_below == of_plain


@given(made=binlogs(unreadable=True), given_rules=rules(), data=st.data(), **SETTINGS)
def test_no_slave_gets_a_gap_event(
    made: MadeBinlog, given_rules: list[Rule], data: st.DataObject, chunk_size: int, segment_size: int
) -> None:
    relay = with_gap_events(made, data.draw)
    for chosen in ([], given_rules):
        with_gaps = dump(relay, chosen, chunk_size=chunk_size, segment_size=segment_size)
        plain = dump(made.data, chosen)
        assert with_gaps.stream == plain.stream
        assert with_gaps.counts.events_undecided == plain.counts.events_undecided
        assert with_gaps.counts.bytes_read == len(relay) - made.first_event


@given(made=binlogs(odd=False), given_rules=rules(), have=st.sets(st.integers(0, 20)), **SETTINGS)
def test_a_slave_has_some_of_the_dropped_transactions(
    made: MadeBinlog, given_rules: list[Rule], have: set[int], chunk_size: int, segment_size: int
) -> None:
    family = made.dialect.family
    executed = empty_set(family)
    for n, (source, number) in enumerate(made.gtids):
        if n in have:
            executed.add_range(source, number, number)  # type: ignore[arg-type]
    relay = relayed(dump(made.data, given_rules, chunk_size=chunk_size), made.fd)
    below = dump(relay, [], chunk_size=chunk_size, segment_size=segment_size, exclude=executed)
    wanted = {
        (source, number)
        for source, number in made.gtids
        if not executed.contains(source, np.array([number]))[0]  # type: ignore[arg-type]
    }
    assert gtids(below) == wanted


@EXPENSIVE
@given(made=binlogs(odd=False), given_rules=rules(), data=st.data(), segment_size=st.integers(1, 1500))
def test_a_tally_leaves_gap_events_out(
    made: MadeBinlog, given_rules: list[Rule], data: st.DataObject, segment_size: int
) -> None:
    filters = [(of_rules(chosen, made.dialect.family), None) for chosen in ([], given_rules)]
    check(with_gap_events(made, data.draw), filters, segment_size=segment_size)


def test_a_transaction_with_hits_inside_is_sent_without_them() -> None:
    dialect = next(d for d in DIALECTS if d.name == "mysql 9.7" and d.gtids == "mysql" and not d.checksum)
    builder = _Builder(dialect)
    hits = make_gap(Gap(hits={1: 5}), server_id=1, checksum=False)[19:]
    for number in (1, 2):
        builder.add(T.GTID, b"\1" + bytes(16) + number.to_bytes(8, "little"))
        builder.add(T.IGNORABLE, hits)
        builder.add(T.QUERY, query_body(b"DROP TABLE t"))
    dumped = dump(bytes(builder.data), [])
    assert len(dumped.completed) == 2
    types = [
        kind
        for (_, segment) in segments(MAGIC + dialect_fd(builder) + dumped.stream, 1 << 16)
        for kind in segment.type.tolist()
    ]
    assert types == [T.GTID, T.QUERY] * 2


def test_a_gap_event_between_dropped_transactions_does_not_part_their_stand_ins() -> None:
    dialect = next(d for d in DIALECTS if d.name == "mariadb 10.11" and not d.checksum)
    builder = _Builder(dialect)
    for number in (1, 2):
        builder.add(T.IGNORABLE, make_gap(Gap(), server_id=1, checksum=False)[19:])
        builder.add(T.MARIADB_GTID, number.to_bytes(8, "little") + bytes(4) + b"\1" + bytes(6))
        builder.add(T.QUERY, query_body(b"DROP TABLE t"))
    nothing = Filter.from_options(["--replicate-do-db=elsewhere"], names=NameRules("mariadb"))
    found = check(bytes(builder.data), [(nothing, None)])
    assert found.stand_ins_for(flags_of(nothing, found.subjects)).number == 1


def dialect_fd(builder: _Builder) -> bytes:
    size = int.from_bytes(builder.data[13:17], "little")
    return bytes(builder.data[4 : 4 + size])
