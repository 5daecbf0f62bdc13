"""The servers' own programs read relay logs."""

from __future__ import annotations

import subprocess

import pytest

from tests.binlog_tools import complaints, local_load_directory
from tests.slave.receiving import write_recording

FOLDERS = ["mysql-row", "mysql-mixed", "mysql-statement", "mariadb-row", "mariadb-mixed", "mariadb-statement"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_servers_own_reader_reads_it(tmp_path, masters, folder):
    files = masters.recorded(folder)
    log = write_recording(tmp_path, files)
    assert log.names == [f"relay-bin.{n:06d}" for n in range(1, len(files) + 1)]
    family = folder.partition("-")[0]
    assert complaints([tmp_path / name for name in log.names], family) == ""


@pytest.mark.parametrize(
    "folder", [f for f in FOLDERS if f != "mysql-mixed"]
)  # MariaDB cannot read MySQL's payloads
def test_mariadb_binlog_reads_both_families(tmp_path, masters, folder):
    log = write_recording(tmp_path, masters.recorded(folder))
    files = [str(tmp_path / name) for name in log.names]
    with local_load_directory() as local_load:
        run = subprocess.run(
            ["mariadb-binlog", "--verify-binlog-checksum", local_load, *files],
            capture_output=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr[-500:]
    assert b"ERROR" not in run.stderr
    assert b"Rotate to bin.000001  pos: 4" in run.stdout
