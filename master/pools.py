"""Thread pools that start all their threads at creation. Later work cannot fail because the system refuses a thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from dumpfilter.master.limits import Overloaded


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool with ``threads`` running threads. Raises Overloaded when the system gives the process no more
    threads.
    """
    pool = ThreadPoolExecutor(threads, name)
    # The pool starts a thread when a task finds no idle one. The tasks wait for each other, so each gets its own.
    all_there = threading.Barrier(threads + 1)
    try:
        for _ in range(threads):
            pool.submit(all_there.wait)
    except RuntimeError:
        all_there.abort()
        pool.shutdown(cancel_futures=True)
        raise Overloaded("the system gives the master no more threads; raise the limit (ulimit -u)") from None
    all_there.wait()
    return pool
