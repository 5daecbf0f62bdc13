"""The product, imported. Test processes are forked from a process with this module."""

import numpy as np
import pyarrow as pa

from dumpfilter.spark_jobs.spark_daemon import load_product
from dumpfilter.spark_jobs.split.job import split

__all__ = ["split"]

load_product()
# The first array from numpy makes pyarrow import pandas, which would take a third of a second in each process.
pa.array(np.empty(0, np.int32))
