"""A master over a recording, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.master.client import TINY, Client
from tests.support import DATA


@pytest.fixture
def server() -> Iterator[MasterServer]:
    """Serve the recording mysql-row. A module may have a fixture ``server`` of its own."""
    server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-row"), limits=TINY)
    server.start()
    yield server
    server.stop(0)


@pytest.fixture
def client(server: MasterServer) -> Iterator[Client]:
    """Connect a client to the server."""
    client = Client(server)
    yield client
    client.channel.close()
