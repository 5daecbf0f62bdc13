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
import os
import sys
from collections.abc import Callable
from typing import Any

from dumpfilter import __version__

DRIVERS_VERSION = "DUMPFILTER_VERSION"
"""The environment variable with the version of the driver's ``dumpfilter``. Workers must have the same version."""


def check_version() -> None:
    """End this daemon process with an error if its ``dumpfilter`` has another version than the driver's. Otherwise the
    results of the workers that the daemon forks could be wrong.
    """
    wanted = os.environ.get(DRIVERS_VERSION, __version__)
    if wanted != __version__:
        sys.exit(
            f"the worker has dumpfilter {__version__}, the driver {wanted}: package the environment again"
        )


def load_product() -> None:
    """Import the modules and compiled functions that tasks use into this daemon process. The worker processes that the
    daemon forks then have them at once. The environment variable OPENBLAS_NUM_THREADS is set to 1 if it is not set.
    """
    # The module numpy reads this environment variable when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import dumpfilter.analyse.traffic.tally
    import dumpfilter.analyse.traffic.transactions
    import dumpfilter.binlog.writer
    import dumpfilter.dump.thread
    import dumpfilter.index.fileset  # noqa: F401


def freeze() -> None:
    """Collect garbage once more, and then let the garbage collector ignore all objects that exist now (``gc.freeze``).

    PySpark collects garbage after every task. Without this call each collection would visit all objects of the loaded
    modules, although these live until the process ends.
    """
    gc.collect()
    gc.freeze()


def freezing(serve: Callable[..., int]) -> Callable[..., int]:
    """Wrap ``serve``, PySpark's function that serves one task in a worker process. If a task has imported modules, the
    wrapper afterwards lets the garbage collector ignore all objects that exist then (:func:`freeze`).

    PySpark collects garbage after every task, which would visit all objects of the modules. The first task usually
    imports pyarrow and pandas, because the daemon must not import them before it forks. Most later tasks import
    nothing.
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
    """Run PySpark's daemon, which forks the Python worker processes on a machine. First check that the version of
    ``dumpfilter`` is the driver's, and import the modules that tasks need.
    """
    from pyspark import daemon

    check_version()
    load_product()
    # The daemon forks a worker process, which calls this function for each of its tasks.
    daemon.worker = freezing(daemon.worker)
    freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
