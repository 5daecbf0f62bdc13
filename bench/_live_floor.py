"""``python -m bench._live_floor RATE SECONDS READERS``: the least that a relay of live transactions costs in Python.

One asyncio loop receives transactions of five events as packets, appends them to a file, and writes them to readers
over TLS. Nothing is filtered, and nothing is checked. The process prints the processor time that it took for each
transaction, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import socket
import ssl
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.certificates import Authority

_XID = 16
_SETTLE_SECONDS = 0.5


def _event(kind: int, size: int) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + size, 0, 0) + bytes(size)


def _transaction() -> bytes:
    events = [_event(33, 60), _event(2, 56), _event(19, 36), _event(30, 230), _event(_XID, 12)]
    return b"".join(
        (len(event) + 1).to_bytes(3, "little") + bytes([number, 0]) + event
        for number, event in enumerate(events)
    )


def _source(port: int, rate: int, seconds: float) -> None:
    """Send transactions at a steady rate."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transaction, start = _transaction(), time.perf_counter()
    for number in range(int(rate * seconds)):
        wait = start + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        connection.sendall(transaction)
    time.sleep(_SETTLE_SECONDS)
    connection.close()


def _reader(port: int) -> None:
    """Receive until the relay closes the connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as connection:
        while connection.recv(1 << 16):
            pass


class _Sink(asyncio.Protocol):
    """A reader's connection."""

    def __init__(self, sinks: list[Any]) -> None:
        self._sinks = sinks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._sinks.append(transport)


class _Relay(asyncio.Protocol):
    """The source's connection, whose transactions go to a file and to all sinks."""

    def __init__(self, file: int, sinks: list[Any], ended: asyncio.Future[float]) -> None:
        self._file, self._sinks, self._ended = file, sinks, ended
        self._buffer = bytearray()
        self._events: list[bytes] = []
        self._packets: list[bytes] = []
        self._transactions = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
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


async def _relay(rate: int, seconds: float, readers: int, directory: Path) -> float:
    issued = Authority(directory / "ca").issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[float] = loop.create_future()
    sinks: list[Any] = []
    with open(directory / "log", "wb", buffering=0) as file:
        entry = await loop.create_server(lambda: _Relay(file.fileno(), sinks, ended), "127.0.0.1", 0)
        port = await loop.create_server(lambda: _Sink(sinks), "127.0.0.1", 0, ssl=context)
        ports = [server.sockets[0].getsockname()[1] for server in (entry, port)]
        processes = [
            multiprocessing.Process(target=_reader, args=(ports[1],), daemon=True) for _ in range(readers)
        ]
        for process in processes:
            process.start()
        while len(sinks) < readers:
            await asyncio.sleep(0.01)
        sender = multiprocessing.Process(target=_source, args=(ports[0], rate, seconds), daemon=True)
        sender.start()
        spent = await ended
        for process in (sender, *processes):
            process.terminate()
    return spent


def main() -> None:
    rate, seconds, readers = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps({"seconds": asyncio.run(_relay(rate, seconds, readers, Path(directory)))}))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
