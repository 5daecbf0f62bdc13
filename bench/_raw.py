"""Bare servers that do nothing but send: the floors for a master's gRPC service and for its relay of live commits.

Each server is a function for :class:`bench._processes.Child`, and tells its port first.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc

from bench._common import steadily
from bench._processes import Child, requests
from tests.certificates import Authority

FOLLOW = "/bench.Raw/Follow"
COPY = "/bench.Raw/Copy"

_XID = 16
_SETTLE_SECONDS = 0.5


async def grpc_server(pipe: Connection) -> None:
    """Run a bare ``grpc.aio`` server. Each request is a message for all followers."""
    data = os.urandom(1 << 20) * 8
    followers: list[asyncio.Queue[bytes]] = []

    async def follow(request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Yield a first message, and then the message of each commit."""
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        followers.append(messages)
        yield b"first"
        while True:
            yield await messages.get()

    async def copy(request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Yield bytes without a message around them. ``request`` is a text of the messages' sizes."""
        for size in map(int, request.split()):
            yield data[:size]

    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    methods = {"Follow": follow, "Copy": copy}
    handlers = {name: grpc.unary_stream_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Raw", handlers),))
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    async for (message,) in requests(pipe):
        for messages in followers:
            messages.put_nowait(message)
    await server.stop(0)


def relay_seconds(rate: int, seconds: float, readers: int) -> float:
    """Return the processor time that a bare relay of live transactions takes for each, seconds.

    One asyncio loop receives transactions of five events as packets, appends them to a file, and writes them to
    readers over TLS. Nothing is filtered, and nothing is checked.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        relay = stack.enter_context(Child(_relay))
        entry, exit_port = relay.answer()
        for _ in range(readers):
            plain = socket.create_connection(("127.0.0.1", exit_port))
            connection = stack.enter_context(context.wrap_socket(plain))
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()
        _send(entry, rate, seconds)
        return float(relay.answer())


def _drain(connection: ssl.SSLSocket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


def _send(port: int, rate: int, seconds: float) -> None:
    """Send transactions at a steady rate."""
    sizes = {33: 60, 2: 56, 19: 36, 30: 230, _XID: 12}
    events = [
        struct.pack("<IBIIIH", 0, kind, 1, 19 + size, 0, 0) + bytes(size) for kind, size in sizes.items()
    ]
    transaction = b"".join(
        struct.pack("<IB", (number << 24) + len(event) + 1, 0) + event for number, event in enumerate(events)
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in zip(range(int(rate * seconds)), steadily(rate), strict=False):
            connection.sendall(transaction)
        time.sleep(_SETTLE_SECONDS)


async def _relay(pipe: Connection) -> None:
    """Relay from a source to readers. Tell both ports, and at the source's end the time of a transaction, seconds."""
    ended: asyncio.Future[float] = asyncio.Future()
    sinks: list[Any] = []
    with tempfile.TemporaryDirectory() as directory, open(f"{directory}/log", "wb", buffering=0) as file:
        issued = Authority(Path(directory, "ca")).issue("localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)
        loop = asyncio.get_running_loop()
        entry = await loop.create_server(lambda: _Relay(file.fileno(), sinks, ended), "127.0.0.1", 0)
        exits = await asyncio.start_server(
            lambda _, writer: sinks.append(writer.transport), "127.0.0.1", 0, ssl=context
        )
        pipe.send([server.sockets[0].getsockname()[1] for server in (entry, exits)])
        pipe.send(await ended)


class _Relay(asyncio.Protocol):
    """The source's connection, whose transactions go to a file and to all sinks."""

    def __init__(self, file: int, sinks: list[Any], ended: asyncio.Future[float]) -> None:
        self._file, self._sinks, self._ended = file, sinks, ended
        self._buffer = bytearray()
        self._events: list[bytes] = []
        self._packets: list[bytes] = []
        self._transactions = 0
        self._began = time.process_time()

    def data_received(self, data: bytes) -> None:
        buffer, at = self._buffer, 0
        buffer += data
        while len(buffer) - at >= 4:
            length = int.from_bytes(buffer[at : at + 3], "little")
            if len(buffer) - at < 4 + length:
                break
            event = bytes(buffer[at + 5 : at + 4 + length])
            header = struct.unpack_from("<IBIIIH", event)
            self._events.append(event)
            self._packets.append(bytes(buffer[at : at + 4 + length]))
            if header[1] == _XID:
                os.write(self._file, b"".join(self._events))
                packets = b"".join(self._packets)
                for sink in self._sinks:
                    sink.write(packets)
                self._events, self._packets = [], []
                self._transactions += 1
            at += 4 + length
        del buffer[:at]

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set_result((time.process_time() - self._began) / max(self._transactions, 1))
