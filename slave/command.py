"""What ``dumpfilter slave`` does: a slave with summaries for its targets, a progress bar, a console, and a report."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import structlog
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from dumpfilter.console.auth import check_users
from dumpfilter.console.server import ConsoleServer
from dumpfilter.errors import OptionError
from dumpfilter.filter.channels import (
    GROUP_REPLICATION_CHANNELS,
    ChannelFilters,
    fold_channel,
    is_channel_name,
)
from dumpfilter.security.tls import TlsFiles, load_tls
from dumpfilter.slave.certificate import kept_tls
from dumpfilter.slave.channel import Channel
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.slave import Configured, Slave, SlaveOptions, Watching
from dumpfilter.slave.state import durable
from dumpfilter.slave.state.source_info import SourceInfo
from dumpfilter.slave.status import imposed_rules
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("slave")


@dataclass(frozen=True)
class ConsoleOptions:
    """Where the console listens, and who may log in: passwords by user name."""

    host: str
    port: int
    port_file: Path | None
    users: Mapping[str, str]
    tls: TlsFiles


def masters_of(masters: Sequence[str], channel: str) -> list[tuple[str, str, int]]:
    """Channel, host and port of each ``--master``. Raises OptionError.

    >>> masters_of(["127.0.0.1:3307", "m2=[::1]:3308"], "")
    [('', '127.0.0.1', 3307), ('m2', '::1', 3308)]
    """
    found: list[tuple[str, str, int]] = []
    for master in masters:
        name, equals, address = master.rpartition("=")
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise OptionError(f"--master={master}: write [CHANNEL=]HOST:PORT")
        name = fold_channel(name if equals else channel)
        if name in GROUP_REPLICATION_CHANNELS or not is_channel_name(name):
            raise OptionError(f"--master={master}: no channel can have the name {name!r}")
        if any(name == other for other, _, _ in found):
            raise OptionError(
                f"--master={master}: there is another one for channel {name!r}; give each a name"
            )
        found.append((name, host.removeprefix("[").removesuffix("]"), int(port)))
    return found


class CatchUpBar:
    """A progress bar on standard error, where that is a terminal: the master's bytes read for this slave."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._files: dict[str, list[tuple[str, int]]] = {}

    def __enter__(self) -> CatchUpBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def on_connect(self, channel: str, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        """Ask the master how much there is."""
        if self._bar.disable:
            return
        try:
            status = stub.Status(pb.StatusRequest(), timeout=2.0)
        except grpc.RpcError:
            return
        self._files[channel] = [(file.name, file.size) for file in status.files]
        if channel not in self._tasks:
            self._tasks[channel] = self._bar.add_task("catching up", total=None)
        self._bar.update(self._tasks[channel], total=sum(file.size for file in status.files))

    def on_chunk(self, channel: str, chunk: pb.Chunk) -> None:
        """Move the bar to where the chunk ends."""
        if self._bar.disable or chunk.heartbeat or channel not in self._tasks:
            return
        done = 0
        for name, size in self._files[channel]:
            if name == chunk.file:
                break
            done += size
        self._bar.update(
            self._tasks[channel],
            completed=done + chunk.end_position,
            description=f"{channel} {chunk.file}".strip(),
        )


def report(channel: Channel) -> dict[str, Any]:
    """What a channel has at its end, JSON-able."""
    master, relay, received = channel.master_info, channel.relay_log_info, channel.received
    return {
        "summary": channel.target.state(),
        "position": {"file": relay.source_file, "position": relay.source_position},
        "gtid_set": relay.executed,
        "retrieved_position": {"file": master.source_file, "position": master.source_position},
        "retrieved_gtid_set": master.retrieved,
        "relay_log": {"file": relay.relay_file, "position": relay.relay_offset},
        "connections": received.connections,
        "chunks": received.chunks,
        "bytes_received": received.bytes_received,
        "counts": received.counts,
        "imposed": imposed_rules(channel),
    }


def _lines(values: dict[str, Any]) -> str:
    counts = values["counts"]
    position, retrieved = values["position"], values["retrieved_position"]
    return (
        f"position        {position['file']}:{position['position']}\n"
        f"retrieved       {retrieved['file']}:{retrieved['position']}\n"
        f"gtid_set        {values['gtid_set']}\n"
        f"bytes_received  {values['bytes_received']} of {counts['bytes_read']} read by the master "
        f"({counts['bytes_dropped']} dropped)\n"
        f"undecided       {counts['events_undecided']} of {counts['events_sent']} events sent "
        "(left to this slave's filter)\n"
        + (f"imposed         {' '.join(values['imposed'])}\n" if values["imposed"] else "")
    )


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a slave as Ctrl-C does."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


@contextmanager
def _console(slave: Slave, options: ConsoleOptions | None) -> Iterator[None]:
    """The console's port, as long as the block runs."""
    if options is None:
        yield
        return
    executor = SlaveConsole(slave)
    if options.tls.has_certificate:
        tls = load_tls(options.tls)
    else:
        tls = kept_tls(slave.options.relay_dir, options.host, options.tls.ca)
    server = ConsoleServer(executor, options.host, options.port, options.users, tls=tls)
    server.start()
    executor.port = server.port
    try:
        if options.port_file is not None:
            durable.replace(options.port_file, f"{server.port}\n".encode(), synced=False)
        yield
    finally:
        server.stop()


def run_slave(
    options: SlaveOptions,
    filters: ChannelFilters,
    sources: Sequence[SourceInfo],
    *,
    console: ConsoleOptions | None,
    start: bool,
    summary: str,
    summary_file: Path | None,
) -> None:
    """Run a slave until its end, Ctrl-C or SIGTERM, and print the report.

    ``sources`` are the channels that the command line names; those of an earlier run are there too. With a
    console the slave runs until it is told to end, unless dumps were asked for once. Raises DumpfilterError.
    """
    signal.signal(signal.SIGTERM, _terminate)
    if console is not None:
        check_users(console.host, console.users)
    elif not start:
        raise OptionError("--skip-replica-start: without --console-port nothing could ever start it")
    terminal = Console(stderr=True)
    with CatchUpBar(terminal) as bar:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper("iso"),
                structlog.dev.ConsoleRenderer(colors=terminal.is_terminal),
            ],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),  # while the bar runs, it prints above it
        )
        slave = Slave(options, filters, watching=Watching(bar.on_chunk, bar.on_connect))
        try:
            for source in sources:
                slave.prepare(source)
            for warning in slave.open():
                log.warning(warning)
            if console is None and not slave.channels:
                raise OptionError(
                    "there is no channel: give --master, or --console-port and configure one by statements"
                )
            with _console(slave, console):
                try:
                    if start:
                        slave.start()
                    if console is None or (options.once and start):
                        slave.wait()
                    else:
                        while True:  # until Ctrl-C or SIGTERM
                            time.sleep(1.0)
                except KeyboardInterrupt:
                    slave.stop()
            channels = slave.channels
        finally:
            slave.close()
    if slave.error is not None and (console is None or options.once):
        raise slave.error
    _print(channels, summary, summary_file)


def _print(channels: Sequence[Configured], summary: str, summary_file: Path | None) -> None:
    reports = {one.info.channel: report(one.channel) for one in channels}
    texts = {one.info.channel: one.channel.target.text() for one in channels}
    if summary == "json":
        # one channel's report as it is; of several, by name
        values = next(iter(reports.values())) if len(reports) == 1 else {"channels": reports}
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    elif summary == "table":
        text = ""
        for name, values in reports.items():
            heading = f"channel         {name or '(default)'}\n" if len(reports) > 1 else ""
            text += heading + texts[name] + "\n" + _lines(values)
    else:
        return
    if summary_file is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        durable.replace(summary_file, text.encode(), synced=False)
