"""The planning of a query of the data source ``binlog``, and the work of its tasks.

A range is a sequence of complete transactions in one file. Each task reads one range and yields its events as rows.
An index pass over the files, which runs in threads of the driver, determines the ranges.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows import RowImageReader
from dumpfilter.dump.chunk import WHOLE_SEGMENT
from dumpfilter.dump.thread import DumpThread, SentEvents
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogFile, BinlogSet, open_file
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.ranges import (
    BLOCK_SIZE,
    Block,
    Damage,
    FileIndex,
    Range,
    ReadOptions,
    blocks_of,
    follow_xa,
    index_files,
    look_for_xa,
)
from dumpfilter.spark_jobs.source.columns import OF_SUBJECTS, ROW_TYPES, EventColumns, exploded, true_of
from dumpfilter.spark_jobs.source.options import SourceOptions

_log = logging.getLogger(__name__)

FIRST = 4
"""The file offset of the format description event, which follows the 4-byte magic number. A range that begins here
includes this event.
"""


class Predicate(NamedTuple):
    """A condition of a query's WHERE clause on one column, which the Spark data source evaluates itself."""

    column: str
    test: Callable[[pa.Array], pa.Array]
    """Return whether the condition holds for each of the values: true, false, or null for unknown, as in SQL."""
    limits: tuple[Any, ...] | None = None
    """The values that limit the numbers for which the condition is true. None: any numbers can be between them."""


