"""The reading of a server's binlog files by commands: progress bars, and the reception of a running server's binlog."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import TaskID

from dumpfilter.base.byte_bar import byte_bar
from dumpfilter.base.endings import INTERRUPT, TERMINATE, handling
from dumpfilter.base.printable import printable

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console

    from dumpfilter.receiver.reception import FollowOptions, Progress
    from dumpfilter.receiver.url import SourceUrl
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


def fetch(
    url: SourceUrl, directory: Path, sync: str, terminal: Console, options: FollowOptions | None = None
) -> None:
    """Receive a server's binlog into ``directory``, show the progress on ``terminal``, and print the position at which
    the stored binlog ends.

    ``url`` is the server's address, and ``options`` say whether to wait for new events and how often to retry. ``sync``
    is the value of a :class:`~dumpfilter.receiver.store.Sync`. SIGINT and SIGTERM stop the reception between two
    writes. With ``--stop-never`` that is the ordinary end. Otherwise the command exits with the signal's code. Raises
    DumpfilterError.
    """
    from dumpfilter.analyse.report.text import human_files
    from dumpfilter.receiver.reception import Follower, FollowOptions
    from dumpfilter.receiver.store import BinlogDirectory, Sync

    options = options or FollowOptions()
    signals: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        # A second signal has its usual effect.
        restore()
        signals.append(number)
        follower.stop()

    store = BinlogDirectory(directory, sync=Sync(sync))
    try:
        with FileBar(terminal) as bar:
            follower = Follower(url, store, options, on_progress=lambda: _show(follower.progress, bar))
            with handling(stop, INTERRUPT, TERMINATE) as restore:
                follower.run()
        names = store.names
    finally:
        store.close()
    progress = follower.progress
    where = f", to {printable(progress.file)} at {progress.position:,}" if progress.file else ""
    terminal.print(
        f"{human_files(len(names))} in {directory}{where} ({progress.bytes:,} bytes received)",
        markup=False,
        soft_wrap=True,
    )
    if signals and not options.stop_never:
        raise typer.Exit(128 + signals[0])


def _show(progress: Progress, bar: FileBar) -> None:
    """Move the bar to the end of the stored binlog. Without the sizes of the source's files the bar has no length."""
    if not bar.is_shown:
        return
    total = sum(size for _, size in progress.files) or None
    done = bytes_before(progress.files, progress.file) + progress.position if total else progress.bytes
    bar.show("", progress.file, done, total)
