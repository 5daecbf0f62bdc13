"""A link that cannot accept a connection, or accepts one while it is full."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from dumpfilter.topology.links.line import Line
from dumpfilter.topology.links.proxy import ACCEPT_RETRY, Link
from dumpfilter.topology.links.shape import LinkShape


def test_a_lack_of_descriptors_delays_a_connection_and_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    accept, is_lacking, tries = socket.socket.accept, True, 0

    def lacking(self: socket.socket) -> tuple[socket.socket, Any]:
        nonlocal tries
        tries += 1
        if is_lacking:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    async def connect() -> None:
        nonlocal is_lacking
        link = Link("m:web", ("127.0.0.1", 1), LinkShape())
        with socket.create_connection(("127.0.0.1", link.port)):
            await asyncio.sleep(2.5 * ACCEPT_RETRY)
            assert 1 <= tries <= 4
            assert link.counters().connections == 0
            is_lacking = False
            while not link.counters().connections:
                await asyncio.sleep(0.01)
        link.cut()

    monkeypatch.setattr(socket.socket, "accept", lacking)
    asyncio.run(asyncio.wait_for(connect(), 60))


def test_a_connection_that_begins_at_a_full_link_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.2 begins to read a new socket after the callback that may pause it."""
    room, rooms = Line.room, []

    def noted(self: Line, now: float) -> int:
        rooms.append(room(self, now))
        return rooms[-1]

    async def connect() -> None:
        sent = asyncio.Event()

        async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x" * 1000)
            sent.set()
            await reader.read()

        source = await asyncio.start_server(send, "127.0.0.1", 0)
        link = Link("m:web", source.sockets[0].getsockname(), LinkShape(80))
        # The line is full for 100 seconds.
        link.down.push(link.now(), bytes(1000))
        with socket.create_connection(("127.0.0.1", link.port)):
            await sent.wait()
            for _ in range(50):
                await asyncio.sleep(0.001)
        link.cut()
        source.close()

    monkeypatch.setattr(Line, "room", noted)
    asyncio.run(asyncio.wait_for(connect(), 60))
    assert rooms == []
