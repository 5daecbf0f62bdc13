"""A streaming query that is stopped and continues from its checkpoint."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from dumpfilter.spark_jobs.binlog_source import register
from tests.spark_jobs.growing import GrowingFiles
from tests.spark_jobs.plain_events import events_of
from tests.support import DATA, RECORDED_SETS

FILES = sorted((DATA / "oracle" / "mysql-mixed").glob("bin.0*"))


def test_a_query_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    register(spark)
    (tmp_path / "set").mkdir()
    growing = GrowingFiles(tmp_path / "set", FILES)
    pieces = growing.pieces(3000)
    next(pieces)
    next(pieces)

    def start() -> Any:
        stream = (
            spark.readStream.format("binlog").option("maxBytesPerTrigger", "40k").load(str(growing.index))
        )
        return (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    query = start()
    query.processAllAvailable()
    begun = threading.Event()

    def grow() -> None:
        for number, _ in enumerate(pieces):
            if number == 4:
                begun.set()

    writer = threading.Thread(target=grow)
    writer.start()
    begun.wait()
    query.stop()  # stop at an arbitrary moment
    writer.join()
    query = start()
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "out")).select("file", "position", "inner").collect()
    wanted = Counter(
        (row["file"], row["position"], row["inner"])
        for path in FILES
        for row in events_of(path.read_bytes(), path.name)
    )
    assert Counter(map(tuple, found)) == wanted
    assert set(wanted.values()) == {1}


def test_a_stream_says_when_its_columns_have_changed(spark: Any, tmp_path: Path) -> None:
    """Spark passes what the data source knows of the table from the schema to the tasks."""
    register(spark)
    (source,) = (path for path in RECORDED_SETS if path.name == "mariadb118-current")
    whole = (source / "bin.000001").read_bytes()
    path = tmp_path / "bin.000001"
    # RENAME COLUMN of both columns comes next.
    before = bytearray(whole[:11038])
    before[21] |= 1
    path.write_bytes(before)

    stream = spark.readStream.format("binlog").option("table", "shop.copied").load(str(path))
    query = stream.writeStream.format("memory").queryName("copied").start()
    query.processAllAvailable()
    assert spark.table("copied").count() > 0
    with path.open("r+b") as file:
        # The query reads meanwhile, and finds a file that grows, as a server's.
        file.seek(len(before))
        file.write(whole[len(before) :])
        file.flush()
        file.seek(21)
        file.write(whole[21:22])
    with pytest.raises(
        StreamingQueryException, match=r"bin.000001: at 11\d{3}: the columns of shop.copied have"
    ):
        query.processAllAvailable()
