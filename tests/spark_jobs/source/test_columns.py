"""The rows of the data source against a plain walk over the events. The rows of all ranges are the
rows of the file."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as D

from dumpfilter.binlog.events import EventType as T
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.workload import generate
from dumpfilter.spark_jobs.binlog_source import predicate_of
from dumpfilter.spark_jobs.options import BLOCK_SIZE, ReadOptions
from dumpfilter.spark_jobs.ranges import FilePart, Range, index_file, ranges_of
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import read_batches
from tests.spark_jobs.plain_events import events_of
from tests.strategies import MadeBinlog, binlogs
from tests.support import RECORDED, MemoryFile, recording_id


def read(
    file: MemoryFile | Path, ranges: list[Range], *, block_size: int = BLOCK_SIZE, **options: Any
) -> list[dict[str, Any]]:
    asked = SourceOptions("unread", **options)
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(file, MemoryFile):
            patch.setattr("dumpfilter.spark_jobs.source.reading.open_file", lambda _: file)
        return [
            row
            for one in ranges
            for batch in read_batches(one, asked, block_size=block_size)
            for row in batch.to_pylist()
        ]


@pytest.mark.parametrize(
    ("number", "path"), list(enumerate(RECORDED)), ids=[recording_id(path) for path in RECORDED]
)
@pytest.mark.every_recording
def test_every_event_of_a_recording_is_a_row(number: int, path: Path) -> None:
    """Every third recording has small ranges and blocks."""
    range_size, block_size = (700, 999) if number % 3 == 0 else (9000, 5000)
    index = index_file(
        FilePart(0, str(path), last=False), ReadOptions(range_size=range_size, block_size=block_size)
    )
    wanted = events_of(path.read_bytes(), path.name)
    assert read(path, ranges_of(index), block_size=block_size) == wanted
    assert read(path, [Range(str(path), 4, path.stat().st_size)]) == wanted
    assert sum(row["size"] for row in wanted if row["inner"] is None) == path.stat().st_size - 4


@settings(deadline=None, max_examples=40)
@given(made=binlogs(unreadable=True), range_size=st.integers(1, 3000), block_size=st.integers(19, 2000))
def test_every_event_of_a_made_file_is_a_row(made: MadeBinlog, range_size: int, block_size: int) -> None:
    file = MemoryFile(made.data)
    bounds = [4, *(at for at in made.boundaries[1:-1] if at % range_size < 40), made.boundaries[-1]]
    ranges = [Range("made", a, b) for a, b in pairwise(bounds)]
    wanted = events_of(made.data[: made.boundaries[-1]], file.name)
    assert read(file, ranges, block_size=block_size) == wanted
    closed = [row for row in wanted if row["inner"] is None]
    assert read(file, ranges, block_size=block_size, opened=False) == closed


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_rows_of_many_shapes_are_counted(style: Any, tmp_path: Path) -> None:
    path = generate(tmp_path, 300_000, style=style).files[0]
    wanted = events_of(path.read_bytes(), path.name)
    assert read(path, [Range(str(path), 4, path.stat().st_size)], block_size=20_000) == wanted
    assert sum(row["rows"] or 0 for row in wanted) > 500


@pytest.mark.parametrize("name", TYPES)
def test_a_column_alone_is_as_it_is_among_all(name: str) -> None:
    paths = [path for path in RECORDED if path.parent.name in ("mysql-mixed", "mariadb-mixed")]
    for path in paths:
        whole = [Range(str(path), 4, path.stat().st_size)]
        alone = read(path, whole, asked_columns=(name,))
        assert alone == [{name: row[name]} for row in events_of(path.read_bytes(), path.name)]


@pytest.mark.parametrize("name", ["mysql-payloads", "mysql-statement", "mariadb-mixed"])
def test_statements_have_their_texts(name: str) -> None:
    texts = set()
    for path in (path for path in RECORDED if path.parent.name == name):
        whole = [Range(str(path), 4, path.stat().st_size)]
        rows = read(path, whole, asked_columns=("position", "type", "inner", "sql"))
        plain = {event.offset: event for event in iter_events(BytesIO(path.read_bytes()), file=path.name)}
        for row in rows:
            event = plain[row["position"]]
            if row["inner"] is None and event.type in (T.QUERY, T.QUERY_COMPRESSED, T.EXECUTE_LOAD_QUERY):
                assert row["sql"] == decode_statement_event(event.type, event.body, event.fd).text
            elif event.type == T.ANNOTATE_ROWS:
                assert row["sql"] == bytes(event.body).decode()
            elif row["type"] not in ("Query", "Rows_query"):
                assert row["sql"] is None
        texts |= {(row["sql"], row["inner"] is not None) for row in rows}
    assert ("BEGIN", False) in texts or name != "mysql-statement"
    assert ("BEGIN", True) in texts or name != "mysql-payloads"
    assert len(texts) > 10


def test_a_condition_on_texts_chooses_events() -> None:
    path = next(path for path in RECORDED if path.parent.name == "mysql-mixed")
    options = SourceOptions("unread", asked_columns=("position",))
    whole = Range(str(path), 4, path.stat().st_size)
    predicate = predicate_of(D.StringStartsWith(("sql",), "CREATE DATABASE"), options.types)
    assert predicate is not None
    found = [row for batch in read_batches(whole, options, None, [predicate]) for row in batch.to_pylist()]
    texts = read(path, [whole], asked_columns=("position", "sql"))
    assert found
    assert found == [
        {"position": row["position"]} for row in texts if (row["sql"] or "").startswith("CREATE DATABASE")
    ]


def test_a_name_that_is_not_utf8_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    source = next(path for path in RECORDED if path.parent.name == "mariadb-row")
    data = source.read_bytes().replace(b"\x04shop\x00", b"\x04sh\xff\xfe\x00")
    path.write_bytes(data)
    rows = read(path, [Range(str(path), 4, len(data))], read=ReadOptions(verify=False))
    assert "sh\ufffd\ufffd" in {row["database"] for row in rows if row["type"] == "Table_map"}
