"""The process that Spark's Python workers are forked from, with the compiled kernels loaded before it forks.

Spark starts one for each executor and asks it for workers (``spark.python.daemon.module``). PySpark's own imports
nothing, so that every worker would import numba and load the kernels: more than a second of a core and 150 MB each.
Forking is safe while there is one thread only: numba's and numpy's pools are not started, and what starts threads when
it is imported (pyarrow, pandas) is left to the workers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

PACKAGE = "dumpfilter"
"""The import name of this product."""

DRIVERS_CODE = "DUMPFILTER_CODE"
"""The environment variable in which a cluster's workers are told :func:`code_digest` of the driver."""


def package_folder() -> Path:
    """Return the folder of the installed package. Raises ModuleNotFoundError when it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {PACKAGE} is not installed", name=PACKAGE)
    return Path(spec.submodule_search_locations[0])


def code_digest() -> str:
    """Return a digest of the package's sources. Two states of the code have different digests."""
    folder = package_folder()
    # In a checkout master, slave and spark_jobs are links, which Path.rglob would not follow.
    sources = [
        Path(parent, name)
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
        if name.endswith(".py")
    ]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def check_code() -> None:
    """End this process when the driver is of another state than what was packed: it would be given tasks that mean
    something else here."""
    wanted = os.environ.get(DRIVERS_CODE)
    if wanted is not None and wanted != code_digest():
        sys.exit("the worker's dumpfilter is not the driver's: package the environment again")


def load_kernels() -> None:
    """Load the kernels, or compile those that numba's cache does not hold."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported
    from dumpfilter.warm_up import warm_up

    with tempfile.TemporaryDirectory() as directory:
        warm_up(Path(directory))


def main() -> None:
    """Load the kernels, then be PySpark's daemon."""
    from pyspark.daemon import manager

    check_code()
    load_kernels()
    manager()


if __name__ == "__main__":
    main()
