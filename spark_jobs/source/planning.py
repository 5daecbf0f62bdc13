"""The planning of a read. The index pass over the set's files finds the ranges, in threads or in Spark tasks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from dumpfilter.errors import OptionError
from dumpfilter.spark_jobs.ranges.files import file_name, find_set
from dumpfilter.spark_jobs.ranges.range_index import Damage, FileIndex, index_file
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.pushdown import Predicate, may_hold
from dumpfilter.spark_jobs.source.reading import FIRST, FileRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SetCuts:
    """The ranges of a set's files. ``files`` pairs a path with the offsets at which ranges begin and end.

    ``damages`` has the places from which on files are skipped, with onCorrupt=skip.
    """

    files: tuple[tuple[str, tuple[int, ...]], ...]
    damages: tuple[Damage, ...] = ()

    @property
    def option(self) -> str:
        """The value for the data source's option ``cuts``, JSON."""
        return json.dumps(self.files, separators=(",", ":"))

    @classmethod
    def parse(cls, option: str) -> SetCuts:
        """Parse the option ``cuts``. Raises OptionError."""
        try:
            files = tuple((str(path), tuple(map(int, bounds))) for path, bounds in json.loads(option))
        except (ValueError, TypeError):
            raise OptionError("option cuts: not what index_with_spark made") from None
        return cls(files)

    def ranges(self) -> list[FileRange]:
        """Return all ranges, in the set's order."""
        return [FileRange(path, start, end) for path, bounds in self.files for start, end in pairwise(bounds)]


def cuts_of(indexes: Iterable[FileIndex]) -> SetCuts:
    """Return the ranges that the index pass found. A file's first range begins with the format description event."""
    files, damages = [], []
    for index in indexes:
        if index.format_description:
            bounds = index.bounds or (0, FIRST + len(index.format_description))
            files.append((index.path, (FIRST, *bounds[1:])))
        if index.damage is not None:
            damages.append(index.damage)
    return SetCuts(tuple(files), tuple(damages))


def plan_ranges(options: SourceOptions, predicates: Sequence[Predicate] = ()) -> list[FileRange]:
    """Return the ranges that can hold events that pass the predicates.

    A file that a predicate on the column ``file`` excludes is not opened. Raises BinlogError and OptionError.
    """
    if options.cuts is not None:
        found = SetCuts.parse(options.cuts).ranges()
    else:
        paths = find_set(options.sources)
        tasks = [
            (number, path)
            for number, path in enumerate(paths)
            if may_hold(
                (predicate for predicate in predicates if predicate.column == "file"), file_name(path), 0, 1
            )
        ]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            # Threads run in parallel, since compiled code and reads release the interpreter's lock.
            indexes = pool.map(lambda task: _index(task, len(paths), options), tasks)
            cuts = cuts_of(indexes)
        for damage in cuts.damages:
            _log.warning("%s is skipped from %s on: %s", damage.file, damage.position, damage.reason)
        found = cuts.ranges()
    return [one for one in found if may_hold(predicates, file_name(one.path), one.start, one.end)]


def index_with_spark(spark: SparkSession, path: str | list[str], **options: str) -> SetCuts:
    """Run the index pass as Spark tasks, one for each file, which helps with many files on a cluster.

    ::

        cuts = index_with_spark(spark, "s3a://bucket/binlogs", onCorrupt="skip")
        df = spark.read.format("binlog").option("cuts", cuts.option).load("s3a://bucket/binlogs")

    ``options`` are the data source's options. With the option ``cuts`` a DataFrame that is used often needs no index
    pass of its own. Raises BinlogError and OptionError.
    """
    asked = {"files": "\n".join(path)} if isinstance(path, list) else {"path": path}
    parsed = SourceOptions.parse({**options, **asked})
    paths = find_set(parsed.sources)
    context = spark.sparkContext
    count = len(paths)
    tasks = context.parallelize(list(enumerate(paths)), count)
    found: list[FileIndex] = tasks.map(lambda task: _index(task, count, parsed)).collect()
    return cuts_of(found)


def _index(task: tuple[int, str], count: int, options: SourceOptions) -> FileIndex:
    number, path = task
    return index_file(
        number,
        path,
        last=number == count - 1,
        range_size=options.range_size,
        # With skip_corrupt the ranges must end before the first wrong checksum.
        verify=options.skip_corrupt and options.verify,
        skip=options.skip_corrupt,
    )
