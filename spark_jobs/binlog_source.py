"""The Spark data source ``binlog``: a binlog set as a table with a row for each event, in batches and as a stream.

::

    from dumpfilter.spark_jobs.binlog_source import register

    register(spark)
    events = spark.read.format("binlog").load("/var/lib/mysql/binlog.index")
    events.groupBy("database", "table").sum("size").show()

docs/spark-source.md describes the columns and options.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import StructType

from dumpfilter.errors import BinlogError, BinlogUnreadable, OptionError
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.planning import SetCuts, index_with_spark, plan_ranges
from dumpfilter.spark_jobs.source.pushdown import Predicate, cheap_first, predicate_of
from dumpfilter.spark_jobs.source.reading import FileRange, read_batches
from dumpfilter.spark_jobs.source.streaming import BinlogStreamReader
from dumpfilter.spark_jobs.source.user_errors import without_traceback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BinlogDataSource", "PushdownBinlogDataSource", "SetCuts", "index_with_spark", "register"]


def register(spark: SparkSession) -> None:
    """Register the data source with a Spark session, so that ``spark.read.format("binlog")`` works.

    With filter pushdown the data source evaluates conditions of a WHERE clause by itself, and need not read all files.
    Spark's default for Python data sources is no filter pushdown (``spark.sql.python.filterPushdown.enabled``). This
    function turns filter pushdown on for the session.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushdownBinlogDataSource)


class BinlogDataSource(DataSource):
    """The data source without filter pushdown, so Spark itself evaluates all conditions of a WHERE clause.

    This class is for sessions in which ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    @classmethod
    def name(cls) -> str:
        return "binlog"

    @without_traceback
    def schema(self) -> StructType:
        """Return the columns that the option ``columns`` names, by default all columns. Raises OptionError."""
        columns = SourceOptions.parse(self.options).columns
        return from_arrow_schema(pa.schema([(name, TYPES[name]) for name in columns]))

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        return BinlogReader(SourceOptions.parse(self.options), _columns(schema))

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BinlogStreamReader(SourceOptions.parse(self.options), _columns(schema))


class PushdownBinlogDataSource(BinlogDataSource):
    """The data source that evaluates conditions of a WHERE clause by itself (filter pushdown).

    Spark refuses this class in sessions in which ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        return PushdownBinlogReader(SourceOptions.parse(self.options), _columns(schema))


class BinlogReader(DataSourceReader):
    """The reader that Spark calls for a batch query. The query sees the binlog set as it was when Spark planned the
    query; events that a server adds later are not read."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._predicates: list[Predicate] = []

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of the binlog files that the Spark tasks read, one for each task. Spark calls this on the
        driver. Raises BinlogError."""
        return plan_ranges(self._options, self._predicates)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a file as Arrow batches. Spark calls this in a task.

        Raises BinlogError for a damaged file. With ``onCorrupt=skip`` the part ends before the damage instead, with a
        warning in the log.
        """
        if not isinstance(partition, FileRange):
            return  # Spark passes an empty InputPartition when the query has nothing to read.
        batches = read_batches(
            partition,
            self._columns,
            self._predicates,
            opened=self._options.opened,
            verify=self._options.verify,
        )
        try:
            yield from batches
        except BinlogError as error:
            if not self._options.skip_corrupt or isinstance(error, BinlogUnreadable):
                raise error.with_traceback(None) from None
            logging.getLogger(__name__).warning("%s; the rest of its range is skipped", error)


class PushdownBinlogReader(BinlogReader):
    """The reader that Spark calls for a batch query with filter pushdown."""

    @without_traceback
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept the conditions that the data source evaluates exactly as Spark would, and return the others.

        ``filters`` are conditions of the query's WHERE clause. Spark evaluates the returned ones.
        """
        found = [(one, predicate_of(one)) for one in filters]
        self._predicates = cheap_first(predicate for _, predicate in found if predicate is not None)
        return [one for one, predicate in found if predicate is None]


def _columns(schema: StructType) -> list[str]:
    """Return the column names of a schema that a user gave to Spark.

    Raises OptionError for a column that the data source does not have, or has with another type.
    """
    for field in schema:
        if field.name not in TYPES or from_arrow_type(TYPES[field.name]) != field.dataType:
            raise OptionError(
                f"the data source binlog has no column {field.name} {field.dataType.simpleString()}; "
                f"its columns are {', '.join(TYPES)}"
            )
    return list(schema.fieldNames())
