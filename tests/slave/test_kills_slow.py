"""A master and slaves are killed (SIGKILL) thirty times, and the slaves end as without the kills."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tests.slave.driven import wait_until
from tests.slave.growing import EndlessBinlog
from tests.slave.processes import Launcher
from tests.slave.schedules import FACTOR

KILLS = 30 * FACTOR
SEED = int(os.environ.get("KILL_SEED", "20261121"))
"""The seed of the victims and the moments. The environment variable sets another one."""

SLAVES = {"some": ["--replicate-do-db=shop"], "all": []}
"""The filter options of each slave."""

VICTIMS = ("some", "all", "all", "some", "master")


class Killings:
    """The kills so far. A kill is mid-stream if a slave had recorded a new position since the kill before."""

    def __init__(self, launcher: Launcher, binlogs: Path) -> None:
        self._launcher = launcher
        self._binlogs = binlogs
        self._random = random.Random(SEED)
        self.counted = {"slave": 0, "master": 0, "mid_stream": 0, "beyond_the_record": 0}

    def start_slave(self, name: str) -> None:
        chunk_size = str(self._random.choice([97, 400, 3000]))
        self._launcher.start_slave(name, *SLAVES[name], "--chunk-size", chunk_size)

    def kill_one(self) -> None:
        victim = self._random.choice(VICTIMS)
        watched = [victim] if victim in SLAVES else list(SLAVES)
        before = {name: self._launcher.master_info(name) for name in watched}

        def moved() -> bool:
            return any(self._launcher.master_info(name) != before[name] for name in watched)

        if self._random.random() < 0.85:  # the other kills hit a process that is starting
            wait_until(moved, lambda: "".join(map(self._launcher.log, ["master", *SLAVES])))
        # A moment between two states, which no test can observe from outside the process.
        time.sleep(self._random.random() * 0.05)
        self._launcher.kill(victim)
        self.counted["mid_stream"] += moved()
        if victim in SLAVES:
            self._after_slave(victim)
        else:
            self.counted["master"] += 1
            self._launcher.start_master(self._binlogs)

    def _after_slave(self, name: str) -> None:
        self.counted["slave"] += 1
        info = self._launcher.master_info(name)
        sizes = self._launcher.relay_log_sizes(name)
        self.counted["beyond_the_record"] += sizes.get(info.get("relay_file"), 0) > info["relay_offset"]
        self.start_slave(name)


def test_kills(launcher: Launcher, masters: Any, tmp_path: Path) -> None:
    """Relay logs end with the same events as without the kills, and so do summary, position and GTID set.

    The binlog grows until the last kill, so that no stream comes to its end before.
    """
    binlog = EndlessBinlog(tmp_path / "binlog", masters, file_size=1 << 20, seed=7)
    binlog.write(2000, torn=False)
    stop_growing = threading.Event()

    def grow() -> None:
        # The binlog must outgrow the slaves' saves of master.info, every 20 ms, and no more: slaves that were never
        # killed receive all of it again.
        while not stop_growing.wait(0.01):
            binlog.write(2, torn=True)

    killings = Killings(launcher, binlog.directory)
    writer = threading.Thread(target=grow)
    writer.start()
    try:
        launcher.start_master(binlog.directory)
        for name in SLAVES:
            killings.start_slave(name)
        for _ in range(KILLS):
            killings.kill_one()
    finally:
        stop_growing.set()
        writer.join()
    binlog.close()
    counted = killings.counted
    assert counted["slave"] + counted["master"] == KILLS
    assert counted["mid_stream"] >= 0.7 * KILLS, counted
    assert counted["master"] >= 3
    assert counted["beyond_the_record"] >= 1, counted
    expect_as_without_kills(launcher, binlog)
    names = [str(tmp_path / "some" / file) for file in launcher.relay_logs("some") if file[-1].isdigit()]
    run = subprocess.run(
        ["mariadb-binlog", "--verify-binlog-checksum", *names],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert run.returncode == 0
    assert b"ERROR" not in run.stderr


def expect_as_without_kills(launcher: Launcher, binlog: EndlessBinlog) -> None:
    """Let the slaves catch up, and compare them with slaves that were never killed."""
    for name, options in SLAVES.items():
        launcher.kill(name)
        launcher.start_slave(name, *options, "--once")
        launcher.start_slave(f"{name}-whole", *options, "--once")
    for name in [*SLAVES, *(f"{name}-whole" for name in SLAVES)]:
        assert launcher.wait(name) == 0, launcher.log(name)
    for name in SLAVES:
        whole, killed = launcher.relay_logs(f"{name}-whole"), launcher.relay_logs(name)
        assert list(killed) == list(whole)
        for file in whole:
            assert killed[file] == whole[file], file
        for key in ("summary", "position", "gtid_set", "retrieved_gtid_set"):
            assert launcher.report(name)[key] == launcher.report(f"{name}-whole")[key], key
        assert launcher.report(name)["gtid_set"].endswith(f":1-{binlog.transactions}")
        assert launcher.report(name)["position"]["file"] == binlog.files[-1].name
