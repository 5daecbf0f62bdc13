"""MariaDB's own program reads a filtered set to its end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import generate
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_the_real_program_takes_it(tmp_path: Path, style: Family) -> None:
    made = generate(tmp_path / "in", 600_000, style=style, file_size=250_000, schemas=4)
    rules = Filter.from_options(["--replicate-do-db=shop_01"])
    filter_set(BinlogSet.open(made.index), rules, tmp_path / "out", "kept")
    files = sorted((tmp_path / "out").glob("kept.0*"))
    assert files
    for path in files:
        done = subprocess.run(
            ["mariadb-binlog", "--no-defaults", "--verify-binlog-checksum", str(path)], capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
