"""Record relay directories and requests of release 0.1.0, as it was at commit 4d55964.

The old program runs, not today's. From the repository:

    git worktree add /tmp/dumpfilter-0.1.0 4d55964
    PYTHONPATH=/tmp/dumpfilter-0.1.0 python tests/data/v1/make.py [SCENARIO]...

The script replaces the folders beside it, each of which ``README.md`` describes. UUIDs and times differ each time.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ORACLE = HERE.parent.parent / "oracle" / "data" / "oracle"
FILTER = ["--replicate-ignore-db=hr", "--replicate-rewrite-db=shop->store"]
MYSQL = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"

# Each scenario: the recording, how many of its files the master has, and the slave's options.
SCENARIOS: dict[str, dict[str, Any]] = {
    "stopped": {"recording": "mysql-row", "files": 1},
    "killed": {"recording": "mysql-row", "until": f"{MYSQL}:24", "chunk_size": 300, "die_inside": 40},
    "killed-mariadb": {"recording": "mariadb-row", "until": "0-11-24", "chunk_size": 300, "die_inside": 5},
    "killed-before-applying": {"recording": "mysql-row", "files": 1, "apply": False, "die": True},
    "auto-position": {"recording": "mysql-row", "files": 1, "auto_position": True, "until": f"{MYSQL}:24"},
    "unwanted-origin": {
        "recording": "mysql-row",
        "start_file": "bin.000002",
        "ignore_server_ids": [11],
        "filter_on": "SLAVE",
    },
    "imposed": {"recording": "mysql-row", "files": 1, "imposed": ["--replicate-ignore-table=shop.orders"]},
}


def old(module: str) -> Any:
    """Import a module of the old program."""
    return importlib.import_module(module)


def binlogs_of(scenario: dict[str, Any], directory: Path) -> Path:
    """Copy the recording, without the files that the master does not have yet."""
    source = ORACLE / scenario["recording"]
    names = [line for line in (source / "bin.index").read_text().splitlines() if line]
    kept = names[: scenario.get("files", len(names))]
    for name in kept:
        shutil.copy(source / Path(name).name, directory)
    (directory / "bin.index").write_text("".join(f"{name}\n" for name in kept))
    return directory / "bin.index"


def run_slave(scenario: dict[str, Any], address: str, directory: Path) -> None:
    """Run the old slave, in a process of its own."""
    channel_module, until = old("slave.channel"), old("slave.until")
    filters, targets = old("dumpfilter.filter"), old("slave.targets")
    origin = old("dumpfilter.filter.origin")
    seen = 0
    is_far, has_applied = threading.Event(), threading.Event()

    def on_chunk(chunk: Any) -> None:
        nonlocal seen
        seen += chunk.counts.transactions_read
        is_inside = bool(chunk.events) and not chunk.resume_bytes
        if is_inside and seen >= scenario.get("die_inside", 1 << 30):
            is_far.set()
            has_applied.wait(60)
            os.kill(os.getpid(), signal.SIGKILL)

    channel = channel_module.Channel(
        channel_module.ChannelOptions(
            source=old("slave.io_thread").SourceOptions(
                address=address,
                server_id=77,
                uuid="",
                chunk_size=scenario.get("chunk_size", 0),
                start_file=scenario.get("start_file", ""),
                auto_position=scenario.get("auto_position", False),
                heartbeat_period=0.1,
            ),
            relay_dir=directory,
            rules=filters.Filter.from_options(FILTER).rules,
            origin=origin.OriginFilter(frozenset(scenario.get("ignore_server_ids", []))),
            filter_on=channel_module.FilterOn(scenario.get("filter_on", "BOTH")),
            sync_relay_log=0,
        ),
        targets.SummaryTarget(),
        alone=True,
        on_chunk=on_chunk,
    )
    threads = channel_module.Threads
    channel.start(threads.IO)
    if "die_inside" in scenario:
        assert is_far.wait(30), "no chunk ended inside a transaction"
        # Meanwhile the ticker writes master.info.
        time.sleep(0.5)
    else:
        while not channel.received.heartbeats:
            time.sleep(0.05)
    if "until" in scenario:
        channel.start(threads.SQL, until=until.UntilGtids(scenario["until"], before=True))
        while channel.sql_worker.running:
            time.sleep(0.05)
    elif scenario.get("apply", True):
        channel.start(threads.SQL)
        while channel.relay_log_info.relay_position != channel.master_info.relay_position:
            time.sleep(0.05)
    has_applied.set()
    if "die_inside" in scenario:
        channel.join()
    if scenario.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if scenario.get("change"):
        kind = old("dumpfilter.filter.rules").FilterSemantics.CLASSIC
        channel.stop(threads.SQL)
        channel.change_filter(filters.Filter.from_options(["--replicate-do-db=logs"]).rules, kind)
    channel.stop()
    channel.close()


def record(name: str, scenario: dict[str, Any]) -> None:
    """Record the relay directory of a scenario."""
    filters = old("dumpfilter.filter")
    config = old("master.config").MasterConfig(
        imposed=(
            (old("master.imposed").ImposedFilter("policy", filters.Filter.from_options(scenario["imposed"])),)
            if "imposed" in scenario
            else ()
        )
    )
    with tempfile.TemporaryDirectory() as made:
        binlogs, directory = Path(made) / "binlogs", Path(made) / "slave"
        binlogs.mkdir()
        store = old("master.store").BinlogStore(binlogs_of(scenario, binlogs))
        server = old("master.server").MasterServer(store, config=config)
        server.start()
        address = f"127.0.0.1:{server.port}"
        order = [sys.executable, __file__, json.dumps(scenario), address, str(directory)]
        code = subprocess.run(order, check=False).returncode
        server.stop(0)
        assert code == (-signal.SIGKILL if "die_inside" in scenario or scenario.get("die") else 0), (
            name,
            code,
        )
        if not scenario.get("change"):
            shutil.rmtree(HERE / name, ignore_errors=True)
            shutil.copytree(directory, HERE / name, ignore=shutil.ignore_patterns("slave.lock"))


def record_requests() -> None:
    """Record the newest request of each kind that an old slave sends, when it also changes its filter."""
    service = old("master.service").DumpFilterService
    (HERE / "requests").mkdir(exist_ok=True)
    for call in ("Register", "ChangeFilter", "Unregister", "Dump"):
        method = getattr(service, call)

        def kept(self: Any, request: Any, context: Any, *, name: str = call, method: Any = method) -> Any:
            (HERE / "requests" / name).write_bytes(request.SerializeToString())
            return method(self, request, context)

        setattr(service, call, kept)
    record("requests", {"recording": "mysql-row", "change": True})


def main() -> None:
    for name in sys.argv[1:] or SCENARIOS:
        record(name, SCENARIOS[name])
    record_requests()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        run_slave(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    else:
        main()
