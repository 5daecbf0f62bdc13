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

from dumpfilter.errors import BinlogError, OptionError
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
    """Make ``format("binlog")`` known to a Spark session, with filter pushdown.

    Spark has filter pushdown off for Python data sources (``spark.sql.python.filterPushdown.enabled``). This function
    turns it on for the session.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushdownBinlogDataSource)


class BinlogDataSource(DataSource):
    """The data source without filter pushdown, for sessions that have it off. :func:`register` explains pushdown."""

    @classmethod
    def name(cls) -> str:
        return "binlog"

    @without_traceback
    def schema(self) -> StructType:
        """Return the columns, or the columns that the option ``columns`` names. Raises OptionError."""
        columns = SourceOptions.parse(self.options).columns
        return from_arrow_schema(pa.schema([(name, TYPES[name]) for name in columns]))

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        return BinlogReader(SourceOptions.parse(self.options), _columns(schema))

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BinlogStreamReader(SourceOptions.parse(self.options), _columns(schema))


class PushdownBinlogDataSource(BinlogDataSource):
    """The data source with filter pushdown. Spark refuses this class in sessions that have filter pushdown off."""

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        return PushdownBinlogReader(SourceOptions.parse(self.options), _columns(schema))


class BinlogReader(DataSourceReader):
    """A reader of the set as it is when Spark plans the query."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._predicates: list[Predicate] = []

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges to read. Raises BinlogError."""
        return plan_ranges(self._options, self._predicates)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one range. Raises BinlogError; with onCorrupt=skip a damaged range ends early instead."""
        if not isinstance(partition, FileRange):
            return  # Spark passes a partition of its own when there is nothing to read.
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
            if not self._options.skip_corrupt:
                raise error.with_traceback(None) from None
            logging.getLogger(__name__).warning("%s; the rest of its range is skipped", error)


class PushdownBinlogReader(BinlogReader):
    """A reader that evaluates filters."""

    @without_traceback
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that the data source answers exactly as Spark would, and return the others."""
        found = [(one, predicate_of(one)) for one in filters]
        self._predicates = cheap_first(predicate for _, predicate in found if predicate is not None)
        return [one for one, predicate in found if predicate is None]


def _columns(schema: StructType) -> list[str]:
    """Return the columns that a user's schema names. Raises OptionError for a column that the data source does not
    have."""
    for field in schema:
        if field.name not in TYPES or from_arrow_type(TYPES[field.name]) != field.dataType:
            raise OptionError(
                f"the data source binlog has no column {field.name} {field.dataType.simpleString()}; "
                f"its columns are {', '.join(TYPES)}"
            )
    return list(schema.fieldNames())
