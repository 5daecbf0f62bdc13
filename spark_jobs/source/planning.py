"""The planning of a query of the Spark data source ``binlog``: which ranges of the binlog set the tasks read.

A range is consecutive transactions of one file, and each Spark task reads one range. A first pass over the files (the
index pass) finds where ranges may begin and end. It runs in threads of the driver, or on request as Spark tasks.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from dumpfilter.errors import OptionError
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.spark_jobs.ranges.indexing import ReadOptions, index_numbered, skipped_part
from dumpfilter.spark_jobs.ranges.range_index import (
    Damage,
    FileIndex,
    XaLook,
    follow_xa,
    look_for_xa,
)
from dumpfilter.spark_jobs.ranges.ranges import Range
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import FIRST, FileRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dumpfilter.spark_jobs.source.pushdown import Predicate

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class FileCuts:
    """The offsets at which one binlog file is divided into ranges, in ascending order.

    ``has_xa`` tells whether the file has XA COMMIT or XA ROLLBACK of a prepared transaction.
    """

    path: str
    bounds: tuple[int, ...]
    has_xa: bool = False


@dataclass(frozen=True)
class SetCuts:
    """The offsets at which the files of a binlog set are divided into ranges, one range for each Spark task.

    With the option ``onCorrupt=skip``, ``damages`` lists the damaged files and the positions from which on they are
    skipped.
    """

    files: tuple[FileCuts, ...]
    damages: tuple[Damage, ...] = ()

    @property
    def option(self) -> str:
        """The offsets as JSON, for the data source's option ``cuts``. A query with this option does not read all files
        to find the offsets."""
        return json.dumps([astuple(one) for one in self.files], separators=(",", ":"))

    @classmethod
    def parse(cls, option: str) -> SetCuts:
        """Return the offsets from the value of the data source's option ``cuts``. Raises OptionError for a bad
        value."""
        try:
            files = tuple(
                FileCuts(str(path), tuple(map(int, bounds)), bool(has_xa))
                for path, bounds, has_xa in json.loads(option)
            )
        except (ValueError, TypeError):
            raise OptionError("option cuts: not what index_with_spark made") from None
        return cls(files)

    def ranges(self) -> list[FileRange]:
        """Return all ranges of all files, in the order of the binlog set."""
        return [FileRange(one.path, a, b) for one in self.files for a, b in pairwise(one.bounds)]


def cuts_of(indexes: Iterable[FileIndex]) -> SetCuts:
    """Return the offsets that divide the indexed files into ranges.

    The first range of each file begins at the format description event, so that the event is a row of the data source.
    """
    files, damages = [], []
    for index in indexes:
        if index.format_description:
            bounds = index.bounds or (0, FIRST + len(index.format_description))
            files.append(FileCuts(index.path, (FIRST, *bounds[1:]), index.has_xa))
        if index.damage is not None:
            damages.append(index.damage)
    return SetCuts(tuple(files), tuple(damages))


def _log_damage(damage: Damage) -> None:
    _log.warning("%s: skipped %s: %s", damage.file, skipped_part(damage), damage.reason)


def plan_ranges(
    options: SourceOptions,
    predicates: Sequence[Predicate] = (),
    on_damage: Callable[[Damage], object] = _log_damage,
) -> list[FileRange]:
    """Return the ranges that a query must read, one for each Spark task.

    ``predicates`` are the query's filters on columns. Ranges that cannot have an event that passes are left out. A file
    that a filter on the column ``file`` excludes is not even opened, unless filters of slaves decide: they need the XA
    transactions of all files. ``on_damage`` is called with each damaged file that is skipped. Raises BinlogError and
    OptionError.
    """
    if options.cuts is not None:
        cuts = SetCuts.parse(options.cuts)
    else:
        of_file = [] if options.definitions else [one for one in predicates if one.column == "file"]
        paths = BinlogSet.open(options.sources).addresses
        tasks = [(number, path) for number, path in enumerate(paths) if _may_hold(of_file, path, 0, 1)]
        # Threads can index files in parallel, since the compiled scan and the reads release Python's global lock.
        cuts = cuts_of(in_threads(_indexing(options, len(paths)), tasks))
        for damage in cuts.damages:
            on_damage(damage)
    found = cuts.ranges()
    if options.definitions and found:
        looks = in_threads(look_in, found) if any(one.has_xa for one in cuts.files) else []
        found = for_filters(found, looks, newest=found[-1].path)
    return [one for one in found if _may_hold(predicates, one.path, one.start, one.end)]


def _may_hold(predicates: Sequence[Predicate], path: str, start: int, end: int) -> bool:
    if not predicates:
        return True
    # Predicates are Spark's, and an export without Spark has none.
    from dumpfilter.spark_jobs.source.pushdown import may_hold

    return may_hold(predicates, file_name(path), start, end)


def look_in(wanted: FileRange) -> XaLook:
    """Return the XA transactions that are prepared in a range or end in it, but not both. Raises BinlogError."""
    with open_file(wanted.path) as file:
        start = max(wanted.start, file.first_event)
    return look_for_xa(wanted.path, Range(0, 0, start, wanted.end))


def for_filters(
    ranges: Sequence[FileRange], looks: Sequence[XaLook], *, newest: str, earlier: Sequence[XaLook] = ()
) -> list[FileRange]:
    """Return the ranges with the facts that filters need to decide as a master does.

    Parameters:
        ranges: consecutive ranges of the set.
        looks: the XA transactions of each range; empty if no range has XA transactions.
        newest: the path of the newest file. Its server compares names.
        earlier: the XA transactions of parts of the set before the ranges, in order.

    Raises BinlogError.
    """
    with open_file(newest) as file:
        names = file.format_description.names
    found = [replace(one, names=names) for one in ranges]
    if looks:
        plain = [Range(number, 0, 0, 0) for number in range(len(earlier) + len(ranges))]
        followed, _ = follow_xa(plain, [*earlier, *looks])
        ends = followed[len(earlier) :]
        found = [replace(one, prepared=end.prepared) for one, end in zip(found, ends, strict=True)]
    return found


def in_threads(function: Callable[[_T], _R], tasks: Iterable[_T]) -> list[_R]:
    """Return the results of a function for all tasks, in order. The calls run in a thread for each core."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, tasks))


def index_with_spark(spark: SparkSession, path: str | list[str], **options: str) -> SetCuts:
    """Find the offsets that divide a binlog set into ranges, with a Spark task for each file.

    Without this call the driver alone reads all files before each query, which takes long for many files. The result
    can serve many queries of the same set.

    ::

        cuts = index_with_spark(spark, "s3a://bucket/binlogs", onCorrupt="skip")
        df = spark.read.format("binlog").option("cuts", cuts.option).load("s3a://bucket/binlogs")

    ``path`` is the index file, a directory with an index file, or a list of binlog files. ``options`` are the data
    source's options. Raises BinlogError and OptionError.
    """
    asked = {"files": "\n".join(path)} if isinstance(path, list) else {"path": path}
    parsed = SourceOptions.parse({**options, **asked})
    paths = BinlogSet.open(parsed.sources).addresses
    context = spark.sparkContext
    tasks = context.parallelize(list(enumerate(paths)), len(paths))
    found: list[FileIndex] = tasks.map(_indexing(parsed, len(paths))).collect()
    return cuts_of(found)


def _indexing(options: SourceOptions, files: int) -> Callable[[tuple[int, str]], FileIndex]:
    read = ReadOptions("skip" if options.skip_corrupt else "stop", options.verify, options.range_size)
    return partial(index_numbered, files=files, options=read)
