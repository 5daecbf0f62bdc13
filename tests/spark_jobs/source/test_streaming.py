"""The stream of a growing set has every event once, with any sizes, stops and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from dumpfilter.base.errors import BinlogMissing, OptionError, PositionError
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.binlog_source import BinlogStreamReader
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from tests.spark_jobs.growing import GrowingFiles
from tests.spark_jobs.plain_events import events_of
from tests.support import DATA

SETS = {name: sorted((DATA / "oracle" / name).glob("bin.0*")) for name in ("mysql-mixed", "mariadb-mixed")}
WANTED = {
    name: [
        (row["file"], row["position"], row["inner"])
        for path in files
        for row in events_of(path.read_bytes(), path.name)
    ]
    for name, files in SETS.items()
}


def reader_of(index: Path, **options: str) -> BinlogStreamReader:
    return BinlogStreamReader(SourceOptions.parse({"path": str(index), **options}), list(TYPES))


@settings(deadline=None, max_examples=15)
@given(
    name=st.sampled_from(sorted(SETS)),
    piece=st.integers(3000, 30_000),
    limit=st.none() | st.integers(100, 20_000),
    range_size=st.integers(500, 20_000),
    data=st.data(),
)
def test_every_event_comes_once(
    name: str,
    piece: int,
    limit: int | None,
    range_size: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    growing = GrowingFiles(tmp_path_factory.mktemp("set"), SETS[name])
    most = ReadAllAvailable() if limit is None else ReadMaxBytes(limit)
    found: list[tuple[Any, ...]] = []
    offset: Any = None

    def batch() -> bool:
        nonlocal offset
        # Each micro-batch has a new reader, as after a restart.
        reader = reader_of(growing.index, rangeSize=str(range_size))
        if offset is None:
            offset = reader.initialOffset()
        end = json.loads(json.dumps(reader.latestOffset(offset, most)))
        for part in reader.partitions(offset, end):
            for rows in reader.read(part):
                found.extend((row["file"], row["position"], row["inner"]) for row in rows.to_pylist())
        moved, offset = end != offset, end
        return moved

    for _ in growing.pieces(piece):
        if data.draw(st.booleans()):
            batch()
            assert found == WANTED[name][: len(found)]
    while batch():
        pass
    assert found == WANTED[name]


def whole(tmp_path: Path, name: str = "mysql-mixed") -> Path:
    growing = GrowingFiles(tmp_path, SETS[name])
    for _ in growing.pieces(1 << 20):
        pass
    return growing.index


def test_where_a_stream_begins(tmp_path: Path) -> None:
    index = whole(tmp_path)
    first, last = SETS["mysql-mixed"][0], SETS["mysql-mixed"][-1]
    assert reader_of(index).initialOffset() == {"file": first.name, "position": 4}
    latest = {"file": last.name, "position": last.stat().st_size}
    assert reader_of(index, startingPosition="latest").initialOffset() == latest
    rows = events_of(first.read_bytes(), first.name)
    begins = sorted({row["transaction"] for row in rows} - {None})
    at = {"file": first.name, "position": begins[3]}
    reader = reader_of(index, startingPosition=f"{first.name}:{begins[3]}")
    assert reader.initialOffset() == at
    for position in (begins[3] + 1, begins[3] + 73):
        with pytest.raises(PositionError, match=f"{first.name}: at {position}: no transaction begins here"):
            reader_of(index, startingPosition=f"{first.name}:{position}").initialOffset()
    with pytest.raises(PositionError, match=f"{first.name}: at {1 << 30}: no transaction begins here"):
        reader_of(index, startingPosition=f"{first.name}:{1 << 30}").initialOffset()
    with pytest.raises(
        BinlogMissing, match=f"startingPosition: the set has only {first.name} to {last.name}"
    ):
        reader_of(index, startingPosition="other.000001:4").initialOffset()
    with pytest.raises(OptionError):
        reader_of(index, startingPosition="bin.000001").initialOffset()
    with pytest.raises(OptionError, match="is none of earliest, latest, file:position"):
        reader_of(index, startingPosition=f"{first.name}:{'9' * 5000}").initialOffset()


def test_a_file_that_is_purged_before_it_was_read_is_an_error(tmp_path: Path) -> None:
    index = whole(tmp_path)
    first, second = (path.name for path in SETS["mysql-mixed"][:2])
    reader = reader_of(index)
    start = reader.initialOffset()
    index.write_text(f"./{second}\n")
    (tmp_path / first).unlink()
    with pytest.raises(BinlogMissing, match=rf"{first}: at 4: .* the file was purged before it was read"):
        reader.latestOffset(start, ReadAllAvailable())
    # A file that was written anew under an old name is an error, too.
    (tmp_path / second).write_bytes((tmp_path / second).read_bytes()[:300])
    with pytest.raises(PositionError, match="another file of this name"):
        reader.latestOffset({"file": second, "position": 301}, ReadAllAvailable())


def test_a_run_over_what_is_available_ends(tmp_path: Path) -> None:
    growing = GrowingFiles(tmp_path, SETS["mariadb-mixed"])
    pieces = growing.pieces(2000)
    for _ in range(4):
        next(pieces)
    reader = reader_of(growing.index)
    reader.prepareForTriggerAvailableNow()
    until = reader_of(growing.index, startingPosition="latest").initialOffset()
    for _ in pieces:
        pass
    offset: Any = reader.initialOffset()
    steps = 0
    while (end := reader.latestOffset(offset, ReadMaxBytes(1500))) != offset:
        offset = end
        steps += 1
    assert offset == until
    assert steps > 2


def test_a_batch_ends_before_a_file_whose_first_transaction_is_too_large(tmp_path: Path) -> None:
    made = generate(tmp_path, 60_000, file_size=30_000, schemas=1, tables=1, seed=1)
    first, second = BinlogSet.open(made.index).names[:2]
    size = made.index.with_name(first).stat().st_size
    reader = reader_of(made.index)
    start: Any = reader.initialOffset()
    # The rest of the limit has room for the first event of the second file only.
    end: Any = reader.latestOffset(start, ReadMaxBytes(size + 150))
    assert end == {"file": first, "position": size}
    # A batch has one transaction at least.
    assert reader.latestOffset(end, ReadMaxBytes(150))["file"] == second
