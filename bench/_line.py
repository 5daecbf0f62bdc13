"""A network connection that can fail: a TCP proxy in front of the master, for one simulated slave."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

_PIECE = 1 << 16
_LINGER = struct.pack("ii", 1, 0)
"""The socket option with which a closed connection is reset at once, instead of being ended in order."""


class Line:
    """A proxy on a port of its own, which carries all connections of one client to ``address``."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = (host, int(port))
        self._server: asyncio.Server | None = None
        self._ends: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._pumps: list[asyncio.Task[None]] = []
        self._silent: list[asyncio.StreamWriter] = []

    async def open(self) -> str:
        """Begin to listen, and return the address."""
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Reset all connections, so that neither side gets a goodbye."""
        self._stop_pumps()
        for ends in self._ends:
            for end in ends:
                _reset(end)
        self._ends.clear()

    def silence(self) -> None:
        """Carry no more bytes of the present connections, as if a cable were unplugged. The master learns nothing."""
        self._stop_pumps()
        for client, master in self._ends:
            _reset(client)
            self._silent.append(master)
        self._ends.clear()

    def close(self) -> None:
        """Reset all connections, the silent ones too, and stop listening."""
        self.cut()
        for end in self._silent:
            _reset(end)
        if self._server is not None:
            self._server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_master, to_master = await asyncio.open_connection(*self._to)
        except OSError:
            _reset(writer)
            return
        self._ends.append((writer, to_master))
        for source, target in ((reader, to_master), (from_master, writer)):
            self._pumps.append(asyncio.create_task(_pump(source, target)))

    def _stop_pumps(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        self._pumps.clear()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
        target.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    writer.transport.abort()
