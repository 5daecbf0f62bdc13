"""The servers' own programs pass over the Gap events and head events of relay logs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.reader import iter_events
from tests.binlog_tools import MYSQLBINLOG, local_load_directory
from tests.slave.driven import serving
from tests.slave.once import run_slave
from tests.slave.relayed import raw_events
from tests.support import DATA

OPTIONS = ["--replicate-wild-ignore-table=logs.%", "--replicate-ignore-db=hr"]

FOLDERS = {
    "oracle/mysql-row": True,
    "oracle/mysql-statement": True,
    "recordings/mysql56-mixed": False,
    "recordings/mysql57-row": True,
    "oracle/mariadb-row": True,
    "oracle/mariadb-statement": True,
    "oracle/mariadb-mixed": False,
}
"""Recordings that mariadb-binlog can read, and whether their events have checksums."""


def printed(command: list[str], files: list[Path]) -> tuple[list[str], bytes]:
    """Return the SQL that a program prints, without comments, and the program's messages."""
    with local_load_directory() as local_load:
        done = subprocess.run(
            [*command, "--verify-binlog-checksum", local_load, *map(str, files)],
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert b"End of log file" in done.stdout
        text = done.stdout.decode(errors="surrogateescape").replace(local_load, "")
    return [line for line in text.splitlines() if not line.startswith("#")], done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_sql_is_the_same_as_without_gap_events(tmp_path: Path, folder: str) -> None:
    with serving(DATA / folder) as master:
        run_slave(f"127.0.0.1:{master.port}", tmp_path / "s", OPTIONS, io_thread_only=True, chunk_size=300)
    relay_logs = sorted((tmp_path / "s").glob("relay-bin.0*"))
    types = []
    for path in relay_logs:
        with path.open("rb") as file:
            for event in iter_events(file, file=path.name):
                types.append(event.type)
                assert event.fd.checksum == FOLDERS[folder]
    assert types.count(EventType.IGNORABLE) > 2 * len(relay_logs)
    plain = []
    for path in relay_logs:
        plain.append(tmp_path / path.name)
        plain[-1].write_bytes(MAGIC + raw_events(path))
    commands = [["mariadb-binlog"]]
    if MYSQLBINLOG and "mysql" in folder:
        commands.append(MYSQLBINLOG)
    for command in commands:
        sql, messages = printed(command, relay_logs)
        assert len(sql) > 20
        # mariadb-binlog does not know some of MySQL's character sets.
        assert not messages or "mysql" in folder
        assert (sql, messages) == printed(command, plain)
