"""The data source in Spark: rows, filters, errors. source/test_columns.py checks the values of all columns."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.binlog_source import PUSHDOWN, register
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import FilePart, index_file
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges
from tests.spark_jobs.plain_events import events_of
from tests.spark_jobs.source.test_sent import read
from tests.support import DATA

MIXED = DATA / "oracle" / "mysql-mixed"
FILES = sorted(MIXED.glob("bin.0*"))


@pytest.fixture(scope="module")
def binlog(spark: Any) -> Any:
    register(spark)
    return spark


@pytest.fixture(scope="module")
def wanted() -> list[dict[str, Any]]:
    return [row for path in FILES for row in events_of(path.read_bytes(), path.name)]


def collect(frame: Any) -> list[dict[str, Any]]:
    """Return the rows in their order, with times in UTC. Spark returns times of this machine's time zone."""
    rows = [row.asDict() for row in frame.collect()]
    return [{**row, "timestamp": row["timestamp"].astimezone(datetime.UTC)} for row in rows]


def test_spark_finds_the_source_and_takes_it_without_pushdown(
    spark: Any, wanted: list[dict[str, Any]]
) -> None:
    # A session of its own has neither the registration nor the setting of the other tests.
    session = spark.newSession()
    session.conf.set(PUSHDOWN, "false")
    found = session.read.format("binlog").load(str(MIXED / "bin.0000*")).where("database = 'shop'")
    assert collect(found) == [row for row in wanted if row["database"] == "shop"]
    # test_sent.py judges which events are sent. Spark must give the options to the source, and give back its column.
    given = {"filter": "--replicate-do-db=shop", "slave.web": "--replicate-do-table=shop.orders"}
    columns = ("file", "position", "inner", "sent_web")
    passed = session.read.format("binlog").options(**given).load(str(MIXED)).select(*columns)
    rows = read(SourceOptions.parse({"path": str(MIXED), **given}), *columns)
    assert [tuple(row) for row in passed.collect()] == rows
    assert 0 < sum(row[3] for row in rows) < len(rows) < len(wanted)


def test_a_set_is_its_events_in_order(binlog: Any, wanted: list[dict[str, Any]]) -> None:
    frame = binlog.read.format("binlog").option("rangeSize", "12k").load(str(MIXED))
    assert frame.columns == list(TYPES)
    assert len(plan_ranges(SourceOptions(str(MIXED), read=ReadOptions(range_size=2 << 10)))) > 2 * len(FILES)
    assert collect(frame) == wanted


def test_sql_with_filters_answers_as_without(binlog: Any, wanted: list[dict[str, Any]]) -> None:
    frame = binlog.read.format("binlog").load(str(MIXED / "bin.index"))
    frame.createOrReplaceTempView("events")
    asked = """
        SELECT `table`, size FROM events
        WHERE database = 'shop' AND timestamp >= '2020-01-01' AND rows IS NOT NULL AND NOT type LIKE 'Delete%'
          AND file < 'bin.000002' AND (position < 1000000 OR gtid IS NULL) AND size + 0 > 50
    """
    kept = [
        (row["table"], row["size"])
        for row in wanted
        if row["database"] == "shop" and row["file"] < "bin.000002" and row["size"] > 50
        if row["rows"] is not None and not row["type"].startswith("Delete")
    ]
    found = binlog.sql(asked)
    assert len(kept) > 2
    assert [tuple(row) for row in found.collect()] == kept
    left = found._jdf.queryExecution().executedPlan().toString()
    assert "shop" not in left  # The data source has taken these filters.
    assert "1000000" in left


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, int]:
    """Make a set of two files, the first with a wrong byte. Return its index and the offset of the damaged event."""
    source = DATA / "oracle" / "mysql-row"
    data = bytearray((source / "bin.000001").read_bytes())
    at = [row["position"] for row in events_of(bytes(data), "bin.000001")][-30]
    data[at + 25] ^= 1
    (tmp_path / "bin.000001").write_bytes(data)
    (tmp_path / "bin.000002").write_bytes((source / "bin.000002").read_bytes())
    index = tmp_path / "bin.index"
    index.write_text("./bin.000001\n./bin.000002\n")
    return index, at


def test_a_corrupt_file_is_told_with_its_place(binlog: Any, damaged: tuple[Path, int]) -> None:
    index, at = damaged
    with pytest.raises(Exception, match=f"BinlogCorrupt: bin.000001: at {at}: checksum mismatch"):
        binlog.read.format("binlog").load(str(index)).count()


def test_a_corrupt_file_is_skipped_when_that_is_asked_for(binlog: Any, damaged: tuple[Path, int]) -> None:
    index, at = damaged
    frame = binlog.read.format("binlog").option("onCorrupt", "skip").load(str(index))
    found = {row.file: row.position for row in frame.select("file", "position").collect()}
    first = events_of((index.parent / "bin.000001").read_bytes()[:at], "bin.000001")
    whole = max(row["position"] for row in first if row["transaction"] != first[-1]["transaction"])
    second = events_of((index.parent / "bin.000002").read_bytes(), "bin.000002")
    assert found == {"bin.000001": whole, "bin.000002": second[-1]["position"]}
    damage = index_file(
        FilePart(0, str(index.parent / "bin.000001"), last=False), ReadOptions(on_corrupt="skip")
    ).damage
    assert damage is not None
    torn = min(row["position"] for row in first if row["transaction"] == first[-1]["transaction"])
    assert (damage.file, damage.position, damage.damaged_at) == ("bin.000001", torn, at)


def test_what_is_not_there_is_told_in_a_sentence(binlog: Any, tmp_path: Path) -> None:
    missing = tmp_path / "bin.index"
    with pytest.raises(
        Exception, match=f"BinlogMissing: {missing}: cannot read the index: no such file"
    ) as caught:
        binlog.read.format("binlog").load(str(missing)).count()
    assert "Traceback" not in str(caught.value)
