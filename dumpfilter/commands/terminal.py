"""The progress bar of a slave."""

from __future__ import annotations

import grpc
from rich.console import Console
from rich.progress import TaskID

from dumpfilter.byte_bar import byte_bar
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_STATUS_SECONDS = 2.0
"""The longest time that the progress bar waits for the master's list of binlog files, seconds."""


class CatchUpBar:
    """A progress bar that shows how much of the master's binlog has been read for a slave.

    Nothing is shown when the output is not a terminal, or when ``shown`` is false.
    """

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self._bar = byte_bar(console, shown=shown, remaining=False)
        self._tasks: dict[str, TaskID] = {}
        self._files: dict[str, list[tuple[str, int]]] = {}
        """The names and sizes of the master's binlog files, for each replication channel."""

    def __enter__(self) -> CatchUpBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def on_connect(self, channel: str, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        """Ask the newly connected master for the sizes of its binlog files. Their sum is the length of the bar."""
        if self._bar.disable:
            return
        try:
            status = stub.Status(pb.StatusRequest(slave_id=answer.slave_id), timeout=_STATUS_SECONDS)
        except grpc.RpcError:
            return
        self._files[channel] = [(file.name, file.size) for file in status.files]
        if channel not in self._tasks:
            self._tasks[channel] = self._bar.add_task("catching up", total=None)
        self._bar.update(self._tasks[channel], total=sum(file.size for file in status.files))

    def on_chunk(self, channel: str, chunk: pb.Chunk) -> None:
        """Move the bar to the binlog position at which a received chunk (message with events) ends."""
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
