"""`filter_set` writes files that have the events that the dump thread sends."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogCorrupt, DirectoryBusy, OutputError
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import MAGIC, ROWS, EventType
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.binlog.workload import generate
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet
from tests.strategies import DIALECTS
from tests.support import RECORDED_SETS, binlogs_in, recording_id


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
    assert not (tmp_path / "out").exists()


def test_an_end_log_pos_of_0_stays_0(tmp_path: Path) -> None:
    """MariaDB 11.8 writes an end_log_pos of 0 for the inner events of a transaction."""
    events = [make_event(EventType.XID, bytes(8), end_log_pos=place) for place in (0, 9)]
    (tmp_path / "made.000001").write_bytes(MAGIC + DIALECTS[0].format_description() + b"".join(events))
    filter_set(BinlogSet.open(tmp_path / "made.000001"), Filter(), tmp_path / "out", "copy")
    with open(tmp_path / "out" / "copy.000001", "rb") as source:
        _, first, second = iter_events(source, file="copy.000001")
    assert first.header.end_log_pos == 0
    assert second.header.end_log_pos == second.offset + len(second.raw)


@pytest.mark.parametrize("folder", RECORDED_SETS, ids=recording_id)
def test_recordings_come_out_as_they_are(folder: Path, tmp_path: Path) -> None:
    source = BinlogSet.open(binlogs_in(folder))
    filter_set(source, Filter(), tmp_path, "copy")
    files = sorted(tmp_path.glob("copy.0*"))
    assert BinlogSet.open(tmp_path).names == [path.name for path in files]
    for name, path in zip(source.names, files, strict=True):
        data = bytearray(source.path(name).read_bytes())
        data[21] &= 0xFE
        made = path.read_bytes()
        *_, last = iter_events(BytesIO(data), file=name)
        if last.type == EventType.ROTATE:
            del data[last.offset :]
            *_, rotate = iter_events(BytesIO(made), file=path.name)
            assert decode_rotate(rotate.body) == (f"copy.{int(path.suffix[1:]) + 1:06}", 4)
            assert rotate.header[:3] == last.header[:3]
        assert made[: len(data)] == data


def test_a_set_is_complete_or_as_before(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 300_000, file_size=120_000)
    out = tmp_path / "out"
    seen = []

    def write(*, overwrite: bool = False) -> None:
        filter_set(
            BinlogSet.open(made.index), Filter(), out, "x", overwrite=overwrite, progress=lambda size: look()
        )

    def look() -> None:
        seen.append(sorted(path.name for path in out.iterdir()))
        if ".x.new" in seen[-1]:
            with pytest.raises(DirectoryBusy, match=f"process {os.getpid()} writes this set"):
                write(overwrite=True)

    write()
    assert seen[-1] == [".x.new"]
    look()
    whole = [*(path.name.replace("bin", "x") for path in made.files), "x.index"]
    assert seen[-1] == whole
    assert (out / "x.index").read_text() == "".join(f"./{name}\n" for name in whole[:-1])
    with pytest.raises(OutputError, match="there already"):
        write()
    write(overwrite=True)
    assert seen[-1] == [".x.new", *whole]


def test_files_without_an_index_are_not_replaced(tmp_path: Path) -> None:
    """The program mysqlbinlog --raw writes no index."""
    made = generate(tmp_path / "in", 10_000)
    (tmp_path / "x.000001").write_bytes(b"a backup")
    with pytest.raises(OutputError, match=r"x\.000001: it is there already"):
        filter_set(BinlogSet.open(made.index), Filter(), tmp_path, "x")
    assert (tmp_path / "x.000001").read_bytes() == b"a backup"
    filter_set(BinlogSet.open(made.index), Filter(), tmp_path, "x", overwrite=True)
    assert BinlogSet.open(tmp_path / "x.index").names == ["x.000001"]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_a_disk_that_says_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    calls = 0

    def refuse(function: object) -> object:
        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(28, "No space left on device")
            return function(*arguments)  # type: ignore[operator]

        return call

    made = generate(tmp_path / "in", 10_000)
    for name in ("fsync", "fdatasync", "replace"):
        monkeypatch.setattr(os, name, refuse(getattr(os, name)))
    with pytest.raises(OutputError, match="No space left"):
        filter_set(BinlogSet.open(made.index), Filter(), tmp_path / "out", "x")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 10_000)
    with pytest.raises(OutputError, match="cannot be made"):
        filter_set(BinlogSet.open(made.index), Filter(), made.index, "x")
