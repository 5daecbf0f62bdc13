"""The changed rows of one table with typed columns: the option ``table`` of the data source and of the export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from dumpfilter.errors import BinlogUnsupported, OptionError
from dumpfilter.spark_jobs.binlog_source import BinlogDataSource
from dumpfilter.spark_jobs.engines.runner import run_here
from dumpfilter.spark_jobs.source.export import export_events
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.planning import plan_ranges
from dumpfilter.spark_jobs.source.reading import read_batches
from dumpfilter.spark_jobs.source.typed_table import with_types
from tests.commands.in_process import run
from tests.rows.recorded import path_of
from tests.support import RECORDED_SETS


def read(source: Path, **given: str) -> list[dict[str, Any]]:
    options = with_types(SourceOptions.parse({"path": str(source), "rangeSize": "3000", **given}))
    return [
        row
        for one in plan_ranges(options)
        for batch in read_batches(one, options, block_size=900)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("name", ["mysql97-full", "mysql97-compressed"])
def test_rows_are_those_of_the_table_as_structs(name: str) -> None:
    source, place = path_of(name), "position,inner,row,statement_kind,table"
    wanted = f"{place},before,after"
    typed = read(source, table="rowtypes.js", columns=wanted)
    maps = [row for row in read(source, columns=wanted, rows="exploded") if row["table"] == "js"]
    maps = [row for row in maps if row["row"] is not None]
    assert len(typed) == len(maps) > 10
    for one, other in zip(typed, maps, strict=True):
        for side in ("before", "after"):
            if other[side] is not None:
                texts = dict(other[side])
                assert one[side] == {
                    "id": None if "id" not in texts else int(texts["id"]),
                    "j": texts.get("j"),
                    "k": texts.get("k"),
                }
                other[side] = one[side]
        assert one == other


def test_an_altered_table_has_the_columns_of_all_versions() -> None:
    source = next(path for path in RECORDED_SETS if path.name == "mysql-write-row")
    rows = read(source, table="d2.t", columns="position,row,after")
    lengths = {
        len(row["after"])
        for row in read(source, rows="exploded", columns="database,table,after")
        if (row["database"], row["table"]) == ("d2", "t") and row["after"]
    }
    assert len(lengths) > 1
    assert {len(row["after"]) for row in rows if row["after"]} == {max(lengths)}


def test_the_export_has_typed_columns(tmp_path: Path) -> None:
    given = {"path": str(path_of("mysql97-full")), "table": "rowtypes.ints", "columns": "row,after"}
    (found,) = export_events(given, tmp_path / "ints", run_here)
    table = pq.read_table(found.path)
    assert str(table.schema.field("after").type).startswith("struct<id: int32, t: int8, tu: int16")
    assert table["after"][0].as_py()["mu"] == 16777215
    done = run(
        "export",
        str(path_of("mariadb118-nolog")),
        *("--output", str(tmp_path / "named")),
        *(
            "--table",
            "rowtypes.ints",
            "--column-names",
            "id, t, tu unsigned, s, su, m, mu, i, iu, b, bu, bo, z, y",
        ),
    )
    assert done.returncode == 0, done.stderr
    named = pq.read_table(tmp_path / "named" / "mariadb118-nolog.000001.parquet")["after"][0].as_py()
    assert (named["t"], named["tu"], named["s"]) == (-128, 255, -32768)


def test_a_schema_of_the_users_own_chooses_columns_and_types() -> None:
    source = BinlogDataSource({"path": str(path_of("mysql97-full")), "table": "rowtypes.ints"})
    assert source.schema()["after"].dataType["bu"].dataType.simpleString() == "decimal(20,0)"
    struct = StructType().add("t", StringType()).add("id", LongType()).add("nope", IntegerType())
    reader = source.reader(StructType().add("after", struct))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows[0] == {"after": {"t": "-128", "id": 1, "nope": None}}
    reader = source.reader(StructType().add("after", StructType().add("bu", IntegerType())))
    with pytest.raises(BinlogUnsupported, match=r"a value of the column bu .* does not fit the type int32"):
        list(reader.read(reader.partitions()[0]))
    reader = source.reader(StructType().add("position", LongType()))
    assert next(iter(reader.read(reader.partitions()[0]))).to_pylist()[0].keys() == {"position"}
    with pytest.raises(OptionError, match="the column after is string: with the option table"):
        source.reader(StructType().add("after", StringType()))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"table": "rowtypes.intz"}, r"no changed rows of rowtypes.intz; did you mean rowtypes.ints"),
        ({"table": "orders"}, "'orders' has not the form database.table"),
        ({"table": "shop.orders", "rows": "events"}, "leave out rows=events"),
        ({"columnNames": "a,b"}, "add the option table"),
        ({"table": "rowtypes.ints", "columnNames": "a,b"}, "the binlog has the names of the columns"),
    ],
)
def test_options_that_cannot_be_used_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        read(path_of("mysql97-full"), **given)


def test_lists_of_another_length_are_refused() -> None:
    with pytest.raises(OptionError, match=r"it has 2 names, and rowtypes.ints has 14 columns"):
        read(path_of("mariadb118-nolog"), table="rowtypes.ints", columnNames="id, t")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("js", ["row images of rowtypes.js lack columns", "a JSON value can be an SQL expression"]),
        ("wide", ["row images of rowtypes.wide lack columns", "binlog_row_image=FULL"]),
        ("ints", []),
    ],
)
def test_images_that_lack_columns_are_told(table: str, said: list[str], tmp_path: Path) -> None:
    done = run(
        "export", path_of("mysql97-full"), "--output", tmp_path / "rows", "--table", f"rowtypes.{table}"
    )
    assert done.returncode == 0, done.stderr
    assert ("warning" in done.stderr) == bool(said)
    for words in said:
        assert words in done.stderr


def test_a_table_with_names_in_some_binlogs_is_told() -> None:
    files = "\n".join(str(path_of(name)) for name in ("mysql97-minimal", "mysql97-full"))
    given = {"files": files, "table": "rowtypes.ints"}
    said: list[str] = []
    with_types(SourceOptions.parse(given), said.append)
    assert len(said) == 1
    names = "id,t,tu,s,su,m,mu,i,iu,b,bu,bo,z,y"
    assert f"--column-names '{names}'" in said[0]
    options = with_types(SourceOptions.parse({**given, "columnNames": names}), said.append)
    assert len(said) == 1
    assert options.row_types is not None
    assert [field.name for field in options.row_types[1]] == names.split(",")
