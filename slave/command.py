"""What ``dumpfilter slave`` does: a slave with a summary for its target, a progress bar, and a report."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import structlog
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from slave import durable
from slave.slave import Slave, SlaveOptions
from slave.targets import SummaryTarget


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
        self._task = self._bar.add_task("catching up", total=None)
        self._files: list[tuple[str, int]] = []

    def __enter__(self) -> CatchUpBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def on_connect(self, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        """Ask the master how much there is."""
        if self._bar.disable:
            return
        try:
            status = stub.Status(pb.StatusRequest(), timeout=2.0)
        except grpc.RpcError:
            return
        self._files = [(file.name, file.size) for file in status.files]
        self._bar.update(self._task, total=sum(size for _, size in self._files))

    def on_chunk(self, chunk: pb.Chunk) -> None:
        """Move the bar to where the chunk ends."""
        if self._bar.disable or chunk.heartbeat:
            return
        done = 0
        for name, size in self._files:
            if name == chunk.file:
                break
            done += size
        self._bar.update(self._task, completed=done + chunk.end_position, description=chunk.file)


def report(slave: Slave, target: SummaryTarget) -> dict[str, Any]:
    """What the slave has at its end, JSON-able."""
    master, relay, received = slave.master_info, slave.relay_log_info, slave.received
    return {
        "summary": target.state(),
        "position": {"file": relay.source_file, "position": relay.source_position},
        "gtid_set": relay.executed,
        "retrieved_position": {"file": master.source_file, "position": master.source_position},
        "retrieved_gtid_set": master.retrieved,
        "relay_log": {"file": relay.relay_file, "position": relay.relay_offset},
        "connections": received.connections,
        "chunks": received.chunks,
        "bytes_received": received.bytes_received,
        "counts": received.counts,
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
    )


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a slave as Ctrl-C does."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def run_slave(options: SlaveOptions, *, summary: str, summary_file: Path | None) -> None:
    """Run one slave until its end, Ctrl-C or SIGTERM, and print the report. Raises DumpfilterError."""
    signal.signal(signal.SIGTERM, _terminate)
    target = SummaryTarget()
    console = Console(stderr=True)
    with CatchUpBar(console) as bar:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper("iso"),
                structlog.dev.ConsoleRenderer(colors=console.is_terminal),
            ],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),  # while the bar runs, it prints above it
        )
        slave = Slave(options, target, on_chunk=bar.on_chunk, on_connect=bar.on_connect)
        slave.start()
        try:
            slave.wait()
        except KeyboardInterrupt:
            slave.stop()
            slave.wait()
    values = report(slave, target)
    if summary == "json":
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    elif summary == "table":
        text = target.table() + "\n" + _lines(values)
    else:
        return
    if summary_file is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        durable.replace(summary_file, text.encode(), synced=False)
