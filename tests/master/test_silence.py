"""A connection that goes silent without an end, as if a cable were unplugged."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import grpc
import pytest

from dumpfilter.master.server import MasterServer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc
from tests.master.client import Client


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
def line(server: MasterServer) -> Iterator[Line]:
    line = Line(server.port)
    yield line
    line.close()


@pytest.fixture
def client(server: MasterServer, line: Line) -> Iterator[Client]:
    """Return a client whose connection goes through the line."""
    client = Client(server)
    client.channel.close()
    client.channel = grpc.insecure_channel(f"127.0.0.1:{line.port}")
    client.stub = pb_grpc.DumpFilterStub(client.channel)
    yield client
    client.channel.close()


def test_a_dump_lasts_as_long_as_its_slave_gives_signs_of_life(
    server: MasterServer, line: Line, client: Client, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    net_timeout = 4.0
    slave_id = client.register().slave_id
    # The first dump of a process may compile kernels, during which nothing else runs.
    list(client.dump(slave_id))
    stream = client.dump(slave_id, once=False, net_timeout_ms=int(1000 * net_timeout))
    begun = time.monotonic()
    next(stream)
    slave = server.service.register.get(slave_id)
    while time.monotonic() < begun + 1.5 * net_timeout:
        client.stub.Alive(pb.AliveRequest(slave_id=slave.slave_id))
        assert slave.dump
        time.sleep(0.05)
    line.silence()
    wait_for(lambda: not slave.dump)
    wait_for(lambda: not server._port._watches)
