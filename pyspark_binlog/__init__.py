"""The package by which Spark finds the data source ``binlog`` without a registration.

Spark imports every package on Python's path whose name begins with ``pyspark_``, and registers its class
``DefaultSource``. ``spark.read.format("binlog")`` therefore works wherever dumpfilter is installed, without a call
of :func:`~dumpfilter.spark_jobs.binlog_source.register`.

Spark imports this package even when another Python data source is used. At import time, the package therefore needs
only PySpark, so that a missing dependency of dumpfilter does not break other data sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source ``binlog``. It delegates every call to dumpfilter's ``BinlogDataSource``."""

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
