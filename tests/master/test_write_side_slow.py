"""The write side's options of a master and a slave that are processes."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.master.test_write_side import RECORDING
from tests.slave.processes import Launcher


def test_as_a_process(launcher: Launcher, tmp_path: Path) -> None:
    launcher.start_master(RECORDING, "--binlog-do-db=d1", "--binlog-ignore-db=d1")
    launcher.start_slave("slave", "--once")
    assert launcher.wait("slave") == 0, launcher.log("slave")
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    log = (tmp_path / "master.log").read_text()
    assert "as though written with --binlog-do-db=d1 --binlog-ignore-db=d1" in log
    relayed = b"".join(path.read_bytes() for path in (tmp_path / "slave").glob("relay-bin.0*"))
    assert b"\x02d1\x00\x01t\x00" in relayed  # a table map of d1.t
    assert b"\x02d2\x00\x01t\x00" not in relayed
