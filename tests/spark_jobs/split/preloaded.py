"""The product with its compiled kernels loaded. Test processes are forked from a process with this module."""

from dumpfilter.spark_jobs.spark.daemon import load_kernels
from dumpfilter.spark_jobs.split.job import split

__all__ = ["split"]

load_kernels()
