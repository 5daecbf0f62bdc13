"""A connection that goes silent without an end, as if a cable were unplugged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import grpc
import pytest

from dumpfilter.master import grpc_port
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc
from tests.master.client import TINY, Client
from tests.support import DATA

SHORT = {
    "grpc.keepalive_time_ms": 1000,
    "grpc.keepalive_timeout_ms": 1000,
    "grpc.http2.ping_timeout_ms": 1000,
}
"""Options with the names of the server's own, and shorter times."""


class Line:
    """A proxy for one connection, which can stop to carry bytes."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._to = port
        self._ends: list[socket.socket] = []
        self._is_silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            master = socket.create_connection(("127.0.0.1", self._to))
            self._ends = [client, master]
            for one, other in ((client, master), (master, client)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if not self._is_silent:
                    other.sendall(data)

    def silence(self) -> None:
        """Carry nothing more. Both ends stay open."""
        self._is_silent = True

    def close(self) -> None:
        self._listener.close()
        for end in self._ends:
            end.close()


@pytest.fixture
def quick_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MasterServer]:
    """Serve with short times in place of the server's own."""
    names = {name for name, _ in grpc_port.OPTIONS}
    assert set(SHORT) <= names
    monkeypatch.setattr(
        grpc_port, "OPTIONS", [(name, SHORT.get(name, value)) for name, value in grpc_port.OPTIONS]
    )
    server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-row"), limits=TINY)
    server.start()
    yield server
    server.stop(0)


def test_a_slave_that_went_silent_gives_up_its_dump(
    quick_server: MasterServer, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    line = Line(quick_server.port)
    client = Client(quick_server)
    client.channel.close()
    channel = grpc.insecure_channel(f"127.0.0.1:{line.port}")
    client.stub = pb_grpc.DumpFilterStub(channel)
    stream = client.dump(client.register().slave_id, once=False)
    while (chunk := next(stream)).file != "bin.000003":
        assert isinstance(chunk, pb.Chunk)
    (slave,) = quick_server.service.register.all()
    assert slave.dump
    line.silence()
    wait_for(lambda: not slave.dump)
    channel.close()
    line.close()
