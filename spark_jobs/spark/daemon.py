"""The daemon that forks Spark's Python workers after importing the modules that tasks need.

Each executor starts one such daemon (``spark.python.daemon.module``) and requests workers from it. PySpark's own
daemon imports nothing. Every worker would then import dumpfilter, which costs half a second of a core and 60 MB
each. Forking is safe only in a process with one thread. The daemon therefore starts no thread pool of numpy, and
does not import pyarrow and pandas, whose imports start threads.

PySpark's worker calls ``gc.collect()`` after every task. The collection would visit some hundred thousand objects of
the loaded modules, which took more than a third of a worker's time. The daemon therefore excludes these objects from
garbage collection (``gc.freeze``) before it forks. A worker does so again after a task that imported modules.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = "dumpfilter"
"""The name of this product's Python package."""

DRIVERS_CODE = "DUMPFILTER_CODE"
"""The environment variable with the digest of the driver's code (:func:`code_digest`), for the workers of a cluster."""


def package_folder() -> Path:
    """Return the folder of the installed package ``dumpfilter``.

    Raises ModuleNotFoundError if the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {PACKAGE} is not installed", name=PACKAGE)
    return Path(spec.submodule_search_locations[0])


def code_digest() -> str:
    """Return a SHA-256 digest (hexadecimal) of all source files of ``dumpfilter``. It shows whether two machines
    have equal code.
    """
    folder = package_folder()
    # In a checkout the folders master, slave and spark_jobs are links, which Path.rglob would not follow.
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
    """End this worker process with an error if its ``dumpfilter`` differs from the driver's, because results could
    be wrong.
    """
    wanted = os.environ.get(DRIVERS_CODE)
    if wanted is not None and wanted != code_digest():
        sys.exit("the worker's dumpfilter is not the driver's: package the environment again")


def load_product() -> None:
    """Import the modules that tasks use, including their compiled functions, before workers are forked."""
    # The module numpy reads this environment variable when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import dumpfilter.analyse.traffic.tally
    import dumpfilter.analyse.traffic.transactions
    import dumpfilter.binlog.writer
    import dumpfilter.dump.thread
    import dumpfilter.index.fileset  # noqa: F401


def freeze() -> None:
    """Collect garbage now, and exclude all remaining objects from later garbage collections."""
    gc.collect()
    gc.freeze()


def freezing(serve: Callable[..., int]) -> Callable[..., int]:
    """Wrap PySpark's function that serves one task, so that :func:`freeze` is called after a task that imported
    modules.

    Tasks import pyarrow and pandas, which the daemon must not import. Later tasks import nothing.
    """
    known = len(sys.modules)

    @functools.wraps(serve)
    def worker(*given: Any) -> int:
        nonlocal known
        code = serve(*given)
        if len(sys.modules) > known:
            known = len(sys.modules)
            freeze()
        return code

    return worker


def main() -> None:
    """Check the code, import the modules that tasks need, and run PySpark's daemon in this process."""
    from pyspark import daemon

    check_code()
    load_product()
    # The daemon forks a worker process, which calls this function for each of its tasks.
    daemon.worker = freezing(daemon.worker)
    freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
