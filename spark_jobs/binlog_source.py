"""The Spark data source ``binlog``: a binlog set as a table with one row per event, for batch and streaming queries.

::

    events = spark.read.format("binlog").load("/var/lib/mysql/binlog.index")
    events.groupBy("database", "table").sum("size").show()

Spark finds the data source through the package ``pyspark_binlog``. docs/spark-source.md describes the columns and
options.

When a Python data source raises an exception, Spark shows the user the whole Python traceback. The functions
:func:`without_traceback` and :func:`short` remove it from expected errors, such as a missing file.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_type
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from dumpfilter.base.errors import (
    BinlogError,
    BinlogUnreadable,
    ColumnsChanged,
    DumpfilterError,
    OptionError,
)
from dumpfilter.spark_jobs.ranges import Range
from dumpfilter.spark_jobs.source.columns import IMAGES
from dumpfilter.spark_jobs.source.options import KnownColumns, SourceOptions
from dumpfilter.spark_jobs.source.pushdown import cheap_first, predicate_of
from dumpfilter.spark_jobs.source.reading import Predicate, plan_ranges, read_and_tell
from dumpfilter.spark_jobs.source.streaming import GrowingSet, Offset
from dumpfilter.spark_jobs.source.typed_table import with_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BinlogDataSource", "register"]


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""The Spark setting that enables filter pushdown to Python data sources. It is off by default."""

_VERSIONS = "dumpfilter.versions"
"""The metadata key of a column of row images under which the schema records the table's versions."""

_log = logging.getLogger(__name__)


P = ParamSpec("P")
R = TypeVar("R")

