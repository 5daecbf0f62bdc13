"""A Spark query over a binlog set in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dumpfilter.spark_jobs.binlog_source import register
from tests.spark_jobs.plain_events import events_of
from tests.spark_jobs.s3_server import ObjectStore, object_store
from tests.support import DATA

MIXED = DATA / "oracle" / "mariadb-mixed"


FILES = sorted(MIXED.glob("bin.0*"))


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as made:
        for path in [*FILES, MIXED / "bin.index"]:
            made.objects[f"bucket/logs of/{path.name}"] = path.read_bytes()
        made.objects["bucket/logs of/oracle.json"] = b"{ nothing }"
        yield made


@pytest.fixture
def query(store: ObjectStore) -> str:
    return f"?endpoint_override={store.endpoint}&scheme=http&region=us-east-1&anonymous=true"


def test_spark_reads_from_it(spark: Any, store: ObjectStore, query: str) -> None:
    register(spark)
    frame = spark.read.format("binlog").option("columns", "file,position,inner")
    found = frame.load(f"s3a://bucket/logs of{query}").collect()
    wanted = [row for path in FILES for row in events_of(path.read_bytes(), path.name)]
    assert [tuple(row) for row in found] == [(row["file"], row["position"], row["inner"]) for row in wanted]
