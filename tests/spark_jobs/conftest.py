"""Resources that the tests of the Spark jobs share: Spark, a MariaDB server, a packaged environment.

Starting Spark takes ten seconds, so each pytest worker has at most one Spark session. With pytest-xdist all tests that
use a shared resource run in one worker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.options import SparkSettings
from dumpfilter.spark_jobs.spark import spark_context
from tests.mariadb import MariaDb
from tests.spark_jobs.cluster import QUICK
from tests.spark_jobs.environment import pack

SHARED = ("spark", "mariadb", "environment")

QUICK_CONF = [
    f"spark.driver.extraJavaOptions={QUICK}",
    # Each query of a few rows would be compiled to Java, which takes longer than the query.
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
]
"""Settings of Spark for queries of a few rows."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run all tests that use a shared resource in the same worker of pytest-xdist."""
    for name in SHARED:
        if name in getattr(item, "fixturenames", ()) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Spark with a temporary directory whose name has a space, and check that Spark leaves nothing there."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("of mine")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder))
            context = stack.enter_context(spark_context(SparkSettings(master="local[2]", conf=QUICK_CONF)))
        yield SparkSession(context)
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = MariaDb(tmp_path_factory.mktemp("mariadb"), "--skip-log-bin")
    yield server
    server.close()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the environment as docs/cluster.md says."""
    return pack(tmp_path_factory.mktemp("environment"))
