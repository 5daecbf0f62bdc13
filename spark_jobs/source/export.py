"""The export of a binlog set to Parquet files with one row per event, for programs without Spark such as DuckDB.

Each binlog file becomes one Parquet file. Its row groups are in binlog order and have statistics, so a query on
``file``, ``position`` or ``timestamp`` reads only row groups that can match. The work runs in threads, without Spark.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dumpfilter.base.files import locked, rename, writing
from dumpfilter.index.addresses import file_name
from dumpfilter.spark_jobs.engines import Amount, Runner
from dumpfilter.spark_jobs.ranges import Damage, Range
from dumpfilter.spark_jobs.source.columns import encoded
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import (
    image_reader,
    invalid_dates_of,
    plan_ranges,
    read_batches,
    with_types,
)
from dumpfilter.topology.slaves_file import SlaveDefinition

ROW_GROUP = 1 << 17
"""The minimum number of rows in a row group, except for a file's last one. Many small row groups make queries slow."""

ROW_GROUP_BYTES = 64 << 20
"""The size of values at which a row group ends even with fewer rows, bytes. Row images can be large, and each thread
holds a row group in memory.
"""

_BATCH = 1 << 14
"""The number of values that Arrow encodes at a time. Arrow's default of 1024 takes more time."""

_DICTIONARY = 1 << 16
"""The size at which a column's dictionary in a row group ends, bytes. Later values of the column stand as they are,
which takes less time and less space where most values differ, as positions do.
"""

_UNFINISHED = ".unfinished"
"""The name of the subdirectory of the output directory that holds an export's files until all are complete."""


@dataclass(frozen=True)
class ExportedFile:
    """A Parquet file that an export has written, with its number of rows and its size in bytes."""

    path: Path
    rows: int
    size: int
    invalid_dates: Counter[str] = field(default_factory=Counter)
    """The number of values per column that became null because they are no valid calendar dates."""


def export_events(
    options: Mapping[str, str],
    output: Path,
    run: Runner,
    on_damage: Callable[[Damage], object] = lambda damage: None,
    warn: Callable[[str], object] = lambda sentence: None,
    slaves: Sequence[SlaveDefinition] = (),
) -> list[ExportedFile]:
    """Write the events of a binlog set into the directory ``output``, one Parquet file for each binlog file. Return the
    written files.

    Parameters:
        options: options of the Spark data source (docs/spark-source.md), such as ``path`` and ``columns``.
        output: the directory, which is created if it is missing.
        run: executes the tasks, one for each binlog file.
        on_damage: a function that is called for each damaged file that ``onCorrupt=skip`` skips.
        warn: a function that is called with each warning about values that typed columns cannot hold.
        slaves: definitions of slaves. For each of them the files get a column ``sent_NAME``, which tells of each event
            whether a master would send the event to this slave.

    The Parquet files appear when all are complete, and replace older ones of equal name. A failed export leaves the
    directory unchanged, unless the system refuses to rename one of the complete files. Unfinished files of a killed
    export are removed.

    Raises OptionError for an unknown option or a bad value, and BinlogError for a missing or damaged binlog. Raises
    OutputError if a file cannot be written, or if another export is writing into the directory.
    """
    asked = with_types(SourceOptions.parse(options, slaves), warn)
    ranges = plan_ranges(asked, on_damage=on_damage)
    is_new = not output.exists()
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    unfinished = output / _UNFINISHED
    written: list[ExportedFile] = []
    with locked(output, f"{output}: another export is writing to it"):
        try:
            with writing(output):
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
            tasks = [tuple(parts) for _, parts in groupby(ranges, lambda one: one.path)]
            # With filters a range is read twice: first for the decisions, then for the rows.
            passes = 2 if asked.definitions else 1
            amount = Amount("files", passes * sum(one.end - one.start for one in ranges))
            found = run(partial(_export, asked, output), tasks, "exporting events", amount=amount)
            for one in found:
                rename(unfinished / one.path.name, one.path)
            written = found
        finally:
            # A file of a failed export would look as if the export were whole.
            shutil.rmtree(unfinished, ignore_errors=True)
            if is_new and not written:
                with suppress(OSError):
                    output.rmdir()
    told = invalid_dates_of(asked, sum((one.invalid_dates for one in written), Counter()))
    if told:
        warn(told)
    return written


def _export(options: SourceOptions, output: Path, ranges: Sequence[Range]) -> ExportedFile:
    """Write the events of one binlog file, which ``ranges`` (parts of the file) cover, to a Parquet file in the
    subdirectory for unfinished files. The result has the path in ``output`` to which the caller renames the file.
    """
    target = output / f"{file_name(ranges[0].path)}.parquet"
    beside = output / _UNFINISHED / target.name
    schema = encoded(options.schema)
    rows = 0
    invalid_dates: Counter[str] = Counter()
    # No query can leave out a row group by the texts of a map.
    statistics = (
        [one.name for one in schema if not pa.types.is_map(one.type)] if options.table is None else True
    )
    form = {
        "compression": "zstd",
        "dictionary_pagesize_limit": _DICTIONARY,
        "write_batch_size": _BATCH,
        "write_statistics": statistics,
        # Readers would make dictionaries of the texts that are dictionaries here.
        "store_schema": False,
    }
    with writing(target), pq.ParquetWriter(beside, schema, **form) as writer:
        for table in _row_groups(options, ranges, invalid_dates):
            # A column of a row group has one dictionary in Parquet.
            writer.write_table(table.unify_dictionaries())
            rows += table.num_rows
    return ExportedFile(target, rows, beside.stat().st_size, invalid_dates)


def _row_groups(
    options: SourceOptions, ranges: Sequence[Range], invalid_dates: Counter[str]
) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    images = image_reader(options, invalid_dates)
    for wanted in ranges:
        for batch in read_batches(wanted, options, images=images, for_parquet=True):
            waiting.append(batch)
            rows += batch.num_rows
            nbytes += batch.nbytes
            if rows >= ROW_GROUP or nbytes >= ROW_GROUP_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, nbytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
