"""The progress bar of a slave that catches up with its master."""

from __future__ import annotations

import grpc
from rich.console import Console

from dumpfilter.commands.file_bar import FileBar, bytes_before
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_STATUS_SECONDS = 2.0
"""The longest time that the progress bar waits for the master's list of binlog files, seconds."""


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