def read_batches(
    wanted: Range,
    options: SourceOptions,
    columns: Sequence[str] | None = None,
    predicates: Sequence[Predicate] = (),
    *,
    invalid_dates: Counter[str] | None = None,
    block_size: int = BLOCK_SIZE,
    open_file: Callable[[str], BinlogFile] = open_file,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of one part of a binlog file for which all predicates are true, as Arrow batches in file order.

    Parameters:
        wanted: the part of the file to read, which consists of complete transactions.
        options: the options of the query. Only events that pass ``options.filter`` are yielded.
        columns: the names of the batches' columns. None: those of ``options``.
        predicates: conditions on columns, from the query's WHERE clause.
        invalid_dates: a counter, by column name, of dates that become null because no calendar has them. The function
            increases its values.
        block_size: the number of bytes to read at a time, which become one batch. The memory grows with it.
        open_file: opens a file by its path or URI.

    Raises BinlogError with file and position.
    """
    schema = pa.schema([(name, options.types[name]) for name in columns or options.columns])
    if options.table is not None:
        of_table = zip(("database", "table"), options.table, strict=True)
        predicates = (*predicates, *(Predicate(name, partial(pc.equal, value)) for name, value in of_table))
    needed = {*schema.names, *(predicate.column for predicate in predicates)}
    filters = {name: k for name, k in options.slave_of_column.items() if name in needed}
    if options.filter is not None:
        filters[FILTER] = len(options.slaves)
    statements = options.opened or bool(needed & OF_SUBJECTS)
    subjects, sources = Subjects(), SourceNumbers()
    with open_file(wanted.path) as file:
        blocks = partial(blocks_of, file, wanted, subjects, sources, block_size=block_size)

        def events_of(blocks: Iterable[Block], sent: SentEvents | None) -> Iterator[pa.RecordBatch]:
            images = RowImageReader(
                options.row_types,
                names=options.names,
                check=None if options.known_columns is None else options.known_columns.check,
                invalid_dates=invalid_dates,
            )
            events = EventColumns(
                file.name,
                subjects,
                sources,
                wanted=needed,
                opened=options.opened,
                filters=filters,
                image_reader=images,
                sent=sent,
            )
            for block in blocks:
                events.take(block.segment, block.data)
                yield from _batches(events, schema, predicates, options)

        if wanted.start <= FIRST:
            yield from events_of([_head(file)], None)
        sent = None
        if filters:
            # A dump may decide about an event only when it has seen later events. Therefore the filters decide about
            # the whole range first.
            threads = [
                DumpThread(
                    TableFlags(one.filter(wanted.names), subjects),
                    sources,
                    origin=one.origin,
                    chunk_size=WHOLE_SEGMENT,
                )
                for one in options.definitions
            ]
            for thread in threads:
                thread.start_file(max(wanted.start, file.first_event), file.read)
            sent = SentEvents(threads)
            for block in blocks(verify=options.verify):
                sent.add(block.segment)
        verify = options.verify and sent is None
        yield from events_of(blocks(verify=verify, statements=statements, payloads=options.opened), sent)


def read_and_tell(
    wanted: Range, options: SourceOptions, columns: Sequence[str], predicates: Sequence[Predicate] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the events of one part of a binlog file that fulfil all ``predicates``, as Arrow batches. Finally log a
    warning if dates such as 0000-00-00 became null.

    ``wanted`` is the part of the file, and ``columns`` names the batches' columns. Raises BinlogError.
    """
    counts: Counter[str] = Counter()
    yield from read_batches(wanted, options, columns, predicates, invalid_dates=counts)
    told = invalid_dates_of(options, counts)
    if told:
        _log.warning("%s, from %d to %d: %s", file_name(wanted.path), wanted.start, wanted.end, told)


def invalid_dates_of(options: SourceOptions, counts: Counter[str]) -> str:
    """Return a warning about dates such as 0000-00-00 that became null because no calendar has them.

    ``counts`` has the number of such dates by column, and ``options`` names their table. Without such dates the text is
    empty.
    """
    if not counts or options.table is None:
        return ""
    columns = ", ".join(f"{count:,} of {name}" for name, count in sorted(counts.items()))
    return (
        f"dates of {'.'.join(options.table)} are null since no calendar has them, such as 0000-00-00: {columns}; the "
        "maps before and after of the exploded form, without a table, have their text"
    )


FILTER = "the filter"
"""The internal name of the column with the verdicts of the option ``filter``. It differs from all columns of the
data source.
"""


def _head(file: BinlogFile) -> Block:
    fd = file.format_description
    data = np.frombuffer(fd.raw, np.uint8)
    segment = FileScanner(file.name, fd, Subjects(), SourceNumbers()).scan(data, FIRST)
    assert segment is not None
    return Block(segment, data)


def _batches(
    events: EventColumns, schema: pa.Schema, predicates: Sequence[Predicate], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield one batch with the events of a segment that pass the filter and all predicates, or nothing if none do."""
    keep = None if options.filter is None else np.flatnonzero(events.column(FILTER))
    for predicate in predicates:
        if keep is not None and not keep.size:
            break
        passed = np.flatnonzero(true_of(predicate.test, events.column(predicate.column, keep)))
        keep = passed if keep is None else keep[passed]
    images = events.changed_rows(keep) if options.exploded else None
    count = len(events) if keep is None else keep.size
    if not count:
        return
    arrays: dict[str, pa.Array] = {}
    if images is not None:
        rows = exploded(images, count)
        if options.table is not None:
            rows = rows.filter(rows["row"].is_valid())
        event = rows["event"].to_numpy()
        keep = event if keep is None else keep[event]
        arrays = {name: rows[name] for name in ROW_TYPES}
    for field in schema:
        if field.name not in arrays:
            values = events.column(field.name, keep)
            is_dictionary = isinstance(values, pa.DictionaryArray)
            arrays[field.name] = values.dictionary_decode() if is_dictionary else values.cast(field.type)
    yield pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _log_damage(damage: Damage) -> None:
    _log.warning("%s", damage)


def plan_ranges(
    options: SourceOptions,
    predicates: Sequence[Predicate] = (),
    on_damage: Callable[[Damage], object] = _log_damage,
) -> list[Range]:
    """Return the ranges (parts of binlog files) that a query must read, one for each task.

    ``predicates`` are the query's conditions on columns. Ranges in which they cannot be true are omitted. A file
    excluded by a condition on ``file`` is not even opened, unless the query has filters, which need the XA transactions
    of all files. ``on_damage`` is called for each damaged file that is skipped. Raises BinlogError and OptionError.
    """
    of_file = [] if options.definitions else [one for one in predicates if one.column == "file"]
    paths = BinlogSet.open(options.sources).addresses
    some = [(number, path) for number, path in enumerate(paths) if may_hold(of_file, path, 0, 1)]
    read = ReadOptions("skip" if options.skip_corrupt else "stop", options.verify, options.range_size)
    run = ThreadRunner()
    indexes = index_files(some, len(paths), run, read)
    for index in indexes:
        if index.damage is not None:
            on_damage(index.damage)
    found = [one for index in indexes for one in ranges_of_file(index)]
    if options.definitions and found:
        if any(one.has_xa for one in indexes):
            found, _ = follow_xa(found, run(look_for_xa, found, "following XA transactions"))
        found = with_names(found, found[-1].path)
    return [one for one in found if may_hold(predicates, one.path, one.start, one.end)]


def ranges_of_file(index: FileIndex, start: int = FIRST) -> list[Range]:
    """Return the parts, one for each task, into which the index pass (a fast scan of the file) divided a binlog file.

    The result is empty for a file that could not be opened. ``start`` is the offset at which the index pass began. The
    first part of a file begins at the format description event, so that this event becomes a row of the data source.
    """
    if index.end <= start:
        return []
    return [Range(index.path, *both) for both in pairwise((start, *(index.bounds[1:] or (index.end,))))]


def may_hold(predicates: Iterable[Predicate], path: str, start: int, end: int) -> bool:
    """Tell whether the bytes of the binlog file ``path`` from ``start`` to ``end`` - 1 can contain an event for which
    all predicates are true.

    Only predicates on the columns ``file`` and ``position`` are evaluated, so the file need not be read.
    """
    for one in predicates:
        if one.column == "file":
            values = pa.array([file_name(path)])
        elif one.column == "position" and one.limits is not None:
            # A comparison that is true anywhere in the part is true at an end of the part, or at a value of its own.
            inside = [value for value in one.limits if value is not None and start <= value < end]
            values = pa.array([start, end - 1, *inside], pa.int64())
        else:
            continue
        if not pc.any(one.test(values)).as_py():
            return False
    return True


def with_names(ranges: Sequence[Range], newest: str) -> list[Range]:
    """Return ``ranges`` (parts of binlog files) with the rules by which the server compares schema and table names.
    Filters need these rules.

    The rules, such as ``lower_case_table_names``, are read from the format description event of the file ``newest``.
    Raises BinlogError.
    """
    with open_file(newest) as file:
        names = file.format_description.names
    return [replace(one, names=names) for one in ranges]
