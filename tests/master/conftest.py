"""A master over a recording, and a client of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.master.client import Client
from tests.support import DATA


@pytest.fixture
def server() -> Iterator[MasterServer]:
    """Serve the recording mysql-row. A module may have a fixture ``server`` of its own."""
    server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-row"))
    server.start()
    yield server
    server.stop(0)


@pytest.fixture
def client(server: MasterServer) -> Iterator[Client]:
    """Connect a client to the server."""
    client = Client(server)
    yield client
    client.channel.close()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition is true."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.005)

    return wait
