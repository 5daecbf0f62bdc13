"""The work of a Spark task of the data source ``binlog``: read a part of a binlog file and yield its events as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Block, Range, blocks_of
from dumpfilter.spark_jobs.source.columns import OF_SUBJECTS, TYPES, EventColumns, EventsOfSegment
from dumpfilter.spark_jobs.source.pushdown import Predicate

FIRST = 4
"""The offset of a file's first event, the format description event. It follows the magic number of 4 bytes. A range
that begins at this offset includes the format description event."""


@dataclass(frozen=True)
class FileRange(InputPartition):
    """The part of a binlog file that one Spark task reads, complete transactions from offset ``start`` to ``end``."""

    path: str
    start: int
    end: int


def read_batches(
    wanted: FileRange,
    columns: Sequence[str] = tuple(TYPES),
    predicates: Sequence[Predicate] = (),
    *,
    opened: bool = True,
    verify: bool = True,
    block_size: int = BLOCK_SIZE,
    open_file: Callable[[str], BinlogFile] = open_file,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range that pass all predicates, as Arrow batches, in the order of the file.

    Parameters:
        wanted: the part of a file to read.
        columns: the columns of the batches.
        predicates: conditions on columns, from the query's WHERE clause.
        opened: whether each event inside a compressed transaction has a row of its own.
        verify: whether the events' checksums are checked.
        block_size: the number of bytes that are read at a time and become one batch. Memory grows with it.
        open_file: the function that opens a file by its path or URI.

    Raises BinlogError with file and position.
    """
    needed = {*columns, *(predicate.column for predicate in predicates)}
    statements = opened or bool(needed & OF_SUBJECTS)
    subjects, sources = Subjects(), SourceNumbers()
    schema = pa.schema([(name, TYPES[name]) for name in columns])
    with open_file(wanted.path) as file:
        made = EventColumns(file.name, subjects, sources, wanted=needed, opened=opened)
        start = max(wanted.start, file.first_event)
        blocks = blocks_of(
            file,
            Range(0, 0, start, wanted.end),
            subjects,
            sources,
            verify=verify,
            block_size=block_size,
            statements=statements,
            payloads=opened,
        )
        if wanted.start <= FIRST:
            head = _head(file)
            yield from _batches(made.of(head.segment, head.data), schema, predicates)
        for block in blocks:
            yield from _batches(made.of(block.segment, block.data), schema, predicates)


def _head(file: BinlogFile) -> Block:
    fd = file.format_description
    data = np.frombuffer(fd.raw, np.uint8)
    segment = FileScanner(file.name, fd, Subjects(), SourceNumbers()).scan(data, FIRST)
    assert segment is not None
    return Block(segment, data)


def _batches(
    events: EventsOfSegment, schema: pa.Schema, predicates: Sequence[Predicate]
) -> Iterator[pa.RecordBatch]:
    keep = None
    for predicate in predicates:
        column = events.column(predicate.column)
        passed = np.flatnonzero((column if keep is None else column.among(keep)).where(predicate))
        keep = passed if keep is None else keep[passed]
        if not keep.size:
            return
    arrays = []
    for field in schema:
        column = events.column(field.name)
        arrays.append((column if keep is None else column.among(keep)).arrow(field.type))
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
