"""A Spark query over a binlog set in an object store."""

from __future__ import annotations

from typing import Any

from dumpfilter.spark_jobs.binlog_source import register
from tests.index.test_addresses import FILES, query, store
from tests.spark_jobs.plain_events import events_of
from tests.spark_jobs.s3_server import ObjectStore

__all__ = ["query", "store"]


def test_spark_reads_from_it(spark: Any, store: ObjectStore, query: str) -> None:
    register(spark)
    frame = spark.read.format("binlog").option("columns", "file,position,inner")
    found = frame.load(f"s3a://bucket/logs of{query}").collect()
    wanted = [row for path in FILES for row in events_of(path.read_bytes(), path.name)]
    assert [tuple(row) for row in found] == [(row["file"], row["position"], row["inner"]) for row in wanted]
