"""A master as a service: its whole configuration in a my.cnf, what it tells systemd, and no port without need."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.receiver.fake_source import FakeSource, small_set


def heard(receiver: socket.socket, wanted: str) -> list[str]:
    """Return the messages up to one that begins with ``wanted``."""
    found = []
    while not (found and found[-1].startswith(wanted)):
        found.append(receiver.recv(4096).decode())
    return found


def listening_ports(process: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    inodes = set()
    for handle in Path(f"/proc/{process}/fd").iterdir():
        link = os.readlink(handle) if handle.is_symlink() else ""
        inodes.update(re.findall(r"socket:\[(\d+)\]", link))
    rows = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def test_a_master_whose_options_are_in_a_file(tmp_path: Path) -> None:
    source = FakeSource(small_set())
    config = tmp_path / "master.toml"
    config.write_text('[[replica]]\nuser = "repl"\npassword = "secret"\nrules = []\n')
    config.chmod(0o600)
    options = tmp_path / "my.cnf"
    options.write_text(
        f"[dumpfilter-master]\nsource = {source.url}\nstore = {tmp_path}/store\nstate-dir = {tmp_path}/state\n"
        f"config = {config}\nreplica-port = 0\nreplica-port-file = {tmp_path}/port\nconsole-port = 0\n"
        "store-expire = 14d\nstore-max-size = 100G\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")
        receiver.settimeout(120)
        address = "@" + receiver.getsockname()[1:].decode()
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"}
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dumpfilter", "master", f"--defaults-file={options}"],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            )
        try:
            assert heard(receiver, "READY=1") == ["READY=1"]
            replicas = int((tmp_path / "port").read_text())
            ports = listening_ports(process.pid)
            assert len(ports) == 2, "the console and the port for replicas, and no port for slaves"
            assert replicas in ports
            assert set(heard(receiver, "WATCHDOG=1")) == {"WATCHDOG=1"}
            process.send_signal(signal.SIGHUP)
            told = [each for each in heard(receiver, "READY=1") if each != "WATCHDOG=1"]
            assert told[0].startswith("RELOADING=1\nMONOTONIC_USEC=")
            assert told[1:] == ["READY=1"]
            assert re.search(
                r"the configuration was read again.* replicas=1\b", (tmp_path / "log").read_text()
            )
        finally:
            process.send_signal(signal.SIGTERM)
            source.close()
        assert heard(receiver, "STOPPING=1")
        assert process.wait(120) == 0
