"""The generated binlogs are valid for MariaDB's own program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import generate


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_the_real_program_takes_it(tmp_path: Path, style: Family) -> None:
    made = generate(tmp_path, 200_000, style=style, file_size=100_000)
    for path in made.files:
        done = subprocess.run(
            ["mariadb-binlog", "--no-defaults", "--verify-binlog-checksum", "--verbose", str(path)],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert b"ERROR" not in done.stderr
