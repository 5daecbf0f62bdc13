"""The server that the replay tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mariadb import MariaDb
from tests.oracle.replaying import MariaDbServer, Server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running MariaDB without a binlog, which each test empties first."""
    server = MariaDb(tmp_path_factory.mktemp("replay"), "--skip-log-bin")
    yield MariaDbServer(server)
    server.close()
