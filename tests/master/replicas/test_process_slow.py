"""A master process with a replication port: MariaDB's replica and mariadb-binlog read from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dumpfilter.base.security.passwords import native_hash
from tests.mariadb import MariaDb
from tests.master.replicas.serving import MARIADB, PASSWORD
from tests.support import binlogs_in

DEADLINE = 120


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def configuration(password: str) -> str:
    return (
        f'[[replica]]\nuser = "all"\npassword_hash = "{native_hash(password)}"\nrules = []\n'
        f'[[replica]]\nuser = "shop"\npassword_hash = "{native_hash(password)}"\n'
        'rules = ["--replicate-wild-do-table=shop.%"]\n'
    )


class Master:
    """A running master process. Any port that it has is in ``ports``."""

    def __init__(self, directory: Path, *options: object) -> None:
        self.config = directory / "master.toml"
        self.config.write_text(configuration(PASSWORD))
        self.log = directory / "master.log"
        note = directory / "replica-port"
        command = [sys.executable, "-m", "dumpfilter", "master", MARIADB / "bin.index", "--port", 0]
        command += ["--config", self.config, "--replica-port", 0, "--replica-port-file", note, *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*map(str, command)], stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        until(lambda: note.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        self.port = int(note.read_text())

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=DEADLINE) == 0
        assert "Traceback" not in self.log.read_text()


@pytest.fixture
def master(tmp_path: Path) -> Master:
    return Master(tmp_path)


def read_raw(port: int, directory: Path, *options: str) -> dict[str, bytes]:
    """Return the files that ``mariadb-binlog --raw`` writes."""
    directory.mkdir()
    command = ["mariadb-binlog", "--no-defaults", "--read-from-remote-server", "--host=127.0.0.1", "--raw"]
    command += [f"--port={port}", f"--password={PASSWORD}", f"--result-file={directory}/", "--to-last-log"]
    done = subprocess.run([*command, *options, "bin.000001"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_mariadb_binlog_writes_the_servers_files(tmp_path: Path, master: Master) -> None:
    expected = {path.name: path.read_bytes() for path in binlogs_in(MARIADB)}
    try:
        for number, options in enumerate(
            (
                ("--user=all",),
                ("--user=all", "--ssl", "--skip-ssl-verify-server-cert"),
            )
        ):
            found = read_raw(master.port, tmp_path / str(number), *options)
            # The file that the server was writing has LOG_EVENT_BINLOG_IN_USE_F, which a dump does not send.
            assert {name: data[22:] for name, data in found.items()} == {
                name: data[22:] for name, data in expected.items()
            }
        filtered = read_raw(master.port, tmp_path / "filtered", "--user=shop")
        assert sum(map(len, filtered.values())) < sum(map(len, expected.values()))
        text = subprocess.run(
            ["mariadb-binlog", "--no-defaults", *(str(tmp_path / "filtered" / name) for name in filtered)],
            capture_output=True,
            check=True,
        )
        assert b"CRC32" in text.stdout
    finally:
        master.close()


def test_a_mariadb_replica(tmp_path: Path, master: Master) -> None:
    source = json.loads((MARIADB / "oracle.json").read_text())
    (tmp_path / "server").mkdir()
    replica = MariaDb(tmp_path / "server", "--log-bin", "--gtid-strict-mode=ON", "--slave-parallel-threads=4")
    try:

        def status() -> dict[str, str]:
            shown = subprocess.run(
                [*replica.client, "-E", "-e", "SHOW SLAVE STATUS"], capture_output=True, text=True, check=True
            )
            lines = (line.partition(":") for line in shown.stdout.splitlines())
            return {name.strip(): value.strip() for name, _, value in lines}

        replica.sql(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={master.port}, MASTER_USER='shop', "
            f"MASTER_PASSWORD='{PASSWORD}', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos; "
            "SET GLOBAL slave_compressed_protocol=1; START SLAVE"
        )
        newest = binlogs_in(MARIADB)[-1]
        end = newest.name, str(newest.stat().st_size)
        until(lambda: (status()["Relay_Master_Log_File"], status()["Exec_Master_Log_Pos"]) == end)
        assert status()["Read_Master_Log_Pos"] == end[1]
        assert "bytes_compressed" not in master.log.read_text()
        assert replica.sql("SELECT @@gtid_slave_pos") == [[source["gtid"]]]
        databases = {name for (name,) in replica.sql("SHOW DATABASES")}
        assert "shop" in databases
        assert "logs" not in databases
        # Another password, and the replica can no longer connect.
        master.config.write_text(configuration("another"))
        master.process.send_signal(signal.SIGHUP)
        until(lambda: "Access denied" in status()["Last_IO_Error"])
        master.config.write_text(configuration(PASSWORD))
        master.process.send_signal(signal.SIGHUP)
        until(lambda: status()["Slave_IO_Running"] == "Yes")
        assert "bytes_compressed" in master.log.read_text()
        master.close()
        until(lambda: "reconnecting" in status()["Slave_IO_State"] or status()["Slave_IO_Running"] != "Yes")
        assert not status()["Last_SQL_Error"]
    finally:
        replica.close()
