"""The slow tests beside :mod:`tests.dump.test_with_tables_info`."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet
from tests.dump.test_with_tables_info import T, plain, queries, same_scan, with_tables_info
from tests.strategies import (
    MadeBinlog,
    binlogs,
)
from tests.support import RECORDED_SETS, binlogs_in, recording_id


def positions_are_right(data: bytes, source: bytes) -> None:
    """Check every end_log_pos, which must be 0 where the source has 0. iter_events verifies every checksum."""
    pairs = zip(
        iter_events(BytesIO(data), file="made"), iter_events(BytesIO(source), file="source"), strict=True
    )
    for event, before in pairs:
        if event.type != T.FORMAT_DESCRIPTION:
            place = event.offset + event.header.size if before.header.end_log_pos else 0
            assert event.header.end_log_pos == place


@pytest.mark.parametrize("folder", RECORDED_SETS, ids=recording_id)
def test_every_recording(folder: Path, tmp_path: Path) -> None:
    source = BinlogSet.open(binlogs_in(folder))
    counts = with_tables_info(source, tmp_path, "x")
    extended = sorted(tmp_path.glob("x.0*"))
    assert len(extended) == len(source.names)
    statements = 0
    for name, made in zip(source.names, extended, strict=True):
        data = source.path(name).read_bytes()
        assert list(plain(made.read_bytes())) == list(plain(data))
        same_scan(data, made.read_bytes())
        positions_are_right(made.read_bytes(), data)
        for before, after in zip(queries(data), queries(made.read_bytes()), strict=True):
            statements += 1
            assert after.tables_info is not None
            assert replace(after, tables_info=None) == before
    assert counts.queries == statements
    # Many statements of forms3 and forms4 do not tell their tables. Servers may read names of client-charsets
    # otherwise than Python.
    most = {"forms3": 5, "forms4": 2, "charsets": 2}.get(folder.name.rpartition("-")[2], 10)
    assert counts.untold <= statements // most


@given(made=binlogs())
def test_any_binlog(made: MadeBinlog, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("set")
    (directory / "made.000001").write_bytes(made.data)
    with_tables_info(BinlogSet.open(directory / "made.000001"), directory, "x")
    extended = (directory / "x.000001").read_bytes()
    assert list(plain(extended)) == list(plain(made.data))
    same_scan(made.data, extended)
    positions_are_right(extended, made.data)


def test_what_recorded_statements_name(tmp_path: Path) -> None:
    """The BEGIN before a row format CREATE … SELECT of MySQL names the new table. Its transaction ends with Xid."""
    (folder,) = (path for path in RECORDED_SETS if path.name == "mysql-row")
    with_tables_info(BinlogSet.open(folder), tmp_path, "x")
    told = [q for path in sorted(tmp_path.glob("x.0*")) for q in queries(path.read_bytes())]
    (at,) = (n for n, q in enumerate(told) if q.text.startswith("CREATE TABLE `t4`"))
    assert told[at - 1].text == "BEGIN"
    assert told[at - 1].tables_info == told[at].tables_info == (TableName(None, "t4"),)
    others = [q for n, q in enumerate(told) if q.text == "BEGIN" and n != at - 1]
    assert others
    assert all(q.tables_info == () for q in others)


FILTERED = RECORDED_SETS[::3]
RULES = [
    (RuleKind.DO_DB, "shop"),
    (RuleKind.IGNORE_TABLE, "shop.orders"),
    (RuleKind.WILD_DO_TABLE, "d1.%"),
]


@pytest.mark.parametrize(("number", "folder"), list(enumerate(FILTERED)), ids=map(recording_id, FILTERED))
def test_filtered_alike(number: int, folder: Path, tmp_path: Path) -> None:
    """The master sends the same events, whether the binlog has tables info or not.

    Every third recording has one of the rules, in turn. The recordings of other versions have the same transactions.
    """
    rule = RULES[number % len(RULES)]
    source = BinlogSet.open(binlogs_in(folder))
    with source.file(source.names[0]) as file:
        family = file.format_description.family
    rules = Filter((make_rule(*rule),), names=NameRules(family))
    with_tables_info(source, tmp_path / "extended", "x")
    filter_set(BinlogSet.open(tmp_path / "extended"), rules, tmp_path / "filtered", "x")
    filter_set(source, rules, tmp_path / "direct", "x")
    for path in sorted((tmp_path / "direct").glob("x.0*")):
        filtered = (tmp_path / "filtered" / path.name).read_bytes()
        assert list(plain(filtered)) == list(plain(path.read_bytes()))
