"""The columns of slaves and the option filter against the bytes that a dump sends, for the recordings.

One dump thread goes over a whole set in the master's segments. The data source decides in small ranges and blocks. Both
must send the same events.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadMaxBytes

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType, event_name
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import render
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.binlog_source import BinlogStreamReader, predicate_of
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges, read_batches
from tests.support import RECORDED_SETS

FILTERS = {
    "shop": "--replicate-do-db=shop",
    "tables": "--replicate-do-table=shop.orders --replicate-wild-do-table=hr.%",
    "not": "--replicate-ignore-db=shop --replicate-ignore-table=hr.emp",
    "all": "",
}
COLUMNS = ("file", "position", "type", "size", "inner")


def sent_by_dump(directory: Path, options: SourceOptions, number: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield the events that a dump of the whole set sends: file, offset in the source, and the event without its
    checksum."""
    binlogs = BinlogSet.open(directory)
    subjects, sources = Subjects(), SourceNumbers()
    with binlogs.file(binlogs.names[-1]) as newest:
        names = newest.format_description.names
    definition = options.definitions[number]
    thread = DumpThread(TableFlags(definition.filter(names), subjects), sources, origin=definition.origin)
    file = ""
    for reader, segment in binlogs.segments(subjects, sources):
        if segment.file != file:
            file = segment.file
            thread.start_file(reader.file.first_event, reader.file.read)
        for plan in thread.plan(segment):
            data = render(plan, reader.data, reader.data_offset, reader.file.read, segment.format_description)
            at = 0
            for offset, size, _ in plan.ranges[:, :3].tolist():
                until = at + size
                while at < until:
                    length = EventHeader.unpack(data, at).size
                    yield file, offset, data[at : at + length - segment.format_description.checksum_length]
                    at, offset = at + length, offset + length


def read(options: SourceOptions, *columns: str, block_size: int = 900) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values())
        for one in plan_ranges(options)
        for batch in read_batches(one, options, columns, block_size=block_size)
        for row in batch.to_pylist()
    ]


def types_inside(event: bytes) -> list[tuple[str, int]]:
    data = decode_transaction_payload(event[HEADER_LENGTH:]).open()
    found, at = [], 0
    while at < len(data):
        header = EventHeader.unpack(data, at)
        found.append((event_name(header.type), header.size))
        at += header.size
    return found


@pytest.mark.parametrize(
    ("number", "directory"), list(enumerate(RECORDED_SETS)), ids=[path.name for path in RECORDED_SETS]
)
@pytest.mark.every_recording
def test_a_slave_is_sent_what_the_dump_sends(number: int, directory: Path) -> None:
    """Every recording has two of the filters, in turn, and every third one small ranges and blocks."""
    range_size, block_size = ("1500", 900) if number % 3 == 0 else ("9k", 5000)
    names = ("tables", ("shop", "not", "all")[number // 3 % 3])
    given = {f"slave.{name}": FILTERS[name] for name in names}
    options = SourceOptions.parse({"path": str(directory), "rangeSize": range_size, **given})
    rows = read(options, *COLUMNS, *(f"sent_{name}" for name in names), block_size=block_size)
    for number in range(len(names)):
        found = {row[:5] for row in rows if row[5 + number] and row[2] != "Format_desc"}
        outside = {(row[0], row[1]) for row in found if row[4] is None}
        sent = list(sent_by_dump(directory, options, number))
        assert outside == {(file, offset) for file, offset, _ in sent}
        for file, offset, event in sent:
            if event[4] == EventType.TRANSACTION_PAYLOAD:
                inside = sorted(row for row in rows if row[:2] == (file, offset) and row[4] is not None)
                kept = [(row[2], row[3]) for row in sorted(inside, key=lambda row: row[4]) if row[5 + number]]
                assert kept == types_inside(event)
    filtered = SourceOptions.parse({"path": str(directory), "filter": FILTERS["tables"]})
    assert read(filtered, *COLUMNS, block_size=block_size) == [row[:5] for row in rows if row[5]]


def test_a_condition_on_the_file_leaves_the_decisions_as_they_are() -> None:
    """An XA transaction of another file decides about its XA COMMIT, although no event of that file is a row."""
    directory = next(path for path in RECORDED_SETS if path.name == "mysql-payloads")
    options = SourceOptions.parse({"path": str(directory), "slave.web": FILTERS["shop"]})
    columns = ("file", "position", "inner", "sent_web")
    rows = read(options, *columns)
    files = {row[0] for row in rows}
    assert len(files) > 1
    for file in files:
        one_file = predicate_of(EqualTo(("file",), file), options.types)
        assert one_file is not None
        found = [
            tuple(row.values())
            for one in plan_ranges(options, [one_file])
            for batch in read_batches(one, options, columns, [one_file])
            for row in batch.to_pylist()
        ]
        assert found == [row for row in rows if row[0] == file]


def test_a_stream_knows_the_xa_transactions_of_its_batch() -> None:
    """The XA COMMIT of a transaction that an earlier batch prepared counts as sent."""
    directory = next(path for path in RECORDED_SETS if path.name == "mysql-mixed")
    # This filter drops all of an XA transaction.
    options = SourceOptions.parse({"path": str(directory), "slave.web": FILTERS["not"]})
    columns = ("file", "position", "inner", "sent_web")
    reader = BinlogStreamReader(options, columns)

    def read_stream(limit: int) -> list[tuple[Any, ...]]:
        found, offset = [], reader.initialOffset()
        while (end := reader.latestOffset(offset, ReadMaxBytes(limit))) != offset:  # type: ignore[arg-type]
            for part in reader.partitions(offset, end):  # type: ignore[arg-type]
                found += [tuple(row.values()) for batch in reader.read(part) for row in batch.to_pylist()]
            offset = end
        return found

    whole, by_transaction = read(options, *columns), read_stream(1)
    assert read_stream(1 << 30) == whole
    assert [row[:3] for row in by_transaction] == [row[:3] for row in whole]
    more = [row for row, other in zip(by_transaction, whole, strict=True) if row != other]
    assert more
    assert all(row[3] for row in more)
