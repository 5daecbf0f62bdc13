"""The slow tests beside :mod:`tests.analyse.traffic.test_tally`."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.analyse.traffic.facts import merge
from dumpfilter.binlog.format import NameRules
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.packets.stand_ins import StandIns
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.segment import NONE_PREPARED
from tests.analyse.traffic.test_tally import (
    NO_STAND_INS,
    ROWS,
    Both,
    Figures,
    _begin,
    _end,
    check,
    check_sums,
)
from tests.dump.test_law import EFFECTIVE_RULES, of_rules
from tests.dump.test_origin import from_servers, origins
from tests.oracle.recordings import Recording, all_recordings
from tests.strategies import (
    DATABASES,
    DIALECTS,
    EXPENSIVE,
    MadeBinlog,
    T,
    _Builder,
    binlogs,
    query_body,
    rules,
    table_map_body,
)
from tests.support import RECORDED_SETS, MemoryFile, binlogs_in, recording_id

SEGMENT_SIZES = st.integers(1, 1200) | st.just(1 << 16)


@EXPENSIVE
@given(
    made=binlogs(unreadable=True),
    each_rules=st.lists(rules() | EFFECTIVE_RULES, min_size=1, max_size=5),
    segment_size=SEGMENT_SIZES,
    take=st.sampled_from([1, 3, 1 << 20]),
)
def test_sums_are_what_dumps_send(
    made: MadeBinlog, each_rules: list[list[Rule]], segment_size: int, take: int
) -> None:
    filters = [(of_rules(each, made.dialect.family), None) for each in each_rules]
    check(made.data, filters, segment_size=segment_size, take=take)


@EXPENSIVE
@given(
    made=from_servers(),
    each=st.lists(st.tuples(rules(), origins() | st.none()), min_size=1, max_size=4),
    segment_size=SEGMENT_SIZES,
)
def test_what_origins_keep_out_is_not_in_the_sums(
    made: MadeBinlog, each: list[tuple[list[Rule], OriginFilter | None]], segment_size: int
) -> None:
    filters = [(of_rules(given_rules, made.dialect.family), origin) for given_rules, origin in each]
    check(made.data, filters, segment_size=segment_size)


GENERAL = (
    [],
    ["--replicate-do-db=shop"],
    ["--replicate-ignore-db=d1"],
    ["--replicate-ignore-table=shop.orders"],
    ["--replicate-wild-do-table=%.%s"],
    ["--replicate-do-table=d1.t1", "--replicate-wild-do-table=mysql.%"],
    ["--replicate-wild-ignore-table=%a%.%", "--replicate-rewrite-db=shop->a"],
    ["--replicate-wild-ignore-table=%.t%", "--replicate-rewrite-db=d1->d2"],
)


RECORDINGS = {recording.path: recording for recording in all_recordings()}


def filters_of(recording: Recording) -> list[Filter]:
    """Return different filters of a recording's replicas, about ten."""
    replicas = [recording.replica(case) for case in recording.oracle["cases"]]
    different = {(tuple(replica.options), replica.lower_case_table_names) for replica in replicas}
    return [
        Filter.from_options(options, names=NameRules(recording.family, recording.names, lower))
        for options, lower in sorted(different)[:: max(1, len(different) // 10)]
    ]


@pytest.mark.parametrize("path", RECORDED_SETS, ids=recording_id)
def test_recordings(path: Path) -> None:
    """Tallies of recordings, with their replicas' filters or the general filters, agree with dumps."""
    binlogs = BinlogSet.open(binlogs_in(path))
    family = binlogs.file(binlogs.names[0]).format_description.family
    filters: Sequence[ReplicationFilter] = (
        filters_of(RECORDINGS[path])
        if path in RECORDINGS
        else [Filter.from_options(each, names=NameRules(family)) for each in GENERAL]
    )
    both = Both([(each, None) for each in filters])
    prepared = NONE_PREPARED
    for name in binlogs.names:
        with binlogs.file(name) as file:
            reader = both.file(file, segment_size=5000, prepared=prepared)
            prepared = reader.prepared
    found = both.check()
    size = sum(binlogs.path(name).stat().st_size for name in binlogs.names)
    heads = sum(file.first_event for file in map(binlogs.file, binlogs.names))
    assert found.bytes[found.sent(None)].sum() == size - heads


@settings(max_examples=25, deadline=None)
@given(
    parts=st.sampled_from(["mysql", "mariadb"]).flatmap(
        lambda family: st.lists(
            binlogs([one for one in DIALECTS if one.family == family]), min_size=2, max_size=3
        )
    ),
    each_rules=st.lists(rules(), min_size=1, max_size=3),
)
def test_what_several_found_can_be_added_up(parts: list[MadeBinlog], each_rules: list[list[Rule]]) -> None:
    """Tallies whose subjects have different numbers can be merged."""
    found, expected = [], [Counts() for _ in each_rules]
    stand_ins = [NO_STAND_INS for _ in each_rules]
    filters = [(Filter(each), None) for each in each_rules]
    for made in parts:
        both = Both(filters)
        both.file(MemoryFile(made.data))
        found.append(pickle.loads(pickle.dumps(both.check())))
        for total, counts in zip(expected, both.counts, strict=True):
            total.add(counts)
        stand_ins = [
            StandIns(a.number + b.number, a.nbytes + b.nbytes)
            for a, b in zip(stand_ins, both.stand_ins, strict=True)
        ]
    merged = merge(found)
    check_sums(both.sums(merged), list(map(Figures.of_counts, expected, stand_ins)), merged)
    assert both.sums(merge([merge(found[:1]), merge(found[1:])])) == both.sums(merged)
    keys = np.stack([merged.condition, merged.origin, merged.bucket])
    assert np.unique(keys, axis=1).shape == keys.shape
    conditions = merged.conditions
    members = np.split(conditions.member, conditions.start[1:-1])
    different = {
        (required, some.tobytes()) for required, some in zip(conditions.required, members, strict=True)
    }
    assert len(different) == len(conditions)


PIECES = st.one_of(
    st.tuples(st.just("map"), st.integers(0, 3)),
    st.tuples(st.just("map"), st.integers(0, 3)),
    st.tuples(st.just("rows"), st.integers(0, 4)),
    st.tuples(st.just("rows"), st.integers(0, 4)),
    st.tuples(st.just("end"), st.integers(0, 4)),
    st.tuples(st.just("statement"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["dummy", "context", "savepoint", "unknown"]), st.just(0)),
)
"""An event of a transaction, and the number of its database. Rows events of number 4 have no table map."""


def _add_piece(builder: _Builder, piece: str, number: int) -> None:
    database = DATABASES[number] if number < 4 else ""
    if piece == "map":
        builder.add(T.TABLE_MAP, table_map_body(number, database, "t"))
    elif piece in ("rows", "end"):
        builder.add(T.WRITE_ROWS, ROWS(number, ends=piece == "end"))
    elif piece == "dummy":
        builder.add(T.WRITE_ROWS, b"\xff" * 6 + b"\1\0\2\0")
    elif piece == "context":
        builder.add(T.ROWS_QUERY, b"\x10UPDATE something", flags=0x80)
    elif piece == "savepoint":
        builder.add(T.QUERY, query_body(b"SAVEPOINT `a`"))
    elif piece == "unknown":
        builder.add(200, b"??")
    else:
        builder.add(T.QUERY, query_body([b"FROBNICATE t", b"CREATE TABLE t (i INT)"][number % 2], database))


@EXPENSIVE
@given(
    transactions=st.lists(st.lists(PIECES, max_size=10), min_size=1, max_size=3),
    segment_size=st.sampled_from([1, 150, 1 << 16]),
)
def test_any_order_of_events(transactions: list[list[tuple[str, int]]], segment_size: int) -> None:
    """Tally and dump thread agree even about sequences of events that no server is known to write."""
    builder = _Builder(DIALECTS[0])
    for pieces in transactions:
        _begin(builder)
        for piece, number in pieces:
            _add_piece(builder, piece, number)
        _end(builder)
    options = [[f"--replicate-do-db={database}"] for database in DATABASES[:4]]
    options += [["--replicate-do-table=x.t"], [*options[0], *options[1]], ["--replicate-ignore-db=x"]]
    check(
        bytes(builder.data),
        [(Filter.from_options(each), None) for each in options],
        segment_size=segment_size,
    )
