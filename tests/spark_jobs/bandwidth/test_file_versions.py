"""The versions of files by which a later run knows that a file has not changed."""

from __future__ import annotations

import os
from pathlib import Path

from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.ranges import PROBE, version_of
from tests.spark_jobs.walking import RECORDINGS


def test_a_version_changes_with_the_size_the_time_and_both_ends(tmp_path: Path) -> None:
    source = BinlogSet.open(RECORDINGS["oracle/mysql-row"])
    path = tmp_path / source.names[0]
    data = source.path(source.names[0]).read_bytes()
    assert len(data) > 2 * PROBE
    seen = set()

    def see(data: bytes, seconds: int = 1_700_000_000) -> None:
        path.write_bytes(data)
        os.utime(path, (seconds, seconds))
        found = version_of(str(path))
        assert found is not None
        assert found == version_of(str(path))
        seen.add(found)

    see(data)
    see(data)
    assert len(seen) == 1
    see(data + b"x")
    see(data, 1_700_000_001)
    see(data[:400] + bytes([data[400] ^ 1]) + data[401:])
    see(data[:-1] + bytes([data[-1] ^ 1]))
    assert len(seen) == 5


def test_a_file_that_cannot_be_opened_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "bin.000002").write_bytes(b"no binlog")
    assert version_of(str(tmp_path / "bin.000001")) is None
    assert version_of(str(tmp_path / "bin.000002")) is None
