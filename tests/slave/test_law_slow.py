"""The law over all kinds of recordings and all cases of filters: master and slave filter to the same result."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dumpfilter.filter.rules import FilterOn
from tests.binlog_tools import complaints, local_load_directory
from tests.slave.once import AddressOf, start_slave

SERVERS = ("mysql", "mariadb")
KINDS = ("row", "mixed", "statement", "statement-kinds")
CASES = json.loads((Path(__file__).parents[1] / "oracle" / "data" / "oracle" / "cases.json").read_text())
PAIRS = [
    (f"{SERVERS[(number + turn) % 2]}-{kind}", case)
    for number, kind in enumerate(KINDS)
    for turn, case in enumerate(CASES)
]
"""Each kind of recording with each case, and each recording with half of the cases."""


def read_by_real_servers(directory: Path, folder: str) -> None:
    """Read the relay logs with the client programs of MariaDB and, where installed, of MySQL."""
    names = [p.name for p in sorted(directory.glob("relay-bin.0*"))]
    if folder != "mysql-mixed":  # MariaDB cannot read MySQL's compressed transactions
        with local_load_directory() as local_load:
            tool = ["mariadb-binlog", "--verify-binlog-checksum", local_load]
            run = subprocess.run(
                [*tool, *(directory / name for name in names)], capture_output=True, check=False
            )
        assert run.returncode == 0, run.stderr[-500:]
        assert b"ERROR" not in run.stderr
    if folder.startswith("mysql"):  # MariaDB's relay logs were read above
        assert complaints([directory / name for name in names], "mysql") == ""


@pytest.mark.parametrize(("folder", "case"), PAIRS)
def test_the_law(address_of: AddressOf, tmp_path: Path, folder: str, case: str) -> None:
    """A slave ends with the same summary, position and GTID set whether the master filters or the slave does."""
    address, options = address_of(folder), CASES[case]
    filtered = start_slave(address, tmp_path / "filtered", options, chunk_size=1000)
    full = start_slave(address, tmp_path / "full", options, filter_on=FilterOn.SLAVE)
    filtered.wait()
    full.wait()
    assert filtered.relay_log_info.target == full.relay_log_info.target
    for field in ("source_file", "source_position", "executed"):
        assert getattr(filtered.relay_log_info, field) == getattr(full.relay_log_info, field)
    assert filtered.master_info.retrieved == full.master_info.retrieved == full.relay_log_info.executed
    assert full.counters.received["events_dropped"] == 0
    assert filtered.counters.received["bytes_received"] <= full.counters.received["bytes_received"]
    read_by_real_servers(tmp_path / "filtered", folder)
