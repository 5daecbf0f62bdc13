"""The counters and latencies that a master records for its metrics while it works.

The process has a single object with all of them, as prometheus_client has for its own metrics. So the code that records
needs one import and one call. The master reads all other metrics from its objects when Prometheus asks for them.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.console.metrics import DELAY_BUCKETS, WORK_BUCKETS, Latency

_OF_CALLS = ("dumpfilter.base.errors", "dumpfilter.dump", "dumpfilter.master")
"""The modules with the errors of calls."""


@dataclass(frozen=True)
class CacheState:
    """The size of a cache, with the numbers of look-ups that found an entry (hits) and that did not (misses)."""

    entries: int
    hits: int
    misses: int
    bytes: int | None = None
    """The memory of the entries. None for a cache that limits the number of its entries instead."""
    limit_bytes: int | None = None


class FailedCalls:
    """The number of failed gRPC calls by reason (the name of the error's class). Thread-safe."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._lock = threading.Lock()

    def add(self, error: BaseException) -> None:
        """Count a call that failed with this error."""
        with self._lock:
            self._counts[reason_of(type(error))] += 1

    def counts(self) -> dict[str, int]:
        """Return the counts by reason, with 0 for each reason for which a call may fail later.

        Prometheus can only tell that a counter has grown if it has seen the counter before.
        """
        found = dict.fromkeys(map(reason_of, _errors_of_calls(DumpfilterError)), 0)
        with self._lock:
            return found | self._counts


class Measurements:
    """All counters and latencies that the master records for its metrics. They are the failed calls, the times to plan
    and to make chunks (messages to slaves), and the delay from a commit until its chunk is sent.
    """

    def __init__(self) -> None:
        self.failed_calls = FailedCalls()
        self.plan = Latency(WORK_BUCKETS)
        self.encode = Latency(WORK_BUCKETS)
        self.send_delay = Latency(DELAY_BUCKETS)


MEASURED = Measurements()
"""The single object of this process with all measurements."""


def _errors_of_calls(kind: type[DumpfilterError]) -> Iterator[type[DumpfilterError]]:
    """Yield the classes of errors that a call may end with: those that have a gRPC status code of their own."""
    if kind.grpc_code != DumpfilterError.grpc_code and kind.__module__.startswith(_OF_CALLS):
        yield kind
    for each in kind.__subclasses__():
        yield from _errors_of_calls(each)


def reason_of(error: type[BaseException]) -> str:
    """Return the reason under which an error of this class is counted: the class name in lower case with underscores.

    >>> reason_of(PermissionError)
    'permission_error'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.__name__).lower()
