"""The six lines of docs/tls.md set up TLS and a user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.forked import forked_commands
from tests.docs.tutorial import ROOT
from tests.slave.driven import wait_until
from tests.support import DATA

_TIMEOUT = 120


def six_lines() -> list[str]:
    """Return the lines of the page's first block, for this machine and for ports that are free."""
    text = (ROOT / "docs" / "tls.md").read_text().split("```\n")[1]
    for there, here in (
        ("db1.example", "localhost"),
        ("/var/lib/mysql/binlog.index", str(DATA / "oracle" / "mysql-row" / "bin.index")),
        ("\ndumpfilter", "\nexec dumpfilter"),
    ):
        assert there in text
        text = text.replace(there, here)
    return text.splitlines()


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Return the variables of a shell that has the command ``dumpfilter``."""
    with forked_commands(os.environ) as found:
        yield found


def test_six_lines(tmp_path: Path, environment: dict[str, str]) -> None:
    *preparations, master_line, slave_line = six_lines()
    assert len(preparations) == 4
    for line in preparations:
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True, timeout=_TIMEOUT, capture_output=True)
    port = tmp_path / "port"
    with (tmp_path / "log").open("wb") as log:
        master = subprocess.Popen(
            ["bash", "-c", f"{master_line} --port 0 --port-file port"],
            cwd=tmp_path,
            env=environment,
            stderr=log,
        )
    try:
        wait_until(port.exists, (tmp_path / "log").read_text)
        slave_line = slave_line.replace(":3307", f":{port.read_text().strip()}")

        def run(line: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["bash", "-c", f"{line} --once --summary json"],
                cwd=tmp_path,
                env=environment,
                timeout=_TIMEOUT,
                capture_output=True,
                text=True,
            )

        done = run(slave_line)
        assert done.returncode == 0, done.stderr
        assert ":1-74" in done.stdout
        assert "Access denied" in run(slave_line.replace("--source-user repl", "--source-user other")).stderr
        assert "speaks TLS alone" in run(slave_line.replace("--source-ssl-ca ca.pem", "")).stderr
    finally:
        master.terminate()
        assert master.wait(_TIMEOUT) == 0
