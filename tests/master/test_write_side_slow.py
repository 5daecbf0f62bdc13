"""The write side's options of a master and a slave that are processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.master.test_write_side import RECORDING


def test_as_a_process(tmp_path: Path) -> None:
    dumpfilter = [sys.executable, "-m", "dumpfilter"]
    master = subprocess.Popen(
        [
            *dumpfilter,
            *("master", RECORDING, "--port", "0", "--port-file", tmp_path / "port", "--binlog-do-db=d1"),
            "--binlog-ignore-db=d1",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (tmp_path / "port").exists():
            assert master.poll() is None
            time.sleep(0.02)
        port = (tmp_path / "port").read_text().strip()
        slave = subprocess.run(
            [
                *dumpfilter,
                *("slave", "--master", f"127.0.0.1:{port}", "--relay-dir", tmp_path / "slave"),
                *("--server-id", "7", "--once", "--summary", "json"),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            env=os.environ | {"COLUMNS": "120"},
        )
    finally:
        master.send_signal(signal.SIGTERM)
        _, said = master.communicate(timeout=240)
    assert slave.returncode == 0, slave.stderr
    assert "as though written with --binlog-do-db=d1 --binlog-ignore-db=d1" in said
    relayed = b"".join(path.read_bytes() for path in (tmp_path / "slave").glob("relay-bin.0*"))
    assert b"\x02d1\x00\x01t\x00" in relayed  # a table map of d1.t
    assert b"\x02d2\x00\x01t\x00" not in relayed
