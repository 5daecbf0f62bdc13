"""The Spark data source ``binlog``: a binlog set as a table with one row per event, for batch and streaming queries.

::

    events = spark.read.format("binlog").load("/var/lib/mysql/binlog.index")
    events.groupBy("database", "table").sum("size").show()

Spark finds the data source through the package ``pyspark_binlog``. docs/spark-source.md describes the columns and
options.

When a Python data source raises an exception, Spark shows the user the whole Python traceback. The functions
:func:`without_traceback` and :func:`short` remove the traceback from expected errors, such as a missing file.

With filter pushdown, the data source evaluates conditions of a query's WHERE clause instead of Spark. Spark passes the
conditions as filter objects. Each becomes a predicate on one column, with SQL's three-valued logic.

Spark reads a stream in micro-batches, and stores the query's progress in a checkpoint. The progress is an offset such
as ``{"file": "binlog.000007", "position": 4711}``: all events before this position have been read. The position is a
transaction boundary, or 4, where a file's format description event begins.
"""

from __future__ import annotations

import datetime
import functools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as D
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
    BinlogMissing,
    BinlogUnreadable,
    ColumnsChanged,
    DumpfilterError,
    OptionError,
    PositionError,
)
from dumpfilter.base.options.values import FIRST_EVENT, whole_number
from dumpfilter.binlog.format import DEFAULT_NAMES
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import NO_LIMIT, FilePart, Range, index_file, index_parts
from dumpfilter.spark_jobs.source.columns import IMAGES, ROW_TYPES, TYPES
from dumpfilter.spark_jobs.source.options import KnownColumns, SourceOptions
from dumpfilter.spark_jobs.source.reading import (
    Predicate,
    image_reader,
    invalid_dates_of,
    plan_ranges,
    read_batches,
    with_types,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_TIMESTAMP = TYPES["timestamp"]
_PYTHON_TYPES: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.int64(): int,
    pa.int32(): int,
    pa.bool_(): bool,
    _TIMESTAMP: datetime.datetime,
}
_COSTLY = ("gtid", "database", "table", "statement_kind", "rows", "sql")


def _kind(values: pa.Array) -> pa.DataType:
    # A query may compare a 32-bit column with a number that needs 64 bits, so every integer becomes a 64-bit number.
    return pa.int64() if pa.types.is_integer(values.type) else values.type


def _compare(compare: Callable[..., pa.Array]) -> Callable[[pa.Array, Any], pa.Array]:
    return lambda values, other: compare(values, pa.scalar(other, _kind(values)))


def _equal_or_both_null(values: pa.Array, other: Any) -> pa.Array:
    if other is None:
        return pc.is_null(values)
    return pc.fill_null(pc.equal(values, pa.scalar(other, _kind(values))), False)


