"""A link that cannot accept a connection."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

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