_IN_WORKER = "PYTHON_WORKER_FACTORY_SECRET"
"""An environment variable that Spark sets only in its Python worker processes."""

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The environment variable that makes a Python worker send exceptions to Spark without tracebacks."""


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method that Spark calls, so that a DumpfilterError raised by it carries no traceback.

    Spark then shows the user only the error's message.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise short(error) from None

    return called


def short(error: DumpfilterError) -> DumpfilterError:
    """Return ``error`` without its traceback. The caller must raise it next.

    In a Python worker of Spark, this also tells Spark to send no traceback. Such a process ends with the error, so
    no other exception is affected.
    """
    if _IN_WORKER in os.environ:
        os.environ[_HIDE_TRACEBACK] = "1"
    return error.with_traceback(None)


def register(spark: SparkSession) -> None:
    """Register the data source ``binlog`` with a Spark session, and enable filter pushdown for this session.

    Spark finds an installed data source by itself, so most programs need no call. A call has two effects.
    ``spark.read.format("binlog")`` then works even where Spark does not find the package ``pyspark_binlog``. The data
    source then evaluates conditions of a WHERE clause itself, and need not read all files. The Spark setting for this,
    ``spark.sql.python.filterPushdown.enabled``, is off by default.
    """
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(BinlogDataSource)


class BinlogDataSource(DataSource):
    """The Spark data source ``binlog``, by which a query reads binlog events as rows. Spark asks an object of this
    class for the schema and the reader of a query.

    If the setting ``spark.sql.python.filterPushdown.enabled`` is on, the data source evaluates conditions of a WHERE
    clause (filter pushdown). Otherwise Spark does.
    """

    @classmethod
    def name(cls) -> str:
        return "binlog"

    @without_traceback
    def schema(self) -> StructType:
        """Return the schema of a query: the columns that the option ``columns`` names, or by default all columns that
        are cheap to compute.

        With the option ``table``, the binlog set is read for the types of the table's columns. Raises OptionError for
        bad options, and with ``table`` also BinlogError.
        """
        options = with_types(SourceOptions.parse(self.options))
        schema = from_arrow_schema(options.schema)
        if options.known_columns is not None:
            for name in set(IMAGES) & set(schema.fieldNames()):
                # Spark passes the metadata back with the schema. The schema of a user has no such metadata.
                schema[name].metadata[_VERSIONS] = sorted(options.known_columns.versions or ())
        return schema

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        options = _typed_by(schema, SourceOptions.parse(self.options), is_stream=False)
        return BinlogReader(options, _columns(schema, options))

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = _typed_by(schema, SourceOptions.parse(self.options), is_stream=True)
        return BinlogStreamReader(options, _columns(schema, options))


class BinlogReader(DataSourceReader):
    """The reader that Spark uses for a batch query. The query sees the binlog set as it was when Spark planned the
    query, without events added later.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._predicates: list[Predicate] = []

    @property
    def pushFilters(self) -> _OptionalPushdown:
        """The method by which Spark offers the conditions of a WHERE clause to the data source. It is wrapped, because
        Spark would otherwise reject the reader while filter pushdown is off.
        """
        return _OptionalPushdown(self._push)

    @without_traceback
    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept the conditions that the data source evaluates exactly as Spark would, and return the other ones,
        which Spark evaluates.

        ``filters`` are the conditions of the query's WHERE clause.
        """
        found = [(one, predicate_of(one, self._options.types)) for one in filters]
        self._predicates = cheap_first(predicate for _, predicate in found if predicate is not None)
        return [one for one, predicate in found if predicate is None]

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of binlog files to read, one for each Spark task. Spark calls this method on the driver.
        Raises BinlogError.
        """
        return [InputPartition(one) for one in plan_ranges(self._options, self._predicates)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a binlog file, which :meth:`partitions` returned, as Arrow batches. Spark
        calls this method in a task.

        Raises BinlogError for a damaged file. With ``onCorrupt=skip``, the batches end before the damage instead, and a
        warning is logged.
        """
        skip = self._options.skip_corrupt
        yield from _events(partition, self._options, self._columns, self._predicates, skip=skip)


def _events(
    partition: InputPartition,
    options: SourceOptions,
    columns: Sequence[str],
    predicates: Sequence[Predicate] = (),
    *,
    skip: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of one part of a binlog file as Arrow batches. With ``skip``, end before damage, and log a
    warning.
    """
    wanted = partition.value
    if not isinstance(wanted, Range):
        return  # Spark passes an empty InputPartition when the query has nothing to read.
    try:
        yield from read_and_tell(wanted, options, columns, predicates)
    except BinlogError as error:
        if not skip or isinstance(error, BinlogUnreadable | ColumnsChanged):
            raise short(error) from None
        _log.warning("%s; the rest of its range is skipped", error)


class _OptionalPushdown(functools.partial[Iterable[Filter]]):
    """A method ``pushFilters`` that Spark accepts whether filter pushdown is on or off.

    While ``spark.sql.python.filterPushdown.enabled`` is off (the default), Spark rejects a reader that overrides
    ``pushFilters``. Spark recognizes an override by the method's attribute ``__func__``, so this object shows the
    base class's function there. Spark then never calls the object, and evaluates all conditions itself.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader that Spark uses for a streaming query of the data source ``binlog``.

    Spark asks the reader for the position at which each micro-batch ends, and stores the positions in the query's
    checkpoint.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, tuple(columns)
        self._until: Offset | None = None

    def _set(self) -> GrowingSet:
        return GrowingSet(self._options.sources)

    @without_traceback
    def initialOffset(self) -> dict[str, object]:
        """Return the position at which a query without a checkpoint begins, according to the option
        ``startingPosition``.

        Raises BinlogError and OptionError.
        """
        return dict(self._set().starting(self._options.starting_position))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the maximum size of a micro-batch, bytes, set by the option ``maxBytesPerTrigger``."""
        return ReadMaxBytes(self._options.bytes_per_trigger)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Make the query end at the current end of the binlog set.

        Spark calls this method once for a query with ``trigger(availableNow=True)``, which reads all present events
        and then stops.
        """
        self._until = self._set().latest()

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # type: ignore[override]
        """Return the position (file and offset) at which the micro-batch that begins at ``start`` ends.

        ``limit`` is the micro-batch's maximum size. Raises BinlogError.
        """
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return dict(self._set().forward(start, most, self._until))

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """Return the parts of files between the positions ``start`` and ``end``, one for each Spark task of a
        micro-batch. Raises BinlogError.
        """
        filtered = bool(self._options.definitions)
        found = self._set().ranges(start, end, self._options.range_size, for_filters=filtered)
        return [InputPartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a micro-batch, which :meth:`partitions` returned, as Arrow batches. Spark
        calls this method in a task. Raises BinlogError.
        """
        yield from _events(partition, self._options, self._columns)

    def commit(self, end: Offset) -> None:  # type: ignore[override]
        """Do nothing after Spark has processed all events before ``end``.

        Another data source might delete these events, but only the server purges binlogs.
        """

    def stop(self) -> None:
        """Do nothing at the end of the query, because the reader keeps no file open between calls."""


def _typed_by(schema: StructType, options: SourceOptions, *, is_stream: bool) -> SourceOptions:
    """Return ``options`` completed by the Arrow types of the columns ``before`` and ``after``, as ``schema`` has them.

    These columns hold the values of a changed row. Without the option ``table`` they are not typed, and ``options`` is
    returned unchanged. ``schema`` is the result of :meth:`BinlogDataSource.schema`, or a user's own.

    With ``newColumns=stop``, the result also has the columns by which tasks detect a later ALTER TABLE. This does not
    hold for a batch query with a user's schema, or if a struct has a map.

    Raises OptionError if ``before`` or ``after`` is not a struct in ``schema``, although the option ``table`` is set.
    """
    if options.table is None:
        return options
    images = {field.name: field for field in schema if field.name in IMAGES}
    for name, field in images.items():
        if not isinstance(field.dataType, StructType):
            raise OptionError(
                f"the column {name} is {field.dataType.simpleString()}: with the option table it is a "
                "struct<column:type,…>"
            )
    before, after = (
        to_arrow_type(images[name].dataType if name in images else StructType(), timezone="UTC")
        for name in IMAGES
    )
    fields = [*before, *after]
    versions = next((one.metadata[_VERSIONS] for one in images.values() if _VERSIONS in one.metadata), None)
    known = None
    is_checked = options.new_columns == "stop" and (versions is not None or is_stream)
    if is_checked and not any(pa.types.is_map(field.type) for field in fields):
        names = tuple(dict.fromkeys(field.name for field in fields))
        known = KnownColumns(
            ".".join(options.table), names, None if versions is None else frozenset(versions)
        )
    return replace(options, row_types=(before, after), known_columns=known)


def _columns(schema: StructType, options: SourceOptions) -> list[str]:
    """Return the column names of a schema that a user gave to Spark.

    Raises OptionError for an unknown column, or for a column of another type than the data source's.
    """
    types = options.types
    for field in schema:
        if field.name not in types:
            raise OptionError(
                f"the data source binlog has no column {field.name}; its columns are {', '.join(types)}"
            )
        kind = from_arrow_type(types[field.name])
        if kind != field.dataType:
            raise OptionError(
                f"the column {field.name} of the data source binlog is a {kind.simpleString()}, and the schema says "
                f"{field.dataType.simpleString()}; write {field.name} {kind.simpleString()}, and cast it in the query"
            )
    return list(schema.fieldNames())
