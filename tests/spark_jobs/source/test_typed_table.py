"""The changed rows of one table with typed columns: the option ``table`` of the data source and of the export."""

from __future__ import annotations

import json
from collections import Counter
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructType

from dumpfilter.base.errors import BinlogUnsupported, ColumnsChanged, OptionError
from dumpfilter.spark_jobs import binlog_source
from dumpfilter.spark_jobs.binlog_source import BinlogDataSource
from dumpfilter.spark_jobs.source.export import export_events
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges, read_batches, with_types
from tests.binlog.rows.recorded import path_of
from tests.commands.in_process import run
from tests.spark_jobs.here import run_here
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


# A table that is altered after a query has begun.


class Altered:
    """A set that a server writes, with the changed rows of one table before and after an ALTER TABLE."""

    def __init__(self, directory: Path, recording: str, table: str, at: int) -> None:
        (source,) = (path for path in RECORDED_SETS if path.name == recording)
        self._whole = (source / "bin.000001").read_bytes()
        self.path = directory / "bin.000001"
        self._before = bytearray(self._whole[:at])
        self._before[21] |= 1  # LOG_EVENT_BINLOG_IN_USE_F
        self.given = {"path": str(self.path), "table": table}

    def read(self, kind: str, schema: StructType | None = None, **given: str) -> list[dict[str, Any]]:
        """Return the rows of a query whose columns were fixed before the ALTER TABLE."""
        self.path.write_bytes(self._before)
        source = BinlogDataSource({**self.given, **given})
        # Spark keeps the schema as JSON between the calls.
        schema = schema or StructType.fromJson(json.loads(source.schema().json()))
        if kind == "stream":
            stream = source.streamReader(schema)
            start = stream.initialOffset()
            self.path.write_bytes(self._whole)
            stop = stream.latestOffset(start, ReadAllAvailable())
            parts = stream.partitions(start, stop)
            batches = [batch for part in parts for batch in stream.read(part)]
        else:
            reader = source.reader(schema)
            self.path.write_bytes(self._whole)
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def added(tmp_path: Path) -> Altered:
    return Altered(tmp_path, "mysql-write-row", "d2.t", 15978)


@pytest.fixture
def renamed(tmp_path: Path) -> Altered:
    return Altered(tmp_path, "mariadb118-current", "shop.copied", 11038)


@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_a_query_stops_where_its_columns_have_changed(kind: str, added: Altered, renamed: Altered) -> None:
    with pytest.raises(
        ColumnsChanged, match=r"bin.000001: at 1\d{4}: the columns of d2.t have changed .*new: @3\); start"
    ):
        added.read(kind)
    # With onCorrupt=skip only damage is skipped.
    with pytest.raises(
        ColumnsChanged, match=r"bin.000001: at 11\d{3}: .*\(new: i, v; gone: id, name\); .*newColumns"
    ):
        renamed.read(kind, onCorrupt="skip")


def test_new_columns_are_taken_as_a_map_or_left_out(renamed: Altered) -> None:
    old, *_, new = renamed.read("stream", newColumns="map")
    assert (old["after"]["id"], old["after"]["new_columns"]) == (1, [])
    assert (new["after"]["id"], new["after"]["name"]) == (None, None)
    assert [name for name, _ in new["after"]["new_columns"]] == ["i", "v"]
    maps = [row for row in read(renamed.path, rows="exploded") if row["table"] == "copied" and row["after"]]
    assert new["after"]["new_columns"] == maps[-1]["after"]
    *_, left_out = renamed.read("stream", newColumns="ignore")
    assert left_out["after"] == {"id": None, "name": None}


def test_a_query_that_begins_again_has_the_new_columns(added: Altered, renamed: Altered) -> None:
    for one, count in ((added, 3), (renamed, 4)):
        with pytest.raises(ColumnsChanged):
            one.read("stream")
        schema = BinlogDataSource(one.given).schema()
        assert {len(row["after"]) for row in one.read("stream", schema) if row["after"]} == {count}


def test_a_stream_with_a_schema_of_the_users_own_has_its_columns_in_the_table(renamed: Altered) -> None:
    schema = StructType().add("after", StructType().add("name", StringType()))
    with pytest.raises(ColumnsChanged, match=r"at 11\d{3}: shop.copied has no column name here"):
        renamed.read("stream", schema)
    assert renamed.read("stream", schema, newColumns="ignore")[-1] == {"after": {"name": None}}
    assert renamed.read("batch", schema)[-1] == {"after": {"name": None}}
    rest = StructType().add("name", StringType()).add("rest", MapType(StringType(), StringType()))
    *_, found = renamed.read("stream", StructType().add("after", rest))
    assert [name for name, _ in found["after"]["rest"]] == ["i", "v"]


# Dates that no calendar has.


def test_dates_that_become_null_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = path_of("mysql97-full")
    given = {"path": str(source), "table": "rowtypes.times"}
    typed = read(source, table=given["table"])
    maps = [
        row for row in read(source, rows="exploded") if row["table"] == "times" and row["row"] is not None
    ]
    lost = Counter(
        name
        for one, other in zip(typed, maps, strict=True)
        for side in ("before", "after")
        for name, text in other[side] or ()
        if text is not None and one[side][name] is None
    )
    assert lost
    told = ", ".join(f"{count} of {name}" for name, count in sorted(lost.items()))
    warnings: list[str] = []
    export_events(given, tmp_path / "out", run_here, warn=warnings.append)
    (warning,) = (one for one in warnings if "calendar" in one)
    assert (
        f"dates of rowtypes.times are null since no calendar has them, such as 0000-00-00: {told};" in warning
    )
    logged = BufferingHandler(1000)
    monkeypatch.setattr(binlog_source._log, "handlers", [logged])
    stream = BinlogDataSource(given)
    reader = stream.streamReader(stream.schema())
    start = reader.initialOffset()
    for part in reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())):
        list(reader.read(part))
    assert told in "".join(record.getMessage() for record in logged.buffer)