def _among(values: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    """Return a Boolean array that tells for each element of ``values`` whether it is in the list ``wanted``, like SQL's
    ``IN``.

    A null in ``values`` gives null (unknown). If ``wanted`` has a null, an element that is not in ``wanted`` also gives
    null.
    """
    kind = _kind(values)
    known = [one for one in wanted if one is not None]
    found = pc.is_in(values.cast(kind), value_set=pa.array(known, kind))
    unknown = pc.is_null(values) if len(known) == len(wanted) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


_TESTS: dict[type[D.Filter], Callable[[pa.Array, Any], pa.Array]] = {
    D.IsNull: lambda values, _: pc.is_null(values),
    D.IsNotNull: lambda values, _: pc.is_valid(values),
    D.EqualTo: _compare(pc.equal),
    D.EqualNullSafe: _equal_or_both_null,
    D.GreaterThan: _compare(pc.greater),
    D.GreaterThanOrEqual: _compare(pc.greater_equal),
    D.LessThan: _compare(pc.less),
    D.LessThanOrEqual: _compare(pc.less_equal),
    D.In: _among,
    D.StringStartsWith: pc.starts_with,
    D.StringEndsWith: pc.ends_with,
    D.StringContains: pc.match_substring,
}
_OF_TEXTS = (D.StringStartsWith, D.StringEndsWith, D.StringContains)


def _evaluate(filter: D.Filter, values: pa.Array) -> pa.Array:
    if isinstance(filter, D.Not):
        return pc.invert(_evaluate(filter.child, values))
    return _TESTS[type(filter)](values, getattr(filter, "value", None))


def predicate_of(filter: D.Filter, types: Mapping[str, pa.DataType] = TYPES) -> Predicate | None:
    """Return a Spark filter (a condition of a WHERE clause) as a predicate that the data source evaluates. ``types``
    has the Arrow types of the query's columns by name.

    Return None if the data source cannot evaluate the condition exactly as Spark would, so that Spark must evaluate the
    condition. This is always so for the columns of changed rows (``row``, ``before``, ``after``), because an event may
    have several changed rows.
    """
    inner: Any = filter.child if isinstance(filter, D.Not) else filter
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if type(inner) not in _TESTS or len(path) != 1 or path[0] not in types or path[0] in ROW_TYPES:
        return None
    column, value = path[0], getattr(inner, "value", None)
    values = tuple(value or ()) if type(inner) is D.In else (value,)
    if type(inner) in _OF_TEXTS:
        comparable = isinstance(value, str) and types[column] == pa.string()
    else:
        comparable = all(_fits(one, types[column]) for one in values)
    limits = None if isinstance(filter, D.Not) else values
    return Predicate(column, partial(_evaluate, filter), limits) if comparable else None


def _fits(value: Any, column: pa.DataType) -> bool:
    if value is None:
        return True
    if column == _TIMESTAMP:
        return isinstance(value, datetime.datetime) and value.tzinfo is not None
    if isinstance(value, bool) and column != pa.bool_():
        return False
    return isinstance(value, _PYTHON_TYPES[column])


def cheap_first(predicates: Iterable[Predicate]) -> list[Predicate]:
    """Return the conditions of a WHERE clause in another order: those on columns that are cheap to compute come first.

    For events that fail a cheap condition, expensive columns such as ``gtid`` or ``rows`` are then not computed.
    """
    return sorted(predicates, key=lambda predicate: predicate.column in _COSTLY)


class Offset(TypedDict):
    """The progress of a streaming query, which Spark stores in its checkpoint. All events of the file ``file`` before
    the byte position ``position``, and of all files before this file, have been read.
    """

    file: str
    position: int


def _parts(binlogs: BinlogSet, start: Offset, until: Offset | None = None) -> list[FilePart]:
    """Return the files of ``binlogs`` between the positions ``start`` and ``until`` (None: the end of the set), each as
    the part of the file that lies between these positions.

    Raises BinlogMissing if the file of a position is no longer in the set, and PositionError if that file now ends
    before the position.
    """
    for offset in filter(None, (start, until)):
        _check(binlogs, offset)
    names = binlogs.names
    stop = len(names) if until is None else names.index(until["file"]) + 1
    found = [FilePart(0, path, last=False) for path in binlogs.addresses[names.index(start["file"]) : stop]]
    found[0] = replace(found[0], start=start["position"])
    found[-1] = replace(found[-1], last=True, end=NO_LIMIT if until is None else until["position"])
    return [one for one in found if one.start < one.end]


def _end_of(binlogs: BinlogSet) -> Offset:
    """Return the position (file and offset) at which the newest file's last complete transaction ends. Without a
    complete transaction in this file, the offset is 4 or the end of the file's first event. Raises BinlogError if the
    file is damaged.
    """
    name = binlogs.names[-1]
    index = index_file(FilePart(0, binlogs.addresses[-1], last=True))
    return Offset(file=name, position=index.end)


def _check(binlogs: BinlogSet, offset: Offset) -> None:
    name, position = offset["file"], offset["position"]
    if name not in binlogs:
        raise BinlogMissing(
            f"the stream continues in this file, but the set has only {binlogs.names[0]} to {binlogs.names[-1]}: "
            "the file was purged before it was read to its end, or the set is another one; "
            "start anew with another checkpoint and startingPosition",
            file=name,
            position=position,
        )
    if position > binlogs.size(name):
        raise PositionError(
            "the stream continues after the file's end: it is another file of this name; "
            "start anew with another checkpoint and startingPosition",
            file=name,
            position=position,
        )


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
    """Wrap a method that Spark calls, so that a DumpfilterError that the method raises carries no traceback. Spark then
    shows the user only the error's message. The wrapped method is no generator.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise short(error) from None

    return called


def short(error: DumpfilterError) -> DumpfilterError:
    """Remove the traceback from ``error``, and return ``error``, which the caller must raise next.

    In a Python worker process of Spark, the function also sets the environment variable SPARK_HIDE_TRACEBACK. The
    worker then sends every later exception to Spark without a traceback. No other exception is affected, because the
    worker process ends with this error.
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

    If the setting ``spark.sql.python.filterPushdown.enabled`` is on, the data source itself evaluates the conditions of
    a WHERE clause that it can evaluate (filter pushdown). All other conditions are left to Spark.
    """

    @classmethod
    def name(cls) -> str:
        return "binlog"

    @without_traceback
    def schema(self) -> StructType:
        """Return the schema of a query: the columns that the option ``columns`` names. By default it has all columns
        except the text of statements (``sql``), and the values of changed rows (``before``, ``after``) only with
        ``rows=exploded`` or ``table``.

        With the option ``table``, the whole binlog set is read for the types of the table's columns. Raises OptionError
        for an unknown option or a bad value. With ``table``, raises OptionError also if the set has no changed rows of
        the table, and BinlogError if the set is missing or damaged.
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
        """The method by which Spark offers the conditions of a WHERE clause to the data source. A plain method would
        not do, because Spark rejects a reader with a method of this name while filter pushdown is off.
        """
        return _OptionalPushdown(self._push)

    @without_traceback
    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept the conditions that the data source evaluates exactly as Spark would, and return the other conditions,
        which Spark evaluates.

        ``filters`` are the conditions of the query's WHERE clause. The accepted conditions are stored for
        :meth:`partitions` and :meth:`read`.
        """
        found = [(one, predicate_of(one, self._options.types)) for one in filters]
        self._predicates = cheap_first(predicate for _, predicate in found if predicate is not None)
        return [one for one, predicate in found if predicate is None]

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of binlog files to read, one for each Spark task. Parts in which no event can meet the
        query's conditions that the data source evaluates are left out. Spark calls this method on the driver.

        Raises BinlogError for a missing or damaged file. With ``onCorrupt=skip``, the damaged part is left out instead,
        and a warning is logged.
        """
        return [InputPartition(one) for one in plan_ranges(self._options, self._predicates)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a binlog file, which :meth:`partitions` returned, as Arrow batches. Spark
        calls this method in a task.

        Raises BinlogError for a damaged file. With ``onCorrupt=skip``, the batches end before the damage instead, and a
        warning is logged. Even then, raises BinlogUnreadable if the operating system cannot read the file, and
        ColumnsChanged if the table of the option ``table`` was altered.
        """
        skip = self._options.read.on_corrupt == "skip"
        yield from _events(partition, self._options, self._columns, self._predicates, skip=skip)


def _events(
    partition: InputPartition,
    options: SourceOptions,
    columns: Sequence[str],
    predicates: Sequence[Predicate] = (),
    *,
    skip: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of the part of a binlog file that ``partition`` names, as Arrow batches. Spark passes the
    partition to a task of the query. Nothing is yielded for the empty partition of a query that has nothing to read.

    ``options`` are those of the query, ``columns`` the names of the batches' columns, and ``predicates`` the conditions
    that an event must meet. Raises BinlogError without a traceback for damage. With ``skip``, the batches end before
    the damage instead, and a warning is logged. Errors that are no damage (BinlogUnreadable, ColumnsChanged) are raised
    all the same.
    """
    wanted = partition.value
    if not isinstance(wanted, Range):
        return  # Spark passes an empty InputPartition when the query has nothing to read.
    counts: Counter[str] = Counter()
    try:
        images = image_reader(options, counts)
        yield from read_batches(wanted, options, columns, predicates, images=images)
        told = invalid_dates_of(options, counts)
        if told:
            _log.warning("%s, from %d to %d: %s", file_name(wanted.path), wanted.start, wanted.end, told)
    except BinlogError as error:
        if not skip or isinstance(error, BinlogUnreadable | ColumnsChanged):
            raise short(error) from None
        _log.warning("%s; the rest of its range is skipped", error)


class _OptionalPushdown(functools.partial[Iterable[Filter]]):
    """A method ``pushFilters`` that Spark accepts whether filter pushdown is on or off. With filter pushdown, a data
    source evaluates conditions of a query's WHERE clause itself.

    While ``spark.sql.python.filterPushdown.enabled`` is off (the default), Spark rejects a reader that overrides
    ``pushFilters``. Spark recognizes an override by the method's attribute ``__func__``, so this object shows the base
    class's function there. Spark then never calls the object, and evaluates all conditions itself.
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

    def _binlogs(self) -> BinlogSet:
        # A server may have added files.
        return BinlogSet.open(self._options.sources)

    @without_traceback
    def initialOffset(self) -> dict[str, object]:
        """Return the position (file and offset) at which a query without a checkpoint begins, according to the option
        ``startingPosition``: ``earliest``, ``latest``, or ``file:position``.

        Raises OptionError for another notation, and BinlogMissing for a file outside the set. Raises PositionError if
        no transaction begins there, and another BinlogError if the file is damaged.
        """
        binlogs, text = self._binlogs(), self._options.starting_position
        if text == "latest":
            return dict(_end_of(binlogs))
        names = binlogs.names
        name, _, digits = text.rpartition(":")
        position = whole_number(digits)
        if text == "earliest":
            name, position = names[0], FIRST_EVENT
        elif not name or position is None:
            raise OptionError(f"option startingPosition: {text!r} is none of earliest, latest, file:position")
        elif name not in binlogs:
            raise BinlogMissing(
                f"option startingPosition: the set has only {names[0]} to {names[-1]}", file=name
            )
        if position != FIRST_EVENT:
            part = FilePart(0, binlogs.addresses[names.index(name)], last=True)
            index = index_file(part, ReadOptions(range_size=1))
            if position not in (FIRST_EVENT + len(index.format_description), *index.bounds):
                raise PositionError("no transaction begins here", file=name, position=position)
        return {"file": name, "position": position}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the maximum size of a micro-batch as Spark's object for a limit in bytes. The option
        ``maxBytesPerTrigger`` sets the size.
        """
        return ReadMaxBytes(self._options.bytes_per_trigger)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Record the current end of the binlog set, at which the query then ends. Raises BinlogError if the newest file
        is damaged.

        Spark calls this method once for a query with ``trigger(availableNow=True)``, which reads all present events and
        then stops.
        """
        self._until = _end_of(self._binlogs())

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # type: ignore[override]
        """Return the position (file and offset) at which the micro-batch that begins at ``start`` ends. The result is
        ``start`` if no complete transaction follows.

        A micro-batch consists of complete transactions. A limit of the type ``ReadMaxBytes`` is the micro-batch's
        maximum size, but it has at least one transaction if there is any. Any other ``limit`` means no maximum. Raises
        BinlogError if the file of ``start`` is no longer in the set, or if later events are damaged.
        """
        reached = start
        left = limit.max_bytes if isinstance(limit, ReadMaxBytes) else NO_LIMIT
        for part in _parts(self._binlogs(), start, self._until):
            index = index_file(replace(part, limit=left))
            left -= index.end - part.start
            # The first transaction of a file may be larger than what the files before it leave of the limit.
            if left < 0 and reached != start:
                break
            reached = Offset(file=index.name, position=index.end)
            if left <= 0 or index.end < index.size:
                break
        return dict(reached)

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """Return the parts of files between the positions ``start`` and ``end``, one for each Spark task of a
        micro-batch. Raises BinlogError if a file is no longer in the set, or is damaged.

        If the query's options define replication filters (``filter``, ``slaves``, ``slave.NAME``), the parts also have
        the data that these filters need. Such data are the tables of prepared XA transactions, and the server's rules
        for comparing names.
        """
        binlogs, is_filtered = self._binlogs(), bool(self._options.definitions)
        options = ReadOptions(range_size=self._options.read.range_size)
        parts = _parts(binlogs, start, end)
        names = binlogs.written_by if is_filtered and parts else DEFAULT_NAMES
        found = index_parts(parts, ThreadRunner(), options, follows_xa=is_filtered).ranges
        return [InputPartition(replace(one, names=names)) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a micro-batch, which :meth:`partitions` returned, as Arrow batches. Spark
        calls this method in a task. Raises BinlogError for a damaged file. Unlike a batch query, a streaming query
        skips no damage.
        """
        yield from _events(partition, self._options, self._columns)

    def commit(self, end: Offset) -> None:  # type: ignore[override]
        """Do nothing. Spark calls this method when it has processed all events before ``end``.

        Another data source might delete these events, but only the server purges binlogs.
        """

    def stop(self) -> None:
        """Do nothing at the end of the query, because the reader keeps no file open between calls."""


def _typed_by(schema: StructType, options: SourceOptions, *, is_stream: bool) -> SourceOptions:
    """Return ``options`` completed by the Arrow types of the columns ``before`` and ``after``, which ``schema`` has as
    Spark types.

    These columns hold the values of a changed row. Without the option ``table`` they are maps of texts, and ``options``
    is returned unchanged. ``schema`` is the result of :meth:`BinlogDataSource.schema`, or a user's own.

    With ``newColumns=stop``, the result also has the names of the table's columns in ``known_columns``, so that tasks
    detect a later ALTER TABLE. In two cases ``known_columns`` is None: for a batch query (``is_stream`` False) with a
    user's schema, and if ``before`` or ``after`` has a map among its fields.

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
    """Return the column names of ``schema``, in order. ``schema`` is the result of :meth:`BinlogDataSource.schema`, or
    one that a user gave to Spark.

    Raises OptionError for a column that a query with these ``options`` cannot have, or for a column of another type
    than the data source's.
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
