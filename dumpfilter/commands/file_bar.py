"""The progress bars of commands that read a server's binlog files one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.progress import TaskID

from dumpfilter.base.byte_bar import byte_bar

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.v1 import dumpfilter_pb2 as pb
    from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_REDRAW_BYTES = 1 << 20
"""The number of bytes after which a bar is redrawn, since drawing takes time."""
_STATUS_SECONDS = 2.0
"""The longest time that the progress bar waits for the master's list of binlog files, seconds."""


class FileBar:
    """A progress bar for each replication channel, which shows the bytes read of the server's binlog.

    Nothing is shown when the output is not a terminal, or when ``shown`` is false.
    """

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self._bar = byte_bar(console, shown=shown, remaining=False)
        self._tasks: dict[str, tuple[TaskID, int]] = {}
        """The bar of each channel, and the number of bytes that it shows."""

    @property
    def is_shown(self) -> bool:
        """Whether the bars are visible."""
        return not self._bar.disable

    def __enter__(self) -> FileBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def show(self, channel: str, file: str, done: int, total: int | None) -> None:
        """Set the progress bar of ``channel`` to ``done`` of ``total`` bytes, with the name of the binlog file that
        is read.

        With ``total`` None the bar has no length.
        """
        task, before = self._tasks.get(channel, (None, -_REDRAW_BYTES))
        if self._bar.disable or done - before < _REDRAW_BYTES:
            return
        if task is None:
            task = self._bar.add_task("", total=None)
        self._tasks[channel] = task, done
        self._bar.update(task, description=f"{channel} {file}".strip(), completed=done, total=total)


class CatchUpBar(FileBar):
    """A progress bar for each replication channel of a slave that catches up with its masters. It shows how many bytes
    of the master's binlog have been read for the slave.
    """

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._files: dict[str, list[tuple[str, int]]] = {}
        """The names and sizes of the master's binlog files, for each replication channel."""

    def on_connect(self, channel: str, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        """Ask a newly connected master for the sizes of its binlog files. Their sum is the length of the channel's
        progress bar.

        ``stub`` is the gRPC client of the master. ``answer`` is the master's answer to the slave's registration. A
        master that does not answer within two seconds gets no bar.
        """
        if not self.is_shown:
            return
        import grpc

        from dumpfilter.v1 import dumpfilter_pb2 as pb

        try:
            status = stub.Status(pb.StatusRequest(slave_id=answer.slave_id), timeout=_STATUS_SECONDS)
        except grpc.RpcError:
            return
        self._files[channel] = [(file.name, file.size) for file in status.files]

    def on_chunk(self, channel: str, chunk: pb.Chunk) -> None:
        """Advance a channel's bar to the position in the master's binlog at which a received message (``chunk``)
        ends.
        """
        files = self._files.get(channel)
        if files is not None and not chunk.heartbeat:
            done = bytes_before(files, chunk.file) + chunk.end_position
            self.show(channel, chunk.file, done, sum(size for _, size in files))


def bytes_before(files: Iterable[tuple[str, int]], name: str) -> int:
    """Return the sum of the sizes of the binlog files before the file ``name``.

    ``files`` are the names and sizes of a server's binlog files.

    >>> bytes_before([("bin.999999", 10), ("bin.1000000", 20), ("bin.1000001", 30)], "bin.1000001")
    30
    """
    return sum(size for other, size in files if (len(other), other) < (len(name), name))
