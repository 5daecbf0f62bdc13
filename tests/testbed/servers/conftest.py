"""Servers for the tests of this folder. All of them end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dumpfilter.testbed.servers.server import Server, find_program
from tests.mariadb import spawn_here


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that describes a MariaDB server by its name."""
    made: list[Server] = []

    def make(name: str = "m", **more: object) -> Server:
        found = Server(
            find_program("mariadb"),
            tmp_path / name,
            name=name,
            server_id=len(made) + 1,
            spawn=spawn_here,
            **more,  # type: ignore[arg-type]
        )
        made.append(found)
        return found

    yield make
    for one in made:
        one.kill()


def start(*servers: Server) -> None:
    """Start servers beside one another."""
    with ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(Server.start, servers))
