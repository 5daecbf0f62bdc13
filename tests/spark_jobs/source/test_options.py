"""The options and the schema of the data source."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.spark_jobs.binlog_source import BinlogDataSource
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from tests.support import DATA

MIXED = DATA / "oracle" / "mysql-mixed"


FILES = sorted(MIXED.glob("bin.0*"))


def test_options_that_cannot_be_are_refused() -> None:
    good = {"path": "/there"}
    for bad in (
        {"nothing": "1"},
        {"columns": "size,size"},
        {"columns": "siz"},
        {"payloads": "ajar"},
        {"verify": "1"},
        {"rangeSize": "0"},
        {"rangeSize": "1x"},
        {"rangeSize": "-5"},
        {"onCorrupt": "go on"},
    ):
        with pytest.raises(OptionError):
            SourceOptions.parse({**good, **bad})
    with pytest.raises(OptionError, match="needs a path"):
        SourceOptions.parse({})


@pytest.mark.parametrize("text", ["/var/lib/mysql/bin.000001", '"/a"', '{"/a": 1}', "[1]", "7", ""])
def test_wrong_paths_are_named(text: str) -> None:
    with pytest.raises(OptionError, match="option paths: "):
        SourceOptions.parse({"paths": text})
    assert SourceOptions.parse({"paths": '["/a", "/b"]'}).sources == ["/a", "/b"]


def test_options_are_read() -> None:
    options = SourceOptions.parse(
        {
            "FILES": "/a/bin.000001\n/a/bin.000002\n",
            "columns": "size, type",
            "payloads": "closed",
            "verify": "False",
            "rangesize": "2M",
            "onCorrupt": "skip",
            "maxBytesPerTrigger": "3g",
        }
    )
    assert options.sources == ["/a/bin.000001", "/a/bin.000002"]
    assert options.columns == ("size", "type")
    assert (options.opened, options.read.verify, options.read.on_corrupt) == (False, False, "skip")
    assert (options.read.range_size, options.bytes_per_trigger) == (2 << 20, 3 << 30)
    assert SourceOptions.parse({"path": "/x"}) == SourceOptions("/x")


def test_filters_of_slaves_are_read(tmp_path: Path) -> None:
    replica = tmp_path / "Web-2.cnf"
    replica.write_text("[mysqld]\nreplicate-do-db = hr\n")
    options = SourceOptions.parse(
        {
            "path": "/x",
            "filter": "--replicate-do-db=shop",
            "slave.web": "--replicate-ignore-table 'shop.a b'",
            "slaves": str(replica),
        }
    )
    assert [one.rules for one in options.definitions] == [
        ("--replicate-do-db=hr",),
        ("--replicate-ignore-table=shop.a b",),
        ("--replicate-do-db=shop",),
    ]
    assert options.columns[-2:] == ("sent_Web_2", "sent_web")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"filter": "--replicate-do-sb=shop"}, "option filter: "),
        ({"filter": "--replicate-do-db=a:shop --replicate-do-db=b:shop"}, "several channels"),
        ({"slave.web": "shop"}, r"option slave\.web: 'shop' is no option"),
        ({"slave.": "--replicate-do-db=shop"}, "a slave needs a name"),
        (
            {"slave.a b": "--replicate-do-db=x", "slave.a-b": "--replicate-do-db=x"},
            "the same column sent_a_b",
        ),
    ],
)
def test_filters_that_cannot_be_are_refused(bad: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse({"path": "/x", **bad})


def test_a_schema_names_columns_as_the_option_does() -> None:
    from pyspark.sql.types import IntegerType, LongType, StructType

    source = BinlogDataSource({"path": str(FILES[0])})
    assert source.schema().fieldNames() == list(TYPES)
    source.reader(StructType().add("size", LongType()))
    with pytest.raises(OptionError, match="no column sizes"):
        source.reader(StructType().add("sizes", LongType()))
    with pytest.raises(OptionError, match="is a bigint, and the schema says int; write size bigint"):
        source.reader(StructType().add("size", IntegerType()))
