"""The distance between a dump and the end of a binlog set that is rotated and purged."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.lag import BinlogEnd
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"
NOW = 2_000_000_000.0


def first_gtid(path: Path) -> tuple[int, int]:
    """Return position and time of a file's first transaction."""
    with path.open("rb") as file:
        return next(
            (event.offset, event.header.timestamp)
            for event in iter_events(file, file=str(path))
            if event.type == EventType.GTID
        )


def test_bytes_count_the_later_files() -> None:
    binlogs = BinlogSet.open(ROW)
    end = BinlogEnd(binlogs.paths, NOW)
    sizes = {name: binlogs.size(name) for name in binlogs.names}
    first, second, third = binlogs.names
    assert (end.files, end.bytes) == (3, sum(sizes.values()))
    assert end.lag_bytes((third, sizes[third])) == 0
    assert end.lag_bytes((second, 100)) == sizes[second] - 100 + sizes[third]
    assert end.lag_bytes((first, 4)) == sum(sizes.values()) - 4
    assert end.lag_bytes(("purged.000001", 4)) is None
    assert end.lag_bytes((third, sizes[third] + 10)) == 0


def test_seconds_are_those_of_the_first_transaction_that_is_missing() -> None:
    binlogs = BinlogSet.open(ROW)
    end = BinlogEnd(binlogs.paths, NOW)
    first, second, third = binlogs.names
    _, begun = first_gtid(binlogs.path(first))
    assert end.lag_seconds((first, 4)) == NOW - begun
    position, begun = first_gtid(binlogs.path(second))
    assert end.lag_seconds((second, position)) == NOW - begun
    # A dump at the end of a file has yet to send the next file.
    assert end.lag_seconds((first, binlogs.size(first))) == NOW - begun
    # The last file has no transaction yet.
    assert end.lag_seconds((second, binlogs.size(second))) == 0
    assert end.lag_seconds((third, 4)) == 0
    assert end.lag_seconds(("purged.000001", 4)) is None


def test_a_clock_that_is_behind_the_servers() -> None:
    binlogs = BinlogSet.open(ROW)
    assert BinlogEnd(binlogs.paths, 1.0).lag_seconds((binlogs.names[0], 4)) == 0


def test_a_file_that_the_index_names_and_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "bin.000001").write_bytes((ROW / "bin.000001").read_bytes())
    (tmp_path / "bin.000002").write_bytes((ROW / "bin.000002").read_bytes())
    (tmp_path / "bin.index").write_text("./bin.000001\n./bin.000002\n")
    binlogs = BinlogSet.open(tmp_path)
    (tmp_path / "bin.000002").unlink()
    end = BinlogEnd(binlogs.paths, NOW)
    size = binlogs.size("bin.000001")
    assert end.lag_bytes(("bin.000002", 500)) == 0
    assert end.bytes == size
    end = BinlogEnd(binlogs.paths, NOW)
    (tmp_path / "bin.000001").unlink()
    assert end.lag_seconds(("bin.000001", 4)) is None


def test_slaves_at_one_place_share_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    from dumpfilter.binlog import reader

    real = reader.open_regular
    monkeypatch.setattr(reader, "open_regular", lambda path: looks.append(path) or real(path))
    binlogs = BinlogSet.open(ROW)
    end = BinlogEnd(binlogs.paths, NOW)
    assert len({end.lag_seconds((binlogs.names[0], 4)) for _ in range(5000)}) == 1
    assert len(looks) == 1
