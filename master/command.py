"""The master as a process."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from pathlib import Path

import structlog
from rich.console import Console

from dumpfilter.filter import Rule, WriteSemantics
from dumpfilter.filter.factory import make_write_filter
from master.server import MasterServer
from master.store import BinlogStore


def run_master(
    source: Path | list[Path],
    *,
    host: str,
    port: int,
    port_file: Path | None,
    verify: bool,
    cache_bytes: int,
    write_rules: tuple[Rule, ...] = (),
    write_semantics: WriteSemantics = WriteSemantics.SERVER,
    lower_case_table_names: int = 0,
) -> None:
    """Serve until SIGINT or SIGTERM, as though the binlog had been written with the ``write_rules``. Raises
    DumpfilterError when the set cannot be opened or the port not be had."""
    console = Console(stderr=True, highlight=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper("iso"),
            structlog.dev.ConsoleRenderer(colors=console.is_terminal),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # each binlog file stays open: as many as the system lets us have
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    store = BinlogStore(source, verify=verify, cache_bytes=cache_bytes)  # type: ignore[arg-type]
    write_filter = make_write_filter(
        write_semantics,
        write_rules,
        lower_case_table_names=lower_case_table_names,
        family=store.family,
    )
    server = MasterServer(store, host=host, port=port, write_filter=write_filter)
    server.start()
    names = store.binlogs.names
    console.print(
        f"serving {names[0]} to {names[-1]} ({len(names)} files, {store.format_description.server_version}) "
        f"on {host}:{server.port}"
    )
    if write_filter.is_on:
        console.print("as though written with " + " ".join(map(str, write_filter.rules)))
    if port_file is not None:
        beside = port_file.with_name(port_file.name + ".tmp")
        beside.write_text(f"{server.port}\n")
        os.replace(beside, port_file)
    while not stop.wait(1.0):
        pass
    console.print("stopping")
    server.stop()
