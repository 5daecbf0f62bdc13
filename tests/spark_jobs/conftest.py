"""One Spark session, one real MariaDB and one packaged environment for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.spark.context import spark_session
from dumpfilter.spark_jobs.spark.environment import package_environment
from tests.mariadb import MariaDb


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with spark_session("local[2]") as session:
        yield session


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = MariaDb(tmp_path_factory.mktemp("mariadb"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged environment. Tests that use it are in the xdist group ``cluster``."""
    return package_environment(tmp_path_factory.mktemp("environment") / "environment.tar.gz").path
