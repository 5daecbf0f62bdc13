"""`filter_set` writes files that have the events that the dump thread sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.binlog.workload import generate
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet


def _only(name: str) -> Filter:
    return Filter((make_rule(RuleKind.DO_DB, name),), names=NameRules("mysql", lower_case_table_names=0))


def _rows(index: Path) -> dict[str, list[int]]:
    """Return the sizes of the rows events by schema, in order. Check every end_log_pos and checksum."""
    found: dict[str, list[int]] = {}
    binlogs = BinlogSet.open(index)
    for name in binlogs.names:
        with open(binlogs.path(name), "rb") as file:
            tables, schema = {}, ""
            for event in iter_events(file, file=name):
                assert event.header.end_log_pos == event.offset + len(event.raw)
                if event.type == EventType.TABLE_MAP:
                    table = decode_table_map(event.body)
                    tables[table.table_id] = table.database
                elif event.type in ROWS:
                    schema = tables[int.from_bytes(event.body[:6], "little")]
                    found.setdefault(schema, []).append(len(event.raw))
                elif event.type == EventType.ROTATE:
                    assert bytes(event.body[8:]).decode() == binlogs.after(name)
    return found


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_keeps_one_schema(tmp_path: Path, style: Family) -> None:
    made = generate(tmp_path / "in", 600_000, style=style, file_size=250_000, schemas=4)
    counts = filter_set(BinlogSet.open(made.index), _only("shop_01"), tmp_path / "out", "kept")
    kept = _rows(tmp_path / "out" / "kept.index")
    assert kept == {"shop_01": _rows(made.index)["shop_01"]}
    assert 0 < counts.bytes_sent < counts.bytes_read / 2


def test_no_rules_keep_all(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 300_000, file_size=120_000)
    filter_set(BinlogSet.open(made.index), Filter(), tmp_path / "out", "bin")
    for path in made.files:
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_a_damaged_set_leaves_nothing(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 200_000)
    data = bytearray(made.files[0].read_bytes())
    data[150_000] ^= 1
    made.files[0].write_bytes(data)
    with pytest.raises(BinlogCorrupt, match=r"bin\.000001: at \d+"):
        filter_set(BinlogSet.open(made.index), Filter(), tmp_path / "out", "bin")
    assert list((tmp_path / "out").iterdir()) == []
