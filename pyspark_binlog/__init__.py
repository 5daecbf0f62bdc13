"""The entry of the data source ``binlog`` into Spark.

Spark looks for packages with names that begin with ``pyspark_`` on Python's path, and registers the class
``DefaultSource`` of each. Therefore ``spark.read.format("binlog")`` works without a call of
:func:`~dumpfilter.spark_jobs.binlog_source.register` wherever dumpfilter is installed.

Spark imports this package for every first use of a Python data source, also of another one. The package imports nothing
but PySpark by itself, so that a missing extra of dumpfilter does not break other data sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source ``binlog``. It passes every call to dumpfilter's BinlogDataSource."""

    @classmethod
    def name(cls) -> str:
        return "binlog"

    def schema(self) -> StructType:
        return self._made().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._made().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self._made().streamReader(schema)

    def _made(self) -> DataSource:
        from dumpfilter.spark_jobs.binlog_source import BinlogDataSource

        return BinlogDataSource(self.options)
