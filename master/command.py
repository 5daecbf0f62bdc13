"""The master as a process."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import structlog
from rich.console import Console

from dumpfilter.console.auth import DEFAULT_USER, check_users
from dumpfilter.console.server import ConsoleServer
from dumpfilter.filter import Rule, WriteSemantics
from dumpfilter.filter.factory import make_write_filter
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.printable import printable
from dumpfilter.security.tls import TlsFiles, load_tls, temporary_tls


def run_master(
    source: Path | list[Path],
    *,
    host: str,
    port: int,
    port_file: Path | None,
    config_file: Path | None = None,
    console_port: int | None = None,
    console_port_file: Path | None = None,
    console_user: str | None = None,
    console_password: str = "",
    tls_files: TlsFiles,
    verify: bool,
    cache_bytes: int,
    write_rules: tuple[Rule, ...] = (),
    write_semantics: WriteSemantics = WriteSemantics.SERVER,
    lower_case_table_names: int = 0,
    splits: Sequence[Path] = (),
) -> None:
    """Serve until SIGINT or SIGTERM, as though the binlog had been written with the ``write_rules``.

    Slaves are dumped to from ``splits`` of it (directories) where these have what they get.
    With a ``console_port`` (0: a free one) MySQL clients can connect to it, as the console users of ``config_file`` and
    as ``console_user``. Raises DumpfilterError when the set or the configuration cannot be used or a port not be had.
    """
    presplit = None
    if splits:
        from dumpfilter.master.presplit import Presplit

        presplit = Presplit(splits)
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
        names=store.names,
    )
    config = MasterConfig()
    if config_file is not None:
        config = load_config(
            config_file,
            family=store.family,
            lower_case_table_names=lower_case_table_names,
            names=store.names,
        )
    users = dict(config.console_users)
    if console_user is not None or not users:
        users[console_user or DEFAULT_USER] = console_password
    if console_port is not None:
        check_users(host, users)
    server = MasterServer(
        store, host=host, port=port, write_filter=write_filter, config=config, presplit=presplit
    )
    sql_console = None
    if console_port is not None:
        executor = MasterConsole(
            server.service, port=server.port, lower_case_table_names=lower_case_table_names
        )
        tls = load_tls(tls_files) if tls_files.has_certificate else temporary_tls(host, tls_files.ca)
        sql_console = ConsoleServer(executor, host, console_port, users, tls=tls).start()
    server.start()
    names = store.binlogs.names
    console.print(
        f"serving {names[0]} to {names[-1]} ({len(names)} files, {store.format_description.server_version}) "
        f"on {host}:{server.port}"
    )
    if write_filter.is_on:
        _say(console, "as though written with " + " ".join(map(str, write_filter.rules)))
    for line in presplit.describe() if presplit else ():
        _say(console, line)
    for one in config.imposed:
        _say(console, f"imposed: {one.name}: " + " ".join(map(str, one.filter.rules)))
    if sql_console is not None:
        console.print(f"console on {host}:{sql_console.port}")
        if console_port_file is not None:
            _write_port(console_port_file, sql_console.port)
    if port_file is not None:
        _write_port(port_file, server.port)
    while not stop.wait(1.0):
        pass
    console.print("stopping")
    if sql_console is not None:
        sql_console.stop()
    server.stop()


def _say(console: Console, text: str) -> None:
    """A line with names in it, which may look like markup, or be very many."""
    console.print(printable(text, 2000), markup=False)


def _write_port(path: Path, port: int) -> None:
    """In one step: who waits for the file finds the port in it."""
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(f"{port}\n")
    os.replace(beside, path)
